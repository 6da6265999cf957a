"""Make the screenshots of docs/console.md again: `python -m tests.console.screenshots docs/images`.

A gateway with invented traffic and an invented month of usage is looked at in Chromium.
"""

from __future__ import annotations

import base64
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.console.chromium import Console, chromium, console
from tests.gateway.pooling import ADMIN, Pooled, accepting, account, pooled, secret
from tests.gateway.running import CLIENT_KEY
from tests.scripted import thread
from trilogue.app.stores import ledger_tables
from trilogue.gateway.features.usage.ledger.live_file import Counts, RowName
from trilogue.storage.locations import ACCOUNTS_FILE, Locations, state_file

WIDTH, HEIGHT, PHONE = 1280, 860, (390, 780)
QUALITY = 72
ACCOUNTS = {"team-a": "text", "team-b": "error-429", "main": "slow-9-60", "backup": "text", "prod": "reasoning"}
CONFIG = f"""\
keys: [{{name: laptop, key: env:TRILOGUE_KEY}}]
{ADMIN}
providers:
  anthropic:
    protocol: anthropic_messages
    base_url: UPSTREAM
    accounts: [{account("team-b", "priority: 1")}, {account("team-a", "priority: 2")}]
  deepseek:
    protocol: openai_chat_completions
    base_url: UPSTREAM/v1
    accounts: [{account("main", "priority: 1")}, {account("backup", "priority: 2")}]
  openai:
    protocol: openai_responses
    base_url: UPSTREAM/v1
    accounts: [{account("prod")}]
routes:
  - {{match: claude-sonnet-4-6, targets: [{{provider: deepseek, model: deepseek-chat}}, {{provider: anthropic}}]}}
policies:
  no-secrets: redact
  no-shell: {{use: tools, rules: [{{tools: [Bash], deny: [Paris], reason: the command leaves the project}}]}}
model_policies: {{openai/gpt-5.2: [no-secrets, no-shell]}}
"""
TOOL = {"name": "read_file", "description": "Reads a file.", "input_schema": {"type": "object", "properties": {}}}
AGENT = {
    "model": "claude-sonnet-4-6",
    "max_tokens": 500,
    "top_k": 40,
    "system": [{"type": "text", "text": "You are a careful assistant.", "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": "Which words come after each other?"}],
    "tools": [TOOL],
}
CHAT = {"model": "claude-opus-4-8", "messages": [{"role": "user", "content": "Hello"}], "seed": 7}
RESPONSE = {"model": "gpt-5.2", "input": "Hello", "reasoning": {"effort": "low"}}
TRAFFIC: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", CHAT),
    ("/v1/responses", RESPONSE | {"stream": True}),
    ("/v1/messages", AGENT | {"model": "claude-opus-4-8"}),
    ("/v1/chat/completions", CHAT | {"model": "no-such-model"}),
    ("/v1/messages", AGENT),
    ("/v1/chat/completions", CHAT | {"model": "deepseek/deepseek-chat"}),
    ("/v1/responses", RESPONSE | {"model": "claude-sonnet-4-6", "stream": True}),
    ("/v1/chat/completions", CHAT | {"stream": True}),
    ("/v1/responses", RESPONSE),
    ("/v1/messages", AGENT | {"model": "claude-opus-4-8", "stream": True}),
    ("/v1/messages", AGENT | {"stream": True}),
]
JUDGED = AGENT | {
    "model": "openai/gpt-5.2",
    "stream": True,
    "messages": [{"role": "user", "content": "Tidy up, and tell jane@example.org."}],
    "tools": [TOOL | {"name": "Bash"}, TOOL],
}
USERS = [
    ("laptop", "claude-opus-4-8", "claude-opus-4-8", "anthropic", "team-a", (9000, 600), (5, 0.5, 25)),
    ("ci", "claude-sonnet-4-6", "deepseek-chat", "deepseek", "main", (11000, 450), (0.28, 0.028, 0.42)),
    ("team", "gpt-5.2", "gpt-5.2", "openai", "prod", (5000, 700), (1.75, 0.175, 14)),
]

KEYS: dict[str, dict[str, object]] = {
    "trainee": {"owner": "team-a", "expires": "30d"},
    "notebook": {"owner": "team-a", "limits": {"requests_per_minute": 60}},
    "ci": {"owner": "platform", "models": ["claude-*"], "limits": {"tokens_per_day": 5_000_000}, "expires": "90d"},
}


