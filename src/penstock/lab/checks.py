"""What every mechanism must pass: `check_*` functions that take its class and say what is wrong
with it.

They see a mechanism as `run` and the gate see it, so they work for anybody's:

>>> from penstock import Uniform
>>> check_bad_input_changes_nothing(Uniform)
>>> [name for name in map(title, CHECKS)][:2]
['No window costs more than was promised.', 'The noise is what the ledger says was paid for.']

A check builds the mechanism as `cls(epsilon=..., window=...)` (some also give `contribution`),
repeats itself exactly (all seeds are fixed) and raises `CheckError`. Random ones need Hypothesis:
`pip install 'penstock[lab]'`.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import gc
import inspect
import itertools
import math
import operator
import pickle
import sys
import textwrap
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np

from penstock.budget.accountant import account
from penstock.budget.grid import Budget
from penstock.budget.ledger import Line
from penstock.budget.zcdp import rho_of
from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.errors import (
    BudgetError,
    ConfigurationError,
    InputError,
    LedgerError,
    PenstockError,
    SealedError,
)
from penstock.core.guarantee import Guarantee
from penstock.core.optional import require
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.core.weights import UNIT
from penstock.private.gate import count_limit
from penstock.private.mechanisms.base import Incremental, Mechanism
from penstock.private.run import Run
from penstock.testing import NoNoise, RecordingNoise, TestNoise, intrude

AnyMechanism: TypeAlias = type[Mechanism[Any]]

LEAP = 2**40
"""Further than the noise of any publication, so that whoever publishes by distance does."""


class Check(Protocol):
    """A check: it returns if the mechanism passes and raises if not. `quick` looks at less of it."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, cls: AnyMechanism, *, quick: bool = False) -> None: ...


class CheckError(PenstockError, AssertionError):
    """A mechanism that fails a check; the message says what failed and how to see it again."""


@dataclass(frozen=True)
class Result:
    """The outcome of one check."""

    name: str
    ok: bool
    seconds: float
    message: str


def title(check: Check) -> str:
    """What a check shows, in one line."""
    return inspect.getdoc(check).partition("\n")[0] if check.__doc__ else check.__name__  # type: ignore[union-attr]


def run_checks(
    cls: AnyMechanism,
    *,
    quick: bool = False,
    progress: Callable[[str, Result | None], object] | None = None,
) -> list[Result]:
    """Run every check. `progress` is told each check's name when it begins (with None) and again
    with its result.
    """
    _hypothesis()  # better now than in the middle
    return run_all(CHECKS, cls, quick=quick, progress=progress)


def run_all(
    checks: Iterable[Callable[..., None]],
    what: object,
    *,
    quick: bool,
    progress: Callable[[str, Result | None], object] | None,
) -> list[Result]:
    """Run these checks on a mechanism, or on whatever they are for."""
    results = []
    for check in checks:
        if progress is not None:
            progress(check.__name__, None)
        start = time.perf_counter()
        message = ""
        try:
            check(what, quick=quick)
        except Exception as error:
            said = (
                str(error)
                if isinstance(error, AssertionError)
                else f"{type(error).__name__}: {error}"
            )
            message = "\n".join([said, *getattr(error, "__notes__", ())])
        result = Result(check.__name__, not message, time.perf_counter() - start, message)
        results.append(result)
        if progress is not None:
            progress(check.__name__, result)
    return results


# -- what was paid ---------------------------------------------------------------------------------


def check_no_window_costs_more_than_promised(cls: AnyMechanism, *, quick: bool = False) -> None:
    """No window costs more than was promised.

    Streams that force a publication or a repetition key by key and unit by unit, and streams of
    small counts under noise. After every unit the accountant recomputes every window from the lines
    alone; the ledger's own figure must agree.
    """

    def act_out(script: Script) -> None:
        run = script.start(cls)
        for counts in script.stream(run):
            run.step(counts)
            try:
                books = account(run.ledger, run.guarantee, units=run.unit)
            except LedgerError as error:
                raise _failure(cls, f"{script}: the lines cannot be true: {error}") from error
            promise = _promise(run.guarantee, script.epsilon)
            for unit in range(1, run.unit + 1):
                if books.window(unit) > promise:
                    raise _failure(
                        cls,
                        f"{script}: by its ledger lines the window that ends with unit {unit} costs {books.window(unit)}, "
                        f"promised were {promise}.",
                    )
            if books.window(run.unit) != run.cost.amount:
                raise _failure(
                    cls,
                    f"{script}: at unit {run.unit} the lines make {books.window(run.unit)} of the window that ends there, "
                    f"the run says {run.cost.amount}.",
                )

    _explore(act_out, _scripts(), examples=60 if quick else 250)


def _promise(guarantee: Guarantee, epsilon: Fraction) -> Fraction:
    """What a window may cost for this ε: that itself or, beside a δ, the ρ that implies both."""
    return rho_of(epsilon, guarantee.delta) if guarantee.delta else epsilon


def check_noise_is_what_was_paid_for(cls: AnyMechanism, *, quick: bool = False) -> None:
    """The noise is what the ledger says was paid for.

    A witness at the source of noise compares every draw with the lines of its unit: noise of scale
    s on counts of which a person changes at most L costs at least L/s. Gaussian noise of variance v
    on all sums that a person's w units enter, and change by a vector of length D at most, costs
    D²/2v, to which each unit adds the same.
    """
    for contribution in (1, 3):
        witness = RecordingNoise(TestNoise(11))
        run = cls(epsilon="1", window=3, contribution=contribution).run(
            6, noise=witness, record=True
        )
        read, lengths = _watch_reads(run), _watch_convolutions(run)
        for unit, counts in enumerate(_restless(6, 12 if quick else 40, seed=5), start=1):
            witness.draws.clear()
            witness.gaussians.clear()
            read.clear()
            lines = len(run.ledger)
            run.step(counts)
            _compare(cls, run, unit, run.ledger[lines:], witness, read)
            _compare_gaussian(cls, run, unit, run.ledger[lines:], witness, lengths)


