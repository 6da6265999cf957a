"""Paths of the gateway, and whose they are."""

from __future__ import annotations

from trilogue.model import Protocol

_OWNERS = {"messages": Protocol.MESSAGES, "responses": Protocol.RESPONSES, "chat": Protocol.CHAT}


def versionless(path: str) -> str:
    """The path without version prefix and trailing slash: /v1/messages/ and /messages are the same."""
    path = path.removeprefix("/v1") if path.startswith("/v1/") or path == "/v1" else path
    return path.rstrip("/") or "/"


def owner(path: str) -> Protocol | None:
    """The protocol that a versionless path belongs to, if it belongs to one."""
    return _OWNERS.get(path.split("/", 2)[1]) if path.startswith("/") else None
