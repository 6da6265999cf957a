"""xAI, which has Chat Completions and Responses."""

from __future__ import annotations

from trilogue.vendors.price import PriceRow, quoted, rates
from trilogue.vendors.profile import ALL_MODELS, ProfileRow, context_window, levels
from trilogue.vendors.vendor import CHAT, RESPONSES, ModelFamily, Preset, Vendor

_PROFILES = (
    ProfileRow(
        vendors="xai",
        protocols="chat responses",
        models=r"grok-4\.3",
        takes={"reasons": "default", "efforts": levels("none low medium high")},
        what="effort none to high",
        sure="several",
        sources=("NousResearch/hermes-agent#23435", "enricoros/big-AGI#1104"),
        example="grok-4.3",
    ),
    ProfileRow(
        vendors="xai",
        protocols="chat responses",
        models=r"grok-(4\.20-multi-agent|4\.[4-9]|[5-9])",
        takes={"reasons": "always", "efforts": levels("low medium high")},
        what="effort low to high",
        sure="several",
        sources=("enricoros/big-AGI#1104", "Wei-Shaw/sub2api#4409"),
        example="grok-4.5",
    ),
    ProfileRow(
        vendors="xai",
        protocols="chat responses",
        models=r"grok-3-mini",
        takes={"reasons": "always", "efforts": levels("low high")},
        what="effort low or high",
        sure="documented",
        sources=("BerriAI/litellm#16265", "charmbracelet/crush#2362"),
        example="grok-3-mini",
    ),
    ProfileRow(
        vendors="xai",
        protocols="chat responses",
        models=r"grok-(4|code)",
        takes={"reasons": "always", "efforts": ()},
        what="reason, and accept no effort",
        sure="documented",
        sources=("tetsuo-ai/agenc-core#416", "BerriAI/litellm#16265"),
        example="grok-4",
    ),
    ProfileRow(
        vendors="xai",
        protocols="chat responses",
        models=ALL_MODELS,
        takes={"reasons": "never", "efforts": ()},
        what="do not reason",
        sure="documented",
        sources=("charmbracelet/crush#2362",),
        example="grok-3",
    ),
    ProfileRow(
        vendors="xai",
        protocols="chat",
        models=r"grok-(4|3-mini|code)",
        takes={"penalties": False, "max_stops": 0},
        what="models that reason accept no penalties and no stop sequences",
        sure="several",
        sources=("open-webui/open-webui#21266", "lobehub/lobehub#8379", "langgenius/dify-official-plugins#3405"),
        example="grok-4",
    ),
    ProfileRow(
        vendors="xai",
        protocols="chat",
        models=ALL_MODELS,
        takes={"reasoning_field": None},
        what="earlier reasoning is not accepted",
        sure="choice",
        example="grok-3-mini",
    ),
    context_window("xai", r"grok-4\.[3-9]", 1_000_000, "grok-4.3"),
    context_window("xai", r"grok-4($|-0)", 256_000, "grok-4"),
)


def _grok(models: str, listed: str) -> PriceRow:
    """Return a row of models that cost twice as much from 200,000 input tokens on."""
    return quoted("xai", models, listed, up_to=199_999, above=rates(listed).times("2", "2"))


_PRICES = (
    _grok("grok-4.7 grok-4.6", "input=2 cache_read=0.5 output=6"),
    _grok("grok-4.5", "input=2 cache_read=0.3 output=6"),
    _grok("grok-4.3 grok-4.20 grok-4.20-reasoning grok-4.20-non-reasoning", "input=1.25 cache_read=0.2 output=2.5"),
    _grok("grok-build-0.1", "input=1 cache_read=0.2 output=2"),
)

VENDOR = Vendor(
    name="xai",
    preset=Preset(
        name="xai",
        urls=dict.fromkeys((CHAT, RESPONSES), "https://api.x.ai/v1"),
        variable="XAI_API_KEY",
        model="grok-4.3",
    ),
    other_names=("grok",),
    routed_names=("xai", "grok"),
    hosts=r"api\.x\.ai",
    key_prefixes=("xai-",),
    models=r"grok",
    families=(ModelFamily("grok-*"),),
    profiles=_PROFILES,
    prices=_PRICES,
)
