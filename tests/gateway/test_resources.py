"""Memory of large requests: used again by the next one, and given back when there is none."""

from __future__ import annotations

import asyncio
import platform
from pathlib import Path

import pytest

from tests.gateway.process import PATIENT, Started, started, until
from tests.gateway.wire import exchange, request
from tests.scripted import thread
from tests.timing import pass_time
from trilogue.model import Protocol

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps its own counsel")

MEGABYTE = 1024 * 1024
NO_CTYPES = "import sys\nsys.modules['ctypes'] = None"
RESTS_SOON = "import trilogue.app.process.worker as server\nserver.IDLE_TICKS = 3"


def send(gateway: Started, size: int, times: int) -> None:
    """Requests of this size, one after the other, to an upstream of another protocol."""
    asked = request(Protocol.CHAT, "messages/text", stream=False, messages=[{"role": "user", "content": "x" * size}])
    for _ in range(times):
        assert asyncio.run(exchange(gateway.url, asked)).status == 200


def new_pages(gateway: Started) -> int:
    """How many pages the process has had from the system so far."""
    fields = Path(f"/proc/{gateway.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[7])


def test_the_next_request_gets_the_memory_of_the_last(tmp_path: Path) -> None:
    """A body of 1 MB took some 500 new pages."""
    with thread.running() as up, started(tmp_path, PATIENT, up.url) as gateway:
        send(gateway, MEGABYTE, 5)
        before = new_pages(gateway)
        send(gateway, MEGABYTE, 10)
        assert (new_pages(gateway) - before) / 10 < 100


def test_what_is_free_goes_back_in_quiet_times(tmp_path: Path) -> None:
    """After a while without requests."""
    with thread.running() as up, started(tmp_path, PATIENT, up.url, patch=RESTS_SOON) as gateway:
        send(gateway, 1000, 5)
        usual = gateway.rss()
        send(gateway, 12 * MEGABYTE, 2)
        until(lambda: gateway.rss() < usual + 8 * MEGABYTE)


def test_a_python_that_cannot_call_the_library(tmp_path: Path) -> None:
    """Serves as before, also after a rest."""
    with thread.running() as up, started(tmp_path, PATIENT, up.url, patch=f"{NO_CTYPES}\n{RESTS_SOON}") as gateway:
        send(gateway, MEGABYTE, 2)
        pass_time(0.5)
        send(gateway, MEGABYTE, 1)
        assert "Traceback" not in gateway.log
