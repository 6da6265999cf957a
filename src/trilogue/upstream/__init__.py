"""The only outbound I/O: one seam, `Transport`, and the transport of real networks."""

from trilogue.upstream.interface import HeaderPairs, Timeouts, Transport, UpstreamRequest, UpstreamResponse
from trilogue.upstream.transport import HttpTransport

__all__ = ["HeaderPairs", "HttpTransport", "Timeouts", "Transport", "UpstreamRequest", "UpstreamResponse"]
