"""The demo model gives the same response to the same request, within the limits that the request sets."""

import asyncio
import base64
import json
import struct
import time
import zlib
from typing import Any

import pytest

from trilogue.model import (
    CallKind,
    ChoiceMode,
    Collector,
    CustomTool,
    Event,
    Failed,
    FailureKind,
    FormatKind,
    FunctionTool,
    HostedCall,
    HostedResult,
    Image,
    OutputFormat,
    Protocol,
    Reasoning,
    Refusal,
    Request,
    Response,
    ResponseStart,
    Role,
    Sampling,
    Sequencer,
    Source,
    SourceKind,
    StopReason,
    Text,
    ToolCall,
    ToolChoice,
    ToolRef,
    ToolResult,
    Turn,
)
from trilogue.upstreams.demo.model import DemoModel
from trilogue.upstreams.demo.sample import Sampler
from trilogue.upstreams.demo.scripts import MODELS

WEATHER = FunctionTool(
    name="get_weather",
    description="The weather of a city",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
READ = FunctionTool(
    name="read_file",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)


def ask(text: str = "Hi", model: str = "demo", **fields: Any) -> Request:
    turns = (Turn(role=Role.USER, blocks=(Text(text=text),)),)
    return Request(**{"protocol": Protocol.CHAT, "model": model, "turns": turns, **fields})


def answered(request: Request) -> Response:
    """Return the whole response. The collector and the sequencer also check the order of its events."""
    events = list(DemoModel().events(request))
    collector = Collector()
    for event in Sequencer().feed(events):
        collector.feed(event)
    return collector.response()


def after(request: Request, *results: str) -> Request:
    """Return the continued conversation, with the demo's calls and these results of the tools."""
    turns = list(request.turns)
    for text in results:
        calls = answered(Request(protocol=Protocol.CHAT, model=request.model, turns=tuple(turns), tools=request.tools))
        turns.append(Turn(role=Role.ASSISTANT, blocks=calls.blocks))
        for call in calls.blocks:
            assert isinstance(call, ToolCall)
            turns.append(Turn(role=Role.TOOL, blocks=(ToolResult(call_id=call.id, content=(Text(text=text),)),)))
    return Request(protocol=Protocol.CHAT, model=request.model, turns=tuple(turns), tools=request.tools)


def text_of(response: Response) -> str:
    return "".join(block.text for block in response.blocks if isinstance(block, Text))


def test_says_what_it_is_and_what_it_heard() -> None:
    """The response says that this is not a real model, and repeats the user's words."""
    said = text_of(answered(ask("Good morning")))
    assert "demo model" in said
    assert "not a real model" in said
    assert "“Good morning”" in said


@pytest.mark.parametrize("model", MODELS)
def test_same_request_same_events(model: str) -> None:
    """Recordings and screenshots can be reproduced; another request has other ids."""
    request = ask("use a tool", model, tools=(WEATHER, READ))
    first, again = list(DemoModel().events(request)), list(DemoModel().events(request))
    other = list(DemoModel().events(ask("use another tool", model, tools=(WEATHER, READ))))
    assert first == again
    assert first[0] != other[0] or isinstance(first[0], Failed)


@pytest.mark.parametrize(
    ("word", "model", "kinds", "stop"),
    [
        ("Hi", "demo-text", [Text], StopReason.END),
        ("think!", "demo-reasoning", [Reasoning, Text], StopReason.END),
        ("please search", "demo-search", [HostedCall, HostedResult, Text], StopReason.END),
        ("do refuse", "demo-refusal", [Refusal], StopReason.END),
    ],
)
def test_words_and_models_choose_the_same_scripts(word: str, model: str, kinds: list[type], stop: StopReason) -> None:
    """`demo` shows with a keyword what another model always shows."""
    for request in (ask(word), ask("Hi", model)):
        response = answered(request)
        assert [type(block) for block in response.blocks] == kinds
        assert response.stop.reason is stop


def test_reasoning_closes_with_an_opaque_value() -> None:
    """Clients can show how reasoning is carried across turns."""
    reasoning = answered(ask("think")).blocks[0]
    assert isinstance(reasoning, Reasoning)
    assert len(reasoning.summary) == 2
    assert reasoning.opaque is not None
    assert reasoning.opaque.item_id == reasoning.id


def test_citations_point_at_their_words() -> None:
    """The span of each citation is the text that the page supports."""
    response = answered(ask("search"))
    text = response.blocks[2]
    assert isinstance(text, Text)
    spans = [text.text[citation.start : citation.end] for citation in text.citations]
    assert [span.split()[0] for span in spans] == ["Trilogue", "its"]
    assert response.usage is not None
    assert response.usage.searches == 1


def test_long_is_long() -> None:
    """The stream is long enough to watch for ten seconds."""
    response = answered(ask("something long"))
    assert response.usage is not None
    assert response.usage.output > 250


def test_length_model_stops_short() -> None:
    """The model stops for its length even without a limit in the request."""
    assert answered(ask("Hi", "demo-length")).stop.reason is StopReason.LENGTH


def test_error_before_content() -> None:
    """There is only a failure, so that a gateway can respond with an HTTP error."""
    for request in (ask("error"), ask("Hi", "demo-error")):
        events = list(DemoModel().events(request))
        assert [type(event) for event in events] == [Failed]


def test_error_in_the_middle() -> None:
    """The words are followed by a failure, without a finish."""
    events = list(DemoModel().events(ask("Hi", "demo-error-midstream")))
    assert len(events) == 2 + 12 + 1
    assert isinstance(events[-1], Failed)


def test_unknown_model() -> None:
    """The failure lists the models that exist."""
    (event,) = DemoModel().events(ask("Hi", "demo-none"))
    assert isinstance(event, Failed)
    assert event.failure.kind is FailureKind.MODEL_NOT_FOUND
    assert "demo-tools" in event.failure.message


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("What is the weather in Paris? Get it.", "get_weather"),
        ("call read_file", "read_file"),
        ("Please read the file!", "read_file"),
        ("use some tool", "get_weather"),
        ("use a tool on a path", "get_weather"),
        ("Hello", None),
    ],
)
def test_calls_the_tool_that_is_named(text: str, name: str | None) -> None:
    """A tool is called by its name, by the words of its name, or as the first one if the user says “tool”."""
    response = answered(ask(text, tools=(WEATHER, READ)))
    calls = [block.name for block in response.blocks if isinstance(block, ToolCall)]
    assert calls == ([name] if name else [])
    assert response.stop.reason is (StopReason.TOOL_CALLS if name else StopReason.END)


