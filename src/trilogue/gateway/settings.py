"""What requests need of the configuration, beside the settings of single parts."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from trilogue.model import Severity

Mode = Literal["declare", "strict"]
Sharing = Literal["key", "owner", "all"]


class GatewaySettings(Struct, frozen=True, kw_only=True):
    """Settings for all requests. Not a section of the file: they come from `server` and from the top level."""

    mode: Mode = "declare"
    strict_from: Severity = Severity.DEGRADED
    repair_history: bool | Literal["auto"] = "auto"
    max_body_bytes: int
    max_upload_bytes: int
    keepalive_seconds: float
    max_continuations: int
    shared_objects: Sharing = "key"
    open_objects: tuple[str, ...] = ()
    unjudged_endpoints: tuple[str, ...] = ()
