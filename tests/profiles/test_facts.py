"""What lists of models say about a model: what is known, and nothing that is only assumed."""

from __future__ import annotations

from typing import Any

from tests.each import each
from trilogue.model import Effort, Protocol
from trilogue.protocols.endpoint import ListedModel
from trilogue.protocols.registry import CODECS
from trilogue.vendors.profile_lookup import ModelFacts, facts_for

CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES


def test_a_model_that_the_table_knows() -> None:
    facts = facts_for(RESPONSES, "gpt-5.5", "openai", {})
    assert (facts.context_window, facts.output_limit, facts.reasons) == (1_050_000, 128_000, "default")
    assert facts.efforts == ("none", "low", "medium", "high", "xhigh")
    assert facts.modalities == ["text", "image"]


@each(
    ("protocol", "vendor", "model", "window"),
    [
        (CHAT, "openai", "gpt-4o-mini", 128_000),
        (CHAT, "openai", "gpt-5-mini", 400_000),
        (CHAT, "openai", "gpt-5.2-chat-latest", 128_000),
        (CHAT, "openai", "gpt-5.4-mini", None),
        (MESSAGES, "anthropic", "claude-sonnet-4-20250514", 200_000),
        (MESSAGES, "anthropic", "claude-sonnet-4-6", 1_000_000),
        (CHAT, "deepseek", "deepseek-v4-flash", 1_000_000),
        (CHAT, "none", "gpt-4o", None),
    ],
)
def test_context_windows(protocol: Protocol, vendor: str, model: str, window: int | None) -> None:
    """By vendor: another server may give the same weights less."""
    assert facts_for(protocol, model, vendor, {}).context_window == window


def test_nothing_is_made_up() -> None:
    """The common core assumes effort levels for every model, which says nothing about this one."""
    assert facts_for(CHAT, "some-model", "none", {}) == ModelFacts()


def test_settings_of_the_provider_count() -> None:
    settings: dict[str, Any] = {"context_window": 8192, "efforts": (Effort.LOW,), "images": False}
    facts = facts_for(CHAT, "some-model", "none", settings)
    assert (facts.context_window, facts.efforts, facts.modalities) == (8192, ("low",), ["text"])


FACTS = ModelFacts(context_window=1000, output_limit=100, reasons="asked", efforts=("low", "high"), images=False)
SHOWN = {"input_modalities": ["text"], "reasoning": "asked", "reasoning_efforts": ["low", "high"]}


def test_both_forms_of_the_list() -> None:
    """Limits have the names that clients of each protocol know."""
    model = ListedModel("m", "p", facts=FACTS)
    openai, anthropic = (CODECS[one].endpoint.models.encode_one(model) for one in (CHAT, MESSAGES))
    assert openai.items() >= {**SHOWN, "context_length": 1000, "max_output_tokens": 100}.items()
    assert anthropic.items() >= {**SHOWN, "max_input_tokens": 1000, "max_tokens": 100}.items()
    plain = CODECS[CHAT].endpoint.models.encode_one(ListedModel("m", "p"))
    assert plain == {"id": "m", "object": "model", "created": 0, "owned_by": "p"}


@each("name", ["max_input_tokens", "context_length", "max_model_len", "context_window", "max_context_length"])
def test_the_upstream_knows_better(name: str) -> None:
    """Under any of the usual names, also for clients of another protocol."""
    model = ListedModel("m", "p", CHAT, {"id": "m", name: 32_768, "max_output_tokens": 7}, facts=FACTS)
    assert CODECS[MESSAGES].endpoint.models.encode_one(model)["max_input_tokens"] == 32_768
    assert CODECS[CHAT].endpoint.models.encode_one(model)["max_output_tokens"] == 7
