"""Invented words, figures and arguments for streams and responses that are built from their shape."""

import json
from itertools import count
from typing import Any

USAGE: dict[str, dict[str, Any]] = {
    "chat": {
        "prompt_tokens": 30,
        "completion_tokens": 20,
        "total_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 10},
        "completion_tokens_details": {"reasoning_tokens": 5},
    },
    "messages": {
        "input_tokens": 20,
        "cache_read_input_tokens": 10,
        "cache_creation_input_tokens": 0,
        "output_tokens": 20,
    },
    "responses": {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 50,
    },
}


class Words:
    """A supply of words, each one different, so that a lost or repeated piece shows."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def word(self, stem: str) -> str:
        """Return the next word."""
        return f"{stem}{next(self._numbers)} "

    def arguments(self) -> str:
        """Return the arguments of a call, as JSON."""
        return json.dumps({"number": next(self._numbers), "name": "Anna", "list": [1, 2]})


def cut(text: str, pieces: int) -> list[str]:
    """Return a text in that number of pieces, all of them filled."""
    size = len(text) / max(pieces, 1)
    return [text[round(at * size) : round((at + 1) * size)] for at in range(pieces)]