# What one draw costs, seen from the source of noise alone. One person changes the numbers under one
# draw by at most
# `contribution` in all (more if a statistic has a stability above 1, but then its scale is larger
# in the same ratio), so a
# draw whose smallest scale is s costs at least contribution/s. The numbers of one draw read
# different keys: keys, groups
# and buckets cost the largest, not the sum. The draws of a label in a unit add up, and so do those
# of a sparse-vector
# run's threshold and question, with these exceptions:
# - the layers of a counter (state, output, again) are laid over the same numbers: the first alone
# pays for all, the
#   others only lie on top, so they cost as much as the largest of them;
# - a pot was paid for when it was filled, perhaps in earlier units, and is poured for different
# keys: each of its draws
#   alone must be worth no more than what a unit paid to be held;
# - a priced run pays its threshold and each question by the prices in its opening line.
_LAYERS = ("state", "output", "again")


def _compare(
    cls: AnyMechanism,
    run: Run,
    unit: int,
    lines: Iterable[Line],
    witness: RecordingNoise,
    read: Mapping[str, Fraction],
) -> None:
    quantum = run.mechanism.grid.quantum
    paid, exposed = defaultdict[str, Fraction](Fraction), defaultdict[str, Fraction](Fraction)
    for line in lines:
        if line.kind in ("spend", "settle"):
            paid[line.label] += line.amount * quantum
        if line.kind in ("expose", "settle"):
            exposed[line.label] += line.amount * quantum * (1 if line.kind == "expose" else -1)
    priced = {line.label: line for line in run.ledger if line.kind == "open"}
    pots = {
        line.label: line.amount * quantum
        for line in run.ledger
        if line.kind == "spend" and line.label in run._gate.save().pots
    }
    drawn: dict[str, dict[str, Fraction]] = defaultdict(dict)
    for draw in witness.draws:
        label, times = draw.label.partition("#")[::2]
        stem, part = label.rpartition(".")[::2]
        cost = run.mechanism.contribution / draw.scale
        if stem in priced and part in ("threshold", "question"):
            price = (priced[stem].amount if part == "threshold" else priced[stem].number) * quantum
            _expect_at_most(cls, run, unit, f"{stem}.{part}", cost, price)
        elif label in pots:
            _expect_at_most(cls, run, unit, label, cost, pots[label])
        elif stem and part in _LAYERS:
            old = drawn[stem].get(f"layers#{times}", Fraction(0))
            drawn[stem][f"layers#{times}"] = max(old, cost)
        elif stem and part in ("threshold", "question"):
            drawn[stem][f"{part}#{times}"] = cost
        else:
            drawn[label][f"#{times}"] = cost
    unannounced = run.guarantee.intrusion.unannounced
    for label, costs in drawn.items():
        unread = all(key.startswith("layers") for key in costs) and label not in read
        if unread and not unannounced:
            continue  # a counter that was forgotten, in a memory that the promise does not speak of
        have = paid[label] + (max(exposed[label], Fraction(0)) if unread else Fraction(0))
        _expect_at_most(cls, run, unit, label, sum(costs.values(), Fraction(0)), have)
    for label, cost in read.items():
        _expect_at_most(cls, run, unit, label, cost, paid[label])


def _compare_gaussian(
    cls: AnyMechanism,
    run: Run,
    unit: int,
    lines: Iterable[Line],
    witness: RecordingNoise,
    lengths: Mapping[str, int],
) -> None:
    """Each draw against its lines, by the squared length that the coefficients give it; a draw of
    anything else is refused.
    """
    promise, quantum = run.guarantee, run.mechanism.grid.quantum
    if (witness.draws and promise.delta) or (witness.gaussians and not promise.delta):
        raise _failure(
            cls,
            f"unit {unit} of {run.mechanism}: this noise is not paid for in the currency of {promise}.",
        )
    paid = defaultdict[str, Fraction](Fraction)
    for line in lines:
        paid[line.label] += line.amount * quantum
    drawn = defaultdict[str, Fraction](Fraction)
    for draw in witness.gaussians:
        label = draw.label.partition("#")[0]
        if label not in lengths:
            raise _failure(
                cls,
                f"unit {unit} of {run.mechanism}: Gaussian noise for {label!r}, and nobody knows on what.",
            )
        drawn[label] += (
            promise.contribution**2 * lengths[label] / (2 * promise.window * draw.variance)
        )
    for label, cost in drawn.items():
        _expect_at_most(cls, run, unit, label, cost, paid[label])


def _watch_convolutions(run: Run) -> dict[str, int]:
    """For each convolution, how long the vector can be by which a person in a window changes its
    sums, squared.

    One event in each of w units adds w copies of the coefficients, each a unit later than the one
    before and of either sign; of the events of one unit only their number counts, which
    `contribution` bounds. Here the signs are tried for a short window, and bounded by absolute
    values for a long one.
    """
    convolutions, seen, window = run._gate.convolutions, dict[str, int](), run.guarantee.window
    weighted_sum = convolutions.weighted_sum

    def watched(label: str, x: Private, *, coefficients: IntArray, **how: Any) -> Released:
        if label not in seen:
            choices = (
                list(itertools.product((1, -1), repeat=window)) if window <= 8 else [(1,) * window]
            )
            rows = [coefficients if window <= 8 else np.abs(coefficients)] * len(choices)
            sums = (np.convolve(signs, row) for signs, row in zip(choices, rows, strict=True))
            seen[label] = max(int(np.square(each).sum()) for each in sums)
        return weighted_sum(label, x, coefficients=coefficients, **how)

    convolutions.weighted_sum = watched  # type: ignore[method-assign]
    return seen


