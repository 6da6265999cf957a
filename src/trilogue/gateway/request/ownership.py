"""Whose the objects are that requests name and responses make, such as files: a vendor keeps them for the gateway.

An object belongs to the client key that made it. The vendor cannot tell the keys of a gateway apart, so the gateway
remembers who has made which id, and answers for every other key as it does for an id that nobody has.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec
import structlog

from trilogue.base.json_text import DECODE_ERRORS, Pairs, at_path, dump, parse_upstream, read_pairs
from trilogue.base.sse import SseParser
from trilogue.errors import BadRequest, ClientError, NotAllowed, UpstreamProtocolError
from trilogue.gateway.conversations.request_fields import ESCAPED
from trilogue.gateway.conversations.store.types import ObjectOwner, StoreError
from trilogue.gateway.conversations.stores import GatewayStore
from trilogue.gateway.request.large_bodies import LARGE_BYTES, in_thread
from trilogue.gateway.request.request import RequestContext, watching
from trilogue.model import Json
from trilogue.protocols.endpoint import OtherEndpoint
from trilogue.protocols.registry import CODECS
from trilogue.routing.router import ProviderModel

MOST_PAGES = 50
"""of a list, that are asked for until there is something on one for the client"""


class UnknownObject(ClientError):
    """An object that this client key may not use. Another key's is not distinguished from one that nobody has."""

    status = 404

    def __init__(self, identifier: str, path: str = "id") -> None:
        super().__init__(f"No such object: {identifier[:100]}", path=path, code="not_found")


def keeps_owners(context: RequestContext) -> bool:
    """Return whether the owner of a new object is to be remembered: there are client keys, and a place for it."""
    gateway = context.entry.gateway
    return bool(gateway.access.keys) and gateway.store is not None


def is_guarded(context: RequestContext) -> bool:
    """Return whether objects may belong to another client than the one of this request."""
    gateway = context.entry.gateway
    return gateway.access.keys.is_shared and gateway.settings.shared_objects != "all"


async def check_body(context: RequestContext, body: bytes, targets: Sequence[ProviderModel]) -> None:
    """Raise UnknownObject if a request to a model refers to an object that its client may not use."""
    if not is_guarded(context):
        return
    fields = CODECS[context.entry.client].endpoint.object_fields
    if not fields or not may_name_objects(body, fields):
        return
    named = await in_thread(objects_of, body, fields) if len(body) > LARGE_BYTES else objects_of(body, fields)
    await check_objects(context, named, {target.provider for target in targets})


async def check_objects(
    context: RequestContext, named: NamedObjects, providers: Collection[str], *, changes: bool = False
) -> None:
    """Raise UnknownObject if the client of a request may not use one of these objects at one of these providers.

    Nobody is known to own what was made before there were owners, or outside of the gateway. So only those of a single
    client can use it, unless the configuration says otherwise. `changes`: the objects may be changed or deleted, which
    is only for owners. Raises StoreError.
    """
    opened = () if changes else context.entry.gateway.settings.open_objects
    ids = sorted((named.used | named.echoed).difference(opened))
    if not ids:
        return
    store = object_store(context)
    with watching(context):
        owners = await store.service.read(store.store.objects.owners, ids)
    for identifier in ids:
        here = [one for one in owners.get(identifier, ()) if one.provider in providers]
        if not all(_may_use(context, one) for one in here) or (not here and identifier in named.used):
            raise UnknownObject(identifier)


def _may_use(context: RequestContext, owner: ObjectOwner) -> bool:
    key = context.entry.key
    if owner.key == context.owner:
        return True
    team = key.options.owner if key is not None else ""
    return bool(team) and owner.team == team and context.entry.gateway.settings.shared_objects == "owner"


def object_store(context: RequestContext) -> GatewayStore:
    """Return where owners are kept. Raises BadRequest if nothing is kept: then nobody's objects can be told apart."""
    store = context.entry.gateway.store
    if store is None:
        raise BadRequest(
            "this gateway has several client keys and keeps nothing (state: none), so it cannot know whose an object "
            "is: the operator can set state, or server.shared_objects: all",
            code="state_disabled",
        )
    return store


