"""Regular expressions of users cannot hang the server."""

import re
import time

import pytest

from tests.timing import check_within
from trilogue.routing.model_names import MAX_MODEL_NAME, BadPattern, check_regex, compile_match

TOO_LONG = [
    r"(a+)+",
    r"(a+)+$",
    r"^(a*)*$",
    r"(a|a)*b",
    r"(a|ab)+c",
    r"((a)|b)*",
    r"(?:a?){30}a{30}",
    r"(?P<x>\w+)*",
    r"([a-z]+){2,}",
    r"(?:(?:a{1,9})b)+",
    r".*.*.*.*x",
    "a?" * 60 + "a" * 60,
    "(a|a)" * 39,
    ".{0,99}" * 5,
    "(.*)" * 4,
]


@pytest.mark.parametrize("pattern", TOO_LONG)
def test_patterns_that_could_explode_are_refused(pattern: str) -> None:
    """Each of these would take seconds to centuries for a name that almost matches."""
    with pytest.raises(BadPattern, match="very long"):
        check_regex(pattern)


@pytest.mark.parametrize("pattern", [r"(.)\1", r"(?=.*a)b", r"(?!x)y", r"(?i)gpt", r"(?P<a>x)(?P=a)", r"(?<=a)b"])
def test_forms_that_cannot_be_counted_are_refused(pattern: str) -> None:
    """Back references and look-around multiply the work in ways that the counter does not see."""
    with pytest.raises(BadPattern, match="must not use back references"):
        check_regex(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^gpt-(\d)(\.\d+)?-(mini|nano)?$",
        r"claude-(.+)-(\d{8})",
        r"(?P<vendor>[a-z]+)/(?P<rest>.*)",
        r"(.*)-(.*)-(.*)",
        r"[^-]++-[^-]++-[^-]++-(.+)",
        r"(?:ab)*c",
        r"[(+*)]+x",
        r"\(a+\)+",
        r"o[1-9](-.*)?",
        r"a{}b{x}",
    ],
)
def test_useful_patterns_are_allowed(pattern: str) -> None:
    """The check does not refuse what routes need."""
    check_regex(pattern)
    re.compile(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["(.*)(.*)(.*)x", "(.*)(.*)" + "(a|a)" * 6 + "x", "(a|a)" * 19 + "x", "a?" * 19 + "x", ".*.*" + "a" * 150 + "b"],
)
def test_the_worst_allowed_pattern_is_quick(pattern: str) -> None:
    """The limit was chosen by measurement. This repeats it, with a large margin for slow machines."""
    compiled = compile_match(pattern, "regex")
    began = time.perf_counter()
    assert compiled.fullmatch("a" * MAX_MODEL_NAME) is None
    check_within(time.perf_counter() - began, 2)


def test_globs_are_linear() -> None:
    """A glob may have any number of stars, and matching does not backtrack."""
    compiled = compile_match("*a" * 99 + "*b")
    began = time.perf_counter()
    assert compiled.fullmatch("a" * MAX_MODEL_NAME) is None
    check_within(time.perf_counter() - began, 0.5)


def test_length_is_bounded() -> None:
    """A pattern has at most 200 characters, whatever its kind."""
    for kind in ("exact", "glob", "regex"):
        compile_match("a" * 200, kind)
        with pytest.raises(BadPattern, match="at most 200"):
            compile_match("a" * 201, kind)
