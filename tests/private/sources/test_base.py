"""Columns to batches: times and zones, keys and codes, persons, and what must not be shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.core.errors import ConfigurationError
from penstock.core.product import Product
from penstock.private.sources.base import Columns, Intake, Reason, Rejections

KEYS = ("a", "b")


def micros(moment):
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // (datetime.resolution)


def take(times, *, keys=None, persons=None, domain=KEYS, other=None, rejections=None, **columns):
    """The batch of some arrays."""
    times = pa.array(times) if isinstance(times, list) else times
    arrays = {"t": times, "k": pa.array(["a"] * len(times)) if keys is None else keys}
    if persons is not None:
        arrays["p"] = persons
        columns["person"] = "p"
    intake = Intake(columns=Columns("t", "k", **columns), domain=domain, other=other)
    return intake.batch(pa.table(arrays), position=None, rejections=rejections or Rejections())


def times_of(times, **columns):
    return take(times, **columns).time.tolist()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-15", (2026, 11, 15)),
        ("2026-11-15T10", (2026, 11, 15, 10)),
        ("2026-11-15 10:11", (2026, 11, 15, 10, 11)),
        ("2026-11-15T10:11:12", (2026, 11, 15, 10, 11, 12)),
        ("2026-11-15T10:11:12.5", (2026, 11, 15, 10, 11, 12, 500_000)),
        ("2026-11-15T10:11:12.123456789", (2026, 11, 15, 10, 11, 12, 123_456)),
        ("2026-11-15T10:11:12.1234567Z", (2026, 11, 15, 10, 11, 12, 123_456)),
        ("2026-11-15T10:11:12Z", (2026, 11, 15, 10, 11, 12)),
        ("2026-11-15T10:11:12+01:30", (2026, 11, 15, 8, 41, 12)),
        ("2026-11-15T10:11:12-0130", (2026, 11, 15, 11, 41, 12)),
        ("2026-11-15 10:11:12+01", (2026, 11, 15, 9, 11, 12)),
        ("1969-12-31T23:59:59.999999Z", (1969, 12, 31, 23, 59, 59, 999_999)),
        ("2024-02-29T00:00:00Z", (2024, 2, 29)),
        ("0001-01-01T00:00:00Z", (1, 1, 1)),
        ("9999-12-31T23:59:59.999999Z", (9999, 12, 31, 23, 59, 59, 999_999)),
    ],
)
def test_iso_times_are_understood_alone_and_among_others(text, moment):
    expected = micros(datetime(*moment, tzinfo=UTC))
    assert times_of([text]) == [expected]
    mixed = times_of([text, "nonsense", "2026-01-01", "2026-01-01T00:00:00Z"])
    assert mixed == [expected, 1_767_225_600_000_000, 1_767_225_600_000_000]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    text=st.from_regex(
        r"\A[0-9]{4}-[0-1][0-9]-[0-3][0-9]"
        r"([T ][0-2][0-9](:[0-6][0-9](:[0-6][0-9](\.[0-9]{1,8})?)?)?"
        r"(Z|[+-][0-2][0-9](:?[0-6][0-9])?)?)?\Z"
    )
)
@example(text="1900-02-29")
@example(text="2000-02-29T23:59:59+23:59")
@example(text="2026-04-31T00:00:00Z")
@example(text="2026-01-01T00:00:60Z")
@example(text="2026-01-01T24:00:00Z")
def test_whether_a_time_is_taken_depends_on_itself_alone(text):
    """Alone the quick way may take it, beside nonsense the pattern must: they agree, also with
    Python on what it means.
    """
    alone = times_of([text])
    assert times_of([text, "nonsense"]) == alone
    assert times_of(["nonsense", "2026-01-01T00:00:00Z", text])[1:] == alone
    if alone:
        moment = datetime.fromisoformat(text)
        assert alone == [micros(moment if moment.tzinfo else moment.replace(tzinfo=UTC))]


@settings(max_examples=100, deadline=None)
@given(
    moment=st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),  # noqa: DTZ001
    offset=st.integers(-1439, 1439),
)
def test_every_moment_that_python_writes_is_taken(moment, offset):
    there = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
    assert times_of([moment.isoformat(), "nonsense", there.isoformat(" ")]) == [
        micros(moment.replace(tzinfo=UTC)),
        micros(there),
    ]


@pytest.mark.parametrize(
    "bad",
    [
        "",
        " 2026-01-01",
        "2026-01-01 ",
        "2026-1-1",
        "20260101",
        "2026-01-01Z",
        "1767225600",
        "now",
        "2026-01-01\n",
    ],
)
def test_other_texts_are_not_times(bad):
    rejections = Rejections()
    assert len(take([bad, "2026-01-01"], rejections=rejections)) == 1
    assert rejections.for_operator() == {"wrong type": 1}


@pytest.mark.parametrize(
    ("clock", "factor"), [("seconds", 10**6), ("milliseconds", 10**3), ("microseconds", 1)]
)
def test_whole_numbers_count_from_1970(clock, factor):
    for column in (
        pa.array([-5, 0, 7]),
        pa.array([-5, 0, 7], pa.int8()),
        pa.array(["-5", "0", "7"]),
    ):
        assert times_of(column, clock=clock) == [-5 * factor, 0, 7 * factor]


@pytest.mark.parametrize("clock", ["seconds", "milliseconds", "microseconds"])
def test_numbers_beyond_the_calendar_are_dropped_not_wrapped(clock):
    rejections = Rejections()
    edge = [2**63 - 1, -(2**63), 0]
    assert take(pa.array(edge), clock=clock, rejections=rejections).time.tolist() == [0]
    assert take(
        pa.array([str(number) for number in edge]), clock=clock, rejections=rejections
    ).time.tolist() == [0]
    assert rejections.for_operator() == {"time out of range": 4}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_arrow_timestamps_are_taken_in_every_unit(unit, zone):
    moments = pa.array([-1, 0, 1_000_000_000], pa.timestamp("s", zone)).cast(
        pa.timestamp(unit, zone)
    )
    assert times_of(moments) == [-1_000_000, 0, 10**15]
    assert times_of(moments, clock="seconds") == [-1_000_000, 0, 10**15]


def test_nanoseconds_round_down_and_dates_are_midnights():
    assert times_of(pa.array([-1, 1, 1001], pa.timestamp("ns"))) == [-1, 0, 1]
    assert times_of(pa.array([1, 2], pa.date32())) == [86_400_000_000, 172_800_000_000]


def test_numbers_are_no_times_unless_their_unit_is_told():
    assert times_of(pa.array([1, 2])) == []
    assert times_of(pa.array([1.0, 2.0]), clock="seconds") == []


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("shown", "utc"),
    [
        ("2026-01-15T12:00:00", (2026, 1, 15, 11)),
        ("2026-07-15T12:00:00", (2026, 7, 15, 10)),
        ("2026-10-25T02:30:00", (2026, 10, 25, 0, 30)),  # shown twice: the first
        ("2026-10-25T03:00:00", (2026, 10, 25, 2)),
        ("2026-03-29T01:59:59", (2026, 3, 29, 0, 59, 59)),
        ("2026-03-29T02:00:00", (2026, 3, 29, 1)),  # never shown: the moment of the jump
        ("2026-03-29T02:30:00", (2026, 3, 29, 1)),
        ("2026-03-29T03:00:00", (2026, 3, 29, 1)),
    ],
)
def test_times_without_an_offset_are_of_the_zone(shown, utc):
    expected = [micros(datetime(*utc, tzinfo=UTC))]
    assert times_of([shown], zone="Europe/Berlin") == expected
    assert times_of(pa.array([shown]).cast(pa.timestamp("us")), zone="Europe/Berlin") == expected
    assert times_of([shown, "nonsense"], zone="Europe/Berlin") == expected


@settings(max_examples=100, deadline=None)
@given(
    shown=st.lists(
        st.datetimes(datetime(1900, 1, 2), datetime(2037, 12, 31)),  # noqa: DTZ001
        min_size=1,
        max_size=20,
    )
)
def test_zones_agree_with_pythons_own(shown):
    real = [
        each
        for each in shown
        if each.replace(tzinfo=BERLIN).astimezone(UTC).astimezone(BERLIN).replace(tzinfo=None)
        == each
    ]
    expected = [micros(each.replace(tzinfo=BERLIN, fold=0).astimezone(UTC)) for each in real]
    assert (
        times_of(pa.array([each.isoformat() for each in real], pa.string()), zone="Europe/Berlin")
        == expected
    )


def test_offsets_win_over_the_zone_and_far_times_survive_it():
    assert times_of(["1970-01-01T00:00:00Z"], zone="Asia/Tokyo") == [0]
    assert (
        times_of(["0001-01-01", "9999-12-31T23:59:59"], zone="Asia/Tokyo")[-1]
        == 253_402_300_799_000_000 - 9 * 3600 * 10**6
    )


NUMBERS = [0, 1, -1, 2**63 - 1, -(2**63), 10**18, -(10**18), 999_999_999_999_999_999]


def test_ids_of_64_bits_from_numbers_and_from_text():
    times = pa.array([0] * len(NUMBERS))
    for column in (
        pa.array(NUMBERS),
        pa.array(map(str, NUMBERS)),
        pa.array(NUMBERS).dictionary_encode(),
        pa.array(map(str, NUMBERS)).dictionary_encode(),
    ):
        batch = take(times, persons=column, person_type="integer", clock="seconds")
        assert batch.person.tolist() == NUMBERS
        assert batch.person.dtype == np.int64


@settings(max_examples=200, deadline=None)
@given(
    texts=st.lists(
        st.one_of(st.integers(-(2**64), 2**64).map(str), st.text("0123456789-+x. ", max_size=20)),
        max_size=10,
    )
)
def test_an_integer_is_written_as_python_writes_it(texts):
    batch = take(
        pa.array([0] * len(texts)),
        persons=pa.array(texts, pa.string()),
        person_type="integer",
        clock="seconds",
    )

    def integer(text):
        try:
            return str(int(text)) == text and -(2**63) <= int(text) < 2**63
        except ValueError:
            return False

    assert batch.person.tolist() == [int(text) for text in texts if integer(text)]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
)
def test_text_of_every_kind_is_taken_for_persons_and_keys(kind):
    def column(values):
        array = pa.array(
            [None if value is None else value.encode() for value in values], pa.binary()
        )
        return (
            array.cast(pa.string()).dictionary_encode().cast(kind)
            if pa.types.is_dictionary(kind)
            else array.cast(kind)
        )

    rejections = Rejections()
    batch = take(
        pa.array([0] * 5),
        keys=column(["a", "b", None, "c", "b"]),
        persons=column(["é", None, "x", "y", ""]),
        clock="seconds",
        rejections=rejections,
    )
    assert batch.person.to_pylist() == ["é"]
    assert batch.key.tolist() == [0]
    assert rejections.for_operator() == {"missing value": 3, "unknown key": 1}


def test_numbers_as_text_are_persons_too():
    assert take(
        pa.array([0, 0]), persons=pa.array([2**64 - 1, 7], pa.uint64()), clock="seconds"
    ).person.to_pylist() == [
        str(2**64 - 1),
        "7",
    ]


def test_a_missing_value_inside_a_dictionary_is_missing():
    persons = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]))
    assert take(pa.array([0, 0]), persons=persons, clock="seconds").person.to_pylist() == ["x"]


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([2, 0, 9, -1, None]),
        pa.array(["2", "0", "9", "-1", None]),
        pa.array([2, 0, 9, -1, None]).dictionary_encode(),
    ],
)
@pytest.mark.parametrize("key_type", ["text", "integer"])
def test_keys_may_be_numbers(keys, key_type):
    rejections = Rejections()
    batch = take(
        pa.array([0] * 5),
        keys=keys,
        domain=3,
        key_type=key_type,
        clock="seconds",
        rejections=rejections,
    )
    assert batch.key.tolist() == [2, 0]
    assert rejections.for_operator() == {"missing value": 1, "unknown key": 2}


def test_numbers_are_looked_up_by_how_they_are_written():
    domain = ["x", "007", "7", "-3"]
    assert take(
        pa.array([0] * 3), keys=pa.array([7, -3, 0]), domain=domain, clock="seconds"
    ).key.tolist() == [2, 3]
    assert take(
        pa.array([0] * 2), keys=pa.array(["007", "7"]), domain=domain, clock="seconds"
    ).key.tolist() == [1, 2]
    assert take(pa.array([0]), keys=pa.array([7]), domain=["x"], clock="seconds").key.tolist() == []
    assert (
        take(
            pa.array([0]), keys=pa.array([None], pa.string()).dictionary_encode(), clock="seconds"
        ).key.tolist()
        == []
    )


def product(sex, age, **parameters):
    domain = Product.of({"sex": ["f", "m"], "age": 3})
    columns = Columns("t", ("sex", "age"), clock="seconds", **parameters.pop("columns", {}))
    rejections = Rejections()
    table = pa.table({"t": [0] * len(sex), "sex": sex, "age": age})
    batch = Intake(columns=columns, domain=domain, **parameters).batch(
        table, position=None, rejections=rejections
    )
    return batch.key.tolist(), rejections.for_operator()


def test_attributes_become_the_code_of_their_combination():
    sex, age = ["m", "f", "m", "x", "f", None], [2, 0, 0, 1, 3, 1]
    expected = [5, 0, 3], {"missing value": 1, "unknown key": 2}
    assert product(sex, age) == expected
    assert product(sex, [str(each) for each in age]) == expected
    assert product(sex, age, columns={"key_type": ("text", "integer")}) == expected
    assert product(sex, age, other="f,1") == ([5, 0, 3, 1, 1], {"missing value": 1})
    table = pa.table({"t": [0, 0], "k": ["m,2", "m,3"]})
    whole = Intake(
        columns=Columns("t", "k", clock="seconds"), domain=Product.of({"sex": ["f", "m"], "age": 3})
    )
    assert whole.batch(table, position=None, rejections=Rejections()).key.tolist() == [5]


def test_what_is_private_is_not_shown():
    rejections = Rejections()
    batch = take(["2026-01-01", "4711"], persons=pa.array(["bob", "eve"]), rejections=rejections)
    assert repr(batch) == str(batch) == "Batch(private)"
    assert repr(rejections) == str(rejections) == "Rejections(private)"
    assert f"{Reason.TYPE}" == "wrong type"


def test_a_batch_cannot_be_written_to():
    batch = take(["2026-01-01"], persons=pa.array([1]), person_type="integer")
    for array in (batch.time, batch.key, batch.person):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"time": ""}, "must be names of columns"),
        ({"key": ()}, "must be names of columns"),
        (
            {"clock": "hours"},
            "clock must be 'iso', 'seconds', 'milliseconds', 'microseconds', not 'hours'",
        ),
        ({"person_type": "float"}, "must be 'text' or 'integer', not 'float'"),
        ({"key_type": ("text", "text")}, "one for each column of the key"),
    ],
)
def test_columns_that_cannot_be_used_are_refused(parameters, message):
    with pytest.raises(ConfigurationError, match=message):
        Columns(**{"time": "t", "key": "k"} | parameters)


@pytest.mark.parametrize(
    ("columns", "parameters", "message"),
    [
        (
            Columns("t", "k", zone="Mars/Olympus"),
            {},
            "zone='Mars/Olympus' is not a known time zone",
        ),
        (Columns("t", ("k", "l")), {}, "key must be one column"),
        (Columns("t", "k"), {"other": "rest"}, "other must be a key of the domain"),
    ],
)
def test_an_intake_that_cannot_be_used_is_refused(columns, parameters, message):
    with pytest.raises(ConfigurationError, match=message):
        Intake(columns=columns, domain=KEYS, **parameters)
