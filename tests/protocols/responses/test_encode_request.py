"""Requests of other protocols as Responses requests, and this protocol's own back as they came."""

from typing import Any

import pytest

from trilogue.errors import Unsupported
from trilogue.model import (
    Audio,
    Block,
    CacheMark,
    Caching,
    CallKind,
    Citation,
    CitationKind,
    Document,
    Effort,
    FormatKind,
    HostedCall,
    HostedKind,
    HostedResult,
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
    SearchHit,
    SearchResult,
    Source,
    SourceKind,
    Text,
    Thinking,
    ThinkingMode,
    Tier,
    ToolCall,
    ToolResult,
    Turn,
)
from trilogue.protocols.codec import Target
from trilogue.protocols.responses import CODEC
from trilogue.vendors.profile import Profile

TARGET = Target.of(Protocol.RESPONSES, "gpt-6")
SWITCHED = Target.of(Protocol.RESPONSES, "gpt-5.6")
"""reasons unless told not to"""
PLAIN = Target.of(Protocol.RESPONSES, "gpt-4.1")
"""does not reason"""


def encode(request: Request, target: Target = TARGET) -> tuple[dict[str, Any], list[str]]:
    ledger = Ledger()
    return CODEC.encode_request(request, target, ledger), [loss.code for loss in ledger.losses]


def ask(
    *turns: Turn, source: Protocol = Protocol.MESSAGES, target: Target = TARGET, **more: Any
) -> tuple[dict[str, Any], list[str]]:
    return encode(Request(protocol=source, model="m", turns=turns, **more), target)


def user(*blocks: Block) -> Turn:
    return Turn(role=Role.USER, blocks=blocks, path="messages[0]")


def assistant(*blocks: Block) -> Turn:
    return Turn(role=Role.ASSISTANT, blocks=blocks, path="messages[1]")


HELLO = user(Text(text="hi", path="messages[0].content[0]"))


def test_prompt_without_marks_is_instructions() -> None:
    """Blocks of a prompt are paragraphs, and that they were blocks is declared. The model takes no marks."""
    prompt = Turn(role=Role.SYSTEM, blocks=(Text(text="a"), Text(text="b")), leading=True)
    body, losses = ask(prompt, HELLO, target=PLAIN)
    assert body["instructions"] == "a\n\nb"
    assert len(body["input"]) == 1
    assert losses == ["text.blocks_joined"]


