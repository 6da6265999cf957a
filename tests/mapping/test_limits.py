"""Limits and sampling (docs/mapping.md: Limits and sampling)."""

from typing import Any

import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

import trilogue
from tests.mapping.cases import (
    ABSENT,
    COMPAT,
    NEWEST,
    OLD,
    PLAIN,
    Ask,
    Body,
    C,
    M,
    R,
    answer,
    check_ask,
    choice,
    codes,
    request,
    rows,
)
from trilogue import Protocol, Target
from trilogue.lint import lint_stream

STOPS = ["END", "STOP"]
LIMIT = {"C": "max_completion_tokens", "M": "max_tokens", "R": "max_output_tokens"}
TOKENS = (
    Ask("limit", "C>M", {"max_completion_tokens": 500}, {"max_tokens": 500}),
    Ask("old limit", "C>M", {"max_completion_tokens": ABSENT, "max_tokens": 500}, {"max_tokens": 500}),
    Ask("limit", "C>R", {"max_completion_tokens": 500}, {"max_output_tokens": 500}),
    Ask("limit", "M>C", {"max_tokens": 500}, {"max_completion_tokens": 500, "max_tokens": ABSENT}),
    Ask(
        "limit of a compatible server",
        "M>C",
        {"max_tokens": 500},
        {"max_tokens": 500, "max_completion_tokens": ABSENT},
        model=COMPAT,
    ),
    Ask("limit", "M>R", {"max_tokens": 500}, {"max_output_tokens": 500}),
    Ask("limit", "R>C", {"max_output_tokens": 500}, {"max_completion_tokens": 500}),
    Ask("limit", "R>M", {"max_output_tokens": 500}, {"max_tokens": 500}),
    Ask(
        "no limit",
        "C>M",
        {"max_completion_tokens": ABSENT},
        {"max_tokens": lambda n: n >= 1024},
        lost="max_tokens.defaulted",
    ),
    Ask(
        "no limit",
        "R>M",
        {"max_output_tokens": ABSENT},
        {"max_tokens": lambda n: n >= 1024},
        lost="max_tokens.defaulted",
    ),
    Ask("no limit", "C>R", {"max_completion_tokens": ABSENT}, {"max_output_tokens": ABSENT}),
    Ask("small limit", "C>R", {"max_completion_tokens": 5}, {"max_output_tokens": 16}, lost="max_tokens.raised"),
    Ask("least limit", "C>R", {"max_completion_tokens": 0}, {"max_output_tokens": 16}, lost="max_tokens.raised"),
    Ask("small limit", "M>R", {"max_tokens": 5}, {"max_output_tokens": 16}, lost="max_tokens.raised"),
    Ask("small limit", "R>C", {"max_output_tokens": 16}, {"max_completion_tokens": 16}),
    Ask(
        "warm the cache",
        "M>R",
        {"max_tokens": 0},
        {"prompt_cache_options.prewarm": bool},
        may="max_tokens.raised",
    ),
    Ask("warm the cache", "M>C", {"max_tokens": 0}, refused="max_tokens"),
    Ask("warm the cache of an older model", "M>R", {"max_tokens": 0}, refused="max_tokens", model="gpt-5.2"),
    *(
        Ask(
            f"limit above that of {model}",
            pair,
            {LIMIT[pair[0]]: 200_000},
            {LIMIT[pair[-1]]: most},
            lost="max_tokens.lowered",
            model=model,
        )
        for pairs, model, most in (
            (("C>M", "R>M"), "claude-opus-5", 128_000),
            (("C>M", "R>M"), "claude-sonnet-4-5", 64_000),
            (("C>M", "R>M"), "claude-opus-4-1", 32_000),
            (("C>M", "R>M"), "claude-3-haiku-20240307", 4_096),
            (("M>C", "M>R", "C>R", "R>C"), "gpt-5.6", 128_000),
            (("M>C", "M>R", "C>R", "R>C"), "o3", 100_000),
            (("M>C", "M>R", "C>R", "R>C"), "gpt-4o", 16_384),
            (("M>C", "M>R", "C>R", "R>C"), PLAIN, 32_768),
        )
        for pair in pairs
    ),
    Ask("limit of a server that nobody knows", "M>C", {"max_tokens": 200_000}, {"max_tokens": 200_000}, model=COMPAT),
)

