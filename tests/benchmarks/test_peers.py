"""The other gateways: everything that can be checked without starting them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import litellm, nginx, portkey
from benchmarks.peer import Peer, clean_environment
from benchmarks.peers import NAMES, peers
from benchmarks.traffic import MODELS, PATHS
from tests.benchmarks.sample import PYTHON
from trilogue.model import Protocol

UPSTREAM = "http://127.0.0.1:9100"
PEERS = peers(PYTHON)


def nginx_lines(*, root: bool = False) -> list[str]:
    text = nginx.config(8123, UPSTREAM, root=root, files=4096)
    return [line.strip() for line in text.splitlines()]


def test_nginx_relays_with_one_worker_and_without_a_log() -> None:
    lines = nginx_lines()
    for expected in (
        "daemon off;",
        "worker_processes 1;",
        "worker_rlimit_nofile 4096;",
        "worker_connections 40000;",
        "access_log off;",
        "client_max_body_size 64m;",
        "listen 127.0.0.1:8123 backlog=4096;",
        "server 127.0.0.1:9100;",
        "keepalive 1024;",
        "proxy_http_version 1.1;",
        'proxy_set_header Connection "";',
        "proxy_buffering off;",
    ):
        assert expected in lines


def test_nginx_configuration_is_balanced_and_names_a_user_only_for_root() -> None:
    text = "\n".join(nginx_lines())
    assert text.count("{") == text.count("}")
    assert "user root;" not in nginx_lines()
    assert "user root;" in nginx_lines(root=True)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_peer_passes_all_that_it_relays_to_the_path_of_the_client(peer: Peer) -> None:
    assert (Protocol.CHAT, Protocol.CHAT) in peer.routes
    for (client, _), route in peer.routes.items():
        assert route.path == PATHS[client]
        assert route.model_for("bench-100-10").endswith("bench-100-10")
        assert not any("{" in value for value in route.headers_for(UPSTREAM).values())


def test_names_are_in_the_order_of_the_peers() -> None:
    assert tuple(peer.name for peer in PEERS) == NAMES


def test_every_interpreter_has_a_litellm_of_its_own(tmp_path: Path) -> None:
    other = replace(PYTHON, path="/opt/python3")
    homes = {litellm.home(tmp_path, one) for one in (PYTHON, other, replace(PYTHON, version="3.99.0"))}
    assert len(homes) == 3
    litellm.home(tmp_path, PYTHON).mkdir()
    (litellm.home(tmp_path, PYTHON) / "installed").touch()
    assert PEERS[1].prepare(tmp_path) is None


def test_pairs_are_those_that_work() -> None:
    pairs = {peer.name: set(peer.routes) for peer in PEERS}
    same = {(protocol, protocol) for protocol in Protocol}
    assert pairs["nginx"] == same
    assert pairs["LiteLLM"] == {(client, upstream) for client in Protocol for upstream in Protocol}
    assert pairs["Portkey"] == same | {(Protocol.CHAT, Protocol.MESSAGES)}


def test_litellm_knows_every_model_that_its_routes_name_and_asks_for_the_same_key() -> None:
    config = json.loads(json.dumps(litellm.config(UPSTREAM)))
    rows = {row["model_name"]: row for row in config["model_list"]}
    for route in litellm.ROUTES.values():
        for model in MODELS:
            assert "model_info" in rows[route.model_for(model)]
        assert "model_info" not in rows[route.model_for("*")]
        assert route.headers["authorization"] == f"Bearer {config['general_settings']['master_key']}"


def test_litellm_reaches_each_protocol_of_the_upstream() -> None:
    rows = {upstream: litellm.deployment("bench-1-0", upstream, UPSTREAM) for upstream in Protocol}
    params = {upstream: json.loads(json.dumps(row["litellm_params"])) for upstream, row in rows.items()}
    assert params[Protocol.CHAT]["model"] == "hosted_vllm/bench-1-0"
    assert params[Protocol.MESSAGES]["model"] == "anthropic/bench-1-0"
    assert params[Protocol.MESSAGES]["api_base"] == UPSTREAM
    assert params[Protocol.RESPONSES]["model"] == "openai/responses/bench-1-0"


def test_portkey_gets_the_upstream_with_every_request() -> None:
    for route in portkey.ROUTES.values():
        assert route.headers_for(UPSTREAM)["x-portkey-custom-host"] == f"{UPSTREAM}/v1"
    assert json.loads(json.dumps(portkey.package()))["overrides"] == {"@hono/node-server": "1.13.8"}


def test_a_program_does_not_inherit_the_callers_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid")
    assert set(clean_environment(tmp_path, EXTRA="1")) == {"PATH", "HOME", "LANG", "EXTRA"}
