"""What a sink is sent: releases as they are, or filtered, also after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest

from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.sink_items import SinkItems, items_of
from penstock.engine.sqlite import SQLiteReader
from penstock.engine.store import SeriesLog
from penstock.released.release_filter import FilterChoice
from penstock.released.sinks.base import SinkError
from penstock.released.sinks.jsonl import JsonLinesSink
from penstock.released.sinks.release_document import document
from penstock.testing import TestNoise

from tests.engine import streams
from tests.engine.published import pipeline, publish, several

CHOICE = FilterChoice(periods=(6,))


@pytest.fixture
def reader(tmp_path) -> Iterator[SQLiteReader]:
    publish(tmp_path / "taps.db", pipeline(), 40, seed=1)
    with SQLiteReader(tmp_path / "taps.db") as reader:
        yield reader


def test_filtered_items_have_the_links_of_the_releases_and_say_how_they_are_filtered(reader):
    series = reader.series("taps")
    raw, made = items_of(reader, series, 1, 40), SinkItems(reader, {"taps": CHOICE})
    found = made.after(series, 0, 40)
    assert [item.link for item in found] == [item.link for item in raw]
    told = json.loads(document(found[-1]))
    assert told["filter"]["periods"] == [6]
    assert told["filter"]["epsilon"] == "0"
    assert "costs no privacy budget" in told["filter"]["note"]
    assert "filter" not in json.loads(document(raw[-1]))
    expected = SeriesLog(reader, "taps").filtered(6)[40]
    assert told["values"] == expected.estimate.tolist()
    low, high = expected.interval("0.9")
    assert told["low"] == pytest.approx(low.tolist())
    assert told["high"] == pytest.approx(high.tolist())


@pytest.mark.parametrize("cut", [1, 7, 39])
def test_a_restart_anywhere_sends_the_same_bytes(reader, cut):
    series = reader.series("taps")
    whole = [document(item) for item in SinkItems(reader, {"taps": CHOICE}).after(series, 0, 40)]
    first = SinkItems(reader, {"taps": CHOICE}).after(series, 0, cut)
    rest = SinkItems(reader, {"taps": CHOICE}).after(series, cut, 40)
    assert [document(item) for item in first + rest] == whole


def test_a_sink_that_goes_on_reads_each_unit_once(reader, monkeypatch):
    asked: list[int] = []
    read = reader.releases

    def releases(name, first, last):
        asked.extend(range(first, last + 1))
        return read(name, first, last)

    monkeypatch.setattr(reader, "releases", releases)
    items, series = SinkItems(reader, {"taps": CHOICE}), reader.series("taps")
    for unit in range(0, 40, 5):
        sent = items.after(series, unit, unit + 5)
        again = items.after(series, unit + 2, unit + 5)  # the sink took two of five
        assert again == sent[2:]
    assert asked == list(range(1, 41))


def test_a_sink_that_lost_units_gets_the_same_ones_again(reader):
    items, series = SinkItems(reader, {"taps": CHOICE}), reader.series("taps")
    first = [document(item) for item in items.after(series, 0, 20)]
    items.after(series, 20, 40)
    assert [document(item) for item in items.after(series, 0, 20)] == first


def sinks() -> list[dict]:
    return [
        {"kind": "jsonl", "path": "raw.jsonl", "name": "raw"},
        {
            "kind": "jsonl",
            "path": "smooth.jsonl",
            "name": "smooth",
            "filtered": True,
            "filter_periods": ["6h"],
        },
        {"kind": "parquet", "path": "columns", "filtered": True, "filter_point": "mean"},
    ]


def run(tmp_path, until: str) -> None:
    content = streams.pipeline(
        stream={"until": until},
        privacy={"mechanism": "uniform", "epsilon": "1", "window": 6},
        sink=sinks(),
    )
    declared = Pipeline.of(content, folder=tmp_path)
    with Publisher(declared, noise=lambda: TestNoise(1)) as publisher:
        assert publisher.run()


def test_a_publisher_that_restarts_goes_on_with_filtered_sinks(tmp_path, monkeypatch):
    streams.parquet(tmp_path / "taps.parquet", streams.events(hours=24))
    run(tmp_path, "2026-01-01T07:00Z")
    put = JsonLinesSink.put
    failed = []

    def once(self, items):
        if self.path.name == "smooth.jsonl" and not failed:
            failed.append(len(items))
            raise SinkError("the disk is full for a moment.", after=0.0)
        put(self, items)

    monkeypatch.setattr(JsonLinesSink, "put", once)
    monkeypatch.setattr("penstock.engine.delivery.RETRY_SECONDS", (0.01, 0.01))
    run(tmp_path, "2026-01-01T18:00Z")
    assert failed
    raw, smooth = (
        [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("raw", "smooth")
    )
    assert [each["unit"] for each in smooth] == list(range(1, 19))
    with SQLiteReader(tmp_path / "taps.db") as reader:
        log = SeriesLog(reader, "taps")
        expected = [release.estimate.tolist() for release in log.filtered("6h")]
        assert [each["values"] for each in raw] == [row.value.tolist() for row in log]
    assert [each["values"] for each in smooth] == expected
    (newest,) = (tmp_path / "columns").rglob("*0000000018.parquet")
    table = pq.read_table(newest)
    for place in (table.schema.metadata, table.schema.field("value").metadata):
        told = json.loads(place[b"penstock.filter"])
        assert (told["point"], told["epsilon"], told["confidence"]) == ("mean", "0", "0.9")


def test_a_sink_gets_no_negative_numbers_by_choice_and_the_store_keeps_the_releases(tmp_path):
    streams.parquet(tmp_path / "taps.parquet", streams.events(hours=24))
    content = streams.pipeline(
        stream={"until": "2026-01-01T07:00Z"},
        privacy={"mechanism": "uniform", "epsilon": "1/20", "window": 6},
        sink=[
            {"kind": "jsonl", "path": "raw.jsonl", "name": "raw"},
            {"kind": "jsonl", "path": "cut.jsonl", "name": "cut", "nonnegative": True},
            {
                "kind": "jsonl",
                "path": "both.jsonl",
                "name": "both",
                "nonnegative": True,
                "filtered": True,
            },
        ],
    )
    with Publisher(Pipeline.of(content, folder=tmp_path), noise=lambda: TestNoise(1)) as publisher:
        assert publisher.run()
    raw, cut, both = (
        [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("raw", "cut", "both")
    )
    assert min(value for each in raw for value in each["values"]) < 0
    assert [each["values"] for each in cut] == [
        [max(value, 0) for value in each["values"]] for each in raw
    ]
    assert {("nonnegative" in each, "filter" in each) for each in both} == {(True, True)}
    with SQLiteReader(tmp_path / "taps.db") as reader:
        kept = [release.value.tolist() for release in SeriesLog(reader, "taps")]
    assert kept == [each["values"] for each in raw]


def test_each_view_has_its_own_periods():
    sink = {"kind": "jsonl", "path": "a", "filtered": True, "filter_periods": ["1d", "7d"]}
    (found,) = several(sink=[sink]).sinks
    assert {name: each.periods for name, each in found.filters.items()} == {
        "hourly": (24, 168),
        "daily": (7,),
    }
    (found,) = several(sink=[{**sink, "views": ["daily"]}]).sinks
    assert list(found.filters) == ["daily"]


def test_the_seasons_of_the_plan_are_the_default():
    sink = {"kind": "jsonl", "path": "a", "filtered": True}
    (found,) = several(sink=[sink], plan={"seasons": ["12h", "7d"]}).sinks
    assert {name: each.periods for name, each in found.filters.items()} == {
        "hourly": (12, 168),
        "daily": (7,),
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"filter_periods": ["1d"]}, "filter_periods: can only be used with filtered = true"),
        ({"filtered": True, "filter_periods": ["1 moon"]}, "filter_periods"),
        ({"filtered": True, "filter_kind": "flux"}, "filter_kind"),
        ({"filtered": True, "filter_point": "mode"}, "filter_point"),
    ],
)
def test_mistakes_in_the_settings_of_a_filter_are_named(options, said):
    with pytest.raises(Exception, match=said):
        pipeline(sink=[{"kind": "jsonl", "path": "a", **options}])
