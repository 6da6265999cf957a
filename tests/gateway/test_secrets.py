"""Nothing that is secret gets out: not into answers, not into the log, whatever goes wrong."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.gateway.process import SHORT, Started, started, until
from tests.gateway.wire import CASES, Answer, Case, exchange, outcome, payload, post
from tests.scripted import thread
from tests.scripted.ask import PATHS, body
from tests.scripted.errors import ERRORS, Refused
from tests.scripted.http import LAST_CHUNK, Step, chunk, json_answer, sse_answer, stream_head
from tests.scripted.scenario import FAULTS, plan
from tests.scripted.server import ScriptedUpstream
from tests.scripted.tokens import Ids
from tests.scripted.wire import WIRES
from trilogue.model import Protocol

SECRETS = {
    "client key": "canary-client-3c9d1f",
    "second client key": "canary-second-77aa10",
    "upstream key": "canary-upstream-b81e42",
    "header value": "canary-header-0d5f6a",
    "query of an address": "canary-query-6be+17",
    "seal key": "canary-seal-5b7790-which-is-long-enough-for-a-seal",
    "wrong key": "canary-wrong-e2c4d6",
    "cookie": "canary-cookie-9f8e7d",
    "prompt": "canary-prompt-41c2b3",
}
ENVIRON = {
    "TRILOGUE_KEY": SECRETS["client key"],
    "SECOND_KEY": SECRETS["second client key"],
    "UP_KEY": SECRETS["upstream key"],
    "UP_HEADER": SECRETS["header value"],
    "SEAL": SECRETS["seal key"],
}
PROVIDER = (
    "{protocol: PROTOCOL, base_url: 'UPSTREAM?sig=canary-query-6be%2B17', accounts: [{key: env:UP_KEY}], "
    "headers: {x-team: env:UP_HEADER}}"
)
CONFIG = (
    SHORT.replace("server:\n", "server:\n  log: {level: debug}\n")
    + "keys: [env:TRILOGUE_KEY, env:SECOND_KEY]\nseal_keys: [env:SEAL]\nproviders:\n"
    + "".join(f"  {protocol.short}: {PROVIDER.replace('PROTOCOL', protocol.value)}\n" for protocol in Protocol)
    + "pool: {rules: [{text: '*', action: next}]}\n"
)
"""Whatever the upstream says, its one account stays in use."""
PATIENT = re.sub(r" *timeouts: .*\n", "", CONFIG)
"""For tests that wait for no clock: on a busy machine a short one is over before the upstream has spoken."""
UNTRIED = PATIENT.replace("action: next", "action: client")
"""The client gets the first error as it is: no retry puts words of our own in its place."""
LONG = 60.0
SCENARIOS = [*ERRORS, *FAULTS, "text", "tools", "reasoning", "refusal", "no-such-model"]
SLOW = [one for one in FAULTS if one == "drip" or one.startswith("hang")]
"""Those that wait for a clock, which they can do together."""


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running(ScriptedUpstream(keys=[SECRETS["upstream key"]])) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A gateway with a canary in every place that holds a secret, which logs all it can."""
    with started(tmp_path_factory.mktemp("canary"), CONFIG, up.url, environ=ENVIRON) as running:
        yield running


