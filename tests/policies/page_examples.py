"""The examples on the pages of shipped policies: a configuration, and tables of what goes in and what comes out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trilogue.config.load import parse
from trilogue.config.policies import make_policy
from trilogue.model import Block, Protocol, Refusal, Request, Response, Role, Stop, StopReason, Text, ToolCall, Turn
from trilogue.policies import Pending, Policy, PolicyRun, judge_request, judge_response, text_of

PAGES = Path(__file__).resolve().parents[2] / "docs" / "policies"
DEMO = 'providers: {demo: {protocol: openai_responses, base_url: "demo:"}}\n'
MODEL, CLIENT = "the model writes", "the client sends"
NOTHING = "nothing"
_CODE = re.compile(r"`([^`]+)`")
_YAML = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CALL = re.compile(r"(\w+) (\{.*)")
_ANSWERS: dict[str, object] = {"yes": True, "no": False}
_ASPECTS: dict[str, Callable[[Request], str]] = {
    "model": lambda request: request.model,
    "system": lambda request: _said(request, Role.SYSTEM),
}


@dataclass(frozen=True)
class Row:
    """One row of a table. `given`: what the model writes or the client sends, `answer`: to a question of the policy."""

    kind: str
    given: tuple[str, ...]
    answer: str
    result: str
    verdict: str


def policies_of(page: str) -> list[Policy]:
    """Return the policies that the configuration on a page applies to all requests, as the gateway would load them."""
    found = _YAML.search(page)
    assert found, "the page has no configuration"
    config = parse((DEMO + found.group(1)).encode(), {}, Path())
    return [make_policy(config.policies[name]) for name in config.server.policies]


def rows_of(page: str) -> Iterator[Row]:
    """Yield the rows of the tables of examples."""
    for table in re.findall(rf"^\| (?:{MODEL}|{CLIENT}) \|.*\n(?:\|.*\n)+", page, re.MULTILINE):
        kind, *lines = table.splitlines()
        for line in lines[1:]:
            cells = [cell.strip() for cell in line.strip("|").split(" |")]
            given, *answer, result, verdict = cells
            yield Row(
                CLIENT if kind.startswith(f"| {CLIENT}") else MODEL,
                tuple(_CODE.findall(given)),
                "".join(_CODE.findall("".join(answer))),
                result,
                verdict,
            )


def outcome(policies: list[Policy], row: Row) -> tuple[str, str]:
    """Return what really comes out, and the verdict, written as on the page."""
    run = PolicyRun(policies)

    def answer(pending: Pending) -> object:
        return _ANSWERS.get(row.answer, row.answer)

    if row.kind == CLIENT:
        result = _after_request(run, row.given[0], answer)
    else:
        response = _response(row.given)
        result = "<br>".join(map(_code, judge_response(run, response, answer).blocks)) or NOTHING
    decided = [record for record in run.records if record.verdict != "pass"]
    words = [f"{record.verdict}: {record.reason}" if record.reason else record.verdict for record in decided]
    return result, "; ".join(words) or "pass"


def _response(given: tuple[str, ...]) -> Response:
    blocks = tuple([_block(text, number) for number, text in enumerate(given)])
    calls = any(isinstance(block, ToolCall) for block in blocks)
    stop = Stop(reason=StopReason.TOOL_CALLS if calls else StopReason.END)
    return Response(protocol=Protocol.CHAT, id="r1", model="m", blocks=blocks, stop=stop)


def _block(text: str, number: int) -> Block:
    call = _CALL.fullmatch(text)
    if call is None:
        return Text(text=text)
    return ToolCall(id=f"call_{number}", name=call[1], arguments=call[2])


def _code(block: Block) -> str:
    if isinstance(block, ToolCall):
        return f"`{block.name} {block.arguments}`"
    return f"a refusal: `{block.text}`" if isinstance(block, Refusal) else f"`{text_of(block)}`"


def _after_request(run: PolicyRun, given: str, answer: Callable[[Pending], object]) -> str:
    aspect, _, value = given.partition(": ")
    if aspect not in _ASPECTS:
        aspect, value = "", given
    turn = Turn(role=Role.SYSTEM if aspect == "system" else Role.USER, blocks=(Text(text=value),))
    model = value if aspect == "model" else "demo"
    judged = judge_request(run, Request(protocol=Protocol.CHAT, model=model, turns=(turn,)), answer)
    if judged is None:
        words = run.words_response(Protocol.CHAT, id="r1", model=model)
        return f"{NOTHING}; the client gets {_code(words.blocks[0])}"
    if not aspect:
        return f"`{_said(judged, Role.USER)}`"
    return f"`{aspect}: {_ASPECTS[aspect](judged)}`"


def _said(request: Request, role: Role) -> str:
    turns = [turn for turn in request.turns if turn.role is role]
    return " ".join([block.text for turn in turns for block in turn.blocks if isinstance(block, Text)])
