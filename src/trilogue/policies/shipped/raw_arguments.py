"""Arguments that are not a JSON object, read in every way in which a client might still make sense of them.

Models cut arguments off, forget a bracket, or write Python instead of JSON, and some clients repair that. A rule that
only looked at the text as it is would miss a command behind a quotation mark.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from trilogue.base.json.text import parse_object
from trilogue.model import Json

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)(?:"|\\?$)' + r"|'((?:[^'\\]|\\.)*)(?:'|\\?$)", re.DOTALL)
_MARKS = re.compile(r"[{}\[\]\":,'`]")
_CLOSING = {"{": "}", "[": "]"}


def raw_texts(text: str) -> list[str]:
    """Return the text itself, the quoted texts in it, those as the words of one command, and the rest without marks."""
    quoted = [_unquoted(found[1] if found[1] is not None else found[2]) for found in _QUOTED.finditer(text)]
    return [text, *quoted, shlex.join(quoted), _MARKS.sub("\n", text)]


def completed(text: str) -> dict[str, Json] | None:
    """Return the object that the text begins, with its quotation marks and brackets closed; None if it is not one."""
    return parse_object(text + _missing(text))


def word_lists(value: Json) -> Iterator[str]:
    """Yield each list of strings inside a JSON value as one command: some tools take the words of a command."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            if item and all([isinstance(word, str) for word in item]):
                yield shlex.join(item)
            waiting.extend(item)


def _unquoted(text: str) -> str:
    """Return a quoted text with its escapes resolved, if they are those of JSON."""
    read = parse_object(f'{{"text":"{text}"}}')
    return text if read is None else str(read["text"])


def _missing(text: str) -> str:
    """Return the quotation mark and the brackets that are still open at the end."""
    closing: list[str] = []
    inside = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif inside:
            inside, escaped = character != '"', character == "\\"
        elif character == '"':
            inside = True
        elif character in _CLOSING:
            closing.append(_CLOSING[character])
        elif closing and character == closing[-1]:
            closing.pop()
    # A backslash at the end escapes the next character.
    return ("\\" if escaped else "") + ('"' if inside else "") + "".join(reversed(closing))
