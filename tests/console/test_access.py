"""Roles, keys, the audit log and single sign-on in the console, in a real Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.console.chromium import NO_CHROMIUM, Console, chromium, chromium_path, console
from tests.gateway.oidc import CLIENT_ID, CLIENT_SECRET, Provider, provider
from tests.gateway.pooling import ADMIN, Pooled, accepting, config, pooled, ranked
from tests.gateway.running import CLIENT_KEY
from tests.scripted import thread

pytestmark = [pytest.mark.slow, pytest.mark.skipif(chromium_path() is None, reason=NO_CHROMIUM)]

VIEWER = "viewer-key-canary-1"
OPERATOR = "operator-key-canary-2"
SETTINGS = f"""\
admin:
  key: env:ADMIN_KEY
  port: 0
  keys:
    - {{name: watcher, key: {VIEWER}, role: viewer}}
    - {{name: on-call, key: {OPERATOR}, role: operator}}
  sign_on:
    groups: {{ops: operator}}
    oidc: {{issuer: ISSUER, client_id: {CLIENT_ID}, client_secret: env:OIDC_SECRET}}
"""
REQUEST = {"model": "chat/some-model", "max_tokens": 9, "messages": [{"role": "user", "content": "A secret prompt"}]}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Provider]:
    with provider() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(issuer: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """A gateway that has captured a request."""
    text = config(ranked("one")).replace(ADMIN, SETTINGS.replace("ISSUER", issuer.url))
    folder, environ = tmp_path_factory.mktemp("access"), {"OIDC_SECRET": CLIENT_SECRET}
    with thread.running(accepting("one")) as up, pooled(folder, text, up, environ=environ) as pool:
        assert pool.admin.post("/capture", json={"requests": 1, "lease_seconds": 600}).status_code == 200
        url = f"{pool.gateway.url}/v1/messages"
        assert httpx2.post(url, headers={"x-api-key": CLIENT_KEY}, json=REQUEST).status_code == 200
        yield pool


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def tab(browser: Browser, gateway: Pooled) -> Iterator[Console]:
    with console(browser, str(gateway.admin.base_url).rstrip("/")) as opened:
        yield opened


def test_a_viewer_sees_no_buttons_and_no_prompts(tab: Console) -> None:
    tab.sign_in(VIEWER)
    page = tab.page
    expect(page.locator("#who")).to_have_text("Signed in as watcher viewer")
    expect(page.get_by_role("navigation").get_by_role("link", name="Usage")).to_be_visible()
    for name in ("Keys", "Audit"):
        expect(page.get_by_role("navigation").get_by_role("link", name=name)).to_have_count(0)
    tab.open("accounts")
    expect(page.get_by_role("row", name="chat/one")).to_contain_text("ready")
    expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)
    tab.open("captures")
    expect(page.get_by_role("table").get_by_role("link")).to_have_count(1)
    expect(page.get_by_role("button", name="Start")).to_have_count(0)
    tab.open("requests/last")
    expect(page.get_by_text("It takes the role operator")).to_be_visible()
    expect(page.get_by_text("A secret prompt")).to_have_count(0)
    tab.open("keys")  # leads to the first view
    expect(page.get_by_role("heading", name="Requests", level=1)).to_be_visible()


def test_an_operator_changes_accounts_and_reads_captures(tab: Console) -> None:
    tab.sign_in(OPERATOR)
    page = tab.page
    expect(page.locator("#who")).to_have_text("Signed in as on-call operator")
    tab.open("accounts")
    page.get_by_role("button", name="Reset chat/one").click()
    expect(page.get_by_role("status").filter(has_text="chat/one: reset.")).to_be_visible()
    tab.open("requests/last")
    expect(page.get_by_text("A secret prompt").first).to_be_visible()
    expect(page.get_by_role("navigation").get_by_role("link", name="Keys")).to_have_count(0)


def test_keys_are_made_shown_once_rotated_and_revoked(tab: Console, gateway: Pooled) -> None:
    tab.sign_in()
    page = tab.page
    tab.open("keys")
    page.get_by_label("Name", exact=True).fill("alice")
    page.get_by_label("Owner").fill("team-a")
    page.get_by_label("Models").fill("chat/*, gpt-*")
    page.get_by_label("Requests a minute").fill("60")
    page.get_by_label("Dollars a month").fill("20")
    page.get_by_label("Expires").fill("30d")
    page.get_by_role("button", name="Make the key").click()
    expect(page.get_by_role("heading", name="The text of alice")).to_be_focused()
    text = page.get_by_label("Text of the key").input_value()
    headers = {"authorization": f"Bearer {text}"}
    assert httpx2.get(f"{gateway.gateway.url}/v1/models", headers=headers).status_code == 200
    made = gateway.admin.get("/keys/alice").json()
    assert (made["owner"], made["models"]) == ("team-a", ["chat/*", "gpt-*"])
    assert (made["limits"]["requests_per_minute"], made["budget"]["month"]) == (60, 20)
    row = page.get_by_role("row", name="alice")
    expect(row).to_contain_text("active")
    assert tab.violations() == []
    page.get_by_role("button", name="Done").click()
    assert text not in page.content()
    page.get_by_role("button", name="Rotate alice").click()
    dialog = page.get_by_role("dialog", name="Rotate alice")
    assert tab.violations() == []
    dialog.get_by_label("The old text works for").select_option("an hour")
    dialog.get_by_role("button", name="Rotate").click()
    expect(page.get_by_label("Text of the key")).not_to_have_value(text)
    expect(row).to_contain_text("2 texts work")
    page.get_by_role("button", name="Revoke alice").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Revoke alice")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Revoke alice").get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")
    expect(page.get_by_role("button", name="Revoke alice")).to_have_count(0)
    page.get_by_label("Name", exact=True).fill("alice")
    page.get_by_role("button", name="Make the key").click()
    expect(page.get_by_role("alert")).to_contain_text("there is a client key alice already")
    tab.problems.clear()  # the browser logs the status


def test_the_audit_log_shows_who_changed_what(tab: Console, gateway: Pooled) -> None:
    gateway.admin.post("/keys", json={"name": "bob"})
    gateway.admin.put("/keys/bob", json={"owner": "team-b"})
    for _ in range(110):
        gateway.admin.post("/accounts/chat/one/reset")
    tab.sign_in()
    page = tab.page
    tab.open("audit")
    rows = page.get_by_role("table").get_by_role("row").filter(has_text="account")
    first = page.get_by_role("table").get_by_role("row").nth(1)
    expect(first).to_contain_text("sign in")
    expect(first).to_contain_text("admin by console")
    expect(rows.first).to_contain_text("reset account")
    page.get_by_role("button", name="Show older changes").click()
    expect(page.get_by_role("row").filter(has_text="change key")).to_contain_text('options.owner: "team-b"')
    page.get_by_label("What").fill("create key")
    page.get_by_label("About").fill("bob")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("table").get_by_role("row")).to_have_count(2)
    assert page.url.endswith("#/audit?what=create+key&subject=bob")
    assert tab.violations() == []


def test_single_sign_on(tab: Console, issuer: Provider) -> None:
    issuer.user["groups"] = ["ops"]
    page = tab.page
    page.goto(f"{tab.url}#/accounts")
    expect(page.get_by_role("link", name="Single sign-on")).to_be_visible()
    assert tab.violations() == []
    page.get_by_role("link", name="Single sign-on").click()
    expect(page.locator("#who")).to_have_text("Signed in as ada@example.com operator")
    expect(page.get_by_role("heading", name="Accounts")).to_be_visible()
    assert page.url == f"{tab.url}#/accounts"
    page.get_by_role("button", name="Reset chat/one").click()
    expect(page.get_by_role("status").filter(has_text="chat/one: reset.")).to_be_visible()
    page.reload()
    expect(page.locator("#who")).to_contain_text("ada@example.com")
    cookies = {str(one["name"]): one for one in page.context.cookies()}
    [session] = [one for name, one in cookies.items() if name.startswith("trilogue_session")]
    assert (session["httpOnly"], session["sameSite"]) == (True, "Strict")
    assert not any(name.startswith("trilogue_sign_on") for name in cookies)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("link", name="Single sign-on")).to_be_visible()
    issuer.user["groups"] = []
    page.get_by_role("link", name="Single sign-on").click()
    expect(page.get_by_role("alert")).to_have_text("You have no role here. Ask an administrator for one.")
    assert re.fullmatch(re.escape(tab.url) + "(#.*)?", page.url)
