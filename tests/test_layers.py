"""The architecture, checked in the source text: which modules import which, and that the core does no I/O.

Every rule is a function from modules to a list of problems, so that it can also be tried on bad sources.
"""

import ast
import gc
import graphlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent / "src"
ROOT_PACKAGE = "trilogue"
CODECS_DOC = SRC.parent / "docs" / "codecs.md"
FOURTH_PROTOCOL = Path(__file__).resolve().parent / "fourth_protocol"
STREAMS = {"decode_stream.py", "encode_stream.py"}
"""files that are one, `stream.py`, while both are small"""

PROTOCOL_ROOMS = "chat messages responses"

LAYERS = {
    "errors": 0,
    "base": 1,
    "model": 2,
    "vendors": 3,
    "protocols": 4,
    "prices": 4,
    "translate": 5,
    "policies": 5,
    "lint": 5,
    "storage": 6,
    "net": 6,
    "capture": 6,
    "routing": 6,
    "http": 6,
    "upstreams": 7,
    "gateway": 8,
    "config": 9,
    "app": 10,
    "__main__": 11,
}
# The rooms of the large packages and the modules next to them, lowest first: each imports only those before it.
ROOMS = {
    "protocols": (
        "fields failure sealed tool_search endpoint",
        "parts",
        "stream",
        "codec",
        "openai",
        "fit",
        PROTOCOL_ROOMS,
        "registry",
    ),
    "translate": (
        "compare",
        "foreign",
        "tools",
        "reasoning",
        "learning",
        "content",
        "pipeline",
        "requests",
        "responses",
        "streams",
    ),
    "lint": (
        "rules",
        "json_values",
        "definition framing requests",
        "openai",
        PROTOCOL_ROOMS,
        "registry",
        "linter",
    ),
    "gateway": (
        "settings",
        "record",
        "observer",
        "log",
        "access",
        "limits",
        "conversations",
        "policies",
        "gateway",
        "request",
        "response",
        "endpoints",
        "admin",
        "features",
    ),
}
# The package's own __init__ shows the library and `http`. Only the gateway and what is above it may import it.
ROOT_LAYER = 7

LIBRARY_LAYER = 5
SETTINGS = "settings"

CORE = {name for name, layer in LAYERS.items() if layer <= LIBRARY_LAYER}
PROTOCOLS = tuple(PROTOCOL_ROOMS.split())

IMPURE_MODULES = ("socket", "asyncio", "ssl", "http", "urllib.request", "subprocess", "threading")
IMPURE_ATTRIBUTES = {"os.environ", "os.environb", "os.getenv", "os.open", "io.open"}
FILE_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes"}
ASYNC_NODES = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)


@dataclass(frozen=True)
class Module:
    name: str
    tree: ast.Module
    is_package: bool = False
    text: str = ""

    @property
    def component(self) -> str:
        """Return the part of the name that has a layer; empty for the root package."""
        return component(self.name)

    @cached_property
    def imports(self) -> list[tuple[str, str]]:
        """Return what is imported anywhere in the module, as (module, name in it). Most rules ask for it."""
        return list(imported_names(self, self.tree))


