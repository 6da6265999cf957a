"""What a protocol must say about its own tool search, so that the gateway can run it for an upstream that has none."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from trilogue.model import Block, HostedTool, Json

Wire = dict[str, Json]
ToolKey = tuple[str | None, str]
"""a tool by its namespace and its name"""


ABOUT = (
    "Finds further tools, which cannot be called before. It searches their names, descriptions and arguments, and "
    "returns the best matches; they can be called from then on. Search whenever no tool that you have does what you "
    "need."
)
"""what a model is told about a search"""


class SearchCall(Struct, frozen=True):
    """A search in the history. `id`: "" if the protocol has none. `arguments`: JSON text."""

    id: str
    arguments: str


class ToolSearchResult(Struct, frozen=True):
    """What a search in the history has found, or why it failed."""

    tools: tuple[ToolKey, ...] = ()
    error: str = ""


class SearchFunction(Struct, frozen=True):
    """A search as a function for the model. `pattern`: its argument is a regular expression, not words."""

    name: str
    argument: str
    description: str
    parameters: Wire
    pattern: bool = False


class FoundTool(Struct, frozen=True):
    """A tool that was found. `wire`: its definition, `group`: that of its namespace, as the client has sent them."""

    namespace: str | None
    name: str
    wire: Json
    group: Json = None


class AnsweredSearch(Struct, frozen=True, kw_only=True):
    """A search of the model and its result. `id`: different for each search of a conversation."""

    id: str
    name: str
    """the name of the tool, as the client knows it"""
    arguments: Wire
    tools: tuple[FoundTool, ...] = ()
    error: str = ""
    message: str = ""
    """what is wrong with the arguments"""


class ToolSearchForm(Struct, frozen=True, kw_only=True):
    """The tool search of one protocol. Bodies are parsed JSON objects."""

    function: Callable[[HostedTool], SearchFunction]
    """returns the function that replaces the tool"""
    call: Callable[[Block], SearchCall | None]
    """returns the search that a block of the history is; None if it is something else"""
    result: Callable[[Block], ToolSearchResult | None]
    """returns the result that a block of the history is; None if it is something else"""
    blocks: Callable[[AnsweredSearch], tuple[Block, Block]]
    """returns the call and the result of a search, for the encoder of this protocol"""
    continued: Callable[[Wire, Wire], Wire]
    """returns a request that has a response of this protocol at its end"""
