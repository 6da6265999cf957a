"""The form of a refusal, and what becomes of every top-level field (docs/mapping.md: Fields that cannot be mapped)."""

import pytest

import trilogue
from tests.mapping.cases import (
    USER,
    Answer,
    Ask,
    Body,
    C,
    M,
    R,
    check_answer,
    check_ask,
    codes,
    like,
    pair,
    request,
    rows,
)
from trilogue import Target

NO_EQUIVALENT: tuple[tuple[str, Body, str], ...] = (
    ("C>M", {"n": 2}, "n"),
    ("C>R", {"n": 2}, "n"),
    ("M>C", {"messages": [USER, {"role": "assistant", "content": "x"}]}, "messages[1]"),
    ("R>C", {"prompt": {"id": "p"}}, "prompt"),
    ("R>M", {"reasoning": {"mode": "pro"}}, "reasoning.mode"),
)


@pytest.mark.parametrize(("direction", "fields", "path"), NO_EQUIVALENT, ids=[f"{d}-{p}" for d, _, p in NO_EQUIVALENT])
def test_the_error_names_the_path_and_the_reason(direction: str, fields: Body, path: str) -> None:
    """A client can find what to change."""
    source, target = pair(direction)
    with pytest.raises(trilogue.Unsupported) as caught:
        trilogue.translate_request(request(source, **fields), source=source, target=target)
    assert caught.value.path.startswith(path)
    assert caught.value.code in ("unsupported_parameter", "prefill")
    assert caught.value.status == 400
    assert caught.value.reason
    assert "cannot be mapped" in str(caught.value)


EMPTY: tuple[tuple[str, Body, str], ...] = (
    ("R>C", {"input": None}, "input"),
    ("R>M", {"input": []}, "input"),
    ("C>M", {"messages": []}, "messages"),
    ("C>R", {"messages": []}, "messages"),
    ("M>C", {"messages": []}, "messages"),
    ("M>R", {"messages": []}, "messages"),
    # A message without a part says nothing either.
    ("R>C", {"input": [{"role": "user", "content": []}]}, "input"),
    ("R>M", {"input": [{"role": "user", "content": []}]}, "input"),
    ("C>R", {"messages": [{"role": "user", "content": []}]}, "messages"),
    ("M>C", {"messages": [{"role": "user", "content": []}]}, "messages"),
)


@pytest.mark.parametrize(("direction", "fields", "path"), EMPTY, ids=[f"{d} {f}" for d, f, _ in EMPTY])
def test_nothing_to_respond_to(direction: str, fields: Body, path: str) -> None:
    """The error speaks of the client's own field, and nothing is sent."""
    source, target = pair(direction)
    with pytest.raises(trilogue.BadRequest, match="nothing to respond to") as caught:
        trilogue.translate_request(request(source, **fields), source=source, target=target)
    assert (caught.value.path, caught.value.status) == (path, 400)


@pytest.mark.parametrize("field", ["previous_response_id", "conversation", "prompt"])
@pytest.mark.parametrize("direction", ["R>C", "R>M"])
def test_what_an_absent_input_relies_on_is_named(direction: str, field: str) -> None:
    """It is allowed there: what cannot be mapped is what the provider keeps."""
    source, target = pair(direction)
    body = request(source, input=None, **{field: {"id": "p"} if field == "prompt" else "x"})
    with pytest.raises(trilogue.Unsupported) as caught:
        trilogue.translate_request(body, source=source, target=target)
    assert caught.value.path == field


def test_strict_lists_everything_that_would_be_lost() -> None:
    """Strict mode answers before anything is sent, with the same losses that declare mode has."""
    body = request(C, temperature=0.5, verbosity="low", prompt_cache_key="k")
    declared = trilogue.translate_request(body, source=C, target=Target.of(M, "claude-opus-5"))
    with pytest.raises(trilogue.StrictLoss) as caught:
        trilogue.translate_request(body, source=C, target=Target.of(M, "claude-opus-5"), strict="notice")
    assert set(caught.value.losses) == set(declared.losses)
    assert codes(declared.losses) == {"sampling.dropped", "verbosity", "cache.key"}


def test_the_same_request_has_the_same_losses() -> None:
    """Deterministic, in order."""
    body = request(R, temperature=0.5, text={"verbosity": "low"}, prompt_cache_key="k", metadata={"a": "b"})
    first, second = (trilogue.translate_request(body, source=R, target=M).losses for _ in range(2))
    assert [str(loss) for loss in first] == [str(loss) for loss in second]


