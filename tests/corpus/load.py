"""The recordings, read once per process, with their bytes as an upstream would have sent them."""

import json
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from tests.judges import meaning, sse
from tests.judges.answers import Answer
from tests.recordings import recordings
from trilogue import lint
from trilogue.model import Protocol

_PROTOCOLS = {
    "openai_chat": Protocol.CHAT,
    "anthropic_messages": Protocol.MESSAGES,
    "openai_responses": Protocol.RESPONSES,
}
GENERATION = frozenset({"chat.completions", "messages", "responses"})
"""The endpoints that answer; counting tokens and keeping state are others."""


@dataclass(frozen=True)
class Recording:
    """One recorded exchange."""

    id: str
    data: dict[str, Any]

    @property
    def protocol(self) -> Protocol:
        """Who speaks."""
        return _PROTOCOLS[self.data["protocol"]]

    @property
    def status(self) -> int | None:
        """The HTTP status; None where only the request was kept."""
        status: int | None = self.data["status"]
        return status

    @property
    def tags(self) -> frozenset[str]:
        """What the corpus says is in it."""
        return frozenset(self.data["tags"])

    @property
    def request(self) -> dict[str, Any] | None:
        """The request body."""
        request = self.data.get("request")
        return request if isinstance(request, dict) else None

    @property
    def body(self) -> dict[str, Any] | None:
        """The whole answer, if it was not streamed."""
        body = self.data.get("response")
        return body if isinstance(body, dict) else None

    @cached_property
    def stream(self) -> bytes | None:
        """The bytes of the stream, as recorded or written anew from its events."""
        if self.status != 200 or not self.data.get("sse"):
            return None
        raw = self.data.get("raw_sse")
        return raw.encode("utf-8", "surrogatepass") if raw else sse.write(self._framed())

    def _framed(self) -> list[dict[str, Any]]:
        """Recorders that kept only the data of events lost their names; Chat has none."""
        entries: list[dict[str, Any]] = self.data["sse"]
        if self.protocol is Protocol.CHAT or any(entry.get("event") for entry in entries):
            return entries
        return [{**e, "event": e["data"].get("type")} if isinstance(e["data"], dict) else e for e in entries]

    @property
    def reads(self) -> list[bytes] | None:
        """The network reads in order, where they were recorded."""
        chunks = self.data.get("raw_chunks")
        return [chunk.encode("utf-8", "surrogatepass") for chunk in chunks] if chunks else None

    @cached_property
    def said(self) -> Answer:
        """What the stream means."""
        assert self.stream is not None
        return meaning.of_stream(self.protocol, self.stream)

    @cached_property
    def broken_rules(self) -> frozenset[str]:
        """The rules of its protocol that the stream itself breaks."""
        assert self.stream is not None
        return frozenset(finding.rule for finding in lint.lint_stream(self.protocol, self.stream))

    @property
    def error_bytes(self) -> bytes:
        """The body of an error answer."""
        raw = self.data.get("raw_body")
        return raw.encode() if raw else json.dumps(self.data.get("response")).encode()


@cache
def load(name: str) -> Recording:
    """One recording by its id."""
    (path,) = recordings(f"{name}.json")
    return Recording(name, json.loads(path.read_text("utf-8")))


@cache
def everything() -> tuple[Recording, ...]:
    """All recordings in a stable order; empty where there is no corpus."""
    return tuple(load(path.stem) for path in recordings())


CONTRADICTS_ITSELF = frozenset({"resp-s-openai-ai-fixtures-openai-shell-container-1-chunks-0-6ef06094"})
"""Edited by hand: the text in its deltas is not the text in its done events."""


def streams() -> list[str]:
    """The ids of recorded streams."""
    every = [recording.id for recording in everything() if recording.stream is not None]
    return [name for name in every if name not in CONTRADICTS_ITSELF]


def bodies() -> list[str]:
    """The ids of recorded whole answers."""
    return [recording.id for recording in everything() if recording.status == 200 and _answers(recording)]


def errors() -> list[str]:
    """The ids of recorded error answers."""
    return [recording.id for recording in everything() if (recording.status or 0) >= 400]


def requests() -> list[str]:
    """The ids of recorded requests for an answer."""
    return [r.id for r in everything() if r.request is not None and r.data["endpoint"] in GENERATION]


def _answers(recording: Recording) -> bool:
    return recording.body is not None and recording.data["endpoint"] in {*GENERATION, "responses.retrieve"}
