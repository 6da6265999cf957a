"""`trilogue lint`: check a stream or body against the rules that the protocol's clients rely on."""

from __future__ import annotations

import asyncio
import sys
from typing import TypedDict, Unpack
from urllib.parse import urlsplit

import click

from trilogue import BadRequest, Protocol
from trilogue.app.cli.conversion import looks_like_stream
from trilogue.app.cli.files import PROTOCOL, key_in, naming, read
from trilogue.app.cli.probe import ProbeResult, probe_server, refusal
from trilogue.app.cli.probe_client import ProbedServer
from trilogue.app.cli.tables import counted
from trilogue.base.json_text import parse
from trilogue.base.sse import SseParser
from trilogue.base.text import printable
from trilogue.lint import Finding, lint_error, lint_request, lint_response, lint_stream
from trilogue.model import Json

KINDS = ("auto", "stream", "response", "error", "request")
FINDINGS = 1
_OUTPUT_FIELDS = frozenset({"choices", "content", "output"})
"""the fields in which responses of the three protocols have their output"""
_REFUSED, _NOT_FOUND = (401, 403), (404, 405)


class LintOptions(TypedDict):
    """The options of `lint` other than the protocol and --own."""

    kind: str
    request_file: str | None
    url: str | None
    model: str | None
    key_env: str | None


@click.command()
@click.argument("file", default="-")
@click.option("--protocol", type=PROTOCOL, required=True, help="Protocol that FILE claims to be in.")
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="auto",
    show_default=True,
    help="What FILE contains. auto: server-sent events are a stream, JSON is a response or an error.",
)
@click.option(
    "--request", "request_file", metavar="FILE", help="The request that led to the response; allows more checks."
)
@click.option("--own", is_flag=True, help="Also check Trilogue's own guarantees, which are stricter than the protocol.")
@click.option("--url", help="Ask this live server instead of reading FILE; needs --model.")
@click.option("--model", help="With --url: the model to ask for.")
@click.option("--key-env", metavar="NAME", help="With --url: the environment variable that has the server's key.")
def lint(file: str, protocol: Protocol, own: bool, **options: Unpack[LintOptions]) -> None:
    """Report every violated protocol rule, with the event number and the clients that break because of it.

    \b
    trilogue lint --protocol responses stream.sse
    curl -N … | trilogue lint --protocol messages -
    trilogue lint --protocol chat --url http://127.0.0.1:8000 --model qwen3

    Exit codes: 0 no violations, 1 violated rules, 2 invalid input.
    """
    url, model, kind = options["url"], options["model"], options["kind"]
    if url is not None:
        if not model:
            raise click.UsageError("--url needs --model")
        lint_url(url, protocol, model, options["key_env"], own)
        return
    if model or options["key_env"]:
        raise click.UsageError("--model and --key-env need --url")
    data = read(file)
    if kind == "auto" and looks_like_stream(file, data):
        kind = "stream"
    findings = _findings(data, protocol, kind, options["request_file"], own)
    for finding in findings:
        click.echo(_line(finding))
    broken = sum(finding.severity == "error" for finding in findings)
    click.echo(f"{counted(broken, 'broken rule')}, {counted(len(findings) - broken, 'note')}", err=True)
    if broken:
        sys.exit(FINDINGS)


def _findings(data: bytes, protocol: Protocol, kind: str, request_file: str | None, own: bool) -> list[Finding]:
    """Check the data as what it is, and return the findings. Raises BadRequest if it is not a JSON object."""
    request = _request(request_file) if request_file else None
    if kind == "stream":
        return lint_stream(protocol, data, request=request, own=own)
    body = _object(data)
    if kind == "request":
        return lint_request(protocol, body)
    if kind == "error" or (kind == "auto" and _is_error(body)):
        return lint_error(protocol, body, own=own)
    return lint_response(protocol, body, request=request, own=own)


def _is_error(body: dict[str, Json]) -> bool:
    """Return whether a body is an error. A failed response of the Responses API has `error` too, but also output."""
    return bool(body.get("error")) and _OUTPUT_FIELDS.isdisjoint(body)


def _request(path: str) -> dict[str, Json]:
    data = read(path)
    with naming(path):
        return _object(data)


def _object(data: bytes) -> dict[str, Json]:
    body = parse(data, BadRequest)
    if not isinstance(body, dict):
        raise BadRequest("the file must contain a JSON object")
    return body


def _line(finding: Finding) -> str:
    where = "" if finding.event is None else f"event {finding.event}: "
    return f"{finding.rule} {finding.severity}: {where}{finding.message} — {finding.breaks}"


class NotAsked(click.ClickException):
    """The reason why a server cannot be judged: it cannot be reached, or it refuses every request."""

    exit_code = 2


def lint_url(url: str, protocol: Protocol, model: str, key_env: str | None, own: bool) -> None:
    """Ask the server everything, print the findings, and exit with 1 if a rule is broken.

    Raises UsageError if the URL or the key cannot be used, and NotAsked if the server does not take them.
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise click.UsageError("--url must be an http or https URL")
    server = ProbedServer(url=url, protocol=protocol, model=model, key=key_in(key_env))
    findings = asyncio.run(_probe(server, own))
    broken = sum(finding.severity == "error" for finding in findings)
    click.echo(f"{counted(broken, 'broken rule')}, {counted(len(findings) - broken, 'note')}", err=True)
    if broken:
        sys.exit(FINDINGS)


async def _probe(server: ProbedServer, own: bool) -> list[Finding]:
    findings: list[Finding] = []
    first = True
    async for judged in probe_server(server, own=own):
        if first:
            _check_first(server, judged)
        first = False
        click.echo(_headline(judged))
        for finding in judged.findings:
            event = "" if finding.event is None else f"event {finding.event}: "
            text = f"  {finding.rule} {finding.severity}: {event}{finding.message} — {finding.breaks}"
            click.echo(printable(_without_key(server, text)))
        findings += judged.findings
    return findings


def _check_first(server: ProbedServer, judged: ProbeResult) -> None:
    """Raise NotAsked if the first request shows that all others would fail for the same reason."""
    received = judged.received
    if received.error and not received.status:
        raise NotAsked(f"the server cannot be asked: {received.error}")
    said = printable(_without_key(server, refusal(server.protocol, received)))
    reason = f"status {received.status}{said and f': {said}'}"
    if received.status in _REFUSED:
        advice = "check the key in --key-env" if server.key else "name the variable with its key: --key-env"
        raise NotAsked(f"the server refuses the key ({reason}); {advice}")
    if received.status in _NOT_FOUND:
        path = urlsplit(server.address(stream=False)).path
        raise NotAsked(f"the server has no {path}, or no such model ({reason}); check --url and --model")


def _without_key(server: ProbedServer, text: str) -> str:
    """Return what a server said without the key, which some servers quote."""
    return text.replace(server.key, "***") if server.key else text


def _headline(judged: ProbeResult) -> str:
    received = judged.received
    events = ""
    if judged.ask.stream and received.status == 200:
        parser = SseParser()
        events = f", {counted(len([*parser.feed(received.body), *parser.close()]), 'event')}"
    result = "ok" if not judged.findings else counted(len(judged.findings), "finding")
    return f"{judged.ask.name}: {received.status or 'no response'}{events} in {received.ended_at:.2f} s: {result}"
