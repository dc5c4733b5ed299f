"""Modules of the dashboard in an otherwise empty page, without a server.

The browser gets the files from the package, with the headers that the service gives them.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Page, Route

from penstock.service.static_files import ASSETS, MEDIA_TYPES, POLICY, UPLOT

ORIGIN = "http://dashboard.test"
EMPTY = """<!doctype html><html lang="en"><title>modules</title>
<script src="/assets/theme.js"></script>
<script src="/assets/uplot/uPlot.iife.min.js"></script>
<link rel="stylesheet" href="/assets/uplot/uPlot.min.css">
<link rel="stylesheet" href="/assets/style.css">
<main id="main"></main></html>"""


class Modules:
    """One page in which modules are imported. `complaints` are errors of scripts."""

    def __init__(self, page: Page) -> None:
        self.page, self.complaints = page, list[str]()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "console",
            lambda message: (
                self.complaints.append(message.text) if message.type == "error" else None
            ),
        )
        page.route(f"{ORIGIN}/**", self._serve)
        page.goto(f"{ORIGIN}/")

    @staticmethod
    def _serve(route: Route) -> None:
        path = urlsplit(route.request.url).path
        headers = {"Content-Security-Policy": POLICY.format("'none'")}
        if path == "/":
            route.fulfill(body=EMPTY, content_type=MEDIA_TYPES[".html"], headers=headers)
            return
        name = path.removeprefix("/assets/")
        file = UPLOT / name[len("uplot/") :] if name.startswith("uplot/") else ASSETS / name
        if file.is_file():
            route.fulfill(body=file.read_bytes(), content_type=MEDIA_TYPES[file.suffix])
        else:
            route.fulfill(status=404, body="")

    def run(self, imported: str, script: str, argument: Any = None) -> Any:
        """The value of a function body with some names of a module.

        Parameters
        ----------
        imported : str
            What to import: `{ readHash } from router.js`.
        script : str
            The body of an asynchronous function. `given` is the argument.
        argument : Any
            Plain data for the script. Default: none.
        """
        names, _, module = imported.partition(" from ")
        return self.page.evaluate(
            f"async (given) => {{ const {names} = await import('/assets/{module}'); {script} }}",
            argument,
        )
