"""What is wrong with a table of aliases and routes: every problem, with the path of the setting."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches

from trilogue.routing.defaults import Provider
from trilogue.routing.errors import BadPattern
from trilogue.routing.names import name_fault
from trilogue.routing.patterns import check_template, compile_match
from trilogue.routing.routes import Route

MAX_ALIAS_CHAIN = 8

Problem = tuple[str, str]


def find_problems(
    providers: Sequence[Provider], aliases: Mapping[str, str], routes: Sequence[Route], default: str | None
) -> list[Problem]:
    """All problems, as (path, text)."""
    names = [provider.name for provider in providers]
    found = [problem for alias in aliases for problem in _alias_problems(alias, aliases, names)]
    for index, route in enumerate(routes):
        found += _route_problems(f"routes[{index}]", route, names)
    if default is not None and default not in names:
        found.append(("default_provider", unknown_provider(default, names)))
    return found


def unknown_provider(name: str, known: Collection[str]) -> str:
    """The text for a provider that is not configured."""
    close = get_close_matches(name, known, 1)
    return f'there is no provider "{name}"' + (f' (did you mean "{close[0]}"?)' if close else "")


def _alias_problems(alias: str, aliases: Mapping[str, str], names: Collection[str]) -> Iterator[Problem]:
    path = f"aliases.{alias}"
    fault = name_fault(alias) or name_fault(aliases[alias])
    if fault:
        yield path, fault
    if "/" in alias and alias.partition("/")[0] in names:
        yield path, "is never used, because the part before the slash names a provider"
    trail = _trail(alias, aliases)
    if trail[-1] in trail[:-1]:
        yield path, f"goes in a circle: {' -> '.join(trail)}"
    elif len(trail) > MAX_ALIAS_CHAIN + 1:
        yield path, f"is a chain of more than {MAX_ALIAS_CHAIN} aliases"


def _trail(alias: str, aliases: Mapping[str, str]) -> list[str]:
    """The names that an alias leads through; ends with what is no alias, or is in the trail already."""
    trail = [alias]
    while trail[-1] in aliases and len(trail) <= MAX_ALIAS_CHAIN + 1:
        trail.append(aliases[trail[-1]])
        if trail[-1] in trail[:-1]:
            break
    return trail


def _route_problems(path: str, route: Route, names: Collection[str]) -> Iterator[Problem]:
    if not route.chain():
        yield path, 'needs "provider" or "targets"'
    if route.provider is not None and route.targets:
        yield path, 'has both "provider" and "targets"; put all of them into "targets"'
    for place, provider, _ in _targets(path, route):
        if provider not in names:
            yield place, unknown_provider(provider, names)
    try:
        pattern = compile_match(route.match, route.kind)
    except BadPattern as error:
        yield f"{path}.match", str(error)
        return
    for place, _, model in _targets(path, route):
        try:
            check_template(model, pattern)
        except BadPattern as error:
            yield place.removesuffix(".provider") + ".model", str(error)


def _targets(path: str, route: Route) -> Iterator[tuple[str, str, str]]:
    """Path of the provider, provider and model of each target."""
    if route.provider is not None:
        yield f"{path}.provider", route.provider, route.model
    for index, target in enumerate(route.targets):
        yield f"{path}.targets[{index}].provider", target.provider, target.model
