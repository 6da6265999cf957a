"""What the everyday requests of all clients share. Their structure is real, their words are ours."""

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
    """A request that a client sends every day. `stateful` means that it continues a response that the server stores."""

    client: str
    protocol: Protocol
    body: JSON
    headers: dict[str, str]
    stateful: bool = False


def prop(kind: str, **more: object) -> JSON:
    """Return a property with a short description; those of real schemas are long."""
    return {"description": "A value.", "type": kind} | more


def closed(properties: JSON, *required: str) -> JSON:
    """Return the schema of an object without further properties."""
    schema: JSON = {"type": "object", "properties": properties}
    return schema | ({"required": list(required)} if required else {}) | {"additionalProperties": False}
