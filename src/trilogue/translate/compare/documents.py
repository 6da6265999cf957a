"""Documents that can be compared: read one from bytes, and compare two by meaning.

In: the bytes of requests, responses, errors or streams, of any protocols. Out: a list of `Difference`. A stream is
compared with a response as the response that it leads to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from trilogue.base.json_text import parse, parse_object, parse_request, parse_upstream
from trilogue.errors import BadRequest, UpstreamError, UpstreamFailure
from trilogue.model import Collector, Event, Failed, Failure, Json, Protocol, Response, Sequencer
from trilogue.protocols.registry import CODECS
from trilogue.translate.compare.detect import DocumentKind, is_stream, kind_of, protocol_of_body, protocol_of_stream
from trilogue.translate.compare.differences import Difference, differences
from trilogue.translate.compare.tree import Reading


class ComparedDocument(Struct, frozen=True):
    """One document: what it is, in which protocol, and its bytes."""

    kind: DocumentKind
    protocol: Protocol
    data: bytes


class SeveralProtocols(BadRequest):
    """A document whose protocol cannot be found out."""

    def __init__(self, kind: DocumentKind) -> None:
        super().__init__(f"this {kind.value} could be of several protocols: say which one it is")


def read_document(
    data: bytes, *, protocol: Protocol | None = None, kind: DocumentKind | None = None
) -> ComparedDocument:
    """Return a document with its kind and protocol, which are found out unless they are given.

    Raises `BadRequest` if it is neither JSON nor a stream, and `SeveralProtocols` if the protocol cannot be found out.
    """
    body = None if kind is DocumentKind.STREAM else parse_object(data)
    if body is None and kind is not DocumentKind.STREAM and not is_stream(data):
        parse(data, BadRequest)
        raise BadRequest("it must be a JSON object or a stream of server-sent events")
    kind = kind or kind_of(data, body)
    found = protocol or (protocol_of_body(body, kind) if body is not None else protocol_of_stream(data))
    if found is None:
        raise SeveralProtocols(kind)
    return ComparedDocument(kind, found, data)


def compare_documents(a: ComparedDocument, b: ComparedDocument, *, reasoning: bool = True) -> list[Difference]:
    """Return the differences in meaning. Raises `TrilogueError` if one of them is not valid in its protocol.

    Across protocols, fields that only one protocol has do not count unless they change the meaning, texts that follow
    each other are one text, and white space in texts does not count. `reasoning`: False to leave out earlier reasoning.
    """
    across = a.protocol is not b.protocol
    if (a.kind is DocumentKind.REQUEST) is not (b.kind is DocumentKind.REQUEST):
        raise BadRequest(f"a {a.kind.value} cannot be compared with a {b.kind.value}")
    a_tree, b_tree = (_MEANINGS[one.kind](one, Reading(across=across, reasoning=reasoning)) for one in (a, b))
    return list(differences(a_tree, b_tree, loose=across))


def compare_events(protocol: Protocol, a: Iterable[bytes], b: Iterable[bytes]) -> list[Difference]:
    """Return the differences between two streams of one protocol, event by event; ids of tool calls count."""
    a_tree, b_tree = (_event_tree(decoded_events(protocol, data)) for data in (a, b))
    return list(differences(a_tree, b_tree, "events"))


def compare_begun(protocol: Protocol, a: Iterable[bytes], b: Iterable[bytes]) -> list[Difference]:
    """Return the differences in the events that a stream has before it ends or fails; `b` may have more events."""
    a_events, b_events = (_until_failure(decoded_events(protocol, data)) for data in (a, b))
    a_tree, b_tree = _event_tree(a_events), _event_tree(b_events[: len(a_events)])
    return list(differences(a_tree, b_tree, "events"))


def _until_failure(events: list[Event]) -> list[Event]:
    return [event for event in events if type(event) is not Failed]


def _event_tree(events: list[Event]) -> list[Json]:
    return Reading(same_ids=True).events(events)


def decoded_events(protocol: Protocol, pieces: Iterable[bytes]) -> list[Event]:
    """Return the neutral events of a stream, in sequence. An invalid stream ends with `Failed`."""
    decoder, sequencer = CODECS[protocol].decoder(), Sequencer()
    events: list[Event] = []
    for piece in pieces:
        events += sequencer.feed(decoder.feed(piece))
    return events + sequencer.feed(decoder.close())


def _of_request(document: ComparedDocument, reading: Reading) -> Json:
    return reading.request(CODECS[document.protocol].decode_request(parse_request(document.data)))


def _of_response(document: ComparedDocument, reading: Reading) -> Json:
    body = parse_upstream(document.data, whole=True)
    return _of_decoded(lambda: CODECS[document.protocol].decode_response(body), reading)


def _of_stream(document: ComparedDocument, reading: Reading) -> Json:
    return _of_decoded(lambda: _collected(document), reading)


def _collected(document: ComparedDocument) -> Response:
    collector = Collector()
    for event in decoded_events(document.protocol, [document.data]):
        collector.feed(event)
        if type(event) is Failed:
            break
    return collector.response()


def _of_error(document: ComparedDocument, _: Reading) -> Json:
    return _failure_tree(CODECS[document.protocol].decode_error(0, {}, document.data))


def _of_decoded(decode: Callable[[], Response], reading: Reading) -> Json:
    """Return the meaning of a response, or of the failure that it turns out to be."""
    try:
        return reading.response(decode())
    except UpstreamFailure as error:
        if isinstance(error.failure, Failure):
            return _failure_tree(error.failure)
        raise
    except UpstreamError as error:
        return {"failure": {"kind": error.code, "message": str(error)}}


def _failure_tree(failure: Failure) -> Json:
    return {"failure": {"kind": failure.kind.value, "code": failure.code, "message": failure.message}}


_MEANINGS: dict[DocumentKind, Callable[[ComparedDocument, Reading], Json]] = {
    DocumentKind.REQUEST: _of_request,
    DocumentKind.RESPONSE: _of_response,
    DocumentKind.STREAM: _of_stream,
    DocumentKind.ERROR: _of_error,
}
