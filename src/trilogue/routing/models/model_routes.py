"""What the model names of clients mean in one configuration: their targets and routes, remembered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trilogue.errors import ClientError
from trilogue.model import Protocol
from trilogue.routing.models.router import Router, Upstream
from trilogue.routing.models.routes import Route

MAX_RESOLVED = 1000


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
        self._resolved: dict[tuple[str, Protocol], tuple[Upstream, ...]] = {}
        self.resolved = self._resolved.get
        """the targets of a model and a client's protocol, if they were resolved before"""
        self._route_names: dict[tuple[str, Protocol], str] = {}
        self._ruling: dict[tuple[str, Protocol, tuple[Upstream, ...]], tuple[str, ...]] = {}

    def routed(self, model: str, client: Protocol) -> tuple[Upstream, ...]:
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

    def ruling_routes(self, model: str, client: Protocol, targets: Sequence[Upstream]) -> tuple[str, ...]:
        """Return the routes whose policies, limits and budgets hold for a request, as their `match`."""
        known = (model, client, tuple(targets))
        found = self._ruling.get(known)
        if found is None:
            if len(self._ruling) >= MAX_RESOLVED:
                self._ruling.clear()
            numbers = self.router.ruling(model, client, targets)
            found = self._ruling[known] = tuple(dict.fromkeys(self.routes[number].match for number in numbers))
        return found
