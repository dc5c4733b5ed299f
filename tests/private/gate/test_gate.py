"""The gate: it charges first, draws then, and keeps its secrets."""

from __future__ import annotations

from fractions import Fraction
from operator import attrgetter

import numpy as np
import pytest

from penstock.budget.accountant import account
from penstock.budget.grid import Budget, Budgets
from penstock.budget.ledger import Ledger, Line
from penstock.core.cover import ALL, EACH, Groups
from penstock.core.errors import BudgetError, ConfigurationError, MechanismError, NoiseError
from penstock.core.guarantee import Guarantee
from penstock.core.private import Private
from penstock.private.gate import Gate, Price, count_limit
from penstock.private.gate.gate import _MOVED
from penstock.private.noise import NoNoise, SystemNoise, TestNoise


class Recorder:
    """Noise that a test writes: 0 unless a label has its own; every draw goes into the journal."""

    private = False

    def __init__(self, journal, fixed=None):
        self.journal = journal
        self.fixed = fixed or {}

    def laplace(self, scale, size, *, unit, label):
        assert isinstance(scale, Fraction)
        self.journal.append(("draw", label, scale, size))
        value = self.fixed.get(label, 0)
        return np.full(size, value(unit) if callable(value) else value, np.int64)

    def laplace_each(self, scales, which, *, unit, label):
        self.journal.append(("draw each", label, [scales[each] for each in which.tolist()]))
        return np.zeros(len(which), np.int64)

    def refresh(self):
        pass

    def memory(self):
        return {}


def gate(epsilon="1", window=4, keys=3, fixed=None):
    """A gate in unit 1, and the journal of its charges and draws in their order."""
    journal: list = []
    ledger = Ledger(Guarantee(epsilon, window), keys=keys, sink=journal.append)
    made = Gate(ledger=ledger, noise=Recorder(journal, fixed), keys=keys)
    made.begin(1)
    return made, journal, ledger


def draws(journal):
    return [entry for entry in journal if not isinstance(entry, Line)]


def lines(journal):
    return [entry for entry in journal if isinstance(entry, Line)]


def share(door, part) -> Budget:
    return door._ledger.grid.floor(door.guarantee.epsilon * Fraction(part))


def private(*counts, sensitivity=1) -> Private:
    return Private(np.array(counts, np.int64), sensitivity=sensitivity)


def total(*counts) -> Private:
    return private(*counts).map(lambda each: each.sum(keepdims=True), stability=1, cover=ALL)


# -- noise now -------------------------------------------------------------------------------------


def test_the_charge_comes_before_the_draw():
    door, journal, _ = gate(fixed={"publish": 10})
    released = door.laplace(
        private(1, 2, 3, sensitivity=2), epsilon=share(door, "1/4"), label="publish"
    )
    line, draw = journal
    assert (line.kind, line.label) == ("spend", "publish")
    assert draw == ("draw", "publish", Fraction(8), 3)
    assert released.value.tolist() == [11, 12, 13]
    assert (released.unit, released.repeated, released.private, float(released.scale)) == (
        1,
        False,
        False,
        8.0,
    )
    assert not released.value.flags.writeable


def test_a_number_is_the_release_of_one_number():
    door, journal, _ = gate(fixed={"distance": 10})
    other, others, _ = gate(fixed={"distance": 10})
    quarter = share(door, "1/4")
    number = door.number(total(1, 2, 3), budget=quarter, label="distance")
    assert number == other.noisy(total(1, 2, 3), budget=quarter, label="distance").number == 16
    assert journal == others


def test_a_number_of_many_is_refused_before_the_charge():
    door, journal, _ = gate()
    with pytest.raises(MechanismError, match="of one number was expected, not of 3"):
        door.number(private(1, 2, 3), budget=share(door, "1/4"), label="distance")
    assert journal == []


def test_what_the_ledger_refuses_is_never_drawn():
    door, journal, ledger = gate()
    door.laplace(private(1, 2, 3), epsilon=share(door, 1), label="publish")
    before = list(journal)
    tiny, where = Budget(1, ledger.grid) * 2**10, np.array([True, False, False])
    price = Price(tiny, tiny)
    for act in (
        lambda: door.laplace(private(1, 2, 3), epsilon=tiny, label="more"),
        lambda: door.laplace(private(1, 2, 3), epsilon=tiny, label="more", where=where),
        lambda: door.laplace(
            private(1, 2, 3), epsilon=Budgets(np.full(3, 2**10), ledger.grid), label="more"
        ),
        lambda: door.number(total(1, 2, 3), budget=tiny, label="more"),
        lambda: door.pots.hold("pot", private(1, 2, 3), epsilon=tiny),
        lambda: door.runs.ask("run", private(1, 2, 3), threshold=0, price=price),
        lambda: door.counters.prime("counter", epsilon=tiny, sensitivity=1, size=3, exposed=None),
        lambda: door.counters.prime("counter", epsilon=tiny, sensitivity=1, size=3, exposed=True),
    ):
        with pytest.raises(BudgetError):
            act()
    assert journal == before
    assert door.memory() == {}


def test_a_priced_question_that_is_refused_leaves_no_line():
    door, journal, ledger = gate()
    door.laplace(private(1, 2, 3), epsilon=share(door, 1), label="publish")
    before, saved = list(journal), len(ledger.save().runs)
    tiny = Budget(2**10, ledger.grid)
    for _ in range(3):
        with pytest.raises(BudgetError, match="Nothing was drawn or recorded"):
            door.runs.ask(
                "far",
                private(1, 2, 3).distance(np.zeros(3, np.int64)),
                threshold=0,
                price=Price(tiny, tiny),
            )
    assert journal == before
    assert len(ledger.save().runs) == saved


