"""Everything that an earlier version wrote to disk opens, and has kept its content.

A gateway and the commands use a copy of a state folder that was written by `python -m tests.earlier --write` with that
version. Their clocks go on from the moment at which it was written. Nothing is imported that is not public.

Not among the files: metrics of workers, capture sessions and other files that workers share only while they run (they
are in a temporary folder, which goes with the gateway), and what only a cluster has (`node.id`, copies of seal keys).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.earlier.folders import CONFIG, HERE, STATE, blocks_of, copy_of, versions, write_blocks
from tests.earlier.place import ROOT, Place, Running
from tests.earlier.writing import FOLLOW_UP, QUESTION, TOOL, chat, ok
from tests.scripted import thread
from tests.scripted.http import json_answer
from tests.scripted.server import ScriptedUpstream

PLACES = ("user", "elsewhere")
"""the configuration file in the user's config folder, and one whose path is part of the names of its files"""
OWN = ("pool.db", "keys.db", "keys.made", "responses.db", "usage.db", "usage.live", "limits.dat")
"""what each configuration file has of its own"""
SHARED = ("seal.key", "admin.key", "accounts.vault", "vault.key", "captures")


USAGE = ("usage", "--by", "key", "--since", "all")
EACH = pytest.mark.parametrize(("version", "where"), [(version, where) for version in versions() for where in PLACES])


