"""The errors of the strict upstreams, in the words and bodies of the real APIs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.scripted.http import Headers, Step, json_answer


@dataclass
class RefusedError(Exception):
    """A request that the real API refuses. `param` and `code` are those of OpenAI's error body."""

    message: str
    status: int = 400
    param: str | None = None
    code: str | None = None

    def openai(self) -> Step:
        """Return the response of Chat and Responses."""
        kind = "rate_limit_error" if self.status == 429 else "invalid_request_error"
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return json_answer(self.status, self._headers(), {"error": error})

    def anthropic(self, number: int) -> Step:
        """Return the response of Messages."""
        names = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}
        kind = names.get(self.status, "rate_limit_error")
        body: dict[str, Any] = {"type": "error", "error": {"type": kind, "message": self.message}}
        return json_answer(self.status, self._headers(), {**body, "request_id": f"req_strict{number}"})

    def _headers(self) -> Headers:
        return [("retry-after", "60")] if self.status == 429 else []


def limited() -> RefusedError:
    """Return the error of an account that is over its limit for a minute."""
    return RefusedError("Rate limit reached. Please try again in 60s.", 429, None, "rate_limit_exceeded")
