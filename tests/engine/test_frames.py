"""Data frames in: every library gives the same releases, and nothing of a frame is ever shown."""

from __future__ import annotations

import logging

import numpy as np
import polars as pl
import pytest

import penstock as ps
from penstock.core.errors import ConfigurationError, InputError, StateError, UnusableSourceError
from penstock.private.sources.base import Columns, Intake
from penstock.private.sources.frame import FrameSource, needed_columns
from penstock.testing import NoNoise

from tests.engine import streams

SECRET = "anna-karenina-4711"


@pytest.fixture
def events():
    """Taps of text persons at four stations, in Polars."""
    time, station, card = streams.events()
    return pl.DataFrame(
        {
            "ts": pl.Series(time).cast(pl.Datetime("us", "UTC")),
            "station": [streams.KEYS[code] for code in station],
            "card": [f"{SECRET}-{number}" for number in card],
        }
    )


def published(frame, folder, **more):
    given = {
        "name": "taps",
        "time": "ts",
        "key": "station",
        "person": "card",
        "every": "1h",
        "origin": "2026-01-01",
        "until": "2026-01-01T12:00Z",
        "mechanism": ps.Uniform(epsilon="1", window=6),
        "domain": streams.KEYS,
        "store": folder / "taps.db",
        "noise": NoNoise(),
    }
    return ps.publish(frame, **(given | more))


def as_pandas(frame):
    pytest.importorskip("pandas")
    return frame.to_pandas(use_pyarrow_extension_array=False)


def as_duckdb(frame):
    duckdb = pytest.importorskip("duckdb")
    table = frame.to_arrow()
    return duckdb.connect().from_arrow(table)


LIBRARIES = {
    "polars": lambda frame: frame,
    "lazy polars": lambda frame: frame.lazy(),
    "pandas": as_pandas,
    "arrow": lambda frame: frame.to_arrow(),
    "duckdb": as_duckdb,
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gives_the_same_releases(tmp_path, events, library):
    with published(LIBRARIES[library](events), tmp_path) as stream:
        found = np.array([release.value for release in stream])
        assert (found == streams.truth(*streams.events())).all()
        assert stream.verify().account.kept


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_frame_with_more_rows_goes_on(tmp_path, events, library):
    ordered = events.sort("ts")
    early = ordered.filter(pl.col("ts") < pl.datetime(2026, 1, 1, 6, time_zone="UTC"))
    published(early, tmp_path, until="2026-01-01T06:00Z").close()
    with published(LIBRARIES[library](ordered), tmp_path) as stream:
        found = np.array([release.value for release in stream])
    assert (found == streams.truth(*streams.events())).all()


def test_a_frame_published_again_gives_the_same_numbers(tmp_path, events):
    with published(events, tmp_path, noise=None) as one:
        first = one.to_polars()
    with published(events, tmp_path, noise=None) as again:
        assert again.to_polars().equals(first)


def test_another_frame_under_the_same_name_is_refused(tmp_path, events):
    published(events, tmp_path).close()
    with pytest.raises(StateError, match="does not begin with the rows that were read before"):
        published(events.reverse(), tmp_path)
    with pytest.raises(StateError, match="does not begin with the rows that were read before"):
        published(events.head(10), tmp_path)


def test_persons_are_bounded_whatever_the_type_of_their_column(tmp_path, events):
    numbered = events.with_columns(card=pl.lit(7))
    for name, kind in {"whole": pl.Int64, "float": pl.Float64, "category": pl.Categorical}.items():
        column = pl.col("card").cast(pl.String) if kind is pl.Categorical else pl.col("card")
        frame = numbered.with_columns(card=column.cast(kind))
        with published(frame, tmp_path, store=tmp_path / f"{name}.db") as stream:
            assert {int(release.value.sum()) for release in stream} == {1}


@pytest.mark.parametrize("kind", ["integer", "text"])
def test_a_float_id_that_is_no_whole_number_drops_its_row_alone(tmp_path, events, kind):
    frame = events.with_columns(card=pl.int_range(pl.len()).cast(pl.Float64))
    broken = frame.with_columns(
        card=pl.when(pl.int_range(pl.len()) == 3).then(0.5).otherwise(pl.col("card"))
    )
    sums = []
    for name, each in {"whole": frame, "broken": broken}.items():
        more = {"store": tmp_path / f"{name}.db", "person_type": kind}
        with published(each, tmp_path, **more) as stream:
            sums.append(sum(int(release.value.sum()) for release in stream))
    assert sums == [len(frame), len(frame) - 1]


@pytest.mark.parametrize(("missing", "count"), [("drop", 3), ("each", 5)])
def test_missing_persons_of_pandas_are_missing_persons(tmp_path, missing, count):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "ts": ["2026-01-01T00:30Z"] * 6,
            "station": ["Airport"] * 6,
            "card": [7, 7, 8, 9, None, None],
        }
    )
    assert frame["card"].dtype == "float64"
    with published(frame, tmp_path, missing_person=missing) as stream:
        assert int(stream[1].value.sum()) == count