def component(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def layer(component_name: str) -> float:
    return LAYERS[component_name] if component_name else ROOT_LAYER


def read_modules() -> list[Module]:
    # Trees have no cycles, and the collector would take twice as long as the parser to find that out.
    gc.disable()
    try:
        return [read_module(path) for path in sorted((SRC / ROOT_PACKAGE).rglob("*.py"))]
    finally:
        gc.enable()


def read_module(path: Path) -> Module:
    parts = list(path.relative_to(SRC).with_suffix("").parts)
    is_package = parts[-1] == "__init__"
    text = path.read_text("utf-8")
    return Module(".".join(parts[:-1] if is_package else parts), ast.parse(text), is_package, text)


def imported_names(module: Module, tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each import as (module, name in it); the name is empty for a plain `import module`."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = absolute(module, node)
            yield from ((origin, alias.name) for alias in node.names)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements inside a node, at any depth. Expressions are twenty times as many."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, name, ()):
            yield node
            yield from statements(node)


def absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    kept = len(parts) - node.level + (1 if module.is_package else 0)
    return ".".join([*parts[:kept], *([node.module] if node.module else [])])


def is_ours(name: str) -> bool:
    return name == ROOT_PACKAGE or name.startswith(f"{ROOT_PACKAGE}.")


def internal_imports(module: Module, known: set[str]) -> set[str]:
    """Return the trilogue modules that a module imports. `from package import module` counts as that module.

    A name directly below the root that is a layer counts as one, even if its package does not exist yet.
    """
    found = set()
    for origin, name in module.imports:
        if is_ours(origin):
            full = f"{origin}.{name}"
            is_module = full in known or (origin == ROOT_PACKAGE and name in LAYERS)
            found.add(full if is_module else origin)
    return found


def names(modules: Iterable[Module]) -> set[str]:
    return {module.name for module in modules}


def modules_without_layer(modules: list[Module]) -> list[str]:
    return [module.name for module in modules if module.component and module.component not in LAYERS]


def upward_imports(modules: list[Module]) -> list[str]:
    known = names(modules)
    return [
        f"{module.name} imports {target}"
        for module in modules
        for target in sorted(internal_imports(module, known))
        if component(target) != module.component
        and (component(target) not in {*LAYERS, ""} or layer(component(target)) >= layer(module.component))
    ]


def room(name: str) -> str:
    """Return the room of a module, or its own name if it is next to the rooms; empty for a package itself.

    The settings of all rooms are one room, below the others: the configuration is put together from them.
    """
    parts = name.split(".")
    if parts[-1] == SETTINGS and len(parts) > 3:
        return SETTINGS if component(name) == "gateway" else parts[2]
    return parts[2] if len(parts) > 2 else ""


def rooms_without_place(modules: list[Module]) -> list[str]:
    return [
        module.name
        for module in modules
        if module.component in ROOMS and room(module.name) and room_level(module.name) is None
    ]


def room_level(name: str) -> int | None:
    levels = ROOMS[component(name)]
    return next((level for level, rooms in enumerate(levels) if room(name) in rooms.split()), None)


def imports_of_higher_rooms(modules: list[Module]) -> list[str]:
    known = names(modules)
    return [
        f"{module.name} imports {target}"
        for module in modules
        if module.component in ROOMS and room(module.name)
        for target in sorted(internal_imports(module, known))
        if component(target) == module.component
        and room(target) != room(module.name)
        and (room_level(target) or 0) >= (room_level(module.name) or 0)
    ]


def imports_across_protocols(modules: list[Module]) -> list[str]:
    known = names(modules)
    return [
        f"{module.name} imports {target}"
        for module in modules
        for target in sorted(internal_imports(module, known))
        if (own := protocol(module.name)) and (other := protocol(target)) and own != other
    ]


def protocol(name: str) -> str | None:
    parts = name.split(".")
    return parts[2] if len(parts) > 2 and parts[1] == "protocols" and parts[2] in PROTOCOLS else None


def import_cycle(modules: list[Module]) -> list[str]:
    """Return one cycle of imports as a list of modules; empty if there is none."""
    known = names(modules)
    graph = {module.name: internal_imports(module, known) for module in modules}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def local_imports(modules: list[Module]) -> list[str]:
    return [
        f"{module.name}: {function.name} imports {origin}"
        for module in modules
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for origin, _ in imported_names(module, function)
        if is_ours(origin)
    ]


def impurities(modules: list[Module]) -> list[str]:
    core = [module for module in modules if module.component in CORE]
    imports = [
        f"{module.name} imports {full}"
        for module in core
        for origin, name in module.imports
        if is_impure_import(full := f"{origin}.{name}".rstrip("."))
    ]
    nodes = [
        f"{module.name}:{getattr(node, 'lineno', '?')} {reason}"
        for module in core
        for node in ast.walk(module.tree)
        if (reason := impurity(node))
    ]
    return imports + nodes


def is_impure_import(name: str) -> bool:
    return name in IMPURE_ATTRIBUTES or any(name == bad or name.startswith(f"{bad}.") for bad in IMPURE_MODULES)


def impurity(node: ast.AST) -> str | None:
    """Return what a node does that the core must not do, or nothing."""
    match node:
        case ast.comprehension(is_async=1):
            return "is async"
        case ast.Attribute(value=ast.Name(id=owner), attr=attr) if f"{owner}.{attr}" in IMPURE_ATTRIBUTES:
            return f"uses {owner}.{attr}"
        case ast.Call(func=ast.Name(id="open")):
            return "calls open()"
        case ast.Call(func=ast.Attribute(attr=attr)) if attr in FILE_METHODS:
            return f"calls {attr}()"
    return "is async" if isinstance(node, ASYNC_NODES) else None


def protocol_files(protocols: Path) -> dict[str, set[str]]:
    """Return the file names of each protocol package that exists."""
    present = (protocols / name for name in PROTOCOLS)
    return {
        package.name: {str(file.relative_to(package)) for file in package.rglob("*.py")}
        for package in present
        if package.is_dir()
    }


def documented_files(text: str) -> tuple[set[str], dict[str, set[str]]]:
    """Return the table of files in docs/codecs.md: those that every package has, and those that only some have."""
    base: set[str] = set()
    further: dict[str, set[str]] = {}
    for files, packages in re.findall(r"^\| (`[^|]*\.py`) \| ([a-z, ]*) \|", text, re.MULTILINE):
        names = set(re.findall(r"`([\w.]+)`", files))
        if packages == "all":
            base |= names
        else:
            for package in packages.split(", "):
                further.setdefault(package, set()).update(names)
    return base, further


NAMED_PROTOCOLS = {"CHAT", "MESSAGES", "RESPONSES"}
MAY_NAME_PROTOCOLS = re.compile(
    r"trilogue\.(model\.protocol|(protocols|lint)\.(registry|chat|messages|responses))(\.|$)"
)
"""the model, the packages of each protocol, and the registries"""


def named_protocols(modules: list[Module]) -> list[str]:
    """Return where a module knows something about one protocol that should be in its codec."""
    return [
        f"{module.name}:{node.lineno} names Protocol.{node.attr}"
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
        and node.attr in NAMED_PROTOCOLS
        and isinstance(node.value, ast.Name)
        and node.value.id == "Protocol"
        and not MAY_NAME_PROTOCOLS.match(module.name)
    ]


def imports_of_one_protocol(modules: list[Module]) -> list[str]:
    """Return where a module imports a protocol package instead of asking the registry."""
    known = names(modules)
    return [
        f"{module.name} imports {target}"
        for module in modules
        for target in sorted(internal_imports(module, known))
        if protocol(target) and not MAY_NAME_PROTOCOLS.match(module.name)
    ]


MODULES = read_modules()


def test_every_module_has_a_layer() -> None:
    assert modules_without_layer(MODULES) == []


def test_imports_go_downwards() -> None:
    assert upward_imports(MODULES) == []


def test_rooms_import_lower_rooms() -> None:
    assert rooms_without_place(MODULES) == []
    assert imports_of_higher_rooms(MODULES) == []


def test_protocols_do_not_import_each_other() -> None:
    assert imports_across_protocols(MODULES) == []


def test_no_import_cycles() -> None:
    assert import_cycle(MODULES) == []


OPTIONAL = {"redis", "psycopg", "opentelemetry", "joserfc", "httpx", "httpx2", "openai", "anthropic"}
NEEDS_OPTIONAL = re.compile(
    r"trilogue\.gateway\.(admin\.id_tokens|features\.tracing\.(observer|spans|export|propagation))$"
)
"""modules that are loaded by name when their settings ask for them"""


def optional_imports(modules: list[Module]) -> list[str]:
    """Return where a package that may not be installed is imported when the module is."""
    return [
        f"{module.name} imports {name}"
        for module in modules
        for statement in module.tree.body
        if isinstance(statement, ast.Import | ast.ImportFrom)
        for name, _ in imported_names(module, ast.Module([statement], []))
        if name.partition(".")[0] in OPTIONAL and not NEEDS_OPTIONAL.match(module.name)
    ]


def test_optional_packages_are_loaded_when_they_are_used() -> None:
    assert optional_imports(MODULES) == []


def test_optional_import_is_found() -> None:
    source = "import json\nif TYPE_CHECKING:\n    import redis\n"
    assert optional_imports([module("gateway.features.cluster.link", source)]) == []
    assert optional_imports([module("gateway.features.cluster.link", f"{source}import redis.client")])


def unused(modules: list[Module], sources: str) -> list[str]:
    """Return the modules that no other one imports. `sources`: the text of all, which may name a module to load it."""
    known = names(modules)
    imported = {target for module in modules for target in internal_imports(module, known) if target != module.name}
    return [
        module.name
        for module in modules
        if not module.is_package and module.name not in imported and f'"{module.name}"' not in sources
    ]


def test_every_module_is_used() -> None:
    """`prices` is there for users, and `__main__` for the command."""
    sources = "".join(path.read_text("utf-8") for path in (SRC / ROOT_PACKAGE).rglob("*.py"))
    assert unused(MODULES, sources) == [f"{ROOT_PACKAGE}.__main__", f"{ROOT_PACKAGE}.prices"]


def test_unused_module_is_found() -> None:
    blocks, usage = module("model.blocks"), module("model.usage", "from trilogue.model.blocks import Text")
    assert unused([blocks, usage], "") == ["trilogue.model.usage"]
    assert unused([blocks, usage], 'load("trilogue.model.usage")') == []


def test_no_local_imports() -> None:
    assert local_imports(MODULES) == []


def test_core_is_pure() -> None:
    assert impurities(MODULES) == []


def test_facts_about_a_protocol_are_in_its_codec() -> None:
    assert named_protocols(MODULES) == []
    assert imports_of_one_protocol(MODULES) == []


def test_what_protocols_share_is_documented() -> None:
    text = CODECS_DOC.read_text("utf-8")
    shared = [module.name.split(".", 2)[2] for module in MODULES if is_shared(module)]
    assert shared
    assert [name for name in shared if f"`{name}`" not in text] == []


def is_shared(module: Module) -> bool:
    """Return whether a module serves all protocols."""
    return module.component == "protocols" and bool(room(module.name)) and room(module.name) not in PROTOCOLS


def test_protocol_packages_have_the_same_files() -> None:
    base, further = documented_files(CODECS_DOC.read_text("utf-8"))
    for package, files in protocol_files(SRC / ROOT_PACKAGE / "protocols").items():
        assert base <= files, f"{package} lacks {sorted(base - files)}"
        assert files - base == further.get(package, set()), f"{package}: the table in {CODECS_DOC.name} says otherwise"


def test_the_example_of_a_protocol_has_the_same_files() -> None:
    base, further = documented_files(CODECS_DOC.read_text("utf-8"))
    files = {file.name for file in FOURTH_PROTOCOL.glob("*.py")} - {"__main__.py"}
    assert base >= STREAMS
    required = base - STREAMS | {"stream.py"} if "stream.py" in files else base
    assert required <= files <= required.union(*further.values())


# Each rule must be able to fail, so it gets a source that breaks it.


def module(name: str, source: str = "", is_package: bool = False) -> Module:
    return Module(f"{ROOT_PACKAGE}.{name}".rstrip("."), ast.parse(source), is_package)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("errors", "from trilogue.model import Text"),
        ("base.sse", "import trilogue.model"),
        ("model.blocks", "from ..protocols import chat"),
        ("protocols.chat.request", "from trilogue import translate"),
        ("translate.request", "from trilogue import translate_request"),
        ("lint", "if True:\n    from trilogue.translate import pairs"),
        ("routing.pool.plan", "from trilogue.gateway.endpoints.app import App"),
        ("routing.pool.plan", "from trilogue.unheard_of import X"),
        ("", "from trilogue.gateway.gateway import Gateway"),
    ],
)
def test_upward_import_is_found(name: str, source: str) -> None:
    assert upward_imports([module(name, source, is_package=name == "")])


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("model.blocks", "from .usage import Usage\nfrom trilogue.errors import TrilogueError\nimport json"),
        ("gateway.app", "import trilogue\nfrom trilogue import routing"),
        ("", "from .translate import translate_request\nfrom trilogue.errors import TrilogueError"),
    ],
)
def test_downward_import_is_allowed(name: str, source: str) -> None:
    assert upward_imports([module(name, source, is_package=name == "")]) == []


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("gateway.record", "from trilogue.gateway.gateway import Gateway", True),
        ("gateway.gateway", "from trilogue.gateway.record import RequestRecord", False),
        ("gateway.request.call", "from trilogue.gateway.response.attempts import respond", True),
        ("protocols.fields", "from trilogue.protocols.chat import CODEC", True),
    ],
)
def test_import_of_a_higher_room_is_found(name: str, source: str, found: bool) -> None:
    assert bool(imports_of_higher_rooms([module(name, source)])) is found


