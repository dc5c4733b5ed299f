"""Observers at the gate of a run. They see what each draw of noise is added to.

In the first run they record it. In the second run they choose the noise with which the shipped code
gives the same answer, and add up the exact log-ratio of that answer. The gate itself is not
changed: its methods are called with the same arguments, and what they return is passed on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.hierarchy import Hierarchy
from penstock.core.private import Private, unseal
from penstock.core.released import Released
from penstock.lab.audit.replay.ledger_books import LedgerBooks
from penstock.lab.audit.replay.noise_choice import NoiseCall, exact_sum
from penstock.lab.audit.replay.probabilities import (
    Question,
    log_answers,
    log_layers,
    log_reached,
    log_sampled,
)
from penstock.lab.audit.replay.transcript_loss import TranscriptLoss
from penstock.lab.audit.replay.transcript_noise import TranscriptBrokenError, TranscriptNoise
from penstock.private.run import Run

MAX_FAULTS = 20
"""The most faults of one run that are kept."""


class NotJudgedError(Exception):
    """A replay cannot follow this use of the gate."""


@dataclass
class GateAnswer:
    """One answer of the gate: what noise was added to, and the noise.

    Parameters
    ----------
    kind : str
        The way in which the gate answered.
    unit : int
        The unit.
    label : str
        The label.
    raw : array of int
        The numbers without noise.
    calls : list
        The calls of the noise source, each with its noise.
    shown : tuple
        Public facts, which must be the same in both runs.
    """

    kind: str
    unit: int
    label: str
    raw: IntArray
    calls: list[tuple[NoiseCall, IntArray]] = field(default_factory=list)
    shown: tuple[Any, ...] = ()
    value: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    """What was released, for counters."""

    @property
    def call(self) -> NoiseCall:
        return self.calls[0][0]

    @property
    def noise(self) -> IntArray:
        return self.calls[0][1]


@dataclass
class OpenRun:
    """One run of the sparse vector technique: its questions in both runs, and its scales."""

    label: str
    threshold: Fraction | None
    question: Fraction
    asked: list[tuple[int, int, bool]] = field(default_factory=list)
    """Per question: threshold less statistic in the first and in the second run, and the answer."""

    unit: int = 0

    def settle(self, loss: TranscriptLoss, *, fine: bool) -> None:
        """Add the loss of all answers of the run."""
        if all(first == second for first, second, _ in self.asked):
            return
        one: list[Question] = [(first, yes) for first, _, yes in self.asked]
        other: list[Question] = [(second, yes) for _, second, yes in self.asked]
        first, second = (
            log_answers(each, self.threshold, self.question, fine=fine) for each in (one, other)
        )
        loss.add(self.unit, self.label, computed=first - second)


@dataclass(frozen=True)
class ReadNumbers:
    """Numbers that the gate opened, and by how much it believes that a person changes them."""

    unit: int
    sensitivity: int
    raw: IntArray


class TranscriptSide:
    """One of the two runs of a replay.

    Parameters
    ----------
    noise : TranscriptNoise
        Its source of noise.
    stream : array of int
        Its counts, units × keys.
    first : TranscriptSide, optional
        The run that is replayed. Default: this is the first.
    fine : bool
        Whether sums over the noise of a threshold are complete, not estimated. Default: True.
    """

    def __init__(
        self,
        noise: TranscriptNoise,
        stream: IntArray,
        first: TranscriptSide | None = None,
        *,
        fine: bool = True,
    ) -> None:
        self.fine = fine
        self.noise = noise
        self.stream = stream
        self.first = first
        self.answers: list[GateAnswer] = []
        self.faults: list[str] = []
        self.loss = TranscriptLoss()
        self.looks: dict[str, IntArray] = {}
        self.open: dict[tuple[str, int], OpenRun] = {}
        self._thresholds: dict[tuple[str, int], int] = {}
        self._past: dict[str, list[IntArray]] = {}
        self._counted: dict[str, IntArray] = {}
        self._primed: dict[str, GateAnswer] = {}
        self._nested = 0
        self._strays: list[IntArray] = []
        self.read: list[ReadNumbers] = []
        other = stream if first is None else first.stream
        self._present = (stream != other).any(axis=1)
        self.books: LedgerBooks | None = None
        self.nodes: dict[tuple[str, tuple[int, int]], IntArray] = {}
        """The noise of each node of a tree that was named."""
        self.pots: dict[str, tuple[int, Any]] = {}
        """Sensitivity and price of each pot."""
        self.before_decision: Callable[[], None] | None = None
        """What an intruder does before the first decision of this unit."""
        noise.stray = self._past_the_gate

    # -- the common part of all answers ------------------------------------------------------------

    def partner(
        self, kind: str, unit: int, label: str, shown: tuple[Any, ...]
    ) -> GateAnswer | None:
        """The answer of the first run at this place; None in the first run."""
        if self.first is None:
            return None
        place = len(self.answers)
        if place >= len(self.first.answers):
            self.break_off(f"unit {unit}: only one run asks the gate for {kind} {label!r}")
        found = self.first.answers[place]
        if (found.kind, found.unit, found.label) != (kind, unit, label):
            self.break_off(
                f"unit {unit}: one run asks the gate for {found.kind} {found.label!r} in unit "
                f"{found.unit}, the other for {kind} {label!r}"
            )
        if found.shown != shown:
            self.break_off(f"unit {unit}: the two runs ask the gate for another {kind} {label!r}")
        return found

    def break_off(self, why: str) -> None:
        self.noise.broken = self.noise.broken or why
        raise TranscriptBrokenError(why)

    @contextmanager
    def answering(
        self, kind: str, unit: int, label: str, raw: IntArray, shown: tuple[Any, ...] = ()
    ) -> Iterator[tuple[GateAnswer, GateAnswer | None]]:
        """One answer whose noise is added to `raw`."""
        if self.before_decision is not None and kind in ("laplace", "number"):
            intrude, self.before_decision = self.before_decision, None
            intrude()
        found = self.partner(kind, unit, label, shown)
        answer = GateAnswer(kind, unit, label, raw.copy(), shown=shown)
        self.answers.append(answer)
        outer = self.noise.purpose

        def purpose(call: NoiseCall, noise: IntArray) -> IntArray:
            if found is not None and not answer.calls and len(noise) == len(raw):
                noise = noise + (found.raw - raw)
            answer.calls.append((call, noise.copy()))
            return noise

        self.noise.purpose = purpose
        try:
            yield answer, found
        finally:
            self.noise.purpose = outer

    def _past_the_gate(self, call: NoiseCall, noise: IntArray) -> IntArray:
        """Noise that a mechanism draws by itself. A sum with it counts as if it were shown."""
        if call.kind == "thin":
            return noise
        place = len(self._strays)
        none = np.zeros(0, np.int64)
        self._strays.append(none)

        def moved(raw: IntArray) -> IntArray:
            first = self.first
            self._strays[place] = raw.copy()
            if first is None or place >= len(first._strays) or raw.dtype.kind not in "iu":
                return noise
            there = first._strays[place]
            if there.shape != raw.shape or raw.shape != noise.shape:
                return noise
            now = noise + (there - raw)
            if call.kind == "gaussian":
                squares = sum(each * each for each in (there - raw).tolist())
                self.loss.add(call.unit, call.label, rho=Fraction(squares) / (2 * call.laws[0]))
            else:
                apart = exact_sum(call, np.abs(now) - np.abs(noise))
                self.loss.add(call.unit, call.label, exact=apart)
            return now

        return noticing(noise, moved)

    def note_read(self, unit: int, sensitivity: int, raw: IntArray, units: int = 1) -> None:
        """Compare numbers that are opened with those of the first run.

        Parameters
        ----------
        unit : int
            The unit.
        sensitivity : int
            By how much the gate believes that a person changes them, in one unit.
        raw : array of int
            The numbers.
        units : int
            In how many units the person could change them. Default: 1.
        """
        self.read.append(ReadNumbers(unit, sensitivity, raw.copy()))
        if self.first is None or len(self.read) > len(self.first.read):
            return
        there = self.first.read[len(self.read) - 1]
        if there.unit != unit or there.raw.shape != raw.shape:
            return
        apart = sum(map(abs, (there.raw - raw).tolist()))
        if apart > sensitivity * units and len(self.faults) < MAX_FAULTS:
            self.faults.append(
                f"unit {unit}: a person changes numbers by {apart} in all, and the gate believes "
                f"by {sensitivity * units} at most"
            )

    def present(self, unit: int) -> bool:
        """Whether the person is there in a unit."""
        return bool(self._present[unit - 1])

    def days(self, unit: int) -> int:
        """In how many units up to this one the person is there."""
        return int(self._present[:unit].sum())

    def fault(self, answer: GateAnswer, what: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(f"unit {answer.unit}: {what} for {answer.label!r}")

    def check_sums(self, answer: GateAnswer, value: IntArray, limit: int) -> None:
        """Each released number must be its count plus a draw of its own."""
        if len(answer.calls) != 1 or len(answer.noise) != len(answer.raw):
            drawn = sum(call.size for call, _ in answer.calls)
            self.fault(answer, f"{drawn} draws of noise for {len(answer.raw)} numbers")
            return
        wanted = np.clip(answer.raw + answer.noise, -limit, limit)
        if not np.array_equal(wanted, value):
            self.fault(answer, "a released number is not its count plus its own noise")

    def check_rest(self, answer: GateAnswer, value: IntArray, places: IntArray) -> None:
        """Numbers that are not asked for must be released as 0."""
        rest = value.copy()
        rest[places] = 0
        if rest.any():
            self.fault(answer, "a number outside of the mask is released")

    def add_laplace(self, answer: GateAnswer, found: GateAnswer | None) -> None:
        if found is not None and self._nested == 0 and len(answer.calls) == 1:
            apart = np.abs(answer.noise) - np.abs(found.noise)
            self.loss.add(answer.unit, answer.label, exact=exact_sum(answer.call, apart))

    def add_gaussian(self, answer: GateAnswer, found: GateAnswer | None) -> None:
        if found is not None and len(answer.calls) == 1:
            squares = sum(each * each for each in (answer.raw - found.raw).tolist())
            rho = Fraction(squares) / (2 * answer.call.laws[0])
            self.loss.add(answer.unit, answer.label, rho=rho)

    def settle(self) -> None:
        """Add the loss of all runs of questions that are still open."""
        for each in self.open.values():
            each.settle(self.loss, fine=self.fine)
        self.open.clear()


class _NoticingNoise(np.ndarray[Any, np.dtype[np.int64]]):
    """Noise that notes which numbers it is added to."""

    added_to: Callable[[IntArray], IntArray] | None = None
    """Gets the numbers that the noise is added to, and gives the noise to add."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **more: Any) -> Any:
        plain = [np.asarray(each).view(np.ndarray) for each in inputs]
        if ufunc is np.add and method == "__call__" and self.added_to is not None:
            other = plain[1] if inputs[0] is self else plain[0]
            added_to, self.added_to = self.added_to, None
            return other + added_to(other)
        out = more.pop("out", None)
        if out is not None:
            more["out"] = tuple(each.view(np.ndarray) for each in out)
        return getattr(ufunc, method)(*plain, **more)


