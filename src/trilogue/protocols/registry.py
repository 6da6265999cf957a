"""The codec of each protocol."""

from __future__ import annotations

from trilogue.model import Protocol, protocol_of
from trilogue.protocols import chat, messages, responses
from trilogue.protocols.codec import Codec

CODECS: dict[Protocol, Codec] = {
    Protocol.CHAT: chat.CODEC,
    Protocol.MESSAGES: messages.CODEC,
    Protocol.RESPONSES: responses.CODEC,
}


def codec(protocol: Protocol | str) -> Codec:
    """The codec of a protocol."""
    if type(protocol) is not Protocol:
        protocol = protocol_of(protocol)
    return CODECS[protocol]
