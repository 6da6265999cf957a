"""Characters that were split into halves."""

from __future__ import annotations

from trilogue.base.json_text import SurrogateJoiner


def test_halves_of_characters_are_put_together() -> None:
    """Halves are joined across texts. A single half is shown as such, and escaped backslashes are not halves."""
    joiner = SurrogateJoiner()
    assert joiner.join(rb'{"a":"x\ud83d"}') == b'{"a":"x"}'
    assert joiner.join(rb'{"a":"\uDE00 \\ud83d \ud83d\ude01"}') == rb'{"a":"\ud83d\uDE00 \\ud83d \ud83d\ude01"}'
    assert joiner.join(rb'{"a":"\ude00"}') == rb'{"a":"\ufffd"}'
    assert joiner.join(rb'{"a":"\n \u00e9 \ud83d\ude01"}') is None
