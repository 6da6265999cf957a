"""Providers that need no address: where each vendor serves which protocol, and the variable that holds its key.

Data only. `trilogue.inprocess` finds an upstream by the name of a preset, and `trilogue.importers` recognises providers
of other gateways by it. Addresses are base URLs from the published documentation of the vendors; they were not called.
"""

from __future__ import annotations

from msgspec import Struct

from trilogue.model import Protocol

CHAT, MESSAGES, RESPONSES = (Protocol.parse(name) for name in ("chat", "messages", "responses"))


class Preset(Struct, frozen=True, kw_only=True):
    """A provider by name.

    `urls`: base URL by protocol, the preferred protocol first. `variable`: the environment variable that holds the key;
    empty for servers that need none. `bearer`: the key is a bearer token in Messages too.
    """

    name: str
    urls: dict[Protocol, str]
    variable: str = ""
    bearer: bool = False

    @property
    def protocol(self) -> Protocol:
        """The protocol to prefer if a request can be translated to several."""
        return next(iter(self.urls))


def _chat(name: str, url: str, variable: str) -> Preset:
    return Preset(name=name, urls={CHAT: url}, variable=variable)


def _local(name: str, port: int, *protocols: Protocol) -> Preset:
    return Preset(name=name, urls={one: f"http://127.0.0.1:{port}" for one in protocols})


_ALL = (
    Preset(
        name="openai",
        urls={RESPONSES: "https://api.openai.com/v1", CHAT: "https://api.openai.com/v1"},
        variable="OPENAI_API_KEY",
    ),
    Preset(name="anthropic", urls={MESSAGES: "https://api.anthropic.com"}, variable="ANTHROPIC_API_KEY"),
    _chat("gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    Preset(
        name="deepseek",
        urls={CHAT: "https://api.deepseek.com", MESSAGES: "https://api.deepseek.com/anthropic"},
        variable="DEEPSEEK_API_KEY",
    ),
    Preset(
        name="openrouter",
        urls={CHAT: "https://openrouter.ai/api/v1", MESSAGES: "https://openrouter.ai/api"},
        variable="OPENROUTER_API_KEY",
        bearer=True,
    ),
    _chat("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    _chat("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    _chat("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    Preset(
        name="moonshot",
        urls={CHAT: "https://api.moonshot.ai/v1", MESSAGES: "https://api.moonshot.ai/anthropic"},
        variable="MOONSHOT_API_KEY",
        bearer=True,
    ),
    _chat("qwen", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
    Preset(
        name="zai",
        urls={CHAT: "https://api.z.ai/api/paas/v4", MESSAGES: "https://api.z.ai/api/anthropic"},
        variable="ZAI_API_KEY",
        bearer=True,
    ),
    Preset(
        name="minimax",
        urls={CHAT: "https://api.minimax.io/v1", MESSAGES: "https://api.minimax.io/anthropic"},
        variable="MINIMAX_API_KEY",
        bearer=True,
    ),
    _chat("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    _chat("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    _chat("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    _chat("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
    _chat("github", "https://models.github.ai/inference", "GITHUB_TOKEN"),
    _chat("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    _chat("deepinfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    _chat("sambanova", "https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
    _chat("hyperbolic", "https://api.hyperbolic.xyz/v1", "HYPERBOLIC_API_KEY"),
    _local("ollama", 11434, CHAT, MESSAGES, RESPONSES),
    _local("lmstudio", 1234, CHAT, RESPONSES),
    _local("llamacpp", 8080, CHAT),
    _local("vllm", 8000, CHAT, MESSAGES, RESPONSES),
    _local("sglang", 30000, CHAT),
)

PRESETS: dict[str, Preset] = {preset.name: preset for preset in _ALL}
"""all presets by name"""
