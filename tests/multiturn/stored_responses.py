"""What one account of the strict Responses upstream keeps: responses, their events and items, and conversations.

A response in the background runs by the clock: its event number n is there `n * pace` seconds after the start, so that
nothing has to run meanwhile.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.multiturn.refusal import RefusedError
from tests.multiturn.script import Json, Turn
from tests.multiturn.strict_responses import events

FOREVER = 1e9
MOST_ITEMS = 20
_conversations = itertools.count(1)


@dataclass
class StoredResponse:
    """A response and what led to it."""

    account: str
    whole: Json
    turn: Turn
    given: list[Json]
    """the items of its request"""
    history: list[Json]
    """all items up to its output, which is included"""
    started: float = field(default_factory=time.monotonic)
    cancelled: float | None = None

    def timeline(self) -> list[tuple[float, Json]]:
        """Return the numbered events, each with the time at which it is there."""
        found = []
        due = self.started
        for number, event in enumerate(events(self.whole, self.turn, self.account)):
            late = self.turn.hang and event["type"] == "response.output_text.done"
            due += FOREVER if late else self.turn.pace
            found.append((due, {**event, "sequence_number": number}))
        return found

    def now(self) -> Json:
        """Return the response as it is now."""
        if self.cancelled is not None:
            return {**self.whole, "status": "cancelled", "output": [], "usage": None}
        if self.timeline()[-1][0] <= time.monotonic():
            return self.whole
        return {**self.whole, "status": "in_progress", "output": [], "usage": None}

    def cancel(self) -> Json:
        """Stop it, unless it is complete, and return what it is then."""
        if not self.whole["background"]:
            raise RefusedError("Cannot cancel a synchronous response.")
        if self.now()["status"] == "in_progress":
            self.cancelled = time.monotonic()
        return self.now()


class AccountState:
    """Everything that one account has stored."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.responses: dict[str, StoredResponse] = {}
        self.items: dict[str, Json] = {}
        self.conversations: dict[str, Json] = {}
        self.histories: dict[str, list[Json]] = {}
        self.summaries: dict[str, str] = {}
        """the summary that the encrypted content of each compaction replaces"""

    def response(self, response_id: str) -> StoredResponse:
        """Return a stored response. Raises the 404 of the API."""
        if response_id not in self.responses:
            raise RefusedError(f"Response with id '{response_id}' not found.", 404)
        return self.responses[response_id]

    def history_of(self, body: Json) -> list[Json]:
        """Return the items in front of a request's own. Raises what the API says about unknown ids."""
        previous, conversation = body.get("previous_response_id"), body.get("conversation")
        if previous and conversation:
            raise RefusedError("Mutually exclusive parameters: 'previous_response_id' and 'conversation'.")
        if previous:
            if previous not in self.responses:
                message = f"Previous response with id '{previous}' not found."
                raise RefusedError(message, 400, "previous_response_id", "previous_response_not_found")
            return self.responses[previous].history
        if conversation:
            return self.history(conversation if isinstance(conversation, str) else conversation["id"])
        return []

    def history(self, conversation_id: str) -> list[Json]:
        """Return the items of a conversation. Raises the 404 of the API."""
        if conversation_id not in self.histories:
            raise RefusedError(f"Conversation with id '{conversation_id}' not found.", 404)
        return self.histories[conversation_id]

    def keep(self, stored: StoredResponse, body: Json) -> None:
        """Store a response, its items, and append them to its conversation."""
        self.responses[stored.whole["id"]] = stored
        for item in (*stored.given, *stored.whole["output"]):
            self.items[item["id"]] = item
        conversation: Any = body.get("conversation")
        if conversation:
            key = conversation if isinstance(conversation, str) else conversation["id"]
            self.histories[key] = [*self.histories[key], *stored.given, *stored.whole["output"]]

    def conversation(self, conversation_id: str) -> Json:
        """Return a conversation. Raises the 404 of the API."""
        self.history(conversation_id)
        return self.conversations[conversation_id]

    def item(self, conversation_id: str, item_id: str) -> Json:
        """Return an item of a conversation. Raises the 404 of the API."""
        for item in self.history(conversation_id):
            if item["id"] == item_id:
                return item
        raise RefusedError(f"Item with id '{item_id}' not found.", 404)

    def append(self, conversation_id: str, items: list[Json]) -> Json:
        """Append items to a conversation, and return them as a list."""
        history = self.history(conversation_id)
        added = numbered(_few(items), f"{conversation_id}x{len(history)}")
        self.histories[conversation_id] = [*history, *added]
        return page(added, {"order": "asc"})

    def create_conversation(self, body: Json) -> Json:
        """Create a conversation with its first items."""
        made: Json = {
            "id": f"conv_strict{next(_conversations)}",
            "object": "conversation",
            "created_at": 1_790_000_000,
            "metadata": body.get("metadata") or {},
        }
        self.conversations[made["id"]] = made
        self.histories[made["id"]] = numbered(_few(body.get("items") or []), made["id"])
        return made


def _few(items: list[Json]) -> list[Json]:
    if len(items) > MOST_ITEMS:
        raise RefusedError(f"You may add at most {MOST_ITEMS} items at a time.", param="items")
    return items


def numbered(items: list[Json], owner: str) -> list[Json]:
    """Return the items with types and ids, and the text of messages as parts."""
    typed = [_in_parts({"type": "message", **item}) for item in items]
    return [{"id": f"msg_in{index}_{owner}", **item} for index, item in enumerate(typed)]


def _in_parts(item: Json) -> Json:
    if not isinstance(item.get("content"), str):
        return item
    part: Json = {"type": "input_text", "text": item["content"]}
    if item.get("role") == "assistant":
        part = {"type": "output_text", "text": item["content"], "annotations": [], "logprobs": []}
    return {**item, "content": [part]}


def page(items: list[Json], query: dict[str, str]) -> Json:
    """Return a page of a list, as `after`, `limit` and `order` say."""
    ordered = items if query.get("order", "desc") == "asc" else items[::-1]
    ids = [item["id"] for item in ordered]
    start = ids.index(query["after"]) + 1 if "after" in query else 0
    data = ordered[start : start + int(query.get("limit", 20))]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": start + len(data) < len(ordered),
    }


def paced(stored: StoredResponse, after: int = -1) -> Iterator[tuple[float, Json]]:
    """Yield the events after a number, each with the seconds to wait for it from now on."""
    for due, event in stored.timeline():
        if event["sequence_number"] > after:
            yield due - time.monotonic(), event
