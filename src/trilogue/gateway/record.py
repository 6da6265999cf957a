"""What is known about one request: filled in while it is handled, and given to observers.

Names, counts and times, and the losses and failures as data. Prompts, keys and headers are never part of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from trilogue.base.text import sane
from trilogue.model import Failure, Loss, StopReason, Usage
from trilogue.policies import Record
from trilogue.routing.pool.decision import Decision
from trilogue.routing.router import ProviderModel

BACKGROUND = " (background)"
"""the end of the path of a request that the gateway runs in the background"""
INTERNAL = " (internal)"
"""the end of the path of a request that a policy has made"""


class CacheUse(Struct, frozen=True, kw_only=True, gc=False):
    """What the prompt cache has saved in a session, up to and with one of its requests. Tokens, of this worker alone.

    `before`: the request that it was compared with. `missed`: why it has read less than that one had as input.
    """

    session: str
    requests: int = 0
    input: int = 0
    read: int = 0
    written: int = 0
    before: str = ""
    missed: str = ""


class RequestRecord(Struct, kw_only=True, eq=False, gc=False):
    """One request so far. Times are those of `time.monotonic`; fields that are not known yet have their defaults.

    `client` and `upstream`: the short names of the protocols. `path`: without query and version.
    """

    request_id: str
    began_at: float
    client: str = ""
    path: str = ""
    key: str = ""
    """the name of the client key"""
    owner: str = ""
    """the person or team that the key belongs to"""
    model: str = ""
    stream: bool = False
    targets: Sequence[ProviderModel] = ()
    """where the request may go according to the routes"""
    decision: Decision | None = None
    """which accounts were considered and used, and why; None for requests that need no account"""
    provider: str = ""
    """this and the next three: of the latest attempt"""
    account: str = ""
    upstream: str = ""
    upstream_model: str = ""
    own_key: bool = False
    """an attempt was made with the client's own key"""
    content_at: float | None = None
    """when the client got the first content of a stream"""
    usage: Usage | None = None
    cache: CacheUse | None = None
    """what the prompt cache has saved in the session; None if the request is small or belongs to no session"""
    uncertain: int = 0
    """attempts that may have cost something although nobody has said what; the one that `usage` is about is among them
    until it is settled"""
    most_cost: int = 0
    """what an attempt was reserved for budgets, in billionths of a dollar"""
    losses: list[Loss] = []
    """with the paths of what was lost; those of the request while it is running, then set by `declare`"""
    loss_codes: tuple[str, ...] = ()
    """the codes of the losses, each once"""
    empty: bool = False
    """the response is complete and has nothing but reasoning"""
    response_id: str = ""
    """this and the next two: as the upstream reported them"""
    response_model: str = ""
    stop: StopReason | None = None
    """why the response ended, if it is complete"""
    policies: list[Record] = []
    """what policies decided, and why; it holds no content"""
    parent: str = ""
    """the id of the request whose policy has made this one"""
    failure: Failure | None = None
    """the error that the client got instead of a complete response, without secrets"""
    error: str | None = None
    """the code or kind of that failure, or `client_gone`"""
    settled: bool = False
    """observers were told what is known of the outcome; always False if none wants to know"""
    status: int = 0
    ended_at: float = 0.0

    @property
    def metered(self) -> Usage | None:
        """The usage, if the upstream has told all of it and it can be true."""
        usage = self.usage
        return None if usage is None or usage.estimated or not usage.is_plausible else usage

    @property
    def unmetered(self) -> int:
        """How many attempts may have cost something although nobody has said what."""
        return self.uncertain if self.metered is None else max(0, self.uncertain - 1)

    def declare(self, losses: list[Loss]) -> None:
        """Record all losses of request and response."""
        self.losses, self.loss_codes = losses, loss_codes(losses)

    def mark_failed(self, failure: Failure) -> None:
        """Record the failure that the client gets."""
        self.failure = failure
        self.error = sane(failure.code or failure.kind.value)


def loss_codes(losses: list[Loss]) -> tuple[str, ...]:
    """Return the codes of losses, each once, in order."""
    return tuple(dict.fromkeys([loss.code for loss in losses]))
