"""What verdicts do to a response: order, indices, stop reason, usage, and waiting."""

from __future__ import annotations

import re

import pytest

from tests.policies.making import USAGE, Judging, calls, events, passing, request, response, tool
from trilogue.errors import InternalError
from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    CitationKind,
    Collector,
    Delta,
    Event,
    Failed,
    Failure,
    FailureKind,
    Finish,
    Loss,
    Native,
    Opaque,
    OpaqueKind,
    Protocol,
    Reasoning,
    Refusal,
    Request,
    Response,
    StopReason,
    Text,
    Usage,
)
from trilogue.policies import (
    PASS,
    Answer,
    Ask,
    Context,
    Drop,
    Outcome,
    Policy,
    PolicyRun,
    Replace,
    Rewrite,
    StopWith,
    call_of,
    judge_events,
    judge_request,
    judge_response,
    phrase_scan,
)


def collected(given: list[Event]) -> Response:
    """Return the response of some events."""
    collector = Collector()
    for event in given:
        collector.feed(event)
    return collector.response()


def by_name(**verdicts: object) -> Judging:
    """Return a policy that judges calls by their names."""

    def verdict(block: Block, context: Context) -> object:
        call = call_of(block)
        assert call is not None
        return verdicts.get(call.name, PASS)

    return Judging(verdict)


class Phrase(Policy):
    """A policy that does something about the word "bad" in flowing text and reasoning."""

    text = "flow"
    reasoning = "flow"
    find = phrase_scan(["bad"])

    def __init__(self, verdict: object = "***") -> None:
        super().__init__()
        self._verdict = verdict

    def on_match(self, match: re.Match[str], context: Context) -> object:
        """Return the verdict."""
        return self._verdict


def test_nothing_to_do_changes_nothing() -> None:
    """A response that passes is the same object, and text that no policy wants to see goes on as it came."""
    whole = calls(Text(text="hello"), tool("ls"))
    run = PolicyRun([Judging(passing)])
    assert judge_response(run, whole) is whole
    assert not run.changed
    stream = PolicyRun([Phrase()])
    given = events(Text(text="x"), tool("ls"))
    assert judge_events(stream, given) == given
    passing_by = PolicyRun([])
    passing_by.feed(given[:2])
    deltas: list[Event] = [Delta(0, "more")]
    assert passing_by.feed(deltas) is deltas


def test_calls_that_are_all_dropped_end_the_turn() -> None:
    """The stop reason must not ask for results of calls that the client never saw."""
    judged = judge_response(PolicyRun([by_name(bash=Drop())]), calls(Text(text="hm"), tool("bash")))
    assert judged.blocks == (Text(text="hm"),)
    assert judged.stop.reason is StopReason.END
    assert judged.usage == USAGE


def test_words_that_replace_a_call_come_before_other_calls() -> None:
    """Anthropic refuses a history with text behind a call."""
    whole = calls(Text(text="hm"), tool("ls", 1), tool("bash", 2), tool("cat", 3))
    policy = by_name(bash=Replace((Text(text="no"),)))
    judged = judge_response(PolicyRun([policy]), whole)
    assert judged.blocks == (Text(text="hm"), Text(text="no"), tool("ls", 1), tool("cat", 3))
    assert judged.stop.reason is StopReason.TOOL_CALLS
    out = judge_events(PolicyRun([policy]), events(*whole.blocks, reason=StopReason.TOOL_CALLS))
    assert [event.index for event in out if isinstance(event, BlockStart)] == [0, 1, 2, 3]
    assert collected(out).blocks == judged.blocks


def test_upstream_text_behind_calls_stays_there() -> None:
    """The upstream's own order is kept."""
    blocks = (tool("ls", 1), Text(text="then"), tool("cat", 2))
    out = judge_events(PolicyRun([Judging(passing)]), events(*blocks, reason=StopReason.TOOL_CALLS))
    assert collected(out).blocks == blocks


