"""The conversion from (ε, δ) to ρ, against an independent library's bounds on the Gaussian's exact
δ.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction

import flint
import pytest

from penstock.budget.accountant import account
from penstock.budget.grid import Budget, Grid, promised
from penstock.budget.ledger import Ledger, Line, epsilons
from penstock.budget.zcdp import Curve, rho_of
from penstock.core.errors import BudgetError, ConfigurationError
from penstock.core.guarantee import Guarantee

PROMISES = [
    ("1", "1e-6"),
    ("0.001", "1e-6"),
    ("10", "1e-6"),
    ("1/3", "1/7"),
    ("3", "0.1"),
    ("1e-9", "0.1"),
    ("0.1", "0.5"),
    ("1", "0.999999"),
    ("1e-9", "1e-30"),
    ("1e-40", "1e-40"),
    ("1000", "1e-9"),
    ("1e5", "1e-9"),
    ("1", "1e-300"),
]
EASIER = [("1e-9", "1e-3"), ("0.01", "0.3"), ("1", "1e-20"), ("50", "1e-60")]


@pytest.fixture(autouse=True)
def _precise():
    before, flint.ctx.prec = flint.ctx.prec, 400
    yield
    flint.ctx.prec = before


def arb(number: Fraction) -> flint.arb:
    return flint.arb(number.numerator) / number.denominator


def mean_of(rho: Fraction) -> Fraction:
    """μ, which is rational."""
    square = 2 * rho
    mu = Fraction(
        flint.fmpz(square.numerator).isqrt().__int__(),
        flint.fmpz(square.denominator).isqrt().__int__(),
    )
    assert mu**2 == square
    return mu


def exact_delta(mu: flint.arb, epsilon: flint.arb) -> flint.arb:
    """Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) (Balle and Wang 2018), e^ε being no longer alone where it is
    large.
    """

    def beyond(x: flint.arb) -> flint.arb:
        return (x / flint.arb(2).sqrt()).erfc() / 2

    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    return beyond(a) - (epsilon - b * b / 2).exp() * (beyond(b) * (b * b / 2).exp())


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), PROMISES + EASIER)
def test_it_is_the_largest_that_keeps_the_promise(epsilon, delta):
    """Certified at 4000 bits: this μ keeps it, and one more in its twelfth digit would not."""
    e, d = Fraction(epsilon), Fraction(delta)
    flint.ctx.prec = 4000
    mu = mean_of(rho_of(e, d))
    last = Fraction(Decimal(1).scaleb(Decimal(f"{float(mu):.15e}").adjusted() - 11))
    assert (mu / last).denominator == 1
    assert 10**11 <= mu / last < 10**12
    assert exact_delta(arb(mu), arb(e)) <= arb(d)
    assert exact_delta(arb(mu + last), arb(e)) > arb(d)


def test_the_figure_that_the_pages_give():
    assert float(rho_of(Fraction(1), Fraction(1, 10**6))) == pytest.approx(0.0280145, rel=1e-6)


@pytest.mark.parametrize(
    "x", ["0", "1e-30", "0.001", "0.7", "3", "6.8", "6.9", "8", "20", "40", "1e6", "1e40"]
)
@pytest.mark.parametrize("delta", ["0.9", "1e-6", "1e-60"])
def test_the_tail_and_the_density_lie_between_their_bounds(x, delta):
    curve = Curve.of(Fraction(1), Fraction(delta))
    flint.ctx.prec = 4000
    at = arb(Fraction(x))
    density = (-at * at / 2).exp() / (2 * flint.arb.pi()).sqrt()
    low, high = curve.density(Decimal(x))
    if Fraction(x) < 10**4:  # beyond, a decimal has no room for the exponent
        assert arb(Fraction(low)) <= density
        assert density <= arb(Fraction(high))
        assert Fraction(high - low) < Fraction(high) / 10**30
        truth = (at / flint.arb(2).sqrt()).erfc() / 2 / density
        least, most = (arb(Fraction(each)) for each in curve.mills(Decimal(x)))
        assert least <= truth
        assert truth <= most
        assert most - least < truth * flint.arb(10) ** -20
    else:
        assert 0 <= low < high < Decimal("1e-1000")
        # between 1/x − 1/x³ and 1/x
        least, most = (Fraction(each) for each in curve.mills(Decimal(x)))
        exactly = Fraction(x)
        assert 1 / exactly - 1 / exactly**3 < most
        assert least < 1 / exactly
        assert most - least < most / 10**20


def test_the_decimal_context_of_the_thread_changes_nothing():
    plain = rho_of(Fraction(1), Fraction(1, 10**6))
    rho_of.cache_clear()
    with decimal.localcontext(decimal.Context(prec=3, rounding=decimal.ROUND_UP)):
        assert rho_of(Fraction(1), Fraction(1, 10**6)) == plain


def test_a_density_that_is_too_small_would_be_found(monkeypatch):
    """By a millionth of it: the certificate above can fail."""
    e, d = Fraction(1), Fraction(1, 10**6)
    plain = Curve.density
    monkeypatch.setattr(
        Curve,
        "density",
        lambda self, x: tuple(each * Decimal("0.999999") for each in plain(self, x)),
    )
    assert exact_delta(arb(mean_of(rho_of.__wrapped__(e, d))), arb(e)) > arb(d)


def test_whatever_is_zcdp_would_be_given_less():
    """By the conversion of Canonne, Kamath and Steinke, at its best order: so a ledger of ρ pays
    Gaussian noise only.
    """
    epsilon, order = flint.arb(1), flint.arb("21.98")
    less = order - 1
    logs = -flint.arb(10**6).log() + less.log() - order * (less / order).log()
    rho = (epsilon + logs / less) / order
    assert abs(rho - flint.arb("0.024356")) < 1e-6
    assert arb(rho_of(Fraction(1), Fraction(1, 10**6))) > flint.arb("1.15") * rho


def test_more_is_allowed_for_more():
    rhos = [rho_of(Fraction(e), Fraction(1, 10**6)) for e in (1, 2, 3)]
    assert rhos == sorted(rhos)
    assert rho_of(Fraction(1), Fraction(1, 10**9)) < rho_of(Fraction(1), Fraction(1, 10**6))


# -- the currency ----------------------------------------------------------------------------------

PROMISE = Guarantee("1", 3, delta="1e-6")


def test_a_promise_with_delta_is_counted_in_rho():
    grid = Grid.of(PROMISE)
    assert grid.currency == "rho"
    assert promised(PROMISE).amount == rho_of(Fraction(1), Fraction(1, 10**6))
    assert (promised(PROMISE) // 3).amount * 3 == promised(PROMISE).amount
    assert Grid.of(Guarantee("1", 3)).currency == "epsilon"
    assert grid is Grid.of(Guarantee(1, 3, 2, delta=Fraction(1, 10**6)))


def test_rho_is_never_shown_as_epsilon():
    budget = promised(PROMISE)
    with pytest.raises(ConfigurationError, match="rho, not epsilon"):
        budget.epsilon  # noqa: B018
    assert repr(budget) == f"Budget(rho={budget.amount})"
    lines: list = []
    ledger = Ledger(PROMISE, keys=1, sink=lines.append)
    ledger.begin(1)
    ledger.spend(budget // 3, "sum")
    assert epsilons(lines, ledger.grid)[0]["rho"] == str((budget // 3).amount)
    assert "epsilon" not in epsilons(lines, ledger.grid)[0]


def test_a_refusal_says_rho():
    ledger = Ledger(PROMISE, keys=1)
    ledger.begin(1)
    ledger.spend(promised(PROMISE), "sum")
    with pytest.raises(BudgetError, match=r"spending rho=\S+ for 'sum'") as caught:
        ledger.spend(Budget(1, ledger.grid), "sum")
    assert caught.value.currency == "rho"
    assert caught.value.promised == promised(PROMISE).amount


def test_budgets_of_two_currencies_do_not_mix():
    pure = promised(Guarantee("1", 3))
    with pytest.raises(ConfigurationError, match="different grids"):
        pure + promised(PROMISE)
    ledger = Ledger(PROMISE, keys=1)
    ledger.begin(1)
    with pytest.raises(ConfigurationError, match="another grid"):
        ledger.spend(pure // 3, "sum")


def test_the_accountant_knows_the_currency():
    lines: list = []
    ledger = Ledger(PROMISE, keys=1, sink=lines.append)
    for unit in range(1, 6):
        ledger.begin(unit)
        ledger.spend(promised(PROMISE) // 3, "sum")
    books = account(lines, PROMISE)
    assert books.kept
    assert books.worst == promised(PROMISE).amount
    for unit in range(6, 8):
        ledger.begin(unit)
        lines.append(Line(unit, "spend", "sum", promised(PROMISE).quanta, promised(PROMISE).quanta))
    assert not account(lines, PROMISE).kept
