"""The table of models as Markdown, for docs/models.md."""

from __future__ import annotations

from typing import Any

import msgspec

from trilogue.profiles import ROWS, Row


def models_table() -> str:
    """Return all rows, by vendors and protocols, in the order in which they count."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in ROWS:
        groups.setdefault((row.vendors, row.protocols), []).append(row)
    return "\n\n".join(_section(vendors, protocols, rows) for (vendors, protocols), rows in groups.items())


def _section(vendors: str, protocols: str, rows: list[Row]) -> str:
    head = f"### {', '.join(vendors.split())}: {' and '.join(protocols.split())}"
    table = ["| models | what | fields | sure | sources |", "|---|---|---|---|---|", *map(_line, rows)]
    return "\n".join([head, "", *table])


def _line(row: Row) -> str:
    pattern = f"`{row.models}`" if row.models else "all"
    fields = ", ".join(f"`{name}: {_value(value)}`" for name, value in row.takes.items())
    sources = ", ".join(row.sources) or "our own choice"
    cells = (pattern, row.what, fields, f"{row.sure}, {row.seen}", sources)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(value: Any) -> str:
    """Return a value as the configuration writes it."""
    match msgspec.to_builtins(value):
        case bool(flag):
            return "true" if flag else "false"
        case list(items) | tuple(items):
            return f"[{', '.join(map(str, items))}]"
        case None:
            return "null"
        case other:
            return str(other)