def noticing(noise: IntArray, added_to: Callable[[IntArray], IntArray]) -> IntArray:
    """Noise that tells which numbers it is added to first.

    Parameters
    ----------
    noise : array of int
        The noise.
    added_to : callable
        Gets these numbers, and gives the noise that is added in the end.

    >>> met = []
    >>> noise = noticing(np.array([5]), lambda numbers: met.append(numbers) or np.array([7]))
    >>> (np.array([1]) + noise).tolist(), met
    ([8], [array([1])])
    """
    given = noise.copy().view(_NoticingNoise)
    given.added_to = added_to
    return given


def observe(run: Run, side: TranscriptSide) -> None:
    """Put the observers of a side at the gate of a run.

    Parameters
    ----------
    run : Run
        A run that has just been made or restored.
    side : TranscriptSide
        The side that it belongs to.
    """
    gate = run._gate
    for owner, name, make in (
        (gate._maker, "check_fresh", _check_fresh),
        (gate._maker, "noisy", _noisy),
        (gate._maker, "noisy_number", _noisy_number),
        (gate._maker, "noisy_gaussian", _noisy_gaussian),
        (gate, "sampled", _sampled),
        (gate, "split", _split),
        (gate.runs, "ask", _ask),
        (gate.runs, "close", _close),
        (gate.counters, "prime", _prime),
        (gate.counters, "count", _count),
        (gate.counters, "read", _read),
        (gate.counters, "forget", _forget),
        (gate.counters, "disturb", _disturb),
        (gate.trees, "window_sum", _window_sum),
        (gate.convolutions, "weighted_sum", _weighted_sum),
    ):
        setattr(owner, name, make(getattr(owner, name), run, side))


