"""Shell commands: whether a command line runs something that a rule forbids.

A rule is a command with options and words: `rm -rf`, `git push --force`, `curl`. It fits a command that has the same
name, all of these options in any spelling (`-rf`, `-r -f`, `--recursive --force`) and all of these words. Commands are
found behind `;`, `&&`, pipes, substitutions, `sudo`, `env`, `xargs`, `sh -c` and the like. This catches mistakes of a
model. It does not replace a sandbox: a script can hide what it runs (`$X`, `base64 -d | sh`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

from msgspec import Struct

_LONG = {
    "recursive": "r",
    "force": "f",
    "verbose": "v",
    "interactive": "i",
    "all": "a",
    "quiet": "q",
}
"""long options and the letters that they are the same as in most commands"""
_WRAPPERS = frozenset(
    {"sudo", "doas", "env", "nohup", "time", "nice", "ionice", "xargs", "exec", "command", "builtin", "timeout"}
    | {"stdbuf", "setsid", "then", "do", "else", "!", "eval", "busybox", "chroot", "watch", "find", "parallel"}
)
"""commands that run the command in their arguments"""
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "eval", "su", "ssh", "watch", "parallel"})
"""commands that run a text in their arguments"""
_MOST_LETTERS = 3
"""letters behind one hyphen in a rule that are options of their own"""
_DEEPEST = 8
"""levels of commands inside commands that are looked at"""
_MOST_TRIED = 50
"""commands of one command line that are compared with the rules; a line with more fits every rule"""
_MOST = 100_000
"""characters of a command line that are looked at; a longer one fits every rule"""


class CommandRule(Struct, frozen=True):
    """A forbidden command: its name, its options, and its other words."""

    name: str
    options: frozenset[str]
    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> CommandRule:
        """Return the rule that a text such as `rm -rf` describes."""
        name, *rest = text.split()
        options, words = _sorted_words(rest)
        # `-rf` means two letters, `-delete` is a name.
        letters = {word[1:] for word in rest if _is_short(word) and 2 < len(word) <= _MOST_LETTERS + 1}
        names = {word[1:] for word in rest if _is_short(word) and len(word) > _MOST_LETTERS + 1}
        return cls(name, (options - letters - {letter for name in names for letter in name}) | names, words)

    def fits(self, words: list[str]) -> bool:
        """Return whether a simple command, as a list of words, is what this rule forbids."""
        if not words or not fnmatchcase(_base_name(words[0]), self.name):
            return False
        options, others = _sorted_words(words[1:])
        if not self.options <= options:
            return False
        return all([any([fnmatchcase(given, word) for given in others]) for word in self.words])


def forbidden_by(text: str, rules: tuple[CommandRule, ...]) -> int | None:
    """Return the number of the first rule that a command line breaks, or None."""
    if not rules:
        return None
    if len(text) > _MOST:
        return 0
    names = tuple([rule.name for rule in rules])
    for tried, words in enumerate(simple_commands(text, names)):
        found = [number for number, rule in enumerate(rules) if rule.fits(words)]
        # No real command line repeats a forbidden name that often.
        if found or tried == _MOST_TRIED:
            return found[0] if found else 0
    return None


def simple_commands(text: str, names: tuple[str, ...], depth: int = 0) -> Iterator[list[str]]:
    """Yield the words of every command with one of these names, also of commands inside of others."""
    for words, inner in _split(text):
        wrapped = True
        for number, word in enumerate(words):
            # Any word may be the command behind a wrapper: `sudo -u me rm`, `xargs -0 rm`, `env A=1 rm`.
            if wrapped and any([fnmatchcase(_base_name(word), name) for name in names]):
                yield words[number:]
            if number == 0:
                wrapped = False
            wrapped = wrapped or _base_name(word) in _WRAPPERS or _is_assignment(word)
        if depth < _DEEPEST:
            for part in _texts_inside(words, inner):
                yield from simple_commands(part, names, depth + 1)


def _texts_inside(words: list[str], inner: list[str]) -> set[str]:
    """Return the texts in a command that are run as commands: substitutions, and what a shell is given."""
    if not any([_base_name(word) in _SHELLS for word in words]):
        return set(inner)
    return {*inner, *[word for word in words[1:] if any(map(str.isspace, word))]}


def _is_assignment(word: str) -> bool:
    name, separator, _ = word.partition("=")
    return bool(separator) and name.isidentifier()


def _is_short(word: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and len(word) > 1


def _base_name(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def _sorted_words(words: list[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return options, each short one on its own and in lower case if it is `-R`, and the other words."""
    options: set[str] = set()
    others: list[str] = []
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name = word[2:].partition("=")[0]
            options.add(_LONG.get(name, name))
        elif _is_short(word):
            options.update("r" if letter == "R" else letter for letter in word[1:])
            # Some programs have long options with one hyphen: `find -delete`.
            options.add(word[1:])
        else:
            others.append(word)
    return frozenset(options), tuple(others)


def _split(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield simple commands as words, each with the quoted texts in it that hold further commands."""
    words: list[str] = []
    inner: list[str] = []
    word: list[str] | None = None
    for token in _TOKENS.finditer(text):
        kind, value = token.lastgroup, token.group()
        if kind in ("space", "end"):
            words += [] if word is None else ["".join(word)]
            word = None
        if kind == "end":
            yield words, inner
            words, inner = [], []
        if kind in ("space", "end"):
            continue
        word = [] if word is None else word
        word.append(_UNQUOTED.get(kind or "", str)(value))
        if kind == "double" and ("$(" in value or "`" in value):
            inner.append(value[1:-1])
    words += [] if word is None else ["".join(word)]
    yield words, inner


_TOKENS = re.compile(
    r"""
      (?P<single>'[^']*')
    | (?P<double>"(?:[^"\\]|\\.)*")
    | (?P<escape>\\.)
    | (?P<end>[;&|\n(){}`]|\$\()
    | (?P<space>[\s<>]+)
    | (?P<plain>[^\s<>;&|(){}`'"\\$]+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
"""the parts of a command line; a quote that is never closed is an ordinary character"""
_UNQUOTED: dict[str, Callable[[str], str]] = {
    "single": lambda text: text[1:-1],
    "double": lambda text: text[1:-1],
    # A backslash before a line break continues the line.
    "escape": lambda text: text[1:].replace("\n", ""),
}
