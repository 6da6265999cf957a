"""Secrets in an upstream's errors, however they are spelled."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable

import pytest

from trilogue.model import Failure, FailureKind
from trilogue.upstreams.redaction import Redactor

KEY = "ab/cd<ef+gh==XY.z0123456789"


@pytest.mark.parametrize(
    "spelled",
    [KEY, KEY.replace("/", "\\/"), KEY.replace("<", "\\u003c"), KEY.replace("+", "\\u002B"), KEY[:-5]],
    ids=["plain", "slash", "escaped", "upper", "cut"],
)
def test_every_spelling(spelled: str) -> None:
    """JSON can say the same text in several ways, and what is left is still JSON."""
    body = b'{"error": "your key %b is bad", "code": 7}' % spelled.encode()
    assert json.loads(Redactor([KEY]).body(body)) == {"error": "your key *** is bad", "code": 7}


def test_short_values_are_words() -> None:
    """A header such as `x-team: blue` must not blank every blue."""
    assert Redactor(["blue"]).text("blue is not a team") == "blue is not a team"


def test_long_secrets() -> None:
    """Tokens of thousands of characters are blanked to their end."""
    token = "eyJhbGciOi." + "A1-_" * 1000
    assert Redactor([token]).text(f"Bearer {token} expired") == "Bearer *** expired"


def test_every_part_of_a_failure() -> None:
    """Also its names and what came with it."""
    kept = {"error": {KEY: [KEY, 1, None, {"n": KEY}]}}
    failure = Failure(
        kind=FailureKind.SERVER, message=KEY, code=KEY, type=KEY, param=KEY, request_id=KEY, native=kept, status=500
    )
    blank = Redactor([KEY]).failure(failure)
    assert KEY not in repr(blank)
    assert (blank.kind, blank.status) == (failure.kind, failure.status)
    assert Redactor([KEY]).failure(Failure(kind=FailureKind.SERVER, message="\ud800")).message == "\ud800"


PLAIN = "Zx81kQ0wJm77TtRr55"
"""a key without any vendor's prefix"""


@pytest.mark.parametrize("before", [b"", b"u", b"user:", b"Bearer "])
@pytest.mark.parametrize("alphabet", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("key", [KEY, PLAIN, "\u00fb\u00ff\u00fe>>??~~pass"])
def test_base64(key: str, alphabet: Callable[[bytes], bytes], before: bytes) -> None:
    """As in a header that an upstream quotes: any name may stand before the key, and it may be cut."""
    coded = alphabet(before + key.encode("latin-1"))
    shown = coded[len(base64.b64encode(before).rstrip(b"=")) + 1 :].rstrip(b"=")
    for text in (coded, coded + b"==", coded.replace(b"/", b"\\/")):
        left = Redactor([key]).body(b"bad credentials: " + text)
        assert b"***" in left
        assert shown[:12] not in left


@pytest.mark.parametrize(
    "shown",
    ["Zx81****", "Zx81kQ***Rr55", "Zx81...Rr55", "Zx81\u2026", "Zx81k\u2022\u2022\u2022", "Zx81kQ0w", "Zx81kQ0wJm"],
)
def test_beginnings_of_keys_without_a_prefix(shown: str) -> None:
    """Vendors show the first characters of the key that they refuse, and mask the rest or leave it out."""
    assert Redactor([PLAIN]).text(f"Key {shown} is bad") == "Key *** is bad"
    body = Redactor([PLAIN]).body(json.dumps({"m": f"Key {shown} is bad"}).encode())
    assert json.loads(body) == {"m": "Key *** is bad"}


def test_words_are_no_beginnings() -> None:
    """A key that someone made of words does not blank them."""
    text = "the upstream is upstream... of nothing; Zx81 and Zx81kQ are short"
    assert Redactor(["upstream-secret-1", PLAIN]).text(text) == text.replace("upstream...", "***")


@pytest.mark.parametrize("count", [4, 11, 12, 199])
def test_a_key_of_one_character_takes_no_time(count: int) -> None:
    """Patterns with many optional parts can take for ever."""
    started = time.perf_counter()
    Redactor(["a" * 200]).text(f"{'a' * count} " * 1000)
    assert time.perf_counter() - started < 2


def test_the_shortest_secret() -> None:
    """Eight signs are a secret, seven are a word."""
    assert Redactor(["abcd1234"]).text("key abcd1234.") == "key ***."
    assert Redactor(["abcd123"]).text("key abcd123.") == "key abcd123."


def test_the_beginning_of_a_secret() -> None:
    """Match at least eight characters: shorter matches are coincidences."""
    assert Redactor([KEY]).text(f"key {KEY[:12]}, {KEY[:13]}") == "key ***, ***"
    assert Redactor([KEY]).text(f"key {KEY[:6]} x") == f"key {KEY[:6]} x"


def test_what_follows_a_long_secret() -> None:
    """Only of those that are longer than what is looked at is the rest blanked unseen."""
    token = "A1-_" * 50
    assert Redactor([token]).text(f"{token}XYZ {token}") == "***XYZ ***"
    assert Redactor([f"{token}B"]).text(f"{token}XYZ {token}B") == "*** ***"
