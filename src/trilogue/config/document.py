"""YAML text to plain data, safely: bounded in size, depth and expansion, no tags, no duplicate keys.

Beside the data it tells the line of every setting. It does not know what the settings mean. Nothing of the text gets
into an error but names of keys, since the text may hold secrets.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from msgspec import Struct

from trilogue.config.problems import ConfigError, Problem, join, shown

MAX_BYTES = 1024 * 1024
MAX_NODES = 50_000
MAX_DEPTH = 30

_Loader = type[yaml.SafeLoader] | type[yaml.CSafeLoader]
_FAST: _Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""the one in C where there is one: a thousand accounts take 60 ms rather than 300"""

_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_HARMLESS = re.compile(r".{0,3}|<[a-z ]+>", re.DOTALL)
"""what the parser may quote: single signs, and its own names for parts of a document"""


class YamlDocument(Struct, frozen=True):
    """What a file says. `lines`: setting → line."""

    data: Any
    lines: dict[str, int]

    def line(self, path: str) -> int | None:
        """The line of a setting, or of the nearest one around it."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path)


def read_document(data: bytes) -> YamlDocument:
    """Parse YAML. Raises ConfigError."""
    if len(data) > MAX_BYTES:
        raise _error(f"the file is larger than {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
        try:
            return _document(text, _FAST)
        except yaml.YAMLError:
            return _document(text, yaml.SafeLoader)  # which says better what is wrong
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
    """Before anything is built: the loader in C follows a text as deep as it goes, beyond the end of the stack."""
    depth = 0
    for event in yaml.parse(text, Loader=kind):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _error(
                "the file is nested too deeply", None if event.start_mark is None else event.start_mark.line + 1
            )


def _hide(quoted: re.Match[str]) -> str:
    inner = quoted[1] or quoted[2] or ""
    return quoted[0] if _HARMLESS.fullmatch(inner) else "'…'"


def _error(text: str, line: int | None = None) -> ConfigError:
    return ConfigError([Problem("", text, line)])


class _Walk:
    """Visits every node as if aliases were written out, so that a small file cannot stand for a huge one."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []
        self._left = MAX_NODES

    def visit(self, node: yaml.Node, path: str, depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            raise _error("the file is nested too deeply, or its aliases stand for too much", node.start_mark.line + 1)
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            self._visit_mapping(node, path, depth)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.visit(item, f"{path}[{index}]", depth + 1)

    def _visit_mapping(self, node: yaml.MappingNode, path: str, depth: int) -> None:
        seen = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(Problem(path, "a key must be text", line))
                continue
            if key.value in seen:
                self.problems.append(Problem(path, f"the key {shown(key.value)} is there twice", line))
            seen.add(key.value)
            inner = join(path, key.value)
            self.lines.setdefault(inner, line)
            self.visit(value, inner, depth + 1)
