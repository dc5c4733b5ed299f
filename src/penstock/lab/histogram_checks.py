"""What every histogram method must pass: `check_*` functions that take one and say what is wrong
with it.

They see it as the mechanisms that take it do, so they work for anybody's:

>>> from penstock import Plain
>>> check_every_key_has_a_number(Plain())
>>> [title(check) for check in HISTOGRAM_CHECKS][:2]
['It spends at most what it was given.', 'Every key has a number.']

Most of what can go wrong is looked for by the checks of mechanisms: `as_mechanism` makes one that
releases by this method. A method that takes keys by their places says so by a class attribute
`by_place = True`; then the order of keys may matter. It is given any number of keys.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.errors import PenstockError, StateError
from penstock.core.released import Released, Scale
from penstock.lab import checks
from penstock.lab.checks import CheckError, Result
from penstock.private.histograms.base import PUBLISH, Histogram
from penstock.private.histograms.plain import Plain
from penstock.private.mechanisms.fixed import FixedSampling
from penstock.private.mechanisms.sample import Sample
from penstock.private.run import Run
from penstock.testing import TestNoise


class HistogramCheck(Protocol):
    """A check: it returns if the method passes and raises if not. `quick` looks at less of it."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, histogram: Histogram, *, quick: bool = False) -> None: ...


def title(check: HistogramCheck) -> str:
    """What a check shows, in one line."""
    return (inspect.getdoc(check) or check.__name__).partition("\n")[0]


def as_mechanism(histogram: Histogram) -> type[Sample]:
    """`sample` with this method as its default, for whatever takes a class of mechanisms."""
    method = histogram

    @dataclass(frozen=True, kw_only=True)
    class MethodUnderTest(Sample):
        """One unit in w, by the method that is looked at."""

        histogram: Histogram = field(default=method)

    MethodUnderTest.__name__ = type(histogram).__name__
    return MethodUnderTest


def run_histogram_checks(
    histogram: Histogram,
    *,
    quick: bool = False,
    progress: Callable[[str, Result | None], object] | None = None,
) -> list[Result]:
    """Run every check. `progress` is told each check's name when it begins (with None) and again
    with its result.
    """
    return checks.run_all(HISTOGRAM_CHECKS, histogram, quick=quick, progress=progress)


# -- what the method itself must do ----------------------------------------------------------------


def check_it_spends_at_most_what_it_was_given(histogram: Histogram, *, quick: bool = False) -> None:
    """It spends at most what it was given.

    Given a half of ε at a time, for several ε, bounds on contributions and numbers of keys, no unit
    spends more than that half, and every line begins with the label of publications.
    """
    for epsilon in ("1", "1/3") if quick else ("1", "0.1", "1/3", "7"):
        for contribution, keys in (
            ((1, 1), (3, 2), (1, 7), (2, 64))
            if quick
            else ((1, 1), (3, 2), (1, 7), (2, 64), (1, 1_500))
        ):
            mechanism = FixedSampling(
                epsilon=epsilon, window=2, every=1, contribution=contribution, histogram=histogram
            )
            run = mechanism.run(keys, noise=TestNoise(13), record=True)
            where = f"{mechanism} over {keys} keys"
            for counts in checks._restless(keys, 6, seed=keys):
                try:
                    run.step(counts)  # refuses what spends more
                except PenstockError as error:
                    raise _failure(histogram, f"{where}: {error}") from error
            labels = {line.label for line in run.ledger}
            if not all(label.startswith(PUBLISH) for label in labels):
                raise _failure(
                    histogram, f"{where}: its labels {sorted(labels)} must begin with {PUBLISH!r}."
                )


def check_every_key_has_a_number(histogram: Histogram, *, quick: bool = False) -> None:
    """Every key has a number.

    For 1 to 9 keys and some larger numbers of them: one whole number per key, freshly read, with a
    divisor and a variance above 0; an infinite variance says that nothing is claimed.
    """
    for keys in (*range(1, 10), 16, 101) if quick else (*range(1, 10), 16, 101, 1_024, 3_000):
        run = Sample(epsilon="1", window=1, histogram=histogram).run(keys, noise=TestNoise(keys))
        for counts in (np.zeros(keys, np.int64), *checks._restless(keys, 3, seed=keys)):
            where = f"{histogram} over {keys} keys, unit {run.unit + 1}"
            released: Any = run.step(counts)
            if released.value.shape != (keys,) or released.value.dtype != np.int64:
                raise _failure(
                    histogram,
                    f"{where}: value is {released.value.dtype.name} of shape {released.value.shape}.",
                )
            if not (np.asarray(released.divisor) > 0).all():
                raise _failure(histogram, f"{where}: a divisor is not above 0.")
            if not (released.variance > 0).all():
                raise _failure(histogram, f"{where}: a key claims noise of no variance.")
            if np.any(released.repeated):
                raise _failure(
                    histogram, f"{where}: a key is called repeated, though its unit was read."
                )