def _places(where: BoolArray | None, size: int) -> IntArray:
    return np.arange(size) if where is None else np.flatnonzero(where)


def _check_fresh(shipped: Any, run: Run, side: TranscriptSide) -> Any:
    """Numbers of this unit that the gate opens. A person changes them in their own units only."""

    def check_fresh(x: Private) -> IntArray:
        raw: IntArray = shipped(x)
        unit = run._gate.unit
        side.note_read(unit, x.sensitivity, raw, int(side.present(unit)))
        return raw

    return check_fresh


# -- noise now -------------------------------------------------------------------------------------


def _noisy(shipped: Any, run: Run, side: TranscriptSide) -> Any:
    maker = run._gate._maker

    def noisy(raw: IntArray, scale: Any, label: str, where: BoolArray | None) -> Released:
        places = _places(where, len(raw))
        shown = (len(raw), places.tobytes())
        with side.answering("laplace", maker.unit, label, raw[places], shown) as (answer, found):
            released: Released = shipped(raw, scale, label, where)
        side.check_sums(answer, released.value[places], maker.limit)
        side.check_rest(answer, released.value, places)
        side.add_laplace(answer, found)
        return released

    return noisy


def _noisy_number(shipped: Any, run: Run, side: TranscriptSide) -> Any:
    maker = run._gate._maker

    def noisy_number(raw: IntArray, scale: Any, label: str) -> int:
        with side.answering("number", maker.unit, label, raw) as (answer, found):
            value: int = shipped(raw, scale, label)
        side.check_sums(answer, np.array([value]), maker.limit)
        side.add_laplace(answer, found)
        return value

    return noisy_number


