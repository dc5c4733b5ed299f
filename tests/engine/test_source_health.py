"""Refused rows while a publisher runs: what its operator hears, and the one state for everybody."""

from __future__ import annotations

from fractions import Fraction

import pytest

from penstock.core.errors import ConfigurationError
from penstock.engine import publisher_figures
from penstock.engine.notices import Notifier
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.source_health import (
    MIN_ROWS_OF_A_NOTICE,
    MIN_ROWS_OF_THE_LIMIT,
    NOTICE_SECONDS,
    SourceHealth,
)
from penstock.engine.waiting import Runtime
from penstock.private.sources.base import Reason, Rejections, Source
from penstock.testing import ManualClock, NoNoise

from tests.engine import streams

HEADER = "ts,station,card\n"
ROW = "2026-01-01T00:10Z,Airport,1\n"


class PassingTime(Runtime):
    """Time that the test lets pass."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


class NoSource(Source):
    """Nothing comes; the test counts rejections."""

    def __init__(self):
        self.rejections = Rejections()

    @property
    def resumable(self):
        return True

    def batches(self, after=None):
        yield from ()


class Followed:
    """The health of a source, and what was told."""

    def __init__(self, limit=None):
        self.told, self.time, self.source = [], PassingTime(), NoSource()
        self.health = SourceHealth(
            self.source,
            unhealthy_above=limit,
            notify=Notifier("taps", self.told.append),
            runtime=self.time,
        )

    def rows(self, taken, refused):
        self.health.taken += taken
        self.source.rejections.add(Reason.TYPE, refused)

    def later(self, seconds=NOTICE_SECONDS, *, final=False):
        self.time.now += seconds
        self.health.tell(final=final)
        texts = [each.text.partition(" of the")[0] for each in self.told]
        self.told.clear()
        return texts


# -- for the operator ------------------------------------------------------------------------------


def test_refusals_are_told_when_they_rise_into_another_class_and_when_they_are_over():
    source = Followed()
    for taken, refused, told in (
        (950, 50, []),
        (800, 200, ["more than a tenth"]),
        (700, 300, []),
        (400, 600, ["more than half"]),
        (50, 950, ["more than nine tenths"]),
        (400, 600, []),
        (950, 50, ["fewer than a tenth"]),
        (0, 1000, ["more than nine tenths"]),
    ):
        source.rows(taken, refused)
        assert source.later() == told


def test_notices_have_a_pace_and_need_rows():
    source = Followed()
    source.rows(0, MIN_ROWS_OF_A_NOTICE - 1)
    assert source.later() == []
    source.rows(0, 1)
    assert source.later(0) == ["more than nine tenths"]
    source.rows(1000, 0)
    assert source.later(NOTICE_SECONDS - 1) == []
    assert source.later(1) == ["fewer than a tenth"]


def test_at_the_end_the_rest_is_told():
    source = Followed()
    source.rows(500, 500)
    assert source.later(1) == []
    assert source.later(1, final=True) == ["more than half"]


def test_a_notice_holds_no_number():
    source = Followed()
    source.rows(4711, 4711)
    source.time.now = NOTICE_SECONDS
    source.health.tell()
    (notice,) = source.told
    assert (notice.kind, notice.level) == ("source", "warning")
    assert not any(letter.isdigit() for letter in notice.text)


# -- for everybody ---------------------------------------------------------------------------------


def test_without_a_limit_no_row_makes_a_source_unhealthy():
    source = Followed()
    source.rows(0, 10 * MIN_ROWS_OF_THE_LIMIT)
    source.health.judge()
    assert source.health.state == "healthy"


def test_the_limit_is_the_operators():
    source = Followed(Fraction(1, 5))
    source.rows(0, MIN_ROWS_OF_THE_LIMIT - 1)
    source.health.judge()
    assert source.health.state == "healthy"
    source.rows(0, 1)
    source.health.judge()
    assert source.health.state == "unhealthy"
    source.rows(4 * MIN_ROWS_OF_THE_LIMIT, MIN_ROWS_OF_THE_LIMIT)
    assert source.health.state == "unhealthy"
    source.health.judge()
    assert source.health.state == "healthy"


@pytest.mark.parametrize("limit", ["0", "1", "-0.1", "much", 0.2, True])
def test_a_limit_is_a_share(limit):
    with pytest.raises(ConfigurationError, match="unhealthy_above"):
        Pipeline.of(streams.pipeline(operator={"unhealthy_above": limit}))
    made = Pipeline.of(streams.pipeline(operator={"unhealthy_above": "1/5"}))
    assert made.operator.unhealthy_above == Fraction(1, 5)


def test_a_whole_file_that_cannot_be_read_makes_a_source_unhealthy(tmp_path):
    source = {"kind": "csv", "path": "*.csv", "growing": True}
    made = Pipeline.of(streams.pipeline(source=source, stream={"pace": "0s"}), folder=tmp_path)
    clock, states = ManualClock("2026-01-01T00:00Z"), []
    (tmp_path / "1.csv").write_text(HEADER + ROW)
    with Publisher(made, clock=clock, noise=NoNoise) as publisher:
        for name, content in (
            ("1.csv", HEADER + ROW + ROW),
            ("2.csv", "ts,place,card\n" + ROW),  # no column of that name
            ("3.csv", ""),  # the second file is left out
            ("3.csv", HEADER + "01.01.2026,Airport,1\n"),  # a bad row is not a bad file
            ("4.csv", HEADER + ROW),
        ):
            (tmp_path / name).write_text(content)
            publisher.loop._retry_at = 0.0
            publisher.loop.read()
            states.append(publisher_figures.public([publisher]).streams[0].source)
        (private,) = publisher_figures.private([publisher])
    assert states == ["healthy", "unhealthy", "healthy", "healthy", "healthy"]
    assert private.taken == 3
    assert private.rejections == {"wrong type": 1, "unreadable file": 1}