def test_fact_about_a_protocol_is_found() -> None:
    source = "if protocol is Protocol.CHAT:\n    from trilogue.protocols.chat.wire import PROTOCOL"
    for name, found in (("gateway.app", True), ("protocols.chat.wire", False), ("protocols.registry", False)):
        modules = [module(name, source), module("protocols.chat.wire")]
        assert bool(named_protocols(modules)) is found
        assert bool(imports_of_one_protocol(modules)) is found


def test_room_without_place_is_found() -> None:
    assert rooms_without_place([module("gateway.helpers.text")]) == ["trilogue.gateway.helpers.text"]


def test_module_without_layer_is_found() -> None:
    assert modules_without_layer([module("helpers")]) == ["trilogue.helpers"]


@pytest.mark.parametrize("source", ["from trilogue.protocols.chat import wire", "from ..chat.wire import Chunk"])
def test_import_across_protocols_is_found(source: str) -> None:
    chat = module("protocols.chat.wire")
    messages = module("protocols.messages.wire", source)
    assert len(imports_across_protocols([chat, messages])) == 1


def test_import_cycle_is_found() -> None:
    blocks = module("model.blocks", "from trilogue.model import usage")
    usage = module("model.usage", "from .blocks import Text")
    assert set(import_cycle([blocks, usage])) == {blocks.name, usage.name}
    assert import_cycle([blocks, module("model.usage")]) == []


