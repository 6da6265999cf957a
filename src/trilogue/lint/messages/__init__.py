"""The linter's rules for Messages: `MESSAGES` is all that the rest of the linter uses of this package."""

from trilogue.lint.definition import ProtocolRules
from trilogue.lint.messages.body import check_body, check_error
from trilogue.lint.messages.request import check_request, expect
from trilogue.lint.messages.rules import NOT_VISIBLE, REQUEST_RULES, RULES
from trilogue.lint.messages.stream import MessagesStream

__all__ = ["MESSAGES"]

MESSAGES = ProtocolRules(
    section=("C", "Messages"),
    rules=RULES,
    request_rules=REQUEST_RULES,
    not_visible=NOT_VISIBLE,
    field_names=frozenset({"stop_reason", "stop_sequence", "content_block", "stop_details"}),
    frames=((), ("message",), ("delta",), ("content_block",), ("content", "*"), ("usage",)),
    has_pings=True,
    expect=expect,
    check_request=check_request,
    check_body=check_body,
    check_error=check_error,
    stream_checker=MessagesStream,
)
