"""Routes as a configuration writes them, and compiled."""

from __future__ import annotations

import re

from msgspec import Struct

from trilogue.routing.patterns import Kind, compile_match, expand, kind_of


class RouteTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One place a request may go to. `provider/model` is the short form."""

    provider: str
    """name of a provider"""
    model: str = "$0"
    """the upstream's model: a template with `$0` (the whole name), `$1` (first group) and `$name`"""

    @classmethod
    def parse(cls, text: str) -> RouteTarget:
        """The target that `provider/model`, or `provider` alone, stands for."""
        provider, slash, model = text.partition("/")
        return cls(provider=provider, model=model if slash else "$0")


class Route(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Models whose name matches go to a provider, or to the first of several targets that can answer."""

    match: str
    """model names: a name, a glob such as `gpt-*`, or a regular expression such as `^gpt-(\\d)$`; all of the name"""
    kind: Kind = "auto"
    """how to read `match`; auto: `^` at its start is a regular expression, `*`, `?` or `[` make a glob, else a name"""
    provider: str | None = None
    """where these models go"""
    model: str = "$0"
    """the upstream's model: a template with `$0` (the whole name), `$1` (first group) and `$name`"""
    targets: tuple[RouteTarget, ...] = ()
    """instead of `provider` and `model`: several targets, in order of preference"""

    def chain(self) -> tuple[RouteTarget, ...]:
        """All targets in order."""
        first = () if self.provider is None else (RouteTarget(provider=self.provider, model=self.model),)
        return first + self.targets


class CompiledRoute:
    """A route ready to use."""

    __slots__ = ("_pattern", "_targets", "example")

    def __init__(self, route: Route) -> None:
        self._pattern: re.Pattern[str] = compile_match(route.match, route.kind)
        self._targets = route.chain()
        self.example = self._find_example(route)

    def _find_example(self, route: Route) -> str | None:
        """A name that goes this way, if every name that does goes to the same models; else None."""
        if kind_of(route.match, route.kind) == "exact":
            return route.match
        models = [target.model for target in self._targets]
        fixed = not any("$" in model for model in models)
        return next((model for model in models if self._pattern.fullmatch(model)), None) if fixed else None

    def resolve(self, model: str) -> tuple[tuple[str, str], ...] | None:
        """Provider and upstream model of each target, or None if the route is not for this model."""
        found = self._pattern.fullmatch(model)
        if found is None:
            return None
        return tuple((target.provider, expand(target.model, found)) for target in self._targets)
