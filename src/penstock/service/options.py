"""The settings of the read service, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core.errors import ConfigurationError
from penstock.core.http_origin import ORIGIN
from penstock.core.server_tls import ServerTls
from penstock.released.alerting import AlertRule

LISTEN = "127.0.0.1:8090"
"""Where the service listens by default."""

LANGUAGES = ("en", "de")
"""The languages of the dashboard."""

MIN_TOKEN_LENGTH = 16
"""A shorter read token could be guessed."""


@dataclass(frozen=True, kw_only=True)
class TimelineEvent:
    """Something that readers should know of when they look at a moment of the timeline.

    Parameters
    ----------
    at : str
        The date or time, in the stream's zone if it has no offset.
    text : str
        What happened.

    Examples
    --------
    >>> TimelineEvent(at="2026-03-01T18:00", text="Cup final").text
    'Cup final'
    """

    at: str
    text: str


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """The settings of the read service.

    Parameters
    ----------
    listen : str
        The host and the port. Port 0 takes a free one. Default: "127.0.0.1:8090".
    title : str
        The title of the dashboard. Default: "Penstock".
    language : str
        The language of the dashboard before a reader chooses one. Default: "en".
    origins : tuple of str
        The origins whose pages may call the API (CORS). Default: none.
    frames : tuple of str
        The origins whose pages may show a chart in a frame. Default: none.
    token : str, optional
        The token that readers must show. Default: none, everybody may read.
    tls : ServerTls, optional
        The files for TLS. Default: plain HTTP.
    map : Path, optional
        A GeoJSON file with the places of keys. Default: none.
    map_key : str
        The property of a place that holds its key. Default: "key".
    events : tuple of TimelineEvent
        What readers should know of on the timeline. Default: none.
    rules : mapping of str to tuple of AlertRule
        By series: its rules of alerts. Default: for each series, those that its store names.

    Examples
    --------
    >>> ServiceOptions(listen="127.0.0.1:0").address
    ('127.0.0.1', 0)
    """

    listen: str = LISTEN
    title: str = "Penstock"
    language: str = "en"
    origins: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)
    tls: ServerTls | None = None
    map: Path | None = None
    map_key: str = "key"
    events: tuple[TimelineEvent, ...] = ()
    rules: Mapping[str, tuple[AlertRule, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        host, _, port = self.listen.rpartition(":")
        if not host or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
            raise ConfigurationError(
                f"listen must be a host and a port such as {LISTEN}, not {self.listen!r}.",
                parameter="listen",
            )
        if self.language not in LANGUAGES:
            raise ConfigurationError(
                f"language must be {' or '.join(LANGUAGES)}, not {self.language!r}.",
                parameter="language",
            )
        for name in ("origins", "frames"):
            for origin in getattr(self, name):
                if not ORIGIN.fullmatch(origin):
                    raise ConfigurationError(
                        f"{name} must be origins such as https://www.example.org, without a path, "
                        f"not {origin!r}.",
                        parameter=name,
                    )
        token = self.token
        if token is not None and (
            len(token) < MIN_TOKEN_LENGTH or not all("!" <= letter <= "~" for letter in token)
        ):
            raise ConfigurationError(
                f"service: the token must have at least {MIN_TOKEN_LENGTH} characters, all of them "
                "printable ASCII without spaces.",
                parameter="token",
            )

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port."""
        host, _, port = self.listen.rpartition(":")
        return host, int(port)
