"""`trilogue diff`: compare two bodies, streams or captures by meaning."""

from __future__ import annotations

import sys
from typing import NamedTuple, TypedDict, Unpack

import click

from trilogue import Protocol, TrilogueError
from trilogue.app.cli.files import PROTOCOL, naming, read
from trilogue.app.cli.tables import counted
from trilogue.app.cli.verdicts import print_differences
from trilogue.capture import Capture, is_capture, read_capture
from trilogue.model import Json
from trilogue.translate.compare.detect import DocumentKind, is_stream
from trilogue.translate.compare.differences import Difference
from trilogue.translate.compare.documents import ComparedDocument, SeveralProtocols, compare_documents, read_document

DIFFERS = 1
KINDS = ("auto", *(kind.value for kind in DocumentKind))
NAMES = ("a", "b")


class DiffOptions(TypedDict):
    """The command-line options of `trilogue diff`, as click passes them."""

    protocol_a: Protocol | None
    protocol_b: Protocol | None
    kind: str
    json: bool


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--protocol-a", type=PROTOCOL, help="Protocol of A, if it cannot be found out.")
@click.option("--protocol-b", type=PROTOCOL, help="Protocol of B, if it cannot be found out.")
@click.option("--kind", type=click.Choice(KINDS), default="auto", show_default=True, help="What the files contain.")
@click.option("--json", is_flag=True, help="Print one JSON object per difference.")
def diff(a: str, b: str, **options: Unpack[DiffOptions]) -> None:
    """Compare two requests, responses, streams or captures by meaning, in any two protocols.

    A difference is printed as its path in the neutral model and both values. Ids, the order of fields, and how a stream
    is cut into events do not count.

    \b
    trilogue diff request-a.json request-b.json
    trilogue diff chat-stream.sse messages-stream.sse
    trilogue diff before.jsonl after.jsonl

    Exit codes: 0 same meaning, 1 differences, 2 invalid input.
    """
    a_data, b_data = read(a), read(b)
    if is_capture(a_data) and is_capture(b_data):
        with naming(a):
            a_capture = read_capture(a_data)
        with naming(b):
            b_capture = read_capture(b_data)
        found = _of_captures(a_capture, b_capture)
    else:
        kind = None if options["kind"] == "auto" else DocumentKind(options["kind"])
        a_document = _document(a, a_data, kind, ("--protocol-a", options["protocol_a"]))
        b_document = _document(b, b_data, kind, ("--protocol-b", options["protocol_b"]))
        found = compare_documents(a_document, b_document)
    print_differences(found, NAMES, json=options["json"])
    click.echo(counted(len(found), "difference"), err=True)
    if found:
        sys.exit(DIFFERS)


def _document(
    path: str, data: bytes, kind: DocumentKind | None, protocol: tuple[str, Protocol | None]
) -> ComparedDocument:
    """Return a document. `protocol`: the option that names its protocol, and what it says."""
    option, given = protocol
    with naming(path):
        if is_capture(data):
            raise TrilogueError("a capture can only be compared with another capture")
        try:
            return read_document(data, protocol=given, kind=kind)
        except SeveralProtocols as error:
            raise TrilogueError(f"{error}, with {option}") from None


class _Phase(NamedTuple):
    """The body of one phase of a capture."""

    kind: DocumentKind
    protocol: Protocol | None
    body: bytes


def _of_captures(a: Capture, b: Capture) -> list[Difference]:
    """Return the differences of each phase that both captures have; the last attempt of each counts."""
    a_phases, b_phases = _phases(a), _phases(b)
    found = []
    for name in dict.fromkeys([*a_phases, *b_phases]):
        left, right = a_phases.get(name), b_phases.get(name)
        if left is None or right is None:
            found.append(Difference(name, _presence(left), _presence(right)))
            continue
        found += [
            Difference(f"{name}.{one.path}" if one.path else name, one.a, one.b) for one in _compared(left, right)
        ]
    return found


def _compared(a: _Phase, b: _Phase) -> list[Difference]:
    """Return the differences of two bodies, by meaning if both have one: an upstream may respond with anything."""
    if (a.protocol, a.body) == (b.protocol, b.body):
        return []
    try:
        left, right = (read_document(one.body, protocol=one.protocol, kind=one.kind) for one in (a, b))
        return compare_documents(left, right)
    except TrilogueError:
        return [Difference("", a.body.decode("utf-8", "replace"), b.body.decode("utf-8", "replace"))]


def _presence(phase: _Phase | None) -> Json:
    return "(absent)" if phase is None else f"a {phase.kind.value}"


def _phases(capture: Capture) -> dict[str, _Phase]:
    found: dict[str, _Phase] = {}
    client = capture.inbound.protocol if capture.inbound is not None else None
    if capture.inbound is not None:
        found["inbound_request"] = _Phase(DocumentKind.REQUEST, client, capture.inbound.body)
    if capture.attempts:
        sent, received = capture.attempts[-1].request, capture.attempts[-1].response
        found["provider_request"] = _Phase(DocumentKind.REQUEST, sent.protocol, sent.body)
        found["upstream_response"] = _Phase(_kind(received.status, received.body), sent.protocol, received.body)
    outbound = capture.outbound
    found["outbound_response"] = _Phase(_kind(outbound.status, outbound.body), client, outbound.body)
    return {name: phase for name, phase in found.items() if phase.body}


def _kind(status: int, body: bytes) -> DocumentKind:
    if is_stream(body):
        return DocumentKind.STREAM
    return DocumentKind.ERROR if status >= 400 else DocumentKind.RESPONSE
