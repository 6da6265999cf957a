"""Files, batches and other objects belong to the client key that made them: another key's id is like an unknown one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from tests.gateway.pooling import pooled
from tests.gateway.process import until
from tests.gateway.running import Gateway, running
from tests.scripted import thread
from tests.scripted.http import json_answer, sse_answer, whole
from tests.scripted.server import KEY, ScriptedUpstream
from trilogue.errors import BadRequest
from trilogue.gateway.request.ownership import objects_of
from trilogue.gateway.request.uploads import BatchLines

KEYS = """\
keys:
  - {key: alice-key-canary, name: alice, owner: team}
  - {key: bob-key-canary, name: bob, owner: team}
  - {key: carol-key-canary, name: carol, owner: others}
"""
CONFIG = """\
server: {workers: WORKERS, shared_objects: SHARING, open_objects: [vs_for_all]}
providers:
  responses: {protocol: openai_responses, base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}]}
  chat: {protocol: openai_chat_completions, base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}]}
  messages:
    protocol: anthropic_messages
    base_url: UPSTREAM
    accounts: [{key: env:UP_KEY}]
    profile: {keeps_state: true}
pool: {retry_budget: {floor: 1000}, persist: false}
"""


def config(sharing: str = "key", workers: int = 1, keys: str = KEYS) -> str:
    return keys + CONFIG.replace("SHARING", sharing).replace("WORKERS", str(workers))


@pytest.fixture(scope="module")
def _up() -> Iterator[ScriptedUpstream]:
    with thread.running() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def gateways(_up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Gateway]]:
    with ExitStack() as stack:
        yield {
            sharing: stack.enter_context(running(tmp_path_factory.mktemp(sharing), config(sharing, workers), _up.url))
            for sharing, workers in (("key", 2), ("owner", 1), ("all", 1))
        }


@pytest.fixture
def gateway(gateways: dict[str, Gateway]) -> Gateway:
    return gateways["key"]


@pytest.fixture
def up(_up: ScriptedUpstream) -> ScriptedUpstream:
    _up.requests.clear()
    return _up


def ask(gateway: Gateway, key: str, method: str, path: str, body: Any = None, **more: Any) -> httpx2.Response:
    headers = {"authorization": f"Bearer {key}-key-canary", **more.pop("headers", {})}
    if path.startswith(("/messages", "/skills", "/files/file_")):
        headers["anthropic-version"] = "2023-06-01"
    if body is not None:
        more["json"] = body
    return httpx2.request(method, f"{gateway.url}/v1{path}", headers=headers, timeout=20, **more)


def makes(up: ScriptedUpstream, gateway: Gateway, key: str, path: str, identifier: str, **more: Any) -> None:
    """Let a key make an object with this id."""
    up.say(json_answer(200, [], {"id": identifier, **more}))
    made = ask(gateway, key, "POST", path, {})
    assert (made.status_code, made.json()["id"]) == (200, identifier), made.text
    up.requests.clear()


def gets(up: ScriptedUpstream, gateway: Gateway, key: str, path: str, method: str = "GET", body: Any = None) -> bool:
    """Return whether a request of a key reaches the upstream. Otherwise it is a 404 that tells nothing."""
    up.requests.clear()
    up.say(json_answer(200, [], {"id": "any", "object": "any", "data": []}))
    answer = ask(gateway, key, method, path, body)
    if answer.status_code == 200:
        assert len(up.requests) == 1
        return True
    up._raw.clear()
    assert (answer.status_code, up.requests) == (404, []), answer.text
    assert "alice" not in answer.text
    return False


@pytest.mark.parametrize(
    "path",
    ["/files", "/uploads", "/batches", "/vector_stores", "/containers", "/videos", "/evals", "/fine_tuning/jobs"],
)
def test_an_object_belongs_to_the_key_that_made_it(gateway: Gateway, up: ScriptedUpstream, path: str) -> None:
    identifier = f"own-{path.replace('/', '')}"
    makes(up, gateway, "alice", path, identifier)
    for _ in range(6):  # whichever worker is asked
        assert gets(up, gateway, "alice", f"{path}/{identifier}")
        assert not gets(up, gateway, "bob", f"{path}/{identifier}")
    for method, below in (("DELETE", ""), ("POST", "/cancel"), ("GET", "/content"), ("GET", "/a/b")):
        assert not gets(up, gateway, "carol", f"{path}/{identifier}{below}", method)
    unknown = ask(gateway, "bob", "GET", f"{path}/own-nobody").json()
    foreign = ask(gateway, "bob", "GET", f"{path}/{identifier}").json()
    assert json.dumps(foreign).replace(identifier, "own-nobody") == json.dumps(unknown)
    assert gets(up, gateway, "alice", f"{path}/{identifier}", "DELETE")
    assert not gets(up, gateway, "alice", f"{path}/{identifier}")


def test_message_batches_and_files_of_messages(gateway: Gateway, up: ScriptedUpstream) -> None:
    makes(up, gateway, "alice", "/messages/batches", "msgbatch_1")
    assert gets(up, gateway, "alice", "/messages/batches/msgbatch_1/results")
    assert not gets(up, gateway, "bob", "/messages/batches/msgbatch_1/results")
    answer = ask(gateway, "bob", "GET", "/messages/batches/msgbatch_1").json()
    assert (answer["type"], answer["error"]["type"]) == ("error", "not_found_error")


def test_what_a_vendor_makes_of_an_object_belongs_to_its_owner(gateway: Gateway, up: ScriptedUpstream) -> None:
    makes(up, gateway, "alice", "/batches", "batch_1")
    up.say(json_answer(200, [], {"id": "batch_1", "output_file_id": "file-out", "error_file_id": None}))
    assert ask(gateway, "alice", "GET", "/batches/batch_1").status_code == 200
    assert gets(up, gateway, "alice", "/files/file-out/content")
    assert not gets(up, gateway, "bob", "/files/file-out/content")
    makes(up, gateway, "alice", "/uploads", "upload_1")
    up.say(json_answer(200, [], {"id": "upload_1", "file": {"id": "file-whole"}}))
    assert ask(gateway, "alice", "POST", "/uploads/upload_1/complete", {"part_ids": []}).status_code == 200
    assert gets(up, gateway, "alice", "/files/file-whole")


def test_nobody_becomes_the_owner_by_using_something(gateway: Gateway, up: ScriptedUpstream) -> None:
    """A response about an own object may name another that is open to all, or repeat its id."""
    makes(up, gateway, "bob", "/vector_stores", "vs_bob")
    up.say(json_answer(200, [], {"id": "vs_for_all", "object": "vector_store.file"}))
    assert ask(gateway, "bob", "POST", "/vector_stores/vs_bob/files", {"file_id": "vs_for_all"}).status_code == 200
    assert not gets(up, gateway, "bob", "/vector_stores/vs_for_all", "DELETE")
    makes(up, gateway, "alice", "/videos", "video_a")
    up.say(json_answer(200, [], {"id": "video_b"}))
    assert ask(gateway, "alice", "POST", "/videos/video_a/remix", {"prompt": "b"}).status_code == 200
    assert gets(up, gateway, "alice", "/videos/video_b/content")
    assert not gets(up, gateway, "bob", "/videos/video_b/content")


USES: list[tuple[str, dict[str, Any]]] = [
    ("/batches", {"input_file_id": "ID"}),
    ("/fine_tuning/jobs", {"training_file": "ID"}),
    ("/fine_tuning/jobs", {"training_file": "vs_for_all", "validation_file": "ID"}),
    ("/vector_stores", {"file_ids": ["ID"]}),
    ("/containers", {"file_ids": ["ID"]}),
    ("/evals/eval_mine/runs", {"data_source": {"type": "jsonl", "source": {"type": "file_id", "id": "ID"}}}),
    ("/vector_stores/vs_mine/files", {"file_id": "ID"}),
    ("/vector_stores/vs_mine/file_batches", {"files": [{"file_id": "ID"}]}),
    ("/responses", {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "ID"}]}]}),
    ("/responses", {"input": "Hi", "tools": [{"type": "file_search", "vector_store_ids": ["vs_for_all", "ID"]}]}),
    ("/responses", {"input": "Hi", "tools": [{"type": "code_interpreter", "container": "ID"}]}),
    (
        "/responses",
        {"input": "Hi", "tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["ID"]}}]},
    ),
    ("/responses", {"input": [{"type": "code_interpreter_call", "container_id": "ID"}]}),
    ("/responses/input_tokens", {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "ID"}]}]}),
    ("/responses/compact", {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "ID"}]}]}),
    (
        "/responses",
        {
            "input": [
                {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_file", "file_id": "ID"}]}
            ]
        },
    ),
    ("/chat/completions", {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "ID"}}]}]}),
    (
        "/messages",
        {
            "messages": [
                {"role": "user", "content": [{"type": "document", "source": {"type": "file", "file_id": "ID"}}]}
            ]
        },
    ),
    ("/messages", {"container": {"id": "ID"}, "messages": [{"role": "user", "content": "Hi"}]}),
    ("/messages", {"container": {"skills": [{"type": "custom", "skill_id": "ID"}]}, "messages": []}),
    ("/messages/batches", {"requests": [{"params": {"messages": [{"content": [{"source": {"file_id": "ID"}}]}]}}]}),
]
MODELS = {"/messages": "messages/text", "/chat/completions": "chat/text"}


@pytest.mark.parametrize(("path", "body"), USES, ids=[f"{path} {n}" for n, (path, _) in enumerate(USES)])
def test_ids_in_bodies_are_checked(gateway: Gateway, up: ScriptedUpstream, path: str, body: dict[str, Any]) -> None:
    for provider_path in ("/files", "/messages/batches"):
        makes(up, gateway, "alice", provider_path, "obj-of-alice")
    makes(up, gateway, "bob", "/vector_stores", "vs_mine")
    makes(up, gateway, "bob", "/evals", "eval_mine")
    if path == "/chat/completions":
        up.say(json_answer(200, [], {"id": "obj-of-alice"}))
        ask(gateway, "alice", "POST", "/files", {}, headers={"trilogue-provider": "chat"})
    up.requests.clear()
    if not path.endswith("batches") and path.startswith(("/responses", "/chat", "/messages")):
        body = {"model": MODELS.get(path, "responses/text"), "max_tokens": 9, **body}
        if path.startswith("/responses"):
            del body["max_tokens"]
    text = json.dumps(body)
    for key, name in (("bob", "obj-of-alice"), ("carol", "obj-of-alice")):
        sent = json.loads(text.replace("ID", name).replace("file_ID", "file_id"))
        if "mine" in path and key == "carol":
            continue
        answer = ask(gateway, key, "POST", path, sent)
        assert (answer.status_code, up.requests) == (404, []), answer.text
        assert "obj-of-alice" in answer.text
    if "mine" not in path and "compact" not in path:
        up.say(json_answer(200, [], {"id": "x", "input_tokens": 1}))
        ask(gateway, "alice", "POST", path, json.loads(text.replace("ID", "obj-of-alice")))
        assert len(up.requests) == 1
        up._raw.clear()


@pytest.mark.parametrize(
    "fields",
    [
        b'"file_id":"obj-of-alice","file_id":"file-of-bob"',
        b'"file_id":"file-of-bob","file_id":"obj-of-alice"',
        rb'"\u0066ile_id":"obj-of-alice"',
        rb'"file\u005fid":"obj-of-alice"',
        rb'"file_id":"obj-of-\u0061lice"',
    ],
)
def test_ids_are_found_however_they_are_written(gateway: Gateway, up: ScriptedUpstream, fields: bytes) -> None:
    makes(up, gateway, "alice", "/files", "obj-of-alice")
    makes(up, gateway, "bob", "/files", "file-of-bob")
    body = b'{"model":"responses/text","input":[{"role":"user","content":[{"type":"input_file",%b}]}]}' % fields
    headers = {"content-type": "application/json"}
    answer = ask(gateway, "bob", "POST", "/responses", content=body, headers=headers)
    assert (answer.status_code, up.requests) == (404, []), answer.text


def test_forms_must_not_name_objects(gateway: Gateway, up: ScriptedUpstream) -> None:
    makes(up, gateway, "bob", "/containers", "cntr_mine")
    form = {"file_id": (None, "obj-of-alice")}
    answer = ask(gateway, "bob", "POST", "/containers/cntr_mine/files", files=form)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "file_id")
    assert [request for request in up.requests if request.complete] == []


def test_everyones_stored_data_is_not_evaluated(gateway: Gateway, up: ScriptedUpstream) -> None:
    makes(up, gateway, "bob", "/evals", "eval_mine")
    source = {"type": "stored_completions", "metadata": {}}
    answer = ask(gateway, "bob", "POST", "/evals/eval_mine/runs", {"data_source": {"source": source}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "shared_list")
    assert up.requests == []


def test_ids_that_a_model_wrote_may_be_sent_back(gateway: Gateway, up: ScriptedUpstream) -> None:
    """Citations of an open vector store name files that no key has made."""
    citation = {"type": "file_citation", "file_id": "file-of-nobody", "index": 0, "filename": "a"}
    said = {"type": "output_text", "text": "See a.", "annotations": [citation]}
    given = [
        {
            "type": "file_search_call",
            "id": "fs_1",
            "status": "completed",
            "queries": ["a"],
            "results": [{"file_id": "file-x"}],
        },
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [said]},
        {"role": "user", "content": "Hi"},
    ]
    tools = [{"type": "file_search", "vector_store_ids": ["vs_for_all"]}]
    answer = ask(gateway, "bob", "POST", "/responses", {"model": "responses/text", "input": given, "tools": tools})
    assert answer.status_code == 200, answer.text
    makes(up, gateway, "alice", "/files", "obj-of-alice")
    citation["file_id"] = "obj-of-alice"
    assert ask(gateway, "bob", "POST", "/responses", {"model": "responses/text", "input": given}).status_code == 404


def page(*names: str, more: bool = False) -> bytes:
    entries = [{"id": name, "object": "file"} for name in names]
    return json_answer(
        200,
        [],
        {"object": "list", "data": entries, "has_more": more, "first_id": names[0], "last_id": names[-1]},
    )


def test_lists_show_own_objects(gateway: Gateway, up: ScriptedUpstream) -> None:
    makes(up, gateway, "alice", "/files", "file-a1")
    makes(up, gateway, "alice", "/files", "file-a2")
    makes(up, gateway, "bob", "/files", "file-b1")
    client = openai.OpenAI(api_key="alice-key-canary", base_url=f"{gateway.url}/v1", max_retries=0)
    up.say(page("file-b1", "file-a1", "file-unknown", more=True))
    up.say(page("file-b1", "file-unknown", more=True))
    up.say(page("file-a2", "file-b1"))
    assert [file.id for file in client.files.list(limit=3)] == ["file-a1", "file-a2"]
    assert [request.query for request in up.requests] == [
        "limit=3",
        "limit=3&after=file-a1",
        "limit=3&after=file-unknown",
    ]
    up.say(page("file-a1", "file-a2"))
    listed = ask(gateway, "carol", "GET", "/files").json()
    assert (listed["data"], listed["first_id"], listed["last_id"], listed["has_more"]) == ([], None, None, False)
    up.say(whole(200, [], b"file-a1", "text/html"))
    assert ask(gateway, "carol", "GET", "/files").status_code == 502


def test_sharing(gateways: dict[str, Gateway], up: ScriptedUpstream) -> None:
    """With `owner`, keys of the same owner share their objects; with `all`, everybody uses everything."""
    for sharing, allowed in (("owner", ["alice", "bob"]), ("all", ["alice", "bob", "carol"])):
        makes(up, gateways[sharing], "alice", "/files", "file-shared")
        for key in ("alice", "bob", "carol"):
            assert gets(up, gateways[sharing], key, "/files/file-shared") == (key in allowed), (sharing, key)
            up.say(page("file-shared", "file-of-nobody"))
            shown = [one["id"] for one in ask(gateways[sharing], key, "GET", "/files").json()["data"]]
            expected = ["file-shared"] if key in allowed else []
            assert shown == (expected if sharing != "all" else ["file-shared", "file-of-nobody"])
        assert gets(up, gateways[sharing], "carol", "/files/file-of-nobody") == (sharing == "all")


def test_owners_survive_a_restart_and_a_second_key(up: ScriptedUpstream, tmp_path: Path) -> None:
    """A single key may use what nobody is known to own, and keeps what it made when others come."""
    one = "keys: [{key: alice-key-canary, name: alice}]\n"
    with running(tmp_path, config(keys=one), up.url) as gateway:
        makes(up, gateway, "alice", "/files", "file-kept")
        assert gets(up, gateway, "alice", "/files/file-before")
    with running(tmp_path, config(), up.url) as gateway:
        assert gets(up, gateway, "alice", "/files/file-kept")
        assert not gets(up, gateway, "bob", "/files/file-kept")
        assert not gets(up, gateway, "alice", "/files/file-before")
        assert gets(up, gateway, "bob", "/vector_stores/vs_for_all")
        assert gets(up, gateway, "bob", "/vector_stores/vs_for_all/search", "POST", {"query": "a"})
        assert not gets(up, gateway, "bob", "/vector_stores/vs_for_all", "DELETE")
        assert not gets(up, gateway, "bob", "/vector_stores/vs_for_all", "POST", {"name": "mine"})


def test_nothing_passes_if_owners_cannot_be_read(up: ScriptedUpstream, tmp_path: Path) -> None:
    store = tmp_path / "owners.db"
    with running(tmp_path, config() + f"state: {store}\n", up.url) as gateway:
        makes(up, gateway, "alice", "/files", "file-1")
        with closing(sqlite3.connect(store)) as database:
            database.execute("DROP TABLE trl_object")
            database.commit()
        up.requests.clear()
        assert ask(gateway, "alice", "GET", "/files/file-1").status_code == 503
        up.say(page("file-1"))
        assert ask(gateway, "alice", "GET", "/files").status_code == 503
        body = {"model": "responses/text", "input": [{"role": "user", "content": [{"file_id": "file-1"}]}]}
        assert ask(gateway, "alice", "POST", "/responses", body).status_code == 503
        assert [request.target for request in up.requests] == ["/v1/files"]


def test_a_gateway_without_keys_has_no_owners(up: ScriptedUpstream, tmp_path: Path) -> None:
    with running(tmp_path, config(keys=""), up.url) as gateway:
        makes(up, gateway, "alice", "/files", "file-1")
        assert gets(up, gateway, "bob", "/files/file-1")
        assert not list(tmp_path.rglob("responses*.db"))


def test_sealed_reasoning_belongs_to_the_key(gateways: dict[str, Gateway], up: ScriptedUpstream) -> None:
    """Another key's is left out and declared, like that of a foreign provider."""
    asked: dict[str, Any] = {
        "model": "messages/reasoning",
        "store": False,
        "reasoning": {"effort": "high"},
        "include": ["reasoning.encrypted_content"],
    }
    hello = {"role": "user", "content": "Hi"}
    for sharing, allowed in (("key", ["alice"]), ("owner", ["alice", "bob"]), ("all", ["alice", "bob", "carol"])):
        gateway = gateways[sharing]
        made = ask(gateway, "alice", "POST", "/responses", {**asked, "input": [hello]}).json()
        history = [hello, *made["output"], {"role": "user", "content": "Go on"}]
        assert any(item.get("encrypted_content", "").startswith("trl2.") for item in made["output"])
        for key in ("alice", "bob", "carol"):
            up.requests.clear()
            answer = ask(gateway, key, "POST", "/responses", {**asked, "input": history})
            assert answer.status_code == 200, answer.text
            assert ('"signature"' in up.last().body.decode()) == (key in allowed), (sharing, key)
            declared = answer.headers.get("trilogue-loss", "")
            assert ("reasoning" in declared) == (key not in allowed), declared


