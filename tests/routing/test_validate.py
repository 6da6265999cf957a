"""Every problem of a routing table is found, with its path."""

import pytest

from trilogue.model import Protocol
from trilogue.routing.routes import RoutableProvider, Route, RouteTarget, find_problems

PROVIDERS = (RoutableProvider("chat", (Protocol.CHAT,)), RoutableProvider("messages", (Protocol.MESSAGES,)))


@pytest.mark.parametrize(
    ("route", "problems"),
    [
        (Route(match="x"), [("routes[0]", 'needs "provider" or "targets"')]),
        (
            Route(match="x", provider="chta"),
            [("routes[0].provider", 'there is no provider "chta" (did you mean "chat"?)')],
        ),
        (Route(match="", provider="chat"), [("routes[0].match", "must not be empty")]),
        (
            Route(match="x*", provider="chat", model="$2"),
            [("routes[0].model", 'names "$2", which the pattern does not have')],
        ),
        (
            Route(match="x", targets=(RouteTarget(provider="chat"), RouteTarget(provider="no", model="$1"))),
            [
                ("routes[0].targets[1].provider", 'there is no provider "no"'),
                ("routes[0].targets[1].model", 'names "$1", which the pattern does not have'),
            ],
        ),
        (
            Route(match="x", provider="chat", targets=(RouteTarget(provider="chat"),)),
            [("routes[0]", 'has both "provider" and "targets"; put all of them into "targets"')],
        ),
    ],
)
def test_routes(route: Route, problems: list[tuple[str, str]]) -> None:
    """A route that can never work is found before the first request."""
    assert find_problems(PROVIDERS, {}, [route], None) == problems


def test_aliases_in_a_circle() -> None:
    """A loop would never end, so each alias in it is reported."""
    found = find_problems(PROVIDERS, {"a": "b", "b": "c", "c": "a", "d": "d", "e": "chat/e"}, [], None)
    assert found == [
        ("aliases.a", "goes in a circle: a -> b -> c -> a"),
        ("aliases.b", "goes in a circle: b -> c -> a -> b"),
        ("aliases.c", "goes in a circle: c -> a -> b -> c"),
        ("aliases.d", "goes in a circle: d -> d"),
    ]


def test_long_chains() -> None:
    """Eight steps are allowed, nine are a problem."""
    chain = {f"a{n}": f"a{n + 1}" for n in range(8)}
    assert find_problems(PROVIDERS, chain, [], None) == []
    chain["a8"] = "a9"
    assert find_problems(PROVIDERS, chain, [], None) == [("aliases.a0", "is a chain of more than 8 aliases")]


def test_aliases_that_are_never_used_or_no_names() -> None:
    """`provider/model` always means that provider, so such an alias would never be used."""
    assert find_problems(PROVIDERS, {"chat/x": "messages/y", "z": ""}, [], None) == [
        ("aliases.chat/x", "is never used, because the part before the slash names a provider"),
        ("aliases.z", "must not be empty"),
    ]


def test_default_provider() -> None:
    """The default provider must exist."""
    assert find_problems(PROVIDERS, {}, [], "mesages") == [
        ("default_provider", 'there is no provider "mesages" (did you mean "messages"?)')
    ]
