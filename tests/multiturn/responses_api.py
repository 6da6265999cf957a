"""The endpoints of the strict Responses upstream: responses, their items, conversations and compaction, per account."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol as Interface

from tests.multiturn import strict_responses
from tests.multiturn.refusal import RefusedError
from tests.multiturn.script import Json, Seen, Turn
from tests.multiturn.seals import seal
from tests.multiturn.stored_responses import AccountState, StoredResponse, numbered, paced, page
from tests.scripted.http import LAST_CHUNK, Do, Recorded, Step, chunk, json_answer, stream_head

ECHOED: Json = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "background": False,
}
USAGE: Json = {
    "input_tokens": 25,
    "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 0},
    "output_tokens": 10,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 35,
}
LONGEST_WAIT = 60


class Notebook(Interface):
    """The model behind the server, and where the server writes down what it saw."""

    def turn(self, seen: Seen, body: Json, number: int) -> Turn: ...

    def summary(self, seen: Seen, body: Json) -> str: ...

    def finish(self, whole: Json, request: Recorded) -> None: ...

    def note_issued(self, account: str, model: str, sealed: dict[str, str]) -> None: ...

    def note_returned(self, account: str, model: str, body: bytes, returned: tuple[list[str], list[str]]) -> None: ...


class ResponsesApi:
    """The state of all accounts, and the endpoints on it."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self.accounts: dict[str, AccountState] = {}
        self.partners: dict[str, str] = {}
        """the reasoning item that led to each function call"""
        self._routes: dict[tuple[str, str, bool, str], Callable[..., Json]] = {
            ("GET", "responses", True, ""): lambda kept, key, **_: kept.response(key).now(),
            ("DELETE", "responses", True, ""): _delete_response,
            ("POST", "responses", True, "cancel"): lambda kept, key, **_: kept.response(key).cancel(),
            ("GET", "responses", True, "input_items"): _input_items,
            ("POST", "conversations", False, ""): lambda kept, body, **_: kept.create_conversation(body),
            ("GET", "conversations", True, ""): lambda kept, key, **_: kept.conversation(key),
            ("POST", "conversations", True, ""): _update_conversation,
            ("DELETE", "conversations", True, ""): _delete_conversation,
            ("GET", "conversations", True, "items"): lambda kept, key, query, **_: page(kept.history(key), query),
            ("POST", "conversations", True, "items"): lambda kept, key, body, **_: kept.append(key, body["items"]),
            ("GET", "conversations", True, "items/ID"): lambda kept, key, item, **_: kept.item(key, item),
            ("DELETE", "conversations", True, "items/ID"): _delete_item,
        }

    def account(self, name: str) -> AccountState:
        """Return the state of an account."""
        return self.accounts.setdefault(name, AccountState(name))

    def steps(self, request: Recorded, account: str, query: dict[str, str], number: int) -> Iterable[Step]:
        """Return the response to a request."""
        bare = request.path.startswith("/bare")
        kind, *rest = request.path.removeprefix("/bare").removeprefix("/v1/").split("/")
        kept = self.account(account)
        body: Json = request.json if request.body else {}
        if request.method == "POST" and kind == "responses" and not rest:
            return self._create(request, kept, number, bare)
        if bare:
            raise RefusedError("Not Found", 404)
        if kind == "responses" and rest == ["compact"]:
            return [json_answer(200, [], self._compact(kept, body, number))]
        if request.method == "GET" and kind == "responses" and query.get("stream") == "true":
            after = int(query.get("starting_after", -1))
            return _followed(kept.response(rest[0]), after)
        key, inner, item, *_ = [*rest, "", "", ""]
        what = f"{inner}/ID" if item else inner
        route = self._routes.get((request.method, kind, bool(rest), what))
        if route is None:
            raise RefusedError(f"Invalid URL ({request.method} {request.path})", 404)
        found = route(kept, key=key, query=query, body=body, item=item)
        return [json_answer(200, [], found)]

    def _create(self, request: Recorded, kept: AccountState, number: int, bare: bool) -> Iterable[Step]:
        body: Json = request.json
        if bare:
            _check_bare(body)
        if body.get("background") and body.get("store") is False:
            raise RefusedError("Background mode requires `store` to be true.", param="store")
        history = kept.history_of(body)
        checker = strict_responses.Checker(kept.name, {} if bare else kept.items, self.partners)
        given = numbered(checker.resolved(strict_responses.items_of(body)), str(number))
        checker.check(given, history)
        items = [*history, *given]
        self._notebook.note_returned(kept.name, "any", request.body, strict_responses.returned(items))
        stored = self._stored(body, kept, given, items, number)
        self._notebook.finish(stored.whole, request)
        if body.get("store") is not False and not bare:
            kept.keep(stored, body)
        if body.get("stream"):
            return _followed(stored, -1)
        if body.get("background"):
            return [json_answer(200, [], {**stored.now(), "status": "queued"})]
        return _waited(stored)

    def _stored(
        self, body: Json, kept: AccountState, given: list[Json], items: list[Json], number: int
    ) -> StoredResponse:
        if given and given[-1]["type"] == "compaction_trigger":
            turn, output = Turn(), [self._compaction(kept, body, items, number)]
        else:
            turn = self._notebook.turn(strict_responses.read(body, items, _summary(kept, items)), body, number)
            output = strict_responses.output(turn, kept.name, number)
        whole = response(body, output, number)
        sealed = strict_responses.sealed_by_call(whole)
        # Reasoning is bound to the account, whichever model made it.
        self._notebook.note_issued(kept.name, "any", sealed)
        calls = {item["call_id"]: item["id"] for item in output if item["type"] == "function_call"}
        self.partners |= {calls[call]: reasoning for call, reasoning in sealed.items()}
        return StoredResponse(kept.name, whole, turn, given, [*items, *output])

    def _compact(self, kept: AccountState, body: Json, number: int) -> Json:
        given = numbered(strict_responses.items_of(body), str(number))
        items = [*kept.history_of(body), *given]
        users = [item for item in items if item.get("role") == "user"]
        return {
            "id": f"resp_strict{number}",
            "object": "response.compaction",
            "created_at": 1_790_000_000,
            "output": [*users, self._compaction(kept, body, items, number)],
            "usage": USAGE,
        }

    def _compaction(self, kept: AccountState, body: Json, items: list[Json], number: int) -> Json:
        value = strict_responses.PREFIX + seal("cmp", kept.name)
        kept.summaries[value] = self._notebook.summary(strict_responses.read(body, items, _summary(kept, items)), body)
        return {"id": f"cmp_strict{number}", "type": "compaction", "encrypted_content": value}


