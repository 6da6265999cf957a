"""What the parts of the admin interface are made of: routes with handlers, what a handler gets, and what it returns.

A part is a function from `AdminContext` to routes. It is called once per worker, so it is also the place to register
questions that other workers may ask.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from trilogue.base.json_text import parse_request
from trilogue.errors import ClientError
from trilogue.gateway.access.audit_log import Actor
from trilogue.gateway.admin.administration import Administration
from trilogue.gateway.admin.settings import AdminRole
from trilogue.gateway.admin.worker_group import OtherWorkers
from trilogue.gateway.endpoints.generate import ActiveRequests
from trilogue.gateway.gateway import Gateway
from trilogue.model import Json
from trilogue.net.server.request import HttpRequest
from trilogue.net.server.request_target import match_path

MAX_BODY_BYTES = 64 * 1024
OPEN: Final = "open"
"""in place of a role: for routes that hold no data, and for the sign-in"""


class AdminError(ClientError):
    """A mistake in a request to the admin interface. The message is safe to show."""

    def __init__(self, status: int, message: str, code: str) -> None:
        super().__init__(message, code=code)
        self.status = status


class RawReply(NamedTuple):
    """A response that is not just JSON: another type, headers, or a status other than 200."""

    content_type: str
    data: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    status: int = 200


Reply = dict[str, Json] | RawReply


class Identity(NamedTuple):
    """Somebody who may use the interface. `via`: how they are known, such as key or proxy."""

    name: str
    role: AdminRole
    via: str


class AdminCall(Struct, eq=False):
    """One admitted request. `ids`: what the placeholders of its path stand for. `query`: the first value by name.

    `caller`: who makes it; None if the route is open to all. `peer`: the address that it comes from.
    """

    request: HttpRequest
    admin: Administration
    ids: tuple[str, ...]
    query: dict[str, str]
    caller: Identity | None = None
    peer: str = ""

    @property
    def gateway(self) -> Gateway:
        """The gateway in use."""
        return self.admin.gateway

    @property
    def actor(self) -> Actor:
        """Who makes the request, for the audit log."""
        return Actor("nobody") if self.caller is None else Actor(self.caller.name, self.caller.via)

    def may(self, role: AdminRole) -> bool:
        """Return whether the caller has at least this role."""
        return self.caller is not None and self.caller.role.includes(role)

    async def body(self, most: int = MAX_BODY_BYTES) -> dict[str, Json]:
        """Return the JSON object in the body. Raises ClientError if it is none."""
        return parse_request(await self.request.body(most))


class AdminRoute(Struct, frozen=True):
    """One operation. `path`: with `{…}` for an id, and `{…*}` for one or more parts of the path.

    `role`: the least role that may use it, or OPEN. Every route must name it: docs/access.md has the whole table.
    """

    method: str
    path: str
    handler: Callable[[AdminCall], Awaitable[Reply]]
    role: AdminRole | Literal["open"]

    @property
    def is_open(self) -> bool:
        """Whether it needs no key."""
        return self.role == OPEN

    def match(self, parts: list[str]) -> tuple[str, ...] | None:
        """Return the ids in a path that was split at its slashes; None if it is another path."""
        return match_path(self.path, parts)


class AdminContext(Struct, frozen=True):
    """What routes are made from. `admin`: returns the one in use; a reload replaces it.

    `running`: the requests that this worker handles now.
    """

    admin: Callable[[], Administration]
    workers: OtherWorkers
    running: ActiveRequests

    def gateway(self) -> Gateway:
        """Return the gateway in use."""
        return self.admin().gateway