def month(now: float) -> list[tuple[int, RowName, Counts]]:
    """Return an invented month: office hours, quiet weekends."""
    chance = random.Random(5)
    rows: list[tuple[int, RowName, Counts]] = []
    for hour in range(int(now) // 3600 - 31 * 24, int(now) // 3600):
        day = time.gmtime(hour * 3600)
        busy = (1 if 7 <= day.tm_hour < 19 else 0.25) * (0.3 if day.tm_wday > 4 else 1)
        for key, model, upstream_model, provider, name, (size, output), (fresh, cached, written) in USERS:
            number = max(1, int(chance.gauss(14, 5) * busy))
            read, new, out = int(size * 0.8) * number, int(size * 0.2) * number, output * number
            counts = Counts(
                requests=number,
                errors=chance.randrange(2),
                fresh=new,
                cache_read=read,
                output=out,
                cost=int((new * fresh + read * cached + out * written) * 1e6),
            )
            rows.append((len(rows), RowName(hour, key, "", model, upstream_model, provider, name), counts))
    return rows


@contextmanager
def busy_gateway(folder: Path) -> Iterator[Pooled]:
    """Run a gateway that has handled the traffic and captured it."""
    up = accepting(*ACCOUNTS)
    up.by_key = {secret(name): scenario for name, scenario in ACCOUNTS.items()}
    places = Locations(state_file({"XDG_STATE_HOME": str(folder)}, ACCOUNTS_FILE, folder / "trilogue.yaml"))
    places.accounts.parent.mkdir(parents=True, exist_ok=True)
    tables = ledger_tables(places)
    if tables is not None:
        tables.add("history", month(time.time()))
        tables.close()
    with thread.running(up), pooled(folder, CONFIG, up) as pool:
        pool.admin.post("/capture", json={"requests": 100, "lease_seconds": 600})
        with httpx2.Client(base_url=pool.gateway.url, headers={"x-api-key": CLIENT_KEY}, timeout=20) as client:
            for _ in range(2):
                for path, request in TRAFFIC:
                    client.post(path, json=request)
        for name, options in KEYS.items():
            pool.admin.post("/keys", json={"name": name, **options})
        pool.admin.put("/keys/ci", json={"budget": {"month": 50}})
        pool.admin.post("/keys/notebook/rotate")
        pool.admin.post("/keys/trainee/revoke")
        pool.admin.post("/accounts/anthropic/team-b/reset")
        yield pool


def save(tab: Console, file: Path) -> None:
    """Write what the window shows."""
    tab.page.wait_for_timeout(400)
    client = tab.page.context.new_cdp_session(tab.page)
    shot = client.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    file.write_bytes(base64.b64decode(shot["data"]))


def take(pool: Pooled, folder: Path) -> None:
    """Take all screenshots."""
    url = str(pool.admin.base_url).rstrip("/")
    with chromium() as browser:
        with console(browser, url, width=WIDTH) as tab:
            tab.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
            tab.sign_in()
            for view in ("requests", "usage", "accounts", "keys", "audit"):
                tab.open(view)
                save(tab, folder / f"console-{view}.webp")
            tab.open("requests/last")
            tab.page.get_by_role("heading", name="Phases").scroll_into_view_if_needed()
            tab.page.evaluate("document.getElementById('phases-title').scrollIntoView(); scrollBy(0, -60)")
            save(tab, folder / "console-phases.webp")
            pool.up.by_key[secret("prod")] = "parallel-tools"
            httpx2.post(f"{pool.gateway.url}/v1/messages", headers={"x-api-key": CLIENT_KEY}, json=JUDGED)
            tab.open("requests")
            tab.open("requests/last")
            tab.page.get_by_role("heading", name="Policies").wait_for()
            save(tab, folder / "console-policies.webp")
        with console(browser, url, width=WIDTH, dark=True) as tab:
            tab.page.set_viewport_size({"width": WIDTH, "height": HEIGHT + 200})
            tab.sign_in()
            tab.open("performance")
            save(tab, folder / "console-performance.webp")
            tab.open("routes")
            tab.page.get_by_role("button", name="Use an example").click()
            request = tab.page.get_by_label("A request, as a client sends it")
            tab.page.wait_for_function("document.getElementById('request').value")
            request.fill(request.input_value().replace('"model": ""', '"model": "claude-sonnet-4-6"'))
            tab.page.get_by_role("button", name="Check").click()
            tab.page.get_by_role("heading", name="deepseek/deepseek-chat").wait_for()
            tab.page.evaluate("scrollTo(0, 150)")
            save(tab, folder / "console-dry-run.webp")
        with console(browser, url, width=PHONE[0]) as tab:
            tab.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
            tab.sign_in()
            tab.open("requests")
            save(tab, folder / "console-phone.webp")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as state, busy_gateway(Path(state)) as gateway:
        take(gateway, target)
