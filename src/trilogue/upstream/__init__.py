"""All outbound I/O: connections to upstreams, TLS and proxies.

`Transport` is the interface, and `HttpTransport` sends requests over real networks. `transport` keeps the connections,
`dial` and `tunnel` open them, `connection` and `exchange` read the responses. Nothing here knows protocols, accounts or
retries.
"""

from trilogue.upstream.interface import (
    BodySource,
    HeaderPairs,
    Transport,
    UpstreamRequest,
    UpstreamResponse,
    UpstreamTimeouts,
)
from trilogue.upstream.transport import HttpTransport

__all__ = [
    "BodySource",
    "HeaderPairs",
    "HttpTransport",
    "Transport",
    "UpstreamRequest",
    "UpstreamResponse",
    "UpstreamTimeouts",
]
