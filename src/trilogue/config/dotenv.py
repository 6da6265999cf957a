"""`.env` files: variables for keys, next to the configuration file or in the working directory.

The environment comes first, then the file next to the configuration, then the one in the working directory. Lines are
`NAME=value`, with or without `export` and quotes; anything else is skipped, because these files are often shared with
other programs. Values are taken as they are: nothing is expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

NAME = ".env"
SWITCH = "TRILOGUE_DOTENV"
"""the variable that switches these files off: `0`, `no`, `off` or `false`"""
MAX_BYTES = 1024 * 1024

_OFF = frozenset({"0", "no", "off", "false"})
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_QUOTED = re.compile(r"""'([^']*)'(?:\s+#.*)?|"((?:[^"\\]|\\.)*)"(?:\s+#.*)?""")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def with_dotenv(environ: Mapping[str, str], config_file: Path | None) -> dict[str, str]:
    """Return the environment with the variables of `.env` files that it does not have."""
    found: dict[str, str] = {}
    if environ.get(SWITCH, "").strip().lower() not in _OFF:
        for path in dotenv_files(config_file):
            found = {**_read(path), **found}
    # An empty variable counts as set: it is the usual way to switch one off.
    return {**found, **environ}


def dotenv_files(config_file: Path | None) -> list[Path]:
    """Return the `.env` files that are there, the first one first in precedence."""
    folders = [Path()] if config_file is None else [config_file.parent, Path()]
    return list(dict.fromkeys(path for folder in folders if (path := (folder / NAME)).is_file()))


def _read(path: Path) -> dict[str, str]:
    """Return the variables of a file; none if it cannot be read."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES).decode("utf-8-sig", "replace")
    except OSError:
        return {}
    return dict(_variables(text))


def _variables(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        # Where state is kept must not depend on the working directory.
        if found is not None and not found[1].startswith("XDG_"):
            yield found[1], _value(found[2])


def _value(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        return re.sub(r"(^|\s+)#.*", "", text)
    if quoted[1] is not None:
        return quoted[1]
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted[2])
