"""The release log in memory: append-only and exact."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from penstock import Laplace, open_log
from penstock.core.errors import InputError
from penstock.core.guarantee import Guarantee
from penstock.core.released import Scale
from penstock.released.log import Log
from penstock.testing import TestNoise


def test_a_unit_comes_once_and_in_order(tmp_path):
    run = Laplace(epsilon=1).run(2, noise=TestNoise(1), record=True)
    logs = [Log.of(run), open_log(tmp_path / "b.log", run)]
    first, second, third = (run.step([5, 5]) for _ in range(3))
    for log in logs:
        log.append(first)
        log.append(second)
        log.append(first)  # the same bytes: nothing happens
        assert log.units == range(1, 3)
        with pytest.raises(InputError, match="unit 2 is in the log with other numbers"):
            log.append(replace(second, value=second.value + 1))
        with pytest.raises(InputError, match="with other numbers"):
            log.append(replace(first, scale=Scale(Fraction(2))))
        with pytest.raises(InputError, match="out of order"):
            log.append(replace(third, unit=4))
        with pytest.raises(InputError, match="2 numbers"):
            Log(3).append(first)
        with pytest.raises(InputError, match="released under"):
            log.append(replace(third, guarantee=Guarantee(2, 1)))
        with pytest.raises(InputError, match="not list"):
            log.append([1, 2])
        log.append(third)
        with pytest.raises(InputError, match=r"unit 9 is not in this log: units 1..3"):
            log[9]
        assert [release.unit for release in log] == [1, 2, 3]


def test_a_log_may_begin_later_than_its_stream():
    run = Laplace(epsilon=1).run(2)
    for _ in range(4):
        run.step([1, 1])
    log = Log.of(run)
    log.append(run.step([1, 1]))
    assert (log.first, log.last, len(log)) == (4, 5, 2)


def test_units_may_be_numpys_integers(tmp_path):
    run = Laplace(epsilon=1).run(2, record=True)
    logs = (Log.of(run), open_log(tmp_path / "a.log", run))
    releases = [run.step([1, 1]) for _ in range(9)]
    for log in logs:
        for release in releases:
            log.append(release)
        three, five = np.int64(3), np.int64(5)
        assert [release.unit for release in log.between(three, five)] == [3, 4, 5]
        assert log.estimates(three, five).shape == (3, 2)
        assert log[three].unit == 3
        assert list(log.between(5, 3)) == list(log.between(1, -5)) == []


def test_the_old_ways_to_open_a_file_work_and_name_the_new_one(tmp_path):
    run = Laplace(epsilon=1).run(2)
    with (
        pytest.warns(DeprecationWarning, match=r"Log.of\(run, path\) is now penstock.open_log"),
        Log.of(run, tmp_path / "a.log", name="city") as log,
    ):
        log.append(run.step([1, 2]))
    with (
        pytest.warns(DeprecationWarning, match=r"Log.open\(path\) is now penstock.open_log"),
        Log.open(tmp_path / "a.log") as log,
    ):
        assert (log.name, len(log)) == ("city", 1)
