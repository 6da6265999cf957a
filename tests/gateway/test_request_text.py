"""The log for people: one short line per request, in colour on a terminal, and the reason of every error in words."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.each import each
from tests.gateway.process import Started, command, environment, started, until
from tests.gateway.running import CLIENT_KEY, CONFIG
from tests.gateway.wire import exchange, post, request
from tests.scripted import thread
from tests.scripted.ask import PATHS
from tests.scripted.server import ScriptedUpstream
from trilogue.gateway.log.access_log import count, duration, level_of, request_text
from trilogue.gateway.log.lines import TextStyle
from trilogue.gateway.log.setup import wants_colours
from trilogue.gateway.record import RequestRecord
from trilogue.model import Failure, FailureKind, Loss, Protocol, Usage

PLAIN, COLOURED = TextStyle(False), TextStyle(True)
LOST = [Loss("cache.mark", f"messages[{number}]") for number in range(3)]


def record(**known: Any) -> RequestRecord:
    """A request that took 1.2 seconds."""
    made = RequestRecord(request_id="req_1", began_at=10.0, client="messages", path="/messages")
    made.ended_at, made.status = 11.2, 200
    for name, value in known.items():
        setattr(made, name, value)
    return made


def text(level: str = "info", style: TextStyle = PLAIN, **known: Any) -> str:
    """The line about such a request, without its time."""
    line = request_text(record(**known), level, style)
    assert re.match(r"(\x1b\[2m)?\d\d:\d\d:\d\d(\x1b\[0m)? ", line)
    return line.partition(" ")[2]


TRANSLATED: dict[str, Any] = {
    "model": "claude-sonnet-4-6",
    "provider": "deepseek",
    "upstream": "chat",
    "upstream_model": "deepseek-chat",
    "usage": Usage(fresh=11_200, output=560),
    "losses": LOST,
}


def test_a_translated_request() -> None:
    expected = "200 messages→chat claude-sonnet-4-6 → deepseek/deepseek-chat 1.2s 11.2k→560 lost: cache.mark\u00d73"
    assert text(**TRANSLATED) == expected


def test_a_request_that_asks_for_what_it_gets() -> None:
    passed: dict[str, Any] = {
        "model": "deepseek/m",
        "provider": "deepseek",
        "upstream": "messages",
        "upstream_model": "m",
    }
    assert text(**passed) == "200 messages deepseek/m 1.2s"


def test_a_request_without_a_model() -> None:
    assert text(client="chat", path="/models") == "200 chat /models 1.2s"


def test_an_error_says_why_and_which_request() -> None:
    failure = Failure(kind=FailureKind.UPSTREAM_CONNECT, message="the upstream refused\n the connection")
    line = text("error", model="m", status=502, failure=failure, error="upstream_connect")
    assert line == "502 messages m 1.2s upstream_connect: the upstream refused the connection req_1"


def test_many_losses_are_counted() -> None:
    losses = [Loss(f"code.{letter}", "") for letter in "abcdefg"]
    assert text(losses=losses).endswith("lost: code.a, code.b, code.c, code.d, code.e, and 2 more")


def test_names_of_clients_cannot_change_the_line() -> None:
    line = text(model="x\n\x1b[2J\u2028" + "y" * 500)
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) < 200


def test_colours_are_around_what_they_colour() -> None:
    failure = Failure(kind=FailureKind.SERVER, message="broken")
    line = text("error", COLOURED, model="m", status=500, failure=failure, error="server", losses=LOST)
    assert "\x1b[31m500\x1b[0m" in line
    assert "\x1b[31mserver: broken\x1b[0m" in line
    assert "\x1b[33mlost: cache.mark" in line
    assert re.sub(r"\x1b\[\d+m", "", line) == text(
        "error", PLAIN, model="m", status=500, failure=failure, losses=LOST, error="server"
    )


@each(
    ("seconds", "shown"),
    [(0.0004, "0ms"), (0.34, "340ms"), (0.9999, "1.0s"), (59.9, "59.9s"), (59.99, "1m00s"), (125.2, "2m05s")],
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@each(("tokens", "shown"), [(0, "0"), (999, "999"), (1_000, "1.0k"), (11_234, "11.2k"), (999_960, "1.0M")])
def test_token_counts(tokens: int, shown: str) -> None:
    assert count(tokens) == shown


LEVELS: dict[str, tuple[dict[str, Any], str]] = {
    "refused": ({"status": 400}, "warning"),
    "broken": ({"status": 503}, "error"),
    "disconnected": ({"status": 499, "error": "client_gone"}, "info"),
    "disconnected in a stream": ({"status": 200, "error": "client_gone"}, "info"),
    "an error in a stream": ({"failure": Failure(kind=FailureKind.TIMEOUT, message="x", status=504)}, "error"),
    "an error in a stream without a status": ({"failure": Failure(kind=FailureKind.SERVER, message="x")}, "error"),
    "a refusal in a stream": ({"failure": Failure(kind=FailureKind.RATE_LIMIT, message="x", status=429)}, "warning"),
}


@pytest.mark.parametrize("case", LEVELS)
def test_levels(case: str) -> None:
    known, level = LEVELS[case]
    assert level_of(record(**known)) == level


def test_when_a_terminal_shows_colours() -> None:
    assert wants_colours({"TERM": "xterm"})
    assert not wants_colours({"TERM": "xterm", "NO_COLOR": "1"})
    assert wants_colours({"NO_COLOR": ""})
    assert not wants_colours({"TERM": "dumb"})


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running(ScriptedUpstream()) as running:
        yield running


def test_errors_in_json_have_level_and_reason(tmp_path: Path, up: ScriptedUpstream) -> None:
    """With level warning, nothing but failed requests is logged."""
    config = "server: {log: {level: warning}}\n" + CONFIG
    with started(tmp_path, config, up.url) as gateway:
        for model in ("chat/text", "chat/error-500", "nowhere/x", "chat/text"):
            asyncio.run(exchange(gateway.url, request(Protocol.CHAT, model, stream=False)))
        until(lambda: len(gateway.lines) == 2)
        broken, unknown = gateway.lines
        assert (broken["level"], broken["status"]) == ("error", 500)
        assert (unknown["level"], unknown["status"]) == ("warning", 404)
        assert broken["reason"]
        assert "nowhere/x" in unknown["reason"]


@contextmanager
def on_a_terminal(directory: Path, up: ScriptedUpstream, environ: dict[str, str]) -> Iterator[tuple[Started, int]]:
    """A gateway whose standard error is a terminal, and the other end of that."""
    file = directory / "trilogue.yaml"
    file.write_text(CONFIG.replace("UPSTREAM", up.url))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("--config", str(file), "--port", "0"),
        env=environment(directory, {"TERM": "xterm", **environ}),
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[3]
        yield Started(url, process, file, file), ours
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()
        os.close(ours)


def read(terminal: int, wanted: str) -> str:
    """What the terminal shows until it shows this."""
    shown, deadline = "", time.monotonic() + 10
    while wanted not in shown and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 65536).decode()
    return shown


@pytest.mark.parametrize("environ", [{}, {"NO_COLOR": "1"}], ids=["colours", "none"])
def test_on_a_terminal_it_is_text(tmp_path: Path, up: ScriptedUpstream, environ: dict[str, str]) -> None:
    """The default format, with colours unless they are not wanted."""
    with on_a_terminal(tmp_path, up, environ) as (gateway, terminal):
        data = request(Protocol.MESSAGES, "chat/text", stream=False)
        assert asyncio.run(exchange(gateway.url, data)).status == 200
        assert asyncio.run(exchange(gateway.url, post(PATHS[Protocol.CHAT], b"{}", key=CLIENT_KEY))).status == 400
        shown = read(terminal, "model is required")
    assert ("\x1b[32m200\x1b[0m" in shown) == (not environ)
    plain = re.sub(r"\x1b\[\d+m", "", shown)
    assert re.search(r"^\d\d:\d\d:\d\d 200 messages→chat chat/text \d+ms \d+→\d+", plain, re.MULTILINE)
    assert re.search(r"^\d\d:\d\d:\d\d 400 chat /chat/completions \d+ms invalid_request\S*: ", plain, re.MULTILINE)
