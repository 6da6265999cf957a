"""List everything that programs and scripts of users can hold on to, one line each, in `tests/public_surface.txt`.

    python -m tests.public_surface [--write [--gone]]

It prints what differs from the file. `--write` records it; if something is gone, only together with `--gone`, because
programs of users break then. `tests/test_public_surface.py` holds the source to the file.

`import`: a name that can be imported, because it is public, because a page shows it, or because `trilogue capture`
writes it into users' tests. `parameter`: a parameter of a public function, method or class, which for structs are the
fields; those that are passed by position have a number. `attribute`: of the instances of a class. `value`: of a member
of an enum, or a constant. `is`: what an `except` for the second name catches. `help`: a hash of the help of a command.
`setting`: a hash of the schema of a section, in which the names of classes make no difference.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, is_typeddict

import click
from msgspec import Struct

from tests.definitions import module_with
from tests.test_layers import MODULES, ROOT_PACKAGE

ROOT = Path(__file__).resolve().parent.parent
RECORDED = Path(__file__).with_name("public_surface.txt")
PUBLIC = ["trilogue", *(f"trilogue.{name}" for name in ["capture", "http", "lint", "model", "policies", "prices"])]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*")]
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CHANGEABLE = ("help", "setting")
"""the first words of lines that may change: what a person reads, and settings that get further values"""
WIDTH = 100
"""characters of a line of help"""


def surface() -> list[str]:
    """Return all lines, sorted."""
    found: set[str] = set()
    for module in PUBLIC:
        for name, value in public_names(module).items():
            found |= {f"import {module}.{name}", *described(f"{module}.{name}", value)}
    found |= {f"import {name}" for name in (*shown_imports(), *written_imports())}
    found |= {*helps(), *settings(module_with("json_schema", "field_docs").json_schema())}
    return sorted(found)


def public_names(module: str) -> dict[str, Any]:
    """Return the public names of a module: its `__all__`, or what it defines itself."""
    loaded = import_module(module)
    listed = getattr(loaded, "__all__", None)
    if listed is not None:
        return {name: getattr(loaded, name) for name in listed}
    return {
        name: value
        for name, value in vars(loaded).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module
    }


def described(name: str, value: object) -> Iterator[str]:
    """Yield the lines about a public name."""
    if isinstance(value, type) and issubclass(value, Enum):
        yield from (f"value {name}.{member.name} = {member.value!r}" for member in value)
    elif is_typeddict(value):
        yield from (f"parameter {name}({key}=)" for key in sorted(keys_of(value)))
    elif isinstance(value, type):
        yield from of_class(name, value)
    elif isinstance(value, FunctionType):
        yield from parameters(name, value)
    elif isinstance(value, str | int | float) and not name.endswith("__version__"):
        yield f"value {name} = {value!r}"


def keys_of(options: Any) -> frozenset[str]:
    """Return the keys of a TypedDict."""
    keys: frozenset[str] = options.__required_keys__ | options.__optional_keys__
    return keys


def of_class(name: str, kind: type) -> Iterator[str]:
    """Yield the parameters, attributes and methods of a class of ours, and what its exceptions are."""
    if issubclass(kind, BaseException):
        yield from (f"is {name} {base.__name__}" for base in kind.__mro__[1:] if base not in (BaseException, object))
    is_interface = getattr(kind, "_is_protocol", False)
    if issubclass(kind, Struct) or ("__init__" in vars(kind) and not is_interface):
        yield from parameters(name, kind)
    for owner in kind.__mro__:
        if owner.__module__.partition(".")[0] == ROOT_PACKAGE:
            yield from members(name, owner)


def members(name: str, owner: type) -> Iterator[str]:
    """Yield the public methods, properties and attributes that one class of ours has, as those of `name`."""
    for key, value in vars(owner).items():
        method = getattr(value, "__func__", value)
        if key.startswith("_") and key != "__call__":
            continue
        if isinstance(method, FunctionType):
            yield from parameters(f"{name}.{key}", method)
        elif not issubclass(owner, Struct) or isinstance(value, property):
            yield f"attribute {name}.{key}"
    if not issubclass(owner, Struct):
        yield from (f"attribute {name}.{key}" for key in set_by_init(owner))


def set_by_init(owner: type) -> set[str]:
    """Return the public attributes that `__init__` sets."""
    init = vars(owner).get("__init__")
    if not isinstance(init, FunctionType):
        return set()
    tree = ast.parse(textwrap.dedent(inspect.getsource(init)))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
        and not node.attr.startswith("_")
    }


def parameters(name: str, function: Any) -> Iterator[str]:
    """Yield a line for each parameter: its place or `by name`, and `=` if it can be left out; `()` if there is none."""
    number = 0
    yield f"parameter {name}()"
    for one in inspect.signature(function).parameters.values():
        by_name = one.kind is one.KEYWORD_ONLY
        star = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        if one.name == "self":
            continue
        place = "by name" if by_name or star else f"{number}"
        number += not by_name
        yield f"parameter {name}({star}{one.name}{'' if one.default is one.empty else '='}) {place}"


def shown_imports() -> set[str]:
    """Return what Python code on the pages imports from Trilogue."""
    pages = (page.read_text("utf-8") for page in PAGES if page.suffix in (".md", ".py"))
    return {name for page in pages for code in CODE.findall(page) for name in imports_of(code)}


def written_imports() -> set[str]:
    """Return what the tests import that commands write for users: texts in the source that are programs."""
    texts = (
        node.value
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {
        name
        for text in texts
        if re.search(r"^from trilogue\S* import ", text, re.MULTILINE)
        for name in imports_of(text)
    }


def imports_of(code: str) -> Iterator[str]:
    """Yield the modules and names that code imports from Trilogue; nothing if it is not code."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and is_ours(node.module or ""):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_ours(module: str) -> bool:
    return module.partition(".")[0] == ROOT_PACKAGE


