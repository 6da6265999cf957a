"""The shape that all protocol packages have: what a codec offers, and what it is told.

What the encoding of one request has to know everywhere.
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
    """Whose request it is, what the target takes, and where losses go."""

    source: Protocol
    profile: Profile
    ledger: Ledger
    native: bool
    """it goes back to its own protocol, and is written as it came whatever the profile says"""


class Target(Struct, frozen=True, kw_only=True):
    """Where a request goes: the upstream's model name, and what it can do."""

    protocol: Protocol
    model: str
    profile: Profile
    provider: str = ""
    account: str = ""

    @classmethod
    def of(
        cls, protocol: Protocol | str, model: str, *, provider: str = "", account: str = "", vendor: str = ""
    ) -> Target:
        """A target with the built-in profile of its model.

        `vendor`: whose API it is; by default whoever the provider is named after, or makes the model.
        """
        protocol = protocol_of(protocol)
        profile = profile_for(protocol, model, vendor or vendor_named(provider))
        return cls(protocol=protocol, model=model, profile=profile, provider=provider, account=account)


class ErrorReply(Struct, frozen=True):
    """An error as an HTTP answer."""

    status: int
    body: dict[str, Json]
    headers: dict[str, str]


class ResponseSummary(Struct, frozen=True):
    """What can be seen of an answer without decoding all of it."""

    id: str
    usage: Usage | None
    empty: bool = False
    """there is nothing in it but reasoning"""


class Codec(Struct, frozen=True, kw_only=True):
    """One protocol, both ways. `wire` bodies are parsed JSON objects."""

    protocol: Protocol
    decode_request: Callable[[dict[str, Json]], Request]
    encode_request: Callable[[Request, Target, Ledger], dict[str, Json]]
    decode_response: Callable[[dict[str, Json]], Response]
    encode_response: Callable[[Response, Reply], dict[str, Json]]
    summarize: Callable[[bytes], ResponseSummary | None]
    """what an answer is that is passed on as it came; None: `decode_response` must say"""
    decoder: Callable[[], StreamDecoder]
    encoder: Callable[[Reply], StreamEncoder]
    decode_error: Callable[[int, Mapping[str, str], bytes], Failure]
    encode_error: Callable[[Failure, str], ErrorReply]
    request_fields: frozenset[str]
    """every top-level request field that the codec has a rule for"""
    fates: FieldPolicies
    """what becomes of top-level extras, and of extras of blocks and tools, in another protocol; others are dropped"""
    history_tools: frozenset[HostedKind]
    """hosted tools whose calls and results `encode_request` can write into the history"""
    hosted_tools: frozenset[HostedKind]
    """hosted tools of other protocols that `encode_request` can offer"""
    custom_tools: bool
    """has free-text tools"""
    name_limit: int
    """longest tool name"""
    stop_sequences: bool = True
    """has stop sequences; where not, the response is cut on its way back"""
    streamed_failures: frozenset[FailureKind] = frozenset()
    """what clients of a stream only understand inside of it, also if it is known before the stream begins"""
    response_fates: FieldPolicies = field(default_factory=dict)
    """what becomes of an answer's extras in another protocol; those not named are declared as resp.meta"""