@pytest.fixture(scope="module")
def patient(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """The same, with all the time that it takes."""
    with started(tmp_path_factory.mktemp("patient"), PATIENT, up.url, environ=ENVIRON) as running:
        yield running


@pytest.fixture(scope="module")
def untried(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """The same, but no error is tried elsewhere."""
    with started(tmp_path_factory.mktemp("untried"), UNTRIED, up.url, environ=ENVIRON) as running:
        yield running


def leaks(text: str, up: ScriptedUpstream) -> list[str]:
    """What should not be in there: the secrets, their halves, and where the upstream is."""
    hidden = dict(SECRETS) | {"upstream address": up.url.removeprefix("http://")}
    return [what for what, secret in hidden.items() if secret in text or secret[:18] in text]


def asked(client: Protocol, model: str, *, stream: bool, key: str = SECRETS["client key"]) -> bytes:
    data = payload(client, model, stream=stream, user="u", metadata={"user_id": "u"}).replace(b'"Hi"', b'"%s"' % PROMPT)
    return post(PATHS[client], data, {"connection": "close", "cookie": f"session={SECRETS['cookie']}"}, key=key)


PROMPT = SECRETS["prompt"].encode()


def test_no_secret_in_responses_or_log(gateway: Started, up: ScriptedUpstream) -> None:
    """Every scenario, good and bad, for every pair; wrong keys; counting, listing; hostile input; a reload."""

    async def main() -> list[Answer]:
        found = []
        for scenarios in (SLOW, *([one] for one in SCENARIOS if one not in SLOW)):
            requests = [
                asked(client, f"{upstream.short}/{scenario}", stream=stream)
                for scenario in scenarios
                for client, upstream, stream in CASES
            ]
            found += await asyncio.gather(*(exchange(gateway.url, data) for data in requests))
        for client in Protocol:
            found.append(await exchange(gateway.url, asked(client, "chat/text", stream=True, key=SECRETS["wrong key"])))
            found.append(await exchange(gateway.url, asked(client, "chat/text", stream=True)[:-9] + b'"' * 9))
        return found

    answers = asyncio.run(main())
    gateway.signal(signal.SIGHUP)
    gateway.wait_for_log("reloaded")
    assert len(answers) > 400
    assert leaks("".join(answer.raw.decode("latin-1") for answer in answers), up) == []
    assert leaks(gateway.log, up) == []
    assert any(request.header("x-team") == SECRETS["header value"] for request in up.requests)


def test_nothing_of_the_client_reaches_the_upstream_but_its_request(gateway: Started, up: ScriptedUpstream) -> None:
    """Keys, cookies and where it came from stay here."""
    up.requests.clear()

    async def main() -> None:
        for client, upstream, stream in CASES:
            await exchange(gateway.url, asked(client, f"{upstream.short}/text", stream=stream))

    asyncio.run(main())
    assert len(up.requests) == len(CASES)
    for request in up.requests:
        text = json.dumps(request.headers)
        assert SECRETS["client key"] not in text
        assert SECRETS["cookie"] not in text
        assert SECRETS["upstream key"] in text


LOOSE = {
    "key": f"Incorrect API key provided: {SECRETS['upstream key']}. You can find your key at the account page.",
    "address": f"no such path /v1/chat/completions?sig=canary-query-6be%2B17, or {SECRETS['query of an address']}",
    "masked key": "Incorrect API key provided: sk-proj-abcd**********wxyz.",
    "organisation": "Rate limit reached for gpt-5 in organization org-AbCdEf0123456789 on tokens per min.",
    "project": "Project `proj_AbCdEf0123456789` does not have access to model gpt-5.",
}
INSIDE = (
    SECRETS["upstream key"],
    SECRETS["query of an address"],
    "canary-query-6be%2B17",
    "sk-proj-abcd",
    "org-AbCdEf0123456789",
    "proj_AbCdEf0123456789",
)


async def told(gateway: Started, up: ScriptedUpstream, upstream: Protocol, steps: list[Step]) -> dict[Case, Answer]:
    """What becomes of an upstream's answer for every client, streamed or not, all at the same time."""
    cases = [case for case in CASES if case[1] is upstream]
    for _ in cases:
        up.say(*steps)
    requests = [asked(client, f"{upstream.short}/text", stream=stream) for client, _, stream in cases]
    answers = await asyncio.gather(*(exchange(gateway.url, data, LONG) for data in requests))
    assert not up.waiting
    return dict(zip(cases, answers, strict=True))


@pytest.mark.parametrize("case", LOOSE)
@pytest.mark.parametrize("status", [400, 403, 429, 500])
def test_an_upstream_that_talks_too_much(patient: Started, up: ScriptedUpstream, case: str, status: int) -> None:
    """Error texts of vendors name keys, organisations and projects; these belong to who runs the gateway."""
    error = {"message": LOOSE[case], "type": "invalid_request_error", "code": None, "param": None}
    organisation = [("openai-organization", "org-AbCdEf0123456789"), ("openai-project", "proj_AbCdEf0123456789")]
    for upstream in Protocol:
        refusal = json_answer(status, organisation, {"type": "error", "error": error})
        for asked_by, answer in asyncio.run(told(patient, up, upstream, [refusal])).items():
            assert answer.status >= 400, asked_by
            assert [word for word in INSIDE if word.encode() in answer.raw] == [], asked_by


@cache
def slips(upstream: Protocol, text: str) -> dict[str, list[Step]]:
    """The ways in which an upstream tells a text in an error after it has said 200."""
    wire = WIRES[PATHS[upstream]]
    asked_for = wire.read(body(upstream, "text", stream=True, tools=False))
    planned = plan("text", asked_for.seen)
    assert planned is not None
    complete = list(wire.stream(planned.answer, asked_for, Ids(1)))
    frames = complete[:4]
    # As a code it would get into the log.
    refused = Refused(500, text, ("server_error", text), "api_error")
    error = {"message": text, "type": "server_error", "code": text, "param": text}

    def failing(sent: int) -> list[bytes]:
        return list(wire.error_events(refused, asked_for, Ids(1), sent))

    return {
        "whole": [json_answer(200, [], {"type": "error", "error": error})],
        "first": list(sse_answer(failing(0))),
        "mid": list(sse_answer([*frames, *failing(4)])),
        "at once": list(sse_answer([b"".join([*frames, *failing(4)])])),
        "too late": [stream_head([]), *map(chunk, complete), 0.05, *map(chunk, failing(4)), LAST_CHUNK],
        "in bits": list(sse_answer(bytes([byte]) for byte in b"".join([*frames, *failing(4)]))),
    }


SLIPS = {
    **LOOSE,
    "header": f"no such team: {SECRETS['header value']}",
    "cut": "x" * 1980 + SECRETS["upstream key"],
}
KEPT = {
    "key": b"Incorrect API key provided",
    "address": b"no such path",
    "masked key": b"Incorrect API key provided",
    "organisation": b"Rate limit reached",
    "project": b"does not have access",
    "header": b"no such team",
    "cut": b"x" * 300,
}
"""words of these errors that are no secret: a client that gets them has got the upstream's error"""


def check_slips(gateway: Started, up: ScriptedUpstream, case: str, way: str) -> list[Answer]:
    """Check what every pair makes of such an error, for the client and for the log. Return what clients got."""
    answers: list[Answer] = []
    for upstream in Protocol:
        for asked_by, answer in asyncio.run(told(gateway, up, upstream, slips(upstream, SLIPS[case])[way])).items():
            assert way == "too late" or outcome(answer, asked_by[0]).how in ("http", "stream"), asked_by
            inside = [word for word in (*INSIDE, SECRETS["header value"]) if word[:18].encode() in answer.raw]
            assert inside == [], asked_by
            answers.append(answer)
    ids = {answer.headers["x-request-id"] for answer in answers}
    until(lambda: ids <= set(re.findall(r'"request_id":"(.*?)"', gateway.log)), LONG)
    assert [word for word in (*INSIDE, SECRETS["header value"]) if word[:18] in gateway.log] == []
    return answers


@pytest.mark.parametrize("case", SLIPS)
@pytest.mark.parametrize("way", ["whole", "first", "mid", "at once", "in bits", "too late"])
def test_an_upstream_that_talks_too_much_after_200(patient: Started, up: ScriptedUpstream, case: str, way: str) -> None:
    """The same in an answer that began well, translated and passed through, for the client and for the log."""
    check_slips(patient, up, case, way)


@pytest.mark.parametrize("case", SLIPS)
@pytest.mark.parametrize("way", ["whole", "first"])
def test_an_error_that_is_not_retried(untried: Started, up: ScriptedUpstream, case: str, way: str) -> None:
    """An error before any content goes to the client in the upstream's own words, but for what is secret."""
    for answer in check_slips(untried, up, case, way):
        assert KEPT[case] in answer.raw


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_names_cannot_forge_lines(tmp_path: Path, up: ScriptedUpstream, log_format: str) -> None:
    """Line breaks, escape codes and endless names from clients stay inside one short line."""
    evil = 'x\r\n{"event": "request", "forged": true}\x1b[2J\u2028\u0085' + "y" * 100_000
    config = CONFIG.replace("level: debug", f"format: {log_format}")
    with started(tmp_path, config, up.url, environ=ENVIRON) as gateway:
        before = len(gateway.log.splitlines())
        data = json.dumps({"model": evil, "messages": []}).encode()
        key = SECRETS["client key"]
        assert asyncio.run(exchange(gateway.url, post(PATHS[Protocol.CHAT], data, key=key))).status in (400, 404)
        path = "/v1/models/a%0a%7B%22forged%22%3Atrue%7D%1b%5B2J" + "z" * 2000
        asyncio.run(exchange(gateway.url, post(path, b"{}", key=key)))
        gateway.wait_for_log("zzz")
        log = gateway.log
        assert len(log.split("\n")) == before + 3
        assert len(log) < 6_000
        assert "\x1b[2J" not in log
        assert not any(sign in log for sign in "\r\u2028\u0085")
        if log_format == "json":
            assert [line["event"] for line in gateway.lines] == ["admin interface", "request", "request"]
            assert not any("forged" in line for line in gateway.lines)


def test_files_of_the_gateway_are_its_own(tmp_path: Path, up: ScriptedUpstream) -> None:
    """What it keeps can be read by nobody else, and holds no prompt."""
    config = CONFIG.replace("seal_keys: [env:SEAL]\n", "")
    with started(tmp_path, config, up.url, environ=ENVIRON) as gateway:
        asyncio.run(exchange(gateway.url, asked(Protocol.CHAT, "messages/reasoning", stream=True)))
        kept = [file for file in (tmp_path / "trilogue").rglob("*") if file.is_file()]
        assert kept
        assert {file.stat().st_mode & 0o077 for file in kept} == {0}
        assert not any(PROMPT in file.read_bytes() for file in kept)