def check_its_parameters_are_part_of_a_run(histogram: Histogram, *, quick: bool = False) -> None:
    """Its parameters show, and a run goes on with the same method only.

    A frozen dataclass whose text names every parameter and its value: that text is what a snapshot
    is compared by.
    """
    given: Any = histogram
    if not getattr(getattr(given, "__dataclass_params__", None), "frozen", False):
        raise _failure(
            histogram,
            "it must be a frozen dataclass, so that its parameters show and never change.",
        )
    for each in dataclasses.fields(given):
        if f"{each.name}={getattr(given, each.name)!r}" not in repr(histogram):
            raise _failure(
                histogram, f"the parameter {each.name!r} does not show in {histogram!r}."
            )
    if " at 0x" in repr(histogram):
        raise _failure(
            histogram,
            f"{histogram!r} is another text in every process: a restart would be refused.",
        )
    here = Sample(epsilon="1", window=2, histogram=histogram)
    run = here.run(4, noise=TestNoise(5))
    run.step([5, 6, 7, 8])
    dataclasses.replace(here, histogram=dataclasses.replace(given)).restore(
        run.snapshot(), 4, noise=TestNoise(5)
    )
    try:
        dataclasses.replace(here, histogram=_Other()).restore(run.snapshot(), 4, noise=TestNoise(5))
    except StateError:
        return
    raise _failure(histogram, "a run by this method went on with another one.")


@dataclass(frozen=True)
class _Other(Plain):
    """Not the same method."""


def check_the_noise_is_no_larger_than_claimed(histogram: Histogram, *, quick: bool = False) -> None:
    """The noise is no larger than the release claims, for keys and for their sum.

    Keys that all have the same count, so that putting them together is no mistake. Over many units,
    the mean of the squared error of keys, and of the sum of all keys, is at most the variance that
    is claimed; queries add up variances, so keys that share their noise must each claim enough for
    all. By a z-test at 6 standard deviations of these means over units.
    """
    units = 60 if quick else 200
    for keys, level in ((64, 1_000), (1_024, 50)):
        run = Sample(epsilon="1", window=1, histogram=histogram).run(keys, noise=TestNoise(29))
        counts = np.full(keys, level, np.int64)
        single, together = [], []
        for _ in range(units):
            released = run.step(counts)
            error = released.estimate - counts
            single.append(float(np.square(error).sum() / released.variance.sum()))
            together.append(float(error.sum() ** 2 / released.variance.sum()))
        for ratios, whose in ((single, "keys"), (together, "the sum of all keys")):
            z = (np.mean(ratios) - 1) / max(float(np.std(ratios)) / math.sqrt(units), 1e-9)
            if z > _ALARM and np.mean(ratios) > _SLACK:
                raise _failure(
                    histogram,
                    f"{histogram} over {keys} keys: the noise of {whose} has {np.mean(ratios):.2f} times the variance that the "
                    f"release claims (z = {z:.1f}).",
                )


_ALARM, _SLACK = 6.0, 1.05
"""Rounding to whole numbers may add a little."""


def check_no_transcript_loses_more_than_was_given(
    histogram: Histogram, *, quick: bool = False
) -> None:
    """Whatever is seen, its loss is at most what was given.

    What was drawn for one histogram is forced upon a neighbouring one, with one person's events
    more: the same must then be asked and released, and the draws' losses, difference over scale,
    add up to ε at most. Exact, for what `gate.laplace` draws.
    """
    rng = np.random.default_rng(17)
    for keys in (1, 2, 5, 12) if quick else (1, 2, 5, 12, 36, 64):
        for epsilon, contribution, largest in (("1", 1, 9), ("1/3", 3, 400), ("7", 2, 60)):
            mechanism = Sample(
                epsilon=epsilon, window=1, contribution=contribution, histogram=histogram
            )
            counts = rng.integers(0, largest, keys)
            first = mechanism.run(keys, noise=TestNoise(31))
            tape = _tape(first)
            released = first.step(counts)
            for _ in range(4):
                person = np.bincount(rng.integers(0, keys, contribution), minlength=keys)
                again = mechanism.run(keys, noise=TestNoise(31))
                reads = _tape(again, forced=tape)
                where = f"{mechanism} over {keys} keys"
                other = again.step(counts + person)
                if len(reads) != len(tape) or not _same(released, other):
                    raise _failure(
                        histogram,
                        f"{where}: something that is not drawn from the counts depends on them.",
                    )
                loss = sum(
                    (one.loss(two) for one, two in zip(tape, reads, strict=True)), Fraction(0)
                )
                if loss > mechanism.guarantee.epsilon:
                    raise _failure(
                        histogram,
                        f"{where}: one transcript loses {float(loss):.4g}, by its draws' scales.",
                    )


