"""A headless Chromium for tests of pages, driven over its debugging pipe.

The pipe speaks Chrome's DevTools protocol: JSON messages that end with a zero byte.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
PATIENCE = 120.0
"""Seconds that one answer may take."""

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="needs chromium (Debian: apt-get install chromium)"
)


class BrowserPage:
    """One open page. `complaints` collects script errors and refused requests."""

    def __init__(self, to: int, answers: int) -> None:
        self._to, self._answers = to, answers
        self._rest, self._last, self._session = b"", 0, ""
        self._events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, page: Path, *, width: int = 1280, dark: bool = False) -> None:
        """Load a page at a width; below 700 it is a phone, with touch."""
        phone = width < 700
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=phone,
        )
        self._call("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        self._call("Page.navigate", url=page.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._events.append(self._receive())
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    @property
    def complaints(self) -> list[str]:
        """Script errors, and requests or scripts that the content security policy refused."""
        return [
            json.dumps(event["params"])
            for event in self._events
            if event["method"] == "Runtime.exceptionThrown"
            or (
                event["method"] == "Log.entryAdded"
                and event["params"]["entry"]["level"] in ("error", "warning")
            )
        ]

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page; a promise is awaited."""
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def tap(self, selector: str, *, x: float = 0.5, y: float = 0.5) -> None:
        """Touch a place of an element, given as shares of its width and height."""
        self.run(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        box = self.run(
            f"(({{left, top, width, height}}) => [left, top, width, height])"
            f"(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        point = {"x": box[0] + x * box[2], "y": box[1] + y * box[3]}
        self._call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[point])
        self._call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def picture(self, path: Path, *, height: int = 10_000) -> None:
        """Write what the page looks like, for people, down to this height."""
        width, whole = self.run("[innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(whole, height), "scale": 1}
        shot = self._call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _call(self, method: str, **parameters: Any) -> Any:
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._events.append(answer)

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready = select.select([self._answers], [], [], max(0, deadline - time.monotonic()))[0]
            piece = os.read(self._answers, 1 << 16) if ready else b""
            assert piece, "the browser does not answer"
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


@contextmanager
def open_browser(folder: Path) -> Iterator[BrowserPage]:
    """A browser with an empty profile in this folder, ended with the block."""
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()
    # Chromium reads descriptor 3 and writes descriptor 4. From 10 on, no pipe lies in their way.
    pipes = [fcntl.fcntl(pipe, fcntl.F_DUPFD, 10) for pipe in (their_in, their_out)]
    place = "import os, sys; os.dup2({}, 3); os.dup2({}, 4); os.execv(sys.argv[1], sys.argv[1:])"
    profile = f"--user-data-dir={folder}"
    browser = subprocess.Popen(
        [sys.executable, "-c", place.format(*pipes), str(CHROMIUM), *FLAGS, profile],
        pass_fds=pipes,
        stderr=subprocess.DEVNULL,
    )
    for pipe in (their_in, their_out, *pipes):
        os.close(pipe)
    try:
        yield BrowserPage(our_out, our_in)
    finally:
        browser.terminate()
        browser.wait(PATIENCE)
        os.close(our_out)
        os.close(our_in)


LEAST_FONT = """
Math.min(...[...document.body.querySelectorAll("*")]
  .filter((node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()))
  .filter((node) => !["SCRIPT", "STYLE", "NOSCRIPT"].includes(node.tagName))
  .map((node) => parseFloat(getComputedStyle(node).fontSize) * (node.getScreenCTM?.()?.a ?? 1)))
"""
"""The size of the smallest text of a page, in pixels; text of pictures is scaled as shown."""

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
"""By how many pixels the page itself is wider than the screen."""


VIOLATIONS = """
axe.run({exclude: EXCLUDED}, {runOnly: RULES, resultTypes: ["violations"]})
  .then((found) => found.violations.flatMap(({id, nodes}) =>
    nodes.map((node) => `${id}: ${node.target} ${node.failureSummary}`)))
"""
"""What axe-core finds that keeps people from reading a page."""

ALL_RULES = ["wcag2a", "wcag2aa"]
COLOUR_RULES = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
"""In the dark only colours are different: all rules are checked in light, at the same width."""

SCREENS = [(width, dark) for width in (1400, 390) for dark in (False, True)]
"""A desk and a phone, each in light and dark."""

SCREENSHOTS = Path(__file__).parents[1] / "out" / "screenshots"
"""Where pictures of all pages are kept, for people to look at."""


def check_look(browser: BrowserPage, name: str, *, alike: str = "", height: int = 10_000) -> None:
    """What every page must keep to at this size: no sideways scrolling, WCAG 2 AA, no complaint.

    Look at a page in light and dark: in the dark, only the rules about colours are checked. A
    picture of it is kept in `SCREENSHOTS`, down to `height`. `alike` selects elements that axe need
    not read, because others look the same.
    """
    assert browser.complaints == []
    assert browser.run(OVERFLOW) <= 0
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    browser.run(f"{{ {axe} }}; 0")
    scheme = browser.run("matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'")
    rules = json.dumps(COLOUR_RULES if scheme == "dark" else ALL_RULES)
    excluded = json.dumps([alike] if alike else [])
    found = browser.run(VIOLATIONS.replace("EXCLUDED", excluded).replace("RULES", rules))
    assert not found, "\n".join(found)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}-{browser.run('innerWidth')}-{scheme}.png"
    browser.picture(path, height=height)


def check_page(browser: BrowserPage, page: Path) -> None:
    """What every page of the product must keep to: also the logo, the promise, legible text."""
    for width, dark in SCREENS:
        browser.open(page, width=width, dark=dark)
        check_look(browser, page.stem)
        assert browser.run("document.querySelectorAll('.brand svg.logo').length") == 1
        assert browser.run("document.querySelector('.promise').innerText.length > 40")
        assert browser.run(LEAST_FONT) >= 12
