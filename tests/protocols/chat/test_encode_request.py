"""Requests, written: those of other protocols, for upstreams of all kinds."""

from typing import Any

import pytest
from msgspec.structs import replace

from trilogue.errors import Unsupported
from trilogue.model import (
    Block,
    CacheMark,
    Caching,
    CallKind,
    ChoiceMode,
    CustomTool,
    Document,
    Effort,
    FormatKind,
    FunctionTool,
    HostedKind,
    HostedTool,
    Image,
    Ledger,
    Opaque,
    OpaqueKind,
    OutputFormat,
    Protocol,
    Reasoning,
    Request,
    Role,
    Sampling,
    SearchResult,
    Source,
    SourceKind,
    Text,
    Thinking,
    ThinkingMode,
    Tier,
    ToolCall,
    ToolChoice,
    ToolRef,
    ToolResult,
    Turn,
    UserLocation,
)
from trilogue.protocols.chat import CODEC
from trilogue.protocols.codec import Target
from trilogue.vendors.profile import Profile

OPENAI = "gpt-5.6"
FREE = "gpt-5.2"
"""takes tools without a word about reasoning"""
COMPATIBLE = "llama-3.3"
PNG = Image(source=Source(SourceKind.DATA, "QUJD", "image/png"), path="i")


def turn(role: Role, *blocks: Block, **fields: Any) -> Turn:
    return Turn(role=role, blocks=blocks, path=fields.pop("path", "t"), **fields)


def user(text: str = "hi") -> Turn:
    return turn(Role.USER, Text(text=text, path="u"))


def request(*turns: Turn, protocol: Protocol = Protocol.MESSAGES, **fields: Any) -> Request:
    return Request(protocol=protocol, model="m", turns=turns or (user(),), **fields)


def write(request: Request, model: str = OPENAI, profile: Profile | None = None) -> tuple[dict[str, Any], list[str]]:
    target = Target.of(Protocol.CHAT, model)
    if profile is not None:
        target = replace(target, profile=profile)
    ledger = Ledger()
    body = CODEC.encode_request(request, target, ledger)
    return body, [loss.code for loss in ledger.losses]


def messages(*turns: Turn, model: str = OPENAI, protocol: Protocol = Protocol.MESSAGES) -> tuple[list[Any], list[str]]:
    body, losses = write(request(*turns, protocol=protocol), model)
    return body["messages"], losses


CALL = ToolCall(id="c1", name="f", arguments='{"a":1}', path="call")


def test_leading_prompt_by_profile() -> None:
    """OpenAI's models know developer, others only system."""
    prompt = turn(Role.SYSTEM, Text(text="a"), leading=True)
    assert messages(prompt, user(), model=FREE)[0][0] == {"role": "developer", "content": "a"}
    assert messages(prompt, user(), model=COMPATIBLE)[0][0] == {"role": "system", "content": "a"}


def test_prompt_of_several_blocks() -> None:
    """Parts where the server takes them, else one text with a blank line between."""
    prompt = turn(Role.SYSTEM, Text(text="a"), Text(text="b"), leading=True)
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert messages(prompt, user(), model=FREE)[0][0]["content"] == parts
    assert messages(prompt, user(), model=COMPATIBLE)[0][0]["content"] == "a\n\nb"


def test_developer_in_mid_conversation() -> None:
    """A role that the server does not know is declared."""
    _, losses = messages(user(), turn(Role.DEVELOPER, Text(text="x")), model=COMPATIBLE, protocol=Protocol.RESPONSES)
    assert losses == ["role.developer_merged"]


def test_tool_results_come_before_the_words_of_their_turn() -> None:
    """OpenAI answers 400 to anything between a call and its result."""
    result = ToolResult(call_id="c1", content=(Text(text="ok"),), path="r")
    wire, losses = messages(user(), turn(Role.ASSISTANT, CALL), turn(Role.USER, result, Text(text="go on")))
    assert [message["role"] for message in wire] == ["user", "assistant", "tool", "user"]
    assert wire[1]["content"] is None
    assert wire[2] == {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "ok"}]}
    assert losses == []


def test_media_of_tool_results_move_behind_all_of_them() -> None:
    """Tool messages take text only."""
    results = [ToolResult(call_id=f"c{n}", content=(Text(text="see"), PNG), path=f"r{n}") for n in (1, 2)]
    second = replace(CALL, id="c2")
    wire, losses = messages(user(), turn(Role.ASSISTANT, CALL, second), turn(Role.USER, *results))
    assert [message["role"] for message in wire] == ["user", "assistant", "tool", "tool", "user"]
    kinds = [part["type"] for part in wire[4]["content"]]
    assert kinds == ["text", "image_url", "text", "image_url"]
    assert losses == ["tool_result.media_moved"]


