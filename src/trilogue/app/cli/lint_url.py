"""`trilogue lint --url`: ask a live server, and check what it responds."""

from __future__ import annotations

import asyncio
import os
import sys
from urllib.parse import urlsplit

import click

from trilogue import Protocol
from trilogue.app.cli.files import counted
from trilogue.app.cli.live.client import ProbedServer
from trilogue.app.cli.live.judge import ProbeResult, probe_server, refusal
from trilogue.base.sse import SseParser
from trilogue.base.text import printable
from trilogue.lint import Finding

FINDINGS = 1
_REFUSED, _NOT_FOUND = (401, 403), (404, 405)


class NotAsked(click.ClickException):
    """The reason why a server cannot be judged: it cannot be reached, or it refuses every request."""

    exit_code = 2


def lint_url(url: str, protocol: Protocol, model: str, key_env: str | None, own: bool) -> None:
    """Ask the server everything, print the findings, and exit with 1 if a rule is broken.

    Raises UsageError if the URL or the key cannot be used, and NotAsked if the server does not take them.
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise click.UsageError("--url must be an http or https URL")
    server = ProbedServer(url=url, protocol=protocol, model=model, key=_key(key_env))
    findings = asyncio.run(_probe(server, own))
    broken = sum(finding.severity == "error" for finding in findings)
    click.echo(f"{counted(broken, 'broken rule')}, {counted(len(findings) - broken, 'note')}", err=True)
    if broken:
        sys.exit(FINDINGS)


def _key(name: str | None) -> str:
    if name is None:
        return ""
    value = os.environ.get(name, "").strip()
    if not value:
        raise click.UsageError(f"--key-env: the variable {name} is not set")
    return value


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
