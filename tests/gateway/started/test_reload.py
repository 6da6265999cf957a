"""SIGHUP: a good configuration is taken, a bad one refused, and whoever is being answered notices nothing."""

from __future__ import annotations

import asyncio
import json
import signal
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.process import PATIENT, Started, started, until
from tests.gateway.running import CLIENT_KEY
from tests.gateway.wire import Answer, exchange, outcome, payload, post, reached, request
from tests.scripted.ask import PATHS
from tests.scripted.server import ScriptedUpstream
from tests.timing import eventually_async, pause_for
from trilogue.model import Protocol

EVERYWHERE = ".".join("0000")


def ask(gateway: Started, model: str, key: str = CLIENT_KEY) -> int:
    """The status of a small request."""
    data = post(PATHS[Protocol.CHAT], payload(Protocol.CHAT, model, stream=False), {"connection": "close"}, key=key)
    return asyncio.run(exchange(gateway.url, data)).status


def rewrite(gateway: Started, text: str, up: ScriptedUpstream) -> None:
    gateway.config_file.write_text(text.replace("UPSTREAM", up.url))
    gateway.signal(signal.SIGHUP)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_good_configuration_is_taken(tmp_path: Path, up: ScriptedUpstream, workers: str) -> None:
    """New aliases and new keys, by every worker; the old key is no longer known."""
    with started(tmp_path, PATIENT, up.url, options=("--workers", workers)) as gateway:
        assert ask(gateway, "fast") == 404
        new = PATIENT.replace("env:TRILOGUE_KEY", "another-client-key") + "aliases: {fast: messages/text}\n"
        rewrite(gateway, new, up)
        until(lambda: gateway.log.count('"reloaded"') == int(workers))
        assert {ask(gateway, "fast", "another-client-key") for _ in range(8)} == {200}
        assert {ask(gateway, "fast") for _ in range(8)} == {401}


