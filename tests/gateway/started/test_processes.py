"""Several workers: all of them answer, one that dies is replaced, none is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.gateway.process import PATIENT, each_worker, process_state, started, until
from tests.gateway.wire import address, exchange, outcome, payload, post, reached, request
from tests.scripted.server import ScriptedUpstream
from tests.timing import check_within, eventually_async, pause_for
from trilogue.model import Protocol

TWO = ("--workers", "2")


def alive(pids: list[int]) -> list[int]:
    """Those that are there and no zombies."""
    return [pid for pid in pids if process_state(pid) not in ("", "Z")]


def test_both_respond(tmp_path: Path, up: ScriptedUpstream) -> None:
    """With one of them stopped, half of many connections would never be answered by it, and all by the other."""
    with started(tmp_path, PATIENT, up.url, options=TWO) as gateway:
        until(lambda: len(gateway.children()) == 2)
        for _ in each_worker(gateway):
            data = request(Protocol.CHAT, "chat/text", stream=False)
            assert asyncio.run(_some_answer(gateway.url, data))


async def _some_answer(url: str, data: bytes) -> bool:
    """Whether any of a few connections is answered: the others may have been taken by the stopped worker."""
    results = await asyncio.gather(*(exchange(url, data, 2) for _ in range(8)))
    return any(result.status == 200 for result in results)


def test_a_killed_worker_is_replaced(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Row 41: within a second, and the streams of the other one go on."""
    with started(tmp_path, PATIENT, up.url, options=TWO) as gateway:
        until(lambda: len(gateway.children()) == 2)

        async def main() -> list[str]:
            before = len(up.requests)
            data = request(Protocol.CHAT, "messages/slow-30-50", stream=True)
            running = [asyncio.create_task(exchange(gateway.url, data)) for _ in range(20)]
            await reached(up, before + 20)
            killed = gateway.children()[0]
            begun = time.monotonic()
            os.kill(killed, signal.SIGKILL)
            await eventually_async(lambda: killed not in (workers := gateway.children()) and len(workers) == 2)
            check_within(time.monotonic() - begun, 5)
            answers = await asyncio.gather(*running)
            return [outcome(answer, Protocol.CHAT).how for answer in answers if answer.whole]

        assert set(asyncio.run(main())) <= {"complete"}
        gateway.wait_for_log("worker died")
        data = request(Protocol.CHAT, "chat/text", stream=False)
        assert asyncio.run(_some_answer(gateway.url, data))


def test_a_replacement_has_the_last_good_configuration(tmp_path: Path, up: ScriptedUpstream) -> None:
    """A worker that dies while the file is broken must not take the service with it."""
    with started(tmp_path, PATIENT, up.url, options=TWO) as gateway:
        until(lambda: len(gateway.children()) == 2)
        gateway.config_file.write_text("colour: blue\n")
        old = gateway.children()
        for worker in old:
            os.kill(worker, signal.SIGKILL)
        until(lambda: len(set(gateway.children()) - set(old)) == 2)
        assert asyncio.run(_some_answer(gateway.url, request(Protocol.CHAT, "chat/text", stream=False)))
        assert gateway.log.count("worker died") == 2


def test_ctrl_c_in_a_terminal(tmp_path: Path, up: ScriptedUpstream) -> None:
    """A terminal signals every process of the group: streams still finish, nothing is left, nothing is dumped."""
    with started(tmp_path, PATIENT, up.url, options=TWO) as gateway:
        until(lambda: len(gateway.children()) == 2)
        children = gateway.children()

        async def main() -> str:
            before = len(up.requests)
            data = request(Protocol.CHAT, "messages/slow-8-50", stream=True)
            running = asyncio.create_task(exchange(gateway.url, data))
            await reached(up, before + 1)
            os.killpg(gateway.pid, signal.SIGINT)
            return outcome(await running, Protocol.CHAT).how

        assert asyncio.run(main()) == "complete"
        assert gateway.process.wait(30) == 0
        assert alive(children) == []
        assert "Traceback" not in gateway.log


