"""What an upstream that keeps nothing between requests cannot be asked.

Where bytes pass through, a server that does not know these fields would ignore them and answer without the history:
the client sends only what is new. Told that it cannot be, clients send everything.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from trilogue.errors import Unsupported
from trilogue.model import Protocol

_FIELDS = {
    Protocol.MESSAGES: ("thread",),
    Protocol.RESPONSES: ("previous_response_id", "conversation"),
}
"""fields by which a request relies on what the upstream keeps of earlier ones"""


class _State(Struct):
    thread: Raw = Raw()
    previous_response_id: Raw = Raw()
    conversation: Raw = Raw()


_decode = msgspec.json.Decoder(_State).decode


def refuse_state(body: bytes, protocol: Protocol) -> None:
    """Raises Unsupported if this request relies on earlier ones."""
    named = [name for name in _FIELDS.get(protocol, ()) if b'"%b"' % name.encode() in body]
    if not named:
        return
    state = _decode(body)
    for name in named:
        if bytes(getattr(state, name)) not in (b"", b"null"):
            raise Unsupported(name, "this upstream keeps nothing of earlier requests: send the whole history")
