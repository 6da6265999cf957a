"""What a refusal of a vendor is to the tables of `refusal_texts`, and the shapes that the bodies come in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Protocol = Literal["chat", "messages", "responses"]
Remedy = Literal["drop", "clamp", "rename"]
Why = Literal[
    "answer",  # what the model answered
    "client",  # a mistake of the client
    "context",  # too long for the model, whatever its fields
    "history",  # the messages do not fit together
    "key",
    "message",  # a message has a form that the upstream does not read: nothing can be left out
    "model",
    "money",  # or too many requests
    "nothing",  # it names nothing
    "policy",  # what was said
    "schema",  # or the tools: something in those of this request
    "server",  # how it was started
]
Body = dict[str, Any] | list[Any] | str
"""Gemini sends a list with one object, DeepSeek and NVIDIA sometimes plain text."""


@dataclass(frozen=True, slots=True)
class RefusalText:
    """One answer of 400 or 422 that names something in the request which the upstream does not take."""

    vendor: str
    protocol: Protocol
    body: Body
    sent: str
    """the path of what is refused, in the request as the gateway sends it"""
    value: Any
    """what stood there"""
    source: str
    """where it was reported: a thread `owner/repository#number`, or `rec:` and the start of a recording's name"""
    remedy: Remedy = "drop"
    """`drop` also where the text names one value that is the vendor's default anyway: `allowed` then has it"""
    allowed: tuple[Any, ...] | float | None = None
    """the values that the text names, or a limit"""
    least: bool = False
    """the limit is the least, not the most"""
    renamed: str = ""
    """the name that the vendor wants; the text tells it where the remedy is `rename`"""
    beside: str = ""
    """Refused only together with this other field: nothing to hold against every later request."""
    more: tuple[str, ...] = ()
    """further paths that the same answer refuses"""
    status: int = 400
    whole: bool = True
    """Reported with its whole body. If not, only the text was, and stands in the envelope that the vendor is known for.
    """


@dataclass(frozen=True, slots=True)
class NotLearned:
    """An answer that tells nothing about what the upstream takes, though it may name fields. Ids are shortened."""

    vendor: str
    protocol: Protocol
    status: int
    body: Body
    why: Why
    source: str


def openai(message: str, param: str | None = None, code: str | None = None) -> Body:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def brief(message: str) -> Body:
    """As Groq and Moonshot: neither param nor code."""
    return {"error": {"message": message, "type": "invalid_request_error"}}


def anthropic(message: str) -> Body:
    error = {"type": "invalid_request_error", "message": message}
    return {"type": "error", "error": error, "request_id": "req_011CVEA3SF7rnb3DuBZytqQa"}


def bedrock(message: str) -> Body:
    return {"message": f"The model returned the following errors: {message}"}


def gemini(*unknown: tuple[str, str]) -> Body:
    """`unknown` are names of fields, with where they stand or "" for the top."""
    told = [
        f'Invalid JSON payload received. Unknown name "{name}"{f" at {place!r}" if place else ""}: Cannot find field.'
        for name, place in unknown
    ]
    places = [{"field": place} if place else {} for _, place in unknown]
    violations = [{**place, "description": text} for place, text in zip(places, told, strict=True)]
    details = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}]
    return [{"error": {"code": 400, "message": "\n".join(told), "status": "INVALID_ARGUMENT", "details": details}}]


def extra(*location: str | int, given: Any) -> dict[str, Any]:
    """One entry of the lists of pydantic, as Mistral sends them."""
    return {
        "type": "extra_forbidden",
        "loc": ["body", *location],
        "msg": "Extra inputs are not permitted",
        "input": given,
    }


def mistral(*entries: dict[str, Any]) -> Body:
    message = {"detail": list(entries)}
    return {"object": "error", "message": message, "type": "invalid_request_error", "param": None, "code": None}
