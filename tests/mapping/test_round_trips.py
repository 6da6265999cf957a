"""There and back: what comes home differs only by what was declared on the way."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

import trilogue
from tests.judges import compare, compare_asks, meaning, sdk
from tests.mapping.asking import answered, asked
from tests.mapping.cases import Body, C, M, R, at, request
from tests.mapping.test_turns import TOOLS
from trilogue import Protocol, RequestTranslation, Sealer, Target
from trilogue.lint import lint_request, lint_response

CROSS = [pytest.param(a, b, id=f"{a.short}-{b.short}") for a in (C, M, R) for b in (C, M, R) if a is not b]
pairs = pytest.mark.parametrize(("source", "over"), CROSS)
MODELS = {C: "gpt-5.2", M: "claude-opus-5", R: "gpt-5.6"}
SEEDS = 60
SEALER = Sealer([bytes(range(32))])


def sent(body: Body, source: Protocol, target: Protocol, *, adds_caching: bool = True) -> RequestTranslation:
    """A request on its way to the usual model of a protocol."""
    to = Target.of(target, MODELS[target])
    to = replace(to, profile=replace(to.profile, adds_caching=adds_caching))
    return trilogue.translate_request(body, source=source, target=to, sealer=SEALER)


def undeclared(body: Body, source: Protocol, result: RequestTranslation, target: Protocol) -> list[str]:
    """Differences in meaning that no loss explains."""
    losses = tuple((loss.code, loss.path) for loss in result.losses)
    return compare_asks.requests(compare_asks.Pair(source, target, body, result.body, losses))


@pairs
def test_plain_requests_come_home_as_they_were(source: Protocol, over: Protocol) -> None:
    """Text, roles, tools, calls, results, pictures and files need no loss on any pair."""
    for seed in range(SEEDS):
        body = asked(source, seed, plain=True)
        # Marks that are added on the way there would be lost on the way back.
        there = sent(body, source, over, adds_caching=False)
        assert not there.losses, f"seed {seed}: {[str(loss) for loss in there.losses]}"
        back = sent(there.body, over, source)
        # Chat has two prompt roles, and a prompt of Messages may come home from the other one.
        assert {loss.code for loss in back.losses} <= {"role.developer_merged"}, f"seed {seed}: {back.losses}"
        before, after = meaning.of_request(source, body), meaning.of_request(source, back.body)
        # A whole sequence of texts of one side may be cut in other places.
        for ask in (before, after):
            ask.system = ["\n\n".join(ask.system)] if ask.system else []
        assert after == before, f"seed {seed}"


@pairs
def test_requests_arrive_valid_and_declared(source: Protocol, over: Protocol) -> None:
    """Richer requests: valid for the official SDK, and every difference in meaning is in the ledger."""
    for seed in range(SEEDS):
        body = asked(source, seed, plain=False)
        try:
            there = sent(body, source, over)
        except trilogue.Unsupported:
            continue
        assert not undeclared(body, source, there, over), f"seed {seed}"
        assert not sdk.request_problems(over, there.body), f"seed {seed}"
        assert not [str(f) for f in lint_request(over, there.body) if f.severity == "error"], f"seed {seed}"


@pairs
def test_requests_come_home_with_declared_differences(source: Protocol, over: Protocol) -> None:
    """A→B→A: the losses of both ways explain what is different."""
    for seed in range(SEEDS):
        body = asked(source, seed, plain=False)
        try:
            there = sent(body, source, over)
            back = sent(there.body, over, source)
        except trilogue.Unsupported:
            continue
        losses = tuple((loss.code, loss.path) for loss in (*there.losses, *back.losses))
        problems = compare_asks.requests(compare_asks.Pair(source, source, body, back.body, losses))
        assert not problems, f"seed {seed}"


@pairs
def test_responses_arrive_valid_and_declared(source: Protocol, over: Protocol) -> None:
    """Every difference in the meaning of an answer is in the ledger."""
    for seed in range(SEEDS):
        body = answered(source, seed)
        there = trilogue.translate_response(body, source=source, target=over)
        losses = frozenset(loss.code for loss in there.losses)
        before, after = meaning.of_body(source, body), meaning.of_body(over, there.body)
        assert not compare.answers(compare.Pair(source, over, before, after, losses)), f"seed {seed}"
        assert not sdk.body_problems(over, there.body), f"seed {seed}"
        assert not [str(f) for f in lint_response(over, there.body, own=True) if f.severity == "error"], f"seed {seed}"


@pairs
def test_responses_come_back_with_declared_differences(source: Protocol, over: Protocol) -> None:
    """A→B→A for answers."""
    for seed in range(SEEDS):
        body = answered(source, seed)
        there = trilogue.translate_response(body, source=source, target=over)
        back = trilogue.translate_response(there.body, source=over, target=source)
        losses = frozenset(loss.code for loss in (*there.losses, *back.losses))
        before, after = meaning.of_body(source, body), meaning.of_body(source, back.body)
        # Opaque values are sealed on the way and nobody echoes them here.
        before.opaque, after.opaque = [], []
        assert not compare.answers(compare.Pair(source, source, before, after, losses)), f"seed {seed}"


def echo(client: Protocol, first: Body, said: Body) -> Body:
    """The client's next request: all that it got, and results for its calls."""
    body = dict(first)
    if client is C:
        message = {k: v for k, v in said["choices"][0]["message"].items() if k not in ("refusal", "annotations")}
        ids = [call["id"] for call in message.get("tool_calls") or []]
        results = [{"role": "tool", "tool_call_id": i, "content": "r"} for i in ids]
        body["messages"] = [*first["messages"], message, *results, {"role": "user", "content": "go"}]
    elif client is M:
        ids = [block["id"] for block in said["content"] if block["type"] == "tool_use"]
        answers = [{"type": "tool_result", "tool_use_id": i, "content": "r"} for i in ids]
        content = [block for block in said["content"] if block.get("text") != ""]
        turns = [{"role": "assistant", "content": content}] if content else []
        after = {"role": "user", "content": [*answers, {"type": "text", "text": "go"}]}
        body["messages"] = [*first["messages"], *turns, after]
    else:
        ids = [piece["call_id"] for piece in said["output"] if piece["type"] == "function_call"]
        results = [{"type": "function_call_output", "call_id": i, "output": "r"} for i in ids]
        asked_first = [{"role": "user", "content": first["input"]}]
        body["input"] = [*asked_first, *said["output"], *results, {"role": "user", "content": "go"}]
    return body


