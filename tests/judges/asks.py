"""What a request means, whatever the protocol: who said what, which tools there are, how to answer."""

import hashlib
import re
from dataclasses import dataclass, field

from tests.judges.answers import Call, Json, items, mapping, string


@dataclass(frozen=True)
class Result:
    """What a tool gave back."""

    id: str
    text: str
    is_error: bool = False


@dataclass
class Segment:
    """Everything that one side says before the other side speaks again. Media of tool results count as the user's."""

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
        """Nothing but, at most, reasoning."""
        said = any(self.texts)
        return not (said or self.images or self.files or self.documents or self.calls or self.results or self.natives)


@dataclass(frozen=True)
class Tool:
    """A tool of the client's own. `kind` is function or custom."""

    name: str
    description: str
    schema: Json
    kind: str = "function"


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
        """The segment that is being said, a new one if the other side spoke last."""
        if not self.segments or self.segments[-1].side != side:
            self.segments.append(Segment(side))
        return self.segments[-1]

    def settle(self) -> "Ask":
        """Without turns that say nothing; their neighbours are then one segment."""
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
    """The identity of an image: its address, or the type and digest of its bytes."""
    match = _DATA_URL.match(url)
    return data(match[1], match[2]) if match else url


def data(media_type: str, payload: str) -> str:
    """The identity of bytes given in base64."""
    return f"{media_type.lower()}:{digest(payload)}"


def digest(payload: str) -> str:
    """A short fingerprint."""
    return hashlib.sha256(payload.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def file_data(payload: str) -> str:
    """The identity of a file given in base64, bare or as a data URL; the type is not part of it."""
    match = _DATA_URL.match(payload)
    return digest(match[2] if match else payload)


EMPTY_SCHEMA = {"type": "object", "properties": {}}


def schema(value: Json) -> Json:
    """A tool's parameters. None, an empty object and an object without properties all say: no parameters."""
    fields = mapping(value)
    if not fields or (
        fields.get("type") in (None, "object")
        and set(fields) <= {"type", "properties"}
        and not fields.get("properties")
    ):
        return EMPTY_SCHEMA
    return {"type": "object", **fields}


def texts(value: Json, *kinds: str) -> list[str]:
    """The texts of a string or of the text parts of an array."""
    if isinstance(value, str):
        return [value] if value else []
    parts = [mapping(part) for part in items(value)]
    return [string(part.get("text")) for part in parts if part.get("type") in kinds and part.get("text")]


def clean(values: dict[str, Json]) -> dict[str, Json]:
    """Without nulls: null and absent are the same."""
    return {name: value for name, value in values.items() if value is not None}
