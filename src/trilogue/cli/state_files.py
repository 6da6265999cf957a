"""Which state file belongs to a configuration file, for the commands that use one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from trilogue.config import state_directory, state_file
from trilogue.state import FILE_NAME

_OTHERS = f"{Path(FILE_NAME).stem}-*{Path(FILE_NAME).suffix}"


def pool_file(config_file: Path | None) -> Path:
    """Return where the state of accounts is kept for this configuration file. The file may not exist yet.

    Earlier versions had one state file for all configuration files. The first configuration file that gets a state file
    of its own starts with a copy of that one, so that an upgrade does not forget disabled accounts and balances.
    """
    own = state_file(os.environ, FILE_NAME, config_file)
    earlier = state_directory(os.environ) / FILE_NAME
    if own != earlier and earlier.is_file() and not any(earlier.parent.glob(_OTHERS)):
        _copy(earlier, own)
    return own


def _copy(earlier: Path, own: Path) -> None:
    """Copy a state file, or leave it if that is not possible: then the accounts start without a history."""
    unfinished = own.with_suffix(".copy")
    try:
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        # Not a copy of the bytes: a gateway may be writing.
        with closing(sqlite3.connect(earlier)) as source, closing(sqlite3.connect(unfinished)) as target:
            source.backup(target)
        unfinished.replace(own)
    except (sqlite3.Error, OSError):
        unfinished.unlink(missing_ok=True)
