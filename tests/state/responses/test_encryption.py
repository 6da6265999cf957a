"""Content is encrypted on the disk, bound to its row, and readable with earlier keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.state.responses.making import KEY, A, B, Engine, conversation, item, response
from trilogue.gateway.conversations.store.storage import OVERHEAD, Contents
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import (
    ContentUnreadable,
    StoredConversation,
    StoredItem,
    StoredReasoning,
)
from trilogue.storage.sqlite import SqliteDatabase

NEW_KEY = b"another fake key for these tests"
MARK = "plain-text-that-must-not-be-found"


def rows(engine: Engine, statement: str) -> list[tuple[object, ...]]:
    connection = engine.database.connect()
    found = connection.execute(statement)
    if engine.name != "memory":
        connection.close()
    return found


SWAPS = {
    "owners": "content = (SELECT content FROM trl_response WHERE owner = 'owner-b' AND id = 'r1')",
    "ids": "content = (SELECT content FROM trl_response WHERE owner = 'owner-a' AND id = 'r2')",
    "links": "previous = 'r2'",
}
SWAP = "UPDATE trl_response SET CHANGE WHERE owner = 'owner-a' AND id = 'r1'"


@pytest.mark.parametrize("swap", SWAPS)
def test_swapped_rows_are_detected(engine: Engine, swap: str) -> None:
    store = engine.open()
    for owner, identifier in ((A, "r1"), (A, "r2"), (B, "r1")):
        store.responses.put(response(identifier, owner))
    rows(engine, SWAP.replace("CHANGE", SWAPS[swap]))
    with pytest.raises(ContentUnreadable):
        store.responses.get(A, "r1")
    assert store.responses.get(A, "r2").id == "r2"


def test_items_that_change_places_are_detected(engine: Engine) -> None:
    store = engine.open()
    store.conversations.create(conversation("conv_1"), [item("m0"), item("m1")])
    store.jobs.start(response("r1", status="queued"), "w1")
    store.jobs.add_events((A, "r1"), "w1", [b"0"])
    store.reasoning.keep([StoredReasoning(A, "call_1", b"x")])
    rows(engine, "UPDATE trl_conversation_item SET number = 9 WHERE id = 'm0'")
    rows(engine, "UPDATE trl_job_event SET first = 1, last = 1")
    rows(engine, "UPDATE trl_reasoning SET id = 'call_2'")
    with pytest.raises(ContentUnreadable):
        store.conversations.all_items(A, "conv_1")
    with pytest.raises(ContentUnreadable):
        store.jobs.events(A, "r1")
    with pytest.raises(ContentUnreadable):
        store.reasoning.find(A, ["call_2"])


def test_changed_content_is_detected(engine: Engine) -> None:
    store = engine.open()
    store.responses.put(response("r1"))
    for damage in (b"", b"\1", b"\2" + b"x" * 60, b"\1" + b"x" * 60):
        connection = engine.database.connect()
        connection.execute("UPDATE trl_response SET content = ?", (damage,))
        with pytest.raises(ContentUnreadable):
            store.responses.get(A, "r1")
        if engine.name != "memory":
            connection.close()


def test_earlier_keys_still_decrypt(engine: Engine) -> None:
    engine.open().responses.put(response("r1"))
    newer = engine.open(keys=(NEW_KEY, KEY))
    newer.responses.put(response("r2"))
    assert newer.responses.get(A, "r1").id == "r1"
    with pytest.raises(ContentUnreadable, match="key"):
        engine.open().responses.get(A, "r2")
    with pytest.raises(ContentUnreadable, match="key"):
        engine.open(keys=(NEW_KEY,)).responses.get(A, "r1")


def test_keys_of_the_wrong_size() -> None:
    for keys in ([], [b"short"]):
        with pytest.raises(ValueError, match="32"):
            Contents(keys)


def test_the_same_content_is_never_encrypted_to_the_same_text() -> None:
    contents = Contents([KEY])
    one, other = (contents.encrypt(b"x", A, "response", "r1") for _ in range(2))
    assert one != other
    assert len(one) == 1 + OVERHEAD
    assert contents.decrypt(one, A, "response", "r1") == b"x"


def use_mark(store: ResponseStore) -> None:
    """Write a text in every place that takes content."""
    text = json.dumps({"id": "x", "output": [{"id": "o", "text": MARK}], "metadata": {"a": MARK}}).encode()
    marked = StoredItem("msg_1", text)
    store.responses.put(response("r1", body=text, input=(marked,), request=text, model=MARK))
    store.conversations.create(StoredConversation(owner=A, id="c1", metadata=text), [marked])
    store.conversations.update(A, "c1", text)
    store.jobs.start(response("r2", status="queued", body=text), "w1")
    store.jobs.add_events((A, "r2"), "w1", [text])
    store.reasoning.keep([StoredReasoning(A, "call_1", text)])


def test_no_content_is_readable_in_the_files(tmp_path: Path) -> None:
    """In the database, its write-ahead log and whatever else is next to them."""
    store = ResponseStore(SqliteDatabase(tmp_path / "responses.db"), [KEY])
    use_mark(store)
    files = list(tmp_path.iterdir())
    assert len(files) >= 2
    assert sum(path.stat().st_size for path in files) > 10_000
    assert [path for path in files if MARK.encode() in path.read_bytes()] == []
    assert any(b"call_1" in path.read_bytes() for path in files)
    store.close()
    assert [path for path in tmp_path.iterdir() if MARK.encode() in path.read_bytes()] == []


def test_no_content_is_readable_in_the_tables(engine: Engine) -> None:
    use_mark(engine.open())
    for table in ("response", "conversation", "conversation_item", "job", "job_event", "reasoning"):
        found = rows(engine, "SELECT * FROM trl_TABLE".replace("TABLE", table))
        assert found
        assert MARK not in repr(found)