def _noisy_gaussian(shipped: Any, run: Run, side: TranscriptSide) -> Any:
    maker = run._gate._maker

    def noisy_gaussian(raw: IntArray, noise: Any, label: str, where: BoolArray | None) -> Released:
        places = _places(where, len(raw))
        shown = (len(raw), places.tobytes())
        with side.answering("gaussian", maker.unit, label, raw[places], shown) as (answer, found):
            released: Released = shipped(raw, noise, label, where)
        side.check_sums(answer, released.value[places], maker.limit)
        side.check_rest(answer, released.value, places)
        side.add_gaussian(answer, found)
        return released

    return noisy_gaussian


def _sampled(shipped: Any, run: Run, side: TranscriptSide) -> Any:
    """A sample of the counts with noise. Only the sum is shown, so the sample is summed over."""

    def sampled(x: Private, *, keep: Fraction, epsilon: Any, label: str) -> Released:
        counts, unit = unseal(x), run._gate.unit
        found = side.partner("sample", unit, label, (len(counts),))
        answer = GateAnswer("sample", unit, label, counts.copy(), shown=(len(counts),))
        side.answers.append(answer)

        def purpose(call: NoiseCall, sample: IntArray) -> IntArray:
            answer.calls.append((call, sample.copy()))
            return sample

        side.noise.purpose, outer = purpose, side.noise.purpose
        side._nested += 1
        try:
            released: Released = shipped(x, keep=keep, epsilon=epsilon, label=label)
        finally:
            side.noise.purpose = outer
            side._nested -= 1
        inner = side.answers[-1]
        drawn = bool(answer.calls) and answer.call.kind == "thin"
        if not drawn or not np.array_equal(inner.raw, np.minimum(answer.noise, counts)):
            side.fault(answer, "a number that is not of a sample that was drawn")
        elif found is not None:
            share = float(answer.call.laws[0])
            for key in np.flatnonzero(found.raw != counts).tolist():
                value, scale = int(released.value[key]), float(inner.call.scale_of(key))
                first, second = (
                    log_sampled(value, int(count[key]), share, scale)
                    for count in (found.raw, counts)
                )
                side.loss.add(unit, label, computed=first - second)
        return released

    return sampled


