"""Claude Code's billing block is left out unless the profile keeps it, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest

import trilogue
from trilogue import Protocol, Target
from trilogue.translate.content.billing import strip_billing
from trilogue.vendors.profile import Profile

LINE = "x-anthropic-billing-header: cc_version=2.1.325.abc; cc_entrypoint=cli; cch=0f1e2;"
BLOCK = {"type": "text", "text": LINE}
PROMPT = {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}}

PROMPTS: dict[str, tuple[Any, Any, str]] = {
    "block": ([BLOCK, PROMPT], [PROMPT], "system[0]"),
    "alone": ([BLOCK], None, "system[0]"),
    "first line": (
        [{"type": "text", "text": f"{LINE}\nBe kind."}],
        [{"type": "text", "text": "Be kind."}],
        "system[0]",
    ),
    "text": (f"{LINE}\n\nBe kind.", "Be kind.", "system"),
    "text alone": (LINE, None, "system"),
    "not the first block": ([PROMPT, BLOCK], [PROMPT], "system[1]"),
    "after a line break": (f"\n{LINE}\n\nBe kind.", "Be kind.", "system"),
    "more fields": (
        [{"type": "text", "text": f"{LINE} cc_agent=a1b2; cc_workload=cron;"}, PROMPT],
        [PROMPT],
        "system[0]",
    ),
}
OTHERS: dict[str, Any] = {
    "none": None,
    "text": "Be kind.",
    "quoted": f"Explain: {LINE}",
    "empty": [],
    "no prompt": {"text": LINE},
    "no text": [{"type": "text", "note": LINE}],
    "odd": [7, LINE],
}


def body(system: Any) -> dict[str, Any]:
    asked = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]}
    return asked if system is None else {**asked, "system": system}


@pytest.mark.parametrize("case", PROMPTS)
def test_bytes(case: str) -> None:
    """Where nothing is translated, every other value stays as it is written."""
    system, left, path = PROMPTS[case]
    data = json.dumps(body(system), separators=(",", ":")).replace('"max_tokens":10', '"max_tokens":1.0e1').encode()
    stripped, losses = strip_billing(data)
    assert b"1.0e1" in stripped
    assert json.loads(stripped) == body(left)
    assert [(loss.code, loss.path) for loss in losses] == [("system.billing_block", path)]


@pytest.mark.parametrize("case", OTHERS)
def test_others_stay(case: str) -> None:
    """What is not that line, byte for byte."""
    data = json.dumps(body(OTHERS[case])).encode()
    assert strip_billing(data) == (data, [])


@pytest.mark.parametrize("target", [Protocol.CHAT, Protocol.RESPONSES], ids=lambda protocol: protocol.short)
@pytest.mark.parametrize("case", PROMPTS)
def test_translated(case: str, target: Protocol) -> None:
    """The same prompt as without it, unless someone wants to keep it."""
    system, left, path = PROMPTS[case]
    kept = Target(protocol=target, model="m", profile=Profile(billing_block=True))
    without = Target(protocol=target, model="m", profile=Profile())
    translated = trilogue.translate_request(body(system), source=Protocol.MESSAGES, target=without)
    plain = trilogue.translate_request(body(left), source=Protocol.MESSAGES, target=kept)
    assert translated.body == plain.body
    assert ("system.billing_block", path) in [(loss.code, loss.path) for loss in translated.losses]
    assert LINE in json.dumps(trilogue.translate_request(body(system), source=Protocol.MESSAGES, target=kept).body)
