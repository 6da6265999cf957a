"""What the prompt cache saves: shown per request and session, and why a request has read less than it could."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.pooling import ADMIN, BASES, Pooled, accepting, account, pooled
from tests.gateway.test_conversation_accounts import explained
from tests.scripted import thread
from tests.scripted.http import json_answer
from tests.scripted.server import ScriptedUpstream
from trilogue.app.cli.explain import explanation
from trilogue.gateway.conversations.cache_sessions import MOST_BYTES, MOST_MODELS, MOST_SESSIONS, SentRequest, Sessions
from trilogue.gateway.record import CacheUse, RequestRecord
from trilogue.model import Protocol, Usage

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
Body = dict[str, Any]
CONFIG = f"""
keys: [env:TRILOGUE_KEY]
providers:
  chat: {{protocol: openai_chat_completions, base_url: {BASES[C]}, accounts: [{account("a")}, {account("b")}]}}
  loose: {{protocol: openai_chat_completions, base_url: {BASES[C]}, accounts: [{account("a")}, {account("b")}],
    pool: {{sticky: false}}}}
  single: {{protocol: openai_chat_completions, base_url: {BASES[C]}, accounts: [{account("a")}]}}
{ADMIN}"""
SESSION = {"x-session-affinity": "ses_1"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    with thread.running(accepting("a", "b")) as up, pooled(tmp_path_factory.mktemp("cache"), CONFIG, up) as running:
        yield running


@pytest.fixture(autouse=True)
def _renewed(gateway: Pooled) -> None:
    gateway.renew()


def say(up: ScriptedUpstream, tokens: int, read: int | None, written: int | None = None) -> None:
    """Let the next response report these input tokens."""
    details = {"cached_tokens": read, "cache_write_tokens": written}
    usage: Body = {"prompt_tokens": tokens, "completion_tokens": 7, "total_tokens": tokens + 7}
    if read is not None:
        usage["prompt_tokens_details"] = {name: value for name, value in details.items() if value is not None}
    message = {"role": "assistant", "content": "Done."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    up.say(
        json_answer(
            200, [], {"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice]} | {"usage": usage}
        )
    )


def turn(number: int) -> Body:
    """A request of a session that is long enough to be cached."""
    said = [{"role": "assistant" if one % 2 else "user", "content": f"{one} " * 2_000} for one in range(2 * number + 1)]
    tools = [{"name": name, "description": name, "input_schema": {"type": "object"}} for name in ("read", "write")]
    return {"system": "You are an agent.", "tools": tools, "messages": said}


def ask(gateway: Pooled, asked: Body, usage: tuple[int, int | None], model: str = "chat/m", **more: Any) -> Body:
    """What is known about a request whose response reports this usage."""
    say(gateway.up, *usage)
    answer = gateway.ask(M, model, **{"headers": SESSION, **more}, **asked)
    assert answer.status == 200, answer.body
    return explained(gateway, answer.headers["x-request-id"])


def test_a_session_whose_cache_works(gateway: Pooled) -> None:
    first = ask(gateway, turn(0), (4_000, 0), headers={"x-session-affinity": "works"})
    second = ask(gateway, turn(1), (8_000, 3_968), headers={"x-session-affinity": "works"})
    assert (first["cache_hit_rate"], first["session_hit_rate"], first["session_requests"]) == (0.0, 0.0, 1)
    assert (second["cache_hit_rate"], second["session_requests"]) == (0.496, 2)
    assert (second["session_input_tokens"], second["session_cache_read_tokens"]) == (12_000, 3_968)
    assert second["session_hit_rate"] == 0.3307
    assert (second["compared_with"], second["cache_missed"]) == (first["id"], None)
    assert second["session"] == first["session"] != ask(gateway, turn(0), (4_000, 0))["session"]
    listed = gateway.admin.get("/requests", params={"session": first["session"]}).json()["requests"]
    assert [one["id"] for one in listed] == [second["id"], first["id"]]
    shown = list(explanation(second))
    at = next(number for number, line in enumerate(shown) if line.startswith("cache "))
    assert shown[at : at + 2] == [
        "cache        50 % read, 4.0k missed",
        f"             session {first['session']}: 2 requests, 33 % of 12.0k read",
    ]


def changed(words: str) -> Body:
    """The second turn of a session, in which something of the first has changed."""
    asked = turn(1)
    if words == "tools reordered":
        return {**asked, "tools": asked["tools"][::-1]}
    if words == "tools[1] removed":
        return {**asked, "tools": asked["tools"][:1]}
    at = {"messages[0] changed": 0, "messages[1] changed": 1}[words]
    if at == 0:
        return {**asked, "system": "You are a poet."}
    return {**asked, "messages": [{"role": "user", "content": "Something else."}, *asked["messages"][1:]]}


@pytest.mark.parametrize("words", ["tools reordered", "tools[1] removed", "messages[0] changed", "messages[1] changed"])
@pytest.mark.parametrize("model", ["chat/m", "single/m"])
def test_a_request_that_breaks_the_prefix(gateway: Pooled, words: str, model: str) -> None:
    """The difference is in what went out: in a Chat upstream's body, the system prompt is the first message."""
    headers = {"x-session-affinity": f"{words}{model}"}
    first = ask(gateway, turn(0), (4_000, 0), model, headers=headers)
    found = ask(gateway, changed(words), (8_000, 0), model, headers=headers)
    assert (found["cache_missed"], found["compared_with"]) == (words, first["id"])
    assert f"             not as in {first['id']}: {words}" in list(explanation(found))


