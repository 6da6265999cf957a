"""Calls that a model wrote into one pseudo-call, taken apart."""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.jsontext.text import dump_text, parse_object
from trilogue.model import Block, BlockStart, BlockStop, CallKind, Delta, Event, ToolCall
from trilogue.translate.tools.names import ToolNames


class ParallelStage:
    """Expands the pseudo-call `multi_tool_use.parallel`, which models write instead of several real calls."""

    NAMES = frozenset({"multi_tool_use.parallel", "multi_tool_use_parallel"})

    def __init__(self, names: ToolNames) -> None:
        self._offered = names
        self._held: dict[int, tuple[ToolCall, list[str]]] = {}
        self._extra = 1_000_000
        """Indices for the calls inside, out of the way of the decoder's own."""

    def __call__(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if type(event) is BlockStart and (wrapper := self._wrapper(event.block)):
                self._held[event.index] = (wrapper, [wrapper.arguments])
            elif self._held and getattr(event, "index", None) in self._held:
                self._inside(event, out)
            else:
                out.append(event)
        return out

    def _wrapper(self, block: Block) -> ToolCall | None:
        if isinstance(block, ToolCall) and block.name in self.NAMES and self._offered.find(block.name) is None:
            return block
        return None

    def _inside(self, event: Event, out: list[Event]) -> None:
        if type(event) is Delta:
            self._held[event.index][1].append(event.text)
        elif type(event) is BlockStop:
            call, pieces = self._held.pop(event.index)
            for inner in _expanded(call, "".join(pieces)):
                self._extra += 1
                out += (BlockStart(self._extra, inner), BlockStop(self._extra))


def _expanded(call: ToolCall, arguments: str) -> list[ToolCall]:
    uses = (parse_object(arguments) or {}).get("tool_uses")
    if not isinstance(uses, list) or not all(isinstance(use, dict) for use in uses):
        return [replace(call, arguments=arguments)]
    return [
        ToolCall(
            path=call.path,
            id=f"{call.id}_{position}",
            name=str(use.get("recipient_name", "")).removeprefix("functions."),
            arguments=dump_text(use.get("parameters") or {}),
            kind=CallKind.FUNCTION,
        )
        for position, use in enumerate(uses)
    ]
