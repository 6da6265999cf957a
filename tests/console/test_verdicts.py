"""The verdicts of policies on the page of a request, in `trilogue explain` and in the admin interface."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner
from playwright.sync_api import expect

from tests.console.chromium import NO_CHROMIUM, Console, chromium, chromium_path, console
from tests.gateway.pooling import ADMIN_KEY, Pooled, accepting, account, config, pooled, secret
from tests.gateway.running import CLIENT_KEY
from tests.scripted import thread
from trilogue.app.cli.explain import explain

pytestmark = pytest.mark.slow

PHONE = 390
SECRET = "jane@example.org"
POLICIES = """\
aliases: {agent: chat/some-model}
policies:
  no-weather: {use: tools, deny: [get_weather], words: Ask at the harbour.}
  no-hello: {use: block_phrases, phrases: [never said]}
server: {timeouts: {total: 8}, policies: [redact, no-weather, no-hello]}
"""
TOOLS = [
    {"name": name, "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
    for name in ("get_weather", "get_time")
]
REQUEST = {
    "model": "agent",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": f"How is the weather? Tell {SECRET}."}],
    "tools": TOOLS,
    "stream": True,
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """A gateway whose policies have changed a request and a response."""
    text = config([account("one")], more=POLICIES).partition("keys:")
    with (
        thread.running(accepting("one")) as up,
        pooled(tmp_path_factory.mktemp("verdicts"), "keys:" + text[2], up) as pool,
    ):
        up.by_key[secret("one")] = "parallel-tools"
        sent = httpx2.post(f"{pool.gateway.url}/v1/messages", headers={"x-api-key": CLIENT_KEY}, json=REQUEST)
        assert sent.status_code == 200
        assert "Ask at the harbour." in sent.text
        yield pool


@pytest.fixture(scope="module")
def decided(gateway: Pooled) -> list[dict[str, Any]]:
    """What the admin interface says about the policies of that request."""
    shown: dict[str, Any] = gateway.admin.get("/requests/last").json()
    return list(shown["policies"])


@pytest.mark.smoke
def test_the_admin_interface_has_each_verdict(decided: list[dict[str, Any]], gateway: Pooled) -> None:
    """Policy, stage, verdict, reason, block, kind, when, and how long; and no content."""
    assert [(one["policy"], one["stage"], one["verdict"]) for one in decided if one["stage"] == "request"] == [
        ("redact", "request", "rewrite"),
        ("no-weather", "request", "pass"),
        ("no-hello", "request", "pass"),
    ]
    stopped = [one for one in decided if one["verdict"] == "replace"]
    assert [(one["policy"], one["reason"], one["kind"]) for one in stopped] == [
        ("no-weather", "the tool is denied", "ToolCall")
    ]
    assert stopped[0]["block"] is not None
    assert all(one["at_ms"] >= 0 and one["duration_ms"] >= 0 for one in decided)
    assert SECRET not in gateway.admin.get("/requests/last").text


@pytest.mark.smoke
def test_explain_has_the_same(gateway: Pooled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRILOGUE_ADMIN_KEY", ADMIN_KEY)
    shown = CliRunner().invoke(explain, ["last", "--url", str(gateway.admin.base_url)])
    assert shown.exit_code == 0, shown.output
    lines = [line.strip() for line in shown.output.splitlines()]
    assert any(line.startswith("policies") and "redact: rewrite request: " in line for line in lines)
    assert any(line.startswith("no-weather: replace ToolCall (block ") for line in lines)


@pytest.fixture(scope="module")
def page(gateway: Pooled) -> Iterator[Console]:
    """The page of that request, in a browser."""
    if chromium_path() is None:
        pytest.skip(NO_CHROMIUM)
    with chromium() as browser, console(browser, str(gateway.admin.base_url).rstrip("/")) as tab:
        tab.sign_in()
        tab.open("requests/last")
        yield tab


def test_the_console_has_a_row_for_each_verdict(page: Console, decided: list[dict[str, Any]]) -> None:
    verdicts = page.page.get_by_role("table", name="Verdicts of policies, in their order")
    rows = verdicts.get_by_role("row")
    expect(rows).to_have_count(len(decided) + 1)
    expect(verdicts.get_by_role("columnheader")).to_have_text(["Policy", "Verdict", "About", "Reason", "After", "Took"])
    number = next(index for index, one in enumerate(decided) if one["verdict"] == "replace")
    blocked = rows.nth(number + 1)
    expect(blocked.get_by_role("rowheader")).to_have_text("no-weather")
    expect(blocked.get_by_role("cell").nth(0)).to_have_text("replace")
    expect(blocked.get_by_role("cell").nth(1)).to_have_text(f"block {decided[number]['block']} ToolCall")
    expect(blocked.get_by_role("cell").nth(2)).to_have_text("the tool is denied")
    expect(page.page.get_by_role("heading", name="Policies")).to_contain_text(f"of {len(decided)} passed")


def test_the_page_is_accessible_and_fits_a_phone(page: Console) -> None:
    assert page.violations() == []
    page.page.set_viewport_size({"width": PHONE, "height": 780})
    assert not page.scrolls_sideways()
    expect(page.page.get_by_text("the tool is denied")).to_be_visible()
