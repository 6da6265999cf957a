"""The same protocol on both sides: bytes go through untouched, in both directions."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.gateway.pairs import EVERY_CLIENT, PATHS
from tests.gateway.running import CLIENT_KEY, Gateway
from tests.judges.loss_header import codes
from tests.scripted.ask import body
from tests.scripted.http import LAST_CHUNK, Do, chunk, sse_answer, stream_head, whole
from tests.scripted.server import KEY, ScriptedUpstream
from trilogue.model import Opaque, OpaqueKind, Protocol, Provenance
from trilogue.translate.reasoning.seal import Sealer

STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
ODD = {"x-unknown": [1.50, 1e2, "\u65e5\ud83d\ude00", {"model": "inner", "b": None, "a": -0.0}]}


def odd_request(client: Protocol, stream: bool) -> bytes:
    """A request with fields nobody knows, in a layout nobody would choose, its model name neither first nor last."""
    asked = {**ODD, **body(client, f"{client.short}/text", stream=stream), "zz_last": 0.10}
    return json.dumps(asked, indent=3, ensure_ascii=True).replace("1.5,", "1.50 ,").encode()


@EVERY_CLIENT
@STREAMED
def test_request_bytes(gateway: Gateway, up: ScriptedUpstream, client: Protocol, stream: bool) -> None:
    """Only the model's name changes: white space, order, numbers and escapes stay, and so does the query."""
    sent = odd_request(client, stream)
    path = f"{PATHS[client]}?beta=true&x=%20y"
    answer = gateway.http.post(path, content=sent, headers={"content-type": "application/json"})
    assert answer.status_code == 200
    assert up.last().body == sent.replace(f'"{client.short}/text"'.encode(), b'"text"')
    assert up.last().query == "beta=true&x=%20y"


def fields(body: bytes) -> list[tuple[str, Any]]:
    """The fields of a request, each as often as it is there."""
    found: list[tuple[str, Any]] = json.loads(body, object_pairs_hook=list)
    return found


@EVERY_CLIENT
@pytest.mark.parametrize("name", ["model", r"m\u006fdel"])
@pytest.mark.parametrize("first", ["no-such-model", "responses/no-such-model", "{client}/text", "text"])
def test_two_models(gateway: Gateway, up: ScriptedUpstream, client: Protocol, name: str, first: str) -> None:
    """The last one routes the request, and an upstream that goes by the first must not see another."""
    rest = json.dumps(body(client, f"{client.short}/text", stream=False)).removeprefix("{")
    sent = f'{{"{name}": "{first.format(client=client.short)}", {rest}'.encode()
    answer = gateway.http.post(PATHS[client], content=sent, headers={"content-type": "application/json"})
    assert answer.status_code == 200
    assert [value for field, value in fields(up.last().body) if field == "model"] == ["text"]


@EVERY_CLIENT
@pytest.mark.parametrize(("first", "last"), [(True, False), (False, True)])
def test_streaming_said_twice(
    gateway: Gateway, up: ScriptedUpstream, client: Protocol, first: bool, last: bool
) -> None:
    """The upstream is asked for what the client is going to get."""
    rest = json.dumps(body(client, f"{client.short}/text", stream=last) | {"stream": last}).removeprefix("{")
    sent = f'{{"stream": {json.dumps(first)}, {rest}'.encode()
    answer = gateway.http.post(PATHS[client], content=sent, headers={"content-type": "application/json"})
    assert answer.headers["content-type"].startswith("text/event-stream") is last
    assert [value for field, value in fields(up.last().body) if field == "stream"] == [last]


