"""What the official SDK makes of a stream, for tests."""

from typing import Any

from anthropic._models import construct_type
from anthropic.lib.streaming._beta_messages import accumulate_event
from anthropic.types.beta import BetaRawMessageStreamEvent

from tests.protocols.messages.wire_samples import parse, without_nulls


def accumulated(data: bytes) -> Any:
    """What the official SDK makes of a stream."""
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    headers: Any = {}
    for event in parse(data):
        if event["type"] != "ping":
            typed: Any = construct_type(type_=BetaRawMessageStreamEvent, value=event)
            snapshot = accumulate_event(
                event=typed, current_snapshot=snapshot, json_bufs=buffers, request_headers=headers
            )
    return without_nulls(snapshot.to_dict(mode="json"))
