"""The policies of a configuration: each definition is completed, and loaded once, so that mistakes are found early.

In: definitions by name, and the lists that name them. Out: a definition for every name in a list, with secrets resolved
and paths of Python files complete, or what is wrong. The gateway makes its own policies from the definitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from trilogue.base.problems import NAME, NAME_RULE, join, suggest
from trilogue.base.secrets import Secret
from trilogue.config.config import Config
from trilogue.config.references import resolve
from trilogue.policies import Policy, PolicyError, load_policy
from trilogue.policies.loading import SHIPPED, find_policy
from trilogue.routing.model_names import BadPattern, compile_match
from trilogue.upstreams.sources import BadReference

Problems = list[tuple[str, str]]
_FILE_MARK = ".py"


def lists_policies(config: Config) -> bool:
    """Return whether a configuration defines policies or names any."""
    return bool(config.policies) or any(True for _ in _lists(config))


def read_policies(config: Config, environ: Mapping[str, str] | None, folder: Path) -> tuple[Config, Problems]:
    """Return a configuration with complete definitions, and what is wrong with them.

    `environ`: None if secrets are not needed. `folder`: where relative paths begin.
    """
    problems: Problems = []
    definitions: dict[str, Any] = {}
    for name, written in config.policies.items():
        path = join("policies", name)
        if not NAME.fullmatch(name):
            problems.append((path, f"a policy's name {NAME_RULE}"))
        else:
            problems += [(path, text) for text in _define(definitions, name, written, environ, folder)]
    for path, name in _lists(config):
        if name not in definitions and name not in config.policies:
            known = [*config.policies, *SHIPPED]
            problems += [(path, text) for text in _direct(definitions, name, folder, known)]
    for pattern in config.model_policies:
        try:
            compile_match(pattern)
        except BadPattern as error:
            problems.append((join("model_policies", pattern), str(error)))
    return replace(config, policies=definitions), problems


def make_policy(definition: Mapping[str, Any]) -> Policy:
    """Return the policy that a complete definition describes. Raises `PolicyError`."""
    return load_policy({name: _revealed(value) for name, value in definition.items()}, "")


def _lists(config: Config) -> Iterator[tuple[str, str]]:
    """Yield every name in a list of policies, with its path."""
    lists = [("server.policies", config.server.policies)]
    lists += [(f"keys[{index}].policies", key.policies) for index, key in enumerate(config.keys)]
    lists += [(f"routes[{index}].policies", route.policies) for index, route in enumerate(config.routes)]
    lists += [(join("model_policies", pattern), names) for pattern, names in config.model_policies.items()]
    for path, names in lists:
        yield from ((f"{path}[{index}]", name) for index, name in enumerate(names))


def _define(
    definitions: dict[str, Any], name: str, written: Any, environ: Mapping[str, str] | None, folder: Path
) -> Iterator[str]:
    """Add a complete definition, or yield what is wrong with it."""
    entry = {"use": written} if isinstance(written, str) else written
    if not isinstance(entry, dict):
        yield "must be the name of a policy, or settings with its name under use"
        return
    entry = {"name": name, **entry, "use": located(entry.get("use"), folder)}
    try:
        entry = _with_secrets(entry, environ, folder)
        make_policy(entry)
    except (PolicyError, BadReference) as error:
        yield str(error)
        return
    definitions[name] = entry


def _direct(definitions: dict[str, Any], name: str, folder: Path, known: list[str]) -> Iterator[str]:
    """Add a definition for a name in a list that needs none, such as `redact` or `module:Class`."""
    if ":" not in name and _FILE_MARK not in name and name not in SHIPPED and (close := suggest(name, known)):
        yield f'there is no policy "{name}" (did you mean "{close}"?)'
        return
    yield from _define(definitions, name, name, None, folder)


def located(use: Any, folder: Path) -> Any:
    """Return what to use, with a complete path if it is in a Python file."""
    if not isinstance(use, str) or not use.partition(":")[0].endswith(_FILE_MARK):
        return use
    return str(folder.absolute() / use)


def _with_secrets(entry: dict[str, Any], environ: Mapping[str, str] | None, folder: Path) -> dict[str, Any]:
    use = entry["use"]
    try:
        names = find_policy(use).secrets if isinstance(use, str) and use else ()
    except PolicyError as error:
        raise PolicyError(f"{use}: {error}") from None
    found = {name: entry[name] for name in names if isinstance(entry.get(name), str)}
    if environ is None:
        # Any text will do: the commands that need no secrets run no policies.
        return entry
    return {**entry, **{name: resolve(value, environ, folder) for name, value in found.items()}}


def _revealed(value: Any) -> Any:
    return value.reveal() if isinstance(value, Secret) else value
