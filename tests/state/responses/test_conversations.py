"""The contract of conversations, on every engine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.state.responses.making import A, B, Engine, conversation, item, response, total_bytes
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import (
    Append,
    ConversationLease,
    ConversationLocked,
    NotFound,
    NotStorable,
    OriginAccount,
    PageRequest,
    StoredConversation,
)


def item_ids(store: ResponseStore, owner: str = A, identifier: str = "conv_1") -> list[str]:
    return [one.id for one in store.conversations.all_items(owner, identifier)]


def test_create_get_update_delete(store: ResponseStore) -> None:
    store.conversations.create(conversation("conv_1", metadata=b'{"a":"1"}'), [item("msg_1")])
    got = store.conversations.get(A, "conv_1")
    assert (got.metadata, got.created, got.origin) == (b'{"a":"1"}', 1_000_000.0, None)
    updated = store.conversations.update(A, "conv_1", b'{"b":"a longer value"}')
    assert updated == store.conversations.get(A, "conv_1")
    assert updated.metadata == b'{"b":"a longer value"}'
    store.conversations.delete(A, "conv_1")
    with pytest.raises(NotFound):
        store.conversations.get(A, "conv_1")
    assert total_bytes(store) == 0


def test_an_upstream_may_own_a_conversation(store: ResponseStore) -> None:
    store.conversations.create(StoredConversation(owner=A, id="conv_1", origin=OriginAccount("openai", "main")))
    assert store.conversations.get(A, "conv_1").origin == OriginAccount("openai", "main")


def test_an_id_is_taken_once(store: ResponseStore) -> None:
    store.conversations.create(conversation("conv_1"), [item("msg_1")])
    with pytest.raises(NotStorable):
        store.conversations.create(conversation("conv_1"), [item("msg_2")])
    store.conversations.create(conversation("conv_1", B))
    assert item_ids(store) == ["msg_1"]


def test_items_keep_their_order(store: ResponseStore) -> None:
    store.conversations.create(conversation("conv_1"), [item("m0"), item("m1")])
    store.conversations.append(A, "conv_1", [item("m2"), item("m3")])
    store.conversations.delete_item(A, "conv_1", "m1")
    store.conversations.append(A, "conv_1", [item("m4")])
    assert item_ids(store) == ["m0", "m2", "m3", "m4"]
    assert [one.id for one in store.conversations.items(A, "conv_1", PageRequest(after="m3", limit=1)).items] == ["m2"]
    assert store.conversations.item(A, "conv_1", "m3") == item("m3")
    for identifier in ("m1", "nope"):
        with pytest.raises(NotFound):
            store.conversations.item(A, "conv_1", identifier)
        with pytest.raises(NotFound):
            store.conversations.delete_item(A, "conv_1", identifier)


def test_sizes_are_counted_down_again(store: ResponseStore) -> None:
    store.conversations.create(conversation("conv_1"), [item("m0"), item("m1")])
    before = total_bytes(store)
    store.conversations.append(A, "conv_1", [item("m2")])
    assert total_bytes(store) > before
    store.conversations.delete_item(A, "conv_1", "m2")
    assert total_bytes(store) == before
    store.conversations.delete(A, "conv_1")
    store.responses.put(response("other"))
    alone = total_bytes(store)
    store.responses.delete(A, "other")
    assert alone > 0
    assert total_bytes(store) == 0


def test_one_request_at_a_time(store: ResponseStore) -> None:
    store.conversations.create(conversation("conv_1"))
    lease = store.conversations.lock(A, "conv_1", "one", 60.0)
    for attempt in (
        lambda: store.conversations.lock(A, "conv_1", "two", 60.0),
        lambda: store.conversations.append(A, "conv_1", [item("m0")]),
        lambda: store.conversations.append_with(Append(ConversationLease(A, "conv_1", "two"), (item("m0"),))),
    ):
        with pytest.raises(ConversationLocked):
            attempt()
    assert store.conversations.lock(A, "conv_1", "one", 60.0) == lease
    store.conversations.append_with(Append(lease, (item("m1"),)))
    store.conversations.lock(A, "conv_1", "two", 60.0)
    assert item_ids(store) == ["m1"]


def test_a_lease_is_given_back(store: ResponseStore) -> None:
    store.conversations.create(conversation("conv_1"))
    first = store.conversations.lock(A, "conv_1", "one", 60.0)
    store.conversations.unlock(first)
    store.conversations.lock(A, "conv_1", "two", 60.0)
    store.conversations.unlock(first)
    with pytest.raises(ConversationLocked):
        store.conversations.lock(A, "conv_1", "three", 60.0)


def test_a_lease_expires_and_its_holder_cannot_append_after_another(engine: Engine) -> None:
    """A worker that was suspended comes back: what it would append was asked without what came meanwhile."""
    store = engine.open()
    store.conversations.create(conversation("conv_1"))
    late = store.conversations.lock(A, "conv_1", "late", 60.0)
    engine.clock.now += 60.0
    other = store.conversations.lock(A, "conv_1", "other", 60.0)
    with pytest.raises(ConversationLocked):
        store.conversations.lock(A, "conv_1", "late", 60.0)
    store.responses.put(response("r1"), Append(other, (item("m1"),)))
    with pytest.raises(ConversationLocked):
        store.responses.put(response("r2"), Append(late, (item("m2"),)))
    assert item_ids(store) == ["m1"]


def test_an_expired_lease_that_nobody_took_still_counts(engine: Engine) -> None:
    store = engine.open()
    store.conversations.create(conversation("conv_1"))
    late = store.conversations.lock(A, "conv_1", "late", 60.0)
    engine.clock.now += 61.0
    store.conversations.append_with(Append(late, (item("m1"),)))
    assert item_ids(store) == ["m1"]


def test_concurrent_appends_lose_nothing(engine: Engine) -> None:
    """Eight threads on two stores, as on two machines."""
    stores = [engine.open(), engine.open()]
    stores[0].conversations.create(conversation("conv_1"))

    def run(worker: int) -> None:
        store = stores[worker % 2]
        for number in range(15):
            store.conversations.append(A, "conv_1", [item(f"m{worker}_{number}")])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))
    found = item_ids(stores[0])
    assert len(found) == 120
    for worker in range(8):
        own = [one for one in found if one.startswith(f"m{worker}_")]
        assert own == [f"m{worker}_{number}" for number in range(15)]


def test_only_one_of_many_gets_the_lease(engine: Engine) -> None:
    stores = [engine.open(), engine.open()]
    stores[0].conversations.create(conversation("conv_1"))

    def run(worker: int) -> bool:
        try:
            stores[worker % 2].conversations.lock(A, "conv_1", f"w{worker}", 60.0)
        except ConversationLocked:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(run, range(16))) == 1
