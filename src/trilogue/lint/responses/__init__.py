"""The linter's rules for Responses: `RESPONSES` is all that the rest of the linter uses of this package."""

from trilogue.lint.definition import ProtocolRules
from trilogue.lint.openai import check_error
from trilogue.lint.responses.body import check_body
from trilogue.lint.responses.request import check_request, expect
from trilogue.lint.responses.rules import NOT_VISIBLE, REQUEST_RULES, RULES
from trilogue.lint.responses.stream import ResponsesStream

__all__ = ["RESPONSES"]

RESPONSES = ProtocolRules(
    section=("D", "Responses"),
    rules=RULES,
    request_rules=REQUEST_RULES,
    not_visible=NOT_VISIBLE,
    field_names=frozenset({"sequence_number", "output_index", "content_index", "incomplete_details", "item_id"}),
    frames=(
        (),
        ("response",),
        ("item",),
        ("part",),
        ("output", "*"),
        ("usage",),
        ("response", "usage"),
        ("response", "output", "*"),
    ),
    numbers_events=True,
    expect=expect,
    check_request=check_request,
    check_body=check_body,
    check_error=check_error,
    stream_checker=ResponsesStream,
)
