"""The policy `block_phrases`: stops a response, or takes words out of it, where it says one of some phrases."""

from __future__ import annotations

import re
from typing import Literal

from trilogue.model import Block, Native, Request, ToolCall
from trilogue.policies.calls import map_arguments, strings_in
from trilogue.policies.policy import Context, Policy, PolicySettings
from trilogue.policies.scan import LONGEST_PHRASE, phrase_scan
from trilogue.policies.shipped.action import SettingsProblem
from trilogue.policies.texts import map_block, map_everything
from trilogue.policies.verdicts import PASS, Rewrite, StopWith

Where = Literal["text", "reasoning", "arguments", "request"]


class BlockPhrasesSettings(PolicySettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `block_phrases`. `replace`: put this in place of a phrase; without it, the response stops."""

    phrases: tuple[str, ...]
    where: tuple[Where, ...] = ("text",)
    match_case: bool = False
    replace: str | None = None
    words: str = "The response was stopped by a policy."
    refusal: bool = True


class BlockPhrases(Policy):
    """Looks for phrases and acts on the first one."""

    Settings = BlockPhrasesSettings
    _default_name = "BlockPhrases"

    def __init__(self, settings: PolicySettings) -> None:
        if not isinstance(settings, BlockPhrasesSettings):
            raise SettingsProblem("phrases: are required")
        super().__init__(settings)
        if not settings.phrases or not all([phrase.strip() for phrase in settings.phrases]):
            raise SettingsProblem("phrases: there must be at least one, and none may be empty")
        if max(map(len, settings.phrases)) > LONGEST_PHRASE:
            raise SettingsProblem(f"phrases: one has more than {LONGEST_PHRASE} characters")
        self._settings = settings
        self.find = self._scan = phrase_scan(settings.phrases, ignore_case=not settings.match_case)
        self.text = "flow" if "text" in settings.where else None
        self.reasoning = "flow" if "reasoning" in settings.where else None
        self.calls = "arguments" in settings.where

    def on_request(self, request: Request, context: Context) -> object:
        """Refuse or change a request with a phrase."""
        if "request" not in self._settings.where:
            return PASS
        fixed: list[str] = []
        changed = map_everything(request, self._changed, fixed.append)
        if any([self._scan.finds(text) for text in fixed]):
            return self._stop()
        return PASS if changed is request else self._verdict(changed)

    def on_match(self, match: re.Match[str], context: Context) -> object:
        """Act on a phrase in text that flows."""
        replacement = self._settings.replace
        return self._stop() if replacement is None else replacement

    def on_block(self, block: Block, context: Context) -> object:
        """Act on a phrase in the arguments of a call."""
        if isinstance(block, ToolCall):
            called = map_arguments(block, self._changed, names=True)
            return PASS if called is block else self._verdict(called)
        changed = map_block(block, self._changed)
        if isinstance(changed, Native) and any([self._scan.finds(text) for _, text in strings_in(changed.data)]):
            # It is where nothing can be put in its place.
            return self._stop()
        return PASS if changed is block else self._verdict(changed)

    def _changed(self, text: str) -> str:
        return self._scan.replaced(text, lambda _: self._settings.replace or "")

    def _verdict(self, changed: Block | Request) -> object:
        return self._stop() if self._settings.replace is None else Rewrite(changed, reason="a phrase was replaced")

    def _stop(self) -> StopWith:
        return StopWith(self._settings.words, self._settings.refusal, reason="a phrase was found")
