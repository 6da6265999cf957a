"""Answers that are nothing but an image: a client that takes none is told so, instead of getting an empty answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.judges import meaning
from trilogue import Protocol, StreamTranslator, translate_response
from trilogue.translate.content.stages import NOTE

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
PIXEL = "iVBORw0KGgo="
USAGE = {"input_tokens": 5, "output_tokens": 9, "total_tokens": 14}
ITEM = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PIXEL}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Here.", "annotations": []}],
}
IMAGES = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]


def response(*output: Any) -> dict[str, Any]:
    base = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    return {**base, "output": list(output), "usage": USAGE}


def completion(name: str, message: dict[str, Any]) -> dict[str, Any]:
    return {"id": "c1", "model": "m", "choices": [{"index": 0, name: message, "finish_reason": "stop"}]}


def stream(source: Protocol, body: dict[str, Any]) -> bytes:
    if source is C:
        return f"data: {json.dumps(body)}\n\ndata: [DONE]\n\n".encode()
    return f"data: {json.dumps({'type': 'response.completed', 'response': body})}\n\n".encode()


CASES = [
    (R, C, response(ITEM), NOTE),
    (R, M, response(ITEM), NOTE),
    (R, C, response(ITEM, SAID), "Here."),
    (R, M, response(ITEM, SAID), "Here."),
    (C, M, completion("message", {"role": "assistant", "content": "", "images": IMAGES}), NOTE),
    (C, R, completion("message", {"role": "assistant", "content": "", "images": IMAGES}), NOTE),
    (C, M, completion("message", {"role": "assistant", "content": IMAGES}), NOTE),
    (C, M, completion("message", {"role": "assistant", "content": "Here.", "images": IMAGES}), "Here."),
    (C, M, completion("message", {"role": "assistant", "content": ""}), ""),
]


@pytest.mark.parametrize(("source", "target", "body", "text"), CASES)
def test_what_the_client_reads(source: Protocol, target: Protocol, body: dict[str, Any], text: str) -> None:
    """Streamed and whole; that the image is gone is declared as well."""
    translated = translate_response(body, source=source, target=target)
    assert meaning.of_body(target, translated.body).text == text
    wire = body if source is R else completion("delta", body["choices"][0]["message"])
    translator = StreamTranslator(source=source, target=target)
    out = translator.feed(stream(source, wire)) + translator.close()
    assert meaning.of_stream(target, out).text == text
    if text:
        assert translated.losses
        assert translator.losses
