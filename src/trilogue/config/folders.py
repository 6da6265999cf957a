"""The user's folders for configuration and state, as the XDG base directory specification defines them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def config_directory(environ: Mapping[str, str]) -> Path:
    """Return the folder in which to look for a configuration file."""
    return _xdg(environ, "XDG_CONFIG_HOME", ".config")


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return the folder for the state of accounts, stored keys and the seal key. It may not exist yet."""
    return _xdg(environ, "XDG_STATE_HOME", ".local/state")


def _xdg(environ: Mapping[str, str], variable: str, fallback: str) -> Path:
    """Return Trilogue's folder in a base directory. The specification says to ignore paths that are not absolute."""
    named = environ.get(variable, "")
    home = environ.get("HOME", "")
    base = Path(named) if os.path.isabs(named) else (Path(home) if home else Path.home()) / fallback
    return base / "trilogue"
