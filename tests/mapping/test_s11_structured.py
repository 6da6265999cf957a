"""Mapping §11: structured output."""

from typing import Any

from tests.mapping.cases import ABSENT, USER, Ask, Body, check_ask, like, one_of, rows

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
FULL: Body = {"strict": True, "description": "A place."}
NAMED = {"name": "structured_output", "schema": SCHEMA, "strict": True}
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
    Ask(
        "any JSON",
        "C>R",
        {"response_format": {"type": "json_object"}},
        {"text.format": {"type": "json_object"}},
    ),
    Ask(
        "any JSON",
        "R>C",
        {"text": {"format": {"type": "json_object"}}},
        {"response_format": {"type": "json_object"}},
    ),
    *(Ask("plain text", f"C>{p}", {"response_format": {"type": "text"}}, {"output_config": ABSENT}) for p in "MR"),
    *(Ask("plain text", f"R>{p}", {"text": {"format": {"type": "text"}}}, {"output_config": ABSENT}) for p in "CM"),
)


@rows(CASES)
def test_row(case: Ask) -> None:
    """The schema arrives as it was written."""
    check_ask(case)
