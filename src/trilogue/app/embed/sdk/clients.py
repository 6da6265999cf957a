"""HTTP clients for the SDKs, made from `httpx2` or `httpx`: transports that send each request through a `Bridge`.

The two libraries have the same interface, so the one that is used is a value here. The transport sends with a client of
its own, which keeps connections, honours the proxy variables, and gets the SDK's time limits with each request.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing, contextmanager, suppress
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Self

from trilogue.app.embed.sdk.bridge import Bridge, BridgeCall, BridgeStream, Plain, SdkRequest
from trilogue.app.embed.sdk.upstream import find_upstream
from trilogue.errors import ClientError, UpstreamConnect
from trilogue.http import HttpSettings
from trilogue.model import Failure
from trilogue.protocols.failure import failure_of

LIBRARIES = ("httpx2", "httpx")
DEFAULT_SECONDS = 600.0
"""time limit of an SDK that sets none: the SDKs' own default"""
_BROKE = "the connection to the upstream broke"


def sync_client(name: str, settings: HttpSettings) -> Any:
    """Return a client of the HTTP library whose requests go to this upstream. Raises ClientError."""
    library = _library(settings)
    timeout = settings.get("timeout", DEFAULT_SECONDS)
    transport = SyncTransport(_bridge(name, settings), library, library.Client(timeout=timeout))
    return library.Client(transport=transport, timeout=timeout)


def async_client(name: str, settings: HttpSettings) -> Any:
    """Return the same as `sync_client` for asyncio."""
    library = _library(settings)
    timeout = settings.get("timeout", DEFAULT_SECONDS)
    transport = AsyncTransport(_bridge(name, settings), library, library.AsyncClient(timeout=timeout))
    return library.AsyncClient(transport=transport, timeout=timeout)


def _bridge(name: str, settings: HttpSettings) -> Bridge:
    return Bridge(find_upstream(name, settings, os.environ), settings)


def _library(settings: HttpSettings) -> ModuleType:
    """Return the HTTP library that the caller asks for, or the first one that is installed."""
    named = settings.get("library", "")
    if named not in ("", *LIBRARIES):
        raise ClientError(f"library must be one of {', '.join(LIBRARIES)}")
    for one in [named] if named else LIBRARIES:
        with suppress(ModuleNotFoundError):
            return import_module(one)
    wanted = named or " or ".join(LIBRARIES)
    raise ClientError(f"{wanted} is not installed: pip install 'trilogue[http]', or the SDK that brings it along")


class SyncTransport:
    """The transport of a synchronous client."""

    def __init__(self, bridge: Bridge, library: ModuleType, inner: Any) -> None:
        self._bridge = bridge
        self._library = library
        self._inner = inner

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections to the upstream."""
        self._inner.close()

    def handle_request(self, request: Any) -> Any:
        """Send a request and return its response, in the SDK's protocol, once content has come."""
        asked = _asked(request, request.read())
        try:
            call = self._bridge.call(asked)
        except ClientError as error:
            return _plain(self._library, self._bridge.refusal(error, asked))
        with _reporting(self._bridge, call, self._library):
            response = self._inner.send(_outgoing(self._inner, call, request), stream=True)
            headers = _lower(response.headers)
            if not call.stream or response.status_code >= 300:
                with closing(response):
                    body = response.read()
                return _plain(self._library, self._bridge.whole(call, response.status_code, headers, body))
        stream = _sync_body(self._library)(response, BridgeStream(self._bridge, call), self._library)
        stream.begin()
        if (failure := stream.early_failure()) is not None:
            stream.close()
            return _plain(self._library, self._bridge.failed(failure, call.client, headers))
        return self._library.Response(200, headers=self._bridge.stream_headers(call, headers), stream=stream)


class AsyncTransport:
    """The transport of an asyncio client."""

    def __init__(self, bridge: Bridge, library: ModuleType, inner: Any) -> None:
        self._bridge = bridge
        self._library = library
        self._inner = inner

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections to the upstream."""
        await self._inner.aclose()

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request and return its response, in the SDK's protocol, once content has come."""
        asked = _asked(request, await request.aread())
        try:
            call = self._bridge.call(asked)
        except ClientError as error:
            return _plain(self._library, self._bridge.refusal(error, asked))
        with _reporting(self._bridge, call, self._library):
            response = await self._inner.send(_outgoing(self._inner, call, request), stream=True)
            headers = _lower(response.headers)
            if not call.stream or response.status_code >= 300:
                async with aclosing(response):
                    body = await response.aread()
                return _plain(self._library, self._bridge.whole(call, response.status_code, headers, body))
        stream = _async_body(self._library)(response, BridgeStream(self._bridge, call), self._library)
        await stream.begin()
        if (failure := stream.early_failure()) is not None:
            await stream.aclose()
            return _plain(self._library, self._bridge.failed(failure, call.client, headers))
        return self._library.Response(200, headers=self._bridge.stream_headers(call, headers), stream=stream)


