"""Holds what the everyday requests of all clients share. Their shape is real, their words are ours."""

from __future__ import annotations

from dataclasses import dataclass

from tests.vendors.client_draw import JSON, PDF, PNG, Protocol, data_url

__all__ = ["PDF", "PDF_DATA", "PNG", "PNG_DATA", "SEALED", "SIGNATURE", "SUMMARY", "Everyday", "closed", "prop"]

PNG_DATA = data_url("image/png", PNG)
PDF_DATA = data_url("application/pdf", PDF)
SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pki"
SEALED = "gAAAAABnotarealthought"
SUMMARY: list[JSON] = [{"type": "summary_text", "text": "Hm."}]


@dataclass(frozen=True)
class Everyday:
    """A request as a client sends it every day; `stateful` if it goes on from what the server is to remember."""

    client: str
    protocol: Protocol
    body: JSON
    headers: dict[str, str]
    stateful: bool = False


def prop(kind: str, **more: object) -> JSON:
    """Describe a property in a word, as real schemas do at length."""
    return {"description": "A value.", "type": kind} | more


def closed(properties: JSON, *required: str) -> JSON:
    """Make the schema of an object that takes nothing else."""
    schema: JSON = {"type": "object", "properties": properties}
    return schema | ({"required": list(required)} if required else {}) | {"additionalProperties": False}
