"""`trilogue check`: check a configuration and show what it would serve, or print its JSON Schema."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from trilogue.cli.files import counted
from trilogue.cli.stored import default_file, unwritable
from trilogue.config import (
    Config,
    ConfigError,
    ProviderSettings,
    StateSettings,
    find,
    load,
    reason_not_to_start,
    warnings,
)
from trilogue.config.schema import json_schema
from trilogue.gateway.setup.response_store import place_of
from trilogue.state.responses import database_of

PROBLEMS = 2


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the file instead.")
def check(file: Path | None, schema: bool) -> None:
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
    path = find(file)
    try:
        config = load(path, os.environ)
    except ConfigError as error:
        if file is None and path:
            click.echo(f"{path} cannot be used:", err=True)
        click.echo(str(error))
        sys.exit(PROBLEMS)
    reason = reason_not_to_start(config)
    if reason:
        click.echo(reason)
        sys.exit(PROBLEMS)
    click.echo(f"{path} is valid" if path else "no configuration file: this is what is served without one")
    for line in summary(config):
        click.echo(line)
    for where, text in warnings(config):
        click.echo(f"warning: {where}: {text}", err=True)
    for line in store_warnings(config.state):
        click.echo(f"warning: {line}", err=True)


def summary(config: Config) -> Iterator[str]:
    """Yield lines that say what would be served, without any secret."""
    yield f"listens on {config.server.host}:{config.server.port}, {counted(config.server.workers, 'worker')}"
    names = ", ".join(key.name for key in config.keys)
    yield f"client keys: {names}" if names else "client keys: none, so only programs on this machine can connect"
    if config.admin.key is not None:
        yield f"admin interface: {config.admin.host}:{config.admin.port}"
    yield f"stored responses: {_store_line(config.state)}"
    yield "providers:"
    for name, provider in config.providers.items():
        yield f"  {name}: {_provider_line(provider)}"
    yield from _section("aliases", [f"{alias} -> {model}" for alias, model in config.aliases.items()])
    routes = [
        f"{number}. {route.match} -> {', '.join(f'{target.provider}/{target.model}' for target in route.chain())}"
        for number, route in enumerate(config.routes, 1)
    ]
    yield from _section("routes", routes)
    yield f"other models: {config.default_provider or 'by the prefix of their vendor, else an error'}"


def _store_line(settings: StateSettings) -> str:
    if not settings.kept:
        return "none"
    return f"{database_of(place_of(settings, default_file())).name}, for {settings.days:g} days"


def store_warnings(settings: StateSettings) -> Iterator[str]:
    """Yield why the file for stored responses cannot be written, if it cannot."""
    where = place_of(settings, default_file())
    reason = unwritable(Path(where)) if settings.kept and where.startswith("/") else ""
    if reason:
        yield f"state: responses cannot be stored in {where}: {reason}"


def _provider_line(provider: ProviderSettings) -> str:
    if provider.is_demo:
        return "the built-in demo model"
    names = ", ".join(account.name for account in provider.accounts)
    accounts = f"{counted(len(provider.accounts), 'account')} ({names})" if names else "no account"
    models = f", {counted(len(provider.models), 'model')} listed" if provider.models else ""
    return f"{' and '.join(one.value for one in provider.protocols)} at {provider.base_url}, {accounts}{models}"


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"  {line}" for line in lines)