def test_a_call_in_place_of_text_asks_for_its_result() -> None:
    """A policy may make the model call a tool."""
    policy = Judging(lambda block, context: Replace((tool("ask"),)), calls=False, text="whole")
    judged = judge_response(PolicyRun([policy]), response(Text(text="hm")))
    assert judged.blocks == (tool("ask"),)
    assert judged.stop.reason is StopReason.TOOL_CALLS


@pytest.mark.parametrize("refusal", [True, False])
def test_stop_ends_with_words(refusal: bool) -> None:
    """Calls that have not gone on never do, and later blocks are ignored."""
    whole = calls(Text(text="hm"), tool("ls", 1), tool("bash", 2), Text(text="more"))
    run = PolicyRun([by_name(bash=StopWith("no", refusal))])
    judged = judge_response(run, whole)
    assert judged.blocks == (Text(text="hm"), Refusal(text="no") if refusal else Text(text="no"))
    assert judged.stop.reason is StopReason.END
    assert judged.usage == USAGE
    assert run.stopped == StopWith("no", refusal)


def test_stop_in_flowing_text_closes_the_block() -> None:
    """What came before the match stays, and usage is an estimate from then on."""
    given = events(Text(text="this is bad, very bad"), tool("ls"))
    run = PolicyRun([Phrase(StopWith("no"))])
    out = judge_events(run, given)
    judged = collected(out)
    assert judged.blocks == (Text(text="this is "), Refusal(text="no"))
    assert judged.usage == Usage(fresh=10, output=6, estimated=True)
    assert run.done
    assert run.feed(given) == []


def test_policies_follow_each_other() -> None:
    """Each sees what the one before made of a block."""
    first = Judging(lambda block, context: Rewrite(Text(text="b")), calls=False, text="whole")
    second = Judging(
        lambda block, context: Replace((block, Text(text="c"))) if block == Text(text="b") else PASS,
        calls=False,
        text="whole",
    )
    seen: list[Block] = []

    def look(block: Block, context: Context) -> object:
        seen.append(block)
        return PASS

    third = Judging(look, calls=False, text="whole")
    judged = judge_response(PolicyRun([first, second, third]), response(Text(text="a")))
    assert judged.blocks == (Text(text="b"), Text(text="c"))
    assert seen == list(judged.blocks)


def test_flow_and_whole_policies_on_one_block() -> None:
    """A policy that works on flowing text has the same result on a block that another one holds."""
    watcher = Judging(passing, calls=False, text="whole")
    whole = response(Text(text="bad and bad"))
    assert judge_response(PolicyRun([Phrase(), watcher]), whole).blocks == (Text(text="*** and ***"),)
    assert judge_response(PolicyRun([watcher, Phrase()]), whole).blocks == (Text(text="*** and ***"),)


def test_context_has_the_blocks_before_and_the_request() -> None:
    """Also those that were not judged."""
    seen: list[tuple[int, str]] = []

    def verdict(block: Block, context: Context) -> object:
        assert context.request is not None
        seen.append((len(context.blocks), context.request.model))
        return PASS

    run = PolicyRun([Judging(verdict)])
    assert judge_request(run, request("hi")) == request("hi")
    judge_events(run, events(Text(text="a"), tool("ls", 1), tool("ls", 2)))
    assert seen == [(1, "m"), (2, "m")]


def test_notes_last_from_request_to_end() -> None:
    """Every hook of one request sees the same notes."""
    ended: list[Outcome] = []

    class Noting(Judging):
        def on_request(self, request: Request, context: Context) -> object:
            context.notes["n"] = 1
            return Rewrite(Request(protocol=request.protocol, model="other"))

        def on_end(self, outcome: Outcome, context: Context) -> object:
            assert context.notes["n"] == 2
            ended.append(outcome)
            return PASS

    def verdict(block: Block, context: Context) -> object:
        context.notes["n"] += 1
        return PASS

    run = PolicyRun([Noting(verdict)])
    changed = judge_request(run, request("hi"))
    assert changed is not None
    assert changed.model == "other"
    judge_response(run, calls(tool("ls")))
    assert [outcome.result for outcome in ended] == ["complete"]
    assert ended[0].usage == USAGE
    assert [record.stage for record in ended[0].records] == ["request", "block"]


