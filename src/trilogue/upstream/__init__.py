"""The only outbound I/O: one seam, `Transport`, and the transport of real networks."""

from trilogue.upstream.interface import HeaderPairs, Transport, UpstreamRequest, UpstreamResponse, UpstreamTimeouts
from trilogue.upstream.transport import HttpTransport

__all__ = ["HeaderPairs", "HttpTransport", "Transport", "UpstreamRequest", "UpstreamResponse", "UpstreamTimeouts"]
