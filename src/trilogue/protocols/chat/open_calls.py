"""Tool calls while they stream in: fragments put together.

OpenAI numbers its calls, names each once and sends them one after the other. Others leave the index out, give all
calls the same one, repeat the id or make a new one for every fragment, name the call late, or send arguments as an
object. What belongs together is decided by id, then index, then by whether the arguments so far are complete. Some give
two calls the same id, or send a call once more when it is complete.
"""

from __future__ import annotations

from collections.abc import Callable

from trilogue.errors import UpstreamProtocolError, UpstreamTruncated
from trilogue.jsontext.pieces import JsonProgress, is_cut
from trilogue.model import CUT_SHORT, CallKind, Delta, Json, StopReason, ToolCall
from trilogue.protocols.chat.calls import ARGUMENTS, CALL, CALL_BODY, arguments_text, dotted, kind_of
from trilogue.protocols.chat.reasoning import signature_field, signature_of, signed
from trilogue.protocols.chat.wire import CallDelta
from trilogue.protocols.content.ids import derive_id
from trilogue.protocols.fields.reader import Kinds, sort_fields
from trilogue.protocols.stream.decoder import StreamDecoder

_PLACE = "choices[0].message.tool_calls"
_FRAGMENT: Kinds = {**CALL, "index": int, "extra_content": object}
_NOTHING = frozenset({"{}", "null"})
"""how servers write that a call has no arguments; real ones may still follow"""


class OpenToolCall:
    """One call while its fragments come in. The block starts when the name is known."""

    __slots__ = (
        "_held",
        "_pieces",
        "_placeholder",
        "_progress",
        "begun",
        "block",
        "closed",
        "extras",
        "id",
        "index",
        "kind",
        "name",
        "signature",
    )

    def __init__(self, kind: CallKind, index: int | None) -> None:
        self.id = ""
        self.index = index
        self.name = ""
        self.kind = kind
        self.signature: str | None = None
        self.extras: dict[str, Json] = {}
        self.block: int | None = None
        self.begun = False
        self.closed = False
        self._held: list[str] = []
        self._pieces: list[str] = []
        self._placeholder = False
        self._progress = JsonProgress()

    @property
    def ended(self) -> bool:
        """Nothing more can belong to the arguments. Of free text nobody knows that before the answer ends."""
        return self._progress.complete or self._placeholder

    @property
    def complete(self) -> bool:
        """Nothing is missing in the arguments, if nothing more follows."""
        return self.ended or self.kind is CallKind.CUSTOM

    @property
    def cut(self) -> bool:
        """The arguments began as an object that nobody can complete."""
        return not self.ended and is_cut("".join(self._pieces))

    def repeats(self, piece: str) -> bool:
        """The arguments are complete, and the piece says all of them once more."""
        return self._progress.complete and piece == "".join(self._pieces)

    def is_meant(self, index: int | None, name: str, piece: str) -> bool:
        """A fragment with this call's id is about this call, and not about another one that has the same id."""
        if not name:
            return True
        if index is not None and self.index is not None and index != self.index:
            return False
        return not (self._progress.complete and piece.strip()) or self.repeats(piece)

    def take(self, piece: str) -> list[str]:
        """More arguments; gives out what may be sent on. A lone `{}` may stand in for arguments that follow."""
        if self.kind is CallKind.FUNCTION:
            if not self.begun and piece.strip() in _NOTHING:
                self.begun = self._placeholder = True
                return []
            self._placeholder = False
            self._progress.feed(piece)
            self._pieces.append(piece)
        self.begun = True
        if self.block is None:
            self._held.append(piece)
            return []
        return [piece]

    def release(self) -> list[str]:
        """What waited for the block to start."""
        held, self._held = self._held, []
        return held

    def close(self) -> list[str]:
        """What is still owed when the call ends."""
        self.closed = True
        return ["{}"] if self._placeholder else []


