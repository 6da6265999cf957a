"""The codec of each protocol; the only module that lists them.

To add a protocol to this package, import it and add its codec to the list. Other packages call `register`.
"""

from __future__ import annotations

from collections.abc import Mapping

from trilogue.model import Protocol, protocol_of
from trilogue.protocols import chat, messages, responses
from trilogue.protocols.codec import Codec

CODECS: dict[Protocol, Codec] = {one.protocol: one for one in (chat.CODEC, messages.CODEC, responses.CODEC)}

DEFAULT = Protocol.CHAT
"""the protocol of errors for clients that show none"""
RICHEST = Protocol.RESPONSES
"""the protocol that can express the most, which the demo speaks"""


def register(added: Codec) -> None:
    """Add the codec of a protocol that is not part of this package. Call it before a gateway is started."""
    CODECS[added.protocol] = added


def codec(protocol: Protocol | str) -> Codec:
    """Return the codec of a protocol."""
    if type(protocol) is not Protocol:
        protocol = protocol_of(protocol)
    return CODECS[protocol]


def protocol_of_client(headers: Mapping[str, str]) -> Protocol:
    """Return the protocol of a client by its request headers, for paths that several protocols share."""
    return next((one.protocol for one in CODECS.values() if one.endpoint.is_client(headers)), DEFAULT)