def test_failed_tool() -> None:
    """Chat has no mark for it, so it is said in words."""
    failed = [
        ToolResult(call_id="c1", content=(Text(text="boom"),), is_error=True, path="r1"),
        ToolResult(call_id="c2", is_error=True, path="r2"),
    ]
    wire, losses = messages(user(), turn(Role.ASSISTANT, CALL), turn(Role.USER, *failed))
    texts = [[part["text"] for part in message["content"]] for message in wire[2:]]
    assert texts == [["[tool error] boom"], ["[tool error]"]]
    assert losses == ["tool_result.is_error", "tool_result.is_error"]


def test_adjacent_assistant_turns_are_one_message() -> None:
    """Responses has an item for each; Chat has one message, with the calls last."""
    wire, losses = messages(
        user(),
        turn(Role.ASSISTANT, Text(text="a", path="x")),
        turn(Role.ASSISTANT, CALL, phase="commentary"),
        turn(Role.ASSISTANT, Text(text="b", path="y")),
        turn(Role.TOOL, ToolResult(call_id="c1", content=(Text(text="ok"),), plain=True)),
        protocol=Protocol.RESPONSES,
        model=COMPATIBLE,
    )
    assert [message["role"] for message in wire] == ["user", "assistant", "tool"]
    assert wire[1]["content"] == "ab"
    assert wire[1]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a":1}'}
    assert losses == ["order.flattened", "text.blocks_joined"]


def test_text_blocks_stay_apart_where_the_server_takes_parts() -> None:
    """Nothing is lost then."""
    wire, losses = messages(turn(Role.ASSISTANT, Text(text="a"), Text(text="b")), user())
    assert [part["text"] for part in wire[0]["content"]] == ["a", "b"]
    assert losses == []


def test_prefill_is_refused() -> None:
    """Chat would answer a finished message instead of going on with it."""
    with pytest.raises(Unsupported):
        messages(user(), turn(Role.ASSISTANT, Text(text="The answer is")))


def test_call_ids_are_made_legal_alike() -> None:
    """A call and its result still belong together."""
    long = "x" * 80
    result = ToolResult(call_id=long, content=(Text(text="ok"),))
    wire, _ = messages(user(), turn(Role.ASSISTANT, replace(CALL, id=long)), turn(Role.USER, result))
    assert wire[1]["tool_calls"][0]["id"] == wire[2]["tool_call_id"]
    assert len(wire[2]["tool_call_id"]) <= 64


def test_reasoning_goes_only_where_it_is_wanted() -> None:
    """Most servers answer 400 to the field; some answer 400 without it."""
    thought = turn(Role.ASSISTANT, Reasoning(summary=("hm",), path="th"), CALL)
    result = turn(Role.USER, ToolResult(call_id="c1", content=(Text(text="ok"),)))
    wire, losses = messages(user(), thought, result)
    assert "reasoning_content" not in wire[1]
    assert losses == ["reasoning.foreign_dropped"]
    wire, losses = messages(user(), thought, result, model="deepseek-v4")
    assert wire[1]["reasoning_content"] == "hm"
    assert losses == []
    wire, _ = messages(user(), turn(Role.ASSISTANT, CALL), result, model="kimi-k2")
    assert wire[1]["reasoning_content"] == " "


def test_own_opaque_values_go_back() -> None:
    """They are the details that the upstream gave."""
    opaque = Opaque(kind=OpaqueKind.ENCRYPTED, value='[{"type":"reasoning.encrypted","data":"x"}]')
    wire, losses = messages(user(), turn(Role.ASSISTANT, Reasoning(opaque=opaque), CALL), user())
    assert wire[1]["reasoning_details"] == [{"type": "reasoning.encrypted", "data": "x"}]
    assert losses == []


def test_cache_marks_by_profile() -> None:
    """Lifetimes of Messages become the nearest; a server without marks gets none."""
    marked = turn(Role.USER, Text(text="a", cache=CacheMark(300), path="u"))
    wire, losses = messages(marked)
    assert wire[0]["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit", "ttl": "30m"}
    assert losses == ["cache.ttl"]
    wire, losses = messages(marked, model=COMPATIBLE)
    assert wire[0]["content"] == "a"
    assert losses == ["cache.mark"]


