"""A field of a hosted tool that no protocol knows is declared (docs/mapping.md: Hosted tools)."""

import json

import pytest

import trilogue
from tests.mapping.cases import USER, Answer, Ask, Body, M, R, answer, covers
from tests.mapping.hosted import (
    DREW,
    FOUND,
    LOOKED,
    MCP,
    MCP_SERVER,
    REMOTE_CALL,
    REMOTE_RESULT,
    REMOTE_USE,
    USED,
)
from tests.mapping.params import written
from tests.mapping.test_nothing_lost import UNKNOWN, extended, objects
from trilogue import Loss

SHELL = {"type": "server_tool_use", "id": "srvtoolu_3", "name": "bash_code_execution", "input": {"command": "ls"}}
SHELL_RESULT = {
    "type": "bash_code_execution_tool_result",
    "tool_use_id": "srvtoolu_3",
    "content": {"stdout": "a", "stderr": "", "return_code": 0, "content": [{"type": "bash_code_execution_output"}]},
}
HOSTED: dict[str, tuple[list[Body], ...]] = {
    "R": ([LOOKED], [REMOTE_CALL], [{**REMOTE_CALL, "error": {"message": "no disk"}}], [DREW]),
    "M": ([USED, FOUND], [REMOTE_USE, REMOTE_RESULT], [SHELL, SHELL_RESULT]),
}
EXTENDED = [
    pytest.param(source, extended(pieces, path), written((*path, UNKNOWN)), id=f"{source}-{written(path)}-{kind}")
    for source, found in HOSTED.items()
    for pieces in found
    for path in objects(pieces)
    for kind in [pieces[0]["type"]]
    if not (path[-1:] == ("input",) and kind == "mcp_tool_use")  # whatever it is, it is carried
]
"""Every object of a hosted call and its result, each with a field that nobody knows."""


def streamed(source: str, pieces: list[Body]) -> list[Loss]:
    """What a stream of these items or blocks loses."""
    upstream, client = (R, M) if source == "R" else (M, R)
    name, count = ("output", "output_index") if source == "R" else ("content", "index")
    whole = answer(upstream, **{name: pieces})
    if source == "R":
        events: list[Body] = [
            {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
        ]
        begin, end, inside = "response.output_item.added", "response.output_item.done", "item"
        last: list[Body] = [{"type": "response.completed", "response": whole}]
    else:
        events = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}]
        begin, end, inside = "content_block_start", "content_block_stop", "content_block"
        stop = {"stop_reason": "end_turn", "stop_sequence": None}
        last = [{"type": "message_delta", "delta": stop, "usage": whole["usage"]}, {"type": "message_stop"}]
    for n, piece in enumerate(pieces):
        events += [{"type": kind, count: n, inside: piece} for kind in (begin, end)]
    translator = trilogue.StreamTranslator(source=upstream, target=client)
    for event in [*events, *last]:
        translator.feed(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    translator.close()
    return translator.losses


@pytest.mark.parametrize(("source", "pieces", "where"), EXTENDED)
def test_an_unknown_field_of_a_hosted_tool_is_declared(source: str, pieces: list[Body], where: str) -> None:
    """Whole and streamed, in a call as in what came of it."""
    name, direction = ("output", "R>M") if source == "R" else ("content", "M>R")
    whole = Answer("hosted", direction, {name: pieces}).run().losses
    assert any(covers(loss.path, name + where) for loss in whole)
    assert any(covers(loss.path, name + where) for loss in streamed(source, pieces))


@pytest.mark.parametrize(("source", "pieces", "where"), EXTENDED)
def test_the_same_in_the_history(source: str, pieces: list[Body], where: str) -> None:
    """Where the server is offered, calls of remote tools go back as such."""
    if source == "R":
        fields, place = {"input": [USER, pieces[0], USER], "tools": [MCP]}, "input[1]" + where.removeprefix("[0]")
    else:
        turns = [USER, {"role": "assistant", "content": pieces}, USER]
        fields, place = {"messages": turns, "mcp_servers": [MCP_SERVER]}, "messages[1].content" + where
    losses = Ask("history", "R>M" if source == "R" else "M>R", fields).run().losses
    assert any(covers(loss.path, place) for loss in losses), [str(loss) for loss in losses]
