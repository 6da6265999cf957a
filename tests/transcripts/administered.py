"""Cases: the admin interface, and captures."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from tests.timing import eventually
from tests.transcripts.gateway import OPERATOR_KEY, PATIENCE, VIEWER_KEY, Stage
from tests.transcripts.group import KEYS, Group, Run, asking, providers, server, word
from trilogue import Protocol

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
CONFIG = (
    KEYS
    + server()
    + providers("accounts: [{name: only, key: up-key, balance: 5}], prices: {text: {input: 2, output: 8}}")
    + """\
admin:
  key: env:ADMIN_KEY
  port: 0
  keys: [{name: vera, key: env:VIEWER_KEY, role: viewer}, {name: otto, key: env:OPERATOR_KEY, role: operator}]
aliases: {house: chat/text}
routes: [{match: "m-*", targets: [messages/text, chat/text]}]
"""
)
PAGES = (
    "accounts",
    "approvals",
    "keys",
    "audit",
    "me",
    "requests",
    "requests/last",
    "requests/req_unknown",
    "decisions",
    "decisions?request_id=req_unknown",
    "capture",
    "captures",
    "captures/req_unknown",
    "nodes",
    "usage",
    "usage?by=model,key&since=all",
    "usage?by=model&since=all&format=csv",
    "usage?by=nothing",
    "routes",
    "routes/house",
    "routes/m-one?protocol=messages",
    "routes/nowhere/text",
    "console",
    "console/",
    "console/session",
    "console/sign-on",
    "console/sign-on/callback",
    "console/nothing.js",
    "nothing",
    "",
)


def _page(path: str, **more: Any) -> Run:
    return lambda stage: stage.admin("GET", f"/{path}", **more)


def _about(shown: Callable[[str], str]) -> Run:
    """Return a case that asks for something about a request that it has just made."""

    def run(stage: Stage) -> None:
        made = stage.send(asking(C, "messages/text"))
        stage.more_lines(0)
        stage.admin("GET", shown(made.headers["x-request-id"]))

    return run


def _metrics(stage: Stage) -> None:
    """The names, helps and labels of all metrics, without their values."""
    page = stage.admin("GET", "/metrics", show=False).body.decode()
    lines = sorted(
        {line if line.startswith("#") else line.partition(" ")[0].partition("{")[0] for line in page.split("\n")}
    )
    stage.say("\n".join(lines))


def _keys(stage: Stage) -> None:
    """A key is made, used, changed, rotated, and revoked; and what the audit log has about it."""
    made = stage.admin("POST", "/keys", {"name": "alice", "owner": "team", "models": ["chat/*"]}).json
    stage.send(asking(C, "chat/text", key=made["key"]))
    stage.send(asking(C, "messages/text", key=made["key"]))
    for method, path, value in (
        ("GET", "/keys/alice", None),
        ("PUT", "/keys/alice", {"models": []}),
        ("PUT", "/keys/alice", {"nothing": 1}),
        ("POST", "/keys", {"name": "alice"}),
        ("POST", "/keys/alice/rotate", {"overlap_seconds": 3600}),
        ("POST", "/keys/alice/revoke", {}),
        ("GET", "/keys/nobody", None),
        ("GET", "/keys", None),
        ("GET", "/audit?limit=10", None),
    ):
        stage.admin(method, path, value)
    stage.send(asking(C, "chat/text", key=made["key"]))


def _accounts(stage: Stage) -> None:
    for action, value in (("disable", {}), ("enable", {}), ("balance", {"balance": 12.5}), ("nothing", {})):
        stage.admin("POST", f"/accounts/messages/only/{action}", value)
        if action == "disable":
            stage.send(asking(M, "messages/text"))
    stage.admin("POST", "/accounts/nowhere/only/disable", {})


def _dry_runs(stage: Stage) -> None:
    for client, model in product((C, M, R), ("house", "m-one", "nowhere/text")):
        value = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}
        if client is R:
            value = {"model": model, "input": "Hi"}
        stage.admin("POST", "/dry-run", {"request": value, "protocol": client.short})
    stage.admin("POST", "/dry-run", {"request": "{"})


def _session(stage: Stage) -> None:
    """A capture session takes one request, and ends."""
    made = stage.admin("POST", "/capture", {"requests": 1, "redact": True, "lease_seconds": 60}).json
    stage.captures.append(stage.send(asking(M, "chat/text", stream=True)).headers["x-request-id"])
    stage.more_lines(0)
    eventually(lambda: stage.admin("GET", "/captures", show=False).json["captures"], PATIENCE)
    stage.admin("DELETE", f"/capture/{made.get('session', {}).get('id', made.get('id', ''))}")


def _roles(stage: Stage) -> None:
    for key in (VIEWER_KEY, OPERATOR_KEY, "client-key-canary-5f0c", "nobody", None):
        for method, path in (("GET", "/me"), ("GET", "/keys"), ("GET", "/approvals"), ("POST", "/dry-run")):
            stage.admin(method, path, {} if method == "POST" else None, key=key)


def _administered() -> dict[str, Run]:
    cases: dict[str, Run] = {
        "request": _about(lambda name: f"/requests/{name}"),
        "decision": _about(lambda name: f"/decisions?request_id={name}"),
        "requests": _about(lambda _: "/requests?limit=1"),
        "keys": _keys,
        "accounts": _accounts,
        "dry runs": _dry_runs,
        "capture session": _session,
        "metrics": _metrics,
        **{f"GET /{path}": _page(path) for path in PAGES},
        "roles": _roles,
        "head": lambda stage: stage.admin("HEAD", "/accounts"),
        "options": lambda stage: stage.admin("OPTIONS", "/accounts"),
        "wrong method": lambda stage: stage.admin("DELETE", "/accounts"),
        "bad JSON": lambda stage: stage.admin("POST", "/dry-run", b"{"),
    }
    return cases


CAPTURING = KEYS + "admin: {key: env:ADMIN_KEY, port: 0}\n" + server() + providers() + "capture: {sample: 1}\n"


def _capture(data: bytes) -> Run:
    def run(stage: Stage) -> None:
        stage.captures.append(stage.send(data).headers["x-request-id"])

    return run


def _captured() -> dict[str, Run]:
    cases: dict[str, Run] = {}
    for client, upstream, stream in (
        (C, C, False),
        (M, M, True),
        (C, R, False),
        (M, C, True),
        (R, M, True),
    ):
        cases[f"{client.short}-{upstream.short} {word(stream)}"] = _capture(
            asking(client, f"{upstream.short}/reasoning-tools", stream=stream, calls=True)
        )
    for scenario, client, stream in (
        ("error-400", M, False),
        ("error-500", R, True),
        ("stream-error-mid", C, True),
        ("truncate-mid", M, True),
    ):
        cases[f"{scenario} {client.short}"] = _capture(asking(client, f"messages/{scenario}", stream=stream))
    return cases


GROUPS = (
    Group("admin", CONFIG, _administered()),
    Group("captures", CAPTURING, _captured()),
)
