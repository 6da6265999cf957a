"""The files of the console, the page for administrators that the admin interface serves.

Plain HTML, CSS and JavaScript modules in `static`: there is no build step, and the browser loads nothing from anywhere
else. docs/console.md shows what the page does.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

INDEX = "index.html"
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""content types by suffix; files with another suffix are not served"""


class ConsoleFile(NamedTuple):
    """One file as it is served."""

    content_type: str
    data: bytes


@cache
def console_files() -> dict[str, ConsoleFile]:
    """Return all files by their path. They are read once; nothing outside of the package can be reached."""
    return dict(_read(files(__name__) / "static", ""))


def _read(folder: Traversable, prefix: str) -> list[tuple[str, ConsoleFile]]:
    found: list[tuple[str, ConsoleFile]] = []
    for entry in folder.iterdir():
        kind = TYPES.get(entry.name.rpartition(".")[2])
        if entry.is_dir():
            found += _read(entry, f"{prefix}{entry.name}/")
        elif kind is not None:
            found.append((prefix + entry.name, ConsoleFile(kind, entry.read_bytes())))
    return found
