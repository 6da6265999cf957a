"""What the store of responses takes and returns, and what it raises.

In: responses, conversations, events of background jobs and reasoning, as bytes that the store does not interpret. Out:
the same, for the same owner. Nothing here knows HTTP, a database or encryption.

    StoreError (trilogue.storage.store)
    ├── NotFound                 no such id, or another owner's, or expired: callers cannot see which
    │   └── ChainBroken          an earlier response of the chain was deleted or has expired
    ├── NotStorable              larger than a limit, or an id that cannot be stored
    ├── ConversationLocked       another request holds the conversation
    ├── JobEnded                 the job was failed, deleted or taken away: its worker should stop
    ├── ContentUnreadable        the content was changed or swapped, or its key is missing
    ├── StoreDamaged             the file is not a database any more
    └── StoreUnavailable         full, slow, closed or broken
        ├── StoreBusy            another writer held it for too long; nothing was written
        ├── StoreAway            it could not be reached; nothing was written
        └── CommitUnsure         the connection broke during the commit: it may have been written

An operation that raises leaves nothing behind, except where the table says otherwise. `str(error)` holds ids and paths,
never content.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from trilogue.storage.database import CommitUnsure, StoreAway, StoreBusy, StoreDamaged, StoreError, StoreUnavailable

__all__ = [
    "ENDED",
    "WORKER_DIED",
    "Append",
    "ChainBroken",
    "CommitUnsure",
    "ContentUnreadable",
    "ConversationItem",
    "ConversationLease",
    "ConversationLocked",
    "ItemPage",
    "Job",
    "JobEnded",
    "JobEvent",
    "JobEvents",
    "NotFound",
    "NotStorable",
    "ObjectOwner",
    "OriginAccount",
    "OwnerStatistics",
    "PageRequest",
    "StoreAway",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreLimits",
    "StoreUnavailable",
    "StoredConversation",
    "StoredItem",
    "StoredReasoning",
    "StoredResponse",
]

ENDED = frozenset({"completed", "failed", "cancelled", "incomplete"})
"""The statuses after which a response does not change any more."""

WORKER_DIED = "worker_died"
"""`StoredResponse.failure` of a background job whose worker stopped reporting."""


class NotFound(StoreError):
    """An id that this owner does not have."""

    def __init__(self, identifier: str) -> None:
        super().__init__(f"not found: {identifier!r}")
        self.id = identifier


class ChainBroken(NotFound):
    """A response whose chain has a gap. `id`: the response that is missing."""


class NotStorable(StoreError):
    """Something that the store refuses: larger than a limit, or with an id that cannot be stored."""


class ConversationLocked(StoreError):
    """A conversation that another request holds, or a lease that has passed to another request."""


class JobEnded(StoreError):
    """A background job that the worker no longer has: it was failed or deleted."""


class ContentUnreadable(StoreError):
    """Content that cannot be decrypted: changed, moved from another row, or encrypted with a key that is missing."""


class StoreLimits(Struct, frozen=True):
    """How long and how much is kept. None means no limit; sizes are bytes of encrypted content."""

    seconds: float = 30 * 86_400.0
    reasoning_seconds: float = 86_400.0
    owner_bytes: int | None = 2 * 2**30
    total_bytes: int | None = 20 * 2**30


class OriginAccount(Struct, frozen=True):
    """The account that made an id and knows it upstream."""

    provider: str
    account: str


class ObjectOwner(Struct, frozen=True):
    """Who owns an object that a provider keeps. `key`: as `StoredResponse.owner`. `team`: the `owner` of that key."""

    provider: str
    key: str
    team: str = ""


class StoredItem(Struct, frozen=True, array_like=True):
    """One item of a request, response or conversation. `data`: its JSON text. `id`: empty if it has none."""

    id: str
    data: bytes


class ConversationItem(Struct, frozen=True):
    """One item of an exported conversation, with its position, which never changes."""

    conversation: str
    number: int
    item: StoredItem


class StoredResponse(Struct, frozen=True, kw_only=True):
    """A response as its client knows it, with what a follow-up needs.

    `body` is the response object as JSON with its `output`; `input` are the items of this request alone, without those
    of earlier turns. `request` is for the gateway: the fields of the request that a follow-up needs. `made_by`: the
    account that made it, if that does not know it by its id: otherwise it is `origin`. `created`, `expires` and
    `failure` are set by the store; `failure` is `WORKER_DIED` if the status in `body` is out of date because the worker
    died.
    """

    owner: str
    id: str
    status: str
    body: bytes
    input: tuple[StoredItem, ...] = ()
    request: bytes = b""
    model: str = ""
    previous: str | None = None
    conversation: str | None = None
    origin: OriginAccount | None = None
    made_by: OriginAccount | None = None
    created: float = 0.0
    expires: float = 0.0
    failure: str = ""


class StoredConversation(Struct, frozen=True, kw_only=True):
    """A conversation without its items. `metadata`: JSON. `origin`: set if an upstream keeps its items, not we."""

    owner: str
    id: str
    metadata: bytes = b"{}"
    origin: OriginAccount | None = None
    created: float = 0.0
    expires: float = 0.0


class ConversationLease(Struct, frozen=True):
    """The right of one request to append to a conversation, until it expires."""

    owner: str
    conversation: str
    holder: str


class Append(Struct, frozen=True):
    """Items that a response adds to a conversation. The lease ends with it."""

    lease: ConversationLease
    items: tuple[StoredItem, ...]


class PageRequest(Struct, frozen=True):
    """Which part of a list to return; the defaults are those of the API."""

    after: str | None = None
    limit: int = 20
    descending: bool = True


class ItemPage(Struct, frozen=True):
    """A part of a list of items, and whether more follow."""

    items: tuple[StoredItem, ...]
    has_more: bool = False


class Job(Struct, frozen=True):
    """A background response: the worker that runs it, when that worker last reported, and what was asked of it."""

    owner: str
    id: str
    worker: str
    seen: float
    cancel: bool = False
    ended: bool = False
    last_event: int = -1


class JobEvent(Struct, frozen=True):
    """One event of the stream of a job. `number`: its sequence number."""

    number: int
    data: bytes


class JobEvents(Struct, frozen=True):
    """Events of a job. If `job.ended`, and `events` ends with `job.last_event`, no more will follow."""

    job: Job
    events: tuple[JobEvent, ...]


class StoredReasoning(Struct, frozen=True):
    """Reasoning that its client cannot return. `key`: the id of a tool call or of a response."""

    owner: str
    key: str
    data: bytes


class OwnerStatistics(Struct, frozen=True):
    """What is kept for one owner. `oldest` and `newest`: when it was last used; 0 if nothing is kept."""

    owner: str
    responses: int
    conversations: int
    reasoning: int
    bytes: int
    oldest: float
    newest: float


class _Body(Struct):
    output: list[Raw] = []


class _Identified(Struct):
    id: object = None


_BODY = msgspec.json.Decoder(_Body)
_IDENTIFIED = msgspec.json.Decoder(_Identified)


def output_items(body: bytes) -> tuple[StoredItem, ...]:
    """Return the items in the `output` of a response object; none if it is not such an object."""
    try:
        return tuple(to_item(bytes(raw)) for raw in _BODY.decode(body).output)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()


def to_item(data: bytes) -> StoredItem:
    """Return an item with the id that its JSON text has."""
    try:
        found = _IDENTIFIED.decode(data).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        found = None
    return StoredItem(found if isinstance(found, str) else "", data)


def paginate(items: Sequence[StoredItem], page: PageRequest) -> ItemPage:
    """Return a part of a list. Raise NotFound if the item to begin after is not in it."""
    ordered = list(reversed(items)) if page.descending else list(items)
    start = 0
    if page.after is not None:
        start = 1 + next((index for index, item in enumerate(ordered) if item.id == page.after), -1)
        if start == 0:
            raise NotFound(page.after)
    end = start + page.limit
    return ItemPage(tuple(ordered[start:end]), has_more=end < len(ordered))