def test_cache_mark_on_a_tool_result() -> None:
    """Claude Code marks the last block, which often is one."""
    result = ToolResult(call_id="c1", content=(Text(text="ok"),), cache=CacheMark(), path="r")
    wire, losses = messages(user(), turn(Role.ASSISTANT, CALL), turn(Role.USER, result))
    assert wire[2]["content"] == [{"type": "text", "text": "ok", "prompt_cache_breakpoint": {"mode": "explicit"}}]
    assert losses == []


def test_documents() -> None:
    """Data is a file, text is text, a link is refused."""
    pdf = Document(source=Source(SourceKind.DATA, "QUJD", "application/pdf"), title="a.pdf", path="d")
    text = Document(source=Source(SourceKind.TEXT, "words", "text/plain"), title="T", context="C", path="d2")
    hit = SearchResult(source="https://example.org", title="H", parts=(Text(text="found"),), path="s")
    wire, losses = messages(turn(Role.USER, pdf, text, hit))
    file, head, words, found = wire[0]["content"]
    assert file["file"] == {"file_data": "data:application/pdf;base64,QUJD", "filename": "a.pdf"}
    assert (head["text"], words["text"], found["text"]) == ("T\nC", "words", "H\nhttps://example.org\n\nfound")
    assert losses == ["document.as_text", "search_result.as_text"]
    with pytest.raises(Unsupported):
        messages(turn(Role.USER, Document(source=Source(SourceKind.URL, "https://example.org/a.pdf"), path="d")))


def test_limits_by_profile() -> None:
    """The name of the limit depends on the server."""
    limited = request(sampling=Sampling(max_tokens=9, top_k=3, temperature=0.5))
    body, losses = write(limited, "gpt-4o")
    assert (body["max_completion_tokens"], body["temperature"], losses) == (9, 0.5, ["param.dropped"])
    body, losses = write(limited, COMPATIBLE)
    assert (body["max_tokens"], body["temperature"], losses) == (9, 0.5, ["param.dropped"])
    body, losses = write(limited, profile=Profile(max_tokens_field="max_tokens", top_k=True))
    assert (body["max_tokens"], body["top_k"], losses) == (9, 3, [])
    body, losses = write(limited, profile=Profile(sampling=False, top_k=True))
    assert "temperature" not in body
    assert "top_k" not in body
    assert losses == ["sampling.dropped", "sampling.dropped"]


def test_sampling_of_models_that_reason() -> None:
    """OpenAI's take a temperature only while they do not reason."""
    warm = Sampling(temperature=0.5, top_p=0.9)
    body, losses = write(request(sampling=warm))
    assert not {"temperature", "top_p"} & set(body)
    assert losses == ["sampling.dropped", "sampling.dropped"]
    body, losses = write(request(sampling=warm, thinking=Thinking(effort=Effort.NONE)))
    assert (body["temperature"], body["top_p"], losses) == (0.5, 0.9, [])


@pytest.mark.parametrize(
    ("model", "kept"), [("gpt-4o", ["a", "b", "c", "d"]), (COMPATIBLE, ["a", "b", "c", "d"]), (OPENAI, None)]
)
def test_stops_that_the_model_does_not_take(model: str, kept: list[str] | None) -> None:
    """They are not sent: the response is cut at them on its way to the client."""
    body, losses = write(request(sampling=Sampling(stop=("a", "b", "c", "d", "e"))), model)
    assert (body.get("stop"), losses) == (kept, ["stop.emulated"])


def test_impossible_limits() -> None:
    """What the user relies on is refused rather than dropped."""
    with pytest.raises(Unsupported):
        write(request(sampling=Sampling(max_tokens=0)))


@pytest.mark.parametrize(("model", "most"), [("gpt-4o", 16_384), ("o3", 100_000), (OPENAI, 128_000)])
def test_limits_above_what_the_model_gives(model: str, most: int) -> None:
    """OpenAI answers 400 to them; a server that nobody knows is asked as the client asked."""
    body, losses = write(request(sampling=Sampling(max_tokens=200_000)), model)
    assert (body["max_completion_tokens"], losses) == (most, ["max_tokens.lowered"])
    body, losses = write(request(sampling=Sampling(max_tokens=200_000)), COMPATIBLE)
    assert (body["max_tokens"], losses) == (200_000, [])


