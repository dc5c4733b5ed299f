from __future__ import annotations

import pytest

import penstock as ps
from penstock.core.calendar import Calendar
from penstock.core.durations import units_of

HOURS = Calendar(every="1h", origin="2026-01-01")


@pytest.mark.parametrize(("value", "units"), [(3, 3), ("1d", 24), ("1 w", 168), ("2h", 2)])
def test_a_duration_is_a_number_of_units(value, units):
    assert units_of(value, HOURS, name="window") == units


@pytest.mark.parametrize(
    ("value", "calendar", "said"),
    [
        ("1d", None, "must be a number of units, not '1d': nothing says how long a unit is here."),
        ("90min", HOURS, '"90min" is not a whole number of units of "1h"'),
        ("1mo", HOURS, '"1mo" has 672 to 744 units of "1h" in UTC: write window = 744'),
        ("1x", HOURS, "must be a number and one of s, min, h, d, w, mo"),
        (0, HOURS, "must be at least 1 unit, not 0."),
        (True, HOURS, 'must be a number of units or a duration such as "1d", not True.'),
        (1.5, HOURS, "must be a number of units or a duration"),
    ],
)
def test_what_is_no_whole_number_of_units_is_refused_by_name(value, calendar, said):
    with pytest.raises(ps.ConfigurationError) as caught:
        units_of(value, calendar, name="window")
    assert str(caught.value).startswith("window ")
    assert said in str(caught.value)
    assert caught.value.parameter == "window"


def test_a_mechanism_without_a_calendar_takes_no_duration():
    said = "window must be a whole number of at least 1, not '1d'. Nothing says how long a unit is"
    with pytest.raises(ps.ConfigurationError, match=said):
        ps.BudgetAbsorption(epsilon="1", window="1d")