def test_words_of_the_client_do_not_count() -> None:
    """Coding agents add reminders in tags, and those name every tool."""
    text = "<system-reminder>use the tool read_file and think</system-reminder>Hello"
    assert not any(isinstance(block, ToolCall) for block in answered(ask(text, tools=(READ,))).blocks)


def test_arguments_fit_the_schema() -> None:
    """Required fields have values that make sense."""
    call = answered(ask("get weather", tools=(WEATHER,))).blocks[0]
    assert isinstance(call, ToolCall)
    assert json.loads(call.arguments) == {"city": "Paris"}


def test_responds_with_the_result() -> None:
    """The loop of an agent ends: one call, one result, one response."""
    request = after(ask("use the tool get_weather", tools=(WEATHER,)), "21 degrees")
    response = answered(request)
    assert "get_weather returned: “21 degrees”" in text_of(response)
    assert response.stop.reason is StopReason.END


def test_takes_as_many_steps_as_it_is_asked_for() -> None:
    """There are three calls, one after the other, and then the response."""
    request = ask("use the tool in 3 steps", tools=(WEATHER,))
    for done in range(3):
        assert isinstance(answered(after(request, *["ok"] * done)).blocks[0], ToolCall)
    assert text_of(answered(after(request, "ok", "ok", "ok"))).count("returned") == 3


def test_results_in_user_turns_count_too() -> None:
    """Messages clients send results in user turns, next to text."""
    call = ToolCall(id="c1", name="get_weather", arguments="{}")
    result = ToolResult(call_id="c1", content=(Text(text="no"),), is_error=True)
    turns = (
        Turn(role=Role.USER, blocks=(Text(text="get weather"),)),
        Turn(role=Role.ASSISTANT, blocks=(call,)),
        Turn(role=Role.USER, blocks=(result, Text(text="go on"))),
    )
    assert "get_weather failed and said: “no”" in text_of(answered(ask(turns=turns, tools=(WEATHER,))))


def test_parallel_calls() -> None:
    """Two calls are in one turn unless the request forbids it, followed by a response to both."""
    request = ask("Hi", "demo-parallel-tools", tools=(WEATHER, READ))
    calls = [block for block in answered(request).blocks if isinstance(block, ToolCall)]
    assert [call.name for call in calls] == ["get_weather", "read_file"]
    assert len({call.id for call in calls}) == 2
    assert text_of(answered(after(request, "ok"))).count("returned") == 2
    single = answered(ask("Hi", "demo-parallel-tools", tools=(WEATHER, READ), parallel_tools=False))
    assert len(single.blocks) == 1


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        (ToolChoice(mode=ChoiceMode.NONE), None),
        (ToolChoice(mode=ChoiceMode.REQUIRED), "get_weather"),
        (ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(name="read_file")), "read_file"),
        (ToolChoice(mode=ChoiceMode.ALLOWED, allowed=(ToolRef(name="read_file"),)), None),
        (
            ToolChoice(mode=ChoiceMode.ALLOWED, allowed=(ToolRef(name="read_file"),), allowed_mode=ChoiceMode.REQUIRED),
            "read_file",
        ),
    ],
)
def test_tool_choice_is_honoured(choice: ToolChoice, name: str | None) -> None:
    """The request decides which tools may be called, whatever the text says."""
    response = answered(ask("Hello", tools=(WEATHER, READ), tool_choice=choice))
    assert [block.name for block in response.blocks if isinstance(block, ToolCall)] == ([name] if name else [])
    for model in ("demo-tools", "demo-parallel-tools"):
        forbidden = ask("Hi", model, tools=(WEATHER,), tool_choice=ToolChoice(mode=ChoiceMode.NONE))
        assert not any(isinstance(block, ToolCall) for block in answered(forbidden).blocks)


