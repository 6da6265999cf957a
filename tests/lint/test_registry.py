"""A protocol is one package and one row: nothing else in the linter knows one by name."""

import re
from pathlib import Path

import pytest

from tests.each import each
from trilogue import lint
from trilogue.errors import ClientError
from trilogue.lint import registry
from trilogue.model import Protocol

ROOT = Path(lint.__file__).parent
PACKAGES = ("chat", "messages", "responses")
FILES = {"__init__.py", "body.py", "request.py", "rules.py", "stream.py"}


def test_only_the_registry_names_protocols() -> None:
    """A fourth protocol would touch the registry alone."""
    naming = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if re.search(r"Protocol\.[A-Z]", path.read_text("utf-8"))
    }
    assert naming == {"registry.py"}


@each("package", PACKAGES)
def test_packages_have_the_same_files(package: str) -> None:
    """A reader who knows one package knows all; only the items of Responses need a file of their own."""
    further = {"responses": {"items.py"}}.get(package, set())
    assert {path.name for path in (ROOT / package).glob("*.py")} == FILES | further


@each("package", PACKAGES)
def test_packages_do_not_import_each_other(package: str) -> None:
    """What two protocols share is next to the packages."""
    others = "|".join(other for other in PACKAGES if other != package)
    for path in (ROOT / package).glob("*.py"):
        assert not re.search(rf"trilogue\.lint\.({others})\b", path.read_text("utf-8"))


def test_protocol_without_rules_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which protocols there are rules for."""
    rows = {row: rules for row, rules in registry.PROTOCOLS.items() if row is not Protocol.RESPONSES}
    monkeypatch.setattr(registry, "PROTOCOLS", rows)
    with pytest.raises(ClientError, match="no rules for responses, only for chat, messages") as caught:
        lint.lint_request(Protocol.RESPONSES, {})
    assert caught.value.code == "no_lint_rules"
