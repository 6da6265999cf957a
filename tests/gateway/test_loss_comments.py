"""Losses that are found too late for a header: in the log and, for clients that ask, in a comment of the stream."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

from tests.gateway.pairs import EVERY_CLIENT, PATHS
from tests.gateway.running import CLIENT_KEY, Gateway
from tests.gateway.sockets import KEY, socket_to
from tests.judges.loss_header import members
from tests.scripted.ask import body
from tests.scripted.server import ScriptedUpstream
from trilogue.base.sse import before_last_event
from trilogue.lint import lint_stream
from trilogue.model import Protocol

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
ASKED = {"trilogue-loss-comment": "true"}
COMMENT = re.compile(r"^: trilogue-loss: (.*)\n\n", re.MULTILINE)
LAST = {C: "data: [DONE]", M: "event: message_stop", R: "event: response.completed"}
DROPPED: dict[Protocol, dict[str, Any]] = {C: {"seed": 7}, M: {"top_k": 5}, R: {"max_tool_calls": 3}}
"""what other protocols do not know"""
FOREIGN: dict[Protocol, dict[str, Any]] = {
    M: {
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": f"trl2.{'A' * 80}"},
                    {"type": "text", "text": "Hello."},
                ],
            },
            {"role": "user", "content": "Hi"},
        ]
    },
    R: {
        "input": [
            {"role": "user", "content": "Hi"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": f"trl2.{'A' * 80}"},
            {"role": "user", "content": "Hi"},
        ]
    },
}
"""reasoning that another gateway has sealed, which is a loss even if everything else is passed through"""


def streamed(gateway: Gateway, client: Protocol, model: str, more: dict[str, Any], **headers: str) -> Any:
    asked = body(client, model, stream=True, tools=False) | more
    asked.pop("thinking", None)
    return gateway.http.post(PATHS[client], json=asked, headers=headers)


@pytest.mark.parametrize(("client", "upstream"), [pair for pair in product(Protocol, Protocol) if pair[0] != pair[1]])
def test_a_comment_declares_all_losses_before_the_end(gateway: Gateway, client: Protocol, upstream: Protocol) -> None:
    """It has those of the header and those of the response; the log has them too; the events are the same."""
    model = f"{upstream.short}/search"
    answer = streamed(gateway, client, model, DROPPED[client], **ASKED)
    (comment,) = COMMENT.findall(answer.text)
    declared, header = members(comment), members(answer.headers["trilogue-loss"])
    assert set(header) <= set(declared)
    assert [code for code, _ in declared if code.startswith("citation.")] or {client, upstream} == {C, R}
    assert {code for code, _ in declared} == set(gateway.record(answer.headers["x-request-id"])["losses"])
    assert re.search(COMMENT.pattern + re.escape(LAST[client]), answer.text, re.MULTILINE)
    assert lint_stream(client, answer.content) == []
    quiet = streamed(gateway, client, model, DROPPED[client])
    assert COMMENT.search(quiet.text) is None
    assert len(COMMENT.sub("", answer.text).split("\n\n")) == len(quiet.text.split("\n\n"))


@pytest.mark.parametrize("client", FOREIGN, ids=lambda client: client.short)
def test_a_comment_in_a_stream_that_is_passed_through(gateway: Gateway, client: Protocol) -> None:
    answer = streamed(gateway, client, f"{client.short}/text", FOREIGN[client], **ASKED)
    (comment,) = COMMENT.findall(answer.text)
    assert comment == answer.headers["trilogue-loss"]
    assert members(comment)[0][0] == "reasoning.foreign_dropped"
    assert answer.text.index(comment) < answer.text.rindex(LAST[client])
    assert lint_stream(client, answer.content) == []


@EVERY_CLIENT
def test_no_comment_if_nothing_is_lost(gateway: Gateway, client: Protocol) -> None:
    answer = streamed(gateway, client, f"{client.short}/text", {}, **ASKED)
    assert "trilogue-loss" not in answer.text
    assert "trilogue-loss" not in answer.headers


@EVERY_CLIENT
@pytest.mark.parametrize("scenario", ["reset-mid", "stream-error-mid", "truncate-clean"])
def test_a_stream_that_fails_declares_its_losses_too(gateway: Gateway, client: Protocol, scenario: str) -> None:
    """The comment comes before the error, and the log names the losses."""
    upstream = R if client is M else M
    answer = streamed(gateway, client, f"{upstream.short}/{scenario}", DROPPED[client], **ASKED)
    (comment,) = COMMENT.findall(answer.text)
    assert "param.dropped" in dict(members(comment))
    line = gateway.record(answer.headers["x-request-id"])
    assert line["error"]
    assert "param.dropped" in line["losses"]
    assert '"error"' in answer.text[answer.text.index(comment) :]


def test_a_request_that_fails_shows_its_losses_in_the_log(gateway: Gateway) -> None:
    answer = streamed(gateway, C, "messages/error-500", DROPPED[C])
    assert answer.status_code >= 500
    assert "param.dropped" in gateway.record(answer.headers["x-request-id"])["losses"]


def test_the_last_message_of_a_websocket_has_them(gateway: Gateway) -> None:
    """Messages have no comments: the field of the first event that declares losses is in the last one as well."""
    with socket_to(gateway.url, (*KEY, *ASKED.items())) as socket:
        socket.create("messages/search", max_tool_calls=3)
        events = socket.events()
    losses = [event.get("trilogue_loss") for event in events]
    assert losses[1:-1] == [None] * (len(events) - 2)
    assert events[-1]["type"] == "response.completed"
    first, last = members(losses[0] or ""), members(losses[-1] or "")
    assert set(first) < set(last)
    assert CLIENT_KEY not in str(events)


@EVERY_CLIENT
def test_a_value_that_is_neither(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    answer = streamed(gateway, client, f"{client.short}/text", {}, **{"trilogue-loss-comment": "yes please"})
    assert answer.status_code == 400
    assert "trilogue-loss-comment is true or false" in answer.json()["error"]["message"]
    assert up.requests == []


def test_the_header_stays_here(gateway: Gateway, up: ScriptedUpstream) -> None:
    streamed(gateway, C, "chat/text", {}, **ASKED)
    assert "trilogue-loss-comment" not in dict(up.requests[-1].headers)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"data: 1\n\ndata: 2\n\n", b"data: 1\n\n:x\n\ndata: 2\n\n"),
        (b"data: 2\n\n", b":x\n\ndata: 2\n\n"),
        (b"data: 1\n\ndata: 2", b"data: 1\n\n:x\n\ndata: 2"),
        (b"data: 1\r\n\r\ndata: 2\r\n\r\n", b":x\n\ndata: 1\r\n\r\ndata: 2\r\n\r\n"),
    ],
)
def test_bytes_before_the_last_event(data: bytes, expected: bytes) -> None:
    assert before_last_event(data, b":x\n\n") == expected
