"""The policy `rewrite`: changes text by rule, in responses and, where a rule says so, in requests and arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from trilogue.model import Block, Request
from trilogue.policies.policy import Context, Policy, PolicySettings
from trilogue.policies.scan import LONGEST_PHRASE, Scan, longest_match, phrase_scan
from trilogue.policies.shipped.action import SettingsProblem, compiled
from trilogue.policies.texts import map_block, map_request
from trilogue.policies.verdicts import PASS, Rewrite

Where = Literal["text", "reasoning", "arguments", "request"]


class RewriteRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule: `find` a literal text, or `pattern` a regular expression, and put `replace` in its place.

    In `replace`, `\\1` is the first group of a pattern.
    """

    find: str = ""
    pattern: str = ""
    replace: str = ""
    ignore_case: bool = False


class RewriteSettings(PolicySettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `rewrite`. The first rule that fits at a place counts there."""

    rules: tuple[RewriteRule, ...]
    where: tuple[Where, ...] = ("text",)


class RewriteText(Policy):
    """Puts other text in place of what its rules find."""

    Settings = RewriteSettings

    def __init__(self, settings: PolicySettings) -> None:
        if not isinstance(settings, RewriteSettings):
            raise SettingsProblem("rules: are required")
        super().__init__(settings)
        self._rules = [_Rule(rule, f"rules[{number}]") for number, rule in enumerate(settings.rules)]
        if not self._rules:
            raise SettingsProblem("rules: there must be at least one")
        self._where = settings.where
        self._all = _all_of(self._rules)
        self.find = _scan(self._all, self._rules)
        whole_or_flow: Literal["flow", "whole"] = "flow" if self.find else "whole"
        self.text = whole_or_flow if "text" in self._where else None
        self.reasoning = whole_or_flow if "reasoning" in self._where else None
        self.calls = "arguments" in self._where

    def on_request(self, request: Request, context: Context) -> object:
        """Rewrite the text of the request."""
        if "request" not in self._where:
            return PASS
        changed = map_request(request, self._changed)
        return PASS if changed is request else Rewrite(changed)

    def on_match(self, match: re.Match[str], context: Context) -> object:
        """Return what to put in place of a match."""
        return self._replacement(match)

    def on_block(self, block: Block, context: Context) -> object:
        """Rewrite a whole block: the strings in arguments, or text that a rule without a limit looks at."""
        changed = map_block(block, self._changed)
        return PASS if changed is block else Rewrite(changed)

    def _changed(self, text: str) -> str:
        return self._all.sub(self._replacement, text)

    def _replacement(self, match: re.Match[str]) -> str:
        rule = next(rule for rule in self._rules if match[rule.name] is not None)
        return rule.replacement(match)


class _Rule:
    def __init__(self, rule: RewriteRule, setting: str) -> None:
        if bool(rule.find) is bool(rule.pattern):
            raise SettingsProblem(f"{setting}: either find or pattern is required")
        if len(rule.find) > LONGEST_PHRASE:
            raise SettingsProblem(f"{setting}.find: has more than {LONGEST_PHRASE} characters")
        flags = re.IGNORECASE if rule.ignore_case else re.NOFLAG
        self.literal = rule.find
        self.ignore_case = rule.ignore_case
        self._pattern = rule.pattern or re.escape(rule.find)
        own = compiled(self._pattern, setting, flags)
        if own.groupindex or _BACK.search(rule.pattern):
            raise SettingsProblem(f"{setting}.pattern: named groups and back references are not supported")
        self.name = "r" + re.sub(r"\D", "", setting)
        self._replace = rule.replace if rule.pattern else rule.replace.replace("\\", r"\\")
        if any([number and int(number) > own.groups for number in _GROUP.findall(self._replace)]):
            raise SettingsProblem(f"{setting}.replace: the pattern has no such group")

    def written(self) -> str:
        """Return the rule as a part of the pattern of all rules."""
        flag = "i" if self.ignore_case else ""
        return f"(?P<{self.name}>(?{flag}:{self._pattern}))"

    def replacement(self, match: re.Match[str]) -> str:
        """Return the text to put in place of a match of the pattern of all rules."""
        # The groups of a rule follow the one that is around all of it.
        first = match.re.groupindex[self.name]
        return _GROUP.sub(lambda found: match[first + int(found[1])] or "" if found[1] else "\\", self._replace)


_GROUP = re.compile(r"\\(?:([0-9])|\\)")
"""in a replacement: a group of the pattern, or a backslash"""
_BACK = re.compile(r"\\[1-9]|\(\?P=")


def _all_of(rules: Iterable[_Rule]) -> re.Pattern[str]:
    return re.compile("|".join([rule.written() for rule in rules]))


def _scan(pattern: re.Pattern[str], rules: list[_Rule]) -> Scan | None:
    """Return the scan of all rules, or None if one of them has no limit."""
    if all([rule.literal for rule in rules]):
        by_case = phrase_scan([rule.literal for rule in rules], ignore_case=any([rule.ignore_case for rule in rules]))
        return Scan(pattern=pattern, partial=by_case.partial, reach=by_case.reach)
    longest = longest_match(pattern)
    return None if longest is None else Scan(pattern=pattern, reach=longest)
