"""What a notebook does with a publication: cut it, look at it, take tables of it."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

import penstock as ps
from penstock.core.errors import ConfigurationError, InputError, NotCoveredError
from penstock.released.queries import Jump, LowSignal, TopK, UnitCounts
from penstock.testing import NoNoise

from tests.browser import SCREENS, check_look, needs_chromium, open_browser
from tests.engine import streams

COLUMNS = ["begins", "unit", "key", "value", "low", "high"]
TRUTH = streams.truth(*streams.events())


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    folder = tmp_path_factory.mktemp("publication")
    streams.parquet(folder / "taps.parquet", streams.events())
    with ps.publish(
        folder / "taps.parquet",
        time="ts",
        key="station",
        person="card",
        every="1h",
        origin="2026-01-01",
        until="2026-01-01T12:00Z",
        mechanism=ps.Uniform(epsilon="1", window=6),
        domain=streams.KEYS,
        store=folder / "taps.db",
        noise=NoNoise(),
    ) as stream:
        yield stream


# -- cutting ---------------------------------------------------------------------------------------


def test_a_key_gives_its_series(stream):
    one = stream["Harbour"]
    assert one.keys == ("Harbour",)
    assert one.to_polars()["value"].to_list() == TRUTH[:, 2].tolist()
    assert [release.value.tolist() for release in one] == TRUTH[:, [2]].tolist()
    assert repr(one) == (
        "<Publication 'taps': 12 units of 1h, key 'Harbour', Guarantee(epsilon=1, window=6)>"
    )


def test_several_keys_keep_their_order(stream):
    some = stream[["Old Town", "Airport"]]
    assert some.to_polars()["key"].to_list()[:2] == ["Old Town", "Airport"]
    assert some.to_polars()["value"].to_list() == TRUTH[:, [3, 0]].ravel().tolist()
    assert some["Airport"].keys == ("Airport",)
    assert "Airport" in some
    assert "Central" not in some


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("Habour", r"there is no key 'Habour' in 'taps'. Did you mean 'Harbour'\?"),
        ("harbour", r"Did you mean 'Harbour'\?"),
        ("town", r"Did you mean 'Old Town'\?"),
        ("2026-01-01", r"For a stretch of time write stream\['2026-01-01':\]"),
        ([], "name at least one key"),
        (["Airport", "Airport"], "no key twice"),
    ],
)
def test_a_wrong_key_gets_the_nearest_names(stream, key, message):
    with pytest.raises(ConfigurationError, match=message):
        stream[key]


@pytest.mark.parametrize(
    ("cut", "units"),
    [
        (slice(3, 6), range(3, 6)),
        (slice(None, 6), range(1, 6)),
        (slice(-3, None), range(10, 13)),
        (slice(None, -10), range(1, 3)),
        (slice(0, 99), range(1, 13)),
        (slice("2026-01-01T03:00", "2026-01-01T06:00"), range(4, 7)),
        (slice("2026-01-01T03:30", "2026-01-01T05:30Z"), range(4, 7)),
        (slice(date(2026, 1, 1), None), range(1, 13)),
        (slice(None, datetime(2026, 1, 1, 2, tzinfo=UTC)), range(1, 3)),
        (slice("2025-01-01", "2027-01-01"), range(1, 13)),
        (slice("2026-02-01", None), range(13, 13)),
        (slice(6, 3), range(6, 6)),
    ],
)
def test_a_stretch_of_units_or_of_time(stream, cut, units):
    part = stream[cut]
    assert part.units == units
    assert len(part) == len(units)
    assert part.to_polars()["unit"].unique().sort().to_list() == list(units)
    assert [release.unit for release in part] == list(units)


def test_cuts_go_one_after_the_other(stream):
    part = stream["2026-01-01T06:00":]["Central"][:10]
    assert part.units == range(7, 10)
    assert part.to_polars()["value"].to_list() == TRUTH[6:9, 1].tolist()
    assert part[-1].unit == 9
    with pytest.raises(InputError, match="unit 3 is not in 'taps': it has units 7 to 9"):
        part[3]


def test_a_step_and_a_wrong_time_are_refused(stream):
    with pytest.raises(ConfigurationError, match="without steps"):
        stream[::2]
    with pytest.raises(ConfigurationError, match="start must be a datetime or ISO text"):
        stream["yesterday":]


def test_sums_of_a_stretch_use_the_units_before_it(stream):
    part = stream["Central"]["2026-01-01T08:00":]
    sums = part.window("6h").series()
    assert sums.units.tolist() == [9, 10, 11, 12]
    assert sums.names == ("Central",)
    assert sums.estimate[0, 0] == TRUTH[3:9, 1].sum()
    assert stream[:3].window("2h").answer().units.tolist() == [2]
    with pytest.raises(NotCoveredError, match="no unit here can be answered"):
        stream[:3].window("6h").series()


def test_iteration_gives_every_release_with_its_names(stream):
    releases = list(stream)
    assert [release.unit for release in releases] == list(range(1, 13))
    assert releases[3].domain.keys == tuple(streams.KEYS)
    assert stream[4].to_polars().equals(releases[3].to_polars())


# -- tables ----------------------------------------------------------------------------------------


def tables(stream):
    """Everything that can be had as a table, by name."""
    return {
        "publication": stream,
        "one key": stream["Central"],
        "no units": stream[6:6],
        "release": stream[5],
        "release of one key": stream["Central"][5],
        "answer": stream.window(6).series(),
        "alerts": LowSignal(3, 40).series(stream.log),
        "jumps": Jump(2, 5).series(stream.log),
        "ranking": TopK(2, of=UnitCounts()).series(stream.log),
        "filtered": stream.filtered(),
    }


def test_all_tables_begin_with_the_same_columns(stream):
    for name, thing in tables(stream).items():
        table = thing.to_arrow()
        assert table.column_names[:6] == COLUMNS, name
        types = [str(column.type) for column in table.columns[:6]]
        assert types == [
            "timestamp[us, tz=UTC]",
            "int64",
            "large_string",
            "double",
            "double",
            "double",
        ], name


def test_polars_pandas_and_arrow_say_the_same(stream):
    pd = pytest.importorskip("pandas")
    for name, thing in tables(stream).items():
        table = thing.to_arrow()
        assert thing.to_polars().equals(pl.from_arrow(table)), name
        frame = thing.to_pandas()
        assert list(frame.columns) == table.column_names, name
        assert len(frame) == table.num_rows, name
        assert isinstance(frame, pd.DataFrame), name


def test_a_table_of_pandas_says_what_it_needs(stream, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ps.MissingExtraError, match=r"needs pandas.*'penstock\[pandas\]'"):
        stream.to_pandas()


def test_a_release_is_a_row_of_the_table(stream):
    table = stream.to_polars()
    assert stream[5].to_polars().equals(table.filter(pl.col("unit") == 5))
    assert stream["Central"].to_polars().equals(table.filter(pl.col("key") == "Central"))


def test_a_confidence_changes_the_intervals(stream):
    narrow, wide = stream.to_polars(confidence="0.5"), stream.to_polars(confidence="0.99")
    assert (narrow["high"] < wide["high"]).all()
    assert stream[1].to_polars(confidence="0.99").equals(wide.head(4))


def test_a_ranking_names_the_key_of_each_number(stream):
    table = TopK(2, of=UnitCounts()).answer(stream.log, 3).to_polars()
    order = np.argsort(-TRUTH[2], kind="stable")[:2]
    assert table["key"].to_list() == [streams.KEYS[place] for place in order]
    assert table["rank"].to_list() == [1, 2]


def test_times_are_in_the_zone_of_the_stream(tmp_path):
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    with ps.publish(
        tmp_path / "taps.parquet",
        time="ts",
        key="station",
        every="1d",
        zone="America/New_York",
        origin="2026-03-07",
        until="2026-03-10T00:00-04:00",
        mechanism=ps.Laplace(epsilon="1"),
        domain=streams.KEYS,
        store=tmp_path / "taps.db",
        anyway=True,
    ) as stream:
        begins = stream["Airport"].to_polars()["begins"]
    assert begins.dtype == pl.Datetime("us", "America/New_York")
    assert [moment.utcoffset().total_seconds() / 3600 for moment in begins] == [-5, -5, -4]
    assert [moment.hour for moment in begins] == [0, 0, 0]


def test_a_day_of_a_query_has_24_hours_where_clocks_change(tmp_path):
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    with ps.publish(
        tmp_path / "taps.parquet",
        time="ts",
        key="station",
        every="1h",
        zone="America/New_York",
        origin="2025-12-31",
        until="2026-01-02T00:00-05:00",
        mechanism=ps.Laplace(epsilon="1"),
        domain=streams.KEYS,
        store=tmp_path / "taps.db",
    ) as stream:
        assert stream.window("1d").answer().query == "sums of 24 units"


def test_a_release_of_a_run_has_a_table(stream):
    released = ps.Laplace(epsilon="1").run(["north", "south"]).step([3, 4])
    assert released.to_polars()["key"].to_list() == ["north", "south"]
    assert released.to_polars()["begins"].null_count() == 2


def test_sums_that_were_released_are_shown_as_they_are(tmp_path):
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    with ps.publish(
        tmp_path / "taps.parquet",
        time="ts",
        key="station",
        every="1h",
        origin="2026-01-01",
        until="2026-01-01T12:00Z",
        mechanism=ps.WindowTree(epsilon="1", span=4),
        domain=streams.KEYS,
        store=tmp_path / "taps.db",
    ) as stream:
        table = stream.to_polars()
        assert table.filter(pl.col("unit") == 5).equals(stream[5].to_polars())
        sums = stream.window(4).series().to_polars()
        assert table.filter(pl.col("unit") > 3)["value"].to_list() == sums["value"].to_list()
        assert "Each number is the sum of the last 4 units." in stream._repr_html_()
        assert "Each number is the sum of the last 4 units." in stream.plot().page()


# -- what a notebook shows -------------------------------------------------------------------------


class Tags(HTMLParser):
    """Checks that every tag is closed, and collects the text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.text = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def shown(stream):
    """Everything that a notebook shows, by name."""
    return tables(stream) | {
        "guarantee": stream.guarantee,
        "ledger": stream.ledger,
        "verified ledger": stream.verify(),
        "account": stream.verify().account,
        "chart": stream.plot(),
    }


