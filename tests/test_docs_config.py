"""Every configuration in the documentation works, because users paste them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trilogue.config.checks import exposure_problem
from trilogue.config.load import parse
from trilogue.vendors.table import PRESETS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
VARIABLE = re.compile(r"\benv:(\w+)")
STORED = re.compile(r"\bstore:(\w+)")
KEYS = [preset.variable for preset in PRESETS.values() if not preset.port]
VALUE = "http://127.0.0.1:{}"
"""values that work as secrets, each another one, and as addresses of a proxy"""
VALUES = {
    "TRILOGUE_REDIS": "rediss://user:password@127.0.0.1:9/0",
    "TRILOGUE_POSTGRESQL": "postgresql://user:password@127.0.0.1:9/name",
    "TRILOGUE_SEAL_KEY": 32 * "x",
}
"""variables that need a value of another form"""
WHOLE = re.compile(r"^providers:", re.MULTILINE)
"""a block without providers is only part of a configuration and is not checked"""

BLOCKS = [
    (page.relative_to(ROOT).as_posix(), number, text)
    for page in PAGES
    for number, text in enumerate(BLOCK.findall(page.read_text()))
    if WHOLE.search(text)
]

SAVED = re.compile(r"Save this as `(\w+\.py)`:\n\n```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""Python files that a page has its readers write, which a configuration on it may name"""


@pytest.mark.parametrize(("page", "number", "text"), BLOCKS, ids=[f"{page}-{number}" for page, number, _ in BLOCKS])
def test_configuration_is_right(page: str, number: int, text: str, tmp_path: Path) -> None:
    """A block is valid and can be served once its variables are set and its keys are stored."""
    for name, code in SAVED.findall((ROOT / page).read_text("utf-8")):
        (tmp_path / name).write_text(code)
    text = STORED.sub(r"env:\1", text)
    names = [*VARIABLE.findall(text), *filter(None, KEYS)]
    environ = {name: VALUE.format(9 + number) for number, name in enumerate(names)} | VALUES
    config = parse(text.encode(), environ, tmp_path)
    assert config.providers
    assert exposure_problem(config) is None


@pytest.mark.parametrize("folder", ["clients", "upstreams"])
def test_index_names_every_page(folder: str) -> None:
    """The index links to every page."""
    pages = {page.name for page in (ROOT / "docs" / folder).glob("*.md")} - {"README.md"}
    index = (ROOT / "docs" / folder / "README.md").read_text()
    assert pages
    assert all(f"({page})" in index for page in pages)
