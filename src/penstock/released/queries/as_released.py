"""`AsReleased`: the numbers of a release log as they were released."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.released.log import Log
from penstock.released.queries.answer import Answer
from penstock.released.queries.current_releases import Sums, as_they_are, numbers
from penstock.released.queries.query import Names, NumberQuery, Units, answer_of, chosen, chunks


@dataclass(frozen=True)
class AsReleased(NumberQuery):
    """The number of each key as it was released, whichever units it is a sum of.

    Examples
    --------
    >>> from penstock import WindowTree
    >>> run = WindowTree(epsilon="1", span=4).run(["north", "south"])
    >>> log = Log.of(run)
    >>> log.append(run.step([7, 0]))
    >>> AsReleased().answer(log)
    <Answer 'the sum of the last 4 units': unit 1, 2 names>
    """

    def in_words(self) -> str:
        return "numbers as released"

    def answer(self, log: Log, unit: Units = None, *, keys: Names = None) -> Answer:
        first, last = self._span(log, unit)
        log = chosen(log, keys)
        sums = Sums.stacked(
            [as_they_are(numbers(log, start, end)) for start, end in chunks(log, first, last, 1)]
        )
        return answer_of(log.way(last).weights.in_words(), log, first, sums, alone=True)
