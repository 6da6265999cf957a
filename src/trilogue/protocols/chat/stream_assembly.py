"""Blocks while they stream in: tool calls put together from fragments, and the text that is being added to.

In: the entries of `tool_calls` and the texts of a chunk, which `decode_stream.py` reads. Out: model events.

OpenAI numbers its calls, names each once and sends them one after the other. Other servers leave the index out, give
all calls the same one, repeat the id or make a new one for every fragment, send the name late, or send arguments as an
object. Which fragments belong together is decided by id, then by index, then by whether the arguments so far are
complete. Some servers give two calls the same id, or send a complete call once more.

Text, refusals and reasoning follow each other, and each starts its own block. Annotations and the details of reasoning
belong to the block that is open. Audio is a block after all texts, because its fragments can come between theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, auto

from msgspec.structs import replace

from trilogue.base.partial_json import JsonProgress, is_cut
from trilogue.errors import UpstreamProtocolError, UpstreamTruncated
from trilogue.model import (
    CUT_SHORT,
    Block,
    BlockStop,
    CallKind,
    CitationDelta,
    Delta,
    Json,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Refusal,
    StopReason,
    Text,
    ToolCall,
)
from trilogue.protocols.chat.content import MOST_COMPARED, AudioAssembler
from trilogue.protocols.chat.reasoning import details_opaque, signature_field, signature_of, signed
from trilogue.protocols.chat.response import MESSAGE, citation_of
from trilogue.protocols.chat.tools import ARGUMENTS, CALL, CALL_BODY, arguments_text, dotted, kind_of
from trilogue.protocols.chat.wire import CallDelta
from trilogue.protocols.fields import Kinds, sort_fields
from trilogue.protocols.parts import derive_id
from trilogue.protocols.stream.decoder import StreamDecoder

_PLACE = "choices[0].message.tool_calls"
_FRAGMENT: Kinds = {**CALL, "index": int, "extra_content": object}
_NOTHING = frozenset({"{}", "null"})
"""how servers write that a call has no arguments; real arguments may still follow"""


class OpenToolCall:
    """One call while its fragments arrive. Its block starts with its arguments: until then, its name may be cut."""

    __slots__ = (
        "_held",
        "_pieces",
        "_progress",
        "begun",
        "block",
        "closed",
        "extras",
        "id",
        "index",
        "kind",
        "name",
        "placeholder",
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
        self.placeholder = False
        self._progress = JsonProgress()

    @property
    def ended(self) -> bool:
        """Whether nothing more can belong to the arguments. For free text, that is only known at the end."""
        return self._progress.complete or self.placeholder

    @property
    def complete(self) -> bool:
        """Whether the arguments are complete if nothing more follows."""
        return self.ended or self.kind is CallKind.CUSTOM

    @property
    def cut(self) -> bool:
        """Whether the arguments are a truncated object."""
        return not self.ended and is_cut("".join(self._pieces))

    def repeats(self, piece: str) -> bool:
        """Return whether the arguments are complete and this piece repeats all of them."""
        return self._progress.complete and piece == "".join(self._pieces)

    def is_meant(self, index: int | None, name: str, piece: str) -> bool:
        """Return whether a fragment with this call's id belongs to it, and not to another call with the same id."""
        if not name:
            return True
        if index is not None and self.index is not None and index != self.index:
            return False
        return not (self._progress.complete and piece.strip()) or self.repeats(piece)

    def take(self, piece: str) -> list[str]:
        """Take more arguments, and return those that can be sent now."""
        # A lone `{}` may be a placeholder for arguments that follow.
        if self.kind is CallKind.FUNCTION:
            if not self.begun and piece.strip() in _NOTHING:
                self.begun = self.placeholder = True
                return []
            self.placeholder = False
            self._progress.feed(piece)
            self._pieces.append(piece)
        self.begun = True
        if self.block is None:
            self._held.append(piece)
            return []
        return [piece]

    def release(self) -> list[str]:
        """Return the arguments that waited for the block to start."""
        held, self._held = self._held, []
        return held

    def close(self) -> list[str]:
        """End the call, and return the arguments that have not been sent."""
        self.closed = True
        return ["{}"] if self.placeholder else []


