"""Which provider serves a model name."""

import random
from contextlib import suppress

import pytest

from trilogue.errors import BadRequest, ClientError
from trilogue.model import Protocol
from trilogue.routing.model_names import NoRoute
from trilogue.routing.router import ProviderModel, Router
from trilogue.routing.routes import RoutableProvider, Route, RouteTarget

CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES

PROVIDERS = (
    RoutableProvider("chat", (CHAT,), ("llama", "claude-listed")),
    RoutableProvider("messages", (MESSAGES,)),
    RoutableProvider("responses", (RESPONSES,), ("llama",)),
)
ALIASES = {
    "fast": "chat/small",
    "quick": "fast",
    "sonnet": "claude-sonnet-4-6",
    "claude-3-5-sonnet-20241022": "messages/claude-sonnet-4-5",
    "odd/name": "chat/odd",
}
ROUTES = (
    Route(match="gpt-4*", provider="chat", model="legacy-$1"),
    Route(match="gpt-*", provider="responses"),
    Route(match=r"^claude-(?P<size>opus|haiku)-(\d)$", provider="messages", model="$size/$2"),
    Route(
        match="any",
        targets=(RouteTarget(provider="messages", model="a"), RouteTarget.parse("chat/b/c"), RouteTarget.parse("chat")),
    ),
    Route(match="a*b", kind="exact", provider="chat"),
)


@pytest.fixture
def router() -> Router:
    return Router(PROVIDERS, ALIASES, ROUTES)


@pytest.mark.parametrize(
    ("model", "provider", "upstream", "matched"),
    [
        ("chat/gpt-5", "chat", "gpt-5", "provider prefix"),
        ("chat/vendor/model", "chat", "vendor/model", "provider prefix"),
        ("messages/fast", "messages", "fast", "provider prefix"),
        ("fast", "chat", "small", "alias fast"),
        ("quick", "chat", "small", "alias quick"),
        ("odd/name", "chat", "odd", "alias odd/name"),
        ("sonnet", "messages", "claude-sonnet-4-6", "alias sonnet, prefix claude-*"),
        ("claude-3-5-sonnet-20241022", "messages", "claude-sonnet-4-5", "alias claude-3-5-sonnet-20241022"),
        ("gpt-4o", "chat", "legacy-o", "route 1"),
        ("gpt-5", "responses", "gpt-5", "route 2"),
        ("claude-opus-4", "messages", "opus/4", "route 3"),
        ("a*b", "chat", "a*b", "route 5"),
        ("llama", "chat", "llama", "models of chat"),
        ("claude-listed", "chat", "claude-listed", "models of chat"),
        ("claude-sonnet-4-6", "messages", "claude-sonnet-4-6", "prefix claude-*"),
        ("chatgpt-4o-latest", "responses", "chatgpt-4o-latest", "prefix chatgpt-*"),
        ("codex-mini-latest", "responses", "codex-mini-latest", "prefix codex-*"),
        ("o3", "responses", "o3", "prefix o[0-9]*"),
        ("o4-mini", "responses", "o4-mini", "prefix o[0-9]*"),
    ],
)
def test_order_of_rules(router: Router, model: str, provider: str, upstream: str, matched: str) -> None:
    """The order is prefix, aliases, routes, listed models, vendors; an earlier rule wins."""
    found = router.resolve(model, CHAT)
    assert (found.targets, found.matched) == ((ProviderModel(provider, upstream),), matched)
    assert (found.route is not None) is ("route " in matched)


def test_several_targets_in_order(router: Router) -> None:
    """A route may have fallbacks."""
    resolution = router.resolve("any", MESSAGES)
    assert resolution.targets == (("messages", "a"), ("chat", "b/c"), ("chat", "any"))
    assert resolution.matched == "route 4"


