"""Refusals (docs/mapping.md: Refusals)."""

from tests.mapping.cases import (
    ABSENT,
    USER,
    Answer,
    Ask,
    check_answer,
    check_ask,
    choice,
    like,
    message_item,
    rows,
    texts,
)

NO = {"type": "refusal", "refusal": "I will not."}
CLASSIFIED = {
    "stop_reason": "refusal",
    "content": [{"type": "text", "text": "Well"}],
    "stop_details": {"type": "refusal", "category": "bio", "explanation": "Too risky."},
}
DETAILS = {"type": "refusal", "category": None, "explanation": None}
ANSWERS = (
    Answer(
        "the model's words",
        "C>R",
        {"choices": choice(refusal="I will not.")},
        {"output[0].content[0]": like(type="refusal", refusal="I will not."), "status": "completed"},
    ),
    Answer(
        "the model's words",
        "R>C",
        {"output": [message_item(NO)]},
        {
            "choices[0].message": like(content=ABSENT, refusal="I will not."),
            "choices[0].finish_reason": "stop",
        },
    ),
    *(
        Answer(
            "the model's words",
            f"{p}>M",
            fields,
            {
                "content": [{"type": "text", "text": "I will not."}],
                "stop_reason": "refusal",
                "stop_details": DETAILS,
            },
        )
        for p, fields in (("C", {"choices": choice(refusal="I will not.")}), ("R", {"output": [message_item(NO)]}))
    ),
    Answer(
        "a classifier",
        "M>C",
        CLASSIFIED,
        {"choices[0].finish_reason": "content_filter", "choices[0].message.content": "Well"},
        "refusal.category",
    ),
    Answer(
        "a classifier",
        "M>R",
        CLASSIFIED,
        {
            "status": "incomplete",
            "incomplete_details": {"reason": "content_filter"},
            "output[0].content[0].text": "Well",
        },
        "refusal.category",
    ),
    Answer(
        "a classifier's words after text",
        "M>R",
        {**CLASSIFIED, "stop_details": {"type": "refusal", "category": None, "explanation": "Too risky."}},
        {"status": "incomplete", "output[0].content[0].text": "Well"},
        "refusal.category",
    ),
    Answer(
        "partial text",
        "C>M",
        {"choices": choice("content_filter", content="Well")},
        {"content[0].text": "Well", "stop_reason": "refusal", "stop_details": DETAILS},
    ),
)


@rows(ANSWERS)
def test_response_row(case: Answer) -> None:
    """A refusal of the model and one of a classifier are two things."""
    check_answer(case)


CASES = (
    Ask(
        "in the history",
        "C>R",
        {"messages": [USER, {"role": "assistant", "content": [NO]}, USER]},
        {"input[1].content[0]": like(type="refusal", refusal="I will not.")},
    ),
    Ask(
        "in the history as a field",
        "C>R",
        {"messages": [USER, {"role": "assistant", "content": None, "refusal": "I will not."}, USER]},
        {"input[1].content[0]": like(type="refusal", refusal="I will not.")},
    ),
    Ask(
        "in the history",
        "R>C",
        {"input": [USER, message_item(NO), USER]},
        {
            "messages[1]": lambda turn: (
                "I will not." in (turn.get("refusal"), (turn.get("content") or [{}])[0].get("refusal"))
            )
        },
    ),
    *(
        Ask(
            "in the history",
            f"{p}>M",
            fields,
            {"messages[1]": like(role="assistant", content=texts("I will not."))},
            may="refusal.category stop.detail",
        )
        for p, fields in (
            ("C", {"messages": [USER, {"role": "assistant", "content": None, "refusal": "I will not."}, USER]}),
            ("R", {"input": [USER, message_item(NO), USER]}),
        )
    ),
)


@rows(CASES)
def test_row(case: Ask) -> None:
    """The words of a refusal stay in the history."""
    check_ask(case)