class CallAssembler:
    """The calls of one streamed response. `before` is called when the block of a call is about to start."""

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
        self._response_id = response_id

    @property
    def any(self) -> bool:
        """Whether at least one call has started."""
        return self._started > 0

    @property
    def unfinished(self) -> bool:
        """Whether the arguments of a call are incomplete."""
        return any(call.begun and not call.complete for call in self._open)

    @property
    def retains(self) -> bool:
        """Whether something of a call has not been emitted: its name is missing, or it may have no arguments."""
        return any(call.block is None or call.placeholder for call in self._open)

    def take_short(self, entries: list[CallDelta]) -> bool:
        """Take one fragment that only adds arguments; return False for any other. Part of the decoder's fast path."""
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
        """Take one entry of `tool_calls`."""
        fields, rest = sort_fields(entry, _FRAGMENT)
        kind = kind_of(fields["custom"], fields["function"])
        known, unknown = sort_fields(fields[kind], CALL_BODY)
        name, piece = known["name"] or "", arguments_text(known[ARGUMENTS[kind]])
        index, call_id = fields["index"], fields["id"] or ""
        if not (name or piece or call_id):
            return
        call = self._find(index, call_id, name, piece)
        if call is None:
            self.settle()
            call = OpenToolCall(kind, index)
            self._open.append(call)
        self._last = call
        if index is not None:
            self._by_index[index] = call
        if call_id:
            if call.id or call_id not in self._by_id:
                call.id = call.id or call_id
            else:
                # An earlier call has this id. This one gets an id of its own, and the index tells them apart.
                self._shared.add(call_id)
            self._by_id[call_id] = call
        self._name(call, name)
        if name and call.block is None:
            # A text before the call is complete.
            self._before()
        call.signature = call.signature or (signature_of(entry) if fields["extra_content"] else None)
        if rest or unknown:
            self._keep(call, {**rest, **dotted(kind, unknown)})
        self._feed(call, piece)

    def _name(self, call: OpenToolCall, piece: str) -> None:
        """Add to the name of a call, as official clients do. Some servers repeat the whole name in every fragment."""
        if not piece or piece == call.name:
            return
        if call.block is not None:
            raise UpstreamProtocolError("the name of a tool call changed after its arguments had begun")
        call.name += piece

    def _keep(self, call: OpenToolCall, extras: dict[str, Json]) -> None:
        """Keep unknown fields: in the call's extras until its block starts, then with those of the response."""
        if call.block is None:
            call.extras |= extras
        else:
            self._decoder.note(_PLACE, extras)

    def _find(self, index: int | None, call_id: str, name: str, piece: str) -> OpenToolCall | None:
        """Return the call that a fragment belongs to; None if it starts a new one."""
        current = self._by_index.get(index) if index is not None else self._last
        known = self._by_id.get(call_id)
        if known is not None:
            if call_id in self._shared and index is not None and current is not None:
                known = current
            return known if known.is_meant(index, name, piece) else None
        if current is None:
            return None
        if call_id and current.id:
            # A new id with the same index is another call if the current one is complete, or has no arguments at all.
            begins = current.complete or (bool(name) and (not current.begun or index is None))
        elif current.kind is CallKind.CUSTOM:
            begins = False
        else:
            begins = bool(name) and current.complete and (bool(piece) or name != current.name)
        return None if begins else current

    def _feed(self, call: OpenToolCall, piece: str) -> None:
        if call.closed or (piece and call.repeats(piece)):
            # Some servers repeat complete arguments at the end.
            return
        pieces = call.take(piece) if piece else []
        if call.block is None and call.name and call.begun:
            self._begin(call)
            pieces = call.release()
        for text in pieces:
            self._decoder.emit(Delta(call.block or 0, text))

    def _begin(self, call: OpenToolCall) -> None:
        """Start the block of a call, after what was open before it."""
        self._before()
        self._settle_before(call)
        self._start(call)

    def _start(self, call: OpenToolCall) -> None:
        call.id = call.id or derive_id("call_", self._response_id, self._started)
        self._started += 1
        extras: dict[str, Json] | None = call.extras or None
        path = f"{_PLACE}[{self._started - 1}]"
        if call.signature is not None:
            extras = {**call.extras, **signature_field(call.signature)}
            self._decoder.whole_block(signed(call.signature, path))
        block = ToolCall(id=call.id, name=call.name, kind=call.kind, path=path, extras=extras)
        call.block = self._decoder.start_block(block)

    def _release(self, call: OpenToolCall) -> None:
        for text in call.release():
            self._decoder.emit(Delta(call.block or 0, text))

    def _settle_before(self, call: OpenToolCall) -> None:
        for earlier in list(self._open):
            if earlier is not call:
                self._settle_one(earlier, at_end=False)

    def settle(self, *, at_end: bool = False) -> None:
        """Close the calls whose arguments are complete, because another block starts.

        `at_end`: no more calls follow, so a call without arguments is complete too, and so is free text.
        """
        for call in list(self._open):
            self._settle_one(call, at_end=at_end)

    def _settle_one(self, call: OpenToolCall, *, at_end: bool) -> None:
        if call.block is None and call.name:
            # Something else begins, so nothing more of its name is expected.
            self._before()
            self._start(call)
            self._release(call)
        complete = not call.begun or call.complete if at_end else call.begun and call.ended
        if call.block is not None and complete:
            self._close(call)

    def finish(self, reason: StopReason) -> None:
        """Close all calls at the end of the response.

        Raises `UpstreamTruncated` if arguments are cut off and the stop reason does not explain it.
        """
        for call in list(self._open):
            if call.cut and reason not in CUT_SHORT:
                raise UpstreamTruncated("the response ended inside the arguments of a tool call")
            if call.block is None and call.name:
                self._begin(call)
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


