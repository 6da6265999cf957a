"""Vendors and clouds of which little more is known than an address and prices.

Prices are in US dollars, for international platforms, and come from packages that list the prices of vendors. What
these packages list differently is left out. So are fees for searches, which most vendors do not report in the usage of
a response.
"""

from __future__ import annotations

from typing import Any

from trilogue.vendors.price import quoted, rates
from trilogue.vendors.vendor import CHAT, MESSAGES, RESPONSES, STATELESS, ModelFamily, Parameter, Preset, Vendor

_AWS_REGION = Parameter(
    name="region", what="the AWS region, such as us-east-1", variables=("AWS_REGION", "AWS_DEFAULT_REGION")
)


def _chat(name: str, url: str, variable: str, model: str, **more: Any) -> Vendor:
    """Return a vendor that speaks Chat Completions only. `more`: further fields of `Vendor`."""
    return Vendor(name=name, preset=Preset(name=name, urls={CHAT: url}, variable=variable, model=model), **more)


_QWEN = (
    quoted("qwen", "qwen3.8-max", "input=2 cache_read=0.25 output=6", "litellm 1.109.1"),
    quoted("qwen", "qwen3.8-flash", "input=0.15 cache_write=0.2 cache_read=0.016 output=0.47", "litellm 1.109.1"),
    quoted("qwen", "qwen3.7-max", "input=2.5 cache_write=3.125 cache_read=0.5 output=7.5", "litellm 1.109.1"),
)
_ZAI = (
    quoted("zai", "glm-5.3 glm-5.2 glm-5.1", "input=1.4 cache_read=0.26 output=4.4"),
    quoted("zai", "glm-5.3-flash", "input=0.15 cache_read=0.03 output=0.5"),
    quoted("zai", "glm-5", "input=1 cache_read=0.2 output=3.2"),
    quoted("zai", "glm-4.7 glm-4.6", "input=0.6 cache_read=0.11 output=2.2"),
)
_MINIMAX = (
    quoted(
        "minimax",
        "minimax-m3",
        "input=0.3 cache_read=0.06 output=1.2",
        up_to=512_000,
        above=rates("input=0.6 cache_read=0.12 output=2.4"),
    ),
    quoted("minimax", "minimax-m2.5 minimax-m2.1 minimax-m2", "input=0.3 cache_write=0.375 cache_read=0.03 output=1.2"),
)
_TOGETHER = (
    quoted("together", "kimi-k3", "input=3 cache_read=0.3 output=15"),
    quoted("together", "glm-5.3 glm-5.2", "input=1.4 cache_read=0.26 output=4.4"),
    quoted("together", "glm-5.3-flash", "input=0.15 cache_read=0.03 output=0.5"),
    quoted("together", "minimax-m3", "input=0.3 cache_read=0.06 output=1.2"),
    quoted("together", "minimax-m3.1-flash", "input=0.15 cache_read=0.015 output=0.6"),
    quoted("together", "deepseek-v4-pro-0813", "input=1.32 cache_read=0.13 output=3.96"),
    quoted("together", "deepseek-v4.1-flash deepseek-v4.1-flash-1017", "input=0.3 cache_read=0.006 output=1.2"),
    quoted("together", "qwen3.8-flash", "input=0.15 output=0.47"),
    quoted("together", "qwen3.7-plus", "input=0.32 output=1.28"),
    quoted("together", "qwen3.6-plus", "input=0.5 output=3"),
    quoted("together", "gpt-oss-120b", "input=0.15 output=0.6"),
    quoted("together", "muse-spark-open-816b-a42b", "input=1.25 cache_read=0.15 output=4.25"),
    quoted("together", "llama-4-scout-17b-16e-instruct", "input=0.18 output=0.59"),
)
_FIREWORKS = (
    quoted("fireworks", "kimi-k3", "input=3 cache_read=0.3 output=15"),
    quoted("fireworks", "kimi-k3-fast", "input=4.5 cache_read=0.45 output=22.5"),
    quoted("fireworks", "kimi-k2p7-code", "input=0.95 cache_read=0.19 output=4"),
    quoted("fireworks", "kimi-k2p6", "input=0.95 cache_read=0.16 output=4"),
    quoted("fireworks", "kimi-k2p5", "input=0.6 cache_read=0.1 output=3"),
    quoted("fireworks", "glm-5p3 glm-5p1", "input=1.4 cache_read=0.26 output=4.4"),
    quoted("fireworks", "glm-5p3-fast", "input=2.1 cache_read=0.39 output=6.6"),
    quoted("fireworks", "glm-5p3-flash", "input=0.15 cache_read=0.03 output=0.5"),
    quoted("fireworks", "glm-5p2", "input=1.4 cache_read=0.14 output=4.4"),
    quoted("fireworks", "deepseek-v4p1-flash", "input=0.3 cache_read=0.006 output=1.2"),
    quoted("fireworks", "deepseek-v4-flash", "input=0.14 cache_read=0.028 output=0.28"),
    quoted("fireworks", "minimax-m3", "input=0.3 cache_read=0.06 output=1.2"),
    quoted("fireworks", "qwen3p8-max", "input=2 cache_read=0.25 output=6"),
    quoted("fireworks", "qwen3p7-plus", "input=0.4 cache_read=0.08 output=1.6"),
    quoted("fireworks", "gpt-oss-120b", "input=0.15 cache_read=0.015 output=0.6"),
    quoted("fireworks", "gpt-oss-20b", "input=0.07 cache_read=0.035 output=0.3"),
)
_CEREBRAS = (
    quoted("cerebras", "gpt-oss-120b", "input=0.35 output=0.75"),
    quoted("cerebras", "qwen-3.8-27b gemma-4-31b", "input=0.99 output=1.49"),
)

