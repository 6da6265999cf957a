"""Deferred tools: which of them a model is offered, and the search for the others, if the gateway has to run it.

A Messages client adds a tool with a `tool_addition`, or names it in the result of a search that it ran itself. If it
has such a search, the model sees a deferred tool only once it was found, as at its own provider (`offer_found`).
Without one, only the provider's own search could find them: then they are offered from the start.

If the upstream has no such search, the gateway runs it (`offer_search`): the model is offered the tools that are not
deferred, those that the history has found already, and the search as a function. Searches of the history become calls
and results of the function. Who searches is not known here: a `ToolSearch` says what can be found, and
`translate/content/continuation.py` has the response.

Found tools come last, in the order in which they were found, so that the tools of an earlier request are the beginning
of the later ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from trilogue.model import (
    Block,
    ChoiceMode,
    CustomTool,
    FunctionTool,
    HostedKind,
    HostedTool,
    Json,
    Ledger,
    Native,
    Request,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolRef,
    ToolResult,
    Turn,
)
from trilogue.protocols.parts import TOOL_NAME, TOOL_REFERENCE, derive_id
from trilogue.protocols.tool_search import (
    FoundTool,
    SearchCall,
    SearchFunction,
    ToolKey,
    ToolSearchForm,
    ToolSearchResult,
)
from trilogue.translate.tools.names import legal_name

_ADDITION = "tool_addition"
_SEARCH = re.compile(r"tool_?search|search_?tools?$", re.IGNORECASE)
"""names of functions with which clients find their own tools"""
_STEP = re.compile(r"([A-Za-z_]+)|\[(\d+)\]")


def offer_found(request: Request, ledger: Ledger) -> Request:
    """Return the request with every tool that was found in the history no longer deferred, after all others.

    Tools that the client may still find are left out.
    """
    # Deferred tools are rare; do not search the history without any.
    if not any([_is_deferred(tool) for tool in request.tools]):
        return request
    found = {name: place for place, name in reversed(list(enumerate(_found(request))))}
    if not _client_searches(request):
        return replace(request, tools=tuple(_offered(tool, found, ledger) for tool in request.tools))
    chosen = request.tool_choice.tool if request.tool_choice is not None else None
    if chosen is not None:
        found.setdefault(chosen.name or "", len(found))
    stay = [tool for tool in request.tools if not _is_deferred(tool)]
    later = [tool for tool in request.tools if isinstance(tool, FunctionTool) and tool.deferred and tool.name in found]
    later.sort(key=lambda tool: found[tool.name])
    return replace(request, tools=(*stay, *[_offered(tool, found, ledger) for tool in later]))


def _is_deferred(tool: Tool) -> bool:
    return type(tool) is FunctionTool and bool(tool.deferred)


def _client_searches(request: Request) -> bool:
    """Return whether the client can find its deferred tools, and the provider is not asked to."""
    if any([type(tool) is HostedTool and tool.kind is HostedKind.TOOL_SEARCH for tool in request.tools]):
        return False
    return any(
        [type(tool) is FunctionTool and not tool.deferred and _SEARCH.search(tool.name) for tool in request.tools]
    )


def _offered(tool: Tool, names: dict[str, int], ledger: Ledger) -> Tool:
    if type(tool) is not FunctionTool or not tool.deferred or tool.name not in names:
        return tool
    ledger.add("tool.timing", tool.path)
    return replace(tool, deferred=None)


def _found(request: Request) -> Iterator[str]:
    for turn in request.turns:
        yield from found_in(turn)


def found_in(turn: Turn) -> Iterator[str]:
    """Yield the names of the tools that a turn of the client has added or found."""
    for block in turn.blocks:
        if type(block) is Native and block.type == _ADDITION:
            yield from _named(block.data.get("tool"))
        elif type(block) is ToolResult:
            for part in block.content:
                if type(part) is Native and part.type == TOOL_REFERENCE:
                    yield from _named(part.data)


def _named(reference: Json) -> Iterator[str]:
    if isinstance(reference, dict) and reference.get("type") == TOOL_REFERENCE:
        for name in (TOOL_NAME, "name"):
            if isinstance(reference.get(name), str):
                yield reference[name]


class DeferredTool(Struct, frozen=True):
    """A tool that a search can find. `group`: the description of its namespace."""

    namespace: str | None
    name: str
    description: str
    parameters: dict[str, Json]
    group: str
    path: str


class ToolSearch(Struct, frozen=True):
    """The search of one request: its functions by name, what it searches, and the client's request."""

    functions: dict[str, SearchFunction]
    tools: tuple[DeferredTool, ...]
    body: dict[str, Json]
    earlier: int
    """how many searches the history has"""

    def definition(self, tool: DeferredTool) -> FoundTool:
        """Return a tool as the client has defined it."""
        group = _at(self.body, tool.path.rpartition(".tools[")[0]) if tool.namespace is not None else None
        return FoundTool(tool.namespace, tool.name, _at(self.body, tool.path), group)


