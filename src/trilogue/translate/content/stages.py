"""Stages for the text of a response: a note where there are only images, and the cut at a stop sequence.

The note is for clients whose protocol has no images in responses, the cut for upstreams that have no stop sequences.
"""

from __future__ import annotations

from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    Delta,
    Event,
    Extras,
    Finish,
    HostedCall,
    HostedKind,
    Image,
    Native,
    Reasoning,
    ResponseStart,
    Stop,
    StopReason,
    Text,
)

NOTE = "[The model answered with an image, which cannot be shown here.]"
_SILENT = frozenset({Reasoning, Image})


class ImageStage:
    """A stage that adds a text to a response with an image and nothing else to show.

    It needs blocks one after the other. The loss of the image is declared by the encoder that drops it.
    """

    def __init__(self) -> None:
        self._blocks = 0
        self._has_other_content = False
        """whether there was any other content that every client can show"""
        self._images = False

    def __call__(self, events: list[Event]) -> list[Event]:
        for event in events:
            if type(event) is BlockStart:
                self._blocks += 1
                self._see(event.block)
            elif type(event) is ResponseStart or type(event) is Finish:
                self._images = self._images or _has_images(event.extras)
        # Without this text the client would get an empty response.
        if self._images and not self._has_other_content and type(events[-1]) is Finish:
            index = self._blocks
            events[-1:] = [BlockStart(index, Text(text="")), Delta(index, NOTE), BlockStop(index), events[-1]]
        return events

    def _see(self, block: Block) -> None:
        if _is_image(block):
            self._images = True
        elif type(block) not in _SILENT:
            self._has_other_content = True


def _is_image(block: Block) -> bool:
    if isinstance(block, HostedCall):
        return block.tool is HostedKind.IMAGE
    return isinstance(block, Image) or (isinstance(block, Native) and "image" in block.type)


def _has_images(extras: Extras) -> bool:
    """Return whether a message has images next to its content, as OpenRouter sends them."""
    message = extras.get("message") if extras else None
    return type(message) is dict and bool(message.get("images"))


class StopStage:
    """A stage that cuts the text at the first stop sequence. It needs blocks one after the other."""

    def __init__(self, sequences: tuple[str, ...]) -> None:
        self._sequences = sequences
        # The end of the text may be the beginning of a stop sequence, so that many characters are held back.
        self._hold = max(len(sequence) for sequence in sequences) - 1
        self._held = ""
        self._text_index: int | None = None
        self.cut = False
        """whether the response has ended for the client; the upstream can be cancelled"""

    def __call__(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if self.cut:
                break
            self._take(event, out)
        return out

    def _take(self, event: Event, out: list[Event]) -> None:
        if type(event) is BlockStart:
            self._text_index = event.index if isinstance(event.block, Text) else None
            self._held = ""
        elif type(event) is Delta and event.index == self._text_index:
            self._text(event, out)
            return
        elif type(event) is BlockStop and self._held:
            out.append(Delta(event.index, self._held))
            self._held = ""
        out.append(event)

    def _text(self, event: Delta, out: list[Event]) -> None:
        text = self._held + event.text
        found = [(at + len(sequence), at, sequence) for sequence in self._sequences if (at := text.find(sequence)) >= 0]
        if found:
            # Use the sequence that is complete first, as a model would: the result must not depend on how the text is
            # split.
            _, position, sequence = min(found)
            if position:
                out.append(Delta(event.index, text[:position]))
            # There is no usage: the upstream is cancelled before it reports any, so it is estimated.
            stop = Stop(reason=StopReason.STOP_SEQUENCE, sequence=sequence)
            out += (BlockStop(event.index), Finish(stop=stop))
            self.cut = True
            return
        keep = min(self._hold, len(text))
        self._held = text[len(text) - keep :]
        if len(text) > keep:
            out.append(Delta(event.index, text[: len(text) - keep]))
