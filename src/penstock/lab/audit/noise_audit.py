"""The noise audit: whether the noise that a run draws is fresh, independent, and of its law.

A replay chooses the noise, so it cannot see these. Here a mechanism runs with the source that it
ships with, and every draw is written down. Draws of different keys, of different units, before and
after a restart, and of copies of a run are compared in pairs. All tests are exact: binomial tails,
and Hoeffding's bound.

A mechanism needs few scales and few numbers at a time. So the source of its run is also asked for
small and large scales, for one number and for many, and for samples.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError, NoiseError
from penstock.core.guarantee import Intrusion
from penstock.lab.audit.replay.noise_choice import NoiseCall
from penstock.lab.audit.subjects import Subject
from penstock.private.mechanisms.base import Mechanism
from penstock.private.noise import Noise, SystemNoise, source
from penstock.private.run import Run

FALSE_ALARM = 1e-6
"""The probability that an audit convicts noise that is fresh and of its law."""

KEYS, UNITS, RESTART = 300, 16, 8
"""The size of the stream, and the unit after which a run is saved."""

CELLS = 25
"""The most cells into which the values of a law are put."""

SCALES: tuple[Fraction, ...] = (Fraction(1, 2), Fraction(7, 3), Fraction(90), Fraction(3000, 7))
VARIANCES: tuple[Fraction, ...] = (Fraction(1, 3), Fraction(50), Fraction(10**6, 7))
"""The laws that the source itself is asked for. Scales above 128 are drawn digit by digit."""

FEW, MANY = 300, 12_000
"""Numbers that the source itself is asked for at once. More than 512 are drawn in another way, and
more than 8,192 need more than one piece of random bits.
"""

VERY_MANY, MOST = 2**21, 2**23
"""Numbers that are drawn to see values that are very rare. Of a small scale there are more: most of
its values are chosen by 16 bits, so each rare value could have too much or too little of them.
"""

SMALL_SCALE = Fraction(5)

COMMON, RARE = (0.3, 0.1, 0.01), (1e-3, 1e-4, 2e-5, 5e-6)
"""Probabilities of the tails that are counted in so many numbers, on either side."""

NEAR = (0, 1, 2, 3)
"""Values that are counted, too: noise that is not rounded as it should be has too many of one."""

LEAST_BYTES = 32
"""Random bytes of the operating system that a source must have asked for before its first draw."""

HUGE = Fraction(2**40)
"""A scale at which two equal draws are nearly impossible, wherever in a run they are."""

MOST_EQUAL = 8
"""As many equal pairs of draws of that scale convict."""

MODULI = (2, 3, 256)
"""Remainders of draws are tested for these divisors: low digits must be random, too."""

LEAST_DRAWS = 300
"""The fewest draws of one law that are tested against it."""

Draws = list[tuple[NoiseCall, IntArray]]


class NoiseRecorder:
    """A source of noise, and a list of all that it gave.

    Parameters
    ----------
    source : Noise
        The source.

    >>> from penstock.testing import NoNoise
    >>> recorder = NoiseRecorder(NoNoise())
    >>> _ = recorder.laplace(Fraction(2), 3, unit=1, label="publish")
    >>> [(call.label, values.tolist()) for call, values in recorder.draws]
    [('publish', [0, 0, 0])]
    """

    def __init__(self, source: Noise) -> None:
        self.source = source
        self.draws: Draws = []
        self.thinned: set[str] = set()
        """The labels of samples. Noise on a sample may be less than its charge alone allows."""

    @property
    def private(self) -> bool:
        return self.source.private

    def laplace(self, scale: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        values = self.source.laplace(scale, size, unit=unit, label=label)
        return self._noted("laplace", (Fraction(scale),), (), unit, label, values)

    def laplace_each(
        self, scales: Sequence[Fraction], which: IntArray, *, unit: int, label: str
    ) -> IntArray:
        values = self.source.laplace_each(scales, which, unit=unit, label=label)
        places = tuple(which.tolist())
        return self._noted("laplace", tuple(map(Fraction, scales)), places, unit, label, values)

    def gaussian(self, variance: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        values = self.source.gaussian(variance, size, unit=unit, label=label)
        return self._noted("gaussian", (Fraction(variance),), (), unit, label, values)

    def thin(self, counts: IntArray, keep: Fraction, *, unit: int, label: str) -> IntArray:
        self.thinned.add(label.removesuffix(".sample"))
        return self.source.thin(counts, keep, unit=unit, label=label)

    def refresh(self) -> None:
        self.source.refresh()

    def erase(self) -> None:
        self.source.erase()

    def memory(self) -> dict[str, Any]:
        return self.source.memory()

    def _noted(
        self,
        kind: str,
        laws: tuple[Fraction, ...],
        which: tuple[int, ...],
        unit: int,
        label: str,
        values: IntArray,
    ) -> IntArray:
        call = NoiseCall(kind, unit, label, laws, which, len(values))
        self.draws.append((call, values.copy()))
        return values


@dataclass(frozen=True)
class NoiseVerdict:
    """The outcome of a noise audit.

    Parameters
    ----------
    name : str
        What was audited.
    outcome : str
        `acquitted`, `convicted`, or `not judged` if too little noise was drawn.
    violations : tuple of str
        What is wrong with the noise, in words.
    draws, tests : int
        The number of draws, and of tests on them.
    false_alarm : float
        The probability that fresh noise of its law is convicted.
    seconds : float
        How long it took.
    """

    name: str
    outcome: Literal["acquitted", "convicted", "not judged"]
    violations: tuple[str, ...]
    draws: int
    tests: int
    false_alarm: float
    seconds: float

    @property
    def convicted(self) -> bool:
        """Whether the noise is not what it should be."""
        return self.outcome == "convicted"

    def sentence(self) -> str:
        """The verdict in one line."""
        if self.convicted:
            return f"CONVICTED by its noise: {self.violations[0]}"
        if self.outcome == "not judged":
            return f"noise not judged: {', '.join(self.violations) or 'too little was drawn'}"
        return (
            f"noise {self.outcome}: {self.tests} tests on {self.draws:,} draws of the system's "
            f"source, false alarm at most {self.false_alarm:.0e}"
        )

    def row(self) -> dict[str, Any]:
        """The verdict as plain data, without how long it took."""
        return {
            "name": self.name,
            "outcome": self.outcome,
            "convicted": self.convicted,
            "violations": list(self.violations),
            "false_alarm": self.false_alarm,
        }


@dataclass
class _DrawPairs:
    """Pairs of draws of one law that should be independent, by what they have in common."""

    one: list[IntArray] = field(default_factory=list)
    other: list[IntArray] = field(default_factory=list)

    def add(self, one: IntArray, other: IntArray) -> None:
        self.one.append(one)
        self.other.append(other)


Law = tuple[str, Fraction]
Found = dict[tuple[str, Law], _DrawPairs]


def noise_audit(subject: Subject, *, false_alarm: float = FALSE_ALARM) -> NoiseVerdict:
    """Test the noise that a mechanism draws from the source that it ships with.

    Parameters
    ----------
    subject : Subject
        What is audited.
    false_alarm : float
        The probability that fresh noise of its law is convicted, over all tests. Default: 1e-6.

    >>> from penstock.lab.audit.subjects import subject
    >>> noise_audit(subject("uniform")).outcome
    'acquitted'
    """
    start = time.monotonic()
    mechanism = subject.mechanism
    by_law: dict[Law, list[IntArray]] = defaultdict(list)
    pairs: Found = defaultdict(_DrawPairs)
    try:
        draws, wrong = _one_run(mechanism, pairs)
    except Exception as error:  # a plug-in may raise anything; the replay says more about it
        why = (f"the mechanism failed with {type(error).__name__}",)
        seconds = time.monotonic() - start
        return NoiseVerdict(subject.name, "not judged", why, 0, 0, false_alarm, seconds)
    for call, values in draws:
        for law, some in _by_law(call, values):
            by_law[law].append(some)
    _across_units(draws, pairs)
    tests: list[tuple[str, Callable[[float], bool]]] = []
    for law, parts in by_law.items():
        together = np.concatenate(parts)
        if len(together) >= LEAST_DRAWS:
            tests += _law_tests(law, together)
    for (what, law), each in pairs.items():
        tests += _pair_tests(what, law, np.concatenate(each.one), np.concatenate(each.other))
    more, other = _source_tests(mechanism)
    tests += more
    wrong += other
    share = false_alarm / max(1, len(tests))
    violations = (*wrong, *(text for text, fails in tests if fails(share)))
    outcome: Literal["acquitted", "convicted", "not judged"] = "convicted"
    if not violations:
        outcome = "acquitted" if tests else "not judged"
    return NoiseVerdict(
        subject.name,
        outcome,
        violations,
        sum(call.size for call, _ in draws),
        len(tests),
        false_alarm,
        time.monotonic() - start,
    )


# -- what is drawn ---------------------------------------------------------------------------------


def _one_run(mechanism: Mechanism[Any], pairs: Found) -> tuple[Draws, list[str]]:
    """The draws of one run, and those whose law is not that of their ledger line.

    Draws of its copies, from the start and after a restart, are added to the pairs.

    The fork of a process is a copy, too. Its draws must be others, or be refused.
    """
    keys = _keys(mechanism)
    rng = np.random.default_rng(0)
    stream = rng.poisson(20.0, (UNITS, keys)).astype(np.int64)
    domain = Domain.of(keys)
    run, recorder = _recorded(mechanism, domain, record=True)
    twin, twins = _recorded(mechanism, domain)
    snapshot = b""
    left = _watch_memory(run)
    for unit, counts in enumerate(stream, start=1):
        run.step(counts)
        left.extend(_left_behind(run, unit))
        if unit <= RESTART:
            twin.step(counts)
        if unit == RESTART:
            snapshot = run.snapshot()
    again, restored = _recorded(mechanism, domain)
    again.load(snapshot)
    for counts in stream[RESTART:]:
        again.step(counts)
    _same_place("two runs of one stream", recorder.draws, twins.draws, pairs)
    after = [each for each in recorder.draws if each[0].unit > RESTART]
    _same_place("a run and the same run restored", after, restored.draws, pairs)
    for what, cloned in (("a run and a forked copy of it", False), ("a run and its clone", True)):
        parent, child = _forked(mechanism, domain, snapshot, stream[RESTART:], cloned=cloned)
        _same_place(what, parent, child, pairs)
    return recorder.draws, [*left[:1], *_against_the_ledger(run, recorder)]


class _WatchedArrays(list[IntArray]):
    """The arrays that a pan-private run overwrites before it forgets them."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 0

    def clear(self) -> None:
        self.left += sum(bool(each.any()) for each in self)
        super().clear()


