"""`RecentLog`: a log whose newest releases stay in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from penstock.core.released import Released
from penstock.released.log import DerivedLog, Log

MAX_NUMBERS_KEPT = 8_000_000
"""The most numbers that are kept. A log with more keys keeps fewer units."""


class RecentLog(DerivedLog):
    """A log that keeps the releases that were read last, for queries that look back on them.

    Only consecutive units are kept. Older ones are read from the other log each time.

    Parameters
    ----------
    log : Log
        The releases, as they are or filtered.
    units : int
        The most units that are kept.

    Examples
    --------
    >>> from penstock import Laplace
    >>> run = Laplace(epsilon="1").run(["north", "south"])
    >>> log = Log.of(run)
    >>> recent = RecentLog(log, 2)
    >>> for counts in ([7, 0], [8, 1], [9, 1]):
    ...     log.append(run.step(counts))
    >>> recent[3] is log[3], recent.kept
    (True, range(3, 4))
    """

    def __init__(self, log: Log, units: int) -> None:
        super().__init__(log, log.domain)
        most = max(min(units, MAX_NUMBERS_KEPT // max(log.domain.size, 1)), 1)
        self._kept: deque[Released] = deque(maxlen=most)

    @property
    def kept(self) -> range:
        """The units that are in memory."""
        if not self._kept:
            return range(0)
        return range(self._kept[0].unit, self._kept[-1].unit + 1)

    def _read(self, first: int, last: int) -> Iterator[Released]:
        here = self.kept
        if first in here:
            known = list(self._kept)[first - here.start : last + 1 - here.start]
            yield from known
            first = known[-1].unit + 1
        elif first != here.stop and last >= here.stop:
            self._kept.clear()  # a gap: what follows is newer
        if first > last:
            return
        for release in self._log.between(first, last):
            if not self._kept or release.unit == self._kept[-1].unit + 1:
                self._kept.append(release)
            yield release
