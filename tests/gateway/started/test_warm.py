"""A gateway that listens is ready: no request waits for a module to load."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.gateway.process import PATIENT, started
from tests.gateway.wire import exchange, outcome, outcomes, request
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

CONTROL = "colorsys"
"""A module that nobody needs: that it is on record shows that there is one."""

WATCH = f"""
import os
from trilogue.net.server.listener import Listener

opened = Listener.open

def watch(event, arguments):
    if event == "import":  # the audit event of a module that is not loaded yet
        os.write(record, arguments[0].encode() + b"\\n")

async def watched(self, sock):
    await opened(self, sock)
    sys.addaudithook(watch)
    import {CONTROL}

record = os.open(os.environ["RECORD"], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
Listener.open = watched
"""

CONFIG = PATIENT.replace("providers:\n", "providers:\n  demo: {protocol: openai_responses, base_url: 'demo:'}\n")

SCENARIOS = {"text": {"complete"}, "reasoning": {"complete"}, "search": {"complete"}, "malformed": {"http", "stream"}}
"""Of the upstream, and what clients are left with."""


def test_first_requests_load_no_modules(tmp_path: Path, up: ScriptedUpstream) -> None:
    """All nine pairs, whole and streamed, with opaque values to seal, with errors, and the demo."""
    record = tmp_path / "loaded"
    with started(tmp_path, CONFIG, up.url, patch=WATCH, environ={"RECORD": str(record)}) as gateway:
        for scenario, how in SCENARIOS.items():
            assert {one.how for one in asyncio.run(outcomes(gateway.url, scenario)).values()} == how
        for client in Protocol:
            answer = asyncio.run(exchange(gateway.url, request(client, "demo/demo", stream=False)))
            assert outcome(answer, client).how == "complete"
        assert record.read_text().split() == [CONTROL]
