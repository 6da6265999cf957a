"""Clients that speak Chat Completions or Responses: Codex, opencode, and programs with an SDK."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from tests.caches.clients import Client, Result, Spent, prose, replaced, session_id
from tests.caches.units import Json
from tests.vendors.everyday_kit import PNG_DATA
from trilogue.model import Protocol

_CODEX_ID = "01a1e527-60e7-75f0-b54c-e52e3a469700"


class ResponsesClient(Client):
    """Base of the Responses clients: they send all items again, as they got them."""

    protocol = Protocol.RESPONSES
    path = "/v1/responses"

    def say(self, text: str, image: bool = False) -> None:
        picture: list[Json] = [{"type": "input_image", "image_url": PNG_DATA, "detail": "high"}] if image else []
        parts = [*picture, {"type": "input_text", "text": text}]
        self.history.append({"type": "message", "role": "user", "content": parts})

    def remind(self, text: str) -> None:
        parts = [{"type": "input_text", "text": text}]
        self.history.append({"type": "message", "role": "developer", "content": parts})

    def results(self, results: Sequence[Result]) -> None:
        for one in results:
            output: Any = f"Exit code 1\n{one.text}" if one.error else one.text
            if one.image:
                output = [
                    {"type": "input_text", "text": one.text},
                    {"type": "input_image", "image_url": PNG_DATA, "detail": "high"},
                ]
            self.history.append({"type": "function_call_output", "call_id": one.call, "output": output})

    def take(self, native: Any) -> list[str]:
        self.history += [self.sent_back(item) for item in native["output"]]
        return [item["call_id"] for item in native["output"] if item["type"] == "function_call"]

    def sent_back(self, item: Json) -> Json:
        """Return an item as the client sends it back."""
        return item

    def spent(self, native: Any) -> Spent:
        usage = native["usage"]
        details = usage["input_tokens_details"]
        return Spent(details["cached_tokens"], details.get("cache_write_tokens") or 0, usage["input_tokens"])

    def body(self) -> Json:
        items = [*self.front(), *deepcopy(self.history)]
        return {**self.base, "model": self.model, "tools": deepcopy(self.tools), "input": items, "stream": self.stream}

    def front(self) -> list[Json]:
        """Return the items before the history."""
        return [{"role": "developer", "content": self.system}]


class Codex(ResponsesClient):
    """Codex: instructions in items, a cache key per session, and sealed reasoning that comes back."""

    EVERYDAY = "codex first turn"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.id = session_id(self.session * 100 + len(self.agent))
        self.base = replaced(self.base, _CODEX_ID, self.id)
        self.day_headers = replaced(self.day_headers, _CODEX_ID, self.id)

    def call(self, number: int) -> tuple[str, Json]:
        return "exec_command", {"cmd": f"run {number}"}

    def front(self) -> list[Json]:
        texts = (("developer", self.system), ("developer", prose("skills", 1500)), ("user", prose("environment", 300)))
        return [
            {
                "type": "message",
                "id": f"msg_{self.id}{at}",
                "role": role,
                "content": [{"type": "input_text", "text": text}],
            }
            for at, (role, text) in enumerate(texts)
        ]


class CodexSocket(Codex):
    """Codex over a WebSocket: after the first request it sends only what is new, and stores nothing."""

    by_socket = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.previous: tuple[str, str] | None = None
        """the last response, and the model that gave it"""
        self.known = 0

    def body(self) -> Json:
        body = super().body()
        if self.previous is None or self.previous[1] != self.model:
            return body
        return {**body, "input": deepcopy(self.history[self.known :]), "previous_response_id": self.previous[0]}

    def take(self, native: Any) -> list[str]:
        calls = super().take(native)
        self.previous, self.known = (native["id"], self.model), len(self.history)
        return calls

    def restart(self, summary: str) -> None:
        self.previous = None
        super().restart(summary)


class OpencodeResponses(ResponsesClient):
    """opencode: it has a cache key, and sends items back without their ids."""

    EVERYDAY = "opencode responses results"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.base["prompt_cache_key"] = f"ses_{self.session}{self.agent}"

    def headers(self) -> dict[str, str]:
        return {**self.day_headers, "x-session-id": f"ses_{self.session}", "x-session-affinity": f"ses_{self.session}"}

    def call(self, number: int) -> tuple[str, Json]:
        return "bash", {"command": f"run {number}"}

    def sent_back(self, item: Json) -> Json:
        return {name: value for name, value in item.items() if name not in ("id", "status")}


class Chain(ResponsesClient):
    """A program with the OpenAI SDK that sends only what is new, with `previous_response_id`."""

    EVERYDAY = "pydantic-ai responses results"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.previous: str | None = None
        self.base["instructions"] = self.system
        self.base.pop("include", None)
        self.tools = [
            {**deepcopy(tool), "name": f"{tool['name']}_{number}", "description": prose(f"chain {number}", 1200)}
            for tool in self.tools
            for number in range(1 if self.agent else 5)
        ]

    def call(self, number: int) -> tuple[str, Json]:
        return "get_weather_0", {"city": f"City {number}"}

    def front(self) -> list[Json]:
        return []

    def body(self) -> Json:
        body = super().body()
        return {**body, "previous_response_id": self.previous} if self.previous else body

    def take(self, native: Any) -> list[str]:
        self.previous = native["id"]
        self.history = []
        return [item["call_id"] for item in native["output"] if item["type"] == "function_call"]

    def restart(self, summary: str) -> None:
        self.previous = None
        super().restart(summary)


class SdkResponses(Chain):
    """The same program, but it sends all items and stores nothing."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.base |= {"store": False, "include": ["reasoning.encrypted_content"]}

    def take(self, native: Any) -> list[str]:
        return ResponsesClient.take(self, native)


