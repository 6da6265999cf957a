"""The attributes of spans, by the names of OpenTelemetry's semantic conventions.

- GenAI: the span `gen_ai.client.inference` of https://github.com/open-telemetry/semantic-conventions-genai. It is still
  in development. The names are written here, because the package with all names has those of version 1.41.
- HTTP and errors: version 1.44, which is stable.
- `trilogue.…`: what only this gateway has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

from trilogue.base.json_text import DECODE_ERRORS
from trilogue.errors import TrilogueError
from trilogue.gateway.record import BACKGROUND, INTERNAL, RequestRecord
from trilogue.model import NO_SAMPLING, FormatKind, Json, Protocol, Request, Sampling, StopReason, Usage
from trilogue.protocols.registry import CODECS
from trilogue.upstreams.settings import ProviderSettings

Value = str | bool | int | float | Sequence[str]
Attributes = dict[str, Value]

OPERATION = "chat"
"""the operation of all three protocols"""
ERROR_TYPE = "error.type"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"
TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
CONTENT_TRUNCATED = "trilogue.content_truncated"

PROVIDERS = {
    "azure": "azure.ai.openai",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "xai": "x_ai",
    "gemini": "gcp.gemini",
}
"""vendors that have another name in the conventions than here"""

_FINISH = {
    StopReason.END: "stop",
    StopReason.STOP_SEQUENCE: "stop",
    StopReason.LENGTH: "length",
    StopReason.CONTEXT_WINDOW: "length",
    StopReason.TOOL_CALLS: "tool_call",
    StopReason.PAUSE: "pause",
    StopReason.REFUSAL: "content_filter",
    StopReason.COMPACTION: "compaction",
}
_SAMPLING = {
    "max_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "seed": "gen_ai.request.seed",
}
_FLOATS = frozenset({"temperature", "top_p", "frequency_penalty", "presence_penalty"})

SHORT_BYTES = 500
MOST_BYTES = 20_000
"""Settings are short, messages and tools are long. Longer texts and lists, and longer objects, are not read."""

_OBJECT, _ARRAY = b"{["
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode = msgspec.json.Decoder().decode


def provider_names(providers: Mapping[str, ProviderSettings]) -> dict[str, str]:
    """Return the name of each provider in the conventions: that of its vendor, or its own if that is unknown."""
    return {
        name: PROVIDERS.get(vendor, vendor) if (vendor := one.vendor or "none") != "none" else name
        for name, one in providers.items()
    }


@lru_cache(256)
def route_of(path: str) -> str:
    """Return the endpoint of a path, with ids replaced. There are few of them; "" if the gateway has no such path."""
    path = path.removesuffix(BACKGROUND).removesuffix(INTERNAL)
    for one in CODECS.values():
        endpoint = one.endpoint
        if path == endpoint.path or (endpoint.counting is not None and path == endpoint.counting.path):
            return f"/v1{path}"
        for base in (endpoint.path, endpoint.conversations):
            if base and endpoint.continues and f"{path}/".startswith(f"{base}/"):
                return _template(f"/v1{base}", path[len(base) :].split("/")[1:])
        for other in endpoint.others:
            if path == other.path:
                return f"/v1{path}"
            if other.objects and path.startswith(f"{other.path}/"):
                return f"/v1{other.path}/{{id}}"
    return "/v1/models" if path == "/models" else "/v1/models/{model}" if path.startswith("/models/") else ""


def _template(base: str, parts: list[str]) -> str:
    """Return the path of something stored. What is not one of the words of the API is an id."""
    return "/".join([base, *(part if part in _STORED_WORDS else "{id}" for part in parts[:3])])


_STORED_WORDS = frozenset({"cancel", "compact", "input_items", "input_tokens", "items"})


@lru_cache(256)
def server_of(url: str) -> Attributes:
    """Return the address of an upstream."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return {}
    if not parts.hostname or port is None:
        return {}
    return {"server.address": parts.hostname, "server.port": port}


def request_attributes(body: bytes, protocol: Protocol) -> Attributes:
    """Return the settings of a request to an upstream; nothing if it cannot be read."""
    try:
        fields = {name: _short(raw) for name, raw in _decode_fields(body).items()}
        return _settings(CODECS[protocol].decode_request(fields))
    except (TrilogueError, *DECODE_ERRORS):
        return {}


def _short(raw: Raw) -> Json:
    """Return a value; an empty one of the same kind if it is long."""
    if len(raw) <= SHORT_BYTES:
        return _decode(raw)
    first = memoryview(raw)[0]
    if first == _OBJECT:
        return _decode(raw) if len(raw) <= MOST_BYTES else {}
    return [] if first == _ARRAY else ""


def _settings(request: Request) -> Attributes:
    found: Attributes = {}
    if request.sampling is not NO_SAMPLING:
        found = _sampling(request.sampling)
    if request.thinking is not None and request.thinking.effort is not None:
        found["gen_ai.request.reasoning.level"] = request.thinking.effort.value
    if request.format is not None:
        found["gen_ai.output.type"] = "text" if request.format.kind is FormatKind.TEXT else "json"
    if request.previous_response:
        found["gen_ai.request.previous_response.id"] = request.previous_response
    return found


def _sampling(sampling: Sampling) -> Attributes:
    found: Attributes = {}
    for field, name in _SAMPLING.items():
        value = getattr(sampling, field)
        if value is not None:
            found[name] = float(value) if field in _FLOATS else value
    if sampling.stop:
        found["gen_ai.request.stop_sequences"] = sampling.stop
    if sampling.choices not in (None, 1):
        found["gen_ai.request.choice.count"] = sampling.choices or 0
    return found


def response_attributes(record: RequestRecord) -> Attributes:
    """Return what is known about the response of the latest attempt."""
    found: Attributes = {}
    if record.response_id:
        found["gen_ai.response.id"] = record.response_id
    if record.response_model:
        found["gen_ai.response.model"] = record.response_model
    if record.stop is not None:
        found[FINISH_REASONS] = (_FINISH[record.stop],)
    return found if record.usage is None else {**found, **usage_attributes(record.usage)}


def usage_attributes(usage: Usage) -> Attributes:
    """Return token counts. Input includes what was read from and written to a cache; output includes reasoning."""
    found: Attributes = {"gen_ai.usage.input_tokens": usage.input, "gen_ai.usage.output_tokens": usage.output}
    if usage.cache_read is not None:
        found["gen_ai.usage.cache_read.input_tokens"] = usage.cache_read
    if usage.cache_write is not None:
        found["gen_ai.usage.cache_write.input_tokens"] = usage.cache_write
    if usage.reasoning is not None:
        found["gen_ai.usage.reasoning.output_tokens"] = usage.reasoning
    return found
