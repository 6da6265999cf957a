"""Where things are kept: the user's folders for configuration and state, and each kind of state in them.

The folders are those of the XDG base directory specification.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

FILE_NAME = "trilogue.yaml"
DIGEST_CHARACTERS = 12
MOST_CHARACTERS = 40
"""of the configuration file's name in that of a state file; file systems allow 255 bytes for all of it"""


ACCOUNTS_FILE = "pool.db"
KEYS_FILE = "keys.db"
LIMITS_FILE = "limits.dat"
RESPONSES_FILE = "responses.db"
USAGE_FILE = "usage.db"
MEMORY = "memory"
NOWHERE = "none"
_POSTGRESQL = ("postgresql://", "postgres://")


def is_postgresql(where: str) -> bool:
    """Return whether a place is a PostgreSQL database, which several machines may share."""
    return where.startswith(_POSTGRESQL)


class Locations:
    """Where the state of one configuration is kept, as paths and as what `database_of` takes.

    `accounts`: the file with the state of accounts; files of other kinds have names of the same form and are beside it.
    `state`, `usage`: what the configuration names for responses and for usage; None for the default. `cluster`: the
    PostgreSQL database of all machines.
    """

    def __init__(
        self, accounts: Path, *, state: str | None = None, usage: str | None = None, cluster: str | None = None
    ) -> None:
        self.accounts = accounts
        self.responses = str(self.file(RESPONSES_FILE)) if state is None else state
        shared = cluster or state or ""
        self.shared = shared if is_postgresql(shared) else ""
        """the database that machines share; "" if there is none"""
        self.keys = self.shared or str(self.file(KEYS_FILE))
        counted = state if state is not None and is_postgresql(state) else str(self.file(USAGE_FILE))
        self.usage = counted if usage is None else usage

    def file(self, name: str) -> Path:
        """Return the file of another kind: `keys.db` is `keys-work-0123.db` next to `pool-work-0123.db`."""
        other = Path(name)
        return self.accounts.with_name(
            self.accounts.stem.replace(Path(ACCOUNTS_FILE).stem, other.stem, 1) + other.suffix
        )


def config_directory(environ: Mapping[str, str]) -> Path:
    """Return the folder in which to look for a configuration file."""
    return _xdg(environ, "XDG_CONFIG_HOME", ".config")


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return the folder for the state of accounts, stored keys and the seal key. It may not exist yet."""
    return _xdg(environ, "XDG_STATE_HOME", ".local/state")


def state_file(environ: Mapping[str, str], name: str, config_file: Path | None) -> Path:
    """Return where state of this name is kept for a configuration file. It may not exist yet.

    Gateways with different configuration files have different files. The name is unchanged without a configuration
    file, and for the file in the user's config folder, which is used if no other is named. Otherwise it gets the name
    of the configuration file and a digest of its path: `pool.db` becomes `pool-work-0123456789ab.db`.
    """
    folder = state_directory(environ)
    # Symbolic links are not resolved: Kubernetes changes where a mounted file leads to with every update.
    path = os.path.abspath(config_file or "")
    if config_file is None or path == os.path.abspath(config_directory(environ) / FILE_NAME):
        return folder / name
    digest = sha256(os.fsencode(path)).hexdigest()[:DIGEST_CHARACTERS]
    plain, suffix = os.path.splitext(name)
    return folder / f"{plain}-{Path(path).stem[:MOST_CHARACTERS]}-{digest}{suffix}"


def _xdg(environ: Mapping[str, str], variable: str, fallback: str) -> Path:
    """Return Trilogue's folder in a base directory. The specification says to ignore paths that are not absolute."""
    named = environ.get(variable, "")
    home = environ.get("HOME", "")
    base = Path(named) if os.path.isabs(named) else (Path(home) if home else Path.home()) / fallback
    return base / "trilogue"
