"""Responses streams from their shape: each token becomes one event with invented content."""

import copy
import json
from typing import Any

from tests.shapes.items import ANNOTATIONS, done_item
from tests.shapes.words import USAGE, Words, cut

Body = dict[str, Any]
_OWNERS = {
    "output_text": "message",
    "output_text_annotation": "message",
    "refusal": "message",
    "reasoning_part": "reasoning",
    "reasoning_text": "reasoning",
    "reasoning_summary_part": "reasoning",
    "reasoning_summary_text": "reasoning",
    "function_call_arguments": "function_call",
    "custom_tool_call_input": "custom_tool_call",
    "code_interpreter_call_code": "code_interpreter_call",
    "mcp_call_arguments": "mcp_call",
    "shell_call_command": "shell_call",
    "apply_patch_call_operation_diff": "apply_patch_call",
}
"""which item an event is about, by the beginning of its name; otherwise it is the item's own type"""
_WHOLE = {
    "function_call_arguments": "arguments",
    "mcp_call_arguments": "arguments",
    "custom_tool_call_input": "input",
    "code_interpreter_call_code": "code",
    "shell_call_command": "command",
    "apply_patch_call_operation_diff": "diff",
    "refusal": "refusal",
}
"""the field of a done event that holds the whole text; otherwise `text`"""
ENDED = ("completed", "incomplete", "failed")
_EMPTY: Body = {"arguments": "", "input": "", "code": "", "content": [], "summary": [], "status": "in_progress"}
"""what an item lacks when it begins"""


class _Open:
    """An item that is being written."""

    def __init__(self, index: int, item: Body) -> None:
        self.index = index
        self.item = item
        self.text = ""
        """of the part that is open, or of the whole item if it has no parts"""
        self.parts: list[Body] = []
        """the parts that are done"""
        self.pieces: list[str] = []
        self.annotations: list[Body] = []

    @property
    def kind(self) -> str:
        """The type of the item."""
        return str(self.item["type"])


