"""OpenRouter. Its prices change with the server that it chooses, so none are known here."""

from __future__ import annotations

from trilogue.vendors.profile import ALL_MODELS, ProfileRow, levels
from trilogue.vendors.vendor import CHAT, MESSAGES, STATELESS, Preset, Vendor

_PROFILES = (
    ProfileRow(
        vendors="openrouter",
        protocols="chat",
        models=r"gpt-5(?!\.)|deepseek-r1|o[1-9]|gemini-(2\.5-pro|3)",
        takes={"reasons": "always", "efforts": levels("minimal low medium high xhigh")},
        what="models that always reason refuse a request to switch it off",
        sure="several",
        sources=("dendrux/dendrux#44", "dendrux/dendrux#45", "oneshot-agent/oneshot-gtm#579"),
        example="openai/gpt-5",
    ),
    ProfileRow(
        vendors="openrouter",
        protocols="chat",
        models=ALL_MODELS,
        takes={"efforts": levels("none minimal low medium high xhigh"), "reasoning_field": "reasoning", "top_k": True},
        what="xhigh is the highest effort; accepts earlier reasoning and top_k",
        sure="once",
        sources=("sdk: litellm openrouter/chat/transformation.py", "enricoros/big-AGI#940"),
        example="qwen/qwen3-32b",
    ),
)

VENDOR = Vendor(
    name="openrouter",
    preset=Preset(
        name="openrouter",
        urls={CHAT: "https://openrouter.ai/api/v1", MESSAGES: "https://openrouter.ai/api"},
        variable="OPENROUTER_API_KEY",
        model="openai/gpt-5",
        bearer=True,
        settings=STATELESS,
    ),
    hosts=r"openrouter\.ai",
    key_prefixes=("sk-or-",),
    profiles=_PROFILES,
)
