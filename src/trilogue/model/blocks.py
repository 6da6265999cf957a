"""Blocks: the pieces of content that make up a turn or a response, in order.

Every block keeps the JSON path that it was read from (`path`, for losses and errors). Fields that have no neutral
counterpart stay in `extras`, under the names of their own protocol. Encoding the block for that protocol restores them;
encoding it for another protocol declares each of them as a loss.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from trilogue.base.json_text import Json

Extras = dict[str, Json] | None


SEAL_PREFIX = "trl2."
"""Marks a sealed value. No provider's own values start like this."""
SEAL_PREFIX_1 = "trl1."
"""Marks a value that an earlier version sealed. Clients keep them in their histories."""
SEAL_PREFIXES = (SEAL_PREFIX, SEAL_PREFIX_1)
SEAL_STEM = "trl"
"""How all of them begin, for one quick search through a body."""

PART_BREAK = "\n\n"
"""The separator between parts of reasoning, where a protocol has one text for all of them."""


class CacheMark(Struct, frozen=True):
    """A cache mark: the prompt up to and including this block should be cached.

    `ttl` is in seconds; None means the provider's default.
    """

    ttl: int | None = None


class OpaqueKind(StrEnum):
    """The purpose of an opaque value in the protocol that produced it."""

    SIGNATURE = "signature"
    """proves visible reasoning"""
    REDACTED = "redacted"
    """reasoning that only its provider can read, with no visible text"""
    ENCRYPTED = "encrypted"
    """encrypted reasoning, with or without a visible summary"""
    CITATION = "citation"
    """a pointer into a search result"""
    SEARCH = "search"
    """the content of a search result"""
    SUMMARY = "summary"
    """a summary of a conversation, which the gateway had a model write"""
    NONE = "none"
    """no opaque value: sealed only to prove that the visible text came through this gateway"""


# Never compare or deduplicate by `value`: OpenAI encrypts the same reasoning anew at every serialisation.
class Opaque(Struct, frozen=True, kw_only=True):
    """A value that must be sent back byte for byte to the provider that produced it, and to no other."""

    kind: OpaqueKind
    value: str
    item_id: str | None = None
    quotes: bool = False
    """whether the value repeats text of its block"""

    @property
    def needs_text(self) -> bool:
        """Whether the value belongs to the exact text of its block: it signs or repeats that."""
        return self.kind is OpaqueKind.SIGNATURE or self.quotes

    @property
    def sealed(self) -> bool:
        """Whether the value is one of our own sealed envelopes, not a provider's value."""
        return self.value.startswith(SEAL_PREFIXES)


class SourceKind(StrEnum):
    """The way in which an image, document or audio clip is given."""

    URL = "url"
    DATA = "data"
    """base64 text"""
    FILE_ID = "file_id"
    TEXT = "text"


class Source(Struct, frozen=True):
    """The location or the bytes of an image, document or audio clip. `media_type` is known for DATA and TEXT."""

    kind: SourceKind
    value: str
    media_type: str | None = None


class CitationKind(StrEnum):
    """The kind of source that a citation points to."""

    WEB = "web"
    """a web page: `url` and `title`"""
    DOCUMENT = "document"
    """a place inside a document of the request"""
    SEARCH_RESULT = "search_result"
    """a place inside a search result that the client supplied"""
    FILE = "file"
    """a file that the provider stores"""


class Citation(Struct, frozen=True, kw_only=True):
    """Evidence for a text block. `start`/`end` are code points of that block's text; None means all of it.

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
    """The fields that all blocks have in common."""

    path: str = ""
    cache: CacheMark | None = None
    extras: Extras = None


class Text(Block, frozen=True, kw_only=True):
    """A text block. `logprobs` is the list of token entries, which Chat and Responses write in the same form."""

    text: str
    citations: tuple[Citation, ...] = ()
    logprobs: list[Json] | None = None


class Refusal(Block, frozen=True, kw_only=True):
    """A refusal in the model's own words."""

    text: str


class Image(Block, frozen=True, kw_only=True):
    """An image, with the resolution hint that OpenAI's protocols allow."""

    source: Source
    detail: str | None = None


class Document(Block, frozen=True, kw_only=True):
    """A file for the model to read. `parts` is used instead of `source` if it was given as blocks."""

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
    """An audio clip. `id` and `transcript` are only set for audio that the model produced."""

    source: Source | None = None
    format: str | None = None
    id: str | None = None
    transcript: str | None = None
    repeats_text: bool = False
    """whether the transcript has only words that the text of the response has as well"""

    @property
    def only_words(self) -> str:
        """The words that are lost with the audio: its transcript, unless the text of the response has them."""
        return "" if self.repeats_text else self.transcript or ""


class Reasoning(Block, frozen=True, kw_only=True):
    """The model's reasoning: a summary, the raw chain of thought, an opaque value, or a mix of these."""

    summary: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()
    opaque: Opaque | None = None
    id: str | None = None
    status: str | None = None
    detailed: bool = False
    """Chat: whether `reasoning_details` have the text as well, in addition to the field that is for text only"""


class CallKind(StrEnum):
    """The kind of input that a tool takes."""

    FUNCTION = "function"
    """JSON arguments"""
    CUSTOM = "custom"
    """free text"""


class ToolCall(Block, frozen=True, kw_only=True):
    """A request by the model to run a tool of the client.

    `arguments` is exactly what the model wrote, whether it is valid JSON or not.
    """

    id: str
    name: str
    arguments: str = ""
    kind: CallKind = CallKind.FUNCTION
    namespace: str | None = None
    item_id: str | None = None
    status: str | None = None


class ToolResult(Block, frozen=True, kw_only=True):
    """The output of a client's tool. `plain`: it was written as a bare string."""

    call_id: str
    """the id of the call, or "" if the client gave none, which Responses allows"""
    content: tuple[Block, ...] = ()
    is_error: bool | None = None
    # Strings and arrays of parts mean the same, but many compatible servers accept only strings.
    plain: bool = False
    kind: CallKind = CallKind.FUNCTION
    name: str | None = None
    item_id: str | None = None
    status: str | None = None


class HostedKind(StrEnum):
    """The purpose of a tool that the protocol itself defines."""

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
    """One result of a web search that the provider ran."""

    url: str
    title: str = ""
    # Only Messages has it.
    page_age: str | None = None
    content: Opaque | None = None


class HostedCall(Block, frozen=True, kw_only=True):
    """A call of a tool that the provider runs itself.

    `input` is JSON text; `native` is the wire object, for its own protocol.
    """

    id: str
    tool: HostedKind
    name: str = ""
    input: str = ""
    server: str | None = None
    status: str | None = None
    native: dict[str, Json] | None = None


class HostedResult(Block, frozen=True, kw_only=True):
    """The output of a hosted tool. `hits` is for searches, `text` for everything that can be written as text."""

    call_id: str
    tool: HostedKind
    hits: tuple[SearchHit, ...] = ()
    text: str | None = None
    error: str | None = None
    native: dict[str, Json] | None = None


class Native(Block, frozen=True, kw_only=True):
    """A block that only its own protocol has. `type` is its name there, `data` the whole wire object.

    `awaits_client`: the turn ended so that the client can act on it (a shell call, an approval request).

    `for_client`: converted from a call of another protocol into the client's own form.

    `harmless`: the protocol knows the type, and nobody acts on it. A type that is unknown may be a call.
    """

    type: str
    data: dict[str, Json]
    awaits_client: bool = False
    for_client: bool = False
    harmless: bool = False
