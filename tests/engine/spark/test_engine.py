"""Counting by ranges against counting here: the same releases and links, whatever happens.

A session of Spark is stood in for by this process; `test_real_spark.py` has the real one.
"""

from __future__ import annotations

import pytest

from penstock.core.errors import ConfigurationError, InputError, StateError, UnreadableRowsError
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.spark import engine as engines
from penstock.engine.spark import jobs
from penstock.engine.spark.engine import SparkEngine
from penstock.private.noise import TestNoise

from tests.engine.spark.in_process import InProcessSpark
from tests.engine.spark.worlds import TURNS, Engine, outcome, rows_of_turn, settings, write_parquet

GROWING = {"kind": "parquet", "path": "taps/*.parquet", "growing": True}
FINITE = {"kind": "parquet", "path": "taps/*.parquet"}


@pytest.fixture
def spark(monkeypatch):
    session = InProcessSpark()
    monkeypatch.setattr(engines, "spark_session", lambda *_, **__: session)
    monkeypatch.setattr(jobs, "POLL_SECONDS", 0.001)
    return session


def filled(folder, upto, **more):
    (folder / "taps").mkdir(exist_ok=True)
    for number in range(upto):
        path = folder / "taps" / f"{number}.parquet"
        if not path.exists():
            write_parquet(path, rows_of_turn(number, **more), **more)


def pair(folder, source=GROWING, **more):
    here = Pipeline.of(settings(source, store="here.db", **more), folder=folder)
    there = Pipeline.of(settings(source, store="there.db", **more), folder=folder)
    return Engine(here), Engine(there, SparkEngine)


def turned(folder, both, *, integer=False, restart=False):
    for number, now in enumerate(TURNS):
        filled(folder, number + 1, integer=integer)
        for each in both:
            if each.publisher is None:
                each.open()
            each.turn(now)
            if restart and each is both[1]:
                each.close()
    both[1].open() if both[1].publisher is None else None


@pytest.mark.parametrize("missing", ["drop", "each"])
@pytest.mark.parametrize("integer", [False, True], ids=["text", "integer"])
def test_growing_files_give_the_same_releases_and_links(tmp_path, spark, integer, missing):
    both = pair(tmp_path, integer=integer, missing=missing)
    try:
        turned(tmp_path, both, integer=integer)
        found = [outcome(each.publisher) for each in both]
        assert found[0] == found[1]
        releases, _, (late, future, past) = found[1][0]["taps/hours"]
        assert [unit for unit, _ in releases] == [1, 2, 3, 4, 5, 6]
        assert min(late, future, past) > 0
    finally:
        for each in both:
            each.close()


def test_restarts_between_all_turns_change_nothing(tmp_path, spark):
    both = pair(tmp_path)
    try:
        turned(tmp_path, both, restart=True)
        first, second = (outcome(each.publisher)[0] for each in both)
        for name, (releases, head, _) in first.items():
            assert second[name][:2] == (releases, head)
    finally:
        for each in both:
            each.close()


@pytest.mark.parametrize("integer", [False, True], ids=["text", "integer"])
def test_finished_files_give_the_same_releases_and_links(tmp_path, spark, integer):
    filled(tmp_path, len(TURNS), integer=integer)
    found = []
    for store, engine in (("here.db", None), ("there.db", SparkEngine)):
        content = settings(
            FINITE, store=store, integer=integer, stream={"until": "2026-01-01T06:00Z"}
        )
        pipeline = Pipeline.of(content, folder=tmp_path)
        made = engine(pipeline) if engine else None
        with Publisher(pipeline, noise=lambda: TestNoise(5), engine=made) as publisher:
            assert publisher.run()
            found.append(outcome(publisher))
        with Publisher(pipeline, noise=lambda: TestNoise(5), engine=made) as publisher:
            assert publisher.run()  # nothing is left to do
    assert found[0] == found[1]
    assert spark.sparkContext.jobs == 2  # one per view, for all its units


def test_the_range_is_stored_before_it_is_counted_and_counted_again_after_a_crash(tmp_path, spark):
    both = pair(tmp_path)
    here, there = both
    try:
        filled(tmp_path, 1)
        for each in both:
            each.open()
            each.turn(TURNS[0])
        filled(tmp_path, 2)
        here.turn(TURNS[1])
        spark.sparkContext.failures = [KeyboardInterrupt()]  # as a driver that is killed
        with pytest.raises(KeyboardInterrupt):
            there.turn(TURNS[1])
        there.close()
        filled(tmp_path, 3)  # comes after the range was stored
        there.open()
        there.publisher.loop.draw(there.clock.now())
        there.publisher.loop.commit()
        first, second = (
            [each.value.tolist() for each in engine.publisher.store.releases("taps/hours")]
            for engine in both
        )
        assert first == second
        assert len(first) == 1
    finally:
        for each in both:
            each.close()


