"""Names of models: what can be one, the patterns that match them, and the error for one that no provider serves.

Names are used in log lines, headers and patterns, so they must be short and printable. The patterns of routes are exact
names, globs and regular expressions, with templates that are filled from what they matched.

Users' regular expressions must not hang the server. Python's `re` tries one way to match after the other, so a pattern
costs about as many steps as there are ways. A small parser counts them and rejects patterns with too many: repeating
something that itself matches in several ways (`(a+)+`, `(a|b)*`) is exponential, and repetitions or alternatives in
sequence multiply. It doesn't know what a pattern means and leaves the syntax to `re.compile`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from typing import Literal

from trilogue.errors import BadRequest, ClientError

MAX_MODEL_NAME = 256
LONG_CONTEXT = "[1m]"
"""what Claude Code's users write after the name of a model to get its context window of a million tokens"""

_MOST_LISTED = 600
"""Characters for the list of served models, so that the whole message stays well under 1,000."""
_LONGEST_NAME = 80
MAX_PATTERN = 200
MOST_WAYS = 1_000_000
"""Measured: the worst patterns under this limit take well below 0.1 s on a name of the longest allowed length."""
_REPEATED = 100
"""The ways of one repetition. Not 256: repetitions in sequence share the at most 256 characters of a name."""
_TOKEN = re.compile(
    r"""
    (?P<backref> \\[1-9] | \(\?P= )
  | (?P<escape> \\. )
  | (?P<set> \[\^?\]?(?:\\.|[^\]\\])*\] )
  | (?P<open> \(\?P<\w+> | \(\?: | \((?!\?) )
  | (?P<special> \(\? )
  | (?P<close> \) )
  | (?P<bar> \| )
  | (?P<repeat> (?: [*+?] | \{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\} ) (?P<mode>[?+]?) )
  | (?P<char> . )
    """,
    re.VERBOSE | re.DOTALL,
)


def name_fault(name: str) -> str | None:
    """Return what is wrong with a model name, or None."""
    if not name:
        return "must not be empty"
    if len(name) > MAX_MODEL_NAME:
        return f"must have at most {MAX_MODEL_NAME} characters"
    if not name.isprintable():
        return "must not contain control characters"
    return None


def check_model_name(name: str) -> None:
    """Raise BadRequest if a text cannot be a model name."""
    fault = name_fault(name)
    if fault:
        raise BadRequest(f"model {fault}", path="model", code="invalid_model")


class BadPattern(ValueError):
    """A pattern or template of a route that is wrong or could take too long. The message says what to change."""


class NoRoute(ClientError):
    """No provider serves this model. The message lists what is served, within a bounded length."""

    status = 404

    def __init__(self, model: str, served: Iterable[str], reason: str = "") -> None:
        self.model = model
        self.served = tuple(served)
        why = f" ({reason})" if reason else ""
        super().__init__(
            f'no provider serves the model "{_short(model)}"{why}; served: {_listed(self.served)}',
            path="model",
            code="model_not_found",
        )


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"


def _listed(served: tuple[str, ...]) -> str:
    """Return as many names as fit, then how many more there are."""
    shown: list[str] = []
    room = _MOST_LISTED
    for name in map(_short, served):
        room -= len(name) + 2
        if room < 0:
            break
        shown.append(name)
    left = len(served) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else "") if served else "nothing"


class _Sequence:
    """What was read so far between two brackets: the ways of finished alternatives, and of the current one."""

    __slots__ = ("before", "last", "others")

    def __init__(self) -> None:
        self.others = 0
        self.before = 1
        self.last = 1
        """the ways of the last item alone, which a repetition applies to"""

    def add(self, ways: int) -> None:
        self.before *= self.last
        self.last = ways

    def alternative(self) -> None:
        self.others += self.before * self.last
        self.before = self.last = 1

    def ways(self) -> int:
        return self.others + self.before * self.last


def check_regex(pattern: str) -> None:
    """Raise BadPattern if a pattern is too long or could need too many steps."""
    if len(pattern) > MAX_PATTERN:
        raise BadPattern(f"must have at most {MAX_PATTERN} characters")
    if _count(pattern) > MOST_WAYS:
        raise BadPattern("has too many repetitions and alternatives, which could take very long; use a glob")


