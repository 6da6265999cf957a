"""The library: connects clients of one LLM protocol to upstreams of another.

    import trilogue
    from trilogue import Protocol

    up = trilogue.translate_request(body, source=Protocol.MESSAGES, target=Protocol.RESPONSES)
    # … send up.body …
    down = trilogue.translate_response(
        response, source=Protocol.RESPONSES, target=Protocol.MESSAGES, exchange=up.exchange
    )

Everything here is pure: no sockets, no async, no global state. Each name is loaded when it is first used, so that
importing the package is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilogue.base.json_text import dump
    from trilogue.errors import (
        BadRequest,
        CipherUnavailable,
        ClientError,
        ConfigError,
        InternalError,
        SealError,
        StrictLoss,
        TrilogueError,
        Unsupported,
        UpstreamConnect,
        UpstreamError,
        UpstreamFailure,
        UpstreamProtocolError,
        UpstreamTimeout,
        UpstreamTruncated,
    )
    from trilogue.http import AsgiApp, HttpSettings, Report, Tally, asgi, async_http_client, http_client
    from trilogue.model import LOSSES, Collector, Failure, Loss, Protocol, Provenance, Usage
    from trilogue.protocols.codec import Codec, ErrorReply, Target
    from trilogue.protocols.registry import codec
    from trilogue.protocols.stream.response_context import Reply
    from trilogue.translate.pipeline import Exchange
    from trilogue.translate.reasoning.seal import Sealer
    from trilogue.translate.requests import RequestTranslation, translate_request
    from trilogue.translate.responses import (
        ResponseTranslation,
        ResponseTranslator,
        Stamp,
        collect_stream,
        translate_response,
    )
    from trilogue.translate.streams import StreamTranslator
    from trilogue.vendors.profile import Profile
    from trilogue.vendors.profile_lookup import profile_for

__version__ = "0.1.0"

__all__ = [
    "LOSSES",
    "AsgiApp",
    "BadRequest",
    "CipherUnavailable",
    "ClientError",
    "Codec",
    "Collector",
    "ConfigError",
    "ErrorReply",
    "Exchange",
    "Failure",
    "HttpSettings",
    "InternalError",
    "Loss",
    "Profile",
    "Protocol",
    "Provenance",
    "Reply",
    "Report",
    "RequestTranslation",
    "ResponseTranslation",
    "ResponseTranslator",
    "SealError",
    "Sealer",
    "Stamp",
    "StreamTranslator",
    "StrictLoss",
    "Tally",
    "Target",
    "TrilogueError",
    "Unsupported",
    "UpstreamConnect",
    "UpstreamError",
    "UpstreamFailure",
    "UpstreamProtocolError",
    "UpstreamTimeout",
    "UpstreamTruncated",
    "Usage",
    "__version__",
    "asgi",
    "async_http_client",
    "codec",
    "collect_stream",
    "dump",
    "http_client",
    "profile_for",
    "translate_request",
    "translate_response",
]

_HOMES = {
    "trilogue.errors": (
        "BadRequest CipherUnavailable ClientError ConfigError InternalError SealError StrictLoss TrilogueError "
        "Unsupported UpstreamConnect UpstreamError UpstreamFailure UpstreamProtocolError UpstreamTimeout "
        "UpstreamTruncated"
    ),
    "trilogue.model": "LOSSES Collector Failure Loss Protocol Provenance Usage",
    "trilogue.protocols.codec": "Codec ErrorReply Target",
    "trilogue.http": "AsgiApp HttpSettings Report Tally asgi async_http_client http_client",
    "trilogue.base.json_text": "dump",
    "trilogue.vendors.profile": "Profile",
    "trilogue.vendors.profile_lookup": "profile_for",
    "trilogue.protocols.registry": "codec",
    "trilogue.protocols.stream.response_context": "Reply",
    "trilogue.translate.pipeline": "Exchange",
    "trilogue.translate.requests": "RequestTranslation translate_request",
    "trilogue.translate.responses": "ResponseTranslation ResponseTranslator Stamp collect_stream translate_response",
    "trilogue.translate.streams": "StreamTranslator",
    "trilogue.translate.reasoning.seal": "Sealer",
}
"""the same names as in the imports above, by module, to load them at run time"""

_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
_PARTS = frozenset(module.split(".")[1] for module in _HOMES)

# A type checker that sees `__getattr__` would accept every name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a public name, or the part of the package that holds some, on first use."""
        if name in _PARTS:
            return import_module(f"{__name__}.{name}")
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOME[name]), name)
        return value


def __dir__() -> list[str]:
    """Return all public names, loaded or not, for interactive completion."""
    return sorted({*globals(), *__all__})