def test_import_of_own_package_is_a_cycle() -> None:
    package = module("model", "from .blocks import Text", is_package=True)
    assert import_cycle([package, module("model.blocks", "from trilogue.model import Text")])


def test_local_import_is_found() -> None:
    source = "import json\ndef f():\n    import json\n    from ..errors import TrilogueError"
    assert local_imports([module("model.blocks", source)]) == ["trilogue.model.blocks: f imports trilogue.errors"]


@pytest.mark.parametrize(
    "source",
    [
        "async def f(): ...",
        "async def f():\n    return [x async for x in y]",
        "import asyncio",
        "import http.client",
        "from urllib import request",
        "from urllib.request import urlopen",
        "from concurrent import futures\nimport threading as t",
        "import os\nkey = os.environ['KEY']",
        "from os import getenv",
        "def f():\n    return open('x')",
        "text = path.read_text()",
    ],
)
def test_impurity_is_found_in_the_core_only(source: str) -> None:
    assert impurities([module("translate.request", source)])
    assert impurities([module("gateway.app", source)]) == []


@pytest.mark.parametrize("source", ["from urllib.parse import urlsplit", "import os.path", "value = sealer.open(blob)"])
def test_pure_source_is_allowed(source: str) -> None:
    assert impurities([module("translate.request", source)]) == []


def test_differing_protocol_files_are_found(tmp_path: Path) -> None:
    for file in ("chat/wire.py", "chat/errors.py", "messages/wire.py", "shared/other.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    assert protocol_files(tmp_path) == {"chat": {"wire.py", "errors.py"}, "messages": {"wire.py"}}


def test_documented_files_are_read_from_the_table() -> None:
    table = "| file | in | holds |\n|---|---|---|\n| `a.py`, `b.py` | all | x |\n| `c.py` | chat, messages | y |\n"
    assert documented_files(table) == ({"a.py", "b.py"}, {"chat": {"c.py"}, "messages": {"c.py"}})
