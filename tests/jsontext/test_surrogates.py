"""Characters that were cut in half."""

from __future__ import annotations

from trilogue.jsontext.surrogates import HalfMender


def test_halves_of_characters_are_put_together() -> None:
    """Across texts; a half that stays alone is shown as such, and escaped backslashes are none of it."""
    mender = HalfMender()
    assert mender.mend(rb'{"a":"x\ud83d"}') == b'{"a":"x"}'
    assert mender.mend(rb'{"a":"\uDE00 \\ud83d \ud83d\ude01"}') == rb'{"a":"\ud83d\uDE00 \\ud83d \ud83d\ude01"}'
    assert mender.mend(rb'{"a":"\ude00"}') == rb'{"a":"\ufffd"}'
    assert mender.mend(rb'{"a":"\n \u00e9 \ud83d\ude01"}') is None
