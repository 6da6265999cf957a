"""The request types of the official SDKs, and the problems that a body has with them."""

from __future__ import annotations

from anthropic.types.beta.message_create_params import MessageCreateParamsBase as BetaMessage
from anthropic.types.message_create_params import MessageCreateParamsBase as Message
from openai.types.chat.completion_create_params import CompletionCreateParamsBase as Chat
from openai.types.responses.response_create_params import ResponseCreateParamsBase as Response

from tests.vendors.rule import Request
from tests.vendors.shapes import Kind, Problem, problems

HEADERS = frozenset({"betas", "user_profile_id", "workspace_id"})
"""arguments of Anthropic's SDK that are sent as headers and are unknown in a body"""

SAMPLING = ("temperature", "top_p", "top_k")
"""fields that Anthropic's SDK has dropped and that version 2023-06-01 of the API still accepts"""


def chat_problems(request: Request) -> list[Problem]:
    """Return what is wrong with the shape of a Chat body."""
    return _without(request.body, Chat, ("stream",))


def response_problems(request: Request) -> list[Problem]:
    """Return what is wrong with the shape of a Responses body."""
    return _without(request.body, Response, ("stream",))


def message_problems(request: Request) -> list[Problem]:
    """Return what is wrong with the shape of a Messages body; beta fields need an `anthropic-beta` header."""
    kind = BetaMessage if request.betas else Message
    found = _without(request.body, kind, ("stream", *SAMPLING))
    smuggled = sorted(HEADERS & set(request.body))
    return found + [Problem("unknown", name, "unknown field") for name in smuggled]


def _without(body: dict[str, object], kind: object, extra: tuple[str, ...]) -> list[Problem]:
    """Check a body without the fields that its type lacks because they are declared elsewhere."""
    return problems({name: value for name, value in body.items() if name not in extra}, kind)


def reasons(found: list[Problem], *kinds: Kind) -> list[str]:
    """Return the problems of some kinds as text."""
    return [str(problem) for problem in found if problem.kind in kinds]