def test_request_that_is_stopped_never_goes_out() -> None:
    """The words become a response of their own."""

    class No(Policy):
        def on_request(self, request: Request, context: Context) -> object:
            return StopWith("not today", reason="closed")

    run = PolicyRun([No()])
    assert judge_request(run, request("hi")) is None
    words = run.words_response(Protocol.MESSAGES, id="r", model="m")
    assert words.blocks == (Refusal(text="not today"),)
    assert run.records[0].verdict == "stop"
    with pytest.raises(InternalError):
        PolicyRun([]).words_response(Protocol.CHAT, id="r", model="m")


def test_later_blocks_wait_for_a_held_one() -> None:
    """Nothing overtakes a call that waits for an answer, and everything follows in order."""
    policy = Judging(lambda block, context: Ask("may I?", lambda answer: PASS if answer else Drop()))
    run = PolicyRun([policy], clock=iter(range(100)).__next__)
    given = events(Text(text="a"), tool("ls"), Text(text="b"))
    out = run.feed(given)
    assert [type(event).__name__ for event in out] == ["ResponseStart", "BlockStart", "Delta", "BlockStop"]
    assert run.pending is not None
    assert (run.pending.question, run.pending.timeout, run.pending.policy) == ("may I?", 1.5, "judging")
    assert run.feed([]) == []
    usage = Usage(fresh=7, output=1)
    rest = run.resolve(Answer(True, usage))
    assert collected(out + rest).blocks == (Text(text="a"), tool("ls"), Text(text="b"))
    assert run.spent == [usage]
    assert run.pending is None
    assert run.records[0].seconds > 0
    with pytest.raises(InternalError):
        run.resolve(True)


def test_blocking_hooks_are_handed_to_the_driver() -> None:
    """The driver calls them in a thread."""
    run = PolicyRun([Judging(lambda block, context: Drop(), blocking=True)])
    out = run.feed(events(tool("ls"), reason=StopReason.TOOL_CALLS))
    assert run.pending is not None
    assert run.pending.work is not None
    out += run.resolve(run.pending.work())
    assert collected(out).blocks == ()


def test_failures_pass_and_held_text_does_not() -> None:
    """What was not judged when a stream failed never goes on."""
    run = PolicyRun([Judging(passing), Phrase()])
    failed = Failed(Failure(kind=FailureKind.SERVER, message="x"))
    start = events(Text(text="all good, ba"))[:3]
    out = run.feed([*start, failed])
    assert out[-1] == failed
    assert "".join(event.text for event in out if isinstance(event, Delta)) == "all good, "
    held = PolicyRun([Judging(passing)])
    assert held.feed([*events(tool("ls", 1, '{"a": 1}'))[:3], failed])[1:] == [failed]


def test_close_tells_policies_that_the_stream_was_cut() -> None:
    """The client left while a call was held."""
    ended: list[str] = []

    class Ending(Judging):
        def on_end(self, outcome: Outcome, context: Context) -> object:
            ended.append(outcome.result)
            return PASS

    run = PolicyRun([Ending(lambda block, context: Ask("?", lambda answer: PASS))])
    run.feed(events(tool("ls")))
    run.close()
    assert ended == ["cut"]
    assert run.feed(events(tool("ls"))) == []


SIGNED = Reasoning(summary=("a bad thought",), opaque=Opaque(kind=OpaqueKind.SIGNATURE, value="sig"), path="content[0]")
ENCRYPTED = Reasoning(summary=("a bad thought",), opaque=Opaque(kind=OpaqueKind.ENCRYPTED, value="enc"))


def test_changed_reasoning_loses_its_signature_and_says_so() -> None:
    """Its provider would refuse it."""
    mark = Opaque(kind=OpaqueKind.NONE, value="trl2.mark")
    run = PolicyRun([Phrase()], unsigned=mark)
    judged = judge_response(run, response(SIGNED))
    assert judged.blocks == (Reasoning(summary=("a *** thought",), opaque=mark, path="content[0]"),)
    assert run.ledger.losses == [Loss("policy.reasoning", "content[0]")]


