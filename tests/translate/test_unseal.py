"""Sealed values never reach an upstream of the client's own protocol."""

from typing import Any

import pytest

import trilogue
from trilogue import Protocol
from trilogue.model import SEAL_PREFIXES, Ledger, Opaque, OpaqueKind, Provenance
from trilogue.translate.reasoning.removal import without_sealed
from trilogue.translate.reasoning.seal import Sealer

SEALED = "trl2.AAAA"
THINKING = {"type": "thinking", "thinking": "t", "signature": SEALED}
OWN = {"type": "thinking", "thinking": "o", "signature": "theirs"}
TEXT = {"type": "text", "text": "Hi"}
CALL = {"type": "tool_use", "id": "1", "name": "f", "input": {}}
USER = {"role": "user", "content": "Hi"}
CITED = {"type": "web_search_result_location", "url": "u", "title": "t", "cited_text": ""}
FOUND = {"type": "web_search_result", "url": "u", "title": "t"}


ANOTHERS = Sealer([bytes(32)]).seal(
    Opaque(kind=OpaqueKind.SIGNATURE, value="theirs"), Provenance(protocol=Protocol.MESSAGES)
)


def said(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def clean(protocol: Protocol, body: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    ledger = Ledger()
    cleaned = without_sealed(body, protocol, ledger)
    assert not any(prefix in str(cleaned) for prefix in SEAL_PREFIXES)
    return cleaned, [str(loss) for loss in ledger.losses]


def test_what_earlier_versions_sealed_is_removed_too() -> None:
    """A conversation may be older than this version of the gateway."""
    earlier = {**THINKING, "signature": "trl1.AAAA"}
    cleaned, losses = clean(Protocol.MESSAGES, {"messages": [USER, said(earlier, TEXT), USER]})
    assert cleaned["messages"][1] == said(TEXT)
    assert len(losses) == 1


@pytest.mark.parametrize(
    ("given", "kept", "losses"),
    [
        (said(THINKING, TEXT), said(TEXT), ["reasoning.foreign_dropped at messages[1].content[0]"]),
        (
            said({"type": "redacted_thinking", "data": SEALED}, OWN, CALL),
            said(OWN, CALL),
            ["reasoning.foreign_dropped at messages[1].content[0]"],
        ),
        (
            said({**TEXT, "citations": [{**CITED, "encrypted_index": SEALED}]}),
            said(TEXT),
            ["citation.dropped at messages[1].content[0]"],
        ),
        (
            said(
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "s",
                    "content": [{**FOUND, "encrypted_content": SEALED}],
                },
                TEXT,
            ),
            said({"type": "text", "text": "[web_search: {}]"}, {"type": "text", "text": "[found: t u]"}, TEXT),
            ["hosted.history_as_text at messages[1].content[0]", "web_search.replay at messages[1].content[1]"],
        ),
    ],
)
def test_messages(given: dict[str, Any], kept: dict[str, Any], losses: list[str]) -> None:
    """Thinking, search results and citations of other providers go, the rest stays."""
    assert clean(Protocol.MESSAGES, {"messages": [USER, given, USER]}) == ({"messages": [USER, kept, USER]}, losses)


def test_a_search_that_found_nothing_elsewhere() -> None:
    """Nothing in it is sealed; the id tells that Anthropic did not run it."""
    call = {"type": "server_tool_use", "name": "web_search", "input": {"query": "cats"}}
    result: dict[str, Any] = {"type": "web_search_tool_result", "content": []}
    ours = said({**call, "id": "srvtoolu_trl1"}, {**result, "tool_use_id": "srvtoolu_trl1"}, TEXT)
    cleaned, losses = clean(Protocol.MESSAGES, {"messages": [USER, ours, USER]})
    told = [block["text"] for block in cleaned["messages"][1]["content"]]
    assert told == ['[web_search: {"query":"cats"}]', "[web_search result: none]", "Hi"]
    assert [loss.split()[0] for loss in losses] == ["hosted.history_as_text"] * 2
    theirs = {"messages": [USER, said({**call, "id": "srvtoolu_1"}, {**result, "tool_use_id": "srvtoolu_1"}), USER]}
    assert without_sealed(theirs, Protocol.MESSAGES, Ledger()) is theirs


def test_turn_of_which_nothing_is_left() -> None:
    """The API takes no empty content, but two turns of one role."""
    cleaned, _ = clean(Protocol.MESSAGES, {"messages": [USER, said(THINKING), USER]})
    assert cleaned == {"messages": [USER, USER]}


@pytest.mark.parametrize(("mode", "stays"), [("enabled", False), ("adaptive", True)])
def test_thinking_with_a_budget_is_off_in_mid_loop(mode: str, stays: bool) -> None:
    """The API wants it at the beginning of the turn whose calls are answered."""
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]}
    body = {"messages": [USER, said(THINKING, CALL), result], "thinking": {"type": mode}}
    cleaned, losses = clean(Protocol.MESSAGES, body)
    assert ("thinking" in cleaned) is stays
    assert ("thinking.replay_missing at thinking" in losses) is not stays
    going_on = {**body, "messages": [USER, said(THINKING, CALL), result, said(OWN, CALL), result]}
    assert ("thinking" in clean(Protocol.MESSAGES, going_on)[0]) is stays
    begun = {**body, "messages": [USER, said(OWN, CALL), result, said(THINKING, CALL), result]}
    assert "thinking" in clean(Protocol.MESSAGES, begun)[0]
    mixed = {**body, "messages": [USER, said(THINKING, OWN, CALL), result]}
    assert "thinking" in clean(Protocol.MESSAGES, mixed)[0]