def _watch_memory(run: Run) -> list[str]:
    """Watch the arrays of a run that promises something about its memory."""
    if run.guarantee.intrusion is not Intrusion.NONE:
        run._scratch = _WatchedArrays()
    return []


def _left_behind(run: Run, unit: int) -> Iterator[str]:
    """What an intruder finds after a unit: the key of past noise, or counts without noise."""
    if run.guarantee.intrusion is Intrusion.NONE:
        return
    if "noise key" in run._gate.memory():
        yield f"unit {unit}: the key of past noise lies in memory after the unit"
    watched = run._scratch
    if not isinstance(watched, _WatchedArrays) or watched or watched.left:
        yield f"unit {unit}: numbers without noise stay in memory after the unit"


def _against_the_ledger(run: Run, recorder: NoiseRecorder) -> Iterator[str]:
    """Draws with less noise than the line of the same label charges for.

    A person changes the numbers by `contribution` at least. The noise of weighted sums and of
    samples has another relation to its charge; the replay judges that.
    """
    quantum, most = run.mechanism.grid.quantum, run.mechanism.contribution
    charged: dict[tuple[int, str], int] = {}
    for line in run._lines:
        if line.kind in ("spend", "settle"):
            place = (line.unit, line.label)
            charged[place] = max(charged.get(place, 0), line.amount)
    skipped = recorder.thinned | set(run._gate.convolutions._held)
    for call, _ in recorder.draws:
        amount = charged.get((call.unit, call.label), 0) * quantum
        if not amount or call.label in skipped or not call.size:
            continue
        law = min(call.laws)
        enough = most / amount if call.kind == "laplace" else Fraction(most**2) / (2 * amount)
        if law < enough:
            yield (
                f"unit {call.unit}: {call.kind} noise for {call.label!r} has parameter "
                f"{float(law):.4g}; its ledger line needs {float(enough):.4g}"
            )
            return


