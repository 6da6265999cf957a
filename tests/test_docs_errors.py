"""docs/errors.md lists every error code that a client can get."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import trilogue
from trilogue.gateway.request.failures import LOOP, error_reply
from trilogue.model import Failure, FailureKind, Protocol
from trilogue.protocols.failure import FINAL_CODES
from trilogue.protocols.openai.errors import _REPLIES
from trilogue.routing.pool.plan import CREDENTIAL, QUOTA

PAGE = Path(__file__).resolve().parent.parent / "docs" / "errors.md"
SOURCES = sorted(Path(trilogue.__file__).parent.rglob("*.py"))
CODE = re.compile(r"[a-z][a-z_]+")


def text_of(node: ast.expr | None) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
        yield node.value


def codes_in(tree: ast.AST) -> Iterator[str]:
    """Return the codes in a source: `code=…` in a call, a default or a class, or the code in a row of a table."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "code":
            yield from text_of(node.value)
        elif isinstance(node, ast.arguments):
            for argument, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
                yield from text_of(default if argument.arg == "code" else None)
        elif isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == "code" for to in node.targets):
            yield from text_of(node.value)
        elif isinstance(node, ast.Call | ast.Tuple):
            parts = node.args if isinstance(node, ast.Call) else node.elts
            status = parts[0] if len(parts) == 3 else None
            if isinstance(status, ast.Constant) and type(status.value) is int and 400 <= status.value < 600:
                yield from text_of(parts[2])


def test_every_error_code_is_documented() -> None:
    found = {code for source in SOURCES for code in codes_in(ast.parse(source.read_text("utf-8")))}
    found |= {LOOP, CREDENTIAL, QUOTA, *FINAL_CODES, *(code for _, _, code in _REPLIES.values() if code)}
    assert {"bad_http", "upstream_tls", "request_too_large", "no_account", "invalid_admin_key"} <= found
    named = set(re.findall(r"`([a-z_]+)`", PAGE.read_text("utf-8")))
    assert sorted(found - named) == []


def rows() -> dict[str, list[str]]:
    """Return the cells of the table by code."""
    found: dict[str, list[str]] = {}
    for line in PAGE.read_text("utf-8").split("\n"):
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[0] not in ("code", "---"):
            found |= {code.strip(" `"): cells[1:] for code in cells[0].split(",")}
    return found


@pytest.mark.parametrize("kind", [kind for kind, (_, _, code) in _REPLIES.items() if code])
def test_statuses_and_types_are_those_of_the_gateway(kind: FailureKind) -> None:
    code = _REPLIES[kind][2]
    assert code
    documented = rows()[code]
    for client, column in ((Protocol.CHAT, 1), (Protocol.RESPONSES, 1), (Protocol.MESSAGES, 2)):
        reply = error_reply(Failure(kind=kind, message="m"), client, "")
        error = reply.body["error"]
        assert isinstance(error, dict)
        assert error["type"] == documented[column]
        assert str(reply.status) in documented[0]
        if kind is not FailureKind.UPSTREAM_CONNECT:
            assert documented[3] == ("yes" if reply.headers["x-should-retry"] == "true" else "no")
