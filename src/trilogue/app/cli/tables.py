"""Text that several commands print: tables, numbers with their nouns, times and sizes."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as a table for a terminal. All rows have the same number of cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def with_numbers(rows: Sequence[Sequence[str]], left: int) -> str:
    """Return rows of cells as a table with numbers aligned to the right. The first `left` columns are text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            f"{cell:<{width}}" if column < left else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def time_until(when: float, now: float) -> str:
    """Return how long it is until something happens, for people."""
    return f"in {duration(when - now)}"


def time_since(when: float, now: float) -> str:
    """Return how long ago something was, for people."""
    return f"{duration(now - when)} ago"


def duration(seconds: float) -> str:
    """Return a length of time in its largest unit, for people."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: 1 account, 2 accounts. `plural`: if it is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def size_text(size: int) -> str:
    """Return a number of bytes in its largest unit, for people."""
    for unit, scale in (("GB", 2**30), ("MB", 2**20), ("kB", 2**10)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"
