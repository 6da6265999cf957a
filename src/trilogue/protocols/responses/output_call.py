"""Tool calls while they are written."""

from __future__ import annotations

from trilogue.model import BlockStop, CallKind, Json, OpenBlock, ToolCall
from trilogue.protocols.jsonpieces import breaks_off
from trilogue.protocols.responses.items import call_type, encode_call, of_kind
from trilogue.protocols.responses.output_items import OutputItem, Stream, status_of


class CallItem(OutputItem):
    """A tool call."""

    def __init__(self, stream: Stream, block: ToolCall) -> None:
        super().__init__(stream, call_type(block.kind), block.item_id)
        self._call_id = stream.call_id(block.id)
        self._custom = block.kind is CallKind.CUSTOM
        self._events = "response.custom_tool_call_input" if self._custom else "response.function_call_arguments"
        self._said = ""
        self._final = block

    def take(self, block: ToolCall) -> None:
        """The arguments that the model left out are an empty object."""
        self._final = block
        self._said = block.arguments or self._no_arguments

    @property
    def _no_arguments(self) -> str:
        return "" if self._custom or self.stream.native else "{}"

    def announce(self, block: ToolCall) -> None:
        item = {"id": self.id, **encode_call(block, self._call_id, ""), **self.own_extras(block)}
        self.added({**item, "status": "in_progress"})
        self.deltas(f"{self._events}.delta", self.at)
        self.start(block)

    def start(self, block: ToolCall) -> None:
        """Arguments that came with the start are the first delta."""
        self.open = OpenBlock(block)
        if block.arguments:
            self.stream.send(self, block.arguments)

    def stop(self, event: BlockStop) -> None:
        """The arguments are complete."""
        begun = of_kind(self.open.block, ToolCall)
        self._final = final = of_kind(self.open.close(event), ToolCall)
        said = self.say_missing(final.arguments, begun.arguments + self.open.text())
        self._said = said or self.say_missing(self._no_arguments, "")

    def conclude(self, final: dict[str, Json]) -> None:
        done = {"input": self._said} if self._custom else {"arguments": self._said, "name": self._final.name}
        self.stream.event(f"{self._events}.done", {**self.at, **done})

    def close(self, incomplete: bool) -> dict[str, Json]:
        """Why the answer ends is not known yet. Arguments that break off show that the call was cut."""
        was_cut = not self._custom and breaks_off(self._said)
        item = {"id": self.id, **encode_call(self._final, self._call_id, self._said), **self.own_extras(self._final)}
        return {**item, "status": status_of(self._final.status if self.stream.native else None, was_cut)}