def test_missing_persons_can_be_refused(tmp_path, events):
    frame = events.with_columns(
        card=pl.when(pl.int_range(pl.len()) == 3).then(None).otherwise(pl.col("card"))
    )
    with pytest.raises(InputError, match=r'missing_person = "refuse"'):
        published(frame, tmp_path, missing_person="refuse")


def test_float_keys_are_the_keys_of_their_numbers(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"ts": ["2026-01-01T00:30Z"] * 3, "station": [74.0, 75.0, None]})
    with published(frame, tmp_path, person=None, domain=["74", "75"]) as stream:
        assert stream[1].value.tolist() == [1, 1]


def test_local_times_are_read_in_the_zone(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"ts": pd.to_datetime(["2026-01-01 00:30"]), "station": ["Airport"]})
    with published(
        frame,
        tmp_path,
        person=None,
        zone="America/New_York",
        until="2026-01-01T02:00-05:00",
    ) as stream:
        assert [int(release.value[0]) for release in stream] == [1, 0]


# -- mistakes --------------------------------------------------------------------------------------


def test_a_missing_column_is_named_with_those_that_are_there(tmp_path, events):
    with pytest.raises(UnusableSourceError, match=r"the data frame has no column 'when'; it has"):
        published(events, tmp_path, time="when")
    assert not (tmp_path / "taps.db").exists()


def test_an_index_is_not_a_column(tmp_path, events):
    frame = as_pandas(events).set_index("ts")
    with pytest.raises(UnusableSourceError, match=r"'ts' as its index.*reset_index"):
        published(frame, tmp_path)


def test_a_frame_needs_a_name(tmp_path, events):
    with pytest.raises(ConfigurationError, match="name must be given with a data frame"):
        published(events, tmp_path, name=None)
    assert not (tmp_path / "taps.db").exists()


@pytest.mark.parametrize("source", [7, {"ts": [1]}, [1, 2], None])
def test_what_is_no_frame_is_refused(tmp_path, source):
    with pytest.raises(ConfigurationError, match="source must be a path or a data frame"):
        published(source, tmp_path)


def test_a_lazy_frame_that_cannot_be_read_says_so(tmp_path):
    frame = pl.scan_csv(tmp_path / "nowhere.csv")
    with pytest.raises(UnusableSourceError, match="its columns cannot be read"):
        published(frame, tmp_path)


def test_two_columns_of_one_name_are_refused(tmp_path, events):
    pd = pytest.importorskip("pandas")
    frame = as_pandas(events)
    with pytest.raises(UnusableSourceError, match=r"cannot be read|more than one column"):
        published(pd.concat([frame, frame[["ts"]]], axis=1), tmp_path)


# -- what is private -------------------------------------------------------------------------------


def test_no_error_shows_a_value(tmp_path, events, caplog):
    caplog.set_level(logging.DEBUG)
    pandas = as_pandas(events)
    pandas["mixed"] = [SECRET, 7, 2.5, *([SECRET] * (len(pandas) - 3))]
    attempts = [
        {"key": "card"},  # no key is known
        {"time": "card"},  # no time can be read
        {"person": "mixed"},
        {"time": "nowhere"},
    ]
    for number, change in enumerate(attempts):
        with pytest.raises(InputError) as told:
            published(pandas, tmp_path, store=tmp_path / f"{number}.db", **change)
        seen, error = [], told.value
        while error is not None:
            seen.append(str(error))
            error = error.__cause__ or error.__context__
        assert SECRET not in " ".join(seen)
    assert SECRET not in caplog.text


def test_no_repr_shows_a_value(tmp_path, events):
    columns = Columns("ts", "station", person="card")
    intake = Intake(columns=columns, domain=streams.KEYS)
    source = FrameSource(table=needed_columns(events, columns), intake=intake)
    assert repr(source) == "FrameSource(private)"
    assert SECRET not in repr(list(source.batches()))
    with published(events, tmp_path) as stream:
        assert SECRET not in repr(stream) + stream._repr_html_() + repr(vars(stream))


def test_nothing_of_a_frame_is_written(tmp_path, events):
    published(events, tmp_path).close()
    for path in tmp_path.iterdir():
        assert SECRET.encode() not in path.read_bytes()
