"""Where the recorded provider traffic is. It is not part of this repository, so it may be absent."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def corpus_directory() -> Path:
    """The directory of the recordings, one JSON file each; set TRILOGUE_CORPUS to use another one."""
    override = os.environ.get("TRILOGUE_CORPUS")
    return Path(override) if override else ROOT.parent / "shared" / "corpus" / "open"


def recordings(pattern: str = "*.json") -> list[Path]:
    """The recordings that match, in a stable order; none where the corpus is absent. For `parametrize`."""
    return sorted(corpus_directory().glob(pattern))
