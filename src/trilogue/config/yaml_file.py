"""Read YAML text into plain data, with limits on size, depth and alias expansion, without tags or duplicate keys.

Returns the data together with the line of every setting. It does not know what the settings mean. The text may contain
secrets, so errors show nothing of it but names of keys.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from msgspec import Struct

from trilogue.base.problems import Problem, join, quote_key
from trilogue.errors import ConfigError

MAX_BYTES = 1024 * 1024
MAX_NODES = 50_000
MAX_DEPTH = 30

_Loader = type[yaml.SafeLoader] | type[yaml.CSafeLoader]
_FAST: _Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""the loader in C if PyYAML has it: it reads a thousand accounts in 60 ms instead of 300"""

_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_HARMLESS = re.compile(r".{0,3}|<[a-z ]+>", re.DOTALL)
"""quotes that an error may contain: up to three characters, and the parser's own names for parts of a document"""


class YamlDocument(Struct, frozen=True):
    """The content of a file and where its settings are."""

    data: Any
    lines: dict[str, int]
    """line of every setting, by its path"""

    def line(self, path: str) -> int | None:
        """Return the line of a setting, or of the nearest setting around it, or None."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path)


def read_document(data: bytes) -> YamlDocument:
    """Parse the bytes of a YAML file. Raises ConfigError if they are not valid or exceed a limit."""
    if len(data) > MAX_BYTES:
        raise _error(f"the file is larger than {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
        try:
            return _document(text, _FAST)
        except yaml.YAMLError:
            # The loader in Python explains errors better than the one in C.
            return _document(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        text = _QUOTED.sub(_hide, error.problem or "cannot be read")
        raise _error(f"not valid YAML: {text}", None if mark is None else mark.line + 1) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise _error("the file must be text in UTF-8 without control characters") from None
    except RecursionError:
        raise _error("the file is nested too deeply") from None
    except (ValueError, TypeError, OverflowError):
        raise _error("a number or date in the file is not valid; put text in quotes") from None


def _document(text: str, kind: _Loader) -> YamlDocument:
    """Parse the text with one of the loaders. Raises ConfigError or whatever the loader raises."""
    if kind is not yaml.SafeLoader:
        _check_depth(text, kind)
    loader = kind(text)
    node = loader.get_single_node()
    if node is None:
        return YamlDocument({}, {})
    walk = _Walk()
    walk.visit(node, "", 0)
    if walk.problems:
        raise ConfigError(walk.problems)
    return YamlDocument(loader.construct_document(node), walk.lines)


def _check_depth(text: str, kind: _Loader) -> None:
    """Raise ConfigError if the text is nested too deeply.

    This runs before anything is built, because the loader in C has no limit and would overflow the stack.
    """
    depth = 0
    for event in yaml.parse(text, Loader=kind):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _error(
                "the file is nested too deeply", None if event.start_mark is None else event.start_mark.line + 1
            )


def _hide(quoted: re.Match[str]) -> str:
    """Return the quoted text if it cannot be a secret, and otherwise an ellipsis."""
    inner = quoted[1] or quoted[2] or ""
    return quoted[0] if _HARMLESS.fullmatch(inner) else "'…'"


def _error(text: str, line: int | None = None) -> ConfigError:
    return ConfigError([Problem("", text, line)])


class _Walk:
    """A visit to every node, with aliases written out, so that a small file cannot expand into a huge one."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []
        self._left = MAX_NODES

    def visit(self, node: yaml.Node, path: str, depth: int) -> None:
        """Note the line of a node and of everything in it. Raises ConfigError if it is too deep or too large."""
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            raise _error("the file is nested too deeply, or its aliases expand too much", node.start_mark.line + 1)
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            self._visit_mapping(node, path, depth)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.visit(item, f"{path}[{index}]", depth + 1)

    def _visit_mapping(self, node: yaml.MappingNode, path: str, depth: int) -> None:
        """Visit the values of a mapping. PyYAML accepts duplicate keys, so they are found here."""
        seen = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(Problem(path, "a key must be text", line))
                continue
            if key.value in seen:
                self.problems.append(Problem(path, f"the key {quote_key(key.value)} appears twice", line))
            seen.add(key.value)
            inner = join(path, key.value)
            self.lines.setdefault(inner, line)
            self.visit(value, inner, depth + 1)
