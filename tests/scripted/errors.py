"""Errors as the official APIs send them: one row per scenario, with the error of each protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Refused:
    """One error. `openai` is its (type, code), `anthropic` its type."""

    status: int
    message: str
    openai: tuple[str, str | None]
    anthropic: str
    headers: tuple[tuple[str, str], ...] = ()


BAD_KEY = Refused(
    401, "Incorrect API key provided.", ("invalid_request_error", "invalid_api_key"), "authentication_error"
)
BAD_BODY = Refused(
    400, "We could not parse the JSON body of your request.", ("invalid_request_error", None), "invalid_request_error"
)
BAD_SIGNATURE = Refused(
    400,
    "messages.1.content.0: Invalid `signature` in `thinking` block",
    ("invalid_request_error", "invalid_encrypted_content"),
    "invalid_request_error",
)
NO_MODEL = Refused(
    404,
    "The model does not exist or you do not have access to it.",
    ("invalid_request_error", "model_not_found"),
    "not_found_error",
)
NO_RESPONSE = Refused(
    400,
    "Previous response with id 'resp_1' not found.",
    ("invalid_request_error", "previous_response_not_found"),
    "invalid_request_error",
)
NO_PATH = Refused(404, "Not found.", ("invalid_request_error", None), "not_found_error")
OVERLOADED = Refused(529, "Overloaded", ("server_error", "server_is_overloaded"), "overloaded_error")

ERRORS: dict[str, Refused] = {
    "error-400": Refused(
        400, "max_tokens: must be positive", ("invalid_request_error", "invalid_value"), "invalid_request_error"
    ),
    "error-400-context": Refused(
        400,
        "prompt is too long: 210000 tokens > 200000 maximum",
        ("invalid_request_error", "context_length_exceeded"),
        "invalid_request_error",
    ),
    "error-401": BAD_KEY,
    "error-402": Refused(
        402, "Your credit balance is too low.", ("insufficient_quota", "insufficient_quota"), "billing_error"
    ),
    "error-403-cost": Refused(
        403,
        "The estimated cost of this request exceeds the limit.",
        ("permission_error", "cost_limit"),
        "permission_error",
    ),
    "error-403-tokens": Refused(
        403,
        "This account has insufficient tokens left.",
        ("permission_error", "insufficient_tokens"),
        "permission_error",
    ),
    "error-404": NO_MODEL,
    "error-429": Refused(
        429,
        "Rate limit reached. Please try again in 7s.",
        ("requests", "rate_limit_exceeded"),
        "rate_limit_error",
        (("retry-after", "7"),),
    ),
    "error-500": Refused(500, "The server had an error.", ("server_error", None), "api_error"),
    "error-503": Refused(
        503, "The engine is currently overloaded.", ("server_error", "service_unavailable"), "overloaded_error"
    ),
    "error-529": OVERLOADED,
}


def openai_error(refused: Refused) -> dict[str, Any]:
    """Return the error body of Chat Completions and Responses."""
    kind, code = refused.openai
    return {"error": {"message": refused.message, "type": kind, "param": None, "code": code}}


def anthropic_error(refused: Refused, request_id: str) -> dict[str, Any]:
    """Return the error body of Messages."""
    error = {"type": refused.anthropic, "message": refused.message}
    return {"type": "error", "error": error, "request_id": request_id}
