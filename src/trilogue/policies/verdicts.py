"""Verdicts: what a policy decides, what it may ask before it decides, and how a decision is recorded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from trilogue.model import Block, Request, Usage

MOST_REASON = 200
"""characters of a reason that are recorded"""


class PolicyVerdict(Struct, frozen=True, kw_only=True):
    """A decision. `reason` is recorded and logged, so it names rules and figures and never quotes content."""

    reason: str = ""


class Pass(PolicyVerdict, frozen=True, kw_only=True):
    """It goes on as it is."""


PASS = Pass()


class Rewrite(PolicyVerdict, frozen=True):
    """It goes on as `to`: a block of the same kind, or for `on_request` a request."""

    to: Block | Request


class Replace(PolicyVerdict, frozen=True):
    """Other blocks go on in its place."""

    blocks: tuple[Block, ...]


class Drop(PolicyVerdict, frozen=True, kw_only=True):
    """It does not go on."""


class StopWith(PolicyVerdict, frozen=True):
    """The response ends here with these words: as a refusal in the client's protocol, or as plain text."""

    words: str
    refusal: bool = True


class Ask(PolicyVerdict, frozen=True):
    """The policy needs an answer first. The driver answers `question`, and `read` makes a verdict of the answer.

    `timeout`: how long the driver may take, in seconds; None means the time limit of the policy.
    """

    question: object
    read: Callable[[Any], object]
    timeout: float | None = None


class Answer(Struct, frozen=True):
    """An answer with the usage that it cost, for `PolicyRun.resolve`. An answer that cost nothing needs no `Answer`."""

    value: object
    usage: Usage | None = None


class Pending(Struct, frozen=True, kw_only=True):
    """What a run waits for. Exactly one of the three is set.

    `question`: give it an answer. `awaitable`: await it, the result is the answer. `work`: a hook that blocks; call it
    in a thread, the result is the answer. Then call `resolve`, or `expired` after `timeout` seconds, or `failed`.
    """

    policy: str
    timeout: float
    question: object = None
    awaitable: Awaitable[object] | None = None
    work: Callable[[], object] | None = None


class Record(Struct, frozen=True, kw_only=True):
    """One decision as data. It holds no content of the request or the response.

    `stage`: request, block, flow or end. `verdict`: pass, rewrite, replace, drop, stop, or error. `block`: the number
    of the block in the upstream's response. `at`: the time of the decision, by the clock of the run. `seconds`: its
    duration. `matches`: how often a pattern was found in a flowing block.
    """

    policy: str
    stage: str
    verdict: str
    reason: str = ""
    block: int | None = None
    kind: str = ""
    at: float = 0.0
    seconds: float = 0.0
    matches: int = 0


VERDICT_NAMES: dict[type[PolicyVerdict], str] = {
    Pass: "pass",
    Rewrite: "rewrite",
    Replace: "replace",
    Drop: "drop",
    StopWith: "stop",
}


def readable(reason: str) -> str:
    """Return a reason as one line of bounded length."""
    return " ".join(reason.split())[:MOST_REASON]