def _expect_at_most(
    cls: AnyMechanism, run: Run, unit: int, label: str, cost: Fraction, paid: Fraction
) -> None:
    if cost > paid:
        raise _failure(
            cls,
            f"unit {unit} of {run.mechanism}: the noise drawn for {label!r} is worth {run.mechanism.grid.currency}={cost}, "
            f"but its ledger lines pay for {paid}.",
        )


def _watch_reads(run: Run) -> dict[str, Fraction]:
    """What each counter that is read in a unit was primed with."""
    counters, seen = run._gate.counters, dict[str, Fraction]()
    read = counters.read

    def watched(counter: str, **how: bool) -> Released:
        released = read(counter, **how)
        parts = released.scale.parts
        most = parts if isinstance(parts, int) else int(parts.max())
        seen[counter] = run.mechanism.contribution * most / released.scale.base
        return released

    counters.read = watched  # type: ignore[method-assign]
    return seen


def check_the_stated_guarantee_is_the_enforced_one(
    cls: AnyMechanism, *, quick: bool = False
) -> None:
    """The stated guarantee is the one that is enforced.

    Mechanism, run and every release state the guarantee that was asked for. After every unit, and
    at the start of the next, a charge of one quantum more than the window has left is refused and
    changes nothing; exactly what is left is accepted.
    """
    for epsilon, window, contribution in (("1", 4, 1), ("0.3", 1, 2), ("2/3", 3, 3)):
        mechanism = cls(epsilon=epsilon, window=window, contribution=contribution)
        where = f"{mechanism}"
        asked = (Fraction(epsilon), window, contribution)
        stated = mechanism.guarantee
        if (stated.epsilon, stated.window, stated.contribution) != asked:
            raise _failure(cls, f"{where} states {stated}.")
        noise = RecordingNoise(TestNoise(3))
        run = mechanism.run(4, noise=noise, record=True)
        if run.guarantee != stated:
            raise _failure(cls, f"{where} states {stated}, its run {run.guarantee}.")
        for counts in _restless(4, 6 if quick else 15, seed=9):
            released = run.step(counts)
            if released.guarantee != stated:
                raise _failure(
                    cls,
                    f"{where} states {stated}, its release of unit {released.unit} {released.guarantee}.",
                )
            _refuses_more(cls, run, noise)
            ahead = mechanism.restore(run.snapshot(), 4, noise=noise, record=True)
            ahead._gate.begin(run.unit + 1)
            _refuses_more(cls, ahead, noise)
            _accepts_the_rest(cls, ahead)


def _left(run: Run) -> Budget:
    grid, guarantee = run.mechanism.grid, run.mechanism.guarantee
    return grid.floor(_promise(guarantee, guarantee.epsilon)) - run.cost


def _refuses_more(cls: AnyMechanism, run: Run, noise: RecordingNoise) -> None:
    where = f"{run.mechanism}, unit {run._ledger.unit}"
    left = _left(run)
    nobody = Private(np.zeros(run.domain.size, np.int64), sensitivity=run.mechanism.contribution)
    before = (run.ledger, run.cost, len(noise.draws), len(noise.gaussians), run._ledger.number)
    more = Budget(left.quanta + 1, left.grid)
    try:
        if left.grid.currency == "rho":
            run._gate.convolutions.weighted_sum(
                "probe", nobody, coefficients=np.ones(1, np.int64), rho=more
            )
        else:
            run._gate.laplace(nobody, epsilon=more, label="probe")
    except BudgetError:
        pass
    else:
        raise _failure(
            cls,
            f"{where}: a charge of one quantum more than the window has left ({left.amount}) was accepted.",
        )
    if before != (run.ledger, run.cost, len(noise.draws), len(noise.gaussians), run._ledger.number):
        raise _failure(
            cls, f"{where}: a refused charge left a trace in the ledger, or noise was drawn for it."
        )


def _accepts_the_rest(cls: AnyMechanism, run: Run) -> None:
    where, left = f"{run.mechanism}, unit {run._ledger.unit}", _left(run)
    try:
        run._ledger.spend(left, "probe")
    except BudgetError as error:
        raise _failure(
            cls, f"{where}: exactly what the window has left ({left.amount}) was refused: {error}"
        ) from error
    if _left(run):
        raise _failure(
            cls, f"{where}: after all of it was spent, the window still has {_left(run).amount}."
        )


# -- what is remembered ----------------------------------------------------------------------------


