"""What can be asked for: the documented example as it stands, lists in both shapes, names that nobody has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.gateway.pairs import EVERY_CLIENT, PATHS
from tests.gateway.running import Gateway, running
from tests.scripted import thread
from tests.scripted.ask import body
from tests.scripted.server import MODELS, ScriptedUpstream
from trilogue.lint import lint_error
from trilogue.model import Protocol

EXAMPLE = """\
server: {host: 127.0.0.1, port: 4000}
keys: [env:TRILOGUE_KEY]                 # client keys; Authorization: Bearer or x-api-key, on every endpoint
providers:
  chat:      {protocol: openai_chat_completions, base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}]}
  messages:  {protocol: anthropic_messages,      base_url: UPSTREAM,    accounts: [{key: env:UP_KEY}]}
  responses: {protocol: openai_responses,        base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}]}
aliases:
  claude-sonnet-4-6: messages/claude-sonnet-4-6
  claude-3-5-sonnet-20241022: messages/claude-sonnet-4-5
routes:
  - {match: "gpt-*", provider: responses}
  - {match: "claude-*", provider: messages, model: "$0"}
"""
"""The example of the documentation, but for the upstream's address."""

NAMES = {name: "text" for name in ("claude-sonnet-4-6", "claude-sonnet-4-5", "claude-opus-5", "gpt-5", "llama")}

# Model asked for → provider and model that it goes to.
ROUTED = {
    "claude-sonnet-4-6": ("messages", "claude-sonnet-4-6"),
    "claude-3-5-sonnet-20241022": ("messages", "claude-sonnet-4-5"),
    "claude-opus-5": ("messages", "claude-opus-5"),
    "gpt-5": ("responses", "gpt-5"),
    "chat/gpt-5": ("chat", "gpt-5"),
    "responses/claude-opus-5": ("responses", "claude-opus-5"),
}


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    with thread.running(ScriptedUpstream(aliases=NAMES)) as served:
        yield served


