"""Who a node is: a random id that stays in the state folder, and a name for people."""

from __future__ import annotations

import os
import re
import secrets
import socket
from pathlib import Path

from msgspec import Struct

_ID = re.compile(r"[0-9a-f]{16}")
SHOWN_CHARACTERS = 4


class NodeIdentity(Struct, frozen=True):
    """A node of the cluster: one machine with one state folder. `name`: its host name and the start of its id."""

    id: str
    name: str


def node_identity(file: Path) -> NodeIdentity:
    """Return who this node is. Its id is made once for all processes that use the file. Raises OSError."""
    found = _read(file)
    if found is None:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Linking fails if the file exists, so that of several processes that start together one decides.
        draft = file.with_name(f"{file.name}.{os.getpid()}")
        write_private(draft, secrets.token_hex(8).encode())
        try:
            if file.exists():
                draft.replace(file)  # damaged
            else:
                os.link(draft, file)
        except FileExistsError:
            pass
        finally:
            draft.unlink(missing_ok=True)
        found = _read(file) or secrets.token_hex(8)
    return NodeIdentity(found, f"{socket.gethostname()}-{found[:SHOWN_CHARACTERS]}")


def write_private(file: Path, data: bytes) -> None:
    """Write a file that only its owner can read. Raises OSError."""
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        out.write(data)


def _read(file: Path) -> str | None:
    try:
        text = file.read_text("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return text if _ID.fullmatch(text) else None
