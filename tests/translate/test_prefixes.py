"""Each translated request of a session begins with the one before it, so that prompt caches find it.

Cache marks move, and what a client itself changes is its own business; nothing else may change in what was sent before.
"""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

import pytest

from tests.each import in_parts
from tests.translate.sessions import MARK_VALUES, C, M, R, Session
from trilogue import Protocol, Target, translate_request

MODELS = {
    C: ("gpt-5.6", "gpt-5.1", "mistral-large-latest", "deepseek-reasoner", "gemini-3-pro", "some-model"),
    M: ("claude-opus-5", "claude-sonnet-4-6", "claude-sonnet-4-5", "some-model"),
    R: ("gpt-5.6", "gpt-5.1", "some-model"),
}
CASES = [(source, target, model) for source, target in permutations(Protocol, 2) for model in MODELS[target]]
SEEDS = range(8)


def prefix(body: dict[str, Any]) -> list[Any]:
    """Return what upstreams cache, in their order: tools, prompt, and the conversation block by block."""
    parts: list[Any] = [body.get("tools"), body.get("instructions"), *(body.get("system") or ())]
    for place, message in enumerate(body.get("messages") or body.get("input") or ()):
        content = message.get("content")
        head = {name: value for name, value in message.items() if name != "content"}
        parts.append((place, head))
        parts += [(place, part) for part in content] if isinstance(content, list) else [(place, content)]
    return [_unmarked(part) for part in parts]


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(one) for name, one in value.items() if name not in MARK_VALUES}
    return type(value)(map(_unmarked, value)) if isinstance(value, list | tuple) else value


EVERY_PAIR = pytest.mark.parametrize(
    ("source", "target", "model"), CASES, ids=[f"{s.short}-{t.short}-{model}" for s, t, model in CASES]
)


@pytest.mark.parametrize("marks", [True, False], ids=["marks", "unmarked"])
@pytest.mark.parametrize("echoes", [True, False], ids=["echoed", "forgotten"])
@EVERY_PAIR
@in_parts("seeds", SEEDS, 4)
def test_a_request_begins_with_the_one_before(
    source: Protocol, target: Protocol, model: str, echoes: bool, marks: bool, seeds: list[int]
) -> None:
    """Whatever is called, answered and remembered on the way."""
    for seed in seeds:
        session = Session(source, Target.of(target, model, provider="up", account="a"), seed, marks, echoes)
        sent = [translated.body for translated in session.requests(4)]
        for number, (before, after) in enumerate(pairwise(map(prefix, sent))):
            assert after[: len(before)] == before, f"seed {seed}: request {number + 1} does not begin with {number}"


MARK = {"cache_control": {"type": "ephemeral"}}


def one_call(said: Any, result: Any, failed: bool) -> list[dict[str, Any]]:
    """Return a Messages conversation with a call and its result."""
    use = {"type": "tool_use", "id": "call_1", "name": "f", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "call_1", "is_error": failed, **result}
    return [
        {"role": "user", "content": said},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [answer]},
    ]


@pytest.mark.parametrize("failed", [True, False])
@pytest.mark.parametrize("text", ["It says so.", ""])
@pytest.mark.parametrize(("target", "model"), [(one, model) for one in (C, R) for model in MODELS[one]])
def test_a_block_has_one_form(target: Protocol, model: str, text: str, failed: bool) -> None:
    """A message, a result and an error are the same with a mark, without one, and where a mark has moved on."""
    forms = (
        one_call("Hi", {"content": text}, failed),
        one_call([{"type": "text", "text": "Hi", **MARK}], {"content": text}, failed),
        one_call([{"type": "text", "text": "Hi"}], {"content": text, **MARK}, failed),
        one_call("Hi", {"content": [{"type": "text", "text": text}], **MARK}, failed),
        one_call("Hi", {"content": [{"type": "text", "text": text, **MARK}]}, failed),
    )
    bodies = [
        translate_request(
            {"model": "m", "max_tokens": 9, "messages": form}, source=M, target=Target.of(target, model)
        ).body
        for form in forms
    ]
    assert all(prefix(body) == prefix(bodies[0]) for body in bodies)


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize(("source", "target", "model"), [case for case in CASES if case[0] is not M])
def test_a_reminder_keeps_its_form(source: Protocol, target: Protocol, model: str, role: str) -> None:
    """It is the last message of one request, and has others after it in the next."""
    where = Target.of(target, model)
    user, said = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}
    reminder = {"role": role, "content": "Be brief."}
    ends = [user, said, reminder]
    grown = [(ends, [said, user]), ([user, reminder], [said, user])]
    if not where.profile.user_speaks_last:
        # There, a reminder that was never answered may become a system message again.
        grown += [(ends, [user]), (ends, [reminder, user])]
    for sent, more in grown:
        bodies = []
        for history in (sent, sent + more):
            body = {"model": "m", "messages" if source is C else "input": history}
            bodies.append(prefix(translate_request(body, source=source, target=where).body))
        assert bodies[1][: len(bodies[0])] == bodies[0]
