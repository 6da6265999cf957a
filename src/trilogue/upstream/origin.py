"""Where a URL leads: the origin to connect to, and the target to ask it for."""

from __future__ import annotations

import codecs
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

from trilogue.errors import InternalError

codecs.lookup("idna")  # for names of hosts: loaded now rather than by the first request

_PORTS = {"http": 80, "https": 443}
_LEGAL = "".join(map(chr, range(0x21, 0x7F)))
"""What may stand in a request line as it is; the rest of a client's query is escaped."""
_PROXY_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


class Origin(NamedTuple):
    """A scheme, host and port; the key of the connection pool."""

    scheme: str
    host: str
    port: int

    @property
    def tls(self) -> bool:
        """It is spoken to over TLS."""
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """host:port, as a proxy wants it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def host_header(self) -> str:
        """The same without the scheme's default port."""
        return self.authority.removesuffix(f":{_PORTS[self.scheme]}")


class Proxy(NamedTuple):
    """An egress proxy. `user` and `password` are empty if it wants none."""

    scheme: str
    host: str
    port: int
    user: str
    password: str

    def __repr__(self) -> str:
        """Without credentials."""
        return f"Proxy({self.scheme}://{self.host}:{self.port})"

    @property
    def tls(self) -> bool:
        """The proxy itself is spoken to over TLS."""
        return self.scheme == "https"

    @property
    def socks(self) -> bool:
        """It speaks SOCKS5 rather than HTTP."""
        return self.scheme.startswith("socks")


@lru_cache(256)
def split_url(url: str) -> tuple[Origin, str]:
    """The origin and the request target (path and query) of an http or https URL."""
    parts, host, port = _split(url, _PORTS)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Origin(parts.scheme, host, port), quote(target, safe=_LEGAL)


def parse_proxy(url: str) -> Proxy:
    """A proxy URL: http, https, socks5 or socks5h, with credentials if it needs them."""
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
