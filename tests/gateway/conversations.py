"""Conversations as users of the official SDKs have them: ask, take the answer as it came, send it back, go on.

One class per protocol with the same methods; what is particular to a protocol stays inside. `Wish` says what the
conversation is about, in words that belong to none of them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar
from typing import Protocol as Interface

import anthropic
import openai

from tests.gateway.recorder import Exchange, Recorder
from tests.judges import meaning
from tests.judges.answers import Answer
from trilogue.model import Protocol

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
TOOLS = ("get_weather", "get_time")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


@dataclass(frozen=True)
class Wish:
    """What a conversation asks for."""

    tools: bool = False
    search: bool = False
    schema: bool = False
    reasoning: bool = False
    image: bool = False


NOTHING = Wish()


class Clients(Interface):
    """The official clients, and what they get as it came: those of a gateway, or of the library in process."""

    @property
    def openai(self) -> openai.OpenAI: ...
    @property
    def anthropic(self) -> anthropic.Anthropic: ...
    @property
    def recorder(self) -> Recorder: ...


class Conversation:
    """Base: the SDK call and what comes of it. `asked` is the request body without the history."""

    protocol: ClassVar[Protocol]

    def __init__(self, gateway: Clients, model: str, *, stream: bool, wish: Wish = NOTHING) -> None:
        self.gateway = gateway
        self.model = model
        self.stream = stream
        self.wish = wish
        self.history: list[Any] = []
        self.native: dict[str, Any] = {}
        """the last answer as the SDK gave it"""

    def say(self, text: str = "Hello") -> Answer:
        """A user message."""
        self.history.append(self._user(text))
        return self._go_on()

    def give(self, results: dict[str, str]) -> Answer:
        """The results of the calls, by call id."""
        self.history.extend(self._results(results))
        return self._go_on()

    @property
    def exchange(self) -> Exchange:
        """The last request and answer on the wire."""
        return self.gateway.recorder.last

    def _go_on(self) -> Answer:
        with warnings.catch_warnings():
            # Values that the SDK has no types for make pydantic warn when they are dumped.
            warnings.simplefilter("ignore", UserWarning)
            self.native = self._streamed() if self.stream else self._whole()
        self.history.extend(self._echo())
        return meaning.of_body(self.protocol, self.native)

    def _user(self, text: str) -> dict[str, Any]:
        raise NotImplementedError

    def _results(self, results: dict[str, str]) -> list[dict[str, Any]]:
        raise NotImplementedError

    def _body(self) -> dict[str, Any]:
        raise NotImplementedError

    def _whole(self) -> dict[str, Any]:
        raise NotImplementedError

    def _streamed(self) -> dict[str, Any]:
        raise NotImplementedError

    def _echo(self) -> list[Any]:
        raise NotImplementedError


class ChatConversation(Conversation):
    """Chat Completions with the `openai` package."""

    protocol = Protocol.CHAT

    def _user(self, text: str) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
        if self.wish.image:
            parts.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}})
        return {"role": "user", "content": parts if self.wish.image else text}

    def _results(self, results: dict[str, str]) -> list[dict[str, Any]]:
        return [{"role": "tool", "tool_call_id": call, "content": text} for call, text in results.items()]

    def _body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "messages": self.history}
        if self.wish.tools:
            # The streaming helper takes strict tools only.
            body["tools"] = [
                {"type": "function", "function": {"name": name, "parameters": SCHEMA, "strict": True}} for name in TOOLS
            ]
        if self.wish.schema:
            named = {"name": "person", "schema": PERSON, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        if self.wish.search:
            body["web_search_options"] = {}
        if self.wish.reasoning:
            body["reasoning_effort"] = "high"
        return body

    def _whole(self) -> dict[str, Any]:
        answer: Any = self.gateway.openai.chat.completions.create(**self._body())
        return dict(answer.to_dict(mode="json"))

    def _streamed(self) -> dict[str, Any]:
        usage: Any = {"include_usage": True}
        with self.gateway.openai.chat.completions.stream(**self._body(), stream_options=usage) as events:
            # Not get_final_completion: that raises for answers that are merely cut off by a limit.
            return events.until_done().current_completion_snapshot.to_dict(mode="json")

    def _echo(self) -> list[Any]:
        message = self.native["choices"][0]["message"]
        calls = [{k: v for k, v in call.items() if k != "index"} for call in message.get("tool_calls") or []]
        kept = {name: value for name, value in message.items() if value is not None and name != "parsed"}
        for call in calls:
            call["function"] = {k: v for k, v in call["function"].items() if k != "parsed_arguments"}
        return [kept | ({"tool_calls": calls} if calls else {})]


class MessagesConversation(Conversation):
    """Messages with the `anthropic` package."""

    protocol = Protocol.MESSAGES

    def _user(self, text: str) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
        if self.wish.image:
            source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
            parts.append({"type": "image", "source": source})
        return {"role": "user", "content": parts if self.wish.image else text}

    def _results(self, results: dict[str, str]) -> list[dict[str, Any]]:
        blocks = [{"type": "tool_result", "tool_use_id": call, "content": text} for call, text in results.items()]
        return [{"role": "user", "content": blocks}]

    def _body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "max_tokens": 2000, "messages": self.history, "tools": []}
        if self.wish.tools:
            body["tools"] += [{"name": name, "input_schema": SCHEMA} for name in TOOLS]
        if self.wish.search:
            body["tools"] += [{"type": "web_search_20250305", "name": "web_search"}]
        if self.wish.schema:
            body["output_config"] = {"format": {"type": "json_schema", "schema": PERSON}}
        if self.wish.reasoning:
            body["thinking"] = {"type": "enabled", "budget_tokens": 1024}
        return {name: value for name, value in body.items() if value != []}

    def _whole(self) -> dict[str, Any]:
        answer: Any = self.gateway.anthropic.messages.create(**self._body())
        return dict(answer.to_dict(mode="json"))

    def _streamed(self) -> dict[str, Any]:
        with self.gateway.anthropic.messages.stream(**self._body()) as events:
            return events.get_final_message().to_dict(mode="json")

    def _echo(self) -> list[Any]:
        content = [{k: v for k, v in block.items() if k != "parsed_output"} for block in self.native["content"]]
        return [{"role": "assistant", "content": content}] if content else []


class ResponsesConversation(Conversation):
    """Responses with the `openai` package, the history kept by the client."""

    protocol = Protocol.RESPONSES

    def _user(self, text: str) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [{"type": "input_text", "text": text}]
        if self.wish.image:
            url = f"data:image/png;base64,{PIXEL}"
            parts.append({"type": "input_image", "image_url": url, "detail": "auto"})
        return {"role": "user", "content": parts}

    def _results(self, results: dict[str, str]) -> list[dict[str, Any]]:
        return [{"type": "function_call_output", "call_id": call, "output": text} for call, text in results.items()]

    def _body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "input": self.history, "store": False, "tools": []}
        if self.wish.tools:
            body["tools"] += [
                {"type": "function", "name": name, "parameters": SCHEMA, "strict": True} for name in TOOLS
            ]
        if self.wish.search:
            body["tools"] += [{"type": "web_search"}]
        if self.wish.schema:
            body["text"] = {"format": {"type": "json_schema", "name": "person", "schema": PERSON, "strict": True}}
        if self.wish.reasoning:
            body["reasoning"] = {"effort": "high", "summary": "auto"}
            body["include"] = ["reasoning.encrypted_content"]
        return {name: value for name, value in body.items() if value != []}

    def _whole(self) -> dict[str, Any]:
        answer: Any = self.gateway.openai.responses.create(**self._body())
        return dict(answer.to_dict(mode="json"))

    def _streamed(self) -> dict[str, Any]:
        final: Any = None
        with self.gateway.openai.responses.stream(**self._body()) as events:
            for event in events:
                if event.type in ("response.completed", "response.incomplete", "response.failed"):
                    final = event
        assert final is not None, "no terminal event"
        return dict(final.response.to_dict(mode="json"))

    def _echo(self) -> list[Any]:
        return [
            {name: value for name, value in item.items() if name != "parsed_arguments"}
            for item in self.native["output"]
        ]


CONVERSATIONS: dict[Protocol, type[Conversation]] = {
    Protocol.CHAT: ChatConversation,
    Protocol.MESSAGES: MessagesConversation,
    Protocol.RESPONSES: ResponsesConversation,
}
