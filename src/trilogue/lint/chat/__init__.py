"""The linter's rules for Chat Completions: `CHAT` is all that the rest of the linter uses of this package."""

from trilogue.lint.chat.body import check_body
from trilogue.lint.chat.request import check_request, expect
from trilogue.lint.chat.rules import NOT_VISIBLE, REQUEST_RULES, RULES
from trilogue.lint.chat.stream import ChatStream
from trilogue.lint.definition import ProtocolRules
from trilogue.lint.openai import check_error

__all__ = ["CHAT"]

CHAT = ProtocolRules(
    section=("B", "Chat Completions"),
    rules=RULES,
    request_rules=REQUEST_RULES,
    not_visible=NOT_VISIBLE,
    field_names=frozenset({"finish_reason", "choices", "prompt_tokens", "completion_tokens", "system_fingerprint"}),
    frames=((), ("choices", "*"), ("choices", "*", "delta"), ("choices", "*", "message"), ("usage",)),
    expect=expect,
    check_request=check_request,
    check_body=check_body,
    check_error=check_error,
    stream_checker=ChatStream,
)
