"""The part of the admin interface that makes, changes, rotates and revokes client keys."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec
import structlog

from trilogue.base.clock import parse_time
from trilogue.gateway.access.client_keys import ManagedKey
from trilogue.gateway.access.key_store import KeyExists, KeyStore, NoSuchKey
from trilogue.gateway.access.settings import KeyOptions, key_option_problems
from trilogue.gateway.admin.routes import AdminCall, AdminError, AdminRoute, Reply
from trilogue.gateway.admin.settings import AdminRole
from trilogue.model import Json
from trilogue.storage.database import StoreError

log = structlog.get_logger("trilogue.admin")

Result = TypeVar("Result")
OVERLAP_SECONDS = 86_400.0
KEY_NAME = re.compile(r"[\w][\w .@+-]{0,99}")


def routes() -> tuple[AdminRoute, ...]:
    """Return the routes of client keys. All workers read them from the same store."""
    return (
        AdminRoute("GET", "keys", _list, AdminRole.ADMIN),
        AdminRoute("POST", "keys", _create, AdminRole.ADMIN),
        AdminRoute("GET", "keys/{key}", _show, AdminRole.ADMIN),
        AdminRoute("PUT", "keys/{key}", _change, AdminRole.ADMIN),
        AdminRoute("POST", "keys/{key}/rotate", _rotate, AdminRole.ADMIN),
        AdminRoute("POST", "keys/{key}/revoke", _revoke, AdminRole.ADMIN),
    )


def shown_key(key: ManagedKey, now: float) -> dict[str, Json]:
    """Return a key as JSON, without its digests."""
    return {
        "id": key.id,
        "name": key.name,
        "status": key.status(now).value,
        "shown": key.shown,
        "texts": len(key.valid_digests(now)),
        "created": key.created,
        "expires": key.expires,
        "revoked": key.revoked,
        **msgspec.to_builtins(key.options),
    }


async def _list(call: AdminCall) -> Reply:
    now, keys = time.time(), await _run(call, KeyStore.all)
    return {"keys": [shown_key(key, now) for key in keys]}


async def _show(call: AdminCall) -> Reply:
    return shown_key(await _run(call, lambda store: store.find(call.ids[0])), time.time())


async def _create(call: AdminCall) -> Reply:
    body = await call.body()
    name = body.pop("name", None)
    if not isinstance(name, str) or not KEY_NAME.fullmatch(name):
        raise AdminError(400, "name must be 1 to 100 letters, digits and . @ + - _", "bad_key")
    expires = _expires(body.pop("expires", None))
    options = _options(body, call)
    key, text = await _run(call, lambda store: store.create(name, options, expires, call.actor))
    log.info("client key made", key=key.name, by=call.actor.who)
    return {**shown_key(key, time.time()), "key": text}


async def _change(call: AdminCall) -> Reply:
    body = await call.body()
    old = await _run(call, lambda store: store.find(call.ids[0]))
    expires = _expires(body.pop("expires")) if "expires" in body else old.expires
    options = _options({**msgspec.to_builtins(old.options), **body}, call)
    key = await _run(call, lambda store: store.change(old.id, options, expires, call.actor))
    log.info("client key changed", key=key.name, by=call.actor.who)
    return shown_key(key, time.time())


async def _rotate(call: AdminCall) -> Reply:
    overlap = (await _optional_body(call)).get("overlap_seconds", OVERLAP_SECONDS)
    if isinstance(overlap, bool) or not isinstance(overlap, int | float) or not 0 <= overlap <= 365 * 86_400:
        raise AdminError(400, "overlap_seconds must be a number from 0 to a year", "bad_key")
    key, text = await _run(call, lambda store: store.rotate(call.ids[0], float(overlap), call.actor))
    log.info("client key rotated", key=key.name, by=call.actor.who)
    return {**shown_key(key, time.time()), "key": text}


async def _revoke(call: AdminCall) -> Reply:
    stops = (await _optional_body(call)).get("stop_streams") is True
    key = await _run(call, lambda store: store.revoke(call.ids[0], call.actor, stop_streams=stops))
    log.info("client key revoked", key=key.name, by=call.actor.who)
    return shown_key(key, time.time())


async def _optional_body(call: AdminCall) -> dict[str, Json]:
    return await call.body() if call.request.declared_length != 0 else {}


def _expires(value: Json) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return parse_time(value if isinstance(value, str) else "", time.time())
    except ValueError:
        raise AdminError(400, "expires must be a date or time such as 2027-01-31, or 30d", "bad_key") from None


def _options(fields: dict[str, Json], call: AdminCall) -> KeyOptions:
    try:
        options = msgspec.convert(fields, KeyOptions)
    except msgspec.ValidationError as error:
        raise AdminError(400, f"these are not the options of a key: {error}", "bad_key") from None
    gateway = call.gateway
    problems = key_option_problems(
        options,
        providers=gateway.upstreams.settings,
        routes=[one.match for one in gateway.models.routes],
        policies=() if gateway.policies is None else gateway.policies.names,
    )
    for path, text in problems:
        raise AdminError(400, f"{path}: {text}", "bad_key")
    return options


async def _run(call: AdminCall, work: Callable[[KeyStore], Result]) -> Result:
    """Use the store in a thread. Its errors become those of the interface."""
    keys = call.gateway.access.managed
    try:
        result = await asyncio.to_thread(lambda: work(keys.store))
    except NoSuchKey as error:
        raise AdminError(404, str(error), "no_such_key") from None
    except KeyExists as error:
        raise AdminError(409, str(error), "key_exists") from None
    except StoreError as error:
        raise AdminError(503, f"client keys cannot be read or written: {error}", "store_unavailable") from None
    keys.look()
    return result