class _Body:
    """A streamed response for the SDK. What comes before content is held, so that a failure can still be a status."""

    def __init__(self, response: Any, relay: BridgeStream, library: ModuleType) -> None:
        self._response = response
        self._relay = relay
        self._broke: tuple[type[Exception], ...] = (library.TransportError,)
        self._held: list[bytes] = []
        self._over = False
        """whether the upstream's stream has ended"""

    def early_failure(self) -> Failure | None:
        """Return how the response failed before any content, or None."""
        return None if self._relay.started else self._relay.failure

    def _fed(self, data: bytes) -> bool:
        """Hold what this piece leads to, and return whether content or the end has come."""
        self._held.append(self._relay.feed(data))
        return self._relay.started or self._relay.done

    def _ended(self) -> None:
        self._over = True
        self._held.append(self._relay.close())

    def _failed(self) -> None:
        self._relay.fail(UpstreamConnect(_BROKE))


class _SyncBody(_Body):
    def begin(self) -> None:
        """Read until content has come, or until the end."""
        self._pieces: Iterator[bytes] = self._response.iter_bytes()
        try:
            for data in self._pieces:
                if self._fed(data):
                    return
            self._ended()
        except BaseException:
            self._failed()
            self.close()
            raise

    def __iter__(self) -> Iterator[bytes]:
        yield from filter(None, self._held)
        if self._over:
            return
        try:
            # Read on after the last event: the connection can be used again only once its response is read.
            for data in self._pieces:
                if out := self._relay.feed(data):
                    yield out
        except self._broke:
            self._failed()
            raise
        if out := self._relay.close():
            yield out

    def close(self) -> None:
        """Close the upstream's response: if it is not complete, its connection."""
        self._relay.ended()
        self._response.close()


class _AsyncBody(_Body):
    async def begin(self) -> None:
        """Read until content has come, or until the end."""
        self._pieces: AsyncIterator[bytes] = self._response.aiter_bytes()
        try:
            async for data in self._pieces:
                if self._fed(data):
                    return
            self._ended()
        except BaseException:
            self._failed()
            await self.aclose()
            raise

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for out in filter(None, self._held):
            yield out
        if self._over:
            return
        try:
            async for data in self._pieces:
                if out := self._relay.feed(data):
                    yield out
        except self._broke:
            self._failed()
            raise
        if out := self._relay.close():
            yield out

    async def aclose(self) -> None:
        """Close the upstream's response: if it is not complete, its connection."""
        self._relay.ended()
        await self._response.aclose()


# Clients of both libraries check that a stream is an instance of their own class.
@cache
def _sync_body(library: ModuleType) -> Any:
    return type("SyncBody", (_SyncBody, library.SyncByteStream), {})


@cache
def _async_body(library: ModuleType) -> Any:
    return type("AsyncBody", (_AsyncBody, library.AsyncByteStream), {})


@contextmanager
def _reporting(bridge: Bridge, call: BridgeCall, library: ModuleType) -> Iterator[None]:
    """Report a call whose connection fails. The SDK gets the library's own exception, as without Trilogue."""
    try:
        yield
    except library.TransportError:
        bridge.report(call, failure=failure_of(UpstreamConnect(_BROKE), call.client))
        raise


def _asked(request: Any, body: bytes) -> SdkRequest:
    query: bytes = request.url.query
    return SdkRequest(path=request.url.path, query=query.decode("ascii"), headers=_lower(request.headers), body=body)


def _outgoing(inner: Any, call: BridgeCall, request: Any) -> Any:
    """Return the request for the upstream, with the SDK's own time limits."""
    limits = {name: value for name, value in request.extensions.items() if name == "timeout"}
    return inner.build_request("POST", call.url, headers=call.headers, content=call.body, extensions=limits)


def _lower(headers: Any) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _plain(library: ModuleType, plain: Plain) -> Any:
    return library.Response(plain.status, headers=plain.headers, content=plain.body)
