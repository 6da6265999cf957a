"""Imports a file: reads it, checks that it is of the gateway that was named, and lists what was not carried over."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from trilogue.base.problems import Problem
from trilogue.config.importers import bifrost, claude_code_router, litellm
from trilogue.config.importers.draft import Draft
from trilogue.config.importers.source import LABELS, Foreign, Section, foreign_format
from trilogue.config.yaml_file import YamlDocument, read_document
from trilogue.errors import ConfigError

_IMPORTERS: dict[Foreign, Callable[[Section, Draft], None]] = {
    "litellm": litellm.carry_over,
    "claude-code-router": claude_code_router.carry_over,
    "bifrost": bifrost.carry_over,
}


class Imported(Struct, frozen=True):
    """A configuration as the text of a file, and what it lacks, in the order of the file that was imported."""

    text: str
    dropped: list[Problem]
    providers: int
    models: int


def import_file(data: bytes, source: Foreign) -> Imported:
    """Return a Trilogue configuration for the file of another gateway. Raises ConfigError if it is not one."""
    document = read_document(data)
    found = foreign_format(document.data)
    if found != source:
        hint = f"; it is one of {LABELS[found]}: trilogue import {found} FILE" if found else ""
        raise ConfigError([Problem("", f"this is not a file of {LABELS[source]}{hint}")])
    draft = Draft()
    _IMPORTERS[source](Section(document.data), draft)
    if not draft.providers:
        reasons = [Problem("", "nothing in this file can be carried over"), *_problems(draft, document)]
        raise ConfigError(reasons)
    text = draft.yaml(f"Imported from a file of {LABELS[source]} by `trilogue import`.")
    models = len(draft.aliases) + len(draft.routes)
    return Imported(text, _problems(draft, document), len(draft.providers), models)


def _problems(draft: Draft, document: YamlDocument) -> list[Problem]:
    found = [Problem(one.path, one.reason, document.line(one.path)) for one in dict.fromkeys(draft.dropped)]
    return sorted(found, key=lambda problem: problem.line or 0)