class Upgraded(NamedTuple):
    """A gateway of today with files of an earlier version."""

    place: Place
    gateway: Running
    known: dict[str, Any]
    up: ScriptedUpstream

    def ask(self, key: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send a request with the key of this name, which must succeed."""
        return ok(self.gateway.ask(self.known["keys"][key], path, body))


def placed(version: str, where: str, home: Path, url: str) -> tuple[Place, dict[str, Any]]:
    """Return a place with a copy of the files of a version, whose clock goes on from there."""
    file = None if where == "user" else home / "gateways" / "work.yaml"
    config = (HERE / version / CONFIG).read_text().replace("UPSTREAM", url)
    place = Place(home, config, file)
    known = copy_of(version, place.state)
    place.shift = known["written"] + 1 - time.time()
    for name in OWN if place.suffix else ():
        path = place.state / name
        path.rename(path.with_stem(path.stem + place.suffix))
    return place, known


@pytest.fixture(scope="module", params=[(version, where) for version in versions() for where in PLACES], ids="-".join)
def upgraded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    version, where = request.param
    with thread.running() as up:
        place, known = placed(version, where, tmp_path_factory.mktemp("home"), up.url)
        with place.gateway() as gateway:
            # Before anything else: a minute later this limit would be free again.
            known["hasty"] = chat(gateway, known["keys"]["hasty"])
            yield Upgraded(place, gateway, known, up)
    assert "broken" not in " ".join(path.name for path in place.state.rglob("*")), "a file was set aside as damaged"


@pytest.mark.parametrize("version", versions())
def test_every_kind_of_file_is_kept(version: str) -> None:
    """All that the backup table of docs/deployment.md names is there, but for what is made anew."""
    page = (ROOT / "docs" / "deployment.md").read_text("utf-8").partition("| file | what is lost without it |")[2]
    rows = re.findall(r"^\| (.*?) \|", page.partition("\n\n")[0], re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([^`]+)`", row) if "…" not in name} - {"node.id"}
    assert listed == {*OWN, *SHARED}
    names = {path.relative_to(HERE / version / STATE).parts[0] for path in (HERE / version / STATE).rglob("*")}
    assert {name.removesuffix(".blocks") for name in names} == {*OWN, *SHARED}


def test_keys_work_unless_they_were_revoked(upgraded: Upgraded) -> None:
    assert upgraded.ask("laptop", "/v1/models")["data"]
    assert upgraded.gateway.ask(upgraded.known["keys"]["lost"], "/v1/models").status_code == 401
    listed = {line["name"]: line["status"] for line in upgraded.place.lines("keys", "list")}
    assert listed.pop("lost") == "revoked"
    assert listed == dict.fromkeys(("laptop", "spender", "hasty"), "active")


@EACH
def test_a_missing_database_of_keys_lets_nobody_in(version: str, where: str, tmp_path: Path) -> None:
    """That keys were made is remembered in a file of its own. Who deletes that as well needs no key."""
    place, _ = placed(version, where, tmp_path, "http://127.0.0.1:9")
    lines = place.file.read_text().splitlines(keepends=True)
    place.file.write_text("".join(line for line in lines if not line.startswith("keys:")))
    (place.state / f"keys{place.suffix}.db").unlink()
    for status in (401, 200):
        with place.gateway() as gateway:
            assert gateway.ask("none", "/v1/models").status_code == status
        for name in ("made", "db"):
            (place.state / f"keys{place.suffix}.{name}").unlink(missing_ok=True)


def test_the_audit_log_has_every_entry(upgraded: Upgraded) -> None:
    found = [[line["what"], line["subject"]] for line in upgraded.place.lines("audit")]
    assert found == upgraded.known["audit"]
    assert {what for what, _ in found} >= {"create key", "revoke key", "disable account", "sign in", "start capture"}


def test_budgets_are_spent_and_limits_are_used(upgraded: Upgraded) -> None:
    """The budget refuses the next request, and a limit for each minute, which only `limits.dat` has, does as well."""
    refused = chat(upgraded.gateway, upgraded.known["keys"]["spender"])
    assert refused.json()["error"]["code"] == upgraded.known["refusal"] == "budget_exceeded"
    assert upgraded.known["hasty"].status_code == 429


def test_usage_has_every_request(upgraded: Upgraded) -> None:
    """Also those that only the live file of a worker has that was killed."""
    usage = {line["key"]: line for line in upgraded.place.lines(*USAGE) if "key" in line}
    kept = {line["key"]: line for line in upgraded.known["usage"] if "key" in line}
    assert set(kept) == {"ci", "laptop", "spender", "hasty"}
    assert {name: usage[name] for name in ("spender", "hasty")} == {name: kept[name] for name in ("spender", "hasty")}
    assert usage["laptop"]["requests"] >= kept["laptop"]["requests"]


@EACH
def test_usage_of_a_killed_worker_is_in_its_live_file(version: str, where: str, tmp_path: Path) -> None:
    """Commands read it without a gateway, and the test above would notice nothing if the table had it as well."""
    place, known = placed(version, where, tmp_path, "http://127.0.0.1:9")
    assert place.lines(*USAGE) == known["usage"]
    (live,) = place.state.glob("*.live")
    live.rename(tmp_path / "elsewhere")
    assert "hasty" not in [line.get("key") for line in place.lines(*USAGE)]


def test_stored_responses_are_read_and_continued(upgraded: Upgraded) -> None:
    response, continued = upgraded.known["response"], upgraded.known["continued"]
    assert upgraded.ask("laptop", f"/v1/responses/{response['id']}") == response
    assert upgraded.ask("laptop", f"/v1/responses/{continued['id']}") == continued
    asked = {"model": "messages/text", "input": "And now?", "previous_response_id": continued["id"]}
    assert upgraded.ask("laptop", "/v1/responses", asked)["status"] == "completed"
    sent = json.dumps(upgraded.up.last("/v1/messages").json)
    assert sent.index(QUESTION) < sent.index(FOLLOW_UP) < sent.index("And now?")
    assert upgraded.gateway.ask(upgraded.known["keys"]["ci"], f"/v1/responses/{response['id']}").status_code == 404


def test_a_conversation_is_read_and_continued(upgraded: Upgraded) -> None:
    made, items = upgraded.known["conversation"], upgraded.known["items"]
    assert upgraded.ask("laptop", f"/v1/conversations/{made['id']}") == made
    assert upgraded.ask("laptop", f"/v1/conversations/{made['id']}/items")["data"][-len(items) :] == items
    asked = {"model": "messages/text", "input": "And now?", "conversation": made["id"]}
    assert upgraded.ask("laptop", "/v1/responses", asked)["status"] == "completed"
    assert QUESTION in json.dumps(upgraded.up.last("/v1/messages").json)


def test_a_background_response_is_read(upgraded: Upgraded) -> None:
    background = upgraded.known["background"]
    assert upgraded.ask("laptop", f"/v1/responses/{background['id']}") == background


def test_sealed_reasoning_opens(upgraded: Upgraded) -> None:
    """A client sends back what an earlier version sealed for it, and the upstream gets its own value."""
    messages = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": upgraded.known["sealed"]},
        {"role": "user", "content": "And now?"},
    ]
    asked = {"model": "responses/text", "max_tokens": 2000, "thinking": {"type": "adaptive"}, "messages": messages}
    upgraded.ask("laptop", "/v1/messages", asked)
    sent = [item for item in upgraded.up.last("/v1/responses").json["input"] if item.get("type") == "reasoning"]
    assert [item["encrypted_content"][:6] for item in sent] == ["gAAAAA"]


def test_kept_reasoning_is_put_back(upgraded: Upgraded) -> None:
    """Reasoning that a client cannot send back comes from the store."""
    asked = {"model": "messages/reasoning-tools", "messages": upgraded.known["remembered"], "tools": [TOOL]}
    upgraded.ask("laptop", "/v1/chat/completions", {**asked, "reasoning_effort": "high"})
    sent = upgraded.up.last("/v1/messages").json["messages"]
    (turn,) = [turn for turn in sent if turn["role"] == "assistant"]
    assert [block["type"] for block in turn["content"]] == ["thinking", "tool_use"]


def test_an_object_belongs_to_its_key(upgraded: Upgraded) -> None:
    """The key that made it gets it from the upstream, and another key an error that tells nothing."""
    path = f"/v1/batches/{upgraded.known['object']}"
    assert upgraded.gateway.ask(upgraded.known["keys"]["ci"], path).status_code == 404
    upgraded.up.say(json_answer(200, [], {"id": upgraded.known["object"], "object": "batch"}))
    assert upgraded.ask("laptop", path)["id"] == upgraded.known["object"]


def test_the_account_and_its_stored_key_are_as_before(upgraded: Upgraded) -> None:
    """The key of the Chat account is in the vault: its requests would be refused without it."""
    ok(chat(upgraded.gateway, upgraded.known["keys"]["ci"]))
    states = {f"{line['provider']}/{line['account']}": line["state"] for line in upgraded.place.lines("accounts")}
    assert states["messages/two"] == "disabled"
    assert states["messages/one"] == states["chat/house"] == "ready"


def test_a_session_of_the_console_goes_on_unless_it_was_ended(upgraded: Upgraded) -> None:
    """The generated key of the administrators is the one that made the session."""
    assert ok(upgraded.gateway.browse("GET", "/console/session", upgraded.known["session"]))["signed_in"]
    assert upgraded.gateway.browse("GET", "/me", upgraded.known["session"]).status_code == 200
    assert upgraded.gateway.browse("GET", "/me", upgraded.known["ended_session"]).status_code == 401


def test_a_capture_is_shown_and_replayed(upgraded: Upgraded) -> None:
    kept = upgraded.known["capture"]
    assert kept in ok(upgraded.gateway.administer("/captures"))["captures"]
    (file,) = (upgraded.place.state / "captures").glob("*.jsonl")
    assert upgraded.place.command("replay", str(file), config=False)


def test_what_is_stored_can_be_exported(upgraded: Upgraded) -> None:
    """The commands find the same files as the gateway."""
    (line,) = [line for line in upgraded.place.lines("state") if line["key"] == "laptop"]
    assert line["responses"] >= 4
    assert QUESTION in upgraded.place.command("state", "export", "--key", "laptop")


def test_a_sparse_file_is_kept_as_its_blocks(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"head" + bytes(20_000) + b"tail" + bytes(9_000))
    write_blocks(second, blocks_of(first))
    assert second.read_bytes() == first.read_bytes()
    assert len(blocks_of(first)["blocks"]) == 2
