"""`trilogue accounts`: show the accounts and change their state.

The commands read and write the state file. A running gateway picks up the changes from there.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import SystemRandom
from typing import Any

import click

from trilogue.app.cli.configured import CONFIG, read_configuration
from trilogue.app.cli.stores import note_change, open_any_key_store, open_key_store
from trilogue.app.cli.tables import aligned, time_since, time_until
from trilogue.app.stores import accounts_file
from trilogue.base.text import printable
from trilogue.config.load import find
from trilogue.gateway.features.accounts import account_change
from trilogue.routing.pool.account import Account
from trilogue.routing.pool.pool import Pool
from trilogue.routing.pool.pools import Pools, describe
from trilogue.storage.locations import state_directory
from trilogue.storage.records import RecordFile
from trilogue.storage.vault import Vault, check_name
from trilogue.upstreams.build import pools_of
from trilogue.upstreams.state.sync import load_into, write_now

Action = Callable[[Pools, tuple[Pool, Account], float], None]

MAX_KEY_BYTES = 64 * 1024
NOT_PERSISTED = "with pool.persist: false, account state is not stored; use the admin interface to show and change it"
_COLUMNS = ("account", "state", "until", "in flight", "requests", "success", "balance", "last error")

_STATES = {
    ("refused", "bad_key"): "key refused",
    ("refused", "account_closed"): "account closed",
    ("refused", "out_of_quota"): "no quota",
    ("refused", "out_of_money"): "no credit",
    ("refused", "no_credential"): "no key",
}
"""states and their reasons in words; all others are shown as `state (reason)`"""
_DONE = {"enable": "is enabled", "disable": "is disabled", "reset": "is reset"}


@click.group(invoke_without_command=True)
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per account.")
@click.pass_context
def accounts(context: click.Context, path: str | None, as_json: bool) -> None:
    """Show the accounts: which are ready, which are cooling down and until when, and their last error.

    \b
    trilogue accounts
    trilogue accounts disable openai/a
    trilogue accounts add spare < key.txt
    """
    context.obj = path
    if context.invoked_subcommand is not None:
        return
    now = time.time()
    lines = list(_load_pools(path, now).overview(now))
    click.echo("\n".join(json.dumps(line) for line in lines) if as_json else table(lines, now))


@accounts.command()
@click.argument("name")
@CONFIG
def enable(path: str | None, name: str) -> None:
    """Put an account (NAME or PROVIDER/NAME) back into use."""
    _change(path, name, "enable", lambda pools, one, _: pools.enable(one))


@accounts.command()
@click.argument("name")
@CONFIG
def disable(path: str | None, name: str) -> None:
    """Take an account out of use until it is enabled again."""
    _change(path, name, "disable", lambda pools, one, now: pools.disable(one, now))


@accounts.command()
@click.argument("name")
@CONFIG
def reset(path: str | None, name: str) -> None:
    """End every cooldown of an account, clear its failures and enable it."""
    _change(path, name, "reset", lambda pools, one, _: pools.reset(one))


@accounts.command()
@click.argument("name")
@click.argument("amount", type=float)
@CONFIG
def balance(path: str | None, name: str, amount: float) -> None:
    """Set what an account may still spend."""
    if not math.isfinite(amount):
        raise click.UsageError("AMOUNT must be a finite number, such as 25 or 12.5")
    _change(path, name, "balance", lambda pools, one, _: pools.set_balance(one, amount), amount)


@accounts.command()
@click.argument("name")
def add(name: str) -> None:
    """Read a key from standard input and save it in the encrypted store; use it as `store:NAME` in the
    configuration."""
    typed = sys.stdin.isatty()
    text: str = click.prompt("Key", hide_input=True, err=True) if typed else sys.stdin.read(MAX_KEY_BYTES + 1)
    key = text.strip()
    if not key or len(key) > MAX_KEY_BYTES or not key.isprintable() or not key.isascii():
        raise click.UsageError("the key must be one line of printable ASCII")
    check_name(name)
    with open_any_key_store() as store:
        note_change(store, "store account key", name)
    Vault(state_directory(os.environ)).put(name, key)
    click.echo(f"saved; set `key: store:{name}` on an account in the configuration")


@accounts.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove a key from the encrypted store."""
    vault = Vault(state_directory(os.environ))
    if name not in vault.names():
        raise click.UsageError(f"the store has no key named {name}")
    with open_any_key_store() as store:
        note_change(store, "remove account key", name)
    vault.remove(name)
    click.echo("removed")


def table(lines: Iterable[dict[str, Any]], now: float) -> str:
    """Return the accounts as a table for a terminal."""
    return aligned([_COLUMNS, *(_row(line, now) for line in lines)])


def _row(line: dict[str, Any], now: float) -> tuple[str, ...]:
    """Return the cells of one account's row, in the order of `_COLUMNS`."""
    plain = line["state"] if not line["why"] else f"{line['state']} ({line['why']})"
    state = _STATES.get((line["state"], line["why"]), plain)
    models = ", ".join(f"{model} {time_until(until, now)}" for model, until in line["models"].items())
    rate, money, error = line["success_rate"], line["balance"], line["last_error"]
    status = f" {line['last_error_status']}" if line["last_error_status"] else ""
    words = f": {line['last_error_text']}" if line["last_error_text"] else ""
    return (
        f"{line['provider']}/{line['account']}",
        state + (f"; without {models}" if models else ""),
        time_until(line["until"], now) if line["until"] else "",
        str(line["in_flight"]),
        str(line["requests"]),
        "" if rate is None else f"{rate:.1%}",
        "" if money is None else f"{money:.4g}",
        f"{error}{status}{printable(words)}, {time_since(line['last_error_at'], now)}" if error else "",
    )


def _store(path: str | None) -> RecordFile:
    return RecordFile(accounts_file(find(Path(path) if path else None)))


def _load_pools(path: str | None, now: float) -> Pools:
    """Return the configured accounts with their state from the state file. Raises UsageError."""
    config, _ = read_configuration(path)
    if not config.pool.persist:
        raise click.UsageError(NOT_PERSISTED)
    pools = pools_of(config, SystemRandom(), config.server.workers)
    load_into(pools, _store(path), now)
    return pools


def _change(path: str | None, name: str, action: str, apply: Action, balance: float | None = None) -> None:
    """Change one account, note it in the audit log, write it to the state file and print what was done."""
    now = time.time()
    pools = _load_pools(path, now)
    one = _find_account(pools, name)
    full_name = f"{one[0].name}/{one[1].name}"
    before, after = account_change(describe(*one, now), action, balance)
    with open_key_store(path) as (store, _):
        note_change(store, f"{action} account", full_name, before=before, after=after)
    apply(pools, one, now)
    write_now(_store(path), pools.drain(), now)
    click.echo(f"{full_name} {_DONE[action] if balance is None else f'has a balance of {balance:g}'}")


def _find_account(pools: Pools, name: str) -> tuple[Pool, Account]:
    """Return the account of this name. Raises UsageError if there is none, or more than one."""
    found = pools.find(name)
    if not found:
        raise click.UsageError(f"there is no account named {name}")
    if len(found) > 1:
        names = ", ".join(f"{pool.name}/{account.name}" for pool, account in found)
        raise click.UsageError(f"{name} is ambiguous: {names}")
    return found[0]
