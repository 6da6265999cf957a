"""A strict Responses upstream: encrypted reasoning is bound to the account and its item, and must directly precede the
calls that it led to. Items without their content are looked up among those that the account has stored."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.multiturn.refusal import RefusedError
from tests.multiturn.script import Call, Json, Seen, Turn, step_of, text_of
from tests.multiturn.seals import is_sealed, seal

SYSTEM = ("system", "developer")
PREFIX = "gAAA"


def items_of(body: Json) -> list[Json]:
    """Return the input as items, each with its type."""
    given = body.get("input") or []
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    return [{"type": "message" if "role" in item else "item_reference", **item} for item in given]


def encrypt(account: str, item_id: str) -> str:
    """Return encrypted reasoning: another value every time, as OpenAI's is."""
    return PREFIX + seal("enc", account, item_id)


class Checker:
    """Checks the items of one request. `stored` are the account's items, `partners` the reasoning of each call."""

    def __init__(self, account: str, stored: dict[str, Json], partners: dict[str, str]) -> None:
        self.account = account
        self.stored = stored
        self.partners = partners

    def resolved(self, items: list[Json]) -> list[Json]:
        """Return the items, with those that are only named taken from the store."""
        found = []
        for item in items:
            item_id = item.get("id")
            bare = item["type"] == "reasoning" and not item.get("encrypted_content")
            if item["type"] == "item_reference" or bare:
                if item_id not in self.stored:
                    raise RefusedError(_NOT_FOUND.format(item_id), 404, "input")
                found.append(self.stored[item_id])
            else:
                found.append(item)
        return found

    def check(self, items: list[Json], history: list[Json]) -> None:
        """Raise what the real API says. The history in front of the items was checked when it was stored."""
        seen = [item["call_id"] for item in history if item["type"] == "function_call"]
        for index, item in enumerate(items):
            kind = item["type"]
            if kind == "reasoning":
                self._check_reasoning(items, index)
            elif kind == "compaction" and not is_sealed(item.get("encrypted_content", "")[4:], "cmp", self.account):
                raise _unverified(str(item.get("encrypted_content")))
            elif kind == "compaction_trigger" and index + 1 != len(items):
                raise RefusedError("`compaction_trigger` must be the last input item.", param=f"input[{index}]")
            elif kind == "function_call":
                seen.append(item["call_id"])
                self._check_partner(items, index)
            elif kind == "function_call_output" and item["call_id"] not in seen:
                raise RefusedError(
                    f"No tool call found for function call output with call_id {item['call_id']}.", param="input"
                )
        outputs = [item["call_id"] for item in [*history, *items] if item["type"] == "function_call_output"]
        for call in seen:
            if call not in outputs:
                raise RefusedError(f"No tool output found for function call {call}.", param="input")

    def _check_reasoning(self, items: list[Json], index: int) -> None:
        item = items[index]
        item_id, value = item.get("id"), str(item.get("encrypted_content") or "")
        if not item_id:
            raise RefusedError(f"Missing required parameter: 'input[{index}].id'.", param=f"input[{index}].id")
        if not is_sealed(value.removeprefix(PREFIX), "enc", self.account, item_id):
            raise _unverified(value)
        after = items[index + 1] if index + 1 < len(items) else {}
        follows = after.get("type") in ("function_call", "custom_tool_call") or after.get("role") == "assistant"
        if not follows and after.get("type") != "reasoning":
            raise RefusedError(
                f"Item '{item_id}' of type 'reasoning' was provided without its required following item.", param="input"
            )

    def _check_partner(self, items: list[Json], index: int) -> None:
        item_id = items[index].get("id")
        partner = self.partners.get(item_id or "")
        if partner is None:
            return
        before = index - 1
        while before >= 0 and (items[before]["type"] == "function_call" or items[before].get("role") == "assistant"):
            before -= 1
        if before < 0 or items[before].get("id") != partner:
            raise RefusedError(
                f"Item '{item_id}' of type 'function_call' was provided without its required 'reasoning' item: "
                f"'{partner}'.",
                param="input",
            )


_NOT_FOUND = (
    "Item with id '{}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to "
    "true, or remove this item from your input."
)


def _unverified(value: str) -> RefusedError:
    shown = f"{value[:4]}...{value[-4:]}"
    message = f"The encrypted content {shown} could not be verified. Reason: Encrypted content could not be decrypted."
    return RefusedError(message, code="invalid_encrypted_content")


def read(body: Json, history: list[Json], summary: str) -> Seen:
    """Return what the model can see of the history and the new items."""
    users: list[str] = []
    results: list[str] = []
    system = [str(body.get("instructions") or "")]
    step = 0
    for item in history:
        if item.get("role") == "user":
            users.append(text_of(item["content"]))
            step = 0
        elif item.get("role") in SYSTEM:
            system.append(text_of(item["content"]))
        elif item["type"] == "function_call_output":
            results.append(text_of(item["output"]))
        elif item["type"] == "function_call":
            step = max(step, step_of(item["arguments"]))
    tools = tuple(tool["name"] for tool in body.get("tools") or [] if tool["type"] == "function")
    return Seen("\n".join(filter(None, system)), tuple(users), tuple(results), tools, step, summary=summary)