def test_a_rotated_key_keeps_its_objects(up: ScriptedUpstream, tmp_path: Path) -> None:
    """Whatever its text is. A key that was revoked still owns what it made."""
    text = config() + "admin: {key: env:ADMIN_KEY, port: 0}\n"
    with pooled(tmp_path, text, up, environ={"UP_KEY": KEY}) as pool:

        def asks(key: str, method: str, path: str) -> int:
            headers = {"authorization": f"Bearer {key}"}
            return httpx2.request(method, f"{pool.gateway.url}/v1{path}", headers=headers, timeout=20).status_code

        old = str(pool.admin.post("/keys", json={"name": "rolling"}).json()["key"])
        up.say(json_answer(200, [], {"id": "file-rolling"}))
        assert asks(old, "POST", "/files") == 200
        new = str(pool.admin.post("/keys/rolling/rotate", json={"overlap_seconds": 3600}).json()["key"])
        for key in (old, new):
            up.say(json_answer(200, [], {"id": "file-rolling"}))
            assert asks(key, "GET", "/files/file-rolling") == 200
        pool.admin.post("/keys/rolling/revoke")
        again = str(pool.admin.post("/keys", json={"name": "rolling-2"}).json()["key"])
        assert asks(again, "GET", "/files/file-rolling") == 404