def test_prompt_with_marks_is_a_developer_message() -> None:
    """`instructions` cannot carry breakpoints."""
    prompt = Turn(role=Role.SYSTEM, blocks=(Text(text="a", cache=CacheMark(300), path="system[0]"),), leading=True)
    body, losses = ask(prompt, HELLO)
    assert "instructions" not in body
    part = {"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}}
    assert body["input"][0] == {"type": "message", "role": "developer", "content": [part]}
    assert losses == ["cache.ttl"]


def test_chat_prompts_stay_messages() -> None:
    """Chat has both roles, and so has this protocol."""
    turns = [
        Turn(role=role, blocks=(Text(text=role.value),), plain=True)
        for role in (Role.SYSTEM, Role.DEVELOPER, Role.USER)
    ]
    body, losses = ask(*turns, source=Protocol.CHAT, target=PLAIN)
    assert [(item["role"], item["content"][0]["text"]) for item in body["input"]] == [
        ("system", "system"),
        ("developer", "developer"),
        ("user", "user"),
    ]
    assert losses == []


def test_order_of_text_and_calls_is_kept() -> None:
    """Items are free in order; moving calls before text is a known mistake of others."""
    call = ToolCall(id="toolu_1", name="f", arguments='{"a":1}')
    result = ToolResult(call_id="toolu_1", content=(Text(text="r"),))
    body, losses = ask(HELLO, assistant(Text(text="x"), call, Text(text="y")), user(result, Text(text="z")))
    kinds = [item["type"] for item in body["input"]]
    assert kinds == ["message", "message", "function_call", "message", "function_call_output", "message"]
    assert body["input"][1]["content"] == [{"type": "output_text", "text": "x", "annotations": []}]
    assert body["input"][1]["id"].startswith("msg_")
    assert body["input"][2] == {"type": "function_call", "call_id": "toolu_1", "name": "f", "arguments": '{"a":1}'}
    assert body["input"][4]["output"] == [{"type": "input_text", "text": "r"}]
    assert losses == []


def test_call_ids_are_made_legal_alike() -> None:
    """A call and its result must still find each other."""
    call = ToolCall(id="functions.x:0", name="f")
    result = ToolResult(call_id="functions.x:0")
    body, _ = ask(HELLO, assistant(call), user(result))
    made, answered = body["input"][1]["call_id"], body["input"][2]["call_id"]
    assert made == answered
    assert "." not in made
    assert body["input"][1]["arguments"] == "{}"


def test_failed_tool_is_described_and_marked() -> None:
    """There is no error flag here."""
    failed = ToolResult(call_id="c", content=(Text(text="boom"),), is_error=True, path="p")
    silent = ToolResult(call_id="d", is_error=True, path="q")
    calls = assistant(ToolCall(id="c", name="f"), ToolCall(id="d", name="f"))
    body, losses = ask(HELLO, calls, user(failed, silent))
    first, second = body["input"][-2:]
    assert first["output"] == [{"type": "input_text", "text": "[tool error] boom"}]
    assert first["status"] == "incomplete"
    assert second["output"] == "[tool error]"
    assert losses == ["tool_result.is_error", "tool_result.is_error"]


def test_media_in_results_and_messages() -> None:
    """Images and files have parts in both places."""
    image = Image(source=Source(SourceKind.DATA, "AAAA", "image/png"))
    pdf = Document(source=Source(SourceKind.DATA, "BBBB", "application/pdf"), title="a.pdf")
    result = ToolResult(call_id="c", content=(Text(text="see"), image))
    body, losses = ask(user(pdf), assistant(ToolCall(id="c", name="f")), user(result))
    assert body["input"][0]["content"] == [
        {"type": "input_file", "file_data": "data:application/pdf;base64,BBBB", "filename": "a.pdf"}
    ]
    assert body["input"][2]["output"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
    ]
    assert losses == []


def test_text_documents_and_search_results_become_text() -> None:
    """The protocol has no such parts."""
    document = Document(source=Source(SourceKind.TEXT, "body"), title="T", context="C", path="a")
    found = SearchResult(source="https://s", title="S", parts=(Text(text="hit"),), path="b")
    body, losses = ask(user(document, found))
    assert [part["text"] for part in body["input"][0]["content"]] == ["T\nC\n\nbody", "S\nhttps://s\n\nhit"]
    assert losses == ["document.as_text", "search_result.as_text"]


@pytest.mark.parametrize(
    "block",
    [
        Audio(source=Source(SourceKind.DATA, "AAAA"), format="wav", path="x"),
        Image(source=Source(SourceKind.FILE_ID, "file_1"), path="x"),
    ],
)
def test_what_cannot_be_said_is_refused(block: Block) -> None:
    """Sound, and files that another provider keeps, have no nearest behaviour."""
    with pytest.raises(Unsupported) as caught:
        ask(user(block))
    assert caught.value.path == "x"


def test_reasoning_only_with_its_own_blob_or_raw() -> None:
    """A foreign summary would be read as the model's own words."""
    own = Reasoning(summary=("s",), opaque=Opaque(kind=OpaqueKind.ENCRYPTED, value="blob", item_id="rs_9"), path="a")
    raw = Reasoning(raw=("r",), path="b")
    foreign = Reasoning(summary=("t",), path="c")
    signed = Reasoning(summary=("t",), opaque=Opaque(kind=OpaqueKind.SIGNATURE, value="sig"), path="d")
    turns = (HELLO, assistant(own, raw, foreign, signed, Text(text="x")), HELLO)
    body, losses = encode(
        Request(protocol=Protocol.MESSAGES, model="m", turns=turns), Target.of(Protocol.RESPONSES, "gpt-oss-120b")
    )
    first, second = body["input"][1:3]
    assert first == {
        "type": "reasoning",
        "id": "rs_9",
        "summary": [{"type": "summary_text", "text": "s"}],
        "encrypted_content": "blob",
    }
    assert second["content"] == [{"type": "reasoning_text", "text": "r"}]
    assert second["id"].startswith("rs_")
    assert body["input"][3]["type"] == "message"
    assert losses == ["reasoning.foreign_dropped", "reasoning.foreign_dropped"]


def test_openai_takes_no_words_of_earlier_reasoning() -> None:
    """It answers 400 to reasoning that is not its own."""
    body, losses = ask(HELLO, assistant(Reasoning(raw=("r",), path="b"), Text(text="x")), HELLO)
    assert [item["type"] for item in body["input"]] == ["message"] * 3
    assert losses == ["reasoning.foreign_dropped"]


def test_custom_calls_of_chat_find_their_results() -> None:
    """Chat's tool message does not say what kind of call it answers."""
    call = ToolCall(id="c", name="patch", arguments="*** Begin", kind=CallKind.CUSTOM)
    body, _ = ask(HELLO, assistant(call), Turn(role=Role.TOOL, blocks=(ToolResult(call_id="c"),)), source=Protocol.CHAT)
    assert [item["type"] for item in body["input"][1:]] == ["custom_tool_call", "custom_tool_call_output"]
    assert body["input"][1]["input"] == "*** Begin"


def test_searches_in_the_history_are_one_item() -> None:
    """Call and result are joined; the tokens of the other provider cannot go along."""
    call = HostedCall(id="srvtoolu_1", tool=HostedKind.WEB_SEARCH, input='{"query":"q"}')
    hit = SearchHit(url="https://a", content=Opaque(kind=OpaqueKind.SEARCH, value="v"))
    result = HostedResult(call_id="srvtoolu_1", tool=HostedKind.WEB_SEARCH, hits=(hit,), path="r")
    body, losses = ask(HELLO, assistant(call, result, Text(text="x")), HELLO)
    item = body["input"][1]
    assert item["type"] == "web_search_call"
    assert item["action"]["query"] == "q"
    assert item["action"]["sources"] == [{"type": "url", "url": "https://a"}]
    assert losses == ["web_search.replay"]


def test_citations_in_the_history_are_dropped() -> None:
    """Annotations of another provider point nowhere."""
    cited = Text(text="x", citations=(Citation(kind=CitationKind.WEB, native={}, url="u"),), path="p")
    body, losses = ask(HELLO, assistant(cited), HELLO)
    assert body["input"][1]["content"][0]["annotations"] == []
    assert losses == ["citation.dropped"]


def test_nothing_is_stored_and_reasoning_comes_back() -> None:
    """Other protocols keep nothing; without storage the client must get the encrypted reasoning."""
    body, _ = ask(HELLO)
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]


