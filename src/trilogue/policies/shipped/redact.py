"""The policy `redact`: takes secrets and personal data out of requests, and puts them back into responses.

A value in the request becomes a placeholder such as `<<EMAIL_1>>`, the same one wherever the value occurs. What the
model writes with a placeholder comes back with the value. What the model writes by itself is redacted for good. Values
are numbered in the order in which they first occur, so a conversation that grows keeps its numbers, and prompt caches
stay valid.

`DETECTORS` says what is looked for, as patterns that also work on text that is still arriving. Each is limited in
length, and comes with a second one for its beginnings (see `scan`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Literal

from msgspec import Struct, field

from trilogue.model import Block, Request, ToolCall
from trilogue.policies.calls import map_arguments
from trilogue.policies.patterns import FirstOf, Searcher
from trilogue.policies.policy import Context, Policy, PolicySettings
from trilogue.policies.scan import MARGIN, NEVER, Scan, Step, longest, longest_match, partly_written, steps_of, written
from trilogue.policies.shipped.action import SettingsProblem, compiled
from trilogue.policies.texts import map_block, map_everything
from trilogue.policies.verdicts import PASS, Rewrite, StopWith

_KIND = re.compile(r"[A-Z][A-Z_]{1,30}")
_LONGEST_CUSTOM = 200
"""characters of a match of a custom pattern that is found while text flows; that many are always held back"""


class Detector(Struct, frozen=True, kw_only=True):
    """One kind of data. `left`: what both patterns begin with. `valid` sorts out what only looks like a match."""

    kind: str
    pattern: str
    partial: str
    reach: int
    left: str = ""
    valid: Callable[[str], bool] | None = None


class OwnDetector(Struct, frozen=True):
    """A kind of data that the settings add. `reach`: the length of its longest match; None if there is no limit."""

    pattern: Searcher
    reach: int | None


def _detector(kind: str, steps: list[Step], *, left: str = "", valid: Callable[[str], bool] | None = None) -> Detector:
    return Detector(
        kind=kind,
        pattern=written(steps),
        partial=partly_written(steps),
        reach=longest(steps),
        left=left,
        valid=valid,
    )


def _has_digit(text: str) -> bool:
    return any([character.isdigit() for character in text])


def _is_card(text: str) -> bool:
    """Check the last digit of a card number (Luhn)."""
    digits = [int(character) for character in text if character.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0 and len(set(digits)) > 1


def _is_iban(text: str) -> bool:
    """Check the two check digits of an account number (ISO 7064)."""
    plain = text.replace(" ", "")
    return int("".join([str(int(character, 36)) for character in plain[4:] + plain[:4]])) % 97 == 1


_TOKEN = r"[A-Za-z0-9_-]"

DETECTORS: tuple[Detector, ...] = (
    _detector(
        "PRIVATE_KEY",
        [
            *steps_of("-----BEGIN "),
            Step("[A-Z ]", 0, 20),
            *steps_of("PRIVATE KEY-----"),
            Step("[^-]", 1, 8000),
            *steps_of("-----END "),
            Step("[A-Z ]", 0, 20),
            *steps_of("PRIVATE KEY-----"),
        ],
    ),
    _detector(
        "JWT",
        [
            *steps_of("eyJ"),
            Step(_TOKEN, 10, 2000),
            Step(r"\."),
            Step(_TOKEN, 10, 4000),
            Step(r"\."),
            Step(_TOKEN, 10, 1000),
        ],
        left=r"\b",
    ),
    # OpenAI, Anthropic and many others.
    _detector("API_KEY", [*steps_of("sk-"), Step(_TOKEN, 16, 300)], left=r"\b", valid=_has_digit),
    _detector("AWS_KEY", [Step("A"), Step("[KS]"), Step("I"), Step("A"), Step("[A-Z0-9]", 16, 16)], left=r"\b"),
    _detector("GITHUB_TOKEN", [*steps_of("gh"), Step("[pousr]"), Step("_"), Step("[A-Za-z0-9]", 30, 255)], left=r"\b"),
    _detector("GITLAB_TOKEN", [*steps_of("glpat-"), Step(_TOKEN, 20, 100)], left=r"\b"),
    _detector(
        "SLACK_TOKEN", [*steps_of("xox"), Step("[abeprs]"), Step("-"), Step("[A-Za-z0-9-]", 10, 250)], left=r"\b"
    ),
    _detector("GOOGLE_KEY", [*steps_of("AIza"), Step(_TOKEN, 35, 35)], left=r"\b"),
    Detector(
        kind="EMAIL",
        pattern=r"[A-Za-z0-9._%+-]{1,64}+@[A-Za-z0-9.-]{1,100}\.[A-Za-z]{2,24}",
        # Every word at the end of a text may be the beginning of an address, so this is what takes most of the time.
        partial=r"[A-Za-z0-9._%+-]{1,64}+(?:\Z|@(?:[A-Za-z0-9.-]{0,100}\Z|[A-Za-z0-9.-]{1,100}\.[A-Za-z]{0,24}\Z))",
        reach=190,
    ),
    Detector(
        kind="IBAN",
        left=r"\b",
        pattern=r"[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}\b",
        partial=r"[A-Z](?:\Z|[A-Z](?:\Z|[0-9](?:\Z|[0-9](?: ?[A-Z0-9]){0,30} ?\Z)))",
        reach=64,
        valid=_is_iban,
    ),
    Detector(
        kind="CARD",
        left=r"\b",
        pattern=r"[0-9](?:[ -]?[0-9]){12,18}\b",
        partial=r"[0-9](?:[ -]?[0-9]){0,18}[ -]?\Z",
        reach=37,
        valid=_is_card,
    ),
    Detector(
        kind="PHONE",
        pattern=r"\+[0-9](?:[ .()-]{0,2}[0-9]){6,14}\b",
        partial=r"\+(?:[0-9](?:[ .()-]{0,2}[0-9]){0,14}[ .()-]{0,2})?\Z",
        reach=45,
    ),
    _detector(
        "SSN",
        [Step("[0-9]", 3, 3), Step("-"), Step("[0-9]", 2, 2), Step("-"), Step("[0-9]", 4, 4)],
        left=r"\b",
    ),
)
KINDS = tuple([detector.kind for detector in DETECTORS])

PLACEHOLDER = [Step("<", 2, 2), Step(" ", 0, 1), Step("[A-Za-z0-9_]", 3, 40), Step(" ", 0, 1), Step(">", 2, 2)]
"""the placeholder of a redacted value: `<<EMAIL_1>>`; models add spaces and change case"""


def scan_for(detectors: Iterable[Detector], *, placeholders: bool, own: Sequence[OwnDetector] = ()) -> Scan:
    """Return one scan for several kinds. The name of the group that matches is the kind; PLACEHOLDER for those.

    `own`: further kinds, which go first.
    """
    chosen = list(detectors)
    if placeholders:
        chosen.insert(0, _detector("PLACEHOLDER", PLACEHOLDER))
    built_in = re.compile(_one_of([(found.left, f"(?P<{found.kind}>{found.pattern})") for found in chosen]))
    partials = [(found.left, found.partial) for found in chosen]
    pattern = FirstOf([*[one.pattern for one in own], built_in]) if own else built_in
    reaches = [one.reach for one in own if one.reach is not None]
    if len(reaches) < len(own):
        return Scan(pattern=pattern, reach=None, folds=True)
    # Without a pattern for its beginnings, everything within reach of the end may be one.
    partials += [("", rf"(?s:.){{1,{reach + MARGIN}}}\Z") for reach in reaches[:1] and [max(reaches)]]
    reach = max([*[found.reach for found in chosen], *reaches], default=0)
    return Scan(pattern=pattern, partial=re.compile(_one_of(partials)), reach=reach, folds=True)


def _one_of(patterns: list[tuple[str, str]]) -> str:
    """Return one pattern for several, each with what it begins with. The first that matches counts."""
    # What several begin with is tested once, which is most of the work inside of words.
    groups = [(left, [pattern for _, pattern in group]) for left, group in groupby(patterns, key=itemgetter(0))]
    return "|".join([f"{left}(?:{'|'.join(found)})" for left, found in groups]) or NEVER


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
