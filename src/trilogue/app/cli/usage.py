"""`trilogue usage`: show what was used and what it has cost, by key, model, account and time.

The command reads the ledger directly. It can be used while the gateway runs, and when it does not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from trilogue.app.build import configured_keys, limit_rules
from trilogue.app.cli.configured import CONFIG, read_configuration
from trilogue.app.cli.tables import aligned
from trilogue.app.stores import ledger_tables, live_folder, locations_of
from trilogue.config.config import Config
from trilogue.config.load import load
from trilogue.errors import ConfigError
from trilogue.gateway.access.client_keys import ClientKey, ManagedKey
from trilogue.gateway.access.key_store import KeyStore
from trilogue.gateway.features.usage.ledger.tables import COLUMNS, UsageLine, UsageQuery, read_usage
from trilogue.gateway.features.usage.report import BY, SINCE, encode, fields_of, usage_csv, usage_query, usage_text
from trilogue.gateway.limits.remaining import budget_lines, subjects_with_budget
from trilogue.gateway.limits.shared_table import read_rows
from trilogue.storage.database import StoreError
from trilogue.storage.engines import database_of
from trilogue.storage.locations import LIMITS_FILE, NOWHERE, Locations

_BUDGET_TITLES = ("budget", "period", "limit", "spent", "reserved", "left", "resets")


@click.command()
@click.option("--by", default=BY, show_default=True, help=f"Columns, separated by commas: {', '.join(COLUMNS)}.")
@click.option("--since", default=SINCE, show_default=True, help="A time ago (24h, 7d, 4w), a date, or all.")
@click.option("--until", help="Last day, as a date.")
@click.option("--key", help="Only this client key.")
@click.option("--owner", help="Only keys of this owner.")
@click.option("--model", help="Only this model, as clients name it.")
@click.option("--provider", help="Only this provider.")
@click.option("--account", help="Only this account.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@CONFIG
def usage(as_csv: bool, as_json: bool, path: str | None, **asked: str | None) -> None:
    """Show what was used and what it has cost. Times are UTC.

    \b
    trilogue usage --by key,model --since 7d
    trilogue usage --by day,account --since 2026-11-01 --until 2026-11-30
    trilogue usage --by hour --since 24h --key laptop --csv > laptop.csv
    """
    if as_csv and as_json:
        raise click.UsageError("use --csv or --json, not both")
    query = usage_query({name: value for name, value in asked.items() if value is not None}, time.time())
    lines, budgets = _read(path, query)
    if as_csv:
        click.echo(usage_csv(lines, query.by), nl=False)
    elif as_json:
        for line in lines:
            click.echo(encode(fields_of(line, query.by)))
        for budget in budgets:
            click.echo(encode({"budget": budget}))
    else:
        click.echo(usage_text(lines, query.by) if lines else "nothing was used in this time")
        if budgets:
            click.echo(f"\n{aligned([_BUDGET_TITLES, *(_budget_cells(budget) for budget in budgets)])}")


def _budget_cells(budget: dict[str, Any]) -> tuple[str, ...]:
    amounts = (f"${budget[name]:,.4f}" for name in ("limit", "spent", "reserved", "left"))
    return f"{budget['kind']} {budget['name']}", budget["period"], *amounts, budget["resets_at"] or "never"


def _read(path: str | None, query: UsageQuery) -> tuple[list[UsageLine], list[dict[str, Any]]]:
    """Return the sums, and what is left of budgets. Raises UsageError, and StoreError if the ledger cannot be read."""
    config, config_file = read_configuration(path)
    places = locations_of(config, config_file)
    if places.usage == NOWHERE:
        raise click.UsageError("with `usage: none`, the gateway does not count usage")
    if not places.usage:
        raise click.UsageError("usage.store: the secret that the configuration refers to cannot be found")
    tables = ledger_tables(places)
    try:
        lines = read_usage(tables, live_folder(places), query)
        return lines, budgets_left(config_file, config)
    finally:
        if tables is not None:
            tables.close()


def budgets_left(file: Path | None, config: Config) -> list[dict[str, Any]]:
    """Return how much of each budget is left. Those of keys in the configuration need the texts of these keys."""
    now = time.time()
    places = locations_of(config, file)
    subjects = subjects_with_budget(limit_rules(config), _configured(file), _managed(places), now)
    rows = read_rows(places.file(LIMITS_FILE), [str(subject) for subject in subjects])
    return [line for line in budget_lines(subjects, rows.get, now) if isinstance(line, dict)]


def _configured(file: Path | None) -> list[ClientKey]:
    try:
        return [one.key for one in configured_keys(load(file, os.environ))]
    except ConfigError:
        # A variable that holds a secret may be known to the gateway only.
        return []


def _managed(places: Locations) -> Sequence[ManagedKey]:
    if not places.shared and not Path(places.keys).exists():
        return []
    try:
        with closing(KeyStore(database_of(places.keys))) as store:
            return store.all()
    except StoreError as error:
        click.echo(f"warning: budgets of client keys made at run time cannot be shown: {error}", err=True)
        return []