class ObjectResponse:
    """What follows from the response to a request about objects at one provider: new owners, and a list's own part."""

    def __init__(self, context: RequestContext, endpoint: OtherEndpoint, provider: str) -> None:
        self._context = context
        self._endpoint = endpoint
        self._provider = provider
        self.subject = subject_of(context.entry.path, endpoint)
        """the object that the request is about; "" for requests that make one or list them"""
        self.is_list = not self.subject and context.request.method == "GET"
        self.next_page = ""
        """by what to ask for the next page of a list, if there is nothing on this one for the client"""
        self._pages = MOST_PAGES if b"before" not in context.entry.query else 1

    async def read(self, body: bytes) -> bytes:
        """Note what a response says, and return it as its client may see it. Raises StoreError and UpstreamError."""
        method = self._context.request.method
        if method == "DELETE":
            if self._context.entry.path == f"{self._endpoint.path}/{self.subject}":
                store = object_store(self._context)
                await store.service.write(store.store.objects.forget, self._provider, self.subject)
            return body
        found = parse_upstream(body, whole=True)
        if self.is_list:
            return await self._own_part(found)
        if not self.subject:
            key, made = self._context.entry.key, found.get("id")
            own = ObjectOwner(self._provider, self._context.owner, key.options.owner if key is not None else "")
            await self._note([made] if isinstance(made, str) else [], own, made=True)
            return body
        parts = self._parts([found])
        owner = await self._owner() if parts else None
        if owner is not None:
            await self._note(parts, owner)
        return body

    async def _own_part(self, found: dict[str, Json]) -> bytes:
        """Return a page of a list with the objects that the client may use. The next one begins behind the last."""
        entries = found.get("data")
        if not isinstance(entries, list):
            raise UpstreamProtocolError("the upstream did not respond with a list")
        ids = [one["id"] for one in entries if isinstance(one, dict) and isinstance(one.get("id"), str)]
        store = object_store(self._context)
        owners = await store.service.read(store.store.objects.owners, ids)
        usable = {
            identifier: owner
            for identifier in ids
            for owner in owners.get(identifier, ())
            if owner.provider == self._provider and _may_use(self._context, owner)
        }
        open_objects = self._context.entry.gateway.settings.open_objects
        shown = [one for one in entries if isinstance(one, dict) and one.get("id") in {*usable, *open_objects}]
        for one in shown:
            owner = usable.get(str(one["id"]))
            if owner is not None:
                await self._note(self._parts([one]), owner)
        _, cursor = self._endpoint.cursor
        following = str(found.get(cursor) or (ids[-1] if ids else "")) if found.get("has_more") is True else ""
        self._pages -= 1
        self.next_page = following if not shown and self._pages > 0 else ""
        first, last = (shown[0]["id"], shown[-1]["id"]) if shown else (None, following or None)
        ends = {"first_id": first, "last_id": last}
        return dump({**found, "data": shown, **{name: end for name, end in ends.items() if name in found}})

    async def _owner(self) -> ObjectOwner | None:
        """Return who owns the object that a response is about; None if nobody is known to."""
        store = object_store(self._context)
        owners = await store.service.read(store.store.objects.owners, [self.subject])
        return next((one for one in owners.get(self.subject, ()) if one.provider == self._provider), None)

    def _parts(self, found: Iterable[dict[str, Any]]) -> list[str]:
        """Return the ids of objects that the vendor has made from others."""
        values = [value for one in found for path in self._endpoint.makes for value in at_path(one, path)]
        return [value for value in values if isinstance(value, str)]

    async def _note(self, ids: Sequence[str], owner: ObjectOwner, *, made: bool = False) -> None:
        if ids:
            store = object_store(self._context)
            await store.service.write(store.store.objects.note, ids, owner, made=made)


