"""Blocks: the pieces a turn or an answer consists of, in order.

Every block knows the JSON path it was read from (`path`, for losses and errors) and keeps what has no neutral
field as `extras`: the fields of its own protocol, by name. Writing the block back in that protocol restores them;
writing it in another one declares each of them as a loss.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

Json = Any
"""A JSON value that stays opaque by intent: schemas, native objects, extras."""

Extras = dict[str, Json] | None


SEAL_PREFIX = "trl2."
"""Marks a sealed value. No provider's own values start like this."""
SEAL_PREFIX_1 = "trl1."
"""Marks a value that an earlier version sealed. Clients keep them in their histories."""
SEAL_PREFIXES = (SEAL_PREFIX, SEAL_PREFIX_1)
SEAL_STEM = "trl"
"""How all of them begin, for one quick search through a body."""

PART_BREAK = "\n\n"
"""Between the parts of reasoning where a protocol has one text for all of them."""


class CacheMark(Struct, frozen=True):
    """The prompt up to and including this block is worth caching. `ttl` in seconds; None = the provider's default."""

    ttl: int | None = None


class OpaqueKind(StrEnum):
    """What an opaque value is to the protocol that made it."""

    SIGNATURE = "signature"
    """proves visible reasoning"""
    REDACTED = "redacted"
    """reasoning that only its maker can read, with no visible text"""
    ENCRYPTED = "encrypted"
    """reasoning kept encrypted beside an optional visible summary"""
    CITATION = "citation"
    """a pointer into a search result"""
    SEARCH = "search"
    """the content of a search result"""
    NONE = "none"
    """no opaque value: sealed only to show that the visible text came through us"""


class Opaque(Struct, frozen=True, kw_only=True):
    """A value that must go back to its maker byte for byte, and nowhere else."""

    kind: OpaqueKind
    value: str
    item_id: str | None = None

    @property
    def sealed(self) -> bool:
        """It is one of our own envelopes rather than a provider's value."""
        return self.value.startswith(SEAL_PREFIXES)


class SourceKind(StrEnum):
    """How media is given."""

    URL = "url"
    DATA = "data"
    """base64 text"""
    FILE_ID = "file_id"
    TEXT = "text"


class Source(Struct, frozen=True):
    """Where the bytes of an image, document or audio clip are. `media_type` is known for DATA and TEXT."""

    kind: SourceKind
    value: str
    media_type: str | None = None


class CitationKind(StrEnum):
    """What a citation points to."""

    WEB = "web"
    """a web page: `url` and `title`"""
    DOCUMENT = "document"
    """a place inside a document of the request"""
    SEARCH_RESULT = "search_result"
    """a place inside a search result that the client supplied"""
    FILE = "file"
    """a file that the provider keeps"""


class Citation(Struct, frozen=True, kw_only=True):
    """Evidence for a text block. `start`/`end` are code points of that block's text; None = all of it.

    `native` is the object as the source protocol wrote it.
    """

    kind: CitationKind
    native: dict[str, Json]
    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None
    token: Opaque | None = None


class Block(Struct, frozen=True, kw_only=True):
    """What all blocks have in common."""

    path: str = ""
    cache: CacheMark | None = None
    extras: Extras = None


class Text(Block, frozen=True, kw_only=True):
    """Prose. `logprobs` is the list of token entries that Chat and Responses share."""

    text: str
    citations: tuple[Citation, ...] = ()
    logprobs: list[Json] | None = None


class Refusal(Block, frozen=True, kw_only=True):
    """The model's own words for declining."""

    text: str


class Image(Block, frozen=True, kw_only=True):
    """A picture."""

    source: Source
    detail: str | None = None


class Document(Block, frozen=True, kw_only=True):
    """A file for the model to read. `parts` is used instead of `source` when it was given as blocks."""

    source: Source | None = None
    parts: tuple[Block, ...] = ()
    title: str | None = None
    context: str | None = None
    citations: bool | None = None


class SearchResult(Block, frozen=True, kw_only=True):
    """A search hit that the client supplies as evidence."""

    source: str
    title: str
    parts: tuple[Text, ...] = ()
    citations: bool | None = None


class Audio(Block, frozen=True, kw_only=True):
    """Sound. `id` and `transcript` belong to sound that the model made."""

    source: Source | None = None
    format: str | None = None
    id: str | None = None
    transcript: str | None = None


class Reasoning(Block, frozen=True, kw_only=True):
    """The model's reasoning: a summary for people, the raw chain of thought, an opaque value, or a mix of these."""

    summary: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()
    opaque: Opaque | None = None
    id: str | None = None
    status: str | None = None


class CallKind(StrEnum):
    """How a tool takes its input."""

    FUNCTION = "function"
    """JSON arguments"""
    CUSTOM = "custom"
    """free text"""


class ToolCall(Block, frozen=True, kw_only=True):
    """The model asks the client to run a tool. `arguments` is exactly what the model wrote, valid JSON or not."""

    id: str
    name: str
    arguments: str = ""
    kind: CallKind = CallKind.FUNCTION
    namespace: str | None = None
    item_id: str | None = None
    status: str | None = None


class ToolResult(Block, frozen=True, kw_only=True):
    """What the client's tool gave back. `plain`: written as a bare string."""

    call_id: str
    """empty if the client does not say it, as Responses allow"""
    content: tuple[Block, ...] = ()
    is_error: bool | None = None
    plain: bool = False
    kind: CallKind = CallKind.FUNCTION
    name: str | None = None
    item_id: str | None = None
    status: str | None = None


class HostedKind(StrEnum):
    """A tool that the protocol defines, by what it does."""

    WEB_SEARCH = "web_search"
    WEB_FETCH = "web_fetch"
    CODE = "code"
    FILE_SEARCH = "file_search"
    IMAGE = "image"
    MCP = "mcp"
    MCP_TOOLS = "mcp_tools"
    TOOL_SEARCH = "tool_search"
    COMPUTER = "computer"
    BROWSER = "browser"
    SHELL = "shell"
    EDITOR = "editor"
    PATCH = "patch"
    MEMORY = "memory"
    ADVISOR = "advisor"
    OTHER = "other"


class SearchHit(Struct, frozen=True, kw_only=True):
    """One result of a web search."""

    url: str
    title: str = ""
    page_age: str | None = None
    content: Opaque | None = None


class HostedCall(Block, frozen=True, kw_only=True):
    """The provider runs a tool of its own. `input` is JSON text; `native` the wire object, for its own protocol."""

    id: str
    tool: HostedKind
    name: str = ""
    input: str = ""
    server: str | None = None
    status: str | None = None
    native: dict[str, Json] | None = None


class HostedResult(Block, frozen=True, kw_only=True):
    """What a hosted tool found. `hits` for searches, `text` for everything that can be said in words."""

    call_id: str
    tool: HostedKind
    hits: tuple[SearchHit, ...] = ()
    text: str | None = None
    error: str | None = None
    native: dict[str, Json] | None = None


class Native(Block, frozen=True, kw_only=True):
    """Something only its own protocol knows. `type` is its name there, `data` the whole wire object.

    `awaits_client`: the turn ended so that the client can act on it (a shell call, an approval request).
    `for_client`: made of a call of another protocol, in the client's own form.
    """

    type: str
    data: dict[str, Json]
    awaits_client: bool = False
    for_client: bool = False
