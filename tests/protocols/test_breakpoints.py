"""`prompt_cache_breakpoint` on OpenAI's models that take it: GPT-5.6 and newer."""

from typing import Any

import pytest
from msgspec.structs import replace

import trilogue
from tests.each import each
from trilogue import RequestTranslation, Target

Json = dict[str, Any]
NEW, OLD = "gpt-5.6", "gpt-5.5"
MARK: Json = {"mode": "explicit"}
SYSTEM: Json = {"role": "system", "content": "Be brief."}
USER: Json = {"role": "user", "content": "Hi"}
SAID: Json = {"role": "assistant", "content": "Yes?"}
ASKED: dict[str, Json] = {
    "chat": {"messages": [SYSTEM, USER]},
    "messages": {"max_tokens": 99, "system": "Be brief.", "messages": [USER]},
    "responses": {"instructions": "Be brief.", "input": "Hi"},
}
PAIRS = [("messages", "chat"), ("responses", "chat"), ("messages", "responses"), ("chat", "responses")]
pairs = pytest.mark.parametrize(("source", "target"), PAIRS)


def translated(body: Json, source: str, target: str, model: str = NEW, **profile: Any) -> RequestTranslation:
    to = Target.of(target, model)
    to = replace(to, profile=replace(to.profile, **profile))
    return trilogue.translate_request({"model": "m", **body}, source=source, target=to)


def turns(body: Json) -> list[Json]:
    found: list[Json] = body["messages" if "messages" in body else "input"]
    return found


def marked(body: Json) -> list[str]:
    """The texts with a mark."""
    parts = [part for turn in turns(body) for part in turn.get("content") or turn.get("output") or ()]
    return [part["text"] for part in parts if isinstance(part, dict) and "prompt_cache_breakpoint" in part]


@pairs
def test_a_new_session_finds_the_prompt(source: str, target: str) -> None:
    """OpenAI finds a prefix only where it has written one, and by itself it writes only at the newest message."""
    body = translated(ASKED[source], source, target).body
    assert "instructions" not in body
    (part,) = turns(body)[0]["content"]
    assert part == {"type": part["type"], "text": "Be brief.", "prompt_cache_breakpoint": MARK}
    assert marked(body) == ["Be brief."]


@pairs
@pytest.mark.parametrize("why", ["an older model", "switched off", "only what the client marks"])
def test_no_mark_is_added(source: str, target: str, why: str) -> None:
    asked, profile, model = ASKED[source], {}, NEW
    if why == "an older model":
        model = OLD
    elif why == "switched off":
        profile = {"adds_caching": False}
    elif source == "messages":
        asked = {**asked, "messages": [{"role": "user", "content": [_block("Hi")]}]}
    else:
        asked = {**asked, "prompt_cache_options": {"mode": "explicit"}}
    assert "Be brief." not in marked(translated(asked, source, target, model, **profile).body)


def _block(text: str) -> Json:
    return {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}


def test_only_the_first_and_the_last_of_several_prompts_are_marked() -> None:
    """What comes after the first prompt often differs from session to session."""
    prompts = [{"role": "system", "content": text} for text in ("a", "b", "c")]
    body = translated({"messages": [*prompts, USER, SAID, USER, SYSTEM, USER]}, "chat", "responses").body
    assert marked(body) == ["a", "c"]


@each("target", ["chat", "responses"])
def test_the_form_of_the_prompt_does_not_depend_on_marks(target: str) -> None:
    """Else the prefix would be another one as soon as the client marks a message."""
    plain = translated(ASKED["messages"], "messages", target).body
    with_mark = {**ASKED["messages"], "messages": [{"role": "user", "content": [_block("Hi")]}]}
    other = translated(with_mark, "messages", target, adds_caching=False).body
    if target == "responses":
        del turns(plain)[0]["content"][0]["prompt_cache_breakpoint"]
        assert turns(plain)[0] == turns(other)[0]
    assert plain.keys() == other.keys()


@each("target", ["chat", "responses"])
def test_the_latest_three_marks_of_the_client_are_kept(target: str) -> None:
    """OpenAI writes no more, and each write above what was read costs a quarter more."""
    result: Json = {"type": "tool_result", "tool_use_id": "t", "content": [_block("result")]}
    call: Json = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    body: Json = {
        "max_tokens": 99,
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        "system": [_block("one"), _block("two")],
        "messages": [
            {"role": "user", "content": [_block("three")]},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result, {"type": "text", "text": "go on"}]},
        ],
    }
    sent = translated(body, "messages", target)
    assert marked(sent.body) == ["two", "three", "result"]
    lost = [loss.path for loss in sent.losses if loss.code == "cache.mark"]
    assert lost == ["system[0]"]
    assert "prompt_cache_options" not in sent.body


@each("model", ["deepseek-chat", "llama-3.3-70b", "grok-4", "gpt-4o"])
def test_servers_without_marks_get_none(model: str) -> None:
    for source, target in PAIRS:
        body = translated(ASKED[source], source, target, model).body
        assert "prompt_cache" not in str(body)
