"""Rules D and those rules Q that only Responses has, grouped by what breaks if they are violated."""

from __future__ import annotations

from trilogue.lint.rules import NEEDS_UPSTREAM, ONLY_REFERS, Group

RULES = (
    Group(
        breaks="The openai SDK's `.stream()` helper raises when the first event is not response.created.",
        rules={"D01": "the first event is response.created with status in_progress or queued"},
    ),
    Group(
        breaks="Empty output in clients that wait for response.in_progress before they read on (Cherry Studio).",
        rules={"D02": "the second event is response.in_progress (or queued)"},
    ),
    Group(
        breaks=(
            "The most common cause of empty output: Cherry Studio drops events without it, and resuming a "
            "stream skips events."
        ),
        rules={"D03": "sequence_number starts at 0 and counts every event"},
    ),
    Group(
        breaks="The SDK raises unless it gets exactly one terminal event; Codex acts on its type and status.",
        rules={
            "D04": "exactly one terminal event",
            "D05": "the terminal event's type matches response.status",
            "D07": "an incomplete response has incomplete_details.reason and no error",
            "D08": "a failed response has error.code and error.message",
            "D51": "no event after the terminal one",
            "D74": "a completed response has error and incomplete_details null",
        },
    ),
    Group(
        breaks="The openai SDK's `.stream()` helper raises when the id changes.",
        rules={"D06": "one response.id in all lifecycle events"},
    ),
    Group(
        breaks="Clients other than the openai SDK parse it as JSON and raise.",
        rules={"D09": "no `[DONE]`"},
    ),
    Group(
        breaks=(
            "Codex reads `type` in the data and the snapshot under `response`; other clients use the `event:` line."
        ),
        rules={
            "D10": "every event has data.type and an `event:` line equal to it",
            "D11": "lifecycle events have the snapshot under `response`",
        },
    ),
    Group(
        breaks="The SDK raises on a repeated index, and adds text to the wrong item after a gap or an overlap.",
        rules={
            "D12": "output_index is unique per output_item.added",
            "D13": "output_index counts 0, 1, 2 in order of added",
            "D14": "an item is done before the next is added",
        },
    ),
    Group(
        breaks="Codex acts on output_item.done: a call without it is never run. The SDK raises if the id changes.",
        rules={
            "D15": "every added item is done before the terminal event (unless failed)",
            "D16": "id, type and call_id are the same in added and done",
        },
    ),
    Group(
        breaks="Empty output: the client cannot associate the text with an item (missing or wrong item_id).",
        rules={
            "D17": "inner events refer to an item that is added and not done",
            "D18": "item_id of inner events is the item's id",
        },
    ),
    Group(
        breaks="Clients append deltas to the content of the added item: text or arguments are duplicated.",
        rules={"D19": "an added item is in_progress and empty"},
    ),
    Group(
        breaks="Clients show a spinner for an item that is finished.",
        own=True,
        rules={"D20": "a done item is completed or incomplete"},
    ),
    Group(
        breaks="The openai SDK raises on a delta without its content_part.added.",
        rules={
            "D21": "content_part.added precedes the deltas of its content_index",
            "D22": "content_index counts from 0 in each item",
            "D28": "summary_part.added precedes its deltas; summary_index counts from 0",
        },
    ),
    Group(
        breaks="Parse failures and empty output in clients that need `annotations: []` in output_text parts.",
        rules={
            "D23": "content_part.added has an empty part, with annotations [] and logprobs [] on output_text",
            "D46": "output_text delta and done events have a logprobs array",
            "D73": "every output_text has an annotations array and a logprobs array",
        },
    ),
    Group(
        breaks="Clients that read deltas and clients that read done events show different responses.",
        rules={
            "D24": "the concatenated text deltas equal output_text.done",
            "D25": "the text is the same in output_text.done, content_part.done and output_item.done",
            "D26": "the refusal is the same in its deltas and all done events",
            "D27": "the reasoning summary is the same in its deltas and all done events",
            "D29": "the reasoning text is the same in its deltas and all done events",
            "D30": "the arguments are the same in the deltas, arguments.done and the item",
            "D35": "the custom tool input is the same in the deltas, input.done and the item",
        },
    ),
    Group(
        breaks="Agents cannot run the call, or send the result of another one.",
        rules={
            "D31": "function_call arguments parse as JSON unless incomplete",
            "D32": "function_call has a call_id and a name",
            "D33": "call_ids are unique",
        },
    ),
    Group(
        breaks="Clients that read the name from arguments.done find none.",
        own=True,
        rules={"D34": "function_call_arguments.done has the name"},
    ),
    Group(
        breaks="Citations are lost or point outside the text.",
        rules={
            "D36": "annotation_index counts 0, 1, 2 and each annotation is in the finished part",
            "D37": "URL citations are inside the text",
        },
    ),
    Group(
        breaks="Clients that send back the output of the terminal event send other items than they showed.",
        rules={
            "D38": "the output in the terminal event has the done items in order",
            "D39": "the output in the terminal event equals the done items (except for encrypted values)",
            "D40": "created and in_progress snapshots have output [] and usage null",
        },
    ),
    Group(
        breaks="Codex fails on a usage object without integer totals and details; billing gets no figures.",
        rules={
            "D41": "a completed response has usage",
            "D45": "usage has integer cached_tokens, cache_write_tokens and reasoning_tokens in its details",
        },
    ),
    Group(
        breaks="Cost accounting is wrong.",
        rules={
            "D42": "total_tokens is input_tokens plus output_tokens",
            "D43": "reasoning_tokens are included in output_tokens",
            "D44": "cached and cache-write tokens are included in input_tokens",
        },
    ),
    Group(
        breaks="The reasoning cannot be sent back in the next turn.",
        rules={"D47": "an item that is added with encrypted_content still has it when it is done"},
    ),
    Group(
        breaks="The API refuses the next turn: an empty encrypted_content is a made-up one.",
        own=True,
        rules={"D48": "encrypted_content is never empty"},
    ),
    Group(
        breaks="Codex reads the code from response.failed, the SDK from the error event: they act differently.",
        rules={"D49": "an error event and the response.failed after it have the same code and message"},
    ),
    Group(
        breaks="The SDK raises only on a nested `error` object; it treats a flat one as an ordinary event.",
        own=True,
        rules={"D50": "an error event has a nested `error` object"},
    ),
    Group(
        breaks="Progress displays run backwards or never end.",
        rules={"D52": "progress events of a hosted call come between added and done, in order"},
    ),
    Group(
        breaks="Clients with typed models refuse the whole object.",
        rules={
            "D53": "message items have role assistant, an array of parts, and at most one refusal",
            "D57": "created_at never changes; completed_at is only on completed responses, and not earlier",
            "D70": (
                "a body has object response, an id that starts with resp_, a numeric created_at and a terminal status"
            ),
            "D71": "the fields that every response has are present",
            "D72": "every output item has id and type; messages have status, role and content",
            "D80": "input_tokens returns {object: response.input_tokens, input_tokens}",
        },
    ),
    Group(
        breaks="A client that switched the padding off still pays for its bandwidth.",
        asks=True,
        rules={"D54": "no `obfuscation` when the request switched it off"},
    ),
    Group(
        breaks="Clients that rebuild the request from the snapshot (model, tools, instructions, …) lack a field.",
        rules={"D55": "every snapshot of a stream echoes the request's fields"},
    ),
    Group(
        breaks="Clients that rebuild the request from the response send other tools or metadata than before.",
        own=True,
        asks=True,
        rules={
            "D56": "tools and tool_choice are echoed as the client sent them",
            "D77": "previous_response_id is the one of the request, or null",
        },
    ),
    Group(
        breaks="Clients that find their responses by metadata lose them.",
        asks=True,
        rules={"D79": "metadata is echoed unchanged"},
    ),
    Group(
        breaks="The API refuses a reasoning item that is sent back without the item it belongs to.",
        own=True,
        severity="note",
        rules={"D58": "a reasoning item is followed by the message or call that it belongs to"},
    ),
    Group(
        breaks="Agents run a call that they had forbidden.",
        asks=True,
        rules={"D60": "with tool_choice none there is no function_call; with parallel calls off at most one"},
    ),
    Group(
        breaks="Codex does not find the tool: it looks it up by namespace and kind of call.",
        own=True,
        asks=True,
        rules={
            "D61": "calls of namespaced tools have their namespace and plain name",
            "D62": "calls of custom tools are custom_tool_call items",
        },
    ),
    Group(
        breaks="Clients parse the response with their schema, and fail.",
        asks=True,
        rules={"D78": "with text.format json_schema the text of a completed response parses as JSON"},
    ),
)

REQUEST_RULES = (
    Group(
        breaks="The OpenAI API responds with 400.",
        rules={
            "Q30": "previous_response_id and conversation exclude each other",
            "Q31": "max_output_tokens is at least 16",
            "Q32": "background requires store",
            "Q33": "compaction_trigger is the last item",
        },
    ),
)

NOT_VISIBLE: dict[str, str] = {
    "D59": NEEDS_UPSTREAM,
    "D75": ONLY_REFERS,
    "D76": "needs to know what the gateway can retrieve",
}
"""invariants that neither a body nor a stream shows, with the reason"""
