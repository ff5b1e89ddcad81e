"""A visitor of the explorer: a real Chromium, and everything that it complains about."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.support.pace import PATIENCE_S
from tests.support.programs import need_program

CHROMIUM = (os.environ.get("CHROMIUM", "chromium-headless-shell"), "chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TIMEOUT_MS = 1_000 * PATIENCE_S
DESKTOP = {"width": 1280, "height": 860}
PHONE = {"width": 360, "height": 740}

RECORD_CONNECTION = """() => {
    const place = document.querySelector("#connection");
    globalThis.connections = [];
    new MutationObserver(() => globalThis.connections.push(place.textContent.trim()))
        .observe(place, { childList: true, subtree: true });
}"""

MARK_OLD_VIEWS = """
    globalThis.leftViews = 0;
    // The first listener, so that what it marks is older than what the page's own listener shows.
    window.addEventListener("hashchange", () => {
        document.querySelector("main h1")?.setAttribute("data-old", "");
        globalThis.leftViews += 1;
    });
"""

Theme = Literal["light", "dark"]

expect.set_options(timeout=TIMEOUT_MS)


@contextmanager
def open_browser() -> Iterator[Browser]:
    executable = need_program(*CHROMIUM)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS, timeout=TIMEOUT_MS)
        yield browser
        browser.close()


class Visitor:
    """One person with one tab. `complaints` are the errors of the page and of its security policy."""

    def __init__(self, browser: Browser, url: str, theme: Theme = "light", is_phone: bool = False) -> None:
        self._context = browser.new_context(
            viewport=PHONE if is_phone else DESKTOP,  # type: ignore[arg-type]  # a plain dict of the two sizes
            color_scheme=theme,
            is_mobile=is_phone,
            has_touch=is_phone,
            reduced_motion="reduce",
        )
        self._context.set_default_timeout(TIMEOUT_MS)
        self.page: Page = self._context.new_page()
        self.page.add_init_script(MARK_OLD_VIEWS)
        self.url = url
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._listen)

    def _listen(self, message: ConsoleMessage) -> None:
        # What the browser says of an answer that is no 200 or of a node that is away is no fault of the page.
        is_expected = "Failed to load resource" in message.text or "WebSocket connection to" in message.text
        if message.type in ("error", "warning") and not is_expected:
            self.complaints.append(message.text)

    def open(self, route: str = "/") -> Page:
        """Load the page anew at that route, and wait until the view is there."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/#{route}")
        expect(self.page.locator("main h1")).to_be_visible()
        expect(self.page.locator("main[aria-busy]")).to_have_count(0)
        return self.page

    def go(self, route: str) -> Page:
        """Go on to that route within the page, as a link does, and wait until the new view is there.

        The page may show the old view again until it hears of the new route: what is there then is old.
        """
        before = self.run("() => globalThis.leftViews")
        self.page.goto(f"{self.url}/#{route}")
        self.page.wait_for_function("(before) => globalThis.leftViews > before", arg=before)
        expect(self.page.locator("main h1:not([data-old])")).to_be_visible()
        return self.page

    def shown_heights(self) -> list[int]:
        """The heights of the bars of the first chart, newest first; the genesis block has none."""
        bars = self.page.locator(".chart").first.locator("g")
        return [int(height) for height in bars.evaluate_all("(bars) => bars.map((bar) => bar.dataset.height)")]

    def record_connection(self) -> None:
        """Begin to keep what the page says of its connection, one change after the other."""
        self.run(RECORD_CONNECTION)

    def recorded_connection(self) -> list[str]:
        return list(self.run("() => globalThis.connections"))

    def run(self, script: str, argument: object = None) -> Any:
        """What a script gives in the page; it may import the page's own modules."""
        return self.page.evaluate(script, argument)

    def close(self) -> None:
        # A handler of this test's that is still at work would fail in the next one.
        self.page.unroute_all(behavior="wait")
        self._context.close()