def _split(shipped: Any, run: Run, side: TranscriptSide) -> Any:
    """Which nodes are split. Only nodes whose parent is split are shown."""

    def split(x: Private, tree: Hierarchy, *, threshold: int, label: str, **how: Any) -> BoolArray:
        unit, shown = run._gate.unit, (threshold, tree.size)
        found = side.partner("split", unit, label, shown)
        met: list[IntArray] = []
        reached: list[IntArray] = []
        answer = GateAnswer("split", unit, label, np.zeros(0, np.int64), shown=shown)
        side.answers.append(answer)

        def purpose(call: NoiseCall, noise: IntArray) -> IntArray:
            def moved(scores: IntArray) -> IntArray:
                met.append(scores.copy())
                here = noise
                if found is not None and len(scores) == len(found.raw):
                    here = noise + (found.raw - scores)
                reached.append(scores + here)
                return here

            answer.calls.append((call, noise.copy()))
            return noticing(noise, moved)

        side.noise.purpose, outer = purpose, side.noise.purpose
        try:
            answers: BoolArray = shipped(x, tree, threshold=threshold, label=label, **how)
        finally:
            side.noise.purpose = outer
        inner = np.flatnonzero(tree.inner)
        sizes = {len(each) for each in met} | {len(each) for _, each in answer.calls}
        if len(answer.calls) != 1 or len(met) != 1 or sizes != {len(inner)}:
            side.fault(answer, "a tree whose nodes do not have a draw each")
            return answers
        if not np.array_equal(answers, _splits(reached[0], tree, threshold)):
            side.fault(answer, "a split is not that of the scores with their noise")
        law, kappa = float(answer.call.laws[0]), int(how.get("kappa", 2))
        if not _are_scores(met[0], unseal(x), tree, threshold, law * math.log(kappa)):
            side.fault(answer, "the scores of nodes are not those of the rule")
        answer.raw = met[0]
        if found is not None:
            parents = tree.parents[inner]
            visited = (tree.depths[inner] == 0) | answers[parents]
            scale = float(answer.call.laws[0])
            for place in np.flatnonzero(visited & (found.raw != answer.raw)).tolist():
                yes = bool(answers[inner[place]])
                first, second = (
                    _log_split(int(scores[place]), threshold, scale, yes=yes)
                    for scores in (found.raw, answer.raw)
                )
                side.loss.add(unit, label, computed=first - second)
        return answers

    return split


def _splits(reached: IntArray, tree: Hierarchy, threshold: int) -> BoolArray:
    """The nodes whose noisy score is above the threshold, as all of their ancestors' are."""
    splits: BoolArray = np.zeros(len(tree.inner), np.bool_)
    splits[tree.inner] = reached > threshold
    for level in tree.slices[1:]:
        splits[level] &= splits[tree.parents[level]]
    return splits


def _are_scores(
    scores: IntArray, raw: IntArray, tree: Hierarchy, threshold: int, decay: float
) -> bool:
    """Whether a node's score is its total, less the decay of each level, and not below the floor.

    The decay is rounded up, from a bound that may be a little larger.
    """
    totals = tree.nodes.totals(np.maximum(raw, 0))
    least = math.ceil(decay * (1 - 1e-9))
    for step in range(least, math.ceil(decay * (1 + 1e-3)) + 2):
        wanted = np.maximum(threshold - step, totals - tree.depths * step)[tree.inner]
        if np.array_equal(wanted, scores):
            return True
    return False


def _log_split(score: int, threshold: int, scale: float, *, yes: bool) -> float:
    needed = threshold + 1 - score
    return float(log_reached(np.array([needed if yes else 1 - needed], np.float64), scale)[0])


# -- questions -------------------------------------------------------------------------------------


