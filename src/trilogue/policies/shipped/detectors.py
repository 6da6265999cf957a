"""What `redact` looks for: secrets and personal data, as patterns that also work on text that is still arriving.

Each pattern is limited in length, and comes with a second one for its beginnings (see `scan`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter

from msgspec import Struct

from trilogue.policies.patterns import FirstOf, Searcher
from trilogue.policies.scan import MARGIN, NEVER, Scan, Step, longest, partly_written, steps_of, written


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
