"""Responses that an upstream account keeps: follow-ups go there, by the names that the client knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from tests.gateway.pooling import name_of
from tests.gateway.process import until
from tests.multiturn.gateways import MODELS, Gateway, gateway, settings
from tests.multiturn.strict import StrictUpstream
from tests.multiturn.test_background import RUNNING, status
from trilogue.model import Protocol

MODEL = MODELS[Protocol.RESPONSES]
ALIAS = "aliases: {my-model: responses/gpt-5.4}"


def asked(up: StrictUpstream) -> list[tuple[str, str, str]]:
    """Return what the upstream was asked: method, path and account."""
    return [(one.method, one.path, name_of(one)) for one in list(up.requests)]


def test_the_client_sees_its_own_name_of_the_model(tmp_path: Path, up: StrictUpstream) -> None:
    """Polled, streamed and continued, with the history that the upstream got in full."""
    with gateway(tmp_path, up, settings(more=ALIAS)) as running:
        responses: Any = running.client.responses
        first = responses.create(model=MODELS[Protocol.CHAT], input="say first")
        made = responses.create(model="my-model", input="slow 6 50", background=True, previous_response_id=first.id)
        assert (made.model, made.previous_response_id) == ("my-model", first.id)
        polled = responses.retrieve(made.id)
        assert (polled.status, polled.model, polled.previous_response_id) == ("in_progress", "my-model", first.id)
        streamed = list(responses.retrieve(made.id, stream=True))
        last = streamed[-1].response
        assert (last.status, last.model, last.previous_response_id) == ("completed", "my-model", first.id)
        up.reset()
        # The stream has stored it: the account is not asked again.
        found = responses.retrieve(made.id)
        assert (found.status, found.model, found.previous_response_id) == ("completed", "my-model", first.id)
        assert asked(up) == []
        # By resending everything to an upstream of another protocol, too.
        follow = responses.create(model=MODELS[Protocol.CHAT], input="recall", previous_response_id=made.id)
        assert '"say first", "slow 6 50", "recall"' in follow.output_text


def test_a_response_is_known_before_the_client_has_its_id(tmp_path: Path, up: StrictUpstream) -> None:
    """The client disconnects after the first event, and the gateway is started again."""
    with gateway(tmp_path, up) as running:
        responses: Any = running.client.responses
        stream = responses.create(model=MODEL, input="slow 6 60", background=True, stream=True)
        made = next(iter(stream)).response.id
        stream.close()
    with gateway(tmp_path, up) as again:
        assert status(again, made) in (*RUNNING, "completed")
        until(lambda: status(again, made) == "completed")
        assert again.client.responses.retrieve(made).output_text.startswith("word0 word1 ")
        assert {account for _, _, account in asked(up)} == {"a"}


def test_deleted_at_the_account(either: Gateway) -> None:
    """One that runs is cancelled first."""
    client: Any = either.client
    made = client.responses.create(model=MODEL, input="say x").id
    running = client.responses.create(model=MODEL, input="hang", background=True).id
    either.up.reset()
    client.responses.delete(made)
    client.responses.delete(running)
    assert asked(either.up) == [
        ("DELETE", f"/v1/responses/{made}", "a"),
        ("POST", f"/v1/responses/{running}/cancel", "a"),
        ("DELETE", f"/v1/responses/{running}", "a"),
    ]
    for gone in (made, running):
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(gone)


def test_deleted_without_the_account(tmp_path: Path, up: StrictUpstream) -> None:
    """The gateway's copy is deleted also if the account does not respond, and the log says so."""
    with gateway(tmp_path, up) as running:
        made = running.client.responses.create(model=MODEL, input="say x").id
        up.limited |= {"a", "b"}
        running.client.responses.delete(made)
        with pytest.raises(openai.NotFoundError):
            running.client.responses.retrieve(made)
        running.process.wait_for_log("response not deleted upstream")
        assert made in running.process.log


def test_an_account_that_is_gone(tmp_path: Path, up: StrictUpstream) -> None:
    """A response that it ran cannot be fetched; what the gateway has a copy of can, and can be continued."""
    with gateway(tmp_path, up) as first:
        done = first.client.responses.create(model=MODEL, input="say kept").id
        job = first.client.responses.create(model=MODEL, input="hang", background=True).id
    with gateway(tmp_path, up, settings(accounts=("b",))) as second:
        responses: Any = second.client.responses
        for call in (responses.retrieve, responses.cancel):
            with pytest.raises(openai.InternalServerError) as refused:
                call(job)
            assert (refused.value.status_code, refused.value.code) == (503, "response_owner_gone")
        assert responses.retrieve(done).output_text == "kept"
        follow = responses.create(model=MODEL, input="recall", previous_response_id=done)
        assert '"say kept", "recall"' in follow.output_text
        responses.delete(job)


def test_an_account_that_forgot_it(one: Gateway) -> None:
    """Upstreams keep background responses for minutes only: the client gets the same 404 as for an unknown id."""
    client: Any = one.client
    made = client.responses.create(model=MODEL, input="hang", background=True).id
    del one.up.responses.account("a").responses[made]
    replies: list[httpx2.Response] = [one.http().get(f"/v1/responses/{name}") for name in (made, "resp_unknown")]
    assert [reply.status_code for reply in replies] == [404, 404]
    assert replies[0].text.replace(made, "ID") == replies[1].text.replace("resp_unknown", "ID")


def test_an_account_that_fails(tmp_path: Path, up: StrictUpstream) -> None:
    """Its error is the client's, and nothing of the response is lost."""
    with gateway(tmp_path, up) as running:
        responses: Any = running.client.responses
        made = responses.create(model=MODEL, input="slow 4 30", background=True).id
        up.limited.add("a")
        for options in ({}, {"stream": True}):
            with pytest.raises(openai.RateLimitError):
                responses.retrieve(made, **options)
        up.limited.clear()
        until(lambda: status(running, made) == "completed")
        up.limited.add("a")
        # Complete: the gateway's copy is enough, also for a stream.
        assert list(responses.retrieve(made, stream=True))[-1].response.output_text.startswith("word0 ")


def test_the_provider_that_owns_it_is_preferred(tmp_path: Path, up: StrictUpstream) -> None:
    """A route with two providers: a follow-up goes to the second one if that has made the response."""
    line = "  second: {protocol: openai_responses, base_url: UPSTREAM/v1, accounts: [{name: b, key: up-key-canary-b}]}"
    more = f"{line}\nroutes: [{{match: gpt-5.4, targets: [responses/gpt-5.4, second/gpt-5.4]}}]"
    with gateway(tmp_path, up, settings(more=more, accounts=("a",))) as running:
        responses: Any = running.client.responses
        made = responses.create(model="second/gpt-5.4", input="say x").id
        follow = responses.create(model="gpt-5.4", input="recall", previous_response_id=made)
        assert '"say x", "recall"' in follow.output_text
        assert [account for _, _, account in asked(up)] == ["b", "b"]
        assert up.bodies()[-1]["previous_response_id"] == made
        assert responses.create(model="gpt-5.4", input="say y").output_text == "y"
        assert asked(up)[-1][2] == "a"
