"""The package itself: its public names, and what importing it loads."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import trilogue

HEAVY = (
    "asyncio",
    "click",
    "cryptography",
    "dataclasses",
    "email",
    "http",
    "inspect",
    "logging",
    "msgspec",
    "multiprocessing",
    "socket",
    "sqlite3",
    "ssl",
    "structlog",
    "urllib",
    "uvicorn",
    "uvloop",
    "yaml",
)
"""modules that take long to load and are not needed for `import trilogue`"""

MAX_MODULES = 40
"""modules that `import trilogue` may load in addition to those of a bare interpreter: those of `typing` and
`importlib`"""


def loaded_by(code: str) -> set[str]:
    """Return the modules that a fresh interpreter has after running some code, without those it starts with."""
    script = (
        f"import sys; before = set(sys.modules)\n{code}\nimport json; print(json.dumps([*set(sys.modules) - before]))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def heavy(modules: set[str], *, needed: tuple[str, ...] = ()) -> list[str]:
    return sorted({module.split(".")[0] for module in modules} & set(HEAVY) - set(needed))


def imports_for_type_checkers() -> dict[str, set[str]]:
    """Return what the package imports under TYPE_CHECKING: names by module."""
    tree = ast.parse(Path(trilogue.__file__).read_text("utf-8"))
    return {
        node.module or "": {alias.name for alias in node.names}
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
    }


def test_names_at_run_time_are_those_that_type_checkers_see() -> None:
    homes = {module: set(names.split()) for module, names in trilogue._HOMES.items()}
    assert homes == imports_for_type_checkers()
    assert set().union(*homes.values()) | {"__version__"} == set(trilogue.__all__)


@pytest.mark.parametrize("name", trilogue.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert name in dir(trilogue)
    assert getattr(trilogue, name) is not None


def test_star_import_gives_every_public_name() -> None:
    names: dict[str, object] = {}
    exec("from trilogue import *", names)
    assert set(trilogue.__all__) <= set(names)


def test_parts_of_the_package_are_attributes_of_it() -> None:
    loaded_by("import trilogue; trilogue.model.Text; trilogue.errors.TrilogueError")


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'trilogue' has no attribute 'nothing'"):
        _ = trilogue.nothing  # type: ignore[attr-defined]


def test_importing_the_package_loads_next_to_nothing() -> None:
    modules = loaded_by("import trilogue")
    assert heavy(modules) == []
    assert {module for module in modules if module.startswith("trilogue.")} == set()
    assert len(modules) < MAX_MODULES, sorted(modules)


TRANSLATION = """
from trilogue import Protocol, translate_request
body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
translate_request(body, source=Protocol.CHAT, target=Protocol.RESPONSES)
"""


@pytest.mark.parametrize("code", ["from trilogue import *", TRANSLATION], ids=["all names", "a translation"])
def test_using_the_library_loads_no_more_than_it_needs(code: str) -> None:
    """Using the library loads no module that it does not need.

    msgspec loads `inspect` if typing_extensions is installed.
    """
    assert heavy(loaded_by(code), needed=("msgspec", "inspect")) == []


def test_help_loads_no_translation() -> None:
    modules = loaded_by("from trilogue.__main__ import main")
    assert {module for module in modules if module.startswith(("trilogue.", "msgspec"))} == {
        "trilogue.__main__",
        "trilogue.app",
        "trilogue.app.cli",
        "trilogue.app.cli.app",
        "trilogue.errors",
    }


def test_the_gateway_loads_no_second_http_client_and_no_tools_for_files() -> None:
    unwanted = ("http.client", "urllib.request", "email.parser", "trilogue.config.schema", "trilogue.lint")
    assert loaded_by("import trilogue.app.cli.serve").isdisjoint(unwanted)
