"""The documentation is complete and correct: what it lists exists, what exists is listed, and examples run."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import click
import pytest

import trilogue
from tests import vendor_pages
from trilogue import LOSSES
from trilogue.app.cli.app import COMMANDS, app
from trilogue.app.cli.convert import losses_table
from trilogue.model.losses import ADVICE

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("**/*.md"))]
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`[^`\n]*`")
"""inline code, which may look like anything"""
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def section(page: Path, name: str) -> str:
    """Return the text between two markers."""
    found = re.search(rf"<!-- {name} -->\n(.*?)\n?<!-- /{name} -->", page.read_text(), re.DOTALL)
    assert found, f"{page.name} has no section {name}"
    return found.group(1)


def test_loss_table_is_current() -> None:
    """The table is the output of `trilogue losses --markdown`."""
    assert section(DOCS / "losses.md", "losses") == losses_table()


def test_pages_about_vendors_are_current() -> None:
    """Their tables are written by `python -m tests.vendor_pages --write`."""
    assert [path.name for path, _ in vendor_pages.out_of_date()] == []


def test_every_loss_code_is_well_formed() -> None:
    """Codes are part of the interface: lower case, dotted and explained."""
    for code, rule in LOSSES.items():
        assert re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", code), code
        assert rule.when
        assert rule.instead
    assert list(ADVICE) == list(LOSSES)
    assert all(ADVICE.values())


EXAMPLES = [(page.name, number, code) for page in PAGES for number, code in enumerate(CODE.findall(page.read_text()))]


@pytest.mark.parametrize(("page", "number", "code"), EXAMPLES, ids=[f"{page}-{n}" for page, n, _ in EXAMPLES])
def test_examples_run(page: str, number: int, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python example runs when it is pasted, unless its first line says that it needs a server."""
    if code.startswith("# needs a running gateway"):
        compile(code, f"{page} example {number}", "exec")
        return
    monkeypatch.chdir(ROOT / "examples")
    for variable in ("ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.setenv(variable, "fake-key")
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, f"{page} example {number}", "exec"), {"__name__": "__example__"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to another page of the documentation leads to a page."""
    for target in LINK.findall(SPAN.sub("", page.read_text())):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("name", [name for name in trilogue.__all__ if name != "__version__"])
def test_every_public_name_is_documented(name: str) -> None:
    """docs/library.md documents every public name."""
    assert re.search(rf"\b{name}\b", (DOCS / "library.md").read_text())


def flags() -> list[tuple[str, str]]:
    """Return every command with all of its long options."""
    found = []
    for name in COMMANDS:
        command = app.get_command(click.Context(app), name)
        assert command is not None
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                found += [(name, option) for option in parameter.opts if option.startswith("--")]
    return found


@pytest.mark.parametrize(("command", "flag"), flags())
def test_every_flag_is_documented(command: str, flag: str) -> None:
    """docs/cli.md documents every option under its command."""
    text = (DOCS / "cli.md").read_text()
    start = text.find(f"## trilogue {command}")
    assert start >= 0, f"docs/cli.md has no section for {command}"
    end = text.find("\n## ", start + 1)
    assert flag in text[start : end if end >= 0 else None]
