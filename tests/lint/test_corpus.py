"""Recorded traffic of the official APIs breaks no protocol rule, with known exceptions."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.recordings import recordings
from trilogue.base.sse import SseEvent
from trilogue.lint import Finding, lint_error, lint_request, lint_response, lint_stream
from trilogue.model import Protocol

OFFICIAL = {
    "chat": (Protocol.CHAT, "openai"),
    "msgs": (Protocol.MESSAGES, "anthropic"),
    "resp": (Protocol.RESPONSES, "openai"),
}
ENDPOINTS = ("chat.completions", "messages", "messages.count_tokens", "responses", "responses.input_tokens")

AUDIO = {"B05", "B09", "B13", "B16", "B30", "B31"}
KNOWN: dict[str, set[str]] = {
    # gpt-audio: chunks without choices, a second role, no finish_reason, a chunk after usage.
    "chat-s-openai-openai-dotnet-chattests-chatwithbasicaudiooutput": AUDIO,
    # A preview model of 2023 that sent finish_details instead.
    "chat-n-openai-dd-trace-py-v1-chat-completion-image-input": {"B56"},
    # Recorded before sequence numbers existed.
    "resp-s-openai-dd-trace-py-v1-response-tools-stream": {"D03"},
    "resp-s-openai-weave-openai-test-test-openai-responses-tool-calling": {"D03"},
    # Fixtures that were shortened by hand.
    "msgs-s-anthropic-anthropic-sdk-fixtures-incomplete-partial-json-response": {"C11"},
    "resp-s-openai-ai-fixtures-openai-shell-container-1-chunks": {"D24"},
}


def is_official(recording: dict[str, Any], vendor: str) -> bool:
    is_real = not {"synthetic", "reserialized"} & set(recording["tags"])
    return recording["vendor"] == vendor and recording["status"] == 200 and is_real


def load(path: Path) -> tuple[Protocol, dict[str, Any]] | None:
    protocol, vendor = OFFICIAL[path.name[:4]]
    recording: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return (protocol, recording) if is_official(recording, vendor) and recording["endpoint"] in ENDPOINTS else None


def events_of(recording: dict[str, Any]) -> list[SseEvent]:
    """Return the events of a recording. Some recorders keep only the payloads, without `event:` lines."""
    events = []
    for entry in recording["sse"]:
        data = entry["data"]
        name = entry["event"] or (data.get("type", "") if isinstance(data, dict) else "")
        events.append(SseEvent(name, (data if isinstance(data, str) else json.dumps(data)).encode()))
    return events


def findings_of(protocol: Protocol, recording: dict[str, Any]) -> list[Finding]:
    request = recording["request"] if isinstance(recording["request"], dict) else None
    if recording["sse"]:
        raw = recording["raw_sse"]
        data = raw.encode() if raw else events_of(recording)
        return lint_stream(protocol, data, request=request, own=False)
    return lint_response(protocol, recording["response"], request=request, own=False)


def expected(name: str) -> set[str]:
    return next((rules for prefix, rules in KNOWN.items() if name.startswith(prefix)), set())


@pytest.mark.usefixtures("corpus")
@pytest.mark.parametrize("kind", list(OFFICIAL))
def test_official_responses_are_clean(kind: str) -> None:
    """A rule that real traffic of the official API breaks would be wrong."""
    loaded = {path.stem: found for path in recordings(f"{kind}-*.json") if (found := load(path))}
    assert len(loaded) > 50
    broken = {name: {finding.rule for finding in findings_of(*found)} for name, found in loaded.items()}
    assert {name: rules for name, rules in broken.items() if rules != expected(name)} == {}


@pytest.mark.usefixtures("corpus")
@pytest.mark.parametrize("kind", list(OFFICIAL))
def test_official_errors_are_clean(kind: str) -> None:
    """Recorded errors of the API break no rule either."""
    protocol, vendor = OFFICIAL[kind]
    bodies = {}
    for path in recordings(f"{kind}-*.json"):
        recording = json.loads(path.read_text("utf-8"))
        if recording["vendor"] == vendor and (recording["status"] or 0) >= 400 and recording["response"]:
            bodies[path.stem] = lint_error(protocol, recording["response"], own=False)
    assert bodies
    assert {name: findings for name, findings in bodies.items() if findings} == {}


@pytest.mark.usefixtures("corpus")
@pytest.mark.parametrize("kind", list(OFFICIAL))
def test_accepted_requests_are_clean(kind: str) -> None:
    """The official API accepted these requests, so they may have notes but no errors."""
    broken = {}
    for path in recordings(f"{kind}-*.json"):
        found = load(path)
        if found and isinstance(found[1]["request"], dict) and "tokens" not in found[1]["endpoint"]:
            errors = [finding for finding in lint_request(found[0], found[1]["request"]) if finding.severity == "error"]
            broken[path.stem] = [str(finding) for finding in errors]
    assert len(broken) > 20
    assert {name: errors for name, errors in broken.items() if errors} == {}