def helps() -> Iterator[str]:
    """Yield a hash of the help of each command and subcommand."""
    yield from help_of(module_with("COMMANDS", "OWN_OPTIONS").app, "trilogue", None)


def help_of(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    context = click.Context(command, parent, name.rpartition(" ")[2], terminal_width=WIDTH, max_content_width=WIDTH)
    yield f"help {name} = {hashed(command.get_help(context))}"
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from help_of(found, f"{name} {inner}", context)


def settings(schema: dict[str, Any]) -> Iterator[str]:
    """Yield a hash of each section of the configuration."""
    for name, section in resolved(schema)["properties"].items():
        yield f"setting {name} = {hashed(json.dumps(section, sort_keys=True))}"


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with its definitions in the places that refer to them, without their names and titles."""
    definitions = schema.get("$defs", {})

    def put_in(value: Any, inside: tuple[str, ...] = ()) -> Any:
        if isinstance(value, list):
            return [put_in(one, inside) for one in value]
        if not isinstance(value, dict):
            return value
        if isinstance(reference := value.get("$ref"), str):
            name = reference.rpartition("/")[2]
            rest = {key: put_in(one, inside) for key, one in value.items() if key != "$ref"}
            # A definition that refers to itself is shown by how many levels up it is.
            return rest | (
                put_in(definitions[name], (*inside, name)) if name not in inside else {"$up": inside[::-1].index(name)}
            )
        is_class = isinstance(value.get("title"), str) and value["title"] in definitions
        return {key: put_in(one, inside) for key, one in value.items() if not (is_class and key == "title")}

    whole: dict[str, Any] = put_in({key: value for key, value in schema.items() if key != "$defs"})
    return whole


def hashed(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()


class Difference(NamedTuple):
    """What is gone, changed in a line that may change, and new."""

    gone: list[str]
    changed: list[str]
    new: list[str]


def difference(now: Iterable[str], before: Iterable[str]) -> Difference:
    """Compare two lists of lines."""
    is_now, was = {*now}, {*before}
    new, gone = sorted(is_now - was), sorted(was - is_now)
    heads = {line.partition(" = ")[0] for line in new}
    changed = [line for line in gone if line.startswith(CHANGEABLE) and line.partition(" = ")[0] in heads]
    renewed = {line.partition(" = ")[0] for line in changed}
    return Difference(
        [line for line in gone if line not in changed],
        [line.partition(" = ")[0] for line in changed],
        [line for line in new if line.partition(" = ")[0] not in renewed],
    )


def read_recorded(file: Path = RECORDED) -> list[str]:
    """Return the recorded lines; none if there is no file."""
    return file.read_text("utf-8").splitlines() if file.exists() else []


def write_recorded(now: list[str], *, gone: bool, file: Path = RECORDED) -> bool:
    """Record the lines and return True; False if some are gone and `gone` does not say that this is meant."""
    if difference(now, read_recorded(file)).gone and not gone:
        return False
    file.write_text("\n".join(now) + "\n", "utf-8")
    return True


def explained(found: Difference) -> Mapping[str, list[str]]:
    """Return the differences that there are, each kind with what it means."""
    texts = {
        "gone, so programs of users break; keep an alias, or record it with --write --gone": found.gone,
        "changed; record it with --write if it is meant": found.changed,
        "new; record it with --write": found.new,
    }
    return {text: lines for text, lines in texts.items() if lines}


def main() -> int:
    """Print the differences, or record them."""
    parser = argparse.ArgumentParser(prog="python -m tests.public_surface", description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="record what is new or changed")
    parser.add_argument("--gone", action="store_true", help="with --write: also record that something is gone")
    given = parser.parse_args()
    now = surface()
    for text, lines in explained(difference(now, read_recorded())).items():
        print(f"{text}:", *lines, sep="\n  ")
    if given.write and not write_recorded(now, gone=given.gone):
        print("nothing was recorded", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