def test_everything_has_html_that_is_whole(stream):
    for name, thing in shown(stream).items():
        tags = Tags(thing._repr_html_())
        assert name == "chart" or "".join(tags.text).strip(), name


def test_every_repr_fits_one_line(stream):
    things = shown(stream) | {"log": stream.log, "domain": stream.domain, "query": stream.window(6)}
    for name, thing in things.items():
        assert "\n" not in repr(thing), name
        assert len(repr(thing)) <= 160, name


def test_a_publication_shows_its_promise_a_table_and_charts(stream):
    tags = Tags(stream._repr_html_())
    text = " ".join(tags.text)
    assert stream.promise in text
    assert tags.seen.count("svg") == len(streams.KEYS)
    assert "95 % intervals cover the added noise only." in text
    assert "Central" in text
    one = Tags(stream["Central"]._repr_html_())
    assert one.seen.count("svg") == 1
    assert "2026-01-01 11:00" in one.text


def test_a_closed_publication_says_so(tmp_path):
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    stream = ps.publish(
        tmp_path / "taps.parquet",
        time="ts",
        key="station",
        every="1h",
        origin="2026-01-01",
        until="2026-01-01T02:00Z",
        mechanism=ps.Laplace(epsilon="1"),
        domain=streams.KEYS,
        store=tmp_path / "taps.db",
    )
    part = stream["Central"]
    stream.close()
    assert repr(stream) == repr(part) == "<Publication 'taps': closed>"
    assert "The store is closed" in stream._repr_html_()


