"""The file of another gateway: which one it is for, and its settings, which know what nobody has read.

Each importer takes the settings that it can carry over. Whatever is left at the end is reported, so that nothing is
lost silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

from msgspec import Struct

Reasons = Mapping[str, str]
"""why settings are not carried over, by their last name"""
NO_EQUIVALENT = "Trilogue has no such setting"
_REFERENCE = re.compile(r"(?:os\.environ/|env[.:]|\$\{?)(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}?")
"""how LiteLLM, Bifrost and claude-code-router refer to an environment variable"""
Foreign = Literal["litellm", "claude-code-router", "bifrost"]
FOREIGN: tuple[Foreign, ...] = get_args(Foreign)
LABELS: dict[Foreign, str] = {"litellm": "LiteLLM", "claude-code-router": "claude-code-router", "bifrost": "Bifrost"}


def foreign_format(data: Any) -> Foreign | None:
    """Return which gateway a parsed file is for, or None if it is not one of those that can be imported."""
    if not isinstance(data, dict):
        return None
    if "model_list" in data or "litellm_settings" in data:
        return "litellm"
    if isinstance(data.get("Providers"), list) or "Router" in data:
        return "claude-code-router"
    providers = data.get("providers")
    if isinstance(providers, dict) and any(_has_bifrost_keys(one) for one in providers.values()):
        return "bifrost"
    return None


def foreign_hint(data: Any) -> str | None:
    """Return what to do with a file of another gateway, or None if it is not one."""
    found = foreign_format(data)
    return found and f"this is a file of {LABELS[found]}; convert it with: trilogue import {found} FILE"


def _has_bifrost_keys(provider: Any) -> bool:
    return isinstance(provider, dict) and ("network_config" in provider or isinstance(provider.get("keys"), list))


class NotCarried(Struct, frozen=True):
    """A setting that the result does not have, and why."""

    path: str
    reason: str


class Section:
    """A mapping of the file. `take` marks a setting as carried over; `rest` reports the others."""

    def __init__(self, data: Any, path: str = "") -> None:
        self._data: dict[str, Any] = {str(name): one for name, one in data.items()} if isinstance(data, dict) else {}
        self._taken: set[str] = set()
        self.path = path

    def take(self, name: str) -> Any:
        """Return a setting and mark it as carried over; None if it is not set."""
        self._taken.add(name)
        return self._data.get(name)

    def text(self, name: str) -> str:
        """Take a setting that is a text or a number; empty if it is not set."""
        value = self.take(name)
        return "" if value is None or isinstance(value, dict | list) else str(value).strip()

    def number(self, name: str) -> float | None:
        """Take a positive number; None if it is not set or is not one. Whole numbers stay whole."""
        value = self.take(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            return None
        return value

    def section(self, name: str) -> Section:
        """Take a mapping; an empty one if it is not set."""
        return Section(self.take(name), self._at(name))

    def sections(self, name: str) -> list[Section]:
        """Take a list of mappings."""
        value = self.take(name)
        items = value if isinstance(value, list) else []
        return [Section(item, f"{self._at(name)}[{index}]") for index, item in enumerate(items)]

    def items(self) -> Iterator[tuple[str, Section]]:
        """Take all settings, each as a mapping."""
        for name in list(self._data):
            yield name, self.section(name)

    def not_carried(self, name: str, reason: str) -> NotCarried:
        """Take a setting, and return why it is not carried over."""
        self._taken.add(name)
        return NotCarried(self._at(name), reason)

    def rest(self, reasons: Reasons) -> Iterator[NotCarried]:
        """Yield the settings that nobody has taken, with the reason of each."""
        for name, value in self._data.items():
            if name not in self._taken and value not in (None, "", [], {}):
                yield NotCarried(self._at(name), reasons.get(name, NO_EQUIVALENT))

    def _at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


def variable_in(text: str) -> str:
    """Return the environment variable that a text refers to in any of the gateways' ways; "" if it is not one."""
    found = _REFERENCE.fullmatch(text.strip())
    return found["name"] if found else ""
