"""What an SDK's request becomes on its way to the upstream, and what the SDK gets for the upstream's response.

In: path, headers and body of the SDK's request; status, headers and body of the response. Out: a `BridgeCall` to send,
and `Plain` responses. Same protocol on both sides: bodies pass through, except for the model's name and sealed values.
Nothing here does I/O or knows the HTTP library.

A streamed response of another protocol is translated. One of the SDK's own protocol passes through in whole events,
while a translator reads along, so that a stream that ends early becomes an error here too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

from msgspec import Struct

from trilogue.app.embed.sdk.upstream import BridgeUpstream
from trilogue.base.headers import OF_CONNECTION, named_by_connection
from trilogue.base.json_text import dump, parse_request, parse_upstream
from trilogue.errors import ClientError, TrilogueError, UpstreamError, UpstreamProtocolError
from trilogue.http import HttpSettings, Report
from trilogue.model import Failure, FailureKind, Json, Ledger, Loss, Protocol, Usage, loss_header_value
from trilogue.protocols.codec import Codec
from trilogue.protocols.failure import failure_of
from trilogue.protocols.registry import CODECS, protocol_of_client
from trilogue.translate.pipeline import Exchange, default_sealer
from trilogue.translate.reasoning.removal import without_sealed
from trilogue.translate.requests import translate_request
from trilogue.translate.responses import Stamp, collect_stream, translate_response
from trilogue.translate.streams import StreamTranslator

_CREDENTIALS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"})
_NOT_FORWARDED = _CREDENTIALS | OF_CONNECTION | {"accept-encoding", "openai-organization", "openai-project"}
"""headers of the SDK that the upstream does not get: they belong to the SDK's own key or to one connection"""
_NOT_RETURNED = OF_CONNECTION | {"content-encoding"}
_RETURNED = ("x-ratelimit-", "anthropic-ratelimit-")
_IDS = ("x-request-id", "request-id")
_OUT_OF_CREDIT = frozenset({FailureKind.QUOTA, FailureKind.BILLING})
_UNTOLD = frozenset({FailureKind.UPSTREAM_PROTOCOL, FailureKind.UPSTREAM_TRUNCATED})
"""failures that a stream does not report itself: its bytes only look wrong, or are missing"""
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n")
_SPACE = b"\xef\xbb\xbf \r\n\t"


class Plain(Struct, frozen=True):
    """A whole response for the SDK."""

    status: int
    headers: dict[str, str]
    body: bytes


class BridgeCall(Struct, frozen=True, kw_only=True):
    """One request, ready to be sent. `exchange` is None if it passes through."""

    client: Protocol
    upstream: Protocol
    model: str
    url: str
    headers: dict[str, str]
    body: bytes
    stream: bool
    losses: tuple[Loss, ...]
    exchange: Exchange | None

    def stamp(self) -> Stamp:
        """Return what the translation of the response takes from outside."""
        return Stamp(now=int(time.time()), clock=time.time, seed=f"{time.time_ns():x}")


class SdkRequest(Struct, frozen=True, kw_only=True):
    """An SDK's request as it came. `headers` have names in lower case."""

    path: str
    query: str
    headers: dict[str, str]
    body: bytes


def client_protocol(path: str) -> Protocol | None:
    """Return the protocol whose endpoint this path is, or None."""
    return next((one.protocol for one in CODECS.values() if _path(one) and path.endswith(_path(one))), None)


def _path(codec: Codec) -> str:
    return codec.endpoint.path


