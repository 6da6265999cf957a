"""The paths of the repository and of the folder for everything that a run creates or downloads."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NATIVE = Path(__file__).resolve().parent / "native"
CACHE = ROOT / ".bench"
