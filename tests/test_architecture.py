"""docs/architecture.md, checked: its diagrams against the imports, its lists of calls against four real requests."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest

from tests.gateway.running import CLIENT_KEY
from tests.gateway.wire import exchange, outcome, request
from tests.scripted.server import ScriptedUpstream
from tests.test_layers import LAYERS, MODULES, ROOMS, ROOT_PACKAGE, SRC, component, internal_imports, layer, names, room
from tests.timing import eventually_async
from trilogue import Protocol, Sealer
from trilogue.config import load
from trilogue.gateway.endpoints.app import Gateway, not_http
from trilogue.gateway.setup.services import Services
from trilogue.gateway.setup.worker_state import WorkerState
from trilogue.serving import Listener
from trilogue.upstream import HttpTransport

PAGE = (SRC.parent / "docs" / "architecture.md").read_text("utf-8")
PACKAGE = SRC / ROOT_PACKAGE

Arrow = tuple[str, str]
Graph = dict[str, set[str]]
Place = tuple[str, str]
"""a file below the package, and a function or class in it"""


def section(title: str, text: str = PAGE) -> str:
    """Return the text below a heading, up to the next heading of the same level or a higher one."""
    level = len(title) - len(title.lstrip("#"))
    found = re.search(rf"^{re.escape(title)}\n(.*?)(?=^#{{1,{level}}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"there is no heading {title!r}"
    return found[1]


def diagram(text: str) -> list[str]:
    """Return the lines of the first diagram."""
    return [line.strip() for line in text.partition("```mermaid\nflowchart TD\n")[2].partition("```")[0].splitlines()]


def arrows(lines: Iterable[str]) -> list[Arrow]:
    return [(left, right) for line in lines if " --> " in line for left, right in [line.split(" --> ")]]


def nodes(lines: Iterable[str]) -> set[str]:
    """Return the nodes of a diagram, in arrows or alone."""
    pairs = (line.split(" --> ") for line in lines if not line.startswith("subgraph ") and line != "end")
    return {node for pair in pairs for node in pair}


def first_column(text: str) -> list[str]:
    """Return the names in the first column of a table."""
    return re.findall(r"^\| `([\w.]+)` \| \S", text, re.MULTILINE)


def in_layers(lines: list[str]) -> list[tuple[str, set[str]]]:
    """Return the subgraphs of a diagram with their nodes, in order."""
    found: list[tuple[str, set[str]]] = []
    inside = False
    for line in lines:
        if line.startswith("subgraph "):
            inside = True
            found.append((line.partition("[")[2].rstrip("]"), set()))
        elif line == "end":
            inside = False
        elif inside:
            found[-1][1].add(line)
    return found


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


def without_shortcuts(graph: Graph) -> set[Arrow]:
    """Return the arrows of a graph that do not follow from others."""

    def reached(start: Iterable[str]) -> set[str]:
        found, todo = set(start), list(start)
        while todo:
            new = graph[todo.pop()] - found
            found |= new
            todo += new
        return found

    return {
        (left, right) for left, rights in graph.items() for right in rights if right not in reached(rights - {right})
    }


def test_layers_are_those_of_the_code() -> None:
    """Every package is in the diagram, in its layer, and the layers are in order."""
    existing = packages()
    levels = sorted({layer("" if name == ROOT_PACKAGE else name) for name in existing}, reverse=True)
    expected = [
        (f"layer {level:g}", {name for name in existing if layer("" if name == ROOT_PACKAGE else name) == level})
        for level in levels
    ]
    assert in_layers(diagram(section("## Layers"))) == expected


def test_arrows_between_packages_are_the_imports() -> None:
    found = arrows(diagram(section("## Layers")))
    assert len(found) == len(set(found))
    assert set(found) == without_shortcuts(packages())


def test_every_package_has_a_line() -> None:
    listed = first_column(section("## Layers"))
    order = [name for name in LAYERS if name in packages()]
    assert [name for name in listed if name != ROOT_PACKAGE] == order
    assert listed.count(ROOT_PACKAGE) == 1


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_are_those_of_the_code(package: str) -> None:
    """The diagram has the real imports, and the table has all rooms in the order that the layer test demands."""
    text, graph = section(f"### {package}"), rooms(package)
    lines = diagram(text)
    assert set(arrows(lines)) == without_shortcuts(graph)
    assert len(arrows(lines)) == len(set(arrows(lines)))
    assert nodes(lines) == set(graph)
    assert first_column(text) == " ".join(ROOMS[package]).split()


def test_every_package_with_rooms_is_shown() -> None:
    assert set(re.findall(r"^### (\w+)$", section("## Rooms"), re.MULTILINE)) == set(ROOMS)


def places(text: str) -> list[Place]:
    """Return what a text names as `file.py: name`."""
    return re.findall(r"`([\w/]+\.py): ([\w.]+)`", text)


def exists(place: Place) -> bool:
    """Return whether a file has this function or class."""
    file, name = place
    found: object = import_module(f"{ROOT_PACKAGE}.{file.removesuffix('.py').replace('/', '.')}")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None


def test_every_place_exists() -> None:
    found = places(PAGE)
    assert len(found) > 80
    assert [place for place in found if not (PACKAGE / place[0]).exists() or not exists(place)] == []


def test_where_state_is_kept_has_a_place_per_row() -> None:
    rows = [line for line in section("## Where state is kept").splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    assert [row for row in rows if not places(row) or row.count("|") != 7] == []


class Case(NamedTuple):
    """One of the four requests, and the statuses with which the upstream responds."""

    title: str
    client: Protocol
    stream: bool
    scenarios: dict[str, str]


KEYS = ("key-of-first", "key-of-second")
CONFIG = f"""\
keys: [{CLIENT_KEY}]
pool: {{persist: false}}
providers:
  chat:
    protocol: openai_chat_completions
    base_url: UPSTREAM/v1
    accounts: [{{name: first, key: {KEYS[0]}, priority: 1}}, {{name: second, key: {KEYS[1]}, priority: 2}}]
