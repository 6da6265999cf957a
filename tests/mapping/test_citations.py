"""Citations and annotations (docs/mapping.md: Citations)."""

import pytest

import trilogue
from tests.mapping.cases import (
    ABSENT,
    USER,
    Answer,
    Ask,
    Body,
    answer,
    check_answer,
    check_ask,
    choice,
    like,
    message_item,
    one_of,
    output_text,
    pair,
    rows,
)

WEB = {
    "type": "web_search_result_location",
    "url": "https://cats.com",
    "title": "Cats",
    "cited_text": "cats purr",
    "encrypted_index": "INDEX==",
}
CHAR = {
    "type": "char_location",
    "cited_text": "x",
    "document_index": 0,
    "document_title": "Paper",
    "start_char_index": 0,
    "end_char_index": 1,
}
CITED = [{"type": "text", "text": "Só: "}, {"type": "text", "text": "cats purr", "citations": [WEB]}]
LINK = {"start_index": 4, "end_index": 13, "url": "https://cats.com", "title": "Cats"}
NATIVE = {"type": "url_citation", **LINK}
FILED = {"type": "file_citation", "file_id": "file_1", "filename": "a.txt", "index": 3}
PURR = output_text("Só: cats purr", annotations=[NATIVE])

ANSWERS = (
    Answer(
        "web",
        "M>C",
        {"content": CITED},
        {
            "choices[0].message.content": "Só: cats purr",
            "choices[0].message.annotations": [{"type": "url_citation", "url_citation": LINK}],
        },
        lost="citation.source_span",
        may="text.blocks_joined",
    ),
    Answer(
        "web",
        "M>R",
        {"content": CITED},
        {
            "output[0].content[0].text": "Só: ",
            "output[0].content[1].annotations": [{**NATIVE, "start_index": 0, "end_index": 9}],
        },
        lost="citation.source_span",
    ),
    *(
        Answer(
            "document",
            f"M>{p}",
            {"content": [{"type": "text", "text": "x", "citations": [CHAR]}]},
            {path: one_of([], ABSENT)},
            lost="citation.document",
        )
        for p, path in (("C", "choices[0].message.annotations"), ("R", "output[0].content[0].annotations"))
    ),
    Answer(
        "web",
        "R>M",
        {"output": [message_item(PURR)]},
        {
            "content[0].citations[0]": like(
                type="web_search_result_location",
                url="https://cats.com",
                title="Cats",
                cited_text="",
                encrypted_index=lambda value: value.startswith("trl2."),
            )
        },
        lost="citation.span",
    ),
    Answer(
        "web",
        "C>M",
        {"choices": choice(content="Só: cats purr", annotations=[{"type": "url_citation", "url_citation": LINK}])},
        {"content[0].citations[0]": like(type="web_search_result_location", url="https://cats.com", title="Cats")},
        lost="citation.span",
    ),
    Answer(
        "web",
        "C>R",
        {"choices": choice(content="Só: cats purr", annotations=[{"type": "url_citation", "url_citation": LINK}])},
        {"output[0].content[0].annotations": [NATIVE]},
    ),
    Answer(
        "web",
        "R>C",
        {"output": [message_item(PURR)]},
        {"choices[0].message.annotations": [{"type": "url_citation", "url_citation": LINK}]},
    ),
    *(
        Answer(
            "file",
            f"R>{p}",
            {"output": [message_item(output_text("x", annotations=[FILED]))]},
            {path: one_of([], ABSENT)},
            lost="citation.document",
        )
        for p, path in (("C", "choices[0].message.annotations"), ("M", "content[0].citations"))
    ),
)


@rows(ANSWERS)
def test_response_row(case: Answer) -> None:
    """A link keeps its place in the text; what a client cannot use is not sent."""
    check_answer(case)
    assert "INDEX==" not in str(case.run().body)


def history(protocol: str) -> Body:
    """A history with a citation of the provider."""
    if protocol == "M":
        return {"messages": [USER, {"role": "assistant", "content": CITED}, USER]}
    return {"input": [USER, message_item(PURR), USER]}


CASES = (
    Ask(
        "in the history",
        "M>C",
        history("M"),
        {"messages[1].content": lambda content: "INDEX==" not in str(content)},
        lost="citation.dropped",
        may="text.blocks_joined",
    ),
    Ask("in the history", "R>M", history("R"), {"messages[1].content[0].citations": ABSENT}, lost="citation.dropped"),
    Ask("in the history", "R>C", history("R"), lost="citation.dropped"),
    Ask(
        "in the history",
        "M>R",
        history("M"),
        {"input[1].content": lambda content: "INDEX==" not in str(content)},
        lost="citation.dropped",
        may="citation.source_span",
    ),
    Ask(
        "asked for",
        "M>R",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "document",
                            "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
                            "citations": {"enabled": True},
                        }
                    ],
                }
            ]
        },
        declared="messages[0].content[0].citations",
    ),
)


@rows(CASES)
def test_row(case: Ask) -> None:
    """Citations in a history are said to be gone."""
    check_ask(case)


UNKNOWN = {"relevance": 0.9, "nothing": None}
SAID: dict[str, Body] = {
    "M": {"content": [{"type": "text", "text": "cats purr", "citations": [{**WEB, **UNKNOWN}]}]},
    "C": {
        "choices": choice(
            content="cats purr", annotations=[{"type": "url_citation", "url_citation": {**LINK, **UNKNOWN}}]
        )
    },
    "R": {"output": [message_item(output_text("cats purr", annotations=[{**NATIVE, **UNKNOWN}]))]},
}
DIRECTIONS = [f"{source}>{target}" for source in SAID for target in SAID if source != target]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
def test_unknown_fields_of_a_link_are_declared(direction: str, streamed: bool) -> None:
    """With its place, as other fields are; a null says nothing."""
    source, target = pair(direction)
    body = answer(source, **SAID[direction[0]])
    if streamed:
        stream = trilogue.StreamTranslator(source=source, target=target)
        again = trilogue.StreamTranslator(source=source, target=source)
        stream.feed(again.whole(body))
        stream.close()
        losses = stream.losses
    else:
        losses = trilogue.translate_response(body, source=source, target=target).losses
    found = [loss.path for loss in losses if loss.code == "resp.meta"]
    assert len(found) == 1
    assert found[0].endswith(".citations.relevance")
    assert not found[0].startswith(".")