@pytest.mark.parametrize(
    "model", ["gemini-3-pro", "grok-5", "demo", "mistral-large", "oh", "o", "nobody/gpt-5", "chat/"]
)
def test_no_route(router: Router, model: str) -> None:
    """A vendor's prefix counts only if there is a provider of that vendor."""
    with pytest.raises(NoRoute) as caught:
        router.resolve(model, CHAT)
    error = caught.value
    assert isinstance(error, ClientError)
    assert (error.status, error.code, error.path, error.model) == (404, "model_not_found", "model", model)
    assert f'"{model}"' in error.message
    for served in ("fast", "gpt-*", "claude-*", "llama", "chat/<model>"):
        assert served in error.message


def test_message_of_no_route_is_bounded() -> None:
    """The message stays short even with a thousand aliases."""
    router = Router(PROVIDERS, {f"alias-number-{n}": "chat/x" for n in range(1000)})
    with pytest.raises(NoRoute) as caught:
        router.resolve("x" * 256, CHAT)
    assert len(caught.value.message) < 1000
    assert " and 9" in caught.value.message
    assert caught.value.message.endswith(" more")


def test_nothing_served() -> None:
    """The message is a complete sentence even if nothing is served."""
    with pytest.raises(NoRoute, match="served: nothing"):
        Router([]).resolve("gpt-5")


def test_default_provider_is_last() -> None:
    """The default provider gets everything that nothing else matches, with its name unchanged."""
    router = Router(PROVIDERS, ALIASES, ROUTES, "chat")
    assert router.resolve("qwen3:8b").targets == (("chat", "qwen3:8b"),)
    assert router.resolve("qwen3:8b").matched == "default provider"
    assert router.resolve("claude-x").targets == (("messages", "claude-x"),)
    assert router.resolve("nobody/gpt-5").targets == (("chat", "nobody/gpt-5"),)


@pytest.mark.parametrize(
    ("providers", "client", "model", "chosen"),
    [
        ((("mine", MESSAGES), ("anthropic", CHAT)), MESSAGES, "claude-x", "anthropic"),
        ((("a", MESSAGES), ("b", MESSAGES)), CHAT, "claude-x", "a"),
        ((("openai", RESPONSES), ("openai-chat", CHAT)), CHAT, "gpt-5", "openai-chat"),
        ((("openai", RESPONSES), ("openai-chat", CHAT)), RESPONSES, "gpt-5", "openai"),
        ((("openai-chat", CHAT), ("openai", RESPONSES)), MESSAGES, "gpt-5", "openai"),
        ((("openai-eu", RESPONSES), ("openai", RESPONSES)), RESPONSES, "o3", "openai"),
        ((("openai-eu", CHAT), ("x", RESPONSES)), RESPONSES, "gpt-5", "openai-eu"),
        ((("x", CHAT), ("y", RESPONSES)), CHAT, "gpt-5", "y"),
        ((("gemini", CHAT),), CHAT, "gemini-3-pro", "gemini"),
        ((("gemini", CHAT), ("google", CHAT)), CHAT, "gemini-3-pro", "google"),
        ((("xai", RESPONSES),), CHAT, "grok-5", "xai"),
        ((("grok", CHAT),), CHAT, "grok-5", "grok"),
        ((("demo", RESPONSES),), CHAT, "demo", "demo"),
        ((("demo", RESPONSES),), CHAT, "demo-tools", "demo"),
    ],
)
def test_vendors_go_by_name_then_by_protocol(
    providers: tuple[tuple[str, Protocol], ...], client: Protocol, model: str, chosen: str
) -> None:
    """With several providers of one vendor, the one that needs no translation is chosen."""
    router = Router([RoutableProvider(name, (protocol,)) for name, protocol in providers])
    assert router.resolve(model, client).targets == ((chosen, model),)


@pytest.mark.parametrize("model", ["", "x" * 257, "gpt\n5", "gpt\x1b[31m", "gpt\u2028", "\ud800", "a\x00"])
def test_what_is_no_model_name(router: Router, model: str) -> None:
    """Names appear in log lines and headers, so they must be short and printable."""
    with pytest.raises(BadRequest) as caught:
        router.resolve(model, CHAT)
    assert caught.value.path == "model"
    assert caught.value.message.isprintable()