def test_sampling() -> None:
    """What exists is carried, the rest declared."""
    sampling = Sampling(
        max_tokens=5, temperature=0.1, seed=1, frequency_penalty=0.5, presence_penalty=0, logit_bias={}, stop=("x",)
    )
    body, losses = ask(HELLO, source=Protocol.CHAT, target=PLAIN, sampling=sampling)
    assert (body["max_output_tokens"], body["temperature"]) == (16, 0.1)
    assert sorted(losses) == ["max_tokens.raised", "param.dropped", "param.dropped", "stop.emulated"]
    probable = Sampling(logprobs=True, top_logprobs=3)
    body, losses = ask(HELLO, source=Protocol.CHAT, target=PLAIN, sampling=probable)
    assert body["include"] == ["message.output_text.logprobs"]
    assert (body["top_logprobs"], losses) == (3, [])


def test_sampling_of_models_that_reason() -> None:
    """They take a temperature only while they do not, and give no token probabilities."""
    warm = Sampling(temperature=0.1)
    assert ask(HELLO, sampling=warm)[1] == ["sampling.dropped"]
    assert ask(HELLO, target=SWITCHED, sampling=warm)[1] == ["sampling.dropped"]
    body, losses = ask(HELLO, target=SWITCHED, sampling=warm, thinking=Thinking(effort=Effort.NONE))
    assert (body["temperature"], losses) == (0.1, [])
    for asked in (Sampling(logprobs=True), Sampling(top_logprobs=3)):
        with pytest.raises(Unsupported):
            ask(HELLO, source=Protocol.CHAT, sampling=asked)


