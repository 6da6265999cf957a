"""The steps between decoder and encoder, each on its own."""

from __future__ import annotations

import pytest

from trilogue.model import (
    BlockStart,
    BlockStop,
    CallKind,
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
    ToolCall,
    Usage,
    events_of,
)
from trilogue.protocols.fate import SILENT, Fate
from trilogue.translate.names import Offered, ToolNames
from trilogue.translate.provenance import Closer
from trilogue.translate.seal import Sealer
from trilogue.translate.stages import NameStage, ParallelStage, SealStage, StopStage, declare_answer

SEALER = Sealer([b"k" * 32])
ORIGIN = Provenance(protocol=Protocol.MESSAGES)
SIGNATURE = Opaque(kind=OpaqueKind.SIGNATURE, value="sig")
FINISH = Finish(stop=Stop(reason=StopReason.END))


def seal_stage(always: bool = False, ledger: Ledger | None = None) -> SealStage:
    return SealStage(Closer(SEALER, ORIGIN, always), {"echo": SILENT}, ledger or Ledger())


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


def test_extras_of_an_answer_are_declared_unless_silent() -> None:
    """Fields that only the source knows are said to be lost."""
    ledger = Ledger()
    seal_stage(ledger=ledger)([BlockStart(0, Text(text="", path="content[0]", extras={"caller": 1, "echo": 2}))])
    assert [(loss.code, loss.path) for loss in ledger.losses] == [("resp.meta", "content[0].caller")]


def test_names_and_free_text_are_restored() -> None:
    """An emulated tool comes back as free text under the client's name."""
    names = ToolNames({"fs__patch": Offered("patch", "fs", CallKind.CUSTOM, True)})
    call = ToolCall(id="1", name="fs__patch")
    out = NameStage(names)([BlockStart(0, call), Delta(0, '{"inp'), Delta(0, 'ut":"a\\nb"}'), BlockStop(0), FINISH])
    restored = ToolCall(id="1", name="patch", namespace="fs", kind=CallKind.CUSTOM)
    assert out == [BlockStart(0, restored), Delta(0, "a\nb"), BlockStop(0), FINISH]


def test_name_in_a_repeated_block_is_restored_too() -> None:
    """Some sources repeat the whole call at its end; the client must not see the other name there."""
    names = ToolNames({"fs__read": Offered("read", "fs", CallKind.FUNCTION, False)})
    call = ToolCall(id="1", name="fs__read", arguments="{}")
    [stop] = NameStage(names)([BlockStop(0, block=call)])
    assert isinstance(stop, BlockStop)
    assert stop.block == ToolCall(id="1", name="read", namespace="fs", arguments="{}")


def test_free_text_call_of_a_function_stays_free_text() -> None:
    """Its input is no JSON, whatever was offered."""
    names = ToolNames({"f": Offered("f", None, CallKind.FUNCTION, False)})
    events: list[Event] = [BlockStart(0, ToolCall(id="1", name="f", kind=CallKind.CUSTOM))]
    assert NameStage(names)(events) == events


@pytest.mark.parametrize("invented", ["functions.read", "default_api:read", "default_api.read"])
def test_invented_namespaces_are_taken_off(invented: str) -> None:
    """Clients know no tool of that name."""
    names = ToolNames({"read": Offered("read", None, CallKind.FUNCTION, False)})
    [start] = NameStage(names)([BlockStart(0, ToolCall(id="1", name=invented))])
    assert start == BlockStart(0, ToolCall(id="1", name="read"))


def test_unknown_tool_names_pass() -> None:
    """Models make names up; that is for the client to see."""
    events: list[Event] = [BlockStart(0, ToolCall(id="1", name="made_up")), Delta(0, "{}"), BlockStop(0)]
    assert NameStage(ToolNames({"f": Offered("f", None, CallKind.FUNCTION, False)}))(events) == events


