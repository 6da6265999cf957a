"""A gateway behind which everything is watched: clients, upstream, log, metrics, usage and captures.

This is the only file that knows how a gateway is started. What it uses stays when the modules inside are moved: the
command, the configuration, the two listeners and the log.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import trilogue
from tests.gateway.running import CLIENT_KEY, running
from tests.gateway.wire import Answer, address, exchange
from tests.scripted import thread
from tests.scripted.server import KEY as UPSTREAM_KEY
from tests.scripted.server import ScriptedUpstream
from tests.timing import eventually
from tests.transcripts import shown
from tests.transcripts.normalised import normalised

ADMIN_KEY = "admin-key-canary-7d1e9a"
VIEWER_KEY, OPERATOR_KEY = "viewer-key-canary-1a2b3c", "operator-key-canary-4d5e6f"
PATIENCE = 120.0
"""seconds for one exchange, so that a busy machine cuts none off"""
USAGE = "/usage?by=key,owner,model,upstream_model,provider,account&since=all"
JSON = {"content-type": "application/json"}


@dataclass
class Stage:
    """A running gateway with its upstream, and the transcript of the present case."""

    url: str
    admin_url: str
    log_file: Path
    up: ScriptedUpstream
    folder: Path
    keys: dict[str, str]
    """further keys that the upstream knows, with the scenarios that they lead to"""
    lines: int = 0
    """lines of the access log that the case will have"""
    captures: list[str] = field(default_factory=list)
    """requests whose captures belong to the transcript"""
    _parts: list[str] = field(default_factory=list)
    _logged: int = 0
    _asked: int = 0
    _counts: dict[str, float] = field(default_factory=dict)
    _usage: dict[str, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin a case: with accounts that have not failed, and nothing in the transcript."""
        for one in self.admin("GET", "/accounts", show=False).json["accounts"]:
            if one["state"] != "ready" or one["models"] or one["last_error"]:
                self.admin("POST", f"/accounts/{one['provider']}/{one['account']}/reset", show=False)
        self.up.by_key = dict(self.keys)
        self.lines, self.captures, self._parts = 0, [], []
        self._logged, self._asked = len(self._log()), len(self.up.requests)
        # After the first case, what the last one has left is where the next one begins.
        self._counts, self._usage = self._counts or self._metrics(), self._usage or self._used()

    def end(self) -> str:
        """Return the transcript of the case, once the log has all its lines."""
        eventually(self._has_lines, PATIENCE)
        assert not self.up.waiting, "the upstream was asked less often than it has answers for"
        captures = [shown.capture(self._captured(name)) for name in self.captures]
        counts, usage = self._counts, self._usage
        self._counts, self._usage = self._metrics(), self._used()
        parts = {
            "": "\n".join(self._parts),
            "upstream": shown.upstream_requests(self.up.requests[self._asked :]),
            "log": "\n".join(map(shown.log_line, self._log()[self._logged :])),
            "metrics": shown.changes(counts, self._counts),
            "usage": shown.changes(usage, self._usage),
            "captures": "\n\n".join(captures),
        }
        text = "\n".join(f"--- {name}\n{part}" if name else part for name, part in parts.items() if part)
        return normalised(text, self._known())

    def so_far(self) -> str:
        """Return what the transcript has so far, for the one who looks for a mistake."""
        return "\n".join([*self._parts, *self._log()[self._logged :]])

    def send(self, data: bytes, *, lines: int | None = None) -> Answer:
        """Send these bytes to the gateway. `lines`: of the access log; by default one, if the response has an id."""
        return self.note(data, self.exchange(data), lines=lines)

    def exchange(self, data: bytes) -> Answer:
        """Do the same without putting it into the transcript."""
        return asyncio.run(exchange(self.url, data, PATIENCE))

    def note(self, data: bytes, answer: Answer, *, lines: int | None = None) -> Answer:
        """Put an exchange into the transcript."""
        self.lines += int("x-request-id" in answer.headers) if lines is None else lines
        self._parts.append(shown.exchange(data, answer))
        return answer

    def more_lines(self, number: int) -> None:
        """Wait until the access log has this many more lines, for what ends after its response."""
        self.lines += number
        eventually(self._has_lines, PATIENCE)

    def say(self, text: str) -> None:
        """Put something else into the transcript."""
        self._parts.append(text)

    def request(
        self,
        method: str,
        path: str,
        value: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        key: str | None = CLIENT_KEY,
        lines: int | None = None,
    ) -> Answer:
        """Send a request of a client. `value`: the body, bytes or something that becomes JSON."""
        return self.send(request(method, path, value, headers, key=key), lines=lines)

    def admin(
        self, method: str, path: str, value: Any = None, *, key: str | None = ADMIN_KEY, show: bool = True
    ) -> Answer:
        """Send a request to the admin interface, and put it into the transcript."""
        data = request(method, path, value, key=key)
        answer = asyncio.run(exchange(self.admin_url, data, PATIENCE))
        if show:
            self._parts.append(shown.exchange(data, answer))
        return answer

    def leave(self, data: bytes, until: bytes) -> None:
        """Send a request, and disconnect when its response has got so far. The log will have a line about it."""
        with socket.create_connection(address(self.url), PATIENCE) as connection:
            connection.sendall(data)
            got = b""
            while until not in got:
                piece = connection.recv(65536)
                assert piece, f"the response ended: {got!r}"
                got += piece
        self.lines += 1
        self._parts.append(f"> {data.decode()}\n< the client has disconnected after {until.decode()}")

    def at_once(self, data: bytes) -> Later:
        """Send a request from another thread, for what has to happen before its response is complete."""
        return Later(self, data)

    def _has_lines(self) -> bool:
        return sum(map(shown.is_request, self._log()[self._logged :])) >= self.lines

    def _log(self) -> list[str]:
        # The last line may be half written.
        return self.log_file.read_text().rpartition("\n")[0].splitlines()

    def _metrics(self) -> dict[str, float]:
        return shown.counters(self.admin("GET", "/metrics", show=False).body.decode())

    def _used(self) -> dict[str, float]:
        answer = self.admin("GET", USAGE, show=False)
        return shown.usage_rows(answer.json) if answer.status == 200 else {}

    def _captured(self, request_id: str) -> bytes:
        return eventually(lambda: self._if_captured(request_id), PATIENCE)

    def _if_captured(self, request_id: str) -> bytes:
        answer = self.admin("GET", f"/captures/{request_id}", show=False)
        return answer.body if answer.status == 200 else b""

    def _known(self) -> dict[str, str]:
        places = {self.url: "GATEWAY", self.admin_url: "ADMIN", self.up.url: "UPSTREAM"}
        hosts = {url.removeprefix("http://"): name for url, name in places.items()}
        ports = {f":{url.rpartition(':')[2]}": f":{name}" for url, name in places.items()}
        return {str(self.folder): "FOLDER", **hosts, **ports, trilogue.__version__: "VERSION"}