def test_tool_models_without_tools_say_so() -> None:
    """A call of an unknown tool would break clients."""
    assert "not offered" in text_of(answered(ask("Hi", "demo-tools")))


def test_custom_tools_get_free_text() -> None:
    """The input of a custom tool is the user's text, unchanged."""
    call = answered(ask("note this: tool", tools=(CustomTool(name="notes"),))).blocks[0]
    assert isinstance(call, ToolCall)
    assert (call.kind, call.arguments) == (CallKind.CUSTOM, "note this: tool")


def test_structured_output() -> None:
    """The output has all properties and is valid for the schema."""
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 18}},
        "required": ["name"],
    }
    form = OutputFormat(kind=FormatKind.SCHEMA, schema=schema)
    assert json.loads(text_of(answered(ask("search Ada", format=form)))) == {"name": "search Ada", "age": 18}
    loose = json.loads(text_of(answered(ask("Ada", format=OutputFormat(kind=FormatKind.JSON)))))
    assert loose == {"answer": "Ada"}


@pytest.mark.parametrize("limit", [0, 1, 5])
@pytest.mark.parametrize("text", ["Hi", "think", "refuse", "use a tool", "search"])
def test_max_tokens(limit: int, text: str) -> None:
    """A word is a token, and the response stops at the limit."""
    response = answered(ask(text, sampling=Sampling(max_tokens=limit), tools=(WEATHER,)))
    if text == "use a tool" and limit == 5:
        assert response.stop.reason is StopReason.TOOL_CALLS
    else:
        assert response.stop.reason is StopReason.LENGTH
    assert response.usage is not None
    assert response.usage.output <= limit


def test_response_of_exactly_the_limit_is_complete() -> None:
    """The limit counts as reached only if there was more to say."""
    usage = answered(ask("Hi")).usage
    assert usage is not None
    response = answered(ask("Hi", sampling=Sampling(max_tokens=usage.output)))
    assert response.stop.reason is StopReason.END


def test_stop_sequences() -> None:
    """The text ends before the first stop sequence, and the response names it."""
    response = answered(ask("Hi", sampling=Sampling(stop=("network", "script", ""))))
    assert text_of(response).endswith("a ")
    assert (response.stop.reason, response.stop.sequence) == (StopReason.STOP_SEQUENCE, "script")


def test_usage_counts_words() -> None:
    """Input, output and reasoning are counted in words."""
    response = answered(ask("please think"))
    usage = response.usage
    assert usage is not None
    reasoning = response.blocks[0]
    assert isinstance(reasoning, Reasoning)
    assert usage.fresh == 2
    assert usage.reasoning == len(" ".join(reasoning.summary).split())
    assert usage.output == usage.reasoning + len(text_of(response).split())


def png(width: int, height: int) -> str:
    """Return the beginning of a PNG file, in base64."""
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return base64.b64encode(data).decode()


def test_sees_images() -> None:
    """The format and size show that the bytes have arrived."""
    image = Image(source=Source(SourceKind.DATA, png(12, 8), "image/png"))
    turns = (Turn(role=Role.USER, blocks=(image, Text(text="What is this?"))),)
    assert "I see a 12x8 PNG." in text_of(answered(ask(turns=turns)))


def test_empty_conversation() -> None:
    """An empty conversation gets a response."""
    assert "You said nothing" in text_of(answered(ask(turns=())))


def test_pace() -> None:
    """Words come one at a time, or all at once without a pace."""

    async def collect(pace: float) -> tuple[float, list[Event]]:
        start = time.perf_counter()
        limited = ask("Hi", sampling=Sampling(max_tokens=10))
        events = [event async for event in DemoModel().stream(limited, pace=pace)]
        return time.perf_counter() - start, events

    slow, events = asyncio.run(collect(0.01))
    fast, same = asyncio.run(collect(0))
    assert slow > 0.1 > fast
    assert events == same


def test_places_are_those_that_the_user_speaks_of() -> None:
    """A weather tool gets the city in the question, or a default if there is none."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    for text, city in (("What is the weather in New York today?", "New York"), ("use the tool", "Paris")):
        assert Sampler(schema, text).value(schema) == {"city": city}


def test_equal_requests_get_the_same_words_under_new_ids() -> None:
    """Clients distinguish responses by their ids."""
    model = DemoModel("n")
    asked = Request(protocol=Protocol.RESPONSES, model="demo", turns=(Turn(role=Role.USER, blocks=(Text(text="Hi"),)),))
    first, second = list(model.events(asked)), list(model.events(asked))
    assert isinstance(first[0], ResponseStart)
    assert isinstance(second[0], ResponseStart)
    assert first[0].id != second[0].id
    assert first[1:] == second[1:]