def notes_response(context: RequestContext, endpoint: OtherEndpoint) -> bool:
    """Return whether the response to a request has to be read, to note owners or to leave out what others own."""
    if not endpoint.objects or not keeps_owners(context):
        return False
    path, method = context.entry.path, context.request.method
    if method == "GET" and path == endpoint.path:
        return is_guarded(context)
    return method != "GET" or (bool(endpoint.makes) and path == f"{endpoint.path}/{subject_of(path, endpoint)}")


def subject_of(path: str, endpoint: OtherEndpoint) -> str:
    """Return the id of the object that a path is about; "" for a path without one."""
    return path[len(endpoint.path) :].lstrip("/").partition("/")[0]


_ECHOED = frozenset({"annotations", "citations", "metadata"})
"""fields of a model's output, which a client only sends back, and notes of the client"""
_ECHOED_TYPES = re.compile(r"\w+_call|\w*tool_use|\w+_tool_result")
"""types of items and blocks that tell what a model or a hosted tool did; not those of a client's own results"""


class NamedObjects(NamedTuple):
    """Ids of objects in a request. `echoed`: in what a model wrote before, where no server looks them up."""

    used: frozenset[str] = frozenset()
    echoed: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.used or self.echoed)


def may_name_others(body: bytes, fields: tuple[str, ...]) -> bool:
    """Return whether a body may name more than one model. Few bodies do, and only those have to be parsed."""
    return body.count(b'"model"') > 1 or any(body.find(mark) >= 0 for mark in _model_marks(fields)) or _escapes(body)


def may_name_objects(body: bytes, fields: frozenset[str]) -> bool:
    """Return whether a body may refer to objects by one of these fields."""
    by_id, others = _object_marks(fields)
    # One look for what most of them have is enough for most bodies.
    if body.find(b"_id") >= 0 and any(body.find(mark) >= 0 for mark in by_id):
        return True
    return any(body.find(mark) >= 0 for mark in others) or _escapes(body)


def _escapes(body: bytes) -> bool:
    """Return whether letters of a body are written as escapes, so that a field's name may not look like itself."""
    return body.find(b"\\u00") >= 0 and ESCAPED.search(body) is not None


@lru_cache
def _model_marks(fields: tuple[str, ...]) -> tuple[bytes, ...]:
    # Of `tools[].models`, the last step is rarer than the first. Every body has a `model`.
    names = {field.rpartition(".")[2].removesuffix("[]") for field in fields} - {"model"}
    return tuple(b'"%b"' % name.encode() for name in sorted(names))


@lru_cache
def _object_marks(fields: frozenset[str]) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    marks = {name: b'"%b"' % name.encode() for name in sorted(fields)}
    return (
        tuple(mark for name, mark in marks.items() if "_id" in name),
        tuple(mark for name, mark in marks.items() if "_id" not in name),
    )


def models_of(body: bytes, paths: Iterable[str]) -> list[str]:
    """Return every model that a body names at one of these paths. Raises BadRequest if a place has something else."""
    pairs = read_pairs(body)
    return [name for path in paths for value in at_path(pairs, path) for name in _names(value, path)]


def models_of_query(query: bytes) -> list[str]:
    """Return every model that a query names."""
    return [value for name, value in parse_qsl(query.decode("latin-1")) if name.lower() == "model"]


def objects_of(body: bytes, fields: Collection[str], everyones: tuple[str, ...] = ()) -> NamedObjects:
    """Return the ids of objects that a body names.

    `everyones`: types by which it would ask for what all clients have stored. Raises NotAllowed for one of them.
    """
    used: set[str] = set()
    echoed: set[str] = set()
    # Iterative: a body comes from a client and may be nested to any depth.
    waiting: list[tuple[object, set[str]]] = [(read_pairs(body), used)]
    while waiting:
        node, found = waiting.pop()
        if isinstance(node, list):
            waiting += [(entry, found) for entry in node]
        elif isinstance(node, Pairs):
            kinds = [kind for kind in node.all("type") if isinstance(kind, str)]
            if any(kind in everyones for kind in kinds):
                raise NotAllowed(f"{kinds[0]} asks for what all client keys have stored", code="shared_list")
            if kinds and all(_ECHOED_TYPES.fullmatch(kind) for kind in kinds):
                found = echoed
            waiting += [(value, echoed if name in _ECHOED else found) for name, value in node]
            found.update(_ids(node, kinds, fields))
    return NamedObjects(frozenset(used), frozenset(echoed - used))


