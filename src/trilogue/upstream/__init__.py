"""All outbound I/O: the interface `Transport`, and `HttpTransport`, which sends requests over real networks."""

from trilogue.upstream.interface import HeaderPairs, Transport, UpstreamRequest, UpstreamResponse, UpstreamTimeouts
from trilogue.upstream.transport import HttpTransport

__all__ = ["HeaderPairs", "HttpTransport", "Transport", "UpstreamRequest", "UpstreamResponse", "UpstreamTimeouts"]
