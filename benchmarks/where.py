"""Where things are: the repository, and the folder for all that a run makes or downloads."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NATIVE = Path(__file__).resolve().parent / "native"
CACHE = ROOT / ".bench"
