"""`trilogue audit`: who changed what, through the admin interface or by commands.

The command reads the database of the configuration, so no gateway has to run.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import click
import msgspec

from trilogue.app.cli.configured import CONFIG
from trilogue.app.cli.stores import open_key_store
from trilogue.app.cli.tables import aligned
from trilogue.gateway.access.audit_log import AuditEntry, AuditQuery
from trilogue.gateway.admin.audit import MOST_ENTRIES, past_time
from trilogue.model import Json

_COLUMNS = ("number", "time (UTC)", "who", "via", "what", "subject", "change")
_LONGEST = 100
_TIMES = ("expires", "revoked")
_NOTHING: tuple[Json, ...] = (None, "", [])


@click.command()
@CONFIG
@click.option("--who", default="", metavar="NAME", help="Only changes by this person, program or key.")
@click.option("--what", default="", metavar="ACTION", help="Only this kind of change, such as 'revoke key'.")
@click.option("--subject", default="", metavar="NAME", help="Only changes of this key, account or session.")
@click.option("--since", metavar="WHEN", help="Only from then on: 7d, 12h, or a date or time such as 2027-01-31 (UTC).")
@click.option("--until", metavar="WHEN", help="Only before then, in the same forms.")
@click.option("--before", type=click.IntRange(min=1), metavar="NUMBER", help="Only entries before this one.")
@click.option(
    "--limit", type=click.IntRange(1, MOST_ENTRIES), default=50, show_default=True, help="How many entries to show."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per entry.")
def audit(path: str | None, as_json: bool, since: str | None, until: str | None, **asked: str | int) -> None:
    """Show the audit log, newest entries first: who changed what, what it was before, and what it is now.

    \b
    trilogue audit --since 7d
    trilogue audit --subject alice
    trilogue audit --what 'disable account' --json
    """
    now = time.time()
    given = {"since": _moment(since, now), "until": _moment(until, now), **asked}
    with open_key_store(path) as (store, _):
        found = store.audit.find(msgspec.convert(given, AuditQuery))
    if as_json:
        for entry in found:
            click.echo(json.dumps(msgspec.to_builtins(entry)))
    elif found:
        click.echo(aligned([_COLUMNS, *map(_line, found)]))
    else:
        click.echo("There are no such entries.")


def _moment(text: str | None, now: float) -> float | None:
    try:
        return None if text is None else past_time(text, now)
    except ValueError:
        raise click.UsageError(f"{text} is not a time: use 7d, 12h, or a date such as 2027-01-31") from None


def _line(entry: AuditEntry) -> tuple[str, ...]:
    change = _change(entry.before, entry.after)
    return str(entry.number), _time(entry.at), entry.who, entry.via, entry.what, entry.subject, change


def _change(before: Json, after: Json) -> str:
    """Return the values that differ, in one line."""
    changed = differences(before, after)
    text = ", ".join(f"{name}: {_shown(name, old)} → {_shown(name, new)}" for name, (old, new) in changed.items())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _shown(name: str, value: Json) -> str:
    if name in _TIMES and isinstance(value, float | int):
        return _time(value)
    return json.dumps(value, ensure_ascii=False)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def differences(before: Json, after: Json, prefix: str = "") -> dict[str, tuple[Json, Json]]:
    """Return what differs between two values, by path. Missing, null and empty values do not differ."""
    if not isinstance(before, dict) and not isinstance(after, dict):
        same = before == after or (before in _NOTHING and after in _NOTHING)
        return {} if same else {prefix: (before, after)}
    old, new = (value if isinstance(value, dict) else {} for value in (before, after))
    found: dict[str, tuple[Json, Json]] = {}
    for name in {**old, **new}:
        found |= differences(old.get(name), new.get(name), f"{prefix}.{name}" if prefix else name)
    return found
