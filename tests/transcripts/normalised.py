"""Texts without what differs from one run to the next: the same behaviour has the same text.

Ids and sealed values get numbers by their first appearance, so the text still shows where the same one comes again.
Times and durations get none: whether two of them are equal is chance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b

_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_DURATIONS = (
    r"at|started|first_byte|ended|took|waited|wait|\w+_ms|\w*seconds|asked_at|decided_at|until|rests|resets_at|pid|"
    "worker|port|timestamp"
)
_NUMBERED = {
    "sealed": r"trl\d\.[\w-]+",
    "encrypted": r"gAAAAA[\w=-]+",
    "uuid": r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
    "client_key": r"\btrl-[\w-]{30,}",
    "id": r"\b[A-Za-z]{2,12}[-_](?:[0-9a-f]{12,}|(?=[A-Za-z]*\d)[0-9A-Za-z]{20,})",
    "hex": r"\b(?=[a-f]*\d)[0-9a-f]{12,}\b",
}
_TIME = re.compile(
    r"\b(?!2026-0[15]-)20\d\d-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[-+]\d\d:\d\d)?"
    r"|(?<=\")20\d\d-\d\d-\d\d(?=\")"
    # The scripted upstream says the same times whenever it is asked.
    r"|\b(?!17[89]0000000\b)1[789]\d{8}(?:\.\d+)?\b"
)
_DURATION = re.compile(rf'("(?:{_DURATIONS})": ?){_NUMBER}')
# Whether an attempt finds a connection that is open already is chance.
_CONNECT = re.compile(rf'("connect(?:_ms)?": ?)(?:null|{_NUMBER})')
_RESET = re.compile(r"^((?:retry-after|[\w-]*ratelimit[\w-]*reset[\w-]*): ).*$", re.MULTILINE)
# Padding, and the end of a key.
_RANDOM = re.compile(r'("(?:obfuscation|shown)": ?)"[^"]*"')
# Times in a capture do not always have as many digits.
_SIZE = re.compile(r'("bytes": ?)\d{4,}')
_VARIES = re.compile("|".join(f"(?P<{name}>{part})" for name, part in _NUMBERED.items()))


def normalised(text: str, known: Mapping[str, str]) -> str:
    """Return a text with placeholders. `known`: what stands for certain texts, such as the folder of the gateway."""
    for value, name in known.items():
        text = text.replace(value, name)
    numbers: dict[str, dict[str, int]] = {}

    def placeholder(found: re.Match[str]) -> str:
        kind, value = str(found.lastgroup), found[0]
        if kind == "id":
            kind = value.replace("-", "_").partition("_")[0]
        seen = numbers.setdefault(kind, {})
        return f"<{kind} {seen.setdefault(value, len(seen) + 1)}>"

    text = _CONNECT.sub(r"\1<seconds or null>", text)
    text = _DURATION.sub(r"\1<seconds>", text)
    text = _RESET.sub(r"\1<seconds>", text)
    text = _SIZE.sub(r"\1<bytes>", text)
    text = _RANDOM.sub(r'\1"<random>"', text)
    return _VARIES.sub(placeholder, _TIME.sub("<time>", text))


def digest(text: str) -> str:
    """Return the hash of a text."""
    return blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
