"""Input made to break things: wrong types everywhere, depth, size, half characters. Only our own errors come out."""

import copy
import json
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import pytest

import trilogue
from tests.each import each, in_parts
from tests.judges import sse
from tests.mapping.cases import USER, Body, C, M, R, answer, choice, message_item, output_text, request
from tests.mapping.streams import Block, Habits, write
from tests.mapping.test_streams_properties import broken
from tests.mapping.test_turns import TOOLS, call, item, output, result, told, use
from trilogue import Protocol, StreamTranslator, Target, TrilogueError

ALL = (C, M, R)
pairs = pytest.mark.parametrize(
    ("source", "target"), [pytest.param(s, t, id=f"{s.short}-{t.short}") for s in ALL for t in ALL]
)
IMAGE = "data:image/png;base64,AAAA"
REQUESTS: dict[Protocol, Body] = {
    C: request(
        C,
        messages=[
            {"role": "system", "content": "S", "name": "n"},
            {"role": "developer", "content": [{"type": "text", "text": "D"}]},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}},
                    {"type": "image_url", "image_url": {"url": IMAGE, "detail": "high"}},
                    {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
                ],
            },
            {"role": "assistant", "content": "y", "reasoning_content": "r", "tool_calls": [call(1)]},
            told(1),
        ],
        tools=TOOLS["C"],
        tool_choice={"type": "function", "function": {"name": "look"}},
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
        reasoning_effort="high",
        stop=["a"],
        metadata={"a": "b"},
        user="u",
        temperature=0.5,
        stream=True,
        stream_options={"include_usage": True},
        prompt_cache_options={"mode": "explicit"},
        service_tier="fast",
    ),
    M: request(
        M,
        system=[{"type": "text", "text": "S", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "d"},
                        "title": "t",
                    },
                    {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "w"}]},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "t", "signature": "S=="},
                    {"type": "text", "text": "y"},
                    use(1),
                ],
            },
            {"role": "user", "content": [{**result(1), "is_error": True}, {"type": "text", "text": "go"}]},
        ],
        tools=[*TOOLS["M"], {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}],
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
        thinking={"type": "enabled", "budget_tokens": 2000},
        output_config={"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        metadata={"user_id": "u"},
        stop_sequences=["a"],
        context_management={"edits": [{"type": "clear_thinking_20251015"}]},
        stream=True,
    ),
    R: request(
        R,
        instructions="S",
        input=[
            {"role": "developer", "content": [{"type": "input_text", "text": "D"}]},
            {
                "role": "user",
                "content": [
                    {"type": "input_image", "image_url": IMAGE, "detail": "high"},
                    {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
                ],
            },
            {
                "id": "rs_1",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "t"}],
                "encrypted_content": "E",
            },
            message_item(output_text("y"), phase="commentary"),
            item(1),
            output(1),
            {
                "id": "ws_1",
                "type": "web_search_call",
                "status": "completed",
                "action": {"type": "search", "query": "q"},
            },
            USER,
        ],
        tools=[
            *TOOLS["R"],
            {"type": "custom", "name": "p", "format": {"type": "grammar", "syntax": "lark", "definition": "d"}},
            {"type": "namespace", "name": "ns", "description": "d", "tools": TOOLS["R"]},
            {"type": "web_search", "filters": {"allowed_domains": ["a.com"]}},
        ],
        tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]},
        reasoning={"effort": "high", "summary": "auto"},
        text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}, "verbosity": "low"},
        include=["reasoning.encrypted_content"],
        metadata={"a": "b"},
        store=False,
        stream=True,
    ),
}
ANSWERS: dict[Protocol, Body] = {
    C: answer(
        C,
        choices=choice(
            "tool_calls",
            content="y",
            reasoning_content="r",
            tool_calls=[call(1)],
            annotations=[
                {"type": "url_citation", "url_citation": {"start_index": 0, "end_index": 1, "url": "u", "title": "t"}}
            ],
        ),
        usage={
            "prompt_tokens": 9,
            "completion_tokens": 4,
            "total_tokens": 13,
            "prompt_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
        service_tier="default",
    ),
    M: answer(
        M,
        content=[
            {"type": "thinking", "thinking": "t", "signature": "S=="},
            {"type": "redacted_thinking", "data": "D=="},
            {
                "type": "text",
                "text": "y",
                "citations": [
                    {
                        "type": "web_search_result_location",
                        "url": "u",
                        "title": "t",
                        "cited_text": "c",
                        "encrypted_index": "i",
                    }
                ],
            },
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "e"}],
            },
            use(1),
        ],
        stop_reason="tool_use",
        stop_details=None,
        usage={
            "input_tokens": 9,
            "output_tokens": 4,
            "cache_read_input_tokens": 1,
            "cache_creation_input_tokens": 1,
            "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 0},
            "output_tokens_details": {"thinking_tokens": 1},
            "server_tool_use": {"web_search_requests": 1},
            "service_tier": "standard",
        },
    ),
    R: answer(
        R,
        output=[
            {
                "id": "rs_1",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "t"}],
                "encrypted_content": "E",
            },
            {"id": "rs_2", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}]},
            {
                "id": "ws_1",
                "type": "web_search_call",
                "status": "completed",
                "action": {"type": "search", "query": "q", "sources": [{"type": "url", "url": "u"}]},
            },
            message_item(
                output_text(
                    "y",
                    annotations=[{"type": "url_citation", "start_index": 0, "end_index": 1, "url": "u", "title": "t"}],
                ),
                {"type": "refusal", "refusal": "no"},
            ),
            {**item(1), "id": "fc_1", "status": "completed"},
        ],
        incomplete_details=None,
    ),
}

