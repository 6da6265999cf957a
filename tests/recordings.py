"""The path of the recorded provider traffic, which is not part of this repository and may be absent."""

import os
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NO_RECORDINGS = "no recorded traffic; set TRILOGUE_CORPUS to its directory"
NO_CASES = "there are no cases"
"""why a test over a list of cases is skipped that has none"""
WITHOUT_RECORDINGS = (NO_RECORDINGS, NO_CASES, "got empty parameter set")
"""how the reasons of skipped tests begin where recordings are missing; the last one is pytest's own"""


def corpus_directory() -> Path:
    """Return the folder of the recordings, one JSON file each. TRILOGUE_CORPUS overrides it."""
    override = os.environ.get("TRILOGUE_CORPUS")
    return Path(override) if override else ROOT.parent / "shared" / "corpus" / "open"


def recordings(pattern: str = "*.json") -> list[Path]:
    """Return the matching recordings in a stable order, or none if the corpus is absent. For `parametrize`."""
    return sorted(corpus_directory().glob(pattern))


def untested(reasons: Iterable[str]) -> str:
    """Return the line that says how many tests were skipped for lack of recordings, given all reasons of skipped tests.

    Return "" if there were none. For runs without recordings: with them, an empty list of cases has other reasons.
    """
    count = sum(reason.removeprefix("Skipped: ").startswith(WITHOUT_RECORDINGS) for reason in reasons)
    if not count:
        return ""
    tests = "1 test" if count == 1 else f"{count} tests"
    return f"NOT TESTED: {tests} over recorded traffic (none in {corpus_directory()}; set TRILOGUE_CORPUS)"
