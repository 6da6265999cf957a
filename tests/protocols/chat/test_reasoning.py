"""Reasoning beside the content."""

from typing import Any

import pytest

from trilogue.model import Opaque, OpaqueKind, Protocol, Reasoning
from trilogue.protocols.chat.reasoning import ReasoningWriter, details_of, merge_details, read_reasoning
from trilogue.protocols.stream.response_context import ResponseContext


def read(**fields: Any) -> list[Reasoning]:
    return read_reasoning(fields, "m")


def read_back(**fields: Any) -> list[Reasoning]:
    return read_reasoning(fields, "m", "as it came")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_plain_spellings(field: str) -> None:
    """Raw chain of thought, not a summary."""
    assert read(**{field: "hm"}) == [Reasoning(raw=("hm",), path="m")]


def test_summaries_are_summaries() -> None:
    """OpenRouter tells them apart."""
    details = [{"type": "reasoning.summary", "summary": "hm"}, {"type": "reasoning.encrypted", "data": "x"}]
    block = read(reasoning="hm", reasoning_details=details)[0]
    assert (block.summary, block.raw) == (("hm",), ())
    assert block.opaque is not None
    assert block.opaque.kind is OpaqueKind.ENCRYPTED
    assert details_of(block.opaque) == details


def test_thinking_blocks() -> None:
    """LiteLLM hands on those of Messages."""
    blocks = [{"type": "thinking", "thinking": "a", "signature": "s"}, {"type": "redacted_thinking", "data": "d"}]
    signed, redacted = read(reasoning_content="a", thinking_blocks=blocks)
    assert signed.opaque == Opaque(kind=OpaqueKind.SIGNATURE, value="s")
    assert redacted.opaque == Opaque(kind=OpaqueKind.REDACTED, value="d")


def test_nothing_to_read_stays_with_the_message() -> None:
    """DeepSeek's clients send an empty string, which must go back."""
    fields = {"reasoning_content": "", "reasoning_details": []}
    assert read_reasoning(fields, "m") == []
    assert fields == {"reasoning_content": "", "reasoning_details": []}


@pytest.mark.parametrize("span", [None, [0, 99], [2, 1], "x", [0.5, 1]])
def test_sealed_value_without_a_usable_span(span: Any) -> None:
    """A client that changed the words still gives the value back, with all of them."""
    entry = {"type": "reasoning.encrypted", "data": "trl1.x", "format": "trilogue", "span": span}
    block = read_back(reasoning_content="words", reasoning_details=[entry])[0]
    assert block.summary == ("words",)
    assert block.opaque is not None
    assert block.opaque.sealed


def test_words_without_a_value_stay_blocks_of_their_own() -> None:
    """Before, between and after the sealed ones."""
    entry = {"type": "reasoning.encrypted", "data": "trl1.x", "format": "trilogue", "span": [1, 2]}
    assert [block.raw + block.summary for block in read_back(reasoning="abc", reasoning_details=[entry])] == [
        ("a",),
        ("b",),
        ("c",),
    ]


def test_values_of_a_gateway_behind_this_one() -> None:
    """In an answer they are as opaque as any others, and go back whole."""
    entry = {"type": "reasoning.encrypted", "data": "trl1.x", "format": "trilogue", "span": [0, 1]}
    other = {**entry, "data": "trl1.y", "span": [3, 4]}
    blocks = read(reasoning_content="a\n\nb", reasoning_details=[entry, other])
    assert [block.raw for block in blocks] == [("a\n\nb",)]
    assert blocks[0].opaque is not None
    assert details_of(blocks[0].opaque) == [entry, other]


def test_merge_details() -> None:
    """Pieces of one entry follow each other."""
    merged: list[dict[str, Any]] = []
    merge_details(merged, [{"type": "t", "index": 0, "text": "a"}])
    merge_details(merged, [{"type": "t", "index": 0, "text": "b", "format": None}])
    merge_details(merged, [{"type": "e", "index": 0, "data": "x"}, {"type": "t", "index": 1, "text": "c"}])
    assert merged == [
        {"type": "t", "index": 0, "text": "ab"},
        {"type": "e", "index": 0, "data": "x"},
        {"type": "t", "index": 1, "text": "c"},
    ]


def test_writer_numbers_entries() -> None:
    """Accumulators of clients merge entries of the same index."""
    writer = ReasoningWriter(ResponseContext(source=Protocol.CHAT))
    value = '[{"type":"reasoning.summary","index":0},{"type":"reasoning.encrypted","data":"x","index":0}]'
    entries = writer.details(Opaque(kind=OpaqueKind.ENCRYPTED, value=value))
    assert [entry["index"] for entry in entries] == [0, 1]
