"""Whose objects are, on every engine: the first owner keeps one, unless it was made anew."""

from __future__ import annotations

from tests.state.responses.making import A, B, Engine
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import ObjectOwner


def test_owners_by_provider_and_id(store: ResponseStore) -> None:
    objects, mine, theirs = store.objects, ObjectOwner("p", A, "team"), ObjectOwner("p", B)
    elsewhere = ObjectOwner("q", B)
    assert objects.owners(["f1"]) == {}
    objects.note(["f1", "f2"], mine)
    objects.note(["f1"], theirs)
    objects.note(["f1"], elsewhere)
    objects.note([], theirs)
    objects.note(["", "x" * 300, "nul\0"], mine)
    found = objects.owners(["f1", "f2", "f3", "", "nul\0"])
    assert found == {"f1": found["f1"], "f2": (mine,)}
    assert set(found["f1"]) == {mine, elsewhere}
    # What was made just now is its maker's, whatever was known of the id before.
    objects.note(["f1"], theirs, made=True)
    assert set(objects.owners(["f1"])["f1"]) == {theirs, elsewhere}
    objects.forget("p", "f1")
    assert objects.owners(["f1"]) == {"f1": (elsewhere,)}
    many = [f"m{number}" for number in range(350)]
    objects.note(many, mine)
    assert len(objects.owners(many)) == 350


def test_all_workers_see_them_and_they_stay(engine: Engine) -> None:
    first = engine.open()
    first.objects.note(["f1"], ObjectOwner("p", A))
    engine.clock.now += 400 * 86_400.0
    second = engine.open()
    second.owners.prune()
    assert second.objects.owners(["f1"]) == {"f1": (ObjectOwner("p", A),)}
    # What is deleted for a key is nobody's then.
    second.owners.delete(A)
    assert first.objects.owners(["f1"]) == {}
