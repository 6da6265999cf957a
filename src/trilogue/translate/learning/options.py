"""The options of a request: fields that may be left out, or changed, because an upstream refuses them.

Everything else is what the client asks for: prompts, history, tools, state, and what it reads in the response (token
probabilities, several choices). A refusal of those is passed on to the client. Values of clients are never remembered:
a path is reduced to words of the protocols.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from trilogue.model import Json
from trilogue.protocols.registry import CODECS
from trilogue.translate.learning.remedies import Remedy, kind_of

_OPTIONS = (
    "temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty",
    "logit_bias", "seed", "stop", "stop_sequences", "max_tokens", "max_completion_tokens", "max_output_tokens",
    "reasoning_effort", "reasoning", "thinking", "enable_thinking", "output_config", "response_format",
    "text.verbosity", "text.format", "verbosity", "parallel_tool_calls", "tool_choice", "stream_options", "include",
    "store", "metadata", "user", "safety_identifier", "service_tier", "speed", "prompt_cache_key",
    "prompt_cache_retention", "prompt_cache_options", "cache_control", "moderation", "truncation",
    "context_management", "web_search_options", "prediction", "client_metadata",
)  # fmt: skip
"""fields that may be left out, with everything inside; fields that no protocol defines may be left out as well"""
_HARMLESS: dict[str, tuple[Json, ...]] = {"n": (1,), "logprobs": (False,), "top_logprobs": (0,), "tools": ([],)}
"""values without effect, of fields that must not be left out otherwise"""
_MARKS = frozenset({
    "strict", "defer_loading", "eager_input_streaming", "input_examples", "cache_control", "prompt_cache_breakpoint",
    "name", "phase", "status", "reasoning_content", "reasoning", "reasoning_details", "refusal", "annotations",
    "citations", "detail", "scope", "ttl", "allowed_callers", "tool_calls",
})  # fmt: skip
"""marks on messages, blocks and tools that may be left out; `tool_calls` only if it is empty"""
_MARKED = frozenset({"messages", "input", "system", "tools"})
_WORDS = re.compile(
    r"true|false|null|none|auto|required|any|minimal|low|medium|high|xhigh|max|default|adaptive|enabled|disabled"
    r"|json_\w+|text|function|custom|concise|detailed|flex|priority|fast|ephemeral|user|assistant|system|developer|tool|thinking|tool_\w+"
    r"|image\w*|24h|in_memory|reasoning\.\w+|message\.\w+(\.\w+)?|web_search\w*(\.\w+)*"
)
"""words of the protocols, which a path may contain; any other text is the client's own"""
_KNOWN: frozenset[str] = frozenset().union(*(codec.fields.known for codec in CODECS.values()))
"""fields that at least one of the protocols defines"""
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_RETENTION = "store"


def usable(remedy: Remedy, body: dict[str, Json]) -> Remedy | None:
    """Return a remedy as it may be applied and remembered; None if it changes more than an option."""
    path = _BRACKETS.sub(_own_words_only, remedy.path)
    plain = _BRACKETS.sub("", path)
    top, _, rest = plain.partition(".")
    if top == "metadata":
        path = top
    elif top == _RETENTION:
        # A refusal of `store: true` must not remove another client's `store: false`, which protects its data.
        path = f"{_RETENTION}[{kind_of(body.get(_RETENTION))}]"
    elif not (_is_mark(top, rest) if top in _MARKED and rest else _is_option(plain, top, body)):
        return None
    return remedy if path == remedy.path else replace(remedy, path=path)


def _is_mark(top: str, rest: str) -> bool:
    return (rest == "id" and top != "tools") or not _MARKS.isdisjoint(rest.split("."))


def _is_option(path: str, top: str, body: dict[str, Json]) -> bool:
    if top in _HARMLESS:
        return body.get(top) in _HARMLESS[top]
    return top not in _KNOWN or any(path == option or path.startswith(f"{option}.") for option in _OPTIONS)


def _own_words_only(match: re.Match[str]) -> str:
    return match[0] if not match[1] or _WORDS.fullmatch(match[1]) else ""


_FIELDS: tuple[tuple[str, dict[str, Any]], ...] = (
    (r"stop|stop_sequences", {"max_stops": 0}),
    (r"(response_format|text\.format)\[json_object\]", {"json_mode": False}),
    (r"(response_format|text\.format)\[json_schema\]|output_config\.format(\[.*)?", {"json_schema": False}),
    (r"response_format|text\.format", {"json_schema": False, "json_mode": False}),
    (r"output_config", {"json_schema": False, "efforts": ()}),
    (r"tools\[\](\.function)?\.strict", {"strict_tools": False}),
)
"""fields of a profile to set if a field is refused: the translation has a better fallback than leaving it out"""


def profile_fields(remedies: tuple[Remedy, ...]) -> tuple[dict[str, Any], tuple[Remedy, ...]]:
    """Return the remedies that are fields of the model's profile as such, and the remaining remedies."""
    fields: dict[str, Any] = {}
    remaining: list[Remedy] = []
    for remedy in remedies:
        fields_of_remedy = next((own for pattern, own in _FIELDS if re.fullmatch(pattern, remedy.path)), None)
        if fields_of_remedy is None or remedy.action != "drop":
            remaining.append(remedy)
        else:
            fields |= fields_of_remedy
    return fields, tuple(remaining)
