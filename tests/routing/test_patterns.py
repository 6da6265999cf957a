"""Matching model names and writing new ones."""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilogue.routing.model_names import BadPattern, Kind, check_template, compile_match, expand, kind_of


@pytest.mark.parametrize(
    ("match", "kind"),
    [("gpt-5", "exact"), ("gpt-*", "glob"), ("gpt-?", "glob"), ("gpt-[45]", "glob"), (r"^gpt-\d$", "regex")],
)
def test_auto_kind(match: str, kind: Kind) -> None:
    """The kind of a pattern is recognized, because people do not say which kind they write."""
    assert kind_of(match, "auto") == kind
    assert kind_of(match, "exact") == "exact"


@pytest.mark.parametrize(
    ("match", "name", "template", "written"),
    [
        ("gpt-5", "gpt-5", "$0", "gpt-5"),
        ("gpt-5", "gpt-5", "other", "other"),
        ("gpt-*", "gpt-5-mini", "openai/$1", "openai/5-mini"),
        ("*-*-x", "a-b-c-x", "$1|$2", "a|b-c"),
        ("a?c[0-9]*", "abc7z", "$1", "z"),
        ("a[!b]c", "axc", "$0", "axc"),
        ("gpt.5*", "gpt.5", "<$1>", "<>"),
        (r"^claude-(?P<size>\w+)-(\d)$", "claude-opus-4", "c$2-$size-${size}x", "c4-opus-opusx"),
        (r"^a(b)?c$", "ac", "x$1", "x"),
        ("m", "m", "cost$$1", "cost$1"),
    ],
)
def test_match_and_write(match: str, name: str, template: str, written: str) -> None:
    """The upstream's model name is made from what was matched."""
    pattern = compile_match(match)
    check_template(template, pattern)
    found = pattern.fullmatch(name)
    assert found is not None
    assert expand(template, found) == written


@pytest.mark.parametrize(
    ("match", "name"),
    [("gpt-5", "gpt-5x"), ("gpt-5", "xgpt-5"), ("gpt.5", "gptx5"), ("gpt-*", "GPT-5"), ("a[!b]c", "abc"), ("a?", "a")],
)
def test_no_match(match: str, name: str) -> None:
    """The whole name has to match, with its case, and a dot matches only a dot."""
    assert compile_match(match).fullmatch(name) is None


@given(st.text("ab*?[]!-^\\", max_size=12), st.text("ab-^\\]!", max_size=12))
def test_globs_agree_with_the_standard_library(match: str, name: str) -> None:
    """Our linear translation of globs has the same meaning as globs elsewhere."""
    try:
        ours = compile_match(match, "glob")
    except BadPattern:
        return
    assert (ours.fullmatch(name) is not None) == fnmatch.fnmatchcase(name, match)


@pytest.mark.parametrize(("match", "name"), [("[-*]", "-"), ("[-*]", "*"), ("a[*]b*", "a*bc"), ("[!-*]", "x")])
def test_a_star_inside_of_a_set(match: str, name: str) -> None:
    """A star inside of a set is a plain character, as in the shell."""
    assert compile_match(match, "glob").fullmatch(name)
    assert fnmatch.fnmatchcase(name, match)


@pytest.mark.parametrize("template", ["", "$2", "$name", "${x}", "a$", "$-", "x" * 201])
def test_bad_templates_are_refused(template: str) -> None:
    """A missing group would otherwise cause a failure with the first request."""
    with pytest.raises(BadPattern):
        check_template(template, compile_match("gpt-*"))


@pytest.mark.parametrize(
    ("match", "kind"),
    [("", "auto"), ("^(", "regex"), ("^[a", "regex"), ("*", "regex"), ("[[a]x", "regex"), ("[?--]", "glob")],
)
def test_bad_patterns_are_refused(match: str, kind: Kind) -> None:
    """Whatever `re` raises or only warns about is one kind of error."""
    with pytest.raises(BadPattern):
        compile_match(match, kind)
