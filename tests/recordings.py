"""The path of the recorded provider traffic, which is not part of this repository and may be absent."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def corpus_directory() -> Path:
    """Return the folder of the recordings, one JSON file each. TRILOGUE_CORPUS overrides it."""
    override = os.environ.get("TRILOGUE_CORPUS")
    return Path(override) if override else ROOT.parent / "shared" / "corpus" / "open"


def recordings(pattern: str = "*.json") -> list[Path]:
    """Return the matching recordings in a stable order, or none if the corpus is absent. For `parametrize`."""
    return sorted(corpus_directory().glob(pattern))