class ResponsesWriter:
    """The events of one stream."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._words = Words()
        self._open: list[_Open] = []
        self._output: list[Body] = []
        self._items = 0

    def write(self) -> bytes:
        """Return the bytes of the stream."""
        return b"".join(self._framed(at, token) for at, token in enumerate(self._tokens))

    def _framed(self, at: int, token: str) -> bytes:
        if token == "[DONE]":
            return b"data: [DONE]\n\n"
        name, _, detail = token.partition(":")
        kind = name if name in ("error", "ping") else f"response.{name.partition('(')[0]}"
        if name in ("added", "done"):
            kind = f"response.output_item.{name}"
        event = {"type": kind, "sequence_number": at, **self._fields(at, name, detail)}
        return f"event: {kind}\ndata: {json.dumps(event)}\n\n".encode()

    def _fields(self, at: int, name: str, detail: str) -> Body:
        if name == "added":
            return self._add(at, detail)
        if name == "done":
            return self._close(detail)
        if name == "error":
            return {
                "error": {"type": "server_error", "code": "server_error", "message": "invented failure", "param": None}
            }
        if name == "ping":
            return {}
        return self._inside(name, detail) if "." in name else {"response": self._response(name, detail)}

    def _response(self, name: str, detail: str) -> Body:
        status = "in_progress" if name == "created" else name.partition("(")[0]
        kept = status in ENDED and "(no_output)" not in name
        return response(status, self._output if kept else [], detail)

    def _add(self, at: int, shape: str) -> Body:
        item = done_item(shape, self._items + 1)
        begun = {**item, **{name: value for name, value in _EMPTY.items() if name in item}}
        opened = _Open(self._items, item)
        pieces = sum(token.endswith("arguments.delta") for token in self._tokens[at : self._end(at, opened.kind)])
        opened.pieces = cut(self._words.arguments(), pieces)
        self._items += 1
        self._open.append(opened)
        if opened.kind == "apply_patch_call":
            begun["operation"] = {**item["operation"], "diff": ""}
        if shape == "reasoning(encrypted_content)":
            begun["encrypted_content"] = "YmVndW4="
        return {"output_index": opened.index, "item": begun}

    def _end(self, at: int, kind: str) -> int:
        """Return where the item that begins here is done."""
        ends = [n for n, token in enumerate(self._tokens) if n > at and token.startswith(f"done:{kind}")]
        return ends[0] if ends else len(self._tokens)

    def _close(self, shape: str) -> Body:
        kind = shape.partition("(")[0]
        opened = next(one for one in self._open if one.kind == kind)
        self._open.remove(opened)
        item = done_item(shape, opened.index + 1)
        item |= _filled(opened, item)
        self._output.append(item)
        return {"output_index": opened.index, "item": item}

    def _inside(self, name: str, detail: str) -> Body:
        family, _, step = name.partition(".")
        owner = _OWNERS.get(family, "reasoning" if detail == "reasoning_text" else family)
        opened = [one for one in self._open if one.kind == ("message" if owner == "content_part" else owner)][-1]
        where: Body = {"item_id": opened.item["id"], "output_index": opened.index}
        if "summary" in family:
            where["summary_index"] = len(opened.parts)
        elif owner in ("message", "reasoning", "content_part"):
            where["content_index"] = len(opened.parts)
        return {**where, **self._words_of(family, step, detail, opened)}

    def _words_of(self, family: str, step: str, detail: str, opened: _Open) -> Body:
        """Return what an event says about the item that it belongs to."""
        if "annotation" in family or "annotation" in step:
            opened.annotations.append(ANNOTATIONS[detail])
            return {"annotation": ANNOTATIONS[detail], "annotation_index": len(opened.annotations) - 1}
        if family.endswith("part"):
            part = _part(family, detail, opened, done=step == "done")
            if step == "done":
                opened.parts.append(part)
                opened.text, opened.annotations = "", []
            return {"part": part}
        if step == "delta":
            piece = opened.pieces.pop(0) if "arguments" in family else self._words.word("text")
            opened.text += piece
            return {"delta": piece, **({"logprobs": []} if family == "output_text" else {})}
        if step == "done":
            # Some servers send the whole at once, without pieces before it.
            words = self._words
            opened.text = opened.text or (words.arguments() if "arguments" in family else words.word("text"))
            whole = {_WHOLE.get(family, "text"): opened.text}
            named = {"name": opened.item["name"]} if family == "function_call_arguments" else {}
            return {**whole, **named, **({"logprobs": []} if family == "output_text" else {}), **_command(family)}
        return {**_command(family), "command": ""} if family == "shell_call_command" else {}


def _command(family: str) -> Body:
    return {"command_index": 0} if family == "shell_call_command" else {}


def _part(family: str, detail: str, opened: _Open, *, done: bool) -> Body:
    text = opened.text if done else ""
    if family == "reasoning_summary_part":
        return {"type": "summary_text", "text": text}
    if family == "reasoning_part" or detail == "reasoning_text":
        return {"type": "reasoning_text", "text": text}
    if detail == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": opened.annotations if done else [], "logprobs": []}


def _filled(opened: _Open, item: Body) -> Body:
    """Return the fields of a done item that hold what its events said."""
    text, kind = opened.text, opened.kind
    if kind == "message":
        return {"content": opened.parts}
    if kind == "reasoning":
        names = {"summary": "summary_text", "content": "reasoning_text"}
        said = {name: [part for part in opened.parts if part["type"] == kind] for name, kind in names.items()}
        return {name: parts for name, parts in said.items() if parts}
    if kind == "apply_patch_call":
        return {"operation": {**copy.deepcopy(item["operation"]), "diff": text}}
    if kind == "shell_call" and text:
        return {"action": {**item["action"], "commands": [text]}}
    field = {"function_call": "arguments", "mcp_call": "arguments", "custom_tool_call": "input"}.get(kind, "code")
    return {field: text} if field in item and text else {}


def response(status: str, output: list[Body], reason: str = "") -> Body:
    """Return a response object. `reason` is why it is incomplete."""
    failed = {"code": "server_error", "message": "invented failure"}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1760000000,
        "model": "m",
        "status": status,
        "error": failed if status == "failed" else None,
        "incomplete_details": {"reason": reason} if status == "incomplete" else None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "output": output,
        "usage": USAGE["responses"] if status in ("completed", "incomplete") else None,
    }
