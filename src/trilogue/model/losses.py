"""Losses: what a translation could not carry exactly, as data.

`LOSSES` is the closed list of codes. The docs' table and one test per code are made from it.
"""

from __future__ import annotations

from msgspec import Struct, field

from trilogue.errors import InternalError, StrictLoss


class LossRule(Struct, frozen=True):
    """When a code is used, and what is done instead."""

    when: str
    instead: str


class Loss(Struct, frozen=True):
    """One thing that was not carried exactly. `path` points into the source document."""

    code: str
    path: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.code} at {self.path}" + (f" ({self.detail})" if self.detail else "")


LOSSES: dict[str, LossRule] = {
    "model.defaulted": LossRule(
        "a request without a model, at a gateway whose aliases, routes and models all lead to one", "that one is asked"
    ),
    "role.developer_merged": LossRule(
        "a developer message goes to a protocol with one prompt role", "sent as system text"
    ),
    "system.position": LossRule(
        "a system message in mid-conversation goes to a model without that role", "moved to the front"
    ),
    "system.as_user": LossRule(
        "prompts alone, or behind the assistant's last turn, go to Messages, where a user must speak last",
        "sent as a user turn",
    ),
    "system.billing_block": LossRule(
        "the line of Claude Code's prompt for Anthropic's billing, where the profile says so", "left out"
    ),
    "turn.inserted": LossRule(
        "a conversation that begins with the assistant goes to Messages, where a user must speak first",
        "a short user turn in front",
    ),
    "message.name": LossRule("a participant name on a message", "dropped"),
    "order.flattened": LossRule("text between or after tool calls goes to Chat", "text first, then the calls"),
    "text.blocks_joined": LossRule(
        "several text blocks of a message go where one string is taken",
        "joined into one string: an answer's as they are, a tool result's with a line break, others with a blank line",
    ),
    "phase": LossRule("commentary / final answer mark of Responses", "dropped"),
    "media.dropped": LossRule(
        "image, sound or file in earlier turns or tool results, for a model that cannot take it", "a note in its place"
    ),
    "image.detail": LossRule("image resolution hint", "dropped"),
    "document.as_text": LossRule(
        "a plain-text document goes to a protocol without them", "sent as text with its title"
    ),
    "search_result.as_text": LossRule("client-supplied search result", "sent as text with title and source"),
    "tool.strict_default": LossRule("Responses tool without `strict`, whose default is to try", "sent as not strict"),
    "tool.strict_downgraded": LossRule("strict schema outside the target's subset", "sent as not strict"),
    "tool.name_mangled": LossRule(
        "tool name too long or with characters the target forbids", "shortened; restored in answers"
    ),
    "tool.custom_emulated": LossRule(
        "free-text tool goes to a protocol without them", "function with one string; unwrapped in answers"
    ),
    "tool.namespace_description": LossRule(
        "description of a tool namespace", "dropped; names are flattened and restored"
    ),
    "tool.defer_loading": LossRule("deferred tool goes to a protocol without tool search", "offered from the start"),
    "tool.timing": LossRule("tool added in mid-conversation", "offered from the start"),
    "tool.option": LossRule("optional tool setting the target has no name for", "dropped"),
    "tool.builtin_emulated": LossRule(
        "tool that its protocol defines and the client runs (shell, editor, memory, patch)",
        "a function with the documented fields; calls are turned back",
    ),
    "tool.hosted_dropped": LossRule("hosted tool that the target cannot run", "not offered"),
    "tool.hosted_replaced": LossRule(
        "hosted tool that the target has a near relative of, such as search for fetch", "that one is offered"
    ),
    "tool_search.algorithm": LossRule("provider-side tool search", "the target's own search is used"),
    "tool_choice.allowed_filtered": LossRule("choice limited to some tools", "only those tools are offered"),
    "tool_choice.dropped": LossRule("choice of a tool that was not carried", "the model chooses freely"),
    "thinking.unavailable": LossRule("thinking asked of a model that does not think", "answered without"),
    "thinking.dropped_tools": LossRule(
        "thinking together with tools, on a model that takes one of them", "thinking off"
    ),
    "thinking.dropped_forced_tool": LossRule("thinking together with a forced tool choice", "thinking off"),
    "arguments.invalid_json": LossRule(
        "tool arguments that are not a JSON object",
        "text inside an object; an error at the end of a stream where it began as one",
    ),
    "tool_result.synthetic": LossRule("history repair: a tool call without result", "an error result is added"),
    "tool_result.orphan_dropped": LossRule("history repair: a tool result without call", "dropped"),
    "tool_result.part": LossRule("part of a tool result the target has no form for", "sent as text"),
    "tool_result.media_moved": LossRule(
        "image or file in a tool result goes to Chat", "sent in a user message after the results"
    ),
    "tool_result.is_error": LossRule("error mark on a tool result", "said in the text"),
    "effort.none": LossRule("no reasoning, on a model that cannot switch it off", "least effort"),
    "effort.minimal": LossRule("minimal effort", "low effort"),
    "effort.clamped": LossRule("effort level the model does not have", "the nearest one"),
    "thinking.budget": LossRule("token budget for thinking", "the nearest effort level"),
    "thinking.no_room": LossRule("too few output tokens to think", "thinking off"),
    "thinking.replay_missing": LossRule(
        "earlier thinking that must be sent back is gone", "thinking off for this call"
    ),
    "thinking.mode": LossRule("thinking mode that the target has no name for", "the target's default"),
    "reasoning.nonstandard": LossRule("reasoning goes to a Chat client", "sent in `reasoning_content`"),
    "reasoning.foreign_dropped": LossRule("reasoning of another provider, model or account", "dropped"),
    "reasoning.context": LossRule("how much earlier reasoning to use", "dropped"),
    "reasoning.visibility": LossRule("how much reasoning to show", "the nearest setting"),
    "verbosity": LossRule("verbosity hint", "dropped"),
    "web_search.params": LossRule("web search setting the target has no name for", "dropped"),
    "web_search.replay": LossRule(
        "search results in the history without the provider's own token", "told as a list of links"
    ),
    "code_exec.container": LossRule("code execution container and its files", "a new container"),
    "hosted.history_as_text": LossRule("hosted tool call in the history", "told as a short note"),
    "hosted.result_dropped": LossRule("output of a hosted tool that the target has no form for", "dropped"),
    "stop.pause_turn": LossRule("the provider paused a long turn", "reported as complete"),
    "citation.source_span": LossRule("the quoted words of a citation", "only the link and the span are kept"),
    "citation.span": LossRule("which words of an answer's text a citation is for", "it is for the whole text"),
    "citation.document": LossRule("citation into a document", "dropped"),
    "citation.dropped": LossRule("citation in the history", "dropped"),
    "schema.transformed": LossRule(
        "schema of a tool or an output outside the target's subset",
        "objects closed, limits told in descriptions, alternatives at the top merged",
    ),
    "format.schema_in_words": LossRule("output schema for a model that takes none", "asked for in words"),
    "format.json_word": LossRule(
        "any-JSON output mode for an API that wants the word JSON in the conversation", "a prompt asks for JSON"
    ),
    "format.json_object": LossRule("any-JSON output mode", "asked for in words"),
    "format.details": LossRule("name, description or strictness of an output schema", "dropped"),
    "max_tokens.defaulted": LossRule("no output limit given, and the target demands one", "the model's default limit"),
    "max_tokens.raised": LossRule("output limit below the target's minimum", "raised to the minimum"),
    "max_tokens.lowered": LossRule("output limit above what the model can give", "lowered to the model's maximum"),
    "temperature.clamped": LossRule("temperature outside the target's range", "the nearest one inside"),
    "sampling.dropped": LossRule("sampling parameter the model no longer takes", "dropped"),
    "param.dropped": LossRule("request parameter with no equivalent", "dropped"),
    "param.refused": LossRule(
        "parameter that the upstream refused for this model, named as in the request it got",
        "left out, or the nearest that it takes",
    ),
    "stop.emulated": LossRule("stop sequences for a protocol without them", "cut while relaying"),
    "stop.which": LossRule("which stop sequence ended the answer", "reported as a natural end"),
    "stop.detail": LossRule("finer stop reason of one protocol", "the nearest stop reason"),
    "cache.ttl": LossRule("cache lifetime the target does not have", "the nearest one"),
    "cache.mark": LossRule("cache mark where the target has none", "dropped"),
    "cache.tool_mark": LossRule("cache mark on a tool", "dropped"),
    "cache.key": LossRule("cache key", "used for routing only"),
    "cache.key_hashed": LossRule("cache key longer than the target allows", "replaced by its hash"),
    "cache.options": LossRule("cache settings", "dropped"),
    "tier": LossRule("service tier the target does not have", "the nearest one"),
    "user.hashed": LossRule("end-user id longer than the target allows", "replaced by its hash"),
    "metadata.kept": LossRule("key-value metadata for a target without it", "kept and echoed, not sent"),
    "refusal.category": LossRule("why a classifier refused", "dropped"),
    "logprobs.dropped": LossRule("token probabilities", "dropped"),
    "audio.dropped": LossRule("sound in an answer", "the transcript is kept"),
    "choices.dropped": LossRule("more than one choice in an answer", "only the first is kept"),
    "native.dropped": LossRule("block or item that only its own protocol knows", "dropped"),
    "usage.cache_ttl": LossRule("cache writes split by lifetime", "only the sum is kept"),
    "usage.estimated": LossRule("the upstream gave no usage", "an estimate"),
    "usage.inconsistent": LossRule(
        "usage figures that contradict each other: more cached than input tokens, more reasoning than output",
        "the part is cut to fit the whole",
    ),
    "usage.detail": LossRule("usage figure with no equivalent", "dropped"),
    "count.estimated": LossRule("token count from an upstream that cannot count", "an estimate"),
    "resp.meta": LossRule("field of the answer with no equivalent", "dropped"),
    "store.ignored": LossRule("the provider was asked to keep the answer", "not kept; echoed as not stored"),
}


MOST_LISTED = 100
"""losses of one code that are listed one by one"""
AND_MORE = f"and others: only {MOST_LISTED} are listed"


class Ledger(Struct, eq=False):
    """Collects losses in order, each (code, path) once. Of one code only so many: what is made of thousands of fields
    that nobody knows must not be as long.
    """

    losses: list[Loss] = field(default_factory=list)
    full: set[str] = field(default_factory=set)
    """codes of which no more are recorded, so that nobody need look for them"""
    _paths: dict[str, set[str]] = field(default_factory=dict)

    def add(self, code: str, path: str, detail: str = "") -> None:
        """Record one loss. An unknown code is a bug."""
        if code not in LOSSES:
            raise InternalError(f"unknown loss code {code}")
        paths = self._paths.setdefault(code, set())
        if path in paths or code in self.full:
            return
        if len(paths) == MOST_LISTED:
            self.full.add(code)
            detail = AND_MORE
        paths.add(path)
        self.losses.append(Loss(code, path, detail))

    def refuse_if_any(self) -> None:
        """Strict mode: everything recorded so far is an error."""
        if self.losses:
            raise StrictLoss(tuple(self.losses))
