from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from penstock import (
    BudgetAbsorption,
    Guarantee,
    Mechanism,
    PanDistribution,
    Price,
    Released,
    Run,
    Uniform,
)
from penstock.budget.grid import Budgets
from penstock.budget.ledger import Ledger, Line
from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import InputError, MissingExtraError, StateError
from penstock.core.private import Private, unseal
from penstock.core.released import Scale
from penstock.lab import checks
from penstock.lab.checks import CHECKS, Check, CheckError, run_checks, title
from penstock.lab.checks.base import run_all
from penstock.lab.checks.statistics import moments_of_size
from penstock.lab.checks.streams import Script
from penstock.private.gate import Gate
from penstock.private.mechanisms.fixed import LastRelease
from penstock.private.mechanisms.grouped import GroupedDistribution
from penstock.private.mechanisms.registry import MECHANISMS
from penstock.private.mechanisms.uniform import NoState
from penstock.testing import NoNoise

from tests.lab.holding import Holding
from tests.lab.with_delta import (
    ALL_WITH_DELTA,
    AbsorptionWithDelta,
    DistributionWithDelta,
    FewGroupsWithDelta,
    UniformWithDelta,
)

names = [check.__name__ for check in CHECKS]


@dataclass(frozen=True, kw_only=True)
class Between(PanDistribution):
    """Another default."""

    intrusion: Any = "between"


@dataclass(frozen=True, kw_only=True)
class Announced(PanDistribution):
    """Another default."""

    intrusion: Any = "announced"


@dataclass(frozen=True, kw_only=True)
class FewGroups(GroupedDistribution):
    """Groups of several keys even in small domains, formed anew often."""

    groups: int = 2
    regroup: int = 3


@dataclass(frozen=True)
class CheckedPlace:
    last: Released
    done: bool


