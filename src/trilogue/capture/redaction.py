"""Placeholders for texts: a capture that can be shared shows the structure of a conversation and not its words.

Every text becomes a text of the same length. What makes up the structure stays: types, roles, models, ids, names of
tools and of fields, numbers. JSON in texts (arguments of tools) stays JSON, so that a redacted capture can be replayed.
"""

from __future__ import annotations

import re

from trilogue.base.json_text import dump, dump_text, parse, parse_object
from trilogue.errors import InternalError
from trilogue.model import SEAL_PREFIXES, Json

_STRUCTURE = frozenset(
    {
        "action",
        "by",
        "call_id",
        "category",
        "code",
        "container_id",
        "detail",
        "display",
        "effort",
        "event",
        "finish_reason",
        "format",
        "generate_summary",
        "id",
        "include",
        "index",
        "item_id",
        "kind",
        "media_type",
        "mime_type",
        "mode",
        "model",
        "name",
        "namespace",
        "object",
        "order",
        "output_format",
        "param",
        "phase",
        "previous_response_id",
        "prompt_cache_retention",
        "quality",
        "reason",
        "require_approval",
        "reasoning_effort",
        "request_id",
        "role",
        "server_label",
        "service_tier",
        "size",
        "status",
        "stop_reason",
        "strategy",
        "tool_call_id",
        "tool_choice",
        "tool_use_id",
        "truncation",
        "ttl",
        "type",
        "verbosity",
    }
)
"""fields whose texts are names of the protocol, or ids"""
_WORDS = {"summary": frozenset({"auto", "concise", "detailed", "none"})}
"""fields that hold a text in one place and a setting in another, and the values of the setting"""
_SCHEMA_FIELDS = frozenset({"type", "required", "$ref", "format"})
_SCHEMAS = frozenset({"parameters", "input_schema", "schema"})
_FREE_OBJECTS = frozenset({"input", "metadata"})
"""objects whose field names belong to the client, and whose values are all texts or parts of one"""
_JSON_TEXTS = frozenset({"arguments", "partial_json"})
_JSON_DELTAS = ("arguments.delta",)
_ENCODED = frozenset(
    {"data", "file_data", "b64_json", "signature", "encrypted_content", "encrypted_index", "obfuscation"}
)

_IDENTIFIER = re.compile(r"[\w.:/@+-]{0,200}", re.ASCII)
"""texts with spaces are content, also in fields such as `code`, which is a name in errors and a program elsewhere"""
_VISIBLE = re.compile(r"\S")
_THINK = re.compile(r"(</?think>)")
_URL = re.compile(r"(https?://|data:[\w/+.-]*;base64,)(.*)", re.DOTALL)
_URL_NAME = re.compile(r"[^/.:?&=#-]")
_KEPT_ESCAPES = frozenset("ntrbf")
_HIGH_SURROGATES = ("d8", "d9", "da", "db")
PLACEHOLDER = "x"


class Redaction:
    """Redacts the body or the events of one request or response."""

    def __init__(self) -> None:
        self._open: dict[Json, JsonTextRedactor] = {}
        """the arguments that arrive in pieces, by the index of their call"""

    def object(self, body: dict[str, Json], index: Json = None) -> dict[str, Json]:
        """Return a request, a response, an event or a part of one with placeholders for its texts."""
        index = body.get("output_index", body.get("index", index))
        is_json = str(body.get("type")).endswith(_JSON_DELTAS)
        return {
            name: self._json_text(value, index)
            if is_json and name == "delta" and isinstance(value, str)
            else self._field(name, value, index)
            for name, value in body.items()
        }

    def _field(self, name: str, value: Json, index: Json) -> Json:
        if isinstance(value, str):
            return self._text(name, value, index)
        if isinstance(value, dict):
            if name in _SCHEMAS:
                return _schema(value)
            return _free(value) if name in _FREE_OBJECTS else self.object(value, index)
        if isinstance(value, list):
            # `input` is a list of items in Responses requests, and an object only in tool calls.
            return [
                self.object(inner, index) if isinstance(inner, dict) else self._field(name, inner, index)
                for inner in value
            ]
        return value

    def _text(self, name: str, value: str, index: Json) -> str:
        if (name in _STRUCTURE and _IDENTIFIER.fullmatch(value)) or value in _WORDS.get(name, ()):
            return value
        if name in _JSON_TEXTS:
            return self._json_text(value, index)
        if name in _ENCODED and not value.startswith("data:"):
            return _encoded(value)
        # The free text of a custom tool may be the value of a JSON field elsewhere, where URLs are not special.
        return _VISIBLE.sub(PLACEHOLDER, value) if name == "input" else redact_text(value)

    def _json_text(self, value: str, index: Json) -> str:
        if parse_object(value) is not None:
            return redact_json_text(value)
        return self._open.setdefault(index, JsonTextRedactor()).feed(value)


