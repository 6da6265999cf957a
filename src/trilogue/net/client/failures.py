"""Errors of the operating system and of TLS as `UpstreamConnect`, with a plain reason.

The texts name no host, because clients see them. `protocols.failure` lists what happens next.
"""

from __future__ import annotations

import errno
import socket
import ssl

from trilogue.errors import UpstreamConnect

_VERIFY = {
    9: "it is not valid yet",
    10: "it has expired",
    18: "it is self-signed",
    19: "its root is not trusted",
    20: "its issuer is not known",
    21: "its issuer is not known",
    23: "it was revoked",
    62: "it is for another host",
    64: "it is for another address",
}
"""The usual ones of OpenSSL's verification codes (X509_V_ERR_*)."""


NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
"""The process, or the whole system, has no file descriptor left."""


def connect_failure(error: OSError, *, proxy: bool) -> UpstreamConnect:
    """Return the reason why a connection could not be opened. `proxy`: the peer was the egress proxy."""
    peer = "the egress proxy" if proxy else "the upstream"
    if isinstance(error, ssl.SSLError):
        return tls_failure(error, proxy=proxy)
    if error.errno in NO_DESCRIPTORS:
        return UpstreamConnect("the gateway has run out of file descriptors", code="out_of_file_descriptors")
    if isinstance(error, socket.gaierror):
        return UpstreamConnect(f"the host name of {peer} cannot be resolved", proxy=proxy)
    if isinstance(error, ConnectionRefusedError):
        return UpstreamConnect(f"{peer} refused the connection", proxy=proxy)
    if isinstance(error, ConnectionError):
        return UpstreamConnect(f"{peer} closed the connection before it was ready", proxy=proxy)
    return UpstreamConnect(f"{peer} cannot be reached", proxy=proxy)


def tls_failure(error: ssl.SSLError, *, proxy: bool = False) -> UpstreamConnect:
    """Return the reason why TLS failed. There is no second attempt with less security."""
    peer = "the egress proxy" if proxy else "the upstream"
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = _VERIFY.get(error.verify_code, f"verification code {error.verify_code}")
        message = f"the TLS certificate of {peer} was rejected: {reason}"
    else:
        message = f"TLS with {peer} failed ({error.reason or 'no reason given'})"
    return UpstreamConnect(message, code="upstream_tls", proxy=proxy)
