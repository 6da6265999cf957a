"""Trilogue: every client of one LLM protocol, every backend of another.

    import trilogue
    from trilogue import Protocol

    up = trilogue.translate_request(body, source=Protocol.MESSAGES, target=Protocol.RESPONSES)
    # … send up.body …
    down = trilogue.translate_response(
        answer, source=Protocol.RESPONSES, target=Protocol.MESSAGES, exchange=up.exchange
    )

Everything here is pure: no sockets, no async, no globals that change.
"""

from trilogue.errors import (
    BadRequest,
    ClientError,
    InternalError,
    SealError,
    StrictLoss,
    TrilogueError,
    Unsupported,
    UpstreamError,
    UpstreamFailure,
    UpstreamProtocolError,
    UpstreamTruncated,
)
from trilogue.model import LOSSES, Collector, Failure, Loss, Protocol, Provenance, Usage
from trilogue.protocols.codec import Codec, ErrorReply, Target
from trilogue.protocols.jsontext import dump
from trilogue.protocols.profile import Profile, profile_for
from trilogue.protocols.registry import codec
from trilogue.translate.exchange import Exchange
from trilogue.translate.requests import RequestTranslation, translate_request
from trilogue.translate.responses import (
    ResponseTranslation,
    Stamp,
    StreamTranslator,
    collect_stream,
    translate_response,
)
from trilogue.translate.seal import Sealer

__version__ = "0.1.0"

__all__ = [
    "LOSSES",
    "BadRequest",
    "ClientError",
    "Codec",
    "Collector",
    "ErrorReply",
    "Exchange",
    "Failure",
    "InternalError",
    "Loss",
    "Profile",
    "Protocol",
    "Provenance",
    "RequestTranslation",
    "ResponseTranslation",
    "SealError",
    "Sealer",
    "Stamp",
    "StreamTranslator",
    "StrictLoss",
    "Target",
    "TrilogueError",
    "Unsupported",
    "UpstreamError",
    "UpstreamFailure",
    "UpstreamProtocolError",
    "UpstreamTruncated",
    "Usage",
    "__version__",
    "codec",
    "collect_stream",
    "dump",
    "profile_for",
    "translate_request",
    "translate_response",
]
