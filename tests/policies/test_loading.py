"""Policies by name, by entry point and by `module:Class`, and one line about everything that is wrong."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.each import each
from trilogue.policies import Policy, PolicyError, PolicySettings, load_policies, load_policy
from trilogue.policies.loading import SHIPPED

NEEDED: dict[str, dict[str, Any]] = {
    "block_phrases": {"phrases": ["x"]},
    "force_model": {"model": "x"},
    "inject_system": {"text": "x"},
    "judge": {"model": "x"},
    "rewrite": {"rules": [{"find": "x"}]},
}


class Own(Policy):
    """A policy of the user."""

    class Settings(PolicySettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
        """Its settings."""

        size: int = 1


class Broken(Policy):
    """A policy that cannot be made."""

    def __init__(self, settings: PolicySettings | None = None) -> None:
        raise RuntimeError("no luck")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module with policies."""
    made = ModuleType("own_policies")
    for name, value in {"Own": Own, "Broken": Broken, "NOT_ONE": 5}.items():
        setattr(made, name, value)
    monkeypatch.setitem(sys.modules, "own_policies", made)
    return "own_policies"


def test_shipped_policies_load_by_name() -> None:
    """In order, with their names and common settings."""
    entries = [{"use": name, **NEEDED.get(name, {})} for name in sorted(SHIPPED)]
    loaded = load_policies(entries)
    assert [type(policy) for policy in loaded] == [SHIPPED[name] for name in sorted(SHIPPED)]
    assert [policy.name for policy in loaded] == sorted(SHIPPED)
    named = load_policy({"use": "tools", "name": "no shell", "on_error": "open", "timeout": 2})
    assert (named.name, named.on_error, named.timeout) == ("no shell", "open", 2)


def test_own_policies(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By module and class, and by the entry point of a package."""
    own = load_policy({"use": f"{module}:Own", "size": 5})
    assert isinstance(own, Own)
    found = EntryPoints([EntryPoint("mine", f"{module}:Own", "trilogue.policies")])
    monkeypatch.setattr("trilogue.policies.loading.entry_points", found.select)
    assert isinstance(load_policy("mine"), Own)
    with pytest.raises(PolicyError, match="there is no such policy"):
        load_policy("yours")


@each(
    ("entry", "message"),
    [
        ("tolls", "policy (tolls): there is no such policy (did you mean tools?)"),
        ("qqq", "policy (qqq): there is no such policy; there are approve, block_phrases,"),
        ({}, "policy: use: the name of the policy is missing"),
        ({"use": 5}, "policy: use: the name of the policy is missing"),
        ("no_such_module:X", "policy (no_such_module:X): cannot be imported: ModuleNotFoundError: No module named"),
        ("json:Nothing", "policy (json:Nothing): cannot be imported: AttributeError: module"),
        ("json:loads", "policy (json:loads): is not a Policy class"),
        ({"use": "tools", "alow": []}, "policy (tools): unknown setting alow (did you mean allow?)"),
        ({"use": "tools", "rules": [{"x": 1}]}, "policy (tools): rules[0]: unknown setting x"),
        ({"use": "tools", "on_error": "maybe"}, "policy (tools): on_error: Invalid enum value 'maybe'"),
        ({"use": "tools", "timeout": "soon"}, "policy (tools): timeout: Expected float, got str"),
        ({"use": "tools", 5: 1}, "policy (tools): "),
    ],
)
def test_what_is_wrong(entry: Any, message: str) -> None:
    """One line each."""
    with pytest.raises(PolicyError) as caught:
        load_policy(entry)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_own_policies_that_cannot_be_made(module: str) -> None:
    """An exception in a constructor does not take the gateway down."""
    with pytest.raises(PolicyError, match="cannot be made: RuntimeError: no luck"):
        load_policy(f"{module}:Broken")
    with pytest.raises(PolicyError, match="is not a Policy class"):
        load_policy(f"{module}:NOT_ONE")


def test_policies_in_files(tmp_path: Path) -> None:
    """By the path of a Python file, with the name of the class if there are several."""
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("from trilogue.policies import Policy\n\n\nclass Mine(Policy):\n    calls = True\n")
    two.write_text(one.read_text() + "\n\nclass Other(Mine):\n    pass\n")
    assert load_policy(str(one)).calls
    assert type(load_policy(f"{two}:Other")).__name__ == "Other"
    with pytest.raises(PolicyError, match=r"it must have one policy, .* it has Mine, Other"):
        load_policy(str(two))
    with pytest.raises(PolicyError, match="cannot be imported: FileNotFoundError"):
        load_policy(str(tmp_path / "none.py"))
    one.write_text("def broken(:\n")
    with pytest.raises(PolicyError, match="cannot be imported: SyntaxError"):
        load_policy(str(one))
    one.write_text("import sys\nsys.exit(3)\n")
    with pytest.raises(PolicyError, match="cannot be imported: SystemExit"):
        load_policy(str(one))


def test_the_number_of_the_policy_is_in_the_message() -> None:
    """A configuration may have several of one kind."""
    with pytest.raises(PolicyError, match=r"^policy 2 \(tools\): "):
        load_policies(["tools", {"use": "tools", "x": 1}])