@pytest.mark.parametrize(
    ("thinking", "efforts", "effort", "losses"),
    [
        (Thinking(effort=Effort.MAX), tuple(Effort), "max", []),
        (Thinking(effort=Effort.MAX), (Effort.LOW, Effort.HIGH), "high", ["effort.clamped"]),
        (Thinking(effort=Effort.MINIMAL), (Effort.NONE, Effort.LOW), "low", ["effort.minimal"]),
        (Thinking(mode=ThinkingMode.BUDGET, budget=8192), tuple(Effort), "medium", ["thinking.budget"]),
        (Thinking(mode=ThinkingMode.BUDGET, budget=10**6), tuple(Effort), "max", ["thinking.budget"]),
        (Thinking(mode=ThinkingMode.ADAPTIVE), tuple(Effort), None, []),
        (Thinking(mode=ThinkingMode.DISABLED), tuple(Effort), "none", []),
        (Thinking(mode=ThinkingMode.DISABLED), (Effort.LOW,), None, ["effort.none"]),
        (Thinking(mode=ThinkingMode.DISABLED), (), None, ["effort.none"]),
        (Thinking(effort=Effort.HIGH), (Effort.NONE,), None, ["param.dropped"]),
        (Thinking(effort=Effort.LOW, visibility="auto"), (), None, ["param.dropped", "reasoning.visibility"]),
    ],
)
def test_effort(thinking: Thinking, efforts: tuple[Effort, ...], effort: str | None, losses: list[str]) -> None:
    """The nearest effort that the model takes, and never an accidental `none`."""
    body, found = write(request(thinking=thinking), profile=Profile(efforts=efforts))
    assert (body.get("reasoning_effort"), found) == (effort, losses)


@pytest.mark.parametrize(
    ("thinking", "losses"),
    [
        (Thinking(effort=Effort.HIGH), ["thinking.unavailable"]),
        (Thinking(mode=ThinkingMode.BUDGET, budget=8192), ["thinking.unavailable"]),
        (Thinking(effort=Effort.NONE), []),
        (Thinking(mode=ThinkingMode.DISABLED), []),
    ],
)
def test_models_that_do_not_reason_get_no_reasoning_fields(thinking: Thinking, losses: list[str]) -> None:
    """Not to reason is what they do anyway."""
    body, found = write(request(thinking=thinking), "gpt-4o")
    assert (body.get("reasoning_effort"), found) == (None, losses)


@pytest.mark.parametrize("thinking", [None, Thinking(effort=Effort.HIGH)])
def test_tools_instead_of_reasoning(thinking: Thinking | None) -> None:
    """Newer models take function tools on Chat only without reasoning, and reason unless told not to."""
    body, losses = write(request(tools=(function(strict=False),), thinking=thinking))
    assert (body["reasoning_effort"], losses) == ("none", ["thinking.dropped_tools"])
    body, losses = write(request(tools=(function(strict=False),), thinking=Thinking(effort=Effort.NONE)))
    assert (body["reasoning_effort"], losses) == ("none", [])
    body, losses = write(request(tools=(function(strict=False),), thinking=thinking), FREE)
    assert (body.get("reasoning_effort"), losses) == (thinking and "high", [])


def test_stream_always_asks_for_usage() -> None:
    """The other protocols always give it; a server that rejects the option is not asked."""
    assert write(request(stream=True))[0]["stream_options"] == {"include_usage": True}
    assert "stream_options" not in write(request(stream=True), profile=Profile(stream_usage=False))[0]
    assert "stream_options" not in write(request())[0]


def test_fields_that_only_openai_knows() -> None:
    """Compatible servers answer them with an error, so they are dropped and declared."""
    full = request(
        protocol=Protocol.RESPONSES,
        metadata={"a": "b"},
        store=True,
        verbosity="low",
        user="me",
        tier=Tier.FLEX,
        caching=Caching(key="k", options={"mode": "implicit", "prewarm": True}),
    )
    body, losses = write(full)
    assert body["prompt_cache_options"] == {"mode": "implicit"}
    assert (body["safety_identifier"], body["store"], body["prompt_cache_key"]) == ("me", True, "k")
    assert losses == ["cache.options"]
    body, losses = write(full, COMPATIBLE)
    assert set(body) == {"model", "messages", "user"}
    assert set(losses) == {"cache.key", "cache.options", "tier", "metadata.kept", "verbosity", "store.ignored"}


def test_long_user_ids_are_hashed() -> None:
    """Claude Code's are longer than OpenAI takes."""
    body, losses = write(request(user="u" * 200))
    assert len(body["safety_identifier"]) <= 128
    assert losses == ["user.hashed"]


