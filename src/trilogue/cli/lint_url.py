"""`trilogue lint --url`: ask a live server, and check what it responds."""

from __future__ import annotations

import asyncio
import os
import sys
from urllib.parse import urlsplit

import click

from trilogue import Protocol
from trilogue.cli.files import counted
from trilogue.lint import Finding
from trilogue.probe import ProbedServer, ProbeResult, probe_server
from trilogue.sse import SseParser

FINDINGS = 1


def lint_url(url: str, protocol: Protocol, model: str, key_env: str | None, own: bool) -> None:
    """Ask the server everything, print the findings, and exit with 1 if a rule is broken.

    Raises UsageError if the URL or the key cannot be used, or if the server cannot be reached.
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
    async for judged in probe_server(server, own=own):
        if not judged.received.status and not findings and judged.received.error:
            raise click.UsageError(f"the server cannot be asked: {judged.received.error}")
        click.echo(_headline(judged))
        for finding in judged.findings:
            event = "" if finding.event is None else f"event {finding.event}: "
            click.echo(f"  {finding.rule} {finding.severity}: {event}{finding.message} — {finding.breaks}")
        findings += judged.findings
    return findings


def _headline(judged: ProbeResult) -> str:
    received = judged.received
    events = ""
    if judged.ask.stream and received.status == 200:
        parser = SseParser()
        events = f", {counted(len([*parser.feed(received.body), *parser.close()]), 'event')}"
    result = "ok" if not judged.findings else counted(len(judged.findings), "finding")
    return f"{judged.ask.name}: {received.status or 'no response'}{events} in {received.ended_at:.2f} s: {result}"