def test_a_key_that_is_taken_away_does_not_work_any_more(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Not even on the connection on which it was known all the time."""
    body = payload(Protocol.CHAT, "chat/text", stream=False)
    headers = {"authorization": f"Bearer {CLIENT_KEY}", "content-type": "application/json"}
    with started(tmp_path, PATIENT, up.url) as gateway:
        connection = HTTPConnection(gateway.url.removeprefix("http://"))

        def status() -> int:
            connection.request("POST", PATHS[Protocol.CHAT], body, headers)
            with connection.getresponse() as response:
                response.read()
                return response.status

        assert [status() for _ in range(4)] == [200] * 4
        rewrite(gateway, PATIENT.replace("env:TRILOGUE_KEY", "another-client-key"), up)
        until(lambda: '"reloaded"' in gateway.log)
        assert [status() for _ in range(4)] == [401] * 4
        connection.close()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_waits_for_a_restart_is_reported(tmp_path: Path, up: ScriptedUpstream, workers: str) -> None:
    """The rest of the new configuration is taken; what the command line says is no change."""
    with started(tmp_path, PATIENT, up.url, options=("--workers", workers)) as gateway:
        assert ask(gateway, "fast") == 404
        new = PATIENT.replace("server:\n", "server:\n  host: localhost\n  port: 1\n  workers: 7\n")
        rewrite(gateway, new + "admin: {enabled: false}\naliases: {fast: messages/text}\n", up)
        until(lambda: gateway.log.count('"reloaded"') == int(workers))
        waiting = [line for line in gateway.lines if line["event"] == "these settings wait for a restart"]
        assert {tuple(line["settings"]) for line in waiting} == {("server.host", "admin")}
        assert ask(gateway, "fast") == 200


BAD = {
    "unknown setting": (PATIENT + "colour: blue\n", "colour"),
    "no such provider": (PATIENT + "routes: [{match: fast, provider: nowhere}]\n", "nowhere"),
    "not YAML": ("server: [\n", ""),
    "not written yet": ("", "the file is empty"),
    "missing secret": (PATIENT + "seal_keys: [env:NOT_SET_ANYWHERE]\n", "NOT_SET_ANYWHERE"),
}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_bad_configuration_is_refused(tmp_path: Path, up: ScriptedUpstream, workers: str) -> None:
    """Row 39: the old one stays, and the log names what is wrong, once."""
    with started(tmp_path, PATIENT, up.url, options=("--workers", workers)) as gateway:
        for count, (text, named) in enumerate(BAD.values(), 1):
            rewrite(gateway, text, up)
            until(lambda count=count: gateway.log.count("reload refused") == count)  # type: ignore[misc]
            refused = [line for line in gateway.lines if line["event"] == "reload refused"]
            assert named in str(refused[-1]["problems"])
            assert ask(gateway, "chat/text") == 200
        assert '"reloaded"' not in gateway.log


def test_a_file_that_is_gone_is_a_bad_configuration(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Somebody is editing: the gateway goes on with what it has."""
    with started(tmp_path, PATIENT, up.url) as gateway:
        gateway.config_file.unlink()
        gateway.signal(signal.SIGHUP)
        gateway.wait_for_log("reload refused")
        assert ask(gateway, "chat/text") == 200


def test_a_reload_cannot_open_the_door(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Bound to every address, a configuration without keys is refused, even if it names another address."""
    with started(tmp_path, PATIENT, up.url, options=("--host", EVERYWHERE)) as gateway:
        for text in (PATIENT.replace("keys: [env:TRILOGUE_KEY]\n", ""), "server: {host: 127.0.0.1}\n"):
            rewrite(gateway, text, up)
            gateway.wait_for_log("no client keys")
            gateway.log_file.write_text("")
        assert ask(gateway, "chat/text", "wrong") == 401


def test_running_streams_keep_what_they_have(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Row 40: a hundred reloads while answers stream; the provider that they use is gone in the meantime."""
    with started(tmp_path, PATIENT, up.url) as gateway:

        async def main() -> list[str]:
            before = len(up.requests)
            asked = [request(client, "messages/slow-40-40", stream=True) for client in Protocol]
            running = [asyncio.create_task(exchange(gateway.url, data)) for data in asked]
            await reached(up, before + 3)
            text = "\n".join(line for line in PATIENT.splitlines() if not line.startswith("  messages:")) + "\n"
            gateway.config_file.write_text(text.replace("UPSTREAM", up.url))
            for _ in range(100):
                gateway.signal(signal.SIGHUP)
                await pause_for(0.01)
            return [outcome(await task, client).how for client, task in zip(Protocol, running, strict=True)]

        assert asyncio.run(main()) == ["complete"] * 3
        assert ask(gateway, "messages/text") == 404
        assert ask(gateway, "chat/text") == 200
        assert {line["status"] for line in gateway.lines if line["level"] != "info"} <= {404}


def reloaded(gateway: Started, count: int) -> bool:
    """Return whether the gateway has read its configuration so often again."""
    return gateway.log.count('"reloaded"') == count


def test_connections_of_the_old_configuration_are_closed(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Ten reloads leave no ten pools of idle connections, though somebody is always being answered."""
    with started(tmp_path, PATIENT, up.url) as gateway:

        async def main() -> None:
            before, asked = len(up.requests), request(Protocol.CHAT, "chat/slow-99-900", stream=True)
            stream = asyncio.create_task(exchange(gateway.url, asked, 60))
            await reached(up, before + 1)  # with the first configuration, whose connections stay open
            for count in range(1, 11):
                await exchange(gateway.url, request(Protocol.CHAT, "messages/text", stream=False))
                gateway.signal(signal.SIGHUP)
                await eventually_async(partial(reloaded, gateway, count))
            of_old_ones = up.requests[before + 2 :]
            assert len(of_old_ones) == 9
            await eventually_async(lambda: all(asked.closed is not None for asked in of_old_ones))
            assert not stream.done()
            stream.cancel()

        asyncio.run(main())


def logged(gateway: Started) -> str:
    """A request's id: its line is in the log soon, if it is written at all."""
    data = request(Protocol.CHAT, "chat/text", stream=False)
    return asyncio.run(exchange(gateway.url, data)).headers["x-request-id"]


def test_the_level_of_the_log(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Less from now on, and then again more."""
    with started(tmp_path, PATIENT, up.url) as gateway:
        first = logged(gateway)
        gateway.wait_for_log(first)
        quiet = PATIENT.replace("server:\n", "server:\n  log: {level: error}\n")
        rewrite(gateway, quiet + "aliases: {quiet: chat/text}\n", up)
        until(lambda: ask(gateway, "quiet") == 200)
        unseen = logged(gateway)
        rewrite(gateway, PATIENT + "aliases: {loud: chat/text}\n", up)
        until(lambda: ask(gateway, "loud") == 200)
        last = logged(gateway)
        gateway.wait_for_log(last)
        # One process writes its lines in order: what was to come before the last one has come.
        assert unseen not in gateway.log
        assert {line["level"] for line in gateway.lines} == {"info"}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_format_of_the_log(tmp_path: Path, up: ScriptedUpstream, workers: str) -> None:
    """Every worker follows."""
    with started(tmp_path, PATIENT, up.url, options=("--workers", workers)) as gateway:
        gateway.wait_for_log(logged(gateway))
        assert all(line.startswith("{") for line in gateway.log.splitlines())
        before = len(gateway.log.splitlines())
        rewrite(gateway, PATIENT.replace("server:\n", "server:\n  log: {format: text}\n"), up)
        until(lambda: gateway.log.count("reloaded") == int(workers))
        for _ in range(8):
            logged(gateway)
        until(lambda: gateway.log.count(" 200 chat chat/text ") == 8)
        assert not any(line.startswith("{") for line in gateway.log.splitlines()[before:])


def output(gateway: Started, model: str, items: Any) -> Answer:
    """The response to a Responses request."""
    body = json.dumps({"model": model, "input": items}).encode()
    data = post(PATHS[Protocol.RESPONSES], body, {"connection": "close"}, key=CLIENT_KEY)
    return asyncio.run(exchange(gateway.url, data))


def test_items_can_still_be_referred_to(tmp_path: Path, up: ScriptedUpstream) -> None:
    """SDKs that rely on the provider's memory go on after a reload, as long as their key is the same."""
    with started(tmp_path, PATIENT, up.url) as gateway:
        first = json.loads(output(gateway, "chat/text", "Hello").body)
        item = next(item for item in first["output"] if item["type"] == "message")
        history = [{"type": "item_reference", "id": item["id"]}, {"role": "user", "content": "And?"}]
        rewrite(gateway, PATIENT + "aliases: {fast: messages/text}\n", up)
        until(lambda: gateway.log.count('"reloaded"') == 1)
        up.requests.clear()
        assert output(gateway, "chat/text", history).status == 200
        assert item["content"][0]["text"] in up.requests[-1].body.decode()
        other = PATIENT.replace("keys: [env:TRILOGUE_KEY]", "keys: [another-client-key, env:TRILOGUE_KEY]")
        rewrite(gateway, other, up)
        until(lambda: gateway.log.count('"reloaded"') == 2)
        assert output(gateway, "chat/text", history).status == 200, "it belongs to the key, wherever that is listed"
