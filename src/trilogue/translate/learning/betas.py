"""Betas that an upstream refuses: the names in a request header that go with new fields of a body.

In: a failure, and the header that was sent. Out: remedies whose path is the header's name, with one beta in brackets:

anthropic-beta[context-management-2025-06-27]   this beta
anthropic-beta                                  all of them, for servers that do not say which one they refuse
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trilogue.model import Failure
from trilogue.translate.learning.remedies import Remedy

_BETA = re.compile(r"[a-z][a-z0-9-]{1,60}-\d{4}-\d{2}-\d{2}")
"""Betas end with their date. Nothing else that a client writes into the header is remembered."""
_ABOUT_BETAS = re.compile(r"\bbeta\b|\bbetas\b|-beta\b", re.IGNORECASE)
_UNNAMED = re.compile(r"\binvalid beta flag|\bunsupported beta\b", re.IGNORECASE)
"""what Bedrock says without a name"""

HeaderPairs = Sequence[tuple[str, str]]


def read_betas(failure: Failure, header: str, headers: HeaderPairs) -> tuple[Remedy, ...]:
    """Return remedies that leave out the betas that an upstream has refused; none if the error is not about betas."""
    if not header or failure.status != 400 or not _ABOUT_BETAS.search(failure.message):
        return ()
    sent = [beta for name, value in headers if name == header for beta in _listed(value)]
    named = [beta for beta in sent if _BETA.fullmatch(beta) and _is_named(beta, failure.message)]
    if named:
        return tuple(Remedy(path=f"{header}[{beta}]", action="drop") for beta in dict.fromkeys(named))
    return (Remedy(path=header, action="drop"),) if sent and _UNNAMED.search(failure.message) else ()


def without_betas(
    headers: tuple[tuple[str, str], ...], header: str, remedies: Sequence[Remedy]
) -> tuple[tuple[tuple[str, str], ...], list[tuple[str, str]]]:
    """Return headers without refused betas, and (path, detail) of each remedy that has changed something."""
    paths = {remedy.path for remedy in remedies if header and remedy.path.startswith(header)}
    if not paths:
        return headers, []
    kept: list[tuple[str, str]] = []
    removed: dict[str, str] = {}
    for name, value in headers:
        if name != header:
            kept.append((name, value))
            continue
        rest: list[str] = []
        for beta in _listed(value):
            path = header if header in paths else f"{header}[{beta}]"
            if path in paths:
                removed[path] = "left out"
            else:
                rest.append(beta)
        if rest:
            kept.append((name, ",".join(rest)))
    return (tuple(kept), list(removed.items())) if removed else (headers, [])


def with_beta(headers: tuple[tuple[str, str], ...], header: str, beta: str) -> tuple[tuple[str, str], ...]:
    """Return headers whose list of betas has this one, too."""
    listed = [one for name, value in headers if name == header for one in _listed(value)]
    if beta in listed:
        return headers
    return (*(pair for pair in headers if pair[0] != header), (header, ",".join([*listed, beta])))


def _listed(value: str) -> list[str]:
    return [beta.strip() for beta in value.split(",") if beta.strip()]


def _is_named(beta: str, text: str) -> bool:
    """Return whether an error means this beta, and not one of which it is the beginning or the end."""
    return re.search(rf"(?<![\w-]){re.escape(beta)}(?![\w-])", text) is not None
