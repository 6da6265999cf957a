"""What goes wrong: recorded errors in another protocol's form, and streams that break off."""

import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tests.corpus.cases import MESSAGES, Verdict, rule_problems, translate_stream
from tests.corpus.load import Recording, load
from tests.judges import compare, meaning, sdk, sse
from tests.judges.answers import Answer, error_of
from trilogue import Protocol, lint
from trilogue.protocols.registry import codec

FULL = os.environ.get("TRILOGUE_FULL") == "1"
"""Cut every stream at every event and at many bytes; otherwise at a few places, always the same ones."""
MOST = 40
"""Events at which a stream is cut in the full run; of longer ones every second, third, … and the last 20."""

EXCEPTIONS = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    500: "InternalServerError",
}
MESSAGES_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
    500: "api_error",
}


def judge_error(recording: Recording, target: Protocol) -> Verdict:
    """A recorded error answer for a client of `target`: the right exception of its SDK, with the words kept."""
    status = recording.status or 0
    headers: dict[str, str] = recording.data.get("response_headers") or {}
    failure = codec(recording.protocol).decode_error(status, headers, recording.error_bytes)
    reply = codec(target).encode_error(failure, "req_1")
    verdict = Verdict()
    wanted = _status(recording, reply.status)
    if reply.status != wanted:
        verdict.problems.append(f"status {status} became {reply.status}")
    verdict.problems += [
        f"lint {finding}" for finding in lint.lint_error(target, reply.body) if finding.severity == "error"
    ]
    raised = sdk.raised(target, reply.status, reply.body, reply.headers)
    if EXCEPTIONS[wanted] not in [kind.__name__ for kind in type(raised).__mro__]:
        verdict.problems.append(f"sdk raises {type(raised).__name__} for {status}")
    verdict.problems += _said(recording, target, reply.body, wanted)
    if "retry-after" in headers and "retry-after" not in {name.lower() for name in reply.headers}:
        verdict.problems.append("retry-after is gone")
    return verdict


def _status(recording: Recording, found: int) -> int:
    """The status as it was, or as the message says better than the status did."""
    status = recording.status or 0
    message = error_of(recording.data.get("response"))[1].lower()
    if status == 400 and (found, True) in ((404, "model" in message), (401, "api key" in message)):
        return found
    return status


def _said(recording: Recording, target: Protocol, body: dict[str, Any], status: int) -> list[str]:
    error = body.get("error") or {}
    wanted = error_of(recording.data.get("response"))[1]
    problems = [] if _kept(wanted, recording, str(error.get("message"))) else [f"message {wanted!r:.60} is gone"]
    if not error.get("message"):
        problems.append("no message")
    if target is MESSAGES:
        return problems if error.get("type") == MESSAGES_TYPES[status] else [*problems, f"type {error.get('type')}"]
    for name in ("type", "code", "param"):
        if not isinstance(error.get(name), str | None):
            problems.append(f"{name} is {error.get(name)!r}")
    return problems


def _kept(wanted: str, recording: Recording, found: str) -> bool:
    """The words of the provider, or of the provider behind it, which routers put inside."""
    return wanted in found or (bool(found) and json.dumps(found)[1:-1] in json.dumps(recording.data.get("response")))


def cuts(recording: Recording, target: Protocol) -> list[int]:
    """Where to cut a stream: at event boundaries and in the middle of events, a sample unless FULL."""
    stream = recording.stream
    assert stream is not None
    picks = numbers(f"{recording.id} {target.value}")
    events = [0, *sse.boundaries(stream)]
    inside = [next(picks) % len(stream) for _ in range(10 if FULL else 2)]
    every = [*events[:: 1 + len(events) // MOST], *events[-20:]]
    chosen = every if FULL else [*(events[next(picks) % len(events)] for _ in range(2)), *events[-4:-1]]
    return sorted({*chosen, *inside})


def numbers(seed: str) -> Iterator[int]:
    """Large numbers that look random and are always the same for the same seed."""
    for round_number in itertools.count():
        yield int.from_bytes(hashlib.sha256(f"{seed} {round_number}".encode()).digest()[:8], "big")


@lru_cache(64)
def said_until(name: str, offset: int) -> Answer:
    """What the first part of a recorded stream means. The same places are cut for all targets."""
    recording = load(name)
    assert recording.stream is not None
    return meaning.of_stream(recording.protocol, recording.stream[:offset])


def judge_cut(recording: Recording, target: Protocol, offset: int) -> list[str]:
    """A stream that ends early: the complete answer if all of it was there, else an error; never a quiet success."""
    stream = recording.stream
    assert stream is not None
    whole = recording.said
    arrived = said_until(recording.id, offset)
    out, losses = translate_stream(recording, target, [stream[:offset]])
    after = meaning.of_stream(target, out)
    problems = rule_problems(recording, target, out, arrived)
    if after.error is not None:
        # The end of an event that is cut in two may have been anything, so there an error is right as well.
        whole_events = offset in (0, len(stream), *sse.boundaries(stream))
        finished = whole_events and has_all(arrived)
        return [*problems, f"a complete answer became the error {after.error}"] if finished else problems
    if not after.complete:
        return [*problems, "neither an end nor an error"]
    if not may_succeed(recording.protocol, arrived):
        return [*problems, "a cut stream became a success"]
    codes = frozenset(loss.code for loss in losses) | {"usage.estimated"}
    # An error may have come after the end.
    before = whole if whole.error is None else arrived
    return problems + compare.answers(compare.Pair(recording.protocol, target, before, after, codes))


def has_all(arrived: Answer) -> bool:
    """The upstream has said everything, and no error is among it."""
    return arrived.complete and arrived.error is None and arrived.stop is not None


def may_succeed(protocol: Protocol, arrived: Answer) -> bool:
    """The upstream said why it stopped. A Messages stream that lacks only its last, empty event may pass."""
    if protocol is Protocol.CHAT:
        return arrived.stop is not None or arrived.complete
    return arrived.complete or (protocol is MESSAGES and arrived.stop is not None)


def pieces(stream: bytes, seed: str) -> list[bytes]:
    """The stream in random pieces, from single bytes to many events at once; the same ones for the same seed."""
    sizes = (1, 2, 7, 40, 300, 5000)
    picks = numbers(seed)
    out, at = [], 0
    while at < len(stream):
        size = sizes[next(picks) % len(sizes)]
        out.append(stream[at : at + size])
        at += size
    return out


def same_output(recording: Recording, target: Protocol, cut: list[bytes]) -> bool:
    """The client gets the same bytes however the upstream's were cut."""
    stream = b"".join(cut)
    whole, _ = translate_stream(recording, target, [stream])
    return translate_stream(recording, target, cut)[0] == whole
