"""Every recorded request, for upstreams of the other two protocols: newest models and older ones."""

import re

import pytest

from tests.corpus import load
from tests.corpus.cases import NEWEST, OLDER, judge_request, others
from tests.each import each
from trilogue import Protocol

PAIRS = [
    pytest.param(name, target, id=f"{name}-{target.short}")
    for name in load.requests()
    for target in others(load.load(name).protocol)
]
JUSTIFIED = (
    r"(messages|input).*: .*(sound|video)",
    r"(messages|input).*: .*(file id|file is kept|file that another|must be a link or data|as data, not as a link|PDF)",
    r"(messages|input|turns).*: .*(continue an assistant|begun for the model)",
    r"(messages|input).*: .*(history would be lost|earlier response left|its content would be lost)",
    r"to \w+: (modalities|n|background|conversation|previous_response_id|prompt|truncation|container): ",
    r"to messages: (logprobs|moderation): ",
    r"to \w+: logprobs: the model gives no token probabilities",
    r"tools.*: .*has no tool (file_search|image_generation|computer)",
    r"to chat: tools.*: .*has no tool web_fetch",
    r"to chat: (tools|mcp_servers).*: .*(no web search|has no tool (mcp|code_execution|code_interpreter))",
    r"to messages: tools.*: .*(require_approval|URL and a label)",
)
"""What has no equivalent: other media, what a provider keeps, tools that only it has, and several answers at once."""
POPULAR = ("claude-agent-sdk", "claude-code", "chatgpt-codex")


@each(("name", "target"), PAIRS)
@pytest.mark.parametrize("models", [NEWEST, OLDER], ids=["newest", "older"])
def test_recorded_request(name: str, target: Protocol, models: dict[Protocol, str]) -> None:
    """Accepted by the SDK's types and nothing lost that was not declared, or refused with a reason."""
    assert judge_request(load.load(name), target, models[target]).problems == []


def refusals(name: str) -> list[str]:
    """Why a request that its provider accepted is refused, per target."""
    recording = load.load(name)
    verdicts = [(t, judge_request(recording, t, NEWEST[t])) for t in others(recording.protocol)]
    return [f"to {target.short}: {verdict.refused}" for target, verdict in verdicts if verdict.refused]


@each("name", [name for name in load.requests() if load.load(name).status == 200])
def test_refusals_are_justified(name: str) -> None:
    """Only what has no equivalent at all may be refused."""
    assert [reason for reason in refusals(name) if not any(re.search(row, reason) for row in JUSTIFIED)] == []


@each("name", [name for name in load.requests() if any(client in name for client in POPULAR)])
def test_popular_clients_are_never_refused(name: str) -> None:
    """Whatever Claude Code and Codex send by default goes through."""
    assert refusals(name) == []
