"""Posting to one HTTP address: with a token, an idempotency key, and a deadline for each request.

A status from 200 to 299 means that the content is safe there. Redirects are not followed, as the
token belongs to one URL. Neither the URL nor the receiver's answer is ever shown. The body of an
answer is not read.
"""

from __future__ import annotations

import email.utils
import http.client
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from penstock.core.errors import ConfigurationError
from penstock.released.sinks.base import SinkError
from penstock.released.sinks.deadline import ConnectionDeadline

MAX_WAIT_SECONDS = 3_600.0
"""The most seconds that a receiver may ask to wait."""

ANSWER_SECONDS = 10.0
"""The most seconds of a request with its answer, where nothing else is said."""

_PASSING = (408, 425, 429)


class HttpPoster:
    """Posts JSON to one URL.

    Parameters
    ----------
    url : str
        The URL, with http or https.
    token : str or None
        Sent as `Authorization: Bearer …`. Default: None.
    timeout : float
        The most seconds of a request with its answer, however slowly that comes. Default: 10.
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = ANSWER_SECONDS
    ) -> None:
        _check(url, token)
        self._url = url
        self._token = token
        self.timeout = timeout
        self._deadline: ConnectionDeadline | None = None
        self._opener = urllib.request.build_opener(
            _NoRedirect, _WatchedHttp(self), _WatchedHttps(self)
        )

    def __repr__(self) -> str:
        return "<HttpPoster>"

    def interrupt(self) -> None:
        """End a request under way."""
        deadline = self._deadline
        if deadline is not None:
            deadline.abort()

    def watch(self, connection: http.client.HTTPConnection) -> None:
        """Let the deadline of the request end this connection."""
        if self._deadline is not None:
            self._deadline.watch(connection.sock.fileno())

    def post(self, body: bytes, *, key: str, where: str, done: int = 0) -> None:
        """Post a body, or raise a `SinkError`.

        Parameters
        ----------
        body : bytes
            The JSON.
        key : str
            The idempotency key. A receiver that knows it has nothing to do.
        where : str
            What is posted, for the error.
        done : int
            How many items the receiver has already, for the error. Default: 0.
        """
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": key,
            "User-Agent": "penstock",
        }
        with ConnectionDeadline(self.timeout) as deadline:
            self._deadline = deadline
            try:
                status, wait = self._answer(body, headers)
            except (OSError, http.client.HTTPException, ValueError) as error:
                if not deadline.over:
                    raise SinkError(
                        f"{where}: {_reason(error)}; it will be sent again.", done=done
                    ) from None
            finally:
                self._deadline = None
            if deadline.over:
                raise SinkError(
                    f"{where}: no whole answer in time (at most {self.timeout:g} seconds); "
                    "it will be sent again.",
                    done=done,
                )
        if not 200 <= status < 300:
            lasting = status < 500 and status not in _PASSING
            advice = " See to the address, the token and the receiver." if lasting else ""
            raise SinkError(
                f"{where}: answered with status {status}; it will be sent again.{advice}",
                lasting=lasting,
                after=wait,
                done=done,
            )

    def _answer(self, body: bytes, headers: dict[str, str]) -> tuple[int, float | None]:
        """Post a body; return the status of the answer, and the seconds that it asks to wait."""
        request = urllib.request.Request(self._url, body, headers, method="POST")  # noqa: S310
        if self._token is not None:
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=self.timeout) as answer:
                return answer.status, None
        except urllib.error.HTTPError as answer:
            answer.close()
            return answer.code, _wait(answer.headers.get("Retry-After"))


class _Watched(urllib.request.AbstractHTTPHandler):
    """Shows each connection to the poster as soon as it is made."""

    def __init__(self, poster: HttpPoster) -> None:
        super().__init__()
        self._poster = poster

    def do_open(self, http_class: Any, req: Any, **arguments: Any) -> Any:
        return super().do_open(_watched(http_class, self._poster), req, **arguments)


class _WatchedHttp(_Watched, urllib.request.HTTPHandler):
    """Connections without TLS."""


class _WatchedHttps(_Watched, urllib.request.HTTPSHandler):
    """Connections with TLS."""


def _watched(connection_class: Any, poster: HttpPoster) -> Any:
    """A class of connections that shows each one to the poster once it is made."""

    class Connection(connection_class):  # type: ignore[misc]
        def connect(self) -> None:
            super().connect()
            poster.watch(self)

    return Connection


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Treats a redirect like any other answer."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _check(url: str, token: str | None) -> None:
    try:
        parts = urlsplit(url)
        good = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
        )
        good = good and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        good, parts = False, urlsplit("")
    if not good:
        raise ConfigurationError(
            "webhook: the address must be like https://example.org/releases, in ASCII."
        )
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            "webhook: the address must have no user name and password in it: use a token."
        )
    if token is not None and not (
        token and token.isascii() and token.isprintable() and " " not in token
    ):
        raise ConfigurationError(
            "webhook: the token must be of ASCII letters, digits and signs, without spaces."
        )


def _reason(error: Exception) -> str:
    """The cause in words, without any URL."""
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(inner, TimeoutError):
        return "the receiver could not be reached in time"
    return f"the receiver could not be reached ({type(inner).__name__})"


def _wait(header: str | None) -> float | None:
    """The seconds of a Retry-After header, which holds a number or a date."""
    if header is None:
        return None
    try:
        if header.strip().isdigit():
            seconds = float(header)
        else:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAX_WAIT_SECONDS)