class Flow(IntEnum):
    """The kind of block that text is being added to. Calls are not a flow: several can be open at the same time."""

    NONE = auto()
    TEXT = auto()
    REFUSAL = auto()
    SUMMARY = auto()
    RAW = auto()


_NEW_BLOCK: dict[Flow, Block] = {
    Flow.TEXT: Text(text="", path=f"{MESSAGE}.content"),
    Flow.REFUSAL: Refusal(text="", path=f"{MESSAGE}.refusal"),
    Flow.SUMMARY: Reasoning(path=MESSAGE),
    Flow.RAW: Reasoning(path=MESSAGE),
}


class TextFlow(StreamDecoder):
    """The part of the decoder that knows which block is open."""

    def __init__(self) -> None:
        super().__init__()
        self._flow = Flow.NONE
        self._block = 0
        self._text_length = 0
        self._opening = ""
        """how the text begins, for comparison with the transcript of audio"""
        self._text_start = 0
        """the length of all texts before this block; annotations count from the start of the first one"""
        self._details: list[dict[str, Json]] = []
        self._detailed = False
        """whether the details of the current chunk have text"""
        self._audio: AudioAssembler | None = None
        self._annotations: list[dict[str, Json]] = []
        self._calls: CallAssembler | None = None

    def _flow_text(self, flow: Flow, text: Json) -> None:
        if not text or type(text) is not str:
            return
        if self._flow is not flow:
            self._open_flow(flow)
        if flow is Flow.TEXT:
            self._count_text(text)
        if flow in (Flow.SUMMARY, Flow.RAW):
            self._out.append(ReasoningDelta(self._block, text, 0, flow is Flow.RAW))
        else:
            self._out.append(Delta(self._block, text))

    def _count_text(self, text: str) -> None:
        # Adding strings is cheaper than a list here, because it needs no call and ends soon.
        if self._text_length < MOST_COMPARED:
            self._opening += text
        self._text_length += len(text)

    def _open_flow(self, flow: Flow) -> None:
        self._settle()
        self._flow = flow
        block = _NEW_BLOCK[flow]
        if self._detailed and type(block) is Reasoning:
            block = replace(block, detailed=True)
        self._block = self.start_block(block)
        self._text_start = self._text_length

    def _settle(self) -> None:
        """Close what is open, because another block starts."""
        self._close_flow(goes_on=True)
        if self._calls is not None:
            self._calls.settle()

    def _close_flow(self, goes_on: bool = False) -> None:
        """Close the text that is open, because a call or another block starts, or the response ends.

        `goes_on`: other text follows, so audio waits.
        """
        flow, opaque = self._flow, None
        if flow is Flow.TEXT and self._annotations:
            self._flush_text()
        elif flow in (Flow.SUMMARY, Flow.RAW) and self._details:
            opaque, self._details = details_opaque(self._details), []
        if flow is not Flow.NONE:
            self._out.append(BlockStop(self._block, opaque))
            self._flow = Flow.NONE

        if self._audio is not None and not goes_on:
            self._flush_audio(self._audio)

    def _close_reasoning(self, opaque: Opaque) -> None:
        """Close the reasoning that is open with the value that ends it."""
        self._out.append(BlockStop(self._block, opaque))
        self._flow = Flow.NONE

    def _flush_audio(self, assembler: AudioAssembler) -> None:
        if (audio := assembler.finish(self._opening)) is not None:
            self.whole_block(audio)

    def _flush_text(self) -> None:
        """Emit the annotations as citations, which count from the start of their block."""
        for entry in self._annotations:
            self._out.append(CitationDelta(self._block, citation_of(entry, self._text_start)))
        self._annotations = []
