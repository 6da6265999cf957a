"""The three protocols and the origin of opaque values."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from trilogue.errors import ClientError


class Protocol(StrEnum):
    """A wire protocol, by the name that config files use."""

    CHAT = "openai_chat_completions"
    MESSAGES = "anthropic_messages"
    RESPONSES = "openai_responses"

    short: str
    """The name in command lines and log lines: chat, messages, responses."""

    @classmethod
    def parse(cls, name: str) -> Protocol:
        """Return the protocol with this long or short name. Raises `ValueError` for any other name."""
        return _BY_SHORT.get(name) or cls(name)


_BY_SHORT = {"chat": Protocol.CHAT, "messages": Protocol.MESSAGES, "responses": Protocol.RESPONSES}
for _short, _protocol in _BY_SHORT.items():
    _protocol.short = _short


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
