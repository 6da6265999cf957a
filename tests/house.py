"""Print how large and how entangled the source is: one number per line, with the best value so far and the target.

    python -m tests.house [--list NUMBER] [--write]

`--list` prints what a number counts. `--write` records the values that are better than those in `tests/house.json`, to
which `tests/test_house.py` holds the source. A value that has to get worse is changed by hand, and the commit says why.

All numbers are smaller if better. None depends on where a module is: layers are those of `tests/test_layers.py`, and a
feature is recognised by words in the names of its modules (`FEATURES`). A module knows a feature if it is one of its
modules or imports one. Protocols, translation, linter, policies and the neutral model have words such as "usage" of
their own, so none of their modules belongs to a feature. Importers of `Config` are those outside of the configuration,
the command line and the package that puts the program together.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

from tests.test_layers import (
    LAYERS,
    MODULES,
    ROOT_LAYER,
    ROOT_PACKAGE,
    Module,
    component,
    imports_of_higher_rooms,
    internal_imports,
    names,
    statements,
    upward_imports,
)

RECORDED = Path(__file__).with_name("house.json")
SMALL = 50
"""lines that a small file has at most"""
SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.Assert, ast.Raise)
"""statements that are all expression"""
SHOWN = 12
"""places that a message names at most"""

Counts = Mapping[str, int]


class Number(Struct, frozen=True):
    """One number: its value, and how much of it is where. `target`: the value to reach, if there is one."""

    value: int
    where: Counts
    target: int | None = None


class Feature(Struct, frozen=True):
    """The words by which the modules of a feature are known: parts of their dotted names."""

    words: frozenset[str]
    target: int


CLIENT_KEYS = ("client_key", "client_keys", "managed_keys", "key_options", "key_store", "key_watch")
FEATURES = {
    "capture": Feature(frozenset({"capture", "captures", "capture_tests"}), 18),
    "client keys": Feature(frozenset({"keys", "access", *CLIENT_KEYS}), 14),
    "limits": Feature(frozenset({"limits", "limiter", "leases", "budgets", "spent", "budget_table"}), 12),
    "usage": Feature(frozenset({"usage", "own_usage"}), 12),
}
WITHOUT_FEATURES = ("model", "protocols", "translate", "policies", "lint", "fast_paths", "vendors", "profiles")
MAY_KNOW_CONFIG = ("config", "cli", "app")
"""the configuration itself, and what puts a program together"""

STARTS = {
    "import trilogue": "import trilogue",
    "import trilogue.config": "import trilogue.config",
    "the serve command": (
        "import sys, contextlib, io; sys.argv = ['trilogue', 'serve', '--help']\n"
        "from trilogue.__main__ import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): main()"
    ),
}
"""code that is started to count the modules that it loads"""


def numbers(modules: list[Module], loaded: Mapping[str, Iterable[str]]) -> dict[str, Number]:
    """Return all numbers of a source by name. `loaded`: the modules that each start loads."""
    code = {module.name: code_lines(module) for module in modules}
    chain = longest_chain(modules)
    found = {
        "files": Number(len(modules), Counter(map(folder, modules)), 430),
        "lines of code": Number(sum(code.values()), code, 49_500),
        "top-level packages and modules": counted(top_level(modules), 18),
        "layers": counted(layers(), 11),
        "layers with decimals": counted([one for one in layers() if not float(one).is_integer()], 0),
        "import depth": Number(len(chain), dict.fromkeys(chain, 1), 43),
        f"files of at most {SMALL} lines": counted(small_files(modules), 15),
        "class names used twice": counted(shared_class_names(modules), 0),
        "imports against the layers": counted([*upward_imports(modules), *imports_of_higher_rooms(modules)], 0),
        "importers of Config": counted(importers_of_config(modules), 0),
    }
    for name, feature in FEATURES.items():
        found[f"files that know {name}"] = counted(knowing(feature, modules), feature.target)
    for name, one in loaded.items():
        packages = Counter(component(module) or ROOT_PACKAGE for module in one)
        found[f"modules of {name}"] = Number(sum(packages.values()), packages)
    return found


def counted(items: Iterable[str], target: int) -> Number:
    where = dict.fromkeys(items, 1)
    return Number(len(where), where, target)


def folder(module: Module) -> str:
    """Return the package that a file is in."""
    return module.name if module.is_package else module.name.rpartition(".")[0]


def code_lines(module: Module) -> int:
    """Return how many lines are code: without blank lines, comments, docstrings and imports."""
    lines = enumerate(module.text.splitlines(), 1)
    empty = {number for number, line in lines if not line.strip().partition("#")[0]}
    without = set(empty)
    for node in statements(module.tree):
        if isinstance(node, ast.Import | ast.ImportFrom) or is_docstring(node):
            without.update(lines_of(node))
        elif isinstance(node, SIMPLE) and not empty.isdisjoint(lines_of(node)):
            without -= lines_of_texts(node)
    return module.text.count("\n") - len(without)


def lines_of_texts(node: ast.AST) -> set[int]:
    """Return the lines of texts in a statement: a blank line or a hash is part of them."""
    inner = (one for one in ast.walk(node) if isinstance(one, ast.Constant | ast.JoinedStr))
    return {line for one in inner for line in lines_of(one)}


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def lines_of(node: ast.AST) -> range:
    start, end = getattr(node, "lineno", 1), getattr(node, "end_lineno", 0)
    return range(start, (end or start) + 1)


def top_level(modules: list[Module]) -> list[str]:
    """Return the packages and modules directly below the root, without `__main__`."""
    return sorted({module.component for module in modules} - {"", "__main__"})


def layers() -> list[str]:
    """Return the layers of the table of layers, and the layer of the root package."""
    return [f"{one:g}" for one in sorted({*LAYERS.values(), ROOT_LAYER})]


def longest_chain(modules: list[Module]) -> list[str]:
    """Return the longest chain of modules of which each imports the next one."""
    known = names(modules)
    graph = {module.name: internal_imports(module, known) & known - {module.name} for module in modules}
    longest: dict[str, list[str]] = {}
    for name in in_order(graph):
        longest[name] = [name, *max((longest[one] for one in sorted(graph[name])), key=len, default=[])]
    return max(longest.values(), key=len, default=[])


def in_order(graph: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield every module after those that it imports. The deepest chain is longer than Python's stack is sure to be."""
    done: set[str] = set()
    for start in graph:
        todo = [start]
        while todo:
            waiting = [one for one in graph[todo[-1]] if one not in done and one not in todo]
            if waiting:
                todo.append(min(waiting))
                continue
            name = todo.pop()
            if name not in done:
                done.add(name)
                yield name