def _keys(mechanism: Mechanism[Any]) -> int:
    """The number of keys: as many as the mechanism takes, up to `KEYS`."""
    keys = KEYS
    while keys > 1:
        try:
            mechanism.run(Domain.of(keys))
        except (ConfigurationError, NoiseError):
            keys //= 2
        else:
            return keys
    return 1


def _recorded(
    mechanism: Mechanism[Any], domain: Domain, *, record: bool = False
) -> tuple[Run, NoiseRecorder]:
    """A run with the source that it makes for itself, and the record of that source."""
    run = mechanism.run(domain, record=record)
    recorder = NoiseRecorder(run._gate._maker.noise)
    run._gate._maker.noise = recorder
    return run, recorder


def _forked(
    mechanism: Mechanism[Any],
    domain: Domain,
    snapshot: bytes,
    stream: IntArray,
    *,
    cloned: bool,
) -> tuple[Draws, Draws]:
    """The next draws of a run, and those of its copy in a forked process.

    There are none if the copy refuses to draw, or if the system has no forks. With `cloned`, the
    copy believes that it is the original, as in a clone of the whole machine: only fresh bits from
    the system make its next unit another one.
    """
    if not hasattr(os, "fork"):
        return [], []
    run, recorder = _recorded(mechanism, domain)
    run.load(snapshot)
    run.step(stream[0])  # so that its source is in use
    recorder.draws.clear()
    counts = stream[1]
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:  # pragma: no cover - the child is another process
        status = 0
        try:
            os.close(reading)
            if cloned:
                vars(recorder.source).update(_process=os.getpid(), _forks=source._forks)
            run.step(counts)
            with os.fdopen(writing, "wb") as file:
                for _, values in recorder.draws:
                    file.write(len(values).to_bytes(8, "big") + values.tobytes())
        except BaseException:
            status = 1
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        told = file.read()
    _, status = os.waitpid(child, 0)
    if status or not told:
        return [], []
    run.step(counts)
    found: Draws = []
    place = 0
    for call, _ in recorder.draws:
        size = int.from_bytes(told[place : place + 8], "big")
        place += 8
        if size != call.size:  # its noise has led it to other decisions
            break
        found.append((call, np.frombuffer(told, np.int64, size, place)))
        place += 8 * size
    return recorder.draws, found


