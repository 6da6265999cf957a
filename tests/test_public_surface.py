"""What programs of users import, pass and read stays: see `tests/public_surface.py`."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict

import click
import pytest
from msgspec import Struct

from tests.public_surface import (
    RECORDED,
    described,
    difference,
    explained,
    help_of,
    imports_of,
    public_names,
    read_recorded,
    resolved,
    settings,
    surface,
    write_recorded,
    written_imports,
)

IMPORTS = sorted({line.removeprefix("import ") for line in read_recorded() if line.startswith("import ")})


def test_surface_is_as_recorded() -> None:
    found = explained(difference(surface(), read_recorded()))
    assert found == {}, f"see python -m tests.public_surface and {RECORDED.name}"


@pytest.mark.parametrize("name", IMPORTS)
def test_recorded_name_can_be_imported(name: str) -> None:
    """Also by itself, as `import` in a program does it: most public names are loaded on first use."""
    try:
        import_module(name)
    except ModuleNotFoundError:
        module, _, inner = name.rpartition(".")
        assert hasattr(import_module(module), inner)


def test_what_capture_writes_is_part_of_it() -> None:
    assert {"trilogue.capture.read_capture", "trilogue.capture.replay"} <= written_imports() <= {*IMPORTS}


def test_the_parts_that_users_know_are_recorded() -> None:
    """A sample of each kind of line, so that none of them is left out unnoticed."""
    lines = {line.partition(" = ")[0] for line in read_recorded()}
    assert {
        "import trilogue.ConfigError",
        "import trilogue.http.http_client",
        "is trilogue.ConfigError TrilogueError",
        "is trilogue.StrictLoss ClientError",
        "parameter trilogue.translate_request(body) 0",
        "parameter trilogue.translate_request(strict=) by name",
        "parameter trilogue.model.Text(text) by name",
        "parameter trilogue.model.Delta(index) 0",
        "parameter trilogue.HttpSettings(api_key=)",
        "parameter trilogue.Collector.feed(event) 0",
        "attribute trilogue.Tally.losses",
        "attribute trilogue.Usage.input",
        "attribute trilogue.policies.Policy.internal",
        "value trilogue.Protocol.CHAT",
        "value trilogue.model.SEAL_PREFIX",
        "help trilogue",
        "help trilogue keys create",
        "setting providers",
    } <= lines


# What each kind of change looks like.


class Colour(StrEnum):
    RED = "red"


class Box(Struct, frozen=True):
    width: int
    depth: int = 1

    @property
    def area(self) -> int:
        return self.width * self.depth


class Options(TypedDict, total=False):
    colour: Colour


class Stuck(OSError):
    pass


class Door:
    """A class of another package: only its parameters are known."""

    def __init__(self, box: Box, *, colour: Colour = Colour.RED, **rest: object) -> None:
        self.box = box


def function(first: int, second: int = 2, *more: int, third: int, fourth: int = 4) -> None: ...


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        (Colour, ["value a.RED = 'red'"]),
        (Options, ["parameter a(colour=)"]),
        (3, ["value a = 3"]),
        (Box, ["parameter a()", "parameter a(width) 0", "parameter a(depth=) 1"]),
        (Door, ["parameter a()", "parameter a(box) 0", "parameter a(colour=) by name", "parameter a(**rest) by name"]),
        (
            function,
            [
                "parameter a()",
                "parameter a(first) 0",
                "parameter a(second=) 1",
                "parameter a(*more) by name",
                "parameter a(third) by name",
                "parameter a(fourth=) by name",
            ],
        ),
    ],
    ids=["enum", "options", "constant", "struct", "class", "function"],
)
def test_names_are_described(value: object, lines: list[str]) -> None:
    assert list(described("a", value)) == lines


def test_classes_of_ours_have_members(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Box, Door):
        monkeypatch.setattr(kind, "__module__", "trilogue.made")
    assert "attribute a.area" in described("a", Box)
    assert "attribute a.width" not in described("a", Box)
    assert "attribute a.box" in described("a", Door)


def test_exceptions_say_what_catches_them() -> None:
    assert [*described("a", Stuck)] == ["is a OSError", "is a Exception"]


def test_modules_without_a_list_have_what_they_define() -> None:
    assert {"AsgiApp", "HttpSettings", "Report", "Tally", "asgi", "async_http_client", "http_client"} == {
        *public_names("trilogue.http")
    }


def test_imports_are_found_in_code() -> None:
    code = "import json, trilogue.model\ndef f():\n    from trilogue import codec, Loss as L\nfrom trilogues import x"
    assert [*imports_of(code)] == ["trilogue.model", "trilogue.codec", "trilogue.Loss"]
    assert [*imports_of("from trilogue import")] == []


def test_changed_help_is_found() -> None:
    def lines(text: str) -> list[str]:
        inner = click.Command("inner", help=text)
        return [*help_of(click.Group("outer", commands=[inner]), "outer", None)]

    found = difference(lines("Do that."), lines("Do this."))
    assert found.gone == found.new == []
    assert found.changed == ["help outer", "help outer inner"]


def schema(name: str, kind: str) -> dict[str, Any]:
    made = {
        "title": name,
        "type": "object",
        "properties": {"port": {"type": kind}, "next": {"$ref": f"#/$defs/{name}"}},
    }
    return {"properties": {"server": {"$ref": f"#/$defs/{name}"}}, "$defs": {name: made}}


def test_settings_are_compared_without_names_of_classes() -> None:
    assert [*settings(schema("Server", "integer"))] == [*settings(schema("ServerSettings", "integer"))]
    assert difference(settings(schema("S", "string")), settings(schema("S", "integer"))).changed == ["setting server"]
    inside = resolved(schema("Server", "integer"))["properties"]["server"]["properties"]
    assert inside == {"port": {"type": "integer"}, "next": {"$up": 0}}


def test_what_is_gone_is_only_recorded_on_purpose(tmp_path: Path) -> None:
    file = tmp_path / "surface.txt"
    assert write_recorded(["help a = 1", "import b", "value c = 1"], gone=False, file=file)
    assert write_recorded(["help a = 2", "import b", "import d", "value c = 1"], gone=False, file=file)
    later = ["help a = 2", "import d", "value c = 2"]
    assert difference(later, read_recorded(file)) == (["import b", "value c = 1"], [], ["value c = 2"])
    assert not write_recorded(later, gone=False, file=file)
    assert "import b" in read_recorded(file)
    assert write_recorded(later, gone=True, file=file)
    assert read_recorded(file) == later


def test_differences_say_what_to_do() -> None:
    said = explained(difference(["import a", "help x = 2"], ["import b", "help x = 1"]))
    assert [(text.partition(";")[0], lines) for text, lines in said.items()] == [
        ("gone, so programs of users break", ["import b"]),
        ("changed", ["help x"]),
        ("new", ["import a"]),
    ]
    assert explained(difference(["import a"], ["import a"])) == {}
