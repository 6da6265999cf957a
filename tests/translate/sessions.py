"""Sessions of agents that grow turn by turn, as clients of each protocol send them.

A `Session` holds the history in the client's own form. The upstream's responses are translated and echoed as the client
does. Claude Code moves its cache marks with each request, and content with a mark is a list there, otherwise a string.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import trilogue
from trilogue import Protocol, Target
from trilogue.translate.reasoning.seal import Sealer

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
Body = dict[str, Any]
SEALER = Sealer([b"k" * 32])

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
NAMES = ("Read", "mcp__a_rather_long_server_name__and_a_tool_whose_name_is_longer_than_sixty_four", "run.it")
TOOLS: dict[Protocol, list[Body]] = {
    C: [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES],
    M: [{"name": name, "input_schema": SCHEMA} for name in NAMES],
    R: [{"type": "function", "name": name, "parameters": SCHEMA, "strict": False} for name in NAMES],
}
ASKS: dict[Protocol, Body] = {
    C: {"reasoning_effort": "medium"},
    M: {"thinking": {"type": "enabled", "budget_tokens": 2_000}, "max_tokens": 30_000},
    R: {"reasoning": {"effort": "medium"}, "include": ["reasoning.encrypted_content"], "store": False},
}
MARKS = {C: "prompt_cache_breakpoint", M: "cache_control", R: "prompt_cache_breakpoint"}
MARK_VALUES: dict[str, Body] = {
    "prompt_cache_breakpoint": {"mode": "explicit"},
    "cache_control": {"type": "ephemeral"},
}


@dataclass
class Session:
    """A conversation of a client. `marks`: it moves cache marks. `echoes`: it sends reasoning back."""

    client: Protocol
    target: Target
    seed: int
    marks: bool
    echoes: bool
    history: list[Body] = field(default_factory=list)
    rng: random.Random = field(init=False)
    calls: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def requests(self, turns: int) -> Iterator[trilogue.RequestTranslation]:
        """Yield the translated requests of a session with this many questions."""
        for turn in range(turns):
            self.ask(turn)
            for _ in range(self.rng.randrange(4)):
                yield (sent := self.sent())
                if not self.take(sent, calls=self.rng.choice((1, 1, 2))):
                    return
            yield (sent := self.sent())
            self.take(sent, calls=0)

    def sent(self) -> trilogue.RequestTranslation:
        """Translate what the client sends now."""
        system: list[Body] = [
            {"type": "text", "text": f"You are an agent. {'Rules. ' * 9}"},
            {"type": "text", "text": "Be brief."},
        ]
        history = copy.deepcopy(self.history)
        body: Body = {"model": "m", "tools": TOOLS[self.client], **ASKS[self.client]}
        if self.client is M:
            if self.marks:
                system[-1]["cache_control"] = MARK_VALUES["cache_control"]
                self._mark(history)
            body |= {"system": system, "messages": history}
        elif self.client is C:
            if self.marks:
                self._mark(history)
            body["messages"] = [{"role": "system", "content": system[0]["text"]}, *history]
        else:
            if self.marks:
                self._mark(history)
            body |= {"instructions": system[0]["text"], "input": history}
        return trilogue.translate_request(body, source=self.client, target=self.target, sealer=SEALER)

    def _mark(self, history: list[Body]) -> None:
        """Put a cache mark on the last text, which makes its content a list."""
        name = MARKS[self.client]
        for message in reversed(history):
            content = message.get("content")
            if message.get("role") == "assistant" or not content:
                continue
            if isinstance(content, str):
                kind = "input_text" if self.client is R else "text"
                message["content"] = content = [{"type": kind, "text": content}]
            content[-1][name] = MARK_VALUES[name]
            return

    def ask(self, turn: int) -> None:
        """Add what the user says, with reminders of the agent."""
        before, after = self.rng.random() < 0.3, self.rng.random() < 0.3
        if before and self.client is not M:
            self._remind(f"before {turn}")
            if self.history[1:] and self.rng.random() < 0.4:
                return  # the reminder alone goes on
        text = f"Question {turn}?"
        parts: list[Body] = [_text(self.client, text)]
        if self.rng.random() < 0.2 and self.target.profile.images:
            parts.append(_image(self.client))
        if self.rng.random() < 0.3:
            parts.insert(0, _text(self.client, "A file."))
        content: Any = text if len(parts) == 1 and self.rng.random() < 0.7 else parts
        self.history.append({"role": "user", "content": content})
        if after:
            self._remind(f"after {turn}")

    def _remind(self, text: str) -> None:
        role = "system" if self.client is M else self.rng.choice(("system", "developer"))
        self.history.append({"role": role, "content": f"Reminder {text}."})

    def take(self, sent: trilogue.RequestTranslation, calls: int) -> list[str]:
        """Add the upstream's response, and the results of its calls, whose ids are returned."""
        # Some servers count calls from the start in every response.
        ids = [f"call_{number + (self.calls if self.seed % 3 else 0)}" for number in range(calls)]
        self.calls += calls
        names = [_offered(sent.body, self.rng.randrange(len(NAMES))) for _ in ids]
        says = "" if calls and self.rng.random() < 0.5 else f"Said {len(self.history)}."
        off = self.target.protocol is M and (sent.body.get("thinking") or {}).get("type") not in ("enabled", "adaptive")
        thinks = self.rng.random() < 0.7 and not off
        given = _response(self.target.protocol, says, thinks, list(zip(ids, names, strict=True)))
        body = trilogue.translate_response(
            given, source=self.target.protocol, target=self.client, exchange=sent.exchange
        ).body
        made = self._echo(body)
        results = [self._result(call_id, number) for number, call_id in enumerate(made)]
        if self.client is M:
            content = [block for result in results for block in result]
            if content and self.rng.random() < 0.3:
                content.append(_text(M, "<system-reminder>Now.</system-reminder>"))
            self.history += [{"role": "user", "content": content}] if content else []
        else:
            self.history += [item for result in results for item in result]
        if made and self.rng.random() < 0.25:
            self._remind(f"in the loop {len(self.history)}")
        return made

    def _echo(self, body: Body) -> list[str]:
        """Add the response to the history as the client does, and return the ids of its calls."""
        if self.client is C:
            message = {name: value for name, value in body["choices"][0]["message"].items() if value is not None}
            if not self.echoes:
                message = {name: value for name, value in message.items() if not name.startswith("reasoning")}
            self.history.append(message)
            return [call["id"] for call in message.get("tool_calls", ())]
        if self.client is M:
            content = [one for one in body["content"] if self.echoes or "thinking" not in one["type"]]
            self.history.append({"role": "assistant", "content": content})
            return [one["id"] for one in content if one["type"] == "tool_use"]
        output = [one for one in body["output"] if self.echoes or one["type"] != "reasoning"]
        self.history += output
        return [one["call_id"] for one in output if one["type"] == "function_call"]

    def _result(self, call_id: str, number: int) -> list[Body]:
        kind = self.rng.choice(("text", "text", "parts", "error", "image", "empty"))
        text = "" if kind == "empty" else f"Result {number} of {call_id}."
        parts = [_text(self.client, text), _text(self.client, "More.")]
        if kind == "image" and self.client is not C:
            parts[1] = _image(self.client)
        content: Any = parts if kind in ("parts", "image") else parts[:1] if self.rng.random() < 0.3 and text else text
        if self.client is C:
            return [{"role": "tool", "tool_call_id": call_id, "content": content}]
        if self.client is M:
            result = {"type": "tool_result", "tool_use_id": call_id, "content": content}
            return [result | ({"is_error": True} if kind == "error" else {})]
        item = {"type": "function_call_output", "call_id": call_id, "output": content}
        return [item | ({"status": "incomplete"} if kind == "error" else {})]


