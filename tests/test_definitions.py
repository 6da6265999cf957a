"""Definitions are found wherever they are, and only if it is clear which one is meant."""

from __future__ import annotations

import ast

import pytest

from tests.definitions import defined, module_with


def test_a_definition_is_found() -> None:
    assert module_with("translate_request", "RequestTranslation").__name__.startswith("trilogue.")


@pytest.mark.parametrize(("name", "why"), [("translate_nothing", "in no module"), ("log", r"in trilogue\.\S*, tri")])
def test_an_unclear_definition_is_an_error(name: str, why: str) -> None:
    with pytest.raises(LookupError, match=why):
        module_with(name)


def test_what_a_module_imports_is_not_its_own() -> None:
    source = "from a import b\nC = 1\nD: int = 2\nclass E:\n    f = 1\ndef g(): h = 1\nj.k = m[0] = 1"
    assert [*defined(ast.parse(source))] == ["C", "D", "E", "g"]