def _by_law(call: NoiseCall, values: IntArray) -> Iterator[tuple[Law, IntArray]]:
    """The draws of a call, by their law."""
    if not call.size:
        return
    if not call.which:
        yield (call.kind, call.laws[0]), values
        return
    which = np.array(call.which)
    for place, law in enumerate(call.laws):
        yield (call.kind, law), values[which == place]


def _same_place(what: str, one: Draws, other: Draws, pairs: Found) -> None:
    """Pairs of draws at the same place of two runs."""
    for (call, here), (there_call, there) in zip(one, other, strict=False):
        if call == there_call and call.size:
            for (law, some), (_, others) in zip(
                _by_law(call, here), _by_law(call, there), strict=True
            ):
                pairs[what, law].add(some, others)


def _across_units(draws: Draws, pairs: Found) -> None:
    """Disjoint pairs of draws of one run: neighbouring keys, distant keys, units, labels."""
    rng = np.random.default_rng(1)
    earlier: dict[tuple[str, Law, int], IntArray] = {}
    waiting: dict[tuple[Law, int], tuple[str, IntArray]] = {}
    for call, values in draws:
        for law, some in _by_law(call, values):
            half = len(some) // 2
            pairs["neighbouring keys", law].add(some[0 : 2 * half : 2], some[1 : 2 * half : 2])
            mixed = rng.permutation(some)
            pairs["keys that are apart", law].add(mixed[:half], mixed[half : 2 * half])
            place = (call.label, law, len(some))
            if place in earlier:
                pairs["two units", law].add(earlier.pop(place), some)
            else:
                earlier[place] = some
            kept = waiting.get((law, len(some)))
            if kept is not None and kept[0] != call.label:
                pairs["two labels", law].add(kept[1], some)
                del waiting[law, len(some)]
            elif kept is None:
                waiting[law, len(some)] = (call.label, some)


