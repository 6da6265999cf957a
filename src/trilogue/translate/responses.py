"""Translation of complete responses from any protocol to any other.

Streams go through the same `Pipeline`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.base.json_text import SUSPECT, blame, parse_upstream
from trilogue.errors import InternalError, UpstreamProtocolError
from trilogue.model import (
    Collector,
    Json,
    Ledger,
    Loss,
    Protocol,
    Reasoning,
    Response,
    Sequencer,
    Text,
    events_of,
    protocol_of,
)
from trilogue.protocols.codec import ResponseSummary
from trilogue.protocols.registry import CODECS
from trilogue.protocols.stream.response_context import Reply
from trilogue.translate.content.usage import UsageCounter
from trilogue.translate.foreign import declare_response
from trilogue.translate.pipeline import Exchange, Pipeline, ResponsePolicies, unsigned
from trilogue.translate.reasoning.kept import KeptReasoning


class ResponseTranslation(Struct, frozen=True):
    """A translated response and its losses."""

    body: dict[str, Json]
    losses: list[Loss]
    response: Response
    """the response of the upstream in neutral form"""
    kept: KeptReasoning | None = None
    """the reasoning that the next request needs, if the exchange asks for it"""


class Stamp(Struct, frozen=True, kw_only=True):
    """What the translation of a response takes from outside, so that the same input gives the same output.

    `now`: seconds, for protocols that have a time where the upstream sent none. `clock`: returns the time at which a
    response is complete; without a clock, `now` is used. `seed`: replaces a missing id. `response_id`: the id of the
    response, where the upstream's own would not be unique. `stored`: the response can be fetched later.
    """

    now: int = 0
    clock: Callable[[], float] | None = None
    seed: str = "0"
    request_id: str = ""
    response_id: str = ""
    stored: bool = False


def translate_response(
    body: dict[str, Json] | bytes | str,
    *,
    source: Protocol | str,
    target: Protocol | str,
    exchange: Exchange | None = None,
    stamp: Stamp | None = None,
    policies: ResponsePolicies | None = None,
) -> ResponseTranslation:
    """Translate a complete response from the upstream's protocol (`source`) to the client's (`target`).

    `exchange`: from the translation of the request; without it, tool names stay unchanged and nothing is echoed.
    `policies`: what judges the response, usually a `policies.PolicyRun`. They must not wait for answers; see
    `ResponseTranslator` for those that do.

    Raises `UpstreamError` if the body is not a response of its protocol, and `UpstreamFailure` if it is an error.
    """
    if policies is not None:
        return ResponseTranslator(
            body, source=source, target=target, exchange=exchange, stamp=stamp, policies=policies
        ).result()
    if type(source) is not Protocol or type(target) is not Protocol:
        source, target = protocol_of(source), protocol_of(target)
    wire = body if isinstance(body, dict) else parse_upstream(body, whole=True)
    reply = reply_of(source, exchange, stamp or Stamp())
    reply.parsed = wire is not body and (exchange is None or exchange.parsed)
    try:
        response = CODECS[source].decode_response(wire)
        adapted, kept = _adapted(response, target, exchange, reply.ledger)
        if source is not target:
            adapted = _with_usage(adapted, UsageCounter(reply, target))
        translated = CODECS[target].encode_response(adapted, reply)
    except SUSPECT:
        blame(wire, UpstreamProtocolError)
        raise
    return ResponseTranslation(translated, reply.ledger.losses, response, kept)


class ResponseTranslator:
    """A translator for one complete response that policies judge, which may take a while.

    Answer what the policies wait for, and then ask for the `result`. Raises what `translate_response` raises.
    """

    def __init__(
        self,
        body: dict[str, Json] | bytes | str,
        *,
        source: Protocol | str,
        target: Protocol | str,
        exchange: Exchange | None = None,
        stamp: Stamp | None = None,
        policies: ResponsePolicies,
    ) -> None:
        source, self._target = protocol_of(source), protocol_of(target)
        self._wire = body if isinstance(body, dict) else parse_upstream(body, whole=True)
        self._policies = policies
        self._reply = reply_of(source, exchange, stamp or Stamp())
        self._reply.parsed = self._wire is not body and (exchange is None or exchange.parsed)
        policies.attach(self._reply.ledger, unsigned(source, self._target, exchange), self._target)
        try:
            self._response = CODECS[source].decode_response(self._wire)
            adapted, self._kept = _adapted(self._response, self._target, exchange, self._reply.ledger)
        except SUSPECT:
            blame(self._wire, UpstreamProtocolError)
            raise
        if source is not self._target:
            adapted = _with_usage(adapted, UsageCounter(self._reply, self._target))
        policies.feed_response(adapted)

    def result(self) -> ResponseTranslation:
        """Return the translation of what the policies let go on. Raises `InternalError` while they wait."""
        judged, reply = self._policies.response, self._reply
        if judged is None:
            raise InternalError("a policy waits for an answer, and the response with it")
        try:
            translated = CODECS[self._target].encode_response(judged, reply)
        except SUSPECT:
            blame(self._wire, UpstreamProtocolError)
            raise
        return ResponseTranslation(translated, reply.ledger.losses, self._response, self._kept)


def _adapted(
    response: Response, target: Protocol, exchange: Exchange | None, ledger: Ledger
) -> tuple[Response, KeptReasoning | None]:
    """Return the response after the steps between decoder and encoder, which work on events, and what is kept of it."""
    source = response.protocol
    if FAST_PATHS.on and _is_plain(response, exchange):
        # Skipping the pipeline saves an ordinary response about a hundred calls, a third of all.
        if source is not target:
            declare_response(response, CODECS[source].fields.response_policies, ledger)
        return response, None
    collector, pipeline = Collector(), Pipeline(source, target, exchange, ledger)
    for event in pipeline(list(events_of(response))):
        collector.feed(event)
    return collector.response(), pipeline.kept


def _with_usage(adapted: Response, counter: UsageCounter) -> Response:
    """Return the response with usage completed."""
    counter.note_response(adapted)
    usage = counter.complete(adapted.usage)
    return adapted if usage is adapted.usage else replace(adapted, usage=usage)


def _is_plain(response: Response, exchange: Exchange | None) -> bool:
    """Return whether a response is only text that no step would change."""
    if not response.blocks:
        return False
    for block in response.blocks:
        if type(block) is not Text or block.citations:
            return False
    return exchange is None or not (exchange.stop or exchange.target.profile.think_tags)


def summarize_response(body: bytes, *, source: Protocol) -> ResponseSummary:
    """Return the id and usage of a complete response that is passed through unchanged.

    Raises `UpstreamError` if the body is not a response of its protocol, and `UpstreamFailure` if it is an error.
    """
    summary = CODECS[source].summarize(body) if FAST_PATHS.on else None
    if summary is not None:
        return summary
    response = CODECS[source].decode_response(parse_upstream(body, whole=True))
    return ResponseSummary(response.id, response.usage, is_empty(response), response.model, response.stop.reason)


def is_empty(response: Response) -> bool:
    """Return whether a response has no content except reasoning."""
    return all([type(block) is Reasoning for block in response.blocks])


def collect_stream(data: bytes, *, protocol: Protocol | str) -> dict[str, Json]:
    """Return the complete response that a recorded stream has, in the same protocol.

    Raises `UpstreamTruncated` or `UpstreamFailure` if the stream does not have a complete response.
    """
    protocol = protocol_of(protocol)
    return CODECS[protocol].encode_response(collect_response(data, protocol), Reply(source=protocol))


def collect_response(data: bytes, protocol: Protocol) -> Response:
    """Return the complete response that a recorded stream has. Raises what `collect_stream` raises."""
    decoder = CODECS[protocol].decoder()
    collector, sequencer = Collector(), Sequencer()
    for events in (decoder.feed(data), decoder.close()):
        for event in sequencer.feed(events):
            collector.feed(event)
    return collector.response()


def reply_of(source: Protocol, exchange: Exchange | None, stamp: Stamp) -> Reply:
    """Return what the encoder of a response must know."""
    return Reply(
        body=exchange.body if exchange else {},
        model=exchange.model if exchange else "",
        created=stamp.now,
        clock=stamp.clock,
        seed=stamp.seed,
        request_id=stamp.request_id,
        response_id=stamp.response_id,
        stored=stamp.stored,
        source=source,
        tokens=exchange.tokens if exchange else None,
    )