@dataclass(frozen=True)
class _Read:
    """What was read for one draw, and what it gave."""

    raw: IntArray
    scale: Scale
    where: BoolArray
    released: Released

    def loss(self, other: _Read) -> Fraction:
        """By how much the logarithm of what was given moves at most, if the other numbers were
        read.
        """
        apart = np.where(self.where, np.abs(self.raw - other.raw), 0) * np.broadcast_to(
            self.scale.parts, len(self.raw)
        )
        return int(apart.sum()) / self.scale.base


def _tape(run: Run, forced: list[_Read] | None = None) -> list[_Read]:
    """What the run reads from now on, draw by draw; `forced` is what its draws must give."""
    reads, real = list[_Read](), run._gate._maker.noisy

    def noisy(raw: IntArray, scale: Scale, label: str, where: BoolArray | None) -> Released:
        number = len(reads)
        made = real(raw, scale, label, where)
        if forced is not None and number < len(forced):
            made = forced[number].released
        chosen = np.ones(len(raw), np.bool_) if where is None else where.copy()
        reads.append(_Read(raw.copy(), scale, chosen, made))
        return made

    run._gate._maker.noisy = noisy  # type: ignore[method-assign]
    return reads


def _same(one: Released, two: Released) -> bool:
    """Whether two releases show the same."""
    if one.public.keys() != two.public.keys():
        return False
    parts = [
        (one.value, two.value),
        (one.divisor, two.divisor),
        (one.layers, two.layers),
        (one.scale.parts, two.scale.parts),
    ]
    parts += [(one.public[name], two.public[name]) for name in one.public]
    return all(np.array_equal(here, there) for here, there in parts)


def check_nothing_private_is_opened(histogram: Histogram, *, quick: bool = False) -> None:
    """Its source opens nothing private.

    Neither the class, nor what it names in its own package, mentions what opens a `Private` or goes
    behind the gate.
    """
    parts = [each for each in type(histogram).__mro__ if callable(getattr(each, "release", None))]
    checks.look_at_source(type(histogram), parts, Histogram.__module__)


# -- what it must not do to a mechanism that takes it ----------------------------------------------


def _as_part(check: checks.Check) -> HistogramCheck:
    """A check of mechanisms, for the one that releases by the method."""

    def checked(histogram: Histogram, *, quick: bool = False) -> None:
        check(as_mechanism(histogram), quick=quick)

    checked.__name__, checked.__doc__ = check.__name__, check.__doc__
    return checked


def check_relabelling_keys_relabels_the_output(
    histogram: Histogram, *, quick: bool = False
) -> None:
    """The order of the keys is the order of the output.

    Methods that take keys by their places (`by_place`) are exempt.
    """
    if not getattr(histogram, "by_place", False):
        checks.check_relabelling_keys_relabels_the_output(as_mechanism(histogram), quick=quick)


def _failure(histogram: Histogram, what: str) -> CheckError:
    return CheckError(f"{type(histogram).__name__}: {what}")


HISTOGRAM_CHECKS: tuple[HistogramCheck, ...] = (
    check_it_spends_at_most_what_it_was_given,
    check_every_key_has_a_number,
    check_its_parameters_are_part_of_a_run,
    check_the_noise_is_no_larger_than_claimed,
    check_no_transcript_loses_more_than_was_given,
    check_nothing_private_is_opened,
    check_relabelling_keys_relabels_the_output,
    *map(
        _as_part,
        (
            checks.check_no_window_costs_more_than_promised,
            checks.check_noise_is_what_was_paid_for,
            checks.check_the_stated_guarantee_is_the_enforced_one,
            checks.check_nothing_private_can_be_read,
            checks.check_a_restart_changes_nothing,
            checks.check_memory_does_not_grow,
            checks.check_input_is_not_aliased,
            checks.check_bad_input_changes_nothing,
        ),
    ),
)