STATE = (
    *(
        Ask("earlier answer", f"R>{p}", {"previous_response_id": "resp_1"}, refused="previous_response_id")
        for p in "CM"
    ),
    *(Ask("conversation", f"R>{p}", {"conversation": "conv_1"}, refused="conversation") for p in "CM"),
    *(Ask("background", f"R>{p}", {"background": True}, refused="background") for p in "CM"),
    *(Ask("no background", f"R>{p}", {"background": False}) for p in "CM"),
    *(
        Ask(
            "reference",
            f"R>{p}",
            {"input": [USER, {"type": "item_reference", "id": "msg_1"}, USER]},
            refused="input[1]",
        )
        for p in "CM"
    ),
    *(
        Ask(
            "compaction",
            f"R>{p}",
            {"input": [{"type": "compaction", "encrypted_content": "x"}, USER]},
            refused="input[0]",
        )
        for p in "CM"
    ),
    *(
        Ask(
            "compaction",
            f"M>{p}",
            {"messages": [USER, {"role": "assistant", "content": [{"type": "compaction", "content": "x"}]}, USER]},
            refused="messages[1].content[0]",
        )
        for p in "CR"
    ),
    *(Ask("thread", f"M>{p}", {"thread": {"type": "create"}}, declared="thread") for p in "CR"),
    *(Ask("compact", f"M>{p}", {"compaction": {"type": "summarize"}}, refused="compaction") for p in "CR"),
    *(
        Ask(
            "context edits",
            f"M>{p}",
            {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
            declared="context_management",
        )
        for p in "CR"
    ),
    Ask(
        "context compaction",
        "M>R",
        {
            "context_management": {
                "edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 100000}}]
            }
        },
        declared="context_management",
    ),
    *(
        Ask(
            "context compaction",
            f"R>{p}",
            {"context_management": [{"type": "compaction", "compact_threshold": 100000}]},
            declared="context_management",
        )
        for p in "CM"
    ),
    *(Ask("include", f"R>{p}", {"include": ["file_search_call.results"]}, may="param.dropped") for p in "CM"),
    *(Ask("agents", f"R>{p}", {"multi_agent": {"enabled": True}}, declared="multi_agent") for p in "CM"),
    *(Ask("fallbacks", f"M>{p}", {"fallbacks": [{"model": "x"}]}, lost="param.dropped") for p in "CR"),
    *(Ask("credit", f"M>{p}", {"fallback_credit_token": "t"}, lost="param.dropped") for p in "CR"),
    *(
        Ask(
            "old functions",
            f"C>{p}",
            {
                "functions": [{"name": "look", "parameters": {"type": "object", "properties": {}}}],
                "function_call": "auto",
            },
            {"tools[0]": like(name="look")},
        )
        for p in "MR"
    ),
    *(
        Ask(
            "old function call",
            f"C>{p}",
            {
                "functions": [{"name": "look", "parameters": {"type": "object", "properties": {}}}],
                "function_call": {"name": "look"},
            },
            {"tool_choice": wanted},
        )
        for p, wanted in (("M", {"type": "tool", "name": "look"}), ("R", {"type": "function", "name": "look"}))
    ),
    *(
        Ask("unknown field", f"{a}>{b}", {"frobnicate": 1}, declared="frobnicate")
        for a in "CMR"
        for b in "CMR"
        if a != b
    ),
    *(Ask("null field", f"{a}>{b}", {"frobnicate": None, "temperature": None}) for a in "CMR" for b in "CMR" if a != b),
)
CASES = STATE


@rows(STATE)
def test_state_and_the_rest(case: Ask) -> None:
    """What an upstream without memory cannot do is refused; what merely rides along is declared."""
    check_ask(case)


SPOKEN: Body = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
NOISE: Body = {
    "native_finish_reason": "STOP",
    "stop_reason": 7,
    "matched_stop": 7,
    "token_ids": [1],
    "content_filter_results": {"hate": {"filtered": False}},
}
"""Fields of a choice that say nothing about the answer, or say its finish_reason in other words."""
META = (
    *(Answer("choice", f"C>{p}", {"choices": [{**SPOKEN, "novel": 1}]}, lost="resp.meta") for p in "MR"),
    *(
        Answer(
            "function of a call",
            f"C>{p}",
            {
                "choices": [
                    {
                        "index": 0,
                        "message": {
                            "role": "assistant",
                            "content": None,
                            "tool_calls": [
                                {
                                    "id": "c",
                                    "type": "function",
                                    "function": {"name": "f", "arguments": "{}", "novel": 1},
                                }
                            ],
                        },
                        "finish_reason": "tool_calls",
                    }
                ]
            },
            lost="resp.meta",
        )
        for p in "MR"
    ),
    *(Answer("noise of a choice", f"C>{p}", {"choices": [SPOKEN | NOISE]}) for p in "MR"),
    *(
        Answer("probabilities of a refusal", f"C>{p}", {"choices": [{**SPOKEN, **more}]}, lost="logprobs.dropped")
        for p in "MR"
        for more in [
            {
                "message": {"role": "assistant", "content": None, "refusal": "No."},
                "logprobs": {"content": None, "refusal": [{"token": "No", "logprob": -0.1}]},
            }
        ]
    ),
    *(
        Answer(
            "stop details",
            f"M>{p}",
            {"stop_reason": "end_turn", "stop_details": {"type": "novel", "why": "so"}},
            lost="resp.meta",
        )
        for p in "CR"
    ),
    *(Answer("fingerprint", f"C>{p}", {"system_fingerprint": "fp_1"}, lost="resp.meta") for p in "MR"),
    *(
        Answer(name, f"M>{p}", {name: value}, lost="resp.meta")
        for p in "CR"
        for name, value in {
            "container": {"id": "c_1", "expires_at": "2026-11-15T00:00:00Z"},
            "diagnostics": {"cache": {}},
            "context_management": {"applied_edits": [{"type": "clear_tool_uses_20250919"}]},
            "input_transformations": [{"type": "thinking_dropped"}],
        }.items()
    ),
    Answer("created", "C>R", {}, {"created_at": 1763200000}),
    Answer("created", "R>C", {}, {"created": 1763200000}),
    Answer(
        "model is the client's name",
        "C>M",
        {},
        {"model": "asked-for"},
        asked={},
    ),
    Answer("model is the client's name", "R>C", {}, {"model": "asked-for"}, asked={}),
    Answer("model is the client's name", "M>R", {}, {"model": "asked-for"}, asked={}),
    Answer("id is minted", "C>M", {}, {"id": lambda i: i.startswith("msg_") and "chatcmpl" not in i}),
    Answer("id is minted", "M>R", {}, {"id": lambda i: i.startswith("resp_")}),
    Answer("id is minted", "R>C", {}, {"id": lambda i: i.startswith("chatcmpl-")}),
)


@rows(META)
def test_fields_of_the_response(case: Answer) -> None:
    """Every field of a response has a fate (docs/mapping.md: Fields of a response)."""
    check_answer(case)
