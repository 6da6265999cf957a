"""Opaque values of an answer are sealed, and fields that only its source knows are declared."""

from __future__ import annotations

import pytest

from trilogue.model import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    CitationKind,
    Delta,
    Event,
    Failed,
    FailureKind,
    Finish,
    HostedKind,
    HostedResult,
    Ledger,
    Opaque,
    OpaqueKind,
    Protocol,
    Provenance,
    Reasoning,
    ReasoningDelta,
    Response,
    SearchHit,
    Stop,
    StopReason,
    Text,
    Usage,
    events_of,
)
from trilogue.protocols.fields import SILENT, FieldPolicy
from trilogue.translate.foreign import declare_response
from trilogue.translate.reasoning.provenance import ResponseSealer, SealStage
from trilogue.translate.reasoning.seal import Sealer

SEALER = Sealer([b"k" * 32])
ORIGIN = Provenance(protocol=Protocol.MESSAGES)
SIGNATURE = Opaque(kind=OpaqueKind.SIGNATURE, value="sig")
FINISH = Finish(stop=Stop(reason=StopReason.END))


def seal_stage(always: bool = False, ledger: Ledger | None = None) -> SealStage:
    return SealStage(ResponseSealer(SEALER, ORIGIN, always), {"echo": SILENT}, ledger or Ledger())


def stop_opaque(events: list[Event]) -> Opaque | None:
    [stop] = [event for event in events if isinstance(event, BlockStop)]
    return stop.opaque


def test_what_came_before_a_value_that_cannot_be_sealed() -> None:
    """A signature with half a character in it ends the answer, after the words that came in the same read."""
    broken = Opaque(kind=OpaqueKind.SIGNATURE, value="\ud800")
    said: list[Event] = [BlockStart(0, Text(text="")), Delta(0, "Hi"), BlockStop(0), BlockStart(1, Reasoning())]
    *before, last = seal_stage()([*said, BlockStop(1, broken), FINISH])
    assert before == said
    assert isinstance(last, Failed)
    assert last.failure.kind is FailureKind.UPSTREAM_PROTOCOL


def test_signature_is_sealed_at_the_end_of_its_block() -> None:
    """The client never sees the provider's own value."""
    opaque = stop_opaque(seal_stage()([BlockStart(0, Reasoning()), ReasoningDelta(0, "t"), BlockStop(0, SIGNATURE)]))
    assert opaque is not None
    assert SEALER.open(opaque.value).opaque == SIGNATURE


@pytest.mark.parametrize(("always", "kind"), [(True, OpaqueKind.NONE), (False, None)])
def test_visible_reasoning_without_value(always: bool, kind: OpaqueKind | None) -> None:
    """Protocols that demand a signature get a sealed mark, others nothing; no signature is ever made up."""
    opaque = stop_opaque(seal_stage(always)([BlockStart(0, Reasoning()), ReasoningDelta(0, "t"), BlockStop(0)]))
    assert (opaque and SEALER.open(opaque.value).opaque.kind) == kind


def test_reasoning_without_text_and_value_stays_bare() -> None:
    """Nothing to prove."""
    assert stop_opaque(seal_stage(True)([BlockStart(0, Reasoning()), BlockStop(0)])) is None


def test_search_hits_and_citations_are_sealed() -> None:
    """Their tokens are the provider's too."""
    token = Opaque(kind=OpaqueKind.CITATION, value="idx")
    citation = Citation(kind=CitationKind.WEB, native={}, url="u", token=token)
    hit = SearchHit(url="u", content=Opaque(kind=OpaqueKind.SEARCH, value="enc"))
    result = HostedResult(call_id="1", tool=HostedKind.WEB_SEARCH, hits=(hit,))
    out = seal_stage()([BlockStart(0, result), CitationDelta(1, citation)])
    assert isinstance(out[0], BlockStart)
    assert isinstance(out[0].block, HostedResult)
    assert isinstance(out[1], CitationDelta)
    sealed_hit, sealed_token = out[0].block.hits[0].content, out[1].citation.token
    assert sealed_hit is not None
    assert sealed_token is not None
    assert SEALER.open(sealed_hit.value).opaque.value == "enc"
    assert SEALER.open(sealed_token.value).opaque.value == "idx"


def test_extras_of_a_response_are_declared_unless_silent() -> None:
    """Fields that only the source knows are said to be lost."""
    ledger = Ledger()
    seal_stage(ledger=ledger)([BlockStart(0, Text(text="", path="content[0]", extras={"caller": 1, "echo": 2}))])
    assert [(loss.code, loss.path) for loss in ledger.losses] == [("resp.meta", "content[0].caller")]


def test_a_plain_response_declares_what_its_events_would() -> None:
    """Whole answers of text skip the steps: what only the source knows is declared all the same, in the same order."""
    answer = Response(
        protocol=Protocol.CHAT,
        id="a",
        model="m",
        blocks=(Text(text="x", path="t[0]", extras={"odd": 1}), Text(text="y", path="t[1]", extras={"echo": 1})),
        stop=Stop(reason=StopReason.END),
        usage=Usage(extras={"joules": 5}),
        extras={"fingerprint": "f", "echo": 1},
    )
    policies = {"echo": SILENT, "joules": FieldPolicy(loss="usage.detail")}
    streamed, whole = Ledger(), Ledger()
    SealStage(ResponseSealer(SEALER, ORIGIN, False), policies, streamed)(list(events_of(answer)))
    declare_response(answer, policies, whole)
    assert whole.losses == streamed.losses
    assert [loss.path for loss in whole.losses] == ["fingerprint", "t[0].odd", "usage.joules"]
