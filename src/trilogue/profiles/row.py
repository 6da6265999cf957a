"""One row of the table of models: for whom it counts, what it says, and how we know."""

from __future__ import annotations

import re
from typing import Any, Literal

from msgspec import Struct

from trilogue.model import Protocol

Sure = Literal["documented", "several", "once", "choice"]
"""how we know: the vendor says it (a page, an error text, SDK types); several reports; one report; our own choice"""

SEEN = "2026-11"
"""when the facts of a row were last looked at, unless it says otherwise"""

ANY_VENDOR = "any"


class ProfileRow(Struct, frozen=True, kw_only=True):
    """What models take. Of two rows that fit a model and name the same field, the first one counts."""

    vendors: str
    """names of vendors, or `any`"""
    protocols: str
    """short names of protocols"""
    models: str
    """a regular expression, matched at the start of the last part of a model's name"""
    takes: dict[str, Any]
    """fields of `Profile`"""
    what: str
    """the rule in words"""
    sure: Sure
    sources: tuple[str, ...] = ()
    seen: str = SEEN
    example: str
    """a model that the row decides for"""

    def is_for(self, vendor: str, protocol: Protocol) -> bool:
        """Tell whether the row counts for a vendor's API of this protocol."""
        return (
            self.vendors == ANY_VENDOR or vendor in self.vendors.split()
        ) and protocol.short in self.protocols.split()

    def fits(self, name: str) -> bool:
        """Tell whether the row counts for a model, by the name that `plain_name` gives it."""
        return re.match(self.models, name) is not None