def test_models_that_do_not_reason() -> None:
    """They refuse an effort, a summary and the wish for encrypted reasoning."""
    body, losses = ask(HELLO, target=PLAIN, thinking=Thinking(effort=Effort.HIGH, visibility="auto"))
    assert not {"reasoning", "include"} & set(body)
    assert losses == ["thinking.unavailable"]
    body, losses = ask(HELLO, target=PLAIN, thinking=Thinking(mode=ThinkingMode.DISABLED))
    assert (body.get("reasoning"), losses) == (None, [])


def test_a_limit_above_what_the_model_gives() -> None:
    """The API answers 400 to it."""
    body, losses = ask(HELLO, target=PLAIN, sampling=Sampling(max_tokens=64_000))
    assert (body["max_output_tokens"], losses) == (32_768, ["max_tokens.lowered"])


def test_several_responses_are_refused() -> None:
    """The protocol gives one."""
    with pytest.raises(Unsupported):
        ask(HELLO, source=Protocol.CHAT, sampling=Sampling(choices=2))


def test_begun_response_is_refused() -> None:
    """It would not be continued."""
    with pytest.raises(Unsupported) as caught:
        ask(HELLO, assistant(Text(text="{")))
    assert caught.value.code == "prefill"


def test_cache_warming_request() -> None:
    """A Messages request for no output at all."""
    body, losses = ask(HELLO, sampling=Sampling(max_tokens=0))
    assert body["prompt_cache_options"] == {"prewarm": True}
    assert "max_output_tokens" not in body
    assert losses == []


@pytest.mark.parametrize(
    ("thinking", "reasoning", "losses"),
    [
        (Thinking(effort=Effort.HIGH), {"effort": "high"}, []),
        (Thinking(mode=ThinkingMode.ADAPTIVE), {"summary": "auto"}, []),
        (Thinking(mode=ThinkingMode.ADAPTIVE, visibility="omitted"), None, []),
        (
            Thinking(mode=ThinkingMode.BUDGET, budget=8_192),
            {"effort": "medium", "summary": "auto"},
            ["thinking.budget"],
        ),
        (Thinking(mode=ThinkingMode.DISABLED), {"effort": "none"}, []),
        (Thinking(mode=ThinkingMode.DISABLED, effort=Effort.HIGH), {"effort": "high"}, ["thinking.mode"]),
        (Thinking(mode=ThinkingMode.BETWEEN_TOOLS), {"effort": "none"}, ["thinking.mode"]),
    ],
)
def test_thinking(thinking: Thinking, reasoning: dict[str, str] | None, losses: list[str]) -> None:
    """Budgets become the effort they came from; modes that do not exist are declared."""
    body, found = ask(HELLO, target=SWITCHED, thinking=thinking)
    assert body.get("reasoning") == reasoning
    assert found == losses


def test_a_model_that_always_reasons() -> None:
    """The least effort comes nearest."""
    body, losses = ask(HELLO, thinking=Thinking(mode=ThinkingMode.DISABLED))
    assert (body["reasoning"], losses) == ({"effort": "low"}, ["effort.none"])


