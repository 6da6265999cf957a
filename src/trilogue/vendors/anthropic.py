"""Anthropic: what Claude models accept in the Messages protocol, and cost in US dollars.

Batch, fast mode and regional processing cost something else. Rows of Anthropic's own page were read from stored copies
of it. The copies do not list the newest models, whose prices come from packages and projects that quote the page. So
does the price of web searches.
"""

from __future__ import annotations

from decimal import Decimal

from trilogue.vendors.price import REGISTRIES, REGISTRIES_DATED, PriceRow, Rates, rates
from trilogue.vendors.profile import ALL_MODELS, FIRST_VERSION, ProfileRow, context_window, levels, tiers_but
from trilogue.vendors.vendor import MESSAGES, ModelFamily, Preset, Vendor

# Model names come with and without dates and cloud suffixes (`-20250514`, `@20250514`); see `plain_name`.
_NO_THINKING = r"claude-(2|instant|3-(opus|sonnet|haiku)|3-5)"
# The first Claude 4 models have no minor version, or 0; a date may follow.
_FIRST_4 = r"claude-(opus|sonnet)-4(-0|-2025|$|@)"
_BUDGET = r"claude-(3-7|(opus|sonnet)-4(-0|-1(?!\d)|-2025|$|@)|(opus|sonnet|haiku)-4-5)"
_MIDDLE = r"claude-(opus|sonnet|haiku)-4-6"
_BEFORE_47 = rf"{_NO_THINKING}|{_BUDGET}|{_MIDDLE}"
_SCOPE = {"vendors": "anthropic", "protocols": "messages"}
_PAGE = "https://platform.claude.com/docs/en/about-claude/pricing"
_SEARCHES = Decimal(10)


def _limit(models: str, tokens: int, default: int, example: str) -> ProfileRow:
    """Return the row for an output limit, and for the limit that is sent if the client sets none."""
    return ProfileRow(
        **_SCOPE,
        models=models,
        # Anthropic requires max_tokens and refuses more than the model's maximum.
        takes={"output_limit": tokens, "max_output": default},
        what=f"at most {tokens:,} output tokens; we ask for {default:,} where the client gave no limit",
        sure="documented",
        sources=("avante-corp/avante.nvim#1761", "withceleste/celeste-python#387", "BerriAI/litellm#32185"),
        example=example,
    )


def _efforts(models: str, names: str, example: str) -> ProfileRow:
    """Return the row for the effort levels of some models."""
    return ProfileRow(
        **_SCOPE,
        models=models,
        takes={"efforts": levels(names)},
        what=f"effort levels: {names.replace(' ', ', ') or 'none at all'}",
        sure="documented",
        sources=("Yeachan-Heo/gajae-code#3913", "ENTERPILOT/GoModel#83", "Oaklight/llm-rosetta#289"),
        example=example,
    )