def test_parallel_wrapper_is_expanded() -> None:
    """One pseudo-call becomes the calls inside it."""
    wrapper = ToolCall(id="call_1", name="multi_tool_use.parallel")
    arguments = '{"tool_uses":[{"recipient_name":"functions.f","parameters":{"x":1}},{"recipient_name":"g"}]}'
    out = ParallelStage(ToolNames({}))([BlockStart(0, wrapper), Delta(0, arguments), BlockStop(0)])
    calls = [event.block for event in out if isinstance(event, BlockStart)]
    assert [(c.id, c.name, c.arguments) for c in calls if isinstance(c, ToolCall)] == [
        ("call_1_0", "f", '{"x":1}'),
        ("call_1_1", "g", "{}"),
    ]


@pytest.mark.parametrize("arguments", ["{}", "nonsense", '{"tool_uses":[1]}'])
def test_parallel_wrapper_of_another_shape_stays(arguments: str) -> None:
    """What cannot be expanded is given out as it is."""
    wrapper = ToolCall(id="1", name="multi_tool_use.parallel")
    out = ParallelStage(ToolNames({}))([BlockStart(0, wrapper), Delta(0, arguments), BlockStop(0)])
    [start] = [event.block for event in out if isinstance(event, BlockStart)]
    assert isinstance(start, ToolCall)
    assert start.arguments == arguments


@pytest.mark.parametrize(
    ("pieces", "text", "sequence"),
    [
        (["one END two"], "one ", "END"),
        (["one E", "ND two"], "one ", "END"),
        (list("one END two"), "one ", "END"),
        (["a##b END"], "a", "##"),
        (["no such thing E", "N"], "no such thing EN", None),
        (["END"], "", "END"),
    ],
)
def test_stop_sequences_are_cut(pieces: list[str], text: str, sequence: str | None) -> None:
    """Held back just as far as needed, cut at the first, and said which."""
    stage = StopStage(("END", "##"))
    events: list[Event] = [BlockStart(0, Text(text="")), *(Delta(0, piece) for piece in pieces), BlockStop(0), FINISH]
    out = [event for one in events for event in stage([one])]
    assert "".join(event.text for event in out if isinstance(event, Delta)) == text
    finish = out[-1]
    assert isinstance(finish, Finish)
    assert finish.stop.sequence == sequence
    assert stage.cut is (sequence is not None)
    assert sum(isinstance(event, BlockStop) for event in out) == 1


@pytest.mark.parametrize("pieces", [["a xENDy b"], list("a xENDy b"), ["a xE", "NDy b"]])
def test_of_two_stop_sequences_the_first_to_be_complete_counts(pieces: list[str]) -> None:
    """However the text is cut: a model that knew them would have stopped there."""
    for sequences in (("xENDy", "END", "ND"), ("ND", "END", "xENDy")):
        stage = StopStage(sequences)
        stage([BlockStart(0, Text(text=""))])
        out = [event for piece in pieces for event in stage([Delta(0, piece)])]
        assert "".join(event.text for event in out if isinstance(event, Delta)) == "a x"
        finish = out[-1]
        assert isinstance(finish, Finish)
        assert finish.stop.sequence == "END"


def test_stop_sequences_leave_other_blocks_alone() -> None:
    """Tool arguments may contain anything."""
    events: list[Event] = [BlockStart(0, ToolCall(id="1", name="f")), Delta(0, '"END"'), BlockStop(0)]
    assert StopStage(("END",))(events) == events


def test_a_plain_answer_declares_what_its_events_would() -> None:
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
    fates = {"echo": SILENT, "joules": Fate(loss="usage.detail")}
    streamed, whole = Ledger(), Ledger()
    SealStage(Closer(SEALER, ORIGIN, False), fates, streamed)(list(events_of(answer)))
    declare_answer(answer, fates, whole)
    assert whole.losses == streamed.losses
    assert [loss.path for loss in whole.losses] == ["fingerprint", "t[0].odd", "usage.joules"]