def test_workers_do_not_outlive_their_supervisor(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Killed without a word, it still leaves nobody behind who answers with an old configuration."""
    with started(tmp_path, PATIENT, up.url, options=TWO) as gateway:
        until(lambda: len(gateway.children()) == 2)
        children = gateway.children()
        gateway.signal(signal.SIGKILL)
        gateway.process.wait(30)
        until(lambda: alive(children) == [])


def test_out_of_file_descriptors(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Row 43: with all of them taken it neither spins nor dies, says so, and recovers when some come back."""
    log = tmp_path / "log"
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); {_start(tmp_path, up)}"
    with log.open("w") as file:
        process = subprocess.Popen([sys.executable, "-c", limited], stdout=subprocess.PIPE, stderr=file, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().split(" ")[3]

    async def main() -> None:
        held = [await asyncio.open_connection(*address(url)) for _ in range(90)]
        assert await asyncio.wait_for(held[-1][0].read(), 5) == b""
        before = _cpu(process.pid)
        await pause_for(0.5)
        assert _cpu(process.pid) - before < 0.25
        # What the gateway has given back in the meantime, such as its files, is taken as well.
        held += [await asyncio.open_connection(*address(url)) for _ in range(20)]
        assert await asyncio.wait_for(held[-1][0].read(), 5) == b""
        reader, asking = held[0]
        asking.write(post("/v1/chat/completions", payload(Protocol.CHAT, "chat/text", stream=False), key=None))
        assert b'"out_of_file_descriptors"' in await asyncio.wait_for(reader.readuntil(b"}}"), 5)
        for _, writer in held:
            writer.close()
        await eventually_async(lambda: "there are file descriptors again" in log.read_text())
        answer = await exchange(url, b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert answer.status == 200

    try:
        asyncio.run(main())
        assert log.read_text().count("out of file descriptors: new connections are closed") == 1
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()


def _start(directory: Path, up: ScriptedUpstream) -> str:
    file = directory / "trilogue.yaml"
    file.write_text(f"providers: {{chat: {{protocol: openai_chat_completions, base_url: '{up.url}'}}}}\n")
    arguments = ["trilogue", "serve", "--config", str(file), "--port", "0"]
    return f"import sys; sys.argv = {arguments!r}; from trilogue.__main__ import main; main()"


def _cpu(pid: int) -> float:
    """Seconds of processor time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_log_without_a_reader_blocks_no_request(tmp_path: Path, up: ScriptedUpstream) -> None:
    """A pipe is full after some dozens of requests: they go on, the gateway can be stopped, and no line is half."""
    process = subprocess.Popen(
        [sys.executable, "-c", _start(tmp_path, up)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    url = process.stdout.readline().split(" ")[3]

    async def main() -> None:
        data = request(Protocol.CHAT, "n" * 200, stream=False)
        for _ in range(10):
            answers = await asyncio.gather(*(exchange(url, data) for _ in range(20)))
            assert {answer.status for answer in answers} == {404}

    try:
        asyncio.run(main())
    finally:
        process.terminate()
        status = process.wait(30)
        lines = process.stderr.read().splitlines()
        process.stdout.close()
        process.stderr.close()
    assert status == 0
    assert {json.loads(line)["event"] for line in lines} == {"admin interface", "request"}


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_log_that_cannot_be_written_blocks_no_request(tmp_path: Path, up: ScriptedUpstream, unbuffered: str) -> None:
    """Row 36: the disk is full. It makes no difference whether Python buffers its standard streams."""
    command = [sys.executable, "-c", _start(tmp_path, up)]
    environ = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=full, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().split(" ")[3]
    try:
        for _ in range(3):
            data = request(Protocol.CHAT, "demo", stream=True)
            assert asyncio.run(exchange(url, data)).status == 404
    finally:
        process.terminate()
        assert process.wait(30) == 0
        process.stdout.close()