SAMPLING = (
    Ask("temperature", "C>M", {"temperature": 0.5}, {"temperature": 0.5}, model=OLD),
    Ask("temperature", "R>M", {"temperature": 0.5}, {"temperature": 0.5}, model=OLD),
    Ask("hot", "C>M", {"temperature": 1.5}, {"temperature": lambda t: t == 1}, lost="temperature.clamped", model=OLD),
    Ask("hot", "R>M", {"temperature": 1.5}, {"temperature": lambda t: t == 1}, lost="temperature.clamped", model=OLD),
    *(
        Ask(f"{name} of newer models", f"{p}>M", {name: 0.5}, {name: ABSENT}, lost="sampling.dropped")
        for name in ("temperature", "top_p")
        for p in "CR"
    ),
    *(
        Ask(
            "both",
            f"{p}>M",
            {"temperature": 0.5, "top_p": 0.9},
            {"temperature": 0.5, "top_p": ABSENT},
            lost="sampling.dropped",
            model=OLD,
        )
        for p in "CR"
    ),
    *(
        Ask(name, f"M>{p}", {name: 0.5}, {name: 0.5}, model=model)
        for name in ("temperature", "top_p")
        for p, model in (("C", "gpt-4o"), ("R", "gpt-4o"))
    ),
    *(
        Ask(f"{name} on {model}", pair, {name: 0.5}, {name: 0.5}, model=model)
        for name in ("temperature", "top_p")
        for pair in ("C>R", "R>C")
        for model in (PLAIN, "gpt-5.2")
    ),
    *(
        Ask(f"{name} while {model} reasons", pair, {name: 0.5}, {name: ABSENT}, lost="sampling.dropped", model=model)
        for name in ("temperature", "top_p")
        for pair in ("C>R", "M>R", "M>C", "R>C")
        for model in (NEWEST, "gpt-5", "o3")
    ),
    *(
        Ask(
            "temperature while a model reasons that was asked to",
            pair,
            {"temperature": 0.5, **fields},
            {"temperature": ABSENT},
            lost="sampling.dropped",
            model="gpt-5.2",
        )
        for pair, fields in (
            ("C>R", {"reasoning_effort": "low"}),
            ("R>C", {"reasoning": {"effort": "low"}}),
            ("M>C", {"output_config": {"effort": "low"}}),
        )
    ),
    *(
        Ask(
            "temperature while a model does not reason",
            pair,
            {"temperature": 0.5, **fields},
            {"temperature": 0.5},
            model=NEWEST,
        )
        for pair, fields in (
            ("C>R", {"reasoning_effort": "none"}),
            ("R>C", {"reasoning": {"effort": "none"}}),
            ("M>C", {"thinking": {"type": "disabled"}}),
        )
    ),
    *(
        Ask(f"usual {name}", pair, {name: 1}, {name: ABSENT}, model=NEWEST)
        for name in ("temperature", "top_p")
        for pair in ("C>R", "M>R", "M>C", "R>C")
    ),
    Ask(
        "hot",
        "R>C",
        {"temperature": 1.8},
        {"temperature": 1.5},
        lost="temperature.clamped",
        model="mistral-large-latest",
    ),
    Ask("top_k", "M>C", {"top_k": 5}, {"top_k": 5}, model="qwen/qwen3-32b", vendor="openrouter"),
    *(Ask("top_k", "M>C", {"top_k": 5}, {"top_k": ABSENT}, declared="top_k", model=model) for model in ("", COMPAT)),
    Ask("top_k", "M>R", {"top_k": 5}, {"top_k": ABSENT}, declared="top_k"),
    *(
        Ask(name, f"C>{p}", {name: value}, declared=name)
        for name, value in {
            "frequency_penalty": 0.5,
            "presence_penalty": 0.5,
            "logit_bias": {"5": 1},
            "seed": 7,
        }.items()
        for p in "MR"
    ),
    *(
        Ask(f"{name} without effect", f"C>{p}", {name: value})
        for name, value in {"frequency_penalty": 0, "presence_penalty": 0, "n": 1}.items()
        for p in "MR"
    ),
    *(Ask("choices", f"C>{p}", {"n": 2}, refused="n") for p in "MR"),
    Ask(
        "logprobs",
        "C>R",
        {"logprobs": True, "top_logprobs": 3},
        {"top_logprobs": 3, "include": lambda i: "message.output_text.logprobs" in i},
        model=PLAIN,
    ),
    Ask(
        "logprobs",
        "R>C",
        {"top_logprobs": 3, "include": ["message.output_text.logprobs"]},
        {"logprobs": True, "top_logprobs": 3},
        model=PLAIN,
    ),
    *(
        Ask("logprobs of a model that reasons", pair, fields, refused=path, model=model)
        for model in (NEWEST, "gpt-5.2", "o3")
        for pair, fields, path in (
            ("C>R", {"logprobs": True}, "logprobs"),
            ("R>C", {"top_logprobs": 3}, "top_logprobs"),
        )
    ),
    *(Ask("no logprobs of a model that reasons", "C>R", {"logprobs": False}, model=model) for model in (NEWEST, "o3")),
    Ask("logprobs", "C>M", {"logprobs": True}, declared="logprobs"),
    Ask("logprobs", "R>M", {"top_logprobs": 3}, declared="top_logprobs"),
)