def _ask(shipped: Any, run: Run, side: TranscriptSide) -> Any:
    """Answers of the sparse vector technique: their probability is that of the whole run."""
    runs = run._gate.runs

    def ask(
        name: str,
        statistic: Private,
        *,
        threshold: int | IntArray,
        price: Any,
        where: BoolArray | None = None,
    ) -> BoolArray:
        numbers, unit = unseal(statistic), run._gate.unit
        size = len(numbers)
        places = _places(where, size)
        bounds = np.broadcast_to(np.asarray(threshold, np.int64), (size,))
        shown = (size, places.tobytes(), bounds.tobytes())
        held = runs._runs.get(name)
        begun = np.zeros(size, np.bool_) if held is None else held.open.copy()
        found = side.partner("question", unit, name, shown)
        if side.first is None or found is not None:
            days = side.days(unit) if statistic.fold else int(side.present(unit))
            side.note_read(unit, statistic.sensitivity, numbers[places], days)
        answer = GateAnswer("question", unit, name, numbers.copy(), shown=shown)
        side.answers.append(answer)

        def purpose(call: NoiseCall, noise: IntArray) -> IntArray:
            if found is not None and call.label.startswith(f"{name}.question"):
                noise = noise + (found.raw - numbers)[places]
            answer.calls.append((call, noise.copy()))
            return noise

        side.noise.purpose, outer = purpose, side.noise.purpose
        try:
            answers: BoolArray = shipped(
                name, statistic, threshold=threshold, price=price, where=where
            )
        finally:
            side.noise.purpose = outer
        starting = [place for place in places.tolist() if not begun[place]]
        sizes = [call.size for call, _ in answer.calls]
        if sizes != [len(starting), len(places)]:
            side.fault(answer, f"{sizes} draws, not {len(starting)} and {len(places)},")
            return answers
        for place, noise in zip(starting, answer.calls[0][1].tolist(), strict=True):
            side._thresholds[name, place] = noise
        _check_answers(side, answer, answers, places, bounds)
        if found is not None:
            _note_questions(side, answer, found, answers, places, bounds, starting)
            if not statistic.cover.every:
                _end_runs(side, name, np.flatnonzero(answers))
        return answers

    return ask


def _check_answers(
    side: TranscriptSide, answer: GateAnswer, answers: BoolArray, places: IntArray, bounds: IntArray
) -> None:
    """Each answer must be that of the statistic, the threshold and their noise."""
    kept = np.array([side._thresholds.get((answer.label, place), 0) for place in places.tolist()])
    asked = answer.raw[places] + answer.calls[1][1] >= bounds[places] + kept
    wanted = np.zeros(len(answers), np.bool_)
    wanted[places] = asked
    if not np.array_equal(wanted, answers):
        side.fault(answer, "an answer is not that of the statistic and the threshold with noise")


def _note_questions(
    side: TranscriptSide,
    answer: GateAnswer,
    found: GateAnswer,
    answers: BoolArray,
    places: IntArray,
    bounds: IntArray,
    starting: list[int],
) -> None:
    name = answer.label
    threshold, question = answer.calls[0][0].laws[0], answer.calls[1][0].laws[0]
    for place in starting:
        ended = side.open.pop((name, place), None)
        if ended is not None:
            ended.settle(side.loss, fine=side.fine)
        side.open[name, place] = OpenRun(name, threshold, question)
    for place in places.tolist():
        kept = side.open.get((name, place))
        if kept is None:  # the shipped code says that it is open, but no threshold was ever drawn
            kept = side.open[name, place] = OpenRun(name, None, question)
        bound = int(bounds[place])
        apart = (bound - int(found.raw[place]), bound - int(answer.raw[place]))
        kept.asked.append((*apart, bool(answers[place])))
        if apart[0] != apart[1]:
            kept.unit = answer.unit


def _end_runs(side: TranscriptSide, name: str, places: IntArray) -> None:
    for place in places.tolist():
        ended = side.open.pop((name, place), None)
        if ended is not None:
            ended.settle(side.loss, fine=side.fine)


