"""URLs of upstreams and proxies, split into what connections and request lines need. No I/O."""

from __future__ import annotations

import codecs
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

from trilogue.errors import InternalError

codecs.lookup("idna")  # load it now: the first request would have to wait for it

_PORTS = {"http": 80, "https": 443}
_LEGAL = "".join(map(chr, range(0x21, 0x7F)))
"""Characters that a request line may have. All others in a client's query are escaped."""
_PROXY_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


class Origin(NamedTuple):
    """A scheme, host and port: what connections are pooled by."""

    scheme: str
    host: str
    port: int

    @property
    def tls(self) -> bool:
        """Return True if connections use TLS."""
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """Return host:port, as CONNECT and request lines for proxies need it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def host_header(self) -> str:
        """Return host:port without the port if it is the scheme's default, for the Host header."""
        return self.authority.removesuffix(f":{_PORTS[self.scheme]}")


class Proxy(NamedTuple):
    """An egress proxy. `user` and `password` are empty if it needs no login."""

    scheme: str
    host: str
    port: int
    user: str
    password: str

    def __repr__(self) -> str:
        """Return the URL without the credentials."""
        return f"Proxy({self.scheme}://{self.host}:{self.port})"

    @property
    def tls(self) -> bool:
        """Return True if the connection to the proxy itself uses TLS."""
        return self.scheme == "https"

    @property
    def socks(self) -> bool:
        """Return True if the proxy speaks SOCKS5, False if it speaks HTTP."""
        return self.scheme.startswith("socks")


@lru_cache(256)
def split_url(url: str) -> tuple[Origin, str]:
    """Return the origin and the request target (path and query) of an http or https URL. Raise InternalError."""
    parts, host, port = _split(url, _PORTS)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Origin(parts.scheme, host, port), quote(target, safe=_LEGAL)


def parse_proxy(url: str) -> Proxy:
    """Return the proxy of a URL: http, https, socks5 or socks5h, with credentials or without. Raise InternalError."""
    parts, host, port = _split(url, _PROXY_PORTS)
    return Proxy(parts.scheme, host, port, unquote(parts.username or ""), unquote(parts.password or ""))


def _split(url: str, ports: dict[str, int]) -> tuple[SplitResult, str, int]:
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").encode("idna").decode("ascii"), parts.port
    except ValueError:
        # The text of the original error holds parts of the URL.
        raise InternalError("a URL for an upstream or proxy cannot be read") from None
    if parts.scheme not in ports or not host:
        raise InternalError(f"a URL for an upstream or proxy needs a host and one of: {', '.join(ports)}")
    return parts, host, port or ports[parts.scheme]
