"""No credential reaches a capture file, wherever it was and however the bytes were cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.capture.making import STARTED, in_pieces
from tests.capture.samples import streamed
from trilogue import Protocol
from trilogue.capture import CaptureHead, CaptureWriter, Sent, read_capture, shown_headers, shown_url
from trilogue.capture.credentials import CredentialFilter, without_credentials

KEYS = ("sk-client-canary-000000", "sk-upstream-canary-0000", "query-canary", "login-canary", "canary-odd")


def test_headers_logins_and_queries() -> None:
    """Of headers that are not on the list only the name is kept."""
    data = streamed().file().decode()
    assert [key for key in KEYS if key in data] == []
    assert '"authorization":"***"' in data
    assert '"x-odd":"***"' in data
    assert "beta=true" in data
    assert "api-version=1" in data


def test_which_headers_are_shown() -> None:
    shown = shown_headers([("Content-Type", "text/plain"), ("Cookie", "a=b"), ("X-RateLimit-Remaining", "7")])
    assert shown == {"content-type": "text/plain", "cookie": "***", "x-ratelimit-remaining": "7"}
    assert shown_headers({"user-agent": "app Bearer abcdefghijklmnop"}) == {"user-agent": "app ***"}
    assert shown_url("https://u:p@host:1/a?x=1&beta=true#f") == "https://host:1/a?x=***&beta=true"


MCP: dict[str, Any] = {
    "tools": [
        {
            "type": "mcp",
            "server_url": "https://x",
            "authorization": 'tok"en-canary',
            "headers": {"X-Key": "hdr-canary"},
        },
        {"type": "function", "name": "f", "parameters": {"properties": {"headers": {"type": "object"}}}},
    ],
    "mcp_servers": [{"authorization_token": "mcp-canary"}],
}


def test_fields_of_tools() -> None:
    """Only values are masked, and a schema that has such a property stays as it is."""
    masked = json.loads(without_credentials(json.dumps(MCP).encode()))
    assert "canary" not in json.dumps(masked)
    assert masked["tools"][0]["authorization"] == "***"
    assert masked["tools"][0]["headers"] == {"X-Key": "***"}
    assert masked["tools"][1] == MCP["tools"][1]


def test_a_key_after_an_escaped_line_break() -> None:
    assert without_credentials(rb'{"error": "your key:\nsk-canary0123456789"}') == rb'{"error": "your key:\n***"}'


def test_base64_is_not_taken_for_a_key() -> None:
    """Signatures and sealed values must replay as they were."""
    signature = b'{"signature": "Eq-sk-QUJDREVGR0hJSktMTU5P_-pk-QUJDREVGR0hJSktMTU5P"}'
    assert without_credentials(signature) == signature
    filtered = CredentialFilter()
    assert filtered.feed(signature) + filtered.close() == signature


TEXTS = [
    b'data: {"error": "Incorrect API key provided: sk-proj-canary0123456789. Find it"}\n\n',
    b'{"tools": [{"authorization":"tok-canary-1", "headers" : {"A": "hdr-canary"}}], "x": "Bearer canary.abcdefgh=="}',
    b'{"api_key": "canary", "y": 1} trailing',
    b"ends with a key sk-canary-0123456789",
    b'cut inside: {"authorization": "canary-not-closed',
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_credential_that_is_cut_between_two_pieces(text: bytes, size: int) -> None:
    credentials = CredentialFilter()
    out = b"".join(credentials.feed(piece) for piece in in_pieces(text, size)) + credentials.close()
    assert b"canary" not in out
    assert b"***" in out
    assert out[:6] == text[:6]
    if text in TEXTS[:3]:
        assert out == without_credentials(text)


def test_ordinary_bytes_pass_unchanged_and_at_once() -> None:
    credentials = CredentialFilter()
    data = b'data: {"choices":[{"delta":{"content":"the authorization of headers, sk"}}]}\n\n'
    assert credentials.feed(data) == data
    assert credentials.close() == b""


def test_known_secrets_need_not_look_like_keys() -> None:
    """Those of the account, and those in the headers of client and upstream; also if the network cuts them."""
    writer = CaptureWriter(CaptureHead(started=STARTED))
    writer.inbound(STARTED, Protocol.CHAT, ("POST", "/"), {"X-Api-Key": "swordfish"}, b'{"a": "swordfish"}')
    headers = (("authorization", "Bearer open-sesame"),)
    body = b'{"b": "swordfish hunter-22 open-sesame"}'
    writer.attempt(
        STARTED, Sent(protocol=Protocol.CHAT, url="http://x/", headers=headers, body=body, secrets=("hunter-22",))
    )
    writer.upstream_start(STARTED, 401, {})
    for piece in in_pieces(b'{"error": "hunter-22 and open-sesame are wrong, hunter-2 is not"}', 5):
        writer.upstream_chunk(STARTED, piece)
    writer.upstream_failed(STARTED, "keys sk-aaaaaaaaaaaaaaaa, hunter-22")
    writer.finished(STARTED)
    data = writer.take()
    assert [one for one in (b"hunter-22", b"open-sesame", b"swordfish", b"sk-aaaa") if one in data] == []
    response = read_capture(data).attempts[0].response
    assert response.body == b'{"error": "*** and *** are wrong, hunter-2 is not"}'
    assert response.error == "keys ***, ***"
    assert "hunter" not in repr(Sent(protocol=Protocol.CHAT, url="http://x/", secrets=("hunter-22",)))


def test_a_large_body_is_searched_in_slices() -> None:
    """A key at the border of two slices is found, and a word that is cut there is not taken for one."""
    texts = [f"task-{number:014d} " + "x" * 1000 for number in range(200)]
    texts[63] += " sk-canary-0123456789abcdef"
    body = json.dumps({"headers": {"A": "hdr-canary"}, "texts": texts}).encode()
    masked = json.loads(CredentialFilter().whole(body))
    assert masked["headers"] == {"A": "***"}
    assert [one for one in masked["texts"] if "canary" in one] == []
    assert masked["texts"][62] == texts[62]
    assert masked["texts"][63].endswith("x ***")
