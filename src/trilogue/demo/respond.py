"""From a request to a whole answer: which script, filled in with what the request brings.

Which tool the user's words ask for, and the call of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from trilogue.demo import scripts
from trilogue.demo.request import ClientTool, Reading
from trilogue.demo.sample import Sampler
from trilogue.demo.scripts import Act
from trilogue.jsontext.text import dump_text
from trilogue.model import (
    Block,
    CallKind,
    ChoiceMode,
    Citation,
    CitationKind,
    CustomTool,
    Failure,
    FailureKind,
    FormatKind,
    FunctionTool,
    HostedCall,
    HostedKind,
    HostedResult,
    Opaque,
    OpaqueKind,
    Reasoning,
    Refusal,
    Request,
    Stop,
    StopReason,
    Text,
    ToolCall,
)
from trilogue.protocols.content.ids import mint

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_FORCED = (ChoiceMode.REQUIRED, ChoiceMode.NAMED)


def offered(request: Request, reading: Reading) -> list[ClientTool]:
    """The client's tools that may be called."""
    choice = request.tool_choice
    if choice is None:
        return list(reading.tools)
    if choice.mode is ChoiceMode.NONE:
        return []
    names: set[str] | None = None
    if choice.mode is ChoiceMode.NAMED and choice.tool is not None:
        names = {choice.tool.name}
    elif choice.mode is ChoiceMode.ALLOWED:
        names = {ref.name for ref in choice.allowed}
    return [tool for tool in reading.tools if names is None or tool.name in names]


def wanted(request: Request, reading: Reading, *, eager: bool = False) -> ClientTool | None:
    """The tool to call now: one that is forced, named or, if the user says “tool” or we are eager, the best match."""
    tools = offered(request, reading)
    if not tools:
        return None
    best = max(tools, key=lambda tool: _score(tool, reading.text))
    choice = request.tool_choice
    forced = choice is not None and (choice.mode in _FORCED or choice.allowed_mode in _FORCED)
    asked = "tool" in vocabulary(reading.text) or _named(best, reading.text)
    return best if eager or forced or asked else None


def call(tool: ClientTool, reading: Reading, seed: str, position: int) -> ToolCall:
    """A call with arguments made from the tool's schema and the user's words."""
    call_id = mint("call_", seed, position)
    item_id = mint("fc_", seed, position)
    namespace = tool.namespace
    if isinstance(tool, CustomTool):
        return ToolCall(
            id=call_id,
            name=tool.name,
            arguments=reading.text or "demo",
            kind=CallKind.CUSTOM,
            namespace=namespace,
            item_id=item_id,
        )
    arguments = dump_text(_arguments(tool, reading.text))
    return ToolCall(id=call_id, name=tool.name, arguments=arguments, namespace=namespace, item_id=item_id)


def _arguments(tool: FunctionTool, text: str) -> object:
    schema = tool.parameters or {}
    value = Sampler(schema, text).value({"type": "object", **schema})
    return value if isinstance(value, dict) else {}


def vocabulary(text: str) -> set[str]:
    """The words of a text or of an identifier, in lower case and without a plural s."""
    found = (word.lower() for word in _WORDS.findall(text))
    return {word.removesuffix("s") if len(word) > 3 else word for word in found}


def _named(tool: ClientTool, text: str) -> bool:
    """The text contains the tool's name, or all words of it."""
    name = vocabulary(tool.name)
    return tool.name.lower() in text.lower().split() or (bool(name) and name <= vocabulary(text))


def _score(tool: ClientTool, text: str) -> tuple[bool, int, int]:
    said = vocabulary(text)
    name = vocabulary(tool.name)
    return _named(tool, text), len(name & said), len(vocabulary(tool.description or "") & said)


_QUOTED_WORDS = 40


class ScriptedResponse(Struct, frozen=True, kw_only=True):
    """What to say. With a `failure` the answer never ends well: it breaks after `fail_after` words."""

    blocks: tuple[Block, ...] = ()
    stop: Stop = Stop(reason=StopReason.END)
    searches: int | None = None
    failure: Failure | None = None
    fail_after: int = 0


def behave(request: Request, reading: Reading, seed: str) -> ScriptedResponse:
    """The answer to a request. `seed` makes its ids."""
    if request.model not in scripts.MODELS:
        message = scripts.UNKNOWN.format(names=", ".join(scripts.MODELS))
        failure = Failure(kind=FailureKind.MODEL_NOT_FOUND, message=message, status=404, code="model_not_found")
        return ScriptedResponse(failure=failure)
    return _ACTS[_act(request, reading)](request, reading, seed)


def _act(request: Request, reading: Reading) -> Act:
    fixed = scripts.MODELS[request.model]
    if fixed is not None:
        return fixed
    if reading.results or wanted(request, reading) is not None:
        return Act.TOOLS
    if request.format is not None and request.format.kind is not FormatKind.TEXT:
        return Act.TEXT
    if request.tool_choice is not None and request.tool_choice.mode is ChoiceMode.HOSTED:
        return Act.SEARCH
    said = vocabulary(reading.text)
    return next((act for word, act in scripts.KEYWORDS if word in said), Act.TEXT)


def _text(request: Request, reading: Reading, _: str) -> ScriptedResponse:
    form = request.format
    if form is not None and form.kind is not FormatKind.TEXT:
        schema = form.schema or {"type": "object", "properties": {"answer": {"type": "string"}}}
        return ScriptedResponse(blocks=(Text(text=dump_text(Sampler(schema, reading.text, every=True).value(schema))),))
    return ScriptedResponse(blocks=(Text(text=_greeting(reading) + scripts.HINT),))


