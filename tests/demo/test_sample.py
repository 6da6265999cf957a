"""Values for schemas are valid according to pydantic, which writes and checks the schemas here."""

import datetime
import enum
import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from trilogue.upstreams.demo.sample import Sampler


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Leaf(BaseModel):
    size: Annotated[int, Field(gt=10, le=20)]
    ratio: Annotated[float, Field(ge=2, multiple_of=0.5)]
    colour: Colour
    kind: Literal["leaf"]


class Tree(BaseModel):
    name: Annotated[str, Field(min_length=30, max_length=40)]
    when: datetime.datetime
    leaves: Annotated[list[Leaf], Field(min_length=2)]
    pair: tuple[int, str]
    either: int | str
    maybe: str | None
    nothing: None
    deep: dict[str, Leaf]
    parent: "Tree | None" = None
    flag: bool = False


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("model", [Leaf, Tree])
def test_values_are_valid(model: type[BaseModel], every: bool) -> None:
    """References, alternatives, ranges, tuples, formats and recursive schemas work."""
    schema = model.model_json_schema()
    value = Sampler(schema, "some words", every).value(schema)
    model.model_validate_json(json.dumps(value))


@pytest.mark.parametrize("kind", [int, float, bool, str, list[int], dict[str, int], Literal[3], int | None])
def test_simple_types(kind: Any) -> None:
    """Schemas need not be objects."""
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    schema = adapter.json_schema()
    adapter.validate_json(json.dumps(Sampler(schema, "").value(schema)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("file_path", "demo-note.txt"),
        ("command", "echo hello from the demo model"),
        ("working_directory", "."),
        ("query", "the words"),
        ("profile", "the words"),
    ],
)
def test_strings_by_name(name: str, value: str) -> None:
    """The values are harmless if the tool really runs. Only whole words of a name count."""
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    assert Sampler(schema, "the words").value(schema) == {name: value}


def test_enum_follows_the_user() -> None:
    """If the user names one of the values, it is used."""
    schema = {"enum": ["celsius", "fahrenheit"]}
    assert Sampler(schema, "in Fahrenheit please").value(schema) == "fahrenheit"
    assert Sampler(schema, "").value(schema) == "celsius"


def test_first_property_if_none_is_required() -> None:
    """A call has at least one argument."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    assert Sampler(schema, "").value(schema) == {"a": 1}


def test_all_of_is_merged() -> None:
    """The parts of an object in `allOf` are merged."""
    schema = {
        "allOf": [
            {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"b": {"type": "boolean"}}, "required": ["b"]},
        ]
    }
    assert Sampler(schema, "").value(schema) == {"a": 1, "b": True}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/none"},
        {"type": 3, "properties": 4, "required": "x"},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"type": "array", "items": {"$ref": "#"}},
        {"anyOf": []},
        {"enum": []},
        {"allOf": [1]},
        {"type": ["null"]},
        {"type": "string", "maxLength": -1, "minLength": "x"},
    ],
)
def test_odd_schemas_end(schema: dict[str, Any]) -> None:
    """Broken or endless schemas quickly give some value."""
    json.dumps(Sampler(schema, "x").value(schema))