STOP = (
    Ask("stop", "C>M", {"stop": STOPS}, {"stop_sequences": STOPS}),
    Ask("one stop", "C>M", {"stop": "END"}, {"stop_sequences": ["END"]}),
    Ask("stop", "M>C", {"stop_sequences": STOPS}, {"stop": STOPS}, model="gpt-4o"),
    *(
        Ask(
            "five stops", "M>C", {"stop_sequences": list("abcde")}, {"stop": list("abcd")}, "stop.emulated", model=model
        )
        for model in ("gpt-4o", COMPAT)
    ),
    *(
        Ask(f"stop on {model}", "M>C", {"stop_sequences": STOPS}, {"stop": ABSENT}, lost="stop.emulated", model=model)
        for model in (NEWEST, "gpt-5", "o3", "o4-mini", "grok-4")
    ),
    Ask("stop", "C>R", {"stop": STOPS}, {"stop": ABSENT}, lost="stop.emulated"),
    Ask("stop", "M>R", {"stop_sequences": STOPS}, {"stop": ABSENT}, lost="stop.emulated"),
)

OWN = (
    *(
        Ask("prediction", f"C>{p}", {"prediction": {"type": "content", "content": "x"}}, declared="prediction")
        for p in "MR"
    ),
    Ask("moderation", "C>M", {"moderation": {"model": "m"}}, declared="moderation"),
    Ask("moderation", "R>M", {"moderation": {"model": "m"}}, declared="moderation"),
    Ask("moderation", "C>R", {"moderation": {"model": "m"}}, {"moderation": {"model": "m"}}),
    Ask("moderation", "R>C", {"moderation": {"model": "m"}}, {"moderation": {"model": "m"}}),
    *(Ask("programs", f"R>{p}", {"access_programs": {"cyber": "standard"}}, declared="access_programs") for p in "CM"),
    *(Ask("image", f"R>{p}", {"image": {"context_compression": "auto"}}, declared="image") for p in "CM"),
    *(Ask("residency", f"M>{p}", {"inference_geo": "eu"}, declared="inference_geo") for p in "CR"),
    *(Ask("container", f"M>{p}", {"container": "c_1"}, declared="container") for p in "CR"),
    *(Ask("template", f"R>{p}", {"prompt": {"id": "pmpt_1"}}, refused="prompt") for p in "CM"),
    *(Ask("truncation", f"R>{p}", {"truncation": "auto"}, declared="truncation") for p in "CM"),
    *(Ask("no truncation", f"R>{p}", {"truncation": "disabled"}) for p in "CM"),
    Ask("obfuscation", "C>R", {"stream": True, "stream_options": {"include_obfuscation": False}}),
    Ask("obfuscation", "R>C", {"stream": True, "stream_options": {"include_obfuscation": False}}),
)

CASES = (*TOKENS, *SAMPLING, *STOP, *OWN)


@rows(CASES)
def test_row(case: Ask) -> None:
    """Limits are kept within what the target takes; what it does not take is said."""
    check_ask(case)


UPSTREAM: dict[Protocol, Any] = {
    C: lambda text: answer(C, choices=choice(content=text)),
    R: lambda text: answer(
        R,
        output=[
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
            }
        ],
    ),
}


@pytest.mark.parametrize(("client", "over"), [(C, R), (M, R), (M, C)], ids=["C>R", "M>R", "M>C"])
@pytest.mark.parametrize(
    ("text", "left", "sequence"),
    [("one END two", "one ", "END"), ("none", "none", None), ("STOP", "", "STOP"), ("EN STO", "EN STO", None)],
)
def test_stop_sequences_cut_the_response(
    client: Protocol, over: Protocol, text: str, left: str, sequence: str | None
) -> None:
    """Responses and newer models on Chat have no stop sequences, so the text is cut on its way to the client."""
    fields: Body = {"stop": STOPS} if client is C else {"stop_sequences": STOPS}
    up = trilogue.translate_request(request(client, **fields), source=client, target=Target.of(over, NEWEST))
    assert codes(up.losses) == {"stop.emulated"}
    down = trilogue.translate_response(UPSTREAM[over](text), source=over, target=client, exchange=up.exchange).body
    if client is C:
        assert down["choices"][0]["message"]["content"] == left
        assert down["choices"][0]["finish_reason"] == "stop"
    else:
        assert "".join(block["text"] for block in down["content"]) == left
        assert down["stop_sequence"] == sequence
        assert down["stop_reason"] == ("stop_sequence" if sequence else "end_turn")