def small_files(modules: list[Module]) -> list[str]:
    return [one.name for one in modules if not one.is_package and one.text.count("\n") <= SMALL]


def shared_class_names(modules: list[Module]) -> list[str]:
    """Return the public names of classes that are defined in several modules, each with those modules."""
    homes: dict[str, list[str]] = {}
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module.name)
    return [f"{name}: {', '.join(found)}" for name, found in sorted(homes.items()) if len(found) > 1]


def importers_of_config(modules: list[Module]) -> list[str]:
    """Return the modules that get the whole configuration, outside of it and of what puts a program together."""
    return [
        module.name
        for module in modules
        if module.component not in MAY_KNOW_CONFIG
        and any(name == "Config" and component(origin) == "config" for origin, name in module.imports)
    ]


def knowing(feature: Feature, modules: list[Module]) -> list[str]:
    """Return the modules that are part of a feature or import a part of it."""
    known = names(modules)
    return [
        module.name
        for module in modules
        if belongs(module.name, feature) or any(belongs(one, feature) for one in internal_imports(module, known))
    ]


def belongs(name: str, feature: Feature) -> bool:
    return component(name) not in WITHOUT_FEATURES and not feature.words.isdisjoint(name.split("."))


@cache
def loaded_modules() -> dict[str, list[str]]:
    """Return the modules of ours that each start loads, in fresh interpreters beside each other."""
    tell = f"\nimport sys; print(*[name for name in sys.modules if name.split('.')[0] == {ROOT_PACKAGE!r}])"
    started = {
        name: subprocess.Popen([sys.executable, "-c", code + tell], stdout=subprocess.PIPE, text=True)
        for name, code in STARTS.items()
    }
    found = {name: process.communicate(timeout=60)[0].split() for name, process in started.items()}
    failed = [name for name, process in started.items() if process.returncode]
    if failed:
        raise RuntimeError(f"cannot be started: {failed}")
    return found


@cache
def today() -> dict[str, Number]:
    """Return the numbers of the source as it is."""
    return numbers(MODULES, loaded_modules())


def read_recorded(file: Path = RECORDED) -> dict[str, Number]:
    """Return what was recorded; nothing if there is no file."""
    if not file.exists():
        return {}
    return {name: Number(**one) for name, one in json.loads(file.read_text("utf-8")).items()}


def write_recorded(now: Mapping[str, Number], file: Path = RECORDED) -> list[str]:
    """Record the values that are not worse than before, and return the names of those that are worse."""
    before = read_recorded(file)
    worse = [name for name, one in now.items() if name in before and one.value > before[name].value]
    kept = {name: before[name] if name in worse else one for name, one in now.items()}
    plain = {
        name: {"value": one.value, "target": one.target, "where": dict(sorted(one.where.items()))}
        for name, one in kept.items()
    }
    file.write_text(f"{json.dumps(plain, indent=1)}\n", "utf-8")
    return worse


def worsening(name: str, now: Number, before: Number) -> str:
    """Return what is worse than recorded and where, or an empty text."""
    if now.value <= before.value:
        return ""
    more = {place: count - before.where.get(place, 0) for place, count in now.where.items()}
    places = sorted((place for place, count in more.items() if count > 0), key=lambda place: (-more[place], place))
    shown = [f"  {place}" + (f" (+{more[place]})" if now.where[place] > 1 else "") for place in places[:SHOWN]]
    if len(places) > SHOWN:
        shown.append(f"  and {len(places) - SHOWN} more")
    head = f"{name}: {now.value}, and it was {before.value} (tests/house.json). What is new:"
    return "\n".join([head, *shown])


def table(now: Mapping[str, Number], before: Mapping[str, Number]) -> str:
    """Return the numbers with what was recorded and what is to be reached."""
    row: Callable[[object, object, object, object], str] = "{:<34} {:>8} {:>9} {:>8}".format
    lines = [row("number", "today", "recorded", "target")]
    for name, one in now.items():
        recorded = before[name].value if name in before else "-"
        lines.append(row(name, one.value, recorded, "-" if one.target is None else one.target))
    return "\n".join(lines)


def main() -> int:
    """Print the table, or what one number counts; with `--write`, record what is better."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__.partition("\n")[0])
    parser.add_argument("--list", metavar="NUMBER", help="print what a number counts; a part of its name is enough")
    parser.add_argument("--write", action="store_true", help="record the values that are better than before")
    given = parser.parse_args()
    now = today()
    if given.list:
        for name in (name for name in now if given.list in name):
            print(f"{name}: {now[name].value}")
            for place, count in now[name].where.items():
                print(f"  {place}" + (f" {count}" if count > 1 else ""))
        return 0
    worse = write_recorded(now) if given.write else []
    print(table(now, read_recorded()))
    for name in worse:
        print(f"not recorded, because it is worse: {name}", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
