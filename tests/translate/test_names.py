"""Tool names: legal for the target, the same every time, restored on the way back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from trilogue.model import (
    BlockStart,
    BlockStop,
    CallKind,
    ChoiceMode,
    CustomTool,
    Delta,
    Event,
    Finish,
    FunctionTool,
    Ledger,
    Protocol,
    Request,
    Role,
    Stop,
    StopReason,
    Tool,
    ToolCall,
    ToolChoice,
    ToolRef,
    ToolResult,
    Turn,
)
from trilogue.translate.tools.names import Namer, NameStage, Offered, ToolNames, legal_name


def renamed(*tools: Tool, custom: bool = True, limit: int = 64, **fields: object) -> tuple[Request, ToolNames, Ledger]:
    ledger = Ledger()
    request = Request(protocol=Protocol.RESPONSES, model="m", tools=tools, **fields)  # type: ignore[arg-type]
    namer = Namer(limit=limit, custom_tools=custom, ledger=ledger)
    out, names = namer.request(request)
    turns = tuple(replace(turn, blocks=tuple(namer.block(block) for block in turn.blocks)) for turn in request.turns)
    return replace(out, turns=turns), names, ledger


@pytest.mark.parametrize("name", ["f", "a-b_C9", "x" * 64])
def test_legal_names_stay(name: str) -> None:
    """Nothing is touched without need."""
    assert legal_name(None, name, 64) == name


@pytest.mark.parametrize("name", ["x" * 65, "a.b", "ä", "functions.Bash:0", ""])
def test_other_names_become_legal_and_stay_apart(name: str) -> None:
    """Legal, within the limit, and a pure function of the name."""
    legal = legal_name(None, name, 64)
    assert legal == legal_name(None, name, 64)
    assert 0 < len(legal) <= 64
    assert legal.replace("_", "").replace("-", "").isalnum()
    assert legal != legal_name(None, name + "!", 64)


def test_namespace_is_flattened_and_restored() -> None:
    """Codex groups tools; other protocols see ns__name and the client gets its own names back."""
    tool = FunctionTool(name="read", namespace="fs", path="tools[0].tools[0]")
    out, names, ledger = renamed(tool, namespaces={"fs": "Files"})
    assert [t.name for t in out.tools if isinstance(t, FunctionTool)] == ["fs__read"]
    offered = names.find("fs__read")
    assert offered is not None
    assert (offered.namespace, offered.name) == ("fs", "read")
    assert [loss.code for loss in ledger.losses] == ["tool.namespace_description"]


def test_colliding_names_stay_apart() -> None:
    """`a__b` and namespace a, tool b are two tools."""
    plain, spaced = FunctionTool(name="a__b"), FunctionTool(name="b", namespace="a")
    out, names, _ = renamed(plain, spaced)
    first, second = (t.name for t in out.tools if isinstance(t, FunctionTool))
    assert first != second
    restored = {(o.namespace, o.name) for o in (names.find(first), names.find(second)) if o}
    assert restored == {(None, "a__b"), ("a", "b")}


def test_custom_tool_becomes_a_function() -> None:
    """Declared, with the grammar in words, and the history rewritten alike."""
    tool = CustomTool(name="patch", description="Apply.", syntax="lark", grammar="start: x", path="tools[0]")
    turn = Turn(role=Role.ASSISTANT, blocks=(ToolCall(id="1", name="patch", arguments='a "b"', kind=CallKind.CUSTOM),))
    result = Turn(role=Role.TOOL, blocks=(ToolResult(call_id="1", kind=CallKind.CUSTOM),))
    choice = ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(name="patch", kind=CallKind.CUSTOM))
    out, names, ledger = renamed(tool, custom=False, turns=(turn, result), tool_choice=choice)
    function = out.tools[0]
    assert isinstance(function, FunctionTool)
    assert function.parameters is not None
    assert "start: x" in (function.description or "")
    assert list(function.parameters["properties"]) == ["input"]
    call = out.turns[0].blocks[0]
    assert isinstance(call, ToolCall)
    assert (call.arguments, call.kind) == ('{"input":"a \\"b\\""}', CallKind.FUNCTION)
    answer = out.turns[1].blocks[0]
    assert isinstance(answer, ToolResult)
    assert answer.kind is CallKind.FUNCTION
    assert out.tool_choice is not None
    assert out.tool_choice.tool == ToolRef(name="patch")
    offered = names.find("patch")
    assert offered is not None
    assert offered.emulated
    assert [loss.code for loss in ledger.losses] == ["tool.custom_emulated"]


def test_mangled_name_is_declared_and_used_in_history() -> None:
    """The same new name in tools, choice and earlier calls."""
    long = "x" * 100
    turn = Turn(role=Role.ASSISTANT, blocks=(ToolCall(id="1", name=long),))
    out, names, ledger = renamed(FunctionTool(name=long, path="tools[0]"), turns=(turn,))
    tool, call = out.tools[0], out.turns[0].blocks[0]
    assert isinstance(tool, FunctionTool)
    assert isinstance(call, ToolCall)
    assert tool.name == call.name != long
    offered = names.find(tool.name)
    assert offered is not None
    assert offered.name == long
    assert [(loss.code, loss.path) for loss in ledger.losses] == [("tool.name_mangled", "tools[0].name")]


def test_names_and_free_text_are_restored() -> None:
    """An emulated tool comes back as free text under the client's name."""
    names = ToolNames({"fs__patch": Offered("patch", "fs", CallKind.CUSTOM, True)})
    call, finish = ToolCall(id="1", name="fs__patch"), Finish(stop=Stop(reason=StopReason.END))
    out = NameStage(names)([BlockStart(0, call), Delta(0, '{"inp'), Delta(0, 'ut":"a\\nb"}'), BlockStop(0), finish])
    restored = ToolCall(id="1", name="patch", namespace="fs", kind=CallKind.CUSTOM)
    assert out == [BlockStart(0, restored), Delta(0, "a\nb"), BlockStop(0), finish]


