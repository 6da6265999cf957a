"""Print how two documents differ, or what a policy decided: the results of `diff`, `explain` and `replay`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from trilogue.base.json_text import dump, dump_text
from trilogue.model import Json
from trilogue.translate.compare.differences import ABSENT, Difference

MOST_PRINTED = 50
_WIDTH = 100
_BEFORE = 30
"""how much of two long texts is shown before the place where they begin to differ"""


def print_differences(found: list[Difference], names: tuple[str, str], *, json: bool, where: str = "") -> None:
    """Print each difference with its path and both values. `json`: one JSON object per line instead."""
    for difference in found if json else found[:MOST_PRINTED]:
        if json:
            click.echo(dump(_plain(difference, names, where)))
            continue
        left, right = _shown(difference.a, difference.b)
        width = max(map(len, names))
        click.echo(difference.path)
        click.echo(f"  {names[0]:<{width}}  {left}")
        click.echo(f"  {names[1]:<{width}}  {right}")
    if not json and len(found) > MOST_PRINTED:
        click.echo(f"… and {len(found) - MOST_PRINTED} more")


def _plain(difference: Difference, names: tuple[str, str], where: str) -> dict[str, Json]:
    """Return a difference for machines. A value that is absent has no field."""
    values = zip(names, (difference.a, difference.b), strict=True)
    found: dict[str, Json] = {"path": difference.path} | {name: one for name, one in values if one is not ABSENT}
    return {"step": where, **found} if where else found


def _shown(a: Json, b: Json) -> tuple[str, str]:
    left, right = _text(a), _text(b)
    if max(len(left), len(right)) <= _WIDTH:
        return left, right
    same = next((at for at, (x, y) in enumerate(zip(left, right, strict=False)) if x != y), min(len(left), len(right)))
    start = max(0, same - _BEFORE)
    return _part(left, start), _part(right, start)


def _part(text: str, start: int) -> str:
    end = start + _WIDTH
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def _text(value: Json) -> str:
    return "(absent)" if value is ABSENT else dump_text(value)


def verdict_text(one: Mapping[str, Json]) -> str:
    """Return what a policy decided, about what, and why."""
    what = f"{one['kind']} (block {one['block']})" if one["block"] is not None else one["stage"]
    reason = f": {one['reason']}" if one["reason"] else ""
    return f"{one['policy']}: {one['verdict']} {what}{reason}"
