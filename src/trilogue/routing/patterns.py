"""The patterns of routes: exact names, globs and regular expressions, and the names written from what they matched."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Literal

from trilogue.routing.errors import BadPattern
from trilogue.routing.safety import MAX_PATTERN, check_regex

Kind = Literal["auto", "exact", "glob", "regex"]

_GLOB_SIGNS = frozenset("*?[")
_REFERENCE = re.compile(r"\$(?:(?P<plain>\$)|(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)|\{(?P<braced>\w+)\}|(?P<bad>))")


def kind_of(match: str, kind: Kind) -> Kind:
    """`auto` decided by the pattern's text: `^…` is a regular expression, `*`, `?` or `[` make a glob."""
    if kind != "auto":
        return kind
    if match.startswith("^"):
        return "regex"
    return "exact" if _GLOB_SIGNS.isdisjoint(match) else "glob"


def compile_match(match: str, kind: Kind = "auto") -> re.Pattern[str]:
    """The pattern that a whole model name has to match. Raises BadPattern."""
    if not match:
        raise BadPattern("must not be empty")
    if len(match) > MAX_PATTERN:
        raise BadPattern(f"must have at most {MAX_PATTERN} characters")
    return _COMPILE[kind_of(match, kind)](match)


def _compile_exact(match: str) -> re.Pattern[str]:
    return re.compile(re.escape(match))


def _compile_regex(match: str) -> re.Pattern[str]:
    check_regex(match)
    try:
        return _without_warning(match)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise BadPattern(f"is not a regular expression: {error}") from None


def _without_warning(expression: str) -> re.Pattern[str]:
    """What `re` only warns about may mean something else one day."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return re.compile(expression)


def _compile_glob(match: str) -> re.Pattern[str]:
    """`*` any text, `?` one character, `[abc]` one of these. Each `*` is a group: $1, $2, …

    The text up to each fixed part is an atomic group, so that matching takes linear time however many stars there are.
    """
    pieces = [""]
    for sign in _GLOB_SIGN.findall(match):
        if sign[0] == "*":  # inside of a set it is a sign like others
            pieces.append("")
        else:
            pieces[-1] += _glob_sign(sign)
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL)
    first, *middle, last = pieces
    inner = "".join(f"(?>(.*?){piece})" for piece in middle)
    return re.compile(f"{first}{inner}(.*){last}", re.DOTALL)


_GLOB_SIGN = re.compile(r"\*+|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)


def _glob_sign(sign: str) -> str:
    if sign == "?":
        return "."
    if sign[0] != "[" or len(sign) == 1:
        return re.escape(sign)
    negated = sign[1] == "!"
    members = sign[2 if negated else 1 : -1]
    escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", members)
    text = f"[{'^' if negated else ''}{escaped}]"
    try:
        _without_warning(text)
    except (re.error, Warning):
        raise BadPattern("has a [set] that is not right") from None
    return text


_COMPILE: dict[Kind, Callable[[str], re.Pattern[str]]] = {
    "exact": _compile_exact,
    "glob": _compile_glob,
    "regex": _compile_regex,
}


def check_template(template: str, pattern: re.Pattern[str]) -> None:
    """Raise BadPattern for a template that names a group which the pattern does not have."""
    if not template:
        raise BadPattern("must not be empty")
    if len(template) > MAX_PATTERN:
        raise BadPattern(f"must have at most {MAX_PATTERN} characters")
    for reference in _REFERENCE.finditer(template):
        if reference["bad"] is not None:
            raise BadPattern('has a "$" without a group; write "$$" for the sign itself')
        key = _group(reference)
        known = key in pattern.groupindex if isinstance(key, str) else key <= pattern.groups
        if reference["plain"] is None and not known:
            raise BadPattern(f'names "${key}", which the pattern does not have')


def expand(template: str, found: re.Match[str]) -> str:
    """A template with `$0` (all), `$1` (first group), `$name` and `${name}` filled in; `$$` is a dollar sign."""
    if "$" not in template:
        return template
    return _REFERENCE.sub(lambda reference: "$" if reference["plain"] else found[_group(reference)] or "", template)


def _group(reference: re.Match[str]) -> int | str:
    key: str = reference["number"] or reference["name"] or reference["braced"] or "0"
    return int(key) if key.isdecimal() else key
