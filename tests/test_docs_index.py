"""The index of the documentation is complete, and the instructions for contributors name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "docs" / "README.md"
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PARTS = ["Start here", "How to", "Reference", "Why"]
AROUND = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md"]
"""pages outside of docs/"""


def listed(text: str) -> list[Path]:
    """Return the pages that an index links to, in rows of its tables."""
    links = re.findall(r"^\| \[[^\]]+\]\(([^)]+)\) \| \S", text, re.MULTILINE)
    return [(INDEX.parent / link).resolve() for link in links]


def test_every_page_is_in_the_index_once() -> None:
    pages = {*(INDEX.parent.glob("**/*.md")), *(ROOT / page for page in AROUND)} - {INDEX}
    found = listed(INDEX.read_text("utf-8"))
    assert len(found) > 30
    assert sorted(found) == sorted(pages)


def test_the_index_has_four_parts() -> None:
    text = INDEX.read_text("utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == PARTS
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        assert listed(part)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./]*)`", GUIDE))))
def test_files_for_contributors_exist(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("module", sorted(set(re.findall(r"python -m ((?:tests|benchmarks)[\w.]*)", GUIDE))))
def test_commands_for_contributors_exist(module: str) -> None:
    place = ROOT / module.replace(".", "/")
    assert place.with_suffix(".py").exists() or (place / "__main__.py").exists()


def test_targets_for_contributors_exist() -> None:
    named = set(
        re.findall(r"\bmake ([a-z-]+)`? ?", "\n".join(re.findall(r"`make [^`]*`|^\$ make .*$", GUIDE, re.MULTILINE)))
    )
    assert {"test", "lint", "bench-quick"} <= named
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert [name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_a_page_that_is_not_listed_is_found() -> None:
    assert listed("| [a](a.md) | text |\n| [b](b.md) |  |\n") == [INDEX.parent / "a.md"]
