"""The console in a real Chromium, on a real gateway with traffic."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.console.chromium import NO_CHROMIUM, Console, chromium, chromium_path, console
from tests.gateway.pooling import ADMIN_KEY, Pooled, accepting, account, config, pooled, secret
from tests.gateway.running import CLIENT_KEY
from tests.scripted import thread

pytestmark = [pytest.mark.slow, pytest.mark.skipif(chromium_path() is None, reason=NO_CHROMIUM)]

VIEWS = (
    "requests",
    "requests/last",
    "accounts",
    "approvals",
    "captures",
    "usage",
    "performance",
    "routes",
    "keys",
    "audit",
)
PHONE = 390
TRAFFIC = 3
ROUTES = 'routes: [{match: "claude-*", targets: [{provider: chat, model: some-model}, {provider: messages}]}]\n'
REQUEST = {
    "model": "claude-test",
    "max_tokens": 50,
    "top_k": 4,
    "messages": [{"role": "user", "content": "A prompt <b>with markup</b>"}],
}


LONG_DOCUMENT = """import("./json.js").then(({ jsonDocument }) => {
  const messages = Array.from({ length: 1000 }, (_, index) => ({ role: "user", content: `${index}` }));
  const loss = { code: "cache.mark", path: "messages[700].content", severity: "notice" };
  const shown = jsonDocument({ messages }, [loss]);
  const before = shown.children.length;
  shown.querySelector("button").click();
  return [before, shown.querySelector(".lost").textContent, shown.children.length];
})"""
CUT_EVENTS = """import("./events.js").then(({ EventReader }) => {
  const text = 'event: a\\r\\ndata: {"x": "1\\u2028"}\\r\\n\\r\\n: comment\\n\\ndata: [DONE]\\n\\n';
  const reader = new EventReader();
  return [...text].flatMap((piece) => reader.feed(piece)).map((event) => [event.name, event.data]);
})"""
QUANTILES = """import("./prometheus.js").then(({ parseMetrics, histogram, quantile }) => {
  const text = [["1", 2], ["3", 4], ["+Inf", 4]].map(([le, n]) => `x_bucket{m="a\\\\"b",le="${le}"} ${n}`).join("\\n");
  const buckets = histogram(parseMetrics(text), "x", (labels) => labels.m === 'a"b');
  return [quantile(buckets, 0.5), quantile(buckets, 0.75), quantile([], 0.5)];
})"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """A gateway that has translated some requests, one of which failed at its first account."""
    folder = tmp_path_factory.mktemp("console")
    text = config([account("one", "priority: 1"), account("two", "priority: 2")], more=ROUTES)
    with thread.running(accepting("one", "two")) as up, pooled(folder, text, up) as pool:
        up.by_key[secret("one")] = "error-402"
        assert pool.admin.post("/capture", json={"requests": TRAFFIC, "lease_seconds": 600}).status_code == 200
        client = httpx2.Client(base_url=pool.gateway.url, headers={"x-api-key": CLIENT_KEY})
        for stream in (False, True, False):
            assert client.post("/v1/messages", json=REQUEST | {"stream": stream}).status_code == 200
        client.close()
        yield pool


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def address(gateway: Pooled) -> str:
    return str(gateway.admin.base_url).rstrip("/")


@pytest.fixture(scope="module")
def signed_in(browser: Browser, address: str) -> Iterator[Console]:
    """One tab for all tests that do not change it."""
    with console(browser, address) as tab:
        tab.sign_in()
        yield tab


def test_the_key_is_asked_for_once_and_not_kept(browser: Browser, address: str) -> None:
    with console(browser, address) as tab:
        page = tab.page
        page.goto(tab.url)
        page.get_by_label("Admin key").fill("not the key")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_have_text("this is not the admin key")
        # The browser itself logs the status.
        assert [text for text in tab.problems if "401" not in text] == []
        tab.problems.clear()
        tab.sign_in()
        page.reload()
        expect(page.get_by_role("navigation")).to_be_visible()
        kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
        assert ADMIN_KEY not in kept
        assert "trilogue_session" not in kept
        page.context.clear_cookies()
        expect(page.get_by_text("The session has ended. Sign in again.")).to_be_visible()
        tab.problems.clear()  # the status again
        tab.sign_in()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Admin key")).to_be_focused()
        page.reload()
        expect(page.get_by_label("Admin key")).to_be_visible()


def test_requests_are_live_and_can_be_filtered(signed_in: Console, gateway: Pooled) -> None:
    signed_in.open("requests")
    page = signed_in.page
    rows = page.get_by_role("table").get_by_role("row").filter(has_text="claude-test")
    expect(rows).to_have_count(TRAFFIC)
    expect(rows.first).to_contain_text("messages → chat")
    expect(rows.first).to_contain_text("param.dropped")
    expect(rows.last).to_contain_text("2 attempts")
    gateway.up.by_key[secret("two")] = "slow-100-50"
    headers = {"x-api-key": CLIENT_KEY}
    with httpx2.stream("POST", f"{gateway.gateway.url}/v1/messages", headers=headers, json=REQUEST | {"stream": True}):
        expect(rows).to_have_count(TRAFFIC + 1)
        expect(rows.first).to_contain_text("running")
        page.get_by_role("button", name="Running").click()
        expect(rows).to_have_count(1)
        assert page.url.endswith("#/requests?running=true")
    gateway.up.by_key[secret("two")] = "text"
    expect(page.get_by_text("No request that the workers remember fits")).to_be_visible()
    page.get_by_role("button", name="Running").click()
    expect(rows.first).to_contain_text("client gone")
    page.get_by_label("Model").fill("nothing")
    page.get_by_label("Model").press("Enter")
    expect(rows).to_have_count(0)


@pytest.mark.smoke
def test_one_request_shows_its_attempts_and_losses(signed_in: Console) -> None:
    signed_in.open("requests")
    page = signed_in.page
    page.get_by_role("row").filter(has_text="2 attempts").get_by_role("link").click()
    attempts = page.locator(".attempts li")
    expect(attempts).to_have_count(2)
    expect(attempts.first).to_contain_text("chat/one")
    expect(attempts.first).to_contain_text("402")
    expect(attempts.last).to_contain_text("chat/two")
    expect(page.get_by_role("row", name="param.dropped")).to_contain_text("top_k")
    signed_in.open("requests/last")
    expect(page.locator(".title code")).to_contain_text("req_")


def test_a_captured_request_shows_its_phases_side_by_side(signed_in: Console) -> None:
    signed_in.open("captures")
    page = signed_in.page
    expect(page.get_by_text(f"{TRAFFIC} of {TRAFFIC} requests")).to_be_visible()
    page.get_by_role("table").get_by_role("link").last.click()
    phases = page.get_by_role("table", name="The phases of the request")
    names = ["Time", "inbound_request", "provider_request", "upstream_response", "outbound_response"]
    expect(phases.get_by_role("columnheader")).to_contain_text(names)
    rows = phases.get_by_role("row")
    # The first attempt fails; what the client gets is next to what the second one brings.
    expect(rows.nth(1).get_by_role("cell").nth(1)).to_contain_text("attempt 1")
    expect(rows.nth(1).get_by_role("cell").nth(2)).to_contain_text("402")
    second = rows.filter(has_text="attempt 2")
    expect(second).to_have_count(1)
    expect(second.get_by_role("cell").nth(3)).to_contain_text('"type": "message"')
    lost = phases.get_by_role("region", name="What the client sent").locator(".lost")
    expect(lost).to_contain_text('"top_k"')
    expect(lost).to_contain_text("param.dropped")
    expect(phases).to_contain_text("<b>with markup</b>")


def test_events_of_a_stream_are_aligned_in_time(signed_in: Console, gateway: Pooled) -> None:
    streamed = [one for one in gateway.admin.get("/requests").json()["requests"] if one["stream"] and not one["error"]]
    signed_in.open(f"requests/{streamed[-1]['id']}")
    page = signed_in.page
    row = page.get_by_role("row").filter(has_text="content_block_delta").first
    expect(row.get_by_role("cell").nth(2)).to_contain_text("text")
    row.get_by_role("cell").nth(3).get_by_text("content_block_delta").first.click()
    expect(row.get_by_role("region", name="Event content_block_delta").first).to_contain_text('"text_delta"')


def test_a_request_that_was_not_captured_offers_to_capture_the_next(signed_in: Console, gateway: Pooled) -> None:
    headers = {"x-api-key": CLIENT_KEY}
    sent = httpx2.post(f"{gateway.gateway.url}/v1/messages", headers=headers, json=REQUEST)
    signed_in.open(f"requests/{sent.headers['x-request-id']}")
    page = signed_in.page
    page.get_by_role("button", name="Capture the next request for claude-test").click()
    expect(page.get_by_role("status").filter(has_text="will be captured")).to_be_visible()
    session = gateway.admin.get("/capture").json()["session"]
    assert (session["state"], session["requests"], session["model"]) == ("running", 1, "claude-test")
    gateway.admin.delete(f"/capture/{session['id']}")


def test_modules_read_what_the_gateway_writes(signed_in: Console) -> None:
    shown, marked, opened = signed_in.page.evaluate(LONG_DOCUMENT)
    assert shown < 400
    assert "700" in marked
    assert "cache.mark" in marked
    assert opened > shown
    events = [["a", '{"x": "1\u2028"}'], [": comment", ""], ["", "[DONE]"]]
    assert signed_in.page.evaluate(CUT_EVENTS) == events
    assert signed_in.page.evaluate(QUANTILES) == [1, 2, None]


def test_usage_is_plotted_and_listed(signed_in: Console, gateway: Pooled) -> None:
    signed_in.open("usage")
    page = signed_in.page
    page.get_by_label("Plot").select_option("requests")
    figure = page.get_by_role("figure")
    expect(figure.locator(".bar rect.series-1").first).to_be_visible()
    total = gateway.admin.get("/usage", params={"since": "7d"}).json()["total"]["requests"]
    expect(page.get_by_role("row", name="claude-test").first).to_contain_text(str(total))
    figure.get_by_text("Figures").click()
    expect(figure.get_by_role("cell", name=str(total), exact=True)).to_be_visible()
    page.get_by_label("By", exact=True).select_option("account")
    expect(page.get_by_role("row", name="chat/two").first).to_be_visible()


def test_performance_has_histograms_with_their_figures(signed_in: Console) -> None:
    signed_in.open("performance")
    page = signed_in.page
    for title in ("Time to first token", "Duration of requests", "Input tokens", "Output tokens"):
        figure = page.get_by_role("figure").filter(has=page.get_by_role("heading", name=title))
        expect(figure.locator(".bar rect.series-1").first).to_be_visible()
        figure.get_by_text("Figures").click()
        numbers = figure.get_by_role("cell").all_inner_texts()
        assert sum(int(number) for number in numbers if number.isdecimal()) >= 1
    expect(page.get_by_text("param.dropped")).to_be_visible()


def test_accounts_show_their_state_and_can_be_changed(signed_in: Console, gateway: Pooled) -> None:
    signed_in.open("accounts")
    page = signed_in.page
    row = page.get_by_role("row", name="chat/one")
    expect(row).to_contain_text("cooling")
    expect(row).to_contain_text("402")
    page.get_by_role("button", name="Disable chat/two").click()
    expect(page.get_by_role("status").filter(has_text="chat/two: disabled.")).to_be_visible()
    expect(page.get_by_role("row", name="chat/two")).to_contain_text("disabled")
    assert gateway.accounts()["chat/two"]["state"] == "disabled"
    page.get_by_role("button", name="Enable chat/two").click()
    expect(page.get_by_role("row", name="chat/two")).to_contain_text("ready")


def test_a_dry_run_marks_what_would_be_lost(signed_in: Console, gateway: Pooled) -> None:
    signed_in.open("routes")
    page, before = signed_in.page, len(gateway.up.requests)
    page.get_by_label("A request, as a client sends it").fill(json.dumps(REQUEST))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("heading", name="chat/some-model")).to_be_visible()
    lost = page.get_by_role("region", name="The client's request").first.locator(".lost")
    expect(lost).to_have_count(1)
    expect(lost).to_contain_text('"top_k"')
    expect(lost).to_contain_text("param.dropped")
    expect(page.get_by_role("region", name="What the upstream would get").first).to_contain_text("<b>with markup</b>")
    expect(page.get_by_text("nothing is lost")).to_be_visible()  # the fallback speaks the client's protocol
    page.get_by_label("A request, as a client sends it").fill('{"model": "nowhere-1", "messages": []}')
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("404 model_not_found")).to_be_visible()
    page.get_by_role("combobox", name="Model name").fill("claude-x")
    page.get_by_role("button", name="Resolve").click()
    expect(page.get_by_text("claude-x goes to chat/some-model, then messages/claude-x (route 1).")).to_be_visible()
    assert len(gateway.up.requests) == before


def test_every_view_is_accessible_and_fits_a_phone(browser: Browser, address: str) -> None:
    with console(browser, address, width=PHONE) as tab:
        tab.page.goto(tab.url)
        assert tab.violations() == []
        tab.sign_in()
        for view in VIEWS:
            tab.open(view)
            assert not tab.scrolls_sideways(), view
            assert tab.violations() == [], view


def test_dark_is_readable_and_the_theme_follows_the_system_until_it_is_chosen(browser: Browser, address: str) -> None:
    with console(browser, address, dark=True) as tab:
        tab.sign_in()
        background = "getComputedStyle(document.body).backgroundColor"
        dark = tab.page.evaluate(background)
        for view in VIEWS:
            tab.open(view)
            assert tab.violations("color-contrast") == [], view
        tab.page.get_by_label("Theme").select_option("light")
        light = tab.page.evaluate(background)
        assert dark != light
        tab.page.reload()
        assert tab.page.evaluate(background) == light


def test_the_keyboard_reaches_everything(signed_in: Console) -> None:
    page = signed_in.page
    signed_in.open("accounts")
    title = page.get_by_role("heading", name="Accounts")
    expect(title).to_be_focused()
    seen = walk(signed_in, "Shift+Tab", "Skip to the content")
    assert {"Trilogue", "Routes", "Sign out"} <= set(seen)
    page.keyboard.press("Enter")
    expect(title).to_be_focused()
    page.get_by_role("button", name="Reset responses/two").wait_for()
    assert "Disable chat/one" in walk(signed_in, "Tab", "Reset responses/two")
    page.get_by_role("link", name="Routes").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Routes", level=1)).to_be_focused()


def walk(tab: Console, key: str, end: str) -> list[str]:
    """Press a key until an element with this text has the focus, and return the texts on the way."""
    seen: list[str] = []
    while not seen or seen[-1] != end:
        tab.page.keyboard.press(key)
        seen.append(tab.page.evaluate("document.activeElement.textContent.trim()"))
        assert len(seen) < 60, seen
    return seen
