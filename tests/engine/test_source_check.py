"""Before the first release from a new or changed source, a sample of its rows must be readable."""

from __future__ import annotations

import io
import json
import threading

import httpx
import pytest

import penstock as ps
from penstock.core.errors import UnreadableRowsError, UnusableSourceError
from penstock.engine import publisher_figures
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.source_check import (
    MIN_ROWS_OF_FURTHER_SAMPLES,
    SAMPLE_ROWS,
    source_digest,
)
from penstock.engine.sqlite import SQLiteReader, SQLiteStore
from penstock.private.sources.base import Intake, Reason
from penstock.private.sources.http import HttpSource
from penstock.private.sources.jsonl import JsonLinesFormat
from penstock.private.sources.prefetch import PrefetchSource
from penstock.private.sources.stdin import StdinSource
from penstock.testing import ManualClock, NoNoise

from tests.engine import streams
from tests.engine.streams import KEYS

HEADER = "ts,station,card\n"
GOOD = "2026-01-01T00:10Z,Airport,{}\n"
GERMAN = "01.01.2026 00:10,Airport,{}\n"


def rows(form, count, first=1):
    """Rows of one form, each of another card."""
    return "".join(form.format(card) for card in range(first, first + count))


def pipeline(folder, *, live=False, path="taps.csv", **tables):
    stream = {"pace": "0s"} if live else {"until": "2026-01-01T03:00Z"}
    tables["stream"] = {**stream, **tables.get("stream", {})}
    tables["source"] = {"kind": "csv", "path": path, "growing": live, **tables.get("source", {})}
    return Pipeline.of(streams.pipeline(**tables), folder=folder)


def publish(made, **more):
    with Publisher(made, noise=NoNoise, **more) as publisher:
        assert publisher.run()


def released(folder):
    with SQLiteReader(folder / "taps.db") as reader:
        return [release.value.tolist() for release in reader.releases("taps")]