def test_other_reasons(gateway: Pooled) -> None:
    headers = {"x-session-affinity": "reasons"}
    ask(gateway, turn(0), (4_000, 0), headers=headers)
    (old,) = gateway.asked()
    assert gateway.admin.post(f"/accounts/chat/{old}/disable").status_code == 200
    found = ask(gateway, turn(1), (8_000, 0), headers=headers)
    assert found["cache_missed"] == f"other account ({old} before)"
    assert found["attempts"][-1]["left"] == old
    found = ask(gateway, turn(2), (12_000, 0), headers=headers)
    assert found["cache_missed"] == "nothing has changed: the provider has not cached it, or has forgotten it"
    found = ask(gateway, turn(3), (12_000, 0), "chat/n", headers=headers)
    assert found["cache_missed"] == "model changed"
    gateway.renew()
    found = ask(gateway, turn(3), (12_000, 0), "single/m", headers=headers)
    assert found["cache_missed"] == "other provider (chat before)"


def test_an_account_that_was_changed_without_a_failure(gateway: Pooled) -> None:
    """Conversations need not stay with an account; and a client may name its sessions anew."""
    headers = {"x-session-affinity": "loose"}
    ask(gateway, turn(0), (4_000, 0), "loose/m", headers=headers)
    found = ask(gateway, turn(1), (8_000, 0), "loose/m", headers=headers)
    assert found["cache_missed"] == (
        "other account (a before): conversations of this provider stay with no account (pool.sticky)"
    )
    named = {"x-session-affinity": "named"}
    ask(gateway, turn(0), (4_000, 0), headers=named)
    # Responses clients may send a key of the cache as well, which names the conversation.
    say(gateway.up, 8_000, 0)
    answer = gateway.ask(R, "chat/m", headers=named, input="word " * 2_000, prompt_cache_key="k")
    found = explained(gateway, answer.headers["x-request-id"])
    assert found["cache_missed"].endswith("did not know any more which account the conversation was with")


def test_an_upstream_that_does_not_say_what_it_has_read(gateway: Pooled) -> None:
    """A difference is shown all the same: on local servers it costs a whole prefill."""
    headers = {"x-session-affinity": "local"}
    ask(gateway, turn(0), (4_000, None), headers=headers)
    found = ask(gateway, turn(1), (8_000, None), headers=headers)
    assert (found["cache_hit_rate"], found["cache_missed"]) == (None, None)
    found = ask(gateway, changed("tools reordered"), (8_000, None), headers=headers)
    assert found["cache_missed"] == "tools reordered"