def test_a_fifth_stop_sequence_ends_the_response() -> None:
    """The server knows the first four, and stops there by itself."""
    stops = ["a1", "b2", "c3", "d4", "e5"]
    up = trilogue.translate_request(request(M, stop_sequences=stops), source=M, target=Target.of(C, "gpt-4o"))
    assert up.body["stop"] == stops[:4]
    down = trilogue.translate_response(UPSTREAM[C]("one e5 two"), source=C, target=M, exchange=up.exchange).body
    assert [block["text"] for block in down["content"]] == ["one "]
    assert (down["stop_reason"], down["stop_sequence"]) == ("stop_sequence", "e5")


def judged(flagged: bool) -> Body:
    """One result of moderation."""
    scores = {"categories": {"hate": flagged}, "category_scores": {"hate": 0.5}, "category_applied_input_types": {}}
    return {"type": "moderation_result", "model": "omni", "flagged": flagged, **scores}


def listed(*results: Body) -> Body:
    """The same as Chat has it."""
    return {"type": "moderation_results", "model": "omni", "results": list(results)}


FAULT = {"type": "error", "code": "server_error", "message": "no"}
IN_CHAT = {
    "judged": {"input": listed(judged(False)), "output": listed(judged(True))},
    "not judged": {"input": FAULT, "output": listed(judged(True))},
}
IN_RESPONSES = {
    "judged": {"input": judged(False), "output": judged(True)},
    "not judged": {"input": FAULT, "output": judged(True)},
}


def moderated(said: Body, source: Protocol, target: Protocol, streamed: bool) -> tuple[Body, set[str]]:
    """An answer with these results as the client gets it, and what was lost. Streams say the same however they come."""
    body = {**UPSTREAM[source]("Hi"), "moderation": said}
    if not streamed:
        whole = trilogue.translate_response(body, source=source, target=target)
        return whole.body, {loss.path for loss in whole.losses if loss.code == "resp.meta"}
    given = trilogue.StreamTranslator(source=source, target=target)
    stream = trilogue.StreamTranslator(source=source, target=target)
    out = stream.feed(trilogue.StreamTranslator(source=source, target=source).whole(body)) + stream.close()
    found = [f for f in lint_stream(target, out) if f.severity == "error"]
    assert not [str(finding) for finding in found if finding.rule != "D41"]
    lost = {loss.path for loss in stream.losses if loss.code == "resp.meta"}
    whole_as_stream = trilogue.collect_stream(given.whole(body), protocol=target)
    told = trilogue.collect_stream(out, protocol=target)
    assert whole_as_stream.get("moderation") == told.get("moderation")
    assert {loss.path for loss in given.losses if loss.code == "resp.meta"} == lost
    return told, lost


STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])


@STREAMED
@pytest.mark.parametrize("name", IN_RESPONSES)
def test_results_of_moderation_go_both_ways(name: str, streamed: bool) -> None:
    """Both protocols have them, each in its own form, as its SDK's types say."""
    chat, ours = IN_CHAT[name], IN_RESPONSES[name]
    told, lost = moderated(chat, C, R, streamed)
    assert (told["moderation"], lost) == (ours, set())
    assert Response.model_validate(told).moderation is not None
    told, lost = moderated(ours, R, C, streamed)
    assert (told["moderation"], lost) == (chat, set())
    assert ChatCompletion.model_validate(told).moderation is not None


@STREAMED
@pytest.mark.parametrize(
    ("said", "source", "target"),
    [
        ({"input": listed(judged(True), judged(False)), "output": listed(judged(True))}, C, R),
        ("odd", C, R),
        ("odd", R, C),
        (IN_CHAT["judged"], C, M),
        (IN_RESPONSES["judged"], R, M),
    ],
)
def test_results_of_moderation_without_a_form_are_declared(
    said: Any, source: Protocol, target: Protocol, streamed: bool
) -> None:
    """Several results are more than Responses can tell; Messages have none."""
    told, lost = moderated(said, source, target, streamed)
    assert (told.get("moderation"), lost) == (None, {"moderation"})


@pytest.mark.parametrize("target", [M, R], ids=["M", "R"])
@pytest.mark.parametrize("nothing", [{}, {"content": None}, {"content": None, "refusal": None}], ids=str)
def test_probabilities_that_were_not_given_are_not_lost(target: Protocol, nothing: Body) -> None:
    """Servers write the object also where it holds nothing."""
    given = answer(C, choices=[{**choice(content="x")[0], "logprobs": nothing}])
    assert not trilogue.translate_response(given, source=C, target=target).losses
    piece: Body = {"index": 0, "delta": {"content": "x"}, "logprobs": nothing, "finish_reason": "stop"}
    stream = trilogue.StreamTranslator(source=C, target=target)
    events = {"id": "1", "model": "m", "choices": [piece], "usage": given["usage"]}
    stream.feed(b"data: " + trilogue.dump(events) + b"\n\ndata: [DONE]\n\n")
    stream.close()
    assert not stream.losses
