"""Hostile YAML is refused quickly, with our own error."""

import contextlib
import re
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trilogue.config import yaml_file
from trilogue.config.yaml_file import MAX_BYTES, read_document
from trilogue.errors import ConfigError

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "aliases expand too much"),
        ("a: &a\n  b: *a\n", "nested too deeply"),
        ("[" * 100, "not valid YAML|nested too deeply"),
        ("[" * 100_000, "not valid YAML|nested too deeply"),
        ("- " * 300_000, "nested too deeply"),
        ("{a: " * 200_000, "nested too deeply"),
        ("a: " + "[" * 40 + "]" * 40, "nested too deeply"),
        ("x: " + "9" * 5000, "number"),
        ("a: \x00", "UTF-8"),
        ("a: b\x07", "UTF-8"),
        (" " * (MAX_BYTES + 1), "larger than"),
    ],
)
def test_hostile_documents(text: str, message: str) -> None:
    """Alias bombs, loops, depth, huge numbers and control characters are refused."""
    began = time.perf_counter()
    with pytest.raises(ConfigError, match=message):
        read_document(text.encode())
    assert time.perf_counter() - began < 10


DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
EXAMPLES = [
    text for file in sorted(DOCS.glob("*.md")) for text in re.findall(r"```yaml\n(.*?)```", file.read_text(), re.S)
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_loader_reads_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both loaders give the same result; the one in C is not available everywhere."""
    here = read_document(text.encode())
    monkeypatch.setattr(yaml_file, "_FAST", yaml.SafeLoader)
    assert read_document(text.encode()) == here


def test_not_utf8() -> None:
    """Bytes that are not text are refused."""
    with pytest.raises(ConfigError, match="UTF-8"):
        read_document(b"a: \xff\xfe")


def test_byte_order_mark_is_ignored() -> None:
    """A byte order mark is ignored, because some editors write one."""
    assert read_document("\ufeffa: 1\n".encode()).data == {"a": 1}


def test_lines_are_known() -> None:
    """An unknown path has the line of the nearest setting around it."""
    read = read_document(b"a:\n  b:\n    - c: 1\n      d: 2\n")
    assert [read.line(path) for path in ("a", "a.b", "a.b[0].d", "a.b[0].missing", "zzz")] == [1, 2, 4, 3, 1]


@given(st.text("ab:{}[]&*!|>-? \n'\"#%@,0.<~", max_size=60))
def test_only_our_error_escapes(text: str) -> None:
    """Whatever a file contains, the user gets lines and not a traceback."""
    with contextlib.suppress(ConfigError):
        assert read_document(text.encode()).lines is not None
