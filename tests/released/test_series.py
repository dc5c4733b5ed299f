"""A series says what its releases are about, in one text that never changes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from penstock import Laplace
from penstock.core.calendar import Calendar
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.guarantee import Guarantee
from penstock.released.series import Series, StreamFacts

SERIES = Series(
    name="taps/daily",
    domain=Domain.of(["north", "wést"]),
    guarantee=Guarantee("1/2", 2, 3),
    mechanism="bd",
    configuration={"caution": "1"},
    calendar=Calendar(every="1d", zone="Europe/Zurich", origin="2026-01-01"),
    facts={
        "stream.name": "taps",
        "stream.every": "1h",
        "privacy.epsilon": "1",
        "privacy.window": "24",
        "privacy.horizon": "",
        "view.hourly.times": "1",
        "view.daily.times": "2",
        "view.daily.share": "1/4",
    },
)


def test_a_series_reads_back_from_its_text():
    assert Series.read(SERIES.about) == SERIES
    assert SERIES.differences(SERIES) == ()


def test_the_text_of_a_series_stays_as_it_is():
    """Stores compare it and begin their hash chain with it."""
    small = replace(SERIES, facts={"b": "2", "a": "1"})
    assert small.about == (
        '{"calendar":["1d","Europe/Zurich","2026-01-01T00:00:00+01:00"],'
        '"configuration":{"caution":"1"},'
        '"domain":{"keys":["north","wést"],"nodes":false},"facts":{"a":"1","b":"2"},'
        '"guarantee":{"contribution":3,"delta":{"ratio":"0"},"epsilon":{"ratio":"1/2"},'
        '"horizon":null,"intrusion":"","window":2},"mechanism":"bd","name":"taps/daily"}'
    )


@pytest.mark.parametrize("name", ["", "  ", "a\nb"])
def test_a_series_has_a_name(name):
    with pytest.raises(ConfigurationError, match="name must be printable text"):
        Series.of(Laplace(epsilon="1").run(2), name=name)


def test_views_promise_together():
    assert SERIES.stream.views == ("hourly", "daily")
    assert SERIES.stream_guarantee == Guarantee(1, 24, 3)
    assert SERIES.stream.times("daily") == 2
    assert SERIES.stream.times("weekly") is None
    assert "for all views of 'taps' together; this one has 1/4 of it" in SERIES.promise


def test_a_series_without_other_views_has_its_own_promise():
    alone = replace(SERIES, facts={"stream.name": "taps", "view.daily.times": "1"})
    assert alone.stream_guarantee == alone.guarantee
    assert alone.promise == alone.guarantee.in_words()


def test_a_promise_that_is_not_declared_is_an_error():
    with pytest.raises(KeyError):
        StreamFacts({}).guarantee(1)
    assert StreamFacts(SERIES.facts).guarantee(2).epsilon == Fraction(1)


def test_what_is_not_protected_speaks_of_all_views_together():
    found = {gap.kind: gap for gap in SERIES.not_protected}
    assert found["longer_stay"].values == {"window": "24"}
    assert found["group"].values == {"two": "2", "three": "3"}
    nobody = replace(SERIES, facts={**SERIES.facts, "source.person": ""})
    assert "no_persons" in {gap.kind for gap in nobody.not_protected}
    alone = replace(SERIES, facts={**SERIES.facts, "source.missing_person": "each"})
    assert "counts_alone" in {gap.kind for gap in alone.not_protected}
