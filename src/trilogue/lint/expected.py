"""What a request says about its answer: the part of it that rules for streams and answers need.

In: a parsed request body of any protocol, or None. Out: one `ExpectedResponse`. It judges nothing; `requests.py` does.
"""

from __future__ import annotations

from msgspec import Struct

from trilogue.lint.json_values import arr, is_int, obj, objects, text
from trilogue.model import Json, Protocol


class ExpectedResponse(Struct, frozen=True, kw_only=True):
    """Without a request nothing is known, and rules that need one do not apply."""

    known: bool = False
    body: dict[str, Json] = {}
    model: str = ""
    names: frozenset[str] | None = None
    """all tool names that may be called; None: not known, or the provider adds names of its own"""
    custom: frozenset[str] = frozenset()
    namespaced: dict[str, str] = {}
    """plain name -> namespace, for tools that are offered in one namespace only"""
    no_tools: bool = False
    one_call: bool = False
    forced: bool = False
    """the choice names a tool"""
    json: bool = False
    stops: tuple[str, ...] = ()
    no_padding: bool = False
    include_usage: bool = False
    choices: int = 1
    thinking: bool = False


def asked(protocol: Protocol, request: dict[str, Json] | None) -> ExpectedResponse:
    """Read the request, if there is one."""
    return _READERS[protocol](request) if isinstance(request, dict) else ExpectedResponse()


def _chat(body: dict[str, Json]) -> ExpectedResponse:
    options = obj(body.get("stream_options"))
    tools = objects(body.get("tools"))
    custom = frozenset(text(obj(tool.get("custom")).get("name")) for tool in tools if tool.get("type") == "custom")
    functions = {text(obj(tool.get("function")).get("name")) for tool in tools}
    legacy = {text(function.get("name")) for function in objects(body.get("functions"))}
    stop = body.get("stop")
    return ExpectedResponse(
        known=True,
        body=body,
        model=text(body.get("model")),
        names=frozenset(functions | legacy) | custom,
        custom=custom,
        no_tools=body.get("tool_choice") == "none",
        one_call=body.get("parallel_tool_calls") is False,
        forced=isinstance(body.get("tool_choice"), dict),
        json=obj(body.get("response_format")).get("type") == "json_schema",
        stops=(stop,) if isinstance(stop, str) else tuple(filter(None, map(text, arr(stop)))),
        no_padding=options.get("include_obfuscation") is False,
        include_usage=options.get("include_usage") is True,
        choices=body["n"] if is_int(body.get("n")) else 1,
    )


def _messages(body: dict[str, Json]) -> ExpectedResponse:
    tools = objects(body.get("tools"))
    choice = obj(body.get("tool_choice"))
    provider_names = any(not isinstance(tool.get("name"), str) for tool in tools) or bool(body.get("mcp_servers"))
    return ExpectedResponse(
        known=True,
        body=body,
        model=text(body.get("model")),
        names=None if provider_names else frozenset(text(tool.get("name")) for tool in tools),
        no_tools=choice.get("type") == "none",
        one_call=choice.get("disable_parallel_tool_use") is True,
        json=bool(obj(obj(body.get("output_config")).get("format"))),
        thinking=obj(body.get("thinking")).get("type") != "disabled" and "thinking" in body,
    )


def _responses(body: dict[str, Json]) -> ExpectedResponse:
    tools = objects(body.get("tools"))
    top = {text(tool.get("name")) for tool in tools if tool.get("type") in ("function", "custom")}
    spaces = [
        (text(inner.get("name")), text(tool.get("name")))
        for tool in tools
        if tool.get("type") == "namespace"
        for inner in objects(tool.get("tools"))
    ]
    inner_names = [name for name, _ in spaces]
    return ExpectedResponse(
        known=True,
        body=body,
        model=text(body.get("model")),
        custom=frozenset(text(tool.get("name")) for tool in tools if tool.get("type") == "custom"),
        namespaced={name: space for name, space in spaces if name not in top and inner_names.count(name) == 1},
        no_tools=body.get("tool_choice") == "none",
        one_call=body.get("parallel_tool_calls") is False,
        json=obj(obj(body.get("text")).get("format")).get("type") == "json_schema",
        no_padding=obj(body.get("stream_options")).get("include_obfuscation") is False,
    )


_READERS = {Protocol.CHAT: _chat, Protocol.MESSAGES: _messages, Protocol.RESPONSES: _responses}