def test_responses() -> None:
    """Reasoning items of other providers go, OpenAI's own stay."""
    own = {"type": "reasoning", "summary": [], "encrypted_content": "theirs"}
    body = {"input": [own, {**own, "encrypted_content": SEALED}]}
    assert clean(Protocol.RESPONSES, body) == ({"input": [own]}, ["reasoning.foreign_dropped at input[1]"])


@pytest.mark.parametrize("words", [{"content": [{"type": "reasoning_text", "text": "t"}]}, {}])
def test_reasoning_that_is_only_words(words: dict[str, Any]) -> None:
    """After a turn on a Chat upstream: OpenAI refuses it, so that it goes, alone; its own reasoning stays."""
    said = {"type": "reasoning", "id": f"rs_{'a' * 24}", "summary": [{"type": "summary_text", "text": "s"}], **words}
    own = {"type": "reasoning", "id": f"rs_{'a' * 50}", "summary": [], "encrypted_content": "theirs"}
    kept = {**own, "encrypted_content": None}
    body = {"model": "gpt-5.6", "input": [USER, said, own, kept, USER]}
    up = trilogue.translate_request(body, source=Protocol.RESPONSES, target=Protocol.RESPONSES)
    assert up.body["input"] == [USER, own, kept, USER]
    assert [str(loss) for loss in up.losses] == ["reasoning.foreign_dropped at input[1]"]
    assert without_sealed(body, Protocol.RESPONSES, Ledger()) is body


def test_chat() -> None:
    """Only the details go: the words of reasoning are for whoever wants them."""
    own = {"type": "reasoning.text", "text": "t"}
    message = {"role": "assistant", "content": "Hi", "reasoning_content": "r"}
    mixed = {**message, "reasoning_details": [{"type": "reasoning.encrypted", "data": SEALED}, own]}
    alone = {**message, "reasoning_details": [{"type": "reasoning.encrypted", "data": SEALED}]}
    cleaned, losses = clean(Protocol.CHAT, {"messages": [mixed, alone]})
    assert cleaned == {"messages": [{**message, "reasoning_details": [own]}, message]}
    assert [loss.split()[0] for loss in losses] == ["reasoning.foreign_dropped"] * 2


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        (Protocol.MESSAGES, {"messages": [USER, said(OWN, TEXT), "odd", {"content": ["odd"]}]}),
        (Protocol.MESSAGES, {"messages": "odd"}),
        (Protocol.RESPONSES, {"input": "text"}),
        (Protocol.RESPONSES, {"input": [{"type": "reasoning", "encrypted_content": None}, 5]}),
        (Protocol.CHAT, {"messages": [{"role": "user", "reasoning_details": "odd"}, None]}),
        (Protocol.CHAT, {}),
    ],
)
def test_others_stay_the_very_same(protocol: Protocol, body: dict[str, Any]) -> None:
    """What holds no such value is not even copied."""
    assert without_sealed(body, protocol, Ledger()) is body


def test_translation_to_the_same_protocol() -> None:
    """The library does it, too; strict mode refuses it."""
    body = {"model": "m", "max_tokens": 9, "messages": [USER, said(THINKING, TEXT), USER]}
    up = trilogue.translate_request(body, source=Protocol.MESSAGES, target=Protocol.MESSAGES)
    assert up.body["messages"] == [USER, said(TEXT), USER]
    assert [loss.code for loss in up.losses] == ["reasoning.foreign_dropped"]
    with pytest.raises(trilogue.StrictLoss):
        trilogue.translate_request(body, source=Protocol.MESSAGES, target=Protocol.MESSAGES, strict=True)


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        (Protocol.MESSAGES, {"messages": [USER, said({**THINKING, "signature": ANOTHERS}, CALL)]}),
        (Protocol.RESPONSES, {"input": [{"type": "reasoning", "summary": [], "encrypted_content": ANOTHERS}]}),
        (Protocol.CHAT, {"messages": [{"role": "assistant", "reasoning_details": [{"data": ANOTHERS}]}]}),
    ],
)
def test_what_another_gateway_has_sealed_goes_back_to_it(protocol: Protocol, body: dict[str, Any]) -> None:
    """It came from the upstream, which is such a gateway. Ours goes all the same, and without a key nobody can tell."""
    ours, ledger = Sealer([bytes(31) + b"o"]), Ledger()
    assert without_sealed(body, protocol, ledger, ours) is body
    assert ledger.losses == []
    assert without_sealed(body, protocol, ledger, Sealer([bytes(32)])) is not body
    assert without_sealed(body, protocol, ledger) is not body
