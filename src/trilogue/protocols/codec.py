"""The interface that all protocol packages implement, and the structs that its functions take and return.

A `Codec` is one protocol in both directions. `Target` is where a request goes, `EncodingContext` what the steps of
encoding a request share, `ErrorReply` and `ResponseSummary` what codecs return. Nothing here knows any one protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from trilogue.model import (
    Failure,
    FailureKind,
    HostedKind,
    Json,
    Ledger,
    Protocol,
    Request,
    Response,
    Usage,
    protocol_of,
)
from trilogue.profiles import Profile, profile_for, vendor_named
from trilogue.protocols.fields.extras import FieldPolicies
from trilogue.protocols.stream.decoder import StreamDecoder
from trilogue.protocols.stream.encoder import StreamEncoder
from trilogue.protocols.stream.reply import Reply


class EncodingContext(Struct, frozen=True):
    """What all steps of encoding one request need: the source protocol, the target's profile, and the ledger."""

    source: Protocol
    profile: Profile
    ledger: Ledger
    native: bool
    """whether source and target are the same protocol; encoders then write fields as the client wrote them"""


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


class Codec(Struct, frozen=True, kw_only=True):
    """One protocol in both directions. `wire` bodies are parsed JSON objects."""

    protocol: Protocol
    decode_request: Callable[[dict[str, Json]], Request]
    encode_request: Callable[[Request, Target, Ledger], dict[str, Json]]
    decode_response: Callable[[dict[str, Json]], Response]
    encode_response: Callable[[Response, Reply], dict[str, Json]]
    summarize: Callable[[bytes], ResponseSummary | None]
    """read a response that is passed through unchanged; None: it must be decoded with `decode_response`"""
    decoder: Callable[[], StreamDecoder]
    encoder: Callable[[Reply], StreamEncoder]
    decode_error: Callable[[int, Mapping[str, str], bytes], Failure]
    encode_error: Callable[[Failure, str], ErrorReply]
    request_fields: frozenset[str]
    """all top-level request fields that the codec has a rule for"""
    field_policies: FieldPolicies
    """policies for extras of requests, blocks and tools that go to another protocol; other extras are dropped"""
    history_tools: frozenset[HostedKind]
    """hosted tools whose calls and results `encode_request` can write into the history"""
    hosted_tools: frozenset[HostedKind]
    """hosted tools of other protocols that `encode_request` can offer"""
    custom_tools: bool
    """whether the protocol has free-text tools"""
    name_limit: int
    """the maximum length of a tool name"""
    stop_sequences: bool = True
    """whether the protocol has stop sequences; if not, the gateway cuts the response"""
    streamed_failures: frozenset[FailureKind] = frozenset()
    """failures that clients only understand inside a stream, even if they are known before it starts"""
    response_policies: FieldPolicies = field(default_factory=dict)
    """policies for extras of responses that go to another protocol; other extras are declared as resp.meta"""