def _close(shipped: Any, run: Run, side: TranscriptSide) -> Any:
    def close(name: str, *, where: BoolArray | None = None) -> None:
        shipped(name, where=where)
        known = [place for label, place in side.open if label == name]
        _end_runs(side, name, np.array([p for p in known if where is None or where[p]], np.int64))

    return close


# -- counters of pan-private mechanisms ------------------------------------------------------------


def _prime(shipped: Any, run: Run, side: TranscriptSide) -> Any:
    def prime(counter: str, **how: Any) -> None:
        unit, size = run._gate.unit, int(how["size"])
        none = np.zeros(size, np.int64)
        with side.answering("counter", unit, counter, none, (size,)) as (answer, _):
            shipped(counter, **how)
        side._primed[counter] = answer
        side._counted[counter] = none
        if len(answer.calls) != 1 or len(answer.noise) != size:
            side.fault(answer, "a counter whose numbers do not have a draw each")
        elif not np.array_equal(run._gate.counters._held[counter].total, answer.noise):
            side.fault(answer, "a counter that does not begin with its noise")

    return prime


def _count(shipped: Any, run: Run, side: TranscriptSide) -> Any:
    def count(counter: str, x: Private) -> None:
        shipped(counter, x)
        side._counted[counter] = side._counted[counter] + unseal(x)

    return count


def _looks_come_unannounced(run: Run) -> bool:
    """Whether a look that nobody hears of may come while counters stand in memory."""
    parts = run.mechanism.incremental()
    return parts is not None and parts.in_parts and run.guarantee.intrusion.unannounced


def _read(shipped: Any, run: Run, side: TranscriptSide) -> Any:
    """A counter that is released. Memory that nobody saw is summed over."""
    counters, limit = run._gate.counters, run._gate._maker.limit

    def read(counter: str, *, again: bool) -> Released:
        unit, primed = run._gate.unit, side._primed.pop(counter)
        held, counted = counters._held[counter], side._counted.pop(counter)
        found = side.partner("read", unit, counter, (again, held.layers))
        answer = GateAnswer("read", unit, counter, counted, shown=(again, held.layers))
        side.answers.append(answer)
        before = held.total.copy()
        if not again and not held.disturbed and _looks_come_unannounced(run):
            side.fault(answer, "a counter that a look may have seen is released as it is")
        if counter not in side.looks and not np.array_equal(before, primed.noise + counted):
            side.fault(answer, "a counter is not its noise plus what was counted")
        if found is not None and not again and counter not in side.looks:
            held.total += found.value - before

        def purpose(call: NoiseCall, noise: IntArray) -> IntArray:
            if found is not None:
                noise = found.value - before
            answer.calls.append((call, noise.copy()))
            return noise

        side.noise.purpose, outer = purpose, side.noise.purpose
        try:
            released: Released = shipped(counter, again=again)
        finally:
            side.noise.purpose = outer
        answer.value = released.value.copy()
        wanted = before + answer.noise if answer.calls else answer.value
        if not np.array_equal(answer.value, np.clip(wanted, -limit, limit)):
            side.fault(answer, "a released counter is not its content plus its own noise")
        answer.calls = answer.calls or primed.calls
        if len(answer.calls) != 1 or len(answer.noise) != len(counted):
            side.fault(answer, "a counter whose numbers do not have a draw each")
        elif found is not None:
            layers = held.layers + again
            _add_counter(side, answer, found, layers, counter)
        return released

    return read


def _add_counter(
    side: TranscriptSide, answer: GateAnswer, found: GateAnswer, layers: int, counter: str
) -> None:
    """The loss of a counter: what a look saw, and what is released beyond that."""
    scale, value = float(answer.call.laws[0]), answer.value
    assert side.first is not None
    seen = side.looks.get(counter)
    one, other = found.raw, answer.raw
    if seen is not None:
        before = side.first.looks[f"{counter}.counted"], side.looks[f"{counter}.counted"]
        one, other, layers = one - before[0] + seen, other - before[1] + seen, layers - 1
    if not layers:
        return
    differ = one != other
    apart = log_layers(value[differ] - one[differ], scale, layers) - log_layers(
        value[differ] - other[differ], scale, layers
    )
    if apart.size:
        side.loss.add(answer.unit, counter, computed=float(apart.sum()))


