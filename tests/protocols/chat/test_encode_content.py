"""Content parts, there and back."""

from typing import Any

import pytest

from trilogue.errors import Unsupported
from trilogue.model import CacheMark, Document, Image, Ledger, Protocol, Source, SourceKind, Text
from trilogue.protocols.chat.content import decode_content, encode_block, encode_content
from trilogue.protocols.codec import EncodingContext
from trilogue.vendors.profile import Profile

NATIVE = EncodingContext(Protocol.CHAT, Profile(), Ledger(), native=True)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": ""},
        {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}},
        {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "new"}, "x": 1},
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "high", "x": 1}},
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml,<svg/>"}},
        {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "mp3", "x": 1}},
        {"type": "input_audio", "input_audio": "QQ=="},
        {"type": "file", "file": {"file_data": "QQ==", "filename": "a.bin"}},
        {"type": "file", "file": {"file_data": "https://example.org/a.pdf"}},
        {"type": "file", "file": {"file_id": "file-1", "x": 1}},
        {"type": "refusal", "refusal": "no"},
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True},
        {"type": "unheard_of", "x": [1]},
    ],
)
def test_part_round_trip(part: dict[str, Any]) -> None:
    """Written back in its own protocol, every part is what it was."""
    blocks = decode_content([part], "p")
    assert encode_content(blocks, False, NATIVE) == [part]
    assert blocks[0].path == "p[0]"


@pytest.mark.parametrize(
    ("ttl", "name", "losses"), [(None, None, 0), (1800, "30m", 0), (300, "30m", 1), (86_400, "12h", 1)]
)
def test_lifetimes(ttl: int | None, name: str | None, losses: int) -> None:
    """The nearest of the two that Chat has."""
    out = EncodingContext(Protocol.MESSAGES, Profile(), Ledger(), native=False)
    part = encode_block(Text(text="a", cache=CacheMark(ttl), path="p"), out)[0]
    assert part["prompt_cache_breakpoint"].get("ttl") == name
    assert len(out.ledger.losses) == losses


@pytest.mark.parametrize(
    "block",
    [
        Image(source=Source(SourceKind.FILE_ID, "file-1"), path="p"),
        Document(source=Source(SourceKind.FILE_ID, "file_1"), path="p"),
    ],
)
def test_file_ids_of_another_provider(block: Image | Document) -> None:
    """They mean nothing to OpenAI."""
    with pytest.raises(Unsupported):
        encode_block(block, EncodingContext(Protocol.MESSAGES, Profile(), Ledger(), native=False))
