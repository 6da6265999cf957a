"""`Request` → a Responses request body.

In: a neutral request, the target and the ledger. Out: the body. Requests of this protocol go back as they came, with
extras, natives and ids; requests of other protocols are written in the forms that every Responses server takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trilogue.errors import Unsupported
from trilogue.model import HostedKind, HostedTool, Json, Ledger, Protocol, Request, Role, Tool, Turn
from trilogue.protocols.codec import Target
from trilogue.protocols.responses.choice import encode_choice
from trilogue.protocols.responses.controls import (
    encode_caching,
    encode_sampling,
    encode_text,
    encode_thinking,
    encode_tier,
    encode_user,
)
from trilogue.protocols.responses.history import History
from trilogue.protocols.responses.tools import ToolWriter
from trilogue.protocols.responses.wire import ENCRYPTED_REASONING, LOGPROBS, NESTED, PROTOCOL

_Piece = Callable[[Request, Target, Ledger], dict[str, Json]]


def encode_request(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """The body to send to the target."""
    _refuse_prefill(request)
    body: dict[str, Json] = {"model": target.model} if target.model else {}
    for piece in _PIECES:
        body |= piece(request, target, ledger)
    if request.protocol is PROTOCOL:
        _restore(body, request.extras or {})
    return body


def _refuse_prefill(request: Request) -> None:
    """Only Messages lets a request end with the beginning of the answer."""
    if request.protocol is Protocol.MESSAGES and request.turns and request.turns[-1].role is Role.ASSISTANT:
        raise Unsupported(request.turns[-1].path, "the answer cannot be begun for the model", code="prefill")


def _input(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    history = History(request, target, ledger)
    turns = list(request.turns)
    body: dict[str, Json] = {}
    if turns and turns[0].leading and history.is_plain_prompt(turns[0]):
        prompt = turns.pop(0)
        body["instructions"] = "\n\n".join(history.texts(prompt))
    if len(turns) == 1 and turns[0].path == "input" and turns[0].plain and request.protocol is PROTOCOL:
        return {**body, "input": history.texts(turns[0])[0]}
    if turns or request.protocol is not PROTOCOL or _added(request):
        offset = len(request.turns) - len(turns)
        body["input"] = list(_items(turns, offset, request, history))
    return body


def _items(turns: list[Turn], offset: int, request: Request, history: History) -> Iterator[Json]:
    """The input items, with tools that came in mid-conversation before the turn they came before."""
    added = _added(request) if history.own else {}
    for position, turn in enumerate(turns, offset):
        yield from history.additional_tools(added.get(position, []))
        yield from history.items(turn)
    yield from history.additional_tools(added.get(offset + len(turns), []))


def _added(request: Request) -> dict[int, list[Tool]]:
    found: dict[int, list[Tool]] = {}
    for tool in request.tools:
        if tool.added_at is not None:
            found.setdefault(tool.added_at, []).append(tool)
    return found


def _tools(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    own = request.protocol is PROTOCOL
    body: dict[str, Json] = {}
    offered = [tool for tool in request.tools if tool.added_at is None or not own]
    if not own:
        for tool in offered:
            if tool.added_at is not None:
                ledger.add("tool.timing", tool.path)
    written = ToolWriter(request.protocol, ledger, request.namespaces).write(offered)
    if written:
        body["tools"] = written
    if request.tool_choice is not None:
        choice = encode_choice(request.tool_choice, own, ledger)
        if choice is not None:
            body["tool_choice"] = choice
    if request.parallel_tools is not None:
        body["parallel_tool_calls"] = request.parallel_tools
    return body if own else body | _search_limit(request, ledger)


def _search_limit(request: Request, ledger: Ledger) -> dict[str, Json]:
    """A limit on searches becomes the limit on all hosted calls, if search is the only hosted tool."""
    hosted = [tool for tool in request.tools if isinstance(tool, HostedTool) and not tool.runs_on_client]
    limited = [tool for tool in hosted if tool.max_uses is not None]
    if len(hosted) == 1 and limited and hosted[0].kind is HostedKind.WEB_SEARCH:
        return {"max_tool_calls": hosted[0].max_uses}
    for tool in limited:
        ledger.add("web_search.params", f"{tool.path}.max_uses")
    return {}


def _state(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """Storage and identity. Other protocols keep nothing by default, so keeping is switched off."""
    own = request.protocol is PROTOCOL
    store = request.store if own else request.store is True
    given = {
        "metadata": request.metadata,
        "store": store,
        "previous_response_id": request.previous_response if own else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _include(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    include = list(request.include)
    if request.protocol is not PROTOCOL:
        include = [ENCRYPTED_REASONING, *([LOGPROBS] if request.sampling.logprobs else [])]
    return {"include": include} if include else {}


def _stream(request: Request, target: Target, ledger: Ledger) -> dict[str, Json]:
    """Padding against traffic analysis is switched as the client asked; it exists in streams only."""
    body: dict[str, Json] = {"stream": True} if request.stream else {}
    if request.obfuscation is not None and (request.stream or request.protocol is PROTOCOL):
        body["stream_options"] = {"include_obfuscation": request.obfuscation}
    return body


_PIECES: tuple[_Piece, ...] = (
    _input,
    encode_sampling,
    _tools,
    encode_thinking,
    encode_text,
    encode_caching,
    encode_tier,
    encode_user,
    _state,
    _include,
    _stream,
)


def _restore(body: dict[str, Json], extras: dict[str, Json]) -> None:
    """Put extras back; a dotted name goes back into its object."""
    for name, value in extras.items():
        prefix = next((prefix for prefix in NESTED if name.startswith(prefix)), None)
        if prefix is None:
            body[name] = value
            continue
        place = body
        for step in prefix.rstrip(".").split("."):
            place = place.setdefault(step, {})
        place[name[len(prefix) :]] = value