def offer_search(
    request: Request, body: dict[str, Json], form: ToolSearchForm, limit: int, ledger: Ledger
) -> tuple[Request, ToolSearch | None]:
    """Return the request with functions instead of searches, and what they can find; None if there is nothing to find.

    Tools that wait stay in the request until they have got their names: see `without_waiting`. `limit`: the length of
    the target's tool names.
    """
    searches = [tool for tool in request.tools if _is_search(tool)]
    deferred = [tool for tool in request.tools if isinstance(tool, FunctionTool | CustomTool) and tool.deferred]
    if not searches or not deferred:
        return request, None
    taken = {tool.name for tool in request.tools if isinstance(tool, FunctionTool | CustomTool)}
    functions = {tool.path: _function(tool, form, taken) for tool in searches}
    history = _History(form, next(iter(functions.values())), limit)
    turns = history.turns(request.turns)
    order = {key: place for place, key in reversed(list(enumerate([*history.found, *_chosen(request.tool_choice)])))}
    later = sorted([tool for tool in deferred if _key(tool) in order], key=lambda tool: order[_key(tool)])
    waiting = [tool for tool in deferred if _key(tool) not in order]
    stay = [_replaced(tool, functions, ledger) for tool in request.tools if not getattr(tool, "deferred", None)]
    for tool in later:
        ledger.add("tool.timing", tool.path)
    offered = (*stay, *[replace(tool, deferred=None) for tool in later], *waiting)
    search = ToolSearch(
        functions={function.name: function for function in functions.values()},
        tools=tuple([_described(tool, request.namespaces or {}) for tool in deferred]),
        body=body,
        earlier=history.searches,
    )
    choice = _choice(request, search, history.ends_with_search)
    return replace(request, tools=offered, turns=turns, tool_choice=choice), search


def without_waiting(request: Request) -> Request:
    """Return a request, whose tools have got their names, without those that nothing has found yet."""
    return replace(request, tools=tuple([tool for tool in request.tools if not getattr(tool, "deferred", None)]))


def without_search(request: Request, ledger: Ledger) -> Request:
    """Return the request without searches that nobody can run. Then all tools are offered from the start."""
    searches = [tool for tool in request.tools if _is_search(tool)]
    for tool in searches:
        ledger.add("tool.hosted_dropped", tool.path, tool.type)
    if not searches:
        return request
    return replace(request, tools=tuple([tool for tool in request.tools if tool not in searches]))


def _is_search(tool: Tool) -> TypeGuard[HostedTool]:
    return isinstance(tool, HostedTool) and tool.kind is HostedKind.TOOL_SEARCH and not tool.runs_on_client


def _key(tool: FunctionTool | CustomTool) -> ToolKey:
    return tool.namespace, tool.name


def _function(tool: HostedTool, form: ToolSearchForm, taken: set[str]) -> SearchFunction:
    function = form.function(tool)
    while function.name in taken:
        function = replace(function, name=f"{function.name}_tool")
    taken.add(function.name)
    return function


def _replaced(tool: Tool, functions: dict[str, SearchFunction], ledger: Ledger) -> Tool:
    if not _is_search(tool):
        return tool
    ledger.add("tool.builtin_emulated", tool.path, tool.type)
    made = functions[tool.path]
    return FunctionTool(
        name=made.name, description=made.description, parameters=made.parameters, path=tool.path, cache=tool.cache
    )


def _described(tool: FunctionTool | CustomTool, groups: dict[str, str | None]) -> DeferredTool:
    return DeferredTool(
        namespace=tool.namespace,
        name=tool.name,
        description=tool.description or "",
        parameters=(tool.parameters or {}) if type(tool) is FunctionTool else {},
        group=(groups.get(tool.namespace) or "") if tool.namespace is not None else "",
        path=tool.path,
    )


