"""`trilogue convert`, `trilogue collect` and `trilogue losses`: translate files, assemble streams, list losses."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypedDict, Unpack

import click

from trilogue import (
    LOSSES,
    Exchange,
    Loss,
    Protocol,
    StreamTranslator,
    collect_stream,
    dump,
    translate_request,
    translate_response,
)
from trilogue.cli.files import PROTOCOL, looks_like_stream, naming, read, refuse_other_stream
from trilogue.model import Severity, refuse_losses


class Options(TypedDict):
    """The options of `convert` other than the two protocols."""

    kind: str
    strict: bool
    strict_from: Severity
    repair: bool
    request_file: str | None


KINDS = ("auto", "request", "response", "stream")
FAILED_STREAM = 1


@click.command()
@click.argument("file", default="-")
@click.option("--from", "source", type=PROTOCOL, required=True, help="Protocol that FILE is in.")
@click.option("--to", "target", type=PROTOCOL, required=True, help="Protocol to translate it to.")
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="auto",
    show_default=True,
    help="What FILE contains. auto: server-sent events are a stream, JSON is a request.",
)
@click.option("--strict", is_flag=True, help="Fail instead of losing something: see --strict-from.")
@click.option(
    "--strict-from",
    type=click.Choice(list(Severity)),
    default=Severity.DEGRADED,
    show_default=True,
    help="The least severe losses that --strict refuses; notice: all losses.",
)
@click.option("--repair", is_flag=True, help="Requests: add results for tool calls that the history left without one.")
@click.option(
    "--request",
    "request_file",
    metavar="FILE",
    help="Responses and streams: the client's original request (in the --to protocol), which supplies tool names and "
    "the fields that a response repeats.",
)
def convert(file: str, source: Protocol, target: Protocol, **options: Unpack[Options]) -> None:
    """Translate a request, a response or a stream from one protocol to another.

    The result goes to standard output; losses go to standard error, one per line.

    \b
    trilogue convert --from messages --to responses request.json
    trilogue convert --from chat --to messages --kind response response.json
    trilogue convert --from chat --to messages stream.sse
    cat request.json | trilogue convert --from chat --to messages --strict -

    Exit codes: 0 translated; 1 the stream ended in an error; 2 invalid input, or something would be lost with --strict.
    """
    data, kind = read(file), options["kind"]
    strict = options["strict_from"] if options["strict"] else None
    if kind == "auto":
        kind = "stream" if looks_like_stream(file, data) else "request"
    _refuse_misplaced(kind, options)
    if kind == "request":
        translation = translate_request(data, source=source, target=target, strict=strict, repair=options["repair"])
        _finish(dump(translation.body) + b"\n", translation.losses)
        return
    exchange = _exchange(options["request_file"], client=target, upstream=source)
    if kind == "response":
        response = translate_response(data, source=source, target=target, exchange=exchange)
        refuse_losses(response.losses, strict)
        _finish(dump(response.body) + b"\n", response.losses)
    else:
        refuse_other_stream(data, source, "--from")
        _convert_stream(data, StreamTranslator(source=source, target=target, exchange=exchange), strict)


@click.command()
@click.argument("file", default="-")
@click.option("--protocol", type=PROTOCOL, required=True, help="Protocol of the stream.")
def collect(file: str, protocol: Protocol) -> None:
    """Assemble a recorded stream into the complete response."""
    data = read(file)
    refuse_other_stream(data, protocol, "--protocol")
    click.echo(dump(collect_stream(data, protocol=protocol)))


def _refuse_misplaced(kind: str, options: Options) -> None:
    """Raise UsageError for an option that has no effect on this kind of file."""
    if kind == "request" and options["request_file"] is not None:
        raise click.UsageError("--request is for responses and streams, but this is a request (see --kind)")
    if kind != "request" and options["repair"]:
        raise click.UsageError(f"--repair is for requests, but this is a {kind} (see --kind)")


def _exchange(path: str | None, *, client: Protocol, upstream: Protocol) -> Exchange | None:
    """Return the exchange that the client's request began, or None if there is no file with it."""
    if path is None:
        return None
    data = read(path)
    with naming(path):
        return translate_request(data, source=client, target=upstream).exchange


def _convert_stream(data: bytes, translator: StreamTranslator, strict: Severity | None) -> None:
    """Print the translated stream and its losses. Exits with 1 if the stream ended in an error."""
    out = translator.feed(data) + translator.close()
    refuse_losses(translator.losses, strict)
    _finish(out, translator.losses)
    if translator.failed is not None:
        click.echo(f"trilogue: the stream ended in an error: {translator.failed.failure}", err=True)
        sys.exit(FAILED_STREAM)


def _finish(out: bytes, losses: Iterable[Loss]) -> None:
    """Print the result, and the losses on stderr."""
    click.echo(out, nl=False)
    for loss in losses:
        click.echo(f"lost: {loss}", err=True)


@click.command()
@click.option("--markdown", is_flag=True, help="Print the list as Markdown, as in the documentation.")
def losses(markdown: bool) -> None:
    """List what a translation can lose: code, severity, when it happens, what is done instead."""
    click.echo(losses_table() if markdown else losses_text())


def losses_text() -> str:
    """Return the list for a terminal."""
    width = max(len(code) for code in LOSSES)
    return "\n".join(
        f"{code:<{width}}  {rule.severity:<8}  {rule.when}: {rule.instead}" for code, rule in LOSSES.items()
    )


def losses_table() -> str:
    """Return the list as a Markdown table for docs/losses.md."""
    rows = [f"| `{code}` | {rule.severity} | {rule.when} | {rule.instead} |" for code, rule in LOSSES.items()]
    return "\n".join(["| code | severity | when | instead |", "|---|---|---|---|", *rows])
