"""`trilogue keys`: make, list, change, rotate and revoke client keys.

The commands work on the store of the configuration. Running gateways notice every change within a second.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec
import yaml

from trilogue.app.cli.configured import CONFIG
from trilogue.app.cli.stores import command_user, open_key_store
from trilogue.app.cli.tables import aligned
from trilogue.base.clock import parse_time
from trilogue.config.config import Config
from trilogue.gateway.access.client_keys import ManagedKey
from trilogue.gateway.access.settings import KeyOptions, key_option_problems
from trilogue.gateway.features.client_keys import KEY_NAME, shown_key

_COLUMNS = ("key", "status", "ends in", "owner", "models", "limits", "budget", "expires")
_SETTING = click.option(
    "--set",
    "settings",
    metavar="OPTION=VALUE",
    multiple=True,
    help="An option of the key as in the configuration, such as limits.requests_per_minute=60, budget.month=20, "
    "owner=alice, models=[gpt-*] or mode=strict; can be given several times.",
)
_EXPIRES = click.option(
    "--expires", metavar="WHEN", help="When it stops working: 30d, 12h, or a date or time such as 2027-01-31 (UTC)."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(invoke_without_command=True)
@CONFIG
@_JSON
@click.pass_context
def keys(context: click.Context, path: str | None, as_json: bool) -> None:
    """Show the client keys that were made at run time, and make, change, rotate or revoke them.

    Keys of the configuration file are not shown. The text of a key is printed once, when it is made or rotated.

    \b
    trilogue keys create alice --set owner=team-a --set limits.requests_per_minute=60
    trilogue keys create ci --expires 30d --set budget.month=20 --set 'models=[gpt-*]'
    trilogue keys rotate ci --overlap 2h
    trilogue keys revoke alice --stop-streams
    """
    context.obj = path
    if context.invoked_subcommand is None:
        _print_list(path, as_json)


@keys.command(name="list")
@CONFIG
@_JSON
def list_(path: str | None, as_json: bool) -> None:
    """Show all keys, also expired and revoked ones."""
    _print_list(path, as_json)


@keys.command()
@click.argument("name")
@CONFIG
@_SETTING
@_EXPIRES
@_JSON
def create(name: str, path: str | None, settings: tuple[str, ...], expires: str | None, as_json: bool) -> None:
    """Make a key and print its text, which is not shown again."""
    if not KEY_NAME.fullmatch(name):
        raise click.UsageError("the name must be 1 to 100 letters, digits and . @ + - _")
    ends = _time(expires)
    with open_key_store(path) as (store, config):
        options = _options(KeyOptions(), settings, config)
        _print_text(*store.create(name, options, ends, command_user()), as_json=as_json)


@keys.command()
@click.argument("key")
@CONFIG
@_SETTING
@_EXPIRES
@_JSON
def change(key: str, path: str | None, settings: tuple[str, ...], expires: str | None, as_json: bool) -> None:
    """Change options of a key; the others stay. Its text stays the same."""
    with open_key_store(path) as (store, config):
        old = store.find(key)
        ends = _time(expires) if expires is not None else old.expires
        changed = store.change(old.id, _options(old.options, settings, config), ends, command_user())
    click.echo(_dumped(changed) if as_json else f"{changed.name} was changed")


@keys.command()
@click.argument("key")
@CONFIG
@click.option(
    "--overlap", metavar="DURATION", default="1d", show_default=True, help="How long the old text works: 2h, 7d, 0h."
)
@_JSON
def rotate(key: str, path: str | None, overlap: str, as_json: bool) -> None:
    """Give a key a new text and print it. The old text works for a while, so that clients can be changed."""
    with open_key_store(path) as (store, _):
        _print_text(*store.rotate(key, _time(overlap, 0.0) or 0.0, command_user()), as_json=as_json)


@keys.command()
@click.argument("key")
@CONFIG
@click.option("--stop-streams", is_flag=True, help="Also end the requests that run with it.")
def revoke(key: str, path: str | None, stop_streams: bool) -> None:
    """Make a key stop working for good, on all gateways, within a second."""
    with open_key_store(path) as (store, _):
        revoked = store.revoke(key, command_user(), stop_streams=stop_streams)
    click.echo(f"{revoked.name} was revoked")


def _options(old: KeyOptions, settings: Sequence[str], config: Config) -> KeyOptions:
    """Return the options with those changed that were given. Raises UsageError."""
    fields: dict[str, Any] = msgspec.to_builtins(old)
    for text in settings:
        name, equals, value = text.partition("=")
        outer, _, inner = name.strip().partition(".")
        if not equals or outer not in fields or (inner and not isinstance(fields[outer], dict)):
            raise click.UsageError(f"--set {name}: there is no such option; options are {', '.join(fields)}")
        try:
            found = yaml.safe_load(value)
        except yaml.YAMLError:
            raise click.UsageError(f"--set {name}: the value is not valid") from None
        if inner:
            fields[outer][inner] = found
        else:
            fields[outer] = [found] if isinstance(fields[outer], list | tuple) and isinstance(found, str) else found
    try:
        options = msgspec.convert(fields, KeyOptions)
    except msgspec.ValidationError as error:
        raise click.UsageError(f"--set: {error}") from None
    problems = key_option_problems(
        options,
        providers=config.providers,
        routes=[one.match for one in config.routes],
        policies=config.policies,
    )
    for place, problem in problems:
        raise click.UsageError(f"--set {place}: {problem}")
    return options


def _time(text: str | None, now: float | None = None) -> float | None:
    if text is None:
        return None
    try:
        return parse_time(text, time.time() if now is None else now)
    except ValueError:
        raise click.UsageError(f"{text} is not a time: use 30d, 12h, or a date such as 2027-01-31") from None


def _print_text(key: ManagedKey, text: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({**shown_key(key, time.time()), "key": text}))
        return
    click.echo(text)
    click.echo(f"This is the key {key.name} ({key.id}). It is not shown again.", err=True)


def _print_list(path: str | None, as_json: bool) -> None:
    with open_key_store(path) as (store, _):
        found = store.all()
    if as_json:
        for key in found:
            click.echo(_dumped(key))
    elif not found:
        click.echo("There are no keys yet. `trilogue keys create NAME` makes one.")
    else:
        click.echo(aligned([_COLUMNS, *(_line(key, time.time()) for key in found)]))


def _line(key: ManagedKey, now: float) -> tuple[str, ...]:
    options = key.options
    return (
        key.name,
        key.status(now).value,
        key.shown,
        options.owner,
        ", ".join(options.models),
        _named(options.limits),
        _named(options.budget),
        "" if key.expires is None else datetime.fromtimestamp(key.expires, UTC).strftime("%Y-%m-%d %H:%M"),
    )


def _named(settings: msgspec.Struct) -> str:
    """Return the settings that are not defaults."""
    defaults = type(settings)()
    found = msgspec.structs.asdict(settings).items()
    return ", ".join(f"{name}={value}" for name, value in found if value != getattr(defaults, name))


def _dumped(key: ManagedKey) -> str:
    return json.dumps(shown_key(key, time.time()))
