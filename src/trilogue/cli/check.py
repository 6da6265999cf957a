"""`trilogue check`: check a configuration and show what it would serve, or print its JSON Schema."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from trilogue.capture import shown_url
from trilogue.cli.files import counted
from trilogue.cli.local_admin import key_file, wants_generated_key
from trilogue.cli.local_servers import find_local_servers
from trilogue.config import (
    Config,
    ConfigError,
    ProviderSettings,
    StateSettings,
    TracingSettings,
    find,
    load,
    reason_not_to_start,
    warnings,
    with_dotenv,
)
from trilogue.config.schema import json_schema
from trilogue.config.tracing import ENDPOINT_VARIABLES, TRACES_PATH
from trilogue.errors import ClientError
from trilogue.gateway.setup.at_start import default_store, unwritable
from trilogue.gateway.setup.response_store import place_of
from trilogue.limits import NO_BUDGET, NO_LIMITS
from trilogue.routing import Route
from trilogue.state.responses import database_of

PROBLEMS = 2


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--config", "given", type=click.Path(path_type=Path), metavar="FILE", help="The same as FILE.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the file instead.")
def check(file: Path | None, given: Path | None, schema: bool) -> None:
    """Check a configuration file and show what it would serve.

    Without FILE it checks ./trilogue.yaml, then the one in the user's config folder, and otherwise shows what is
    served without a file.

    \b
    trilogue check trilogue.yaml
    trilogue check --schema > trilogue.schema.json

    Exit codes: 0 valid, 2 invalid, with one line per problem.
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
    click.echo(f"{path} is valid" if path else "no configuration file: this is what is served without one")
    for line in summary(config, path):
        click.echo(line)
    for where, text in warnings(config):
        click.echo(f"warning: {where}: {text}", err=True)
    for line in store_warnings(config.state, path):
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
    yield f"stored responses: {_store_line(config.state, file)}"
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


def _rules_of(route: Route) -> str:
    """Return what a route sets besides its targets."""
    limits = "limits" if route.limits != NO_LIMITS else ""
    budget = "a budget" if route.budget != NO_BUDGET else ""
    policies = f"policies {', '.join(route.policies)}" if route.policies else ""
    found = ", ".join(filter(None, (policies, limits, budget)))
    return f" (with {found})" if found else ""


def _ruled_names(config: Config) -> Iterator[str]:
    """Yield the known names that rules of a route hold for although they do not go by it."""
    router = config.router()
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


def _store_line(settings: StateSettings, file: Path | None) -> str:
    if not settings.kept:
        return "none"
    return f"{database_of(place_of(settings, default_store(file))).name}, for {settings.days:g} days"


def _tracing_line(settings: TracingSettings) -> str:
    # Not the value of a variable: it may contain a password.
    named = [name for name in ENDPOINT_VARIABLES if os.environ.get(name)]
    where = shown_url(settings.url) or (
        f"to the address in {named[0]}" if named else f"http://localhost:4318{TRACES_PATH}"
    )
    ratio = "" if settings.sample_ratio is None else f", {settings.sample_ratio:.4g} of those that begin here"
    return f"{where}{ratio}, {'with' if settings.content else 'without'} messages"


def store_warnings(settings: StateSettings, file: Path | None) -> Iterator[str]:
    """Yield why the file for stored responses cannot be written, if it cannot."""
    where = place_of(settings, default_store(file))
    reason = unwritable(Path(where)) if settings.kept and where.startswith("/") else ""
    if reason:
        yield f"state: responses cannot be stored in {where}: {reason}"


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
