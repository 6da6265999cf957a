"""The names of neutral structs where they are written down: records of policies, losses, comparisons, notes, traces.

They are data that users filter by and compare, so a class that gets another name keeps its name here.
"""

from __future__ import annotations

from msgspec import Struct

from trilogue.model.blocks import (
    Audio,
    CacheMark,
    Citation,
    Document,
    HostedCall,
    HostedResult,
    Image,
    Native,
    Opaque,
    Reasoning,
    Refusal,
    SearchHit,
    SearchResult,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from trilogue.model.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    Failed,
    Finish,
    LogprobsDelta,
    ReasoningDelta,
    ResponseStart,
)
from trilogue.model.failure import Failure
from trilogue.model.protocol import Provenance
from trilogue.model.request import (
    Caching,
    CustomTool,
    FunctionTool,
    HostedTool,
    OutputFormat,
    Request,
    Sampling,
    Thinking,
    ToolChoice,
    ToolRef,
    Turn,
    UserLocation,
)
from trilogue.model.response import Response, Stop, Usage, UsedBesides

_NAMES: dict[type[Struct], str] = {
    Audio: "Audio",
    Document: "Document",
    HostedCall: "HostedCall",
    HostedResult: "HostedResult",
    Image: "Image",
    Native: "Native",
    Reasoning: "Reasoning",
    Refusal: "Refusal",
    SearchResult: "SearchResult",
    Text: "Text",
    ToolCall: "ToolCall",
    ToolResult: "ToolResult",
    CacheMark: "CacheMark",
    Citation: "Citation",
    Opaque: "Opaque",
    SearchHit: "SearchHit",
    Source: "Source",
    BlockStart: "BlockStart",
    BlockStop: "BlockStop",
    CitationDelta: "CitationDelta",
    Delta: "Delta",
    Failed: "Failed",
    Finish: "Finish",
    LogprobsDelta: "LogprobsDelta",
    ReasoningDelta: "ReasoningDelta",
    ResponseStart: "ResponseStart",
    Caching: "Caching",
    CustomTool: "CustomTool",
    FunctionTool: "FunctionTool",
    HostedTool: "HostedTool",
    OutputFormat: "OutputFormat",
    Request: "Request",
    Sampling: "Sampling",
    Thinking: "Thinking",
    ToolChoice: "ToolChoice",
    ToolRef: "ToolRef",
    Turn: "Turn",
    UserLocation: "UserLocation",
    Failure: "Failure",
    Provenance: "Provenance",
    Response: "Response",
    Stop: "Stop",
    Usage: "Usage",
    UsedBesides: "UsedBesides",
}


def name_of(value: Struct) -> str:
    """Return the name of a neutral struct. A class that another package made is written with the name it has there."""
    return _NAMES.get(type(value)) or type(value).__name__
