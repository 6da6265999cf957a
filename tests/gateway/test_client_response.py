"""The response to a client as a state machine: every step in every state, and what the client gets."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import cast

import pytest

from trilogue.errors import InternalError, UpstreamTimeout
from trilogue.gateway.observer import Observers
from trilogue.gateway.record import RequestRecord
from trilogue.gateway.request.call import ModelCall
from trilogue.gateway.request.outbound import Outbound, Place
from trilogue.gateway.response.attempt import UpstreamAttempt
from trilogue.gateway.response.client_response import LIFECYCLE, ClientResponse, ResponseState, ResponseStep
from trilogue.gateway.response.pass_through import PassThrough
from trilogue.model import Loss, Protocol
from trilogue.net.client.interface import UpstreamRequest, UpstreamResponse
from trilogue.net.server.responder import Responder
from trilogue.protocols.stream.response_context import Reply
from trilogue.routing.pool.decision import Attempt
from trilogue.translate.reasoning.seal import Sealer
from trilogue.upstreams.redaction import Redactor

HOLDING, KEPT_ALIVE, STREAMING, ENDED = ResponseState
CHUNK = b'{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"Hi"}}]}'
EVENT = b"data: %b\n\n" % CHUNK
KEEPALIVE = b": keepalive\n\n"
LOST = [Loss("param.dropped", "top_k")]


class Link:
    """The client's connection: keeps what is written."""

    peer = ""

    def __init__(self) -> None:
        self.keep_alive = True
        self.paused = False
        self.on_flow: Callable[[bool], None] = lambda paused: None
        self.data = b""

    def put(self, data: bytes) -> None:
        self.data += data

    def response_ended(self) -> None:
        self.keep_alive = False

    async def drained(self) -> None:
        """Do nothing: it is never slow."""


class UpstreamHead:
    """An upstream's response of which only the head is used."""

    def __init__(self) -> None:
        self.status = 200
        self.headers = [("x-ratelimit-remaining-requests", "7"), ("server", "upstream")]

    def hold(self, held: bool) -> None:
        """Do nothing: the client is never slow."""


def attempt() -> UpstreamAttempt:
    """Return an attempt that has lost something and was sent."""
    outbound = Outbound(UpstreamRequest("POST", "http://127.0.0.1:1/v1", (), b"{}"), None, LOST, Protocol.CHAT)
    place = cast(Place, SimpleNamespace(account=SimpleNamespace(redactor=Redactor())))
    made = UpstreamAttempt(Attempt(provider="p", account="a", model="m", how="strategy"), place, outbound)
    made.response = cast(UpstreamResponse, UpstreamHead())
    return made


class Case:
    """A response that can be brought into any state, and take any step."""

    def __init__(self) -> None:
        self.link = Link()
        self.record = RequestRecord(request_id="req_1", began_at=0.0)
        call = ModelCall(
            client=Protocol.CHAT,
            body=b'{"model":"m","messages":[]}',
            model="m",
            stream=True,
            headers={},
            forwarded=(),
            sealer=Sealer.ephemeral(),
        )
        responder = Responder(self.link, chunked=True, bodiless=False)
        self.response = ClientResponse(call, responder, self.record, Observers())
        self.path = PassThrough(Protocol.CHAT, Reply(source=Protocol.CHAT))
        self.attempt = attempt()

    def take(self, step: ResponseStep) -> None:
        STEPS[step](self)

    def commit(self) -> None:
        held = self.path.feed(EVENT)
        self.response.commit(self.attempt, self.path, held)

    @property
    def body(self) -> bytes:
        return self.link.data.partition(b"\r\n\r\n")[2]

    @property
    def head(self) -> bytes:
        return self.link.data.partition(b"\r\n\r\n")[0]


