"""Model names as vendors and clouds write them, and what the lookup costs."""

from __future__ import annotations

from tests.each import each
from trilogue.model import Effort, Protocol
from trilogue.vendors.profile import UNKNOWN_VENDOR
from trilogue.vendors.profile_lookup import _profile, profile_for, vendor_for
from trilogue.vendors.table import plain_name


@each(
    ("model", "name"),
    [
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("GPT-4o", "gpt-4o"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929-v1:0"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5@20250929"),
        ("ft:gpt-4o-2024-08-06:acme::abc", "gpt-4o-2024-08-06:acme::abc"),
        ("gpt-5.4", "gpt-5.4"),
    ],
)
def test_names_are_read_as_they_are_meant(model: str, name: str) -> None:
    """Prefixes of clouds and vendors are ignored, and Claude's versions have one spelling."""
    assert plain_name(model) == name


@each(
    ("protocol", "model", "vendor", "whose"),
    [
        (Protocol.CHAT, "gpt-4o", "", "openai"),
        (Protocol.CHAT, "gpt-oss:20b", "", UNKNOWN_VENDOR),
        (Protocol.MESSAGES, "claude-opus-5", "", "anthropic"),
        # Another company's server for Claude accepts what other compatible servers accept.
        (Protocol.CHAT, "claude-opus-5", "", UNKNOWN_VENDOR),
        (Protocol.CHAT, "grok-4", "", "xai"),
        (Protocol.CHAT, "grok-4", "openrouter", "openrouter"),
        (Protocol.CHAT, "my-own-model", "", UNKNOWN_VENDOR),
    ],
)
def test_whose_rows_count(protocol: Protocol, model: str, vendor: str, whose: str) -> None:
    """The given vendor's rows apply, else those of the model's vendor, else none."""
    assert vendor_for(protocol, model, vendor) == whose


def test_a_model_of_tomorrow_gets_the_default_row() -> None:
    """An unknown model gets the default row of its vendor."""
    future = profile_for(Protocol.RESPONSES, "gpt-9.3-ultra")
    assert (future.reasons, future.sampling_with_reasoning) == ("always", False)
    unheard = profile_for(Protocol.CHAT, "my-deployment", "azure")
    assert unheard.efforts == tuple(Effort)
    assert not unheard.top_k
    claude = profile_for(Protocol.MESSAGES, "claude-saga-7")
    assert claude.adaptive_thinking
    assert not claude.sampling


def test_versions_with_two_digits_are_later_ones() -> None:
    """gpt-5.10 is not gpt-5.1, and Opus 4.10 is not Opus 4.1."""
    assert Effort.MAX in profile_for(Protocol.CHAT, "gpt-5.10").efforts
    assert not profile_for(Protocol.CHAT, "gpt-5.10").tools_with_reasoning
    assert profile_for(Protocol.MESSAGES, "claude-opus-4-10").adaptive_thinking


def test_a_name_is_looked_up_once() -> None:
    """Results are cached, so that the table costs nothing per request."""
    first = profile_for(Protocol.CHAT, "asked-for-the-first-time")
    misses = _profile.cache_info().misses
    assert all(profile_for(Protocol.CHAT, "asked-for-the-first-time") is first for _ in range(100))
    assert _profile.cache_info().misses == misses
