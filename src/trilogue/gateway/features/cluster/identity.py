"""Who a node is: a random id that stays in the state folder, and a name for people."""

from __future__ import annotations

import re
import secrets
import socket
from pathlib import Path

from msgspec import Struct

from trilogue.storage.private_files import make_once

_ID = re.compile(r"[0-9a-f]{16}")
SHOWN_CHARACTERS = 4


class NodeIdentity(Struct, frozen=True):
    """A node of the cluster: one machine with one state folder. `name`: its host name and the start of its id."""

    id: str
    name: str


def node_identity(file: Path) -> NodeIdentity:
    """Return who this node is. Its id is made once for all processes that use the file. Raises OSError."""
    # Processes with different ids would count as two nodes that have used the same, and spend budgets twice.
    make_once(file, lambda: _read(file) is not None, lambda: secrets.token_hex(8).encode())
    found = _read(file) or secrets.token_hex(8)
    return NodeIdentity(found, f"{socket.gethostname()}-{found[:SHOWN_CHARACTERS]}")


def _read(file: Path) -> str | None:
    try:
        text = file.read_text("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return text if _ID.fullmatch(text) else None
