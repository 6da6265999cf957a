"""Rules Q: request bodies. Only what can be seen without a model list, an SDK or the HTTP headers."""

from __future__ import annotations

from trilogue.lint.rules.rule import Group

REQUEST = (
    Group(
        breaks="The API responds with 400 before the model runs.",
        rules={
            "Q01": "`model` is a non-empty string",
            "Q02": "the conversation is present and has the right type",
            "Q03": "every role exists in the protocol",
            "Q04": "content is a string or an array of parts whose types exist in the protocol",
            "Q11": "a tool definition has a name, and a schema that is an object",
            "Q12": "tool_choice has a known form and names an offered tool",
            "Q14": "numbers are in range",
            "Q18": "a JSON schema format has a name and a schema",
            "Q19": "metadata has at most 16 pairs of strings, keys up to 64 and values up to 512 characters",
        },
    ),
    Group(
        breaks="The API responds with 400: a call and its result must be together.",
        rules={
            "Q05": "every tool result belongs to an earlier call",
            "Q06": "every tool call has its result before the next turn",
            "Q07": "a call id and its result occur once",
        },
    ),
    Group(
        breaks="The API responds with 400: names and ids have a limited set of characters and a maximum length.",
        rules={
            "Q08": "tool names have 1-64 (Messages: 128) characters of a-z A-Z 0-9 _ -",
            "Q09": "call ids have at most 64 characters (Messages: only a-z A-Z 0-9 _ -)",
            "Q10": "tool names are unique",
        },
    ),
    Group(
        breaks="The API responds with 400, or the model sees a changed version of its own call.",
        rules={"Q13": "call arguments are a string on Chat and Responses, an object on Messages"},
    ),
    Group(
        breaks="The API responds with 400, or silently ignores the field: it belongs to another protocol.",
        rules={"Q17": "no field of another protocol"},
    ),
    Group(
        breaks="The OpenAI API responds with 400.",
        rules={
            "Q15": "stream_options is used only with stream",
            "Q16": "there are at most 4 stop sequences",
            "Q30": "previous_response_id and conversation exclude each other",
            "Q31": "max_output_tokens is at least 16",
            "Q32": "background requires store",
            "Q33": "compaction_trigger is the last item",
        },
    ),
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
