"""The policy `inject_system`: adds text to the system prompt of every request."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from trilogue.model import Request, Role, Text, Turn
from trilogue.policies.policy import Context, Policy, PolicySettings
from trilogue.policies.shipped.action import SettingsProblem
from trilogue.policies.verdicts import PASS, Rewrite


class InjectSystemSettings(PolicySettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `inject_system`. `position`: before or after the system prompt that the client sent."""

    text: str
    position: Literal["first", "last"] = "last"


class InjectSystem(Policy):
    """A policy that adds a system turn with a given text to each request."""

    Settings = InjectSystemSettings
    _default_name = "InjectSystem"

    def __init__(self, settings: PolicySettings) -> None:
        if not isinstance(settings, InjectSystemSettings) or not settings.text.strip():
            raise SettingsProblem("text: must not be empty")
        super().__init__(settings)
        self._settings = settings

    def on_request(self, request: Request, context: Context) -> object:
        """Add the text, unless the request is a policy's own."""
        if context.internal:
            return PASS
        turns = request.turns
        # Behind the prompt: the text before it stays the same, and so does the cached prefix.
        leading = [turn.role in (Role.SYSTEM, Role.DEVELOPER) for turn in turns]
        at = 0 if self._settings.position == "first" else (leading.index(False) if False in leading else len(turns))
        added = Turn(role=Role.SYSTEM, blocks=(Text(text=self._settings.text),), leading=True, plain=True)
        return Rewrite(replace(request, turns=(*turns[:at], added, *turns[at:])), reason="system text added")
