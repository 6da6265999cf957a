"""Tool search that the gateway runs: the official SDKs on every pair (docs/mapping.md: Tool search)."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.running import CLIENT_KEY, CONFIG, Gateway, running
from tests.scripted import thread
from tests.scripted.errors import OVERLOADED
from tests.scripted.http import Do, Step
from tests.scripted.scenario import Answer, Call, Plan, Say, Stop, Think
from tests.scripted.server import ScriptedUpstream
from tests.scripted.steps import answer_steps, error_steps
from tests.scripted.wire import Wire
from tests.timing import eventually
from trilogue.capture import read_capture, replay

Json = dict[str, Any]
FILE = Path(__file__).with_name("policy_file.py")
REGEX, WORDS = "tool_search_tool_regex", "tool_search_tool_bm25"
SETTINGS = (
    CONFIG.replace("accounts: [{key: env:UP_KEY}]}", "accounts: [{key: env:UP_KEY}], profile: {tool_search: false}}")
    .replace("keys: [env:TRILOGUE_KEY]\n", "POLICIES")
    .replace(
        "POLICIES",
        "policies:\n  no-delete: {use: tools, deny: [delete_file], words: 'Not that one.'}\n"
        f"  slow: {{use: '{FILE}:Slow'}}\n  no-word: {{use: block_phrases, phrases: [forbidden]}}\n"
        "keys:\n  - env:TRILOGUE_KEY\n  - {key: env:JUDGED_KEY, policies: [no-delete]}\n"
        "  - {key: env:SLOW_KEY, policies: [slow, no-word]}\n",
    )
)
JUDGED_KEY = "judged-key-canary-3d21"
SLOW_KEY = "slow-key-canary-77a0"
SERVED = [("messages", "chat"), ("messages", "responses"), ("responses", "chat"), ("responses", "messages")]
PAIRS = pytest.mark.parametrize(("client", "upstream"), SERVED, ids=["-".join(pair) for pair in SERVED])
MESSAGES = pytest.mark.parametrize("upstream", ["chat", "responses"])
EITHER = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
PLACE = {"type": "object", "properties": {"place": {"type": "string", "description": "A town or a street."}}}
TOOLS = {
    "get_weather": "Get the weather of a place.",
    "get_forecast": "Get the weather forecast of a place.",
    "send_mail": "Send an electronic letter.",
    "delete_file": "Delete a file.",
}


class SearchingUpstream(ScriptedUpstream):
    """An upstream that gives the answers which a test has planned, one for each request."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: deque[Answer] = deque()
        self.fails_at = 0
        """the number of the request that gets an error"""
        self.hangs_at = 0
        """the number of the request that gets no response"""

    def begin(self, *answers: Answer) -> None:
        self.requests.clear()
        self.answers = deque(answers)
        self.fails_at = self.hangs_at = 0

    def _scenario(self, body: Json, wire: Wire, number: int, scenario: str) -> Iterable[Step]:
        if len(self.requests) == self.fails_at:
            return error_steps(OVERLOADED, wire, number)
        if len(self.requests) == self.hangs_at:
            return [Do.HANG]
        answer = self.answers.popleft() if self.answers else Answer((Say(("Nothing", " is planned.")),))
        return answer_steps(Plan(answer), wire, wire.read(body), number)

    @property
    def bodies(self) -> list[Json]:
        return [json.loads(request.body) for request in self.requests]


@pytest.fixture(scope="module")
def up() -> Iterator[SearchingUpstream]:
    with thread.running(SearchingUpstream()) as upstream:
        assert isinstance(upstream, SearchingUpstream)
        yield upstream