class Bridge:
    """All requests of one HTTP client to one upstream."""

    def __init__(self, upstream: BridgeUpstream, settings: HttpSettings) -> None:
        self._upstream = upstream
        self._strict = settings.get("strict", False)
        self._repair = settings.get("repair", False)
        self._sealer = settings.get("sealer") or default_sealer()
        self._headers = {name.lower(): value for name, value in settings.get("headers", {}).items()}
        self._observe: Callable[[Report], None] = settings.get("observe") or _ignore

    def call(self, asked: SdkRequest) -> BridgeCall:
        """Return what to send for a request. Raises ClientError if it cannot be mapped, or is not a model request."""
        client = client_protocol(asked.path)
        if client is None:
            served = ", ".join(filter(None, map(_path, CODECS.values())))
            raise _NotServed(f"{asked.path} is not available in process, only {served}; use the gateway for others")
        wire = parse_request(asked.body)
        named = wire.get("model")
        if self._upstream.model:
            wire = {**wire, "model": self._upstream.model}
        if client in self._upstream.urls:
            return self._passed(client, wire, asked, changed=wire.get("model") != named)
        return self._most_exact(client, wire)

    def refusal(self, error: TrilogueError, asked: SdkRequest) -> Plain:
        """Return an error of ours in the SDK's protocol."""
        client = client_protocol(asked.path) or protocol_of_client(asked.headers)
        return self.failed(failure_of(error, client), client, {})

    def failed(self, failure: Failure, client: Protocol, headers: Mapping[str, str]) -> Plain:
        """Return a failure as an HTTP response in the SDK's protocol. `headers`: those of the upstream's response."""
        reply = CODECS[client].encode_error(failure, _request_id(headers))
        extra = {"content-type": "application/json"}
        if failure.kind in _OUT_OF_CREDIT:
            extra["x-should-retry"] = "false"
        status = failure.status if failure.protocol is None and failure.status else reply.status
        status = CODECS[client].endpoint.error_status(status)
        return Plain(status, {**reply.headers, **_kept(headers), **extra}, dump(reply.body))

    def whole(self, call: BridgeCall, status: int, headers: Mapping[str, str], body: bytes) -> Plain:
        """Return what the SDK gets for a whole response, and report it."""
        if status >= 300:
            return self._error(call, status, headers, body)
        try:
            plain, losses, usage = self._translated(call, headers, body)
        except UpstreamError as error:
            failure = failure_of(error, call.client)
            self.report(call, failure=failure)
            return self.failed(failure, call.client, headers)
        self.report(call, losses=losses, usage=usage, complete=True)
        return plain

    def report(
        self,
        call: BridgeCall,
        *,
        losses: tuple[Loss, ...] = (),
        usage: Usage | None = None,
        failure: Failure | None = None,
        complete: bool = False,
    ) -> None:
        """Hand the caller's `observe` what became of a call."""
        self._observe(
            Report(
                client=call.client,
                upstream=call.upstream,
                model=call.model,
                losses=call.losses + losses,
                usage=usage,
                failure=failure,
                complete=complete,
            )
        )

    def stream_headers(self, call: BridgeCall, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a streamed response."""
        if call.exchange is None:
            return {**_returned(headers), **_loss_header(call.losses)}
        return {"content-type": "text/event-stream; charset=utf-8", **_kept(headers), **_loss_header(call.losses)}

    def _passed(self, client: Protocol, wire: dict[str, Json], asked: SdkRequest, *, changed: bool) -> BridgeCall:
        ledger = Ledger()
        target = self._upstream.target(client, str(wire.get("model") or ""))
        cleaned = without_sealed(wire, client, ledger, self._sealer, target.profile)
        ledger.refuse_if_any(self._strict)
        private = _NOT_FORWARDED | named_by_connection(asked.headers.get("connection", ""))
        forwarded = {name: value for name, value in asked.headers.items() if name not in private}
        url = self._upstream.url(client)
        if asked.query:
            url += ("&" if "?" in url else "?") + asked.query
        return BridgeCall(
            client=client,
            upstream=client,
            model=target.model,
            url=url,
            headers={**forwarded, **self._headers, **self._upstream.credentials(client)},
            body=dump(cleaned) if changed or cleaned is not wire else asked.body,
            stream=wire.get("stream") is True,
            losses=tuple(ledger.losses),
            exchange=None,
        )

    def _most_exact(self, client: Protocol, wire: dict[str, Json]) -> BridgeCall:
        """Return the translation with the fewest losses; among equals, the upstream's preferred one."""
        calls: list[BridgeCall] = []
        refusals: list[ClientError] = []
        for protocol in self._upstream.urls:
            try:
                calls.append(self._translation(client, protocol, wire))
            except ClientError as error:
                refusals.append(error)
        if not calls:
            raise refusals[0]
        return min(calls, key=lambda call: len(call.losses))

    def _translation(self, client: Protocol, protocol: Protocol, wire: dict[str, Json]) -> BridgeCall:
        target = self._upstream.target(protocol, str(wire.get("model") or ""))
        up = translate_request(
            wire, source=client, target=target, strict=self._strict, repair=self._repair, sealer=self._sealer
        )
        headers = {"content-type": "application/json", **self._headers, **self._upstream.credentials(protocol)}
        endpoint = CODECS[protocol].endpoint
        if endpoint.version_header:
            headers = {endpoint.version_header: target.profile.version, **headers}
        if endpoint.extra_headers is not None:
            headers = {**endpoint.extra_headers(up.body), **headers}
        return BridgeCall(
            client=client,
            upstream=protocol,
            model=target.model,
            url=self._upstream.url(protocol),
            headers=headers,
            body=dump(up.body),
            stream=up.body.get("stream") is True,
            losses=tuple(up.losses),
            exchange=up.exchange,
        )

    def _translated(
        self, call: BridgeCall, headers: Mapping[str, str], body: bytes
    ) -> tuple[Plain, tuple[Loss, ...], Usage | None]:
        if call.exchange is None:
            codec = CODECS[call.client]
            # Raises UpstreamError for what is not a complete response: the SDK would raise a JSON error, or nothing.
            seen = codec.summarize(body) or codec.decode_response(parse_upstream(body, whole=True))
            return Plain(200, {**_returned(headers), **_loss_header(call.losses)}, body), (), seen.usage
        if headers.get("content-type", "").startswith("text/event-stream"):
            # Some servers stream whatever they are asked for.
            body = dump(collect_stream(body, protocol=call.upstream))
        down = translate_response(
            body, source=call.upstream, target=call.client, exchange=call.exchange, stamp=call.stamp()
        )
        losses = tuple(down.losses)
        told = {"content-type": "application/json", **_kept(headers), **_loss_header(call.losses + losses)}
        return Plain(200, told, dump(down.body)), losses, down.response.usage

    def _error(self, call: BridgeCall, status: int, headers: Mapping[str, str], body: bytes) -> Plain:
        if status < 400:
            error = UpstreamProtocolError(f"the upstream responded with a redirect ({status})")
            failure = failure_of(error, call.client)
        else:
            failure = CODECS[call.upstream].decode_error(status, headers, body)
        self.report(call, failure=failure)
        if call.exchange is None and status >= 400:
            return Plain(status, _returned(headers), body)
        return self.failed(failure, call.client, headers)


class _NotServed(ClientError):
    """An endpoint that has no translation."""

    status = 404

    def __init__(self, message: str) -> None:
        super().__init__(message, code="unknown_path")


def _ignore(report: Report) -> None:
    """Discard a report: the observer of a bridge that was given none."""


def _request_id(headers: Mapping[str, str]) -> str:
    return next((headers[name] for name in _IDS if headers.get(name)), "")


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a translated response that its SDK can use: rate limits, and the request id."""
    kept = {name: value for name, value in headers.items() if name.startswith(_RETURNED)}
    found = _request_id(headers)
    return {**kept, **dict.fromkeys(_IDS, found)} if found else kept


def _returned(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a response that passes through. Its body is already decompressed."""
    private = _NOT_RETURNED | named_by_connection(headers.get("connection", ""))
    return {name: value for name, value in headers.items() if name not in private}


def _loss_header(losses: tuple[Loss, ...]) -> dict[str, str]:
    return {"trilogue-loss": loss_header_value(losses)} if losses else {}


class BridgeStream:
    """A streamed response. Feed it until it is `done`, then `close` it; `ended` reports what became of it."""

    def __init__(self, bridge: Bridge, call: BridgeCall) -> None:
        self._bridge = bridge
        self._call = call
        self._translator = StreamTranslator(
            source=call.upstream, target=call.client, exchange=call.exchange, stamp=call.stamp()
        )
        self._tail = b""
        """the beginning of an event whose end has not come; only whole events pass through"""
        self._object: bytes | None = None
        """a whole response that came instead of a stream, as far as it has come"""
        self._known = False
        self._reported = False
        self.broken: Failure | None = None
        """how the connection to the upstream failed"""

    @property
    def started(self) -> bool:
        """Whether content has come, so that the response is under way."""
        return self._translator.started

    @property
    def done(self) -> bool:
        """Whether the SDK has its last event."""
        return self._translator.done

    @property
    def failure(self) -> Failure | None:
        """How the response failed, or None."""
        return self._translator.failed.failure if self._translator.failed else self.broken

    def feed(self, data: bytes) -> bytes:
        """Return the bytes for the SDK that these bytes of the upstream lead to."""
        if not self._known and (start := data.lstrip(_SPACE)):
            self._known = True
            # Some servers ignore `stream` and respond with one object.
            self._object = b"" if start[:1] == b"{" else None
        if self._object is not None:
            self._object += data
            return b""
        if self._call.exchange is not None:
            return self._translator.feed(data)
        out = self._translator.feed(data)
        # What is not an event of the protocol becomes an error; the translator's bytes have the events before it.
        return out if self._is_untold() else self._pass_on(data)

    def close(self) -> bytes:
        """Return the rest at the end of the upstream's stream: an error if the response is not complete."""
        if self._object is not None:
            return self._whole(self._object)
        out = self._translator.close()
        if self._call.exchange is not None:
            return out
        return out if self._is_untold() else self._tail

    def fail(self, error: UpstreamError) -> None:
        """Note that the connection to the upstream failed."""
        self.broken = failure_of(error, self._call.client)

    def ended(self) -> None:
        """Report what became of the response; only the first call does."""
        if self._reported:
            return
        self._reported = True
        translator = self._translator
        self._bridge.report(
            self._call,
            losses=tuple(translator.losses) if self._call.exchange is not None else (),
            usage=translator.usage,
            failure=self.failure,
            complete=translator.finish is not None,
        )

    def _whole(self, body: bytes) -> bytes:
        try:
            return self._translator.whole(parse_upstream(body, whole=True))
        except UpstreamError as error:
            return self._translator.fail(error)

    def _pass_on(self, data: bytes) -> bytes:
        """Return the whole events that these bytes complete."""
        waiting = self._tail + data
        ends = [found.end() for found in _END.finditer(waiting)]
        cut = ends[-1] if ends else 0
        self._tail = waiting[cut:]
        return waiting[:cut]

    def _is_untold(self) -> bool:
        failed = self._translator.failed
        return failed is not None and failed.failure.kind in _UNTOLD
