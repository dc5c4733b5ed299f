"""What every request meets first: the read token, odd paths, and how many are answered at once."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

import msgspec

from penstock.service.api_errors import ApiError

MAX_REQUESTS = 64
"""How many requests are answered at the same time, live ones aside."""

RETRY_SECONDS = 1

_ODD: Final = ("\\", "\x00", "\ufffd", "//", "/./", "/../")
_HEADERS: Final = ((b"x-content-type-options", b"nosniff"),)


def digest(token: str) -> bytes:
    """A digest of a token. Digests have one length, so comparing them says nothing about it.

    >>> len(digest("a token")) == len(digest("another one"))
    True
    """
    return blake2b(token.encode("utf-8", "surrogateescape")).digest()


@dataclass
class Guard:
    """Refuses requests without the token, with odd paths, or above the limit.

    Parameters
    ----------
    app : Any
        The application.
    token : bytes, optional
        The digest of the read token. Default: none, everybody may read.
    """

    app: Any
    token: bytes | None = field(default=None, repr=False)
    _running: int = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            self._check(scope)
        except ApiError as error:
            await _refuse(error, sending)
            return
        live = scope["path"].endswith("/live")
        self._running += not live
        try:
            await self.app(scope, receive, sending)
        finally:
            self._running -= not live

    def _check(self, scope: Any) -> None:
        path: str = scope["path"]
        if any(part in path for part in _ODD) or path.endswith(("/..", "/.")):
            raise ApiError(404, "there is nothing here. /v1 says where things are.")
        if self.token is not None and (path == "/v1" or path.startswith("/v1/")):
            self._check_token(scope)
        if self._running >= MAX_REQUESTS and not path.endswith("/live"):
            raise ApiError(429, "too many requests at once. Try again.", retry_after=RETRY_SECONDS)

    def _check_token(self, scope: Any) -> None:
        assert self.token is not None
        if scope["method"] == "OPTIONS":  # a browser asks, without the token, what it may send
            return
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        text = given[0].decode("latin-1") if len(given) == 1 else ""
        scheme, _, token = text.partition(" ")
        shown = digest(token.strip() if scheme.lower() == "bearer" else "")
        if not hmac.compare_digest(shown, self.token):
            raise ApiError(401, "this needs the read token, in the header Authorization: Bearer …")


async def _refuse(error: ApiError, send: Any) -> None:
    body = msgspec.json.encode(error.content)
    headers = {**error.headers, "content-type": "application/json"}
    headers["content-length"] = str(len(body))
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
