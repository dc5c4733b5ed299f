"""Checks that every histogram method must pass: `check_*` functions that take an instance of it.

They use a method as mechanisms use it, so they work for third-party methods too:

>>> from penstock import Plain
>>> from penstock.lab.checks import title
>>> check_every_key_has_a_number(Plain())
>>> [title(check) for check in HISTOGRAM_CHECKS][:2]
['It spends at most what it was given.', 'Every key has a number.']

Most checks of mechanisms apply to a histogram method too: `as_mechanism` makes a mechanism that
releases by the method. The order of keys must not matter, unless a method has the class attribute
`by_place = True`. A method must accept any number of keys.
"""

from __future__ import annotations

import dataclasses
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
from penstock.lab.checks import CheckError, CheckResult
from penstock.lab.checks.secrecy import look_at_source
from penstock.lab.checks.streams import restless
from penstock.private.histograms.base import PUBLISH, Histogram
from penstock.private.histograms.plain import Plain
from penstock.private.mechanisms.fixed import FixedSampling
from penstock.private.mechanisms.sample import Sample
from penstock.private.run import Run
from penstock.testing import TestNoise


class HistogramCheck(Protocol):
    """A function that returns if a histogram method passes and raises `CheckError` if not."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, histogram: Histogram, *, quick: bool = False) -> None: ...


def as_mechanism(histogram: Histogram) -> type[Sample]:
    """The class `Sample` with this method as its default, for checks that take a mechanism."""
    method = histogram

    @dataclass(frozen=True, kw_only=True)
    class MethodUnderTest(Sample):
        """Release one unit in w by the method under test."""

        histogram: Histogram = field(default=method)

    MethodUnderTest.__name__ = type(histogram).__name__
    return MethodUnderTest


def run_histogram_checks(
    histogram: Histogram,
    *,
    quick: bool = False,
    progress: Callable[[str, CheckResult | None], object] | None = None,
) -> list[CheckResult]:
    """Run every check on a histogram method.

    Parameters
    ----------
    histogram : Histogram
        The method, with its parameters.
    quick : bool
        Try fewer and shorter streams. Default: False.
    progress : callable
        Called with the name of each check and None when the check begins, and with the name and
        the `CheckResult` when it ends. Default: none.
    """
    return checks.run_all(HISTOGRAM_CHECKS, histogram, quick=quick, progress=progress)


# -- checks of the method itself -------------------------------------------------------------------


def check_it_spends_at_most_what_it_was_given(histogram: Histogram, *, quick: bool = False) -> None:
    """It spends at most what it was given.

    The method gets half of ε per unit, for several ε, contributions and numbers of keys. No unit
    may spend more than that half. Every ledger label must begin with the label of publications.
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
            for counts in restless(keys, 6, seed=keys):
                try:
                    run.step(counts)  # the gate refuses to spend more
                except PenstockError as error:
                    raise _failure(histogram, f"{where}: {error}") from error
            labels = {line.label for line in run.ledger}
            if not all(label.startswith(PUBLISH) for label in labels):
                raise _failure(
                    histogram, f"{where}: its labels {sorted(labels)} must begin with {PUBLISH!r}."
                )


def check_every_key_has_a_number(histogram: Histogram, *, quick: bool = False) -> None:
    """Every key has a number.

    For 1 to 9 keys and some larger domains, a release has one fresh whole number per key, with a
    divisor and a variance above 0. An infinite variance means that nothing is claimed.
    """
    for keys in (*range(1, 10), 16, 101) if quick else (*range(1, 10), 16, 101, 1_024, 3_000):
        run = Sample(epsilon="1", window=1, histogram=histogram).run(keys, noise=TestNoise(keys))
        for counts in (np.zeros(keys, np.int64), *restless(keys, 3, seed=keys)):
            where = f"{histogram} over {keys} keys, unit {run.unit + 1}"
            released: Any = run.step(counts)
            if released.value.shape != (keys,) or released.value.dtype != np.int64:
                raise _failure(
                    histogram,
                    f"{where}: value is {released.value.dtype.name} "
                    f"of shape {released.value.shape}.",
                )
            if not (np.asarray(released.divisor) > 0).all():
                raise _failure(histogram, f"{where}: a divisor is not above 0.")
            if not (released.variance > 0).all():
                raise _failure(
                    histogram, f"{where}: a key claims a variance of 0: noise of no variance."
                )
            if np.any(released.repeated):
                raise _failure(
                    histogram, f"{where}: a key is marked as repeated, although its unit was read."
                )


