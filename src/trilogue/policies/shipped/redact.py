"""The policy `redact`: takes secrets and personal data out of requests, and puts them back into responses.

A value in the request becomes a placeholder such as `<<EMAIL_1>>`, the same one wherever the value occurs. What the
model writes with a placeholder comes back with the value. What the model writes by itself is redacted for good. Values
are numbered in the order in which they first occur, so a conversation that grows keeps its numbers, and prompt caches
stay valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from msgspec import field

from trilogue.model import Block, Request, ToolCall
from trilogue.policies.calls import map_arguments
from trilogue.policies.everything import map_everything
from trilogue.policies.policy import Context, Policy, PolicySettings
from trilogue.policies.scan import Scan, longest_match, written
from trilogue.policies.shipped.action import SettingsProblem, compiled
from trilogue.policies.shipped.detectors import DETECTORS, KINDS, PLACEHOLDER, Detector, OwnDetector, scan_for
from trilogue.policies.texts import map_block
from trilogue.policies.verdicts import PASS, Rewrite, StopWith

_KIND = re.compile(r"[A-Z][A-Z_]{1,30}")
_LONGEST_CUSTOM = 200
"""characters of a match of a custom pattern that is found while text flows; that many are always held back"""
_MARK = re.compile(written(PLACEHOLDER))


class RedactSettings(PolicySettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `redact`.

    `kinds`: what to look for; all by default. `patterns`: further kinds by name. `directions`: where to redact.
    `restore`: whether the response gets the values back. `reasoning`: whether reasoning is treated as well, which
    costs its signature.
    """

    kinds: tuple[str, ...] = KINDS
    patterns: dict[str, str] = field(default_factory=dict)
    directions: Literal["both", "request", "response"] = "both"
    restore: bool = True
    reasoning: bool = False


_CANNOT = "The request was refused by a policy: it has a value to redact in an id, a name or an address."


class _Values:
    """The values that were taken out of one request, by placeholder."""

    def __init__(self, taken: frozenset[str]) -> None:
        self._taken = taken
        self._marks: dict[tuple[str, str], str] = {}
        self._numbers: dict[str, int] = {}
        self.by_name: dict[str, str] = {}

    def mark(self, kind: str, value: str) -> str:
        """Return the placeholder of a value."""
        known = self._marks.get((kind, value))
        if known is not None:
            return known
        name = self._next_name(kind)
        self._marks[kind, value] = mark = f"<<{name}>>"
        self.by_name[name] = value
        return mark

    def restored(self, text: str) -> str | None:
        """Return the value of a placeholder, or None if it is not one of ours."""
        return self.by_name.get(_name_in(text))

    def _next_name(self, kind: str) -> str:
        while True:
            number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
            # A text that already has such a placeholder must not get a value of ours in its place.
            if f"{kind}_{number}" not in self._taken:
                return f"{kind}_{number}"


_NONE = _Values(frozenset())


def _name_in(mark: str) -> str:
    return mark.strip("<> ").upper()


class Redact(Policy):
    """Redacts values on the way out and restores them on the way back."""

    Settings = RedactSettings
    _default_name = "Redact"
    # Otherwise another model would get to see what the first one must not.
    internal = True
    calls = True
    others = True

    def __init__(self, settings: PolicySettings | None = None) -> None:
        chosen = settings if isinstance(settings, RedactSettings) else RedactSettings()
        super().__init__(chosen)
        self._settings = chosen
        built_in, own = _built_in(chosen.kinds), _custom(chosen.patterns)
        self._valid = {detector.kind: detector.valid for detector in built_in if detector.valid}
        self._request = scan_for(built_in, placeholders=False, own=own)
        both = chosen.directions != "request"
        self._response = scan_for(built_in if both else [], placeholders=chosen.restore, own=own if both else [])
        self.text = "flow"
        self.reasoning = "flow" if chosen.reasoning else None

    def on_request(self, request: Request, context: Context) -> object:
        """Put placeholders in place of values."""
        if self._settings.directions == "response":
            return PASS
        values = _Values(_placeholders_in(request))
        fixed: list[str] = []
        mark = self._marker(values)
        changed = map_everything(request, lambda text: self._request.replaced(text, mark), fixed.append)
        if any([self._request.replaced(text, mark) != text for text in fixed]):
            return StopWith(_CANNOT, reason="a value is where it cannot be redacted")
        context.notes[self] = values
        if changed is request:
            return PASS
        number = len(values.by_name)
        return Rewrite(changed, reason=f"{number} value{'' if number == 1 else 's'} redacted")

    def scan(self, block: Block, context: Context) -> Scan | None:
        """Look for placeholders and values in text that flows."""
        return self._response

    def on_match(self, match: re.Match[str], context: Context) -> object:
        """Restore a placeholder, or redact a value."""
        replacement = self._replacement(match, context)
        return PASS if replacement is None else replacement

    def on_block(self, block: Block, context: Context) -> object:
        """Restore and redact inside a complete block; in a call, inside the strings of its arguments."""

        def change(text: str) -> str:
            return self._response.replaced(text, lambda match: self._replacement(match, context))

        changed: Block = (
            map_arguments(block, change, names=True) if isinstance(block, ToolCall) else map_block(block, change)
        )
        return PASS if changed is block else Rewrite(changed)

    def _marker(self, values: _Values) -> Callable[[re.Match[str]], str | None]:
        def mark(match: re.Match[str]) -> str | None:
            kind, value = match.lastgroup or "", match.group()
            return values.mark(kind, value) if self._is_valid(kind, value) else None

        return mark

    def _replacement(self, match: re.Match[str], context: Context) -> str | None:
        """Return what takes the place of a match, or None if it is nothing that is looked for."""
        kind, value = match.lastgroup or "", match.group()
        values: _Values = context.notes.get(self, _NONE)
        if kind == "PLACEHOLDER":
            return values.restored(value)
        if not self._is_valid(kind, value):
            return None
        # A value that the client sent itself is not a secret to it.
        return value if value in values.by_name.values() else f"[{kind} redacted]"

    def _is_valid(self, kind: str, value: str) -> bool:
        check = self._valid.get(kind)
        return check is None or check(value)


def _built_in(kinds: tuple[str, ...]) -> list[Detector]:
    for kind in kinds:
        if kind.upper() not in KINDS:
            raise SettingsProblem(f"kinds: there is no {kind}; there are {', '.join(KINDS)}")
    chosen = {kind.upper() for kind in kinds}
    return [detector for detector in DETECTORS if detector.kind in chosen]


def _custom(patterns: dict[str, str]) -> list[OwnDetector]:
    """Return the patterns of the settings. With one that has no limit, text waits for the end of the response."""
    found = []
    for kind, pattern in patterns.items():
        if not _KIND.fullmatch(kind) or kind in KINDS:
            raise SettingsProblem(f"patterns: {kind} must be a new name of capital letters")
        if compiled(pattern, f"patterns.{kind}").groups:
            raise SettingsProblem(f"patterns.{kind}: write groups as (?:…)")
        named = compiled(f"(?P<{kind}>{pattern})", f"patterns.{kind}")
        longest = longest_match(named)
        found.append(OwnDetector(named, longest if longest is not None and longest <= _LONGEST_CUSTOM else None))
    return found


def _placeholders_in(request: Request) -> frozenset[str]:
    """Return the names of placeholders that the text of a request already has."""
    found: set[str] = set()

    def look(text: str) -> str:
        if "<<" in text:
            found.update([_name_in(mark) for mark in _MARK.findall(text)])
        return text

    map_everything(request, look, look)
    return frozenset(found)