def test_where_releases_those_keys_alone_and_charges_them_alone():
    door, journal, ledger = gate(fixed={"publish": 10})
    where = np.array([True, False, True])
    released = door.laplace(
        private(1, 2, 3), epsilon=share(door, "1/2"), label="publish", where=where
    )
    assert released.value.tolist() == [11, 0, 13]
    assert released.repeated.tolist() == [False, True, False]
    assert draws(journal) == [("draw", "publish", Fraction(2), 2)]
    door.laplace(private(1, 2, 3), epsilon=share(door, "1/2"), label="publish", where=~where)
    assert ledger.cost.epsilon == Fraction(1, 2)


def test_a_number_over_a_group_charges_every_key_of_the_group():
    door, _, ledger = gate()
    groups = Groups.from_labels(np.array([0, 1, 1]))
    first = np.array([True, False])
    door.laplace(
        private(1, 2, 3).sums(groups), epsilon=share(door, "1/2"), label="sums", where=first
    )
    door.laplace(
        private(1, 2, 3),
        epsilon=share(door, "1/2"),
        label="keys",
        where=np.array([False, True, True]),
    )
    assert ledger.cost.epsilon == Fraction(1, 2)
    door.laplace(
        private(1, 2, 3).sums(groups), epsilon=share(door, "1/2"), label="sums", where=~first
    )
    assert ledger.cost.epsilon == 1


def test_one_number_over_all_keys_charges_all_of_them():
    door, _, ledger = gate()
    door.laplace(
        private(1, 2, 3).distance(np.zeros(3, np.int64)),
        epsilon=share(door, "1/2"),
        label="distance",
    )
    door.laplace(
        private(1, 2, 3),
        epsilon=share(door, "1/2"),
        label="keys",
        where=np.array([False, False, True]),
    )
    assert ledger.cost.epsilon == 1
    with pytest.raises(ConfigurationError, match="in part"):
        door.laplace(
            private(1, 2, 3).distance(np.zeros(3, np.int64)),
            epsilon=share(door, "1/2"),
            label="d",
            where=np.array([True]),
        )


def test_each_number_may_have_its_own_budget():
    door, journal, ledger = gate()
    each = Budgets(np.array([share(door, "1/2").quanta, 0, share(door, "1/4").quanta]), ledger.grid)
    released = door.laplace(private(1, 2, 3, sensitivity=3), epsilon=each, label="publish")
    assert draws(journal) == [("draw each", "publish", [Fraction(6), Fraction(12)])]
    assert released.value.tolist() == [1, 0, 3]
    assert released.repeated.tolist() == [False, True, False]
    assert released.scale.floats().tolist() == [6, np.inf, 12]
    assert ledger.cost.epsilon == Fraction(1, 2)
    more = door.laplace(
        private(1, 2, 3), epsilon=each, label="publish", where=np.array([False, True, True])
    )
    assert more.value.tolist() == [0, 0, 3]
    assert draws(journal)[1] == ("draw each", "publish#2", [Fraction(4)])
    assert ledger.cost.epsilon == Fraction(1, 2)
    assert account(lines(journal), door.guarantee).worst == Fraction(1, 2)


def test_budgets_per_group_are_spread_over_their_keys():
    door, _, ledger = gate()
    groups = Groups.from_labels(np.array([0, 1, 1]))
    each = Budgets(np.array([share(door, "1/4").quanta, share(door, "1/2").quanta]), ledger.grid)
    door.laplace(private(1, 2, 3).sums(groups), epsilon=each, label="sums")
    door.laplace(
        private(1, 2, 3),
        epsilon=share(door, "3/4"),
        label="keys",
        where=np.array([True, False, False]),
    )
    assert ledger.cost.epsilon == 1


def test_a_budget_of_nothing_reads_nothing():
    door, journal, ledger = gate()
    for act in (
        lambda: door.laplace(private(1, 2, 3), epsilon=Budget(0, ledger.grid), label="publish"),
        lambda: door.laplace(private(1, 2, 3), epsilon=Budget(-5, ledger.grid), label="publish"),
        lambda: door.pots.hold("pot", private(1, 2, 3), epsilon=Budget(0, ledger.grid)),
    ):
        with pytest.raises(ConfigurationError, match="budget of 0"):
            act()
    assert journal == []
    nothing = door.laplace(
        private(1, 2, 3), epsilon=Budgets(np.zeros(3, np.int64), ledger.grid), label="publish"
    )
    assert nothing.value.tolist() == [0, 0, 0]
    assert nothing.repeated.all()
    assert ledger.cost.epsilon == 0


def test_a_scale_that_could_overflow_is_refused_before_the_charge():
    door, journal, ledger = gate("1/1000000000000", window=1000)
    small = Budget(1, ledger.grid)
    for act in (
        lambda: door.laplace(private(1, 2, 3), epsilon=small, label="publish"),
        lambda: door.laplace(
            private(1, 2, 3), epsilon=Budgets(np.array([2**24, 1, 0]), ledger.grid), label="publish"
        ),
        lambda: door.pots.hold("pot", private(1, 2, 3), epsilon=small),
        lambda: door.runs.ask("run", private(1, 2, 3), threshold=0, price=Price(small, small)),
        lambda: door.counters.prime("counter", epsilon=small, sensitivity=1, size=3, exposed=None),
    ):
        with pytest.raises(NoiseError, match="could overflow"):
            act()
    assert journal == []


