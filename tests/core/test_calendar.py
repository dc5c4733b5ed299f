"""Units of the calendar, against the standard library's zones one event at a time."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.core.calendar import END, SECOND, Calendar, duration, instant
from penstock.core.errors import ConfigurationError, InputError

ZONES = [
    "UTC",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "America/Havana",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Europe/Zurich",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Kwajalein",
]
SKIPPED = {"Pacific/Apia": date(2011, 12, 30), "Pacific/Kwajalein": date(1993, 8, 21)}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = 3_600 * SECOND
DAY = 24 * HOUR

dates = st.dates(date(1970, 1, 2), date(2100, 12, 31))
minutes = st.one_of(st.integers(-180, 180), st.integers(0, 1_439))


def local(time: int, zone: ZoneInfo) -> datetime:
    return (EPOCH + timedelta(microseconds=time)).astimezone(zone)


def day_of(time: int, zone: ZoneInfo) -> date:
    """The latest date that the wall clock has shown: clocks that are set back past midnight do not
    return to a day.
    """
    now = local(time, zone)
    before = local(time - 3 * HOUR, zone)
    if before.utcoffset() <= now.utcoffset():
        return now.date()
    return max(local(time - minute * 60 * SECOND, zone).date() for minute in range(181))


def slow_unit(calendar: Calendar, time: int) -> int:
    zone = ZoneInfo(calendar.zone)
    amount = int(calendar.every.rstrip("dwmo"))
    first = datetime.fromisoformat(calendar.origin)
    if time < instant(first):
        return 0
    one, day = first.date(), day_of(time, zone)
    if calendar.every.endswith("mo"):
        return ((day.year - one.year) * 12 + day.month - one.month) // amount + 1
    step = amount * (7 if calendar.every.endswith("w") else 1)
    skipped = SKIPPED.get(calendar.zone)
    return (
        (day - one).days // step + 1 - (step == 1 and skipped is not None and one < skipped < day)
    )


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(ZONES),
    st.sampled_from(["1d", "1w", "1mo", "2d", "2w", "3mo", "12mo"]),
    dates,
    st.lists(
        st.tuples(dates, minutes, st.sampled_from([-1, 0, 1, SECOND])), min_size=1, max_size=15
    ),
)
@example(
    "America/Sao_Paulo",
    "1d",
    date(2018, 11, 1),
    [(date(2018, 11, 4), minute, 0) for minute in range(-70, 70)],
)
@example(
    "America/Sao_Paulo",
    "1d",
    date(2018, 2, 1),
    [(date(2018, 2, 18), minute, 0) for minute in range(-70, 70)],
)
@example(
    "America/St_Johns",
    "1d",
    date(2006, 10, 1),
    [(date(2006, 10, 29), minute, 0) for minute in range(-100, 100)],
)
@example(
    "America/Havana",
    "1d",
    date(2026, 10, 1),
    [(date(2026, 11, 1), minute, 0) for minute in range(-100, 100)],
)
@example(
    "Africa/Cairo",
    "1d",
    date(2026, 4, 1),
    [(date(2026, 4, 24), minute, 0) for minute in range(-100, 100)],
)
@example(
    "Pacific/Apia",
    "1d",
    date(2011, 12, 1),
    [(date(2011, 12, day), minute, -1) for day in (29, 30, 31) for minute in (0, 1)],
)
@example(
    "Pacific/Apia",
    "2d",
    date(2011, 12, 28),
    [(date(2011, 12, day), minute, -1) for day in (29, 30, 31) for minute in (0, 1)],
)
def test_civil_units_are_those_of_a_slow_look_at_the_wall_clock(zone, every, first, moments):
    first = first.replace(day=1) if every.endswith("mo") else first
    calendar = Calendar(every=every, zone=zone, origin=first.isoformat())
    midnights = [
        datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)) for day, _, _ in moments
    ]
    times = [
        instant(midnight) + minute * 60 * SECOND + nudge
        for midnight, (_, minute, nudge) in zip(midnights, moments, strict=True)
    ]
    slow = [slow_unit(calendar, time) for time in times]
    assert calendar.unit_of(np.array(times)).tolist() == slow
    assert [calendar.unit_at(time) for time in times] == slow


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(ZONES),
    st.sampled_from(
        [
            ("30s", 30),
            ("1min", 60),
            ("15min", 900),
            ("1h", 3_600),
            ("4h", 14_400),
            ("7h", 25_200),
            ("36h", 129_600),
        ]
    ),
    dates,
    st.lists(
        st.integers(-(2**63), 2**63 - 1) | st.integers(0, 4_133_980_800 * SECOND), max_size=20
    ),
)
def test_fixed_units_are_lengths_of_absolute_time(zone, length, first, times):
    every, seconds = length
    calendar = Calendar(every=every, zone=zone, origin=first.isoformat())
    begin = instant(datetime.fromisoformat(calendar.origin))
    slow = [
        min(max((time - begin) // (seconds * SECOND) + 1, 0), calendar.last + 1) for time in times
    ]
    assert calendar.unit_of(np.array(times, np.int64)).tolist() == slow
    assert [calendar.unit_at(time) for time in times] == slow


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("every", ["1h", "7h", "1d", "3d", "1w", "1mo"])
def test_boundaries_and_units_lead_to_each_other(every, zone):
    calendar = Calendar(every=every, zone=zone, origin="1970-01-01")
    units = np.unique(np.linspace(1, calendar.last - 1, 400).astype(np.int64)).tolist()
    begins = np.array([calendar.begins(unit) for unit in units])
    ends = np.array([calendar.ends(unit) for unit in units])
    assert calendar.unit_of(begins).tolist() == calendar.unit_of(ends - 1).tolist() == units
    assert calendar.unit_of(begins - 1).tolist() == [unit - 1 for unit in units]
    assert ends.tolist() == [calendar.begins(unit + 1) for unit in units]
    assert (ends > begins).all()
    assert [instant(calendar.start(unit)) for unit in units] == begins.tolist()
    assert [instant(calendar.end(unit)) for unit in units] == ends.tolist()
    assert calendar.begins(1) == instant(calendar.origin)
    assert local(calendar.ends(calendar.last), ZoneInfo(zone)).date() <= END


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_every_date_since_1970_begins_at_midnight_or_right_after_a_change_of_clocks(zone):
    where = ZoneInfo(zone)
    calendar = Calendar(every="1d", zone=zone, origin="1970-01-01")
    late = 0
    for unit in range(2, 48_000):
        begins = calendar.begins(unit)
        start = local(begins, where)
        if (start.hour, start.minute, start.second) != (0, 0, 0):
            late += 1
            before = local(begins - 1, where)
            assert before.utcoffset() < start.utcoffset()
            assert before.date() < start.date()
    assert late or zone not in {"Africa/Cairo", "America/Havana", "America/Sao_Paulo", "Asia/Gaza"}


def test_hours_are_absolute_when_clocks_change():
    hours = Calendar(every="1h", zone="Europe/Zurich", origin="2026-01-01")
    days = Calendar(every="1d", zone="Europe/Zurich", origin="2026-01-01")
    lengths = {}
    for day in ("2026-03-28", "2026-03-29", "2026-10-25"):
        unit = days.unit_at(instant(f"{day}T12:00Z"))
        assert days.label(unit).startswith(f"{day}T00:00")
        lengths[day] = len(hours.units_between(days.start(unit), days.end(unit)))
    assert lengths == {"2026-03-28": 24, "2026-03-29": 23, "2026-10-25": 25}
    change = hours.unit_at(instant("2026-10-25T00:00Z"))
    assert [hours.label(change + more) for more in (0, 1, 2)] == [
        "2026-10-25T02:00+02:00",
        "2026-10-25T02:00+01:00",
        "2026-10-25T03:00+01:00",
    ]


def test_hours_keep_their_length_where_clocks_change_by_half_an_hour():
    hours = Calendar(every="1h", zone="Australia/Lord_Howe", origin="2026-04-01")
    unit = hours.unit_at(instant("2026-04-05T12:00+10:30"))
    assert hours.label(unit) == "2026-04-05T11:30+10:30"
    assert hours.end(unit) - hours.start(unit) == timedelta(hours=1)


@pytest.mark.parametrize(
    ("zone", "day", "label", "hours"),
    [
        ("Europe/Zurich", "2026-03-29", "2026-03-29T00:00+01:00", 23),
        ("Europe/Zurich", "2026-10-25", "2026-10-25T00:00+02:00", 25),
        ("Australia/Lord_Howe", "2026-04-05", "2026-04-05T00:00+11:00", 24.5),
        ("Australia/Lord_Howe", "2026-10-04", "2026-10-04T00:00+10:30", 23.5),
        ("Antarctica/Troll", "2026-03-29", "2026-03-29T00:00+00:00", 22),
        ("Antarctica/Troll", "2026-10-25", "2026-10-25T00:00+02:00", 26),
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T01:00-02:00", 23),
        ("America/Sao_Paulo", "2018-02-17", "2018-02-17T00:00-02:00", 25),
        ("America/St_Johns", "2006-10-29", "2006-10-29T00:00-02:30", 25),
        ("America/Havana", "2026-11-01", "2026-11-01T00:00-04:00", 25),
        ("Pacific/Apia", "2011-12-29", "2011-12-29T00:00-10:00", 24),
        ("Pacific/Apia", "2011-12-31", "2011-12-31T00:00+14:00", 24),
    ],
)
def test_days_begin_and_last_as_the_zone_has_them(zone, day, label, hours):
    calendar = Calendar(every="1d", zone=zone, origin="2000-01-01")
    noon = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=ZoneInfo(zone))
    unit = calendar.unit_at(instant(noon))
    assert calendar.label(unit) == label
    length = timedelta(hours=hours)
    assert (
        calendar.end(unit) - calendar.start(unit)
        == calendar.start(unit + 1) - calendar.start(unit)
        == length
    )
    assert calendar.end(unit) - calendar.end(unit - 1) == length


def test_a_skipped_date_is_no_unit_and_weekdays_stay():
    days = Calendar(every="1d", zone="Pacific/Apia", origin="2011-12-28")
    assert [days.label(unit)[:10] for unit in range(1, 5)] == [
        "2011-12-28",
        "2011-12-29",
        "2011-12-31",
        "2012-01-01",
    ]
    weeks = Calendar(every="1w", zone="Pacific/Apia", origin="2011-12-26")
    assert [weeks.start(unit).weekday() for unit in range(1, 300)] == [0] * 299
    assert weeks.end(1) - weeks.start(1) == timedelta(days=6)


def test_months_and_weeks_have_their_lengths():
    months = Calendar(every="1mo", zone="Europe/Zurich", origin="2024-01-01")
    assert [months.label(unit)[:10] for unit in (1, 2, 3, 13)] == [
        "2024-01-01",
        "2024-02-01",
        "2024-03-01",
        "2025-01-01",
    ]
    assert months.end(2) - months.start(2) == timedelta(days=29)
    assert months.end(3) - months.start(3) == timedelta(days=31, hours=-1)
    weeks = Calendar(every="1w", zone="Europe/Zurich", origin="2026-03-25")
    assert weeks.start(1).weekday() == 2
    assert weeks.end(1) - weeks.start(1) == timedelta(days=7, hours=-1)


def test_labels_show_seconds_only_where_units_have_them():
    assert Calendar(every="30s", origin="2026-01-01").label(1) == "2026-01-01T00:00:00+00:00"
    assert Calendar(every="1min", origin="2026-01-01").label(61) == "2026-01-01T01:00+00:00"


def test_what_is_outside_of_all_units_has_the_numbers_around_them():
    extremes = np.array([-(2**63), -1, 2**62, 2**63 - 1])
    for every in ("1s", "7h", "1d", "1mo"):
        calendar = Calendar(every=every, zone="Asia/Kathmandu", origin="2026-01-01")
        assert calendar.unit_of(extremes).tolist() == [0, 0, calendar.last + 1, calendar.last + 1]
        assert calendar.unit_at(-(2**80)) == 0
        assert calendar.unit_at(2**80) == calendar.last + 1
        assert calendar.unit_of(np.array([], np.int64)).tolist() == []
        for unit in (0, calendar.last + 1):
            with pytest.raises(InputError, match=f"from 1 to {calendar.last}"):
                calendar.begins(unit)
            with pytest.raises(InputError, match="unit must be"):
                calendar.ends(unit)


def test_the_times_that_are_given_stay_as_they_are():
    times = np.arange(0, 10 * HOUR, HOUR)
    Calendar(every="1h", origin="1970-01-01").unit_of(times)
    assert times.tolist() == list(range(0, 10 * HOUR, HOUR))


@pytest.mark.parametrize("dtype", [np.float64, np.int32, "datetime64[us]"])
def test_times_of_another_type_are_refused_without_showing_them(dtype):
    with pytest.raises(InputError, match="int64 microseconds") as raised:
        Calendar(every="1h", origin="1970-01-01").unit_of(np.array([77, 78]).astype(dtype))
    assert "77" not in str(raised.value)


def test_units_between_are_those_that_share_an_instant():
    calendar = Calendar(every="1h", origin="2026-01-01")
    assert calendar.units_between("2026-01-01T00:00Z", "2026-01-01T02:00Z") == range(1, 3)
    assert calendar.units_between("2026-01-01T00:59Z", "2026-01-01T02:00:01Z") == range(1, 4)
    assert calendar.units_between("2025-01-01T00:00Z", "2026-01-01T00:00Z") == range(1, 1)
    assert calendar.units_between("2025-01-01T00:00Z", "2026-01-01T00:00:00.000001Z") == range(1, 2)
    assert not calendar.units_between("2026-01-01T02:00Z", "2026-01-01T02:00Z")
    assert not calendar.units_between("2026-01-02T02:00Z", "2026-01-01T02:00Z")
    assert calendar.units_between("2199-12-31T23:00Z", "2300-01-01T00:00Z") == range(
        calendar.last, calendar.last + 1
    )
    assert not calendar.units_between("2200-12-31T23:00Z", "2300-01-01T00:00Z")
    with pytest.raises(ConfigurationError, match="start must have an offset"):
        calendar.units_between(datetime(2026, 1, 1), "2026-01-01T02:00Z")  # noqa: DTZ001


def test_one_origin_can_be_written_in_several_ways():
    written = [
        "2026-03-01",
        "2026-03-01T00:00",
        "2026-02-28T23:00Z",
        datetime(2026, 2, 28, 23, tzinfo=UTC),
    ]
    written.append(datetime(2026, 3, 1, tzinfo=ZoneInfo("Europe/Zurich")))
    calendars = {Calendar(every="1d", zone="Europe/Zurich", origin=each) for each in written}
    assert [calendar.origin for calendar in calendars] == ["2026-03-01T00:00:00+01:00"]
    calendar = calendars.pop()
    again = Calendar(every=calendar.every, zone=calendar.zone, origin=calendar.origin)
    assert again == pickle.loads(pickle.dumps(calendar)) == calendar


def test_both_hours_of_a_repeated_one_are_origins_of_their_own():
    one, two = (
        Calendar(every="1h", zone="Europe/Zurich", origin=f"2026-10-25T02:00+0{offset}:00")
        for offset in (2, 1)
    )
    assert one != two
    assert two.begins(1) - one.begins(1) == HOUR


@pytest.mark.parametrize("when", ["2026-10-25T02:30", "2026-03-29T02:30"])
def test_local_time_that_is_not_one_instant_needs_its_offset(when):
    with pytest.raises(ConfigurationError, match="origin must have an offset where clocks change"):
        Calendar(every="30min", zone="Europe/Zurich", origin=when)
    assert (
        Calendar(every="30min", zone="Europe/Zurich", origin=f"{when}+02:00").unit_at(
            instant(f"{when}+02:00")
        )
        == 1
    )


def test_a_day_that_begins_late_is_an_origin():
    for every in ("1d", "1h", "4h", "7h"):
        calendar = Calendar(every=every, zone="America/Sao_Paulo", origin="2018-11-04")
        assert calendar.label(1) == "2018-11-04T01:00-02:00"


@pytest.mark.parametrize(
    ("every", "origin", "rule"),
    [
        ("1d", "2026-03-01T01:00", "the beginning of a day"),
        ("1w", "2026-03-01T00:00Z", "the beginning of a day"),
        ("1mo", "2026-03-02", "the beginning of a month"),
        ("1mo", "2026-03-01T01:00", "the beginning of a month"),
        ("1h", "2026-03-01T01:01", "a multiple of 3600 seconds"),
        ("4h", "2026-03-01T03:00", "a multiple of 14400 seconds"),
        ("7h", "2026-03-01T03:30", "a multiple of 3600 seconds"),
        ("1s", "2026-03-01T00:00:00.5", "a multiple of 1 seconds"),
    ],
)
def test_an_origin_that_is_no_boundary_is_refused(every, origin, rule):
    with pytest.raises(ConfigurationError, match=f"origin must be {rule}.*'{every}', not 2026"):
        Calendar(every=every, zone="Europe/Zurich", origin=origin)


def test_other_origins_of_fixed_lengths():
    assert (
        Calendar(every="7h", zone="Europe/Zurich", origin="2026-03-01T03:00").label(2)
        == "2026-03-01T10:00+01:00"
    )
    assert (
        Calendar(every="4h", zone="Europe/Zurich", origin="2026-03-29T08:00").label(1)
        == "2026-03-29T08:00+02:00"
    )
    assert (
        Calendar(every="15min", zone="Asia/Kathmandu", origin="2026-03-29T08:45").label(1)
        == "2026-03-29T08:45+05:45"
    )


@pytest.mark.parametrize(
    "every",
    [
        "",
        "h",
        "0h",
        "-1h",
        "1",
        "1.5h",
        "1 h",
        "1H",
        "1m",
        "1y",
        "9999999999s",
        60,
        None,
        "1h\n",
        "١h",
    ],
)
def test_units_that_cannot_be_read_are_refused_with_what_can(every):
    with pytest.raises(
        ConfigurationError,
        match="every must be a whole number from 1 on and one of s, min, h, d, w, mo, such as '1s'",
    ):
        Calendar(every=every, origin="2026-01-01")


@pytest.mark.parametrize(
    "zone", ["", "Zurich", "europe/zurich", "America", "../UTC", "right/UTC", "UTC\0"]
)
def test_zones_that_do_not_exist_are_refused(zone):
    with pytest.raises(
        ConfigurationError, match="zone must be the IANA name of a time zone, such as 'UTC'"
    ):
        Calendar(every="1h", zone=zone, origin="2026-01-01")


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        ("yesterday", "origin must be a datetime or ISO text"),
        (20260101, "origin must be a datetime or ISO text"),
        (None, "origin must be a datetime or ISO text"),
        (datetime(2026, 1, 1), "origin must have an offset"),  # noqa: DTZ001
        ("1969-12-31", "origin must be from 1970 to 2199"),
        ("2200-01-01", "origin must be from 1970 to 2199"),
        ("9999-12-31T23:59:59-12:00", "origin must be from 1970 to 2199"),
        ("0001-01-01", "origin must be from 1970 to 2199"),
    ],
)
def test_origins_that_cannot_be_used_are_refused(origin, message):
    for zone in ("UTC", "Pacific/Apia", "America/New_York"):
        with pytest.raises(ConfigurationError, match=message):
            Calendar(every="1d", zone=zone, origin=origin)


@pytest.mark.parametrize("every", ["99999999d", "999999999w", "999999999mo", "999999999h"])
def test_a_unit_that_never_ends_is_refused(every):
    with pytest.raises(ConfigurationError, match="every must let unit 1 end by 2200-01-01"):
        Calendar(every=every, origin="2026-01-01")


def test_durations_are_absolute():
    lengths = {"0s": 0, "30s": 30, "15min": 900, "2h": 7_200, "1d": 86_400, "1w": 604_800}
    assert {text: duration(text, name="lateness") // SECOND for text in lengths} == lengths
    for text in ("1mo", "2", "", "-1s", 0):
        with pytest.raises(
            ConfigurationError,
            match="lateness must be a whole number from 0 on and one of s, min, h, d, w, such",
        ):
            duration(text, name="lateness")


def test_instants_are_exact():
    assert instant("1970-01-01T00:00:00.000001Z") == 1
    assert instant("1969-12-31T23:59:59.999999Z") == -1
    assert (
        instant(datetime(2100, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
        == 4_133_980_800 * SECOND - 1
    )
