"""The part of the admin interface that shows the routes, and what a model name resolves to."""

from __future__ import annotations

from trilogue.gateway.admin.routes import AdminCall, AdminError, AdminRoute, Reply
from trilogue.gateway.admin.settings import AdminRole
from trilogue.model import Json, Protocol


def routes() -> tuple[AdminRoute, ...]:
    """Return the routes for model names. Every worker has the same configuration."""
    return (
        AdminRoute("GET", "routes", _routes, AdminRole.VIEWER),
        AdminRoute("GET", "routes/{model*}", _resolved, AdminRole.VIEWER),
    )


async def _routes(call: AdminCall) -> Reply:
    models, upstreams = call.gateway.models, call.gateway.upstreams
    return {
        "aliases": dict(models.aliases),
        "routes": [
            {"match": route.match, "targets": [f"{one.provider}/{one.model}" for one in route.chain()]}
            for route in models.routes
        ],
        "default_provider": models.default_provider,
        "served": list(models.router.served()),
        "providers": [
            {
                "name": name,
                "protocols": [protocol.short for protocol in provider.protocols],
                "models": list(provider.models),
                "accounts": len(provider.accounts),
            }
            for name, provider in upstreams.settings.items()
        ],
    }


async def _resolved(call: AdminCall) -> Reply:
    protocol = asked_protocol(call.query.get("protocol")) or next(iter(Protocol))
    found = call.gateway.models.router.resolve(call.ids[0], protocol)
    targets: list[Json] = [f"{one.provider}/{one.model}" for one in found.targets]
    return {"model": call.ids[0], "protocol": protocol.short, "matched": found.matched, "targets": targets}


def asked_protocol(name: object) -> Protocol | None:
    """Return a protocol by any of its names; None if none is given."""
    if name is None or name == "":
        return None
    if isinstance(name, str) and name in Protocol.names():
        return Protocol.parse(name)
    raise AdminError(400, f"protocol must be one of {', '.join(one.short for one in Protocol)}", "bad_protocol")