@pytest.mark.parametrize("noise", [2**61, -(2**61)])
def test_a_release_never_leaves_the_range(noise):
    door, _, _ = gate(fixed={"publish": noise, "pot": noise})
    released = door.laplace(
        private(1, 2, count_limit(3)), epsilon=share(door, "1/2"), label="publish"
    )
    assert np.abs(released.value).max() == count_limit(3)
    number = total(1, 2, count_limit(3))
    assert abs(gate(fixed={"n": noise})[0].number(number, budget=share(door, 1), label="n")) == (
        count_limit(3)
    )
    door.pots.hold("pot", private(count_limit(3), 0, 0), epsilon=share(door, "1/2"))
    assert np.abs(door.pots.pour("pot", where=np.ones(3, bool)).value).max() == count_limit(3)


def test_sums_over_all_keys_stay_inside_the_range():
    for keys in (1, 2, 1000, 10**6):
        assert 2 * keys * count_limit(keys) < 2**62
        assert count_limit(keys) <= 2**50


@pytest.mark.parametrize(
    "wrong", [np.array([1, 0, 1]), np.array([1, 0]), np.array([0.0, 1.0, 1.0])]
)
def test_a_mask_that_is_no_mask_is_refused(wrong):
    # As places instead of a mask, [1, 0] would release keys 1 and 0, both with one draw of noise.
    door, journal, _ = gate()
    epsilon = share(door, "1/8")
    for act in (
        lambda: door.laplace(private(1, 2, 3), epsilon=epsilon, label="publish", where=wrong),
        lambda: door.pots.hold("pot", private(1, 2, 3), epsilon=epsilon, where=wrong),
        lambda: door.runs.ask(
            "run", private(1, 2, 3), threshold=0, price=Price(epsilon, epsilon), where=wrong
        ),
    ):
        with pytest.raises(ConfigurationError):
            act()
    assert journal == []


@pytest.mark.parametrize("wrong", [np.array([1, 0, 1]), np.array([1, 0]), np.array([True])])
def test_a_pot_is_poured_and_dropped_by_masks_only(wrong):
    door, journal, _ = gate()
    door.pots.hold("pot", private(1, 2, 3), epsilon=share(door, "1/8"))
    before = list(journal)
    for act in (
        lambda: door.pots.pour("pot", where=wrong),
        lambda: door.pots.drop("pot", where=wrong),
    ):
        with pytest.raises(ConfigurationError, match="bools"):
            act()
    assert journal == before
    assert door.memory()["pot pot"].tolist() == [1, 2, 3]


def test_two_keys_never_share_a_draw_of_noise():
    ledger = Ledger(Guarantee("1", 1), keys=2)
    door = Gate(ledger=ledger, noise=TestNoise(3), keys=2)
    same = 0
    for unit in range(1, 41):
        door.begin(unit)
        try:
            released = door.laplace(
                private(500, 100), epsilon=share(door, "1/100"), label="p", where=np.array([1, 0])
            )
        except (ConfigurationError, IndexError, ValueError):
            return
        same += released.value[0] - released.value[1] == 400
    assert same < 20


def test_a_label_used_twice_in_a_unit_has_noise_of_its_own():
    ledger = Ledger(Guarantee("1", 1), keys=3)
    door = Gate(ledger=ledger, noise=TestNoise(3), keys=3)
    door.begin(1)
    one, two = (
        door.laplace(private(0, 0, 0), epsilon=share(door, "1/1000"), label="x").value.tolist()
        for _ in range(2)
    )
    assert one != two
    again = Gate(ledger=Ledger(Guarantee("1", 1), keys=3), noise=TestNoise(3), keys=3)
    again.begin(1)
    repeat = [
        again.laplace(private(0, 0, 0), epsilon=share(again, "1/1000"), label="x").value.tolist()
        for _ in range(2)
    ]
    assert repeat == [one, two]


def test_a_budget_of_another_promise_draws_nothing():
    door, journal, _ = gate()
    other, _, _ = gate(window=5)
    with pytest.raises(ConfigurationError, match="another grid"):
        door.laplace(private(1, 2, 3), epsilon=share(other, "1/2"), label="publish")
    assert journal == []


def test_repeating_costs_nothing_and_keeps_the_mark_of_test_noise():
    door, journal, _ = gate()
    released = door.laplace(private(1, 2, 3), epsilon=share(door, "1/2"), label="publish")
    before = list(journal)
    door.begin(2)
    again = door.repeat(released)
    assert (again.unit, again.repeated, again.private) == (2, True, False)
    assert journal == before
    assert not door.repeat(type(released).nothing(3, door.guarantee)).private


def test_only_system_noise_is_private():
    for noise, mark in ((SystemNoise(), True), (TestNoise(1), False), (NoNoise(), False)):
        door = Gate(ledger=Ledger(Guarantee(1, 1), keys=1), noise=noise, keys=1)
        door.begin(1)
        assert door.laplace(private(1), epsilon=share(door, 1), label="publish").private is mark


# -- read and pay now, release later ---------------------------------------------------------------


def test_a_pot_is_paid_for_when_it_is_held_and_free_when_it_is_poured():
    door, journal, ledger = gate(fixed={"pot": 100, "pot#2": 100})
    every, first = np.ones(3, bool), np.array([True, False, False])
    for unit in (1, 2, 3):
        if unit > 1:
            door.begin(unit)
        door.pots.hold("pot", private(1, 2, 3), epsilon=share(door, "1/4"))
        assert ledger.cost.epsilon == Fraction(unit, 4)
        assert draws(journal) == []
    poured = door.pots.pour("pot", where=first)
    assert ledger.cost.epsilon == Fraction(3, 4)
    assert poured.value.tolist() == [103, 0, 0]
    assert poured.repeated.tolist() == [False, True, True]
    assert float(poured.scale) == 4
    assert draws(journal) == [("draw", "pot", Fraction(4), 1)]
    assert door.memory()["pot pot"].tolist() == [0, 6, 9]
    assert door.pots.pour("pot", where=every).value.tolist() == [100, 106, 109]
    assert "pot pot" not in door.memory()