class Later:
    """A request whose response another thread waits for."""

    def __init__(self, stage: Stage, data: bytes) -> None:
        self._stage, self._data = stage, data
        self._answers: list[Answer] = []
        self._thread = threading.Thread(target=lambda: self._answers.append(stage.exchange(data)))
        self._thread.start()

    def answer(self) -> Answer:
        """Wait for the response, and put it into the transcript."""
        self._thread.join()
        return self._stage.note(self._data, self._answers[0])


def request(
    method: str, path: str, value: Any = None, headers: Mapping[str, str] | None = None, *, key: str | None = CLIENT_KEY
) -> bytes:
    """Return the bytes of a request, after which the connection is closed."""
    body = b"" if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
    fields = {"host": "127.0.0.1", "connection": "close"}
    if key is not None:
        fields["authorization"] = f"Bearer {key}"
    if body or method in ("POST", "PUT"):
        fields |= {**JSON, "content-length": str(len(body))}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in (fields | dict(headers or {})).items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@contextmanager
def stage(config: str, keys: Mapping[str, str] | None = None) -> Iterator[Stage]:
    """Provide a gateway with this configuration. `keys`: further keys that the upstream knows, and their scenarios."""
    up = ScriptedUpstream([UPSTREAM_KEY])
    up.by_key = dict(keys or {})
    environ = {"ADMIN_KEY": ADMIN_KEY, "VIEWER_KEY": VIEWER_KEY, "OPERATOR_KEY": OPERATOR_KEY}
    with TemporaryDirectory() as name, thread.running(up):
        folder = Path(name)
        with running(folder, config, up.url, environ) as gateway:
            admin = eventually(lambda: _admin_port(gateway.log_file))
            yield Stage(gateway.url, f"http://127.0.0.1:{admin}", gateway.log_file, up, folder, up.by_key)


def _admin_port(log_file: Path) -> int:
    lines = log_file.read_text().rpartition("\n")[0].splitlines()
    found = [json.loads(line) for line in lines if '"event":"admin interface"' in line]
    return int(found[0]["port"]) if found else 0
