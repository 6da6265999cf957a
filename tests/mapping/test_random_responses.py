"""Random but valid answers of the official SDKs' types: every kind of block and item, with any of its fields.

What comes out is valid for the other SDK and the linter, and every word that went in is there or declared as lost.
"""

import json
import re
import typing
from collections.abc import Iterator
from random import Random
from typing import Any, Literal

import pytest
from anthropic.types.beta.beta_content_block import BetaContentBlock
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseOutputItem
from pydantic import BaseModel

import trilogue
from tests.judges import sdk
from tests.mapping.cases import Body, C, M, R, covers
from tests.mapping.params import element, members
from trilogue import Protocol
from trilogue.lint import lint_response

SEEDS = 8
KINDS: dict[Protocol, list[Any]] = {
    C: [ChatCompletionMessage],
    M: members(BetaContentBlock),
    R: members(ResponseOutputItem),
}
SILENT = re.compile(r"(^|\.)(id|call_id|tool_use_id|approval_request_id|signature|encrypted_content|data|expires_at)$")
"""Ids are made anew, and opaque values travel sealed."""
CALLS = {"tool_search_tool_result": "tool_search_tool_regex"}
"""the tool that a result of Messages is from, where its name does not say it"""


class Draw:
    """Random values of types; each text is a word that is nowhere else."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)
        self._words = 0

    def value(self, kind: Any, name: str = "", depth: int = 0) -> Any:
        """A value of a type."""
        chosen = self.random.choice(members(kind) or [None])
        if isinstance(chosen, type) and issubclass(chosen, BaseModel):
            return self._object(chosen, depth)
        origin = typing.get_origin(chosen)
        if origin is Literal:
            return "completed" if name == "status" else self.random.choice(typing.get_args(chosen))
        if element(chosen) is not None:
            return [self.value(element(chosen), name, depth + 1) for _ in range(self.random.randint(0, 2))]
        if origin is dict:
            return {self._word(): self.value(typing.get_args(chosen)[1], "", depth + 1)}
        return self._plain(chosen, name)

    def _object(self, model: type[BaseModel], depth: int) -> Body:
        model.model_rebuild()
        often = 0.6 if depth < 4 else 0.1
        return {
            field.alias or name: self.value(field.annotation, name, depth + 1)
            for name, field in model.model_fields.items()
            if field.is_required() or self.random.random() < often
        }

    def _plain(self, kind: Any, name: str) -> Any:
        if kind in (int, float, bool):
            return kind(self.random.randint(0, 1))
        if kind is None or kind is object:
            return kind and self._word()
        awkward = self.random.choice(["", "", "", "\u2028", "😀", "\x00", '"\\', "\r\n\n"])
        return json.dumps({"word": self._word()}) if name == "arguments" else self._word() + awkward

    def _word(self) -> str:
        self._words += 1
        return f"word{self._words:04d}"


def answer(protocol: Protocol, kind: Any, seed: int) -> Body:
    """An answer that has one block or item of a kind."""
    drawn = Draw(f"{kind.__name__}-{seed}").value(kind)
    body: Body
    if protocol is C:
        return _of_chat(drawn)
    if protocol is M:
        usage = {"input_tokens": 1, "output_tokens": 2}
        reason = "tool_use" if drawn["type"] == "tool_use" else "end_turn"
        body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [*_asked(drawn), drawn]}
        return {**body, "stop_reason": reason, "stop_sequence": None, "usage": usage}
    details = {"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
    details["output_tokens_details"] = {"reasoning_tokens": 0}
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    body = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "m",
        "output": [drawn],
    }
    echoed = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**body, **echoed, "usage": {**usage, **details}}


def _of_chat(message: Body) -> Body:
    message.setdefault("content", None)
    message.setdefault("refusal", None)
    if message.get("tool_calls"):
        message.pop("function_call", None)
    reason = "tool_calls" if message.get("tool_calls") else "function_call" if message.get("function_call") else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    body = {"id": "chatcmpl_1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return {**body, "usage": usage}


def _asked(block: Body) -> list[Body]:
    """The call before a result of a hosted tool."""
    kind = block["type"]
    if not kind.endswith("_tool_result"):
        return []
    call: Body = {"type": "server_tool_use", "id": block["tool_use_id"], "input": {}}
    if kind == "mcp_tool_result":
        return [{**call, "type": "mcp_tool_use", "name": "f", "server_name": "s"}]
    return [{**call, "name": CALLS.get(kind, kind.removesuffix("_tool_result"))}]


def texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a document, with its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from texts(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts(inner, f"{path}[{index}]")
    elif isinstance(value, str):
        yield path, value


@pytest.mark.parametrize("source", [C, M, R], ids=lambda p: p.short)
@pytest.mark.parametrize("target", [C, M, R], ids=lambda p: p.short)
def test_random_responses(source: Protocol, target: Protocol) -> None:
    """Valid before, valid after, and nothing lost in silence."""
    for kind in KINDS[source]:
        for seed in range(SEEDS):
            body = answer(source, kind, seed)
            says = f"{kind.__name__} {seed}: {json.dumps(body)}"
            assert sdk.body_problems(source, body) == [], says
            translated = trilogue.translate_response(body, source=source, target=target)
            assert sdk.body_problems(target, translated.body) == [], says
            if source is target:
                assert translated.losses == [], says
            else:
                found = lint_response(target, translated.body)
                assert [str(finding) for finding in found if finding.severity == "error"] == [], says
            assert lost(body, translated) == [], says


def lost(body: Body, translated: trilogue.ResponseTranslation) -> list[str]:
    """The paths of words that are neither in the translation nor declared."""
    after = json.dumps(translated.body)
    declared = [loss.path for loss in translated.losses]
    return [
        path
        for path, text in texts(body)
        if any(word not in after for word in re.findall(r"word\d+", text))
        and not SILENT.search(path)
        and not any(covers(loss, path) or covers(path, loss) for loss in declared if loss)
    ]
