"""JSON in and out: every way it can fail is one of our own errors."""

from __future__ import annotations

from typing import Any

import pytest

from trilogue.errors import BadRequest, InternalError, UpstreamProtocolError
from trilogue.protocols.jsontext import (
    SUSPECT,
    blame,
    dump,
    parse_object,
    parse_request,
    parse_upstream,
)

HOSTILE = [b"", b"[1]", b"{", b'{"a":' * 100_000, b'"\xff"', b'{"a":"\\ud800"}', b"nul", b'{"a":1e999999}', b"9" * 6000]


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_the_senders_fault(data: bytes) -> None:
    """A client's nonsense is a 400, an upstream's a 502, and neither shows its text."""
    with pytest.raises(BadRequest):
        parse_request(data)
    with pytest.raises(UpstreamProtocolError):
        parse_upstream(data)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "it is empty"),
        (" \n", "it is empty"),
        (b"\xef\xbb\xbf{}", "it begins with a byte order mark"),
        ("\ufeff{}", "it begins with a byte order mark"),
        ("{}".encode("utf-16"), "it is not in UTF-8"),
        (b'{"a":"\xe9"}', "it is not in UTF-8"),
    ],
)
def test_what_editors_and_shells_do_to_a_file_is_told(data: bytes | str, told: str) -> None:
    """In words that say what to mend."""
    with pytest.raises(BadRequest, match=f"^not valid JSON: {told}$"):
        parse_request(data)
    with pytest.raises(UpstreamProtocolError, match=f"^not valid JSON: {told}$"):
        parse_upstream(data)


@pytest.mark.parametrize("value", [[], None, 5])
def test_a_value_that_was_parsed_elsewhere_and_is_no_object(value: Any) -> None:
    """The sender's fault too, as it would be in its text."""
    with pytest.raises(BadRequest, match="must be a JSON object"):
        parse_request(value)
    with pytest.raises(UpstreamProtocolError, match="not an object"):
        parse_upstream(value)


@pytest.mark.parametrize(("text", "value"), [("{}", {}), ('{"a":1}', {"a": 1}), ("[]", None), ("{", None), ("", None)])
def test_object_or_nothing(text: str, value: object) -> None:
    """Arguments may be anything; only an object is one."""
    assert parse_object(text) == value


@pytest.mark.parametrize("value", ["\ud800", object()], ids=["half", "object"])
def test_documents_that_are_no_json_are_to_blame(value: object) -> None:
    """A caller's parser may let through what cannot be written: that is no bug of ours."""
    with pytest.raises(SUSPECT):
        dump({"a": value})
    with pytest.raises(BadRequest):
        blame({"a": value}, BadRequest)


def test_a_bug_stays_a_bug() -> None:
    """A good document is not blamed."""
    with pytest.raises(InternalError):
        dump(object())
    blame({"a": 1}, BadRequest)
