"""A protocol over HTTP: paths, headers, addresses, lists of models and token counts.

An `Endpoint` is the part of a codec that only the gateway and the configuration need. It says how the API of a protocol
is reached and recognised; bodies and streams are the codec's. `estimate` counts tokens without a tokeniser, for counts
and usage that an upstream does not return. Nothing here knows any one protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from trilogue.model import Json, Protocol, Usage
from trilogue.vendors.profile_lookup import ModelFacts

Wire = dict[str, Json]
BYTES_PER_TOKEN = 4
"""English prose and JSON have about four bytes per token with every current tokeniser."""
TOKENS_PER_MEDIUM = 1600
"""About the cost of an image, whatever its size; a page of a document costs somewhat more."""
_MEDIUM_BYTES = 2000
"""A string of this length without a space is not prose but an image or a file."""


class ListedModel(Struct, frozen=True):
    """One entry of a list of models. `native`: the upstream's own entry, in the form of its protocol."""

    id: str
    owner: str
    protocol: Protocol | None = None
    native: Wire = {}
    created: float | None = None
    """seconds since 1970, if the upstream says it"""
    facts: ModelFacts = ModelFacts()
    """what is known of the model besides the upstream's entry"""

    @property
    def context_window(self) -> int | None:
        """The context window: as the upstream says it, in any of the names in use, else as it is known."""
        said = (self.native.get(name) for name in _CONTEXT_FIELDS)
        return next((value for value in said if type(value) is int and value > 0), self.facts.context_window)


OVERLOADED = 529
"""a status that only Anthropic's clients know"""
_CONTEXT_FIELDS = ("max_input_tokens", "context_length", "max_model_len", "context_window", "max_context_length")
"""names of the context window in lists of Anthropic, OpenRouter, vLLM, Groq and LM Studio"""


class Models(Struct, frozen=True, kw_only=True):
    """How a protocol lists models at `GET /models`."""

    decode: Callable[[Wire], list[tuple[str, Wire, float | None]] | None]
    """returns name, entry and time of creation of each model of an upstream's list; None if it is not a list"""
    encode: Callable[[Sequence[ListedModel], Mapping[str, str]], Wire]
    """returns the list for a client with these query parameters, which may ask for one page of it"""
    encode_one: Callable[[ListedModel], Wire]
    """returns the object for one model"""
    query: str = ""
    """the query that asks an upstream for the whole list"""


class TokenCounting(Struct, frozen=True, kw_only=True):
    """How a protocol counts the input tokens of a request."""

    path: str = ""
    """empty if the model is in the URL; see `ModelInUrl.count_path`"""
    decode: Callable[[Wire], Json]
    """returns the figure in an upstream's response; anything but an integer means that there is none"""
    encode: Callable[[int], Wire]
    """returns the response for a client"""
    omitted: frozenset[str] = frozenset()
    """fields of a request that this endpoint refuses"""
    added: Wire = {}
    """fields that a request to this endpoint lacks and the codec requires"""


class UrlHead(NamedTuple):
    """What the path of a request says."""

    model: str
    stream: bool = False
    counts: bool = False
    """whether it only asks for a token count"""


class ModelInUrl(Struct, frozen=True, kw_only=True):
    """The paths of a protocol that has the model and whether to stream in the URL.

    Inside of Trilogue, bodies of such a protocol have the fields `model` and `stream` as well: the gateway adds them to
    a client's request and removes them from the request to an upstream.
    """

    read: Callable[[str], UrlHead | None]
    """returns what a path without version says; None if it is not one of this protocol"""
    path: Callable[[str, bool], str]
    """returns the path for a model, and whether to stream"""
    count_path: Callable[[str], str] | None = None
    """returns the path that counts tokens for a model"""


Paid = Literal["nothing", "input", "output", "unbounded"]
"""what a request to an endpoint costs: nothing, its input, input and output, or what nobody can tell before"""


