"""What the body of an error says, whatever it is packed in."""

from __future__ import annotations


def error_text(body: bytes) -> str:
    """The text, without the list of one that Google puts around it, or the event of a stream that LiteLLM does."""
    text = body.decode("utf-8", "replace").strip()
    if text.startswith(("data:", "event:")):
        return next((line[5:].strip() for line in text.split("\n") if line.startswith("data:")), text)
    inner = text.removeprefix("[").removesuffix("]").strip()
    return inner if inner.startswith("{") else text
