"""The text of an answer while it streams in: the block that it flows into, and what comes beside it.

Text, refusals and reasoning come one after the other, and each begins a block of its own. Annotations, the details of
reasoning and sound belong to the block that is open. What a chunk says is read in `decode_stream.py`.
"""

from __future__ import annotations

from enum import IntEnum, auto

from trilogue.model import Block, BlockStop, CitationDelta, Delta, Json, Reasoning, ReasoningDelta, Refusal, Text
from trilogue.protocols.chat.audio import AudioAssembler
from trilogue.protocols.chat.decode_response import MESSAGE, citation_of
from trilogue.protocols.chat.open_calls import CallAssembler
from trilogue.protocols.chat.reasoning import details_opaque
from trilogue.protocols.stream.decoder import StreamDecoder


class Flow(IntEnum):
    """The block that text of any kind flows into. Calls are not a flow: several may be open beside it."""

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
    """Base of the decoder: what it knows of the block that is open."""

    def __init__(self) -> None:
        super().__init__()
        self._flow = Flow.NONE
        self._block = 0
        self._text_length = 0
        self._text_start = 0
        """how much text the blocks before this one have: annotations count from the first"""
        self._details: list[dict[str, Json]] = []
        self._audio: AudioAssembler | None = None
        self._annotations: list[dict[str, Json]] = []
        self._calls: CallAssembler | None = None

    def _flow_text(self, flow: Flow, text: Json) -> None:
        if not text or type(text) is not str:
            return
        if self._flow is not flow:
            self._open_flow(flow)
        if flow is Flow.TEXT:
            self._text_length += len(text)
        if flow in (Flow.SUMMARY, Flow.RAW):
            self._out.append(ReasoningDelta(self._block, text, 0, flow is Flow.RAW))
        else:
            self._out.append(Delta(self._block, text))

    def _open_flow(self, flow: Flow) -> None:
        self._settle()
        self._flow = flow
        self._block = self.start_block(_NEW_BLOCK[flow])
        self._text_start = self._text_length

    def _settle(self) -> None:
        """Another block begins."""
        self._close_flow()
        if self._calls is not None:
            self._calls.settle()

    def _close_flow(self) -> None:
        """A call begins, or another block, or the answer ends."""
        flow, opaque = self._flow, None
        if flow is Flow.TEXT and self._annotations:
            self._flush_text()
        elif flow in (Flow.SUMMARY, Flow.RAW) and self._details:
            opaque, self._details = details_opaque(self._details), []
        if flow is not Flow.NONE:
            self._out.append(BlockStop(self._block, opaque))
            self._flow = Flow.NONE
        if self._audio is not None and (audio := self._audio.finish()) is not None:
            self.whole_block(audio)

    def _flush_text(self) -> None:
        """Annotations count from the start of the whole content; a citation from that of its block."""
        for entry in self._annotations:
            self._out.append(CitationDelta(self._block, citation_of(entry, self._text_start)))
        self._annotations = []
