"""What a protocol package offers: the `Codec`, and the structs that its functions take and return.

A `Codec` is one protocol in both directions: functions, and the answers to questions about the protocol in four groups,
to which the defaults are the usual answers. `Target` is where a request goes, `EncodingContext` what the steps of
encoding a request share, `ErrorReply` and `ResponseSummary` what codecs return, and `PauseForm` how the gateway
continues a paused turn. Nothing here knows any one protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from trilogue.model import (
    Failure,
    FailureKind,
    HostedKind,
    Json,
    Ledger,
    Loss,
    Protocol,
    Request,
    Response,
    StopReason,
    ToolCall,
    Usage,
    protocol_of,
)
from trilogue.protocols.endpoint import Endpoint
from trilogue.protocols.fields import FieldPolicies
from trilogue.protocols.sealed import Cleaning, may_hold_sealed, no_calls, unchanged
from trilogue.protocols.stream.decoder import StreamDecoder
from trilogue.protocols.stream.encoder import StreamEncoder
from trilogue.protocols.stream.response_context import ResponseContext
from trilogue.protocols.tool_search import ToolSearchForm
from trilogue.vendors.profile import Profile
from trilogue.vendors.profile_lookup import profile_for
from trilogue.vendors.table import vendor_named

Wire = dict[str, Json]


class EncodingContext(Struct, frozen=True):
    """What all steps of encoding one request need: the source protocol, the target's profile, and the ledger."""

    source: Protocol
    profile: Profile
    ledger: Ledger
    native: bool
    """whether source and target are the same protocol; encoders then write fields as the client wrote them"""
    breakpoints: list[tuple[Json, str]] = field(default_factory=list)
    """OpenAI's cache marks that were written for those of another protocol, and the paths of those"""


class Target(Struct, frozen=True, kw_only=True):
    """Where a request goes: the upstream's model name, and what that model accepts."""

    protocol: Protocol
    model: str
    profile: Profile
    provider: str = ""
    account: str = ""

    @classmethod
    def of(
        cls, protocol: Protocol | str, model: str, *, provider: str = "", account: str = "", vendor: str = ""
    ) -> Target:
        """Return a target with the built-in profile of its model.

        `vendor`: whose API it is; by default the vendor that the provider is named after, or the vendor of the model.
        """
        protocol = protocol_of(protocol)
        profile = profile_for(protocol, model, vendor or vendor_named(provider))
        return cls(protocol=protocol, model=model, profile=profile, provider=provider, account=account)


class ErrorReply(Struct, frozen=True):
    """An error as an HTTP response."""

    status: int
    body: dict[str, Json]
    headers: dict[str, str]


class ResponseSummary(Struct, frozen=True):
    """What can be read from a response without decoding all of it."""

    id: str
    usage: Usage | None
    empty: bool = False
    """whether it has no content except reasoning"""
    model: str = ""
    """the name of the model, as the response has it"""
    stop: StopReason | None = None
    """why it ended; None if that is not clear without decoding it"""


class PauseForm(Struct, frozen=True, kw_only=True):
    """Paused turns of one protocol. Bodies are parsed JSON objects."""

    mark: bytes
    """what the text of a paused response contains; a quick check before it is parsed"""
    may_pause: Callable[[Wire], bool]
    """returns whether a request can lead to a pause"""
    is_paused: Callable[[Wire], bool]
    """returns whether a complete response was paused"""
    continued: Callable[[Wire, list[Json]], Wire]
    """returns the request that continues a turn with this content"""
    joined: Callable[[Sequence[Wire]], Wire]
    """returns the parts of a turn as one response"""
    cut_short: Callable[[Wire], Wire]
    """returns a paused response as one that reached its limit"""


def decode_all(body: bytes) -> ResponseSummary | None:
    """Return None: a response of this protocol has to be decoded before anything can be read from it."""
    return None


def _never(body: bytes) -> bool:
    return False


class FieldRules(Struct, frozen=True, kw_only=True):
    """Which fields the bodies of a protocol have, and what becomes of them in another protocol."""

    known: frozenset[str]
    """all top-level request fields that the codec has a rule for"""
    required: frozenset[str] = frozenset()
    """request fields that cannot be left out, even if an upstream complains about them"""
    policies: FieldPolicies = field(default_factory=dict)
    """policies for extras of requests, blocks and tools that go to another protocol; other extras are dropped"""
    response_policies: FieldPolicies = field(default_factory=dict)
    """policies for extras of responses that go to another protocol; other extras are declared as resp.meta"""