@pytest.fixture(scope="module")
def example(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The documented example, running."""
    with running(tmp_path_factory.mktemp("example"), EXAMPLE, upstream.url) as gateway:
        yield gateway


def ask(gateway: Gateway, client: Protocol, model: str) -> Any:
    return gateway.http.post(PATHS[client], json=body(client, model, stream=False, tools=False))


@EVERY_CLIENT
@pytest.mark.parametrize("model", ROUTED)
def test_routes(example: Gateway, upstream: ScriptedUpstream, client: Protocol, model: str) -> None:
    """Aliases, routes and providers by name, for every client."""
    answer = ask(example, client, model)
    assert answer.status_code == 200
    provider, upstream_model = ROUTED[model]
    sent = upstream.last()
    assert (sent.path, sent.json["model"]) == (PATHS[Protocol.parse(provider)], upstream_model)
    if PATHS[client] != sent.path:
        assert answer.json()["model"] == model


@EVERY_CLIENT
def test_model_that_an_upstream_lists(example: Gateway, upstream: ScriptedUpstream, client: Protocol) -> None:
    """What the list shows can be asked for, though no route names it: at a provider that speaks like the client."""
    assert ask(example, client, "llama").status_code == 200
    assert upstream.last().path == PATHS[client]


@EVERY_CLIENT
def test_unknown_model(example: Gateway, upstream: ScriptedUpstream, client: Protocol) -> None:
    """A native 404 that tells what there is, and nothing is asked of an upstream."""
    ask(example, client, "llama")
    before = len(upstream.requests)
    answer = ask(example, client, "nobody-has-this")
    assert answer.status_code == 404
    assert lint_error(client, answer.json()) == []
    message = answer.json()["error"]["message"]
    assert "nobody-has-this" in message
    assert "claude-sonnet-4-6" in message
    assert "chat/<model>" in message
    assert len(upstream.requests) == before


def test_list_for_openai(example: Gateway) -> None:
    """Aliases and upstream models, each once, in OpenAI's shape."""
    models = list(example.openai.models.list())
    names = [model.id for model in models]
    assert len(names) == len(set(names))
    assert {"claude-3-5-sonnet-20241022", *NAMES, *MODELS} == set(names)
    assert {model.object for model in models} == {"model"}
    assert next(model for model in models if model.id == "llama").created == 1_780_000_000


def test_list_for_codex(example: Gateway) -> None:
    """It says its version, and gets the catalogue that its own form of a model needs."""
    entries = example.http.get("/v1/models", params={"client_version": "0.169.0"}).json()["models"]
    assert {"claude-3-5-sonnet-20241022", *NAMES, *MODELS} == {entry["slug"] for entry in entries}
    known = {entry["slug"]: entry for entry in entries}["claude-3-5-sonnet-20241022"]
    assert known["base_instructions"].startswith("You are a coding agent")
    assert [entry["priority"] for entry in entries] == list(range(1, len(entries) + 1))
    assert all(entry["context_window"] > 0 and entry["supported_in_api"] for entry in entries)


def test_the_head_of_a_list(example: Gateway) -> None:
    """Who only asks whether it is there gets no body."""
    answer = example.http.head("/v1/models")
    assert (answer.status_code, answer.content) == (200, b"")


def test_list_for_anthropic(example: Gateway) -> None:
    """The same in Anthropic's shape, page by page."""
    models = list(example.anthropic.models.list(limit=7))
    assert {"claude-3-5-sonnet-20241022", *NAMES, *MODELS} == {model.id for model in models}
    assert len(models) == len({model.id for model in models})
    assert {(model.type, model.lifecycle) for model in models} == {("model", "active")}
    first = example.anthropic.models.list(limit=3)
    assert (first.has_more, first.first_id, first.last_id) == (True, models[0].id, models[2].id)
    before = example.anthropic.models.list(limit=2, before_id=models[4].id)
    assert [model.id for model in before.data] == [models[2].id, models[3].id]
    assert before.has_more


def test_the_list_is_kept(example: Gateway, upstream: ScriptedUpstream) -> None:
    """Upstreams are not asked each time."""
    example.openai.models.list()
    before = len(upstream.requests)
    example.openai.models.list()
    example.anthropic.models.list()
    assert len(upstream.requests) == before


@pytest.mark.parametrize(("profile", "version"), [("{}", "2023-06-01"), ("{version: '2026-10-21'}", "2026-10-21")])
def test_the_version_in_which_lists_are_asked_for(
    tmp_path: Path, upstream: ScriptedUpstream, profile: str, version: str
) -> None:
    """That of the provider's profile."""
    provider = (
        f"{{protocol: anthropic_messages, base_url: UPSTREAM, accounts: [{{key: env:UP_KEY}}], profile: {profile}}}"
    )
    config = f"keys: [env:TRILOGUE_KEY]\nproviders: {{messages: {provider}}}\n"
    with running(tmp_path, config, upstream.url) as gateway:
        gateway.openai.models.list()
    asked = upstream.last()
    assert (asked.path, asked.header("anthropic-version")) == ("/v1/models", version)


@pytest.mark.parametrize("name", ["gpt-5", "claude-3-5-sonnet-20241022", "messages/claude-opus-5"])
def test_one_model(example: Gateway, name: str) -> None:
    """By its name, its alias, or its provider's name and its own, in both shapes."""
    assert example.openai.models.retrieve(name).id == name
    assert example.http.get(f"/models/{name}").json()["object"] == "model"
    found = example.anthropic.models.retrieve(name)
    assert (found.id, found.type) == (name, "model")


def test_no_such_model(example: Gateway) -> None:
    """Each client's own exception."""
    with pytest.raises(openai.NotFoundError):
        example.openai.models.retrieve("nobody")
    with pytest.raises(anthropic.NotFoundError):
        example.anthropic.models.retrieve("nobody")


@EVERY_CLIENT
def test_paths_without_version(example: Gateway, upstream: ScriptedUpstream, client: Protocol) -> None:
    """Clients differ in whether the version belongs to the base URL."""
    asked = body(client, "gpt-5", stream=False)
    for path in (PATHS[client], PATHS[client].removeprefix("/v1"), f"{PATHS[client]}/"):
        assert example.http.post(path, json=asked).status_code == 200
    assert example.http.get("/models").json() == example.http.get("/v1/models").json()


FAILING = """\
pool: {retry_budget: {floor: 1000}}
providers:
  good: {protocol: openai_chat_completions, base_url: UPSTREAM, accounts: [env:UP_KEY]}
  dead: {protocol: openai_chat_completions, base_url: "http://127.0.0.1:1/v1"}
  named: {protocol: anthropic_messages, base_url: "http://127.0.0.1:1", models: [local-model, text]}
routes:
  - {match: next, targets: [dead/text, named/text, good/text]}
  - {match: faulty, targets: [good/error-400, good/text]}
  - {match: broken, targets: [good/error-529, good/stream-error-first, good/text]}
"""


@pytest.fixture(scope="module")
def failing(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway of whose upstreams some do not answer."""
    with running(tmp_path_factory.mktemp("failing"), FAILING, upstream.url) as gateway:
        yield gateway


def test_an_upstream_that_is_down(failing: Gateway) -> None:
    """The others are listed, and so are models that the configuration names."""
    names = [model["id"] for model in failing.http.get("/v1/models").json()["data"]]
    assert sorted(names) == sorted({*MODELS, *NAMES, "local-model"})
    assert json.dumps(names).count('"text"') == 1


@EVERY_CLIENT
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["next", "broken"])
def test_targets_in_order(failing: Gateway, client: Protocol, stream: bool, model: str) -> None:
    """A target that fails before it has said anything gives the next its chance."""
    answer = failing.http.post(PATHS[client], json=body(client, model, stream=stream))
    assert answer.status_code == 200
    line = failing.record(answer.headers["x-request-id"])
    assert (line["provider"], line["upstream_model"], line["error"]) == ("good", "text", None)


@EVERY_CLIENT
def test_the_clients_own_mistake(failing: Gateway, upstream: ScriptedUpstream, client: Protocol) -> None:
    """What is wrong with the request is wrong everywhere: no second target is asked."""
    before = len(upstream.requests)
    assert ask(failing, client, "faulty").status_code == 400
    assert len(upstream.requests) == before + 1
