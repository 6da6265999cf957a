"""Moonshot, which makes the Kimi models."""

from __future__ import annotations

from trilogue.vendors.price import quoted
from trilogue.vendors.profile import ALL_MODELS, ProfileRow, context_window, levels
from trilogue.vendors.vendor import CHAT, MESSAGES, ModelFamily, Preset, Vendor

_KIMI = r"kimi-(k2\.[5-9]|k3|latest|for-coding|k2-thinking)"

_PROFILES = (
    ProfileRow(
        vendors="moonshot",
        protocols="chat",
        models=_KIMI,
        takes={"sampling": False, "penalties": False, "several_choices": False},
        what="temperature, top_p, penalties and n are fixed",
        sure="documented",
        sources=("kodustech/kodus-ai#1120", "CherryHQ/cherry-studio#14573", "page: Kimi K2.5, Moonshot AI platform"),
        example="kimi-k2.5",
    ),
    ProfileRow(
        vendors="moonshot",
        protocols="chat",
        models=r"kimi-k2-thinking|kimi-k2\.[7-9]",
        takes={"reasons": "always", "forced_tool_thinking": False, "thinking_switch": ""},
        what="always reasons, and accepts no forced tool choice",
        sure="several",
        sources=("UKGovernmentBEIS/inspect_ai#5152", "can1357/oh-my-pi#1077", "mnfst/modelparams.dev#168"),
        example="kimi-k2-thinking",
    ),
    ProfileRow(
        vendors="moonshot",
        protocols="chat",
        models=r"kimi-k[3-9]",
        takes={"reasons": "always", "efforts": levels("low high max"), "thinking_switch": ""},
        what="always reasons: effort low, high or max",
        sure="several",
        sources=("mnfst/modelparams.dev#168", "theopenco/llmgateway#3378"),
        example="kimi-k3",
    ),
    ProfileRow(
        vendors="moonshot",
        protocols="chat",
        models=r"kimi-k2\.[5-9]",
        takes={"forced_tool_thinking": False},
        what="no forced tool choice while reasoning, which is the default",
        sure="several",
        sources=("UKGovernmentBEIS/inspect_ai#5152", "AstrBotDevs/AstrBot#7805", "theopenco/llmgateway#2090"),
        example="kimi-k2.5",
    ),
    ProfileRow(
        vendors="moonshot",
        protocols="chat",
        models=_KIMI,
        takes={"reasons": "default", "efforts": levels("low medium high"), "thinking_switch": "thinking"},
        what="effort none and xhigh are refused; thinking is on or off",
        sure="several",
        sources=("Kilo-Org/cloud#3807", "router-for-me/CLIProxyAPI#1307", "mnfst/modelparams.dev#168"),
        example="kimi-latest",
    ),
    ProfileRow(
        vendors="moonshot",
        protocols="chat",
        models=ALL_MODELS,
        takes={"reasons": "never", "efforts": (), "reasoning_field": "reasoning_content"},
        what="assistant turns with calls must include their reasoning_content, not empty",
        sure="several",
        sources=("theopenco/llmgateway#2093", "can1357/oh-my-pi#1078"),
        example="moonshot-v1-8k",
    ),
    context_window("moonshot", r"kimi-k2", 262_144, "kimi-k2.5"),
    context_window("moonshot", r"kimi-k3", 1_048_576, "kimi-k3"),
)

_PRICES = (
    quoted("moonshot", "kimi-k3.1-pro", "input=2 cache_write=2 cache_read=0.2 output=10"),
    quoted("moonshot", "kimi-k3", "input=3 cache_write=3 cache_read=0.3 output=15"),
    quoted("moonshot", "kimi-k2.7-code", "input=0.95 cache_read=0.19 output=4"),
    quoted("moonshot", "kimi-k2.6", "input=0.95 cache_read=0.16 output=4"),
    quoted("moonshot", "kimi-k2.5", "input=0.6 cache_read=0.1 output=3"),
)

VENDOR = Vendor(
    name="moonshot",
    preset=Preset(
        name="moonshot",
        urls={CHAT: "https://api.moonshot.ai/v1", MESSAGES: "https://api.moonshot.ai/anthropic"},
        variable="MOONSHOT_API_KEY",
        model="kimi-k2.5",
        bearer=True,
    ),
    other_names=("kimi",),
    routed_names=("moonshot", "kimi"),
    hosts=r"api\.(moonshot|kimi)\.(cn|ai|com)",
    models=r"kimi|moonshot",
    families=(ModelFamily("kimi-*", r"kimi-[^:/]+"),),
    profiles=_PROFILES,
    prices=_PRICES,
)
