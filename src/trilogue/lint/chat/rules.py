"""Rules B and those rules Q that only Chat Completions has, grouped by what breaks if they are violated."""

from __future__ import annotations

from trilogue.lint.rules import NEEDS_HEADERS, Group

RULES = (
    Group(
        breaks="Clients that group chunks by these fields see several responses instead of one.",
        rules={
            "B01": "all chunks share one non-empty `id`",
            "B02": "all chunks share one integer `created`",
            "B03": "all chunks share one `model`",
        },
    ),
    Group(
        breaks="The openai SDK's `.stream()` helper skips chunks with another `object`: the response is empty.",
        rules={"B04": "`object` is always `chat.completion.chunk`"},
    ),
    Group(
        breaks="Clients index `choices[0]` on every chunk and crash.",
        rules={
            "B05": "every chunk has a `choices` array",
            "B06": "`choices` is empty only on the usage or moderation chunk",
        },
    ),
    Group(
        breaks="The openai SDK's `.stream()` helper raises IndexError.",
        rules={"B07": "choice indices are 0..n-1, and the first chunk with choices holds index 0"},
    ),
    Group(
        breaks="Accumulators build a message without a role, which cannot be sent back.",
        rules={"B08": "the first delta of each choice has role `assistant`"},
    ),
    Group(
        breaks="The openai SDK concatenates repeated strings: `assistantassistant`, `call_1call_1`.",
        rules={
            "B09": "`role` occurs once per choice",
            "B20": "later entries of a tool call have neither `id` nor name",
        },
    ),
    Group(
        breaks="Clients append the delta to a string and raise a type error, or show `[object Object]`.",
        rules={
            "B10": "`delta.content` is a string, null or absent",
            "B21": "tool arguments are strings",
        },
    ),
    Group(
        breaks="Clients show the refusal and the text as one.",
        own=True,
        rules={"B11": "content and refusal are not both non-empty in one delta"},
    ),
    Group(
        breaks="Clients stop at the first finish_reason or act on the last: text is lost, or the loop ends wrongly.",
        rules={
            "B12": "no delta for a choice after its finish_reason",
            "B13": "exactly one finish_reason per choice",
            "B14": "finish_reason is stop, length, tool_calls or content_filter",
            "B15": "the finish chunk has an empty delta",
            "B16": "`finish_reason` is present, as null, on all other choice entries",
        },
    ),
    Group(
        breaks="Accumulators put arguments on the wrong call or drop the call.",
        rules={
            "B17": "every tool_calls entry has an integer `index`",
            "B18": "tool indices appear in order 0, 1, 2 without gaps",
            "B19": "the first entry of a tool index has an id, a type (function or custom) and a name",
        },
    ),
    Group(
        breaks=(
            "Agents cannot run the call: they cannot parse the arguments, or they send back an id that is refused."
        ),
        rules={
            "B22": "the arguments of a call parse as JSON unless the response was cut short",
            "B23": "the arguments of a function call are a JSON object",
            "B24": "tool call ids are unique and at most 64 characters",
        },
    ),
    Group(
        breaks="Agents loop on finish_reason: they ignore the calls, or wait for calls that are not there.",
        rules={
            "B25": "with tool calls finish_reason is tool_calls, length or content_filter",
            "B26": "finish_reason tool_calls comes with at least one call",
        },
    ),
    Group(
        breaks="Agents find no such tool and fail the turn.",
        own=True,
        asks=True,
        rules={"B27": "every tool name is in the request"},
    ),
    Group(
        breaks="Clients that close a call when the next one starts lose the late arguments.",
        own=True,
        rules={"B28": "tool calls are not interleaved"},
    ),
    Group(
        # OpenAI itself promises no such chunk, and official clients end without figures; made-up ones would be worse.
        breaks="Clients that asked for usage get none: they count and bill nothing.",
        asks=True,
        severity="note",
        rules={"B29": "there is a usage chunk if stream_options.include_usage asks for it"},
    ),
    Group(
        breaks="Clients that asked for usage read the field in every chunk, and raise if it is missing.",
        asks=True,
        rules={"B32": "with include_usage all other chunks have `usage` null"},
    ),
    Group(
        breaks="Clients that did not ask for usage crash on the chunk with empty `choices`.",
        own=True,
        asks=True,
        rules={"B33": "without include_usage no chunk has a `usage` object"},
    ),
    Group(
        breaks="The openai SDK reads usage from the last chunk: it is null or counted twice.",
        rules={
            "B30": "the usage chunk has empty `choices` and comes after every finish_reason",
            "B31": "the usage chunk is the last chunk before `[DONE]`",
        },
    ),
    Group(
        breaks="Cost accounting is wrong.",
        rules={
            "B34": "total_tokens is prompt_tokens plus completion_tokens",
            "B35": "cached and cache-write tokens are included in prompt_tokens",
            "B36": "reasoning_tokens are included in completion_tokens",
        },
    ),
    Group(
        breaks="Clients that wait for `[DONE]` hang until their timeout, or read past the end.",
        rules={"B37": "`[DONE]` is the last event of a successful stream, once"},
    ),
    Group(
        breaks="Browser EventSource clients listen for unnamed messages only and show nothing.",
        own=True,
        rules={"B38": "no `event:` lines"},
    ),
    Group(
        breaks=(
            "The SDK raises at the error chunk: nothing after it is read, and fields missing from it are "
            "missing from the exception."
        ),
        rules={
            "B39": "no chunk after an error chunk",
            "B40": "an error chunk has message (string), type (string), param and code",
            "B48": "no chunk has both `error` and `choices`",
        },
    ),
    Group(
        breaks="A client that switched the padding off still pays for its bandwidth.",
        asks=True,
        rules={"B41": "no `obfuscation` when the request switched it off"},
    ),
    Group(
        breaks="Clients that asked for one choice concatenate the texts of two.",
        asks=True,
        rules={
            "B42": "with n = 1 only choice 0 appears",
            "B51": "a body has n choices with indices 0..n-1",
        },
    ),
    Group(
        breaks="Clients with typed models refuse the whole object.",
        rules={
            "B43": "`system_fingerprint` is a string or null",
            "B44": "`service_tier` is one of auto, default, flex, scale, priority, fast",
            "B50": "a body has object `chat.completion`, id, integer created and model",
            "B52": "the message has role assistant, content string or null, refusal string or null",
            "B54": "`tool_calls` is absent or non-empty",
            "B55": "a call is {id, type, function {name, arguments}} or {id, type, custom {name, input}}",
            "B57": "a body has usage with the three totals",
        },
    ),
    Group(
        breaks="Clients show the reasoning twice, or not at all if they know only one field.",
        own=True,
        rules={"B45": "reasoning text is in one extension field only"},
    ),
    Group(
        breaks="Clients close the thinking panel at the first content and drop later reasoning.",
        own=True,
        severity="note",
        rules={"B46": "reasoning deltas of a choice precede its first content"},
    ),
    Group(
        breaks="Clients that align tokens with the text by position highlight the wrong words.",
        rules={
            "B47": "the logprobs tokens concatenate to the content",
            "B58": "URL citations are inside the content",
        },
    ),
    Group(
        breaks="Clients show an empty response and cannot say why.",
        rules={
            "B53": "content is null only together with tool calls, a refusal or audio",
            "B56": "finish_reason is set in a body",
        },
    ),
    Group(
        breaks="Clients parse the response with their schema or stop sequence, and fail.",
        asks=True,
        rules={
            "B59": "with response_format json_schema and finish_reason stop the content parses as JSON",
            "B60": "the text contains none of the stop sequences",
        },
    ),
    Group(
        breaks="The openai SDK's exception has no details; typed clients refuse an integer code.",
        rules={"B62": "an error body is {error: {message, type, param, code}} with code a string or null"},
    ),
)

REQUEST_RULES = (
    Group(
        breaks="The OpenAI API responds with 400.",
        rules={"Q16": "there are at most 4 stop sequences"},
    ),
)

NOT_VISIBLE: dict[str, str] = {"B61": NEEDS_HEADERS}
"""invariants that neither a body nor a stream shows, with the reason"""
