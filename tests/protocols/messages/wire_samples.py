"""Shared by the tests of this package: small requests and answers of other protocols, and streams as bytes."""

import json
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from trilogue.model import (
    Block,
    Event,
    Ledger,
    Protocol,
    Request,
    Response,
    Role,
    Sampling,
    Stop,
    StopReason,
    Text,
    Turn,
    Usage,
)
from trilogue.protocols.codec import Target
from trilogue.protocols.messages import CODEC

MODERN = "claude-opus-5"
BUDGET = "claude-sonnet-4-5"
MIDDLE = "claude-opus-4-6"


def target(model: str = MODERN) -> Target:
    """Where requests go: without cache marks of our own, which `test_caching.py` looks at."""
    found = Target.of(Protocol.MESSAGES, model)
    return replace(found, profile=replace(found.profile, adds_caching=False))


def user(text: str = "hi", path: str = "messages[0]") -> Turn:
    return Turn(role=Role.USER, blocks=(Text(text=text, path=f"{path}.content"),), path=path, plain=True)


def turn(role: Role, *blocks: Block, path: str = "messages[1]", **more: Any) -> Turn:
    return Turn(role=role, blocks=blocks, path=path, **more)


def foreign(*turns: Turn, protocol: Protocol = Protocol.CHAT, **fields: Any) -> Request:
    """A request that came from another protocol, with an output limit so that none is made up."""
    fields.setdefault("sampling", Sampling(max_tokens=4096))
    return Request(protocol=protocol, model="m", turns=turns or (user(),), **fields)


def encode(request: Request, model: str = MODERN) -> tuple[dict[str, Any], list[str]]:
    """The body for a model, and the codes of what was lost."""
    ledger = Ledger()
    body = CODEC.encode_request(request, target(model), ledger)
    return body, [loss.code for loss in ledger.losses]


def native(body: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A Messages body decoded and written back."""
    return encode(CODEC.decode_request(body), body.get("model", MODERN))


def answer(*blocks: Block, reason: StopReason = StopReason.END, **fields: Any) -> Response:
    """An answer of another protocol."""
    fields.setdefault("usage", Usage(fresh=10, output=5))
    stop = fields.pop("stop", Stop(reason=reason))
    return Response(protocol=Protocol.CHAT, id="chatcmpl-1", model="gpt", blocks=blocks, stop=stop, **fields)


def sse(*events: dict[str, Any], named: bool = True) -> bytes:
    """Events as an upstream sends them."""
    return b"".join(
        (f"event: {event['type']}\n".encode() if named else b"") + b"data: " + json.dumps(event).encode() + b"\n\n"
        for event in events
    )


def parse(data: bytes) -> list[dict[str, Any]]:
    """The data of a stream's events; each must have the name that its data says."""
    events = []
    for block in data.decode().split("\n\n"):
        if block and not block.startswith(":"):
            name, payload = block.split("\n")
            event = json.loads(payload.removeprefix("data: "))
            assert name == f"event: {event['type']}"
            events.append(event)
    return events


def decode(data: bytes) -> list[Event]:
    """All events of a whole stream."""
    decoder = CODEC.decoder()
    return [*decoder.feed(data), *decoder.close()]


def without_nulls(value: Any) -> Any:
    """Null and absent are the same."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def kinds(events: Iterable[Event]) -> list[str]:
    return [type(event).__name__ for event in events]
