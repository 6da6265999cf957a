"""What the client gets in place of something that a policy forbids, and the settings for it."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal

from trilogue.errors import TrilogueError
from trilogue.model import Refusal, Text
from trilogue.policies.patterns import LinearPattern, PatternProblem
from trilogue.policies.policy import PolicySettings
from trilogue.policies.verdicts import Drop, PolicyVerdict, Replace, StopWith

Instead = Literal["text", "refusal", "drop", "stop"]


class SettingsProblem(TrilogueError):
    """A setting that has the right type and makes no sense. The message is one line and names the setting."""


class ActionSettings(PolicySettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of policies that forbid something.

    `instead`: `text` or `refusal` puts `words` in its place, `drop` nothing, and `stop` ends the response with them.
    `words` may contain `{what}` and `{reason}`.
    """

    instead: Instead = "text"
    words: str = "{what} was blocked by a policy: {reason}."


def fits_name(patterns: Iterable[str], name: str) -> bool:
    """Return whether the name of a tool fits one of some patterns. Capital and small letters are the same."""
    return any([fnmatchcase(name.casefold(), pattern.casefold()) for pattern in patterns])


def forbid(settings: ActionSettings, what: str, reason: str) -> PolicyVerdict:
    """Return the verdict for something forbidden. `what` and `reason` must not quote content."""
    words = settings.words.replace("{what}", what).replace("{reason}", reason)
    if settings.instead == "drop":
        return Drop(reason=reason)
    if settings.instead == "stop":
        return StopWith(words, reason=reason)
    block = Text(text=words) if settings.instead == "text" else Refusal(text=words)
    return Replace((block,), reason=reason)


def compiled(pattern: str, setting: str, *, ignore_case: bool = False) -> LinearPattern:
    """Return a pattern of the settings. Raises `SettingsProblem` if it is not one, or if it matches nothing at all."""
    try:
        found = LinearPattern(pattern, ignore_case=ignore_case)
    except PatternProblem as problem:
        raise SettingsProblem(f"{setting}: not a regular expression: {problem}") from None
    if found.search("") is not None:
        raise SettingsProblem(f"{setting}: the pattern matches an empty text")
    return found


def compiled_all(patterns: Iterable[str], setting: str) -> tuple[LinearPattern, ...]:
    """Return several patterns of the settings; see `compiled`."""
    return tuple([compiled(pattern, f"{setting}[{number}]") for number, pattern in enumerate(patterns)])
