"""The dashboard in a browser, with everything that it complains about."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import ConsoleMessage, Page, Response

from tests.browser import OVERFLOW

PICTURES = Path(__file__).parents[3] / "out" / "dashboard"
"""Where pictures of all views are kept, for people to look at."""

SERIOUS = """
axe.run(document, {
  runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"], resultTypes: ["violations"],
}).then((found) => found.violations
  .filter(({impact}) => impact === "serious" || impact === "critical")
  .flatMap(({id, nodes}) => nodes.map((node) => `${id}: ${node.target} ${node.failureSummary}`)))
"""
"""What axe-core finds that keeps people from using a page."""

CONTRAST = """
axe.run(document, {
  runOnly: { type: "rule", values: ["color-contrast", "link-in-text-block"] },
  resultTypes: ["violations"],
}).then((found) => found.violations
  .flatMap(({id, nodes}) => nodes.map((node) => `${id}: ${node.target} ${node.failureSummary}`)))
"""
"""The rules of axe-core about colours. All others are the same in light and dark."""


PATIENCE = 30_000
"""Milliseconds that something in a page may take."""


class Dashboard:
    """One page of the dashboard.

    `complaints` collects errors of scripts, messages of the console, failed requests and requests
    to any other server.
    """

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(f"script: {error.stack}"))
        page.on("console", self._hear)
        page.on("response", self._answered)
        page.on("request", lambda request: self._asked(request.url))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text} {message.location}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.complaints.append(f"answer {response.status}: {response.url}")

    def _asked(self, url: str) -> None:
        if not url.startswith((self.url, "data:", "blob:", "about:")):
            self.complaints.append(f"asked another server: {url}")

    def open(self, view: str | None = "", *, stream: str = "taps", **parameters: str) -> Page:
        """Open a view of a stream, and wait for its first card; None is the overview."""
        query = "&".join(f"{name}={quote(value)}" for name, value in parameters.items())
        place = f"#/s/{quote(stream, safe='')}" + (f"/{view}" if view else "")
        address = f"{self.url}/{'#/' if view is None else place}" + (f"?{query}" if query else "")
        if self.page.url != "about:blank":  # the next view replaces this one without a new page
            assert self.page.url != address
            self.page.evaluate("document.querySelector('.view').dataset.old = 'true'")
        self.page.goto(address)
        self.page.locator(".view:not([data-old])").locator("figure, .card").first.wait_for()
        return self.page

    def wait_until(self, condition: str, given: Any = None) -> None:
        """Wait until an expression holds, in which `given` is the argument.

        Playwright's own `wait_for_function` needs `eval`, which the page forbids.
        """
        self.page.evaluate(
            f"""(given) => new Promise((done, failed) => {{
              const end = performance.now() + {PATIENCE};
              const look = () => {{
                if ({condition}) done();
                else if (performance.now() > end) failed(new Error({json.dumps(condition)}));
                else setTimeout(look, 30);
              }};
              look();
            }})""",
            given,
        )

    def wait_for_change(self, selector: str, *, times: int = 1) -> None:
        """Wait until the text of the first such element has become another one, so many times."""
        for _ in range(times):
            before = self.page.locator(selector).first.inner_text()
            condition = "document.querySelector(given[0])?.innerText !== given[1]"
            self.wait_until(condition, [selector, before])

    def settle(self) -> None:
        """Wait until nothing is loading and everything that was loaded is drawn."""
        self.wait_until("!document.querySelector('.loading, [aria-busy=true]')")
        self.page.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def check_look(self) -> None:
        """No sideways scrolling, and nothing serious for people with other senses or fingers."""
        assert self.page.evaluate(OVERFLOW) <= 0, f"{self.page.url} scrolls sideways"
        self._check_by_axe(SERIOUS)

    def check_contrast(self) -> None:
        """Every text has enough contrast, in the colours that the page has now."""
        self._check_by_axe(CONTRAST)

    def _check_by_axe(self, script: str) -> None:
        if not self.page.evaluate("'axe' in window"):
            axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
            self.page.evaluate(f"{{ {axe} }}; 0")
        found: list[Any] = self.page.evaluate(script)
        assert not found, "\n".join(map(str, found))

    def picture(self, name: str) -> None:
        """Keep a picture of the whole page."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}.png", full_page=True)
