"""Texts from outside, made fit for a log or a terminal."""

from __future__ import annotations

import re

MAX_TEXT = 300
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def sane(text: str) -> str:
    """Return a text from outside, cut to a length that is fit for a log."""
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


def printable(text: str) -> str:
    """Return a text without line breaks and terminal codes: they are escaped."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)