def _forget(shipped: Any, run: Run, side: TranscriptSide) -> Any:
    def forget(counter: str) -> None:
        shipped(counter)
        side._primed.pop(counter, None)
        side._counted.pop(counter, None)

    return forget


def _disturb(shipped: Any, run: Run, side: TranscriptSide) -> Any:
    def disturb() -> None:
        raise NotJudgedError("announced looks are not replayed")

    return disturb


def look(run: Run, side: TranscriptSide) -> None:
    """Look into the counters of a run, within a unit, and force them to be those of the first run.

    Parameters
    ----------
    run : Run
        The run.
    side : TranscriptSide
        Its side.
    """
    for counter, held in run._gate.counters._held.items():
        counted = side._counted[counter]
        side.looks[f"{counter}.counted"] = counted
        if side.first is not None:
            seen = side.first.looks[counter]
            noise = seen - counted
            primed = side._primed[counter]
            before = seen - side.first.looks[f"{counter}.counted"]
            apart = np.abs(noise) - np.abs(before)
            side.loss.add(primed.unit, f"{counter} in memory", exact=exact_sum(primed.call, apart))
            held.total[:] = seen
        side.looks[counter] = held.total.copy()


# -- noise before data -----------------------------------------------------------------------------


def _window_sum(shipped: Any, run: Run, side: TranscriptSide) -> Any:
    """Window sums. A node counts as shown, with the noise that stands for its sum."""

    def window_sum(label: str, x: Private, *, nodes: Any, **how: Any) -> Released:
        raw, unit = unseal(x), run._gate.unit
        if not np.array_equal(raw, side.stream[unit - 1]):
            raise NotJudgedError("window sums of other numbers than the counts are not replayed")
        held = run._gate.trees._held.get(label)
        known = {} if held is None else held.noise
        fresh = [node for node in (*nodes.plus, *nodes.minus) if node not in known]
        sums = np.zeros((len(fresh), len(raw)), np.int64)
        for place, (level, first) in enumerate(fresh):
            sums[place] = side.stream[first : first + nodes.sizes[level]].sum(axis=0)
        shown = (len(raw), repr(nodes))
        with side.answering("nodes", unit, label, sums.ravel(), shown) as (answer, found):
            released: Released = shipped(label, x, nodes=nodes, **how)
        if fresh:
            if len(answer.calls) != 1 or len(answer.noise) != sums.size:
                side.fault(answer, "nodes that do not have a draw each")
                return released
            side.add_laplace(answer, found)
            rows = answer.noise.reshape(sums.shape)
            side.nodes.update(((label, node), row) for node, row in zip(fresh, rows, strict=True))
        value = side.stream[max(unit - int(how["span"]), 0) : unit].sum(axis=0)
        for sign, some in ((1, nodes.plus), (-1, nodes.minus)):
            for node in some:
                value = value + sign * side.nodes[label, node]
        limit = run._gate._maker.limit
        if not np.array_equal(np.clip(value, -limit, limit), released.value):
            side.fault(answer, "a released sum is not that of the window and of its nodes' noise")
        return released

    return window_sum


def _weighted_sum(shipped: Any, run: Run, side: TranscriptSide) -> Any:
    def weighted_sum(
        label: str, x: Private, *, coefficients: IntArray, anew: bool = False, **how: Any
    ) -> Released:
        raw, unit = unseal(x), run._gate.unit
        past = side._past.setdefault(label, [])
        if anew:
            past.clear()
        past.append(raw.copy())
        newest = past[::-1][: len(coefficients)]
        value = sum(
            (int(weight) * row for weight, row in zip(coefficients, newest, strict=False)),
            np.zeros(len(raw), np.int64),
        )
        if side.books is not None:
            side.books.unusual.add(label)  # the charge is for a person in every unit
        shown = (len(raw), coefficients.tobytes(), anew)
        with side.answering("sum", unit, label, value, shown) as (answer, found):
            released: Released = shipped(label, x, coefficients=coefficients, anew=anew, **how)
        side.check_sums(answer, released.value, 2**61)
        side.add_gaussian(answer, found)
        return released

    return weighted_sum