# -- the source itself -----------------------------------------------------------------------------


def _source_tests(
    mechanism: Mechanism[Any],
) -> tuple[list[tuple[str, Callable[[float], bool]]], list[str]]:
    """Tests of the source that a run makes for itself, and what is wrong without any test."""
    tests: list[tuple[str, Callable[[float], bool]]] = []
    wrong: list[str] = []
    asked = 0
    from_system = os.urandom

    def counted(count: int) -> bytes:
        nonlocal asked
        asked += count
        return from_system(count)

    os.urandom = counted
    try:
        drawn = mechanism.run(Domain.of(1))._gate._maker.noise
        drawn.laplace(SCALES[0], FEW, unit=1, label="audit")
        first = asked
        for size in (FEW, MANY):
            for scale in SCALES:
                values = drawn.laplace(scale, size, unit=1, label="audit")
                tests += _all_of(("laplace", scale), values)
            for variance in VARIANCES:
                values = drawn.gaussian(variance, size, unit=1, label="audit")
                tests += _all_of(("gaussian", variance), values)
        tests += _tail_tests(drawn)
        tests += _each_tests(drawn)
        tests += _thin_tests(drawn)
        wrong += _repetitions(drawn)
    finally:
        os.urandom = from_system
    if not asked and isinstance(drawn, SystemNoise):
        wrong.append("the source never asks the operating system for random bits")
    elif first < LEAST_BYTES and isinstance(drawn, SystemNoise):
        wrong.append(f"the source draws after {first} random bytes of the operating system")
    return tests, wrong


def _all_of(law: Law, values: IntArray) -> Iterator[tuple[str, Callable[[float], bool]]]:
    yield from _law_tests(law, values)
    yield from _digit_tests(law, values)
    half = len(values) // 2
    yield from _pair_tests("the source", law, values[: 2 * half : 2], values[1 : 2 * half : 2])
    yield from _pair_tests("the source", law, values[:half], values[half : 2 * half])


def _each_tests(drawn: Noise) -> Iterator[tuple[str, Callable[[float], bool]]]:
    """Numbers with scales of their own, in no order."""
    which = np.arange(3 * 1000) * 7 % 3
    values = drawn.laplace_each(list(SCALES[:3]), which, unit=1, label="audit")
    for place, scale in enumerate(SCALES[:3]):
        yield from _law_tests(("laplace", scale), values[which == place])