def response(body: Json, output: list[Json], number: int) -> Json:
    """Return a whole response to a request."""
    echo = {name: body.get(name) if body.get(name) is not None else value for name, value in ECHOED.items()}
    conversation = body.get("conversation")
    named = {"id": conversation} if isinstance(conversation, str) else conversation
    return {
        "id": f"resp_strict{number}",
        "object": "response",
        "created_at": 1_790_000_000,
        "completed_at": 1_790_000_001,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": body["model"],
        "output": output,
        "usage": USAGE,
        **echo,
        "conversation": named,
    }


def _check_bare(body: Json) -> None:
    for name in ("previous_response_id", "conversation", "background"):
        if body.get(name):
            raise RefusedError(f"`{name}` is not supported by this server.", 400, name, "unsupported_parameter")


def _summary(kept: AccountState, items: list[Json]) -> str:
    return "".join(kept.summaries[item["encrypted_content"]] for item in items if item["type"] == "compaction")


def _delete_response(kept: AccountState, key: str, **_: object) -> Json:
    kept.response(key)
    del kept.responses[key]
    return {"id": key, "object": "response", "deleted": True}


def _input_items(kept: AccountState, key: str, query: dict[str, str], **_: object) -> Json:
    stored = kept.response(key)
    whole = len(stored.whole["output"])
    return page(stored.history[: len(stored.history) - whole], query)


def _update_conversation(kept: AccountState, key: str, body: Json, **_: object) -> Json:
    kept.conversations[key] = {**kept.conversation(key), "metadata": body["metadata"]}
    return kept.conversations[key]


def _delete_conversation(kept: AccountState, key: str, **_: object) -> Json:
    kept.conversation(key)
    del kept.conversations[key], kept.histories[key]
    return {"id": key, "object": "conversation.deleted", "deleted": True}


def _delete_item(kept: AccountState, key: str, item: str, **_: object) -> Json:
    kept.item(key, item)
    kept.histories[key] = [one for one in kept.histories[key] if one["id"] != item]
    return kept.conversation(key)


def _followed(stored: StoredResponse, after: int) -> Iterator[Step]:
    """Yield the events after a number, as they come; those of a cancelled response end."""
    yield stream_head([])
    for wait, event in paced(stored, after):
        if wait > LONGEST_WAIT:
            yield Do.HANG
        if wait > 0:
            yield wait
        if stored.cancelled is not None:
            break
        yield chunk(strict_responses.frame(event))
    yield LAST_CHUNK


def _waited(stored: StoredResponse) -> Iterator[Step]:
    wait = stored.timeline()[-1][0] - time.monotonic()
    if wait > LONGEST_WAIT:
        yield Do.HANG
    if wait > 0:
        yield wait
    yield json_answer(200, [], stored.whole)
