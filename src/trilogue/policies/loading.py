"""Policies by name: those that come with Trilogue, those of installed packages, `module:Class` and `file.py:Class`.

Everything that can be wrong with a policy in a configuration is a `PolicyError` with a message of one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location

import msgspec

from trilogue.errors import TrilogueError
from trilogue.model import Json
from trilogue.policies.checks import PolicyProblem, imported
from trilogue.policies.policy import Policy, PolicySettings
from trilogue.policies.shipped.action import SettingsProblem
from trilogue.policies.shipped.approve import Approve
from trilogue.policies.shipped.block_phrases import BlockPhrases
from trilogue.policies.shipped.force_model import ForceModel
from trilogue.policies.shipped.inject_system import InjectSystem
from trilogue.policies.shipped.judge import Judge
from trilogue.policies.shipped.limits import Limits
from trilogue.policies.shipped.redact import Redact
from trilogue.policies.shipped.rewrite import RewriteText
from trilogue.policies.shipped.tools import Tools

GROUP = "trilogue.policies"
"""the entry point group of packages that bring policies"""

SHIPPED: dict[str, type[Policy]] = {
    "approve": Approve,
    "block_phrases": BlockPhrases,
    "force_model": ForceModel,
    "inject_system": InjectSystem,
    "judge": Judge,
    "limits": Limits,
    "redact": Redact,
    "rewrite": RewriteText,
    "tools": Tools,
}


class PolicyError(TrilogueError):
    """A policy cannot be loaded. The message is one line and says which policy and which setting."""


_FILE = re.compile(r"(?P<path>.+\.py)(?::(?P<name>\w+))?")


def load_policies(entries: Iterable[str | Mapping[str, Json]]) -> tuple[Policy, ...]:
    """Return the policies of a configuration in order. Raises `PolicyError` for the first that cannot be loaded."""
    return tuple([load_policy(entry, f"policy {number}") for number, entry in enumerate(entries, 1)])


def load_policy(entry: str | Mapping[str, Json], place: str = "policy") -> Policy:
    """Return the policy that an entry describes: a name, or settings with the name under `use`.

    `place`: what its errors begin with; empty if the caller says where the entry is.
    """
    settings = {"use": entry} if isinstance(entry, str) else dict(entry)
    use = settings.pop("use", None)
    if not isinstance(use, str) or not use:
        raise PolicyError(f"{place}: {_NO_NAME}" if place else _NO_NAME)
    try:
        found = find_policy(use)
        settings.setdefault("name", use)
        return _made(found, _read(settings, found.Settings))
    except PolicyError as error:
        raise PolicyError(f"{place} ({use}): {error}" if place else f"{use}: {error}") from None


_NO_NAME = "use: the name of the policy is missing"


def find_policy(use: str) -> type[Policy]:
    """Return the class of a policy. Raises `PolicyError` if there is none, or if its module cannot be imported."""
    if use in SHIPPED:
        return SHIPPED[use]
    file = _FILE.fullmatch(use)
    if file is not None:
        found = imported(lambda: _in_file(file["path"], file["name"]))
    elif ":" in use:
        module, _, name = use.partition(":")
        found = imported(lambda: getattr(import_module(module), name))
    else:
        installed = entry_points(group=GROUP, name=use)
        if not installed:
            raise PolicyError(f"there is no such policy{_hint(use)}")
        found = imported(next(iter(installed)).load)
    if isinstance(found, PolicyProblem):
        raise PolicyError(f"cannot be imported: {found.what}")
    if not isinstance(found, type) or not issubclass(found, Policy):
        raise PolicyError("is not a Policy class")
    return found


def _in_file(path: str, name: str | None) -> object:
    """Return the class with this name in a Python file, or the only policy in it."""
    spec = spec_from_file_location(f"trilogue_policy_{abs(hash(path))}", path)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    if name is not None:
        return getattr(module, name)
    found = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    policies = [one for one in found if issubclass(one, Policy)]
    if len(policies) != 1:
        names = ", ".join([one.__name__ for one in policies]) or "none"
        raise ImportError(f"it must have one policy, or name one as in file.py:Class; it has {names}")
    return policies[0]


def _read(settings: Mapping[str, Json], kind: type[PolicySettings]) -> PolicySettings:
    try:
        return msgspec.convert(settings, kind)
    except msgspec.ValidationError as error:
        raise PolicyError(_explained(str(error), settings, kind)) from None


def _hint(use: str) -> str:
    close = get_close_matches(use, SHIPPED, 1)
    return f" (did you mean {close[0]}?)" if close else f"; there are {', '.join(sorted(SHIPPED))}"


def _made(found: type[Policy], settings: PolicySettings) -> Policy:
    problems: list[str] = []

    def make() -> Policy | None:
        try:
            return found(settings)
        except SettingsProblem as problem:
            problems.append(str(problem))
            return None

    made = imported(make)
    if isinstance(made, PolicyProblem):
        problems.append(f"cannot be made: {made.what}")
    if isinstance(made, Policy):
        return made
    raise PolicyError(" ".join(" ".join(problems).split()))


def _explained(error: str, settings: Mapping[str, Json], kind: type[PolicySettings]) -> str:
    """Return msgspec's message with the setting in front: `rules[0].deny: Expected …`."""
    what, _, where = error.partition(" - at `$")
    where = where.rstrip("`").lstrip(".")
    unknown = what.partition("unknown field `")[2].rstrip("`")
    if unknown:
        close = get_close_matches(unknown, kind.__struct_fields__, 1) if unknown in settings else []
        hint = f" (did you mean {close[0]}?)" if close else ""
        what = f"unknown setting {unknown}{hint}"
    missing = what.partition("missing required field `")[2].rstrip("`")
    if missing:
        what = f"the setting {missing} is missing"
    what = what.replace("`", "")
    return f"{where}: {what}" if where else what
