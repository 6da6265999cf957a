"""The gateway behaves as it is recorded, to the byte. See `python -m tests.transcripts`."""

from __future__ import annotations

import pytest

from tests.transcripts.normalised import digest
from tests.transcripts.run import RECORDED, transcripts

pytestmark = pytest.mark.slow
HINT = "compare `python -m tests.transcripts FILE` of both versions; `--write` records what is meant to be"


def test_every_case_is_as_recorded() -> None:
    """What differs is meant to differ, or it is a mistake."""
    recorded = dict(line.rsplit("  ", 1) for line in RECORDED.read_text("utf-8").splitlines())
    found = {name: digest(text) for name, text in transcripts()}
    assert {name for name in recorded.keys() | found.keys() if recorded.get(name) != found.get(name)} == set(), HINT