def test_a_job_that_fails_is_run_again_and_a_stop_gives_it_up(tmp_path, spark, monkeypatch):
    monkeypatch.setattr("penstock.engine.spark.counting.RETRY_SECONDS", (0.001, 0.001))
    both = pair(tmp_path)
    said = []
    both[1].more["listener"] = lambda notice: said.append(notice.text)
    spark.sparkContext.failures = [None, None, ValueError("planted 7734"), ValueError("7734")]
    try:
        turned(tmp_path, both)
        assert outcome(both[0].publisher) == outcome(both[1].publisher)
        assert sum("a job of Spark failed (ValueError)" in text for text in said) == 1
        assert "7734" not in str(said)
        both[1].clock.set("2026-01-01T07:12Z")
        both[1].publisher.stop()
        assert not both[1].publisher.loop.draw(both[1].clock.now())
        assert both[1].publisher.views[0].closed == 6
    finally:
        for each in both:
            each.close()


def test_a_finite_input_gives_up_after_some_tries(tmp_path, spark, monkeypatch):
    monkeypatch.setattr("penstock.engine.spark.counting.RETRY_SECONDS", (0.001, 0.001))
    filled(tmp_path, 2)
    content = settings(FINITE, store="there.db", stream={"until": "2026-01-01T06:00Z"})
    pipeline = Pipeline.of(content, folder=tmp_path)
    spark.sparkContext.failures = [ValueError("planted 7734")] * 3
    with (
        Publisher(pipeline, engine=SparkEngine(pipeline)) as publisher,
        pytest.raises(StateError, match=r"a job of Spark failed \(ValueError\)") as caught,
    ):
        publisher.run()
    assert "7734" not in str(caught.value)
    assert spark.sparkContext.jobs == 3


def test_a_file_that_changed_after_it_was_noted_is_refused(tmp_path, spark):
    _, there = pair(tmp_path)
    filled(tmp_path, 2)
    there.open()
    try:
        there.turn(TURNS[0])
        path = tmp_path / "taps" / "0.parquet"
        write_parquet(path, rows_of_turn(3))
        with pytest.raises(StateError, match="not the file that was read before"):
            there.turn(TURNS[1])
        assert there.publisher.views[0].closed == 0
    finally:
        there.close()


def test_rows_that_cannot_be_read_are_refused_before_anything_is_released(tmp_path, spark):
    (tmp_path / "taps").mkdir()
    rows = [("yesterday", "north", "a")] * 30
    write_parquet(tmp_path / "taps" / "0.parquet", rows)
    _, there = pair(tmp_path)
    there.open()
    try:
        with pytest.raises(UnreadableRowsError, match="cannot be read with clock"):
            there.turn("01:12")
        assert there.publisher.views[0].closed == 0
    finally:
        there.close()


def test_a_missing_column_is_told_with_the_columns_that_are_there(tmp_path, spark):
    filled(tmp_path, 1)
    content = settings(FINITE, store="there.db", stream={"until": "2026-01-01T06:00Z"})
    content["source"]["key"] = "stattion"
    pipeline = Pipeline.of(content, folder=tmp_path)
    with (
        Publisher(pipeline, engine=SparkEngine(pipeline)) as publisher,
        pytest.raises(InputError, match=r"has no column 'stattion'.*Did you mean"),
    ):
        publisher.run()


def test_a_stream_stays_with_the_engine_that_has_its_open_units(tmp_path, spark):
    both = pair(tmp_path)
    try:
        filled(tmp_path, 1)
        for each in both:
            each.open()
            each.turn(TURNS[0])
            each.close()
        here, there = both
        here.engine, there.engine = SparkEngine, None
        with pytest.raises(StateError, match="counted without Spark"):
            here.open()
        with pytest.raises(StateError, match="go on with --engine spark"):
            there.open()
    finally:
        for each in both:
            each.close()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"source": {"kind": "jsonl", "path": "taps.jsonl"}}, 'not of kind = "jsonl"'),
        ({"stream": {"late": "current"}}, 'late = "current" cannot be used on Spark'),
        ({"engine": {"partitioned": "person"}}, "partitioned: can only be used with a Kafka topic"),
    ],
)
def test_what_spark_cannot_count_is_refused_in_one_sentence(tmp_path, spark, change, text):
    source = change.pop("source", FINITE)
    content = settings(source, store="there.db", **change)
    content["view"], content["privacy"] = None, {"mechanism": "ba", "epsilon": "1", "window": 24}
    with pytest.raises(ConfigurationError, match=text):
        SparkEngine(Pipeline.of(content, folder=tmp_path))
    if "engine" not in change:  # the table alone is enough to be told by `penstock check`
        content["engine"] = {"master": "local[2]"}
        with pytest.raises(ConfigurationError, match=text):
            Pipeline.of(content, folder=tmp_path)


def test_ranges_are_forgotten_when_no_open_unit_needs_them(tmp_path, spark):
    _, there = pair(tmp_path)
    there.open()
    try:
        for number, now in enumerate(TURNS):
            filled(tmp_path, number + 1)
            there.turn(now)
        for view in there.publisher.views:
            kept = there.publisher.store.last(view.name).private
            assert len([name for name in kept if name.startswith("range ")]) <= 2
    finally:
        there.close()
