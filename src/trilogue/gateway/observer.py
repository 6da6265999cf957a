"""The interface between requests and what observes them: logs, metrics, usage, capture.

An `Observer` overrides the moments that it needs. For every request that reaches an endpoint they come in this order:

    request_began                               always
      request_planned                           if accounts are needed: model and targets are known
        attempt_began                           once per attempt, before the request is translated for it
          response_began                        at most once per request: the client gets the first content
        attempt_ended                           once per attempt; the attempt says what a failure meant
    request_settled                             always: usage, losses and failure are known
    request_ended                               always, last: status, failure, losses, usage, decision, times

`request_settled` comes before the client gets the end of a model's response, or an error: what it counts is never less
than what clients have got, even if the process is killed. Other requests are settled when they have ended. The last
`attempt_ended` may come after it.

Bytes are observed per request: `bytes_observer` is called right after `request_began`, and what it returns gets

    inbound_request                             the client's body, as soon as it is read
      upstream_headers                          per attempt: the one moment that may change something
      provider_request                          per attempt, just before it is sent; once more for the same attempt
                                                if a response that the upstream has paused is continued
      upstream_head, upstream_response…         per attempt: status and headers, then the body in pieces
    outbound_head, outbound_response…           status and headers, then the body in pieces, without HTTP framing

Headers and bodies are unchanged: an observer that keeps them must remove the credentials. Bytes of token counts,
lists of models and other endpoints are observed on the client's side only.

Observers are called on the event loop, in the middle of a request. They must be quick, must not block and must not
change what they get. An observer that raises is logged and does not disturb the request.

A moment that no observer overrides costs no call, and without observers of bytes nothing is called per event or piece:
`Observers` has None for such moments, and callers check that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from msgspec.structs import replace

from trilogue.capture.writer import Sent
from trilogue.gateway.record import RequestRecord
from trilogue.model import Failure
from trilogue.net.client.interface import UpstreamRequest, UpstreamResponse
from trilogue.net.server.request import Head
from trilogue.net.server.responder import Headers
from trilogue.routing.pool.decision import Attempt

log = structlog.get_logger("trilogue.gateway")

Notify = Callable[..., None]


class ByteObserver:
    """An observer of the bytes of one request. `at`: a time of `time.monotonic`."""

    def inbound_request(self, body: bytes) -> None:
        """Take the body of the client's request."""

    def upstream_headers(self, attempt: Attempt, request: UpstreamRequest) -> Mapping[str, str | None]:
        """Return headers to set in what will be sent to an upstream, by name in lower case; None removes one."""
        return {}

    def provider_request(self, attempt: Attempt, sent: Sent) -> None:
        """Take what is about to be sent to an upstream, and what it was translated from."""

    def upstream_head(self, attempt: Attempt, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Take the status and headers of an upstream's response."""

    def upstream_response(self, attempt: Attempt, data: bytes, at: float) -> None:
        """Take a piece of the body of an upstream's response, before anything is done with it."""

    def outbound_head(self, status: int, headers: Headers) -> None:
        """Take the status and headers of the response to the client, except for those that every response has."""

    def outbound_response(self, data: bytes, at: float) -> None:
        """Take a piece of the body of the response to the client, keep-alives included, as it is written.

        Messages over a WebSocket come as server-sent events.
        """


class Observer:
    """An observer of all requests. Override what you need; the rest costs nothing."""

    def request_began(self, record: RequestRecord) -> None:
        """Take a request whose head was read: id, client, path and key are known."""

    def bytes_observer(self, record: RequestRecord, head: Head) -> ByteObserver | None:
        """Return an observer for the bytes of this request, or None. `head`: the client's."""
        return None

    def request_planned(self, record: RequestRecord) -> None:
        """Take a request that needs an account: model, stream and decision are known."""

    def attempt_began(self, record: RequestRecord, attempt: Attempt) -> None:
        """Take an attempt that is about to be made."""

    def response_began(self, record: RequestRecord) -> None:
        """Take a response of which the client gets the first content now, or all of it."""

    def attempt_ended(self, record: RequestRecord, attempt: Attempt, failure: Failure | None) -> None:
        """Take an attempt that has ended. Its `action`, `why` and `status` say what the failure meant, if there is one.

        Without a failure, the action is `answered`, or `released`: nothing was sent, or the request was cancelled.
        """

    def request_settled(self, record: RequestRecord) -> None:
        """Take a request that has a response or an error. Its status and the time of its end may not be known yet."""

    def request_ended(self, record: RequestRecord) -> None:
        """Take a request that is over. The record does not change any more."""


class Observers:
    """All observers of a gateway: one callable for each moment, or None if there is nothing to call."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self.request_began = _calls(observers, "request_began")
        self.request_planned = _calls(observers, "request_planned")
        self.attempt_began = _calls(observers, "attempt_began")
        self.response_began = _calls(observers, "response_began")
        self.attempt_ended = _calls(observers, "attempt_ended")
        self.request_settled = _settles(_overridden(Observer, observers, "request_settled"))
        self.request_ended = _ends(_overridden(Observer, observers, "request_ended"))
        self._byte_factories = _overridden(Observer, observers, "bytes_observer")
        self.observe_bytes = self._observe_bytes if self._byte_factories else None
        """returns the callables for the bytes of one request"""

    def _observe_bytes(self, record: RequestRecord, head: Head) -> ByteObservers | None:
        made = [_guarded(factory)(record, head) for factory in self._byte_factories]
        found = [one for one in made if one is not None]
        return ByteObservers(found) if found else None


class ByteObservers:
    """The observers of the bytes of one request: one callable for each kind of bytes, or None."""

    inbound_request: Notify | None = None
    provider_request: Notify | None = None
    upstream_head: Notify | None = None
    upstream_response: Notify | None = None
    outbound_head: Notify | None = None
    outbound_response: Notify | None = None
    upstream_headers: Callable[[Attempt, UpstreamRequest], UpstreamRequest] | None = None
    """returns the request with what the observers want to have in its headers"""

    def __init__(self, observers: Sequence[ByteObserver]) -> None:
        for kind in {kind: None for one in observers for kind in _kinds_of(type(one))}:
            methods = _overridden(ByteObserver, observers, kind)
            setattr(self, kind, _joined(methods) if kind != "upstream_headers" else partial(_with_headers, methods))


_KINDS: dict[type[ByteObserver], tuple[str, ...]] = {}
"""the kinds of bytes that each class of observers wants: there are few classes, and many requests"""


def _kinds_of(observer: type[ByteObserver]) -> tuple[str, ...]:
    found = _KINDS.get(observer)
    if found is None:
        methods = {name: one for name, one in vars(ByteObserver).items() if callable(one) and not name.startswith("_")}
        found = _KINDS[observer] = tuple(name for name, one in methods.items() if getattr(observer, name) is not one)
    return found


def _with_headers(methods: Sequence[Callable[..., Any]], attempt: Attempt, request: UpstreamRequest) -> UpstreamRequest:
    """Return a request with the headers that observers set."""
    for method in methods:
        changes = _guarded(method)(attempt, request)
        if changes:
            kept = [header for header in request.headers if header[0] not in changes]
            added = [(name, value) for name, value in changes.items() if value is not None]
            request = replace(request, headers=(*kept, *added))
    return request


def _calls(observers: Sequence[Observer], moment: str) -> Notify | None:
    return _joined(_overridden(Observer, observers, moment))


def _settles(methods: Sequence[Callable[..., Any]]) -> Notify | None:
    """Return one callable for all of these, which notes that it was called, or None if there are none."""
    if not methods:
        return None

    def settle(record: RequestRecord) -> None:
        record.settled = True
        for method in methods:
            try:
                method(record)
            except Exception as error:
                log.error("observer failed", observer=method.__qualname__, error=type(error).__name__, exc_info=True)

    return settle


def _ends(methods: Sequence[Callable[..., Any]]) -> Notify | None:
    """Return one callable for all of these, or None if there are none.

    As `_joined`, for the one argument that all of them have: arguments of any number take a third more time.
    """
    if not methods:
        return None

    def end(record: RequestRecord) -> None:
        for method in methods:
            try:
                method(record)
            except Exception as error:
                log.error("observer failed", observer=method.__qualname__, error=type(error).__name__, exc_info=True)

    return end


def _overridden(base: type, observers: Sequence[object], name: str) -> list[Callable[..., Any]]:
    """Return the methods that do something: those of the base class do nothing."""
    return [getattr(one, name) for one in observers if getattr(type(one), name) is not getattr(base, name)]


def _joined(methods: Sequence[Callable[..., Any]]) -> Notify | None:
    """Return one callable for all of these, or None if there are none."""
    if not methods:
        return None
    if len(methods) == 1:
        return _guarded(methods[0])

    def notify(*facts: object) -> None:
        # Not a loop over guarded methods: that would be one more call per observer.
        for method in methods:
            try:
                method(*facts)
            except Exception as error:
                log.error("observer failed", observer=method.__qualname__, error=type(error).__name__, exc_info=True)

    return notify


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable that logs what the method raises: a full disk must not end a request."""

    def call(*facts: object) -> Any:
        try:
            return method(*facts)
        except Exception as error:
            log.error("observer failed", observer=method.__qualname__, error=type(error).__name__, exc_info=True)
            return None

    return call


NO_OBSERVERS = Observers()


def observed_response(response: UpstreamResponse, attempt: Attempt, observers: ByteObservers) -> UpstreamResponse:
    """Show the head of a response to observers. Return a response that shows them its body, if they want that."""
    if observers.upstream_head is not None:
        observers.upstream_head(attempt, response.status, response.headers)
    notify = observers.upstream_response
    return response if notify is None else ObservedResponse(response, attempt, notify)


class ObservedResponse:
    """An `UpstreamResponse` around another one."""

    def __init__(self, response: UpstreamResponse, attempt: Attempt, notify: Notify) -> None:
        self.status = response.status
        self.headers = response.headers
        self.hold = response.hold
        self.release = response.release
        self.aclose = response.aclose
        self._response = response
        self._attempt = attempt
        self._notify = notify

    @property
    def complete(self) -> bool:
        """Return True if all of the body has arrived."""
        return self._response.complete

    async def read(self, limit: int) -> bytes:
        """Return the whole body, which the observers get too. Raise UpstreamProtocolError above `limit` bytes."""
        return self._seen(await self._response.read(limit))

    async def chunk(self) -> bytes:
        """Return the next bytes; b"" at the end."""
        return self._seen(await self._response.chunk())

    async def pour(self, take: Callable[[bytes], bool]) -> None:
        """Call `take` with all bytes as they arrive."""

        def seen(data: bytes) -> bool:
            return take(self._seen(data))

        await self._response.pour(seen)

    def _seen(self, data: bytes) -> bytes:
        if data:
            self._notify(self._attempt, data, time.monotonic())
        return data
