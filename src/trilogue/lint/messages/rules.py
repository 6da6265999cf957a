"""Rules C and those rules Q that only Messages has, grouped by what breaks if they are violated."""

from __future__ import annotations

from trilogue.lint.rules import NEEDS_HEADERS, NEEDS_UPSTREAM, ONLY_REFERS, Group

RULES = (
    Group(
        breaks="The anthropic SDK raises on any event before message_start, and has no message to add to.",
        rules={"C01": "the first event (pings aside) is message_start, and there is one"},
    ),
    Group(
        breaks="Clients stop reading at message_stop; the SDK takes stop_reason from the last message_delta.",
        rules={
            "C02": "a successful stream ends with one message_stop",
            "C03": "exactly one message_delta, right before message_stop",
        },
    ),
    Group(
        breaks="The anthropic SDK silently drops events without an `event:` line: the response is empty.",
        rules={"C04": "every event has an `event:` line equal to data.type"},
    ),
    Group(
        breaks="The SDK starts its snapshot from message_start: text is duplicated, or the message looks finished.",
        rules={
            "C05": "message_start has type message, role assistant, content [], stop_reason and stop_sequence null",
            "C06": "the message id starts with `msg_`",
            "C07": "message_start has usage with integer input_tokens and output_tokens",
        },
    ),
    Group(
        breaks="The SDK appends blocks and then looks them up by index: IndexError, or text in the wrong block.",
        rules={
            "C08": "content_block_start indices are 0, 1, 2 in order",
            "C09": "at most one block is open",
            "C10": "delta and stop name the open block",
            "C11": "every block is stopped before message_delta",
            "C12": "no delta after the stop of its block",
        },
    ),
    Group(
        breaks="Clients switch on the block's type: they drop a delta of another kind, or crash.",
        rules={
            "C13": "text blocks get only text_delta and citations_delta",
            "C14": "thinking blocks get only thinking_delta and signature_delta",
            "C15": "redacted_thinking and tool result blocks get no deltas",
            "C16": "tool use blocks get only input_json_delta",
            "C37": "citations_delta only while a text block is open",
        },
    ),
    Group(
        breaks="The SDK keeps the content of the start event as a prefix: text or input is duplicated.",
        rules={"C17": 'a block starts empty: text "", thinking "" and signature "", input {}'},
    ),
    Group(
        breaks="Agents cannot run the call or send its result back: the API refuses the id.",
        rules={
            "C18": "tool_use has a non-empty id and name",
            "C19": "tool ids match ^[a-zA-Z0-9_-]+$ and are unique",
            "C20": "the partial_json of a block is empty or a JSON object unless the response was cut short",
            "C36": "a tool result block refers to an earlier server tool call",
            "C54": "tool_use.input is an object",
        },
    ),
    Group(
        breaks="The SDK keeps the last signature_delta only; the API refuses thinking without its signature.",
        rules={
            "C21": "a thinking block has one signature_delta, after all thinking_delta, just before its stop",
            "C55": "thinking blocks have string thinking and string signature",
        },
    ),
    Group(
        breaks="The API refuses the next turn: an empty signature is a made-up one.",
        own=True,
        rules={"C22": "a signature is never empty"},
    ),
    Group(
        breaks="Agents loop on stop_reason: they stop too early, or wait for calls that are not there.",
        rules={
            "C23": "message_delta has a stop_reason",
            "C24": "stop_reason is one of the documented values",
            "C25": (
                "stop_reason is tool_use exactly when there are tool_use blocks, unless the response was cut short"
            ),
            "C26": "stop_sequence is set exactly when stop_reason is stop_sequence",
            "C27": "stop_details is a refusal exactly when stop_reason is refusal",
            "C52": "stop_reason is set in a body",
        },
    ),
    Group(
        breaks=(
            "The anthropic SDK crashes without usage here, and overwrites its counts with what is there: "
            "they drop to zero."
        ),
        rules={
            "C28": "message_delta has usage with integer output_tokens",
            "C29": "message_delta.usage.input_tokens is absent or the real number, never a placeholder 0",
            "C30": "output_tokens never decreases",
            "C31": "cache fields in message_delta are absent or integers",
        },
    ),
    Group(
        breaks=(
            "Claude Code may stall without a ping; other clients fail on one before message_start or with more fields."
        ),
        own=True,
        rules={"C32": "a stream has a ping, {type: ping}, after message_start"},
    ),
    Group(
        breaks=("The SDK raises at the error event: what follows is lost, and an unknown type has no exception class."),
        rules={
            "C33": "nothing follows an error event, and it has error.type and error.message",
            "C34": "error.type is one of the documented types",
        },
    ),
    Group(
        breaks="The SDK parses it as JSON and raises.",
        rules={"C35": "no `[DONE]`"},
    ),
    Group(
        breaks="Clients redraw for nothing or show an empty block.",
        own=True,
        rules={"C38": "no empty text_delta"},
    ),
    Group(
        breaks="Clients that did not ask for thinking show or send back blocks that they don't know.",
        own=True,
        asks=True,
        severity="note",
        rules={"C39": "thinking blocks only if the request enables thinking"},
    ),
    Group(
        breaks="Clients that send the block back get a 400: extra inputs are not permitted.",
        own=True,
        rules={"C41": "content blocks have no fields of other protocols"},
    ),
    Group(
        breaks="Clients that price or cache by model name see a model that they did not ask for.",
        own=True,
        asks=True,
        rules={"C43": "`model` is the name that the client asked for"},
    ),
    Group(
        breaks="Cost accounting is wrong.",
        rules={
            "C45": "thinking_tokens are included in output_tokens",
            "C57": "usage has input_tokens and output_tokens, and cache fields that are integers or null",
        },
    ),
    Group(
        breaks="Agents run a call that they had forbidden.",
        asks=True,
        rules={
            "C46": "with parallel tool use disabled there is at most one tool_use",
            "C47": "with tool_choice none there is no tool_use",
        },
    ),
    Group(
        breaks="Agents find no such tool and fail the turn.",
        own=True,
        asks=True,
        rules={"C48": "every tool name is in the request"},
    ),
    Group(
        breaks="Clients with typed models refuse the whole object.",
        rules={
            "C50": "a body has id, type message, role assistant, model, content, stop_reason, stop_sequence, usage",
            "C51": "content is an array of blocks of known types",
            "C53": "text blocks have string text; citations absent, null or an array",
            "C56": "an empty response has content [] or one empty text block",
            "C59": "an error body is {type: error, error: {type, message}, request_id}",
            "C61": "no request field is echoed",
            "C62": "count_tokens returns input_tokens, optionally context_management, and nothing else",
        },
    ),
    Group(
        breaks="Clients parse the response with their schema, and fail.",
        asks=True,
        rules={"C60": "with output_config.format and stop_reason end_turn the text parses as JSON"},
    ),
)

REQUEST_RULES = (
    Group(
        breaks="The Anthropic API responds with 400.",
        rules={
            "Q20": "`max_tokens` is an integer",
            "Q21": "the first turn is a user turn (or system)",
            "Q22": "tool results come first in their turn",
            "Q23": "an assistant turn does not end in a thinking block",
            "Q25": "the thinking budget is at least 1024 and less than max_tokens",
            "Q26": "text blocks are not empty",
            "Q27": "tool_choice does not force a tool while thinking is enabled",
        },
    ),
    Group(
        breaks="API version 2026-10-21 and newer models respond with 400; version 2023-06-01 still accepts it.",
        severity="note",
        rules={
            "Q24": "no temperature, top_p or top_k",
            "Q28": "no document in an assistant turn and no citations in a user turn",
        },
    ),
)

NOT_VISIBLE: dict[str, str] = {
    "C40": NEEDS_UPSTREAM,
    "C42": NEEDS_UPSTREAM,
    "C44": NEEDS_UPSTREAM,
    "C58": ONLY_REFERS,
    "C63": NEEDS_HEADERS,
}
"""invariants that neither a body nor a stream shows, with the reason"""
