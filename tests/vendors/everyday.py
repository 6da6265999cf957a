"""The everyday requests of real clients: every field is real, every sentence is ours."""

from __future__ import annotations

from dataclasses import replace

from tests.vendors.client_draw import unshared
from tests.vendors.everyday_claude_code import CLAUDE_CODE
from tests.vendors.everyday_codex import CODEX
from tests.vendors.everyday_kit import Everyday
from tests.vendors.everyday_opencode import OPENCODE
from tests.vendors.everyday_sdk import SDK
from tests.vendors.everyday_vercel import VERCEL

__all__ = ["EVERYDAY", "Everyday"]

_ALL = CLAUDE_CODE | CODEX | OPENCODE | SDK | VERCEL
EVERYDAY: dict[str, Everyday] = {name: replace(day, body=unshared(day.body)) for name, day in _ALL.items()}
