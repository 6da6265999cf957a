"""Dialects of upstreams by name, and single capabilities by field, on top of what a model's name tells.

The settings have the fields of `protocols.profile.Profile`, whatever these are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from msgspec import Struct, defstruct
from msgspec.structs import asdict, replace

from trilogue.model import Protocol
from trilogue.protocols.profile import COMPATIBLE, Profile, profile_for

ProfileName = Literal["auto", "openai", "compatible", "deepseek", "reasoning", "think-tags"]

PROFILES: dict[str, dict[str, Any]] = {
    # By the model's name alone.
    "auto": {},
    # OpenAI itself, or Azure, whatever the deployment is called; but only a model's name tells if it takes cache marks.
    "openai": {name: getattr(Profile(), name) for name in COMPATIBLE if name != "cache_marks"}
    | {"raw_reasoning": False},
    # A server that takes the common core of Chat Completions: vLLM, llama.cpp, LM Studio, most vendors.
    "compatible": COMPATIBLE,
    # The same, and wants earlier reasoning back as reasoning_content: DeepSeek, Moonshot.
    "deepseek": {**COMPATIBLE, "reasoning_field": "reasoning_content"},
    # The same, and takes earlier reasoning as `reasoning`: OpenRouter, Ollama, Groq.
    "reasoning": {**COMPATIBLE, "reasoning_field": "reasoning"},
    # The same, and writes its reasoning as <think>…</think> into the text.
    "think-tags": {**COMPATIBLE, "think_tags": True},
}


class ProfileBase(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The dialect of an upstream. A text alone is short for `name`."""

    name: ProfileName = "auto"
    """a known dialect; auto: by the model's name"""

    def over(self, protocol: Protocol, model: str) -> Profile:
        """The profile of a model with these settings."""
        given = {name: value for name, value in asdict(self).items() if name != "name" and value is not None}
        return replace(profile_for(protocol, model), **(PROFILES[self.name] | given))


if TYPE_CHECKING:
    ProfileSettings = ProfileBase
else:
    ProfileSettings = defstruct(
        "ProfileSettings",
        [(name, kind | None, None) for name, kind in get_type_hints(Profile).items()],
        bases=(ProfileBase,),
        module=__name__,
        namespace={"__doc__": ProfileBase.__doc__},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