_THINKING = (
    ProfileRow(
        **_SCOPE,
        models=_NO_THINKING,
        takes={"reasons": "never", "adaptive_thinking": False, "budget_thinking": False},
        what="these models do not think",
        sure="documented",
        sources=("router-for-me/CLIProxyAPI#1435", "page: Building with extended thinking, Claude"),
        example="claude-3-5-haiku-20241022",
    ),
    ProfileRow(
        **_SCOPE,
        models=r"claude-(fable|mythos)",
        takes={"reasons": "always", "disable_thinking": False},
        what="these models always think",
        sure="documented",
        sources=("MoonshotAI/kimi-code#610", "BaseInfinity/claude-sdlc-harness#385"),
        example="claude-mythos-5",
    ),
    ProfileRow(
        **_SCOPE,
        models=ALL_MODELS,
        takes={"reasons": "asked"},
        what="think only if requested",
        sure="documented",
        sources=("page: Building with extended thinking, Claude",),
        example="claude-sonnet-4-5",
    ),
    ProfileRow(
        **_SCOPE,
        models=_BUDGET,
        takes={"adaptive_thinking": False},
        what="adaptive thinking is accepted from 4.6 on",
        sure="documented",
        sources=("askalf/dario#273", "diegosouzapw/OmniRoute#1563", "mnfst/llm-gateway#1928"),
        example="claude-sonnet-4-5",
    ),
    ProfileRow(
        **_SCOPE,
        models=rf"(?!{_BEFORE_47})",
        takes={"budget_thinking": False},
        what="thinking budgets are accepted only up to 4.6",
        sure="documented",
        sources=("srtab/daiv#1429", "OpenHands/software-agent-sdk#3427", "openclaw/openclaw#117871"),
        example="claude-opus-4-7",
    ),
    ProfileRow(
        **_SCOPE,
        models=rf"{_BUDGET}|{_MIDDLE}",
        takes={"forced_tool_thinking": False},
        what="no forced tool choice together with a thinking budget",
        sure="documented",
        sources=("mastra-ai/mastra#7507", "can1357/oh-my-pi#341", "BerriAI/litellm#17129"),
        example="claude-sonnet-4-6",
    ),
    _efforts(rf"{_NO_THINKING}|{_FIRST_4}|claude-(3-7|opus-4-1(?!\d)|(sonnet|haiku)-4-5)", "", "claude-sonnet-4-5"),
    _efforts(r"claude-opus-4-5", "low medium high", "claude-opus-4-5"),
    _efforts(_MIDDLE, "low medium high max", "claude-sonnet-4-6"),
    _efforts(ALL_MODELS, "low medium high xhigh max", "claude-sonnet-5"),
    ProfileRow(
        **_SCOPE,
        models=r"claude-(opus-5|opus-4-8)",
        takes={"efforts_without_thinking": levels("low medium high")},
        what="no effort above high if thinking is disabled",
        sure="documented",
        sources=("elgorro/aiquila#410", "anthropics/claude-code#79798"),
        example="claude-opus-5",
    ),
)

