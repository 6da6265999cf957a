"""All vendors, and what is derived from them. A vendor of its own file has a line here; nothing else lists vendors.

Addresses were last compared with the documentation of the vendors in 2026-11; they were not called.
"""

from __future__ import annotations

from trilogue.vendors import (
    anthropic,
    deepseek,
    gemini,
    groq,
    local,
    mistral,
    moonshot,
    openai,
    openrouter,
    others,
    xai,
)
from trilogue.vendors.price import PriceRow
from trilogue.vendors.profile import ProfileRow
from trilogue.vendors.vendor import Preset, Vendor

VENDORS: tuple[Vendor, ...] = (
    openai.VENDOR,
    openai.AZURE,
    anthropic.VENDOR,
    deepseek.VENDOR,
    mistral.VENDOR,
    moonshot.VENDOR,
    groq.VENDOR,
    xai.VENDOR,
    gemini.VENDOR,
    gemini.VERTEX,
    openrouter.VENDOR,
    *others.VENDORS,
    *local.VENDORS,
)


def vendors_led_by(names: str) -> tuple[Vendor, ...]:
    """Return all vendors, first those with these names, separated by spaces, then the others."""
    named = {vendor.name: vendor for vendor in VENDORS}
    first = tuple(named[name] for name in names.split())
    return (*first, *(vendor for vendor in VENDORS if vendor not in first))


# In this order, a gateway without a configuration file prefers the vendors whose keys are in the environment.
_PREFERRED = "openai anthropic gemini azure bedrock bedrock-claude vertex deepseek openrouter groq xai mistral moonshot"

PRESETS: dict[str, Preset] = {vendor.name: vendor.preset for vendor in vendors_led_by(_PREFERRED)}
"""all presets by name"""

VENDOR_ROWS: tuple[ProfileRow, ...] = tuple(row for vendor in VENDORS for row in vendor.profiles)
"""what the models of each vendor accept, without the rows of any vendor or of several"""

PROFILED = tuple(vendor.name for vendor in VENDORS if any(vendor.name in row.vendors.split() for row in VENDOR_ROWS))
"""the vendors with rows of their own"""

PRICE_ROWS: tuple[PriceRow, ...] = tuple(row for vendor in VENDORS for row in vendor.prices)
"""all known prices"""