def test_name_in_a_repeated_block_is_restored_too() -> None:
    """Some sources repeat the whole call at its end; the client must not see the other name there."""
    names = ToolNames({"fs__read": Offered("read", "fs", CallKind.FUNCTION, False)})
    call = ToolCall(id="1", name="fs__read", arguments="{}")
    [stop] = NameStage(names)([BlockStop(0, block=call)])
    assert isinstance(stop, BlockStop)
    assert stop.block == ToolCall(id="1", name="read", namespace="fs", arguments="{}")


def test_free_text_call_of_a_function_stays_free_text() -> None:
    """Its input is no JSON, whatever was offered."""
    names = ToolNames({"f": Offered("f", None, CallKind.FUNCTION, False)})
    events: list[Event] = [BlockStart(0, ToolCall(id="1", name="f", kind=CallKind.CUSTOM))]
    assert NameStage(names)(events) == events


@pytest.mark.parametrize("invented", ["functions.read", "default_api:read", "default_api.read"])
def test_invented_namespaces_are_taken_off(invented: str) -> None:
    """Clients know no tool of that name."""
    names = ToolNames({"read": Offered("read", None, CallKind.FUNCTION, False)})
    [start] = NameStage(names)([BlockStart(0, ToolCall(id="1", name=invented))])
    assert start == BlockStart(0, ToolCall(id="1", name="read"))


def test_unknown_tool_names_pass() -> None:
    """Models make names up; that is for the client to see."""
    events: list[Event] = [BlockStart(0, ToolCall(id="1", name="made_up")), Delta(0, "{}"), BlockStop(0)]
    assert NameStage(ToolNames({"f": Offered("f", None, CallKind.FUNCTION, False)}))(events) == events
