"""Structured output (docs/mapping.md: Structured output)."""

from typing import Any

from tests.mapping.cases import ABSENT, COMPAT, USER, Ask, Body, check_ask, holds, like, one_of, rows

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
LOOSE = {"type": "object", "properties": {"city": {"type": "string"}}}
LIMITS = {**SCHEMA, "properties": {"city": {"type": "string", "minLength": 2}}}


def chat(schema: Body = SCHEMA, **fields: Any) -> Body:
    """A Chat request for that schema."""
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "place", "schema": schema, **fields}}}


def messages(schema: Body = SCHEMA) -> Body:
    """A Messages request for that schema."""
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


def responses(schema: Body = SCHEMA, **fields: Any) -> Body:
    """A Responses request for that schema."""
    return {"text": {"format": {"type": "json_schema", "name": "place", "schema": schema, **fields}}}


FORMAT = {"type": "json_schema", "schema": SCHEMA}
SENT = {"C": "response_format.json_schema.schema", "M": "output_config.format.schema", "R": "text.format.schema"}
FULL: Body = {"strict": True, "description": "A place."}
NAMED = {"name": "structured_output", "schema": SCHEMA, "strict": True}
CLOSED = {**LOOSE, "additionalProperties": False}
WITH_WORD = {"role": "user", "content": "Hi, in json"}
CASES = (
    Ask(
        "schema",
        "C>R",
        chat(**FULL),
        {"text.format": {"type": "json_schema", "name": "place", "schema": SCHEMA, **FULL}},
    ),
    Ask(
        "schema",
        "R>C",
        responses(**FULL),
        {"response_format": {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, **FULL}}},
    ),
    Ask("schema", "C>M", chat(**FULL), {"output_config.format": FORMAT}, may="format.details"),
    Ask("schema", "R>M", responses(**FULL), {"output_config.format": FORMAT}, may="format.details"),
    Ask("schema", "M>C", messages(), {"response_format": {"type": "json_schema", "json_schema": NAMED}}),
    Ask("schema", "M>R", messages(), {"text.format": {"type": "json_schema", **NAMED}}),
    *(
        Ask(
            "schema outside the strict subset",
            f"M>{p}",
            messages(LOOSE),
            {path: like(schema=LOOSE, strict=one_of(False, ABSENT))},
            lost="format.details",
        )
        for p, path in (("C", "response_format.json_schema"), ("R", "text.format"))
    ),
    Ask(
        "unsupported keywords pass",
        "C>M",
        chat(LIMITS),
        {"output_config.format.schema": one_of(LIMITS, lambda s: "minLength" in str(s) or "2" in str(s))},
        may="format.details schema.transformed",
    ),
    Ask(
        "any JSON",
        "C>M",
        {"response_format": {"type": "json_object"}, "messages": [USER]},
        {"system": lambda system: "JSON" in str(system), "output_config": ABSENT},
        lost="format.json_object",
    ),
    Ask(
        "any JSON",
        "R>M",
        {"text": {"format": {"type": "json_object"}}},
        {"system": lambda system: "JSON" in str(system), "output_config": ABSENT},
        lost="format.json_object",
    ),
    *(
        Ask(f"an open schema from {p}", f"{p}>M", given(LOOSE), {SENT["M"]: CLOSED}, lost="schema.transformed")
        for p, given in (("C", chat), ("R", responses))
    ),
    *(
        Ask(
            f"limits from {p}",
            f"{p}>M",
            given(LIMITS),
            {f"{SENT['M']}.properties.city": like(minLength=ABSENT, description=holds("minLength", "2"))},
            lost="schema.transformed",
        )
        for p, given in (("C", chat), ("R", responses))
    ),
    *(
        Ask(
            "a strict schema outside the subset",
            pair,
            given(LOOSE, strict=True),
            {SENT[pair[-1]]: LOOSE, f"{SENT[pair[-1]].removesuffix('.schema')}.strict": False},
            lost="format.details",
        )
        for pair, given in (("C>R", chat), ("R>C", responses))
    ),
    *(
        Ask(
            "a schema in words",
            f"{p}>M",
            given(),
            {"output_config": ABSENT, "system": holds("JSON", "city", "required")},
            lost="format.schema_in_words",
            model="claude-sonnet-4-20250514",
        )
        for p, given in (("C", chat), ("R", responses))
    ),
    *(
        Ask(
            "a schema in words",
            f"{p}>C",
            given(),
            {"response_format": {"type": "json_object"}, "messages[0]": holds("system", "JSON", "city")},
            lost="format.schema_in_words",
            model="deepseek-chat",
        )
        for p, given in (("M", messages), ("R", responses))
    ),
    Ask(
        "any JSON",
        "C>R",
        {"response_format": {"type": "json_object"}, "messages": [WITH_WORD]},
        {"text.format": {"type": "json_object"}, "input": lambda items: len(items) == 1, "instructions": ABSENT},
    ),
    Ask(
        "any JSON",
        "R>C",
        {"text": {"format": {"type": "json_object"}}, "input": "Hi, in json"},
        {"response_format": {"type": "json_object"}, "messages": lambda turns: len(turns) == 1},
    ),
    Ask(
        "any JSON without the word",
        "C>R",
        {"response_format": {"type": "json_object"}},
        {"text.format": {"type": "json_object"}, "input": holds("JSON", "Hi")},
        lost="format.json_word",
    ),
    Ask(
        "any JSON without the word",
        "R>C",
        {"text": {"format": {"type": "json_object"}}},
        {"response_format": {"type": "json_object"}, "messages": holds("JSON", "Hi")},
        lost="format.json_word",
    ),
    Ask(
        "any JSON without the word, of a server that does not ask for it",
        "R>C",
        {"text": {"format": {"type": "json_object"}}},
        {"response_format": {"type": "json_object"}, "messages": lambda turns: len(turns) == 1},
        model=COMPAT,
    ),
    *(Ask("plain text", f"C>{p}", {"response_format": {"type": "text"}}, {"output_config": ABSENT}) for p in "MR"),
    *(Ask("plain text", f"R>{p}", {"text": {"format": {"type": "text"}}}, {"output_config": ABSENT}) for p in "CM"),
)


@rows(CASES)
def test_row(case: Ask) -> None:
    """The schema arrives as it was written."""
    check_ask(case)
