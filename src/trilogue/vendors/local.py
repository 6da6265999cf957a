"""Servers that users run on their own machine, by the port that each listens on."""

from __future__ import annotations

from typing import Any

from trilogue.model import Protocol
from trilogue.vendors.profile import ALL_MODELS, ProfileRow, levels
from trilogue.vendors.vendor import CHAT, MESSAGES, RESPONSES, STATELESS, Preset, Vendor

_OLLAMA = (
    ProfileRow(
        vendors="ollama",
        protocols="chat",
        models=r"llama|gemma|mistral|qwen2",
        takes={"reasons": "never", "efforts": ()},
        what="no effort on models that do not think",
        sure="several",
        sources=("Gitlawb/openclaude#1371", "taketwo/llm-ollama#54", "Xoshbin/asyar#618"),
        example="llama3.2",
    ),
    ProfileRow(
        vendors="ollama",
        protocols="chat",
        models=ALL_MODELS,
        takes={"efforts": levels("none low medium high max"), "reasoning_field": "reasoning"},
        what="effort high, medium, low, max or none",
        sure="documented",
        sources=("ollama/ollama#17141", "ollama/ollama#17252", "diegosouzapw/OmniRoute#10160"),
        example="gpt-oss:20b",
    ),
)


def _local(name: str, port: int, variable: str, owned_by: str, *protocols: Protocol, **more: Any) -> Preset:
    """Return the preset of a server on this machine. `owned_by`: what it says about its models."""
    return Preset(
        name=name,
        urls={one: f"http://127.0.0.1:{port}" for one in protocols},
        model="",
        variable=variable,
        port=port,
        bearer=True,
        # A model may have to be loaded before it responds.
        settings={"timeouts": {"first_byte": 900, "first_event": 900}, **more},
        vendor="ollama" if name == "ollama" else "none",
        owned_by=owned_by,
    )


VENDORS = (
    Vendor(
        name="ollama",
        imported_names=("ollama_chat",),
        preset=_local("ollama", 11434, "", "library", CHAT, MESSAGES, RESPONSES, **STATELESS),
        profiles=_OLLAMA,
    ),
    Vendor(
        name="lmstudio",
        imported_names=("lm_studio",),
        preset=_local("lmstudio", 1234, "LM_API_TOKEN", "organization_owner", CHAT, MESSAGES, RESPONSES),
    ),
    Vendor(
        name="llamacpp",
        imported_names=("llamafile",),
        preset=_local("llamacpp", 8080, "LLAMA_API_KEY", "llamacpp", CHAT, MESSAGES),
    ),
    Vendor(
        name="vllm",
        imported_names=("hosted_vllm",),
        preset=_local("vllm", 8000, "VLLM_API_KEY", "vllm", CHAT, MESSAGES, RESPONSES, **STATELESS),
    ),
    Vendor(
        name="sglang",
        imported_names=("sgl",),
        preset=_local("sglang", 30000, "SGLANG_API_KEY", "sglang", CHAT, MESSAGES),
    ),
)
