"""The settings of the access log."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Log(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The access log: one line per request."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """lowest level that is logged"""
    format: Literal["auto", "json", "text"] = "auto"
    """json for programs, text for people; auto: text on a terminal, else json"""