def _chosen(choice: ToolChoice | None) -> list[ToolKey]:
    """Return the tools that the client names, which the model must be able to call."""
    if choice is None:
        return []
    refs = (choice.tool, *choice.allowed)
    return [(ref.namespace, ref.name) for ref in refs if ref is not None and ref.name]


def _choice(request: Request, search: ToolSearch, has_searched: bool) -> ToolChoice | None:
    """Return the choice of tools, with the search as a function. A search that was forced is forced only once."""
    choice = request.tool_choice
    if choice is None or not any(_is_search_ref(ref) for ref in (choice.tool, *choice.allowed)):
        return choice
    if choice.mode is ChoiceMode.HOSTED:
        if has_searched:
            return None
        choice = replace(choice, mode=ChoiceMode.NAMED)
    name = next(iter(search.functions))
    tool = choice.tool and _ref(choice.tool, name)
    return replace(choice, tool=tool, allowed=tuple([_ref(ref, name) for ref in choice.allowed]))


def _is_search_ref(ref: ToolRef | None) -> bool:
    return ref is not None and ref.hosted is HostedKind.TOOL_SEARCH


def _ref(ref: ToolRef, name: str) -> ToolRef:
    return ToolRef(name=name, path=ref.path, extras=ref.extras) if _is_search_ref(ref) else ref


class _History:
    """The turns of one request, while searches become calls of a function. `searches`: how many there were."""

    def __init__(self, form: ToolSearchForm, function: SearchFunction, limit: int) -> None:
        self._form = form
        self._function = function
        self._limit = limit
        self._open: tuple[SearchCall, str] | None = None
        """a search without its result, and its path"""
        self.found: list[ToolKey] = []
        self.searches = 0
        self.ends_with_search = False

    def turns(self, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
        """Return the turns without searches."""
        return tuple([made for turn in turns for made in self._turn(turn)])

    def _turn(self, turn: Turn) -> Iterator[Turn]:
        self.found += [(None, name) for name in found_in(turn)]
        if not any(self._concerns(block) for block in turn.blocks):
            self.ends_with_search = False
            yield turn
            return
        before: list[Block] = []
        calls: list[Block] = []
        for block in turn.blocks:
            asked, result = self._form.call(block), self._form.result(block)
            if asked is not None:
                self._open = asked, block.path
            elif result is not None:
                yield from self._answered(turn, before, result, block)
                before = []
            # The results of these calls come with the next turn, so that they must be the last of this one.
            elif type(block) is ToolCall:
                calls.append(block)
            else:
                before.append(block)
        self.ends_with_search = not before and not calls
        if before or calls:
            yield replace(turn, blocks=(*before, *calls), plain=False)

    def _concerns(self, block: Block) -> bool:
        return self._form.call(block) is not None or self._form.result(block) is not None

    def _answered(self, turn: Turn, before: list[Block], result: ToolSearchResult, block: Block) -> Iterator[Turn]:
        self.found += result.tools
        if self._open is None:
            return
        (asked, path), self._open = self._open, None
        self.searches += 1
        call_id = asked.id or derive_id("call_", path)
        call = ToolCall(id=call_id, name=self._function.name, arguments=asked.arguments, path=path)
        yield replace(turn, role=Role.ASSISTANT, blocks=(*before, call), plain=False)
        text = Text(text=self._text(result), path=block.path)
        failed = True if result.error else None
        answer = ToolResult(call_id=call_id, content=(text,), plain=True, is_error=failed, path=block.path)
        yield Turn(role=Role.TOOL, blocks=(answer,), path=turn.path)

    def _text(self, result: ToolSearchResult) -> str:
        if result.error:
            return f"The search failed: {result.error}"
        names = [legal_name(namespace, name, self._limit) for namespace, name in result.tools]
        return f"You can now call: {', '.join(names)}" if names else "No tool was found."


def _at(body: Json, path: str) -> Json:
    """Return the value at a JSON path; None if there is none."""
    for name, place in _STEP.findall(path):
        try:
            body = body[name] if name else body[int(place)]
        except (KeyError, IndexError, TypeError):
            return None
    return body