EXECUTED = {
    "type": "bash_code_execution_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {
        "type": "bash_code_execution_result",
        "stdout": "",
        "stderr": "",
        "return_code": 0,
        "content": [{"type": "bash_code_execution_output", "file_id": "file_made"}],
    },
}
INTERPRETED = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "code": "1",
    "container_id": "cntr_made",
}


def uses(gateway: Gateway, key: str, body: dict[str, Any]) -> bool:
    return ask(gateway, key, "POST", "/messages", body).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_hosted_tool_makes_belongs_to_the_key(gateway: Gateway, up: ScriptedUpstream, stream: bool) -> None:
    """Containers and their files are named in a model's response only."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "text", "usage": usage, "stop_reason": None}
    suffix = "s" if stream else "w"
    made = json.loads(json.dumps(EXECUTED).replace("file_made", f"file_made_{suffix}"))
    container = {"id": f"container_{suffix}", "expires_at": "2027-01-01T00:00:00Z"}
    if stream:
        events = [
            {"type": "message_start", "message": {**head, "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": made},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "container": container}, "usage": usage},
            {"type": "message_stop"},
        ]
        up.say(*sse_answer([f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events]))
    else:
        up.say(json_answer(200, [], {**head, "content": [made], "container": container, "stop_reason": "end_turn"}))
    tools = [{"type": "code_execution_20260120", "name": "code_execution"}]
    body = {"model": "messages/text", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "tools": tools}
    assert ask(gateway, "alice", "POST", "/messages", {**body, "stream": stream}).status_code == 200
    until(lambda: gets(up, gateway, "alice", f"/files/file_made_{suffix}/content"))
    assert not gets(up, gateway, "bob", f"/files/file_made_{suffix}/content")
    until(lambda: uses(gateway, "alice", {**body, "container": container["id"]}))
    assert not uses(gateway, "bob", {**body, "container": container["id"]})


def test_containers_of_responses(gateway: Gateway, up: ScriptedUpstream) -> None:
    response = {"id": "resp_1", "object": "response", "status": "completed", "output": [INTERPRETED], "model": "text"}
    up.say(json_answer(200, [], response))
    tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
    asked = {"model": "responses/text", "input": "Hi", "tools": tools, "store": False}
    assert ask(gateway, "alice", "POST", "/responses", asked).status_code == 200
    until(lambda: gets(up, gateway, "alice", "/containers/cntr_made/files/cfile_1/content"))
    assert not gets(up, gateway, "bob", "/containers/cntr_made/files/cfile_1/content")


@pytest.mark.parametrize("stream", [False, True])
def test_spoken_responses_belong_to_the_key(gateway: Gateway, up: ScriptedUpstream, stream: bool) -> None:
    spoken = {
        "role": "assistant",
        "content": None,
        "audio": {"id": f"audio_{stream}", "data": "AA==", "transcript": "a"},
    }
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "text"}
    if stream:
        chunk = {**head, "choices": [{"index": 0, "delta": spoken, "finish_reason": None}]}
        end = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        up.say(*sse_answer([*(f"data: {json.dumps(one)}\n\n".encode() for one in (chunk, end)), b"data: [DONE]\n\n"]))
    else:
        up.say(json_answer(200, [], {**head, "choices": [{"index": 0, "message": spoken, "finish_reason": "stop"}]}))
    hello = {"role": "user", "content": "Hi"}
    asked = {"model": "chat/text", "modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}
    answer = ask(gateway, "alice", "POST", "/chat/completions", {**asked, "messages": [hello], "stream": stream})
    assert answer.status_code == 200
    again = {**asked, "messages": [hello, {"role": "assistant", "audio": {"id": f"audio_{stream}"}}, hello]}

    def may_name_it(key: str) -> bool:
        return ask(gateway, key, "POST", "/chat/completions", again).status_code == 200

    until(lambda: may_name_it("alice"))
    up.requests.clear()
    assert not may_name_it("bob")
    assert up.requests == []


LINE = {"custom_id": "1", "method": "POST", "url": "/v1/responses"}
LINES: dict[str, tuple[dict[str, Any], bool]] = {
    "text": ({"input": 'Say "file_id": "file-1"'}, True),
    "schema": ({"tools": [{"parameters": {"properties": {"file_id": {"type": "string"}}}}]}, True),
    "an own container": ({"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}, True),
    "file": ({"input": [{"content": [{"type": "input_file", "file_id": "file-1"}]}]}, False),
    "stores": ({"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]}, False),
    "response": ({"previous_response_id": "resp_1"}, False),
    "conversation": ({"conversation": {"id": "conv_1"}}, False),
    "item": ({"input": [{"type": "item_reference", "id": "msg_1"}]}, False),
    "item without type": ({"input": [{"id": "msg_1"}]}, False),
    "item with type null": ({"input": [{"type": None, "id": "rs_1"}]}, False),
    "item with null type": ({"input": [{"id": "msg_1", "type": None}]}, False),
    "spoken": ({"messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]}, False),
    "arguments": (
        {"messages": [{"tool_calls": [{"id": "call_1", "function": {"arguments": '{"id": "ab_1"}'}}]}]},
        True,
    ),
}


@pytest.mark.parametrize("case", [*LINES, "escaped"])
@pytest.mark.parametrize("file_first", [False, True])
def test_lines_of_a_batch_file_name_no_ids(gateway: Gateway, up: ScriptedUpstream, case: str, file_first: bool) -> None:
    body, allowed = LINES.get(case, ({"previous_response_id": "resp_1"}, False))
    line = json.dumps({**LINE, "body": body}).encode()
    if case == "escaped":
        line = line.replace(b"previous_", rb"previou\u0073_")
    fields: list[Any] = [("purpose", (None, "batch")), ("file", ("a.jsonl", (line + b"\n") * 3_000))]
    for purpose, passes in (("batch", allowed), ("user_data", True)):
        fields[0] = ("purpose", (None, purpose))
        up.requests.clear()
        if passes:
            up.say(json_answer(200, [], {"id": "file-lines"}))
        answer = ask(gateway, "bob", "POST", "/files", files=fields[::-1] if file_first else fields)
        assert answer.status_code == (200 if passes else 400), answer.text
        if not passes:
            assert answer.json()["error"]["code"] == "unchecked_ids"
            assert [request for request in up.requests if request.complete] == []


@pytest.mark.parametrize("parts", [
    [b'{"previous_response_id"', b" " * 300, b': "resp_1"}'],
    [b'{"previous_response_id"' + b" " * 300, b" " * 300 + b':"resp_1"}'],
    [b'{"previous_response_id" ' + b" " * 300 + b":", b" " * 300, b'"resp_1"}'],
    [b'{"previous_response_id" :' + b" " * 300, b'"resp_1"}'],
    [b'{"conversation"' + b"\t" * 300, b": " + b" " * 300, b'{"id": "conv_1"}}'],
])  # fmt: skip
def test_space_of_any_length_hides_no_id(parts: list[bytes]) -> None:
    """Wherever the line is cut: a client decides how its file arrives."""
    lines = BatchLines(("previous_response_id", "conversation"))
    for part in parts[:-1]:
        lines.feed(part, "batch")
    with pytest.raises(BadRequest, match="must not name files"):
        lines.feed(parts[-1], "batch")


@pytest.mark.parametrize("body", [
    b'{"container":{"skills":[{"type":"anthropic","type":"custom","skill_id":"ID"}]}}',
    b'{"container":{"skills":[{"type":"custom","type":"anthropic","skill_id":"ID"}]}}',
    b'{"type":"anthropic","container":"ID"}',
    b'{"tools":[{"type":"x_call","type":"file_search","vector_store_ids":["ID"]}]}',
    b'{"tools":[{"type":"file_search","type":"x_call","vector_store_ids":["ID"]}]}',
])  # fmt: skip
def test_a_type_that_is_added_hides_no_id(body: bytes) -> None:
    fields = frozenset({"skill_id", "container", "vector_store_ids"})
    assert objects_of(body, fields).used == {"ID"}


def test_ids_that_need_no_check() -> None:
    fields = frozenset({"skill_id", "container", "vector_store_ids"})
    assert not objects_of(b'{"container":{"skills":[{"type":"anthropic","skill_id":"pdf"}]}}', fields)
    found = objects_of(b'{"input":[{"type":"file_search_call","vector_store_ids":["vs_1"]}]}', fields)
    assert not found.used
    assert found.echoed == {"vs_1"}


def test_uploads_in_parts_are_not_for_batches(gateway: Gateway, up: ScriptedUpstream) -> None:
    body = {"purpose": "batch", "filename": "a", "bytes": 1, "mime_type": "application/jsonl"}
    answer = ask(gateway, "bob", "POST", "/uploads", body)
    assert (answer.status_code, answer.json()["error"]["param"], up.requests) == (400, "purpose", [])


def test_threads_of_messages_belong_to_the_key(gateway: Gateway, up: ScriptedUpstream) -> None:
    usage = {"input_tokens": 1, "output_tokens": 1}
    said = {"id": "msg_thread", "type": "message", "role": "assistant", "content": [], "model": "text", "usage": usage}
    up.say(json_answer(200, [], {**said, "stop_reason": "end_turn"}))
    body = {"model": "messages/text", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    assert uses(gateway, "alice", {**body, "thread": {"type": "create"}})
    thread_id = {"type": "continue", "previous_message_id": "msg_thread"}
    until(lambda: uses(gateway, "alice", {**body, "thread": thread_id}))
    assert not uses(gateway, "bob", {**body, "thread": thread_id})
