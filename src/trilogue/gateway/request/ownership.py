"""Whose the objects are that a vendor keeps for the gateway's account: files, batches, vector stores and the like.

An object belongs to the client key that made it. The vendor cannot tell the keys of a gateway apart, so the gateway
remembers who has made which id, and answers for every other key as it does for an id that nobody has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from trilogue.base.json.pairs import at_path
from trilogue.base.json.text import dump, parse_upstream
from trilogue.errors import BadRequest, ClientError, UpstreamProtocolError
from trilogue.gateway.conversations.store.interface import ObjectOwner
from trilogue.gateway.conversations.stores import GatewayStore
from trilogue.gateway.request.large_bodies import LARGE_BYTES, in_thread
from trilogue.gateway.request.named import NamedObjects, may_name_objects, objects_of
from trilogue.gateway.request.request import RequestContext, watching
from trilogue.model import Json
from trilogue.protocols.endpoint import OtherEndpoint
from trilogue.protocols.registry import CODECS
from trilogue.routing.router import Upstream

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


async def check_body(context: RequestContext, body: bytes, targets: Sequence[Upstream]) -> None:
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
