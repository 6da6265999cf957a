"""Draw bar charts as SVG: a few panels one below the other, each with a logarithmic scale. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 860
LABELS = 210
VALUES = 110
BAR = 18
GAP = 6
TITLE = 34
MARGIN = 14
COLOURS = {"trilogue": "#2563eb", "nginx": "#64748b"}
OTHERS = "#d97706"


@dataclass(frozen=True)
class Bar:
    """One value. `kind` chooses the colour."""

    label: str
    value: float
    kind: str


@dataclass(frozen=True)
class Panel:
    """Bars that are compared with each other."""

    title: str
    unit: str
    bars: tuple[Bar, ...]


def chart(panels: Sequence[Panel]) -> str:
    """Return the whole chart. Panels without bars are left out."""
    parts: list[str] = []
    top = MARGIN
    for panel in panels:
        if panel.bars:
            parts.append(_panel(panel, top))
            top += _height(panel)
    height = top + MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="13">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten around these values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return (low, high) if high > low else (low, low + 1)


def short(value: float) -> str:
    """Return a number with at most three significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _height(panel: Panel) -> int:
    return TITLE + len(panel.bars) * (BAR + GAP) + MARGIN


def _panel(panel: Panel, top: int) -> str:
    low, high = decades([bar.value for bar in panel.bars])
    room = WIDTH - LABELS - VALUES - 2 * MARGIN
    left = MARGIN + LABELS
    bottom = top + TITLE + len(panel.bars) * (BAR + GAP)

    def across(value: float) -> float:
        return room * (math.log10(value) - low) / (high - low)

    lines = [f'<text x="{MARGIN}" y="{top + 16}" font-weight="600">{escape(panel.title)}</text>']
    for power in range(low, high + 1):
        x = left + across(10.0**power)
        lines.append(f'<line x1="{x:.1f}" y1="{top + TITLE - 6}" x2="{x:.1f}" y2="{bottom}" stroke="#e2e8f0"/>')
        lines.append(
            f'<text x="{x:.1f}" y="{top + TITLE - 8}" fill="#94a3b8" font-size="10" text-anchor="middle">'
            f"{short(10.0**power)}</text>"
        )
    for place, bar in enumerate(panel.bars):
        lines += _bar(bar, left, top + TITLE + place * (BAR + GAP), max(across(bar.value), 2), panel.unit)
    return "\n".join(lines)


def _bar(bar: Bar, left: int, y: int, width: float, unit: str) -> list[str]:
    colour = COLOURS.get(bar.kind, OTHERS)
    base = y + BAR - 5
    return [
        f'<text x="{left - 8}" y="{base}" text-anchor="end">{escape(bar.label)}</text>',
        f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2" fill="{colour}"/>',
        f'<text x="{left + width + 6:.1f}" y="{base}">{short(bar.value)} {escape(unit)}</text>',
    ]