@pairs
def test_a_client_that_echoes_gives_the_upstream_its_own_words_back(source: Protocol, over: Protocol) -> None:
    """What the upstream said comes back to it: text, calls, and its signatures byte for byte."""
    for seed in range(SEEDS):
        shown: Body = {"thinking": {"type": "adaptive"}} if source is M else {}
        first = request(source, tools=TOOLS[{C: "C", M: "M", R: "R"}[source]], **shown)
        up = sent(first, source, over)
        said = answered(over, seed)
        if at(said, "choices[0].finish_reason") == "content_filter" or said.get("stop_reason") == "refusal":
            continue
        down = trilogue.translate_response(said, source=over, target=source, exchange=up.exchange)
        again = sent(echo(source, first, down.body), source, over)
        before, after = meaning.of_body(over, said), meaning.of_request(over, again.body)
        calls = [call for segment in after.segments for call in segment.calls]
        assert [(c.id, c.name) for c in calls] == [(c.id, c.name) for c in before.calls], f"seed {seed}"
        text = "".join(text for segment in after.segments if segment.side == "assistant" for text in segment.texts)
        # Of Messages, text of nothing but white space does not go back: the API refuses it.
        assert text == before.text or (over is M and "".join(text.split()) == "".join(before.text.split())), (
            f"seed {seed}"
        )
        if source is not C and over is not C:
            echoed = json.dumps(again.body)
            lost = [blob for blob in before.opaque if blob not in echoed]
            # A turn must not end with thinking, so what comes last may be dropped, but never in silence.
            assert all(blob in str(_trailing(said)) for blob in lost), f"seed {seed}: {lost}"
            assert not lost or "reasoning.foreign_dropped" in {loss.code for loss in again.losses}, f"seed {seed}"