def _tail_tests(drawn: Noise) -> Iterator[tuple[str, Callable[[float], bool]]]:
    """Values near 0 and rare ones: on either side there must be neither too many nor too few. Of a
    small scale, each rare value is counted.
    """
    for law, size in (
        (("laplace", SMALL_SCALE), MOST),
        (("laplace", SCALES[2]), VERY_MANY),
        (("gaussian", VARIANCES[1]), VERY_MANY),
        (("gaussian", VARIANCES[2]), VERY_MANY),
    ):
        edges = [_edge(law, chance) for chance in RARE]
        tally = np.zeros(2 * edges[-1] + 1, np.int64)
        for _ in range(size // VERY_MANY):
            draw = drawn.laplace if law[0] == "laplace" else drawn.gaussian
            drawn_now = draw(law[1], VERY_MANY, unit=1, label="audit")
            places = np.clip(drawn_now, -edges[-1], edges[-1]) + edges[-1]
            tally += np.bincount(places, minlength=len(tally))
        what = f"{law[0]} noise of scale {_scale(law):.4g}"
        ranges = [(value, value) for value in NEAR] + [(edge, 10**15) for edge in edges]
        ranges += [(_edge(law, chance), 10**15) for chance in COMMON]
        if size == MOST:
            ranges += [(value, value) for value in range(edges[0], edges[-1])]
        for low, high in ranges:
            exact = _probability(law, low, high)
            sides = [("", tally[edges[-1] :]), ("-", tally[edges[-1] :: -1])]
            for sign, some in sides if high else sides[:1]:
                count = int(some[low : high + 1].sum())
                values = f"{sign}{low}" if low == high else f"{sign}{low} or beyond"
                where = f"where {exact * size:.1f} are expected"
                text = f"{what}: {count} of {size} values are {values}, {where}"
                yield text, _unlikely(count, size, exact)


def _edge(law: Law, chance: float) -> int:
    """The least value that is reached with at most this probability."""
    edge = 1
    while _probability(law, edge, 10**15) > chance:
        edge += 1
    return edge


def _unlikely(count: int, of: int, chance: float) -> Callable[[float], bool]:
    """Whether a binomial is as far out as this count with less than a given probability."""
    from scipy.stats import binom

    def fails(share: float) -> bool:
        few, many = binom.cdf(count, of, chance), binom.sf(count - 1, of, chance)
        return float(min(few, many)) < share / 2

    return fails


def _thin_tests(drawn: Noise) -> Iterator[tuple[str, Callable[[float], bool]]]:
    """Samples of events, of small and of large counts: how many are kept, and how that varies."""
    from scipy.stats import binom

    size = 500
    for count, keep in ((1, Fraction(1, 10)), (37, Fraction(1, 2)), (2**21 + 5, Fraction(1, 10))):
        kept = drawn.thin(np.full(size, count), keep, unit=1, label="audit")
        total, of = int(kept.sum()), size * count
        yield (
            f"a sample keeps {total} of {of} events with share {keep}",
            _unlikely(total, of, float(keep)),
        )
        edges = [int(binom.ppf(each, count, float(keep))) for each in (0.1, 0.3, 0.5, 0.7, 0.9)]
        for low, high in pairwise((-1, *dict.fromkeys(edges), count)):
            chance = float(binom.cdf(high, count, float(keep)) - binom.cdf(low, count, float(keep)))
            found = int(np.count_nonzero((kept > low) & (kept <= high)))
            what = f"{found} of {size} samples of {count} events with share {keep} keep {low + 1}"
            yield (
                f"{what} to {high}, where {chance * size:.1f} are expected",
                _unlikely(found, size, chance),
            )


def _repetitions(drawn: Noise) -> Iterator[str]:
    """Equal draws anywhere in one run. At this scale they are nearly impossible.

    Of n draws, n²/2 pairs are equal with probability at most 1/(4·scale) each. That is 5e-5 pairs
    for n = 15,000, so eight of them have a probability far below 1e-30.
    """
    for kind in ("laplace", "gaussian"):
        parts = []
        for unit in range(1, 6):
            drawn.refresh()
            for size in (FEW, MANY // 5, MANY // 20):
                if kind == "laplace":
                    parts.append(drawn.laplace(HUGE, size, unit=unit, label="audit"))
                else:
                    parts.append(drawn.gaussian(HUGE**2, size, unit=unit, label="audit"))
        values = np.abs(np.concatenate(parts))
        equal = len(values) - len(np.unique(values))
        if equal >= MOST_EQUAL:
            yield f"{equal} of {len(values)} draws of {kind} noise of scale 2**40 are repeated"


# -- tests -----------------------------------------------------------------------------------------


def _digit_tests(law: Law, values: IntArray) -> Iterator[tuple[str, Callable[[float], bool]]]:
    """Whether as many draws as expected are multiples of a number."""
    from scipy.stats import binom

    if law[0] == "gaussian" and _scale(law) < 2 * max(MODULI):
        return
    for modulus in MODULI:
        chance = 1 / modulus
        if law[0] == "laplace":
            q, power = math.exp(-1 / _scale(law)), math.exp(-modulus / _scale(law))
            chance = (1 - q) / (1 + q) * (1 + 2 * power / (1 - power))
        count = int(np.count_nonzero(values % modulus == 0))

        def fails(share: float, count: int = count, chance: float = chance) -> bool:
            few = float(binom.cdf(count, len(values), chance))
            many = float(binom.sf(count - 1, len(values), chance))
            return min(few, many) < share / 2

        what = f"{law[0]} noise of scale {_scale(law):.4g}"
        yield f"{what}: {count} of {len(values)} values are multiples of {modulus}", fails


def _probability(law: Law, low: int, high: int) -> float:
    """P(low ≤ X ≤ high) under this law."""
    from scipy.stats import norm

    kind, parameter = law
    if kind == "gaussian":
        deviation = math.sqrt(float(parameter))
        return float(norm.cdf((high + 0.5) / deviation) - norm.cdf((low - 0.5) / deviation))
    q = math.exp(-1 / float(parameter))

    def below(k: int) -> float:  # P(X ≤ k)
        return q**-k / (1 + q) if k < 0 else 1 - q ** (k + 1) / (1 + q)

    return below(high) - below(low - 1)


def _scale(law: Law) -> float:
    return math.sqrt(float(law[1])) if law[0] == "gaussian" else float(law[1])


def _law_tests(law: Law, values: IntArray) -> Iterator[tuple[str, Callable[[float], bool]]]:
    """Per cell of values, whether there are too many or too few; and far tails, and signs."""
    from scipy.stats import binom

    scale = _scale(law)
    width = max(1, round(8 * scale / CELLS))
    edges = [width * place + (width // 2) for place in range(-(CELLS // 2) - 1, CELLS // 2 + 1)]
    far = 10**15
    cells = [(-far, edges[0])] + [(low + 1, high) for low, high in pairwise(edges)]
    cells.append((edges[-1] + 1, far))
    what = f"{law[0]} noise of scale {scale:.4g}"
    for low, high in cells:
        chance = min(1.0, max(0.0, _probability(law, low, high)))
        count = int(np.count_nonzero((values >= low) & (values <= high)))

        def fails(share: float, count: int = count, chance: float = chance) -> bool:
            few = float(binom.cdf(count, len(values), chance))
            many = float(binom.sf(count - 1, len(values), chance))
            return min(few, many) < share / 2

        expected = chance * len(values)
        where = f"in {low}..{high}, where {expected:.1f} are expected"
        yield f"{what}: {count} of {len(values)} values lie {where}", fails


def _pair_tests(
    what: str, law: Law, one: IntArray, other: IntArray
) -> Iterator[tuple[str, Callable[[float], bool]]]:
    """Whether pairs are equal too often, or their signs go together."""
    from scipy.stats import binom

    size = len(one)
    if not size:
        return
    equal, chance = int(np.count_nonzero(one == other)), _collision(law)
    signs = int((np.sign(one) * np.sign(other)).sum())

    def too_equal(share: float) -> bool:
        return float(binom.sf(equal - 1, size, chance)) < share

    def together(share: float) -> bool:  # Hoeffding
        return 2 * math.exp(-(signs**2) / (2 * size)) < share

    noise = f"{law[0]} noise of scale {_scale(law):.4g}"
    yield f"{what}: {equal} of {size} pairs of {noise} are equal", too_equal
    yield f"{what}: the signs of {size} pairs of {noise} go together ({signs})", together


def _collision(law: Law) -> float:
    """The probability that two draws are equal, or a little more."""
    scale = _scale(law)
    reach = int(12 * scale) + 2
    if reach > 10**5:  # the density is nearly flat: its square is summed by its integral
        flat = 1 / (4 * scale) if law[0] == "laplace" else 1 / (2 * scale * math.sqrt(math.pi))
        return 1.001 * flat
    places = np.arange(-reach, reach + 1)
    if law[0] == "gaussian":
        weights = np.exp(-(places**2) / (2 * scale**2))
    else:
        weights = np.exp(-np.abs(places) / scale)
    total = float(weights.sum())
    return min(1.0, float((weights**2).sum()) / total**2 * 1.001)
