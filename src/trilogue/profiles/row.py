"""One row of the table of models: which models it applies to, what it says, and the evidence."""

from __future__ import annotations

import re
from typing import Any, Literal

from msgspec import Struct

from trilogue.model import Protocol

Sure = Literal["documented", "several", "once", "choice"]
"""the evidence: the vendor (a page, an error text, SDK types), several reports, one report, or our own choice"""

SEEN = "2026-11"
"""when the facts of a row were last checked, unless it has another date"""

ANY_VENDOR = "any"


class ProfileRow(Struct, frozen=True, kw_only=True):
    """What some models accept. Of two rows that match a model and set the same field, the first one counts."""

    vendors: str
    """the names of vendors, or `any`"""
    protocols: str
    """the short names of protocols"""
    models: str
    """a regular expression, matched at the start of the last part of a model's name"""
    takes: dict[str, Any]
    """the fields of `Profile` that it sets"""
    what: str
    """the rule in plain English, for the docs"""
    sure: Sure
    sources: tuple[str, ...] = ()
    seen: str = SEEN
    example: str
    """a model that the row applies to"""

    def is_for(self, vendor: str, protocol: Protocol) -> bool:
        """Return whether the row applies to a vendor's API of this protocol."""
        return (
            self.vendors == ANY_VENDOR or vendor in self.vendors.split()
        ) and protocol.short in self.protocols.split()

    def fits(self, name: str) -> bool:
        """Return whether the row applies to a model, by the name that `plain_name` returns."""
        # Without an end anchor: names have dates, sizes and tags at their end.
        return re.match(self.models, name) is not None