def test_written_names_are_bounded_too() -> None:
    """A template can make a long name out of a short one."""
    router = Router(PROVIDERS, {}, [Route(match="x*", provider="chat", model="$0$0$0")])
    with pytest.raises(BadRequest, match="at most 256"):
        router.resolve("x" * 100)


def test_router_refuses_a_bad_table() -> None:
    """The router checks its table even without the checks of the configuration."""
    with pytest.raises(ValueError, match="there is no provider"):
        Router(PROVIDERS, {}, [Route(match="x", provider="nobody")])


ONE = RoutableProvider("local", (CHAT,), ("qwen",))
BARE = RoutableProvider("local", (CHAT,))
ANY = Route(match="*", provider="local", model="qwen")


@pytest.mark.parametrize(
    ("router", "name"),
    [
        (Router([ONE]), "qwen"),
        (Router([ONE], {"fast": "local/qwen"}), "fast"),
        (Router([BARE], {"fast": "local/qwen"}), "fast"),
        (Router([BARE], {"fast": "local/qwen", "slow": "fast"}), "fast"),
        (Router([ONE, RoutableProvider("messages", (MESSAGES,))]), "qwen"),
        (Router([ONE], routes=[ANY]), "qwen"),
        (
            Router(
                [BARE], routes=[Route(match="m", targets=(RouteTarget.parse("local/a"), RouteTarget.parse("local/b")))]
            ),
            "m",
        ),
        (Router([BARE]), None),
        (Router([RoutableProvider("local", (CHAT,), ("a", "b"))]), None),
        (Router([ONE], {"fast": "local/other"}), None),
        (Router([ONE], routes=[Route(match="*", provider="local")]), None),
        (Router([ONE], routes=[Route(match="gpt-*", provider="local", model="qwen")]), None),
    ],
)
def test_the_only_model(router: Router, name: str | None) -> None:
    """All names lead to the same target."""
    assert router.only_model() == name
    if name is not None:
        assert router.resolve(name).targets


def test_several_routes_have_no_only_model(router: Router) -> None:
    assert router.only_model() is None


def test_no_name_of_a_target_gets_around_the_rules_of_its_route() -> None:
    """For random routes and aliases: if a name leads where a route leads, the rules of the route hold for it."""
    chance = random.Random(6)
    models = ["a", "b", "a-1", "b-1", "A"]
    matches = ["a", "b", "a*", "*-1", "^(\\w)-1$", "^([ab]).*$", "x-*", "*"]
    templates = ["$0", "a", "a-1", "$0-1", "${0}", "b$$"]
    held = 0
    for _ in range(300):
        routes = []
        for _ in range(chance.randint(1, 4)):
            match = chance.choice(matches)
            own = [*templates, "$1", "$1-1"] if "*" in match or "(" in match else templates
            chain = tuple(
                RouteTarget(provider=chance.choice(["one", "two"]), model=chance.choice(own))
                for _ in range(chance.randint(1, 2))
            )
            routes.append(Route(match=match, targets=chain, policies=("p",)))
        aliases = {f"alias-{number}": chance.choice([*models, "one/a", "two/b-1"]) for number in range(2)}
        providers = [RoutableProvider(name, (Protocol.CHAT,)) for name in ("one", "two")]
        router = Router(providers, aliases, routes, "one")
        names = [*models, *aliases, "x-a", "x-b-1", *(f"{one}/{model}" for one in ("one", "two") for model in models)]
        found = {}
        for name in names:
            with suppress(BadRequest):  # a group may have matched nothing
                found[name] = router.resolve(name)
        for name, resolution in found.items():
            ruling = router.ruling(name, None, resolution.targets)
            assert resolution.route is None or ruling[0] == resolution.route
            for other in found.values():
                if other.route is not None and set(other.targets) & set(resolution.targets):
                    assert other.route in ruling, (name, other, routes)
                    held += other.route != resolution.route
    assert held > 1_000
