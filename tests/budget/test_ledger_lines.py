"""The lines of a ledger as readers get them."""

from __future__ import annotations

import pickle

import penstock as ps
from penstock.budget.ledger_lines import LedgerLines


def test_lines_are_a_tuple_that_can_be_looked_at():
    run = ps.Uniform(epsilon="1", window=3).run(2, record=True)
    for _ in range(12):
        run.step([1, 2])
    lines = run.ledger
    assert isinstance(lines, tuple)
    assert lines == tuple(lines)
    assert repr(lines) == "<LedgerLines: 12 lines, units 1..12>"
    shown = lines._repr_html_()
    assert "<td>0.3333</td>" in shown
    assert "2 earlier ones are not shown" in shown


def test_no_lines_are_lines_too():
    lines = LedgerLines([], ps.Guarantee("1", 3))
    assert repr(lines) == "<LedgerLines: no lines yet>"
    assert "no lines yet" in lines._repr_html_()


def test_lines_with_a_delta_are_in_rho():
    lines = ps.Uniform(epsilon="1", window=3, delta="1e-6").run(2).ledger
    assert "amount (ρ)" in lines._repr_html_()


def test_copies_keep_the_promise():
    lines = ps.Uniform(epsilon="1", window=3).run(2).ledger
    assert pickle.loads(pickle.dumps(lines)).guarantee == lines.guarantee
