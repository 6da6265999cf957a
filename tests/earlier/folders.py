"""State folders of earlier versions: how they are kept next to this file, and how a copy of one is made.

Each version has a folder: the configuration, `known.json` with what is in the files, and the files in `state`.
Databases are copied as docs/deployment.md says. A sparse file is kept as its blocks that are not empty (`NAME.blocks`).
The keys in them open nothing: they were made for these files.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from base64 import b64decode, b64encode
from contextlib import closing
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CONFIG, KNOWN, STATE = "trilogue.yaml", "known.json", "state"
BLOCK_BYTES = 4096
SPARSE_BYTES = 1 << 17
"""the size from which a file is kept as its blocks"""
BLOCKS = ".blocks"
SQLITE = b"SQLite format 3\0"
OF_SQLITE = ("-wal", "-shm", "-journal")


def versions() -> list[str]:
    """Return the versions whose files are kept, oldest first."""
    found = (path.parent.name for path in HERE.glob(f"*/{KNOWN}"))
    return sorted(found, key=lambda name: [int(part) for part in name.split(".")])


def keep(state: Path, config: str, known: dict[str, Any], folder: Path) -> None:
    """Keep the state folder of a gateway that has ended, in place of what was kept before."""
    shutil.rmtree(folder, ignore_errors=True)
    for file in sorted(path for path in state.rglob("*") if path.is_file()):
        target = folder / STATE / file.relative_to(state)
        if file.name.endswith((*OF_SQLITE, ".address", ".lock")):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if _is_database(file):
            with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(target)) as copy:
                source.backup(copy)
                copy.execute("VACUUM")
        elif file.stat().st_size >= SPARSE_BYTES:
            blocks = json.dumps(blocks_of(file), indent=1)
            target.with_name(file.name + BLOCKS).write_text(blocks + "\n")
        else:
            shutil.copyfile(file, target)
    (folder / CONFIG).write_text(config)
    (folder / KNOWN).write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")


def copy_of(version: str, state: Path) -> dict[str, Any]:
    """Make a copy of the state folder of a version. Return what is known to be in it."""
    known: dict[str, Any] = json.loads((HERE / version / KNOWN).read_text())
    kept = HERE / version / STATE
    for file in sorted(path for path in kept.rglob("*") if path.is_file()):
        target = state / file.relative_to(kept)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if file.name.endswith(BLOCKS):
            target = target.with_name(file.name.removesuffix(BLOCKS))
            write_blocks(target, json.loads(file.read_text()))
        else:
            shutil.copyfile(file, target)
        target.chmod(0o600)
        os.utime(target, (known["written"], known["written"]))
    return known


def blocks_of(file: Path) -> dict[str, Any]:
    """Return the size of a file, and its blocks that are not empty by their positions."""
    found = {}
    with file.open("rb") as opened:
        for at in iter(opened.tell, file.stat().st_size):
            data = opened.read(BLOCK_BYTES)
            if data.strip(b"\0"):
                found[str(at)] = b64encode(data.rstrip(b"\0")).decode()
    return {"size": file.stat().st_size, "blocks": found}


def write_blocks(file: Path, kept: dict[str, Any]) -> None:
    """Write a file that was kept as its blocks."""
    with file.open("wb") as opened:
        opened.truncate(kept["size"])
        for at, data in kept["blocks"].items():
            opened.seek(int(at))
            opened.write(b64decode(data))


def _is_database(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(SQLITE)) == SQLITE
