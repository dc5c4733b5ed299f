"""How many rows of a source are refused while a publisher runs.

The operator is told in coarse classes. Everybody may see one state, healthy or unhealthy. It
follows from the form of whole files, or from a limit that the operator has declared.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, TypeAlias

from penstock.engine.notices import Notifier
from penstock.engine.waiting import Runtime
from penstock.private.sources.base import Source

SourceState: TypeAlias = Literal["healthy", "unhealthy"]

NOTICE_SECONDS = 600.0
"""The shortest time between two notices about refused rows."""

MIN_ROWS_OF_A_NOTICE = 100
MIN_ROWS_OF_THE_LIMIT = 1_000
"""Rows since the last judgement; with fewer, the judgement waits for more."""

SHARES = (
    (Fraction(0), "fewer than a tenth"),
    (Fraction(1, 10), "more than a tenth"),
    (Fraction(1, 2), "more than half"),
    (Fraction(9, 10), "more than nine tenths"),
)
"""The classes of shares that notices tell: each from its bound on."""


class SourceHealth:
    """Follows the share of refused rows. Late events and those of no unit are not refused rows.

    Parameters
    ----------
    source : Source
        The source of events.
    unhealthy_above : Fraction or None
        The share of refused rows above which the source is unhealthy. None: no share is.
    notify : Notifier
        Hears when the share of refused rows has risen into another class, or has fallen again.
    runtime : Runtime
        The time that passes.
    """

    def __init__(
        self,
        source: Source,
        *,
        unhealthy_above: Fraction | None,
        notify: Notifier,
        runtime: Runtime,
    ) -> None:
        self.taken = 0
        self._source = source
        self._limit = unhealthy_above
        self._notify = notify
        self._runtime = runtime
        self._above = False
        self._told = 0
        self._told_at = runtime.monotonic()
        self._noticed = self._judged = (0, source.rejections.rows)

    def __repr__(self) -> str:
        return f"<SourceHealth, {self.state}>"

    @property
    def state(self) -> SourceState:
        """Whether the source can be read. Everybody may see it."""
        return "unhealthy" if self._above or self._source.unreadable else "healthy"

    def judge(self) -> None:
        """Compare the share of refused rows with the operator's limit, after a unit is released."""
        if self._limit is None:
            return
        taken, refused = self._since(self._judged)
        if taken + refused >= MIN_ROWS_OF_THE_LIMIT:
            self._judged = self._now()
            self._above = refused > self._limit * (taken + refused)

    def tell(self, *, final: bool = False) -> None:
        """Tell the operator if refusals have risen, at most every ten minutes.

        Parameters
        ----------
        final : bool
            Whether the publisher ends, so that this is not the time to wait.
        """
        if not final and self._runtime.monotonic() - self._told_at < NOTICE_SECONDS:
            return
        taken, refused = self._since(self._noticed)
        if taken + refused < MIN_ROWS_OF_A_NOTICE:
            return
        self._noticed, self._told_at = self._now(), self._runtime.monotonic()
        share = Fraction(refused, taken + refused)
        now = max(place for place, (bound, _) in enumerate(SHARES) if share >= bound)
        if now > self._told:
            text = (
                f"{SHARES[now][1]} of the latest rows were refused. The operator's private figures "
                "say why."
            )
            self._notify("source", text, level="warning")
        elif not now and self._told:
            self._notify("source", f"{SHARES[0][1]} of the latest rows were refused.")
        self._told = now

    def _now(self) -> tuple[int, int]:
        return self.taken, self._source.rejections.rows

    def _since(self, before: tuple[int, int]) -> tuple[int, int]:
        taken, refused = self._now()
        return taken - before[0], refused - before[1]