def test_a_pot_can_be_held_and_dropped_in_part():
    door, _, ledger = gate()
    first = np.array([True, False, False])
    door.pots.hold("pot", private(1, 2, 3), epsilon=share(door, "1/4"), where=first)
    door.pots.hold("pot", private(1, 2, 3), epsilon=share(door, "1/4"), where=~first)
    assert ledger.cost.epsilon == Fraction(1, 4)
    assert door.memory()["pot pot"].tolist() == [1, 2, 3]
    door.pots.drop("pot", where=first)
    assert door.memory()["pot pot"].tolist() == [0, 2, 3]
    assert ledger.cost.epsilon == Fraction(1, 4)
    door.pots.drop("unknown", where=first)


def test_a_pot_has_one_budget_and_one_sensitivity():
    door, journal, _ = gate()
    door.pots.hold("pot", private(1, 2, 3), epsilon=share(door, "1/8"))
    before = list(journal)
    with pytest.raises(ConfigurationError, match="another pot"):
        door.pots.hold("pot", private(1, 2, 3), epsilon=share(door, "1/4"))
    with pytest.raises(ConfigurationError, match="another pot"):
        door.pots.hold("pot", private(1, 2, 3, sensitivity=2), epsilon=share(door, "1/8"))
    assert journal == before
    assert door.memory()["pot pot"].tolist() == [1, 2, 3]


def test_a_pot_changes_its_price_only_after_all_of_it_was_poured_or_dropped_at_once():
    door, _, ledger = gate(window=4)
    every, first = np.ones(3, bool), np.array([True, False, False])
    door.pots.hold("pot", private(1, 2, 3), epsilon=share(door, "1/8"))
    door.pots.pour("pot", where=first)
    with pytest.raises(ConfigurationError, match="another pot"):
        door.pots.hold("pot", private(1, 2, 3), epsilon=share(door, "1/4"))
    door.pots.drop("pot", where=every)
    with pytest.raises(ConfigurationError, match="there is no pot"):
        door.pots.pour("pot", where=every)
    door.begin(2)
    door.pots.hold("pot", private(1, 2, 3), epsilon=share(door, "1/4"))
    assert float(door.pots.pour("pot", where=every).scale) == 4
    assert ledger.cost.epsilon == Fraction(3, 8)


def test_a_pot_has_one_size():
    # One number that NumPy adds to every key would change all of them for one person.
    door, journal, _ = gate()
    door.pots.hold("pot", private(1, 2, 3), epsilon=share(door, "1/8"))
    before = list(journal)
    with pytest.raises(ConfigurationError, match="another pot"):
        door.pots.hold("pot", total(1, 2, 3), epsilon=share(door, "1/8"))
    assert journal == before
    assert door.memory()["pot pot"].tolist() == [1, 2, 3]


def test_there_is_nothing_to_pour_before_something_was_held():
    door, journal, _ = gate()
    with pytest.raises(ConfigurationError, match="no pot"):
        door.pots.pour("pot", where=np.ones(3, bool))
    assert journal == []


def test_a_pot_does_not_follow_the_callers_array():
    door, _, _ = gate()
    counts = np.array([1, 2, 3])
    door.pots.hold("pot", Private(counts, sensitivity=1), epsilon=share(door, "1/4"))
    counts[:] = 77
    assert door.memory()["pot pot"].tolist() == [1, 2, 3]
    door.memory()["pot pot"][:] = 55
    assert door.pots.pour("pot", where=np.ones(3, bool)).value.tolist() == [1, 2, 3]


def test_a_pot_goes_on_after_it_was_saved():
    door, _, _ = gate()
    door.pots.hold("pot", private(1, 2, 3, sensitivity=2), epsilon=share(door, "1/4"))
    other, _, ledger = gate()
    other.load(door.save(), private=True)
    assert other.pots.pour("pot", where=np.ones(3, bool)).value.tolist() == [1, 2, 3]
    assert ledger.cost.epsilon == 0


# -- folds -----------------------------------------------------------------------------------------


def running(secret, counts):
    """The running sum, and how far the newest counts are from its last value."""
    total = counts.copy() if secret is None else secret + counts
    return total, total * 2


def price_of(door, part="1/16"):
    return Price(share(door, part), share(door, part))


def test_a_fold_keeps_its_secret_and_its_sensitivity_and_is_paid_for_when_it_reads():
    door, journal, ledger = gate("1", window=4, fixed={"sum.threshold": 5, "sum.question": 0})
    price = price_of(door)
    first = door.runs.keep(
        "sum", running, private(1, 2, 3, sensitivity=2), price=price, stability=2
    )
    assert (first.sensitivity, first.cover, first.fold) == (4, EACH, "sum")
    assert ledger.cost.epsilon == Fraction(3, 16)
    assert door.runs.ask("sum", first, threshold=0, price=price).tolist() == [False, False, True]
    assert ledger.cost.epsilon == Fraction(3, 16)
    door.begin(2)
    second = door.runs.keep(
        "sum", running, private(10, 20, 30, sensitivity=2), price=price, stability=2
    )
    assert ledger.cost.epsilon == Fraction(6, 16)
    assert door.runs.ask("sum", second, threshold=20, price=price).tolist() == [
        False,
        True,
        True,
    ]  # 22, 44, 66 against 25
    assert {scale for _, _, scale, _ in draws(journal)} == {Fraction(64)}


