"""`ServiceConnection`: requests to a read service, by the standard library alone."""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from penstock.core.errors import ConfigurationError, StateError, StoreUnavailableError

MAX_REPLY_BYTES: Final = 256_000_000
"""A longer reply is refused before it is read."""

MAX_MESSAGE: Final = 500
"""The most characters of the service's own sentence that an error repeats."""

QUIET_SECONDS: Final = 45.0
"""How long live events may be silent. A service writes a comment every 15 seconds."""

_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers after which the same request is worth a retry."""


class ServiceConnection:
    """Sends requests to one service. It may be used from several threads.

    Certificates of an https service are checked. The token is sent in a header only, and over
    plain http to this machine only. Redirects are not followed.

    Parameters
    ----------
    url : str
        The address of the service, such as "https://data.example".
    token : str, optional
        The token for reading. Default: none.
    timeout : float
        The most seconds to wait for a connection, or for more of a reply. Default: 30.
    certificates : path, optional
        A PEM file with the authorities to trust. Default: those of the system.

    Examples
    --------
    >>> ServiceConnection("http://127.0.0.1:8090").url
    'http://127.0.0.1:8090'
    >>> ServiceConnection("ftp://data.example")
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: url must be like https://data.example, ...
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        certificates: str | os.PathLike[str] | None = None,
    ) -> None:
        self._scheme, self._host, self._port, self._folder = _address(url)
        self.url = url.rstrip("/")
        self._timeout = _seconds(timeout)
        self._headers = {"User-Agent": "penstock", "Accept-Encoding": "identity"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {self._checked(token)}"
        self._tls = _trusted(certificates) if self._scheme == "https" else None
        self._lock = threading.Lock()
        self._kept: HTTPConnection | None = None
        self._live = set[HTTPConnection]()
        self._closed = False

    def __repr__(self) -> str:
        return f"<ServiceConnection to {self.url}>"

    def get(self, *parts: str, **parameters: object) -> bytes:
        """The body of an answer. A connection that the service has closed is opened again once.

        Parameters
        ----------
        *parts : str
            The parts of the path after /v1. Slashes inside of a part are separators, too.
        **parameters : object
            The parameters of the request.
        """
        path = self._path(parts, parameters)
        with self._lock:
            fresh = self._kept is None
            try:
                return self._answer(path)
            except (OSError, HTTPException) as error:
                self._drop()
                if fresh or isinstance(error, TimeoutError):
                    raise self._away(error) from None
            try:
                return self._answer(path)
            except (OSError, HTTPException) as error:
                self._drop()
                raise self._away(error) from None

    def json(self, *parts: str, **parameters: object) -> Any:
        """An answer that is a JSON object.

        Parameters
        ----------
        *parts : str
            The parts of the path after /v1.
        **parameters : object
            The parameters of the request.
        """
        body = self.get(*parts, **parameters)
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise StateError(f"{self.url} does not answer like a read service of Penstock.")
        return found

    @contextmanager
    def lines(self, *parts: str, headers: Mapping[str, str]) -> Iterator[Iterator[bytes]]:
        """The lines of an answer that goes on and on, on a connection of its own.

        Parameters
        ----------
        *parts : str
            The parts of the path after /v1.
        headers : mapping of str to str
            More headers of the request.
        """
        connection = self._opened(max(self._timeout, QUIET_SECONDS))
        self._live.add(connection)
        try:
            connection.request("GET", self._path(parts, {}), headers=self._headers | dict(headers))
            reply = connection.getresponse()
            if reply.status != 200:
                self._refuse(reply.status, reply.read(MAX_REPLY_BYTES))
            yield iter(lambda: reply.readline(65_536), b"")
        except (OSError, HTTPException) as error:
            raise self._away(error) from None
        finally:
            self._live.discard(connection)
            connection.close()

    def close(self) -> None:
        """Close all connections, also one that waits for live events."""
        self._closed = True
        for connection in tuple(self._live):
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._drop()

    # -- inside ------------------------------------------------------------------------------------

    def _checked(self, token: str) -> str:
        if not token or not all("!" <= letter <= "~" for letter in token):
            raise ConfigurationError(
                "token must be printable ASCII without spaces.", parameter="token"
            )
        if self._scheme == "http" and not _here(self._host):
            raise ConfigurationError(
                "token: it would be sent unencrypted. Use the https address of the service.",
                parameter="token",
            )
        return token

    def _path(self, parts: tuple[str, ...], parameters: Mapping[str, object]) -> str:
        path = "/".join(quote(piece, safe="") for part in parts for piece in part.split("/"))
        asked = urlencode({name: str(value) for name, value in parameters.items()})
        return f"{self._folder}/v1/{path}" + (f"?{asked}" if asked else "")

    def _opened(self, timeout: float) -> HTTPConnection:
        if self._closed:
            raise StateError(f"the connection to {self.url} is closed.")
        if self._tls is not None:
            return HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)
        return HTTPConnection(self._host, self._port, timeout=timeout)

    def _answer(self, path: str) -> bytes:
        if self._kept is None:
            self._kept = self._opened(self._timeout)
        self._kept.request("GET", path, headers=self._headers)
        reply = self._kept.getresponse()
        body = self._body(reply)
        if reply.status != 200:
            self._refuse(reply.status, body)
        return body

    def _body(self, reply: HTTPResponse) -> bytes:
        if (reply.length or 0) > MAX_REPLY_BYTES:
            self._drop()
            raise StateError(f"{self.url} sends a reply of more than {MAX_REPLY_BYTES:,} bytes.")
        return reply.read()

    def _refuse(self, status: int, body: bytes) -> None:
        """Raise the error of an answer other than 200, with the service's own sentence."""
        said = _sentence(body)
        if status == 401:
            raise ConfigurationError(
                f"token: {self.url} wants the token for reading. {said}".rstrip(),
                parameter="token",
            )
        if 300 <= status < 400:
            raise ConfigurationError(
                f"url: {self.url} has moved to another address. Connect to that one.",
                parameter="url",
            )
        what = f"{self.url} answers {status}: {said}" if said else f"{self.url} answers {status}."
        if status in _PASSING:
            raise StoreUnavailableError(what)
        if status == 404:
            raise ConfigurationError(what)
        raise StateError(what)

    def _drop(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _away(self, error: Exception) -> StateError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return StateError(
                f"{self.url}: its certificate is not trusted ({error.verify_message}). Name the "
                "file of your own authority as certificates=…"
            )
        why = "it did not answer in time" if isinstance(error, TimeoutError) else _reason(error)
        return StoreUnavailableError(f"{self.url} cannot be reached: {why}.")


def _address(url: str) -> tuple[str, str, int | None, str]:
    try:
        parts = urlsplit(str(url))
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.query
        or parts.fragment
        or not url.isascii()
        or not url.isprintable()
        or " " in url
    ):
        raise ConfigurationError(
            "url must be like https://data.example, with nothing after ? or #.", parameter="url"
        )
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            "url must hold no name and no password: give a token as token=…", parameter="url"
        )
    return parts.scheme, parts.hostname, port, parts.path.rstrip("/").removesuffix("/v1")


def _seconds(timeout: float) -> float:
    if not 0 < timeout <= 3600:
        raise ConfigurationError("timeout must be above 0 and at most 3600 s.", parameter="timeout")
    return float(timeout)


def _trusted(certificates: str | os.PathLike[str] | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=certificates)
    except (OSError, ssl.SSLError):
        raise ConfigurationError(
            f"certificates: {str(certificates)!r} is no PEM file with certificates.",
            parameter="certificates",
        ) from None


def _here(host: str) -> bool:
    """Whether an address is of this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _sentence(body: bytes) -> str:
    """The sentence of an error; empty if it has none."""
    try:
        said = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    text = said if isinstance(said, str) else ""
    return "".join(letter for letter in text if letter.isprintable())[:MAX_MESSAGE]


def _reason(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "its name has no address"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return type(error).__name__
