"""The check of a source before its first release: whether a sample of its rows can be read.

A pipeline that does not fit its input would publish noise about nothing, for good. So a sample of
rows is looked at before anything is released from a new or changed source. Everything here is
private: the operator hears whether the sample passed and the kind of mistake, never a number. The
argument about privacy is in docs/proofs/publisher.md.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core.errors import UnreadableRowsError
from penstock.engine.pipeline import Pipeline
from penstock.private.sources.base import Batch, Columns, Position, Reason, Source

SAMPLE_ROWS = 1_000
"""The rows of a sample, where the source has as many. All rows of a batch are in it."""

MIN_ROWS_OF_A_LIVE_SAMPLE = 10
"""Rows that stop a live publisher. One bad row of one sender must not end the service."""

MIN_ROWS_OF_FURTHER_SAMPLES = 100
"""Once a sample has passed, files with fewer rows are judged together with the files after them."""

ANYWAY = (
    "Correct the configuration or the input. If it is right, start with --anyway "
    "(in Python: anyway=True)."
)


class SourceCheck:
    """Lets nothing be released from a new or changed source until a sample of its rows passed.

    A sample passes if at least half of its rows can be taken. A finite input has one sample per
    file; a live source has one sample per start with a new configuration or new files. A source
    without any rows is not judged.

    Parameters
    ----------
    pipeline : Pipeline
        The configuration.
    source : Source
        The source of events.
    finite : bool
        Whether the input has an end.
    anyway : bool
        Whether to accept every source without a check.
    """

    def __init__(self, pipeline: Pipeline, source: Source, *, finite: bool, anyway: bool) -> None:
        self._columns = pipeline.source.columns
        self._configuration = source_digest(pipeline)
        self._source = source
        self._finite = finite
        self._over = anyway
        self._new = True  # no sample of this configuration has passed at an earlier start
        self._passed: str | None = None  # the last part of the source that may be released
        self._part = ""
        self._sample = _Sample()
        self._inside = self._outside = 0
        self._counted = source.rejections.by_column()

    def __repr__(self) -> str:
        return "<SourceCheck, private>"

    @property
    def pending(self) -> bool:
        """Whether rows may still have to be judged before the next release."""
        return not self._over

    @property
    def untried(self) -> bool:
        """Whether no row of this source was ever taken with this configuration."""
        return self._new and not self._over and not (self._inside or self._outside)

    def restore(self, record: Mapping[str, Any] | None, position: Position | None) -> None:
        """Go on from what the store has. A store of an earlier version has a position only."""
        if record is None:
            passed = None if position is None else self._source.part(position)
        else:
            passed = record["passed"] if record["source"] == self._configuration else None
        self._passed = passed
        self._new = passed is None

    def record(self) -> dict[str, Any]:
        """What the store keeps: the configuration, and the last part that may be released."""
        return {"source": self._configuration, "passed": self._passed}

    def note(self, batch: Batch, outside: int) -> None:
        """Take a batch that was counted into the sample, and judge a sample that is complete.

        Parameters
        ----------
        batch : Batch
            The rows that were taken.
        outside : int
            How many of them lie before unit 1 or in the future.
        """
        self.note_rows(self._source.part(batch.position), len(batch), outside)

    def note_rows(self, part: str, taken: int, outside: int) -> None:
        """Take rows of a part of the source into the sample.

        Parameters
        ----------
        part : str
            The part of the source.
        taken : int
            How many of its rows were taken.
        outside : int
            How many of these lie before unit 1 or in the future.
        """
        refused = self._newly_refused()
        self._inside += taken - outside
        self._outside += outside
        if self._over:
            self._passed = max(part, self._passed or "")
            return
        if self._passed is not None and part <= self._passed:
            return
        if part != self._part:
            if self._sample.rows >= MIN_ROWS_OF_FURTHER_SAMPLES:
                self._judge()
            self._part = part
        self._sample.taken += taken
        self._sample.refused.update(refused)
        if self._sample.rows >= SAMPLE_ROWS:
            self._judge()

    def before_release(self, *, complete: bool) -> None:
        """Refuse to release anything if the sample so far does not pass.

        Parameters
        ----------
        complete : bool
            Whether all of a finite input was read.
        """
        if self._over:
            return
        self._sample.refused.update(self._newly_refused())  # whole requests may be refused
        if self._new:
            self._check_range(complete=complete)
        if self._passed is not None:
            least = MIN_ROWS_OF_FURTHER_SAMPLES
        else:
            least = 1 if self._finite else MIN_ROWS_OF_A_LIVE_SAMPLE
        if self._sample.rows >= least:
            self._check_rows()
        if complete:
            self._passed = max(self._part, self._passed or "")
        self._over = complete if self._finite else self._passed is not None

    def _newly_refused(self) -> Counter[tuple[Reason, str]]:
        """The rows that were refused since the last call, by reason and column."""
        now = self._source.rejections.by_column()
        fresh = Counter(
            {
                each: count - self._counted.get(each, 0)
                for each, count in now.items()
                if each[0] not in (Reason.ORDER, Reason.FILE)
            }
        )
        self._counted = now
        return fresh

    def _judge(self) -> None:
        """Judge the sample of a part; if it passes, the part may be released."""
        self._check_rows()
        self._passed, self._sample = self._part, _Sample()
        self._over = not self._finite

    def _check_rows(self) -> None:
        sample = self._sample
        if 2 * sample.taken >= sample.rows:
            return
        (reason, column), _ = sample.refused.most_common(1)[0]
        name = self._part.rpartition("/")[2]
        raise UnreadableRowsError(
            f"source: fewer than half of the rows of a sample can be taken"
            f"{f' from {name}' if name else ''}. The most frequent reason: "
            f"{reason_in_words(reason, column, self._columns)}. "
            f"Nothing was released from these rows. {ANYWAY}"
        )

    def _check_range(self, *, complete: bool) -> None:
        """Refuse a source whose times can be read and all lie where no unit is."""
        if self._finite and not complete:
            return  # rows of the years before the origin may come first
        least = 1 if self._finite else MIN_ROWS_OF_FURTHER_SAMPLES
        if self._inside or self._outside < least:
            return
        raise UnreadableRowsError(
            "source: no row lies between the origin of [stream] and the end of the input or the "
            f"clock. Times in {self._columns.time!r} are read with clock = "
            f'"{self._columns.clock}". Nothing was released. {ANYWAY}'
        )


@dataclass(eq=False)
class _Sample:
    """How many rows were taken and refused so far."""

    taken: int = 0
    refused: Counter[tuple[Reason, str]] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        return self.taken + self.refused.total()


def source_digest(pipeline: Pipeline) -> str:
    """A digest of everything that says how rows are found and read: [source] and [domain].

    Options with their default are not in it, so that an option of a later version changes nothing.
    """
    source, facts = pipeline.source, pipeline.facts()
    defaults = {key: option.default for option in source.declaration.options for key in option.keys}
    content = {
        "kind": source.kind,
        "options": {
            key: value for key, value in source.options.items() if value != defaults.get(key)
        },
        "columns": repr(source.columns),
        "domain": [facts["domain"], facts["domain.other"]],
    }
    if source.columns.missing_person != "drop":
        content["missing_person"] = source.columns.missing_person
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def reason_in_words(reason: Reason, column: str, columns: Columns) -> str:
    """The kind of mistake in words, from the reason and the configuration alone."""
    if reason is Reason.TYPE and column == columns.time:
        return (
            f'the time in {column!r} cannot be read with clock = "{columns.clock}": write '
            'clock = "iso" for times such as 2026-01-31T08:30:00Z, or "seconds", "milliseconds" or '
            '"microseconds" for numbers that count from 1970'
        )
    if reason is Reason.TYPE and column:
        return f"the value in {column!r} is not of the declared type"
    if reason is Reason.MISSING and column and column == columns.person:
        return f'{column!r} has no value, and missing_person = "drop" leaves such rows out'
    if reason is Reason.MISSING and column:
        return f"{column!r} has no value"
    if reason is Reason.FIELD:
        return f"there is no field {column!r}"
    if reason is Reason.KEY:
        return f"the key in {column!r} is not in [domain], which has no other"
    if reason is Reason.TIME:
        return f'the time in {column!r}, read with clock = "{columns.clock}", is out of range'
    return str(reason)
