"""Repetition in a sequence of tokens: `a b a b a b` is written `( a b )+`, and read back as two rounds."""

from collections.abc import Callable, Iterator

LONGEST = 16
"""tokens in a group that repeats; a longer one is written out"""


def collapse(tokens: list[str], silent: Callable[[str], bool]) -> str:
    """Return the tokens as one line, in which a group that repeats is in brackets.

    A token of which only another piece follows (`silent`) is written once for any number of them, without brackets.
    """
    left = list(_distinct(tokens, silent))
    changed = True
    while changed:
        changed = False
        for size in range(1, LONGEST + 1):
            joined = _group(left, size)
            changed = changed or len(joined) < len(left)
            left = joined
    return " ".join(left)


def _distinct(tokens: list[str], silent: Callable[[str], bool]) -> Iterator[str]:
    last = None
    for token in tokens:
        if token != last or not silent(token):
            yield token
        last = token


def _group(tokens: list[str], size: int) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(tokens):
        group, end = tokens[at : at + size], at + size
        while len(group) == size and tokens[end : end + size] == group:
            end += size
        if end > at + size:
            inside = " ".join(group)
            bracketed = size == 1 and inside.endswith(")+")
            found.append(inside if bracketed else f"( {inside} )+")
            at = end
        else:
            found.append(tokens[at])
            at += 1
    return found


def expand(line: str, silent: Callable[[str], bool]) -> list[str]:
    """Return the tokens of a line: two rounds of a group in brackets, two pieces of what comes in pieces."""
    stack: list[list[str]] = [[]]
    for token in line.split():
        if token == "(":
            stack.append([])
        elif token == ")+":
            group = stack.pop()
            stack[-1] += [*group, *group]
        else:
            stack[-1] += [token, token] if silent(token) else [token]
    (tokens,) = stack
    return tokens
