"""Protocols by name, what each can express, and the origin of opaque values.

The three built-in protocols are members of an enum. Further ones are registered at run time and behave like members:
a package outside of this one can add a protocol. What a protocol looks like on the wire is in its codec.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import EnumType, StrEnum
from typing import Literal, TypeVar, cast

from msgspec import Struct

from trilogue.errors import ClientError

_Member = TypeVar("_Member")

ThinkingForm = Literal["effort", "summary", "mode"]


class Traits(Struct, frozen=True, kw_only=True):
    """What a protocol can express, for code that serves all protocols and is below their codecs.

    The defaults are those of a protocol with text, tools and little else.
    """

    family: str = ""
    """protocols of the same family have the same names for errors, models and moderation results"""
    maker: str = ""
    """the vendor whose models follow its own rules over this protocol, whichever cloud serves them"""
    thinking: ThinkingForm = "effort"
    """how a request says how much to think: a level of effort, a level and a summary, or a mode with a budget"""
    shows_thinking_if_asked: bool = False
    """whether a client sees the model's thinking only if its request asks for it"""
    logprobs: bool = False
    """whether responses can have token probabilities"""
    logprobs_by_include: bool = False
    """whether requests list token probabilities among things to include, so that most clients can do without"""
    json_mode: bool = True
    """whether a request can ask for JSON without a schema"""
    prompt_apart: bool = False
    """whether the leading prompt is not part of the input, in which servers look for the word JSON"""
    cache_key: bool = False
    """whether a request can have a key for prompt caching, which has a maximum length"""
    zero_limit_warms_cache: bool = False
    """whether an output limit of 0 is a request to only fill the prompt cache"""
    mid_system: bool = False
    """whether a system message in the middle of a conversation is a message of its own, which some models refuse"""
    reasoning_in_turns: bool = False
    """whether earlier reasoning is a field of a turn, which most servers refuse"""
    names_retry_times: bool = False
    """whether a rate limit of the official API always says when to retry"""
    stop_path: str = "stop_reason"
    """where a response says why it ended"""
    pause_path: str = ""
    """where it says that it paused; by default the same place"""
    tier_path: str = "service_tier"
    """where a response says which service tier it had"""


class _ProtocolType(EnumType):
    """The type of `Protocol`: an enum that also iterates over the protocols that were registered."""

    def __iter__(cls: type[_Member]) -> Iterator[_Member]:
        return iter(cast("tuple[_Member, ...]", tuple(_PROTOCOLS.values())))

    def __len__(cls) -> int:
        return len(_PROTOCOLS)

    def __contains__(cls, value: object) -> bool:
        return value in _PROTOCOLS


class Protocol(StrEnum, metaclass=_ProtocolType):
    """A wire protocol, by the name that config files use."""

    CHAT = "openai_chat_completions"
    MESSAGES = "anthropic_messages"
    RESPONSES = "openai_responses"

    short: str
    """the name in command lines and log lines: chat, messages, responses"""
    traits: Traits
    """what it can express"""

    @classmethod
    def parse(cls, name: str) -> Protocol:
        """Return the protocol with this long, short or other common name. Raises `ValueError` for any other name."""
        return _BY_SHORT.get(name) or _BY_OTHER_NAME.get(name) or cls(name)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return every name that `parse` takes: the short ones, the long ones, then the others."""
        return (*_BY_SHORT, *_PROTOCOLS, *_BY_OTHER_NAME)

    @classmethod
    def register(cls, value: str, short: str, traits: Traits) -> Protocol:
        """Return a new protocol with these names. It needs a codec (`registry.register`) before it can be used.

        Raises `ValueError` if one of the names is taken.
        """
        if {value, short} & {*cls.names()}:
            raise ValueError(f"there is a protocol {value} or {short} already")
        protocol = str.__new__(cls, value)
        protocol._name_, protocol._value_ = short.upper(), value
        return protocol._described(short, traits)

    @classmethod
    def _missing_(cls, value: object) -> Protocol | None:
        """Return a registered protocol. The enum itself, and msgspec, ask for values that are not its own members."""
        return _PROTOCOLS.get(value) if isinstance(value, str) else None

    def _described(self, short: str, traits: Traits) -> Protocol:
        self.short, self.traits = short, traits
        _PROTOCOLS[self.value] = _BY_SHORT[short] = self
        return self


_PROTOCOLS: dict[str, Protocol] = {}
_BY_SHORT: dict[str, Protocol] = {}
_BY_OTHER_NAME = {"openai_chat": Protocol.CHAT, "chat_completions": Protocol.CHAT}
"""what people write for a protocol whose long name is longer than those of the others"""

Protocol.CHAT._described(
    "chat",
    Traits(
        family="openai",
        logprobs=True,
        cache_key=True,
        reasoning_in_turns=True,
        stop_path="choices[0].finish_reason",
    ),
)
Protocol.MESSAGES._described(
    "messages",
    Traits(
        family="anthropic",
        maker="anthropic",
        thinking="mode",
        json_mode=False,
        zero_limit_warms_cache=True,
        mid_system=True,
        names_retry_times=True,
        tier_path="usage.service_tier",
    ),
)
Protocol.RESPONSES._described(
    "responses",
    Traits(
        family="openai",
        thinking="summary",
        shows_thinking_if_asked=True,
        logprobs=True,
        logprobs_by_include=True,
        prompt_apart=True,
        cache_key=True,
        stop_path="incomplete_details.reason",
        pause_path="status",
    ),
)


def protocol_of(named: Protocol | str) -> Protocol:
    """Return the protocol that a caller of the library means by a `Protocol` or one of its two names.

    Raises `ClientError` with the code `unknown_protocol` for any other value.
    """
    if type(named) is Protocol:
        return named
    try:
        return Protocol.parse(named)
    except (ValueError, TypeError):
        names = ", ".join(f"{protocol.short} ({protocol.value})" for protocol in Protocol)
        raise ClientError(f"there is no protocol {named!r}: they are {names}", code="unknown_protocol") from None


class Provenance(Struct, frozen=True, kw_only=True):
    """The origin of an opaque value. Only its producer can read it, so it must only be sent back there."""

    protocol: Protocol
    provider: str = ""
    model: str = ""
    account: str = ""