def _text(protocol: Protocol, text: str) -> Body:
    return {"type": "input_text" if protocol is R else "text", "text": text}


def _image(protocol: Protocol) -> Body:
    if protocol is C:
        return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    if protocol is M:
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    return {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}


def _offered(body: Body, number: int) -> str:
    tool = body["tools"][number]
    return str(tool.get("function", tool)["name"])


def _response(protocol: Protocol, says: str, thinks: bool, calls: list[tuple[str, str]]) -> Body:
    """Return an upstream's response."""
    arguments = '{"path": "a.py"}'
    if protocol is C:
        message: Body = {"role": "assistant", "content": says or None}
        if thinks:
            message["reasoning_content"] = "Hm."
        if calls:
            message["tool_calls"] = [
                {"id": one, "type": "function", "function": {"name": name, "arguments": arguments}}
                for one, name in calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    if protocol is M:
        content: list[Body] = [{"type": "thinking", "thinking": "Hm.", "signature": "sig"}] if thinks else []
        content += [{"type": "text", "text": says}] if says else []
        content += [{"type": "tool_use", "id": one, "name": name, "input": {"path": "a.py"}} for one, name in calls]
        stop = "tool_use" if calls else "end_turn"
        usage = {"input_tokens": 1, "output_tokens": 1}
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }
    output: list[Body] = []
    if thinks:
        output.append({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc"})
    if says:
        part = {"type": "output_text", "text": says, "annotations": []}
        output.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
    output += [
        {
            "type": "function_call",
            "id": f"fc_{one}",
            "call_id": one,
            "name": name,
            "arguments": arguments,
            "status": "completed",
        }
        for one, name in calls
    ]
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": output,
    }