class ChatClient(Client):
    """Base of the Chat clients."""

    protocol = Protocol.CHAT
    path = "/v1/chat/completions"
    echoes = True
    """whether reasoning comes back"""

    def say(self, text: str, image: bool = False) -> None:
        parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": PNG_DATA}}]
        self.history.append({"role": "user", "content": parts if image else text})

    def remind(self, text: str) -> None:
        self.history.append({"role": "system", "content": text})

    def results(self, results: Sequence[Result]) -> None:
        self.history += [{"role": "tool", "tool_call_id": one.call, "content": one.text} for one in results]

    def take(self, native: Any) -> list[str]:
        message: Json = {"role": "assistant", "content": native.get("content") or ""}
        if self.echoes and native.get("reasoning_content"):
            message["reasoning_content"] = native["reasoning_content"]
        calls = native.get("tool_calls") or []
        self.history.append({**message, "tool_calls": calls} if calls else message)
        return [call["id"] for call in calls]

    def spent(self, native: Any) -> Spent:
        usage = native["usage"]
        details = usage.get("prompt_tokens_details") or {}
        return Spent(details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0, usage["prompt_tokens"])

    def body(self) -> Json:
        messages = [{"role": "system", "content": self.system}, *deepcopy(self.history)]
        body = {**self.base, "model": self.model, "messages": messages, "tools": deepcopy(self.tools)}
        body["stream"] = self.stream
        if not self.stream:
            body.pop("stream_options", None)
            return body
        return {**body, "stream_options": {"include_usage": True}}


class OpencodeChat(ChatClient):
    """opencode with a compatible provider."""

    EVERYDAY = "opencode chat results"

    def headers(self) -> dict[str, str]:
        return {**self.day_headers, "x-session-id": f"ses_{self.session}", "x-session-affinity": f"ses_{self.session}"}

    def call(self, number: int) -> tuple[str, Json]:
        return "bash", {"command": f"run {number}"}


class SdkChat(ChatClient):
    """A program with the OpenAI SDK: it has no session id, no cache key, and drops reasoning."""

    EVERYDAY = "pydantic-ai chat results"
    echoes = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tools = [
            {
                "type": "function",
                "function": {
                    **deepcopy(tool["function"]),
                    "name": f"get_weather_{number}",
                    "description": prose(f"chat {number}", 1200),
                },
            }
            for tool in self.tools
            for number in range(1 if self.agent else 5)
        ]

    def call(self, number: int) -> tuple[str, Json]:
        return "get_weather_0", {"city": f"City {number}"}
