from base64 import b64encode
from typing import Any

import pytest

from tests.protocols.messages.wire_samples import encode, foreign, turn, user
from trilogue.errors import Unsupported
from trilogue.model import (
    Audio,
    Block,
    CacheMark,
    Citation,
    CitationKind,
    Document,
    Image,
    Native,
    Opaque,
    OpaqueKind,
    Reasoning,
    Refusal,
    Role,
    Source,
    SourceKind,
    Text,
    ToolCall,
    ToolResult,
)


def written(*blocks: Block) -> tuple[Any, list[str]]:
    """What the user says, as content blocks."""
    body, losses = encode(foreign(turn(Role.USER, *blocks)))
    return body["messages"][0]["content"], losses


def said(*blocks: Block) -> tuple[Any, list[str]]:
    """What the assistant said earlier, as content blocks."""
    body, losses = encode(foreign(user(), turn(Role.ASSISTANT, *blocks), user("go on")))
    return body["messages"][1]["content"], losses


def image(kind: SourceKind, value: str, media_type: str | None = None, **fields: Any) -> Image:
    return Image(source=Source(kind, value, media_type), path="p", **fields)


def test_images() -> None:
    """Links and the four formats; a resolution hint is lost, but not its default."""
    content, losses = written(
        image(SourceKind.URL, "https://a", detail="auto"),
        image(SourceKind.DATA, "AA==", "image/webp", detail="high"),
    )
    assert content == [
        {"type": "image", "source": {"type": "url", "url": "https://a"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/webp", "data": "AA=="}},
    ]
    assert losses == ["image.detail"]


@pytest.mark.parametrize(
    "block",
    [
        image(SourceKind.DATA, "AA==", "image/tiff"),
        image(SourceKind.FILE_ID, "file-1"),
        Document(source=Source(SourceKind.FILE_ID, "file-1"), path="p"),
        Document(source=Source(SourceKind.DATA, "AA==", "application/zip"), path="p"),
        Document(source=Source(SourceKind.DATA, "not base64!", "text/plain"), path="p"),
        Audio(source=Source(SourceKind.DATA, "AA=="), path="p"),
    ],
)
def test_media_that_are_not_taken(block: Block) -> None:
    """The user relies on the model seeing them."""
    with pytest.raises(Unsupported):
        written(block)


def test_documents() -> None:
    """PDFs, also where their type is not said; texts; links."""
    pdf = b64encode(b"%PDF-1.4").decode()
    content, losses = written(
        Document(source=Source(SourceKind.DATA, pdf, "application/pdf"), title="a.pdf"),
        Document(source=Source(SourceKind.DATA, pdf)),
        Document(source=Source(SourceKind.DATA, b64encode("é".encode()).decode(), "text/csv"), title="a.csv"),
        Document(source=Source(SourceKind.URL, "https://a", "application/pdf")),
        Document(source=Source(SourceKind.TEXT, "words")),
    )
    sources = [block["source"] for block in content]
    assert sources == [
        {"type": "base64", "media_type": "application/pdf", "data": pdf},
        {"type": "base64", "media_type": "application/pdf", "data": pdf},
        {"type": "text", "media_type": "text/plain", "data": "é"},
        {"type": "url", "url": "https://a"},
        {"type": "text", "media_type": "text/plain", "data": "words"},
    ]
    assert [block.get("title") for block in content] == ["a.pdf", None, "a.csv", None, None]
    assert not losses


def test_white_space_alone_is_skipped() -> None:
    """The API refuses it, and Chat servers like to write line breaks before a call."""
    content, losses = written(Text(text="\n\n"), Text(text=" x "), Text(text="\t"))
    assert content == [{"type": "text", "text": " x "}]
    assert losses == []


def test_empty_text_is_skipped_with_its_mark() -> None:
    """The API refuses empty blocks."""
    content, losses = written(Text(text="", cache=CacheMark(), path="p"), Text(text="x"))
    assert content == [{"type": "text", "text": "x"}]
    assert losses == ["cache.mark"]


def test_reasoning_comes_back_only_to_its_maker() -> None:
    """Translation has opened what fits; everything else is foreign."""
    signed = Reasoning(summary=("a", "b"), opaque=Opaque(kind=OpaqueKind.SIGNATURE, value="S"))
    empty = Reasoning(opaque=Opaque(kind=OpaqueKind.SIGNATURE, value="T"))
    redacted = Reasoning(opaque=Opaque(kind=OpaqueKind.REDACTED, value="R"))
    foreign_one = Reasoning(raw=("c",), path="q")
    content, losses = said(signed, empty, redacted, foreign_one, Text(text="x"))
    assert content == [
        {"type": "thinking", "thinking": "a\n\nb", "signature": "S"},
        {"type": "thinking", "thinking": "", "signature": "T"},
        {"type": "redacted_thinking", "data": "R"},
        {"type": "text", "text": "x"},
    ]
    assert losses == ["reasoning.foreign_dropped"]


@pytest.mark.parametrize(
    ("arguments", "expected", "losses"),
    [
        ('{"a": 1}', {"a": 1}, []),
        ("", {}, []),
        ("  ", {}, []),
        ('{"a": ', {"_raw": '{"a": '}, ["arguments.invalid_json"]),
        ("[1]", {"_raw": "[1]"}, ["arguments.invalid_json"]),
    ],
)
def test_arguments_become_an_object(arguments: str, expected: Any, losses: list[str]) -> None:
    """The API takes nothing else; nothing that the model wrote is lost."""
    content, lost = said(ToolCall(id="c", name="f", arguments=arguments, path="p"))
    assert content[0]["input"] == expected
    assert lost == losses


def test_call_ids_are_made_legal_on_both_sides() -> None:
    """A call and its result must still find each other."""
    call = ToolCall(id="functions.f:0", name="f", arguments="{}")
    result = ToolResult(call_id="functions.f:0", content=(Text(text="r"),), plain=True)
    body, _ = encode(foreign(user(), turn(Role.ASSISTANT, call), turn(Role.TOOL, result)))
    call_id = body["messages"][1]["content"][0]["id"]
    assert body["messages"][2]["content"][0]["tool_use_id"] == call_id
    assert call_id.replace("_", "").replace("-", "").isalnum()


def test_tool_results() -> None:
    """Strings stay strings, pictures stay inside, and an incomplete result is an error."""
    body, losses = encode(
        foreign(
            user(),
            turn(Role.ASSISTANT, *(ToolCall(id=name, name="f", arguments="{}") for name in "abc")),
            turn(
                Role.TOOL,
                ToolResult(call_id="a", content=(Text(text="r"),), plain=True),
                ToolResult(call_id="b", content=(Text(text=""), image(SourceKind.URL, "u")), status="incomplete"),
                ToolResult(call_id="c"),
            ),
        )
    )
    assert body["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "r"},
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "content": [{"type": "image", "source": {"type": "url", "url": "u"}}],
            "is_error": True,
        },
        {"type": "tool_result", "tool_use_id": "c"},
    ]
    assert not losses


def test_words_of_refusal_stay_words_and_links_are_lost() -> None:
    """History of other protocols holds both."""
    link = Citation(kind=CitationKind.WEB, native={}, url="u")
    content, losses = said(Refusal(text="no"), Text(text="see", citations=(link,), path="p"))
    assert content == [{"type": "text", "text": "no"}, {"type": "text", "text": "see"}]
    assert losses == ["citation.dropped"]


def test_natives_of_other_protocols_are_said_in_words() -> None:
    """Only those in tool results get here: the model learns that there was one, and the loss is declared."""
    content, losses = written(Text(text="x"), Native(type="input_video", data={}, path="p"))
    assert content == [{"type": "text", "text": "x"}, {"type": "text", "text": "[input_video]"}]
    assert losses == ["tool_result.part"]
