"""Responses of several parts, each continued by another request, which become one response for the client.

Anthropic pauses a long turn with tools that it runs itself (`pause_turn`); sending the turn back continues it. A client
whose protocol has no such thing gets one response (`PauseStage`). In: the events of each part. Out: the events of one
response: one start, blocks numbered through, and one end with the sum of all usage.

A response in which the model only searches for tools, with the search that the gateway runs, is paused as well: with
what was found, the next request continues it. `SearchStage` makes of the model's call the search that the client's
provider would show.

Who sends the request again is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from trilogue.base.json_text import parse_object
from trilogue.base.partial_json import closing
from trilogue.model import (
    BlockStart,
    BlockStop,
    Collector,
    Delta,
    Event,
    Failed,
    Finish,
    Json,
    Ledger,
    OpenBlock,
    Protocol,
    Response,
    ResponseStart,
    Stop,
    StopReason,
    ToolCall,
    Usage,
)
from trilogue.protocols.parts import digest
from trilogue.protocols.tool_search import AnsweredSearch, SearchFunction, ToolSearchForm
from trilogue.translate.tools.deferred import DeferredTool, ToolSearch
from trilogue.translate.tools.names import ToolNames

_GOES_ON = (StopReason.TOOL_CALLS, StopReason.END)
"""the ends of a part in which the model has called the search; some servers report calls as an ordinary end"""
_INVALID = "invalid_tool_input"


class PauseStage:
    """A stage that joins the parts of one response. It must come first."""

    def __init__(self) -> None:
        self.paused: Finish | None = None
        """the end of a part that can be continued; it is not passed on"""
        self._resumed = False
        self._offset = 0
        """how many blocks the earlier parts have had"""
        self._blocks = 0
        self._usage: Usage | None = None
        """the usage of the earlier parts"""

    def __call__(self, events: list[Event]) -> list[Event]:
        return [joined for event in events if (joined := self._joined(event)) is not None]

    def _joined(self, event: Event) -> Event | None:
        """Return an event of a part as one of the whole response; None if it is not an event of that."""
        if type(event) is Finish and event.stop.reason is StopReason.PAUSE:
            self.paused = event
            return None
        if type(event) is Finish:
            return self._ended(event)
        if type(event) is ResponseStart:
            return None if self._resumed else event
        return event if type(event) is Failed else self._numbered(event)

    def _ended(self, event: Finish) -> Finish:
        """Return the end of the last part as that of the whole response."""
        return replace(event, usage=_sum(self._usage, event.usage))

    def resume(self) -> None:
        """Continue with the next part of a paused response: its blocks are numbered on and its usage is added."""
        self._usage = _sum(self._usage, self.paused.usage if self.paused else None)
        self._resumed, self._offset, self.paused = True, self._blocks, None

    def _numbered(self, event: Event) -> Event:
        index: int = getattr(event, "index", 0) + self._offset
        if type(event) is BlockStart:
            self._blocks = max(self._blocks, index + 1)
        return replace(event, index=index) if self._offset else event


def _sum(earlier: Usage | None, latest: Usage | None) -> Usage | None:
    if earlier is None or latest is None:
        return latest or earlier
    return latest.plus(earlier)


class Searched(NamedTuple):
    """What a search has found, the best first. `error`: why it could not be run."""

    tools: tuple[DeferredTool, ...] = ()
    error: str = ""


Find = Callable[[tuple[DeferredTool, ...], str, bool, int | None], Searched]
"""searches some tools for a query, which may be a pattern; returns so many tools at most"""


class SearchStage(PauseStage):
    """A stage that answers searches, and joins the parts of the response. It must come first."""

    def __init__(self, search: ToolSearch, form: ToolSearchForm, names: ToolNames, find: Find, ledger: Ledger) -> None:
        super().__init__()
        self._search = search
        self._form = form
        self._names = names
        self._find = find
        self._ledger = ledger
        self._open: dict[int, OpenBlock] = {}
        self._own = 3_000_000
        """the last index given to a search or its result, above all indices of decoders and other stages"""
        self._count = search.earlier
        self._id = ""
        """the id of the first part"""
        self._searches = False
        self._calls = False
        """whether the part has calls that the client must answer"""
        self._gives_up = False
        """whether the response ends as a pause, which the client can continue"""
        self._collector = Collector()

    def __call__(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if type(event) is ResponseStart and not self._id:
                self._id = event.id
            if type(event) is BlockStart and type(event.block) is ToolCall:
                self._started(event, event.block, out)
            elif self._open and getattr(event, "index", None) in self._open:
                self._inside(event, out)
            elif self._gives_up and type(event) is Finish:
                out.append(self._ended(event))
            elif type(event) is Finish and event.stop.reason is StopReason.PAUSE:
                # The upstream itself cannot be continued here: its own blocks are not kept.
                out.append(self._ended(self._cut_short(event)))
            elif (joined := self._joined(self._end(event) if type(event) is Finish else event)) is not None:
                out.append(joined)
        return out

    def resume(self) -> None:
        """Continue with the next part of the response."""
        super().resume()
        self._searches = self._calls = False
        self._open.clear()

    def note(self, events: list[Event]) -> None:
        """Collect events of the response in their final form, for the request that continues it."""
        for event in events:
            self._collector.feed(event)

    def so_far(self, source: Protocol) -> Response:
        """Return the response with the blocks that the client has so far. `source`: the upstream's protocol."""
        blocks = self._collector.completed
        return Response(protocol=source, id="", model="", blocks=blocks, stop=Stop(reason=StopReason.END))

    def end(self, paused: Finish, knows_pauses: bool) -> Finish:
        """Return the end of a response that is not continued here.

        `knows_pauses`: the client can continue it itself; for others it is cut short, which is declared.
        """
        self._gives_up = knows_pauses
        return paused

    def _cut_short(self, paused: Finish) -> Finish:
        self._ledger.add("stop.pause_turn", paused.stop.path)
        return replace(paused, stop=replace(paused.stop, reason=StopReason.LENGTH))

    def _started(self, event: BlockStart, call: ToolCall, out: list[Event]) -> None:
        if self._function(call) is not None:
            self._open[event.index] = OpenBlock(call)
            # Searches have indices of their own, but those of the upstream must go on behind this one.
            self._numbered(event)
            return
        self._calls = True
        out.append(self._numbered(event))

    def _function(self, call: ToolCall) -> SearchFunction | None:
        offered = self._names.find(call.name)
        if offered is None or offered.namespace is not None:
            return None
        return self._search.functions.get(offered.name)

    def _inside(self, event: Event, out: list[Event]) -> None:
        if type(event) is Delta:
            self._open[event.index].texts.append(event.text)
        elif type(event) is BlockStop:
            call = self._open.pop(event.index).close(event)
            if type(call) is ToolCall and (function := self._function(call)) is not None:
                self._answer(call, function, out)

    def _answer(self, call: ToolCall, function: SearchFunction, out: list[Event]) -> None:
        self._searches = True
        self._count += 1
        # Some servers leave out the last closing brackets.
        given: dict[str, Json] | None = parse_object(call.arguments + (closing(call.arguments) or ""))
        found, message = Searched(), ""
        query = (given or {}).get(function.argument)
        if not isinstance(query, str) or not query:
            message = f"{function.argument} must be a text"
        else:
            limit = (given or {}).get("limit")
            most = limit if type(limit) is int and limit > 0 else None
            found = self._find(self._search.tools, query, function.pattern, most)
            message = found.error
        answered = AnsweredSearch(
            # Some servers count their calls from the start in every response.
            id=digest(f"{self._id}/{call.id}/{self._count}"),
            name=function.name,
            arguments=given or {},
            tools=tuple([self._search.definition(tool) for tool in found.tools]),
            error=_INVALID if message else "",
            message=message,
        )
        for block in self._form.blocks(answered):
            self._own += 1
            out += (BlockStart(self._own, block), BlockStop(self._own))

    def _end(self, event: Finish) -> Finish:
        """Return the end of a part as a pause, if the model waits for nothing but its searches."""
        self._open.clear()
        if not self._searches or self._calls or event.stop.reason not in _GOES_ON:
            return event
        return replace(event, stop=Stop(reason=StopReason.PAUSE, path=event.stop.path))
