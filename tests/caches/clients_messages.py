"""Clients that speak Messages: Claude Code, an old version of it, opencode, and a program with an SDK."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from tests.caches.clients import Client, Result, Spent, prose, replaced, session_id
from tests.caches.units import Json
from tests.vendors.everyday_kit import PNG
from trilogue.model import Protocol

MARK: Json = {"type": "ephemeral"}
_SESSION = "11111111-2222-4333-8444-555555555555"
_IMAGE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


class MessagesClient(Client):
    """Base of all Messages clients. `mid_system`: reminders are turns of their own, which newer models accept."""

    protocol = Protocol.MESSAGES
    path = "/v1/messages"
    mid_system = True

    def say(self, text: str, image: bool = False) -> None:
        self.history.append({"role": "user", "content": [*([_IMAGE] if image else []), _text(text)]})

    def remind(self, text: str) -> None:
        if self.mid_system:
            self.history.append({"role": "system", "content": text})
        else:
            reminder = _text(f"<system-reminder>\n{text}\n</system-reminder>\n")
            self.history[-1] = {**self.history[-1], "content": [*self.history[-1]["content"], reminder]}

    def results(self, results: Sequence[Result]) -> None:
        self.history.append({"role": "user", "content": [_result(one) for one in results]})

    def take(self, native: Any) -> list[str]:
        self.history.append({"role": "assistant", "content": native["content"]})
        return [block["id"] for block in native["content"] if block["type"] == "tool_use"]

    def spent(self, native: Any) -> Spent:
        usage = native["usage"]
        read, written = usage.get("cache_read_input_tokens") or 0, usage.get("cache_creation_input_tokens") or 0
        return Spent(read, written, usage["input_tokens"] + read + written)

    def body(self) -> Json:
        messages = deepcopy(self.history)
        system = self._system()
        self.mark(system, messages)
        body = {**self.base, "model": self.model, "system": system, "messages": messages, "stream": self.stream}
        return {**body, "tools": deepcopy(self.tools)} if self.tools else body

    def mark(self, system: list[Json], messages: list[Json]) -> None:
        """Set the marks of the next request."""

    def _system(self) -> list[Json]:
        return [_text(self.system)]


def _result(result: Result) -> Json:
    block: Json = {"tool_use_id": result.call, "type": "tool_result", "content": result.text}
    if result.image:
        block["content"] = [_text(result.text), _IMAGE]
    return {**block, "is_error": True} if result.error else block


class ClaudeCode(MessagesClient):
    """Claude Code: its billing line is the same in all requests of an agent in a session."""

    EVERYDAY = "claude-code first turn"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.base = replaced(self.base, _SESSION, session_id(self.session))
        self.first = ""

    def say(self, text: str, image: bool = False) -> None:
        super().say(text, image)
        if len(self.history) == 1:
            self.first = text
            reminder = _text(f"<system-reminder>\n{prose('project', 2000)}\n</system-reminder>\n")
            self.history[0]["content"].insert(0, reminder)
            self.remind(f"Helpers:\n{prose('helpers', 900)}")

    def headers(self) -> dict[str, str]:
        agent = {"x-claude-code-agent-id": self.agent} if self.agent else {}
        return {**self.day_headers, "x-claude-code-session-id": session_id(self.session), **agent}

    def call(self, number: int) -> tuple[str, Json]:
        return "Bash", {"command": f"run {number}"}

    def restart(self, summary: str) -> None:
        super().restart(f"This session is being continued.\n{summary}")

    def billing(self) -> str:
        """Return what stands at the end of the version in the billing line: it is drawn from the first message."""
        return hashlib.sha256(self.first.encode()).hexdigest()[:3]

    def mark(self, system: list[Json], messages: list[Json]) -> None:
        for block in system[1:]:
            block["cache_control"] = MARK
        last = [message for message in messages if message["role"] == "user"][-1]
        last["content"][-1]["cache_control"] = MARK

    def _system(self) -> list[Json]:
        more = " cc_is_subagent=true;" if self.agent else ""
        line = f"x-anthropic-billing-header: cc_version=2.1.327.{self.billing()}; cc_entrypoint=cli;{more}"
        return [_text(line), _text("You are Claude Code."), _text(self.system)]


class OldClaudeCode(ClaudeCode):
    """Claude Code 2.1.175, whose billing line changes in every request."""

    def billing(self) -> str:
        request = f"{self.session} {self.agent} {len(self.history)}"
        return hashlib.sha256(request.encode()).hexdigest()[:3]


class OpencodeMessages(MessagesClient):
    """opencode: marks on its instructions and on the last block of the last two turns."""

    EVERYDAY = "opencode messages results"
    mid_system = False

    def headers(self) -> dict[str, str]:
        return {**self.day_headers, "x-session-id": f"ses_{self.session}", "x-session-affinity": f"ses_{self.session}"}

    def call(self, number: int) -> tuple[str, Json]:
        return "bash", {"command": f"run {number}", "description": "Run"}

    def mark(self, system: list[Json], messages: list[Json]) -> None:
        system[0]["cache_control"] = MARK
        for message in messages[-2:]:
            last = message["content"][-1]
            if "thinking" not in last["type"]:
                last["cache_control"] = MARK


class SdkMessages(MessagesClient):
    """A program with the Vercel AI SDK and automatic caching."""

    EVERYDAY = "vercel messages adaptive"
    mid_system = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.base["tool_choice"] = {"type": "auto"}
        self.tools = [
            {**deepcopy(tool), "name": f"{tool['name']}_{number}", "description": prose(f"sdk {number}", 1200)}
            for tool in self.tools
            for number in range(1 if self.agent else 5)
        ]

    def call(self, number: int) -> tuple[str, Json]:
        return "weather_0", {"city": f"City {number}"}


class PlainMessages(SdkMessages):
    """The same program without any caching of its own: Anthropic reads nothing for it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        del self.base["cache_control"]