class ToolRules(Struct, frozen=True, kw_only=True):
    """Which tools, calls and results a protocol has."""

    name_limit: int = 64
    """the maximum length of a tool name"""
    custom: bool = False
    """whether the protocol has free-text tools"""
    builtin: bool = False
    """whether clients run tools that the protocol defines, whose calls have forms of their own"""
    hosted: frozenset[HostedKind] = frozenset()
    """hosted tools of other protocols that `encode_request` can offer"""
    in_history: frozenset[HostedKind] = frozenset()
    """hosted tools whose calls and results `encode_request` can write into the history"""
    in_pairs: bool = False
    """whether the history accepts hosted calls only together with a result that the provider itself made"""
    may_lack_results: Callable[[bytes], bool] = _never
    """returns whether a request may have more tool calls than results, or fewer; cheaper than parsing the body"""
    search: ToolSearchForm | None = None
    """the search for tools that its providers run; None: the protocol has none"""
    staged_blocks: frozenset[type] = frozenset({ToolCall})
    """the kinds of blocks that need further steps on their way to a client of this protocol"""


class ReasoningRules(Struct, frozen=True, kw_only=True):
    """What a protocol asks of the reasoning that clients send back, and of the sealed values in it."""

    may_hold_sealed: Callable[[bytes, bool], bool] = may_hold_sealed
    """returns whether a request may have something that `without_sealed` removes; cheaper than parsing the body"""
    unsealed_calls: Callable[[bytes], list[str]] = no_calls
    """returns the ids of tool calls for which the client may not have sent all reasoning back"""
    without_sealed: Callable[[dict[str, Json], Cleaning], dict[str, Json]] = unchanged
    """removes what the gateway made of other protocols' reasoning from a request that stays in this protocol"""
    text: bool = True
    """whether servers accept earlier reasoning that is only text; if not, the model's profile says so"""
    by_model: bool = True
    """whether opaque values are bound to a model family, in addition to the account"""
    first_in_turn: bool = False
    """whether a turn with tool calls must begin with its thinking, if there is a thinking budget"""
    item_ids: bool = False
    """whether servers know earlier items by their ids, and refuse them without the reasoning that came before"""
    summaries: bool = False
    """whether clients can get raw reasoning as a summary, if the model's profile says so"""
    needs_tokens: bool = False
    """whether clients need a value on reasoning, citations and search hits even if the upstream sent none"""


class TurnRules(Struct, frozen=True, kw_only=True):
    """What a protocol asks of the turns of a conversation, and what clients understand of the model's next one."""

    needs_user: bool = False
    """whether a conversation must have a user turn, so that prompts become one if there is nothing else"""
    billing_block: bool = False
    """whether requests may begin with Claude Code's billing block"""
    resumes: bool = False
    """whether clients send the beginning of a response that was cut off, and expect the model to go on"""
    pauses: PauseForm | None = None
    """how servers pause long turns; None: the protocol has no such thing, and its clients cannot continue one"""
    stop_sequences: bool = True
    """whether the protocol has stop sequences; if not, the gateway cuts the response"""
    refusals: bool = True
    """whether clients can tell refusals from text"""
    one_text: bool = False
    """whether all text of a response is one string, without anything between its blocks"""
    keeps_text: bool = False
    """whether the stream decoder keeps the whole text, so that its length must be limited in pass-through as well"""
    search_usage: bool = True
    """whether usage has a number of searches"""
    streamed_failures: frozenset[FailureKind] = frozenset()
    """failures that clients only understand inside a stream, even if they are known before it starts"""


class Codec(Struct, frozen=True, kw_only=True):
    """One protocol in both directions. `wire` bodies are parsed JSON objects."""

    protocol: Protocol
    endpoint: Endpoint
    """the protocol over HTTP"""
    decode_request: Callable[[dict[str, Json]], Request]
    encode_request: Callable[[Request, Target, Ledger], dict[str, Json]]
    decode_response: Callable[[dict[str, Json]], Response]
    encode_response: Callable[[Response, ResponseContext], dict[str, Json]]
    decoder: Callable[[], StreamDecoder]
    encoder: Callable[[ResponseContext], StreamEncoder]
    decode_error: Callable[[int, Mapping[str, str], bytes], Failure]
    encode_error: Callable[[Failure, str], ErrorReply]
    fields: FieldRules
    tools: ToolRules = ToolRules()
    reasoning: ReasoningRules = ReasoningRules()
    turns: TurnRules = TurnRules()
    summarize: Callable[[bytes], ResponseSummary | None] = decode_all
    """reads a response that is passed through unchanged; None: it must be decoded with `decode_response`"""
    for_others: Callable[[dict[str, Json], Ledger], dict[str, Json]] | None = None
    """writes what only one vendor and its client have in ordinary forms of the protocol, before a translation"""
    strip_agents: Callable[[bytes], tuple[bytes, list[Loss]]] | None = None
    """writes what the agents of a client say to each other in ordinary forms, in a body that is passed through"""