VENDORS = (
    Vendor(
        name="bedrock",
        preset=Preset(
            name="bedrock",
            urls=dict.fromkeys((CHAT, RESPONSES), "https://bedrock-runtime.{region}.amazonaws.com/openai/v1"),
            variable="AWS_BEARER_TOKEN_BEDROCK",
            model="openai.gpt-oss-120b-1:0",
            parameters=(_AWS_REGION,),
            vendor="none",
            settings=STATELESS,
        ),
    ),
    Vendor(
        name="bedrock-claude",
        preset=Preset(
            name="bedrock-claude",
            urls={MESSAGES: "https://bedrock-mantle.{region}.api.aws/anthropic"},
            variable="AWS_BEARER_TOKEN_BEDROCK",
            model="anthropic.claude-sonnet-5",
            parameters=(_AWS_REGION,),
            settings={"profile": {"keeps_state": False, "version": "2023-06-01"}},
        ),
    ),
    Vendor(
        name="qwen",
        preset=Preset(
            name="qwen",
            urls={
                CHAT: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
                MESSAGES: "https://dashscope-intl.aliyuncs.com/apps/anthropic",
            },
            variable="DASHSCOPE_API_KEY",
            model="qwen-plus",
        ),
        imported_names=("dashscope",),
        families=(ModelFamily("qwen*", r"(qwen|qwq|qvq)[^:/]*"),),
        prices=_QWEN,
    ),
    Vendor(
        name="zai",
        preset=Preset(
            name="zai",
            urls={CHAT: "https://api.z.ai/api/paas/v4", MESSAGES: "https://api.z.ai/api/anthropic"},
            variable="ZAI_API_KEY",
            model="glm-5",
            bearer=True,
        ),
        routed_names=("zai", "glm"),
        families=(ModelFamily("glm-*", r"glm-[^:/]+"),),
        prices=_ZAI,
    ),
    Vendor(
        name="minimax",
        preset=Preset(
            name="minimax",
            urls={CHAT: "https://api.minimax.io/v1", MESSAGES: "https://api.minimax.io/anthropic"},
            variable="MINIMAX_API_KEY",
            model="MiniMax-M2",
            bearer=True,
        ),
        families=(ModelFamily("MiniMax-*", r"MiniMax-[^:/]+"),),
        prices=_MINIMAX,
    ),
    _chat(
        "together",
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
        "openai/gpt-oss-120b",
        imported_names=("together_ai",),
        key_prefixes=("tgp_",),
        prices=_TOGETHER,
    ),
    Vendor(
        name="fireworks",
        preset=Preset(
            name="fireworks",
            urls={CHAT: "https://api.fireworks.ai/inference/v1", MESSAGES: "https://api.fireworks.ai/inference"},
            variable="FIREWORKS_API_KEY",
            model="accounts/fireworks/models/kimi-k2p5",
            bearer=True,
        ),
        imported_names=("fireworks_ai",),
        key_prefixes=("fw_",),
        prices=_FIREWORKS,
    ),
    _chat(
        "cerebras",
        "https://api.cerebras.ai/v1",
        "CEREBRAS_API_KEY",
        "gpt-oss-120b",
        key_prefixes=("csk-",),
        prices=_CEREBRAS,
    ),
    _chat(
        "perplexity",
        "https://api.perplexity.ai",
        "PERPLEXITY_API_KEY",
        "sonar",
        key_prefixes=("pplx-",),
        families=(ModelFamily("sonar*", r"sonar[^:/]*"),),
    ),
    Vendor(
        name="github",
        preset=Preset(
            name="github",
            urls={CHAT: "https://models.github.ai/inference"},
            variable="GITHUB_TOKEN",
            model="openai/gpt-4.1",
            general_variable=True,
        ),
        key_prefixes=("ghp_", "gho_", "github_pat_"),
    ),
    _chat(
        "nvidia",
        "https://integrate.api.nvidia.com/v1",
        "NVIDIA_API_KEY",
        "openai/gpt-oss-120b",
        imported_names=("nvidia_nim",),
        key_prefixes=("nvapi-",),
    ),
    _chat("deepinfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY", "openai/gpt-oss-120b"),
    _chat("sambanova", "https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY", "gpt-oss-120b"),
    _chat("hyperbolic", "https://api.hyperbolic.xyz/v1", "HYPERBOLIC_API_KEY", "openai/gpt-oss-120b"),
)
