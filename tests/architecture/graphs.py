"""Which packages and rooms import which, read from the source text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from tests.test_layers import LAYERS, MODULES, ROOMS, ROOT_LAYER, ROOT_PACKAGE, component, internal_imports, names, room

Arrow = tuple[str, str]
Graph = dict[str, set[str]]


@cache
def packages() -> Graph:
    """Return which packages import which. The library itself is called as the root package."""
    known = names(MODULES)
    graph: Graph = {module.component or ROOT_PACKAGE: set() for module in MODULES}
    for module in MODULES:
        targets = {component(target) or ROOT_PACKAGE for target in internal_imports(module, known)}
        graph[module.component or ROOT_PACKAGE] |= targets - {module.component or ROOT_PACKAGE}
    return graph


def rooms(package: str) -> Graph:
    """Return which rooms of a package import which."""
    known = names(MODULES)
    inside = [module for module in MODULES if module.component == package and room(module.name)]
    graph: Graph = {room(module.name): set() for module in inside}
    for module in inside:
        targets = {room(target) for target in internal_imports(module, known) if component(target) == package}
        graph[room(module.name)] |= targets - {room(module.name), ""}
    return graph


@cache
def modules() -> Graph:
    """Return which modules import which."""
    known = names(MODULES)
    return {module.name: internal_imports(module, known) & known for module in MODULES}


def reached(graph: Graph, start: Iterable[str]) -> set[str]:
    """Return these nodes and all to which arrows lead from them."""
    found, todo = set(start), list(start)
    while todo:
        new = graph[todo.pop()] - found
        found |= new
        todo += new
    return found


def without_shortcuts(graph: Graph) -> set[Arrow]:
    """Return the arrows of a graph that do not follow from others."""
    return {
        (left, right)
        for left, rights in graph.items()
        for right in rights
        if right not in reached(graph, rights - {right})
    }


def levels() -> dict[str, float]:
    """Return the layer of each package that exists, lowest first, with the library at its place."""
    found = {name: float(level) for name, level in LAYERS.items() if name in packages()}
    return dict(sorted({**found, ROOT_PACKAGE: ROOT_LAYER}.items(), key=lambda item: item[1]))


def room_order(package: str) -> list[str]:
    """Return the rooms of a package, lowest first, as the layer test demands."""
    return " ".join(ROOMS[package]).split()