@EVERY_CLIENT
def test_a_key_in_odd_places_stays_here(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """Some clients show it twice: the place where it is not looked for is no way to an upstream either."""
    quoted = CLIENT_KEY.replace("-", "%2D")
    path = f"{PATHS[client]}?key={CLIENT_KEY}&beta=true&token={quoted}"
    headers = {"x-gateway-token": CLIENT_KEY, "x-auth": f"Token {CLIENT_KEY}", "x-other": "1"}
    asked = body(client, f"{client.short}/text", stream=False)
    assert gateway.http.post(path, json=asked, headers=headers).status_code == 200
    assert up.last().query == "beta=true"
    assert up.last().header("x-other") == "1"
    assert CLIENT_KEY not in str(up.last().headers)


@pytest.mark.parametrize("sealed", ["trl1.AAAA", "trl2.AAAA"])
def test_sealed_values_stay_here(gateway: Gateway, up: ScriptedUpstream, sealed: str) -> None:
    """A client that talked to another upstream before has them in its history. Only they are left out, and declared."""
    asked = body(Protocol.MESSAGES, "messages/text", stream=False)
    thought = {"type": "thinking", "thinking": "t", "signature": sealed}
    said = {"role": "assistant", "content": [thought, {"type": "text", "text": "Hi"}]}
    sent = {**asked, "messages": [*asked["messages"], said, *asked["messages"]]}
    answer = gateway.http.post("/v1/messages", json=sent)
    assert codes(answer.headers) == ["reasoning.foreign_dropped"]
    kept = [*asked["messages"], {**said, "content": said["content"][1:]}, *asked["messages"]]
    assert json.loads(up.last().body) == {**sent, "model": "text", "messages": kept}
    refused = gateway.http.post("/v1/messages", json=sent, headers={"trilogue-mode": "strict"})
    assert refused.status_code == 400


def test_sealed_by_a_key_that_is_lost(gateway: Gateway, up: ScriptedUpstream) -> None:
    """It could be of a gateway behind this one, so that it is sent; an upstream that refuses it is asked without."""
    asked = body(Protocol.MESSAGES, "messages/text", stream=False)
    origin = Provenance(protocol=Protocol.RESPONSES)
    lost = Sealer.ephemeral().seal(Opaque(kind=OpaqueKind.ENCRYPTED, value="theirs"), origin)
    thought = {"type": "thinking", "thinking": "t", "signature": lost}
    said = {"role": "assistant", "content": [thought, {"type": "text", "text": "Hi"}]}
    answer = gateway.http.post(
        "/v1/messages", json={**asked, "messages": [*asked["messages"], said, *asked["messages"]]}
    )
    assert answer.status_code == 200
    assert codes(answer.headers) == ["reasoning.foreign_dropped"]
    assert [lost.encode() in request.body for request in up.requests] == [True, False]


@EVERY_CLIENT
@STREAMED
def test_response_bytes(gateway: Gateway, up: ScriptedUpstream, client: Protocol, stream: bool) -> None:
    """What the upstream says is what the client gets, unknown fields and events and all."""
    frames = [b'event: novel.thing\ndata: {"type":"novel.thing","x": 1.50 }\n\n', b": a comment\n\n"]
    frames[1:1] = list(_frames(gateway, up, client))
    body_bytes = b'{ "unknown" : 1.50,' + _whole(gateway, up, client)[1:]
    up.say(*(sse_answer(frames) if stream else [whole(200, [], body_bytes)]))
    answer = _ask(gateway, client, stream=stream)
    assert answer.content == (b"".join(frames) if stream else body_bytes)


@EVERY_CLIENT
def test_half_of_a_character(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """An upstream that cut a text inside of an emoji has answered all the same."""
    body_bytes = b'{"unknown":"cut \\ud83d",' + _whole(gateway, up, client)[1:]
    up.say(whole(200, [], body_bytes))
    answer = _ask(gateway, client, stream=False)
    assert (answer.status_code, answer.content) == (200, body_bytes)


@EVERY_CLIENT
@pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: protocol.short)
def test_a_byte_order_mark(gateway: Gateway, up: ScriptedUpstream, client: Protocol, upstream: Protocol) -> None:
    """An upstream that begins its JSON with one has answered all the same, and the client's parser need not take it."""
    asked = body(client, f"{upstream.short}/text", stream=False)
    plain = gateway.http.post(PATHS[client], json=asked).json()
    up.say(whole(200, [], b"\xef\xbb\xbf" + _whole(gateway, up, upstream)))
    answer = gateway.http.post(PATHS[client], json=asked)
    assert answer.status_code == 200
    assert answer.content[:1] == b"{"
    assert answer.json().keys() == plain.keys()
    error = b'{"error": {"type": "invalid_request_error", "message": "no such thing"}}'
    up.say(whole(400, [], b"\xef\xbb\xbf" + error))
    assert gateway.http.post(PATHS[client], json=asked).json()["error"]["message"] == "no such thing"


def _ask(gateway: Gateway, client: Protocol, model: str = "text", *, stream: bool = True, **headers: str) -> Any:
    asked = body(client, f"{client.short}/{model}", stream=stream)
    return gateway.http.post(PATHS[client], json=asked, headers=headers)


def _frames(gateway: Gateway, up: ScriptedUpstream, client: Protocol, model: str = "text") -> list[bytes]:
    """The events of a scenario."""
    answer = _ask(gateway, client, model)
    assert answer.status_code == 200
    return [frame + b"\n\n" for frame in answer.content.split(b"\n\n") if frame]


def _whole(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> bytes:
    return bytes(_ask(gateway, client, stream=False).content)


@EVERY_CLIENT
def test_events_cut_anywhere(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """Events that arrive in pieces, with any line ends, leave as the same bytes."""
    frames = b"".join(_frames(gateway, up, client)).replace(b"\n", b"\r\n")
    pieces = [frames[start : start + 7] for start in range(0, len(frames), 7)]
    up.say(stream_head([]), *(chunk(piece) for piece in pieces), b"0\r\n\r\n")
    assert _ask(gateway, client).content == frames


@EVERY_CLIENT
@STREAMED
def test_headers(gateway: Gateway, up: ScriptedUpstream, client: Protocol, stream: bool) -> None:
    """The upstream sees what the client says about the request, our key, and nothing of the client's own."""
    said = {
        "anthropic-beta": "one-2026-01-01,two-2026-02-02",
        "anthropic-version": "2023-06-01",
        "openai-beta": "responses=v1",
        "user-agent": "client/1.0",
        "x-stainless-lang": "python",
        "x-custom": "kept",
    }
    private = {
        "x-api-key": CLIENT_KEY,
        "api-key": CLIENT_KEY,
        "x-goog-api-key": CLIENT_KEY,
        "cookie": f"session={CLIENT_KEY}",
        "proxy-authorization": f"Basic {CLIENT_KEY}",
        "openai-organization": "org-client",
        "openai-project": "proj-client",
        "x-forwarded-for": "10.1.2.3",
        "trilogue-mode": "declare",
        "te": "trailers",
    }
    assert _ask(gateway, client, stream=stream, **said, **private).status_code == 200
    seen = up.last()
    sent = dict(seen.headers)
    expected = dict(said)
    assert {name: sent.get(name) for name in expected} == expected
    secret = {"x-api-key": KEY} if client is Protocol.MESSAGES else {"authorization": f"Bearer {KEY}"}
    ours = {name: sent[name] for name in ("authorization", "x-api-key", "api-key") if name in sent}
    assert ours == secret
    assert not (private.keys() - {"x-api-key"}) & sent.keys()
    assert CLIENT_KEY not in str(seen.headers) + seen.target + seen.body.decode()
    assert sent["accept-encoding"] == "identity"


@EVERY_CLIENT
@STREAMED
def test_response_headers(gateway: Gateway, up: ScriptedUpstream, client: Protocol, stream: bool) -> None:
    """Limits are passed on; ids are ours; nothing tells which account it was."""
    headers = _ask(gateway, client, stream=stream).headers
    limit = "anthropic-ratelimit-requests-limit" if client is Protocol.MESSAGES else "x-ratelimit-limit-requests"
    assert headers[limit] in ("50", "500")
    assert headers["x-request-id"] == headers["request-id"]
    assert "org-scripted" not in str(headers)
    assert "trilogue-loss" not in headers
    if stream:
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert headers["cache-control"] == "no-cache"
        assert headers["x-accel-buffering"] == "no"


@EVERY_CLIENT
def test_whole_response_to_a_stream_request(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """Some upstreams do not stream. The client that asked for a stream gets one."""
    up.say(whole(200, [], _whole(gateway, up, client)))
    answer = _ask(gateway, client)
    assert answer.headers["content-type"].startswith("text/event-stream")
    ends = {Protocol.CHAT: b"[DONE]", Protocol.MESSAGES: b"message_stop", Protocol.RESPONSES: b"response.completed"}
    assert ends[client] in answer.content
    assert b"error" not in answer.content.replace(b'"error":null', b"")


@EVERY_CLIENT
def test_stream_with_the_wrong_name(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """Some servers call their streams JSON, and send one whatever they are asked for. What it is counts."""
    sent = _ask(gateway, client).content
    for stream in (True, False):
        up.say(whole(200, [], sent))
        answer = _ask(gateway, client, stream=stream)
        assert answer.status_code == 200
        assert (answer.content == sent) is stream
        assert stream or answer.json()["id"]


@EVERY_CLIENT
def test_whole_response_that_calls_itself_a_stream(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """However it is cut and whatever white space is around it, the client gets events, not the bare answer."""
    sent = _whole(gateway, up, client)
    up.say(whole(200, [], sent))
    expected = _shape(_ask(gateway, client))
    pretty = json.dumps(json.loads(sent), indent=2).encode()
    for data in (sent, pretty.replace(b"\n", b"\r\n"), b"\n\n" + sent + b"\n\n"):
        for size in (1, 50, len(data)):
            pieces = [data[start : start + size] for start in range(0, len(data), size)]
            up.say(stream_head([]), *map(chunk, pieces), LAST_CHUNK)
            answer = _ask(gateway, client)
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert _shape(answer) == expected


def _shape(answer: Any) -> list[list[str]]:
    """Which fields the events of an answer have."""
    lines = [line for line in answer.content.split(b"\n") if line]
    assert all(line.startswith((b"data: ", b"event: ")) for line in lines)
    return [list(json.loads(line[6:])) for line in lines if line.startswith(b"data: {")]


@EVERY_CLIENT
def test_error_that_calls_itself_a_stream(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """A bare object that is an error is one, also where events follow it or where it is cut."""
    error = b'{"type":"error","error":{"type":"overloaded_error","message":"Busy"}}'
    for body_bytes in (error, error + b"\n\n", error + b"\r\n\r\ndata: [DONE]\n\n"):
        up.say(stream_head([]), chunk(body_bytes[:9]), chunk(body_bytes[9:]), LAST_CHUNK)
        answer = _ask(gateway, client)
        assert answer.status_code >= 500
        assert answer.json()["error"]["message"] == "Busy"
    up.say(stream_head([]), chunk(error[:-5]), LAST_CHUNK)
    assert _ask(gateway, client).status_code == 502


@EVERY_CLIENT
def test_events_without_their_field_name(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """A stream of bare objects is no whole answer: each comes out as soon as the next has begun."""
    events = [frame for frame in _frames(gateway, up, client) if b"[DONE]" not in frame]
    bare = [frame.partition(b"data: ")[2] for frame in events]
    up.say(stream_head([]), *map(chunk, bare[:6]), Do.CLOSE)
    answer = _ask(gateway, client)
    assert answer.status_code == 200
    assert answer.content.startswith(b"".join(bare[:6]))


@EVERY_CLIENT
def test_redirects_are_not_followed(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """Keys go where they were meant to go, and the client hears why there is no answer."""
    up.say(whole(308, [("location", "http://127.0.0.1:1/")], b""))
    answer = _ask(gateway, client)
    assert answer.status_code == 502
    assert "redirect (308)" in answer.json()["error"]["message"]


@EVERY_CLIENT
def test_error_before_content(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """A stream that begins with its error is an HTTP error, also where bytes pass through."""
    answer = _ask(gateway, client, "stream-error-first")
    assert answer.status_code == (529 if client is Protocol.MESSAGES else 503)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"]["message"] == "Overloaded"


@EVERY_CLIENT
def test_truncated_stream(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """A stream that stops too early ends in the protocol's own error, numbered on, and in no other end."""
    content = _ask(gateway, client, "truncate-clean").content
    events = [json.loads(line[6:]) for line in content.split(b"\n") if line.startswith(b"data: ")]
    error = events[4]["error"]
    assert (error["type"], error.get("code", "upstream_truncated")) in (
        ("server_error", "upstream_truncated"),
        ("api_error", "upstream_truncated"),
    )
    if client is Protocol.RESPONSES:
        assert [event["sequence_number"] for event in events] == list(range(6))
        assert [event["type"] for event in events[4:]] == ["error", "response.failed"]
        assert events[5]["response"]["id"] == events[0]["response"]["id"]
    else:
        assert len(events) == 5


@EVERY_CLIENT
@pytest.mark.parametrize("after", [Do.HANG, Do.RESET], ids=["hangs", "resets"])
def test_trouble_after_the_end(gateway: Gateway, up: ScriptedUpstream, client: Protocol, after: Do) -> None:
    """Once the upstream has said that it is done, how it hangs up does not matter."""
    frames = _frames(gateway, up, client)
    up.say(stream_head([]), *map(chunk, frames), 0.05, after)
    answer = _ask(gateway, client)
    assert answer.content == b"".join(frames)
    assert gateway.record(answer.headers["x-request-id"])["error"] is None


def test_the_end_is_said_once(gateway: Gateway, up: ScriptedUpstream) -> None:
    """An answer without words whose last event came without its blank line, and without the end mark."""
    chunk_of = '{{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{}]}}'.format
    first = chunk_of('{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}')
    last = chunk_of('{"index":0,"delta":{},"finish_reason":"stop"}')
    up.say(*sse_answer([f"data: {first}\n\n".encode(), f"data: {last}".encode()]))
    content = _ask(gateway, Protocol.CHAT).content
    assert content == f"data: {first}\n\ndata: {last}\n\ndata: [DONE]\n\n".encode()


@EVERY_CLIENT
def test_what_was_said_before_the_line_broke(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """An answer that is complete, or an error, counts although what follows in the same read is not HTTP."""
    frames = _frames(gateway, up, client)
    broken = b"no chunk\r\n"
    up.say(stream_head([]), 0.05, chunk(b"".join(frames)) + broken)
    answer = _ask(gateway, client)
    assert answer.content == b"".join(frames)
    assert gateway.record(answer.headers["x-request-id"])["error"] is None
    said = {"error": {"type": "invalid_request_error", "message": "that is too much"}}
    error = {"type": "error", **said} if client is not Protocol.CHAT else said
    up.say(stream_head([]), 0.05, chunk(b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n") + broken)
    refused = _ask(gateway, client)
    assert "that is too much" in refused.text
    assert refused.headers["content-type"] == "application/json"


def test_first_words_in_halves(gateway: Gateway, up: ScriptedUpstream) -> None:
    """The first event has content, and is cut where its meaning is known and its last byte is not here."""
    frames = b"".join(_frames(gateway, up, Protocol.CHAT)[1:]).replace(b"\n", b"\r\n")
    at = frames.index(b"\r\n\r\n") + 3
    half = frames.index(b"\r\n\r\n", at) + 4
    pieces: list[bytes | float] = [chunk(frames[:at]), 0.02, chunk(frames[at:half]), 0.02, chunk(frames[half:])]
    up.say(stream_head([]), 0.02, *pieces, b"0\r\n\r\n")
    assert _ask(gateway, Protocol.CHAT).content == frames


NONSENSE = b'data: {"no": json\n\n'


@EVERY_CLIENT
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_good_events_before_a_bad_one(gateway: Gateway, up: ScriptedUpstream, client: Protocol, end: bytes) -> None:
    """They came in the same read, the first of them in two; the client gets them all, and then the error."""
    frames = [frame.replace(b"\n", end) for frame in _frames(gateway, up, client)[:-2]]
    good = b"".join([frames[0], b": a comment" + 2 * end, *frames[1:]])
    half = len(frames[0]) // 2
    last = [NONSENSE.replace(b"\n", end) + frames[-1]]
    for reads in ([good + last[0]], [good[:half], good[half:] + last[0]]):
        up.say(stream_head([]), *(step for read in reads for step in (0.02, chunk(read))), LAST_CHUNK)
        content = _ask(gateway, client).content
        assert content.startswith(good)
        rest = content[len(good) :]
        assert b"upstream_protocol_error" in rest or b"api_error" in rest
        assert frames[-1] not in rest
        if client is Protocol.RESPONSES:
            numbers = [int(number) for number in re.findall(rb'"sequence_number":\s*(\d+)', content)]
            assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: protocol.short)
@EVERY_CLIENT
def test_the_same_with_a_translation(
    gateway: Gateway, up: ScriptedUpstream, client: Protocol, upstream: Protocol
) -> None:
    """Words that came before the bad event are words that came."""
    good = b"".join(_frames(gateway, up, upstream)[:-2])
    up.say(stream_head([]), 0.02, chunk(good + NONSENSE), LAST_CHUNK)
    asked = body(client, f"{upstream.short}/text", stream=True)
    content = gateway.http.post(PATHS[client], json=asked).text
    assert "Hello" in content
    assert content.index("Hello") < content.rindex("error")
