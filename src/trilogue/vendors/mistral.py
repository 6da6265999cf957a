"""Mistral, which refuses requests with fields that it does not know."""

from __future__ import annotations

from trilogue.vendors.price import quoted
from trilogue.vendors.profile import ALL_MODELS, ProfileRow, context_window, levels
from trilogue.vendors.vendor import CHAT, ModelFamily, Preset, Vendor

_PROFILES = (
    ProfileRow(
        vendors="mistral",
        protocols="chat",
        models=r"mistral-(small|medium)-latest|magistral",
        takes={"reasons": "asked", "efforts": levels("none high")},
        what="effort is none or high",
        sure="once",
        sources=("tontinton/maki#47",),
        example="mistral-small-latest",
    ),
    ProfileRow(
        vendors="mistral",
        protocols="chat",
        models=ALL_MODELS,
        takes={"reasons": "never", "efforts": ()},
        what="effort is accepted only by the models that reason",
        sure="once",
        sources=("tontinton/maki#47",),
        example="mistral-large-latest",
    ),
    ProfileRow(
        vendors="mistral",
        protocols="chat",
        models=ALL_MODELS,
        takes={
            "call_ids": "nine",
            "message_names": False,
            "user": False,
            "seed": False,
            "stream_usage": False,
            "max_temperature": 1.5,
        },
        what="unknown fields are a 422; tool call ids have nine letters and digits",
        sure="several",
        sources=("editor-code-assistant/eca#231", "Gitlawb/openclaude#739", "anomalyco/opencode#1680"),
        example="mistral-large-latest",
    ),
    ProfileRow(
        vendors="mistral",
        protocols="chat",
        models=ALL_MODELS,
        takes={"prefill": False, "user_speaks_last": True},
        what="the last message must be from the user or a tool",
        sure="several",
        sources=("huggingface/smolagents#757", "0xPlaygrounds/rig#1130", "crewAIInc/crewAI#2194"),
        example="mistral-large-latest",
    ),
    ProfileRow(
        vendors="mistral",
        protocols="chat",
        models=ALL_MODELS,
        takes={"logprobs": False},
        what="no token probabilities",
        sure="documented",
        sources=("rec: ministral-3b and mistral-small, Logprobs are not enabled for this model",),
        example="ministral-3b-latest",
    ),
    context_window("mistral", r"mistral-large", 262_144, "mistral-large-latest"),
)

_PRICES = (
    quoted(
        "mistral",
        "mistral-medium-latest mistral-medium-3.5 mistral-medium-3-5 mistral-medium-2604 mistral-medium-3",
        "input=1.5 cache_read=0.15 output=7.5",
    ),
    quoted("mistral", "mistral-small-latest mistral-small-2603", "input=0.15 cache_read=0.015 output=0.6"),
    quoted("mistral", "codestral-2508", "input=0.3 cache_read=0.03 output=0.9"),
    quoted("mistral", "ministral-14b-2512", "input=0.2 cache_read=0.02 output=0.2"),
    quoted("mistral", "ministral-8b-latest ministral-8b-2512", "input=0.15 cache_read=0.015 output=0.15"),
    quoted("mistral", "ministral-3b-2512", "input=0.1 cache_read=0.01 output=0.1"),
)

VENDOR = Vendor(
    name="mistral",
    preset=Preset(
        name="mistral",
        urls={CHAT: "https://api.mistral.ai/v1"},
        variable="MISTRAL_API_KEY",
        model="mistral-small-latest",
    ),
    hosts=r".*\.mistral\.ai",
    models=r"(open-)?mi[sx]tral|ministral|magistral|codestral|devstral|pixtral",
    families=(ModelFamily("mistral-*", r"(open-)?(mi[sx]tral|ministral|magistral|codestral|devstral|pixtral)-[^:/]+"),),
    profiles=_PROFILES,
    prices=_PRICES,
)
