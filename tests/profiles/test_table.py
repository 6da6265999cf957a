"""The table of models is sound: no row hides another, every field is used, every row changes what is sent."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields, replace

from tests.vendors.client_requests import PROTOCOLS, client_requests, single_settings
from trilogue import ClientError, Profile, Target, translate_request
from trilogue.model import Ledger, Protocol, protocol_of
from trilogue.translate.requests import fit_own
from trilogue.vendors.profile import UNKNOWN_VENDOR, ProfileRow
from trilogue.vendors.profile_lookup import ROWS, profile_for, rows_for
from trilogue.vendors.table import PROFILED

SOURCE = Path(__file__).resolve().parents[2] / "src" / "trilogue"
IDS = [f"{row.vendors.split()[0]}-{row.protocols.split()[0]}-{row.example}-{'+'.join(row.takes)}" for row in ROWS]

BY_CONFIGURATION = {"raw_as_summary", "billing_block", "think_tags", "json_mode"}
"""fields that only users set, because no row can know what is behind a server or what they prefer"""


def place(row: ProfileRow) -> tuple[str, Protocol]:
    """Return the first vendor and protocol that a row is for."""
    vendor = row.vendors.split()[0]
    return (UNKNOWN_VENDOR if vendor == "any" else vendor), protocol_of(row.protocols.split()[0])


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_row_decides_for_its_example(row: ProfileRow) -> None:
    """No other row hides this one; a hidden row would have no effect."""
    vendor, protocol = place(row)
    deciding = dict((id(one), own) for one, own in rows_for(protocol, row.example, vendor))
    assert deciding.get(id(row)) == row.takes


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_row_is_complete(row: ProfileRow) -> None:
    """Every row names existing vendors and protocols, when it was observed, and how it is known."""
    assert set(row.vendors.split()) <= {*PROFILED, UNKNOWN_VENDOR, "any"}
    assert {protocol_of(name).short for name in row.protocols.split()} == set(row.protocols.split())
    assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", row.seen)
    assert row.what
    assert bool(row.sources) is (row.sure != "choice"), "a fact has a source; a choice of ours has none"
    re.compile(row.models)


def test_a_row_sets_fields_that_exist() -> None:
    """Every field in a row exists, and every field is set by a row, unless only users can know it."""
    known = {field.name for field in fields(Profile)}
    used = {name for row in ROWS for name in row.takes}
    assert used <= known
    assert known - used <= BY_CONFIGURATION


def test_every_field_is_read_somewhere() -> None:
    """Some code reads every field; otherwise it would have no effect."""
    text = "\n".join(path.read_text() for path in SOURCE.rglob("*.py") if "vendors" not in path.parts)
    unread = [field.name for field in fields(Profile) if f".{field.name}" not in text]
    assert unread == []


HELLO: dict[str, dict[str, Any]] = {
    "chat": {"messages": [{"role": "user", "content": "Hello"}]},
    "messages": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4096},
    "responses": {"input": "Hello"},
}
TOGETHER: list[tuple[str, dict[str, Any]]] = [
    ("chat", {"response_format": {"type": "json_object"}}),
    ("chat", {"reasoning_effort": "minimal"}),
    ("responses", {"reasoning": {"effort": "low", "summary": "concise"}}),
    (
        "messages",
        {
            "thinking": {"type": "enabled", "budget_tokens": 2048},
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "any"},
        },
    ),
    ("responses", {"tools": [{"type": "tool_search"}, {"type": "function", "name": "f", "defer_loading": True}]}),
    (
        "messages",
        {
            "tools": [
                {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
                {"name": "f", "input_schema": {"type": "object"}, "defer_loading": True},
            ]
        },
    ),
]
"""settings that only matter together, or that APIs refuse"""


@cache
def requests() -> list[tuple[str, dict[str, Any]]]:
    """Return every setting of every client protocol alone, then requests with several settings."""
    alone: list[tuple[str, dict[str, Any]]] = [
        (client, body) for client in PROTOCOLS for _, body in single_settings(client)
    ]
    alone += [(client, {"model": "m", **HELLO[client], **settings}) for client, settings in TOGETHER]
    return alone + [(client, body) for client in PROTOCOLS for body in client_requests(client, 14, 500)]


def sent(client: str, body: dict[str, Any], target: Target) -> Any:
    """Return the translated request with its losses, or why there is none."""
    ledger = Ledger()
    try:
        if target.protocol.short == client:
            return fit_own(body, target, ledger), ledger.losses
        up = translate_request(body, source=client, target=target)
    except ClientError as error:
        return str(error)
    return up.body, up.losses, up.exchange.stop


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_row_changes_what_is_sent(row: ProfileRow) -> None:
    """Without the fields of a row, at least one request would be sent differently."""
    vendor, protocol = place(row)
    profile = profile_for(protocol, row.example, vendor)
    neutral = {name: getattr(Profile(), name) for name in row.takes if name not in NOT_IN_BODIES}
    with_row = Target(protocol=protocol, model=row.example, profile=profile)
    without = Target(protocol=protocol, model=row.example, profile=replace(profile, **neutral))
    if set(row.takes) <= NOT_IN_BODIES or without.profile == profile:
        return
    assert any(sent(client, body, with_row) != sent(client, body, without) for client, body in requests())


NOT_IN_BODIES = {"context_window", "version", "keeps_state", "compacts", "orphaned_calls", "agents", "fills_arguments"}
"""fields that affect headers or what the gateway refuses, which have their own tests"""
