"""What can be a model name, and what routing raises: for a bad pattern, and for a model that no provider serves.

Model names are used in log lines, headers and patterns, so they must be short and printable.
"""

from __future__ import annotations

from collections.abc import Iterable

from trilogue.errors import BadRequest, ClientError

MAX_MODEL_NAME = 256
LONG_CONTEXT = "[1m]"
"""what Claude Code's users write after the name of a model to get its context window of a million tokens"""


def name_fault(name: str) -> str | None:
    """Return what is wrong with a model name, or None."""
    if not name:
        return "must not be empty"
    if len(name) > MAX_MODEL_NAME:
        return f"must have at most {MAX_MODEL_NAME} characters"
    if not name.isprintable():
        return "must not contain control characters"
    return None


def check_model_name(name: str) -> None:
    """Raise BadRequest if a text cannot be a model name."""
    fault = name_fault(name)
    if fault:
        raise BadRequest(f"model {fault}", path="model", code="invalid_model")


_MOST_LISTED = 600
"""Characters for the list of served models, so that the whole message stays well under 1,000."""
_LONGEST_NAME = 80


class BadPattern(ValueError):
    """A pattern or template of a route that is wrong or could take too long. The message says what to change."""


class NoRoute(ClientError):
    """No provider serves this model. The message lists what is served, within a bounded length."""

    status = 404

    def __init__(self, model: str, served: Iterable[str], reason: str = "") -> None:
        self.model = model
        self.served = tuple(served)
        why = f" ({reason})" if reason else ""
        super().__init__(
            f'no provider serves the model "{_short(model)}"{why}; served: {_listed(self.served)}',
            path="model",
            code="model_not_found",
        )


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"


def _listed(served: tuple[str, ...]) -> str:
    """Return as many names as fit, then how many more there are."""
    shown: list[str] = []
    room = _MOST_LISTED
    for name in map(_short, served):
        room -= len(name) + 2
        if room < 0:
            break
        shown.append(name)
    left = len(served) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else "") if served else "nothing"
