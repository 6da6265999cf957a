"""The policy `rewrite`: changes text by rule, in responses and, where a rule says so, in requests and arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from trilogue.model import Block, Request
from trilogue.policies.patterns import LinearPattern, escaped
from trilogue.policies.policy import Context, Policy, PolicySettings
from trilogue.policies.scan import LONGEST_PHRASE, Scan, literal_scan, longest_match
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
    _default_name = "RewriteText"

    def __init__(self, settings: PolicySettings) -> None:
        if not isinstance(settings, RewriteSettings):
            raise SettingsProblem("rules: are required")
        super().__init__(settings)
        self._rules = [_Rule(rule, f"rules[{number}]") for number, rule in enumerate(settings.rules)]
        if not self._rules:
            raise SettingsProblem("rules: there must be at least one")
        self._where = settings.where
        self._all = _all_of(self._rules)
        self.find = self._scan = _scan(self._all, self._rules)
        self.text = "flow" if "text" in self._where else None
        self.reasoning = "flow" if "reasoning" in self._where else None
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
        """Rewrite the strings in the arguments of a call."""
        changed = map_block(block, self._changed)
        return PASS if changed is block else Rewrite(changed)

    def _changed(self, text: str) -> str:
        return self._scan.replaced(text, self._replacement)

    def _replacement(self, match: re.Match[str]) -> str:
        rule = next(rule for rule in self._rules if match[rule.name] is not None)
        return rule.replacement(match, dict(self._all.groupindex))


class _Rule:
    def __init__(self, rule: RewriteRule, setting: str) -> None:
        if bool(rule.find) is bool(rule.pattern):
            raise SettingsProblem(f"{setting}: either find or pattern is required")
        if len(rule.find) > LONGEST_PHRASE:
            raise SettingsProblem(f"{setting}.find: has more than {LONGEST_PHRASE} characters")
        self.literal = rule.find
        self.ignore_case = rule.ignore_case
        self._pattern = rule.pattern or escaped(rule.find)
        own = compiled(rule.pattern, f"{setting}.pattern", ignore_case=rule.ignore_case) if rule.pattern else None
        if own is not None and own.groupindex:
            raise SettingsProblem(f"{setting}.pattern: named groups are not supported")
        self.name = "r" + re.sub(r"\D", "", setting)
        self._replace = rule.replace if rule.pattern else rule.replace.replace("\\", r"\\")
        if any([number and int(number) > (own.groups if own else 0) for number in _GROUP.findall(self._replace)]):
            raise SettingsProblem(f"{setting}.replace: the pattern has no such group")

    def written(self) -> str:
        """Return the rule as a part of the pattern of all rules."""
        flag = "i" if self.ignore_case else ""
        return f"(?P<{self.name}>(?{flag}:{self._pattern}))"

    def replacement(self, match: re.Match[str], groupindex: dict[str, int]) -> str:
        """Return the text to put in place of a match of the pattern of all rules. `groupindex`: its groups by name."""
        # The groups of a rule follow the one that is around all of it.
        first = groupindex[self.name]
        return _GROUP.sub(lambda found: match[first + int(found[1])] or "" if found[1] else "\\", self._replace)


_GROUP = re.compile(r"\\(?:([0-9])|\\)")
"""in a replacement: a group of the pattern, or a backslash"""


def _all_of(rules: Iterable[_Rule]) -> re.Pattern[str] | LinearPattern:
    pattern = "|".join([rule.written() for rule in rules])
    # Literal texts need no other engine, and are found faster without.
    return re.compile(pattern) if all([rule.literal for rule in rules]) else compiled(pattern, "rules")


def _scan(pattern: re.Pattern[str] | LinearPattern, rules: list[_Rule]) -> Scan:
    """Return the scan of all rules. If a rule has no limit, only a complete text can be searched."""
    if all([rule.literal for rule in rules]):
        by_case = literal_scan([rule.literal for rule in rules], ignore_case=any([rule.ignore_case for rule in rules]))
        return Scan(pattern=pattern, partial=by_case.partial, reach=by_case.reach)
    return Scan(pattern=pattern, reach=longest_match(pattern))
