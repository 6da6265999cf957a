"""Every client through the gateway to every upstream: what fails raises the official client's own exceptions."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from tests.gateway.conversations import Conversation
from tests.gateway.pairs import EVERY_CLIENT, EVERY_PAIR, PATHS, Pair
from tests.gateway.running import Gateway
from tests.scripted.server import ScriptedUpstream
from trilogue.lint import lint_error, lint_stream
from trilogue.model import Protocol

# Scenario → (status and exception of OpenAI's client, the same of Anthropic's, whether a retry makes sense).
BEFORE: dict[str, tuple[tuple[int, type[Exception]], tuple[int, type[Exception]], bool]] = {
    "error-400": ((400, openai.BadRequestError), (400, anthropic.BadRequestError), False),
    # Our credential, our account: nothing that the client could mend, and never its own 401.
    "error-401": ((503, openai.InternalServerError), (503, anthropic.ServiceUnavailableError), False),
    "error-402": ((503, openai.InternalServerError), (503, anthropic.ServiceUnavailableError), False),
    "error-403-cost": ((403, openai.PermissionDeniedError), (403, anthropic.PermissionDeniedError), False),
    "error-404": ((404, openai.NotFoundError), (404, anthropic.NotFoundError), False),
    "error-429": ((429, openai.RateLimitError), (429, anthropic.RateLimitError), True),
    "error-500": ((500, openai.InternalServerError), (500, anthropic.InternalServerError), True),
    "error-529": ((503, openai.InternalServerError), (529, anthropic.OverloadedError), True),
    "stream-error-first": ((503, openai.InternalServerError), (529, anthropic.OverloadedError), True),
}


@EVERY_PAIR
@pytest.mark.parametrize("model", BEFORE)
def test_before_the_first_token(gateway: Gateway, up: ScriptedUpstream, pair: Pair, model: str) -> None:
    """An HTTP error with the right status, also where the upstream had begun with 200."""
    error = _raised(pair.talk(gateway, model))
    of_openai, of_anthropic, retry = BEFORE[model]
    status, kind = of_anthropic if pair.client is Protocol.MESSAGES else of_openai
    exchange = gateway.recorder.last
    assert (exchange.status, type(error)) == (status, kind)
    assert exchange.headers["x-should-retry"] == ("true" if retry else "false")
    assert exchange.headers.get("retry-after") == ("7" if model == "error-429" else None)
    assert exchange.headers["x-request-id"].startswith("req_")
    assert lint_error(pair.client, json.loads(exchange.body)) == []
    assert len(up.requests) == 1


@EVERY_CLIENT
@pytest.mark.parametrize(("model", "code"), [("error-401", "upstream_credential"), ("error-402", "upstream_quota")])
def test_keys_and_money_have_codes_of_their_own(gateway: Gateway, client: Protocol, model: str, code: str) -> None:
    """The log names it, for who runs the gateway; clients of OpenAI's protocols see it too."""
    error = _raised(Pair(client, Protocol.CHAT, False).talk(gateway, model))
    assert gateway.record(gateway.recorder.last.headers["x-request-id"])["error"] == code
    if client is not Protocol.MESSAGES:
        assert error.code == code


@EVERY_PAIR
@pytest.mark.parametrize("model", ["stream-error-mid", "truncate-clean", "malformed"])
def test_after_the_first_token(gateway: Gateway, up: ScriptedUpstream, pair: Pair, model: str) -> None:
    """Half an answer never looks like a whole one: the client's own library raises."""
    talked = pair.talk(gateway, model)
    error = _raised(talked)
    exchange = gateway.recorder.last
    if not pair.stream:
        assert exchange.status >= 500
        return
    assert exchange.status == 200
    if not pair.same:
        found = lint_stream(pair.client, exchange.body, request=exchange.asked)
        assert [str(finding) for finding in found if finding.severity == "error"] == []
    assert isinstance(error, openai.APIError | anthropic.APIError)
    # Codex gives up at OpenAI's code for it, so that only an upstream of its own protocol says it inside a stream.
    told = pair.client is not Protocol.RESPONSES or pair.same
    assert _kind(error) == ("overloaded" if model == "stream-error-mid" and told else "server")


NO_REQUESTS = {
    "nothing": b"",
    "half": b"{",
    "array": b"[]",
    "null": b"null",
    "empty": b"{}",
    "number": b'{"model":7}',
    "nameless": b'{"model":""}',
    "stream": b'{"model":"OTHER/text","stream":"yes"}',
    "types": b'{"model":"OTHER/text","messages":1,"input":1}',
    "encoding": b"\xff\xfe",
    "deep": b"[" * 5000,
    "surrogate": b'{"model":"\\ud800"}',
}


@EVERY_CLIENT
@pytest.mark.parametrize("name", NO_REQUESTS)
def test_what_is_no_request(gateway: Gateway, up: ScriptedUpstream, client: Protocol, name: str) -> None:
    """Anything may come in; what goes out is a 400 in the client's words, and nothing reaches an upstream."""
    other = b"messages" if client is Protocol.CHAT else b"chat"
    answer = gateway.http.post(PATHS[client], content=NO_REQUESTS[name].replace(b"OTHER", other))
    assert answer.status_code == 400
    assert lint_error(client, answer.json()) == []
    assert answer.headers["x-should-retry"] == "false"
    assert up.requests == []


def _raised(talked: Conversation) -> Any:
    with pytest.raises((openai.APIError, anthropic.APIError)) as caught:
        talked.say()
    return caught.value


def _kind(error: Any) -> str:
    body = error.body.get("error", error.body)
    return "overloaded" if "overloaded" in f"{body['type']} {body.get('code')}" else "server"