@pytest.fixture(scope="module")
def served(up: SearchingUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("search")
    settings = f"{SETTINGS}\ncapture: {{sample: 1, folder: {folder}/captures}}\n"
    with running(folder, settings, up.url, {"JUDGED_KEY": JUDGED_KEY, "SLOW_KEY": SLOW_KEY}) as gateway:
        yield gateway


class Client:
    """A conversation of the official SDK of one protocol, with deferred tools and its provider's search."""

    def __init__(self, gateway: Gateway, client: str, upstream: str, stream: bool, kind: str = WORDS, more: int = 0):
        self.gateway, self.name, self.model, self.stream, self.kind = gateway, client, f"{upstream}/m", stream, kind
        names = {**TOOLS, **{f"other_tool_{n}": f"Does something else, number {n}." for n in range(more)}}
        schema = "input_schema" if client == "messages" else "parameters"
        typed: Json = {} if client == "messages" else {"type": "function", "strict": False}
        self.tools: list[Json] = [
            {**typed, "name": name, "description": text, schema: PLACE, "defer_loading": True}
            for name, text in names.items()
        ]
        self.tools.insert(0, {**typed, "name": "now", "description": "Tell the time.", schema: {"type": "object"}})
        search = {"type": f"{kind}_20251119", "name": kind} if client == "messages" else {"type": "tool_search"}
        self.tools.insert(1, search)
        self.history: list[Json] = []
        self.native: Json = {}
        self.key = CLIENT_KEY
        self.more: Json = {}
        """further fields of the request"""

    @property
    def content(self) -> list[Json]:
        return list(self.native["content" if self.name == "messages" else "output"])

    def say(self, text: str) -> list[Json]:
        self.history.append({"role": "user", "content": text})
        return self.ask()

    def give(self, result: str) -> list[Json]:
        """Answer the last call."""
        call = self.content[-1]
        if self.name == "messages":
            part = {"type": "tool_result", "tool_use_id": call["id"], "content": result}
            self.history.append({"role": "user", "content": [part]})
        else:
            self.history.append({"type": "function_call_output", "call_id": call["call_id"], "output": result})
        return self.ask()

    def ask(self) -> list[Json]:
        self.native = self._messages() if self.name == "messages" else self._responses()
        if self.name == "messages":
            self.history.append({"role": "assistant", "content": self.content})
        else:
            self.history += self.content
        return self.content

    def _messages(self) -> Json:
        asked: Any = {"model": self.model, "max_tokens": 500, "messages": self.history, "tools": self.tools}
        asked |= self.more
        client = self.gateway.anthropic.with_options(api_key=self.key)
        if not self.stream:
            return dict(client.messages.create(**asked).model_dump(mode="json", exclude_none=True))
        with client.messages.stream(**asked) as stream:
            return dict(stream.get_final_message().model_dump(mode="json", exclude_none=True))

    def _responses(self) -> Json:
        asked: Any = {"model": self.model, "input": self.history, "tools": self.tools, "store": False}
        client = self.gateway.openai.with_options(api_key=self.key)
        if not self.stream:
            return dict(client.responses.create(**asked).model_dump(mode="json"))
        events = list(client.responses.create(**asked, stream=True))
        return dict(events[-1].model_dump(mode="json")["response"])


def search(kind: str = WORDS, **arguments: Any) -> Call:
    return Call((json.dumps(arguments),), kind)


def searched(client: str, query: str) -> Answer:
    """Return an answer in which the model only searches."""
    name = WORDS if client == "messages" else "tool_search"
    return Answer((Say(("Let me", " look. ")), search(name, query=query)), Stop.CALLS)


def called(name: str) -> Answer:
    return Answer((Call(('{"place": ', '"Bonn"}'), name),), Stop.CALLS)


def offered(body: Json) -> list[str]:
    """Return the names of the tools that an upstream was sent, in order."""
    return [str((tool.get("function") or tool)["name"]) for tool in body["tools"]]


def history(body: Json) -> list[Json]:
    """Return the conversation, without the cache marks that move with its end."""
    return [without_marks(one) for one in body.get("messages") or body["input"]]


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_marks(one) for name, one in value.items() if name != "cache_control"}
    return [without_marks(one) for one in value] if isinstance(value, list) else value


def found(content: list[Json]) -> list[list[str]]:
    """Return the names that each search of a response has found."""
    results = [block["content"] for block in content if block["type"] == "tool_search_tool_result"]
    outputs = [item["tools"] for item in content if item["type"] == "tool_search_output"]
    return [[one["tool_name"] for one in result.get("tool_references", [])] for result in results] + [
        [one["name"] for one in tools] for tools in outputs
    ]


def types(content: list[Json]) -> list[str]:
    return [block["type"] for block in content]


