"""What the parts of a gateway are made from: the sections of a configuration, in the form that each part takes."""

from __future__ import annotations

from collections.abc import Mapping

from trilogue.base.clock import parse_time
from trilogue.config.config import Config
from trilogue.config.policies import lists_policies, make_policy
from trilogue.gateway.access.client_keys import ClientKey, ConfiguredKey, owner_of
from trilogue.gateway.access.settings import ClientKeySettings, KeyOptions
from trilogue.gateway.limits.settings import NO_BUDGET, NO_LIMITS, LimitRules, SharedLimits
from trilogue.gateway.policies.run import Answerer
from trilogue.gateway.policies.table import PolicyTable
from trilogue.gateway.settings import GatewaySettings
from trilogue.routing.router import Router


def gateway_settings(config: Config) -> GatewaySettings:
    """Return the settings for all requests."""
    server = config.server
    return GatewaySettings(
        mode=config.mode,
        strict_from=config.strict_from,
        repair_history=config.repair_history,
        max_body_bytes=server.max_body_bytes,
        max_upload_bytes=server.max_upload_bytes,
        keepalive_seconds=server.keepalive_seconds,
        max_continuations=server.max_continuations,
        shared_objects=server.shared_objects,
        open_objects=server.open_objects,
        unjudged_endpoints=server.unjudged_endpoints,
    )


def limit_rules(config: Config) -> LimitRules:
    """Return the limits and budgets of a configuration, besides those of client keys."""
    routes = {
        one.match: SharedLimits(limits=one.limits, budget=one.budget)
        for one in reversed(config.routes)
        if one.limits != NO_LIMITS or one.budget != NO_BUDGET
    }
    return LimitRules(config.owners, config.model_limits, routes)


def policy_table(
    config: Config, router: Router, answerers: Mapping[type, Answerer] | None = None
) -> PolicyTable | None:
    """Return the policies of a configuration, or None if it has none. Raises PolicyError if one cannot be made.

    `answerers`: who answers the questions of policies, besides models.
    """
    if not lists_policies(config):
        return None
    policies = {name: make_policy(definition) for name, definition in config.policies.items()}
    table = PolicyTable(policies, config.server.policies, config.routes, config.model_policies, router)
    table.answerers = dict(answerers or {})
    return table


def client_keys(config: Config) -> dict[str, ClientKeySettings]:
    """Return the client keys by name: key-1, key-2, … for those without one, so that a reload may change what it means.

    The configuration has checked that no name is there twice.
    """
    return {key.name or f"key-{number}": key for number, key in enumerate(config.keys, 1)}


def configured_keys(config: Config) -> list[ConfiguredKey]:
    """Return the client keys of a configuration, with their texts."""
    return [_configured(name, key) for name, key in client_keys(config).items()]


def _configured(name: str, settings: ClientKeySettings) -> ConfiguredKey:
    text = settings.key.reveal()
    options = KeyOptions(**{field: getattr(settings, field) for field in KeyOptions.__struct_fields__})
    expires = parse_time(settings.expires, 0.0) if settings.expires else None
    return ConfiguredKey(
        ClientKey(name, settings.mode, owner_of(name, text), "", options, options.restricts), text, expires
    )
