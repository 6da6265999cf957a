"""Choose the script for a request and fill it in: the response as blocks, before it is split into events.

Tool calls are part of it: which tool the user's words ask for, and arguments that fit its schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from trilogue.base.json_text import dump_text
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
from trilogue.protocols.parts import derive_id
from trilogue.upstreams.demo import scripts
from trilogue.upstreams.demo.request import ClientTool, RequestSummary
from trilogue.upstreams.demo.sample import Sampler
from trilogue.upstreams.demo.scripts import Scenario

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_QUOTED_WORDS = 40
"""how much of the user's words and of tool results a response repeats"""
_FORCED = (ChoiceMode.REQUIRED, ChoiceMode.NAMED)


class ScriptedResponse(Struct, frozen=True, kw_only=True):
    """The content of a response. If there is a `failure`, the response fails after `fail_after` words."""

    blocks: tuple[Block, ...] = ()
    stop: Stop = Stop(reason=StopReason.END)
    searches: int | None = None
    failure: Failure | None = None
    fail_after: int = 0


def respond(request: Request, summary: RequestSummary, seed: str) -> ScriptedResponse:
    """Return the response to a request. Its ids are made from `seed`."""
    if request.model not in scripts.MODELS:
        message = scripts.UNKNOWN.format(names=", ".join(scripts.MODELS))
        failure = Failure(kind=FailureKind.MODEL_NOT_FOUND, message=message, status=404, code="model_not_found")
        return ScriptedResponse(failure=failure)
    return _SCENARIOS[_scenario(request, summary)](request, summary, seed)


def _scenario(request: Request, summary: RequestSummary) -> Scenario:
    """Return what to show: what the model always shows, or what the request asks for."""
    fixed = scripts.MODELS[request.model]
    if fixed is not None:
        return fixed
    if summary.results or tool_to_call(request, summary) is not None:
        return Scenario.TOOLS
    if request.format is not None and request.format.kind is not FormatKind.TEXT:
        return Scenario.TEXT
    if request.tool_choice is not None and request.tool_choice.mode is ChoiceMode.HOSTED:
        return Scenario.SEARCH
    said = vocabulary(summary.text)
    return next((scenario for word, scenario in scripts.KEYWORDS if word in said), Scenario.TEXT)


def _text(request: Request, summary: RequestSummary, _: str) -> ScriptedResponse:
    form = request.format
    if form is not None and form.kind is not FormatKind.TEXT:
        schema = form.schema or {"type": "object", "properties": {"answer": {"type": "string"}}}
        return ScriptedResponse(blocks=(Text(text=dump_text(Sampler(schema, summary.text, every=True).value(schema))),))
    return ScriptedResponse(blocks=(Text(text=_greeting(summary) + scripts.HINT),))


def _greeting(summary: RequestSummary) -> str:
    said = scripts.QUOTE.format(text=_short(summary.text)) if summary.text else scripts.SILENCE
    seen = "".join(f"I see {attachment}. " for attachment in summary.attachments)
    return scripts.GREETING + ("" if seen and not summary.text else said) + seen


def _think(_: Request, summary: RequestSummary, seed: str) -> ScriptedResponse:
    opaque = Opaque(kind=OpaqueKind.ENCRYPTED, value=derive_id("demo-reasoning-", seed), item_id=derive_id("rs_", seed))
    reasoning = Reasoning(summary=scripts.THOUGHTS, opaque=opaque, id=opaque.item_id)
    return ScriptedResponse(blocks=(reasoning, Text(text=scripts.THOUGHT_TEXT + _greeting(summary))))


def _tools(request: Request, summary: RequestSummary, seed: str) -> ScriptedResponse:
    """Call a tool, until the user's number of steps is reached; then repeat the results."""
    tool = tool_to_call(request, summary, eager=True)
    if len(summary.results) >= summary.steps or (summary.results and tool is None):
        return _results(summary)
    if tool is None:
        return ScriptedResponse(blocks=(Text(text=scripts.OFFER + scripts.HINT),))
    return ScriptedResponse(blocks=(make_call(tool, summary, seed, 0),), stop=Stop(reason=StopReason.TOOL_CALLS))


def _parallel(request: Request, summary: RequestSummary, seed: str) -> ScriptedResponse:
    tools = allowed_tools(request, summary)
    if summary.results or not tools or request.parallel_tools is False:
        return _tools(request, summary, seed)
    calls = tuple(make_call(tools[position % len(tools)], summary, seed, position) for position in range(2))
    return ScriptedResponse(blocks=calls, stop=Stop(reason=StopReason.TOOL_CALLS))


def _results(summary: RequestSummary) -> ScriptedResponse:
    """Repeat what the tools have returned."""
    sentences = [
        (scripts.RESULT_FAILED if result.failed else scripts.RESULT).format(name=result.name, text=_short(result.text))
        for result in summary.results
    ]
    return ScriptedResponse(blocks=(Text(text="".join(sentences) + scripts.RESULT_END),))


def _search(_: Request, summary: RequestSummary, seed: str) -> ScriptedResponse:
    query = _short(summary.text) or "demo"
    call_id = derive_id("ws_", seed)
    sources = [{"type": "url", "url": hit.url} for hit in scripts.SEARCH_HITS]
    action = {"type": "search", "query": query, "queries": [query], "sources": sources}
    native = {"id": call_id, "type": "web_search_call", "status": "completed", "action": action}
    asked = HostedCall(
        id=call_id, tool=HostedKind.WEB_SEARCH, name="web_search", input=dump_text({"query": query}), native=native
    )
    found = HostedResult(call_id=call_id, tool=HostedKind.WEB_SEARCH, hits=scripts.SEARCH_HITS)
    return ScriptedResponse(blocks=(asked, found, _cited()), searches=1)