def test_counts_outside_of_the_mask_are_neither_folded_nor_charged():
    door, _, ledger = gate("1", window=1)
    where = np.array([True, False, False])
    door.runs.keep("sum", running, private(1, 2, 3), price=price_of(door), stability=2, where=where)
    assert door.save().folds["sum"].secret.tolist() == [1, 0, 0]
    door.laplace(private(1, 2, 3), epsilon=share(door, "13/16"), label="publish", where=~where)
    assert ledger.cost.epsilon == Fraction(13, 16)


def test_a_fold_that_gives_fractions_is_refused():
    door, _, _ = gate()
    with pytest.raises(ConfigurationError):
        door.runs.keep(
            "mean", lambda s, c: (None, c / 2), private(1, 2, 3), price=price_of(door), stability=1
        )


def test_what_was_folded_is_released_by_no_other_way():
    # It still holds earlier units, which a charge to this unit would not pay for.
    door, journal, _ = gate("1", window=4)
    price = price_of(door)
    kept = door.runs.keep("sum", running, private(1, 1, 1), price=price, stability=2)
    door.counters.prime("c", epsilon=price.question, sensitivity=2, size=3, exposed=None)
    before = list(journal)
    for statistic in (kept, kept.map(lambda numbers: numbers + 1, stability=1, cover=EACH)):
        for act in (
            lambda x=statistic: door.laplace(x, epsilon=price.question, label="publish"),
            lambda x=statistic: door.pots.hold("pot", x, epsilon=price.question),
            lambda x=statistic: door.counters.count("c", x),
            lambda x=statistic: door.runs.keep("again", running, x, price=price, stability=2),
            lambda x=statistic: door.runs.ask("other", x, threshold=0, price=price),
            lambda x=statistic: door.runs.ask(
                "sum", x.map(np.sum, stability=1, cover=ALL), threshold=0, price=price
            ),
            lambda x=statistic: door.runs.ask("sum", x, threshold=0, price=price_of(door, "1/8")),
        ):
            with pytest.raises(ConfigurationError, match="fold"):
                act()
    with pytest.raises(ConfigurationError, match="fold"):
        door.runs.ask("sum", private(1, 1, 1), threshold=0, price=price)
    assert journal == before


def test_a_fold_pays_for_one_question_a_unit():
    # After a positive answer a second question would begin another run over the same units.
    door, _, _ = gate("1", window=4)
    price = price_of(door)
    for unit in (1, 2):
        if unit > 1:
            door.begin(unit)
        kept = door.runs.keep("sum", running, private(1, 1, 1), price=price, stability=2)
        assert door.runs.ask("sum", kept, threshold=0, price=price).shape == (3,)
        with pytest.raises(ConfigurationError, match="one question a unit"):
            door.runs.ask("sum", kept, threshold=0, price=price)


def test_a_fold_keeps_its_price_until_it_is_closed():
    door, _, _ = gate("1", window=4)
    door.runs.keep("sum", running, private(1, 1, 1), price=price_of(door), stability=2)
    with pytest.raises(ConfigurationError, match="keeps its price"):
        door.runs.keep("sum", running, private(1, 1, 1), price=price_of(door, "1/32"), stability=2)
    door.runs.close("sum")
    assert "sum" not in door.save().folds
    door.runs.keep("sum", running, private(1, 1, 1), price=price_of(door, "1/32"), stability=2)


# -- sparse vector ---------------------------------------------------------------------------------


def grouper(door, counts, *, price, threshold=5, run="group"):
    """A toy PeGaSus: a key's group ends when its counts reach the threshold."""
    return door.runs.ask(run, counts, threshold=threshold, price=price)


def test_runs_per_key_pay_every_unit_and_draw_a_threshold_only_when_they_begin():
    door, journal, ledger = gate("1", window=1)
    price = Price(share(door, "1/2"), share(door, "1/4"))
    seen = []
    for unit, counts in enumerate([(0, 0, 0), (9, 0, 0), (9, 9, 0), (0, 0, 0), (0, 0, 9)], start=1):
        if unit > 1:
            door.begin(unit)
        seen.append(grouper(door, private(*counts, sensitivity=2), price=price).tolist())
        assert ledger.cost.epsilon == 1
    assert seen == [
        [False, False, False],
        [True, False, False],
        [True, True, False],
        [False, False, False],
        [False, False, True],
    ]
    thresholds = [
        (size, scale) for _, label, scale, size in draws(journal) if label == "group.threshold"
    ]
    assert [size for size, _ in thresholds] == [3, 0, 1, 2, 0]
    assert {scale for _, scale in thresholds} == {Fraction(4)}
    questions = [
        (size, scale) for _, label, scale, size in draws(journal) if label == "group.question"
    ]
    assert questions == [(3, Fraction(8))] * 5
    assert {line.amount for line in lines(journal)} == {share(door, 1).quanta}


def test_the_threshold_noise_of_a_run_stays_until_it_ends():
    door, _, _ = gate(
        "1", window=1, keys=1, fixed={"group.threshold": lambda unit: 100 if unit == 1 else 0}
    )
    price = Price(share(door, "1/2"), share(door, "1/4"))
    answers = []
    for unit, count in enumerate([50, 60, 104, 105, 5, 4], start=1):
        if unit > 1:
            door.begin(unit)
        answers.append(bool(grouper(door, private(count), price=price)[0]))
    assert answers == [False, False, False, True, True, False]


