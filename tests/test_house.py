"""The source gets no larger and no more entangled than it was: see `tests/house.py`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.house import (
    FEATURES,
    Number,
    code_lines,
    importers_of_config,
    knowing,
    longest_chain,
    numbers,
    read_recorded,
    shared_class_names,
    small_files,
    table,
    today,
    top_level,
    worsening,
    write_recorded,
)
from tests.test_layers import ROOT_PACKAGE, Module

RECORDED = read_recorded()


def module(name: str, text: str = "", is_package: bool = False) -> Module:
    return Module(f"{ROOT_PACKAGE}.{name}".rstrip("."), ast.parse(text), is_package, text)


@pytest.fixture(scope="module")
def now() -> dict[str, Number]:
    """Count once, also if that fails: it starts interpreters."""
    return today()


def test_every_number_is_recorded(now: dict[str, Number]) -> None:
    assert list(RECORDED) == list(now)


@pytest.mark.parametrize("name", RECORDED)
def test_number_is_no_worse_than_recorded(name: str, now: dict[str, Number]) -> None:
    message = worsening(name, now[name], RECORDED[name])
    assert not message, message


# Each number must be able to get worse, so it gets a source that is worse.


def test_code_is_counted_without_what_explains_it() -> None:
    text = '"""Doc.\n\nMore."""\nimport a\nfrom b import (\n    c,\n)\n\n# why\nx = 1  # what\n"""of x"""\n'
    text += 'y = """\n\n# text\n"""\n'
    assert code_lines(module("one", text)) == 5
    assert code_lines(module("one", text + "z = 2\n# why\n")) == 6


def test_places_directly_below_the_root_are_counted() -> None:
    assert top_level([module("", is_package=True), module("__main__"), module("a.b"), module("a.c"), module("d")]) == [
        "a",
        "d",
    ]


def test_longest_chain_is_found() -> None:
    first, second = module("a", "from trilogue import b, c"), module("b", "import trilogue.c\nimport json")
    third, alone = module("c"), module("d", "from trilogue.c import x")
    assert longest_chain([alone, third, first, second]) == ["trilogue.a", "trilogue.b", "trilogue.c"]
    assert longest_chain([third]) == ["trilogue.c"]


def test_small_files_are_found() -> None:
    large = module("large", "x = 1\n" * 51)
    assert small_files([module("small", "x = 1\n" * 50), large, module("a", "", is_package=True)]) == ["trilogue.small"]


def test_class_names_used_twice_are_found() -> None:
    one, two = (
        module("a", "class A: ...\nclass _B: ...\nclass C:\n    class D: ..."),
        module("b", "class A: ...\nclass D: ..."),
    )
    assert shared_class_names([one, two, module("c", "class _B: ...")]) == ["A: trilogue.a, trilogue.b"]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("gateway.worker", "from trilogue.config import Config", True),
        ("gateway.worker", "from trilogue.config.config import Server, Config", True),
        ("gateway.worker", "from trilogue.config import Secret", False),
        ("gateway.worker", "from trilogue.elsewhere import Config", False),
        ("config.load", "from trilogue.config.config import Config", False),
        ("cli.serve", "from trilogue.config import Config", False),
    ],
)
def test_importer_of_the_configuration_is_found(name: str, text: str, found: bool) -> None:
    assert bool(importers_of_config([module(name, text)])) is found


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("gateway.capture.session", "", True),
        ("anywhere.captures", "", True),
        ("gateway.worker", "from trilogue.gateway.features.capture.session import Session", True),
        ("gateway.worker", "from trilogue.capture import Sent", True),
        ("gateway.worker", "from trilogue.gateway.captured import Sent", False),
        ("protocols.capture", "", False),
    ],
)
def test_module_that_knows_a_feature_is_found(name: str, text: str, found: bool) -> None:
    assert bool(knowing(FEATURES["capture"], [module(name, text)])) is found


def test_all_numbers_are_made_of_the_same_modules() -> None:
    worse = [
        module("", is_package=True),
        module("gateway.features.usage", "from trilogue.config import Config\nclass A: ..."),
        module("e"),
    ]
    worse.append(module("errors", "from trilogue.gateway.features.usage import A\nclass A: ..."))
    found = numbers(worse, {"a start": ["trilogue", "trilogue.gateway", "trilogue.gateway.features.usage"]})
    assert list(found)[:-1] == list(RECORDED)[: len(found) - 1]
    values = {name: one.value for name, one in found.items()}
    assert values["files"] == 4
    assert values["top-level packages and modules"] == 3
    assert values["class names used twice"] == values["importers of Config"] == 1
    assert values["imports against the layers"] >= 1
    assert values["import depth"] == values["files that know usage"] == 2
    assert found["modules of a start"] == Number(3, {"trilogue": 1, "gateway": 2})


def test_worse_number_is_reported_with_its_places() -> None:
    before = Number(3, {"a": 1, "b": 2})
    message = worsening("files", Number(5, {"a": 1, "b": 3, "new": 1}), before)
    assert message.splitlines() == ["files: 5, and it was 3 (tests/house.json). What is new:", "  b (+1)", "  new"]
    assert worsening("files", Number(3, {"c": 3}), before) == ""
    many = worsening("files", Number(40, {f"new{number}": 1 for number in range(40)}), before)
    assert many.endswith("  and 28 more")


def test_only_better_values_are_recorded(tmp_path: Path) -> None:
    file = tmp_path / "house.json"
    assert read_recorded(file) == {}
    assert write_recorded({"files": Number(3, {"a": 3}, 2), "depth": Number(3, {"a": 3})}, file) == []
    assert write_recorded({"files": Number(2, {"b": 2}, 2), "depth": Number(4, {"b": 4})}, file) == ["depth"]
    assert read_recorded(file) == {"files": Number(2, {"b": 2}, 2), "depth": Number(3, {"a": 3})}


def test_table_has_value_record_and_target() -> None:
    lines = table({"files": Number(3, {}, 2), "depth": Number(1, {})}, {"files": Number(4, {})}).splitlines()
    assert [line.split() for line in lines[1:]] == [["files", "3", "4", "2"], ["depth", "1", "-", "-"]]
