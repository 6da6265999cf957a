"""The parts of docs/architecture.md that repeat the code: diagrams of imports, and tables of packages and rooms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

from tests.architecture.graphs import Arrow, levels, packages, room_order, rooms, without_shortcuts
from tests.test_layers import LIBRARY_LAYER, MODULES, ROOMS, ROOT_PACKAGE, SRC

PAGE = SRC.parent / "docs" / "architecture.md"
COMMAND = "python -m tests.architecture --write"


def pattern(name: str) -> re.Pattern[str]:
    """Return what finds a generated part, with the two comments around it."""
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)


def part(text: str, name: str) -> str:
    """Return a generated part of a page, without the two comments around it."""
    found = pattern(name).findall(text)
    if len(found) != 1:
        raise LookupError(f"the page has {len(found)} parts between <!-- {name} --> and <!-- /{name} -->")
    return str(found[0])


def with_parts(text: str, parts: Mapping[str, str]) -> str:
    """Return a page with its generated parts replaced."""
    for name, new in parts.items():
        part(text, name)
        start, end = pattern(name).split(text)
        text = f"{start}{new}{end}"
    return text


def from_imports() -> dict[str, str]:
    """Return the parts that follow from the source text alone."""
    return {"layers": layers(), "rooms": "\n".join(map(rooms_of, ROOMS))}


def layers() -> str:
    """Return the section on packages: where the library ends, the diagram, the table."""
    found = levels()
    boxes = [
        line
        for level in sorted(set(found.values()), reverse=True)
        for line in box(f"layer{level:g}", f"layer {level:g}", [name for name in found if found[name] == level])
    ]
    order = list(found)[::-1]
    return "\n".join(
        [
            f"The library, whose names `import {ROOT_PACKAGE}` shows, is the layers up to {LIBRARY_LAYER}: the code",
            "there does no I/O and is not async. The only clock that it has is `base/clock.py`, for those above.",
            "",
            *diagram([*boxes, *arrows(without_shortcuts(packages()), order)]),
            "",
            *table("package", {name: described(name) for name in found}),
            "",
        ]
    )


def rooms_of(package: str) -> str:
    """Return the section on the rooms of a package."""
    graph, order = rooms(package), room_order(package)
    shown = without_shortcuts(graph)
    alone = sorted(set(graph) - {node for arrow in shown for node in arrow})
    return "\n".join(
        [
            f"### {package}",
            "",
            *diagram([*arrows(shown, order[::-1]), *[f"    {name}" for name in alone]]),
            "",
            *table("room", {name: described(f"{package}.{name}") for name in order}),
            "",
        ]
    )


def diagram(lines: Iterable[str]) -> list[str]:
    """Return a flow chart."""
    return ["```mermaid", "flowchart TD", *lines, "```"]


def box(name: str, title: str, inside: Iterable[str]) -> list[str]:
    """Return a group of nodes with a title."""
    return [f"    subgraph {name} [{title}]", *[f"        {node}" for node in inside], "    end"]


def arrows(found: Iterable[Arrow], order: list[str]) -> list[str]:
    """Return arrows in the order of the nodes at their ends."""
    ranked = sorted(found, key=lambda arrow: [order.index(name) for name in arrow])
    return [f"    {left} --> {right}" for left, right in ranked]


def table(head: str, rows: Mapping[str, str]) -> list[str]:
    """Return a table of names with descriptions."""
    return [f"| {head} | inside |", "|---|---|", *[f"| `{name}` | {text} |" for name, text in rows.items()]]


def described(name: str) -> str:
    """Return what is inside a package or module: the first line of its docstring, without the full stop."""
    full = ROOT_PACKAGE if name == ROOT_PACKAGE else f"{ROOT_PACKAGE}.{name}"
    (tree,) = [module.tree for module in MODULES if module.name == full]
    first = summary(ast.get_docstring(tree))
    if not first:
        raise LookupError(f"the docstring of {full} does not begin with one sentence on one line")
    return first.removesuffix(".").replace("|", "\\|")


def summary(docstring: str | None) -> str:
    """Return the first line of a docstring if it is a sentence of its own, and nothing otherwise."""
    first, _, rest = (docstring or "").partition("\n")
    return first if first.endswith(".") and (not rest or rest.startswith("\n")) else ""
