"""`trilogue approvals`: show the tool calls that wait until a person approves them, and decide on them."""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import click

from trilogue.app.cli.admin_client import admin_client, admin_options
from trilogue.app.cli.tables import aligned
from trilogue.base.text import printable

_COLUMNS = ("id", "tool", "key", "route", "model", "policy", "waits", "time left")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per call.")
_BY = click.option("--by", metavar="NAME", help="Who decides, for the records; default: the user of this machine.")

Row = dict[str, Any]


@click.group(invoke_without_command=True)
@admin_options
@_JSON
@click.pass_context
def approvals(context: click.Context, path: str | None, url: str | None, as_json: bool) -> None:
    """Show the tool calls that a running gateway holds until somebody approves them (policy `approve`).

    \b
    trilogue approvals
    trilogue approvals approve apr_5f0c1a2b3c4d5e6f
    trilogue approvals deny apr_5f0c1a2b3c4d5e6f --by alice
    """
    context.obj = (path, url)
    if context.invoked_subcommand is None:
        _print_list(path, url, as_json)


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which gateway is meant: they may come before and after the name of the command."""

    @click.pass_context
    def run(context: click.Context, /, path: str | None, url: str | None, **given: Any) -> None:
        before: tuple[str | None, str | None] = context.obj
        command(path=path or before[0], url=url or before[1], **given)

    run.__doc__ = command.__doc__
    return admin_options(run)


@approvals.command(name="list")
@_JSON
@_with_options
def list_(path: str | None, url: str | None, as_json: bool) -> None:
    """Show the calls that wait, the oldest first."""
    _print_list(path, url, as_json)


@approvals.command(name="approve")
@click.argument("approval_id", metavar="ID")
@_BY
@_with_options
def approve(path: str | None, url: str | None, approval_id: str, by: str | None) -> None:
    """Let a call go on."""
    _decide(path, url, approval_id, {"decision": "yes", "by": by or _user()})
    click.echo("approved")


@approvals.command(name="deny")
@click.argument("approval_id", metavar="ID")
@_BY
@_with_options
def deny(path: str | None, url: str | None, approval_id: str, by: str | None) -> None:
    """Do not let a call go on. The client gets the words of the policy in its place."""
    _decide(path, url, approval_id, {"decision": "no", "by": by or _user()})
    click.echo("denied")


def _decide(path: str | None, url: str | None, approval_id: str, body: dict[str, str]) -> None:
    if not approval_id or "/" in approval_id:
        raise click.UsageError("ID is one of those that `trilogue approvals` shows")
    admin_client(path, url).post(f"/approvals/{quote(approval_id, safe='')}", body)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "command line"


def _print_list(path: str | None, url: str | None, as_json: bool) -> None:
    found: list[Row] = admin_client(path, url).get("/approvals")["approvals"]
    if as_json:
        for row in found:
            click.echo(json.dumps(row, ensure_ascii=False))
    elif not found:
        click.echo("No call waits for approval.")
    else:
        click.echo(table(found, time.time()))


def table(rows: list[Row], now: float) -> str:
    """Return the calls as a table for a terminal, with the arguments of each below it."""
    lines = aligned([_COLUMNS, *(_line(row, now) for row in rows)]).split("\n")
    shown = [lines[0]]
    for line, row in zip(lines[1:], rows, strict=True):
        shown += [line, f"    {printable(row['arguments'])}"]
    return "\n".join(shown)


def _line(row: Row, now: float) -> tuple[str, ...]:
    names = (row["id"], row["tool"], row["key"] or "-", row["route"] or "-", row["model"], row["policy"])
    waits, left = max(0.0, now - row["asked_at"]), max(0.0, row["until"] - now)
    return (*(printable(name) for name in names), f"{waits:.0f} s", f"{left:.0f} s")
