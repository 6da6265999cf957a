"""The policies of a configuration, and which of them apply to a request.

In this order: those of the server, of the client key, of the routes, and of the model. A policy that several lists name
applies once, at its first place. Which routes these are, `Router.ruling` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from trilogue.errors import ClientError
from trilogue.gateway.policies.run import Answerer, HookThreads
from trilogue.model import Protocol
from trilogue.policies import Policy
from trilogue.routing.model_names import compile_match
from trilogue.routing.router import ProviderModel, Router
from trilogue.routing.routes import Route

MAX_CHOSEN = 1000


class UnknownPolicy(ClientError):
    """A key that was made at run time names a policy that is not in the configuration."""

    status = 403

    def __init__(self, name: str) -> None:
        super().__init__(f'this key has the policy "{name}", which is not configured', code="unknown_policy")


class ChosenPolicies(Struct, frozen=True):
    """The policies for a request, in order, and the name of its route."""

    policies: tuple[Policy, ...] = ()
    route: str = ""


class PolicyTable:
    """The policies of one configuration, by name.

    `server`: those for all requests. `models`: those for models, by pattern.
    """

    def __init__(
        self,
        policies: Mapping[str, Policy],
        server: Sequence[str],
        routes: Sequence[Route],
        models: Mapping[str, Sequence[str]],
        router: Router,
    ) -> None:
        self._policies = policies
        self._server = server
        self._routes = routes
        self._models = [(compile_match(pattern), names) for pattern, names in models.items()]
        self.answerers: Mapping[type, Answerer] = {}
        """who answers the questions of policies, by the class of the question; models answer those of judges"""
        self._router = router
        self._chosen: dict[tuple[object, ...], ChosenPolicies] = {}
        self.threads = HookThreads()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all policies."""
        return tuple(self._policies)

    @property
    def of_some_models(self) -> tuple[Policy, ...]:
        """Policies that apply to some models or routes only."""
        names = [name for route in self._routes for name in route.policies]
        return self._named(dict.fromkeys([*names, *(name for _, listed in self._models for name in listed)]))

    def of(self, own: Sequence[str], model: str, client: Protocol, targets: Sequence[ProviderModel]) -> ChosenPolicies:
        """Return the policies for a request. `own`: those of its key. Raises UnknownPolicy."""
        known = (*own, None, model, client, *targets)
        chosen = self._chosen.get(known)
        if chosen is None:
            if len(self._chosen) >= MAX_CHOSEN:
                self._chosen.clear()
            chosen = self._chosen[known] = self._choose(own, model, client, targets)
        return chosen

    def _choose(
        self, own: Sequence[str], model: str, client: Protocol, targets: Sequence[ProviderModel]
    ) -> ChosenPolicies:
        routes = [self._routes[number] for number in self._router.ruling(model, client, targets)]
        of_routes = [name for route in routes for name in route.policies]
        names = [*self._server, *own, *of_routes, *self._for(model, targets)]
        return ChosenPolicies(self._named(dict.fromkeys(names)), routes[0].match if routes else "")

    def _for(self, model: str, targets: Sequence[ProviderModel]) -> Iterable[str]:
        """Yield the policies of a model, by the name that the client knows and by those of its upstreams."""
        # A client must not get around a policy by another name of the same model.
        models = {model, *(target.model for target in targets)}
        models |= {f"{target.provider}/{target.model}" for target in targets}
        for pattern, names in self._models:
            if any(pattern.fullmatch(one) for one in models):
                yield from names

    def _named(self, names: Iterable[str]) -> tuple[Policy, ...]:
        found = []
        for name in names:
            if name not in self._policies:
                raise UnknownPolicy(name)
            found.append(self._policies[name])
        return tuple(found)
