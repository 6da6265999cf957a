"""An alias on a same-protocol pair: the client sees the model's name that it asked for, and nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.pairs import EVERY_CLIENT, PATHS
from tests.gateway.running import PROVIDERS, Gateway, running
from tests.scripted.ask import body
from tests.scripted.server import ScriptedUpstream
from trilogue.gateway.response.pass_through import RenamingPassThrough, renamed
from trilogue.lint import lint_response, lint_stream
from trilogue.model import Protocol
from trilogue.protocols.stream.response_context import Reply

NAME = "my-\u00e9toile"
CONFIG = (
    PROVIDERS
    + f"""\
aliases: {{chat-{NAME}: chat/text, messages-{NAME}: messages/text, responses-{NAME}: responses/text}}
"""
)


@pytest.fixture(scope="module")
def aliased(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose clients know the models by other names."""
    with running(tmp_path_factory.mktemp("aliased"), CONFIG, _upstream.url) as gateway:
        yield gateway


def ask(gateway: Gateway, client: Protocol, model: str, stream: bool) -> tuple[dict[str, Any], bytes]:
    asked = body(client, model, stream=stream, tools=False)
    response = gateway.http.post(PATHS[client], json=asked)
    assert response.status_code == 200, response.text
    return asked, response.content


def names(data: bytes) -> set[str]:
    """Return every model that events or a body name."""
    texts = [line.removeprefix("data: ") for line in data.decode().splitlines() if line.startswith("data: {")]
    found = set()
    for value in map(json.loads, texts or [data.decode()]):
        for place in (value, value.get("message") or {}, value.get("response") or {}):
            found |= {place["model"]} if isinstance(place, dict) and "model" in place else set()
    return found


@EVERY_CLIENT
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_client_sees_the_name_that_it_asked_for(aliased: Gateway, client: Protocol, stream: bool) -> None:
    """In every event, by our own rules A14 and C43."""
    asked, data = ask(aliased, client, f"{client.short}-{NAME}", stream)
    assert names(data) == {f"{client.short}-{NAME}"}
    findings = (
        lint_stream(client, data, request=asked, own=True)
        if stream
        else lint_response(client, json.loads(data), request=asked, own=True)
    )
    assert [finding for finding in findings if finding.rule in ("A14", "C43")] == []


@EVERY_CLIENT
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_nothing_else_changes(aliased: Gateway, up: ScriptedUpstream, client: Protocol, stream: bool) -> None:
    """Beside the name, a response under an alias is the one that comes without."""
    _, data = ask(aliased, client, f"{client.short}-{NAME}", stream)
    _, plain = ask(aliased, client, f"{client.short}/text", stream)
    assert shape(data) == shape(plain)


def shape(data: bytes) -> list[str]:
    """Return the lines of a response without values that count or name."""
    return [line.partition(":")[0] for line in data.decode().splitlines()]


CUT = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"up","choices":[{"index":0,"delta":'
    b'{"role":"assistant","content":"say \\"model\\":\\"up\\" "},"finish_reason":null}]}\n\n'
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model": "up","choices":[{"index":0,"delta":'
    b'{"content":"so"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_it_does_not_matter_how_a_stream_is_cut(size: int) -> None:
    """Events are forwarded whole, so a name is never cut; words of the model are never touched."""
    passage = RenamingPassThrough(Protocol.CHAT, Reply(model="ours"))
    out = b"".join(passage.feed(CUT[start : start + size]) for start in range(0, len(CUT), size)) + passage.close()
    assert out == CUT.replace(b'"model":"up","', b'"model":"ours","').replace(b'"model": "up"', b'"model": "ours"')


def test_a_body_that_names_no_model() -> None:
    """Is passed on as it is."""
    assert renamed(b'{"id": "x"}', "ours") == b'{"id": "x"}'
    assert renamed(b"nonsense", "ours") == b"nonsense"
