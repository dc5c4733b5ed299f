"""Jobs of Spark: counting some units of a view from rows, in a thread that can be given up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from penstock.core.calendar import Calendar
from penstock.core.errors import InputError, PenstockError, StateError
from penstock.engine.spark.session import DRIVER_ENDED, driver_ended, spark_thread
from penstock.engine.spark.sources import SparkInput
from penstock.private.partial_counts import (
    COUNTS,
    PIECES,
    CountedUnits,
    PartCounting,
    PartitionCheck,
    PartMerging,
    RangeRule,
    own_version,
)
from penstock.private.person_places import Partitioner
from penstock.private.sources.base import Intake

WIDE_KEYS = 100_000
"""From so many keys on, Spark adds up the counts of all places before they come here."""

POLL_SECONDS = 0.2

_numbers = count(1)
_KIND = re.compile(r"PartFailedError: (\w+)")
_MISSING = re.compile(r"No module named '(\w+)")


class SparkJobError(InputError):
    """A job of Spark that failed. The same job may succeed later."""


@dataclass(frozen=True, kw_only=True)
class SparkCounter:
    """How the units of one view are counted on Spark.

    Parameters
    ----------
    spark : SparkSession
        The session.
    intake : Intake
        Makes batches of the columns.
    calendar : Calendar
        The units of the view.
    tolerance : str
        How far an event may lie after the clock.
    keys : int
        The number of keys.
    contribution : int
        The most events of a person in a unit.
    finite : bool
        Whether the input has an end.
    partitions : int or None
        The places that persons are spread over. Default: None, twice the cores.
    partitioner : {"murmur2", "crc32"} or None
        How producers choose the partition of a person, where all events of a person are in one
        partition of the topic. Default: None, they are not.
    """

    spark: Any
    intake: Intake
    calendar: Calendar
    tolerance: str
    keys: int
    contribution: int
    finite: bool
    partitions: int | None = None
    partitioner: Partitioner | None = None

    def counted(self, given: SparkInput, rules: list[RangeRule], units: range) -> CountedUnits:
        """Run one job; return the counts of the units. A job that fails is a `SparkJobError`."""
        with spark_errors():
            table = self._job(given, rules, units)
        found = CountedUnits(units, self.keys, self.intake.columns)
        found.add(table)
        return found

    def _job(self, given: SparkInput, rules: list[RangeRule], units: range) -> Any:
        context = self.spark.sparkContext
        places = self.partitions or 2 * context.defaultParallelism
        check = None
        if self.partitioner is not None and given.partitions is not None:
            check = PartitionCheck(partitions=given.partitions, partitioner=self.partitioner)
        shuffled = check is None and self.intake.columns.person is not None
        intake = context.broadcast(self.intake)
        task = PartCounting(
            reader=given.reader,
            intake=intake,
            rules=rules,
            calendar=self.calendar,
            tolerance=self.tolerance,
            units=units,
            keys=self.keys,
            contribution=self.contribution,
            finite=self.finite,
            places=place_names(places) if shuffled else (),
            check=check,
            version=own_version(),
        )
        try:
            rows = given.rows.mapInArrow(_plain(task), PIECES if shuffled else COUNTS)
            if shuffled:
                merging = PartMerging(keys=self.keys, contribution=self.contribution)
                rows = rows.repartition(places, "place").mapInArrow(_plain(merging), COUNTS)
            if self.keys > WIDE_KEYS:
                rows = rows.groupBy("unit", "key", "note").sum("number")
                rows = rows.withColumnRenamed("sum(number)", "number")
            return rows.toArrow()
        finally:
            intake.destroy(blocking=False)


def _plain(task: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The task as a plain function, which is what Spark expects."""

    def run(batches: Any) -> Any:
        return task(batches)

    return run


@contextmanager
def spark_errors() -> Iterator[None]:
    """Raise errors of PySpark and Java in our words: their texts may quote data."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        raise _told(error) from None


def _told(error: Exception) -> StateError | SparkJobError:
    """The error in our words, without the text of the other's."""
    if driver_ended(error):
        return StateError(DRIVER_ENDED)
    text = str(error)
    missing, kind = _MISSING.search(text), _KIND.search(text)
    if missing is not None:
        return StateError(
            f"a worker of Spark lacks the Python package {missing[1]}. Install Penstock with the "
            "same extras on every machine. Nothing was released."
        )
    name = type(error).__name__ if kind is None else kind[1]
    return SparkJobError(f"a job of Spark failed ({name}).")


class JobThread:
    """A job in a thread of its own, so that the publisher can renew its leases or give it up."""

    def __init__(self, spark: Any, work: Callable[[], CountedUnits]) -> None:
        self._spark = spark
        self._work = work
        self._group = f"penstock-{next(_numbers)}"
        self._found: CountedUnits | None = None
        self._failure: BaseException | None = None
        self._thread = spark_thread(spark, self._run, self._group)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the job has not ended."""
        return self._thread.is_alive()

    def cancel(self) -> None:
        """Give the job up, and wait until it has ended."""
        self._spark.sparkContext.cancelJobGroup(self._group)
        self._thread.join()

    def result(self) -> CountedUnits:
        """The counts, or the error, of a job that has ended."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        assert self._found is not None
        return self._found

    def _run(self) -> None:
        try:
            self._spark.sparkContext.setJobGroup(self._group, "counting units")
            self._found = self._work()
        except BaseException as error:
            self._failure = error


def place_names(places: int) -> tuple[int, ...]:
    """For each place a number that Spark's hash sends there, so that no place is empty.

    >>> sorted(spark_hash(name) % 5 for name in place_names(5))
    [0, 1, 2, 3, 4]
    """
    found: dict[int, int] = {}
    for number in count():
        found.setdefault(spark_hash(number) % places, number)
        if len(found) == places:
            return tuple(found[place] for place in range(places))
    raise AssertionError


def spark_hash(number: int) -> int:
    """Spark's hash of an `int`: Murmur 3 of 32 bits with the seed 42.

    >>> [spark_hash(number) % 7 for number in range(6)]
    [1, 2, 5, 4, 1, 5]
    """
    mask = 0xFFFFFFFF

    def turned(word: int, by: int) -> int:
        return ((word << by) | (word >> (32 - by))) & mask

    word = turned(number * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    found = (turned(42 ^ word, 13) * 5 + 0xE6546B64) & mask
    found ^= 4
    found = (found ^ (found >> 16)) * 0x85EBCA6B & mask
    found = (found ^ (found >> 13)) * 0xC2B2AE35 & mask
    found ^= found >> 16
    return found - 2**32 if found >= 2**31 else found
