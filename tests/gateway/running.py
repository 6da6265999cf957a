"""A real gateway process on a free port, and the official clients that call it."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai

from tests.forking import Process, start
from tests.gateway.recorder import Recorder
from tests.scripted.server import KEY as UPSTREAM_KEY
from tests.timing import eventually

CLIENT_KEY = "client-key-canary-5f0c"
_LISTENS = re.compile(r"listens on (http://\S+)")

LENIENT = """\
pool:
  rules: [{status: 401, action: next}, {status: 402, action: next}, {status: 404, action: next},
          {status: 429, action: next}]
"""
"""One account for many tests: whatever the upstream says to one of them, it stays in use for the next."""

PROVIDERS = """\
keys: [env:TRILOGUE_KEY]
providers:
  chat:
    protocol: openai_chat_completions
    base_url: UPSTREAM/v1
    accounts: [{key: env:UP_KEY}]
    profile: {reasoning_field: reasoning_content, web_search: true}
  messages:  {protocol: anthropic_messages,      base_url: UPSTREAM,    accounts: [{key: env:UP_KEY}]}
  responses: {protocol: openai_responses,        base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}]}
"""
CONFIG = PROVIDERS + LENIENT
"""One provider per protocol, named after it, all at the scripted upstream, whose Chat side shows reasoning."""


@dataclass
class Gateway:
    """A running gateway. The clients never retry, and what they get is recorded as it came."""

    url: str
    log_file: Path
    process: Process
    recorder: Recorder

    @cached_property
    def http(self) -> httpx2.Client:
        """A client that shows the key and knows nothing of protocols."""
        headers = {"authorization": f"Bearer {CLIENT_KEY}"}
        return httpx2.Client(base_url=self.url, transport=self.recorder, headers=headers, timeout=20)

    @cached_property
    def openai(self) -> openai.OpenAI:
        """The official client for Chat Completions and Responses."""
        http = httpx2.Client(transport=self.recorder, timeout=20)
        return openai.OpenAI(api_key=CLIENT_KEY, base_url=f"{self.url}/v1", http_client=http, max_retries=0)

    @cached_property
    def anthropic(self) -> anthropic.Anthropic:
        """The official client for Messages."""
        http = httpx2.Client(transport=self.recorder, timeout=20)
        return anthropic.Anthropic(api_key=CLIENT_KEY, base_url=self.url, http_client=http, max_retries=0)

    def record(self, request_id: str) -> dict[str, Any]:
        """The access log's line on a request. It is written just after the answer, so it may take a moment."""

        def line() -> str:
            # The last line may be half written.
            lines = self.log_file.read_text().rpartition("\n")[0].splitlines()
            return next((line for line in lines if request_id in line and '"event":"request"' in line), "")

        return dict(json.loads(eventually(line)))


@contextmanager
def running(
    directory: Path, config: str, upstream: str, environ: dict[str, str] | None = None, module: str = "trilogue"
) -> Iterator[Gateway]:
    """A gateway with this configuration, in which UPSTREAM stands for an address. `module`: the command."""
    file, log_file = directory / "trilogue.yaml", directory / "gateway.log"
    file.write_text(config.replace("UPSTREAM", upstream))
    keys = {"TRILOGUE_KEY": CLIENT_KEY, "UP_KEY": UPSTREAM_KEY, "XDG_STATE_HOME": str(directory)}
    command = [sys.executable, "-m", module, "serve", "--config", str(file), "--port", "0"]
    with log_file.open("w") as log:
        process = start(command, {**os.environ, **keys, **(environ or {})}, log)
    recorder = Recorder()
    try:
        yield Gateway(listening(process, log_file), log_file, process, recorder)
    finally:
        recorder.close()
        process.terminate()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


def listening(process: Process, log_file: Path) -> str:
    """Where a gateway listens, by the first line that it prints."""
    line = process.stdout.readline() if process.stdout is not None else ""
    found = _LISTENS.search(line)
    if found is None:
        raise RuntimeError(f"the gateway did not start: {line}{log_file.read_text()}")
    return found[1]