def test_names_are_escaped(tmp_path):
    frame = pl.DataFrame({"ts": ["2026-01-01T00:10Z"], "station": ["<b>&"]})
    with ps.publish(
        frame,
        name="taps",
        time="ts",
        key="station",
        every="1h",
        origin="2026-01-01",
        until="2026-01-01T02:00Z",
        mechanism=ps.Laplace(epsilon="1"),
        domain=["<b>&", "other"],
        store=tmp_path / "taps.db",
    ) as stream:
        for thing in (stream, stream["<b>&"], stream.window(1).answer(), stream.plot()):
            assert "<b>&" not in thing._repr_html_()


def test_a_chart_is_a_page_in_a_frame(stream, tmp_path):
    chart = stream.plot("Central", "Airport", path=tmp_path / "taps.html")
    assert chart.names == ("Central", "Airport")
    assert chart._repr_html_().startswith('<iframe title="taps" srcdoc="&lt;!doctype html&gt;')
    assert (tmp_path / "taps.html").read_text() == chart.page()
    assert stream["Harbour"][3:6].plot().estimate.ravel().tolist() == TRUTH[2:5, 2].tolist()


def test_a_chart_suggests_the_nearest_key(stream, tmp_path):
    with pytest.raises(ConfigurationError, match=r"no key 'Centrl'.*Did you mean 'Central'\?"):
        stream.plot("Centrl")
    with pytest.raises(ConfigurationError, match=r"path must end in \.html, not 'taps\.png'"):
        stream.plot(path=tmp_path / "taps.png")
    with pytest.raises(NotCoveredError, match="no units to draw"):
        stream[6:6].plot()


def test_many_keys_are_shown_by_their_size(tmp_path):
    keys = [f"zone {number:02}" for number in range(30)]
    taken = [key for number, key in enumerate(keys) for _ in range(10 * number + 1)]
    frame = pl.DataFrame({"ts": ["2026-01-01T00:10Z"] * len(taken), "zone": taken})
    with ps.publish(
        frame,
        name="trips",
        time="ts",
        key="zone",
        every="1h",
        origin="2026-01-01",
        until="2026-01-01T02:00Z",
        mechanism=ps.Laplace(epsilon="1"),
        domain=keys,
        store=tmp_path / "trips.db",
        noise=NoNoise(),
    ) as stream:
        assert stream.plot().names == tuple(reversed(keys))[:20]
        text = stream._repr_html_()
    assert "These are the 10 largest of 30 keys." in text
    assert "zone 29" in text
    assert "zone 05" not in text


@pytest.mark.slow
@needs_chromium
def test_cards_read_well_in_a_light_and_a_dark_notebook(stream, tmp_path):
    cards = "".join(thing._repr_html_() for thing in shown(stream).values())
    page = tmp_path / "notebook.html"
    page.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Notebook</title>'
        '<meta name="viewport" content="width=device-width"><style>'
        ":root { color-scheme: light dark; } body { font: 14px system-ui; }"
        f"</style></head><body><main><h1>Notebook</h1>{cards}</main></body></html>",
        encoding="utf-8",
    )
    with open_browser(tmp_path / "profile") as browser:
        for width, dark in SCREENS:
            browser.open(page, width=width, dark=dark)
            check_look(browser, page.stem)