def redact_body(data: bytes) -> bytes:
    """Return a JSON body with placeholders for its texts; placeholders only if it is not a JSON object."""
    body = parse_object(data)
    return dump(Redaction().object(body)) if body is not None else redact_text(data.decode("utf-8", "replace")).encode()


def redact_text(text: str) -> str:
    """Return a text of the same length, with an x for every character but white space. URLs keep their scheme."""
    url = _URL.fullmatch(text)
    if url:
        return url[1] + ("A" * len(url[2]) if url[1].startswith("data:") else _URL_NAME.sub(PLACEHOLDER, url[2]))
    # Some models write their reasoning into the text between these tags, and the translation looks for them.
    pieces = _THINK.split(text)
    return "".join(piece if number % 2 else _VISIBLE.sub(PLACEHOLDER, piece) for number, piece in enumerate(pieces))


def _schema(value: Json, *, names: bool = False) -> Json:
    """Return a JSON Schema without its descriptions and values. `names`: the keys are names of properties."""
    if isinstance(value, dict):
        return {
            key: inner if key in _SCHEMA_FIELDS and not names else _schema(inner, names=key in ("properties", "$defs"))
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_schema(inner) for inner in value]
    return redact_text(value) if isinstance(value, str) else value


def _free(value: dict[str, Json]) -> Json:
    """Return the input of a tool call, as the same input is redacted where it is JSON text."""
    return parse(redact_json_text(dump_text(value)), InternalError)


def _encoded(value: str) -> str:
    """Return base64 text of the same length; a sealed value stays recognisable as one."""
    prefix = next((one for one in SEAL_PREFIXES if value.startswith(one)), "")
    return prefix + "A" * (len(value) - len(prefix))


class StreamRedactor:
    """Redacts a body that arrives in pieces: a stream line by line, a JSON body at its end."""

    def __init__(self) -> None:
        self._redaction = Redaction()
        self._rest = b""
        self._is_json: bool | None = None

    def feed(self, data: bytes) -> bytes:
        """Return what can be redacted so far. It ends with a whole line."""
        self._rest += data
        if self._is_json is None and self._rest.strip():
            self._is_json = self._rest.lstrip()[:1] in (b"{", b"[")
        if self._is_json is not False:
            return b""
        lines, newline, self._rest = self._rest.rpartition(b"\n")
        return b"\n".join(map(self._line, lines.split(b"\n"))) + newline if newline else b""

    def close(self) -> bytes:
        """Return the redacted form of the bytes held back so far: an unfinished line, or a whole JSON body."""
        rest, self._rest = self._rest, b""
        if not rest.strip():
            return rest
        return redact_body(rest) if self._is_json else self._line(rest)

    def _line(self, line: bytes) -> bytes:
        """Return one line of a stream. Comments, names of events and `[DONE]` stay; other texts do not."""
        name, colon, value = line.partition(b":")
        if not colon or name in (b"", b"event", b"id", b"retry") or value.strip() == b"[DONE]":
            return line if colon or not line.strip() else redact_text(line.decode("utf-8", "replace")).encode()
        body = parse_object(value)
        if body is None:
            return name + b": " + redact_text(value.decode("utf-8", "replace").strip()).encode()
        return name + (b": " if value.startswith(b" ") else b":") + dump(self._redaction.object(body))


class JsonTextRedactor:
    """Redacts one JSON text, fed in pieces that are cut anywhere.

    Names of fields, numbers and words outside of texts stay; every character of a text but white space becomes an x.
    """

    def __init__(self) -> None:
        self._containers: list[str] = []
        self._is_key = False
        self._in_text = False
        self._escape = ""
        """an escape sequence that is not complete yet"""

    def feed(self, piece: str) -> str:
        """Return the next piece with placeholders."""
        return "".join(map(self._character, piece))

    def _character(self, character: str) -> str:
        if not self._in_text:
            return self._outside(character)
        if self._escape:
            return self._escaped(character)
        if character == "\\":
            self._escape = character
            return ""
        if character == '"':
            self._in_text = self._is_key = False
            return character
        return character if self._is_key or character.isspace() else PLACEHOLDER

    def _outside(self, character: str) -> str:
        if character in "{[":
            self._containers.append(character)
        elif character in "}]" and self._containers:
            self._containers.pop()
        if character in "{,":
            self._is_key = self._containers[-1:] == ["{"]
        elif character == '"':
            self._in_text = True
        return character

    def _escaped(self, character: str) -> str:
        """Return the placeholder of an escape sequence once it is complete. It stands for one character."""
        self._escape += character
        if self._escape.startswith("\\u") and len(self._escape) < 6:
            return ""
        escape, self._escape = self._escape, ""
        if self._is_key or escape[1] in _KEPT_ESCAPES:
            return escape
        # Two escapes make one character if it is outside of the basic plane.
        return "" if escape[2:4].lower() in _HIGH_SURROGATES else PLACEHOLDER


def redact_json_text(text: str) -> str:
    """Return a whole JSON text with placeholders."""
    return JsonTextRedactor().feed(text)
