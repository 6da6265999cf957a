"""What the pages name exists: commands with their options, settings, files of the repository, targets of make."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from trilogue import LOSSES
from trilogue.app.cli.app import COMMANDS, OWN_OPTIONS, Commands
from trilogue.config.config import setting_paths

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md"), *ROOT.glob("deploy/*.*")]
PAGES = sorted(page for page in PAGES if page.name != "CHANGELOG.md")
TYPED = re.compile(r"^\s*(?:\$|#) trilogue ?(.*)$|`trilogue ([^`\n]*)`", re.MULTILINE)
END_OF_COMMAND = re.compile(r"\s#\s| [|>&;]|&&|…|\\$| < ")
PATH = re.compile(r"`((?:src|tests|docs|deploy|examples|benchmarks)/[\w./-]+)`")
TARGET = re.compile(r"(?:`|\$ )make ([a-z-]+)")
SETTING = re.compile(r"`([a-z_]+(?:\.[a-zA-Z_]+)+)`")
FILE_ENDINGS = (
    ".db",
    ".dat",
    ".key",
    ".live",
    ".log",
    ".made",
    ".md",
    ".py",
    ".vault",
    ".yaml",
    ".id",
    ".address",
    ".jsonl",
)
KNOWN = {re.sub(r"\[\]|\.NAME", "", path) for path in setting_paths()}


def commands_of(page: Path) -> Iterator[list[str]]:
    """Yield the arguments of each command that a page shows in full."""
    for shown, mentioned in TYPED.findall(page.read_text("utf-8")):
        line = END_OF_COMMAND.split(shown or mentioned)[0].strip()
        arguments = shlex.split(line)
        if arguments and arguments[0] not in OWN_OPTIONS:
            yield arguments


def fault_of(arguments: list[str]) -> str:
    """Return why the command line would refuse these arguments, or "". A missing one is fine: pages abbreviate."""
    name, *rest = arguments
    group = Commands("trilogue")
    command = group.get_command(click.Context(group), name if name in COMMANDS else "serve")
    assert command is not None
    rest = rest if name in COMMANDS else arguments
    context = click.Context(command, info_name=name)
    try:
        if isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            command, name = command.commands[rest[0]], rest.pop(0)
        command.make_context(name, rest, parent=context)
    except (click.MissingParameter, click.exceptions.Exit):
        return ""
    except KeyError as error:
        return f"there is no command {error}"
    except click.UsageError as error:
        return "" if "requires an argument" in error.message else error.format_message()
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page: Path) -> None:
    found = {shlex.join(arguments): fault_of(arguments) for arguments in commands_of(page)}
    placeholder = re.compile(r"'[A-Z]+' is not a valid")
    assert {line: fault for line, fault in found.items() if fault and not placeholder.search(fault)} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_targets_exist(page: Path) -> None:
    text, makefile = page.read_text("utf-8"), (ROOT / "Makefile").read_text("utf-8")
    assert [name for name in PATH.findall(text) if not (ROOT / name).exists()] == []
    assert [name for name in TARGET.findall(text) if f"\n{name}:" not in makefile] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_exist(page: Path) -> None:
    """Also in their short forms: `pool.strategy` of a provider and `budget.month` of a key."""
    roots = {path.partition(".")[0] for path in KNOWN}
    named = {re.sub(r"\.NAME", "", name) for name in SETTING.findall(page.read_text("utf-8"))}
    named = {name for name in named if name.partition(".")[0] in roots and not name.endswith(FILE_ENDINGS)}
    assert {
        name for name in named - KNOWN - LOSSES.keys() if not any(one.endswith(f".{name}") for one in KNOWN)
    } == set()


def test_mistakes_are_found() -> None:
    assert fault_of(["keys", "creat"]) == "there is no command 'creat'"
    assert "No such option" in fault_of(["check", "--online"])
    assert "No such option" in fault_of(["--prot", "8080"])
    assert fault_of(["--port", "8080"]) == fault_of(["keys", "create", "alice", "--expires", "30d"]) == ""