def check_its_parameters_are_part_of_a_run(histogram: Histogram, *, quick: bool = False) -> None:
    """Its parameters show, and a run goes on with the same method only.

    A histogram method is a frozen dataclass. Its repr names every parameter with its value, because
    a restore compares this text with the one in the snapshot.
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
            f"{histogram!r} is another text in every process, so a restart would be refused.",
        )
    here = Sample(epsilon="1", window=2, histogram=histogram)
    run = here.run(4, noise=TestNoise(5))
    run.step([5, 6, 7, 8])
    dataclasses.replace(here, histogram=dataclasses.replace(given)).restore(
        run.snapshot(), 4, noise=TestNoise(5)
    )
    try:
        dataclasses.replace(here, histogram=_OtherMethod()).restore(
            run.snapshot(), 4, noise=TestNoise(5)
        )
    except StateError:
        return
    raise _failure(histogram, "a run of this method went on with another method.")


@dataclass(frozen=True)
class _OtherMethod(Plain):
    """A method that is not the one under test."""


def check_the_noise_is_no_larger_than_claimed(histogram: Histogram, *, quick: bool = False) -> None:
    """The noise is no larger than the release claims, for keys and for their sum.

    All keys have the same count, so grouping them makes no error. Over many units, the mean squared
    error of keys, and of the sum of all keys, must be at most the claimed variance. Queries add up
    variances, so keys that share noise must each claim enough for all. The test is a z-test at 6
    standard deviations of these means over units: false alarm below 1e-8 for a new seed.
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
                    f"{histogram} over {keys} keys: the noise of {whose} has "
                    f"{np.mean(ratios):.2f} times the variance that the release claims "
                    f"(z = {z:.1f}).",
                )


_ALARM = 6.0
_SLACK = 1.05
"""Rounding to whole numbers may add a little to the variance."""


def check_no_transcript_loses_more_than_was_given(
    histogram: Histogram, *, quick: bool = False
) -> None:
    """No output has a privacy loss above the given ε.

    The draws for one histogram are forced upon a neighbouring histogram, which has one person more.
    The method must then draw and release the same. The loss of a draw is the difference of the
    numbers under it divided by its scale; all losses together are at most ε. This is exact for
    draws by `gate.laplace`.
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
                        f"{where}: the release depends on the counts, not only on its draws.",
                    )
                loss = sum(
                    (one.loss(two) for one, two in zip(tape, reads, strict=True)), Fraction(0)
                )
                if loss > mechanism.guarantee.epsilon:
                    raise _failure(
                        histogram,
                        f"{where}: one transcript loses {float(loss):.4g}, by its draws.",
                    )


@dataclass(frozen=True)
class _RecordedDraw:
    """The numbers that were read for one draw, and what it released."""

    raw: IntArray
    scale: Scale
    where: BoolArray
    released: Released

    def loss(self, other: _RecordedDraw) -> Fraction:
        """The privacy loss of this draw against the same draw over other numbers."""
        apart = np.where(self.where, np.abs(self.raw - other.raw), 0) * np.broadcast_to(
            self.scale.parts, len(self.raw)
        )
        return int(apart.sum()) / self.scale.base


def _tape(run: Run, forced: list[_RecordedDraw] | None = None) -> list[_RecordedDraw]:
    """Record the draws of a run from now on. `forced`: what these draws must release."""
    reads, real = list[_RecordedDraw](), run._gate._maker.noisy

    def noisy(raw: IntArray, scale: Scale, label: str, where: BoolArray | None) -> Released:
        number = len(reads)
        made = real(raw, scale, label, where)
        if forced is not None and number < len(forced):
            made = forced[number].released
        chosen = np.ones(len(raw), np.bool_) if where is None else where.copy()
        reads.append(_RecordedDraw(raw.copy(), scale, chosen, made))
        return made

    run._gate._maker.noisy = noisy  # type: ignore[method-assign]
    return reads


def _same(one: Released, two: Released) -> bool:
    """Whether two releases show the same numbers."""
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

    Neither the class nor anything it names in its own package may open a `Private` or reach behind
    the gate.
    """
    parts = [each for each in type(histogram).__mro__ if callable(getattr(each, "release", None))]
    look_at_source(type(histogram), parts, Histogram.__module__)


# -- checks of a mechanism that uses the method ----------------------------------------------------


def _as_part(check: checks.Check) -> HistogramCheck:
    """A check of mechanisms, applied to a mechanism that releases by the method."""

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
