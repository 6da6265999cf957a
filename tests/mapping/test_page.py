"""docs/mapping.md says what the code does, and tests name its headings: both must stay true."""

import re
from pathlib import Path

import trilogue
from tests.each import each

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "mapping.md").read_text()
HEADINGS = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
REFERENCE = re.compile(r"\(docs/mapping\.md: ([^)]+)\)")
SECTION_SIGN = re.compile(r"^(?!.*\bRFC \d+).*\N{SECTION SIGN}", re.MULTILINE)
"""a section number; those of RFCs are the only ones that a reader can look up"""
TESTS = sorted((ROOT / "tests").rglob("*.py"))


@each("path", TESTS, ids=lambda path: path.name)
def test_tests_refer_to_what_a_reader_can_find(path: Path) -> None:
    """Every heading that a test names is on the page, and no test names a section of something else."""
    text = path.read_text()
    assert [name for name in REFERENCE.findall(text) if name not in HEADINGS] == []
    assert SECTION_SIGN.findall(text) == []


@each("name", trilogue.LOSSES)
def test_every_loss_is_on_the_page(name: str) -> None:
    """A user who meets a code can find out where it comes from."""
    assert f"`{name}`" in PAGE


EXPLAINED_ELSEWHERE = {
    "What the translation does with each concept",
    "How to read the tables",
    "Order of blocks",
    "Stop sequences in streams",
    "Errors inside streams",
    "Token counts and model lists",
    "What policies change",
}
"""sections that introduce, belong to a section above, or are about the gateway's own paths or policies"""


def test_every_section_has_its_tests() -> None:
    """What the page promises is proved by a test that names the section."""
    named = {name for path in TESTS for name in REFERENCE.findall(path.read_text())}
    assert set(HEADINGS) - named == EXPLAINED_ELSEWHERE
    assert len(HEADINGS) == len(set(HEADINGS))