def check_memory_does_not_grow(cls: AnyMechanism, *, quick: bool = False) -> None:
    """Memory does not grow with the length of the stream.

    A stream of 20,000 units (7,000 if quick) over 3 keys: the snapshot may not be larger at its end
    than after the first 2,000 (1,000), nor may the memory in use grow in each quarter between.
    """
    warm, end = (1_000, 7_000) if quick else (2_000, 20_000)
    run = cls(epsilon="1", window=8).run(3, noise=NoNoise())
    rng = np.random.default_rng(2)
    period = 64
    moves = rng.random((period, 3)) < 0.3
    counts = np.zeros(3, np.int64)
    sizes: dict[int, int] = {warm: 0, end: 0}
    quarter = (end - warm) // 4
    marks = range(warm, end + 1, quarter)
    used: list[int] = []
    tracing = tracemalloc.is_tracing()
    try:
        for unit in range(1, end + 1):
            counts = np.where(moves[unit % period], LEAP - counts, counts)
            run.step(counts)
            if unit == warm - 2 * period and not tracing:
                tracemalloc.start(1)
            for mark in sizes:
                if mark - period < unit <= mark:
                    sizes[mark] = max(sizes[mark], len(run.snapshot()))
            if unit in marks:
                gc.collect()
                used.append(tracemalloc.get_traced_memory()[0])
    finally:
        if not tracing:
            tracemalloc.stop()
    if sizes[end] > sizes[warm] + 64:  # a few counters may need another byte
        raise _failure(
            cls,
            f"the snapshot grew from {sizes[warm]} bytes at unit {warm} to {sizes[end]} at unit {end}.",
        )
    # A cache that fills or a table that is resized grows once; what grows with the stream grows in
    # every quarter.
    grown = 4 * min(after - before for before, after in itertools.pairwise(used))
    if grown > 4 * (end - warm):  # half a pointer a unit; it is nothing, or at least a whole one
        raise _failure(cls, f"memory in use grew by {grown} bytes from unit {warm} to unit {end}.")


def check_a_restart_changes_nothing(cls: AnyMechanism, *, quick: bool = False) -> None:
    """A restart changes nothing.

    With repeatable noise, a run that is saved and restored after any unit, by a mechanism made
    anew, releases the same values and flags, writes the same lines, costs the same and ends with
    the same snapshot, byte for byte.
    """
    seed, units = 23, 8 if quick else 24
    stream = _restless(5, units, seed=4)

    def go(run: Run) -> list[Any]:
        out = []
        for counts in stream[run.unit :]:
            _in_parts(run, counts)
            released = run.step(counts)
            if released.value.flags.writeable:
                raise _failure(
                    cls,
                    f"{run.mechanism}, restored: the array of unit {run.unit} can be written to.",
                )
            out.append((_facts(released), run.cost))
        return out

    mechanism = cls(epsilon="1", window=3)
    first = mechanism.run(5, noise=TestNoise(seed), record=True)
    snapshots, facts = [first.snapshot()], []
    for counts in stream:
        _in_parts(first, counts)
        facts.append((_facts(first.step(counts)), first.cost))
        snapshots.append(first.snapshot())
    for unit in range(units + 1):
        run = cls(epsilon="1", window=3).restore(
            snapshots[unit], 5, noise=TestNoise(seed), record=True
        )
        where = f"{mechanism} with TestNoise({seed}), restored after unit {unit}"
        again = go(run)
        for offset, (here, there) in enumerate(
            zip(again, facts[unit:], strict=True), start=unit + 1
        ):
            if here != there:
                raise _failure(
                    cls, f"{where}: unit {offset} is another release, or costs something else."
                )
        if run.ledger != first.ledger:
            raise _failure(cls, f"{where}: the ledger has other lines.")
        if run.snapshot() != snapshots[-1]:
            raise _failure(cls, f"{where}: the last snapshot differs.")


def check_input_is_not_aliased(cls: AnyMechanism, *, quick: bool = False) -> None:
    """Input is neither changed nor kept, and releases are the caller's own.

    The caller's array is the same after the step; writing over it changes no release, past or
    future; released arrays are read-only and share no memory with it.
    """
    mechanism = cls(epsilon="1", window=3)
    careful, careless = (mechanism.run(5, noise=TestNoise(31)) for _ in range(2))
    buffer = np.empty(5, np.int64)
    released: list[tuple[Released, list[IntArray]]] = []
    for unit, counts in enumerate(_restless(5, 12 if quick else 40, seed=6), start=1):
        where = f"{mechanism}, unit {unit}"
        expected = careful.step(counts.copy())
        buffer[:] = counts
        out = careless.step(buffer)
        if not np.array_equal(buffer, counts):
            raise _failure(cls, f"{where}: the step wrote into its input.")
        arrays = list(_arrays(out))
        for array in arrays:
            if np.shares_memory(array, buffer):
                raise _failure(cls, f"{where}: a released array shares memory with the input.")
        if out.value.flags.writeable:
            raise _failure(cls, f"{where}: the released array can be written to.")
        for array in _arrays(intrude(careless)):
            if np.shares_memory(array, buffer):
                raise _failure(cls, f"{where}: the input array is kept, not copied.")
        released.append((out, [array.copy() for array in arrays]))
        buffer[:] = -(10**9)
        if _facts(out) != _facts(expected):
            raise _failure(
                cls, f"{where}: writing over the input of earlier units changed this release."
            )
    for out, arrays in released:
        if not all(
            np.array_equal(now, then) for now, then in zip(_arrays(out), arrays, strict=True)
        ):
            raise _failure(
                cls, f"{mechanism}: the release of unit {out.unit} changed after it was handed out."
            )


# -- what is said ----------------------------------------------------------------------------------