def output(turn: Turn, account: str, number: int) -> list[Json]:
    """Return the output items. Reasoning comes encrypted, whether asked for or not."""
    items: list[Json] = []
    if turn.thought:
        item_id = f"rs_strict{number}"
        summary = [] if turn.hidden else [{"type": "summary_text", "text": turn.thought}]
        items.append(
            {"id": item_id, "type": "reasoning", "summary": summary, "encrypted_content": encrypt(account, item_id)}
        )
    if turn.text:
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": "".join(turn.text)}
        items.append(
            {
                "id": f"msg_strict{number}",
                "type": "message",
                "status": "completed",
                "content": [part],
                "role": "assistant",
            }
        )
    return items + [_call(call, f"strict{number}x{part}") for part, call in enumerate(turn.calls)]


def _call(call: Call, serial: str) -> Json:
    kind, field, prefix = ("custom_tool_call", "input", "ctc") if call.custom else ("function_call", "arguments", "fc")
    return {
        "id": f"{prefix}_{serial}",
        "type": kind,
        "status": "completed",
        field: call.arguments,
        "call_id": f"call_{serial}",
        "name": call.name,
    }


def events(whole: Json, turn: Turn, account: str) -> Iterator[Json]:
    """Yield the events of a streamed response, without their numbers. Reasoning is encrypted anew in each."""
    running = {**whole, "status": "in_progress", "output": [], "usage": None, "completed_at": None}
    yield {"type": "response.created", "response": running}
    yield {"type": "response.in_progress", "response": running}
    for index, item in enumerate(whole["output"]):
        where = {"item_id": item["id"], "output_index": index}
        empty: Json = {"content": [], "summary": [], "arguments": "", "input": "", "status": "in_progress"}
        opened = {name: empty.get(name, value) for name, value in item.items() if name != "encrypted_content"}
        yield {"type": "response.output_item.added", "output_index": index, "item": opened}
        yield from ({**event, **where} for event in _inner(item, turn))
        yield {"type": "response.output_item.done", "output_index": index, "item": _encrypted_anew(item, account)}
    yield {"type": f"response.{whole['status']}", "response": whole}


def _encrypted_anew(item: Json, account: str) -> Json:
    return {**item, "encrypted_content": encrypt(account, item["id"])} if item["type"] == "reasoning" else item


def _inner(item: Json, turn: Turn) -> list[Json]:
    if item["type"] == "function_call":
        kind, arguments = "response.function_call_arguments", item["arguments"]
        return [{"type": f"{kind}.delta", "delta": arguments}, {"type": f"{kind}.done", "arguments": arguments}]
    if item["type"] == "custom_tool_call":
        kind, text = "response.custom_tool_call_input", item["input"]
        return [{"type": f"{kind}.delta", "delta": text}, {"type": f"{kind}.done", "input": text}]
    if item["type"] == "message":
        where, part = {"content_index": 0}, item["content"][0]
        kind = "response.output_text"
        deltas = [{"type": f"{kind}.delta", **where, "delta": piece, "logprobs": []} for piece in turn.text]
        return [
            {"type": "response.content_part.added", **where, "part": {**part, "text": ""}},
            *deltas,
            {"type": f"{kind}.done", **where, "text": part["text"], "logprobs": []},
            {"type": "response.content_part.done", **where, "part": part},
        ]
    kind = "response.reasoning_summary"
    found: list[Json] = []
    for index, part in enumerate(item.get("summary") or []):
        where = {"summary_index": index}
        found += [
            {"type": f"{kind}_part.added", **where, "part": {**part, "text": ""}},
            {"type": f"{kind}_text.delta", **where, "delta": part["text"]},
            {"type": f"{kind}_text.done", **where, "text": part["text"]},
            {"type": f"{kind}_part.done", **where, "part": part},
        ]
    return found


def frame(event: Json) -> bytes:
    """Return an event as bytes."""
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())


def sealed_by_call(whole: Json) -> dict[str, str]:
    """Return which reasoning item belongs to which call of a response. Its value changes, so its id counts."""
    sealed = [item["id"] for item in whole["output"] if item["type"] == "reasoning"]
    return {item["call_id"]: sealed[0] for item in whole["output"] if sealed and item["type"] == "function_call"}


def returned(items: list[Json]) -> tuple[list[str], list[str]]:
    """Return the ids of the calls and of the reasoning in a conversation."""
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    return calls, [item["id"] for item in items if item["type"] == "reasoning"]
