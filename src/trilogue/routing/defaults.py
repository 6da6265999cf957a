"""Where well-known model names go when no route says otherwise: to the vendor that makes them, if it is configured."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from trilogue.model import Protocol


class RoutableProvider(Struct, frozen=True):
    """What routing knows about a provider. `models`: the ids that it is known to serve."""

    name: str
    protocols: tuple[Protocol, ...]
    models: tuple[str, ...] = ()
    is_demo: bool = False
    """it knows its own names only, whatever it speaks"""


class Family(Struct, frozen=True):
    """Models of one vendor.

    They go to a provider with one of these names (`openai`, or `openai-…` where that speaks the client's protocol),
    else to the first one that speaks the vendor's own protocol and is not the demo.
    """

    label: str
    pattern: re.Pattern[str]
    names: tuple[str, ...]
    protocol: Protocol | None = None

    def choose(self, providers: Sequence[RoutableProvider], client: Protocol | None) -> RoutableProvider | None:
        """The provider for this family, or None."""
        named = [provider for name in self.names for provider in providers if _belongs(provider.name, name)]
        if named:
            return min(named, key=lambda one: (client not in one.protocols, one.name not in self.names))
        return next((one for one in providers if self.protocol in one.protocols and not one.is_demo), None)


def _belongs(name: str, vendor: str) -> bool:
    return name == vendor or name.startswith(f"{vendor}-")


def _family(label: str, names: tuple[str, ...], protocol: Protocol | None = None, pattern: str | None = None) -> Family:
    return Family(label, re.compile(pattern or re.escape(label).replace(r"\*", ".*")), names, protocol)


FAMILIES = (
    _family("claude-*", ("anthropic",), Protocol.MESSAGES),
    _family("gpt-*", ("openai",), Protocol.RESPONSES),
    _family("chatgpt-*", ("openai",), Protocol.RESPONSES),
    _family("codex-*", ("openai",), Protocol.RESPONSES),
    _family("o[0-9]*", ("openai",), Protocol.RESPONSES, r"o\d+(-.*)?"),
    _family("gemini-*", ("google", "gemini")),
    _family("grok-*", ("xai", "grok")),
    _family("demo*", ("demo",)),
)
