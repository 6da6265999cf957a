"""The contract of stored responses, on every engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest

from tests.state.responses.making import A, B, Engine, body, conversation, ids, item, response, total_bytes
from tests.timing import check_within
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import (
    Append,
    ChainBroken,
    ConversationLease,
    ConversationLocked,
    NotFound,
    NotStorable,
    OriginAccount,
    PageRequest,
    StoredItem,
    StoreLimits,
)

HOSTILE_IDS = ["", "resp_\0", "resp_\ud800", "x" * 5_000, "'; DROP TABLE trl_response; --", "resp_%s", "resp_?"]


def test_everything_comes_back(store: ResponseStore) -> None:
    given = response(
        "resp_1",
        input=(item("msg_in"), StoredItem("", b'{"role":"user"}')),
        request=b'{"tools":[]}',
        model="gpt-x",
        conversation="conv_1",
        origin=OriginAccount("openai", "main"),
    )
    store.responses.put(given)
    got = store.responses.get(A, "resp_1")
    assert (got.body, got.input, got.request, got.model) == (given.body, given.input, given.request, "gpt-x")
    assert (got.status, got.previous, got.conversation, got.origin) == ("completed", None, "conv_1", given.origin)
    assert (got.created, got.expires, got.failure) == (1_000_000.0, 1_000_000.0 + 30 * 86_400, "")


def test_origin_is_the_account_that_owns_the_id(store: ResponseStore) -> None:
    store.responses.put(response("resp_1", origin=OriginAccount("openai", "second")))
    store.responses.put(response("resp_2"))
    assert store.responses.origin(A, "resp_1") == OriginAccount("openai", "second")
    assert store.responses.origin(A, "resp_2") is None


LOOKUPS: dict[str, Callable[[ResponseStore, str, str], object]] = {
    "get": lambda store, owner, one: store.responses.get(owner, one),
    "origin": lambda store, owner, one: store.responses.origin(owner, one),
    "chain": lambda store, owner, one: store.responses.chain(owner, one),
    "input_items": lambda store, owner, one: store.responses.input_items(owner, one, PageRequest()),
    "delete": lambda store, owner, one: store.responses.delete(owner, one),
    "job": lambda store, owner, one: store.jobs.get(owner, one),
    "events": lambda store, owner, one: store.jobs.events(owner, one),
    "cancel": lambda store, owner, one: store.jobs.cancel(owner, one),
    "conversation": lambda store, owner, one: store.conversations.get(owner, one),
    "items": lambda store, owner, one: store.conversations.items(owner, one, PageRequest()),
    "all_items": lambda store, owner, one: store.conversations.all_items(owner, one),
    "conversation item": lambda store, owner, one: store.conversations.item(owner, one, "msg_1"),
    "update": lambda store, owner, one: store.conversations.update(owner, one, b"{}"),
    "append": lambda store, owner, one: store.conversations.append(owner, one, [item("new")]),
    "lock": lambda store, owner, one: store.conversations.lock(owner, one, "me", 5),
    "delete conversation": lambda store, owner, one: store.conversations.delete(owner, one),
    "delete item": lambda store, owner, one: store.conversations.delete_item(owner, one, "msg_1"),
    "item": lambda store, owner, one: store.responses.item(owner, one),
}


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_an_id_of_another_owner_is_like_an_unknown_one(store: ResponseStore, lookup: str) -> None:
    store.jobs.start(response("one", status="queued", input=(item("in"),)), "worker")
    store.conversations.create(conversation("one"), [item("msg_1"), item("one")])
    with pytest.raises(NotFound) as foreign:
        LOOKUPS[lookup](store, B, "one")
    store.owners.delete(A)
    with pytest.raises(NotFound) as unknown:
        LOOKUPS[lookup](store, A, "one")
    assert (type(foreign.value), str(foreign.value)) == (type(unknown.value), str(unknown.value))


@pytest.mark.parametrize("identifier", HOSTILE_IDS)
def test_a_hostile_id_is_unknown(store: ResponseStore, identifier: str) -> None:
    for lookup in LOOKUPS.values():
        with pytest.raises(NotFound):
            lookup(store, A, identifier)


def test_two_owners_may_have_the_same_id(store: ResponseStore) -> None:
    store.responses.put(response("resp_1", A, body=b'{"a":1}'))
    store.responses.put(response("resp_1", B, body=b'{"b":1}'))
    store.responses.delete(A, "resp_1")
    assert store.responses.get(B, "resp_1").body == b'{"b":1}'


def test_a_second_put_replaces_the_first(store: ResponseStore) -> None:
    store.responses.put(response("resp_1", status="in_progress", body=body("resp_1", "a", "b")))
    store.responses.put(response("resp_1", body=body("resp_1", "a")))
    assert store.responses.get(A, "resp_1").status == "completed"
    assert store.owners.statistics()[0].responses == 1
    with pytest.raises(NotFound):
        store.responses.item(A, "msg_resp_1_1")


def test_chain_begins_with_the_first_response(store: ResponseStore) -> None:
    for name, previous in [("r1", None), ("r2", "r1"), ("r3", "r2"), ("other", None), ("branch", "r2")]:
        store.responses.put(response(name, previous=previous))
    assert ids(store.responses.chain(A, "r3")) == ["r1", "r2", "r3"]
    assert ids(store.responses.chain(A, "branch")) == ["r1", "r2", "branch"]
    assert ids(store.responses.chain(A, "r1")) == ["r1"]


def test_chain_does_not_cross_owners(store: ResponseStore) -> None:
    store.responses.put(response("r1", B))
    store.responses.put(response("r2", A, previous="r1"))
    with pytest.raises(ChainBroken):
        store.responses.chain(A, "r2")


def test_a_gap_in_the_chain_is_an_error(store: ResponseStore) -> None:
    """A shorter history would be a different conversation, and nobody would notice."""
    for name, previous in [("r1", None), ("r2", "r1"), ("r3", "r2")]:
        store.responses.put(response(name, previous=previous))
    store.responses.delete(A, "r1")
    with pytest.raises(ChainBroken) as caught:
        store.responses.chain(A, "r3")
    assert caught.value.id == "r1"


def test_a_circle_ends(store: ResponseStore) -> None:
    """Upstreams choose ids, and a broken one may use an id twice."""
    with pytest.raises(NotStorable):
        store.responses.put(response("r1", previous="r1"))
    store.responses.put(response("r1"))
    store.responses.put(response("r2", previous="r1"))
    store.responses.put(response("r1", previous="r2"))
    with pytest.raises(ChainBroken):
        store.responses.chain(A, "r2")


def test_a_long_chain_grows_linearly(store: ResponseStore) -> None:
    names = [f"r{number}" for number in range(500)]
    writes = [
        partial(store.responses.put, response(name, previous=before))
        for before, name in zip([None, *names], names, strict=False)
    ]
    store.together(writes)
    assert ids(store.responses.chain(A, "r499")) == names
    short = fastest(lambda: store.responses.chain(A, "r49"))
    long = fastest(lambda: store.responses.chain(A, "r499"))
    check_within(long / short, 25.0)


def fastest(run: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize(
    ("page", "expected", "more"),
    [
        (PageRequest(), ["i4", "i3", "i2", "i1", "i0"], False),
        (PageRequest(limit=2), ["i4", "i3"], True),
        (PageRequest(after="i3", limit=2), ["i2", "i1"], True),
        (PageRequest(after="i3", limit=2, descending=False), ["i4"], False),
        (PageRequest(limit=5, descending=False), ["i0", "i1", "i2", "i3", "i4"], False),
        (PageRequest(after="i0"), [], False),
    ],
)
def test_pages_of_items(store: ResponseStore, page: PageRequest, expected: list[str], more: bool) -> None:
    given = tuple(item(f"i{number}") for number in range(5))
    store.responses.put(response("resp_1", input=given))
    store.conversations.create(conversation("conv_1"), given)
    for got in (store.responses.input_items(A, "resp_1", page), store.conversations.items(A, "conv_1", page)):
        assert [one.id for one in got.items] == expected
        assert got.has_more is more


def test_a_page_after_an_unknown_item(store: ResponseStore) -> None:
    store.responses.put(response("resp_1", input=(item("i0"),)))
    store.conversations.create(conversation("conv_1"), [item("i0")])
    with pytest.raises(NotFound):
        store.responses.input_items(A, "resp_1", PageRequest(after="nope"))
    with pytest.raises(NotFound):
        store.conversations.items(A, "conv_1", PageRequest(after="nope"))


def test_items_are_found_by_id(store: ResponseStore) -> None:
    store.responses.put(response("resp_1", input=(item("msg_in", "asked"),), body=body("resp_1", "a", "b")))
    store.conversations.create(conversation("conv_1"), [item("msg_conv", "said")])
    assert b'"b"' in store.responses.item(A, "msg_resp_1_1").data
    assert b"asked" in store.responses.item(A, "msg_in").data
    assert b"said" in store.responses.item(A, "msg_conv").data
    with pytest.raises(NotFound):
        store.responses.item(B, "msg_in")


def test_an_item_stays_while_any_response_holds_it(store: ResponseStore) -> None:
    """Clients resend items, so several responses hold the same one."""
    store.responses.put(response("r1", input=(item("msg_in"),)))
    store.responses.put(response("r2", input=(item("msg_in"),)))
    store.responses.delete(A, "r2")
    assert store.responses.item(A, "msg_in").id == "msg_in"
    store.responses.delete(A, "r1")
    with pytest.raises(NotFound):
        store.responses.item(A, "msg_in")


@pytest.mark.parametrize("identifier", HOSTILE_IDS[:4])
def test_ids_that_cannot_be_stored(store: ResponseStore, identifier: str) -> None:
    with pytest.raises(NotStorable):
        store.responses.put(response(identifier))
    with pytest.raises(NotStorable):
        store.conversations.create(conversation(identifier))
    with pytest.raises(NotStorable):
        store.conversations.create(conversation("conv_1"), [StoredItem(identifier, b"{}")])


@pytest.mark.parametrize("identifier", ["", "x\0", "x" * 5_000])
def test_an_item_with_an_odd_id_is_kept_with_its_response(store: ResponseStore, identifier: str) -> None:
    store.responses.put(response("resp_1", input=(StoredItem(identifier, b"{}"),)))
    assert store.responses.get(A, "resp_1").input[0].id == identifier


def test_an_item_whose_id_is_not_unicode_is_refused(store: ResponseStore) -> None:
    with pytest.raises(NotStorable):
        store.responses.put(response("resp_1", input=(StoredItem("\ud800", b"{}"),)))


@pytest.mark.parametrize("text", [b"", b"null", b'{"output":7}', b'{"output":[1,{"id":[]}]}', b"\xff"])
def test_a_body_of_any_shape_is_kept(store: ResponseStore, text: bytes) -> None:
    store.responses.put(response("resp_1", body=text))
    assert store.responses.get(A, "resp_1").body == text


def test_what_has_expired_is_unknown_and_then_deleted(engine: Engine) -> None:
    store = engine.open(StoreLimits(seconds=100.0))
    store.responses.put(response("old", input=(item("msg_in"),)))
    store.conversations.create(conversation("conv_1"), [item("msg_1")])
    engine.clock.now += 50.0
    store.responses.put(response("new", previous="old"))
    engine.clock.now += 50.0
    for lookup in (store.responses.get, store.responses.item):
        with pytest.raises(NotFound):
            lookup(A, "old")
    with pytest.raises(NotFound):
        store.responses.item(A, "msg_in")
    with pytest.raises(NotFound):
        store.conversations.get(A, "conv_1")
    with pytest.raises(ChainBroken):
        store.responses.chain(A, "new")
    assert store.owners.prune() == 2
    assert store.owners.prune() == 0
    assert store.responses.get(A, "new").id == "new"


def test_a_conversation_in_use_does_not_expire(engine: Engine) -> None:
    store = engine.open(StoreLimits(seconds=100.0))
    store.conversations.create(conversation("conv_1"))
    engine.clock.now += 90.0
    store.conversations.append(A, "conv_1", [item("msg_1")])
    engine.clock.now += 90.0
    assert store.owners.prune() == 0
    assert store.conversations.get(A, "conv_1").created == 1_000_000.0


def test_the_oldest_of_the_owner_make_room(engine: Engine) -> None:
    store = engine.open(StoreLimits(owner_bytes=3_000))
    store.responses.put(response("foreign", B, body=b"x" * 500))
    for number in range(6):
        engine.clock.now += 1.0
        store.responses.put(response(f"r{number}", body=b"x" * 900))
    assert [identifier for identifier in [f"r{number}" for number in range(6)] if has(store, A, identifier)] == [
        "r3",
        "r4",
        "r5",
    ]
    assert has(store, B, "foreign")
    assert total_bytes(store) <= 3_000


def test_a_running_job_is_not_deleted_to_make_room(engine: Engine) -> None:
    store = engine.open(StoreLimits(owner_bytes=3_000))
    store.jobs.start(response("job", status="in_progress", body=b"x" * 900), "worker")
    for number in range(6):
        engine.clock.now += 1.0
        store.responses.put(response(f"r{number}", body=b"x" * 900))
    assert has(store, A, "job")
    assert not has(store, A, "r3")


def has(store: ResponseStore, owner: str, identifier: str) -> bool:
    try:
        return store.responses.get(owner, identifier).id == identifier
    except NotFound:
        return False


def test_a_response_larger_than_the_limit_is_refused(engine: Engine) -> None:
    store = engine.open(StoreLimits(owner_bytes=3_000))
    store.responses.put(response("small"))
    with pytest.raises(NotStorable, match="limit"):
        store.responses.put(response("large", body=b"x" * 4_000))
    with pytest.raises(NotStorable, match="limit"):
        store.conversations.create(conversation("conv_1"), [StoredItem("msg_1", b"x" * 4_000)])
    with pytest.raises(NotFound):
        store.conversations.get(A, "conv_1")
    assert has(store, A, "small")


def test_a_conversation_that_would_be_larger_than_the_limit_keeps_what_it_has(engine: Engine) -> None:
    store = engine.open(StoreLimits(owner_bytes=3_000))
    store.conversations.create(conversation("conv_1"), [StoredItem("msg_1", b"x" * 2_000)])
    with pytest.raises(NotStorable, match="limit"):
        store.conversations.append(A, "conv_1", [StoredItem("msg_2", b"x" * 2_000)])
    assert [one.id for one in store.conversations.all_items(A, "conv_1")] == ["msg_1"]


def test_the_oldest_of_all_go_when_all_together_have_too_much(engine: Engine) -> None:
    store = engine.open(StoreLimits(total_bytes=3_000))
    for number in range(6):
        engine.clock.now += 1.0
        store.responses.put(response(f"r{number}", owner=(A, B)[number % 2], body=b"x" * 900))
    assert store.owners.prune() == 3
    assert [has(store, (A, B)[number % 2], f"r{number}") for number in range(6)] == [False] * 3 + [True] * 3


def test_a_response_and_its_conversation_are_stored_together_or_not_at_all(store: ResponseStore) -> None:
    store.conversations.create(conversation("conv_1"))
    lease = store.conversations.lock(A, "conv_1", "request-1", 60.0)
    store.responses.put(response("r1", conversation="conv_1"), Append(lease, (item("msg_1"), item("msg_2"))))
    assert [one.id for one in store.conversations.all_items(A, "conv_1")] == ["msg_1", "msg_2"]
    with pytest.raises(ConversationLocked):
        store.responses.put(response("r2"), Append(lease, (item("msg_3"),)))
    with pytest.raises(NotFound):
        store.responses.put(response("r2"), Append(ConversationLease(A, "nope", "x"), (item("msg_3"),)))
    assert not has(store, A, "r2")
    with pytest.raises(NotFound):
        store.responses.item(A, "msg_3")


def test_refused_writes_do_not_affect_the_others_of_their_group(store: ResponseStore) -> None:
    outcomes = store.together(
        [
            lambda: store.responses.put(response("r1")),
            lambda: store.responses.delete(A, "nope"),
            lambda: store.responses.put(response("")),
            lambda: store.responses.put(response("r2")),
        ]
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), NotFound, NotStorable, type(None)]
    assert has(store, A, "r1")
    assert has(store, A, "r2")