WRONG: tuple[Any, ...] = (
    None,
    True,
    7,
    -1,
    1.5,
    10**400,
    "",
    "x",
    "\ud800",
    "\x00",
    [],
    [[]],
    [None],
    {},
    {"type": 7},
    {"": None},
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every position in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield (*path, key)
        yield from places(child, (*path, key))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A document with another value at one position; the rest is shared."""
    key, *rest = path
    copied = copy.copy(document)
    copied[key] = replaced(document[key], tuple(rest), value) if rest else value
    return copied


class Caught:
    """Holds whatever a block of code raises, so that it can be judged."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def __enter__(self) -> "Caught":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self.error = error
        return isinstance(error, Exception)


def escaped(run: Callable[[], object]) -> str | None:
    """What escapes that is not our own: a foreign exception, or an error that says that we have a bug."""
    with Caught() as caught:
        run()
    error = caught.error
    if error is None or (isinstance(error, TrilogueError) and not isinstance(error, trilogue.InternalError)):
        return None
    last = traceback.extract_tb(error.__traceback__)[-1]
    return ascii(f"{type(error).__name__} at {last.filename.rsplit('/', 1)[-1]}:{last.lineno}: {error}")


def only_ours(run: Callable[[], object], what: object) -> None:
    """Nothing but our own errors escapes."""
    assert escaped(run) is None, ascii(what)


class Escapes:
    """Different things that escaped, with the first input of each."""

    def __init__(self) -> None:
        self.tried = 0
        self.found: dict[str, object] = {}

    def check(self, run: Callable[[], object], what: object) -> None:
        """Try one input."""
        self.tried += 1
        problem = escaped(run)
        if problem is not None:
            self.found.setdefault(problem, what)


@pytest.mark.parametrize("source", ALL, ids=lambda p: p.short)
@in_parts("wrongs", WRONG, 4)
def test_wrong_types_at_every_position_of_a_request(source: Protocol, wrongs: list[Any]) -> None:
    """A request of the wrong shape is the client's fault, and is said to be."""
    escapes = Escapes()
    targets = [Target.of(protocol, "claude-sonnet-4-5" if protocol is M else "gpt-5.6") for protocol in ALL]
    for path in places(REQUESTS[source]):
        for wrong in wrongs:
            body = replaced(REQUESTS[source], path, wrong)
            for target in targets:
                translate = partial(trilogue.translate_request, body, source=source, target=target)
                escapes.check(translate, (path, wrong, target.protocol.short))
    assert not escapes.found
    assert escapes.tried > 1000 / 4


@pytest.mark.parametrize("source", ALL, ids=lambda p: p.short)
@in_parts("wrongs", WRONG, 4)
def test_wrong_types_at_every_position_of_a_response(source: Protocol, wrongs: list[Any]) -> None:
    """An upstream of the wrong shape is read as far as it goes, or is an upstream error."""
    escapes = Escapes()
    for path in places(ANSWERS[source]):
        for wrong in wrongs:
            body = replaced(ANSWERS[source], path, wrong)
            for target in ALL:
                translate = partial(trilogue.translate_response, body, source=source, target=target)
                escapes.check(translate, (path, wrong, target.short))
    assert not escapes.found
    assert escapes.tried > 1000 / 4


BLOCKS = [
    Block("thought", ("t", "u"), opaque="S=="),
    Block("text", ("a", "b")),
    Block("call", ('{"n"', ":1}"), "call_1", "look"),
]


def document(event: sse.Event) -> Any:
    """The JSON of an event; a string for what is none."""
    return event.data if event.data == "[DONE]" else json.loads(event.data)


def dumped(events: list[tuple[str, Any]]) -> bytes:
    """Events as bytes."""
    out = [
        f"event: {name}\n" * bool(name) + f"data: {data if data == '[DONE]' else json.dumps(data)}\n\n"
        for name, data in events
    ]
    return "".join(out).encode()


@pytest.mark.parametrize("source", ALL, ids=lambda p: p.short)
@in_parts("quarters", range(4), 4)
def test_wrong_types_at_every_position_of_every_event(source: Protocol, quarters: list[int]) -> None:
    """Each event of a stream with one wrong value: our own errors only, and the client's stream stays legal."""
    plain = [(event.name, document(event)) for event in sse.read(write(source, BLOCKS, "calls", Random(1), Habits()))]
    exchanges = {t: trilogue.translate_request(request(t), source=t, target=source).exchange for t in ALL}
    escapes = Escapes()
    illegal: dict[str, object] = {}
    wrongs = [
        (number, path, wrong) for number, (_, event) in enumerate(plain) for path in places(event) for wrong in WRONG
    ]
    for tried, (number, path, wrong) in enumerate(wrongs):
        if tried % 4 not in quarters:
            continue
        (name, event), target = plain[number], ALL[tried % 3]
        events = [*plain[:number], (name, replaced(event, path, wrong)), *plain[number + 1 :]]
        run = Stream(dumped(events), source, target, exchanges[target])
        escapes.check(run, (name, path, wrong, target.short))
        if tried % 5 == 4 and source is not target:
            illegal |= dict.fromkeys(run.problems(), (name, path, wrong))
    assert not escapes.found
    assert not illegal
    assert escapes.tried > 500 / 4


_VERBATIM = ("B22", "B23", "C20", "D31")


class Stream:
    """One stream through a translator, to be called."""

    def __init__(
        self, data: bytes, source: Protocol, target: Protocol, exchange: trilogue.Exchange | None = None
    ) -> None:
        self.data = data
        self.target = target
        self.translator = StreamTranslator(source=source, target=target, exchange=exchange)
        self.out = b""

    def __call__(self) -> None:
        self.out = self.translator.feed(self.data) + self.translator.close()

    def problems(self) -> list[str]:
        """Rules that the client's stream breaks, but for the model's own arguments."""
        found = broken(self.target, self.out, own=False, usage=False)
        rules = {text.split(": ", 1)[1].split(" ", 1)[0]: text for text in found}
        return [f"{self.target.short}: {text}" for rule, text in rules.items() if rule not in _VERBATIM]


DEEP = 100_000
BOMBS = (
    b"[" * DEEP,
    b'{"a":' * DEEP,
    b'{"model":"m","messages":' + b"[" * DEEP + b"]" * DEEP + b"}",
    b'{"model":"m","input":' + b'{"content":' * DEEP + b"1" + b"}" * DEEP + b"}",
    b"\xff\xfe",
    b"",
    b"null",
    b"[]",
    b'"x"',
    b"NaN",
    b'{"model":NaN}',
    b'{"model":"m","max_tokens":1e999,"messages":[{"role":"user","content":"x"}]}',
    b'{"model":"m","max_tokens":' + b"9" * 5000 + b',"messages":[{"role":"user","content":"x"}]}',
    b'{"model":"\\ud800","max_tokens":5,"messages":[{"role":"user","content":"\\udfff"}]}',
    b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"}],"tools":'
    b'[{"name":"t","input_schema":' + b'{"properties":' * 5000 + b"{}" + b"}" * 5000 + b"}]}",
)


@each("bomb", BOMBS, ids=range(len(BOMBS)))
@pairs
def test_bombs(source: Protocol, target: Protocol, bomb: bytes) -> None:
    """Depth, no JSON, no text: refused, not crashed, as a request, an answer, an error and an event."""
    only_ours(lambda: trilogue.translate_request(bomb, source=source, target=target), bomb[:60])
    only_ours(lambda: trilogue.translate_response(bomb, source=source, target=target), bomb[:60])
    only_ours(lambda: trilogue.codec(source).decode_error(500, {}, bomb), bomb[:60])
    only_ours(Stream(b"data: " + bomb + b"\n\n", source, target), bomb[:60])


def nested(depth: int) -> Any:
    """A schema of that depth."""
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pairs
@pytest.mark.parametrize("depth", [50, 400, 5000])
def test_deep_parsed_objects(source: Protocol, target: Protocol, depth: int) -> None:
    """A caller may hand over parsed objects: depth that no parser would give must not overflow the stack either."""
    tools = {
        C: [{"type": "function", "function": {"name": "t", "parameters": nested(depth), "strict": True}}],
        M: [{"name": "t", "input_schema": nested(depth), "strict": True}],
        R: [{"type": "function", "name": "t", "parameters": nested(depth), "strict": True}],
    }[source]
    body = request(source, tools=tools)
    only_ours(lambda: trilogue.translate_request(body, source=source, target=target), depth)


@pairs
def test_deep_arguments(source: Protocol, target: Protocol) -> None:
    """A model may write arguments that no parser takes."""
    arguments = '{"a":' * 3000 + "1" + "}" * 3000
    if source is C:
        body = answer(C, choices=choice("tool_calls", tool_calls=[call(1, arguments)]))
    elif source is R:
        body = answer(R, output=[{**item(1), "id": "fc_1", "status": "completed", "arguments": arguments}])
    else:
        body = answer(M, content=[{**use(1), "input": nested(3000)}], stop_reason="tool_use")
    only_ours(lambda: trilogue.translate_response(body, source=source, target=target), "deep arguments")


HALF = "\ud800"
CONTROL = ("\x00", "\x1b[31m", "a\nb", "a\r\nX-Injected: 1", "\u2028", HALF, "💥", " ", "a" * 100_000)


@pairs
@each("odd", CONTROL, ids=range(len(CONTROL)))
def test_odd_names_and_ids(source: Protocol, target: Protocol, odd: str) -> None:
    """Control characters in names, ids and models never break a frame or escape into headers."""
    bodies = {
        C: lambda: answer(
            C,
            id=odd,
            model=odd,
            choices=choice(
                "tool_calls", tool_calls=[{**call(1), "id": odd, "function": {"name": odd, "arguments": "{}"}}]
            ),
        ),
        M: lambda: answer(M, id=odd, model=odd, content=[{**use(1), "id": odd, "name": odd}], stop_reason="tool_use"),
        R: lambda: answer(
            R, id=odd, model=odd, output=[{**item(1), "id": odd, "call_id": odd, "name": odd, "status": "completed"}]
        ),
    }
    only_ours(lambda: trilogue.translate_response(bodies[source](), source=source, target=target), odd[:20])
    if odd == HALF:
        return
    stream = Stream(
        write(source, [Block("text", (odd,)), Block("call", ("{}",), odd, odd)], "calls", Random(1), Habits()),
        source,
        target,
    )
    only_ours(stream, odd[:20])
    assert not [text for text in stream.problems() if " A0" in text]


@pairs
def test_empty_strings_everywhere(source: Protocol, target: Protocol) -> None:
    """An empty name, id or text is odd but no reason to crash."""
    for whole, translate in (
        (REQUESTS[source], partial(trilogue.translate_request, source=source, target=target)),
        (ANSWERS[source], partial(trilogue.translate_response, source=source, target=target)),
    ):
        body: Any = whole
        for path in [path for path in places(whole) if isinstance(_get(whole, path), str)]:
            only_ours(partial(translate, replaced(whole, path, "")), path)
            if path[-1] not in ("type", "role"):
                body = replaced(body, path, "")
        only_ours(partial(translate, body), "all empty")


def _get(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def blocks_of(source: Protocol, count: int) -> Body:
    """A request with that many turns and blocks."""
    if source is R:
        items = [piece for n in range(count) for piece in (item(n), output(n))]
        return request(R, input=[USER, *items], tools=TOOLS["R"])
    if source is C:
        turns: list[Body] = [USER]
        for n in range(count):
            turns += [{"role": "assistant", "content": None, "tool_calls": [call(n)]}, told(n)]
        return request(C, messages=turns, tools=TOOLS["C"])
    turns = [USER]
    for n in range(count):
        turns += [{"role": "assistant", "content": [use(n)]}, {"role": "user", "content": [result(n)]}]
    return request(M, messages=turns, tools=TOOLS["M"])


def took(run: Callable[[], object]) -> float:
    """The best time of two."""
    times = []
    for _ in range(2):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


@pairs
def test_time_grows_with_the_size_of_a_request_and_no_faster(source: Protocol, target: Protocol) -> None:
    """Ten times the history may cost ten times the time, not a hundred times."""
    small, large = blocks_of(source, 200), blocks_of(source, 2000)
    first = took(lambda: trilogue.translate_request(small, source=source, target=target))
    second = took(lambda: trilogue.translate_request(large, source=source, target=target))
    assert second < 30 * first + 0.05


@pairs
def test_time_grows_with_the_length_of_a_stream_and_no_faster(source: Protocol, target: Protocol) -> None:
    """Cost per event does not depend on what came before, also for many blocks and many fragments."""
    for kind in ("pieces", "blocks"):
        times = []
        for count in (100, 1000):
            blocks = (
                [Block("call", tuple('{"a": "' + "x" * count + '"}'), "call_1", "look")]
                if kind == "pieces"
                else [Block("call", ("{}",), f"call_{n}", "look") for n in range(count)]
            )
            data = write(source, blocks, "calls", Random(1), Habits())
            times.append(took(partial(_once, data, source, target)))
        assert times[1] < 30 * times[0] + 0.05, kind


def _once(data: bytes, source: Protocol, target: Protocol) -> None:
    Stream(data, source, target)()


def _drip(source: Protocol, target: Protocol, length: int) -> None:
    translator = StreamTranslator(source=source, target=target)
    translator.feed(b'data: {"x":"')
    for _ in range(length // 100):
        translator.feed(b"y" * 100)
    translator.close()


@pairs
def test_an_event_that_never_ends_does_not_cost_more_each_time(source: Protocol, target: Protocol) -> None:
    """A line that comes byte by byte is not scanned from its start each time."""
    short, long = (took(partial(_drip, source, target, size)) for size in (20_000, 200_000))
    assert long < 30 * short + 0.05
