"""docs/policies.md and the pages of shipped policies document every setting, verdict and hook; their examples run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, inspect

import trilogue.policies
from tests.policies.page_examples import DEMO, PAGES, outcome, policies_of, rows_of
from trilogue.config.load import parse
from trilogue.policies import Policy, PolicySettings
from trilogue.policies.loading import SHIPPED
from trilogue.policies.shipped.action import ActionSettings

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "policies.md").read_text("utf-8")


def page(name: str) -> str:
    """Return the page of a shipped policy."""
    return (PAGES / f"{name}.md").read_text("utf-8")


def fields(kind: type[Any]) -> set[str]:
    """Return the settings of a policy, also those of its rules."""
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    names = set()
    for item in described.fields:
        names.add(item.name)
        inner = getattr(item.type, "item_type", None)
        if isinstance(inner, inspect.StructType):
            names |= fields(inner.cls)
    return names


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_every_setting_is_documented(name: str) -> None:
    """On the page of its policy, or in the table of what all policies have."""
    kind = SHIPPED[name].Settings
    shared: type[Struct] = ActionSettings if issubclass(kind, ActionSettings) else PolicySettings
    own = fields(kind) - set(shared.__struct_fields__)
    assert sorted(setting for setting in own if f"| `{setting}` |" not in page(name)) == []
    assert sorted(setting for setting in shared.__struct_fields__ if f"| `{setting}` |" not in PAGE) == []


def test_every_policy_has_a_page() -> None:
    """And every page a row in the table of shipped policies."""
    assert sorted(path.stem for path in PAGES.glob("*.md")) == sorted(SHIPPED)
    assert sorted(re.findall(r"^\| \[(\w+)\]\(policies/\1\.md\)", PAGE, re.MULTILINE)) == sorted(SHIPPED)


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_the_examples_on_its_page_are_what_happens(name: str) -> None:
    """The configuration loads as in a gateway, and each row is what comes out of it."""
    rows = list(rows_of(page(name)))
    assert rows
    found = {row: outcome(policies_of(page(name)), row) for row in rows}
    assert found == {row: (row.result, row.verdict) for row in rows}
    assert any(verdict != "pass" for _, verdict in found.values())


GUIDE = (PAGES.parent / "from-other-policies.md").read_text("utf-8")
CONFIGURATIONS = re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_configurations_for_those_who_come_from_elsewhere_load(text: str) -> None:
    """As a gateway loads them."""
    config = parse((DEMO + text).encode(), {}, Path())
    assert config.policies


def test_every_policy_is_named_for_those_who_come_from_elsewhere() -> None:
    """Except those that the other systems have no counterpart for."""
    named = set(re.findall(r"\(policies/(\w+)\.md\)", GUIDE))
    assert set(SHIPPED) - named == {"approve", "force_model", "inject_system", "limits"}
    assert len(CONFIGURATIONS) >= 8


def test_every_public_name_is_documented() -> None:
    """Except the base class of verdicts and its plain form."""
    names = set(trilogue.policies.__all__) - {
        "PolicyVerdict",
        "Pass",
        "Record",
        "Outcome",
        "Pending",
        "text_of",
        "load_policy",
    }
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", PAGE)) == []


def test_every_hook_and_interest_is_documented() -> None:
    """A policy has nothing else."""
    public = [name for name in vars(Policy) if not name.startswith("_") and name != "Settings"]
    assert {"on_request", "on_block", "on_match", "scan", "on_end", "text", "calls"} <= set(public)
    assert [name for name in public if f"`{name}" not in PAGE] == []
