"""The gateway sends nothing that the model refuses, according to rules that were written independently of the
encoders."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.each import sampled
from tests.vendors.client_draw import Protocol
from tests.vendors.client_requests import PROTOCOLS, client_requests, single_settings
from tests.vendors.everyday import EVERYDAY
from tests.vendors.judge import COMBINATIONS, refusals
from trilogue import ClientError, Target, translate_request
from trilogue.protocols.messages.request import extra_headers

GENERATED = 60
"""requests with several settings, per client protocol and model; single settings are tried on every model"""


@cache
def bodies(client: Protocol) -> list[tuple[str, dict[str, Any]]]:
    """Return the requests of one client protocol, by name."""
    generated = enumerate(client_requests(client, 7, GENERATED))
    return [*single_settings(client), *((f"generated {number}", body) for number, body in generated)]


def sent(client: str, body: dict[str, Any], target: Target) -> tuple[dict[str, Any], dict[str, str]] | None:
    """Return body and headers as they are sent, or None if the gateway refuses the request with a reason."""
    try:
        wire = translate_request({**body, "model": target.model}, source=client, target=target).body
    except ClientError:
        return None
    if target.protocol.short != "messages":
        return wire, {}
    return wire, {"anthropic-version": target.profile.version, **extra_headers(wire)}


def judged(vendor: str, target: Target, client: str, name: str, body: dict[str, Any]) -> list[str]:
    """Return why the vendor would refuse what is sent."""
    out = sent(client, body, target)
    if out is None:
        return []
    found = refusals(vendor, target.protocol.short, target.model, *out)
    return [f"{client} {name}: {reason}" for reason in found]


@pytest.mark.slow
@pytest.mark.parametrize(("vendor", "protocol", "model"), sampled(COMBINATIONS, 6))
def test_no_setting_of_a_client_is_sent_and_refused(vendor: str, protocol: str, model: str) -> None:
    """Every setting of the two other protocols, alone and with others, is accepted or refused with a reason."""
    target = Target.of(protocol, model, vendor=vendor)
    others = [client for client in PROTOCOLS if client != protocol]
    assert [
        reason
        for client in others
        for name, body in bodies(client)
        for reason in judged(vendor, target, client, name, body)
    ] == []


@pytest.mark.parametrize(("vendor", "protocol", "model"), COMBINATIONS)
def test_everyday_bodies_are_accepted(vendor: str, protocol: str, model: str) -> None:
    """Everyday requests of Claude Code, Codex, opencode, the SDKs and the AI SDK are accepted."""
    target = Target.of(protocol, model, vendor=vendor)
    everyday = {name: one for name, one in EVERYDAY.items() if one.protocol != protocol and not one.stateful}
    assert everyday
    assert [
        reason for name, one in everyday.items() for reason in judged(vendor, target, one.protocol, name, one.body)
    ] == []


@pytest.mark.parametrize(
    ("protocol", "model", "wanted"),
    [
        ("responses", "gpt-4o", "claude-code"),
        ("responses", "gpt-4.1", "claude-code"),
        ("chat", "gpt-5.6", "claude-code"),
        ("chat", "gpt-5.6", "codex"),
        ("chat", "mistral-large-latest", "claude-code"),
        ("messages", "claude-sonnet-5", "codex"),
        ("messages", "claude-sonnet-4-5", "codex"),
    ],
)
def test_agents_are_not_refused_by_us_either(protocol: str, model: str, wanted: str) -> None:
    """The gateway refuses only web searches, for models that cannot search."""
    target = Target.of(protocol, model)
    refused = {
        name
        for name, one in EVERYDAY.items()
        if name.startswith(wanted) and sent(one.protocol, one.body, target) is None
    }
    assert refused <= {"claude-code web search"}
