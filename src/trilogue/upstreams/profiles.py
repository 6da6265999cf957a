"""The setting `profile`: a named dialect of an upstream, and single fields that override what is known of a model.

The settings class gets its fields from `trilogue.vendors.profile.Profile`, so that every field
of a profile can be set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_type_hints

from msgspec import Struct, defstruct
from msgspec.structs import asdict, replace

from trilogue.model import Protocol
from trilogue.protocols.fit.request import FITTED
from trilogue.vendors.common import CORE
from trilogue.vendors.profile import UNCHANGED, UNKNOWN_VENDOR, Profile
from trilogue.vendors.profile_lookup import profile_for

ProfileName = Literal["auto", "openai", "compatible", "deepseek", "reasoning", "think-tags"]

PROFILES: dict[str, dict[str, Any]] = {
    # Decided by the vendor and the model name alone.
    "auto": {},
    # OpenAI or Azure, whose deployments may have any name: the rows of OpenAI apply.
    "openai": {},
    # A server that accepts the common core of Chat Completions: vLLM, llama.cpp, LM Studio, most vendors.
    "compatible": CORE,
    # DeepSeek and Moonshot require earlier reasoning back as reasoning_content.
    "deepseek": {**CORE, "reasoning_field": "reasoning_content"},
    # OpenRouter, Ollama and Groq accept earlier reasoning as `reasoning`.
    "reasoning": {**CORE, "reasoning_field": "reasoning"},
    # The server writes its reasoning into the text, as <think>…</think>.
    "think-tags": {**CORE, "think_tags": True},
}
"""the fields that each named dialect sets"""

_VENDORS = {"openai": "openai", "compatible": UNKNOWN_VENDOR}
"""the vendor whose rows apply to a named dialect, if the provider's address and name do not show the vendor"""


class ProfileBase(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The dialect of an upstream. A plain string is short for `name`."""

    short: ClassVar[str] = "name"  # what a plain string is short for

    name: ProfileName = "auto"
    """a known dialect; auto: decided by the vendor and the model name"""

    def for_model(self, protocol: Protocol, model: str, vendor: str = "") -> Profile:
        """Return the profile of a vendor's model with these settings."""
        vendor = vendor or _VENDORS.get(self.name, "")
        # Any server may call a model gpt-5.5: its name does not show that the server can compact.
        unknown = {} if vendor else {"compacts": False}
        return replace(profile_for(protocol, model, vendor), **(unknown | PROFILES[self.name] | self.overrides()))

    def for_passthrough(self) -> Profile | None:
        """Return a profile that restricts requests only by the fields that are set, or None if no set field does."""
        given = {name: value for name, value in self.overrides().items() if name in FITTED}
        return replace(UNCHANGED, **given) if given else None

    def overrides(self) -> dict[str, Any]:
        """Return the individual fields that are set, by name."""
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