def check_relabelling_keys_relabels_the_output(cls: AnyMechanism, *, quick: bool = False) -> None:
    """Listing the keys in another order lists the output in that order, and changes nothing else.

    Noise off: key names and counts are permuted together.
    """

    def act_out(script: Script, random: Any) -> None:
        order = list(range(script.size))
        random.shuffle(order)
        keys = [f"key {number}" for number in range(script.size)]
        run = script.start(cls, keys)
        other = script.start(cls, [keys[index] for index in order])
        place = {name: number for number, name in enumerate(run.released.keys)}
        if place.keys() != set(other.released.keys):
            raise _failure(
                cls,
                f"{script}: with the keys in the order {order}, it releases numbers for other names.",
            )
        moved, size = [place[name] for name in other.released.keys], run.released.size
        for counts in script.stream(run):
            here, there = run.step(counts), other.step(counts[order])
            same = all(
                np.array_equal(np.broadcast_to(a, size)[moved], np.broadcast_to(b, size))
                for a, b in (
                    (here.value, there.value),
                    (here.scale.parts, there.scale.parts),
                    (here.repeated, there.repeated),
                    (here.divisor, there.divisor),
                )
            )
            if not same or run.cost != other.cost:
                raise _failure(
                    cls,
                    f"{script}: with the keys in the order {order}, unit {run.unit} is another release.",
                )

    shuffles = _hypothesis().strategies.randoms(use_true_random=False)
    _explore(act_out, _scripts(noisy=False), shuffles, examples=30 if quick else 120)


