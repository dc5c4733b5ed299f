"""The files of the dashboard, from the package, with validators and strict headers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from fastapi import FastAPI, Request, Response

import penstock.released.pages
from penstock.service.api_errors import ApiError
from penstock.service.options import ServiceOptions
from penstock.service.replies import Validity, reply

ASSETS = Path(__file__).with_name("assets")
UPLOT = Path(penstock.released.pages.__file__).with_name("assets") / "uplot"

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
POLICY = "default-src 'self'; img-src 'self' data:; frame-ancestors {}"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*", re.ASCII)


@dataclass(frozen=True)
class StaticFile:
    """A file, read once for each of its versions."""

    version: tuple[int, int]
    content: bytes
    media: str
    valid: Validity


class StaticFiles:
    """Finds the files of the dashboard by their names in URLs."""

    def __init__(self) -> None:
        self._read: dict[Path, StaticFile] = {}

    def find(self, name: str) -> StaticFile:
        """A file by its name. Everything that is no file of the dashboard is a 404.

        Parameters
        ----------
        name : str
            The name below /assets/.
        """
        missing = ApiError(404, "there is no such file.")
        if not _NAME.fullmatch(name):
            raise missing
        folder, _, rest = name.partition("/")
        path = UPLOT / rest if folder == "uplot" and rest else ASSETS / name
        media = MEDIA_TYPES.get(path.suffix)
        try:
            now = path.stat()
        except OSError:
            raise missing from None
        if media is None or not path.is_file():
            raise missing
        version = now.st_mtime_ns, now.st_size
        known = self._read.get(path)
        if known is None or known.version != version:
            content = path.read_bytes()
            tag = blake2b(content, digest_size=16).hexdigest()
            known = self._read[path] = StaticFile(version, content, media, Validity(tag=tag))
        return known


def html_headers(frames: tuple[str, ...] = ()) -> dict[str, str]:
    """The headers of a page, which may be framed by these origins only.

    Parameters
    ----------
    frames : tuple of str
        The origins. Default: none.
    """
    return {
        "content-security-policy": POLICY.format(" ".join(frames) or "'none'"),
        "referrer-policy": "no-referrer",
    }


def add_routes(app: FastAPI, options: ServiceOptions) -> None:
    """Serve the dashboard.

    Parameters
    ----------
    app : FastAPI
        The application.
    options : ServiceOptions
        The settings.
    """
    files = StaticFiles()

    def page(request: Request, name: str, frames: tuple[str, ...] = ()) -> Response:
        found = files.find(name)
        return reply(request, found.content, found.media, found.valid, html_headers(frames))

    @app.get("/", include_in_schema=False)
    def index(request: Request) -> Response:
        return page(request, "index.html")

    @app.get("/embed/{stream:path}", include_in_schema=False)
    def embed(request: Request, stream: str) -> Response:
        return page(request, "embed.html", options.frames)

    @app.get("/favicon.ico", include_in_schema=False)
    def icon(request: Request) -> Response:
        """The icon that a browser asks for where a page names none: at an answer of the API."""
        return asset(request, "logo.svg")

    @app.get("/assets/{name:path}", include_in_schema=False)
    def asset(request: Request, name: str) -> Response:
        if name.endswith(".html"):
            raise ApiError(404, "there is no such file.")
        found = files.find(name)
        return reply(request, found.content, found.media, found.valid)