def test_a_question_reaches_its_threshold_with_equality():
    door, _, _ = gate("1", window=1, fixed={"group.question": 2})
    price = Price(share(door, "1/2"), share(door, "1/4"))
    assert grouper(door, private(2, 3, 4), price=price, threshold=np.array([5, 5, 7])).tolist() == [
        False,
        True,
        False,
    ]


def test_keys_that_are_not_asked_pay_nothing_and_answer_nothing():
    door, _, ledger = gate("1", window=1)
    price = Price(share(door, "1/8"), share(door, "1/16"))
    first = np.array([True, False, False])
    answer = door.runs.ask("group", private(9, 9, 9), threshold=5, price=price, where=first)
    assert answer.tolist() == [True, False, False]
    door.laplace(private(1, 2, 3), epsilon=share(door, "3/4"), label="publish", where=~first)
    assert ledger.cost.epsilon == Fraction(3, 4)


def test_a_question_to_nobody_costs_nothing_and_its_lines_can_be_read():
    door, journal, ledger = gate("1", window=1)
    price = Price(share(door, "1/8"), share(door, "1/16"))
    door.runs.ask("group", private(9, 9, 9), threshold=5, price=price, where=np.zeros(3, bool))
    door.laplace(
        private(1, 2, 3), epsilon=share(door, "1/2"), label="publish", where=np.zeros(3, bool)
    )
    door.pots.hold("pot", private(1, 2, 3), epsilon=share(door, "1/2"), where=np.zeros(3, bool))
    assert ledger.cost.epsilon == 0
    assert account(lines(journal), door.guarantee).worst == 0


def test_a_closed_run_draws_a_new_threshold():
    door, journal, _ = gate("1", window=1)
    price = Price(share(door, "1/2"), share(door, "1/4"))
    grouper(door, private(0, 0, 0), price=price)
    door.runs.close("group", where=np.array([False, True, False]))
    door.runs.close("unknown")
    door.begin(2)
    grouper(door, private(0, 0, 0), price=price)
    assert [size for _, label, _, size in draws(journal) if label == "group.threshold"] == [3, 1]


def test_the_threshold_noise_of_a_closed_run_is_forgotten():
    door, _, _ = gate("1", window=1, fixed={"group.threshold": 4321})
    price = Price(share(door, "1/2"), share(door, "1/4"))
    grouper(door, private(0, 0, 0), price=price)
    door.runs.close("group")
    assert 4321 not in door.save().runs["group"].noise.tolist()


def dsft(door, counts, *, price, threshold=10):
    """A toy DSFT: one distance over all keys, compared with a noisy threshold."""
    return bool(
        door.runs.ask(
            "far", counts.distance(np.zeros(3, np.int64)), threshold=threshold, price=price
        )[0]
    )


def test_one_run_over_all_keys_has_the_ledgers_price():
    door, journal, ledger = gate("1", window=8, fixed={"far.threshold": 1})
    price = Price(share(door, "4/32"), share(door, "1/32"))
    answers, costs = [], []
    for unit in range(1, 9):
        if unit > 1:
            door.begin(unit)
        answers.append(dsft(door, private(0, 0, 11 if unit == 6 else 10), price=price))
        costs.append(ledger.cost.epsilon * 32)
    assert answers == [unit == 6 for unit in range(1, 9)]
    assert costs == [1, 2, 3, 4, 4, 6, 6, 6]
    assert [line.kind for line in lines(journal)] == ["open"] + ["ask"] * 6 + ["yes"] + ["ask"] * 2
    assert [entry[1] for entry in draws(journal) if entry[3]].count("far.threshold") == 1
    scales = {label: scale for _, label, scale, size in draws(journal) if size}
    assert scales == {"far.threshold": Fraction(8), "far.question": Fraction(32)}


def test_a_priced_run_is_closed_and_another_opened():
    door, journal, _ = gate("1", window=3)
    price = Price(share(door, "1/8"), share(door, "1/8"))
    for unit in range(1, 4):
        if unit > 1:
            door.begin(unit)
        dsft(door, private(0, 0, 0), price=price)
    door.begin(4)
    with pytest.raises(ConfigurationError, match="close it and open another"):
        dsft(door, private(0, 0, 0), price=price)
    door.runs.close("far")
    dsft(door, private(0, 0, 0), price=price)
    assert [(line.kind, line.run) for line in lines(journal)][-3:] == [
        ("close", 1),
        ("open", 2),
        ("ask", 2),
    ]
    counts = private(0, 0, 0).distance(np.zeros(3, np.int64))
    with pytest.raises(ConfigurationError, match="in part"):
        door.runs.ask("other", counts, threshold=1, price=price, where=np.array([True]))


@pytest.mark.parametrize("over_all", [True, False])
@pytest.mark.parametrize("change", ["threshold", "question", "sensitivity"])
def test_a_run_keeps_the_price_and_the_sensitivity_it_began_with(over_all, change):
    # The threshold's noise was drawn for the first price, and the ledger charges what the run was
    # opened with.
    door, journal, _ = gate("1", window=8)
    price = Price(share(door, "1/32"), share(door, "1/32"))
    zeros = np.zeros(3, np.int64)

    def statistic(sensitivity):
        counts = private(0, 0, 0, sensitivity=sensitivity)
        return counts.distance(zeros) if over_all else counts

    door.runs.ask("run", statistic(1), threshold=10, price=price)
    door.begin(2)
    before = list(journal)
    other = {
        "threshold": Price(share(door, "1/64"), price.question),
        "question": Price(price.threshold, share(door, "1/4")),
        "sensitivity": price,
    }[change]
    with pytest.raises(ConfigurationError):
        door.runs.ask(
            "run", statistic(2 if change == "sensitivity" else 1), threshold=10, price=other
        )
    assert journal == before


