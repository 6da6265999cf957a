"""`trilogue state`: show, prune, export and delete what the gateway keeps of responses and conversations.

The commands use the store directly. They can be used while the gateway runs.
"""

from __future__ import annotations

import base64
import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click
from msgspec import Raw
from msgspec.structs import asdict

from trilogue.app.cli.configured import CONFIG, read_configuration
from trilogue.app.cli.stores import note_change, open_key_store, open_store
from trilogue.app.cli.tables import aligned, counted, size_text, time_since
from trilogue.app.stores import locations_of
from trilogue.base.json_text import dump
from trilogue.config.config import Config
from trilogue.gateway.conversations.settings import StateSettings
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import (
    ConversationItem,
    OwnerStatistics,
    StoredConversation,
    StoredReasoning,
    StoredResponse,
)
from trilogue.model import Json

Exported = StoredResponse | StoredConversation | ConversationItem | StoredReasoning

PROGRESS_SECONDS = 1.0
_OWNER = re.compile(r"(.*):(?:[0-9a-f]{24}|key_[0-9a-f]{16})")
"""keys of the configuration have a digest behind the name, those that were made at run time their id"""
_COLUMNS = ("key", "responses", "conversations", "reasoning", "size", "oldest", "newest")


@click.group(invoke_without_command=True)
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per client key.")
@click.pass_context
def state(context: click.Context, path: str | None, as_json: bool) -> None:
    """Show what is kept of responses and conversations, how much, and for which client keys.

    \b
    trilogue state
    trilogue state export --key laptop > laptop.jsonl
    trilogue state delete --key laptop
    trilogue state prune
    """
    context.obj = path
    if context.invoked_subcommand is not None:
        return
    config, file = read_configuration(path)
    store = _opened(config, file)
    found = store.owners.statistics() if store is not None else ()
    if as_json:
        for line in found:
            click.echo(dump({"key": name_of(line.owner), **asdict(line)}))
        return
    if found:
        click.echo(table(found, time.time()))
    place = store.name if store is not None else locations_of(config, file).responses
    click.echo(_summary(config.state, found, place))


@state.command()
@CONFIG
def prune(path: str | None) -> None:
    """Delete what has expired, and the oldest of what is over the limits. The gateway does this by itself too."""
    store = _opened(*read_configuration(path))
    click.echo(f"{_entries(_repeated(store.owners.prune_some) if store is not None else 0)} deleted")


@state.command()
@click.option("--key", "name", required=True, help="Name of the client key; `local` if the gateway has none.")
@CONFIG
def export(path: str | None, name: str) -> None:
    """Print everything that is kept for a client key, decrypted, as JSON Lines."""
    store, owners = _owned(path, name)
    progress = PruneProgress("exported")
    for one in owners:
        for entry in store.owners.export(one.owner):
            click.echo(dump(exported(entry)))
            progress.add()
    progress.end()


