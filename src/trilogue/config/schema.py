"""The JSON Schema of the configuration file and the list of its settings, both derived from the types.

The descriptions are the docstrings below the fields. They are read from the source, because Python does not keep them.
"""

from __future__ import annotations

import ast
import inspect as source
import itertools
import textwrap
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, inspect, json

from trilogue.base.secrets import Secret
from trilogue.config.config import Config, inner_types, short_form
from trilogue.model import Protocol
from trilogue.upstreams.settings import ProfileBase, ProfileSettings, ProviderSettings
from trilogue.vendors.profile import Profile
from trilogue.vendors.table import PRESETS

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the schema, with a description of every setting."""
    (root,), parts = json.schema_components([Config], schema_hook=_custom_schema)
    enum = list(Protocol.names())
    parts[Protocol.__name__] = {"title": Protocol.__name__, "description": Protocol.__doc__, "enum": enum}
    # The protocol may come from a preset.
    del parts[ProviderSettings.__name__]["required"]
    parts[ProviderSettings.__name__]["properties"]["preset"]["enum"] = list(PRESETS)
    definitions = {name: _described(part) for name, part in sorted(parts.items())}
    for name, struct in _STRUCTS.items():
        if short := short_form(struct):
            whole = definitions[name]
            definitions[name] = {"title": whole["title"], "anyOf": [_short_form(short), whole]}
    schema = {"$schema": _DIALECT, "title": "Trilogue configuration", **root, "$defs": definitions}
    # Defaults are tuples and enums until they have been encoded as JSON.
    plain: dict[str, Any] = json.decode(json.encode(schema))
    return plain


def field_docs(struct: type[Struct]) -> dict[str, str]:
    """Return the docstring of each field of a struct, in one line, by field name."""
    if struct is ProfileSettings:
        return field_docs(ProfileBase) | field_docs(Profile)
    tree = ast.parse(textwrap.dedent(source.getsource(struct)))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef))
    found: dict[str, str] = {}
    for base in struct.__bases__:
        if issubclass(base, Struct) and base is not Struct:
            found |= field_docs(base)
    for field, text in itertools.pairwise(body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                found[name] = " ".join(words.split())
    return found


def _custom_schema(kind: type) -> dict[str, Any]:
    """Return the schema of a protocol or a secret. Raises NotImplementedError for other types, as msgspec expects."""
    if kind is Protocol:
        return {"$ref": f"#/$defs/{Protocol.__name__}"}
    if kind is not Secret:
        raise NotImplementedError
    return {"type": "string", "description": "env:NAME, file:path, or the text itself"}


def _short_form(short: str) -> dict[str, Any]:
    return {"type": "string", "description": f"short for {short}"}


def _described(part: dict[str, Any]) -> dict[str, Any]:
    """Add the docstrings of the fields to the schema of a struct, and return it."""
    struct = _STRUCTS.get(part.get("title", ""))
    for name, text in (field_docs(struct) if struct else {}).items():
        if name in part["properties"]:
            part["properties"][name]["description"] = text
    return part


def _structs(kind: inspect.Type) -> Iterator[type[Struct]]:
    """Yield all structs inside a type, itself included."""
    if isinstance(kind, inspect.StructType):
        yield kind.cls
    for inner in inner_types(kind):
        yield from _structs(inner[1])


_STRUCTS = {struct.__name__: struct for struct in _structs(inspect.type_info(Config))}
