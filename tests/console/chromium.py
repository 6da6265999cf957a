"""The console in a real Chromium: a gateway with traffic, and a browser that is signed in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files

from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from tests.gateway.pooling import ADMIN_KEY

NO_CHROMIUM = "console not tested: there is no Chromium (Debian: apt-get install chromium)"
SECONDS = 10.0
HEIGHT = 900
RUN_AXE = "rules => axe.run(rules.length ? {runOnly: rules} : {}).then(result => result.violations)"


def chromium_path() -> str | None:
    """Return the path of an installed Chromium or Chrome, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the installed Chromium. As root it runs without its sandbox, which does not work there."""
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=options)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Console:
    """A console in one browser tab. `problems`: what the browser has complained about, such as a blocked script."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)

    def note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def violations(self, *rules: str) -> list[str]:
        """Return what axe finds, as the rule and the element. `rules`: the only ones to check; default: all."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text("utf-8"))
        found = self.page.evaluate(RUN_AXE, [*rules])
        return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]

    def sign_in(self, key: str = ADMIN_KEY) -> None:
        self.page.goto(self.url)
        self.page.get_by_label("Admin key").fill(key)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("navigation").wait_for()

    def open(self, view: str) -> None:
        """Open a view and wait until it has its data."""
        self.page.goto(f"{self.url}#/{view}")
        self.page.locator("#main > :not([aria-busy])").wait_for()

    def scrolls_sideways(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))


@contextmanager
def console(browser: Browser, url: str, *, width: int = 1280, dark: bool = False) -> Iterator[Console]:
    """Open the console in a window of its own, as a new visitor. Complaints of the browser are errors at the end."""
    context = browser.new_context(viewport={"width": width, "height": HEIGHT}, color_scheme="dark" if dark else "light")
    context.set_default_timeout(SECONDS * 1000)
    page = context.new_page()
    made = Console(page, f"{url}/console/")
    page.on("console", made.note)
    page.on("pageerror", lambda error: made.problems.append(str(error)))
    try:
        yield made
        assert made.problems == []
    finally:
        context.close()