@dataclass(frozen=True, kw_only=True)
class CheckedAsking(Mechanism[CheckedPlace]):
    """One priced run of questions in every block of w units, until the first positive answer."""

    name = "asking"
    State = CheckedPlace

    def start(self, domain: Domain) -> CheckedPlace:
        return CheckedPlace(Released.nothing(domain.size, self.guarantee), False)

    def step(self, state: CheckedPlace, unit: Private, gate: Gate) -> tuple[CheckedPlace, Released]:
        done = state.done
        if gate.unit % self.window == 1 % self.window:
            gate.runs.close("watch")
            done = False
        price = Price(self.total // 8, self.total // (4 * self.window))
        if (
            done
            or not gate.runs.ask(
                "watch", unit.distance(state.last.value), threshold=10**5, price=price
            )[0]
        ):
            return CheckedPlace(state.last, done), gate.repeat(state.last)
        fresh = gate.laplace(unit, epsilon=self.total // 8, label="publish")
        return CheckedPlace(fresh, True), fresh


@dataclass(frozen=True, kw_only=True)
class AskingEachKey(Mechanism[LastRelease]):
    """A run of questions for every key; those that are told yes publish."""

    name = "asking_each_key"
    State = LastRelease

    def start(self, domain: Domain) -> LastRelease:
        return LastRelease(Released.nothing(domain.size, self.guarantee))

    def step(self, state: LastRelease, unit: Private, gate: Gate) -> tuple[LastRelease, Released]:
        share = self.total // (6 * self.window)
        last = state.last.value
        moved = unit.map(lambda counts: np.abs(counts - last), stability=1, cover=unit.cover)
        where = gate.runs.ask("watch", moved, threshold=10**5, price=Price(share, share))
        if not where.any():
            return state, gate.repeat(state.last)
        fresh = gate.laplace(unit, epsilon=share * 3, label="publish", where=where).over(
            state.last, where
        )
        return LastRelease(fresh), fresh


@dataclass(frozen=True)
class Ranked:
    ranks: IntArray


@dataclass(frozen=True, kw_only=True)
class Uneven(Mechanism[Ranked]):
    """Every other key has half of the budget."""

    name = "uneven"
    State = Ranked

    def start(self, domain: Domain) -> Ranked:
        return Ranked(domain.ranks)

    def step(self, state: Ranked, unit: Private, gate: Gate) -> tuple[Ranked, Released]:
        share = (self.total // self.window).quanta
        budgets = Budgets(np.where(state.ranks % 2 == 0, share, share // 2), self.grid)
        return state, gate.laplace(unit, epsilon=budgets, label="publish")


EVERY = [
    *MECHANISMS.values(),
    UniformWithDelta,
    DistributionWithDelta,
    AbsorptionWithDelta,
    FewGroupsWithDelta,
    Between,
    Announced,
    FewGroups,
    Holding,
    CheckedAsking,
    AskingEachKey,
    Uneven,
]


@pytest.mark.parametrize("check", CHECKS, ids=names)
@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_every_mechanism_passes_every_check(cls: type[Mechanism[Any]], check: Check) -> None:
    """The quick form of each check: fewer and shorter streams, the same properties."""
    check(cls, quick=True)


@pytest.mark.nightly
@pytest.mark.parametrize("check", CHECKS, ids=names)
@pytest.mark.parametrize(
    "cls", [*MECHANISMS.values(), *ALL_WITH_DELTA], ids=lambda cls: cls.__name__
)
def test_every_mechanism_passes_every_full_check(cls: type[Mechanism[Any]], check: Check) -> None:
    """The full form, as `penstock lab check` runs it. Quick twin: the test above."""
    check(cls)


# Every check can fail: mechanisms that are each wrong in one way, and the check that says so.


@dataclass(frozen=True)
class CheckedLog:
    last: Released
    log: list[int]


@dataclass(frozen=True)
class CheckedKept:
    kept: IntArray


@dataclass(frozen=True)
class Sealed:
    kept: Any


class Starts(Uniform):
    """A uniform whose state is another."""

    def start(self, domain: Domain) -> Any:
        return LastRelease(Released.nothing(domain.size, self.guarantee))


class ForgetsWhatItSpent(Uniform):
    """The whole of ε in every unit, behind the ledger's back."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        gate._ledger._sum = 0
        gate._ledger._numbers[gate._ledger._slot(gate.unit)] = 0
        return state, gate.laplace(unit, epsilon=self.total, label="publish")


class MiscountsItsCost(Uniform):
    """The lines are right, the running sum is not."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        released = gate.laplace(unit, epsilon=self.share // 2, label="publish")
        gate._ledger._sum += 1
        return state, released


class WritesImpossibleLines(Uniform):
    """A number that falls."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        released = gate.laplace(unit, epsilon=self.share, label="publish")
        sink = gate._ledger._sink
        assert sink is not None
        sink(Line(gate.unit, "spend", "more", 5, 3))
        return state, released


class DrawsWithoutPaying(Uniform):
    """A second release of every unit that the ledger never hears of."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        gate._maker.noisy(unseal(unit), Scale(Fraction(5)), "more", None)
        return state, gate.laplace(unit, epsilon=self.share, label="publish")


class PaysForLessNoise(Uniform):
    """Charges half of what the noise is worth."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        gate._ledger.spend(self.share // 2, "publish")
        return state, gate._maker.noisy(
            unseal(unit), gate._maker.scale(self.contribution, self.share), "publish", None
        )


class ReadsWhatWasOnlyExposed(PanDistribution):
    """Calls a counter paid for that was not."""

    def step(self, state: Any, unit: Private, gate: Gate) -> Any:
        for counter in gate.counters._held.values():
            counter.paid = True
        return super().step(state, unit, gate)


class ExposesInSecret(PanDistribution):
    """Holds counts in memory that an unannounced look would see unpaid."""

    def begin(self, state: Any, gate: Gate) -> None:
        prime = gate.counters.prime
        gate.counters.prime = lambda counter, **how: prime(  # type: ignore[method-assign]
            counter, **(how | {"exposed": None if how["exposed"] is None else False})
        )
        super().begin(state, gate)
        gate.counters.prime = prime  # type: ignore[method-assign]


class PoursTooPrecisely(Holding):
    """Pays for one budget and pours with twice that."""

    def step(self, state: LastRelease, unit: Private, gate: Gate) -> tuple[LastRelease, Released]:
        pot = gate.pots._held.get("publish")
        if pot is not None and gate.unit % 2 == 0:
            gate.pots.hold("publish", unit, epsilon=self.total // self.window)
            pot.quanta *= 2
            fresh = gate.pots.pour("publish", where=np.ones(len(state.last.value), np.bool_))
            pot.quanta //= 2
            return LastRelease(fresh), fresh
        return super().step(state, unit, gate)


class AsksTooPrecisely(CheckedAsking):
    """Opens a run at one price and asks at another."""

    def step(self, state: CheckedPlace, unit: Private, gate: Gate) -> tuple[CheckedPlace, Released]:
        out = super().step(state, unit, gate)
        gate._maker.draw(
            gate._maker.scale(self.contribution, self.total // self.window), 1, "watch.question"
        )
        return out


class StatesMore(Uniform):
    """Promises a longer window than it was asked for."""

    @property
    def guarantee(self) -> Guarantee:  # type: ignore[override]
        return Guarantee(self.epsilon, 10 * self.window, self.contribution)


class ReleasesStateMore(Uniform):
    """Its releases carry another promise."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        state, released = super().step(state, unit, gate)
        return state, replace(released, guarantee=Guarantee(1, 1000))


class RaisesTheLimit(Uniform):
    """Tells the ledger that twice as much was promised."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        gate._ledger.promised = 2 * self.total.quanta
        return super().step(state, unit, gate)


class LowersTheLimit(Uniform):
    """Tells the ledger that less was promised than was."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        gate._ledger.promised = self.total.quanta - 1
        return super().step(state, unit, gate)

    @property
    def share(self) -> Any:  # type: ignore[override]
        return self.total // (2 * self.window)


class Grows(Starts):
    """Remembers every unit."""

    State = CheckedLog

    def start(self, domain: Domain) -> Any:
        return CheckedLog(Released.nothing(domain.size, self.guarantee), [])

    def step(self, state: Any, unit: Private, gate: Gate) -> Any:
        return CheckedLog(
            state.last, [*state.log, 1] if gate.unit % 50 == 0 else state.log
        ), super().step(NoState(), unit, gate)[1]


_SEEN: dict[int, Released] = {}


class GrowsElsewhere(Uniform):
    """Remembers every release, outside its state."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        state, released = super().step(state, unit, gate)
        _SEEN[gate.unit] = released
        return state, released


class ForgetsOnRestart(Starts):
    """Every other release of this *instance* is a repetition, and nothing of that is saved."""

    State = LastRelease

    def step(self, state: Any, unit: Private, gate: Gate) -> Any:
        turn = self.__dict__.get("turn", 0)
        object.__setattr__(self, "turn", (turn + 1) % 3)
        if turn:
            return state, gate.repeat(state.last)
        released = gate.laplace(unit, epsilon=self.share, label="publish")
        return LastRelease(released), released


class ThawsOnRestart(Uniform):
    """An instance that has not seen the first unit releases arrays that can be written to."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        state, released = super().step(state, unit, gate)
        if gate.unit == 1:
            object.__setattr__(self, "seen", True)
        return state, released if "seen" in self.__dict__ else _thawed(released)


def _thawed(released: Released) -> Released:
    released = replace(released, value=released.value.copy())
    released.value.flags.writeable = True
    return released


class CallsARepetitionFresh(BudgetAbsorption):
    """Repeats without saying so."""

    def step(self, state: Any, unit: Private, gate: Gate) -> Any:
        state, released = super().step(state, unit, gate)
        return state, replace(released, repeated=False) if np.isfinite(
            float(released.scale)
        ) else released


class KeepsTheInput(Uniform):
    """Releases the last unit's array with this one's noise."""

    State = CheckedKept

    def start(self, domain: Domain) -> Any:
        return CheckedKept(np.zeros(domain.size, np.int64))

    def step(self, state: Any, unit: Private, gate: Gate) -> Any:
        released = gate.laplace(unit, epsilon=self.share, label="publish")
        return CheckedKept(unseal(unit)), released


class WritesIntoTheInput(Uniform):
    """Adds the noise in place."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        state, released = super().step(state, unit, gate)
        raw = unseal(unit)
        raw = (
            raw if raw.base is None else raw.base
        )  # the run hands out a view that cannot be written to
        raw[:] = released.value
        return state, released


class ReleasesTheInput(Uniform):
    """The raw array, as it came."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        state, released = super().step(state, unit, gate)
        return state, replace(released, value=unseal(unit))


class ReleasesWhatCanBeWritten(Uniform):
    """An array that the caller could change."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        state, released = super().step(state, unit, gate)
        return state, _thawed(released)


class DependsOnOrder(Uniform):
    """The first key listed is worth more than the others."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        state, released = super().step(state, unit, gate)
        value = released.value.copy()
        value[0] *= 2
        value.flags.writeable = False
        return state, replace(released, value=value)


class ClaimsMoreNoise(Uniform):
    """Half of the noise that it claims."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        state, released = super().step(state, unit, gate)
        return state, replace(released, scale=Scale(2 * released.scale.base, released.scale.parts))


class ClaimsMoreLayers(Uniform):
    """Noise once, claimed twice."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        state, released = super().step(state, unit, gate)
        return state, replace(released, layers=2)


class IsBiased(Uniform):
    """One person too many everywhere."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        state, released = super().step(state, unit, gate)
        return state, replace(released, value=released.value + 1)


class SharesItsNoise(Uniform):
    """Two neighbouring keys have the same noise."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        state, released = super().step(state, unit, gate)
        noise = (released.value - unseal(unit)).copy()
        noise[1::2] = noise[: 2 * (len(noise) // 2) : 2]
        return state, replace(released, value=unseal(unit) + noise)


class Unseals(Uniform):
    """Publishes only where somebody is."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        where = unseal(unit) >= 0
        return state, gate.laplace(unit, epsilon=self.share, label="publish", where=where)


class UnsealsElsewhere(Uniform):
    """The same, in a helper."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        return state, gate.laplace(unit, epsilon=self.share, label="publish", where=_positive(unit))


def _positive(private: Private) -> Any:
    return unseal(private) >= 0


class ReachesBehindTheGate(Uniform):
    """Looks at the books without asking."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        assert gate._maker.limit
        return super().step(state, unit, gate)


class LooksIntoThePots(Uniform):
    """What the gate shows to the lab alone."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        gate.memory()
        return super().step(state, unit, gate)


class LooksIntoAPot(Uniform):
    """What one of the gate's parts shows to the lab alone."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        gate.pots.save()
        return super().step(state, unit, gate)


class KeepsAPrivate(Starts):
    """Keeps what it cannot read."""

    State = Sealed

    def step(self, state: Any, unit: Private, gate: Gate) -> Any:
        return Sealed(unit), super().step(NoState(), unit, gate)[1]


class KeepsRawCounts(Starts):
    """Lets a function that may see the counts carry them out."""

    State = CheckedKept

    def step(self, state: Any, unit: Private, gate: Gate) -> Any:
        out: list[IntArray] = []
        unit.map(lambda counts: out.append(counts.copy()) or counts, stability=1, cover=unit.cover)  # type: ignore[func-returns-value]
        return CheckedKept(out[0]), super().step(NoState(), unit, gate)[1]


class KeepsTheirDistance(Starts):
    """As above, less the release."""

    State = CheckedKept

    def step(self, state: Any, unit: Private, gate: Gate) -> Any:
        out: list[IntArray] = []
        unit.map(lambda counts: out.append(counts.copy()) or counts, stability=1, cover=unit.cover)  # type: ignore[func-returns-value]
        released = super().step(NoState(), unit, gate)[1]
        return CheckedKept(released.value - out[0]), released


class LenientRun(Run):
    def step(self, counts: Any, *, unit: int | None = None) -> Released:
        return super().step(
            [max(int(count), 0) for count in counts] if isinstance(counts, list) else counts,
            unit=unit,
        )


class TakesAnything(Uniform):
    """Makes something of every input."""

    def run(self, domain: Any, **how: Any) -> Run:
        return LenientRun(self, Domain.of(domain), **how)


class HastyRun(Run):
    def step(self, counts: Any, *, unit: int | None = None) -> Released:
        try:
            return super().step(counts, unit=unit)
        except InputError:
            self._gate.begin(self.unit + 1)
            self._begun = True
            raise


class BeginsTooEarly(Uniform):
    """A refused unit has begun."""

    def run(self, domain: Any, **how: Any) -> Run:
        return HastyRun(self, Domain.of(domain), **how)


OF_THE_GATE = "check_the_gate_keeps_its_rules"

BROKEN: list[tuple[str, type[Mechanism[Any]], str]] = [
    (
        "check_no_window_costs_more_than_promised",
        ForgetsWhatItSpent,
        "by its ledger lines the window",
    ),
    ("check_no_window_costs_more_than_promised", MiscountsItsCost, "the run says"),
    ("check_no_window_costs_more_than_promised", WritesImpossibleLines, "cannot be true"),
    ("check_noise_is_what_was_paid_for", DrawsWithoutPaying, "'more' is worth epsilon=1/5"),
    ("check_noise_is_what_was_paid_for", PaysForLessNoise, "pay for 1/6"),
    ("check_noise_is_what_was_paid_for", ReadsWhatWasOnlyExposed, "pay for 0"),
    ("check_noise_is_what_was_paid_for", ExposesInSecret, "pay for 0"),
    (
        "check_noise_is_what_was_paid_for",
        PoursTooPrecisely,
        "'publish' is worth epsilon=2/3, but its ledger lines pay for 1/3",
    ),
    ("check_noise_is_what_was_paid_for", AsksTooPrecisely, "'watch.question' is worth epsilon=1/3"),
    ("check_the_stated_guarantee_is_the_enforced_one", StatesMore, "states Guarantee"),
    ("check_the_stated_guarantee_is_the_enforced_one", ReleasesStateMore, "its release of unit 1"),
    ("check_the_stated_guarantee_is_the_enforced_one", RaisesTheLimit, "was accepted"),
    ("check_memory_does_not_grow", Grows, "the snapshot grew"),
    ("check_memory_does_not_grow", GrowsElsewhere, "memory in use grew"),
    ("check_a_restart_changes_nothing", ForgetsOnRestart, "another release"),
    ("check_a_restart_changes_nothing", ThawsOnRestart, "can be written to"),
    ("check_noise_has_the_scale_it_claims", CallsARepetitionFresh, "mean 0|too large"),
    ("check_input_is_not_aliased", KeepsTheInput, "kept, not copied"),
    ("check_input_is_not_aliased", WritesIntoTheInput, "wrote into its input"),
    ("check_input_is_not_aliased", ReleasesTheInput, "shares memory"),
    ("check_input_is_not_aliased", ReleasesWhatCanBeWritten, "can be written to"),
    ("check_relabelling_keys_relabels_the_output", DependsOnOrder, "another release"),
    ("check_noise_has_the_scale_it_claims", ClaimsMoreNoise, "too small for the claimed scale"),
    ("check_noise_has_the_scale_it_claims", ClaimsMoreLayers, "too small for the claimed scale"),
    ("check_noise_has_the_scale_it_claims", IsBiased, "mean 0"),
    ("check_noise_has_the_scale_it_claims", SharesItsNoise, "correlated"),
    ("check_nothing_private_can_be_read", Unseals, "mentions 'unseal'"),
    ("check_nothing_private_can_be_read", UnsealsElsewhere, "_positive mentions 'unseal'"),
    ("check_nothing_private_can_be_read", ReachesBehindTheGate, "gate._maker"),
    ("check_nothing_private_can_be_read", LooksIntoThePots, "gate.memory"),
    ("check_nothing_private_can_be_read", LooksIntoAPot, "gate.pots.save"),
    ("check_nothing_private_can_be_read", KeepsAPrivate, "keeps a Private"),
    ("check_nothing_private_can_be_read", KeepsRawCounts, "keeps raw counts"),
    ("check_nothing_private_can_be_read", KeepsTheirDistance, "keeps raw counts"),
    ("check_bad_input_changes_nothing", TakesAnything, "was accepted"),
    ("check_bad_input_changes_nothing", BeginsTooEarly, "cannot go on"),
]


@pytest.mark.parametrize(
    ("name", "cls", "said"), BROKEN, ids=lambda value: getattr(value, "__name__", None)
)
@pytest.mark.parametrize(
    "quick",
    [pytest.param(False, id="full", marks=pytest.mark.nightly), pytest.param(True, id="quick")],
)
def test_every_check_can_fail(name: str, cls: type[Mechanism[Any]], said: str, quick: bool) -> None:
    _SEEN.clear()
    with pytest.raises(CheckError, match=said) as caught:
        getattr(checks, name)(cls, quick=quick)
    assert str(caught.value).startswith(f"{cls.__name__}: ")


@pytest.mark.parametrize(("factor", "fits"), [(1, True), (0.7, False), (1.3, False)])
@pytest.mark.parametrize("base", [Uniform, FewGroups, PanDistribution, Uneven, Holding])
def test_noise_fits_its_scale_and_neither_less_nor_more(
    base: type[Mechanism[Any]], factor: float, fits: bool
) -> None:
    """Fixed seeds. For other seeds a false alarm has probability below 1e-6, and a miss less."""

    class Claims(base):  # type: ignore[misc, valid-type]
        """Claims another scale than it has."""

        def step(self, state: Any, unit: Private, gate: Gate) -> Any:
            state, released = super().step(state, unit, gate)
            scale = Scale(released.scale.base * Fraction(factor), released.scale.parts)
            return state, replace(released, scale=scale)

    if fits:
        checks.check_noise_has_the_scale_it_claims(Claims)
        return
    with pytest.raises(
        CheckError, match=f"too {'large' if factor < 1 else 'small'} for the claimed scale"
    ):
        checks.check_noise_has_the_scale_it_claims(Claims)


def test_no_check_is_without_a_mechanism_that_fails_it() -> None:
    """But for the check of the gate, which a mechanism cannot break: the next test breaks it."""
    assert {name for name, _, _ in BROKEN} == set(names) - {OF_THE_GATE}


def test_a_gate_that_charges_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "spend", lambda self, amount, label, **how: None)
    with pytest.raises(CheckError, match="Uniform: "):
        checks.check_the_gate_keeps_its_rules(Uniform, quick=True)


@pytest.mark.parametrize("name", ["configuration", "keys", "begun"])
def test_a_run_that_takes_any_snapshot_is_caught(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = Run.load

    def load(self: Run, snapshot: bytes, pieces: Any = None) -> None:
        try:
            genuine(self, snapshot, pieces)
        except StateError as error:
            if name not in str(error).replace("a new run", "begun").replace("domain", "keys"):
                raise

    monkeypatch.setattr(Run, "load", load)
    with pytest.raises(CheckError, match=r"a snapshot .* is accepted"):
        checks.check_the_gate_keeps_its_rules(Uniform, quick=True)


def test_a_private_that_can_be_read_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Private, "__len__", lambda _: 16)
    with pytest.raises(CheckError, match="does not refuse len"):
        checks.check_nothing_private_can_be_read(Uniform, quick=True)


def test_a_ledger_that_refuses_what_is_left_is_caught() -> None:
    with pytest.raises(CheckError, match="exactly what the window has left"):
        checks.check_the_stated_guarantee_is_the_enforced_one(_Stingy)


class _Stingy(Uniform):
    """Leaves half of ε unused, and has the ledger refuse its last quantum."""

    def run(self, domain: Any, **how: Any) -> Run:
        run = Run(self, Domain.of(domain), **how)
        run._ledger.promised -= 1
        return run

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        return state, gate.laplace(unit, epsilon=self.share // 2, label="publish")


def test_scripts_force_a_publication_or_a_repetition() -> None:
    for cls in (BudgetAbsorption, MECHANISMS["bd"], PanDistribution):
        script = Script(Fraction(1, 1000), 1, 3, 4, (15, 0, 15, 0, 0, 15), None)
        run = script.start(cls)
        assert [not np.any(run.step(counts).repeated) for counts in script.stream(run)] == [
            True,
            False,
            True,
            False,
            False,
            True,
        ]


@pytest.mark.parametrize(("scale", "layers"), [(0.5, 1), (3.0, 1), (40.0, 2), (7.0, 3)])
def test_the_moments_of_noise_agree_with_draws(scale: float, layers: int) -> None:
    """200,000 draws of another generator, within 5 standard deviations: a false alarm has chance
    below 1e-5 for a new seed.
    """
    rng = np.random.default_rng(3)
    q = np.exp(-1 / scale)
    draws = sum(
        rng.geometric(1 - q, 200_000) - rng.geometric(1 - q, 200_000) for _ in range(layers)
    )
    mean, variance = moments_of_size(scale, layers)
    sizes = np.abs(np.asarray(draws))
    assert abs(sizes.mean() - mean) < 5 * np.sqrt(variance / 200_000)
    assert abs(sizes.var() / variance - 1) < 0.05


def test_all_results_are_reported_and_told_as_they_come() -> None:
    told: list[tuple[str, bool | None]] = []
    results = run_checks(
        ClaimsMoreNoise,
        quick=True,
        progress=lambda name, result: told.append((name, None if result is None else result.ok)),
    )
    assert [result.name for result in results] == names
    assert [result.name for result in results if not result.ok] == [
        "check_noise_has_the_scale_it_claims"
    ]
    assert told == [
        pair for result in results for pair in ((result.name, None), (result.name, result.ok))
    ]
    assert all(bool(result.message) != result.ok and result.seconds > 0 for result in results)


def test_a_mechanism_that_crashes_fails_with_the_reason() -> None:
    class Crashes(Uniform):
        """Never steps."""

        def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
            raise ZeroDivisionError("in the step")

    results = run_checks(Crashes, quick=True)
    assert [result.name for result in results if result.ok] == [OF_THE_GATE]
    assert "ZeroDivisionError: in the step" in results[1].message


def test_a_failure_on_a_random_stream_says_which() -> None:
    check = checks.check_no_window_costs_more_than_promised
    (result,) = run_all((check,), ForgetsWhatItSpent, quick=True, progress=None)
    message = result.message
    assert "Script(epsilon=" in message
    assert "act_out(" in message  # Hypothesis's own words on how to repeat it


def test_results_repeat_themselves() -> None:
    failing = (
        checks.check_no_window_costs_more_than_promised,
        checks.check_relabelling_keys_relabels_the_output,
    )
    one, two = (
        [
            dataclasses.replace(result, seconds=0)
            for result in run_all(failing, DependsOnOrder, quick=True, progress=None)
        ]
        for _ in range(2)
    )
    assert not all(result.ok for result in one)
    assert one == two


def test_without_hypothesis_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    for act in (
        lambda: run_checks(Uniform),
        lambda: checks.check_no_window_costs_more_than_promised(Uniform),
        lambda: checks.check_relabelling_keys_relabels_the_output(Uniform),
    ):
        with pytest.raises(MissingExtraError, match=r"hypothesis.*pip install 'penstock\[lab\]'"):
            act()


def test_every_check_says_what_it_shows() -> None:
    assert len(set(map(title, CHECKS))) == len(CHECKS)
    assert all(title(check).endswith(".") and len(title(check)) < 100 for check in CHECKS)


def test_a_configuration_that_a_mechanism_refuses_is_no_example() -> None:
    class CheckedShifting(BudgetAbsorption):
        """Needs twice as many keys as the window has units."""

        shift = True

    checks.check_no_window_costs_more_than_promised(CheckedShifting, quick=True)
    run = CheckedShifting(epsilon="1", window=2).run(4, noise=NoNoise())
    assert run.step([1, 2, 3, 4]).unit == 1
