"""The page that `penstock query --plot` writes."""

from __future__ import annotations

import json
import re

import numpy as np

from penstock.lab.chart import Chart, render


def chart(**changes) -> Chart:
    numbers = np.array([[1.0, 2.0], [3.0, np.nan]])
    made = {
        "title": "Sums <of> 3 units",
        "promise": "Nobody & nothing",
        "confidence": "95 %",
        "units": np.array([4, 5]),
        "names": ("a", "</script><script>alert(1)</script>"),
        "estimate": numbers,
        "low": numbers - np.inf,
        "high": numbers + 1,
    }
    return Chart(**(made | changes))


def data_of(page: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))


def test_the_page_has_the_numbers_and_no_way_out():
    page = render(chart())
    data = data_of(page)
    assert data["estimate"] == [[1, 3], [2, None]]
    assert data["low"] == [[None, None], [None, None]]
    assert data["names"][1].startswith("</script>")
    assert "alert(1)</script>" not in page
    assert "Sums &lt;of&gt; 3 units" in page
    assert "default-src 'none'" in page


def test_alerts_are_marked():
    page = render(chart(raised=np.array([[True, False], [False, True]]), thresholds=(2.5, -2.5)))
    assert data_of(page)["raised"] == [[1, 0], [0, 1]]
    assert data_of(page)["thresholds"] == [2.5, -2.5]
    assert ">alert</li>" in page
    assert ">alert</li>" not in render(chart())
