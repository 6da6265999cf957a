"""The table of all vendors, and its lookup by name: that of a provider, or of a model.

A file of a vendor has a line here. Everything else that lists vendors is derived from `VENDORS`.
Addresses were last compared with the documentation of the vendors in 2026-11; they were not called.
"""

from __future__ import annotations

import re

from trilogue.model import Protocol
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

_OTHER_NAMES = {name: vendor.name for vendor in VENDORS for name in vendor.other_names}
"""other words for a vendor in the name of a provider"""

# Words in the name of a provider which show that it only has the API of a vendor.
_NOT_A_VENDOR = frozenset({"compatible", "compat", "like", "litellm", "proxy", "mirror", "vllm", "local", "mock"})

_OPEN_WEIGHTS = "gpt-oss"
"""the beginning of the names of weights which any vendor may serve, and which look like those of one"""

_MAKER_PATTERNS = (
    (re.compile(_OPEN_WEIGHTS), ""),
    *((re.compile(vendor.models), vendor.name) for vendor in VENDORS if vendor.models),
)

_PREFIXES = re.compile(r"(?:[a-z-]+\.)*(?:anthropic|openai|mistral|deepseek|moonshotai)\.|ft:")
"""prefixes of names on Bedrock (`us.anthropic.claude-…`) and of fine-tuned models"""


def vendor_named(provider: str) -> str:
    """Return the vendor whose name is part of a provider's name (`azure-eu`, `my_mistral`); "" if there is none.

    `openai-compatible` and `litellm-openai` only have the same API.
    """
    words = re.split(r"[^a-z0-9]+", provider.lower())
    if not _NOT_A_VENDOR.isdisjoint(words):
        return ""
    found = (word if word in PROFILED else _OTHER_NAMES.get(word, "") for word in words)
    return next(filter(None, found), "")


def plain_name(model: str) -> str:
    """Return the name that patterns are matched with: the last part, in lower case, without prefixes of clouds.

    Some vendors write the versions of Claude with a dot (`claude-sonnet-4.5`), Anthropic with a hyphen.
    """
    name = _PREFIXES.sub("", model.rsplit("/", 1)[-1].lower(), count=1)
    # GitHub Copilot and OpenRouter write claude-sonnet-4.5.
    return name.replace(".", "-") if name.startswith("claude") else name


def maker_of(model: str) -> str:
    """Return the vendor that makes a model, by its name; "" if the name does not show it."""
    name = plain_name(model)
    return next((vendor for pattern, vendor in _MAKER_PATTERNS if pattern.match(name)), "")


def vendor_of_model(protocol: Protocol, model: str) -> str:
    """Return the vendor whose rows apply to a model at an upstream that is not a known vendor's; "" for none.

    Claude in one of OpenAI's protocols is a translation by some server, and weights with names such as
    `mistralai/Mistral-7B-Instruct` are served by anyone: both get the common core.
    """
    maker = maker_of(model)
    if maker == "anthropic":
        return maker if protocol.traits.maker == maker else ""
    owner, slash, _ = model.rpartition("/")
    # Hugging Face names have an owner, and usually capital letters.
    is_weights = (slash and owner.lower() not in PROFILED) or model != model.lower()
    return "" if is_weights and maker != "openai" else maker