def test_without_the_name_of_a_session(gateway: Pooled) -> None:
    """By what opens the conversation; a single shot belongs to none."""
    for model in ("chat/m", "single/m"):
        asked = {**turn(1), "system": f"You are {model}."}
        first = ask(gateway, {**asked, "messages": asked["messages"][:1]}, (4_000, 0), model, headers={})
        second = ask(gateway, asked, (8_000, 4_000), model, headers={})
        assert second["compared_with"] == first["id"]
    single = {"messages": [{"role": "user", "content": "word " * 2_000}]}
    assert ask(gateway, single, (4_000, 0), "single/m", headers={})["session"] is None
    assert ask(gateway, {"messages": [{"role": "user", "content": "Hi"}]}, (10, 0))["session"] is None


def test_a_chain_of_responses_is_one_session(gateway: Pooled) -> None:
    found, previous = [], None
    for number in range(3):
        say(gateway.up, 4_000 * (number + 1), 4_000 * number)
        asked: Body = {"input": f"{number} " * 3_000, "store": True, "previous_response_id": previous}
        answer = gateway.ask(R, "single/m", **asked)
        previous = json.loads(answer.body)["id"]
        found.append(explained(gateway, answer.headers["x-request-id"]))
    assert len({one["session"] for one in found}) == 1
    assert [one["session_requests"] for one in found] == [1, 2, 3]
    assert [one["cache_missed"] for one in found] == [None] * 3


def test_agents_of_a_session(gateway: Pooled) -> None:
    """A sub-agent of Claude Code has a prompt of its own, which is no change of the session's."""
    session = {"x-claude-code-session-id": "0b7c"}
    agent = {**session, "x-claude-code-agent-id": "explorer"}
    first = ask(gateway, turn(0), (4_000, 0), headers=session)
    other = ask(gateway, {**turn(0), "system": "You explore."}, (4_000, 0), headers=agent)
    assert other["session"] != first["session"]
    assert ask(gateway, turn(1), (8_000, 4_000), headers=session)["compared_with"] == first["id"]


def test_a_large_request(gateway: Pooled) -> None:
    """It is compared in a thread."""
    headers, large = {"x-session-affinity": "large"}, turn(0)
    large["messages"][0]["content"] = "word " * 100_000
    first = ask(gateway, large, (120_000, 0), headers=headers)
    say(gateway.up, 120_000, 0)
    answer = gateway.ask(M, "chat/m", headers=headers, **{**large, "system": "You are a poet."})
    found: Body = {}
    while found.get("compared_with") != first["id"]:
        found = explained(gateway, answer.headers["x-request-id"])
    assert found["cache_missed"] == "messages[0] changed"


def test_what_is_kept_is_bounded() -> None:
    sessions = Sessions()

    def note(name: str, model: str, size: int) -> None:
        record = RequestRecord(request_id="r", began_at=0.0, upstream_model=model, usage=Usage(fresh=1))
        sent = SentRequest(request_id="r", body=bytes(size), provider="p", account="a", input=1, at=0.0)
        sessions.note(CacheUse(session=name), record, sent, f"resp_{name}{model}")
        assert record.cache is not None

    for number in range(2 * MOST_MODELS):
        note("one", f"{number}", 1_000)
    assert sessions.bytes_kept == MOST_MODELS * 1_000
    note("one", f"{2 * MOST_MODELS - 1}", 10)
    assert sessions.bytes_kept == (MOST_MODELS - 1) * 1_000 + 10
    assert sessions.before("one", "unknown") == sessions.before("one", f"{2 * MOST_MODELS - 1}")
    for number in range(2 * MOST_SESSIONS):
        note(f"{number}", "m", 10)
    assert len(sessions) == MOST_SESSIONS
    assert sessions.bytes_kept == MOST_SESSIONS * 10
    for number in range(8):
        note(f"large {number}", "m", MOST_BYTES // 4)
        assert sessions.bytes_kept <= MOST_BYTES
    assert sessions.before("large 7", "m") is not None
    assert sessions.before("large 0", "m") is None
    kept = sessions.bytes_kept
    note("too large", "m", MOST_BYTES)
    assert sessions.bytes_kept == kept
    assert sessions.before("too large", "m") is None
