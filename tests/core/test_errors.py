"""Errors: attributes say what a program needs to know, so that no text is parsed."""

from __future__ import annotations

import pickle

import pytest

import penstock as ps
from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError
from penstock.core.exact import exact, positive, whole


@pytest.mark.parametrize(
    ("refused", "parameter"),
    [
        (lambda: exact(0.1, name="epsilon"), "epsilon"),
        (lambda: exact("much", name="share"), "share"),
        (lambda: positive(0, name="epsilon"), "epsilon"),
        (lambda: whole(0, name="window", least=1), "window"),
        (lambda: ps.Guarantee(1, 1, delta=2), "delta"),
        (lambda: ps.Guarantee(1, 2, horizon=1), "window"),
        (lambda: ps.Domain.of("one"), "domain"),
        (lambda: Calendar(every="7 moons", origin="2026-01-01T00:00Z"), "every"),
        (lambda: ps.Pegasus(epsilon=1, perturb=2), "perturb"),
        (lambda: ps.PanAbsorption(epsilon=1, window=2, intrusion="never"), "intrusion"),
    ],
)
def test_a_refused_parameter_is_named_by_an_attribute(refused, parameter):
    with pytest.raises(ConfigurationError) as caught:
        refused()
    assert caught.value.parameter == parameter
    assert str(caught.value).startswith(parameter)


def test_an_error_about_no_single_parameter_names_none():
    assert ConfigurationError("two budgets of different promises.").parameter is None


def test_an_error_survives_a_process_boundary():
    error = ConfigurationError("window must be at least 1.", parameter="window")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.parameter) == (str(error), "window")
