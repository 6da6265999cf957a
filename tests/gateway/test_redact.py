"""Secrets in an upstream's errors, however they are spelled."""

from __future__ import annotations

import json

import pytest

from trilogue.gateway.redact import Blank
from trilogue.model import Failure, FailureKind

KEY = "ab/cd<ef+gh==XY.z0123456789"


@pytest.mark.parametrize(
    "spelled",
    [KEY, KEY.replace("/", "\\/"), KEY.replace("<", "\\u003c"), KEY.replace("+", "\\u002B"), KEY[:-5]],
    ids=["plain", "slash", "escaped", "upper", "cut"],
)
def test_every_spelling(spelled: str) -> None:
    """JSON can say the same text in several ways, and what is left is still JSON."""
    body = b'{"error": "your key %b is bad", "code": 7}' % spelled.encode()
    assert json.loads(Blank([KEY]).body(body)) == {"error": "your key *** is bad", "code": 7}


def test_short_values_are_words() -> None:
    """A header such as `x-team: blue` must not blank every blue."""
    assert Blank(["blue"]).text("blue is not a team") == "blue is not a team"


def test_long_secrets() -> None:
    """Tokens of thousands of characters are blanked to their end."""
    token = "eyJhbGciOi." + "A1-_" * 1000
    assert Blank([token]).text(f"Bearer {token} expired") == "Bearer *** expired"


def test_every_part_of_a_failure() -> None:
    """Also its names and what came with it."""
    kept = {"error": {KEY: [KEY, 1, None, {"n": KEY}]}}
    failure = Failure(
        kind=FailureKind.SERVER, message=KEY, code=KEY, type=KEY, param=KEY, request_id=KEY, native=kept, status=500
    )
    blank = Blank([KEY]).failure(failure)
    assert KEY not in repr(blank)
    assert (blank.kind, blank.status) == (failure.kind, failure.status)
    assert Blank([KEY]).failure(Failure(kind=FailureKind.SERVER, message="\ud800")).message == "\ud800"


def test_the_shortest_secret() -> None:
    """Eight signs are a secret, seven are a word."""
    assert Blank(["abcd1234"]).text("key abcd1234.") == "key ***."
    assert Blank(["abcd123"]).text("key abcd123.") == "key abcd123."


def test_the_beginning_of_a_secret() -> None:
    """Twelve signs of it are no accident, eleven may be one."""
    assert Blank([KEY]).text(f"key {KEY[:12]}, {KEY[:13]}") == "key ***, ***"
    assert Blank([KEY]).text(f"key {KEY[:11]} x") == f"key {KEY[:11]} x"


def test_what_follows_a_long_secret() -> None:
    """Only of those that are longer than what is looked at is the rest blanked unseen."""
    token = "A1-_" * 50
    assert Blank([token]).text(f"{token}XYZ {token}") == "***XYZ ***"
    assert Blank([f"{token}B"]).text(f"{token}XYZ {token}B") == "*** ***"