class CallAssembler:
    """The calls of one streamed answer. `before`: called when a call's block is about to start."""

    def __init__(self, decoder: StreamDecoder, before: Callable[[], None], response_id: str) -> None:
        self._decoder = decoder
        self._before = before
        self._open: list[OpenToolCall] = []
        self._last: OpenToolCall | None = None
        self._by_id: dict[str, OpenToolCall] = {}
        self._by_index: dict[int, OpenToolCall] = {}
        self._shared: set[str] = set()
        """ids that more than one call has"""
        self._started = 0
        self._answer_id = response_id

    @property
    def any(self) -> bool:
        """At least one call has begun."""
        return self._started > 0

    @property
    def unfinished(self) -> bool:
        """The arguments of a call are not complete."""
        return any(call.begun and not call.complete for call in self._open)

    def take_short(self, entries: list[CallDelta]) -> bool:
        """The short way for one fragment that is only more arguments; False if it needs a closer look."""
        if len(entries) != 1:
            return False
        entry = entries[0]
        function = entry.function
        call = self._by_index.get(entry.index) if entry.index is not None else None
        if call is None or entry.id or function is None or function.name or not function.arguments:
            return False
        if call.block is None or call.closed or not call.begun or call.complete:
            return False
        self._last = call
        self._feed(call, function.arguments)
        return True

    def take(self, entry: Json) -> None:
        """One entry of `tool_calls`."""
        fields, rest = sort_fields(entry, _FRAGMENT)
        kind = kind_of(fields["custom"], fields["function"])
        said, unsaid = sort_fields(fields[kind], CALL_BODY)
        name, piece = said["name"] or "", arguments_text(said[ARGUMENTS[kind]])
        index, call_id = fields["index"], fields["id"] or ""
        if not (name or piece or call_id):
            return
        call = self._find(index, call_id, name, piece)
        if call is None:
            call = OpenToolCall(kind, index)
            self._open.append(call)
        self._last = call
        if index is not None:
            self._by_index[index] = call
        if call_id:
            if call.id or call_id not in self._by_id:
                call.id = call.id or call_id
            else:
                # An earlier call has this id: this one gets one of its own, and the index tells them apart.
                self._shared.add(call_id)
            self._by_id[call_id] = call
        call.name = call.name or name
        call.signature = call.signature or (signature_of(entry) if fields["extra_content"] else None)
        if rest or unsaid:
            self._keep(call, {**rest, **dotted(kind, unsaid)})
        self._feed(call, piece)

    def _keep(self, call: OpenToolCall, extras: dict[str, Json]) -> None:
        """Fields that nobody knows: the call's own as long as it has not begun."""
        if call.block is None:
            call.extras |= extras
        else:
            self._decoder.note(_PLACE, extras)

    def _find(self, index: int | None, call_id: str, name: str, piece: str) -> OpenToolCall | None:
        """The call that a fragment belongs to; None if it begins a new one."""
        current = self._by_index.get(index) if index is not None else self._last
        known = self._by_id.get(call_id)
        if known is not None:
            if call_id in self._shared and index is not None and current is not None:
                known = current
            return known if known.is_meant(index, name, piece) else None
        if current is None:
            return None
        if call_id and current.id:
            # A new id on the same index: another call if this one is complete, or had no arguments at all.
            begins = current.complete or (bool(name) and (not current.begun or index is None))
        elif current.kind is CallKind.CUSTOM:
            begins = False
        else:
            begins = bool(name) and current.complete and (bool(piece) or name != current.name)
        return None if begins else current

    def _feed(self, call: OpenToolCall, piece: str) -> None:
        if call.closed or (piece and call.repeats(piece)):
            # Its arguments were complete JSON: servers that repeat them at the end change nothing.
            return
        pieces = call.take(piece) if piece else []
        if call.block is None and call.name:
            self._start(call)
            pieces = call.release()
        for text in pieces:
            self._decoder.emit(Delta(call.block or 0, text))

    def _start(self, call: OpenToolCall) -> None:
        self._before()
        self.settle()
        call.id = call.id or derive_id("call_", self._answer_id, self._started)
        self._started += 1
        extras: dict[str, Json] | None = call.extras or None
        path = f"{_PLACE}[{self._started - 1}]"
        if call.signature is not None:
            extras = {**call.extras, **signature_field(call.signature)}
            self._decoder.whole_block(signed(call.signature, path))
        block = ToolCall(id=call.id, name=call.name, kind=call.kind, path=path, extras=extras)
        call.block = self._decoder.start_block(block)

    def settle(self) -> None:
        """Another block begins: calls whose arguments cannot go on end here."""
        ended = [call for call in self._open if call.block is not None and call.begun and call.ended]
        for call in ended:
            self._close(call)

    def finish(self, reason: StopReason) -> None:
        """The answer is complete: so are all calls, unless it was cut short for this reason."""
        for call in list(self._open):
            if call.cut and reason not in CUT_SHORT:
                raise UpstreamTruncated("the answer ended inside the arguments of a tool call")
            if call.block is not None:
                self._close(call)
            elif call.begun:
                raise UpstreamProtocolError("a tool call has no name")

    def _close(self, call: OpenToolCall) -> None:
        block = call.block or 0
        self._open.remove(call)
        for text in call.close():
            self._decoder.emit(Delta(block, text))
        self._decoder.stop_block(block)
