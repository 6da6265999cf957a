"""Rows of any vendor or of several, which come after those of each vendor: the common core of each protocol."""

from __future__ import annotations

from typing import Any

from trilogue.model import Tier
from trilogue.vendors.profile import ALL_MODELS, ANY_VENDOR, FIRST_VERSION, UNKNOWN_VENDOR, ProfileRow
from trilogue.vendors.table import PROFILED

_OTHERS = " ".join([name for name in PROFILED if name not in ("openai", "azure")] + [UNKNOWN_VENDOR])
# Families of open weights; which server runs them is not known, so this goes by the name.
_NO_REASONING = r"llama|meta-llama|codellama|gemma|mi[sx]tral|ministral|codestral|phi-?[34]|qwen-?2|command|granite"

CORE: dict[str, Any] = {
    "developer_role": False,
    # Most compatible servers do not have max_completion_tokens; Mistral responds with 422.
    "max_tokens_field": "max_tokens",
    "custom_tools": False,
    "cache_marks": False,
    "cache_retention": False,
    "top_k": False,
    "openai_fields": False,
}
"""fields of the profile of servers that accept only the common core of Chat Completions"""

COMMON_ROWS = (
    ProfileRow(
        vendors="deepseek mistral moonshot groq xai gemini ollama",
        protocols="messages responses",
        models=ALL_MODELS,
        takes={"tool_search": False},
        what="no search for deferred tools: the gateway runs it",
        sure="choice",
        example="kimi-k3",
    ),
    ProfileRow(
        vendors="openai azure deepseek moonshot",
        protocols="chat responses",
        models=ALL_MODELS,
        takes={"orphaned_calls": False},
        what="every tool call needs its result, and every result its call",
        sure="several",
        sources=("deepseek-ai/DeepSeek-V3#1588", "TurixAI/TuriX-CUA#15", "bytedance/deer-flow#2706"),
        example="gpt-5.5",
    ),
    ProfileRow(
        vendors="anthropic",
        protocols="messages",
        models=ALL_MODELS,
        takes={"orphaned_calls": False},
        what="every tool call needs its result, and every result its call",
        sure="several",
        sources=("letta-ai/letta#3308", "anthropics/claude-code#1237", "Kilo-Org/kilocode#5163"),
        example="claude-sonnet-5",
    ),
    ProfileRow(
        vendors=ANY_VENDOR,
        protocols="chat responses",
        models=_NO_REASONING,
        takes={"efforts": ()},
        what="model families that do not reason accept no effort",
        sure="choice",
        example="llama-3.1-8b",
    ),
    ProfileRow(
        vendors=_OTHERS,
        protocols="chat",
        models=ALL_MODELS,
        takes=CORE,
        what="the common core of Chat Completions: no developer role, and nothing that only OpenAI's servers accept",
        sure="several",
        sources=("earendil-works/pi#1048", "eclipse-theia/theia#15144", "OpenCoworkAI/open-codesign#316"),
        example="some-model",
    ),
    ProfileRow(
        vendors=ANY_VENDOR,
        protocols="chat",
        models=ALL_MODELS,
        takes={"max_stops": 4, "plain_tool_schemas": True},
        what="at most four stop sequences; the schema of a tool must be a plain object",
        sure="choice",
        example="some-model",
    ),
    ProfileRow(
        vendors=ANY_VENDOR,
        protocols="responses",
        models=ALL_MODELS,
        takes={"least_output": 16, "plain_tool_schemas": True},
        what="at least 16 output tokens; the schema of a tool must be a plain object",
        sure="choice",
        example="some-model",
    ),
    ProfileRow(
        vendors=_OTHERS,
        protocols="responses",
        models=ALL_MODELS,
        takes={"cache_marks": False, "cache_retention": False, "prewarm": False, "adds_caching": False},
        what="OpenAI's cache settings are not accepted, and no prompt_cache_key is added",
        sure="choice",
        example="some-model",
    ),
    ProfileRow(
        vendors=_OTHERS,
        protocols="responses",
        models=ALL_MODELS,
        takes={"compacts": False},
        what="conversations cannot be compacted: only the APIs of OpenAI and Azure are known to do that",
        sure="choice",
        example="some-model",
    ),
    ProfileRow(
        vendors=f"azure {_OTHERS}",
        protocols="responses",
        models=ALL_MODELS,
        takes={"agents": False},
        what="messages between Codex's agents must be ordinary messages",
        sure="several",
        sources=("openai/codex#33551", "openai/codex#34833", "openai/codex#37237"),
        example="some-model",
    ),
    ProfileRow(
        vendors=f"openai azure {_OTHERS}".replace("anthropic ", ""),
        protocols="messages",
        models=ALL_MODELS,
        takes={
            "efforts": (),
            "adaptive_thinking": False,
            "mid_system": False,
            "version": FIRST_VERSION,
            # Threads are a beta of Anthropic's own API.
            "keeps_state": False,
            "tiers": (Tier.AUTO, Tier.DEFAULT),
        },
        what="Anthropic-compatible servers: thinking budgets, the first API version, and no stored state",
        sure="choice",
        example="some-model",
    ),
    ProfileRow(
        vendors=ANY_VENDOR,
        protocols="messages",
        models=ALL_MODELS,
        takes={"blank_stops": False, "max_temperature": 1.0},
        what="stop sequences must have more than whitespace; temperature is from 0 to 1",
        sure="several",
        sources=("BerriAI/litellm#3286", "EleutherAI/lm-evaluation-harness#3822", "MegaGrindStone/mcp-web-ui#5"),
        example="some-model",
    ),
)
