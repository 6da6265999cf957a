"""What a new configuration takes over from the one before it, and what it must not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trilogue import Sealer
from trilogue.app.worker import Worker
from trilogue.config.config import Config
from trilogue.config.load import parse
from trilogue.gateway.access.client_keys import owner_of
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.observer import Observer
from trilogue.gateway.record import RequestRecord
from trilogue.model import Failure, FailureKind, Protocol
from trilogue.net.client.transport import HttpTransport
from trilogue.policies.loading import PolicyError

BASE: dict[str, Any] = {
    "pool": {"persist": False},
    "keys": [{"name": "ada", "key": "key-of-ada"}, {"name": "bob", "key": "key-of-bob"}],
    "providers": {
        "p": {"protocol": "anthropic_messages", "base_url": "http://127.0.0.1:9", "accounts": ["first-key", "second"]},
        "q": {"protocol": "anthropic_messages", "base_url": "http://127.0.0.1:8"},
    },
}
FAILURE = Failure(kind=FailureKind.INVALID_REQUEST, message="Invalid signature", status=400)
BLOCK = {"type": "thinking", "thinking": "hm", "signature": "s" * 60}
BODY = json.dumps({"messages": [{"role": "assistant", "content": [BLOCK]}]}).encode()


def configured(folder: Path, **changes: Any) -> Config:
    return parse(json.dumps(BASE | changes).encode(), {}, folder)


def worker(folder: Path, *observers: Observer) -> Worker:
    return Worker(
        folder / "pool.db", lambda: lambda _, proxy: HttpTransport(proxy=proxy), Sealer.ephemeral(), None, observers
    )


def used(gateway: Gateway) -> None:
    """Every memory has something of everyone."""
    for provider, account in (("p", "p-1"), ("p", "p-2"), ("q", "q")):
        gateway.upstreams.refused_reasoning.learn(provider, account, BODY, Protocol.MESSAGES, FAILURE)


def test_nothing_is_forgotten_if_nothing_has_changed(tmp_path: Path) -> None:
    """What running requests add later is known too: the memories are the same objects."""
    state = worker(tmp_path)
    first = state.gateway(configured(tmp_path))
    second = state.gateway(configured(tmp_path, aliases={"fast": "p/text"}))
    used(first)
    assert second.stores == first.stores
    assert second.upstreams.refused_reasoning.known.keys() == {("p", "p-1"), ("p", "p-2"), ("q", "q")}
    assert second.upstreams.pools is not first.upstreams.pools
    state.close()


def test_a_configuration_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    """The file of a policy is gone between the check and the use: all parts stay those of the old configuration."""
    state, file = worker(tmp_path), tmp_path / "mine.py"
    first = state.gateway(configured(tmp_path))
    file.write_text("from trilogue.policies import Policy\nclass Mine(Policy): ...\n")
    changes = {"policies": {"p": str(file)}, "server": {"policies": ["p"]}, "admin": {"keep_requests": 2}}
    broken = configured(tmp_path, **changes, state="none", providers={"q": BASE["providers"]["q"]})
    file.unlink()
    limit, pools = state.history.limit, first.upstreams.pools
    with pytest.raises(PolicyError):
        state.gateway(broken)
    assert state.history.limit == limit
    assert state.admin.gateway is first
    second = state.gateway(configured(tmp_path))
    assert second.stores == first.stores
    assert second.upstreams.pools.pools.keys() == pools.pools.keys() == {"p", "q"}
    state.close()


def test_a_key_that_has_changed_owns_nothing() -> None:
    """What is stored belongs to the text of a key: a new one of the same name finds nothing."""
    assert owner_of("ada", "key-of-ada") == owner_of("ada", "key-of-ada")
    assert owner_of("ada", "key-of-ada") != owner_of("ada", "another-key")
    assert "key-of-ada" not in owner_of("ada", "key-of-ada")


def test_stores(tmp_path: Path) -> None:
    """They stay the same until the settings change. Without a store, reasoning is still kept in memory."""
    state = worker(tmp_path)
    first = state.gateway(configured(tmp_path)).stores
    assert first.durable is not None
    assert first.durable.store.name.endswith("responses.db")
    elsewhere = state.gateway(configured(tmp_path, state=str(tmp_path / "other.db"))).stores
    assert elsewhere.durable is not None
    assert elsewhere.durable.store.name.endswith("other.db")
    nothing = state.gateway(configured(tmp_path, state="none")).stores
    assert nothing.durable is None
    assert nothing.volatile is first.volatile
    state.close()


def test_an_account_that_has_changed_has_refused_nothing(tmp_path: Path) -> None:
    """Another key may belong to who made the reasoning."""
    state = worker(tmp_path)
    used(state.gateway(configured(tmp_path)))
    p, q = BASE["providers"]["p"], BASE["providers"]["q"]
    changed = {"p": p | {"accounts": ["first-key", "third"]}, "q": q | {"pool": {"sticky": False}}}
    second = state.gateway(configured(tmp_path, providers=changed))
    assert second.upstreams.refused_reasoning.known.keys() == {("p", "p-1"), ("q", "q")}
    elsewhere = {"p": p | {"base_url": "http://127.0.0.1:7"}}
    assert state.gateway(configured(tmp_path, providers=elsewhere)).upstreams.refused_reasoning.known == {}
    state.close()


def test_lists_of_models(tmp_path: Path) -> None:
    """A provider that has changed is asked again."""
    state = worker(tmp_path)
    catalog = state.gateway(configured(tmp_path)).upstreams.catalog
    cached = {name: catalog.cached(name) for name in "pq"}
    changed = BASE["providers"] | {"p": BASE["providers"]["p"] | {"accounts": ["another"]}}
    second = state.gateway(configured(tmp_path, providers=changed)).upstreams.catalog
    assert second.cached("q") is cached["q"]
    assert second.cached("p") is not cached["p"]
    state.close()


def test_recent_requests(tmp_path: Path) -> None:
    """They can be looked up after a reload, and running requests of the old configuration are still added."""
    state = worker(tmp_path)
    state.gateway(configured(tmp_path))
    first = state.history
    for number in range(3):
        first.request_ended(RequestRecord(request_id=f"req_{number}", began_at=0.0, status=200))
    state.gateway(configured(tmp_path, aliases={"fast": "p/text"}))
    assert state.history is first
    state.gateway(configured(tmp_path, admin={"keep_requests": 2}))
    fewer = state.history
    assert [record.request_id for record in fewer] == ["req_2", "req_1"]
    first.request_ended(RequestRecord(request_id="refused", began_at=0.0, status=401))
    first.request_ended(RequestRecord(request_id="req_4", began_at=0.0, status=200))
    assert [record.request_id for record in fewer] == ["req_4", "req_2"]
    state.gateway(configured(tmp_path, admin={"enabled": False}))
    off = state.history
    assert (len(off), off.limit) == (0, 0)
    state.close()


def test_observers(tmp_path: Path) -> None:
    """The ones that the worker was started with see the requests of every configuration."""
    observer = Counter()
    state = worker(tmp_path, observer)
    for _ in range(2):
        gateway = state.gateway(configured(tmp_path))
        assert gateway.observers.request_began is not None
        gateway.observers.request_began(RequestRecord(request_id="req_1", began_at=0.0))
    assert observer.began == 2
    state.close()


class Counter(Observer):
    """Counts requests."""

    began = 0

    def request_began(self, record: RequestRecord) -> None:
        self.began += 1
