"""The contract of kept reasoning, statistics, export and deletion by owner, on every engine."""

from __future__ import annotations

from functools import partial

from tests.state.responses.making import A, B, Engine, conversation, item, response, total_bytes
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import (
    ConversationItem,
    OwnerStatistics,
    StoredConversation,
    StoredReasoning,
    StoredResponse,
    StoreLimits,
)


def fill(store: ResponseStore, owner: str, count: int) -> None:
    store.together([partial(store.responses.put, response(f"r{number}", owner)) for number in range(count)])
    store.conversations.create(conversation("conv_1", owner), [item("m1"), item("m2")])
    store.reasoning.keep([StoredReasoning(owner, "call_1", b"thought")])


def test_reasoning_is_found_by_its_keys(store: ResponseStore) -> None:
    keys = [f"call_{number}" for number in range(250)]
    store.reasoning.keep([StoredReasoning(A, key, key.encode()) for key in keys])
    found = store.reasoning.find(A, [*keys, "call_nope", "", "\0", "call_1"])
    assert found == {key: key.encode() for key in keys}
    assert store.reasoning.find(B, keys) == {}
    assert store.reasoning.find(A, []) == {}


def test_reasoning_is_replaced_and_counted_once(store: ResponseStore) -> None:
    store.reasoning.keep([StoredReasoning(A, "call_1", b"a")])
    before = total_bytes(store)
    store.reasoning.keep([StoredReasoning(A, "call_1", b"b"), StoredReasoning(A, "\0", b"ignored")])
    assert store.reasoning.find(A, ["call_1"]) == {"call_1": b"b"}
    assert total_bytes(store) == before


def test_reasoning_lives_for_a_day(engine: Engine) -> None:
    store = engine.open()
    store.reasoning.keep([StoredReasoning(A, "call_1", b"a")])
    store.responses.put(response("r1"))
    engine.clock.now += 86_399.0
    assert store.reasoning.find(A, ["call_1"])
    engine.clock.now += 1.0
    assert store.reasoning.find(A, ["call_1"]) == {}
    assert store.owners.prune() == 1
    assert store.responses.get(A, "r1").id == "r1"


def test_statistics(engine: Engine) -> None:
    store = engine.open()
    fill(store, A, 1)
    engine.clock.now += 5.0
    fill(store, B, 3)
    large, small = store.owners.statistics()
    assert small == OwnerStatistics(A, 1, 1, 1, small.bytes, 1_000_000.0, 1_000_000.0)
    assert (large.owner, large.responses, large.oldest, large.newest) == (B, 3, 1_000_005.0, 1_000_005.0)
    assert 0 < small.bytes < large.bytes


def test_export_has_everything_of_one_owner(store: ResponseStore) -> None:
    fill(store, A, 230)
    fill(store, B, 1)
    exported = list(store.owners.export(A))
    found = [one for one in exported if isinstance(one, StoredResponse)]
    assert [one.id for one in found] == [f"r{number}" for number in range(230)]
    assert {one.owner for one in found} == {A}
    rest = [one for one in exported if not isinstance(one, StoredResponse)]
    assert [type(one) for one in rest] == [StoredConversation, ConversationItem, ConversationItem, StoredReasoning]
    assert [one.item.id for one in rest if isinstance(one, ConversationItem)] == ["m1", "m2"]


def test_delete_leaves_nothing_of_one_owner(store: ResponseStore) -> None:
    fill(store, A, 230)
    fill(store, B, 1)
    assert store.owners.delete(A) == 232
    assert list(store.owners.export(A)) == []
    assert [one.owner for one in store.owners.statistics()] == [B]
    assert len(list(store.owners.export(B))) == 5
    assert store.owners.delete(A) == 0


def test_pruning_does_much_in_small_steps(engine: Engine) -> None:
    store = engine.open(StoreLimits(seconds=10.0))
    fill(store, A, 230)
    engine.clock.now += 10.0
    store.responses.put(response("new"))
    assert 0 < store.owners.prune_some() < 230
    store.owners.prune()
    assert [one.responses for one in store.owners.statistics()] == [1]
