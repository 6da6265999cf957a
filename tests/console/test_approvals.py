"""The console's page of approvals, in a real Chromium, with calls that really wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, expect

from tests.console.chromium import NO_CHROMIUM, Console, chromium, chromium_path, console
from tests.gateway.pooling import ADMIN, Pooled, pooled
from tests.gateway.running import PROVIDERS
from tests.gateway.test_policies import ask
from tests.gateway.wire import Answer
from tests.scripted import thread
from trilogue.model import Protocol

pytestmark = [pytest.mark.slow, pytest.mark.skipif(chromium_path() is None, reason=NO_CHROMIUM)]

CONFIG = f"""\
{PROVIDERS.replace("[env:TRILOGUE_KEY]", "[{key: key-of-person, name: team, policies: [person, judged]}]")}
{ADMIN}
policies:
  person: {{use: approve, timeout: 60}}
  judged: {{use: judge, model: chat/score-0.1, cache: 0}}
"""
PHONE = 390


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    with thread.running() as up, pooled(tmp_path_factory.mktemp("approvals"), CONFIG, up) as pool:
        yield pool


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def tab(browser: Browser, gateway: Pooled) -> Iterator[Console]:
    with console(browser, str(gateway.admin.base_url).rstrip("/")) as found:
        found.sign_in()
        yield found


@contextmanager
def calling(gateway: Pooled) -> Iterator[list[Answer]]:
    """Make a request whose call has to be approved; its response is in the list after the end."""
    answers: list[Answer] = []

    def run() -> None:
        case = (Protocol.MESSAGES, Protocol.CHAT, True)
        answers.append(asyncio.run(ask(gateway, case, "tools", "person")))

    asking = threading.Thread(target=run)
    asking.start()
    try:
        yield answers
    finally:
        asking.join(30)


def test_a_call_is_shown_and_approved(tab: Console, gateway: Pooled) -> None:
    """It appears by itself, with all that is needed to decide, and goes on at a click."""
    tab.open("approvals")
    page = tab.page
    expect(page.get_by_text("No call waits for approval.")).to_be_visible()
    page.get_by_label("Your name, for the records").fill("zoe")
    with calling(gateway) as answers:
        card = page.get_by_role("article", name="Call of get_weather")
        expect(card).to_contain_text("team")
        expect(card).to_contain_text("chat/tools")
        expect(card).to_contain_text("person")
        expect(card).to_contain_text("s left")
        expect(card.get_by_role("region", name="Arguments")).to_contain_text('"Paris"')
        card.get_by_role("button", name="Approve the call of get_weather").click()
        expect(page.get_by_role("status").filter(has_text="get_weather: approved.")).to_be_visible()
    assert b"get_weather" in answers[0].body
    expect(page.get_by_text("approved by zoe")).to_be_visible()
    tab.open(f"requests/{answers[0].headers['x-request-id']}")
    expect(page.get_by_text("approved by zoe")).to_be_visible()
    # The judge's own request is one click away, and leads back.
    page.get_by_role("link", name=f"{answers[0].headers['x-request-id']}-1").click()
    expect(page.locator(".lead").get_by_text("made by a policy of")).to_be_visible()


def test_a_call_is_denied_by_keyboard(tab: Console, gateway: Pooled) -> None:
    """The focus then goes to a heading, so that one key press too many decides nothing."""
    tab.open("approvals")
    page = tab.page
    with calling(gateway) as answers:
        deny = page.get_by_role("button", name="Deny the call of get_weather")
        expect(deny).to_be_visible()
        for _ in range(20):
            page.keyboard.press("Tab")
            if "Deny" in page.evaluate("document.activeElement.textContent"):
                break
        expect(deny).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Approvals")).to_be_focused()
    assert b"was not approved" in answers[0].body


def test_the_page_is_accessible_and_fits_a_phone(browser: Browser, gateway: Pooled) -> None:
    """With a call on it, in both themes; what somebody else has decided is shown before it goes away."""
    address = str(gateway.admin.base_url).rstrip("/")
    with (
        console(browser, address, width=PHONE) as phone,
        console(browser, address, dark=True) as dark,
        calling(gateway),
    ):
        for tab in (phone, dark):
            tab.sign_in()
            tab.open("approvals")
            expect(tab.page.get_by_role("article")).to_be_visible()
            assert not tab.scrolls_sideways()
            assert tab.violations() == []
        (one,) = gateway.admin.get("/approvals").json()["approvals"]
        gateway.admin.post(f"/approvals/{one['id']}", json={"decision": "no", "by": "someone else"})
        expect(phone.page.get_by_role("article")).to_contain_text("denied by someone else")
        expect(phone.page.get_by_role("article")).to_have_count(0, timeout=20_000)
