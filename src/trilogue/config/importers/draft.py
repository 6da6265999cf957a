"""A Trilogue configuration in the making: equal providers are one, and names are unique."""

from __future__ import annotations

import re
from typing import Any

import yaml
from msgspec import Struct, field

from trilogue.config.importers.source import NotCarried, variable_in
from trilogue.model import Protocol

LITERAL = "keys are not copied into the result: put it into the variable {variable}"
_NOT_IN_VARIABLE = re.compile(r"[^A-Za-z0-9]+")
_OUTSIDE = re.compile(r"[^A-Za-z0-9._-]+")


class Draft(Struct):
    """The result so far. The mappings have the form of the file."""

    server: dict[str, Any] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    providers: dict[str, dict[str, Any]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    routes: list[dict[str, Any]] = field(default_factory=list)
    default_provider: str = ""
    dropped: list[NotCarried] = field(default_factory=list)
    _keys: dict[str, str] = field(default_factory=dict)
    """keys that the file has, by the variables that replace them"""
    reserved: set[str] = field(default_factory=set)
    """names that no provider may have, because models are called `name/…`"""

    def drop(self, path: str, reason: str) -> None:
        """Note a setting that is not carried over."""
        self.dropped.append(NotCarried(path, reason))

    def reference(self, text: str, path: str, owner: str = "") -> str:
        """Return a reference to a key. A key that is in the file is not copied: each gets a variable to put it into."""
        named = variable_in(text)
        if named:
            return f"env:{named}"
        variable = self._variable(text, owner)
        self.drop(path, LITERAL.format(variable=variable))
        return f"env:{variable}"

    def _variable(self, key: str, owner: str) -> str:
        """Return the variable for a key: the same for the same key, and none that the file refers to."""
        base = "_".join(["TRILOGUE", *([_NOT_IN_VARIABLE.sub("_", owner).upper()] if owner else []), "KEY"])
        number, variable = 1, base
        while self._keys.setdefault(variable, key) != key:
            number += 1
            variable = f"{base}_{number}"
        return variable

    def provider(self, wanted: str, settings: dict[str, Any]) -> str:
        """Return the name of the provider with these settings, and add it if there is none. Prices do not matter."""
        for name, known in self.providers.items():
            if _without_prices(known) == settings and name.startswith(wanted):
                return name
        name = self._unused(wanted)
        self.providers[name] = settings
        return name

    def _unused(self, wanted: str) -> str:
        base = _OUTSIDE.sub("-", wanted).strip("-._")[:50] or "provider"
        if base in self.reserved:
            base += "-upstream"
        number, name = 1, base
        while name in self.providers:
            number += 1
            name = f"{base}-{number}"
        return name

    def yaml(self, header: str) -> str:
        """Return the configuration as the text of a file."""
        document = {
            "server": self.server,
            "keys": self.keys,
            "providers": self.providers,
            "aliases": self.aliases,
            "routes": self.routes,
            "default_provider": self.default_provider,
        }
        written = {name: value for name, value in document.items() if value}
        text = yaml.safe_dump(written, sort_keys=False, allow_unicode=True, width=120, default_flow_style=False)
        return f"# {header}\n{text}"


def _without_prices(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "prices"}


def settings_of(protocols: list[Protocol], base_url: str, **more: Any) -> dict[str, Any]:
    """Return the settings of a provider, without those that are empty."""
    first, *others = protocols
    settings: dict[str, Any] = {"protocol": first.value}
    if others:
        settings["also_speaks"] = [one.value for one in others]
    if base_url:
        settings["base_url"] = base_url
    return settings | {name: value for name, value in more.items() if value not in (None, "", [], {})}
