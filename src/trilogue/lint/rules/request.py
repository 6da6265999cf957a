"""Rules Q: request bodies. Only what can be seen without a model list, an SDK or the HTTP headers."""

from __future__ import annotations

from trilogue.lint.rules.rule import Group

REQUEST = (
    Group(
        breaks="The API answers 400 before the model runs.",
        rules={
            "Q01": "`model` is a non-empty string",
            "Q02": "the conversation is there and of the right type",
            "Q03": "every role is one that the protocol has",
            "Q04": "content is a string or an array of parts with a type that the protocol has",
            "Q11": "a tool definition has its parts: a name, and a schema that is an object",
            "Q12": "tool_choice has a known form, and names a tool that is offered",
            "Q14": "numbers are in their range",
            "Q18": "a JSON schema format has its name and schema",
            "Q19": "metadata has at most 16 pairs of strings, keys up to 64 and values up to 512 characters",
        },
    ),
    Group(
        breaks="The API answers 400: a call and its result must stand together.",
        rules={
            "Q05": "every tool result belongs to an earlier call",
            "Q06": "every tool call has its result before the conversation goes on",
            "Q07": "a call id occurs once, and so does its result",
        },
    ),
    Group(
        breaks="The API answers 400: names and ids have a fixed alphabet and length.",
        rules={
            "Q08": "tool names are 1-64 (Messages: 128) of a-z A-Z 0-9 _ -",
            "Q09": "call ids are at most 64 characters (Messages: only a-z A-Z 0-9 _ -)",
            "Q10": "tool names are unique",
        },
    ),
    Group(
        breaks="The API answers 400, or the model sees its own call changed.",
        rules={"Q13": "call arguments are a string on Chat and Responses, an object on Messages"},
    ),
    Group(
        breaks="The API answers 400, or ignores the field in silence: it belongs to another protocol.",
        rules={"Q17": "no field of another protocol"},
    ),
    Group(
        breaks="The OpenAI API answers 400.",
        rules={
            "Q15": "stream_options only with stream",
            "Q16": "at most 4 stop sequences",
            "Q30": "previous_response_id and conversation exclude each other",
            "Q31": "max_output_tokens is at least 16",
            "Q32": "background needs store",
            "Q33": "compaction_trigger is the last item",
        },
    ),
    Group(
        breaks="The Anthropic API answers 400.",
        rules={
            "Q20": "`max_tokens` is an integer",
            "Q21": "the first turn is of the user (or system)",
            "Q22": "tool results come first in their turn",
            "Q23": "an assistant turn does not end in a thinking block",
            "Q25": "the thinking budget is at least 1024 and less than max_tokens",
            "Q26": "text blocks are not empty",
            "Q27": "tool_choice does not force a tool while thinking is enabled",
        },
    ),
    Group(
        breaks="API version 2026-10-21 and newer models answer 400; version 2023-06-01 still takes it.",
        severity="note",
        rules={
            "Q24": "no temperature, top_p or top_k",
            "Q28": "no document in an assistant turn and no citations in a user turn",
        },
    ),
)