@pytest.mark.parametrize(
    ("wanted", "allowed", "got", "code"),
    [
        (Effort.MAX, (Effort.LOW, Effort.HIGH), "high", "effort.clamped"),
        (Effort.MINIMAL, (Effort.LOW, Effort.HIGH), "low", "effort.minimal"),
        (Effort.NONE, (Effort.MINIMAL, Effort.LOW), "minimal", "effort.none"),
    ],
)
def test_effort_is_clamped_to_the_model(wanted: Effort, allowed: tuple[Effort, ...], got: str, code: str) -> None:
    """A level that the model does not have is an error there."""
    target = Target(protocol=Protocol.RESPONSES, model="m", profile=Profile(reasons="always", efforts=allowed))
    request = Request(protocol=Protocol.CHAT, model="m", turns=(HELLO,), thinking=Thinking(effort=wanted))
    body, losses = encode(request, target)
    assert body["reasoning"]["effort"] == got
    assert losses == [code]


def test_schema_of_messages_gets_a_name_and_strictness() -> None:
    """This protocol demands a name; strict only if the schema fits."""
    fitting = {"type": "object", "properties": {}, "additionalProperties": False, "required": []}
    body, losses = ask(HELLO, format=OutputFormat(kind=FormatKind.SCHEMA, schema=fitting))
    assert body["text"]["format"] == {
        "type": "json_schema",
        "name": "structured_output",
        "schema": fitting,
        "strict": True,
    }
    assert losses == []
    body, losses = ask(HELLO, format=OutputFormat(kind=FormatKind.SCHEMA, schema={"type": "object"}))
    assert body["text"]["format"]["strict"] is False
    assert losses == ["format.details"]


def test_identity_tier_and_cache() -> None:
    """Long user ids are hashed, never cut: two users must not become one."""
    body, losses = ask(HELLO, user="u" * 129, tier=Tier.BATCH, caching=Caching(key="k"))
    assert len(body["safety_identifier"]) == 64
    assert body["prompt_cache_key"] == "k"
    assert "service_tier" not in body
    assert losses == ["tier", "user.hashed"]


def test_marks_where_there_is_no_place() -> None:
    """Only input parts can carry a breakpoint."""
    call = ToolCall(id="c", name="f", cache=CacheMark(), path="a")
    said = Text(text="x", cache=CacheMark(), path="b")
    result = ToolResult(call_id="c", cache=CacheMark(), path="c")
    _, losses = ask(HELLO, assistant(said, call), user(result))
    assert losses == ["cache.mark", "cache.mark", "cache.mark"]


OWN: list[dict[str, Any]] = [
    {"model": "m", "input": "hi", "stream": True, "stream_options": {"include_obfuscation": False}},
    {
        "model": "m",
        "instructions": "i",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x", "odd": 1}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b"},
            {"type": "function_call", "call_id": "c.1", "name": "f", "arguments": "", "caller": {"type": "direct"}},
            {"type": "function_call_output", "call_id": "c.1", "output": [{"type": "input_text", "text": "a"}]},
            {"type": "additional_tools", "role": "developer", "id": "at_1", "tools": [{"type": "custom", "name": "c"}]},
            {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "d"}]},
            {"type": "compaction", "encrypted_content": "z"},
            {"type": "item_reference", "id": "msg_7"},
            {"type": "mcp_call", "id": "mcp_1", "name": "t", "server_label": "s", "arguments": "{}", "output": "o"},
        ],
    },
    {
        "model": "m",
        "input": "x",
        "reasoning": {"effort": "low", "context": "auto", "mode": "pro"},
        "text": {"format": {"type": "json_object"}, "verbosity": "low", "new": 1},
        "user": "old",
        "truncation": "auto",
        "previous_response_id": "resp_1",
        "unknown": {"a": [1]},
        "service_tier": "provisioned",
        "max_output_tokens": 3,
    },
]


@pytest.mark.parametrize("body", OWN, ids=["string", "items", "extras"])
def test_own_requests_go_back_as_they_came(body: dict[str, Any]) -> None:
    """Same protocol: nothing is changed, declared or refused."""
    encoded, losses = encode(CODEC.decode_request(body), Target.of(Protocol.RESPONSES, "m"))
    assert encoded == body
    assert losses == []
