"""The settings of the usage ledger."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from trilogue.base.secrets import Secret


class UsageSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of usage and cost. A plain string is short for `store`."""

    short: ClassVar[str] = "store"  # what a plain string is short for

    store: Secret | None = None
    """where: the path of an SQLite file, which begins with `/`, `postgresql://…`, `none`, or `env:NAME`; default: the
    database of `state.store` if that is PostgreSQL, else `usage.db` in the state folder"""
    days: Annotated[float, Meta(ge=1, le=36_500)] = 400.0
    """how long usage is kept; after 31 days, the hours of a day are added up"""
