"""Groq, which serves open weights of others."""

from __future__ import annotations

from trilogue.vendors.price import quoted
from trilogue.vendors.profile import ALL_MODELS, ProfileRow, levels
from trilogue.vendors.vendor import CHAT, Preset, Vendor

_PROFILES = (
    ProfileRow(
        vendors="groq",
        protocols="chat",
        models=r"gpt-oss",
        takes={"reasons": "always", "efforts": levels("low medium high"), "reasoning_field": "reasoning"},
        what="gpt-oss: effort low, medium or high; accepts earlier reasoning",
        sure="documented",
        sources=("theopenco/llmgateway#3422", "vercel/ai#7731", "karthink/gptel#774"),
        example="openai/gpt-oss-120b",
    ),
    ProfileRow(
        vendors="groq",
        protocols="chat",
        models=r"qwen",
        takes={"reasons": "default", "efforts": levels("none")},
        what="Qwen: effort none or default",
        sure="documented",
        sources=("earendil-works/pi#1745", "theopenco/llmgateway#3422"),
        example="qwen/qwen3-32b",
    ),
    ProfileRow(
        vendors="groq",
        protocols="chat",
        models=ALL_MODELS,
        takes={"reasons": "never", "efforts": ()},
        what="no effort on models that do not reason",
        sure="several",
        sources=("diegosouzapw/OmniRoute#3277", "iamsrikanthnani/pluely#219"),
        example="llama-3.3-70b-versatile",
    ),
    ProfileRow(
        vendors="groq",
        protocols="chat",
        models=ALL_MODELS,
        takes={"logprobs": False, "penalties": False, "message_names": False, "several_choices": False, "max_stops": 4},
        what="unknown fields are a 400 (store, top_k, logprobs, logit_bias, …)",
        sure="documented",
        sources=("ogx-ai/ogx#3346", "page: OpenAI compatibility, GroqDocs"),
        example="llama-3.3-70b-versatile",
    ),
)

_PRICES = (
    quoted("groq", "gpt-oss-120b", "input=0.15 cache_read=0.075 output=0.6"),
    quoted("groq", "gpt-oss-20b", "input=0.075 cache_read=0.0375 output=0.3"),
    quoted("groq", "qwen3.8-27b", "input=0.8 output=4"),
)

VENDOR = Vendor(
    name="groq",
    preset=Preset(
        name="groq",
        urls={CHAT: "https://api.groq.com/openai/v1"},
        variable="GROQ_API_KEY",
        model="llama-3.3-70b-versatile",
    ),
    hosts=r"api\.groq\.com",
    key_prefixes=("gsk_",),
    profiles=_PROFILES,
    prices=_PRICES,
)
