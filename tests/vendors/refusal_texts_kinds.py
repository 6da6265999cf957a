"""The types of the tables of `refusal_texts`, and the forms of the response bodies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Protocol = Literal["chat", "messages", "responses"]
Remedy = Literal["drop", "clamp", "rename"]
Why = Literal[
    "answer",  # about what the model said
    "client",  # a mistake of the client
    "context",  # too long for the model, whatever its fields
    "history",  # the messages do not fit together
    "key",
    "message",  # a message has a form that the upstream cannot read: nothing can be left out
    "model",
    "money",  # or too many requests
    "nothing",  # it does not name a field
    "policy",  # about the content
    "schema",  # or about the tools of this request
    "server",  # how the server was started
]
Body = dict[str, Any] | list[Any] | str
"""Gemini sends a list with one object; DeepSeek and NVIDIA sometimes send plain text"""


@dataclass(frozen=True, slots=True)
class RefusalText:
    """A response with 400 or 422 that names something in the request that the upstream does not accept."""

    vendor: str
    protocol: Protocol
    body: Body
    sent: str
    """path of the refused field, in the request as the gateway sends it"""
    value: Any
    """value of that field"""
    source: str
    """where it was reported: a thread `owner/repository#number`, or `rec:` and the start of a recording's name"""
    remedy: Remedy = "drop"
    """`drop` also if the text names one value that is the vendor's default anyway; `allowed` then has it"""
    allowed: tuple[Any, ...] | float | None = None
    """values that the text names, or a limit"""
    least: bool = False
    """whether the limit is a minimum"""
    renamed: str = ""
    """name that the vendor wants; the text contains it if the remedy is `rename`"""
    beside: str = ""
    """other field with which it is refused; alone it is accepted, so nothing is learned for every later request"""
    more: tuple[str, ...] = ()
    """further paths that the same response refuses"""
    status: int = 400
    whole: bool = True
    """whether the complete body was reported; if not, only the text was, and it is in the envelope that the vendor
    uses"""


@dataclass(frozen=True, slots=True)
class NotLearned:
    """A response that says nothing about what the upstream accepts, although it may name fields. Ids are shortened."""

    vendor: str
    protocol: Protocol
    status: int
    body: Body
    why: Why
    source: str


def openai(message: str, param: str | None = None, code: str | None = None) -> Body:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def brief(message: str) -> Body:
    """Return a body as Groq and Moonshot send it: without param and code."""
    return {"error": {"message": message, "type": "invalid_request_error"}}


def anthropic(message: str) -> Body:
    error = {"type": "invalid_request_error", "message": message}
    return {"type": "error", "error": error, "request_id": "req_011CVEA3SF7rnb3DuBZytqQa"}


def bedrock(message: str) -> Body:
    return {"message": f"The model returned the following errors: {message}"}


def gemini(*unknown: tuple[str, str]) -> Body:
    """Return a body of Gemini. `unknown` are names of fields with their position, or "" for the top level."""
    told = [
        f'Invalid JSON payload received. Unknown name "{name}"{f" at {place!r}" if place else ""}: Cannot find field.'
        for name, place in unknown
    ]
    places = [{"field": place} if place else {} for _, place in unknown]
    violations = [{**place, "description": text} for place, text in zip(places, told, strict=True)]
    details = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}]
    return [{"error": {"code": 400, "message": "\n".join(told), "status": "INVALID_ARGUMENT", "details": details}}]


def extra(*location: str | int, given: Any) -> dict[str, Any]:
    """Return one entry of a list of pydantic errors, as Mistral sends them."""
    return {
        "type": "extra_forbidden",
        "loc": ["body", *location],
        "msg": "Extra inputs are not permitted",
        "input": given,
    }


def mistral(*entries: dict[str, Any]) -> Body:
    message = {"detail": list(entries)}
    return {"object": "error", "message": message, "type": "invalid_request_error", "param": None, "code": None}
