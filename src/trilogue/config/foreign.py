"""Recognises configuration files of other gateways, which people hand to Trilogue when they come from there."""

from __future__ import annotations

from typing import Any, Literal, get_args

Foreign = Literal["litellm", "claude-code-router", "bifrost"]
FOREIGN: tuple[Foreign, ...] = get_args(Foreign)
LABELS: dict[Foreign, str] = {"litellm": "LiteLLM", "claude-code-router": "claude-code-router", "bifrost": "Bifrost"}


def foreign_format(data: Any) -> Foreign | None:
    """Return which gateway a parsed file is for, or None if it is not one of those that can be imported."""
    if not isinstance(data, dict):
        return None
    if "model_list" in data or "litellm_settings" in data:
        return "litellm"
    if isinstance(data.get("Providers"), list) or "Router" in data:
        return "claude-code-router"
    providers = data.get("providers")
    if isinstance(providers, dict) and any(_has_bifrost_keys(one) for one in providers.values()):
        return "bifrost"
    return None


def foreign_hint(data: Any) -> str | None:
    """Return what to do with a file of another gateway, or None if it is not one."""
    found = foreign_format(data)
    return found and f"this is a file of {LABELS[found]}; convert it with: trilogue import {found} FILE"


def _has_bifrost_keys(provider: Any) -> bool:
    return isinstance(provider, dict) and ("network_config" in provider or isinstance(provider.get("keys"), list))