_SETTINGS = (
    ProfileRow(
        **_SCOPE,
        models=ALL_MODELS,
        takes={"fills_arguments": False},
        what="optional arguments without a value are not in a call; an empty one is meant",
        sure="choice",
        sources=(),
        example="claude-opus-5",
    ),
    ProfileRow(
        **_SCOPE,
        models=rf"(?!{_BEFORE_47})",
        takes={"sampling": False},
        what="no sampling parameters from 4.7 on",
        sure="documented",
        sources=("UKGovernmentBEIS/inspect_ai#3721", "promptfoo/promptfoo#9500", "CherryHQ/cherry-studio#15532"),
        example="claude-opus-4-7",
    ),
    ProfileRow(
        **_SCOPE,
        models=ALL_MODELS,
        takes={"sampling_with_reasoning": False},
        what="with thinking, temperature must be 1 and top_k is not accepted",
        sure="documented",
        sources=("MartialBE/one-hub#529", "Kiln-AI/Kiln#1479", "page: Create a Message, Claude API reference"),
        example="claude-sonnet-4-5",
    ),
    ProfileRow(
        **_SCOPE,
        models=r"claude-(opus-4-1(?!\d)|(opus|sonnet|haiku)-4-[56])",
        takes={"temperature_with_top_p": False},
        what="temperature or top_p, not both",
        sure="several",
        sources=("open-webui/open-webui#17922", "langfuse/langfuse#9882", "aws-samples/bedrock-access-gateway#208"),
        example="claude-opus-4-1",
    ),
    _limit(r"claude-(2|instant|3-(opus|sonnet|haiku))", 4_096, 4_096, "claude-3-haiku-20240307"),
    _limit(r"claude-3-5", 8_192, 8_192, "claude-3-5-sonnet-20241022"),
    _limit(r"claude-3-7", 64_000, 8_192, "claude-3-7-sonnet-20250219"),
    _limit(r"claude-opus-4(-0|-1(?!\d)|-2025|$|@)", 32_000, 8_192, "claude-opus-4-1"),
    _limit(_FIRST_4, 64_000, 8_192, "claude-sonnet-4-20250514"),
    _limit(r"claude-(opus|sonnet|haiku)-4-5", 64_000, 32_000, "claude-haiku-4-5"),
    _limit(ALL_MODELS, 128_000, 32_000, "claude-opus-4-6"),
    ProfileRow(
        **_SCOPE,
        models=rf"(?!{_NO_THINKING}|{_BUDGET})",
        takes={"prefill": False},
        what="no prefill from 4.6 on",
        sure="documented",
        sources=("rec: claude-sonnet-5, does not support assistant message prefill", "vercel/ai#12296"),
        example="claude-sonnet-4-6",
    ),
    ProfileRow(
        **_SCOPE,
        models=rf"{_NO_THINKING}|claude-3-7|{_FIRST_4}",
        takes={"json_schema": False},
        what="output_config.format is accepted from 4.5 on, and by Opus 4.1",
        sure="documented",
        sources=("envoyproxy/ai-gateway#1846", "dhyansraj/mcp-mesh#1341", "page: Structured outputs, Claude"),
        example="claude-sonnet-4-20250514",
    ),
    ProfileRow(
        **_SCOPE,
        models=ALL_MODELS,
        takes={"closed_schemas": True, "max_strict_tools": 20, "plain_tool_schemas": True},
        what=(
            "schemas must close every object and have no limits on numbers, lengths and counts; at most 20 strict tools"
        ),
        sure="documented",
        sources=(
            "rec: claude-haiku-4-5, property 'minimum' is not supported",
            "rec: claude-sonnet-4-6, Too many strict tools (21)",
            "rec: claude-sonnet-4-6, input_schema.type: Field required",
        ),
        example="claude-sonnet-4-6",
    ),
    ProfileRow(
        **_SCOPE,
        models=rf"{_BEFORE_47}|claude-opus-4-7",
        takes={"mid_system": False},
        what="the system role inside messages is accepted from Opus 4.8 on",
        sure="documented",
        sources=("anthropics/claude-code#61242", "anomalyco/opencode#43180", "vercel/ai#15674"),
        example="claude-opus-4-7",
    ),
    ProfileRow(
        **_SCOPE,
        models=r"(?!claude-(opus-4-[68]|opus-[5-9]))",
        takes={"tiers": tiers_but("fast ultrafast")},
        what="speed fast is for Opus 4.8 and Opus 5; Opus 4.6 ignores it",
        sure="documented",
        sources=("NousResearch/hermes-agent#82348", "zed-industries/zed#61341"),
        example="claude-sonnet-5",
    ),
    ProfileRow(
        **_SCOPE,
        models=ALL_MODELS,
        takes={"image_types": ("image/jpeg", "image/png", "image/gif", "image/webp")},
        what="images must be JPEG, PNG, GIF or WebP",
        sure="documented",
        sources=("page: Vision, Claude",),
        example="claude-sonnet-4-6",
    ),
    ProfileRow(
        **_SCOPE,
        models=_BEFORE_47,
        takes={"version": FIRST_VERSION},
        what="called with the first API version; version 2026-10-21 accepts no sampling parameters for any model",
        sure="documented",
        sources=("page: Versioning, Claude API",),
        example="claude-sonnet-4-5",
    ),
)

_WINDOWS = (
    context_window("anthropic", r"claude-(3|(opus|sonnet)-4(-0|-1|-5|-2025|$|@)|haiku-4)", 200_000, "claude-opus-4-5"),
    context_window(
        "anthropic",
        r"claude-(opus|sonnet)-4-[6-9]|claude-(opus|sonnet|haiku)-[5-9]|claude-(fable|mythos)",
        1_000_000,
        "claude-sonnet-5",
    ),
)