"""
CASES = [
    Case("A translated request", Protocol.MESSAGES, False, {}),
    Case("A translated stream", Protocol.MESSAGES, True, {}),
    Case("A pass-through", Protocol.CHAT, True, {}),
    Case("A 429, then the next account", Protocol.CHAT, False, {KEYS[0]: "error-429"}),
]


async def calls_of(case: Case, folder: Path) -> list[Place]:
    """Return all calls inside the package while a gateway in this process responds to a request."""
    async with ScriptedUpstream(keys=KEYS) as up:
        up.by_key = case.scenarios
        file = folder / "trilogue.yaml"
        file.write_text(CONFIG.replace("UPSTREAM", up.url))
        state = WorkerState(folder / "pool.db")
        services = Services(load(file, {}), lambda _, proxy: HttpTransport(proxy=proxy), Sealer.ephemeral(), state)
        gateway = Gateway(services)
        listener = Listener(gateway, not_http)
        with socket.create_server(("127.0.0.1", 0)) as sock:
            await listener.open(sock)
            url = f"http://127.0.0.1:{sock.getsockname()[1]}"
            calls, profile = recorder()
            sys.setprofile(profile)
            try:
                response = await exchange(url, request(case.client, "chat/text", stream=case.stream))
                await eventually_async(lambda: not gateway.running.requests)
            finally:
                sys.setprofile(None)
                await listener.drain(0)
                await services.aclose()
                state.close()
        assert outcome(response, case.client).how == "complete"
        assert len(up.requests) == 1 + len(case.scenarios)
    return calls


def recorder() -> tuple[list[Place], Callable[[FrameType, str, object], None]]:
    """Return a list of calls, and a profile function that fills it."""
    calls: list[Place] = []
    frames: dict[int, FrameType] = {}
    prefix = f"{PACKAGE}/"

    def profile(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        # A coroutine that goes on after a wait is reported as a call, too.
        if event == "call" and file.startswith(prefix) and id(frame) not in frames:
            frames[id(frame)] = frame
            calls.append((file.removeprefix(prefix), frame.f_code.co_qualname))

    return calls, profile


def not_in_order(listed: list[Place], calls: list[Place]) -> list[Place]:
    """Return what is listed and was not called after what is listed before it."""
    at, missing = 0, []
    for place in listed:
        try:
            at = calls.index(place, at) + 1
        except ValueError:
            missing.append(place)
    return missing


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_requests_go_the_way_that_the_page_says(case: Case, tmp_path: Path) -> None:
    """Every function in the list is called, in this order, and none is called before what is listed above it."""
    text = section(f"### {case.title}")
    listed = places(text)
    assert len(listed) > 10
    assert len(listed) == text.count("\n- ") + text.startswith("- ")
    calls = asyncio.run(calls_of(case, tmp_path))
    assert not_in_order(listed, calls) == []
    first = [calls.index(place) for place in dict.fromkeys(listed)]
    assert first == sorted(first)


def test_all_requests_of_the_page_are_made() -> None:
    assert re.findall(r"^### (.+)$", section("## Four requests"), re.MULTILINE) == [case.title for case in CASES]


# Each check must be able to fail.


def test_an_arrow_that_follows_from_others_is_left_out() -> None:
    graph = {"a": {"b", "c"}, "b": {"c"}, "c": set[str]()}
    assert without_shortcuts(graph) == {("a", "b"), ("b", "c")}


def test_a_wrong_order_is_found() -> None:
    one, two = ("a.py", "one"), ("a.py", "two")
    assert not_in_order([one, two], [one, two]) == []
    assert not_in_order([two, one], [one, two]) == [one]
    assert not_in_order([one, one], [one, two]) == [one]


def test_a_place_that_does_not_exist_is_found() -> None:
    assert exists(("errors.py", "TrilogueError"))
    assert not exists(("errors.py", "TrilogueError.no_such_method"))
