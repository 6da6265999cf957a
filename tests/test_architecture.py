"""docs/architecture.md, checked: its generated parts against the code, its lists of calls against real requests."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from tests.architecture import walks
from tests.architecture.calls import PACKAGE, Call, Place, Return, not_in_order, returns
from tests.architecture.graphs import modules, packages, without_shortcuts
from tests.architecture.page import COMMAND, PAGE, described, from_imports, part, summary, with_parts
from tests.architecture.requests import CASES, WALKS, Case
from tests.test_layers import ROOMS, ROOT_PACKAGE

TEXT = PAGE.read_text("utf-8")
LIMITS = {
    "A translated request": (21, 0),
    "A translated stream": (22, 0),
    "A pass-through": (23, 0),
    "A 429, then the next account": (22, 0),
    "A whole pass-through": (21, 0),
    "A translated stream with a policy and a limited key": (37, 2),
    "A stored response, continued over a WebSocket": (31, 5),
}
"""the files of the gateway that a request enters, and the ways back to files that it has left: they may only go down"""


def section(title: str, text: str = TEXT) -> str:
    """Return the text below a heading, up to the next heading of the same level or a higher one."""
    level = len(title) - len(title.lstrip("#"))
    found = re.search(rf"^{re.escape(title)}\n(.*?)(?=^#{{1,{level}}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"there is no heading {title!r}"
    return found[1]


@pytest.mark.parametrize("name", ["layers", "rooms"])
def test_diagrams_and_tables_are_those_of_the_code(name: str) -> None:
    """They are what the command writes: the imports, and the first lines of docstrings."""
    assert part(TEXT, name) == from_imports()[name], f"run {COMMAND}"


def test_every_package_and_room_is_shown() -> None:
    """The generated text has all of them: a row each, and a node each."""
    layers, rooms = part(TEXT, "layers"), part(TEXT, "rooms")
    for name in packages():
        assert f"| `{name}` |" in layers
        assert f"\n        {name}\n" in layers
    assert re.findall(r"^### (\w+)$", rooms, re.MULTILINE) == list(ROOMS)
    for package, levels in ROOMS.items():
        below = section(f"### {package}", rooms)
        for name in " ".join(levels).split():
            assert f"| `{name}` |" in below
            assert re.search(rf"^    (\w+ --> )?{name}( --> \w+)?$", below, re.MULTILINE)


def places(text: str) -> list[Place]:
    """Return what a text names as `file.py: name`."""
    return re.findall(r"`([\w/]+\.py): ([\w.]+)`", text)


def exists(place: Place) -> bool:
    """Return whether a file has this function or class."""
    file, name = place
    if not (PACKAGE / file).is_file():
        return False
    found: object = import_module(f"{ROOT_PACKAGE}.{file.removesuffix('.py').replace('/', '.')}")
    for name_part in name.split("."):
        found = getattr(found, name_part, None)
    return found is not None


def test_every_place_exists() -> None:
    found = places(TEXT)
    assert len(found) > 80
    assert [place for place in found if not exists(place)] == []


def test_where_state_is_kept_has_a_place_per_row() -> None:
    rows = [line for line in section("## Where state is kept").splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    assert [row for row in rows if not places(row) or row.count("|") != 7] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_requests_go_the_way_that_the_page_says(case: Case) -> None:
    """Every function in the list is called, in this order, and none is called before what is listed above it."""
    text = section(f"### {case.title}")
    listed = places(text)
    assert len(listed) > 10
    assert len(listed) == text.count("\n- ") + text.startswith("- "), "an entry of the list names no place"
    calls = [call.place for call in walks.walked(case.title)]
    assert [place for place in listed if place not in calls] == [], "listed, but not called"
    assert not_in_order(listed, calls) == [], "called, but not after what is listed above"
    by_first_call = sorted(dict.fromkeys(listed), key=calls.index)
    assert list(dict.fromkeys(listed)) == by_first_call, "called before what is listed above"


def test_all_requests_of_the_page_are_made() -> None:
    assert re.findall(r"^### (.+)$", section("## Four requests"), re.MULTILINE) == [case.title for case in CASES]


@pytest.mark.parametrize("case", WALKS, ids=lambda case: case.title)
def test_no_request_goes_through_more_files(case: Case) -> None:
    """A request enters no more files of the gateway than before, and goes back to no more that it has left."""
    assert list(walks.problems(LIMITS, {case.title: walks.counts(case)})) == []
    lines = part(TEXT, "walks")
    assert f"{walks.row(case)}\n" in lines, f"run {COMMAND}"
    assert f"{walks.listed(case)}\n" in lines, f"run {COMMAND}"


def test_all_walks_are_on_the_page() -> None:
    """There is a row and a list for each, and no other."""
    lines = part(TEXT, "walks").splitlines()
    titles = [case.title for case in WALKS]
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")][1:] == titles
    assert [line[4:].partition("**")[0] for line in lines if line.startswith("- ")] == titles
    assert list(LIMITS) == titles


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
    assert not exists(("no_such_file.py", "TrilogueError"))


def test_a_part_is_replaced_between_its_comments() -> None:
    page = "a\n<!-- b -->\nold \\1\n<!-- /b -->\nc\n"
    assert part(page, "b") == "old \\1\n"
    assert with_parts(page, {"b": "new \\2\n"}) == page.replace("old \\1", "new \\2")
    with pytest.raises(LookupError):
        with_parts(page, {"missing": ""})


def test_a_description_is_a_sentence_on_a_line_of_its_own() -> None:
    assert summary("Do this.") == summary("Do this.\n\nAnd that.") == "Do this."
    assert summary(None) == summary("This goes on\nhere.") == summary("Do this.\nAnd that.") == ""
    assert described("errors")
    assert len(modules()) > 100


def test_a_way_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A callback into a file that was left is one; a call of a helper, or of what was not entered yet, is none."""
    above, below, helper = (f"gateway/{name}.py" for name in ("above", "below", "helper"))
    graph = {"above": {"below", "helper"}, "below": {"helper"}, "helper": set[str]()}
    named = {f"trilogue.gateway.{name}": {f"trilogue.gateway.{one}" for one in seen} for name, seen in graph.items()}
    monkeypatch.setattr("tests.architecture.calls.modules", lambda: named)
    went = [
        Call((above, "start"), "net/server/connection.py"),
        Call((helper, "count"), above),
        Call((below, "loop"), above),
        Call((helper, "count"), below),
    ]
    assert returns(went) == []
    callback = Call((above, "Attempt.make"), below)
    assert returns([*went, callback, callback]) == [Return(below, (above, "Attempt.make"))]
    assert returns([*went, Call((above, "take"), "net/client/exchange.py"), Call((above, "end"), "")]) == []


def test_numbers_that_are_not_the_limits_are_found() -> None:
    limits = {"one": (3, 1)}
    assert list(walks.problems(limits, {"one": (3, 1)})) == []
    for now in ((4, 0), (2, 2), (3, 0)):
        assert len(list(walks.problems(limits, {"one": now}))) == 1
