"""The providers of LiteLLM and Bifrost: which preset each is, and why some cannot be carried over."""

from __future__ import annotations

from trilogue.model import Protocol
from trilogue.vendors.table import PRESETS, VENDORS
from trilogue.vendors.vendor import CHAT, MESSAGES, RESPONSES, Preset

_OTHER_NAMES = {name: vendor.name for vendor in VENDORS for name in vendor.imported_names}
"""names of presets elsewhere"""

_SIGNED = "requests are signed with AWS keys, which Trilogue does not do"
_AWS = f"{_SIGNED}; use the preset bedrock or bedrock-claude with a Bedrock API key"
_GOOGLE = (
    "use the preset vertex with project and region: it gets its keys from gcloud, and models are called google/NAME"
)
_OWN_PROTOCOL = "its API is none of the three protocols"
IMPOSSIBLE = {
    "bedrock": _AWS,
    "bedrock_converse": _AWS,
    "sagemaker": _SIGNED,
    "sagemaker_chat": _SIGNED,
    "vertex_ai": _GOOGLE,
    "vertex_ai_beta": _GOOGLE,
    "vertex": _GOOGLE,
    "cohere": _OWN_PROTOCOL,
    "cohere_chat": _OWN_PROTOCOL,
    "watsonx": _OWN_PROTOCOL,
    "replicate": _OWN_PROTOCOL,
    "huggingface": _OWN_PROTOCOL,
    "elevenlabs": _OWN_PROTOCOL,
}
"""providers that cannot be carried over, with the reason"""

_GENERIC = {
    "openai_like": [CHAT],
    "custom_openai": [CHAT],
    "litellm_proxy": [CHAT, MESSAGES, RESPONSES],
}
"""providers without an address of their own"""

_MODELS = (("claude", "anthropic"), ("gemini", "gemini"), ("deepseek", "deepseek"), ("mistral", "mistral"))


def preset_named(name: str) -> Preset | None:
    """Return the preset that another gateway's provider is, or None."""
    return PRESETS.get(_OTHER_NAMES.get(name, name))


def generic_protocols(name: str) -> list[Protocol] | None:
    """Return what a provider speaks that is only known by its address, or None."""
    return _GENERIC.get(name)


def is_known(name: str) -> bool:
    """Return whether the part of a model's name before the slash is a provider of LiteLLM."""
    return name in IMPOSSIBLE or name in _GENERIC or name in ("azure", "azure_ai") or preset_named(name) is not None


def vendor_without_prefix(model: str) -> str:
    """Return the provider that LiteLLM takes for a model without one."""
    return next((vendor for start, vendor in _MODELS if model.startswith(start)), "openai")