def test_encrypted_reasoning_does_not_depend_on_its_summary() -> None:
    """OpenAI reads the encrypted content only."""
    run = PolicyRun([Phrase()])
    judged = judge_response(run, response(ENCRYPTED))
    assert judged.blocks == (Reasoning(summary=("a *** thought",), opaque=ENCRYPTED.opaque),)
    assert run.ledger.losses == []


def test_dropped_reasoning_is_declared() -> None:
    """It cannot be sent back."""

    class NoReasoning(Judging):
        reasoning = "whole"

    run = PolicyRun([NoReasoning(lambda block, context: Drop())])
    assert judge_response(run, response(SIGNED, Text(text="x"))).blocks == (Text(text="x"),)
    assert run.ledger.losses == [Loss("policy.reasoning", "content[0]")]


def test_untouched_reasoning_keeps_its_signature() -> None:
    """Nothing was found in it."""
    good = Reasoning(summary=("a thought",), opaque=SIGNED.opaque)
    run = PolicyRun([Phrase()])
    assert judge_response(run, response(good)).blocks == (good,)
    assert not run.changed


CITATION = Citation(kind=CitationKind.WEB, native={"cited_text": "quite bad"}, cited_text="quite bad")
CITED = Text(text="all good", citations=(CITATION,), logprobs=[{"token": "all"}], path="content[1]")


def test_citations_that_quote_a_match_do_not_go_on() -> None:
    """The text itself is untouched, so its token probabilities stay."""
    run = PolicyRun([Phrase()])
    judged = judge_response(run, response(CITED))
    assert judged.blocks == (Text(text="all good", logprobs=[{"token": "all"}], path="content[1]"),)
    assert run.ledger.losses == [Loss("policy.annotations", "content[1]")]


def test_changed_text_loses_what_quotes_it() -> None:
    """Citations have positions and token probabilities have the old words."""
    fine = Citation(kind=CitationKind.WEB, native={}, start=0, end=3)
    block = Text(text="so bad", citations=(fine,), logprobs=[{"token": "bad"}], path="p")
    for policies in ([Phrase()], [Judging(passing, text="whole"), Phrase()]):
        run = PolicyRun(policies)
        assert judge_response(run, response(block)).blocks == (Text(text="so ***", path="p"),)
        assert run.ledger.losses == [Loss("policy.annotations", "p")]


def test_complete_block_at_the_end_is_changed_too() -> None:
    """Responses repeats the whole text in its last event of an item."""
    start = events()[0]
    stop = BlockStop(0, block=Text(text="so bad", citations=(CITATION,)))
    out = judge_events(PolicyRun([Phrase()]), [start, BlockStart(0, Text(text="")), Delta(0, "so b"), stop])
    assert collected([*out, events()[-1]]).blocks == (Text(text="so ***"),)
    assert [event.text for event in out if isinstance(event, Delta)] == ["so ", "***"]


def test_citations_wait_for_the_end_of_filtered_text() -> None:
    """A later match would make them wrong."""
    start = events()[0]
    fine = CitationDelta(0, Citation(kind=CitationKind.WEB, native={}))
    run = PolicyRun([Phrase()])
    assert run.feed([start, BlockStart(0, Text(text="")), fine])[-1] == BlockStart(0, Text(text=""))
    assert run.feed([Delta(0, "x"), BlockStop(0)]) == [Delta(0, "x"), fine, BlockStop(0)]


def test_calls_of_built_in_tools_are_calls() -> None:
    """The client runs them, so they are judged like any other."""
    shell = Native(type="shell_call", data={"action": {"commands": ["rm -rf /"]}}, awaits_client=True)
    judged = judge_response(PolicyRun([by_name(shell_call=Drop())]), calls(shell))
    assert judged.blocks == ()
    assert judged.stop.reason is StopReason.END


def test_finish_is_unchanged_where_nothing_changed() -> None:
    """A server that says tool_calls without a call is not corrected here."""
    given = events(Text(text="x"), reason=StopReason.TOOL_CALLS)
    last = judge_events(PolicyRun([Judging(passing)]), given)[-1]
    assert isinstance(last, Finish)
    assert last.stop.reason is StopReason.TOOL_CALLS