def _trailing(said: Body) -> list[Body]:
    """The reasoning that nothing follows."""
    blocks = said.get("content") or said.get("output") or []
    spoken = [
        n for n, block in enumerate(blocks) if block["type"] not in ("thinking", "redacted_thinking", "reasoning")
    ]
    return list(blocks[spoken[-1] + 1 if spoken else 0 :])


@pairs
def test_long_names_and_odd_ids_survive(source: Protocol, over: Protocol) -> None:
    """Mangled for the upstream, restored for the client."""
    name = "n" * 100 if source is M else "dotted.name"
    schema = {"type": "object", "properties": {}}
    tools = {
        C: [{"type": "function", "function": {"name": name, "parameters": schema}}],
        M: [{"name": name, "input_schema": schema}],
        R: [{"type": "function", "name": name, "parameters": schema, "strict": False}],
    }[source]
    up = sent(request(source, tools=tools), source, over)
    tool = up.body["tools"][0]
    wire = tool.get("function", tool)["name"]
    said = json.loads(
        json.dumps(answered(over, _with_call(over)))
        .replace('"look"', json.dumps(wire))
        .replace('"find"', json.dumps(wire))
    )
    down = trilogue.translate_response(said, source=over, target=source, exchange=up.exchange).body
    assert {call.name for call in meaning.of_body(source, down).calls} == {name}


def _with_call(protocol: Protocol) -> int:
    return next(seed for seed in range(100) if meaning.of_body(protocol, answered(protocol, seed)).calls)


ANY_JSON: Any = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**53), 2**53) | some.text(max_size=20),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
fast = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@fast
@given(texts=some.lists(some.text(some.characters(codec="utf-8"), min_size=1, max_size=30), min_size=1, max_size=4))
def test_any_text_survives_every_pair(texts: list[str]) -> None:
    """Whatever characters a user types."""
    for source in (C, M, R):
        kind = {C: "text", M: "text", R: "input_text"}[source]
        turn = {"role": "user", "content": [{"type": kind, "text": text} for text in texts]}
        body = request(source, **{"input" if source is R else "messages": [turn]})
        for over in (C, M, R):
            if source is over:
                continue
            back = sent(sent(body, source, over).body, over, source).body
            content = at(back, "input[0].content" if source is R else "messages[0].content")
            found = [content] if isinstance(content, str) else [part["text"] for part in content]
            assert found == texts or "".join(found) == "".join(texts)


@fast
@given(value=some.dictionaries(some.text(max_size=8), ANY_JSON, max_size=4))
def test_any_arguments_survive_every_pair(value: dict[str, Any]) -> None:
    """Whatever a model writes as arguments, as a value."""
    said: dict[Protocol, Body] = {
        C: {"choices": _called_chat(json.dumps(value))},
        M: {
            "content": [{"type": "tool_use", "id": "call_1", "name": "look", "input": value}],
            "stop_reason": "tool_use",
        },
        R: {"output": [_called_item(json.dumps(value))]},
    }
    for source in (C, M, R):
        body = {**answered(source, 0), "status": "completed", "incomplete_details": None, **said[source]}
        for over in (C, M, R):
            if source is not over:
                down = trilogue.translate_response(body, source=source, target=over).body
                assert _arguments(over, down) == value


def _called_chat(arguments: str) -> list[Body]:
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}
    return [{"index": 0, "finish_reason": "tool_calls", "message": message}]


def _called_item(arguments: str) -> Body:
    item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "look", "status": "completed"}
    return {**item, "arguments": arguments}


def _arguments(protocol: Protocol, body: Body) -> Any:
    if protocol is M:
        return at(body, "content[0].input")
    path = "choices[0].message.tool_calls[0].function.arguments" if protocol is C else "output[0].arguments"
    return json.loads(at(body, path))
