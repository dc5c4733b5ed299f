"""A URL to which every unit is posted, one after the other.

The body is the document. The `Idempotency-Key` is "series/unit/link", with the series quoted as in
a URL. A receiver that knows the key has nothing to do and answers as before. A unit that the
receiver did not take is sent again (`http_post`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from penstock.core.declaration import EndpointSetup, Option
from penstock.core.deprecated import moved
from penstock.released.sinks.base import ReleaseItem, SinkKind, in_order
from penstock.released.sinks.http_post import ANSWER_SECONDS, HttpPoster
from penstock.released.sinks.release_document import document


class WebhookSink:
    """Posts each unit to one URL.

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
        self._poster = HttpPoster(url, token=token, timeout=timeout)

    def __repr__(self) -> str:
        return "<Webhook>"

    def head(self, series: str) -> tuple[int, str] | None:
        """None: a receiver cannot be asked."""
        return None

    def put(self, items: Sequence[ReleaseItem]) -> None:
        in_order(items)
        for done, item in enumerate(items):
            key = f"{quote(item.series.name, safe='')}/{item.unit}/{item.link}"
            where = f"unit {item.unit} of {item.series.name!r}"
            self._poster.post(document(item), key=key, where=where, done=done)

    def close(self) -> None:
        """Nothing is open."""

    def interrupt(self) -> None:
        """End a request under way."""
        self._poster.interrupt()


def _build(setup: EndpointSetup) -> WebhookSink:
    return WebhookSink(setup.url(), token=setup.secret("token"), timeout=ANSWER_SECONDS)


KIND = SinkKind(
    name="webhook",
    summary="An HTTP address that every unit is posted to, with an idempotency key.",
    options=(
        Option(
            name="url",
            type="url",
            required=True,
            prefixes=("https://", "http://"),
            example="https://example.org/taps",
            help="the address; name it by url_env if it holds a secret",
        ),
        Option(
            name="token",
            type="secret",
            example="PARTNERS_TOKEN",
            help="the token that is sent along",
        ),
    ),
    describe=lambda options: "a webhook",
    build=_build,
    reports=False,
)

if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