def test_format_of_messages_gets_a_name() -> None:
    """Chat demands one; strict only where the schema allows it."""
    closed = {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}
    body, losses = write(request(format=OutputFormat(kind=FormatKind.SCHEMA, schema=closed, path="f")))
    inner = body["response_format"]["json_schema"]
    assert (inner["name"], inner["strict"], losses) == ("structured_output", True, [])
    body, losses = write(request(format=OutputFormat(kind=FormatKind.SCHEMA, schema={"type": "object"}, path="f")))
    assert body["response_format"]["json_schema"]["strict"] is False
    assert losses == ["format.details"]


def function(**fields: Any) -> FunctionTool:
    return FunctionTool(name="f", parameters={"type": "object"}, path="tools[0]", **fields)


@pytest.mark.parametrize(
    ("tool", "protocol", "losses"),
    [
        (function(strict=False), Protocol.MESSAGES, []),
        (function(), Protocol.RESPONSES, ["tool.strict_default"]),
        (function(strict=True), Protocol.MESSAGES, ["tool.strict_downgraded"]),
        (function(cache=CacheMark()), Protocol.MESSAGES, ["cache.tool_mark"]),
        (function(deferred=True), Protocol.MESSAGES, ["tool.defer_loading"]),
        (function(added_at=1), Protocol.MESSAGES, ["tool.timing"]),
    ],
)
def test_tool_marks(tool: FunctionTool, protocol: Protocol, losses: list[str]) -> None:
    """What Chat has no name for is declared; the tool itself is offered."""
    body, found = write(request(protocol=protocol, tools=(tool,)), FREE)
    parameters = {"type": "object", "properties": {}}
    assert body["tools"] == [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    assert found == losses


def test_custom_tools_have_a_nested_grammar() -> None:
    """Responses writes it flat."""
    tool = CustomTool(name="g", syntax="regex", grammar="a+", path="tools[0]")
    body, _ = write(request(protocol=Protocol.RESPONSES, tools=(tool,)))
    grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}}
    assert body["tools"] == [{"type": "custom", "custom": {"name": "g", "format": grammar}}]


def test_web_search_by_profile() -> None:
    """Only search models take it; others would answer 400."""
    tool = HostedTool(
        kind=HostedKind.WEB_SEARCH,
        native={},
        type="web_search",
        max_uses=3,
        context_size="low",
        location=UserLocation(city="Bern"),
        path="tools[0]",
    )
    body, losses = write(request(tools=(tool,)), "gpt-5-search-api")
    assert body["web_search_options"] == {
        "search_context_size": "low",
        "user_location": {"type": "approximate", "approximate": {"city": "Bern"}},
    }
    assert losses == ["web_search.params"]
    body, losses = write(request(tools=(tool, function(strict=False))), FREE)
    assert "web_search_options" not in body
    assert losses == ["tool.hosted_dropped"]
    with pytest.raises(Unsupported):
        write(request(tools=(tool,)), FREE)


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        (ToolChoice(mode=ChoiceMode.REQUIRED), "required"),
        (ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(name="f")), {"type": "function", "function": {"name": "f"}}),
        (
            ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(name="g", kind=CallKind.CUSTOM)),
            {"type": "custom", "custom": {"name": "g"}},
        ),
        (
            ToolChoice(mode=ChoiceMode.ALLOWED, allowed=(ToolRef(name="f"),)),
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
        ),
    ],
)
def test_tool_choice(choice: ToolChoice, wire: Any) -> None:
    """All of them have a form."""
    body, losses = write(request(tools=(function(strict=False),), tool_choice=choice, parallel_tools=False), FREE)
    assert (body["tool_choice"], body["parallel_tool_calls"], losses) == (wire, False, [])


def test_allowed_tools_are_filtered_for_compatible_servers() -> None:
    """They do not know the choice, so they are told of fewer tools."""
    choice = ToolChoice(mode=ChoiceMode.ALLOWED, allowed=(ToolRef(name="f"),), path="tool_choice")
    other = FunctionTool(name="other", strict=False)
    body, losses = write(request(tools=(function(strict=False), other), tool_choice=choice), COMPATIBLE)
    assert [tool["function"]["name"] for tool in body["tools"]] == ["f"]
    assert (body["tool_choice"], losses) == ("auto", ["tool_choice.allowed_filtered"])


def test_choice_without_tools_is_not_sent() -> None:
    """OpenAI answers 400 to it, and Codex always sends it."""
    body, losses = write(request(tool_choice=ToolChoice(mode=ChoiceMode.AUTO), parallel_tools=True))
    assert "tool_choice" not in body
    assert "parallel_tool_calls" not in body
    assert losses == []