@state.command()
@click.option("--key", "name", required=True, help="Name of the client key; `local` if the gateway has none.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@CONFIG
def delete(path: str | None, name: str, yes: bool) -> None:
    """Delete everything that is kept for a client key."""
    store, owners = _owned(path, name)
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("confirm with --yes")
        counts = ", ".join(_counts(one) for one in owners)
        click.confirm(f"Delete everything that is kept for {name} ({counts})?", abort=True, err=True)
    kept: Json = {"responses": sum(one.responses for one in owners), "bytes": sum(one.bytes for one in owners)}
    with open_key_store(path) as (keys, _):
        note_change(keys, "delete stored responses", name, before=kept)
    deleted = sum(_repeated(partial(store.owners.delete_some, one.owner)) for one in owners)
    click.echo(f"{_entries(deleted)} of {name} deleted")


def table(lines: Sequence[OwnerStatistics], now: float) -> str:
    """Return what is kept for each client key, as a table for a terminal."""
    names = [name_of(line.owner) for line in lines]
    rows = [_COLUMNS]
    for name, line in zip(names, lines, strict=True):
        # A key that was replaced keeps its name, and what it stored stays apart.
        shown = name if names.count(name) == 1 else line.owner[: len(name) + 9]
        rows.append(
            (
                shown,
                f"{line.responses:,}",
                f"{line.conversations:,}",
                f"{line.reasoning:,}",
                size_text(line.bytes),
                time_since(line.oldest, now),
                time_since(line.newest, now),
            )
        )
    return aligned(rows)


def name_of(owner: str) -> str:
    """Return the name of the client key that an owner belongs to."""
    found = _OWNER.fullmatch(owner)
    return found[1] if found else owner


def _summary(settings: StateSettings, found: Sequence[OwnerStatistics], place: str) -> str:
    size = sum(line.bytes for line in found)
    kept = f"{size_text(size)} of {size_text(settings.total_bytes)} are kept in" if found else "nothing is kept in"
    return f"{kept} {place}; entries expire {settings.days:g} days after their last use"


def _opened(config: Config, file: Path | None) -> ResponseStore | None:
    """Return the store, which is closed when the command ends; None if there is none yet."""
    store = open_store(config, file)
    if store is not None:
        click.get_current_context().call_on_close(store.close)
    return store


def _owned(path: str | None, name: str) -> tuple[ResponseStore, list[OwnerStatistics]]:
    """Return the store and what is kept for a key: under its name, or the name with its digest. Raises UsageError."""
    store = _opened(*read_configuration(path))
    found = store.owners.statistics() if store is not None else ()
    owners = [line for line in found if name in (name_of(line.owner), line.owner)]
    if store is None or not owners:
        names = ", ".join(sorted({name_of(line.owner) for line in found}))
        raise click.UsageError(f"nothing is kept for {name}" + (f"; there is something for {names}" if names else ""))
    return store, owners


def _counts(line: OwnerStatistics) -> str:
    return f"{counted(line.responses, 'response')} and {counted(line.conversations, 'conversation')}"


def exported(entry: Exported) -> dict[str, Json]:
    """Return an entry of the store as it is exported."""
    match entry:
        case StoredResponse():
            return {
                "type": "response",
                **_described(entry),
                "status": "failed" if entry.failure else entry.status,
                "previous_response_id": entry.previous,
                "conversation": entry.conversation,
                "input": [Raw(item.data) for item in entry.input],
                "response": Raw(entry.body),
            }
        case StoredConversation():
            return {"type": "conversation", **_described(entry), "metadata": Raw(entry.metadata)}
        case ConversationItem():
            return {"type": "conversation_item", "conversation": entry.conversation, "item": Raw(entry.item.data)}
        case StoredReasoning():
            return {"type": "reasoning", "key": entry.key, "data": base64.b64encode(entry.data).decode()}


def _described(entry: StoredResponse | StoredConversation) -> dict[str, Json]:
    origin = entry.origin
    return {
        "id": entry.id,
        "created": entry.created,
        "expires": entry.expires,
        "account": f"{origin.provider}/{origin.account}" if origin is not None else None,
    }


class PruneProgress:
    """Shows on a terminal how far long work has come."""

    def __init__(self, done: str) -> None:
        self.total = 0
        self._done = done
        self._shown = time.monotonic() if sys.stderr.isatty() else float("inf")
        self._used = False

    def add(self, number: int = 1) -> None:
        """Count more entries, and show the sum once a second."""
        self.total += number
        if time.monotonic() - self._shown >= PROGRESS_SECONDS:
            self._shown, self._used = time.monotonic(), True
            click.echo(f"\r{self.total:,} {self._done}", nl=False, err=True)

    def end(self) -> None:
        """Leave the line on which progress was shown."""
        if self._used:
            click.echo(err=True)


def _repeated(step: Callable[[], int]) -> int:
    """Run a step that deletes some entries until none is left, and return how many there were."""
    progress = PruneProgress("deleted")
    for number in iter(step, 0):
        progress.add(number)
    progress.end()
    return progress.total


def _entries(number: int) -> str:
    return "1 entry" if number == 1 else f"{number:,} entries"
