"""The allow-list, the budget and the policies of a client key, on endpoints that pass through and in fallbacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.gateway.running import Gateway, running
from tests.scripted import thread
from tests.scripted.http import json_answer
from tests.scripted.server import ScriptedUpstream
from trilogue.errors import BadRequest
from trilogue.gateway.request.uploads import FormReader

CONFIG = """\
keys:
  - {key: free-key-canary, name: free}
  - {key: narrow-key-canary, name: narrow, models: ["chat/text*", "messages/text*"], routes: []}
  - {key: paying-key-canary, name: paying, budget: {day: 1000}}
  - {key: counted-key-canary, name: counted, limits: {tokens_per_day: 1000000}}
  - {key: judged-key-canary, name: judged, policies: [words]}
server: {unjudged_endpoints: [/images/generations]}
providers:
  chat:
    protocol: openai_chat_completions
    base_url: UPSTREAM/v1
    accounts: [{key: env:UP_KEY}]
    prices: {"text*": {input: 1, output: 1}}
  messages: {protocol: anthropic_messages, base_url: UPSTREAM, accounts: [{key: env:UP_KEY}]}
policies: {words: {use: redact, kinds: [email]}}
pool: {retry_budget: {floor: 1000}, persist: false}
"""
MAKING: dict[str, dict[str, Any]] = {
    "/files": {},
    "/uploads": {"filename": "a", "purpose": "user_data", "bytes": 3, "mime_type": "text/plain"},
    "/batches": {"input_file_id": "file-1", "endpoint": "/v1/chat/completions"},
    "/fine_tuning/jobs": {"training_file": "file-1"},
    "/vector_stores": {},
    "/containers": {"name": "a"},
    "/videos/video_1/remix": {"prompt": "a"},
    "/evals": {},
    "/evals/eval_1/runs": {"data_source": {"type": "jsonl", "model": "gpt-9"}},
}
"""requests that do not tell which models will run"""
FREE = ("/files", "/uploads")
"""run none themselves"""


@pytest.fixture(scope="module")
def _up() -> Iterator[ScriptedUpstream]:
    with thread.running() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def gateway(_up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("named"), CONFIG, _up.url) as gateway:
        yield gateway


@pytest.fixture
def up(_up: ScriptedUpstream) -> ScriptedUpstream:
    _up.requests.clear()
    return _up


def post(gateway: Gateway, key: str, path: str, body: Any = None, **more: Any) -> httpx2.Response:
    """Send a request with one of the keys. Bodies that are bytes are JSON as it is."""
    headers = {"authorization": f"Bearer {key}-key-canary"}
    if path.startswith("/messages"):
        headers = {"x-api-key": f"{key}-key-canary", "anthropic-version": "2023-06-01"}
    if isinstance(body, bytes):
        more["content"], headers["content-type"] = body, headers.get("content-type", "application/json")
    elif body is not None:
        more["json"] = body
    headers |= more.pop("headers", {})
    return httpx2.post(f"{gateway.url}/v1{path}", headers=headers, timeout=20, **more)


def refused(answer: httpx2.Response, up: ScriptedUpstream, code: str = "model_not_allowed", status: int = 403) -> bool:
    """Return whether the gateway has refused a request for this reason, and sent nothing of it on."""
    error = answer.json()["error"]
    assert (answer.status_code, up.requests) == (status, []), answer.text
    # Errors of Messages have no code.
    return bool(error.get("code", code) == code)


@pytest.mark.parametrize("path", list(MAKING))
@pytest.mark.parametrize("model", [None, "chat/text"])
def test_an_invented_model_opens_nothing(gateway: Gateway, up: ScriptedUpstream, path: str, model: str | None) -> None:
    body = MAKING[path] | ({"model": model} if model else {})
    assert refused(post(gateway, "narrow", path, body), up)
    if path not in FREE:
        assert refused(post(gateway, "paying", path, body), up, "not_bounded")
        assert refused(post(gateway, "counted", path, body), up, "not_bounded")


@pytest.mark.parametrize(
    ("model", "more", "allowed"),
    [
        ("text", {}, True),
        ("text-2", {}, True),
        ("gpt-9", {}, False),
        ("text", {"fallbacks": [{"model": "text-2", "max_tokens": 3}]}, True),
        ("text", {"fallbacks": [{"model": "gpt-9"}]}, False),
        ("text", {"fallbacks": "default"}, False),
        ("text", {"tools": [{"type": "advisor_20260301", "name": "advisor", "model": "gpt-9"}]}, False),
    ],
)
def test_requests_of_a_message_batch_are_judged_by_their_models(
    gateway: Gateway, up: ScriptedUpstream, model: str, more: dict[str, Any], allowed: bool
) -> None:
    params = {"model": model, "max_tokens": 9, "messages": [], **more}
    body = {"model": "text", "requests": [{"custom_id": "1", "params": {"model": "text"}}, {"params": params}]}
    if allowed:
        up.say(json_answer(200, [], {"id": "msgbatch_1"}))
        assert post(gateway, "narrow", "/messages/batches", body).status_code == 200
    else:
        assert refused(post(gateway, "narrow", "/messages/batches", body), up)
    up.requests.clear()
    # What a batch costs at most is not known.
    assert refused(post(gateway, "paying", "/messages/batches", body), up, "not_bounded")


def test_a_batch_without_requests_names_no_model(gateway: Gateway, up: ScriptedUpstream) -> None:
    assert refused(post(gateway, "narrow", "/messages/batches", {"requests": []}), up)
    assert refused(post(gateway, "narrow", "/messages/batches", {"requests": "text"}), up)


@pytest.mark.parametrize(
    "body",
    [
        b'{"requests":[{"params":{"model":"gpt-9","model":"text"}}]}',
        b'{"requests":[{"params":{"model":"text","model":"gpt-9"}}]}',
        b'{"requests":[{"params":{"model":"gpt-9"},"params":{"model":"text"}}]}',
        b'{"requests":[{"params":{"model":"gpt-9"}}],"requests":[{"params":{"model":"text"}}]}',
        rb'{"requests":[{"params":{"mo\u0064el":"gpt-9","model":"text"}}]}',
    ],
)
def test_fields_that_come_twice_are_both_judged(gateway: Gateway, up: ScriptedUpstream, body: bytes) -> None:
    assert refused(post(gateway, "narrow", "/messages/batches", body), up)


OTHERS = {
    "models": ["text", "gpt-9"],
    "fallbacks": ["gpt-9"],
    "context_window_fallbacks": [{"text": ["gpt-9"]}],
    "preset": "cheap",
    "plugins": [{"id": "auto-router", "allowed_models": ["gpt-9"]}],
    "tools": [{"type": "image_generation", "model": "gpt-image-9"}],
}


@pytest.mark.parametrize("field", list(OTHERS))
def test_fallbacks_are_judged_like_the_model(gateway: Gateway, up: ScriptedUpstream, field: str) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    body = {"model": "chat/text", "messages": messages, field: OTHERS[field]}
    assert refused(post(gateway, "narrow", "/chat/completions", body), up)
    hosted = field in ("plugins", "tools")
    code, status = ("not_bounded", 403) if hosted else ("unknown_price", 429)
    assert refused(post(gateway, "paying", "/chat/completions", body), up, code, status)
    escaped = json.dumps(body).replace(f'"{field}"', '"' + "".join(f"\\u{ord(one):04x}" for one in field) + '"')
    assert refused(post(gateway, "narrow", "/chat/completions", escaped.encode()), up)
    assert refused(
        post(gateway, "narrow", "/embeddings", {"model": "chat/text", "input": "", field: OTHERS[field]}), up
    )
    assert post(gateway, "free", "/chat/completions", body).status_code == 200


def test_allowed_fallbacks_pass(gateway: Gateway, up: ScriptedUpstream) -> None:
    body = {"model": "chat/text", "messages": [{"role": "user", "content": "Hi"}], "models": ["text", "text-2"]}
    assert post(gateway, "narrow", "/chat/completions", body).status_code == 200
    assert up.last().json["models"] == ["text", "text-2"]


def form(*fields: bytes, end: bytes = b"--b--\r\n") -> bytes:
    """Return a form with these fields, each a head and a value."""
    return b"".join(b"--b\r\n%b\r\n" % field for field in fields) + end


NAMED = b'content-disposition: form-data; name="model"\r\n\r\n'
SOUND = b'content-disposition: form-data; name="file"; filename="a.wav"\r\ncontent-type: audio/wav\r\n\r\nRIFF'
ALLOWED = NAMED + b"chat/text"
FORMS = {
    "two models": form(ALLOWED, NAMED + b"gpt-9"),
    "two models around a file": form(ALLOWED, SOUND + bytes(3_000_000), NAMED + b"gpt-9"),
    "an unquoted name": form(ALLOWED, b"content-disposition: form-data; name=model\r\n\r\ngpt-9"),
    "a name in capitals": form(ALLOWED, b'Content-Disposition: form-data; name="Model"\r\n\r\ngpt-9'),
    "an extended name": form(ALLOWED, b"content-disposition: form-data; name*=utf-8''model\r\n\r\ngpt-9"),
    "an escaped name": form(ALLOWED, b'content-disposition: form-data; name="mo\\del"\r\n\r\ngpt-9'),
    "a list": form(ALLOWED, b'content-disposition: form-data; name="model[]"\r\n\r\ngpt-9'),
    "two names": form(ALLOWED, b'content-disposition: form-data; name="x"; name="model"\r\n\r\ngpt-9'),
    "two heads": form(ALLOWED, b'content-disposition: form-data; name="x"\r\n' + NAMED + b"gpt-9"),
    "a folded head": form(ALLOWED, b'content-disposition: form-data;\r\n name="model"\r\n\r\ngpt-9'),
    "an encoded field": form(ALLOWED, b"content-transfer-encoding: base64\r\n" + NAMED + b"Z3B0LTk="),
    "line feeds": form(ALLOWED).replace(b"--b--", b"") + b"--b\n" + NAMED.replace(b"\r\n", b"\n") + b"gpt-9\n--b--\n",
    "a boundary inside of a value": form(SOUND + b"\n--b\n" + NAMED.replace(b"\r\n", b"\n") + b"gpt-9", ALLOWED),
    "a second end": form(ALLOWED) + form(NAMED + b"gpt-9"),
    "no end": form(ALLOWED, end=b""),
    "something in front": b"x\r\n" + form(ALLOWED),
}


@pytest.mark.parametrize("case", list(FORMS))
@pytest.mark.parametrize("chunked", [False, True])
def test_forms_that_can_be_read_in_two_ways_are_refused(
    gateway: Gateway, up: ScriptedUpstream, case: str, chunked: bool
) -> None:
    """What is refused after a part was sent on never reaches the upstream as a whole."""
    data = FORMS[case]
    content: Any = iter([data[:50], data[50:]]) if chunked else data
    headers = {"content-type": "multipart/form-data; boundary=b"}
    answer = post(gateway, "narrow", "/audio/transcriptions", content=content, headers=headers)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["code"] == "unclear_form"
    assert [request for request in up.requests if request.complete or b"gpt-9" in request.body] == []


@pytest.mark.parametrize("case", [*FORMS, "clear"])
def test_it_does_not_matter_how_a_form_is_cut(case: str) -> None:
    data = FORMS.get(case, form(SOUND, ALLOWED))[:2000]
    found = set()
    for size in (1, 2, 3, 7, 2000):
        reader = FormReader("b")
        try:
            for start in range(0, len(data), size):
                reader.feed(data[start : start + size])
            reader.close()
            found.add(str(reader.model))
        except BadRequest as error:
            found.add(error.code)
    assert len(found) == 1, found
    assert (case == "clear") == (found != {"unclear_form"})


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("multipart/form-data; boundary=b", 200),
        ('Multipart/Form-Data; charset=utf-8; boundary="b"', 200),
        ("multipart/form-data; boundary=b; boundary=c", 400),
        ("multipart/form-data; xboundary=b; boundary=c", 400),
        ("multipart/form-data", 400),
        ("text/plain", 400),
    ],
)
def test_forms_and_their_content_type(gateway: Gateway, up: ScriptedUpstream, kind: str, status: int) -> None:
    if status == 200:
        up.say(json_answer(200, [], {"text": "Hello"}))
    data = form(SOUND, NAMED.replace(b'"', b"") + b"chat/text")
    answer = post(gateway, "narrow", "/audio/transcriptions", content=data, headers={"content-type": kind})
    assert answer.status_code == status, answer.text
    if status == 200:
        assert up.last().body == data.replace(b"chat/text", b"text")


def test_a_model_in_the_query_is_judged(gateway: Gateway, up: ScriptedUpstream) -> None:
    assert refused(post(gateway, "narrow", "/embeddings?model=gpt-9", {"model": "chat/text", "input": "a"}), up)


@pytest.mark.parametrize("path", ["/embeddings?model=text", "/images/generations?model=text", "/moderations"])
def test_a_request_without_a_model_of_its_own_is_refused(gateway: Gateway, up: ScriptedUpstream, path: str) -> None:
    """A server would choose one, whatever the query or a fallback says."""
    body = {"input": "a", "prompt": "a", "fallbacks": ["text"]}
    assert refused(post(gateway, "narrow", path, body), up)


@pytest.mark.parametrize("field", ["models", "fallbacks"])
def test_other_endpoints_reserve_what_a_fallback_may_cost(gateway: Gateway, up: ScriptedUpstream, field: str) -> None:
    for path, given in (("/completions", {"prompt": "a", "max_tokens": 9}), ("/embeddings", {"input": "a"})):
        body = {"model": "chat/text", **given, field: ["gpt-9"]}
        assert refused(post(gateway, "paying", path, body), up, "unknown_price", 429)
        up.say(json_answer(200, [], {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}))
        assert post(gateway, "paying", path, {**body, field: ["text-2"]}).status_code == 200
        up.requests.clear()


def test_a_response_is_charged_at_the_price_of_the_fallback_that_gave_it(up: ScriptedUpstream, tmp_path: Path) -> None:
    """Of the dearest, if it does not tell which one did: no fallback is cheaper than its price."""
    prices = '{"text*": {input: 1, output: 1}'
    text = CONFIG.replace(prices, prices + ', "dear": {input: 100000, output: 100000}')
    usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}
    with running(tmp_path, text, up.url) as gateway:
        for path, more, told, dollars in (
            ("/chat/completions", chat, "text", 1e-5),
            ("/chat/completions", chat, "dear", 1),
            ("/chat/completions", chat, "vendor/dear", 1),
            ("/completions", {"prompt": "a", "max_tokens": 9}, "dear", 1),
        ):
            before = _spent(gateway)
            answer = {"id": "c", "object": "chat.completion", "model": told, "choices": [choice], "usage": usage}
            up.say(json_answer(200, [], answer))
            found = post(gateway, "paying", path, {"model": "chat/text", "models": ["dear"], **more})
            assert found.status_code == 200, found.text
            assert _spent(gateway) - before == pytest.approx(dollars, rel=1e-3)


def _spent(gateway: Gateway) -> float:
    headers = {"authorization": "Bearer paying-key-canary"}
    return float(httpx2.get(f"{gateway.url}/v1/usage", headers=headers).json()["budgets"][0]["spent"])


def test_limits_of_a_fallback_count_for_keys_without_limits(up: ScriptedUpstream, tmp_path: Path) -> None:
    more = 'model_limits: {"gpt-9": {limits: {requests_per_day: 1}}}\n'
    with running(tmp_path, CONFIG + more, up.url) as gateway:
        body = {"model": "chat/text", "messages": [{"role": "user", "content": "Hi"}], "models": ["gpt-9"]}
        found = [post(gateway, "free", "/chat/completions", body).status_code for _ in range(2)]
        assert found == [200, 429]


def test_looking_and_deleting_runs_no_model(gateway: Gateway, up: ScriptedUpstream) -> None:
    up.say(json_answer(200, [], {"id": "msgbatch_9"}))
    body = {"requests": [{"custom_id": "1", "params": {"model": "text"}}]}
    assert post(gateway, "narrow", "/messages/batches", body).status_code == 200
    headers = {"x-api-key": "narrow-key-canary", "anthropic-version": "2023-06-01"}
    for method in ("GET", "DELETE"):
        up.say(json_answer(200, [], {"id": "msgbatch_9"}))
        answer = httpx2.request(method, f"{gateway.url}/v1/messages/batches/msgbatch_9", headers=headers)
        assert answer.status_code == 200, answer.text


def test_cancelling_makes_nothing(gateway: Gateway, up: ScriptedUpstream) -> None:
    """A key for certain models can cancel what is its own."""
    up.say(json_answer(200, [], {"id": "msgbatch_8"}))
    body = {"requests": [{"custom_id": "1", "params": {"model": "text"}}]}
    assert post(gateway, "narrow", "/messages/batches", body).status_code == 200
    up.say(json_answer(200, [], {"id": "msgbatch_8"}))
    assert post(gateway, "narrow", "/messages/batches/msgbatch_8/cancel").status_code == 200
    assert post(gateway, "narrow", "/messages/batches/msgbatch_7/cancel").status_code == 404


@pytest.mark.parametrize("path", ["/completions", "/audio/speech", "/images/edits", *MAKING, "/messages/batches"])
def test_policies_are_not_avoided(gateway: Gateway, up: ScriptedUpstream, path: str) -> None:
    body = {"model": "text", "prompt": "me@example.com"}
    assert refused(post(gateway, "judged", path, body), up, "not_judged")


def test_an_endpoint_can_be_allowed_by_name(gateway: Gateway, up: ScriptedUpstream) -> None:
    up.say(json_answer(200, [], {"data": []}))
    body = {"model": "chat/text", "prompt": "me@example.com"}
    assert post(gateway, "judged", "/images/generations", body).status_code == 200


@pytest.mark.parametrize(
    ("path", "given", "sent"),
    [
        ("/embeddings", {"input": "I am me@example.com"}, {"input": "I am <email_1>"}),
        ("/embeddings", {"input": ["a", "I am me@example.com"]}, {"input": ["a", "I am <email_1>"]}),
        ("/embeddings", {"input": ["a", "b"]}, {"input": ["a", "b"]}),
        ("/moderations", {"input": [{"type": "text", "text": "me@example.com"}]}, None),
        (
            "/rerank",
            {"query": "me@example.com", "documents": ["you@example.com", {"text": "b"}], "top_n": 2},
            {"query": "<email_1>", "documents": ["<email_2>", {"text": "b"}], "top_n": 2},
        ),
    ],
)
def test_texts_are_judged(
    gateway: Gateway, up: ScriptedUpstream, path: str, given: dict[str, Any], sent: dict[str, Any] | None
) -> None:
    up.say(json_answer(200, [], {"data": [], "usage": {"prompt_tokens": 1, "total_tokens": 1}}))
    answer = post(gateway, "judged", path, {"model": "chat/text", **given})
    assert answer.status_code == 200, answer.text
    assert "example.com" not in up.last().body.decode()
    if sent is not None:
        expected = json.dumps({"model": "text", **sent})
        # The markers of `redact` have random parts.
        found = {name: value for name, value in up.last().json.items() if name != "model"}
        assert json.dumps(found).count("example.com") == 0
        assert [type(value) for value in found.values()] == [type(value) for value in sent.values()]
        assert found.keys() | {"model"} == json.loads(expected).keys()


def test_input_that_is_not_text_is_refused_where_policies_apply(gateway: Gateway, up: ScriptedUpstream) -> None:
    for given in ([1, 2, 3], [[1, 2]], [{"type": "image_url", "image_url": {"url": "https://a.example"}}], {"text": 1}):
        assert refused(post(gateway, "judged", "/embeddings", {"model": "chat/text", "input": given}), up, "not_judged")


@pytest.mark.parametrize("body", [
    b'{"model":"chat/text","input":"me@example.com","input":"hi"}',
    b'{"model":"chat/text","in\\u0070ut":"me@example.com","input":"hi"}',
])  # fmt: skip
def test_only_the_field_that_was_judged_goes_out(gateway: Gateway, up: ScriptedUpstream, body: bytes) -> None:
    up.say(json_answer(200, [], {"data": [], "usage": {"prompt_tokens": 1, "total_tokens": 1}}))
    assert post(gateway, "judged", "/embeddings", body).status_code == 200
    assert up.last().body == b'{"model":"text","input":"hi"}'


@pytest.mark.parametrize("more", [
    {"messages": [{"role": "user", "content": "I am me@example.com"}]},
    {"instruction": "I am me@example.com"},
    {"extra": [[{"I am me@example.com": 1}]]},
    {"I am me@example.com": 1},
])  # fmt: skip
def test_text_in_other_fields_is_refused_where_policies_apply(
    gateway: Gateway, up: ScriptedUpstream, more: dict[str, Any]
) -> None:
    assert refused(
        post(gateway, "judged", "/embeddings", {"model": "chat/text", "input": "a", **more}), up, "not_judged"
    )
    up.say(json_answer(200, [], {"data": [], "usage": {"prompt_tokens": 1, "total_tokens": 1}}))
    plain = {"model": "chat/text", "input": "a", "encoding_format": "float", "dimensions": 5, "user": "user-1"}
    assert post(gateway, "judged", "/embeddings", plain).status_code == 200


def test_policies_of_a_fallback_apply(up: ScriptedUpstream, tmp_path: Path) -> None:
    """Also where a request does not tell its models: one of them may be this one."""
    with running(tmp_path, CONFIG + 'model_policies: {"gpt-9": [words]}\n', up.url) as gateway:
        _check_fallback(gateway, up)


def _check_fallback(gateway: Gateway, up: ScriptedUpstream) -> None:
    body: dict[str, Any] = {"model": "chat/text", "messages": [{"role": "user", "content": "I am me@example.com"}]}
    post(gateway, "free", "/chat/completions", body)
    assert "me@example.com" in up.last().body.decode()
    post(gateway, "free", "/chat/completions", {**body, "models": ["text", "gpt-9"]})
    assert "me@example.com" not in up.last().body.decode()
    up.requests.clear()
    assert refused(post(gateway, "free", "/batches", {"input_file_id": "file-1"}), up, "not_judged")
    up.say(json_answer(200, [], {"id": "file-1"}))
    assert post(gateway, "free", "/files", {}).status_code == 200
