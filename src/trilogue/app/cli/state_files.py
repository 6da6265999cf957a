"""Which state file belongs to a configuration file, for the commands that use one."""

from __future__ import annotations

import os
from pathlib import Path

from trilogue.storage.file import FileStore
from trilogue.storage.folders import state_directory, state_file
from trilogue.upstreams.state.sync import FILE_NAME

_OTHERS = f"{Path(FILE_NAME).stem}-*{Path(FILE_NAME).suffix}"


def pool_file(config_file: Path | None) -> Path:
    """Return where the state of accounts is kept for this configuration file. The file may not exist yet.

    Earlier versions had one state file for all configuration files. The first configuration file that gets a state file
    of its own starts with a copy of that one, so that an upgrade does not forget disabled accounts and balances.
    """
    own = state_file(os.environ, FILE_NAME, config_file)
    earlier = state_directory(os.environ) / FILE_NAME
    if own != earlier and earlier.is_file() and not any(earlier.parent.glob(_OTHERS)):
        FileStore(earlier).copy_to(own)
    return own