def test_a_run_over_all_keys_asks_about_one_number():
    # The ledger would price the first of several answers alone.
    door, journal, _ = gate("1", window=8)
    price = Price(share(door, "1/32"), share(door, "1/32"))
    several = private(1, 20, 30).map(lambda counts: counts, stability=1, cover=ALL)
    with pytest.raises(ConfigurationError, match="one number over all keys"):
        door.runs.ask("far", several, threshold=10, price=price)
    assert journal == []


@pytest.mark.parametrize(
    "threshold", [np.array([5, 10, 20]), np.array([[5], [10]]), 10.5, np.array([10.0])]
)
def test_a_number_has_one_threshold_and_that_is_whole(threshold):
    # Several thresholds under one draw of noise would be several questions for the price of one.
    door, journal, _ = gate("1", window=8)
    price = Price(share(door, "1/32"), share(door, "1/32"))
    with pytest.raises(ConfigurationError, match="a threshold is a whole number"):
        door.runs.ask("far", total(1, 2, 3), threshold=threshold, price=price)
    assert journal == []


@pytest.mark.parametrize("folded", [True, False])
def test_a_run_always_asks_about_as_many_numbers(folded):
    # One number that NumPy compares with every key's threshold would be answered three times and
    # paid for once.
    door, journal, _ = gate("1", window=8)
    price = price_of(door)

    def statistic(counts, size):
        if not folded:
            return counts if size > 1 else total(1, 2, 3)
        return door.runs.keep(
            "group", lambda _, each: (each, each[:size]), counts, price=price, stability=1
        )

    door.runs.ask("group", statistic(private(1, 2, 3), 3), threshold=10, price=price)
    door.runs.close("group", where=np.ones(3, np.bool_))
    door.begin(2)
    asked = statistic(private(1, 2, 3), 1)
    before = list(journal)
    with pytest.raises(ConfigurationError, match="always about as many"):
        door.runs.ask("group", asked, threshold=10, price=price)
    assert journal == before


# -- noise before data -----------------------------------------------------------------------------


def test_a_counter_holds_noise_before_it_counts():
    door, journal, ledger = gate(fixed={"c.state": 1000, "c.output": 1})
    door.counters.prime("c", epsilon=share(door, "1/4"), sensitivity=2, size=3, exposed=True)
    assert door.counters.primed("c")
    assert journal[0].kind == "expose"
    assert draws(journal) == [("draw", "c.state", Fraction(8), 3)]
    assert ledger.cost.epsilon == Fraction(1, 4)
    door.counters.count("c", private(1, 2, 3, sensitivity=2))
    door.counters.count("c", private(10, 0, 0, sensitivity=2))
    assert door.memory()["counter c"].tolist() == [1011, 1002, 1003]
    released = door.counters.read("c", again=True)
    assert released.value.tolist() == [1012, 1003, 1004]
    assert released.layers == 2
    assert [line.kind for line in lines(journal)] == ["expose", "settle"]
    assert draws(journal)[1] == ("draw", "c.output", Fraction(8), 3)
    assert ledger.cost.epsilon == Fraction(1, 4)
    assert ledger.exposed.epsilon == 0
    assert not door.counters.primed("c")
    door.end()


def test_a_counter_read_without_fresh_noise_has_one_layer():
    door, _, _ = gate(fixed={"c.state": 1000})
    door.counters.prime("c", epsilon=share(door, "1/4"), sensitivity=1, size=3, exposed=True)
    door.counters.count("c", private(1, 2, 3))
    released = door.counters.read("c", again=False)
    assert (released.value.tolist(), released.layers) == ([1001, 1002, 1003], 1)
    assert not released.value.flags.writeable


def test_a_counter_that_is_paid_for_when_primed_is_free_to_read():
    door, journal, ledger = gate()
    door.counters.prime("c", epsilon=share(door, "1/4"), sensitivity=1, size=3, exposed=None)
    assert ledger.cost.epsilon == Fraction(1, 4)
    door.counters.read("c", again=True)
    assert [line.kind for line in lines(journal)] == ["spend"]


def test_a_counter_that_is_fed_too_much_stays_where_it_is_and_never_wraps():
    door, _, _ = gate()
    door.counters.prime("c", epsilon=share(door, "1/4"), sensitivity=1, size=3, exposed=None)
    for _ in range(20):
        door.counters.count("c", Private(np.full(3, 2**60), sensitivity=1))
    assert door.memory()["counter c"].tolist() == [2**61] * 3


@pytest.mark.parametrize("exposed", [True, False])
def test_a_counter_that_was_not_paid_for_when_primed_is_paid_for_when_read(exposed):
    door, journal, ledger = gate()
    door.counters.prime("c", epsilon=share(door, "1/4"), sensitivity=1, size=3, exposed=exposed)
    door.counters.count("c", private(1, 2, 3))
    door.counters.read("c", again=True)
    assert {line.kind for line in lines(journal)} & {"spend", "settle"}
    assert ledger.cost.epsilon == Fraction(1, 4)


def test_an_announced_counter_is_charged_when_it_is_read():
    door, journal, ledger = gate()
    door.counters.prime("c", epsilon=share(door, "1/4"), sensitivity=1, size=3, exposed=False)
    assert lines(journal) == []
    door.counters.read("c", again=True)
    assert ledger.cost.epsilon == Fraction(1, 4)
    assert [line.kind for line in lines(journal)] == ["spend"]


