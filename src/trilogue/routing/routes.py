"""Routes: as a configuration writes them, compiled, and for well-known model names that no route matches.

Also finds what is wrong with aliases and routes: every problem, with the path of the setting.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import ClassVar, Self

from msgspec import Struct
from msgspec.structs import replace

from trilogue.model import Protocol
from trilogue.protocols.registry import CODECS
from trilogue.routing.model_names import (
    BadPattern,
    Kind,
    check_template,
    compile_match,
    compile_template,
    expand,
    kind_of,
    name_fault,
)
from trilogue.vendors.table import vendors_led_by


class RoutableProvider(Struct, frozen=True):
    """What routing knows about a provider. `models`: the ids that it is known to serve."""

    name: str
    protocols: tuple[Protocol, ...]
    models: tuple[str, ...] = ()
    own_names: bool = False
    """it serves its own model names only, whichever protocols it speaks, such as the demo or Ollama"""


class ProviderFamily(Struct, frozen=True):
    """Models of one vendor, and the providers that serve them.

    That is a provider with one of these names (`openai`, or `openai-…` if that speaks the client's protocol), else the
    first one that speaks a protocol which mostly this vendor speaks, and does not only have names of its own.
    """

    label: str
    pattern: re.Pattern[str]
    names: tuple[str, ...]

    def choose(self, providers: Sequence[RoutableProvider], client: Protocol | None) -> RoutableProvider | None:
        """Return the provider for this family, or None."""
        named = [provider for name in self.names for provider in providers if _belongs(provider.name, name)]
        if named:
            return min(named, key=lambda one: (client not in one.protocols, one.name not in self.names))
        return next((one for one in providers if self._is_spoken_by(one) and not one.own_names), None)

    def _is_spoken_by(self, provider: RoutableProvider) -> bool:
        endpoints = [CODECS[protocol].endpoint for protocol in provider.protocols]
        return any(one.only_vendor and one.vendor in self.names for one in endpoints)


def _belongs(name: str, vendor: str) -> bool:
    return name == vendor or name.startswith(f"{vendor}-")


def _family(label: str, names: tuple[str, ...], pattern: str = "") -> ProviderFamily:
    return ProviderFamily(label, re.compile(pattern or re.escape(label).replace(r"\*", ".*")), names)


FAMILIES = (
    *(
        _family(family.label, vendor.routed_names or (vendor.name,), family.pattern)
        # In this order, an error names the families that can be served.
        for vendor in vendors_led_by("anthropic openai gemini xai")
        for family in vendor.families
    ),
    _family("demo*", ("demo",)),
)


class RouteTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A target for a request. `provider/model` is the short form."""

    short: ClassVar[str] = "provider/model"  # what a plain string is short for

    provider: str
    """name of a provider"""
    model: str = "$0"
    """the upstream's model name: a template with `$0` (the whole name), `$1` (first group) and `$name`"""

    @classmethod
    def parse(cls, text: str) -> RouteTarget:
        """Return the target that `provider/model`, or `provider` alone, means."""
        provider, slash, model = text.partition("/")
        return cls(provider=provider, model=model if slash else "$0")


class Route(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sends models whose name matches to a provider, or to the first available of several targets."""

    match: str
    """model names: an exact name, a glob such as `gpt-*`, or a regular expression such as `^gpt-(\\d)$`; must match the
    whole name"""
    kind: Kind = "auto"
    """how to interpret `match`; auto: a leading `^` means a regular expression, `*`, `?` or `[` a glob, anything else
    an exact name"""
    provider: str | None = None
    """provider that these models go to"""
    model: str = "$0"
    """the upstream's model name: a template with `$0` (the whole name), `$1` (first group) and `$name`"""
    targets: tuple[RouteTarget, ...] = ()
    """several targets in order of preference, instead of `provider` and `model`"""
    policies: tuple[str, ...] = ()
    """policies for requests that this route matches, by name"""

    @property
    def has_rules(self) -> bool:
        """Whether the route has more than targets: rules that hold for all requests that may go to one of them."""
        return bool(self.policies)

    def chain(self) -> tuple[RouteTarget, ...]:
        """Return all targets in order."""
        first = () if self.provider is None else (RouteTarget(provider=self.provider, model=self.model),)
        return first + self.targets

    def without(self, absent: Container[str]) -> Self:
        """Return the route without the targets at these providers."""
        if not any(target.provider in absent for target in self.chain()):
            return self
        kept = tuple(target for target in self.chain() if target.provider not in absent)
        return replace(self, provider=None, model="$0", targets=kept)


class CompiledRoute:
    """A route with its compiled pattern."""

    __slots__ = ("_made", "_pattern", "_targets", "example", "has_rules")

    def __init__(self, route: Route) -> None:
        self._pattern: re.Pattern[str] = compile_match(route.match, route.kind)
        self._targets = route.chain()
        self._made = [(target.provider, compile_template(target.model)) for target in self._targets]
        self.has_rules = route.has_rules
        self.example = self._find_example(route)

    def _find_example(self, route: Route) -> str | None:
        """Return a name that matches, if all names that match have the same targets; else None."""
        if kind_of(route.match, route.kind) == "exact":
            return route.match
        models = [target.model for target in self._targets]
        fixed = not any("$" in model for model in models)
        return next((model for model in models if self._pattern.fullmatch(model)), None) if fixed else None

    def leads_to(self, provider: str, model: str) -> bool:
        """Return whether some name that matches has this target. Servers may ignore space around a name."""
        model = model.strip()
        for own, pattern in self._made:
            found = pattern.fullmatch(model) if own == provider else None
            if found is not None:
                name = found.groupdict().get("whole")
                if name is None or self._pattern.fullmatch(name) is not None:
                    return True
        return False

    def resolve(self, model: str) -> tuple[tuple[str, str], ...] | None:
        """Return provider and upstream model of each target, or None if the route doesn't match this model."""
        found = self._pattern.fullmatch(model)
        if found is None:
            return None
        return tuple((target.provider, expand(target.model, found)) for target in self._targets)


MAX_ALIAS_CHAIN = 8

Problem = tuple[str, str]


def find_problems(
    providers: Sequence[RoutableProvider], aliases: Mapping[str, str], routes: Sequence[Route], default: str | None
) -> list[Problem]:
    """Return all problems as (path, text)."""
    names = [provider.name for provider in providers]
    found = [problem for alias in aliases for problem in _alias_problems(alias, aliases, names)]
    for index, route in enumerate(routes):
        found += _route_problems(f"routes[{index}]", route, names)
    if default is not None and default not in names:
        found.append(("default_provider", unknown_provider(default, names)))
    return found


def unknown_provider(name: str, known: Collection[str]) -> str:
    """Return the text for a provider that is not configured, with the closest name that is."""
    close = get_close_matches(name, known, 1)
    return f'there is no provider "{name}"' + (f' (did you mean "{close[0]}"?)' if close else "")


def _alias_problems(alias: str, aliases: Mapping[str, str], names: Collection[str]) -> Iterator[Problem]:
    path = f"aliases.{alias}"
    fault = name_fault(alias) or name_fault(aliases[alias])
    if fault:
        yield path, fault
    if "/" in alias and alias.partition("/")[0] in names:
        yield path, "is never used, because the part before the slash names a provider"
    trail = _trail(alias, aliases)
    if trail[-1] in trail[:-1]:
        yield path, f"goes in a circle: {' -> '.join(trail)}"
    elif len(trail) > MAX_ALIAS_CHAIN + 1:
        yield path, f"is a chain of more than {MAX_ALIAS_CHAIN} aliases"


def _trail(alias: str, aliases: Mapping[str, str]) -> list[str]:
    """Return the names that an alias leads through, up to one that is not an alias or was there before."""
    trail = [alias]
    while trail[-1] in aliases and len(trail) <= MAX_ALIAS_CHAIN + 1:
        trail.append(aliases[trail[-1]])
        if trail[-1] in trail[:-1]:
            break
    return trail


def _route_problems(path: str, route: Route, names: Collection[str]) -> Iterator[Problem]:
    if not route.chain():
        yield path, 'needs "provider" or "targets"'
    if route.provider is not None and route.targets:
        yield path, 'has both "provider" and "targets"; put all of them into "targets"'
    for place, provider, _ in _targets(path, route):
        if provider not in names:
            yield place, unknown_provider(provider, names)
    try:
        pattern = compile_match(route.match, route.kind)
    except BadPattern as error:
        yield f"{path}.match", str(error)
        return
    for place, _, model in _targets(path, route):
        try:
            check_template(model, pattern)
        except BadPattern as error:
            yield place.removesuffix(".provider") + ".model", str(error)


def _targets(path: str, route: Route) -> Iterator[tuple[str, str, str]]:
    """Return the path of the provider, the provider and the model of each target."""
    if route.provider is not None:
        yield f"{path}.provider", route.provider, route.model
    for index, target in enumerate(route.targets):
        yield f"{path}.targets[{index}].provider", target.provider, target.model
