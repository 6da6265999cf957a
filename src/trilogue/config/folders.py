"""Where files of the user are: the XDG base directories."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def config_directory(environ: Mapping[str, str]) -> Path:
    """Where the configuration may be."""
    return _xdg(environ, "XDG_CONFIG_HOME", ".config")


def state_directory(environ: Mapping[str, str]) -> Path:
    """Where the gateway keeps what it must remember. Not created here."""
    return _xdg(environ, "XDG_STATE_HOME", ".local/state")


def _xdg(environ: Mapping[str, str], variable: str, fallback: str) -> Path:
    """The XDG base directories specification: a path that is not absolute does not count."""
    named = environ.get(variable, "")
    home = environ.get("HOME", "")
    base = Path(named) if os.path.isabs(named) else (Path(home) if home else Path.home()) / fallback
    return base / "trilogue"
