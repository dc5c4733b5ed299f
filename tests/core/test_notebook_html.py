"""Cards, tables and small charts for notebooks."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from penstock.core.notebook_html import MAX_POINTS, Html, card, shown, sparkline, table


def drawn(chart):
    """The chart as XML, which it must be."""
    return ElementTree.fromstring(chart)


def numbers(text):
    return [float(number) for number in re.findall(r"-?[0-9.]+", text)]


def test_a_chart_stays_within_its_frame():
    values = np.array([3.0, -7.0, 250.0, 0.0])
    chart = drawn(
        sparkline(values, low=values - 9, high=values + 9, limit=300, width=80, height=20)
    )
    for part in chart:
        text = " ".join(part.attrib.get(name, "") for name in ("d", "points", "y1", "y2"))
        assert all(0 <= number <= 80 for number in numbers(text))
    assert [part.tag for part in chart] == ["polygon", "line", "path"]


@pytest.mark.parametrize("unknown", [np.nan, np.inf, -np.inf])
def test_unknown_numbers_leave_a_gap(unknown):
    values = np.array([1.0, 2.0, unknown, 4.0])
    chart = drawn(sparkline(values, low=values - 1, high=values + 1))
    assert chart.find("path").attrib["d"].count("M") == 2
    assert len(chart.findall("polygon")) == 2
    assert chart.attrib["aria-label"] == "4 numbers over time, from 1 to 4"


@pytest.mark.parametrize("values", [[], [np.nan], [0.0], [5.0, 5.0]])
def test_few_or_equal_numbers_can_be_drawn(values):
    assert drawn(sparkline(np.array(values))).tag == "svg"


def test_many_numbers_are_thinned():
    chart = drawn(sparkline(np.arange(10 * MAX_POINTS, dtype=float)))
    assert chart.find("path").attrib["d"].count("H") == MAX_POINTS


def test_text_is_escaped_and_charts_are_not():
    chart = sparkline(np.array([1.0]))
    made = card(
        "<a>", lead="<b>", promise="<c>", parts=[table(["<d>"], [["<e>"], [chart]])], note="<f>"
    )
    for letter in "abcdef":
        assert f"<{letter}>" not in made
        assert f"&lt;{letter}&gt;" in made
    assert chart in made
    assert isinstance(chart, Html)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1234.5, "1,234"),
        (12.34, "12.3"),
        (0.123, "0.12"),
        (np.inf, "∞"),
        (-np.inf, "−∞"),
    ],
)
def test_numbers_have_few_digits(value, text):
    assert shown(value) == text
