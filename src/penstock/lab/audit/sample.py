"""Many runs of one mechanism on one stream, through the shipped `step`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.released import Released
from penstock.lab.audit.fields import FieldDigest, code_of
from penstock.lab.audit.intruder import Intruder
from penstock.lab.audit.model import Case, Look, TraceForm, Traces
from penstock.lab.audit.noise import LabNoise
from penstock.lab.audit.replay.observation import overheard
from penstock.private.mechanisms.base import Mechanism
from penstock.private.run import Run
from penstock.testing import NoNoise

MAX_FAILING = 200
"""The most runs one by one, of a mechanism that treats keys by themselves and has failed."""


def traces(
    mechanism: Mechanism[Any],
    stream: IntArray,
    runs: int,
    noise: LabNoise | NoNoise,
    *,
    look: Look | None = None,
    domain: Domain | None = None,
    restart: int = 0,
    one_by_one: bool = False,
    form: TraceForm | None = None,
) -> Traces:
    """The traces of independent runs over one stream, units × keys. `look.left` is the part of it.

    For a mechanism that treats every key by itself, the runs are keys of one run, and what belongs
    to no key is not traced. If it fails, or with `one_by_one`, each run is a run of its own.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    stream : array of int
        The counts.
    runs : int
        The number of runs.
    noise : LabNoise
        The source of noise of all runs.
    look : Look, optional
        A look into the memory. Default: none.
    domain : Domain, optional
        The keys. Default: keys without a hierarchy.
    restart : int
        After this unit each run is saved and restored. Default: 0, never.
    one_by_one : bool
        Whether every run is a run of its own. Default: False.
    form : TraceForm, optional
        The arrays that are traced. Default: those that these runs show.
    """
    plain = domain is None and look is None and not restart
    if mechanism.by_key and plain and not one_by_one:
        try:
            return _as_keys(mechanism, stream, runs, noise)
        except Exception:  # a run that fails says so by itself, not for all others
            runs = min(runs, MAX_FAILING)
    keys = Domain.of(stream.shape[1]) if domain is None else domain
    case = _Followed(_decided(mechanism, keys), keys, look, restart)
    heard: dict[str, Any] = {}
    size = mechanism.released(keys).size
    found = _Recorder(runs, stream, size, form)
    with overheard(heard):
        for number in range(runs):
            case.follow(stream, noise, found, number)
    if not _spoken(heard):
        return found.traces()
    found = _Recorder(runs, stream, size, form)
    for number in range(runs):  # once more, to know which run said what
        with overheard(heard):
            case.follow(stream, noise, found, number)
        if _spoken(heard):
            found.say(number, heard)
    return found.traces()


def _decided(mechanism: Mechanism[Any], domain: Domain) -> Mechanism[Any]:
    """The mechanism with a value for every parameter that was left open, decided once for all runs.

    If it fails, it is left as it is, and each run says so.
    """
    try:
        return mechanism.decided(domain)
    except Exception:
        return mechanism


def case_traces(
    case: Case,
    side: int,
    runs: int,
    seed: tuple[object, ...],
    *,
    one_by_one: bool = False,
    form: TraceForm | None = None,
) -> Traces:
    """The traces of a case on its left (0) or right (1) stream.

    Parameters
    ----------
    case : Case
        The mechanism and its pair of streams.
    side : int
        0 for the left stream, 1 for the right one.
    runs : int
        The number of runs.
    seed : tuple
        The seed of the noise.
    one_by_one : bool
        Whether every run is a run of its own. Default: False.
    form : TraceForm, optional
        The arrays that are traced. Default: those that these runs show.
    """
    ordered = case.pair.swapped() if side else case.pair
    source = LabNoise if ordered.look is None else case.noise
    found = traces(
        case.mechanism,
        ordered.left,
        runs,
        source(*seed),
        look=ordered.look,
        domain=case.domain,
        restart=case.restart,
        one_by_one=one_by_one,
        form=form,
    )
    if side and found.explained is not None:
        return replace(found, explained=found.explained[:, ::-1])
    return found


class _Recorder:
    """Arrays for the traces of many runs, filled run by run.

    With a form, no run changes what is recorded of another.
    """

    def __init__(self, runs: int, stream: IntArray, size: int, form: TraceForm | None) -> None:
        self.form = form
        self.runs, (self.units, self.keys) = runs, stream.shape
        self.values: Any = np.zeros((runs, self.units, size), np.int64)
        self.fresh = np.zeros((runs, self.units, size), np.bool_)
        self.seen: IntArray | None = None
        self.explained: IntArray | None = None
        self.public: dict[str, Any] = {}
        self.fields: dict[str, IntArray] = {}
        self.memory: dict[str, FloatArray] = {}
        self.errors = [""] * runs
        self.last: Released | None = None
        if form is not None:
            self.public = {
                name: np.zeros((runs, self.units, long), kind)
                for name, (long, kind) in form.public.items()
            }
            self.memory = {name: np.zeros((runs, long)) for name, long in form.memory.items()}

    def add(self, number: int, unit: int, released: Released) -> None:
        if released.value.dtype.kind == "f" and self.values.dtype.kind != "f":
            self.values = self.values.astype(np.float64)
        self.values[number, unit - 1] = released.value
        self.fresh[number, unit - 1] = np.logical_not(released.repeated)
        self.last = released
        for name, array in _public(released).items():
            if array.ndim != 1 or array.dtype.kind not in "biuf":
                continue  # its code tells
            if self.form is not None and name not in self.form.public:
                continue
            shape = (self.runs, self.units, len(array))
            kind = np.float64 if array.dtype.kind == "f" else np.int64
            rows = self.public.setdefault(name, np.zeros(shape, kind))
            if rows.shape == shape:
                rows[number, unit - 1] = array

    def looked(self, number: int, intruder: Intruder, released: Released | None) -> None:
        """Keep what an intruder saw."""
        if self.explained is None:
            self.explained = np.full((self.runs, 2), -1)
        if released is not None:
            self.explained[number] = intruder.explained(released)
        counter = intruder.counter
        if counter is not None:
            if self.seen is None:
                self.seen = np.zeros((self.runs, self.keys), np.int64)
            self.seen[number] = counter
        for name, array in intruder.seen.items():
            if self.form is not None and name not in self.form.memory:
                continue
            shape = (self.runs, len(array))
            rows = self.memory.setdefault(name, np.zeros(shape))
            if rows.shape == shape:
                rows[number] = array

    def end(self, number: int, codes: dict[str, int], error: str) -> None:
        """End a run."""
        self.errors[number] = error
        for name, code in codes.items():
            self.fields.setdefault(name, np.zeros(self.runs, np.int64))[number] = code

    def say(self, number: int, heard: dict[str, Any]) -> None:
        """Keep the code of what a run logged, warned of, printed or wrote."""
        self.fields.setdefault("text", np.zeros(self.runs, np.int64))[number] = code_of(heard)

    def traces(self) -> Traces:
        last = self.last if self.form is None else self.form
        described = {} if last is None else {"kind": last.kind, "weights": last.weights}
        return Traces(
            self.values,
            self.fresh,
            self.seen,
            self.public,
            explained=self.explained,
            fields=self.fields,
            memory=self.memory,
            errors=tuple(self.errors),
            **described,  # type: ignore[arg-type]
        )


@dataclass
class _Followed:
    """A mechanism on a domain, with a look and a restart."""

    mechanism: Mechanism[Any]
    domain: Domain
    look: Look | None
    restart: int
    failed: str = field(default="", init=False)

    def follow(
        self, stream: IntArray, noise: LabNoise | NoNoise, into: _Recorder, number: int
    ) -> None:
        """One run. An error ends it, and is a part of what it shows."""
        digest = FieldDigest(self.mechanism.guarantee)
        self.failed = ""
        with self._failing():
            run = self.mechanism.run(self.domain, noise=noise)
            for unit, counts in enumerate(stream, start=1):
                run, released = self._unit(run, unit, counts, noise, into, number)
                into.add(number, unit, released)
                digest.add(released, (line for line in run._lines if line.unit == unit))
                if unit == self.restart:
                    run = self._restored(run, noise)
        into.end(number, digest.codes, self.failed)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:
            self.failed = f"{type(error).__name__}: {error}"

    def _restored(self, run: Run, noise: LabNoise | NoNoise) -> Run:
        return self.mechanism.restore(run.snapshot(), self.domain, noise=noise)

    def _unit(
        self,
        run: Run,
        unit: int,
        counts: IntArray,
        noise: LabNoise | NoNoise,
        into: _Recorder,
        number: int,
    ) -> tuple[Run, Released]:
        look = self.look
        if look is None or unit != look.unit:
            return run, run.step(counts)
        intruder = Intruder(run, look, noise)
        if not look.after:
            run.feed(look.left)
            intruder.look()
            if look.announced:
                run.intruded()
            released = run.step(counts - look.left)
        else:
            released = run.step(counts)
            if look.restored:
                run = self._restored(run, noise)
            intruder.look(run)
        into.looked(number, intruder, released)
        return run, released


def clean_memory(case: Case) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """What the look of a case would see on the left and on the right stream without any noise.

    Parameters
    ----------
    case : Case
        A case with a look.
    """
    left, right = (
        traces(
            case.mechanism,
            pair.left,
            1,
            NoNoise(),
            look=pair.look,
            domain=case.domain,
            restart=case.restart,
        ).memory
        for pair in (case.pair, case.pair.swapped())
    )
    return {name: left[name][0] for name in left}, {name: right[name][0] for name in right}


def _spoken(heard: dict[str, Any]) -> bool:
    """Whether anything was logged, warned of, printed, written or set."""
    printed = heard["printed text"]
    said = heard["log records"], heard["warnings"], heard["files"], heard["settings"]
    return any((*said, *printed))


@lru_cache(maxsize=2)
def _many_keys(size: int) -> Domain:
    """Numbered keys. Chunks of one audit have the same number, and to name many takes long."""
    return Domain.of(size)


def _as_keys(
    mechanism: Mechanism[Any], stream: IntArray, runs: int, noise: LabNoise | NoNoise
) -> Traces:
    keys = stream.shape[1]
    run = mechanism.run(_many_keys(runs * keys), noise=noise)
    released = [run.step(np.tile(counts, runs)) for counts in stream]
    values = np.stack([each.value.reshape(runs, keys) for each in released], axis=1)
    fresh = [
        np.broadcast_to(np.logical_not(each.repeated), runs * keys).reshape(runs, keys)
        for each in released
    ]
    public: dict[str, IntArray] = {}
    for unit, each in enumerate(released):
        for name, array in _public(each).items():
            if len(array) == runs * keys:
                rows = public.setdefault(name, np.zeros((runs, len(stream), keys), np.int64))
                rows[:, unit] = array.reshape(runs, keys)
    return Traces(
        values,
        np.stack(fresh, axis=1),
        None,
        public,
        released[-1].kind,
        released[-1].weights,
    )


def _public(released: Released) -> dict[str, IntArray]:
    """Everything that a release shows beside its values."""
    shown = dict(released.public)
    if not isinstance(released.divisor, int) or released.divisor != 1:
        shown["divisor"] = np.broadcast_to(
            np.asarray(released.divisor, np.int64), released.value.shape
        )
    return shown
