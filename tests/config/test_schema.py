"""The schema and the documentation match the types."""

import json
from pathlib import Path
from typing import Any

import msgspec

from tests.each import each
from trilogue.config.config import Config, setting_paths
from trilogue.config.load import parse
from trilogue.config.schema import field_docs, json_schema
from trilogue.upstreams.build import router_of
from trilogue.upstreams.settings import PROFILES

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
SCHEMA = json_schema()


def test_the_committed_schema_is_current() -> None:
    """Editors use this file. `trilogue check --schema > docs/trilogue.schema.json` updates it."""
    assert json.loads((DOCS / "trilogue.schema.json").read_text("utf-8")) == SCHEMA


@each("setting", setting_paths())
def test_every_setting_is_documented(setting: str) -> None:
    """docs/configuration.md has a row for every setting."""
    assert f"| `{setting}` |" in (DOCS / "configuration.md").read_text("utf-8")


@each("name", PROFILES)
def test_every_profile_is_documented(name: str) -> None:
    """docs/configuration.md lists every dialect."""
    assert f"| `{name}` |" in (DOCS / "configuration.md").read_text("utf-8")


def test_the_documentation_names_no_other_setting() -> None:
    """docs/configuration.md has no rows for settings that do not exist."""
    text = (DOCS / "configuration.md").read_text("utf-8").partition("## All settings")[2]
    rows = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
    assert set(rows) == set(setting_paths())


def structs() -> list[tuple[str, dict[str, Any]]]:
    parts = ((name, part["anyOf"][1] if "anyOf" in part else part) for name, part in SCHEMA["$defs"].items())
    return [(name, part) for name, part in parts if "properties" in part]


@each(("name", "part"), structs())
def test_every_setting_is_described_and_nothing_else_allowed(name: str, part: dict[str, Any]) -> None:
    """Editors show the descriptions and mark unknown keys."""
    assert part["additionalProperties"] is False
    undescribed = [key for key, value in part["properties"].items() if not value.get("description")]
    assert undescribed == []


def test_secrets_are_text_in_the_schema() -> None:
    """A key may be a string or a mapping."""
    short, whole = SCHEMA["$defs"]["ClientKeySettings"]["anyOf"]
    assert short["type"] == "string"
    assert whole["properties"]["key"]["type"] == "string"


def test_descriptions_come_from_the_types() -> None:
    """Descriptions are written only once, in the types."""
    assert field_docs(Config)["mode"].startswith("declare: carry on")


def test_schema_is_plain_json() -> None:
    """The schema can be written as JSON and read back."""
    assert msgspec.json.decode(msgspec.json.encode(SCHEMA)) == SCHEMA


def test_the_example_in_the_documentation_works() -> None:
    """The example works, because people copy it."""
    text = (DOCS / "configuration.md").read_text("utf-8").partition("```yaml\n")[2].partition("```")[0]
    environ = {"TRILOGUE_KEY": "a-client-key", "OPENAI_API_KEY": "b", "WORK_KEY": "c"}
    router = router_of(parse(text.encode(), environ, DOCS))
    assert router.resolve("fast").targets == (("local", "qwen3"),)
    assert router.resolve("gpt-5").targets == (("openai", "gpt-5"),)
