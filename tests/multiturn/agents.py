"""Agents that work with the official SDKs: ask, run the tools, send the results, go on until there are no more calls.

One class per protocol. How much of a response an agent sends back differs: everything, only what most clients know of,
or only ids. `client` and `model` may be changed between two turns.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import anthropic
import openai

from tests.multiturn.script import PARALLEL_STEP, Json

SCHEMA: Json = {
    "type": "object",
    "properties": {"step": {"type": "integer"}, "part": {"type": "integer"}},
    "required": ["step", "part"],
    "additionalProperties": False,
}
RESPONSES_TOOLS = [{"type": "function", "name": "work", "parameters": SCHEMA, "strict": True}]
Echo = Literal["all", "reasoning", "nothing"]
"""what an agent sends back of the reasoning: all fields, only the text of it, or nothing"""
Link = Literal["previous", "conversation", "items"]
TERMINAL = ("response.completed", "response.incomplete", "response.failed")


@dataclass
class Said:
    """A response: its text, its calls as (id, step, part), and the body as the SDK gave it."""

    text: str
    calls: list[tuple[str, int, int]]
    native: Any = field(repr=False, default=None)

    def results(self) -> dict[str, str]:
        """Return the result of each call, by call id."""
        return {call: result(step, part) for call, step, part in self.calls}


def result(step: int, part: int = 0) -> str:
    """Return the result of a call."""
    return f"result {step}.{part}"


def all_results(steps: int) -> list[str]:
    """Return the results of a whole loop, in order."""
    return [result(step, part) for step in range(1, steps + 1) for part in range(2 if step == PARALLEL_STEP else 1)]


class Agent:
    """Base: a conversation of one user with tools."""

    model: str
    history: list[Any]

    def __init__(self, model: str, stream: bool = False) -> None:
        self.model = model
        self.stream = stream
        self.history = []
        self.said: list[Said] = []

    def say(self, text: str) -> Said:
        """Say something, and return the response."""
        self._user(text)
        self.said.append(self._ask())
        return self.said[-1]

    def give(self, results: dict[str, str]) -> Said:
        """Send results, and return the response."""
        self._results(results)
        self.said.append(self._ask())
        return self.said[-1]

    def work(self, text: str, before: Callable[[int], None] = lambda turn: None) -> Said:
        """Say something and run the tools until there are no more calls. `before` is called before each turn."""
        before(1)
        said, turn = self.say(text), 1
        while said.calls:
            turn += 1
            before(turn)
            said = self.give(said.results())
        return said

    def recall(self) -> Json:
        """Return what the model can see of the conversation."""
        found: Json = json.loads(self.say("recall").text)
        return found

    def _user(self, text: str) -> None:
        raise NotImplementedError

    def _results(self, results: dict[str, str]) -> None:
        raise NotImplementedError

    def _ask(self) -> Said:
        raise NotImplementedError


class ChatAgent(Agent):
    """Chat Completions. With `echo="reasoning"` it knows `reasoning_content` and no other extension."""

    def __init__(
        self, client: openai.OpenAI, model: str, *, echo: Echo = "all", stream: bool = False, **options: Any
    ) -> None:
        super().__init__(model, stream)
        self.client = client
        self.echo = echo
        self.options = options

    def _user(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def _results(self, results: dict[str, str]) -> None:
        self.history += [{"role": "tool", "tool_call_id": call, "content": text} for call, text in results.items()]

    def _ask(self) -> Said:
        tool = {"type": "function", "function": {"name": "work", "parameters": SCHEMA, "strict": True}}
        body: Json = {"model": self.model, "messages": self.history, "tools": [tool], "reasoning_effort": "high"}
        body |= self.options
        completions: Any = self.client.chat.completions
        if self.stream:
            with completions.stream(**body) as events:
                native = events.until_done().current_completion_snapshot.to_dict(mode="json", warnings=False)
        else:
            native = completions.create(**body).to_dict(mode="json", warnings=False)
        message = native["choices"][0]["message"]
        calls = [_chat_call(call) for call in message.get("tool_calls") or []]
        self.history.append(self._echoed(message, calls))
        found = [(call["id"], json.loads(call["function"]["arguments"])) for call in calls]
        return Said(message.get("content") or "", [(call, args["step"], args["part"]) for call, args in found], native)

    def _echoed(self, message: Json, calls: list[Json]) -> Json:
        known = {"role": "assistant", "content": message.get("content")}
        if self.echo == "all":
            known = {name: value for name, value in message.items() if value is not None and name != "parsed"}
        elif self.echo == "reasoning" and message.get("reasoning_content"):
            known["reasoning_content"] = message["reasoning_content"]
        return {**known, "tool_calls": calls} if calls else known


def _chat_call(call: Json) -> Json:
    function = {name: call["function"][name] for name in ("name", "arguments")}
    return {"id": call["id"], "type": "function", "function": function}


class MessagesAgent(Agent):
    """Messages. Without `thinking` it did not ask for any; with `echo="nothing"` it drops what it gets all the same."""

    def __init__(
        self,
        client: anthropic.Anthropic,
        model: str,
        *,
        thinking: Json | None = None,
        echo: Echo = "all",
        stream: bool = False,
    ) -> None:
        super().__init__(model, stream)
        self.client = client
        self.thinking = thinking
        self.echo = echo

    def _user(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def _results(self, results: dict[str, str]) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": call, "content": text} for call, text in results.items()]
        self.history.append({"role": "user", "content": blocks})

    def _ask(self) -> Said:
        tools = [{"name": "work", "input_schema": SCHEMA}]
        body: Json = {"model": self.model, "max_tokens": 4000, "messages": self.history, "tools": tools}
        if self.thinking:
            body["thinking"] = self.thinking
        messages: Any = self.client.messages
        if self.stream:
            with messages.stream(**body) as events:
                native = events.get_final_message().to_dict(mode="json", warnings=False)
        else:
            native = messages.create(**body).to_dict(mode="json", warnings=False)
        blocks = [
            {name: value for name, value in block.items() if name != "parsed_output"} for block in native["content"]
        ]
        kept = [block for block in blocks if self.echo == "all" or "thinking" not in block["type"]]
        self.history.append({"role": "assistant", "content": kept})
        calls = [(block["id"], block["input"]) for block in blocks if block["type"] == "tool_use"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        return Said(text, [(call, args["step"], args["part"]) for call, args in calls], native)


class ResponsesAgent(Agent):
    """Responses, linked by `previous_response_id`, by `conversation`, or by sending all items."""

    def __init__(
        self,
        client: openai.OpenAI,
        model: str,
        *,
        link: Link = "previous",
        stream: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(model, stream)
        self.client = client
        self.link = link
        self.options = options
        self.previous: str | None = None
        self.conversation: str | None = None

    def _user(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def _results(self, results: dict[str, str]) -> None:
        self.history += [
            {"type": "function_call_output", "call_id": call, "output": text} for call, text in results.items()
        ]

    def request(self) -> Json:
        """Return the request for the next turn."""
        body: Json = {"model": self.model, "input": self.history, "tools": RESPONSES_TOOLS, **self.options}
        if self.link == "items":
            return {"store": False, "include": ["reasoning.encrypted_content"], **body}
        if self.link == "previous":
            return {**body, "previous_response_id": self.previous} if self.previous else body
        if self.conversation is None:
            self.conversation = self.client.conversations.create().id
        return {**body, "conversation": self.conversation}

    def take(self, native: Json) -> Said:
        """Take a response into the history, and return it."""
        self.previous = native["id"]
        self.history = [*self.history, *map(_sent_back, native["output"])] if self.link == "items" else []
        calls = [(item["call_id"], json.loads(item["arguments"])) for item in native["output"] if _is_call(item)]
        messages = [item for item in native["output"] if item["type"] == "message"]
        text = "".join(part.get("text", "") for item in messages for part in item["content"])
        return Said(text, [(call, args["step"], args["part"]) for call, args in calls], native)

    def _ask(self) -> Said:
        responses: Any = self.client.responses
        if not self.stream:
            return self.take(responses.create(**self.request()).to_dict(mode="json", warnings=False))
        final: Any = None
        for event in responses.create(**self.request(), stream=True):
            final = event if event.type in TERMINAL else final
        assert final is not None, "the stream had no terminal event"
        return self.take(final.response.to_dict(mode="json", warnings=False))


def _is_call(item: Json) -> bool:
    return bool(item["type"] == "function_call")


def _sent_back(item: Json) -> Json:
    return {name: value for name, value in item.items() if value is not None and name != "parsed_arguments"}