def _listed(models: str, listed: str) -> PriceRow:
    """Return a row of Anthropic's own page."""
    return PriceRow(
        vendor="anthropic",
        models=tuple(models.split()),
        rates=rates(listed),
        source=_PAGE,
        dated="2026-11",
        first_hand=True,
        searches=_SEARCHES,
    )


def _quoted(
    models: str, listed: str, source: str = REGISTRIES, *, up_to: int | None = None, above: Rates | None = None
) -> PriceRow:
    """Return a row whose prices were only found elsewhere."""
    return PriceRow(
        vendor="anthropic",
        models=tuple(models.split()),
        rates=rates(listed),
        source=source,
        dated=REGISTRIES_DATED,
        searches=_SEARCHES,
        up_to=up_to,
        above=above,
    )


_PRICES = (
    # The sources have no price of cache writes for an hour.
    _quoted(
        "claude-fable-5-2 claude-mythos-5-2",
        "input=8 cache_write=10 cache_read=0.2 output=40",
        "genai-prices 0.2.2; docs.laozhang.ai; vercel.com",
    ),
    _listed(
        "claude-fable-5-1 claude-mythos-5-1",
        "input=10 cache_write=12.5 cache_write_long=20 cache_read=0.25 output=50",
    ),
    _listed("claude-fable-5 claude-mythos-5", "input=10 cache_write=12.5 cache_write_long=20 cache_read=1 output=50"),
    _quoted("claude-opus-5-5", "input=4 cache_write=5 cache_write_long=8 cache_read=0.2 output=20"),
    _listed(
        "claude-opus-5 claude-opus-4-8 claude-opus-4-7 claude-opus-4-6 claude-opus-4-5",
        "input=5 cache_write=6.25 cache_write_long=10 cache_read=0.5 output=25",
    ),
    _listed(
        "claude-opus-4-1 claude-opus-4 claude-3-opus",
        "input=15 cache_write=18.75 cache_write_long=30 cache_read=1.5 output=75",
    ),
    # The price of cache reads was halved on 2026-10-07.
    _quoted("claude-sonnet-5-5", "input=2 cache_write=2.5 cache_write_long=4 cache_read=0.1 output=10"),
    _quoted("claude-sonnet-5", "input=2 cache_write=2.5 cache_write_long=4 cache_read=0.2 output=10"),
    _listed(
        "claude-sonnet-4-6 claude-sonnet-4-5 claude-sonnet-4 claude-3-7-sonnet",
        "input=3 cache_write=3.75 cache_write_long=6 cache_read=0.3 output=15",
    ),
    _quoted(
        "claude-haiku-5-5",
        "input=0.1 cache_write=0.125 cache_write_long=0.2 cache_read=0.01 output=0.5",
        up_to=100_000,
        above=rates("input=0.5 cache_write=0.625 cache_write_long=1 cache_read=0.05 output=2.5"),
    ),
    _listed("claude-haiku-4-5", "input=1 cache_write=1.25 cache_write_long=2 cache_read=0.1 output=5"),
    _listed("claude-3-5-haiku", "input=0.8 cache_write=1 cache_write_long=1.6 cache_read=0.08 output=4"),
    _listed("claude-3-haiku", "input=0.25 cache_write=0.3 cache_write_long=0.5 cache_read=0.03 output=1.25"),
)

VENDOR = Vendor(
    name="anthropic",
    preset=Preset(
        name="anthropic",
        urls={MESSAGES: "https://api.anthropic.com"},
        variable="ANTHROPIC_API_KEY",
        model="claude-sonnet-5",
    ),
    other_names=("claude",),
    hosts=r"api\.anthropic\.com",
    key_prefixes=("sk-ant-",),
    models=r"claude",
    families=(ModelFamily("claude-*"),),
    is_complete=True,
    profiles=(*_THINKING, *_SETTINGS, *_WINDOWS),
    prices=_PRICES,
)
