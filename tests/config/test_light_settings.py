"""Settings are light: reading or checking a configuration loads the settings of the gateway, and nothing else of it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import trilogue

PACKAGE = Path(trilogue.__file__).parent
SETTINGS = sorted(path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("settings.py"))
LOW = ("errors", "base", "model", "vendors")
"""the packages of the layers 0 to 3"""
BESIDES = {
    "trilogue.upstreams.settings": (
        "trilogue.protocols.registry",
        "trilogue.protocols.fit.request",
        "trilogue.upstreams.",
    ),
}
"""what settings import that are not only data: a provider's need what is known about protocols"""
SERVES = ("gateway", "request", "response", "endpoints", "policies", "admin")
"""what only a gateway that serves requests needs; `trilogue check` looks whether the stores can be used"""


def name_of(path: Path) -> str:
    return ".".join(path.with_suffix("").parts)


def imports(source: str) -> list[str]:
    """Return the modules that a source imports from, other than those of Python and of other packages."""
    nodes = ast.walk(ast.parse(source))
    found = [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return [module for module in found if module.split(".")[0] == "trilogue"]


def heavy(module: str, source: str) -> list[str]:
    """Return the imports of a module with settings that are neither of the low layers nor settings."""
    return [
        one
        for one in imports(source)
        if one.split(".")[1] not in LOW
        and not one.endswith(".settings")
        and not one.startswith(BESIDES.get(module, "-"))
    ]


def loaded(module: str) -> list[str]:
    """Return the modules of the gateway that are loaded by another Python which imports this module."""
    code = f"import sys, {module}; print(*(one for one in sys.modules if one.startswith('trilogue.gateway')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.split()


def is_package(module: str) -> bool:
    return (PACKAGE.parent / module.replace(".", "/") / "__init__.py").is_file()


@pytest.mark.parametrize("path", SETTINGS, ids=map(name_of, SETTINGS))
def test_settings_import_low_layers_and_other_settings(path: Path) -> None:
    assert heavy(name_of(path), (PACKAGE.parent / path).read_text("utf-8")) == []


def test_a_heavy_import_is_found() -> None:
    assert heavy("trilogue.gateway.settings", "from trilogue.gateway.gateway import Gateway") == [
        "trilogue.gateway.gateway"
    ]
    assert heavy("trilogue.gateway.settings", "from trilogue.gateway.log.settings import Log") == []


def test_rooms_of_the_gateway_import_nothing_by_themselves() -> None:
    rooms = [path for path in (PACKAGE / "gateway").rglob("__init__.py") if path.parent.name != "console"]
    assert rooms
    assert [path for path in rooms if imports(path.read_text("utf-8"))] == []


def test_reading_a_configuration_loads_the_settings_of_the_gateway_only() -> None:
    found = loaded("trilogue.config.load")
    assert "trilogue.gateway.settings" not in found
    assert [one for one in found if not one.endswith(".settings") and not is_package(one)] == []


def test_importing_a_configuration_loads_the_settings_of_the_gateway_only() -> None:
    found = loaded("trilogue.app.cli.importing")
    assert [one for one in found if not one.endswith(".settings") and not is_package(one)] == []


def test_checking_a_configuration_loads_nothing_that_serves_requests() -> None:
    found = [one for one in loaded("trilogue.app.cli.check") if not one.endswith(".settings") and not is_package(one)]
    assert [one for one in found if one.split(".")[2] in SERVES] == []
