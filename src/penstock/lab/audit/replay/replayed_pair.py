"""One replay: a transcript of the first stream, forced on the second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import BudgetError
from penstock.core.snapshot_piece import Piece
from penstock.lab.audit.model import Pair
from penstock.lab.audit.replay.gate_observers import (
    NotJudgedError,
    TranscriptSide,
    look,
    observe,
)
from penstock.lab.audit.replay.ledger_books import LedgerBooks
from penstock.lab.audit.replay.ledger_probe import probe
from penstock.lab.audit.replay.noise_choice import NoiseChoice
from penstock.lab.audit.replay.noise_prices import watch_prices
from penstock.lab.audit.replay.observation import (
    ObservedUnit,
    all_logged,
    differing,
    overheard,
    told,
)
from penstock.lab.audit.replay.state_copy import deep_copy
from penstock.lab.audit.replay.transcript_loss import TranscriptLoss
from penstock.lab.audit.replay.transcript_noise import TranscriptBrokenError, TranscriptNoise
from penstock.private import state
from penstock.private.mechanisms.base import Mechanism
from penstock.private.run import Run
from penstock.testing import intrude

MAX_DIFFERENCES = 20
"""The most differences of one replay that are kept."""

SMALL_PIECE = 64
"""The bytes of a piece of a snapshot, so that few keys already need several."""


@dataclass(frozen=True)
class ReplayTrial:
    """A mechanism, its claim and a pair of streams; where the runs are saved and restored.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    domain : Domain
        The keys.
    pair : Pair
        The two streams.
    claimed : Fraction
        The ε that is claimed.
    delta : Fraction
        The δ that is claimed. Default: 0.
    restarts : frozenset of int
        After these units both runs are saved and restored. Default: none.
    """

    mechanism: Mechanism[Any]
    domain: Domain
    pair: Pair
    claimed: Fraction
    delta: Fraction = Fraction(0)
    restarts: frozenset[int] = frozenset()

    @property
    def signs(self) -> tuple[int, ...]:
        """Per unit, the side to which the first stream lies."""
        apart = (self.pair.left - self.pair.right).sum(axis=1)
        return tuple(np.where(apart < 0, -1, 1).tolist())

    @property
    def units(self) -> frozenset[int]:
        """The units in which the two streams differ."""
        differ = (self.pair.left != self.pair.right).any(axis=1)
        return frozenset((np.flatnonzero(differ) + 1).tolist())


@dataclass
class Replayed:
    """What one replay found.

    Parameters
    ----------
    loss : TranscriptLoss
        The loss of the transcript.
    violations : list of str
        What differs besides forced draws, and what is against the rules of the gate.
    failed : str
        The error that ended both runs in the same way, or nothing.
    refused : bool
        Whether that error was a refusal of the ledger.
    calls : tuple of (int, str)
        The unit and label of each call for noise.
    """

    loss: TranscriptLoss = field(default_factory=TranscriptLoss)
    violations: list[str] = field(default_factory=list)
    failed: str = ""
    refused: bool = False
    calls: tuple[tuple[int, str], ...] = ()


def replay(trial: ReplayTrial, choice: NoiseChoice, *, fine: bool = True) -> Replayed:
    """Run the first stream with chosen noise, and force its transcript on the second.

    Parameters
    ----------
    trial : ReplayTrial
        What is replayed.
    choice : NoiseChoice
        The noise of the first run.
    fine : bool
        Whether probabilities that are sums are complete, not estimated. Default: True.

    >>> from penstock.private.mechanisms.uniform import Uniform
    >>> pair = Pair("one event", np.array([[1]]), np.array([[0]]))
    >>> mechanism = Uniform(epsilon="2", window=1)
    >>> trial = ReplayTrial(mechanism, Domain.of(1), pair, Fraction(2))
    >>> found = replay(trial, NoiseChoice(seed=1))
    >>> found.loss.exact, found.violations
    (Fraction(2, 1), [])
    """
    pair = trial.pair
    one = TranscriptSide(TranscriptNoise(choice), pair.left)
    first = _follow(trial, one, pair.left)
    other = TranscriptSide(TranscriptNoise(choice, one.noise.given), pair.right, one, fine=fine)
    second = _follow(trial, other, pair.right)
    other.settle()
    found = Replayed(other.loss, calls=tuple((c.unit, c.label) for c, _ in one.noise.given))
    found.violations.extend(one.faults or ([] if other.noise.broken else other.faults))
    whole = other.noise.broken is None and "error" not in first[-1].shown
    if whole and one.books is not None:
        found.violations.extend(one.books.unpaid(other.loss, trial.units))
    found.violations.extend(
        f"unit {call.unit}: noise for {call.label!r} was drawn past the gate, and nobody was "
        "charged for it"
        for call in one.noise.past_the_gate[:1]
    )
    if other.noise.broken is not None:
        found.violations.append(other.noise.broken)
        second.pop()  # the unit in which the transcript broke
    _compare(first, second, found)
    if other.noise.broken is None and len(one.noise.given) > len(other.noise.given):
        missing = one.noise.given[len(other.noise.given)][0]
        found.violations.append(f"unit {missing.unit}: only one run draws for {missing.label!r}")
    return found


def _compare(first: list[ObservedUnit], second: list[ObservedUnit], found: Replayed) -> None:
    for here, there in zip(first, second, strict=False):
        for difference in here.differences(there):
            if len(found.violations) < MAX_DIFFERENCES:
                found.violations.append(f"{difference} differs")
    if len(first) != len(second) and not found.violations:
        found.violations.append("one run ends before the other")
    last = first[-1].shown
    if "error" in last and not found.violations:
        found.failed, found.refused = f"unit {first[-1].unit}: {last['error']}", last["refused"]


def _follow(
    trial: ReplayTrial, side: TranscriptSide, stream: IntArray, *, probed: bool = False
) -> list[ObservedUnit]:
    """All units of one stream, until an error ends them.

    With `probed`, copies of the run are charged until their ledger refuses, after each restart.
    """
    with all_logged():  # the listeners of each unit are set up faster inside
        return _followed(trial, side, stream, probed=probed)


def _followed(
    trial: ReplayTrial, side: TranscriptSide, stream: IntArray, *, probed: bool
) -> list[ObservedUnit]:
    shown: list[ObservedUnit] = []
    run = _observed(trial, side, None)
    for unit, counts in enumerate(stream, start=1):
        now = ObservedUnit(unit)
        shown.append(now)
        restart = unit - 1 in trial.restarts
        try:
            with overheard(now.shown):
                if restart:
                    run = _restarted(trial, side, run, now)
                    if probed and side.books is not None:
                        copy = trial.mechanism.run(trial.domain, noise=side.noise)
                        copy.load(run.snapshot())
                        rng = np.random.default_rng(unit)
                        side.faults.extend(probe(copy, side.books, rng))
                _one_unit(trial, side, run, unit, counts, now)
        except (NotJudgedError, KeyboardInterrupt, MemoryError):
            raise
        except TranscriptBrokenError:
            break
        except BaseException as error:  # a plug-in may raise anything
            now.shown["error"] = f"{type(error).__name__}: {error}"
            now.shown["error's facts"] = told(error)
            now.shown["refused"] = isinstance(error, BudgetError)
            break
        side.before_decision = None
        side.looks = side.looks if side.first is None else {}
    return shown


def _observed(trial: ReplayTrial, side: TranscriptSide, snapshot: bytes | None) -> Run:
    run = trial.mechanism.run(trial.domain, noise=side.noise)
    if snapshot is not None:
        run.load(snapshot)
    if side.books is None:
        side.books = LedgerBooks(run.guarantee, run.mechanism.grid.quantum)
    observe(run, side)
    if side.first is None:
        watch_prices(run, side)
    return run


def _restarted(trial: ReplayTrial, side: TranscriptSide, run: Run, now: ObservedUnit) -> Run:
    """The run after a restart, and what a store shows of its snapshot.

    That is its size class, the power of two below its size: within a class, sizes may differ,
    because raw counts of open groups that lie far apart take more room. And a store leaves out
    pieces that it has, so everybody may tell whether a piece that is compared is still the same.
    """
    snapshot = run.snapshot()
    now.shown["size class of the snapshot"] = len(snapshot).bit_length()
    now.shown["pieces that a store compares"] = {
        name: piece.digest for name, piece in _in_small_pieces(run).items() if piece.compared
    }
    return _observed(trial, side, snapshot)


def _in_small_pieces(run: Run) -> Mapping[str, Piece]:
    """The pieces of a snapshot of a run with few keys, whose arrays are smaller than a piece."""
    usual = state.PIECE_BYTES
    state.PIECE_BYTES = SMALL_PIECE
    try:
        return run.snapshot_in_pieces().pieces
    finally:
        state.PIECE_BYTES = usual


def _one_unit(
    trial: ReplayTrial,
    side: TranscriptSide,
    run: Run,
    unit: int,
    counts: IntArray,
    now: ObservedUnit,
) -> None:
    seen = trial.pair.look
    looked = seen is not None and seen.unit == unit
    if looked and seen is not None and not seen.after:
        part = seen.left if side.first is None else seen.right
        parts = trial.mechanism.incremental()
        if parts is not None and parts.in_parts:
            run.feed(part)
            look(run, side)
            counts = counts - part
        else:  # it takes whole units: the look is before its first decision
            side.before_decision = lambda: look(run, side)
    released = run.step(counts)
    now.shown["release"] = released
    lines = [line for line in run._lines if line.unit == unit]
    now.shown["ledger"] = lines
    now.shown["cost"] = run.cost.quanta
    if side.first is None and side.books is not None:
        side.faults.extend(side.books.enter(unit, lines, run.cost.quanta))
    now.shown["state"] = _copied(run)
    now.shown["what the run shows"] = repr(run)
    if looked and seen is not None and seen.after:
        now.shown["memory"] = intrude(run)


def _copied(run: Run) -> Any:
    """The state, which may be changed in place. Keys and promise are public and never change."""
    state = run._state
    held = [each for each in getattr(state, "__dict__", {}).values() if isinstance(each, Domain)]
    public = (run.domain, run.released, run.guarantee, run.mechanism, *held)
    return deep_copy(state, {id(each): each for each in public})


def same_after_a_restart(trial: ReplayTrial, choice: NoiseChoice) -> list[str]:
    """What a restart changes on the first stream, with the same noise: nothing, or violations.

    After each restart the ledger is probed, too.

    Parameters
    ----------
    trial : ReplayTrial
        A trial with restarts.
    choice : NoiseChoice
        The noise.
    """
    found = []
    sides = []
    for restarts in (frozenset[int](), trial.restarts):
        each = ReplayTrial(
            trial.mechanism, trial.domain, trial.pair, trial.claimed, trial.delta, restarts
        )
        side = TranscriptSide(TranscriptNoise(choice), trial.pair.left)
        sides.append(_follow(each, side, trial.pair.left, probed=True))
        found += side.faults
    for here, there in zip(*sides, strict=False):
        for name in ("release", "state", "error", "ledger", "cost"):
            found += [
                f"unit {here.unit}: {place} changes after a restart"
                for place in differing(name, here.shown.get(name), there.shown.get(name))
            ]
    return found[:MAX_DIFFERENCES]
