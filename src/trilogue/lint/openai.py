"""What Chat Completions and Responses share: error objects, and the limits that OpenAI sets on requests."""

from __future__ import annotations

import re

from trilogue.lint.json_values import obj
from trilogue.lint.requests import CallMark, Range
from trilogue.lint.rules import LintReport
from trilogue.model import Json

RANGES: dict[str, Range] = {"temperature": (0, 2), "top_p": (0, 1), "top_logprobs": (0, 20)}
CHOICE_MODES = frozenset({"none", "auto", "required"})
CLIENT_TOOLS = frozenset({"function", "custom"})
"""types of tools that the client runs, and of the calls of them"""
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID_LIMIT = 64
_METADATA_LIMITS = (16, 64, 512)
"""pairs, characters of a key, characters of a value"""


def check_error(body: dict[str, Json], report: LintReport) -> None:
    """Check the body of an HTTP error."""
    error = body.get("error")
    if not report.check(isinstance(error, dict), "A26", "there is no error object"):
        return
    for problem in error_problems(obj(error)):
        report.add("B62", problem)


def error_problems(error: dict[str, Json]) -> list[str]:
    """Return what is wrong with an error object."""
    problems = [f"error.{name} is not a string" for name in ("message", "type") if not isinstance(error.get(name), str)]
    problems += [f"error.{name} is missing" for name in ("param", "code") if name not in error]
    if error.get("code") is not None and not isinstance(error["code"], str):
        problems.append("error.code is neither string nor null")
    return problems


def check_shared_fields(body: dict[str, Json], report: LintReport) -> None:
    """Check the fields of a request that both protocols have."""
    metadata = body.get("metadata")
    pairs, key_limit, value_limit = _METADATA_LIMITS
    is_right = metadata is None or (
        isinstance(metadata, dict)
        and len(metadata) <= pairs
        and all(len(key) <= key_limit for key in metadata)
        and all(isinstance(value, str) and len(value) <= value_limit for value in metadata.values())
    )
    report.check(is_right, "Q19", "metadata is too large or holds other values than strings")
    options = body.get("stream_options")
    report.check(options is None or body.get("stream") is True, "Q15", "stream_options without stream")


def check_call_id(call: CallMark, report: LintReport) -> None:
    """Check the length of a call's id."""
    report.check(0 < len(call.id) <= ID_LIMIT, "Q09", f"{call.path}: the id is empty or longer than {ID_LIMIT}")


def is_schema(parameters: Json) -> bool:
    """Return whether a tool's parameters are a JSON schema, or absent, which means that it takes none."""
    return parameters is None or isinstance(parameters, dict)
