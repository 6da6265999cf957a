"""`trilogue check`: check a configuration and show what it would serve, or print its JSON Schema."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from trilogue.app.cli.local_admin import key_file, wants_generated_key
from trilogue.app.cli.local_servers import find_local_servers
from trilogue.app.cli.tables import counted
from trilogue.app.stores import locations_of, server_faults, unwritable
from trilogue.capture import shown_url
from trilogue.config.checks import reason_not_to_start, warnings
from trilogue.config.config import Config, RouteSettings
from trilogue.config.environment import with_dotenv
from trilogue.config.load import find, load
from trilogue.config.schema import json_schema
from trilogue.errors import ClientError, ConfigError
from trilogue.gateway.conversations.settings import StateSettings
from trilogue.gateway.features.tracing.settings import ENDPOINT_VARIABLES, TRACES_PATH, TracingSettings
from trilogue.gateway.limits.remaining import how_to_price
from trilogue.gateway.limits.settings import NO_BUDGET, NO_LIMITS
from trilogue.routing.router import ProviderModel
from trilogue.storage.engines import database_of
from trilogue.storage.locations import state_directory
from trilogue.upstreams.build import router_of
from trilogue.upstreams.settings import ProviderSettings
from trilogue.vendors.price_lookup import HOUR_SECONDS

PROBLEMS = 2


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--config", "given", type=click.Path(path_type=Path), metavar="FILE", help="The same as FILE.")
@click.option("--offline", is_flag=True, help="Do not ask the servers of `state`, `usage` and `cluster`.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the file instead.")
def check(file: Path | None, given: Path | None, offline: bool, schema: bool) -> None:
    """Check a configuration file and show what it would serve.

    It also looks whether the stores that the file names can be used, and changes nothing there.

    Without FILE it checks ./trilogue.yaml, then the one in the user's config folder, and otherwise shows what is
    served without a file.

    \b
    trilogue check trilogue.yaml
    trilogue check --offline trilogue.yaml           # without databases, for CI
    trilogue check --schema > trilogue.schema.json

    Exit codes: 0 the gateway would start; 2 it would not, with one line per problem.
    """
    if schema:
        click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        return
    file = file or given
    path = find(file)
    try:
        environ = with_dotenv(os.environ, path)
        servers = find_local_servers(environ, without=[Config().server.port]) if path is None else []
        config = load(path, environ, servers={server.name: (server.preset, server.url) for server in servers})
    except ConfigError as error:
        if file is None and path:
            click.echo(f"{path} cannot be used:", err=True)
        click.echo(str(error))
        sys.exit(PROBLEMS)
    reason = reason_not_to_start(config, os.environ)
    if reason:
        click.echo(reason)
        sys.exit(PROBLEMS)
    faults = () if offline else tuple(server_faults(config))
    fatal = [fault for fault in faults if fault.stops_start]
    for fault in fatal:
        click.echo(f"{fault.path}: {fault.text}")
    if fatal:
        sys.exit(PROBLEMS)
    click.echo(f"{path} is valid" if path else "no configuration file: this is what is served without one")
    for line in summary(config, path):
        click.echo(line)
    for where, text in (*warnings(config), *price_warnings(config)):
        click.echo(f"warning: {where}: {text}", err=True)
    for fault in faults:
        click.echo(f"warning: {fault.path}: {fault.text}; the gateway would start without it", err=True)
    for line in state_warnings(config.state):
        click.echo(f"warning: {line}", err=True)


def summary(config: Config, file: Path | None) -> Iterator[str]:
    """Yield lines that say what would be served, without any secret. `file`: the configuration file."""
    yield f"listens on {config.server.host}:{config.server.port}, {counted(config.server.workers, 'worker')}"
    names = ", ".join(key.name for key in config.keys)
    yield f"client keys: {names}" if names else "client keys: none, so only programs on this machine can connect"
    if config.admin.enabled and (config.admin.admits_somebody or wants_generated_key(config)):
        generated = f", key in {key_file()}" if wants_generated_key(config) else ""
        yield f"admin interface: {config.admin.host}:{config.admin.port}{generated}"
    if config.tracing.wanted(os.environ):
        yield f"traces: {_tracing_line(config.tracing)}"
    yield f"stored responses: {_store_line(config, file)}"
    yield "providers:"
    for name, provider in config.providers.items():
        yield f"  {name}: {_provider_line(provider)}"
    yield from _section("aliases", [f"{alias} -> {model}" for alias, model in config.aliases.items()])
    routes = [
        f"{number}. {route.match} -> {', '.join(f'{target.provider}/{target.model}' for target in route.chain())}"
        f"{_rules_of(route)}"
        for number, route in enumerate(config.routes, 1)
    ]
    yield from _section("routes", routes)
    yield from _section("rules of routes hold for other names of their targets", list(_ruled_names(config)))
    yield from _section("policies", [f"{name}: {one['use']}" for name, one in config.policies.items()])
    yield f"other models: {config.default_provider or 'by the prefix of their vendor, else an error'}"


def _rules_of(route: RouteSettings) -> str:
    """Return what a route sets besides its targets."""
    limits = "limits" if route.limits != NO_LIMITS else ""
    budget = "a budget" if route.budget != NO_BUDGET else ""
    policies = f"policies {', '.join(route.policies)}" if route.policies else ""
    found = ", ".join(filter(None, (policies, limits, budget)))
    return f" (with {found})" if found else ""


def _ruled_names(config: Config) -> Iterator[str]:
    """Yield the known names that rules of a route hold for although they do not go by it."""
    router = router_of(config)
    ruled = [route for route in config.routes if route.has_rules]
    fixed = [f"{one.provider}/{one.model}" for route in ruled for one in route.chain() if "$" not in one.model]
    for name in dict.fromkeys([*router.names, *fixed]):
        try:
            found = router.resolve(name)
        except ClientError:
            continue
        others = [number for number in router.ruling(name, None, found.targets) if number != found.route]
        if others:
            yield f"{name}: {', '.join(f'route {number + 1} ({config.routes[number].match})' for number in others)}"


def _store_line(config: Config, file: Path | None) -> str:
    if not config.state.kept:
        return "none"
    return f"{database_of(locations_of(config, file).responses).name}, for {config.state.days:g} days"


def _tracing_line(settings: TracingSettings) -> str:
    # Not the value of a variable: it may contain a password.
    named = [name for name in ENDPOINT_VARIABLES if os.environ.get(name)]
    where = shown_url(settings.url) or (
        f"to the address in {named[0]}" if named else f"http://localhost:4318{TRACES_PATH}"
    )
    ratio = "" if settings.sample_ratio is None else f", {settings.sample_ratio:.4g} of those that begin here"
    return f"{where}{ratio}, {'with' if settings.content else 'without'} messages"


def price_warnings(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the prices that budgets need and that are unknown: requests for these models would be refused."""
    for provider, model in _unpriced_targets(config, int(time.time()) // HOUR_SECONDS):
        what = f"the price of {model} is unknown" if model else "no price of its models is known"
        text = f"{what}, and requests that count for a budget are refused without one: {how_to_price(provider)}"
        yield f"providers.{provider}.prices", text


def state_warnings(settings: StateSettings) -> Iterator[str]:
    """Yield why the state folder cannot be written, if it cannot."""
    folder = state_directory(os.environ)
    if reason := unwritable(folder):
        stored = ", responses included" if settings.kept and settings.store is None else ""
        yield f"the state folder {folder} cannot be written ({reason}): nothing is kept there{stored}"


def _provider_line(provider: ProviderSettings) -> str:
    if provider.is_demo:
        return "the built-in demo model"
    if provider.absence:
        return f"left out: {provider.absence}"
    names = ", ".join(account.name for account in provider.accounts)
    accounts = f"{counted(len(provider.accounts), 'account')} ({names})" if names else "no account"
    models = f", {counted(len(provider.models), 'model')} listed" if provider.models else ""
    return f"{', '.join(_addresses(provider))}, {accounts}{models}"


def _addresses(provider: ProviderSettings) -> Iterator[str]:
    """Yield each address with the protocols that are spoken there."""
    for url in dict.fromkeys(map(provider.url_for, provider.protocols)):
        spoken = " and ".join(one.value for one in provider.protocols if provider.url_for(one) == url)
        yield f"{spoken} at {shown_url(url)}"


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"  {line}" for line in lines)