def _ids(node: Pairs, kinds: list[str], fields: Collection[str]) -> Iterator[str]:
    """Yield the ids that one object names."""
    # A skill that the vendor offers to everyone.
    offered = "skill_id" if kinds and all(kind == "anthropic" for kind in kinds) else ""
    for name, value in node:
        if name == offered:
            continue
        if name in fields or (name == "id" and "file_id" in kinds):
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, str):
                    yield one
                elif isinstance(one, Pairs):
                    yield from (found for found in one.all("id") if isinstance(found, str))


def _names(value: object, path: str) -> Iterator[str]:
    """Yield the models in a field: a text, a list, an object with `model`, or one with models by what they replace."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for entry in value:
            yield from _names(entry, path)
    elif isinstance(value, Pairs):
        named = list(value.all("model"))
        for one in named or [inner for _, inner in value]:
            yield from _names(one, path)
    elif value is not None:
        raise BadRequest(f"{path} must name models", path=path)


def has_doubles(body: bytes) -> bool:
    """Return whether any object in a body has a field twice. Servers differ in which one they read."""
    waiting: list[object] = [read_pairs(body)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, Pairs):
            if len({name for name, _ in node}) < len(node):
                return True
            waiting += [value for _, value in node]
    return False


MOST_BYTES = 16 * LARGE_BYTES
"""of a response that is not a stream"""
_MARKS = (b"container", b"file_id", b"message_start", b'"message"', b'"audio"')
"""what is in every text with such an id; most events of a stream have none of it"""
_decode = msgspec.json.Decoder().decode
log = structlog.get_logger("trilogue.gateway")


def watch_made_objects(context: RequestContext, body: bytes) -> None:
    """Note whose the objects are that the response to a request names, if its tools may make any."""
    tools = CODECS[context.entry.client].endpoint.making_tools
    if any(body.find(name) >= 0 for name in tools) and is_guarded(context) and keeps_owners(context):
        watch, shown = _Watch(context), context.responder.on_body

        def on_body(data: bytes, now: float) -> None:
            if shown is not None:
                shown(data, now)
            watch.feed(data)

        context.responder.on_body = on_body


class _Watch:
    """The ids in one response. They are written while the rest of it is on its way."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._paths = CODECS[context.entry.client].endpoint.made_objects
        self._parser: SseParser | None = None
        self._whole = bytearray()
        self._noted: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def feed(self, data: bytes) -> None:
        """Look at a part of the response."""
        if not self._whole and self._parser is None:
            if data.lstrip()[:1] == b"{":
                self._whole += data
            else:
                self._parser = SseParser()
        elif self._parser is None and len(self._whole) <= MOST_BYTES:
            self._whole += data
        if self._parser is not None:
            for event in self._parser.feed(data):
                self._look(event.data)
        else:
            self._look(bytes(self._whole))

    def _look(self, text: bytes) -> None:
        if not any(text.find(mark) >= 0 for mark in _MARKS):
            return
        with suppress(*DECODE_ERRORS):
            found = _decode(text)
            ids = {value for path in self._paths for value in at_path(found, path) if isinstance(value, str)}
            new = ids - self._noted
            if new:
                self._noted |= new
                task = asyncio.get_running_loop().create_task(self._note(new))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _note(self, ids: set[str]) -> None:
        store, key = self._context.entry.gateway.store, self._context.entry.key
        if store is None or key is None:
            return
        owner = ObjectOwner(self._context.record.provider, self._context.owner, key.options.owner)
        try:
            await store.service.write(store.store.objects.note, ids, owner)
        except StoreError as error:
            # Nobody can use them then, which does not concern the response.
            log.warning("owners cannot be noted", error=str(error), request_id=self._context.request_id)
