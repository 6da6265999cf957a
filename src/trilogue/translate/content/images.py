"""A text for responses that are only images, for clients whose protocol has no images in responses."""

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
