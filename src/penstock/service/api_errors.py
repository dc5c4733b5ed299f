"""Errors of the read API: a status, a sentence that says what to do, and the nearest name."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from penstock.core.errors import PenstockError
from penstock.core.nearest_name import MAX_NAMES_COMPARED

MAX_NAME_LENGTH = 200
"""Longer names are not looked for: comparing them would take long."""


class ApiError(PenstockError):
    """A request that is not answered.

    Parameters
    ----------
    status : int
        The status of HTTP.
    message : str
        A sentence that says what to do.
    nearest : str, optional
        The nearest name, where a name is unknown. Default: none.
    retry_after : int, optional
        Seconds after which the request is worth another try. Default: none.

    Examples
    --------
    >>> ApiError(404, "there is no stream 'tap'.", nearest="taps").content
    {'error': "there is no stream 'tap'.", 'nearest': 'taps'}
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        nearest: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        self.status, self.nearest, self.retry_after = status, nearest, retry_after
        super().__init__(message)

    @property
    def content(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"error": str(self), "nearest": self.nearest}

    @property
    def headers(self) -> dict[str, str]:
        """The headers that belong to the status."""
        found = {"cache-control": "no-store"}
        if self.retry_after is not None:
            found["retry-after"] = str(self.retry_after)
        if self.status == 401:
            found["www-authenticate"] = "Bearer"
        return found


def unknown(kind: str, name: str, names: Sequence[str]) -> ApiError:
    """The error that a name is not known, with the nearest one.

    Parameters
    ----------
    kind : str
        What the name is of, such as "stream".
    name : str
        The unknown name.
    names : sequence of str
        The names that there are.

    Examples
    --------
    >>> print(unknown("stream", "tap", ["taps", "gates"]))
    there is no stream 'tap'. Did you mean 'taps'?
    """
    near = nearest(name, names)
    hint = f" Did you mean {near!r}?" if near else ""
    return ApiError(404, f"there is no {kind} {name[:MAX_NAME_LENGTH]!r}.{hint}", nearest=near)


def nearest(name: str, names: Sequence[str]) -> str | None:
    """The name that is nearest to another, whatever its capitals; None if none is near.

    >>> nearest("harbor", ["Harbour", "Market"]), nearest("x", ["Market"])
    ('Harbour', None)
    """
    if len(name) > MAX_NAME_LENGTH:
        return None
    written = {each.casefold(): each for each in reversed(names[:MAX_NAMES_COMPARED])}
    close = get_close_matches(name.casefold(), written, n=1)
    return written[close[0]] if close else None
