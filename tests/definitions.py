"""Finds a definition wherever it is in the source, for tests that must stay true when modules move."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from tests.test_layers import MODULES


def module_with(*names: str) -> ModuleType:
    """Return the only module that defines all of these names. Raises LookupError if there is none, or several."""
    found = [module.name for module in MODULES if set(names) <= {*defined(module.tree)}]
    if len(found) != 1:
        raise LookupError(f"{' and '.join(names)}: defined in {', '.join(found) or 'no module'}")
    return import_module(found[0])


def defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module defines itself: not what it imports."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        for target in node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]:
            if isinstance(target, ast.Name):
                yield target.id
