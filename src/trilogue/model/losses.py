"""Losses: what a translation could not carry over exactly, as data, and what to change so that it does not occur.

`LOSSES` is the closed list of codes. The table in the docs is generated from it, and every code has a test. `ADVICE`
has a text for each code, for `trilogue explain` and docs/losses.md. It names fields of requests, fields of `profile`
and settings of the gateway. Where a loss does not matter for most uses, it says that nothing has to be done.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct, field

from trilogue.errors import ClientError, InternalError, StrictLoss

_NOTHING = "nothing has to be done"
_SAME_PROTOCOL = "route the model to a provider that speaks the client's protocol"


class Severity(StrEnum):
    """How much a loss matters. Strict mode refuses losses from one of these on."""

    NOTICE = "notice"
    """a default was filled in, a hint was dropped, or the form changed: the model has the same task"""
    DEGRADED = "degraded"
    """a setting, a tool or a part of the conversation arrives in another form or with another effect"""
    DROPPED = "dropped"
    """content is missing: of the conversation, of the tools or of the response"""

    @property
    def rank(self) -> int:
        """The position in the order from least to most severe."""
        return _RANKS[self]


NOTICE, DEGRADED, DROPPED = Severity
_RANKS = {severity: rank for rank, severity in enumerate(Severity)}

Strictness = Severity | str | bool | None
"""What strict mode refuses: losses from this severity on, True for the default (`degraded`), False or None for none."""


class LossRule(Struct, frozen=True):
    """The case that a loss code is for, how much it matters, and what is done instead."""

    severity: Severity
    when: str
    instead: str


class Loss(Struct, frozen=True):
    """One thing that was not carried over exactly. `path` points into the source document."""

    code: str
    path: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.code} at {self.path}" + (f" ({self.detail})" if self.detail else "")

    @property
    def severity(self) -> Severity:
        """How much the loss matters, from the table of codes."""
        return LOSSES[self.code].severity


LOSSES: dict[str, LossRule] = {
    "model.defaulted": LossRule(
        DEGRADED,
        "a request names no model, and all aliases, routes and models of the gateway lead to the same one",
        ("that model is used"),
    ),
    "role.developer_merged": LossRule(
        NOTICE, "a developer message goes to a protocol with a single system role", "sent as system text"
    ),
    "system.as_user": LossRule(
        DEGRADED,
        (
            "a system message in the middle of a conversation goes to a model that accepts none there, right after an "
            "assistant turn to Messages, or as the last message to a server that requires one of the user; or a "
            "request with nothing else goes to Messages"
        ),
        "sent as a user turn, in its place",
    ),
    "system.billing_block": LossRule(
        NOTICE,
        "the billing line in Claude Code's system prompt goes to an upstream that is not Anthropic's own API",
        "left out",
    ),
    "turn.inserted": LossRule(
        DEGRADED,
        (
            "a conversation that begins with the assistant goes to Messages, or one of Responses that ends with it to "
            "a model that would not go on there"
        ),
        "a short user turn is added",
    ),
    "agent.plaintext": LossRule(
        NOTICE,
        "messages between Codex's agents, and tool arguments that it wants encrypted, for an upstream without either",
        "user messages, and plain text",
    ),
    "agent.encrypted": LossRule(
        DROPPED,
        "encrypted text between Codex's agents in the history, which only the provider that made it can read",
        "a note says so; a newest message that cannot be read is refused",
    ),
    "message.name": LossRule(DEGRADED, "a participant name on a message", "dropped"),
    "order.flattened": LossRule(
        DEGRADED, "text between or after tool calls goes to Chat", "text first, then the calls"
    ),
    "text.blocks_joined": LossRule(
        NOTICE,
        "several text blocks of a message go to a field that holds one string",
        (
            "joined into one string: directly in responses, with a line break in tool results, with a blank line "
            "elsewhere"
        ),
    ),
    "phase": LossRule(NOTICE, "the mark in Responses that separates commentary from the final response", "dropped"),
    "media.dropped": LossRule(
        DROPPED,
        "image, audio or file in an earlier turn or a tool result, for a model that does not accept it",
        ("replaced by a note"),
    ),
    "image.detail": LossRule(NOTICE, "image resolution hint", "dropped"),
    "document.as_text": LossRule(
        DEGRADED, "plain-text document for a protocol that has no documents", "sent as text with its title"
    ),
    "search_result.as_text": LossRule(
        DEGRADED, "search result supplied by the client", "sent as text with title and source"
    ),
    "tool.strict_default": LossRule(
        NOTICE, "Responses tool without `strict`, where strict mode is tried by default", "sent as not strict"
    ),
    "tool.strict_downgraded": LossRule(
        DEGRADED, "strict schema that the target's strict mode does not support", "sent as not strict"
    ),
    "tool.name_mangled": LossRule(
        NOTICE,
        "tool name that is too long or has characters that the target does not allow",
        "changed; restored in responses",
    ),
    "tool.custom_emulated": LossRule(
        DEGRADED,
        "free-text tool for a protocol that has none",
        ("sent as a function with one string argument; restored in responses"),
    ),
    "tool.namespace_description": LossRule(
        DEGRADED, "description of a namespace of tools", "dropped; names are flattened and restored"
    ),
    "tool.defer_loading": LossRule(
        NOTICE, "deferred tool for a protocol without tool search", "offered from the start"
    ),
    "tool.timing": LossRule(NOTICE, "tool added in the middle of a conversation", "offered from the start"),
    "tool.option": LossRule(DEGRADED, "optional tool setting without an equivalent", "dropped"),
    "tool.builtin_emulated": LossRule(
        DEGRADED,
        "tool that the protocol defines and the client runs (shell, editor, memory, patch), or tool search",
        "sent as a function with the documented fields; calls are restored in responses",
    ),
    "tool.hosted_dropped": LossRule(DROPPED, "hosted tool that the target cannot run", "not offered"),
    "tool.hosted_replaced": LossRule(
        DEGRADED,
        "hosted tool with a similar one at the target, such as search for fetch",
        ("the similar tool is offered"),
    ),
    "tool_search.algorithm": LossRule(
        DEGRADED, "tool search that the provider runs", "the target's own search is used"
    ),
    "tool_choice.allowed_filtered": LossRule(
        NOTICE, "tool choice limited to some tools", "only those tools are offered"
    ),
    "tool_choice.dropped": LossRule(DEGRADED, "choice of a tool that was left out", "the model chooses freely"),
    "thinking.unavailable": LossRule(
        DEGRADED, "thinking requested from a model that does not think", ("the model responds without thinking")
    ),
    "thinking.dropped_tools": LossRule(
        DEGRADED, "thinking together with tools, for a model that accepts only one of them", "thinking off"
    ),
    "thinking.dropped_forced_tool": LossRule(DEGRADED, "thinking together with a forced tool choice", "thinking off"),
    "arguments.invalid_json": LossRule(
        DEGRADED,
        "tool arguments that are not a JSON object",
        "the text inside an object; in a stream that began as an object, an error at its end",
    ),
    "arguments.empty": LossRule(
        NOTICE,
        "an optional argument that the model left empty, if the tool's schema does not ask for such a value",
        "left out",
    ),
    "tool_result.synthetic": LossRule(
        DEGRADED, "history repair: a tool call without a result", "an error result is added"
    ),
    "tool_result.orphan_dropped": LossRule(DROPPED, "history repair: a tool result without a call", "dropped"),
    "tool_result.part": LossRule(DEGRADED, "part of a tool result without an equivalent", "sent as text"),
    "tool_result.media_moved": LossRule(
        DEGRADED, "image or file in a tool result goes to Chat", "sent in a user message after the results"
    ),
    "tool_result.is_error": LossRule(NOTICE, "error flag of a tool result", "added to the text"),
    "effort.none": LossRule(DEGRADED, "no reasoning, for a model that always reasons", "the lowest effort"),
    "effort.minimal": LossRule(DEGRADED, "minimal effort", "low effort"),
    "effort.clamped": LossRule(DEGRADED, "effort level the model does not have", "the nearest one"),
    "thinking.budget": LossRule(DEGRADED, "token budget for thinking", "the nearest effort level"),
    "thinking.no_room": LossRule(DEGRADED, "too few output tokens for thinking", "thinking off"),
    "thinking.replay_missing": LossRule(
        DEGRADED,
        "the thinking at the start of a tool loop, which must be sent back, is missing",
        "thinking off until the next question",
    ),
    "thinking.mode": LossRule(DEGRADED, "thinking mode without an equivalent", "the target's default"),
    "reasoning.nonstandard": LossRule(NOTICE, "reasoning goes to a Chat client", "sent in `reasoning_content`"),
    "reasoning.foreign_dropped": LossRule(DROPPED, "reasoning of another provider, model or account", "dropped"),
    "reasoning.at_end": LossRule(
        NOTICE, "reasoning at the end of a conversation, of a response that was cut off", "left out"
    ),
    "reasoning.unread": LossRule(
        DROPPED,
        "reasoning that the gateway keeps for a client that cannot send it back, while the store does not respond",
        "left out; the model thinks again",
    ),
    "reasoning.context": LossRule(NOTICE, "how much earlier reasoning to use", "dropped"),
    "reasoning.visibility": LossRule(DEGRADED, "how much reasoning to show", "the nearest setting"),
    "verbosity": LossRule(NOTICE, "verbosity hint", "dropped"),
    "web_search.params": LossRule(DEGRADED, "web search setting without an equivalent", "dropped"),
    "web_search.replay": LossRule(
        DEGRADED, "search results in the history without the provider's encrypted token", "sent as a list of links"
    ),
    "code_exec.container": LossRule(DEGRADED, "container of a code execution, with its files", "a new container"),
    "hosted.history_as_text": LossRule(DEGRADED, "hosted tool call in the history", "replaced by a short note"),
    "hosted.result_dropped": LossRule(DROPPED, "output of a hosted tool without an equivalent", "dropped"),
    "stop.pause_turn": LossRule(
        DEGRADED,
        "the provider paused a long turn",
        (
            "the gateway continues a turn with tools that the provider runs. One that is not continued, or was so "
            "`server.max_continuations` times, is reported as cut short"
        ),
    ),
    "citation.source_span": LossRule(
        DROPPED, "the quoted source text of a citation", "only the link and its position are kept"
    ),
    "citation.span": LossRule(
        DEGRADED, "which part of the text a citation is for", ("the citation applies to the whole text")
    ),
    "citation.document": LossRule(DROPPED, "citation into a document", "dropped"),
    "citation.dropped": LossRule(DROPPED, "citation in the history", "dropped"),
    "schema.transformed": LossRule(
        DEGRADED,
        "schema of a tool or an output that uses what the target does not support",
        "objects are closed, limits move to descriptions, alternatives at the top level are merged",
    ),
    "format.schema_in_words": LossRule(
        DEGRADED, "output schema for a model that accepts none", "requested in the prompt"
    ),
    "format.json_word": LossRule(
        DEGRADED,
        "JSON output mode for an API that requires the word JSON in the conversation",
        ("a prompt that asks for JSON is added"),
    ),
    "format.json_object": LossRule(DEGRADED, "JSON output mode without a schema", "requested in the prompt"),
    "format.details": LossRule(NOTICE, "name, description or strictness of an output schema", "dropped"),
    "max_tokens.defaulted": LossRule(
        NOTICE, "no output limit, for a target that requires one", "the model's default limit"
    ),
    "max_tokens.raised": LossRule(DEGRADED, "output limit below the target's minimum", "raised to the minimum"),
    "max_tokens.lowered": LossRule(
        DEGRADED, "output limit above the model's maximum", "lowered to the model's maximum"
    ),
    "temperature.clamped": LossRule(DEGRADED, "temperature outside the target's range", "the nearest value in range"),
    "sampling.dropped": LossRule(DEGRADED, "sampling parameter that the model no longer accepts", "dropped"),
    "param.dropped": LossRule(DEGRADED, "request parameter with no equivalent", "dropped"),
    "param.refused": LossRule(
        DEGRADED,
        "parameter that the upstream refused for this model, by its name in the request that was sent",
        "left out, or replaced by the nearest accepted value",
    ),
    "stop.emulated": LossRule(NOTICE, "stop sequences for a protocol that has none", "Trilogue cuts the response"),
    "stop.which": LossRule(DEGRADED, "which stop sequence ended the response", "reported as a natural end"),
    "stop.detail": LossRule(NOTICE, "detailed stop reason that only one protocol has", "the nearest stop reason"),
    "cache.ttl": LossRule(NOTICE, "cache lifetime the target does not have", "the nearest one"),
    "cache.mark": LossRule(NOTICE, "cache mark in a place where the target accepts none", "dropped"),
    "cache.tool_mark": LossRule(NOTICE, "cache mark on a tool", "dropped"),
    "cache.key": LossRule(NOTICE, "cache key", "used for routing only"),
    "cache.key_hashed": LossRule(NOTICE, "cache key longer than the target allows", "replaced by its hash"),
    "cache.options": LossRule(NOTICE, "cache settings", "dropped"),
    "tier": LossRule(DEGRADED, "service tier the target does not have", "the nearest one"),
    "user.hashed": LossRule(NOTICE, "end-user id longer than the target allows", "replaced by its hash"),
    "metadata.kept": LossRule(NOTICE, "key-value metadata for a target that has none", "kept and echoed, not sent"),
    "refusal.category": LossRule(DEGRADED, "the category of a classifier's refusal", "dropped"),
    "logprobs.dropped": LossRule(DROPPED, "token probabilities", "dropped"),
    "audio.dropped": LossRule(DROPPED, "audio in a response", "the transcript is kept, unless the text repeats it"),
    "choices.dropped": LossRule(DROPPED, "more than one choice in a response", "only the first is kept"),
    "native.dropped": LossRule(DROPPED, "block or item that only its own protocol has", "dropped"),
    "usage.cache_ttl": LossRule(NOTICE, "cache writes by lifetime", "only the sum is kept"),
    "usage.estimated": LossRule(DEGRADED, "a response without usage", "an estimate"),
    "usage.inconsistent": LossRule(
        NOTICE,
        "contradictory usage figures: more cached than input tokens, or more reasoning than output tokens",
        "the part is reduced to the total",
    ),
    "usage.moved": LossRule(
        NOTICE,
        "no fresh input tokens in a stream for a Messages client, whose message_start has an estimate of them",
        "one of the cached tokens counts as fresh, so that clients which ignore zeros replace the estimate",
    ),
    "usage.detail": LossRule(NOTICE, "usage figure with no equivalent", "dropped"),
    "compaction.model": LossRule(
        DEGRADED,
        "a compaction is asked of an upstream that has none",
        "the model writes a summary, in one request",
    ),
    "count.estimated": LossRule(DEGRADED, "token count from an upstream that cannot count", "an estimate"),
    "resp.meta": LossRule(NOTICE, "field of the response with no equivalent", "dropped"),
    "policy.reasoning": LossRule(
        DROPPED,
        "a policy changed or removed reasoning that carries a signature or encrypted reasoning",
        "sent without the signature, or not sent; it cannot be sent back to its provider",
    ),
    "policy.prefix": LossRule(
        NOTICE,
        "a policy changed what comes before reasoning with a signature",
        "sent; a provider that binds reasoning to its prefix refuses it, unless the policy did the same before",
    ),
    "policy.annotations": LossRule(
        NOTICE, "citations or token probabilities of a text that a policy changed", "dropped"
    ),
    "store.ignored": LossRule(
        DEGRADED, "a request to store the response at the provider", "not stored; the response says so"
    ),
}


MOST_LISTED = 100
"""how many losses of one code are listed one by one"""
AND_MORE = f"and others: only {MOST_LISTED} are listed"


class Ledger(Struct, eq=False):
    """The losses of one translation, in order, with each (code, path) listed once.

    At most `MOST_LISTED` losses of one code are kept: a body with thousands of unknown fields must not produce a list
    of the same length.
    """

    losses: list[Loss] = field(default_factory=list)
    full: set[str] = field(default_factory=set)
    """codes that are not recorded any more; callers need not look for further losses of these"""
    _paths: dict[str, set[str]] = field(default_factory=dict)

    def add(self, code: str, path: str, detail: str = "") -> None:
        """Record one loss. Raises `InternalError` if the code is unknown."""
        if code not in LOSSES:
            raise InternalError(f"unknown loss code {code}")
        paths = self._paths.setdefault(code, set())
        # Streams repeat unknown fields in every event; one entry per path is enough.
        if path in paths or code in self.full:
            return
        if len(paths) == MOST_LISTED:
            self.full.add(code)
            detail = AND_MORE
        paths.add(path)
        self.losses.append(Loss(code, path, detail))

    def refuse_if_any(self, strict: Strictness = DEGRADED) -> None:
        """Raise `StrictLoss` if a loss was recorded that strict mode refuses: see `refuse_losses`."""
        if self.losses:
            refuse_losses(self.losses, strict)


def refuse_losses(losses: Iterable[Loss], strict: Strictness) -> None:
    """Raise `StrictLoss` with all losses of the given severity or a higher one, if there are any."""
    refused = tuple(loss for loss in losses if refuses(strict, loss.code))
    if refused:
        raise StrictLoss(refused)


def refuses(strict: Strictness, code: str) -> bool:
    """Return whether strict mode refuses losses with this code. Raises `ClientError` for an unknown severity."""
    if not strict:
        return False
    least = DEGRADED if strict is True else _severity(strict)
    return LOSSES[code].severity.rank >= least.rank


def _severity(name: str) -> Severity:
    try:
        return Severity(name)
    except ValueError:
        names = ", ".join(Severity)
        raise ClientError(f"there is no severity {name!r}: they are {names}", code="unknown_severity") from None


ADVICE: dict[str, str] = {
    "model.defaulted": "send `model`",
    "role.developer_merged": f"{_NOTHING}; send the role `system` to avoid the notice",
    "system.as_user": "send system messages at the start of the conversation, and end it with a user message",
    "system.billing_block": f"{_NOTHING}; `profile.billing_block: true` sends the line",
    "turn.inserted": "begin and end the conversation with a user message",
    "agent.plaintext": f"{_NOTHING}; `profile.agents: true` passes them on to a Responses upstream that has them",
    "agent.encrypted": "do not change the provider in the middle of a conversation with several agents",
    "message.name": "write the name into the text of the message",
    "order.flattened": f"{_SAME_PROTOCOL}, if the order of text and calls matters",
    "text.blocks_joined": f"{_NOTHING}; send one text per message to avoid the notice",
    "phase": f"{_NOTHING}; {_SAME_PROTOCOL}, if the model relies on it",
    "media.dropped": (
        "route the conversation to a model that accepts this kind of media, or correct `profile.images` or "
        "`profile.audio`"
    ),
    "image.detail": f"{_NOTHING}; scale the image yourself if its size matters",
    "document.as_text": "send the document as text yourself, or as a PDF to a model that reads files",
    "search_result.as_text": f"{_SAME_PROTOCOL}, if citations into the result are needed",
    "tool.strict_default": "set `strict` on the tool: `false` to avoid the notice, `true` to require it",
    "tool.strict_downgraded": "make the schema fit strict mode: every property required, `additionalProperties: false`",
    "tool.name_mangled": f"{_NOTHING}; use at most 64 letters, digits, `_` and `-` to avoid the notice",
    "tool.custom_emulated": "define the tool as a function with a JSON schema",
    "tool.namespace_description": "write what the namespace is for into the descriptions of its tools",
    "tool.defer_loading": f"{_NOTHING}; all tools count as input from the start",
    "tool.timing": f"{_NOTHING}; offer the tool from the first request on to keep prompt caches",
    "tool.option": f"remove the option, or {_SAME_PROTOCOL}",
    "tool.builtin_emulated": (
        "define a function of your own, or route the request to a model that was trained on this tool"
    ),
    "tool.hosted_dropped": (
        "route the request to a provider that runs this tool, or offer a function that your client runs"
    ),
    "tool.hosted_replaced": "ask for the tool that the target has",
    "tool_search.algorithm": f"{_NOTHING}; {_SAME_PROTOCOL}, if the algorithm matters",
    "tool_choice.allowed_filtered": f"{_NOTHING}; offering only these tools has the same effect",
    "tool_choice.dropped": "do not force a tool that this target cannot be offered",
    "thinking.unavailable": "do not ask for thinking, or route the request to a model that thinks (`profile.reasons`)",
    "thinking.dropped_tools": (
        "send no tools or no thinking, or use a model that accepts both (`profile.tools_with_reasoning`)"
    ),
    "thinking.dropped_forced_tool": "let the model choose the tool (`tool_choice: auto`), or switch thinking off",
    "arguments.invalid_json": "check the model: it has written arguments that are not JSON",
    "arguments.empty": (
        f"{_NOTHING}; a schema with `minLength: 0`, or with the value as its default, keeps empty strings, and "
        "`profile.fills_arguments: false` keeps all"
    ),
    "tool_result.synthetic": "send a result for every tool call in the history",
    "tool_result.orphan_dropped": "send the tool call that the result belongs to",
    "tool_result.part": "send text in tool results",
    "tool_result.media_moved": f"{_NOTHING}; {_SAME_PROTOCOL}, if the model confuses the images of several results",
    "tool_result.is_error": f"{_NOTHING}; the model reads that the tool has failed",
    "effort.none": "ask for the lowest effort of the model, or use a model that can respond without reasoning",
    "effort.minimal": "ask for `low`",
    "effort.clamped": "ask for one of the levels that `trilogue models NAME` shows",
    "thinking.budget": "ask for an effort level instead of a number of tokens",
    "thinking.no_room": "raise the output limit (`max_tokens`) above the thinking budget",
    "thinking.replay_missing": "send the thinking of earlier turns back unchanged, or keep the `state` of the gateway",
    "thinking.mode": "use a thinking mode that `trilogue models NAME` shows",
    "reasoning.nonstandard": f"{_NOTHING}; Chat has no field for reasoning, and most clients read `reasoning_content`",
    "reasoning.foreign_dropped": (
        "keep a conversation on one model and account (`providers.NAME.pool.sticky`), if its reasoning must be kept"
    ),
    "reasoning.at_end": f"{_NOTHING}; the model thinks again",
    "reasoning.unread": "see why the store of `state` did not respond; the log has the reason",
    "reasoning.context": f"{_NOTHING}; the target decides itself",
    "reasoning.visibility": "ask for reasoning in a form that the target has",
    "verbosity": "say in the prompt how long the response should be",
    "web_search.params": "remove the setting, or say in the prompt what to search for",
    "web_search.replay": "continue the conversation at the provider that has searched",
    "code_exec.container": "upload the files again, or continue at the provider that has the container",
    "hosted.history_as_text": "continue the conversation at the provider that ran the tool",
    "hosted.result_dropped": _SAME_PROTOCOL,
    "stop.pause_turn": "raise `server.max_continuations`",
    "citation.source_span": f"{_SAME_PROTOCOL}, if the quoted text is needed",
    "citation.span": f"{_SAME_PROTOCOL}, if positions of citations are needed",
    "citation.document": f"{_SAME_PROTOCOL}, if citations into documents are needed",
    "citation.dropped": f"{_NOTHING}; the model sees the text without its citations",
    "schema.transformed": (
        "use only what the target's structured output supports: closed objects, no limits on numbers and lengths"
    ),
    "format.schema_in_words": (
        "check the response against the schema, or use a model with structured output (`profile.json_schema`)"
    ),
    "format.json_word": "use the word JSON in the prompt",
    "format.json_object": "send a JSON schema instead of JSON mode",
    "format.details": f"{_NOTHING}; say in the prompt what the output is for",
    "max_tokens.defaulted": f"{_NOTHING}; send an output limit to avoid the notice",
    "max_tokens.raised": "send a higher output limit",
    "max_tokens.lowered": (
        "send at most what `trilogue models NAME` shows, or set `profile.max_output` if the model allows more"
    ),
    "temperature.clamped": "send a temperature in the range of the target (Messages: 0 to 1)",
    "sampling.dropped": "remove `temperature` and `top_p`, or set `profile.sampling` if the model accepts them",
    "param.dropped": f"remove the parameter, or {_SAME_PROTOCOL}",
    "param.refused": "remove the parameter; `trilogue models NAME` shows what was refused, and `--forget` forgets it",
    "stop.emulated": f"{_NOTHING}; the model is paid for what it writes after the stop sequence",
    "stop.which": _SAME_PROTOCOL,
    "stop.detail": f"{_NOTHING}; {_SAME_PROTOCOL}, if the detail is needed",
    "cache.ttl": f"{_NOTHING}; ask for a lifetime that the target has",
    "cache.mark": f"{_NOTHING} if the target caches by itself, as most Chat upstreams do",
    "cache.tool_mark": f"{_NOTHING} if the target caches by itself; a mark on the system prompt includes the tools",
    "cache.key": f"{_NOTHING}; the key keeps a conversation on its account",
    "cache.key_hashed": f"{_NOTHING}; use a key of at most 64 characters to avoid the notice",
    "cache.options": f"{_NOTHING} if the target caches by itself",
    "tier": "ask for a tier that the target has (`profile.tiers`)",
    "user.hashed": f"{_NOTHING}; use a shorter id to avoid the notice",
    "metadata.kept": f"{_NOTHING}; the response repeats the metadata",
    "refusal.category": _SAME_PROTOCOL,
    "logprobs.dropped": f"do not ask for token probabilities, or {_SAME_PROTOCOL}",
    "audio.dropped": "ask for text only, or use a Chat client with an upstream that speaks Chat",
    "choices.dropped": "send the request several times instead of asking for several choices",
    "native.dropped": _SAME_PROTOCOL,
    "usage.cache_ttl": f"{_NOTHING}; the log and `trilogue explain` have the figures",
    "usage.estimated": "let the upstream report usage (Chat streams: `profile.stream_usage: true`)",
    "usage.inconsistent": f"{_NOTHING}; report it to the operator of the upstream",
    "usage.moved": f"{_NOTHING}; the sum is right, and the log and `trilogue explain` have the figures",
    "usage.detail": f"{_NOTHING}; {_SAME_PROTOCOL}, if the figure is needed",
    "compaction.model": "compact at OpenAI, whose models have their own compaction, or in the client",
    "count.estimated": "count at a provider that can count tokens",
    "resp.meta": f"{_NOTHING}; {_SAME_PROTOCOL}, if the field is needed",
    "policy.reasoning": "exclude reasoning from the policy",
    "policy.prefix": f"{_NOTHING} if the policy applies to every request of the conversation; else begin a new one",
    "policy.annotations": f"{_NOTHING}; positions in a changed text would be wrong",
    "store.ignored": "send `store: false`, or let the gateway store responses (`state`)",
}