def check_noise_has_the_scale_it_claims(cls: AnyMechanism, *, quick: bool = False) -> None:
    """The noise has the scale that the release claims.

    Of all freshly published keys (where the divisor is m: of the sum of the last m units; where
    counts before smoothing are shown: of those; where a release has weights: of the weighted sum),
    the mean of |noise| fits discrete Laplace noise of the claimed scale and layers, or Gaussian
    noise where that is claimed, and does not fit 0.7 and 1.3 times that scale; the noise has mean
    0, and neighbouring keys are not correlated. All by z-tests at 6 standard deviations, each over
    5,000 draws or more: with another seed, a false alarm has a chance below 1e-6.
    """
    keys, seed = (5_000, 41) if quick else (20_000, 41)
    rng = np.random.default_rng(8)
    mechanism = cls(epsilon="1", window=2)
    run = mechanism.run(keys, noise=TestNoise(seed))
    size = run.released.size
    noise, scales, layers = list[FloatArray](), list[FloatArray](), list[IntArray]()
    products, norm = 0.0, 0.0
    gaussian = False
    truths: list[IntArray] = []
    units = 8
    last = np.zeros(keys, np.int64)
    for unit in range(1, units + 1):
        counts = rng.integers(0, 10**7, keys)
        if (
            unit % 4 == 1
        ):  # nothing moves: what is saved up here forces repetitions later, while all moves
            counts = last
        truths.append(run.released.totals(counts))
        out = run.step(counts)
        if size == keys:
            last = np.maximum(out.value // out.divisor, 0)
        residual, scale, of = _noise_in(out, truths)
        if out.weights != UNIT and unit < units:
            continue  # draws that stay in for several units are looked at once
        fresh = scale > 0
        if not fresh.any():
            continue
        noise.append(residual[fresh])
        scales.append(scale[fresh])
        layers.append(of[fresh])
        gaussian = out.kind == "gaussian"
        one = (
            np.square(scale[fresh])
            if gaussian
            else of[fresh] * 0.5 / np.sinh(0.5 / scale[fresh]) ** 2
        )
        unit_free = residual[fresh] / np.sqrt(one)
        products += float(unit_free[1:] @ unit_free[:-1])
        norm += len(unit_free) - 1
    where = f"{mechanism} over {keys} keys with TestNoise({seed})"
    if sum(map(len, noise)) < 5_000:
        raise _failure(
            cls,
            f"{where}: in 8 units, 6 of them of great change, it published too little to measure the noise.",
        )
    x, scale, of = np.concatenate(noise), np.concatenate(scales), np.concatenate(layers)
    variance = np.square(scale) if gaussian else of * 0.5 / np.sinh(0.5 / scale) ** 2
    z = float(x.sum() / math.sqrt(float(variance.sum())))
    if not abs(z) < _ALARM:
        raise _failure(cls, f"{where}: the noise does not have mean 0 (z = {z:.1f}).")
    for factor in (1.0, 0.7, 1.3):
        z = _z_of_gaussian(x, scale * factor) if gaussian else _z_of_size(x, scale * factor, of)
        if factor == 1 and not abs(z) < _ALARM:
            raise _failure(
                cls,
                f"{where}: the noise is too {'large' if z > 0 else 'small'} for the claimed scale (z = {z:.1f}).",
            )
        if factor != 1 and not abs(z) > _ALARM:
            raise _failure(
                cls,
                f"{where}: {factor} times the claimed scale fits as well (z = {z:.1f}): too little to tell.",
            )
    z = products / math.sqrt(norm)
    if not abs(z) < _ALARM:
        raise _failure(cls, f"{where}: the noise of neighbouring keys is correlated (z = {z:.1f}).")


_ALARM = 6.0


def _noise_in(out: Released, truths: list[IntArray]) -> tuple[FloatArray, FloatArray, IntArray]:
    """The noise in each number, the scale that it claims (0 where it claims nothing) and how many
    draws it is the sum of.

    Where a release shows its counts before smoothing, those; else its numbers, as sums of the units
    that they speak of.
    """
    size = len(out.value)
    parts = np.broadcast_to(out.scale.parts, size)
    scale = np.where(parts > 0, np.broadcast_to(out.scale.floats(), size), 0.0)
    scale = np.where(np.broadcast_to(out.repeated, size), 0.0, scale)
    if "noisy" in out.public:
        return (out.public["noisy"] - truths[-1]).astype(np.float64), scale, np.ones(size, np.int64)
    of = np.broadcast_to(out.layers, size)
    history = np.array(truths[::-1])
    if out.weights != UNIT:
        truth = out.weights.sequence(len(history)) @ history
        return out.estimate - truth, scale / np.float64(out.divisor), of
    span = np.broadcast_to(out.divisor, size)
    sums = np.concatenate([np.zeros((1, size), np.int64), np.cumsum(history, axis=0)])
    truth = sums[np.minimum(span, len(history)), np.arange(size)]
    return (out.value - truth).astype(np.float64), np.where(span <= len(history), scale, 0.0), of


def _z_of_gaussian(x: FloatArray, scale: FloatArray) -> float:
    """How many standard deviations the sum of |x| is off, if x_i is Gaussian with standard
    deviation scale_i.
    """
    excess = float(np.abs(x).sum()) - math.sqrt(2 / math.pi) * float(scale.sum())
    return excess / math.sqrt((1 - 2 / math.pi) * float(np.square(scale).sum()))


def _z_of_size(x: FloatArray, scale: FloatArray, layers: IntArray) -> float:
    """How many standard deviations the sum of |x| is off, if x_i is the sum of `layers` discrete
    Laplace draws.
    """
    excess = spread = 0.0
    kinds, which = np.unique(np.stack([scale, layers]), axis=1, return_inverse=True)
    for kind, (each, of) in enumerate(kinds.T):
        chosen = np.abs(x[which.ravel() == kind])
        mean, variance = _moments(float(each), int(of))
        excess += float(chosen.sum()) - mean * len(chosen)
        spread += variance * len(chosen)
    return excess / math.sqrt(spread)


def _moments(scale: float, layers: int) -> tuple[float, float]:
    """Mean and variance of |X_1 + … + X_layers|, by adding up the probabilities."""
    reach = math.ceil(40 * scale) + 1
    one = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    one /= one.sum()
    size = 2 * reach * layers + 1
    law = np.fft.irfft(np.fft.rfft(one, size) ** layers, size) if layers > 1 else one
    k = np.abs(np.arange(size) - reach * layers)
    mean = float(k @ law)
    return mean, float(k**2 @ law) - mean**2


def check_bad_input_changes_nothing(cls: AnyMechanism, *, quick: bool = False) -> None:
    """Bad input is refused and changes nothing.

    Counts that are negative, fractional, missing, too many, too few or too large, and units out of
    order, are an `InputError`; the snapshot is the same, byte for byte, and the next unit is
    released as if nothing had happened.
    """
    size = 4
    good = _restless(size, 4 if quick else 8, seed=12)
    bad: list[Any] = [
        [1, 2, -1, 3],
        [1, 2, 0.5, 3],
        [1, 2, math.nan, 3],
        [1, 2, math.inf, 3],
        [1, 2, 3, 4, 5],
        [1, 2, 3],
        [],
        [[1, 2, 3, 4]],
        [1, 2, 3, count_limit(size) + 1],
        [1, 2, 3, 2**63],
        [1, 2, 3, 2**80],
        [1e300, 2, 3, 4],
        [1, 2, None, 4],
        ["1", "2", "3", "4"],
        np.ma.masked_array([1, 2, 3, 4], mask=[False, False, True, False]),
        "1234",
        7,
        None,
    ]
    mechanism = cls(epsilon="1", window=3)
    run, undisturbed = (mechanism.run(size, noise=TestNoise(17), record=True) for _ in range(2))
    for counts in good:
        before = run.snapshot()
        attempts: list[tuple[dict[str, int], Any]] = [({}, each) for each in bad]
        attempts += [({"unit": unit}, counts) for unit in (-1, 0, run.unit, run.unit + 2)]
        for how, given in attempts:
            where = f"{mechanism} after unit {run.unit}, step({given!r}{', ' + repr(how) if how else ''})"
            try:
                run.step(given, **how)
            except InputError:
                pass
            except Exception as error:
                raise _failure(
                    cls, f"{where} raises {type(error).__name__}, not InputError."
                ) from error
            else:
                raise _failure(cls, f"{where} was accepted.")
            try:
                after = run.snapshot()
            except PenstockError as error:
                raise _failure(
                    cls, f"{where} was refused, and the run cannot go on: {error}"
                ) from error
            if after != before:
                raise _failure(cls, f"{where} was refused, and yet the snapshot changed.")
        if _facts(run.step(counts, unit=run.unit + 1)) != _facts(undisturbed.step(counts)):
            raise _failure(
                cls, f"{mechanism}: after refused input, unit {run.unit} is another release."
            )


# -- what is hidden --------------------------------------------------------------------------------


def check_nothing_private_can_be_read(cls: AnyMechanism, *, quick: bool = False) -> None:
    """The mechanism can read nothing private, does not try, and keeps nothing raw.

    Every `Private` that reaches it refuses to be looked at; its source names no way around that;
    after each step neither its state nor its configuration holds a `Private`, the raw counts, their
    running sum, or their distance to a release.
    """
    _look_at_source(cls)
    reached: list[Private] = []

    class Watched(cls):  # type: ignore[misc, valid-type]
        def step(self, state: Any, unit: Private, gate: Any) -> Any:
            reached.append(unit)
            return super().step(state, unit, gate)

    # Counts far apart under noise of scale 4,000 and more: half of 16 keys agree by chance less
    # often than 1e-20.
    mechanism = Watched(epsilon="0.001", window=4)
    run = mechanism.run(16, noise=TestNoise(19))
    rng = np.random.default_rng(19)
    total = np.zeros(16, np.int64)
    shown: list[IntArray] = []
    for unit in range(1, 9 if quick else 25):
        counts = rng.integers(0, LEAP, 16)
        total += counts
        shown = [*shown[-1:], run.step(counts).value]
        truth = run.released.totals(counts)
        distances = [truth - value for value in shown]
        secrets = [counts, total, truth, *distances, *map(np.abs, distances)]
        numbers = {int(secret.sum()) for secret in secrets}
        for holder, what in ((run._state, "state"), (vars(mechanism), "configuration or caches")):
            _look_at_memory(cls, f"{mechanism}, unit {unit}: its {what}", holder, secrets, numbers)
    for private in reached:
        for name, attempt in _LOOKS.items():
            try:
                attempt(private)
            except (SealedError, TypeError):
                continue
            raise _failure(cls, f"a Private that reached step() does not refuse {name}.")
        if (
            f"{private}" != repr(private)
            or f"{private!s}" != repr(private)
            or "sensitivity" not in repr(private)
        ):
            raise _failure(cls, "a Private that reached step() shows more than its sensitivity.")


_LOOKS: dict[str, Callable[[Any], object]] = {
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "len": len,
    "iteration": iter,
    "next": next,
    "index": operator.index,
    "indexing": lambda x: x[0],
    "assignment": lambda x: operator.setitem(x, 0, 0),
    "in": lambda x: 1 in x,
    "list": list,
    "sum": sum,
    "max": max,
    "sorting": sorted,
    "reversed": reversed,
    "round": round,
    "math.floor": math.floor,
    "memoryview": memoryview,
    "numpy.asarray": np.asarray,
    "numpy.array": np.array,
    "numpy.add": lambda x: np.add(x, 1),
    "numpy.sum": lambda x: np.sum(x),
    "array + private": lambda x: np.arange(16) + x,
    "==": lambda x: x == 0,
    "!=": lambda x: x != 0,
    "<": lambda x: x < 1,
    ">": lambda x: x > 1,
    "<=": lambda x: x <= 1,
    ">=": lambda x: x >= 1,
    "+": lambda x: x + 1,
    "1 +": lambda x: 1 + x,
    "-": lambda x: x - 1,
    "*": lambda x: x * 2,
    "/": lambda x: x / 2,
    "//": lambda x: x // 2,
    "%": lambda x: x % 2,
    "**": lambda x: x**2,
    "negation": operator.neg,
    "abs": abs,
    "hash": hash,
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "vars": vars,
}

_FORBIDDEN = frozenset(
    {
        "unseal",
        "_Private__value",
        "_gate",
        "_ledger",
        "_maker",
        "_held",
        "_folds",
        "_runs",
    }
)
"""Names that open a `Private` or go behind the gate."""

_NOT_FOR_MECHANISMS = frozenset({"memory", "save", "load", "wipe", "begin", "end", "disturb"})
"""What the gate offers to the run and to the lab, not to a mechanism."""


def _look_at_source(cls: AnyMechanism) -> None:
    look_at_source(
        cls, [each for each in cls.__mro__ if issubclass(each, Mechanism)], Mechanism.__module__
    )


def look_at_source(cls: type, parts: Iterable[type], base: str) -> None:
    """Refuse a class if these parts of it, but for those in the module `base`, or what they name,
    go behind the gate.
    """
    for source, name in _sources(cls, parts, base):
        tree = ast.parse(textwrap.dedent(source))
        doors = {"gate", "unit", "part"} | {
            argument.arg
            for node in ast.walk(tree)
            if isinstance(node, ast.arg)
            for argument in (node,)
            if node.annotation is not None
            and ast.unparse(node.annotation).strip("'\"").rpartition(".")[2] in ("Gate", "Private")
        }
        for node in ast.walk(tree):
            said = ""
            if isinstance(node, ast.Attribute):
                said = node.attr
                root = _root(node.value)
                hidden = said.startswith("_") or (said in _NOT_FOR_MECHANISMS and root == "gate")
                if root in doors and hidden:
                    raise _failure(cls, f"{name} reaches behind the gate: {ast.unparse(node)}.")
            elif isinstance(node, ast.Name):
                said = node.id
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                said = node.value
            elif isinstance(node, ast.alias):
                said = node.name.rpartition(".")[2]
            if said in _FORBIDDEN:
                raise _failure(cls, f"{name} mentions {said!r}, which is the gate's alone.")


def _root(node: ast.expr) -> str:
    """The name at which a chain of attributes begins, or nothing."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _sources(cls: type, parts: Iterable[type], base: str) -> Iterator[tuple[str, str]]:
    """The source of these parts and of what they name in their modules, but not of Penstock's other
    layers.
    """
    ours = (
        "penstock.core.",
        "penstock.budget.",
        "penstock.private.gate",
        "penstock.private.run",
        "penstock.private.noise",
    )
    waiting: list[Any] = [each for each in parts if each.__module__ != base]
    roots = {each.__module__.partition(".")[0] for each in waiting}
    seen: set[int] = set()
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        try:
            source = inspect.getsource(thing)
        except (OSError, TypeError):
            raise _failure(
                cls,
                f"the source of {thing.__qualname__} cannot be found, so nobody can say what it reads.",
            ) from None
        yield source, thing.__qualname__
        around = vars(sys.modules[thing.__module__]) if thing.__module__ in sys.modules else {}
        for node in ast.walk(ast.parse(textwrap.dedent(source))):
            found = around.get(node.id) if isinstance(node, ast.Name) else None
            if (inspect.isclass(found) or inspect.isfunction(found)) and found.__module__ != base:
                module = found.__module__
                if module.partition(".")[0] in roots and not module.startswith(ours):
                    waiting.append(found)


def _look_at_memory(
    cls: AnyMechanism, where: str, holder: object, secrets: list[IntArray], numbers: set[int]
) -> None:
    for value in _walk(holder):
        if isinstance(value, Private):
            raise _failure(cls, f"{where} keeps a Private.")
        if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
            for secret in secrets:
                if (
                    value.size == secret.size
                    and 2 * np.count_nonzero(np.abs(value.ravel()) == np.abs(secret)) >= secret.size
                ):
                    raise _failure(
                        cls, f"{where} keeps raw counts, or their distance to a release."
                    )
        elif (
            isinstance(value, (int, float, np.number))
            and not isinstance(value, bool)
            and int(value) in numbers
        ):
            raise _failure(cls, f"{where} keeps a raw total.")


def _walk(value: object, seen: set[int] | None = None) -> Iterator[object]:
    """Everything inside plain data."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    yield value
    inside: Iterable[object] = ()
    if isinstance(value, Mapping):
        inside = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        inside = value
    elif isinstance(value, np.ndarray) and value.dtype == object:
        inside = value.ravel().tolist()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = [getattr(value, field.name) for field in dataclasses.fields(value)]
        inside = [*named, *vars(value).values()] if hasattr(value, "__dict__") else named
    elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
        inside = list(vars(value).values())
    for each in inside:
        yield from _walk(each, seen)


def _arrays(holder: object) -> Iterator[Any]:
    return (value for value in _walk(holder) if isinstance(value, np.ndarray))


# -- streams ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Script:
    """A stream to be acted out: per unit, which keys leap far from the last release; the others
    stay where it is.

    With a `seed` there is noise, and a leap is a small one.
    """

    epsilon: Fraction
    window: int
    contribution: int
    size: int
    leaps: tuple[int, ...]
    seed: int | None

    def start(self, cls: AnyMechanism, keys: list[str] | None = None) -> Run:
        """A run of the mechanism in this configuration; one that it refuses is no example."""
        noise = NoNoise() if self.seed is None else TestNoise(self.seed)
        try:
            mechanism = cls(
                epsilon=self.epsilon, window=self.window, contribution=self.contribution
            )
            return mechanism.run(self.size if keys is None else keys, noise=noise, record=True)
        except ConfigurationError:
            _hypothesis().reject()
            raise

    def stream(self, run: Run) -> Iterator[IntArray]:
        """The counts, unit by unit, in answer to what the run has released."""
        bits = 1 << np.arange(self.size)
        far = LEAP if self.seed is None else 40
        counts = np.zeros(self.size, np.int64)
        for leap in self.leaps:
            if (
                run.last is not None and run.released is run.domain
            ):  # else its numbers are not those of the keys
                counts = np.maximum(run.last.value, 0)
            jumps: BoolArray = (leap & bits) > 0
            counts = np.where(
                jumps,
                np.where(counts > far // 2, 0, far),
                np.minimum(counts, count_limit(self.size)),
            )
            yield counts


def _scripts(*, noisy: bool = True) -> Any:
    st = _hypothesis().strategies

    def of_size(size: int) -> Any:
        everything = 2**size - 1
        leap = st.one_of(st.sampled_from([0, everything]), st.integers(0, everything))
        return st.builds(
            Script,
            epsilon=st.sampled_from(
                [Fraction(1), Fraction(1, 10), Fraction(3), Fraction(1, 3), Fraction(1, 1000)]
            ),
            window=st.integers(1, 6),
            contribution=st.integers(1, 3),
            size=st.just(size),
            leaps=st.lists(leap, min_size=1, max_size=26).map(tuple),
            seed=st.none() | st.integers(0, 99) if noisy else st.none(),
        )

    return st.integers(1, 6).flatmap(of_size)


def _restless(size: int, units: int, *, seed: int) -> list[IntArray]:
    """Counts that stay for a while and then move, some or all of them, by much."""
    rng = np.random.default_rng(seed)
    now, out = rng.integers(0, 1_000, size), []
    for _ in range(units):
        kind = rng.integers(4)
        moved = rng.random(size) < (0, 0.5, 1, 1)[kind]
        now = np.where(moved, rng.integers(0, (1, 10**6, 100, 10**6)[kind], size), now)
        out.append(now.astype(np.int64))
    return out


def _in_parts(run: Run, counts: IntArray) -> None:
    """For mechanisms that can: some of the unit ahead of its step."""
    if isinstance(run.mechanism, Incremental) and run.mechanism.in_parts:
        run.feed(counts // 2)


def _facts(released: Released) -> tuple[object, ...]:
    """A release as values that can be compared."""

    def plain(value: Any) -> object:
        return value.tolist() if isinstance(value, np.ndarray) else value

    scale = released.scale
    return (
        released.unit,
        plain(released.value),
        (scale.base, plain(scale.parts)),
        plain(released.repeated),
        plain(released.divisor),
        plain(released.layers),
        (released.kind, released.weights),
        released.guarantee,
        released.private,
        {name: plain(array) for name, array in released.public.items()},
    )


# -- plumbing --------------------------------------------------------------------------------------


def _failure(cls: type, what: str) -> CheckError:
    return CheckError(f"{cls.__name__}: {what}")


def _hypothesis() -> Any:
    return require("hypothesis", "lab", "checking a mechanism on random streams")


def _explore(test: Callable[..., None], *strategies: Any, examples: int) -> None:
    """The same examples every time, and nothing kept or timed."""
    hypothesis = _hypothesis()
    settings = hypothesis.settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )
    settings(hypothesis.given(*strategies)(test))()


CHECKS: tuple[Check, ...] = (
    check_no_window_costs_more_than_promised,
    check_noise_is_what_was_paid_for,
    check_the_stated_guarantee_is_the_enforced_one,
    check_nothing_private_can_be_read,
    check_noise_has_the_scale_it_claims,
    check_a_restart_changes_nothing,
    check_memory_does_not_grow,
    check_input_is_not_aliased,
    check_bad_input_changes_nothing,
    check_relabelling_keys_relabels_the_output,
)
