"""Policies by name: those that come with Trilogue, those of installed packages, and `module:Class`.

Everything that can be wrong with a policy in a configuration is a `PolicyError` with a message of one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points

import msgspec

from trilogue.errors import TrilogueError
from trilogue.model import Json
from trilogue.policies.checks import Trouble, guarded
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


def load_policies(entries: Iterable[str | Mapping[str, Json]]) -> tuple[Policy, ...]:
    """Return the policies of a configuration in order. Raises `PolicyError` for the first that cannot be loaded."""
    return tuple([load_policy(entry, f"policy {number}") for number, entry in enumerate(entries, 1)])


def load_policy(entry: str | Mapping[str, Json], place: str = "policy") -> Policy:
    """Return the policy that an entry describes: a name, or settings with the name under `use`."""
    settings = {"use": entry} if isinstance(entry, str) else dict(entry)
    use = settings.pop("use", None)
    if not isinstance(use, str) or not use:
        raise PolicyError(f"{place}: use: the name of the policy is missing")
    place = f"{place} ({use})"
    found = find_policy(use, place)
    settings.setdefault("name", use)
    try:
        read = msgspec.convert(settings, found.Settings)
    except msgspec.ValidationError as error:
        raise PolicyError(f"{place}: {_explained(str(error), settings, found.Settings)}") from None
    return _made(found, read, place)


def find_policy(use: str, place: str = "policy") -> type[Policy]:
    """Return the class of a policy. Raises `PolicyError` if there is none, or if its module cannot be imported."""
    if use in SHIPPED:
        return SHIPPED[use]
    if ":" in use:
        module, _, name = use.partition(":")
        found = guarded(lambda: getattr(import_module(module), name))
    else:
        installed = entry_points(group=GROUP, name=use)
        if not installed:
            raise PolicyError(f"{place}: there is no such policy{_hint(use)}")
        found = guarded(next(iter(installed)).load)
    if isinstance(found, Trouble):
        raise PolicyError(f"{place}: cannot be imported: {found.what}")
    if not isinstance(found, type) or not issubclass(found, Policy):
        raise PolicyError(f"{place}: is not a Policy class")
    return found


def _hint(use: str) -> str:
    close = get_close_matches(use, SHIPPED, 1)
    return f" (did you mean {close[0]}?)" if close else f"; there are {', '.join(sorted(SHIPPED))}"


def _made(found: type[Policy], settings: PolicySettings, place: str) -> Policy:
    problems: list[str] = []

    def make() -> Policy | None:
        try:
            return found(settings)
        except SettingsProblem as problem:
            problems.append(str(problem))
            return None

    made = guarded(partial(make))
    if isinstance(made, Trouble):
        problems.append(f"cannot be made: {made.what}")
    if isinstance(made, Policy):
        return made
    raise PolicyError(f"{place}: {' '.join(' '.join(problems).split())}")


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
