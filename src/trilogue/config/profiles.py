"""Dialects of upstreams by name, and single capabilities by field, on top of what a model's name tells.

The settings have the fields of `profiles.Profile`, whatever these are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from msgspec import Struct, defstruct
from msgspec.structs import asdict, replace

from trilogue.model import Protocol
from trilogue.profiles import CORE, UNCHANGED, UNKNOWN_VENDOR, Profile, profile_for
from trilogue.protocols.fit import FITTED

ProfileName = Literal["auto", "openai", "compatible", "deepseek", "reasoning", "think-tags"]

PROFILES: dict[str, dict[str, Any]] = {
    # By the model's name alone.
    "auto": {},
    # OpenAI itself, or Azure, whatever the deployment is called: by the rows of that vendor.
    "openai": {},
    # A server that takes the common core of Chat Completions: vLLM, llama.cpp, LM Studio, most vendors.
    "compatible": CORE,
    # The same, and wants earlier reasoning back as reasoning_content: DeepSeek, Moonshot.
    "deepseek": {**CORE, "reasoning_field": "reasoning_content"},
    # The same, and takes earlier reasoning as `reasoning`: OpenRouter, Ollama, Groq.
    "reasoning": {**CORE, "reasoning_field": "reasoning"},
    # The same, and writes its reasoning as <think>…</think> into the text.
    "think-tags": {**CORE, "think_tags": True},
}


_VENDORS = {"openai": "openai", "compatible": UNKNOWN_VENDOR}
"""whose rows count for a named dialect, where the provider's address and name tell no vendor"""


class ProfileBase(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The dialect of an upstream. A plain string is short for `name`."""

    name: ProfileName = "auto"
    """a known dialect; auto: decided by the vendor and the model name"""

    def over(self, protocol: Protocol, model: str, vendor: str = "") -> Profile:
        """Return the profile of a vendor's model with these settings."""
        vendor = vendor or _VENDORS.get(self.name, "")
        return replace(profile_for(protocol, model, vendor), **(PROFILES[self.name] | self.given()))

    def alone(self) -> Profile | None:
        """Return a profile that takes everything but what single fields say; None if they say nothing of requests."""
        given = {name: value for name, value in self.given().items() if name in FITTED}
        return replace(UNCHANGED, **given) if given else None

    def given(self) -> dict[str, Any]:
        """Return the single fields that are set, by name."""
        return {name: value for name, value in asdict(self).items() if name != "name" and value is not None}


if TYPE_CHECKING:
    ProfileSettings = ProfileBase
else:
    ProfileSettings = defstruct(
        "ProfileSettings",
        [(name, kind | None, None) for name, kind in get_type_hints(Profile, include_extras=True).items()],
        bases=(ProfileBase,),
        module=__name__,
        namespace={"__doc__": ProfileBase.__doc__},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