def _count(pattern: str) -> int:
    stack = [_Sequence()]
    for token in _TOKEN.finditer(pattern):
        kind, here = token.lastgroup, stack[-1]
        if kind == "open":
            stack.append(_Sequence())
        elif kind == "close" and len(stack) > 1:
            stack[-2].add(stack.pop().ways())
        elif kind == "bar":
            here.alternative()
        elif kind == "repeat":
            here.last = _repeated(here.last, token)
        elif kind in ("backref", "special"):
            raise BadPattern(
                "must not use back references, look-around or other (?…) forms, except (?:…) and (?P<name>…)"
            )
        else:
            here.add(1)
    return stack[0].ways()


def _repeated(ways: int, token: re.Match[str]) -> int:
    """Return the ways of an item with this repetition."""
    least, most = _bounds(token)
    if most <= 1:
        return ways + 1
    if ways > 1:
        raise BadPattern(
            "must not repeat a group that has repetition or alternatives in it, such as (a+)+ or (a|b)*, "
            "which could take very long; use a set such as [ab]* or a glob"
        )
    return 1 if token["mode"] == "+" else min(most - least + 1, _REPEATED)


def _bounds(token: re.Match[str]) -> tuple[int, int]:
    first = token["repeat"][0]
    if first != "{":
        return (1 if first == "+" else 0), (1 if first == "?" else _REPEATED)
    least = int(token["least"] or 0)
    most = int(token["most"] or _REPEATED) if token["comma"] else least
    return least, max(most, least)


Kind = Literal["auto", "exact", "glob", "regex"]

_GLOB_CHARACTERS = frozenset("*?[")
_REFERENCE = re.compile(r"\$(?:(?P<plain>\$)|(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)|\{(?P<braced>\w+)\}|(?P<bad>))")


def kind_of(match: str, kind: Kind) -> Kind:
    """Return the kind of a pattern. `auto`: `^…` is a regular expression, `*`, `?` or `[` make a glob."""
    if kind != "auto":
        return kind
    if match.startswith("^"):
        return "regex"
    return "exact" if _GLOB_CHARACTERS.isdisjoint(match) else "glob"


def compile_match(match: str, kind: Kind = "auto") -> re.Pattern[str]:
    """Return the pattern that a whole model name has to match. Raises BadPattern."""
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
    """Compile an expression; raise where `re` only warns, because a later Python may read it differently."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return re.compile(expression)


def _compile_glob(match: str) -> re.Pattern[str]:
    """Compile a glob: `*` is any text, `?` one character, `[abc]` one of these. Each `*` is a group: $1, $2, …

    The text up to each fixed part is an atomic group, so that matching takes linear time, however many stars there are.
    """
    pieces = [""]
    for part in _GLOB_PART.findall(match):
        if part[0] == "*":  # inside a set it means itself
            pieces.append("")
        else:
            pieces[-1] += _glob_part(part)
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL)
    first, *middle, last = pieces
    inner = "".join(f"(?>(.*?){piece})" for piece in middle)
    return re.compile(f"{first}{inner}(.*){last}", re.DOTALL)


_GLOB_PART = re.compile(r"\*+|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)


def _glob_part(part: str) -> str:
    if part == "?":
        return "."
    if part[0] != "[" or len(part) == 1:
        return re.escape(part)
    negated = part[1] == "!"
    members = part[2 if negated else 1 : -1]
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
    """Raise BadPattern if a template names a group that the pattern doesn't have."""
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
    """Return a template with `$0` (all), `$1` (first group), `$name` and `${name}` filled in; `$$` is a dollar sign."""
    if "$" not in template:
        return template
    return _REFERENCE.sub(lambda reference: "$" if reference["plain"] else found[_group(reference)] or "", template)


def compile_template(template: str) -> re.Pattern[str]:
    """Return a pattern for what a template can become. Its group `whole` is the name that `$0` stands for, if it does.

    Other groups may be any text: what a pattern could have matched there is not looked into. Case does not matter,
    because some upstreams ignore it.
    """
    pieces, end, has_whole = [], 0, False
    for reference in _REFERENCE.finditer(template):
        pieces.append(re.escape(template[end : reference.start()]))
        end = reference.end()
        if reference["plain"] is not None:
            pieces.append(re.escape("$"))
        elif _group(reference) == 0:
            pieces.append("(?P=whole)" if has_whole else "(?P<whole>.*)")
            has_whole = True
        else:
            pieces.append(".*")
    return re.compile("".join([*pieces, re.escape(template[end:])]), re.DOTALL | re.IGNORECASE)


def _group(reference: re.Match[str]) -> int | str:
    key: str = reference["number"] or reference["name"] or reference["braced"] or "0"
    return int(key) if key.isdecimal() else key