def _greeting(reading: Reading) -> str:
    said = scripts.QUOTE.format(text=_short(reading.text)) if reading.text else scripts.SILENCE
    seen = "".join(f"I see {picture}. " for picture in reading.pictures)
    return scripts.GREETING + ("" if seen and not reading.text else said) + seen


def _think(_: Request, reading: Reading, seed: str) -> ScriptedResponse:
    opaque = Opaque(kind=OpaqueKind.ENCRYPTED, value=mint("demo-reasoning-", seed), item_id=mint("rs_", seed))
    reasoning = Reasoning(summary=scripts.THOUGHTS, opaque=opaque, id=opaque.item_id)
    return ScriptedResponse(blocks=(reasoning, Text(text=scripts.THOUGHT_ANSWER + _greeting(reading))))


def _tools(request: Request, reading: Reading, seed: str) -> ScriptedResponse:
    tool = wanted(request, reading, eager=True)
    if len(reading.results) >= reading.steps or (reading.results and tool is None):
        return _results(reading)
    if tool is None:
        return ScriptedResponse(blocks=(Text(text=scripts.OFFER + scripts.HINT),))
    return ScriptedResponse(blocks=(call(tool, reading, seed, 0),), stop=Stop(reason=StopReason.TOOL_CALLS))


def _parallel(request: Request, reading: Reading, seed: str) -> ScriptedResponse:
    tools = offered(request, reading)
    if reading.results or not tools or request.parallel_tools is False:
        return _tools(request, reading, seed)
    calls = tuple(call(tools[position % len(tools)], reading, seed, position) for position in range(2))
    return ScriptedResponse(blocks=calls, stop=Stop(reason=StopReason.TOOL_CALLS))


def _results(reading: Reading) -> ScriptedResponse:
    told = [
        (scripts.RESULT_FAILED if result.failed else scripts.RESULT).format(name=result.name, text=_short(result.text))
        for result in reading.results
    ]
    return ScriptedResponse(blocks=(Text(text="".join(told) + scripts.RESULT_END),))


def _search(_: Request, reading: Reading, seed: str) -> ScriptedResponse:
    query = _short(reading.text) or "demo"
    call_id = mint("ws_", seed)
    sources = [{"type": "url", "url": hit.url} for hit in scripts.SEARCH_HITS]
    action = {"type": "search", "query": query, "queries": [query], "sources": sources}
    native = {"id": call_id, "type": "web_search_call", "status": "completed", "action": action}
    asked = HostedCall(
        id=call_id, tool=HostedKind.WEB_SEARCH, name="web_search", input=dump_text({"query": query}), native=native
    )
    found = HostedResult(call_id=call_id, tool=HostedKind.WEB_SEARCH, hits=scripts.SEARCH_HITS)
    return ScriptedResponse(blocks=(asked, found, _cited()), searches=1)


def _cited() -> Text:
    text = ""
    citations: list[Citation] = []
    for piece, number in scripts.SEARCH_ANSWER:
        if number is not None:
            citations.append(_citation(number, len(text), len(text) + len(piece)))
        text += piece
    return Text(text=text, citations=tuple(citations))


def _citation(number: int, start: int, end: int) -> Citation:
    hit = scripts.SEARCH_HITS[number]
    span = {"start_index": start, "end_index": end}
    native = {"type": "url_citation", "url": hit.url, "title": hit.title, **span}
    return Citation(kind=CitationKind.WEB, url=hit.url, title=hit.title, start=start, end=end, native=native)


def _refuse(_: Request, __: Reading, ___: str) -> ScriptedResponse:
    return ScriptedResponse(blocks=(Refusal(text=scripts.REFUSAL),))


def _long(_: Request, __: Reading, ___: str) -> ScriptedResponse:
    count = scripts.LONG_SENTENCES
    sentences = [scripts.LONG_SENTENCE.format(number=number + 1, count=count) for number in range(count)]
    return ScriptedResponse(blocks=(Text(text="".join(sentences).strip()),))


def _length(_: Request, __: Reading, ___: str) -> ScriptedResponse:
    return ScriptedResponse(blocks=(Text(text=scripts.LENGTH),), stop=Stop(reason=StopReason.LENGTH))


def _error(_: Request, __: Reading, ___: str) -> ScriptedResponse:
    return ScriptedResponse(failure=scripts.FAILURE)


def _error_midstream(_: Request, __: Reading, ___: str) -> ScriptedResponse:
    return ScriptedResponse(blocks=(Text(text=scripts.BEFORE_ERROR),), failure=scripts.FAILURE, fail_after=12)


_ACTS: dict[Act, Callable[[Request, Reading, str], ScriptedResponse]] = {
    Act.TEXT: _text,
    Act.THINK: _think,
    Act.TOOLS: _tools,
    Act.PARALLEL: _parallel,
    Act.SEARCH: _search,
    Act.REFUSE: _refuse,
    Act.LONG: _long,
    Act.LENGTH: _length,
    Act.ERROR: _error,
    Act.ERROR_MIDSTREAM: _error_midstream,
}


def _short(text: str) -> str:
    said = text.split()
    return " ".join(said) if len(said) <= _QUOTED_WORDS else " ".join(said[:_QUOTED_WORDS]) + " …"