class OtherEndpoint(Struct, frozen=True, kw_only=True):
    """An endpoint of a vendor's API that is not translated: requests and responses pass through as bytes."""

    path: str
    """below the version"""
    paid: Paid = "unbounded"
    """what its requests cost, for budgets; looking at objects and deleting them costs nothing"""
    objects: bool = False
    """whether it is about objects that the vendor keeps for an account, such as files. Everything below the path is
    served too, and all requests go to the same account"""
    usage: Callable[[Json], Usage | None] | None = None
    """reads the object `usage` of a response; None if there is no such object"""
    links: tuple[str, ...] = ()
    """fields of a response with a URL of the same API that the client is meant to ask next"""
    models: tuple[str, ...] = ()
    """where a request that makes something names its models: paths of fields. Empty: the request does not tell which
    models will run"""
    makes: tuple[str, ...] = ()
    """where the response to a request about an object names others that the vendor made from it: paths of fields"""
    cursor: tuple[str, str] = ("after", "last_id")
    """how to ask for the next page of a list: the name in the query, and the field of a page with its value"""
    everyones: tuple[str, ...] = ()
    """values of `type` by which a request asks for what the account keeps for all of its users"""
    texts: tuple[str, ...] = ()
    """fields with all of the text that a request sends, if no model writes anything in the response"""

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that it has."""
        return ("GET", "POST", "DELETE") if self.objects else ("POST",)

    @property
    def label(self) -> str:
        """Its name in metrics."""
        return self.path.strip("/").replace("/", "_")


class LimitHeaders(Struct, frozen=True, kw_only=True):
    """How a protocol tells clients their limits, with `{}` for what is limited: `requests` or `tokens`."""

    limit: str
    remaining: str
    reset: str
    is_date: bool = False
    """whether `reset` is a time in RFC 3339, and not a duration"""


def _never(data: Mapping[str, Json]) -> bool:
    return False


class Endpoint(Struct, frozen=True, kw_only=True):
    """The HTTP side of a protocol."""

    models: Models
    path: str = ""
    """where requests go, below the version; empty if the model is in the URL"""
    in_url: ModelInUrl | None = None
    """the paths, if they depend on the request"""
    counting: TokenCounting | None = None
    """None if the protocol cannot count tokens"""
    official_url: str = ""
    """the address of a provider that does not set one"""
    vendor: str = ""
    """the vendor at the official address, whose key is in the environment variable `VENDOR_API_KEY`"""
    only_vendor: bool = False
    """whether a provider that speaks it most likely has this vendor's models; every vendor speaks Chat"""
    versionless_bases: bool = False
    """whether people leave the version out of a base URL, because the vendor's SDK always adds it"""
    auth: str = "bearer"
    """how a key is sent: as a bearer token, or in the header with this name"""
    version_header: str = ""
    """the header with the version of the API, which is part of a model's profile"""
    extra_headers: Callable[[Wire], dict[str, str]] | None = None
    """returns the headers that a translated body needs"""
    betas_header: str = ""
    """the header that lists the betas which a request uses; empty if the protocol has none"""
    long_context_beta: str = ""
    """the beta that gives older models of the vendor a context window of a million tokens"""
    is_client: Callable[[Mapping[str, str]], bool] = _never
    """returns whether request headers show a client of this protocol, where the path does not"""
    overload_status: bool = False
    """whether its clients know the status 529"""
    limit_headers: LimitHeaders | None = None
    """the headers about limits; None if the protocol has none"""
    output_fields: tuple[str, ...] = ()
    """request fields that limit the tokens of the response"""
    call_limit: str = ""
    """the field of a request, or of its tools, that limits calls of hosted tools; empty if the protocol has none"""
    state_fields: tuple[str, ...] = ()
    """request fields that refer to what the upstream stored of earlier requests"""
    continues: bool = False
    """whether a client can continue a response by its id, at the account that it came from"""
    compaction: str = ""
    """where conversations are compacted; empty if the protocol has no such thing"""
    websocket: bool = False
    """whether clients may send their requests as messages over a WebSocket on the same path"""
    conversations: str = ""
    """where stored conversations are, for clients that can continue them; empty if the protocol has none"""
    model_fields: tuple[str, ...] = ()
    """request fields that name more models, which an upstream may use instead: texts, lists, or objects with `model`"""
    object_fields: frozenset[str] = frozenset()
    """request fields, at any depth, with ids of objects that the vendor keeps: texts, lists, or objects with `id`"""
    all_object_fields: frozenset[str] = frozenset()
    """the same, and those of requests to `others`"""
    making_tools: tuple[bytes, ...] = ()
    """what is in every request whose response may make objects, such as containers of a hosted tool"""
    made_objects: tuple[str, ...] = ()
    """where a response, or an event of a stream, has the ids of such objects: paths of fields"""
    others: tuple[OtherEndpoint, ...] = ()
    """what vendors offer besides; protocols of the same vendor have the same ones"""
    terminal: bytes = b""
    """the last event of a stream, which clients wait for and some servers leave out"""
    is_event: Callable[[Wire], bool] = _never
    """returns whether the data of an event shows that a stream is in this protocol"""

    @property
    def owned(self) -> str:
        """The first part of its paths, by which a wrong path is assigned to it; empty if it shares the part."""
        return self.path.split("/", 2)[1] if self.path else ""

    def error_status(self, status: int) -> int:
        """Return the status of an error as clients of this protocol know it: 529 only if they do."""
        return 503 if status == OVERLOADED and not self.overload_status else status

    def url_path(self, model: str, stream: bool) -> str:
        """Return where a request for this model goes."""
        return self.in_url.path(model, stream) if self.in_url is not None else self.path

    def count_path(self, model: str) -> str:
        """Return where a token count for this model is asked for; empty if the protocol has none."""
        if self.in_url is not None and self.in_url.count_path is not None:
            return self.in_url.count_path(model)
        return self.counting.path if self.counting is not None else ""


def estimate(body: Json) -> int:
    """Return about how many tokens a request has, by the bytes of its names and values."""
    weight = 0
    # Iterative: the nesting of a request is up to the client.
    stack = [body]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            # Quotes, a colon and a comma for each field.
            weight += sum(map(len, value)) + 4 * len(value)
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
        else:
            weight += _weight(value)
    return max(1, weight // BYTES_PER_TOKEN)


def _weight(value: Json) -> int:
    """Return the weight of a value in bytes. Images and files have a fixed weight each."""
    if not isinstance(value, str):
        return BYTES_PER_TOKEN
    if len(value) >= _MEDIUM_BYTES and " " not in value:
        return TOKENS_PER_MEDIUM * BYTES_PER_TOKEN
    return len(value.encode("utf-8", "replace")) + 2


def estimate_text(length: int) -> int:
    """Return about how many tokens a text of this length has; at least one, also for an empty response."""
    return max(1, -(-length // BYTES_PER_TOKEN))