@PAIRS
@EITHER
def test_a_search_and_two_turns(
    served: Gateway, up: SearchingUpstream, client: str, upstream: str, stream: bool
) -> None:
    """The client sees what its own provider would send, and the upstream only what was found, after all others."""
    up.begin(searched(client, "weather"), called("get_weather"), Answer((Say(("It is", " fine.")),)))
    agent = Client(served, client, upstream, stream)
    first = agent.say("How is the weather in Bonn?")
    if client == "messages":
        assert types(first) == ["text", "server_tool_use", "tool_search_tool_result", "tool_use"]
        assert first[1]["name"] == WORDS
        assert first[1]["input"] == {"query": "weather"}
        assert first[1]["id"] == first[2]["tool_use_id"]
        assert (agent.native["stop_reason"], first[3]["name"], first[3]["input"]) == (
            "tool_use",
            "get_weather",
            {"place": "Bonn"},
        )
        usage = agent.native["usage"]
        assert (usage["input_tokens"] + usage["cache_read_input_tokens"], usage["output_tokens"]) == (50, 20)
    else:
        assert types(first) == ["message", "tool_search_call", "tool_search_output", "function_call"]
        assert (first[1]["execution"], first[1]["call_id"], first[1]["arguments"]) == (
            "server",
            None,
            {"query": "weather"},
        )
        tools = [{name: value for name, value in tool.items() if value is not None} for tool in first[2]["tools"]]
        assert sorted(tools, key=str) == sorted(agent.tools[2:4], key=str)
        assert (first[3]["name"], json.loads(first[3]["arguments"])) == ("get_weather", {"place": "Bonn"})
        assert agent.native["status"] == "completed"
        usage = agent.native["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (50, 20)
    assert sorted(found(first)[0]) == ["get_forecast", "get_weather"]
    last = agent.give("Sunny.")
    assert last[-1]["content"][-1]["text"] if client == "responses" else last[-1]["text"] == "It is fine."
    one, two, three = up.bodies
    name = WORDS if client == "messages" else "tool_search"
    assert offered(one) == ["now", name]
    assert offered(two) == [*offered(one), *found(first)[0]]
    assert offered(three) == offered(two)
    assert "defer_loading" not in json.dumps(up.bodies)
    assert "You can now call: " in json.dumps(history(two)[-1])
    assert history(two)[: len(history(one))] == history(one)
    assert history(three)[: len(history(two))] == history(two)
    assert {key: value for key, value in one.items() if key not in ("tools", "messages", "input")} == {
        key: value for key, value in two.items() if key not in ("tools", "messages", "input")
    }


@PAIRS
@EITHER
def test_three_rounds(served: Gateway, up: SearchingUpstream, client: str, upstream: str, stream: bool) -> None:
    """Tools are appended in the order in which they were found; one that is found again stays in its place."""
    up.begin(
        searched(client, "electronic letter"),
        searched(client, "nothing like it"),
        searched(client, "forecast letter"),
        called("send_mail"),
    )
    agent = Client(served, client, upstream, stream)
    content = agent.say("Write to her.")
    assert found(content)[:2] == [["send_mail"], []]
    assert set(found(content)[2]) == {"send_mail", "get_forecast"}
    assert [offered(body)[2:] for body in up.bodies] == [
        [],
        ["send_mail"],
        ["send_mail"],
        ["send_mail", "get_forecast"],
    ]
    assert "No tool was found." in json.dumps(up.bodies[2])
    for earlier, later in zip(up.bodies, up.bodies[1:], strict=False):
        assert history(later)[: len(history(earlier))] == history(earlier)
    usage = agent.native["usage"]
    assert usage["output_tokens"] == 40


@MESSAGES
@EITHER
def test_patterns(served: Gateway, up: SearchingUpstream, upstream: str, stream: bool) -> None:
    """One that is not valid, or too long, is an error that the model sees; then it finds by name and by argument."""
    patterns = ["(", "x" * 201, "(?i)GET_.*", "street"]
    up.begin(
        *[Answer((search(REGEX, pattern=pattern),), Stop.CALLS) for pattern in patterns], Answer((Say(("Done.",)),))
    )
    content = Client(served, "messages", upstream, stream, REGEX).say("Go")
    results = [block["content"] for block in content if block["type"] == "tool_search_tool_result"]
    assert [result["type"] for result in results] == [
        "tool_search_tool_result_error",
        "tool_search_tool_result_error",
        "tool_search_tool_search_result",
        "tool_search_tool_search_result",
    ]
    assert [result.get("error_code") for result in results[:2]] == ["invalid_tool_input"] * 2
    assert found(content)[2:] == [["get_weather", "get_forecast"], list(TOOLS)]
    assert "The search failed: " in json.dumps(up.bodies[1])


@PAIRS
@EITHER
def test_the_limit_of_rounds(served: Gateway, up: SearchingUpstream, client: str, upstream: str, stream: bool) -> None:
    """A model that goes on searching is stopped. A Messages client gets a pause, and continues it as it knows how."""
    up.begin(*[searched(client, "weather")] * 6, called("get_weather"))
    agent = Client(served, client, upstream, stream)
    content = agent.say("Go")
    assert len(up.bodies) == 6
    assert len(found(content)) == 6
    if client == "messages":
        assert agent.native["stop_reason"] == "pause_turn"
        assert agent.ask()[-1]["name"] == "get_weather"
        assert len(up.bodies) == 7
    else:
        assert (agent.native["status"], agent.native["incomplete_details"]) == (
            "incomplete",
            {"reason": "max_output_tokens"},
        )
        assert stream or "stop.pause_turn" in served.recorder.exchanges[-1].losses
    assert agent.native["usage"]["output_tokens"] == (10 if client == "messages" else 60)


@PAIRS
@EITHER
def test_a_search_next_to_a_call(
    served: Gateway, up: SearchingUpstream, client: str, upstream: str, stream: bool
) -> None:
    """The response ends so that the client can answer its call; what was found is offered in the next turn."""
    name = WORDS if client == "messages" else "tool_search"
    both = Answer((search(name, query="weather"), Call(("{}",), "now")), Stop.CALLS)
    up.begin(both, called("get_weather"))
    agent = Client(served, client, upstream, stream)
    content = agent.say("Go")
    assert len(up.bodies) == 1
    assert content[-1]["name"] == "now"
    assert agent.give("noon")[-1]["name"] == "get_weather"
    assert set(offered(up.bodies[1])[2:]) == {"get_weather", "get_forecast"}


@PAIRS
def test_context_is_saved(served: Gateway, up: SearchingUpstream, client: str, upstream: str) -> None:
    """Of 204 deferred tools the upstream gets none before the search, and at most five after it."""
    up.begin(searched(client, "something number"), Answer((Say(("Done.",)),)))
    content = Client(served, client, upstream, False, more=200).say("Go")
    assert [len(body["tools"]) for body in up.bodies] == [2, 7]
    assert len(found(content)[0]) == 5
    assert len(up.requests[0].body) < 3000


@PAIRS
@EITHER
def test_policies_judge_calls_of_found_tools(
    served: Gateway, up: SearchingUpstream, client: str, upstream: str, stream: bool
) -> None:
    up.begin(searched(client, "delete"), called("delete_file"))
    agent = Client(served, client, upstream, stream)
    agent.key = JUDGED_KEY
    content = agent.say("Go")
    assert found(content) == [["delete_file"]]
    assert "Not that one." in json.dumps(content)
    assert not {"tool_use", "function_call"} & set(types(content))


@PAIRS
def test_a_client_that_leaves(served: Gateway, up: SearchingUpstream, client: str, upstream: str) -> None:
    """It leaves while the upstream thinks about what was found: that request is cancelled."""
    agent = Client(served, client, upstream, True)
    up.begin(searched(client, "weather"))
    up.hangs_at = 2
    agent.history.append({"role": "user", "content": "Go"})
    body: Json = {"model": agent.model, "stream": True, "tools": agent.tools}
    body |= {"messages": agent.history, "max_tokens": 500} if client == "messages" else {"input": agent.history}
    with served.http.stream("POST", f"/v1/{client}", json=body) as response:
        lines = response.iter_lines()
        while "tool_search" not in next(lines):
            pass
        eventually(lambda: len(up.requests) == 2)
    eventually(lambda: up.requests[1].closed)


@PAIRS
@EITHER
def test_a_failure_after_the_search(
    served: Gateway, up: SearchingUpstream, client: str, upstream: str, stream: bool
) -> None:
    """The second request fails: so does the response."""
    agent = Client(served, client, upstream, stream)
    agent.history.append({"role": "user", "content": "Go"})
    body: Json = {"model": agent.model, "stream": stream, "tools": agent.tools}
    body |= {"messages": agent.history, "max_tokens": 500} if client == "messages" else {"input": agent.history}
    up.begin(searched(client, "weather"))
    up.fails_at = 2
    response = served.http.post(f"/v1/{client}", json=body)
    assert len(up.requests) == 2
    if stream:
        assert response.status_code == 200
        assert "error" in response.text
        assert "message_stop" not in response.text
        assert "response.completed" not in response.text
    else:
        assert response.status_code == (529 if client == "messages" else 503)


@EITHER
def test_reasoning_goes_back_before_the_search(served: Gateway, up: SearchingUpstream, stream: bool) -> None:
    """What the model thought before it searched is in the request that continues, as in the next turn."""
    thought = Answer((Think(), search("tool_search", query="weather")), Stop.CALLS, thought=4)
    up.begin(thought, called("get_weather"), Answer((Say(("Done.",)),)))
    agent = Client(served, "responses", "messages", stream)
    agent.say("Go")
    agent.give("Sunny.")
    assert len(up.bodies) == 3
    assert [block["type"] for block in history(up.bodies[1])[1]["content"]] == ["thinking", "tool_use"]
    assert history(up.bodies[2])[: len(history(up.bodies[1]))] == history(up.bodies[1])


def test_what_the_log_says(served: Gateway, up: SearchingUpstream) -> None:
    """The usage of all upstream requests, and what was changed in the request."""
    up.begin(searched("messages", "weather"), called("get_weather"))
    agent = Client(served, "messages", "chat", False)
    agent.say("Go")
    record = served.record(served.recorder.exchanges[-1].headers["x-request-id"])
    assert (record["input_tokens"], record["output_tokens"]) == (50, 20)
    assert "tool.builtin_emulated" in json.dumps(record)


def test_nothing_changes_without_deferred_tools(served: Gateway, up: SearchingUpstream) -> None:
    """A search that has nothing to find is left out."""
    up.begin(Answer((Say(("Done.",)),)))
    agent = Client(served, "messages", "chat", False)
    agent.tools = [tool for tool in agent.tools if "defer_loading" not in tool]
    agent.say("Go")
    assert offered(up.bodies[0]) == ["now"]


@EITHER
def test_stored_chains(served: Gateway, up: SearchingUpstream, stream: bool) -> None:
    """What was found is offered in a turn that continues the stored response by its id."""
    up.begin(searched("responses", "weather"), Answer((Say(("Found.",)),)), called("get_weather"))
    agent = Client(served, "responses", "chat", stream)
    asked: Any = {"model": agent.model, "tools": agent.tools, "stream": stream}
    first = served.openai.responses.create(input="Go", **asked)
    first_id = list(first)[-1].response.id if stream else first.id
    second = served.openai.responses.create(input="Go on", previous_response_id=first_id, **asked)
    output = list(second)[-1].response.output if stream else second.output
    assert [item.type for item in output] == ["function_call"]
    assert set(offered(up.bodies[2])[2:]) == {"get_weather", "get_forecast"}
    assert history(up.bodies[2])[: len(history(up.bodies[1]))] == history(up.bodies[1])


@pytest.mark.parametrize("upstream", ["chat", "messages"])
@EITHER
def test_namespaces(served: Gateway, up: SearchingUpstream, upstream: str, stream: bool) -> None:
    """The name of a namespace finds all of its tools; the client gets its own names back, and its own definitions."""
    up.begin(searched("responses", "crm"), called("crm__list_orders"), Answer((Say(("Done.",)),)))
    agent = Client(served, "responses", upstream, stream)
    names = ["list_orders", "a name that no upstream takes", "close_order"]
    orders = [{**agent.tools[2], "name": name, "description": "Orders."} for name in names]
    group = {"type": "namespace", "name": "crm", "description": "Customers.", "tools": orders}
    agent.tools.append(group)
    content = agent.say("What was ordered?")
    shown = next(item["tools"] for item in content if item["type"] == "tool_search_output")
    assert [one["name"] for one in shown] == ["crm"]
    assert [one["name"] for one in shown[0]["tools"]] == names
    assert (content[-1]["namespace"], content[-1]["name"]) == ("crm", "list_orders")
    agent.give("Nothing.")
    sent = offered(up.bodies[1])[2:]
    assert (sent[0], sent[2]) == ("crm__list_orders", "crm__close_order")
    assert f"You can now call: {', '.join(sent)}" in json.dumps(up.bodies[1])
    assert offered(up.bodies[2]) == offered(up.bodies[1])


@MESSAGES
def test_a_forced_search_is_forced_once(served: Gateway, up: SearchingUpstream, upstream: str) -> None:
    up.begin(searched("messages", "weather"), called("get_weather"))
    agent = Client(served, "messages", upstream, False)
    asked: Any = {"model": agent.model, "max_tokens": 500, "tools": agent.tools}
    choice: Any = {"type": "tool", "name": WORDS}
    message = served.anthropic.messages.create(
        **asked, messages=[{"role": "user", "content": "Go"}], tool_choice=choice
    )
    assert message.content[-1].type == "tool_use"
    assert WORDS in json.dumps(up.bodies[0]["tool_choice"])
    assert WORDS not in json.dumps(up.bodies[1].get("tool_choice"))


def test_a_deferred_tool_that_is_forced(served: Gateway, up: SearchingUpstream) -> None:
    """The model can call it without a search."""
    up.begin(called("send_mail"))
    agent = Client(served, "messages", "chat", False)
    asked: Any = {"model": agent.model, "max_tokens": 500, "tools": agent.tools}
    served.anthropic.messages.create(
        **asked, messages=[{"role": "user", "content": "Go"}], tool_choice={"type": "tool", "name": "send_mail"}
    )
    assert offered(up.bodies[0]) == ["now", WORDS, "send_mail"]


def test_counted_tokens(served: Gateway, up: SearchingUpstream) -> None:
    """Tools that wait do not count."""
    up.begin()
    agent = Client(served, "messages", "responses", False, more=200)
    asked: Any = {"model": agent.model, "messages": [{"role": "user", "content": "Go"}], "tools": agent.tools}
    assert served.anthropic.messages.count_tokens(**asked).input_tokens < 800
    assert offered(up.bodies[0]) == ["now", WORDS]


@PAIRS
@EITHER
def test_captures(served: Gateway, up: SearchingUpstream, client: str, upstream: str, stream: bool) -> None:
    """Each request to the upstream is an attempt of the capture; the first one is replayed."""
    up.begin(searched(client, "weather"), called("get_weather"))
    Client(served, client, upstream, stream).say("Go")
    request_id = served.recorder.exchanges[-1].headers["x-request-id"]
    file = served.log_file.parent / "captures" / f"{request_id}.jsonl"
    eventually(file.exists)
    capture = read_capture(file.read_bytes())
    assert [(one.plan.searches, one.plan.continues) for one in capture.attempts] == [(True, False), (True, True)]
    assert [json.loads(one.request.body) for one in capture.attempts] == up.bodies
    replayed = replay(capture)
    assert replayed.differences == []
    assert replayed.compared


@PAIRS
@EITHER
def test_reasoning_that_the_client_did_not_ask_for(
    served: Gateway, up: SearchingUpstream, client: str, upstream: str, stream: bool
) -> None:
    """The model gets it back when it goes on in the same response."""
    name = WORDS if client == "messages" else "tool_search"
    up.begin(Answer((Think(), search(name, query="weather")), Stop.CALLS, thought=4), called("get_weather"))
    agent = Client(served, client, upstream, stream)
    if client == "messages":
        agent.more = {"thinking": {"type": "disabled"}}
    agent.say("Go")
    sent = json.dumps(history(up.bodies[1])[1])
    assert {"chat": "reasoning_content", "messages": '"signature"', "responses": "encrypted_content"}[upstream] in sent


@PAIRS
@EITHER
def test_policies_that_take_their_time(
    served: Gateway, up: SearchingUpstream, client: str, upstream: str, stream: bool
) -> None:
    """What they hold back before a search comes before it, and the response is complete."""
    up.begin(searched(client, "weather"), searched(client, "letter"), called("get_weather"))
    agent = Client(served, client, upstream, stream)
    agent.key = SLOW_KEY
    content = agent.say("Go")
    text = "text" if client == "messages" else "message"
    kinds = [kind.removesuffix("_call").removesuffix("_use") for kind in types(content)]
    assert [kind for kind in kinds if kind in (text, "tool", "function")] == [text, text, kinds[-1]]
    assert [len(names) for names in found(content)] == [2, 1]
    assert agent.native["usage"]["output_tokens"] == 30
    assert "Let me look. " in json.dumps(history(up.bodies[1]))
