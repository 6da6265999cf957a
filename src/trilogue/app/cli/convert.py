"""`trilogue convert`, `trilogue collect` and `trilogue losses`: translate files, assemble streams, list losses."""

from __future__ import annotations

import sys
from typing import TypedDict, Unpack

import click

from trilogue import LOSSES, Protocol, collect_stream, dump
from trilogue.app.cli.conversion import FAILED_STREAM, KINDS, Conversion, refuse_other_stream, run_conversion
from trilogue.app.cli.files import PROTOCOL, ValueChoice, misuse, read
from trilogue.model import Severity
from trilogue.model.losses import ADVICE


class ConvertOptions(TypedDict):
    """The options of `convert` other than the two protocols."""

    kind: str
    strict: bool
    strict_from: Severity
    repair: bool
    request_file: str | None


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
    type=ValueChoice(list(Severity)),
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
def convert(file: str, source: Protocol, target: Protocol, **options: Unpack[ConvertOptions]) -> None:
    """Translate a request, a response or a stream from one protocol to another.

    The result goes to standard output; losses go to standard error, one per line.

    \b
    trilogue convert --from messages --to responses request.json
    trilogue convert --from chat --to messages --kind response response.json
    trilogue convert --from chat --to messages stream.sse
    cat request.json | trilogue convert --from chat --to messages --strict -

    Exit codes: 0 translated; 1 the stream ended in an error; 2 invalid input, or something would be lost with --strict.
    """
    asked = Conversion(
        path=file,
        data=read(file),
        source=source,
        target=target,
        kind=options["kind"],
        strict=options["strict_from"] if options["strict"] else None,
        repair=options["repair"],
        request=options["request_file"],
        read=read,
    )
    with misuse():
        converted = run_conversion(asked)
    click.echo(converted.out, nl=False)
    for loss in converted.losses:
        click.echo(f"lost: {loss}", err=True)
    if converted.failure is not None:
        click.echo(f"trilogue: the stream ended in an error: {converted.failure}", err=True)
        sys.exit(FAILED_STREAM)


@click.command()
@click.argument("file", default="-")
@click.option("--protocol", type=PROTOCOL, required=True, help="Protocol of the stream.")
def collect(file: str, protocol: Protocol) -> None:
    """Assemble a recorded stream into the complete response."""
    data = read(file)
    with misuse():
        refuse_other_stream(data, protocol, "--protocol")
    click.echo(dump(collect_stream(data, protocol=protocol)))


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
    rows = [
        f"| `{code}` | {rule.severity} | {rule.when} | {rule.instead} | {ADVICE[code]} |"
        for code, rule in LOSSES.items()
    ]
    return "\n".join(["| code | severity | when | instead | advice |", "|---|---|---|---|---|", *rows])