STEPS: dict[ResponseStep, Callable[[Case], None]] = {
    ResponseStep.ATTEMPT: lambda case: case.response.begin_attempt(case.attempt),
    # The keep-alive timer may fire once more after the end, so `keepalive` itself ignores that.
    ResponseStep.KEEP_ALIVE: lambda case: case.response.keepalive(),
    ResponseStep.COMMIT: Case.commit,
    ResponseStep.REPLY: lambda case: case.response.reply(case.attempt, LOST, b"{}"),
    ResponseStep.END: lambda case: case.response.end(),
    ResponseStep.FAIL: lambda case: case.response.fail_in_band(UpstreamTimeout("too late")),
}
WAYS: dict[ResponseState, list[ResponseStep]] = {
    HOLDING: [],
    KEPT_ALIVE: [ResponseStep.ATTEMPT, ResponseStep.KEEP_ALIVE],
    STREAMING: [ResponseStep.ATTEMPT, ResponseStep.COMMIT],
    ENDED: [ResponseStep.ATTEMPT, ResponseStep.COMMIT, ResponseStep.END],
}
"""how a response gets into each state"""


def in_state(state: ResponseState) -> Case:
    case = Case()
    for step in WAYS[state]:
        case.take(step)
    assert case.response.state is state
    return case


CELLS = list(product(ResponseState, ResponseStep))


@pytest.mark.parametrize(("state", "step"), CELLS, ids=lambda value: value.name.lower())
def test_cells(state: ResponseState, step: ResponseStep) -> None:
    """A step leads to the state in the table, or is a bug that changes nothing."""
    case = in_state(state)
    before = case.link.data
    expected = LIFECYCLE[state].get(step)
    if expected is not None:
        case.take(step)
        assert case.response.state is expected
        assert (case.link.data != before) is (step is not ResponseStep.ATTEMPT)
        return
    if (state, step) == (ENDED, ResponseStep.KEEP_ALIVE):
        case.take(step)
    else:
        with pytest.raises(InternalError, match=state.name):
            case.take(step)
    assert case.response.state is state
    assert case.link.data == before


def test_states_are_all_reachable_and_end() -> None:
    """Every state has a row, every step a handler here, and the end is the end."""
    assert set(LIFECYCLE) == set(ResponseState)
    assert set(STEPS) == set(ResponseStep)
    assert {state for row in LIFECYCLE.values() for state in row.values()} == set(ResponseState)
    assert LIFECYCLE[ENDED] == {}


@pytest.mark.parametrize(("state", "final"), [(HOLDING, False), (KEPT_ALIVE, False), (STREAMING, True), (ENDED, True)])
def test_only_content_rules_out_another_account(state: ResponseState, final: bool) -> None:
    assert in_state(state).response.is_final is final


def test_the_first_keepalive_sends_the_headers() -> None:
    """They declare the losses of the request. Headers of the upstream are not known then."""
    case = in_state(KEPT_ALIVE)
    assert b"trilogue-loss: param.dropped" in case.head
    assert b"ratelimit" not in case.head
    assert KEEPALIVE in case.body
    case.commit()
    assert case.link.data.count(b"HTTP/1.1 200 OK") == 1
    assert EVENT in case.body


def test_content_sends_what_the_upstream_says_about_limits() -> None:
    case = in_state(STREAMING)
    assert b"x-ratelimit-remaining-requests: 7" in case.head
    assert b"server:" not in case.head
    assert case.record.content_at is not None


def test_no_keepalive_for_a_slow_client() -> None:
    """It has not even taken what it got before."""
    case = Case()
    case.link.paused = True
    case.response.keepalive()
    assert (case.response.state, case.link.data) == (HOLDING, b"")


def test_what_is_held_back_comes_with_the_end() -> None:
    case = in_state(STREAMING)
    case.response.hold_back(b"data: [DONE]\n\n")
    assert b"[DONE]" not in case.body
    case.take(ResponseStep.END)
    assert case.body.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


@pytest.mark.parametrize("state", [HOLDING, KEPT_ALIVE, STREAMING], ids=lambda state: state.name.lower())
def test_an_error_is_the_end_of_the_stream(state: ResponseState) -> None:
    """It is recorded, too."""
    case = in_state(state)
    case.take(ResponseStep.FAIL)
    assert b'"error"' in case.body
    assert case.body.endswith(b"0\r\n\r\n")
    assert case.record.failure is not None
    assert case.record.error == "upstream_timeout"