def test_a_forgotten_counter_costs_what_it_exposed():
    door, _, ledger = gate(window=2)
    door.counters.prime("c", epsilon=share(door, "1/4"), sensitivity=1, size=3, exposed=True)
    door.counters.forget("c")
    door.end()
    assert ledger.cost.epsilon == Fraction(1, 4)
    door.begin(2)
    assert ledger.cost.epsilon == Fraction(1, 4)
    door.begin(3)
    assert ledger.cost.epsilon == 0


def test_a_counter_that_was_looked_into_gets_fresh_noise_and_must_be_read():
    door, journal, _ = gate(fixed={"c.state": 1000, "c.again": 50})
    door.counters.prime("c", epsilon=share(door, "1/4"), sensitivity=1, size=3, exposed=False)
    door.counters.count("c", private(1, 2, 3))
    assert not door.counters.disturbed
    door.counters.disturb()
    assert door.counters.disturbed
    assert door.memory()["counter c"].tolist() == [1051, 1052, 1053]
    assert draws(journal)[-1] == ("draw", "c.again", Fraction(4), 3)
    with pytest.raises(ConfigurationError, match="must be read, not forgotten"):
        door.counters.forget("c")
    with pytest.raises(
        ConfigurationError, match="was looked into and must be read before the unit ends"
    ):
        door.end()
    door.counters.disturb()
    assert door.counters.read("c", again=True).layers == 4
    door.end()


def test_no_counter_outlives_its_unit():
    door, _, _ = gate()
    door.counters.prime("c", epsilon=share(door, "1/4"), sensitivity=1, size=3, exposed=True)
    with pytest.raises(ConfigurationError, match="must be read or forgotten before the unit ends"):
        door.end()
    with pytest.raises(ConfigurationError, match="primed already"):
        door.counters.prime("c", epsilon=share(door, "1/4"), sensitivity=1, size=3, exposed=True)
    with pytest.raises(ConfigurationError, match="another sensitivity"):
        door.counters.count("c", private(1, 2, 3, sensitivity=2))


def test_a_counter_has_one_size():
    door, _, _ = gate()
    door.counters.prime("c", epsilon=share(door, "1/4"), sensitivity=1, size=3, exposed=None)
    with pytest.raises(ConfigurationError, match="or size"):
        door.counters.count("c", total(1, 2, 3))
    assert door.counters.read("c", again=False).value.tolist() == [0, 0, 0]


def test_the_gate_shows_nothing_of_what_it_holds():
    door, _, _ = gate()
    door.pots.hold("pot", private(987_654, 2, 3), epsilon=share(door, "1/4"))
    assert repr(door) == "<Gate at unit 1>"


def test_a_gate_that_went_on_from_test_noise_is_never_private_again():
    door = Gate(ledger=Ledger(Guarantee(1, 1), keys=1), noise=SystemNoise(), keys=1)
    door.load(door.save(), private=True)
    assert door.private
    door.load(door.save(), private=False)
    assert not door.private
    door.load(door.save(), private=True)
    assert not door.private


def test_what_was_kept_from_an_earlier_unit_is_not_read():
    promise = Guarantee("1", 2)
    ledger = Ledger(promise, keys=2)
    gate = Gate(ledger=ledger, noise=TestNoise(1), keys=2)
    old = Private(np.array([5, 6]), sensitivity=1, unit=1)
    some = Budget(2**10, ledger.grid)
    gate.begin(1)
    gate.laplace(old, epsilon=some, label="publish")
    gate.begin(2)
    price = Price(some, some)
    for read in (
        lambda: gate.laplace(old, epsilon=some, label="publish"),
        lambda: gate.pots.hold("pot", old.map(lambda c: c, stability=1, cover=EACH), epsilon=some),
        lambda: gate.runs.ask(
            "moved", old.distance(np.zeros(2, np.int64)), threshold=3, price=price
        ),
    ):
        with pytest.raises(ConfigurationError, match="unit 2: these numbers are of unit 1"):
            read()
    assert not ledger.number


def test_the_old_names_of_the_gate_work_with_a_warning():
    door, _, _ = gate()
    with pytest.warns(DeprecationWarning, match=r"gate\.hold is now gate\.pots\.hold"):
        door.hold("pot", private(1, 2, 3), epsilon=share(door, "1/4"))
    assert door.memory()["pot pot"].tolist() == [1, 2, 3]
    for name, new in _MOVED.items():
        with pytest.warns(DeprecationWarning, match=rf"is now gate\.{new}\."):
            assert getattr(door, name) == attrgetter(new)(door)
    with pytest.raises(AttributeError, match="'Gate' object has no attribute 'peek'"):
        door.peek()


def test_misuse_of_the_gate_is_the_mechanisms_error():
    door, _, _ = gate()
    with pytest.raises(MechanismError, match=r"^unit 1: there is no pot 'none'"):
        door.pots.pour("none", where=np.ones(3, bool))


def test_every_unit_begins_with_new_randomness():
    begun = []
    noise = NoNoise()
    door = Gate(ledger=Ledger(Guarantee(1, 1), keys=1), noise=noise, keys=1)
    noise.refresh = lambda: begun.append(door.unit)
    for unit in (1, 2, 3):
        door.begin(unit)
    assert begun == [1, 2, 3]


def test_the_gate_shows_a_key_that_its_noise_holds_until_it_is_erased():
    door = Gate(ledger=Ledger(Guarantee(1, 1), keys=3000), noise=SystemNoise(), keys=3000)
    door.begin(1)
    door.laplace(
        Private(np.ones(3000, np.int64), sensitivity=1), epsilon=door.left, label="publish"
    )
    assert set(door.memory()) == {"noise key"}
    door.erase()
    assert door.memory() == {}