class LivePublisher:
    """A live publisher whose clock the test sets."""

    def __init__(self, made, **more):
        self.clock, self.told = ManualClock("2026-01-01T00:00Z"), []
        self.publisher = Publisher(
            made, clock=self.clock, noise=NoNoise, listener=self.told.append, **more
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.publisher.close()

    def turn(self, now):
        """What the loop does once."""
        self.clock.set(now)
        self.publisher.loop.read()
        while self.publisher.loop.draw(self.clock.now()):
            self.publisher.loop.commit()


# -- a finite input --------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 5_000])
def test_an_input_whose_times_cannot_be_read_releases_nothing(tmp_path, count):
    (tmp_path / "taps.csv").write_text(HEADER + rows(GERMAN, count))
    with pytest.raises(UnreadableRowsError) as caught:
        publish(pipeline(tmp_path))
    assert str(caught.value) == (
        "source: fewer than half of the rows of a sample can be taken from taps.csv. The most "
        "frequent reason: the time in 'ts' cannot be read with clock = \"iso\": write clock = "
        '"iso" for times such as 2026-01-31T08:30:00Z, or "seconds", "milliseconds" or '
        '"microseconds" for numbers that count from 1970. Nothing was released from these rows. '
        "Correct the configuration or the input. If it is right, start "
        "with --anyway (in Python: anyway=True)."
    )
    assert released(tmp_path) == []


def test_a_mistake_that_was_found_can_be_corrected(tmp_path):
    (tmp_path / "taps.csv").write_text(HEADER + rows(GERMAN, 200))
    with pytest.raises(UnreadableRowsError):
        publish(pipeline(tmp_path))
    (tmp_path / "taps.csv").write_text(HEADER + rows(GOOD, 200))
    publish(pipeline(tmp_path))
    assert released(tmp_path) == [[200, 0, 0, 0], [0] * 4, [0] * 4]


@pytest.mark.parametrize(("bad", "passes"), [(50, True), (51, False)])
def test_half_of_the_rows_are_enough(tmp_path, bad, passes):
    (tmp_path / "taps.csv").write_text(HEADER + rows(GERMAN, bad) + rows(GOOD, 50))
    if not passes:
        with pytest.raises(UnreadableRowsError):
            publish(pipeline(tmp_path))
        return
    publish(pipeline(tmp_path))
    assert released(tmp_path)[0] == [50, 0, 0, 0]


@pytest.mark.parametrize(
    ("row", "tables", "reason"),
    [
        ("2026-01-01T00:10Z,Atlantis,{}\n", {}, "the key in 'station' is not in [domain]"),
        ("2026-01-01T00:10Z,Airport,c{}\n", {}, "the value in 'card' is not of the declared type"),
        ("2026-01-01T00:10Z,Airport,\n", {}, "'card' has no value"),
        ("2026-01-01T00:10Z,Airport\n", {}, "wrong number of fields"),
        (
            "9999999999999,Airport,{}\n",
            {"source": {"clock": "seconds"}},
            "the time in 'ts', read with clock = \"seconds\", is out of range",
        ),
    ],
)
def test_it_says_the_kind_of_mistake_and_no_data(tmp_path, row, tables, reason):
    (tmp_path / "taps.csv").write_text(HEADER + rows(row, 137, first=4711_000))
    with pytest.raises(UnreadableRowsError) as caught:
        publish(pipeline(tmp_path, **tables))
    text = str(caught.value)
    assert reason in text
    assert not any(word in text for word in ("4711", "Atlantis", "137"))


def test_json_lines_of_another_type_name_their_column(tmp_path):
    (tmp_path / "taps.jsonl").write_text(
        '{"ts": 1767226200, "station": "Airport", "card": 1}\n' * 300
    )
    made = pipeline(tmp_path, path="taps.jsonl", source={"kind": "jsonl"})
    with pytest.raises(UnreadableRowsError, match=r"the time in 'ts' cannot be read with clock"):
        publish(made)


def test_times_that_can_be_read_and_all_lie_outside_release_nothing(tmp_path):
    """Seconds that are read as milliseconds are times in January 1970."""
    (tmp_path / "taps.csv").write_text(HEADER + rows("1767226200,Airport,{}\n", 200))
    with pytest.raises(UnreadableRowsError, match=r"no row lies between the origin .*\"millisec"):
        publish(pipeline(tmp_path, source={"clock": "milliseconds"}))
    assert released(tmp_path) == []


def test_years_before_the_origin_may_come_first(tmp_path):
    old = rows("2019-01-01T00:10Z,Airport,{}\n", 3 * SAMPLE_ROWS)
    (tmp_path / "taps.csv").write_text(HEADER + old + rows(GOOD, 1))
    publish(pipeline(tmp_path))
    assert released(tmp_path)[0] == [1, 0, 0, 0]


def test_an_input_without_rows_is_published(tmp_path):
    (tmp_path / "taps.csv").write_text(HEADER)
    publish(pipeline(tmp_path))
    assert released(tmp_path) == [[0] * 4] * 3


def test_whoever_knows_may_publish_anyway(tmp_path):
    (tmp_path / "taps.csv").write_text(HEADER + rows(GERMAN, 200) + rows(GOOD, 3))
    publish(pipeline(tmp_path), anyway=True)
    assert released(tmp_path)[0] == [3, 0, 0, 0]
    publish(pipeline(tmp_path, stream={"until": "2026-01-01T04:00Z"}))
    assert len(released(tmp_path)) == 4


def test_in_python_too(tmp_path):
    (tmp_path / "taps.csv").write_text(HEADER + rows(GERMAN, 200))
    told = {
        "time": "ts",
        "key": "station",
        "every": "1h",
        "origin": "2026-01-01",
        "until": "2026-01-01T03:00Z",
        "mechanism": ps.Laplace(epsilon="1"),
        "domain": KEYS,
        "store": tmp_path / "taps.db",
    }
    with pytest.raises(UnreadableRowsError):
        ps.publish(tmp_path / "taps.csv", **told)
    with ps.publish(tmp_path / "taps.csv", **told, anyway=True) as stream:
        assert len(stream) == 3


# -- more files ------------------------------------------------------------------------------------


def test_every_file_of_a_finite_input_is_checked(tmp_path):
    (tmp_path / "1.csv").write_text(HEADER + rows(GOOD, 5_000))
    (tmp_path / "2.csv").write_text(HEADER + rows(GERMAN, 500))
    with pytest.raises(UnreadableRowsError, match=r"from 2\.csv"):
        publish(pipeline(tmp_path, path="*.csv"))
    assert released(tmp_path) == []


def test_small_files_are_judged_together(tmp_path):
    """A file with a handful of rows does not decide alone."""
    few = MIN_ROWS_OF_FURTHER_SAMPLES // 2
    (tmp_path / "1.csv").write_text(HEADER + rows(GOOD, SAMPLE_ROWS))
    (tmp_path / "2.csv").write_text(HEADER + rows(GERMAN, few - 1))
    publish(pipeline(tmp_path, path="*.csv"))
    (tmp_path / "3.csv").write_text(HEADER + rows(GERMAN, few - 1))
    (tmp_path / "4.csv").write_text(HEADER + rows(GERMAN, few + 1))
    later = pipeline(tmp_path, path="*.csv", stream={"until": "2026-01-01T04:00Z"})
    with pytest.raises(UnreadableRowsError, match=r"from 4\.csv"):
        publish(later)
    assert len(released(tmp_path)) == 3


def test_a_new_file_is_checked_at_the_next_start_and_an_old_one_is_not(tmp_path):
    (tmp_path / "1.csv").write_text(HEADER + rows(GERMAN, 500))
    publish(pipeline(tmp_path, path="*.csv"), anyway=True)
    later = pipeline(tmp_path, path="*.csv", stream={"until": "2026-01-01T04:00Z"})
    publish(later)
    (tmp_path / "2.csv").write_text(HEADER + rows(GERMAN, 500))
    latest = pipeline(tmp_path, path="*.csv", stream={"until": "2026-01-01T05:00Z"})
    with pytest.raises(UnreadableRowsError, match=r"from 2\.csv"):
        publish(latest)
    assert len(released(tmp_path)) == 4


# -- a live source ---------------------------------------------------------------------------------


def test_a_live_source_that_cannot_be_read_releases_nothing(tmp_path):
    (tmp_path / "taps.csv").write_text(HEADER + rows(GERMAN, 10))
    with LivePublisher(pipeline(tmp_path, live=True)) as live:
        live.turn("2026-01-01T00:30Z")
        with pytest.raises(UnreadableRowsError):
            live.turn("2026-01-01T01:00Z")
    assert released(tmp_path) == []


def test_one_bad_row_of_a_live_source_does_not_end_the_service(tmp_path):
    (tmp_path / "taps.csv").write_text(HEADER + rows(GERMAN, 1))
    with LivePublisher(pipeline(tmp_path, live=True)) as live:
        live.turn("2026-01-01T01:00Z")
        assert live.publisher.views[0].closed == 1
        assert publisher_figures.private([live.publisher])[0].check_pending


def test_a_full_sample_is_judged_at_once(tmp_path):
    (tmp_path / "taps.csv").write_text(HEADER + rows(GERMAN, SAMPLE_ROWS))
    with (
        LivePublisher(pipeline(tmp_path, live=True)) as live,
        pytest.raises(UnreadableRowsError),
    ):
        live.turn("2026-01-01T00:30Z")


def test_silence_is_published_and_the_first_rows_are_checked(tmp_path):
    (tmp_path / "taps.csv").write_text(HEADER)
    with LivePublisher(pipeline(tmp_path, live=True)) as live:
        live.turn("2026-01-01T02:00Z")
        assert publisher_figures.private([live.publisher])[0].check_pending
        (tmp_path / "taps.csv").write_text(HEADER + rows(GERMAN, 10))
        with pytest.raises(UnreadableRowsError):
            live.turn("2026-01-01T03:00Z")
    assert released(tmp_path) == [[0] * 4] * 2


def test_once_the_sample_has_passed_rows_no_longer_stop_a_publisher(tmp_path):
    (tmp_path / "taps.csv").write_text(HEADER + rows(GOOD, SAMPLE_ROWS))
    with LivePublisher(pipeline(tmp_path, live=True)) as live:
        live.turn("2026-01-01T01:00Z")
        assert not publisher_figures.private([live.publisher])[0].check_pending
        with (tmp_path / "taps.csv").open("a") as file:
            file.write(rows(GERMAN, 10 * SAMPLE_ROWS))
        live.turn("2026-01-01T02:00Z")
    assert released(tmp_path) == [[SAMPLE_ROWS, 0, 0, 0], [0] * 4]


def test_a_restart_checks_again_only_if_the_source_has_changed(tmp_path):
    (tmp_path / "taps.csv").write_text(HEADER + rows(GOOD, SAMPLE_ROWS))
    with LivePublisher(pipeline(tmp_path, live=True)) as live:
        live.turn("2026-01-01T01:00Z")
    with (tmp_path / "taps.csv").open("a") as file:
        file.write(rows(GERMAN, 10))
    with LivePublisher(pipeline(tmp_path, live=True)) as live:
        live.turn("2026-01-01T02:00Z")
    with (tmp_path / "taps.csv").open("a") as file:
        file.write(rows(GERMAN, 10))
    changed = pipeline(tmp_path, live=True, source={"quoted_newlines": True})
    with LivePublisher(changed) as live, pytest.raises(UnreadableRowsError):
        live.turn("2026-01-01T03:00Z")
    with LivePublisher(changed, anyway=True) as live:
        live.turn("2026-01-01T03:00Z")
    with LivePublisher(changed) as live:
        live.turn("2026-01-01T04:00Z")
    assert len(released(tmp_path)) == 4


def test_a_growing_input_without_the_column_is_a_mistake_at_the_first_start(tmp_path):
    (tmp_path / "taps.csv").write_text("when,station,card\n" + rows(GOOD, 10))
    with (
        LivePublisher(pipeline(tmp_path, live=True)) as live,
        pytest.raises(UnusableSourceError, match="has no column 'ts'"),
    ):
        live.turn("2026-01-01T01:00Z")
    assert released(tmp_path) == []


def test_standard_input_is_checked_row_by_row_also_if_it_is_read_ahead(tmp_path):
    """A third of the rows is bad. The refusals of batches that wait must not count yet."""
    good, bad = (
        f'{{"ts": "{time}", "station": "Airport", "card": 1}}\n'
        for time in ("2026-01-01T00:10Z", "01.01.2026")
    )
    made = pipeline(tmp_path, live=True)
    intake = Intake(columns=made.source.columns, domain=made.domain())
    piped = StdinSource(
        format=JsonLinesFormat(),
        intake=intake,
        stream=io.BytesIO((2 * good + bad).encode() * 200),
        rows=30,
    )
    with LivePublisher(made, source=PrefetchSource(piped)) as live:
        live.publisher.run()
        assert live.publisher.source.rejections.for_operator() == {str(Reason.TYPE): 200}
        assert live.publisher.progress.health.taken == 400


def test_requests_that_are_refused_whole_are_in_the_sample(tmp_path):
    """Such a request gives no batch."""
    (tmp_path / "taps.csv").write_text(HEADER)
    with LivePublisher(pipeline(tmp_path, live=True)) as live:
        live.publisher.source.rejections.add(Reason.BROKEN, 10)
        with pytest.raises(UnreadableRowsError, match="broken line"):
            live.turn("2026-01-01T01:00Z")


@pytest.mark.slow
def test_a_sender_whose_rows_cannot_be_read_is_found_before_anything_is_released(tmp_path):
    """The answers to the sender say nothing of it; the publisher ends before the unit leaves."""
    made = pipeline(tmp_path, live=True)
    intake = Intake(columns=made.source.columns, domain=made.domain())
    source = HttpSource(intake=intake, host="127.0.0.1", port=0, token="a-token-of-the-tests")
    line = json.dumps({"ts": "01.01.2026 00:10", "station": "Airport", "card": 1}) + "\n"
    failures = []

    def run():
        try:
            live.publisher.run()
        except UnreadableRowsError as error:
            failures.append(error)

    with LivePublisher(made, source=source) as live:
        thread = threading.Thread(target=run)
        thread.start()
        answer = httpx.post(
            "http://{}:{}/events".format(*source.address),
            content=line * 10,
            headers={
                "authorization": "Bearer a-token-of-the-tests",
                "content-type": "application/x-ndjson",
            },
        )
        live.clock.set("2026-01-01T01:00Z")
        thread.join(20)
    assert answer.status_code == 200
    assert [str(each).count("'ts'") for each in failures] == [1]
    assert released(tmp_path) == []


# -- what the store keeps --------------------------------------------------------------------------


def test_a_store_of_an_earlier_version_goes_on(tmp_path):
    """Its positions say nothing of a check: what it has published from may go on."""
    (tmp_path / "taps.csv").write_text(HEADER + rows(GERMAN, 200) + rows(GOOD, 3))
    with LivePublisher(pipeline(tmp_path, live=True), anyway=True) as live:
        live.turn("2026-01-01T01:00Z")
        live.publisher.progress.check.record = lambda: None
        live.turn("2026-01-01T02:00Z")
    with SQLiteStore(tmp_path / "taps.db") as store:
        assert store.last("taps").positions["check"] is None
    with (tmp_path / "taps.csv").open("a") as file:
        file.write(rows(GERMAN, 500))
    with LivePublisher(pipeline(tmp_path, live=True)) as live:
        live.turn("2026-01-01T03:00Z")
    assert len(released(tmp_path)) == 3


def test_the_digest_of_a_source_follows_what_says_how_rows_are_read(tmp_path):
    first = source_digest(pipeline(tmp_path))
    assert source_digest(pipeline(tmp_path, store={"path": "other.db"})) == first
    for changed in (
        {"path": "other.csv"},
        {"source": {"delimiter": ";"}},
        {"source": {"clock": "seconds"}},
        {"domain": {"keys": [*KEYS, "more"]}},
        {"domain": {"keys": KEYS, "other": "elsewhere"}},
    ):
        assert source_digest(pipeline(tmp_path, **changed)) != first
