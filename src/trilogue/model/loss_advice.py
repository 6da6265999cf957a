"""What to change so that a loss does not occur, by loss code: the advice in `trilogue explain` and in docs/losses.md.

The advice names fields of requests, fields of `profile` and settings of the gateway. Where a loss does not
matter for most uses, it says that nothing has to be done.
"""

from __future__ import annotations

_NOTHING = "nothing has to be done"
_SAME_PROTOCOL = "route the model to a provider that speaks the client's protocol"

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
