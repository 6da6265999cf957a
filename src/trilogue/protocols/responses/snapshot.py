"""The response object around the output: echoes of the request, service tier and usage of hosted tools.

In: the client's request body, or the fields that an upstream of this protocol sent. Out: the fields that lifecycle
events and whole responses have in common. The output items are made elsewhere.
"""

from __future__ import annotations

from trilogue.model import Extras, Json, Tier
from trilogue.protocols.responses.wire import PROTOCOL
from trilogue.protocols.stream.reply import Reply

_REQUIRED: dict[str, Json] = {
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
}
"""the fields that the official types require of every response, with the value if there is nothing to say"""

_ECHOED: dict[str, Json] = {
    **_REQUIRED,
    "background": False,
    "frequency_penalty": 0.0,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "prompt_cache_retention": None,
    "safety_identifier": None,
    "service_tier": "auto",
    "top_logprobs": 0,
    "truncation": "disabled",
    "user": None,
}
"""echoes of the request, with the protocol's default for what the client left out"""

_OBJECTS: tuple[tuple[str, dict[str, Json]], ...] = (
    ("reasoning", {"effort": None, "summary": None}),
    ("text", {"format": {"type": "text"}}),
)
"""echoes that are objects, of which the client may have set some fields"""

_EXPECTED: dict[str, Json] = {
    **_REQUIRED,
    "max_output_tokens": None,
    "previous_response_id": None,
    **dict(_OBJECTS),
    "truncation": "disabled",
}
"""what clients read from every snapshot, for upstreams of this protocol that leave some of it out"""

_ONLY_IF_SENT = ("prompt", "conversation", "prompt_cache_options")

_FUNCTION: dict[str, Json] = {"description": None, "parameters": None, "strict": False}
"""what the echo of a function always has; tools without `strict` are offered as not strict"""


def echo(reply: Reply, extras: Extras) -> dict[str, Json]:
    """Return all fields of a snapshot that do not change during a response.

    The values of an upstream of this protocol override those of the request.
    """
    if is_upstreams_own(reply):
        return {**_EXPECTED, **(extras or {})}
    body = reply.body
    echoed = {**_ECHOED}
    for name, value in body.items():
        if name in _ECHOED and value is not None:
            echoed[name] = value
    for name in _ONLY_IF_SENT:
        if name in body and body[name] is not None:
            echoed[name] = body[name]
    for name, default in _OBJECTS:
        given = body.get(name)
        echoed[name] = {**default, **given} if type(given) is dict else {**default}
    # Responses are not stored here, so they cannot be fetched later, whatever the client asked for.
    echoed["store"] = reply.stored
    echoed["completed_at"] = None
    echoed["tools"] = _tools(echoed["tools"])
    return {**echoed, **(extras or {})} if reply.source is PROTOCOL else echoed


def is_upstreams_own(reply: Reply) -> bool:
    """Return whether the snapshot is an upstream's own, to be completed only where clients would fail."""
    return reply.source is PROTOCOL and not reply.body


def _tools(given: Json) -> Json:
    """Return the tools with every field that the echo of a function must have, also inside namespaces."""
    return [_tool(tool) for tool in given] if isinstance(given, list) else given


def _tool(tool: Json) -> Json:
    if not isinstance(tool, dict):
        return tool
    if tool.get("type") == "namespace":
        return {**tool, "tools": _tools(tool.get("tools"))}
    if tool.get("type", "function") != "function":
        return tool
    given = {name: value for name, value in tool.items() if value is not None}
    return {"type": "function", **_FUNCTION, **given}


def service_tier(tier: Tier | None, reply: Reply) -> dict[str, Json]:
    """Return the tier that was used: the default one if an upstream of another protocol did not say.

    The upstream's own name for it is in the extras.
    """
    if tier is None:
        return {} if reply.source is PROTOCOL else {"service_tier": "default"}
    if tier is Tier.BATCH:
        reply.ledger.add("tier", reply.tier_path, tier.value)
        tier = Tier.DEFAULT
    return {"service_tier": tier.value}


def tool_usage(searches: int) -> dict[str, Json]:
    """Return how often hosted tools ran; kinds of tool that did not run have zero counts."""
    no_images = {
        "input_tokens": 0,
        "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
        "output_tokens": 0,
        "total_tokens": 0,
    }
    return {"image_gen": no_images, "web_search": {"num_requests": searches}}
