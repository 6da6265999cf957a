"""The settings of what is kept of responses and conversations."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from trilogue.base.secrets import Secret


class StateSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the gateway keeps of responses and conversations. A plain string is short for `store`."""

    short: ClassVar[str] = "store"  # what a plain string is short for

    store: Secret | None = None
    """where: the path of an SQLite file, which begins with `/`, `postgresql://…`, `memory` until the gateway stops,
    `none`, or `env:NAME`; default: a file in the state folder, for each configuration file its own"""
    days: Annotated[float, Meta(gt=0, le=3_650)] = 30.0
    """how long a response or conversation is kept after its last use"""
    key_bytes: Annotated[int, Meta(ge=1_000_000, le=2**50)] = 2 * 2**30
    """most bytes that are kept for one client key; the oldest responses are deleted first"""
    total_bytes: Annotated[int, Meta(ge=1_000_000, le=2**50)] = 20 * 2**30
    """most bytes that are kept for all client keys together"""
    reasoning_hours: Annotated[float, Meta(gt=0, le=720)] = 24.0
    """how long reasoning is kept for clients that cannot send it back"""

    @property
    def kept(self) -> bool:
        """Whether anything is kept at all."""
        return self.store is None or self.store.reveal() != "none"
