"""From the model name that a client sent to a provider and its model name.

In this order: `provider/model`, aliases, routes, models that a provider lists, the vendors' own prefixes, the default
provider. The router is made once per configuration and holds no state; `ModelRoutes` remembers what it
has found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from trilogue.errors import ClientError
from trilogue.model import Protocol
from trilogue.routing.model_names import NoRoute, check_model_name
from trilogue.routing.routes import FAMILIES, CompiledRoute, RoutableProvider, Route, find_problems

MAX_RESOLVED = 1000
_PREFIX = "provider prefix"


class ProviderModel(NamedTuple):
    """A provider and its model name."""

    provider: str
    model: str


class Resolution(Struct, frozen=True):
    """The targets of a model in order of preference, and the rule that named them."""

    targets: tuple[ProviderModel, ...]
    matched: str
    route: int | None = None
    """the number in the configuration of the route that matched, counted from 0"""


class Router:
    """Aliases, routes and defaults of one configuration. Raises ValueError for what `find_problems` finds."""

    def __init__(
        self,
        providers: Sequence[RoutableProvider],
        aliases: Mapping[str, str] | None = None,
        routes: Sequence[Route] = (),
        default: str | None = None,
        *,
        absent: Mapping[str, str] | None = None,
        needs: Mapping[str, str] | None = None,
    ) -> None:
        self._absent = dict(absent or {})
        """providers that are configured but cannot be used, with the reason"""
        self._needs = needs or {}
        """providers that are known but not configured, with what their use needs"""
        numbered = {
            number: served
            for number, route in enumerate(routes)
            if (served := route.without(self._absent)).chain() or not route.chain()
        }
        routes = list(numbered.values())
        default = None if default in self._absent else default
        problems = find_problems(providers, aliases or {}, routes, default)
        if problems:
            raise ValueError("; ".join(f"{path}: {text}" for path, text in problems))
        self._providers = tuple(providers)
        self._names = {provider.name for provider in providers}
        self._aliases = dict(aliases or {})
        self._routes = {number: CompiledRoute(route) for number, route in numbered.items()}
        """by their numbers in the configuration, without those whose providers cannot be used"""
        self._listed = {model: provider.name for provider in reversed(providers) for model in provider.models}
        self._default = default
        self._served = _served(self._aliases, routes, self._providers)

    def served(self) -> tuple[str, ...]:
        """Return what clients can ask for: aliases, patterns, listed models, then every provider by its prefix."""
        return self._served

    def only_model(self) -> str | None:
        """Return a model name if all aliases, routes and listed models lead to the same targets; else None."""
        names = self._names_known()
        if not names or None in names:
            return None
        targets = {self.resolve(name).targets for name in names if name is not None}
        return names[0] if len(targets) == 1 else None

    @property
    def names(self) -> tuple[str, ...]:
        """All model names of the configuration: aliases, routes without patterns and listed models."""
        return tuple(name for name in self._names_known() if name is not None)

    def named_targets(self) -> frozenset[ProviderModel]:
        """Return all targets that aliases, routes without patterns and listed models lead to."""
        return frozenset(target for name in self.names for target in self.resolve(name).targets)

    def _names_known(self) -> list[str | None]:
        """Return every model name of the configuration; None for patterns that no single name stands for."""
        return [*self._aliases, *(route.example for route in self._routes.values()), *self._listed]

    def resolve(self, model: str, client: Protocol | None = None) -> Resolution:
        """Return the targets of a model. If a vendor has several providers, the one for the client's protocol is used.

        Raises BadRequest if it is not a model name, NoRoute if no provider serves it.
        """
        check_model_name(model)
        name, via = self._follow_aliases(model)
        resolution = self._direct(name) or self._by_route(name) or self._by_default(name, client)
        if resolution is None:
            raise NoRoute(model, self._served, self._reason(name))
        for target in resolution.targets:
            check_model_name(target.model)
        return replace(resolution, matched=_matched(via, resolution.matched)) if via else resolution

    def ruling(self, model: str, client: Protocol | None, targets: Sequence[ProviderModel]) -> tuple[int, ...]:
        """Return the numbers of the routes whose policies, limits and budgets hold for a request, its own route first.

        Those are the route that its model goes by, and all that lead to one of the targets to which it may be sent. So
        no other name of a target gets around what a route sets: not `provider/model`, an alias or another route.
        """
        try:
            own = self.resolve(model, client).route
        except ClientError:
            own = None
        found = [] if own is None else [own]
        for number, route in self._routes.items():
            if number != own and route.has_rules and any(route.leads_to(*target) for target in targets):
                found.append(number)
        return tuple(found)

    def _reason(self, name: str) -> str:
        """Return why a provider of this model is not served: the one that its name begins with, or its vendor.

        Return "" if there is no such provider.
        """
        prefix, slash, _ = name.partition("/")
        families = [] if slash else [one for one in FAMILIES if one.pattern.fullmatch(name)]
        for provider in (prefix, *(vendor for family in families for vendor in family.names)):
            if provider in self._absent:
                return f"provider {provider} is not available: {self._absent[provider]}"
            if provider in self._needs:
                return f"provider {provider} is not configured: {self._needs[provider]}"
        return ""

    def _follow_aliases(self, model: str) -> tuple[str, str]:
        """Return the name that aliases lead to, and the first alias. `provider/model` always means that provider."""
        name, via = model, ""
        while name in self._aliases and not self._direct(name):
            name, via = self._aliases[name], via or f"alias {name}"
        return name, via

    def _direct(self, model: str) -> Resolution | None:
        provider, slash, rest = model.partition("/")
        if not slash or not rest or provider not in self._names:
            return None
        return Resolution((ProviderModel(provider, rest),), _PREFIX)

    def _by_route(self, model: str) -> Resolution | None:
        for number, route in self._routes.items():
            targets = route.resolve(model)
            if targets:
                return Resolution(tuple(ProviderModel(*target) for target in targets), f"route {number + 1}", number)
        return None

    def _by_default(self, model: str, client: Protocol | None) -> Resolution | None:
        if model in self._listed:
            return Resolution((ProviderModel(self._listed[model], model),), f"models of {self._listed[model]}")
        for family in FAMILIES:
            if family.pattern.fullmatch(model):
                chosen = family.choose(self._providers, client)
                if chosen is not None:
                    return Resolution((ProviderModel(chosen.name, model),), f"prefix {family.label}")
        if self._default is not None:
            return Resolution((ProviderModel(self._default, model),), "default provider")
        return None


def _matched(via: str, rule: str) -> str:
    return via if rule == _PREFIX else f"{via}, {rule}"


def _served(
    aliases: Mapping[str, str], routes: Sequence[Route], providers: Sequence[RoutableProvider]
) -> tuple[str, ...]:
    families = [family.label for family in FAMILIES if family.choose(providers, None)]
    listed = [model for provider in providers for model in provider.models]
    prefixes = [f"{provider.name}/<model>" for provider in providers]
    return tuple(dict.fromkeys([*aliases, *(route.match for route in routes), *listed, *families, *prefixes]))


class ModelRoutes:
    """A router, and what it has found for the models that were asked for. `routes`: those of the configuration."""

    def __init__(
        self,
        router: Router,
        routes: Sequence[Route] = (),
        aliases: Mapping[str, str] | None = None,
        default_provider: str | None = None,
    ) -> None:
        self.router = router
        self.routes = tuple(routes)
        self.aliases = aliases or {}
        self.default_provider = default_provider
        self.only_model = router.only_model()
        self._resolved: dict[tuple[str, Protocol], tuple[ProviderModel, ...]] = {}
        self.resolved = self._resolved.get
        """the targets of a model and a client's protocol, if they were resolved before"""
        self._route_names: dict[tuple[str, Protocol], str] = {}
        self._ruling: dict[tuple[str, Protocol, tuple[ProviderModel, ...]], tuple[str, ...]] = {}

    def routed(self, model: str, client: Protocol) -> tuple[ProviderModel, ...]:
        """Return the targets of a model according to the routes. Raises NoRoute."""
        targets = self.router.resolve(model, client).targets
        # Routes don't change until the next reload, and clients ask for the same few models all the time.
        if len(self._resolved) >= MAX_RESOLVED:
            self._resolved.clear()
        self._resolved[model, client] = targets
        return targets

    def route_of(self, model: str, client: Protocol) -> str:
        """Return the route that a model goes by, as its `match`; "" if none matches."""
        known = self._route_names.get((model, client))
        if known is None:
            if len(self._route_names) >= MAX_RESOLVED:
                self._route_names.clear()
            try:
                number = self.router.resolve(model, client).route
            except ClientError:
                number = None
            known = "" if number is None else self.routes[number].match
            self._route_names[model, client] = known
        return known

    def ruling_routes(self, model: str, client: Protocol, targets: Sequence[ProviderModel]) -> tuple[str, ...]:
        """Return the routes whose policies, limits and budgets hold for a request, as their `match`."""
        known = (model, client, tuple(targets))
        found = self._ruling.get(known)
        if found is None:
            if len(self._ruling) >= MAX_RESOLVED:
                self._ruling.clear()
            numbers = self.router.ruling(model, client, targets)
            found = self._ruling[known] = tuple(dict.fromkeys(self.routes[number].match for number in numbers))
        return found