_GLOB = re.compile(r"[*?[]")


def _unpriced_targets(config: Config, hour: int) -> Iterator[tuple[str, str]]:
    """Yield the provider and the model of every target whose price a budget needs, and which is unknown.

    The model is "" if no price of the provider's models is known.
    """
    budgets = [one.budget for one in (*config.owners.values(), *config.model_limits.values())]
    budgets += [*(key.budget for key in config.keys), *(route.budget for route in config.routes)]
    if not any(one.is_set and one.unknown_prices == "refuse" for one in budgets):
        return
    empty = {name for name, one in config.served.items() if one.price_book().is_empty}
    yield from ((name, "") for name in sorted(empty))
    for target in sorted(_named_targets(config)):
        if target.provider not in empty and _has_no_price(config, target, hour):
            yield target


def _named_targets(config: Config) -> set[ProviderModel]:
    """Return all targets that the configuration names: in aliases, routes, lists of models, and for its keys."""
    router = router_of(config)
    found = set(router.named_targets())
    fixed = (target for route in config.routes for target in route.chain() if "$" not in target.model)
    found |= {ProviderModel(target.provider, target.model) for target in fixed}
    for name in {name for key in config.keys for name in key.models if not _GLOB.search(name)}:
        with suppress(ClientError):
            found |= set(router.resolve(name).targets)
    return {target for target in found if target.provider in config.served}


def _has_no_price(config: Config, target: ProviderModel, hour: int) -> bool:
    return config.providers[target.provider].price_book().prices(target.model, hour) is None
