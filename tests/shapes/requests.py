"""The features of a request: every field that it has, one by one, with the kind of its value but without the value.

In: the body of a request. Out: lines such as `messages[user].content[image_url].image_url.detail=high`. Objects whose
names the client chooses (metadata, arguments, properties of a schema) are not entered.
"""

from typing import Any

Body = dict[str, Any]
_WORDS = frozenset(
    {"type", "mode", "ttl", "effort", "status", "detail", "tool_choice", "service_tier", "summary", "verbosity"}
    | {"display", "reasoning_effort", "syntax", "truncation", "require_approval", "speed", "search_context_size"}
    | {"function_call", "execution", "context", "environment"}
)
"""fields whose value is one of a few words, which decides what becomes of it"""
_WORD_LISTS = frozenset({"include", "modalities"})
"""lists of such words"""
_CHOSEN = frozenset(
    {"input", "metadata", "logit_bias", "arguments", "client_metadata", "chat_template_kwargs", "headers"}
    | {"variables", "options", "venice_parameters", "provider", "extra_body", "json_schema_extra", "env"}
)
"""objects with names of the client's or the server's own"""
_SCHEMAS = frozenset({"parameters", "input_schema", "schema", "output_schema"})
_ALTERNATIVES = ("anyOf", "oneOf", "allOf", "$ref", "not")
_NAMED_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties")
_KINDS = {bool: "bool", int: "number", float: "number", str: "text", type(None): "null"}


def features(body: Body) -> frozenset[str]:
    """Return the features of a request."""
    found: set[str] = set()
    for name, value in body.items():
        if name != "model":
            _walk(value, name, name, found)
    return frozenset(found)


def _walk(value: Any, path: str, name: str, found: set[str]) -> None:
    if isinstance(value, dict):
        _object(value, path, name, found)
    elif isinstance(value, list):
        _list(value, path, found)
    elif isinstance(value, str) and name in _WORDS:
        found.add(f"{path}={value}")
    else:
        found.add(f"{path}: {'empty' if value == '' else _KINDS[type(value)]}")


def _object(value: Body, path: str, name: str, found: set[str]) -> None:
    if (name in _SCHEMAS and "[openrouter:" not in path) or path == "json_schema":
        _schema(value, True, found)
        found.add(f"{path}: schema")
    elif not value or (name in _CHOSEN and path != "input"):
        found.add(f"{path}: object")
    else:
        for inner, given in value.items():
            _walk(given, f"{path}.{inner}", inner, found)


def _list(values: list[Any], path: str, found: set[str]) -> None:
    if not values:
        found.add(f"{path}: empty list")
    for value in values:
        if not isinstance(value, dict):
            word = f"={value}" if path in _WORD_LISTS else f": {_KINDS.get(type(value), 'list')}"
            found.add(f"{path}[]{word}")
            continue
        kind, role = value.get("type"), value.get("role")
        inner = f"{path}[{_tag(kind, role)}]"
        found.add(inner)
        for name, given in value.items():
            if name not in ("type", "role"):
                _walk(given, f"{inner}.{name}", name, found)


def _tag(kind: Any, role: Any) -> str:
    """Return what an object of a list is; a message by its role."""
    return str(role if isinstance(role, str) else kind if isinstance(kind, str) else "")


def _schema(value: Any, top: bool, found: set[str]) -> None:
    """Add the keywords of a schema, wherever they are."""
    if isinstance(value, list):
        for inner in value:
            _schema(inner, False, found)
        return
    for name, given in value.items() if isinstance(value, dict) else ():
        place = "schema top" if top and name in _ALTERNATIVES else "schema"
        if name in _NAMED_SCHEMAS and isinstance(given, dict):
            for inner in given.values():
                _schema(inner, False, found)
        elif name in ("type", "additionalProperties") and not isinstance(given, dict):
            found.add(f"{place} {name}={'several' if isinstance(given, list) else given}")
        elif name in ("enum", "const", "default", "examples", "required"):
            found.add(f"{place} {name}")
        else:
            found.add(f"{place} {name}")
            _schema(given, False, found)
