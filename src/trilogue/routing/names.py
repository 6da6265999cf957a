"""What may be a model name. A name goes into log lines, headers and patterns, so it is short and printable."""

from __future__ import annotations

from trilogue.errors import BadRequest

MAX_MODEL_NAME = 256


def name_fault(name: str) -> str | None:
    """What is wrong with a model name, or None."""
    if not name:
        return "must not be empty"
    if len(name) > MAX_MODEL_NAME:
        return f"must have at most {MAX_MODEL_NAME} characters"
    if not name.isprintable():
        return "must not contain control characters"
    return None


def check_model_name(name: str) -> None:
    """Raise BadRequest for what cannot be a model name."""
    fault = name_fault(name)
    if fault:
        raise BadRequest(f"model {fault}", path="model", code="invalid_model")
