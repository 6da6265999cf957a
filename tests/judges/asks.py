"""The meaning of a request in any protocol: the conversation, the tools, and how to respond."""

import hashlib
import re
from dataclasses import dataclass, field

from tests.judges.answers import Call, Json, items, mapping, string


@dataclass(frozen=True)
class Result:
    """The result of a tool."""

    id: str
    text: str
    is_error: bool = False


@dataclass
class Segment:
    """Everything that one side says before the other side speaks. Media in tool results count as the user's."""

    side: str
    texts: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    """plain-text documents and search results, by their text"""
    calls: list[Call] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    natives: list[str] = field(default_factory=list)
    reasoning: int = 0

    @property
    def empty(self) -> bool:
        """Return whether there is nothing but reasoning."""
        said = any(self.texts)
        return not (said or self.images or self.files or self.documents or self.calls or self.results or self.natives)


@dataclass(frozen=True)
class Tool:
    """A tool that the client defines. `kind` is function or custom. `waits`: nothing has found it yet."""

    name: str
    description: str
    schema: Json
    kind: str = "function"
    waits: bool = False


@dataclass
class Ask:
    """The meaning of one request."""

    system: list[str] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    hosted: list[str] = field(default_factory=list)
    choice: Json = None
    parallel: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: list[str] = field(default_factory=list)
    effort: str | None = None
    budget: int | None = None
    format: tuple[str, Json] | None = None
    user: str | None = None
    metadata: dict[str, Json] = field(default_factory=dict)
    stream: bool = False

    def side(self, side: str) -> Segment:
        """Return the current segment, or a new one if the other side spoke last."""
        if not self.segments or self.segments[-1].side != side:
            self.segments.append(Segment(side))
        return self.segments[-1]

    def settle(self) -> "Ask":
        """Remove empty turns and join their neighbours."""
        spoken, self.segments = [segment for segment in self.segments if not segment.empty], []
        for segment in spoken:
            if self.segments and self.segments[-1].side == segment.side:
                _join(self.segments[-1], segment)
            else:
                self.segments.append(segment)
        return self


def _join(first: Segment, second: Segment) -> None:
    for name in ("texts", "images", "files", "documents", "calls", "results", "natives"):
        getattr(first, name).extend(getattr(second, name))


_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^,]*)?,(.*)", re.DOTALL)


def media(url: str) -> str:
    """Return the identity of an image: its address, or the type and digest of its bytes."""
    match = _DATA_URL.match(url)
    return data(match[1], match[2]) if match else url


def data(media_type: str, payload: str) -> str:
    """Return the identity of bytes in base64."""
    return f"{media_type.lower()}:{digest(payload)}"


def digest(payload: str) -> str:
    """Return a short fingerprint of the bytes."""
    return hashlib.sha256(payload.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def file_data(payload: str) -> str:
    """Return the identity of a file in base64, plain or as a data URL. The media type is not part of it."""
    match = _DATA_URL.match(payload)
    return digest(match[2] if match else payload)


EMPTY_SCHEMA = {"type": "object", "properties": {}}


def schema(value: Json) -> Json:
    """Return a tool's parameters. None, {} and an object without properties all mean that there are none."""
    fields = mapping(value)
    if not fields or (
        fields.get("type") in (None, "object")
        and set(fields) <= {"type", "properties"}
        and not fields.get("properties")
    ):
        return EMPTY_SCHEMA
    return {"type": "object", **fields}


def texts(value: Json, *kinds: str) -> list[str]:
    """Return the texts of a string or of the text parts of an array."""
    if isinstance(value, str):
        return [value] if value else []
    parts = [mapping(part) for part in items(value)]
    return [string(part.get("text")) for part in parts if part.get("type") in kinds and part.get("text")]


def clean(values: dict[str, Json]) -> dict[str, Json]:
    """Return the value without nulls, because null and absent are the same."""
    return {name: value for name, value in values.items() if value is not None}