def _cited() -> Text:
    """Return the text of the search response with its citations."""
    text = ""
    citations: list[Citation] = []
    for piece, number in scripts.SEARCH_TEXT:
        if number is not None:
            citations.append(_citation(number, len(text), len(text) + len(piece)))
        text += piece
    return Text(text=text, citations=tuple(citations))


def _citation(number: int, start: int, end: int) -> Citation:
    hit = scripts.SEARCH_HITS[number]
    span = {"start_index": start, "end_index": end}
    native = {"type": "url_citation", "url": hit.url, "title": hit.title, **span}
    return Citation(kind=CitationKind.WEB, url=hit.url, title=hit.title, start=start, end=end, native=native)


def _refuse(_: Request, __: RequestSummary, ___: str) -> ScriptedResponse:
    return ScriptedResponse(blocks=(Refusal(text=scripts.REFUSAL),))


def _long(_: Request, __: RequestSummary, ___: str) -> ScriptedResponse:
    count = scripts.LONG_SENTENCES
    sentences = [scripts.LONG_SENTENCE.format(number=number + 1, count=count) for number in range(count)]
    return ScriptedResponse(blocks=(Text(text="".join(sentences).strip()),))


def _length(_: Request, __: RequestSummary, ___: str) -> ScriptedResponse:
    return ScriptedResponse(blocks=(Text(text=scripts.LENGTH),), stop=Stop(reason=StopReason.LENGTH))


def _error(_: Request, __: RequestSummary, ___: str) -> ScriptedResponse:
    return ScriptedResponse(failure=scripts.FAILURE)


def _error_midstream(_: Request, __: RequestSummary, ___: str) -> ScriptedResponse:
    return ScriptedResponse(blocks=(Text(text=scripts.BEFORE_ERROR),), failure=scripts.FAILURE, fail_after=12)


def _short(text: str) -> str:
    """Return the beginning of a text, on one line."""
    said = text.split()
    return " ".join(said) if len(said) <= _QUOTED_WORDS else " ".join(said[:_QUOTED_WORDS]) + " …"


def allowed_tools(request: Request, summary: RequestSummary) -> list[ClientTool]:
    """Return the client's tools that the request allows to be called."""
    choice = request.tool_choice
    if choice is None:
        return list(summary.tools)
    if choice.mode is ChoiceMode.NONE:
        return []
    names: set[str] | None = None
    if choice.mode is ChoiceMode.NAMED and choice.tool is not None:
        names = {choice.tool.name}
    elif choice.mode is ChoiceMode.ALLOWED:
        names = {ref.name for ref in choice.allowed}
    return [tool for tool in summary.tools if names is None or tool.name in names]


def tool_to_call(request: Request, summary: RequestSummary, *, eager: bool = False) -> ClientTool | None:
    """Return the tool to call now, or None.

    It is the tool that matches the user's words best. It is called if the request forces a call, the user names it or
    says “tool”, or if `eager` is set.
    """
    tools = allowed_tools(request, summary)
    if not tools:
        return None
    best = max(tools, key=lambda tool: _score(tool, summary.text))
    choice = request.tool_choice
    forced = choice is not None and (choice.mode in _FORCED or choice.allowed_mode in _FORCED)
    asked = "tool" in vocabulary(summary.text) or _named(best, summary.text)
    return best if eager or forced or asked else None


def make_call(tool: ClientTool, summary: RequestSummary, seed: str, position: int) -> ToolCall:
    """Return a call of the tool, with arguments made from its schema and the user's words."""
    call_id = derive_id("call_", seed, position)
    item_id = derive_id("fc_", seed, position)
    namespace = tool.namespace
    if isinstance(tool, CustomTool):
        return ToolCall(
            id=call_id,
            name=tool.name,
            arguments=summary.text or "demo",
            kind=CallKind.CUSTOM,
            namespace=namespace,
            item_id=item_id,
        )
    arguments = dump_text(_arguments(tool, summary.text))
    return ToolCall(id=call_id, name=tool.name, arguments=arguments, namespace=namespace, item_id=item_id)


def _arguments(tool: FunctionTool, text: str) -> object:
    schema = tool.parameters or {}
    value = Sampler(schema, text).value({"type": "object", **schema})
    return value if isinstance(value, dict) else {}


def vocabulary(text: str) -> set[str]:
    """Return the words of a text or an identifier, in lower case and without a plural s."""
    found = (word.lower() for word in _WORDS.findall(text))
    return {word.removesuffix("s") if len(word) > 3 else word for word in found}


def _named(tool: ClientTool, text: str) -> bool:
    """Return whether the text contains the tool's name, or all words of it."""
    name = vocabulary(tool.name)
    return tool.name.lower() in text.lower().split() or (bool(name) and name <= vocabulary(text))


def _score(tool: ClientTool, text: str) -> tuple[bool, int, int]:
    """Return how well a tool matches a text: named at all, words of its name, words of its description."""
    said = vocabulary(text)
    name = vocabulary(tool.name)
    return _named(tool, text), len(name & said), len(vocabulary(tool.description or "") & said)


_SCENARIOS: dict[Scenario, Callable[[Request, RequestSummary, str], ScriptedResponse]] = {
    Scenario.TEXT: _text,
    Scenario.THINK: _think,
    Scenario.TOOLS: _tools,
    Scenario.PARALLEL: _parallel,
    Scenario.SEARCH: _search,
    Scenario.REFUSE: _refuse,
    Scenario.LONG: _long,
    Scenario.LENGTH: _length,
    Scenario.ERROR: _error,
    Scenario.ERROR_MIDSTREAM: _error_midstream,
}
