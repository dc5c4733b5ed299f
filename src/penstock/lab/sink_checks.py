"""What every kind of sink must pass: `check_*` functions that take a kind and say what is wrong.

The `trial` of a declaration gives the options of a sink in an empty folder. The checks send it
made-up releases:

>>> from penstock.lab.checks import title
>>> from penstock.released.sinks.jsonl import KIND
>>> check_a_unit_is_kept_once(KIND)
>>> [title(check) for check in SINK_CHECKS][:2]
['The declaration is complete.', 'The declaration tells whether the sink reports what it holds.']
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np

from penstock.core.declaration import EndpointSetup
from penstock.core.domain import Domain
from penstock.core.errors import PenstockError
from penstock.core.guarantee import Guarantee
from penstock.core.released import Released, Scale
from penstock.engine.chain import Fence, Head
from penstock.engine.pipeline.endpoints import checked_options
from penstock.engine.sink_fence import SinkFenceHeads, SinkHeadFile, open_fence
from penstock.lab.checks import CheckError, CheckResult, run_all
from penstock.lab.source_checks import check_the_declaration_is_complete
from penstock.released.series import Series
from penstock.released.sinks.base import ReleaseItem, Sink, SinkError, SinkKind

_ORIGIN = datetime(2026, 1, 1, tzinfo=UTC)
_NAMES: Final = ("taps", "Zürich/täglich ✓")
"""Names of series, one of them awkward."""

_RACES = 20
"""How often two threads come to a fence at once."""


def run_sink_checks(
    kind: SinkKind,
    *,
    quick: bool = False,
    progress: Callable[[str, CheckResult | None], object] | None = None,
) -> list[CheckResult]:
    """Run every check on a kind of sink.

    Parameters
    ----------
    kind : SinkKind
        The declaration. Its `trial` gives the options of a sink to try.
    quick : bool
        Has no effect: the checks are short (default: False).
    progress : callable, optional
        Is told each check's name when it begins, with None, and again with its result.

    Returns
    -------
    list of CheckResult
        One per check, in order.
    """
    return run_all(SINK_CHECKS, kind, quick=quick, progress=progress)


# -- the checks ------------------------------------------------------------------------------------


def check_it_reports_as_declared(kind: SinkKind, *, quick: bool = False) -> None:
    """The declaration tells whether the sink reports what it holds.

    An empty sink holds nothing. After three units, a sink that reports gives unit 3 and its link,
    and one that does not gives None. The keys of its place are keys of options.
    """
    keys = {key for option in kind.options for key in option.keys}
    if not keys.issuperset(kind.place):
        raise CheckError(f"place names {sorted(set(kind.place) - keys)}, which are no options.")
    with _trial(kind) as opened, opened() as sink:
        if sink.head(_NAMES[0]) is not None:
            raise CheckError("a sink to which nothing was sent has a head.")
        sink.put(_items(_NAMES[0], 1, 3))
        wanted = (3, _link(_NAMES[0], 3)) if kind.reports else None
        _head(sink, _NAMES[0], wanted)


def check_a_unit_is_kept_once(kind: SinkKind, *, quick: bool = False) -> None:
    """A unit that is sent twice is kept once.

    Units 1 to 3, then 2 to 4, then 3 and 4 again are all taken; the head is unit 4. The last of
    these changes no file in the folder of the trial.
    """
    with _trial(kind) as opened, opened() as sink:
        for first, last in ((1, 3), (2, 4)):
            sink.put(_items(_NAMES[0], first, last))
        before = opened.files()
        sink.put(_items(_NAMES[0], 3, 4))
        if opened.files() != before:
            raise CheckError("units 3 and 4 were written again although the sink holds them.")
        if kind.reports:
            _head(sink, _NAMES[0], (4, _link(_NAMES[0], 4)))


def check_the_head_is_there_after_a_restart(kind: SinkKind, *, quick: bool = False) -> None:
    """The head is there after a restart.

    A new sink at the same place reports what the old one was sent, and goes on with the next unit.
    Closing twice is harmless.
    """
    with _trial(kind) as opened:
        for unit in (1, 2, 3):
            with opened() as sink:
                if kind.reports and unit > 1:
                    _head(sink, _NAMES[0], (unit - 1, _link(_NAMES[0], unit - 1)))
                sink.put(_items(_NAMES[0], unit, unit))
                sink.close()


def check_another_past_is_refused(kind: SinkKind, *, quick: bool = False) -> None:
    """Another past is refused.

    A unit that the sink holds comes with another link: the store was restored, or is another one.
    The sink raises a `SinkError` and holds what it held; `done` counts no unit that it lacks.
    """
    if not kind.reports or not kind.refuses:
        return
    with _trial(kind) as opened, opened() as sink:
        sink.put(_items(_NAMES[0], 1, 3))
        other = _items(_NAMES[0], 3, 5, past="another")
        try:
            sink.put(other)
        except SinkError as error:
            if error.done:
                raise CheckError(
                    f"it refused all units, and says that {error.done} are there."
                ) from error
        else:
            raise CheckError("unit 3 was taken again with another link.")
        with opened() as again:
            _head(again, _NAMES[0], (3, _link(_NAMES[0], 3)))


def check_units_come_in_order(kind: SinkKind, *, quick: bool = False) -> None:
    """Units come in order.

    Units 1 and 3 without unit 2 are refused, and the sink holds neither.
    """
    with _trial(kind) as opened, opened() as sink:
        gap = [*_items(_NAMES[0], 1, 1), *_items(_NAMES[0], 3, 3)]
        try:
            sink.put(gap)
        except PenstockError:
            _head(sink, _NAMES[0], None)
            return
    raise CheckError("unit 3 was taken after unit 1.")


def check_series_do_not_disturb_each_other(kind: SinkKind, *, quick: bool = False) -> None:
    """Series do not disturb each other.

    Two series, one with an awkward name, are sent together and apart; each has its own head.
    """
    with _trial(kind) as opened, opened() as sink:
        one, other = _NAMES
        sink.put([*_items(one, 1, 2), *_items(other, 1, 3)])
        sink.put(_items(one, 3, 5))
        if kind.reports:
            _head(sink, one, (5, _link(one, 5)))
            _head(sink, other, (3, _link(other, 3)))


def check_the_fence_lets_one_pass(kind: SinkKind, *, quick: bool = False) -> None:
    """The fence lets one of two copies of a store pass.

    Two fences at one place would move the same heads. The first one does; the second one is told
    the heads of the first and changes nothing, not even those that are as it expects. Moving heads
    to where they are is a success. The heads are there after a restart, and are not those that the
    sink holds. A kind without a fence passes.
    """
    if kind.fence is None:
        return
    with _trial(kind) as opened:
        with _fence(opened) as first, _fence(opened) as second:
            _swapped(first, dict.fromkeys(_NAMES), _heads(1), _heads(1))
            _swapped(first, _heads(1), _heads(2), _heads(2))
            _swapped(second, dict.fromkeys(_NAMES), _heads(1, past="another"), _heads(2))
            _swapped(second, _heads(1), _heads(2, past="another"), _heads(2))
            _swapped(second, _heads(1), _heads(2), _heads(2))
            mixed = {**_heads(2), _NAMES[0]: _heads(1)[_NAMES[0]]}
            _swapped(second, mixed, _heads(3), _heads(2))
        with opened() as sink:
            _head(sink, _NAMES[0], None)
        with _fence(opened) as fence:
            if fence.read() != _heads(2):
                raise CheckError("after a restart, the fence has lost the heads or has others.")


def check_of_two_at_the_fence_at_once_one_passes(kind: SinkKind, *, quick: bool = False) -> None:
    """Of two copies that come to the fence at once, one passes.

    Two threads move the heads from the same unit to different ones, twenty times. Each time exactly
    one succeeds, and both are told the same heads. A kind without a fence passes.
    """
    if kind.fence is None:
        return
    with (
        _trial(kind) as opened,
        _fence(opened) as first,
        _fence(opened) as second,
        ThreadPoolExecutor(2) as pool,
    ):
        there: Mapping[str, Head | None] = dict.fromkeys(_NAMES)
        for unit in range(1, _RACES + 1):
            results = [
                pool.submit(fence.swap, there, _heads(unit, past=past))
                for fence, past in ((first, "one"), (second, "other"))
            ]
            one, other = (dict(result.result()) for result in results)
            if one != other or one not in (_heads(unit, past=past) for past in ("one", "other")):
                raise CheckError(f"unit {unit}: the two were told different heads, or none moved.")
            there = one


SINK_CHECKS: Final[tuple[Callable[..., None], ...]] = (
    check_the_declaration_is_complete,
    check_it_reports_as_declared,
    check_a_unit_is_kept_once,
    check_the_head_is_there_after_a_restart,
    check_another_past_is_refused,
    check_units_come_in_order,
    check_series_do_not_disturb_each_other,
    check_the_fence_lets_one_pass,
    check_of_two_at_the_fence_at_once_one_passes,
)


# -- what they share -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SinkTrial:
    """A place that was empty, and how to open sinks there."""

    kind: SinkKind
    folder: Path
    setup: EndpointSetup

    @contextmanager
    def __call__(self) -> Iterator[Sink]:
        """A new sink at that place, closed at the end."""
        sink = self.kind.build(self.setup)
        try:
            yield sink
        finally:
            sink.close()

    def files(self) -> dict[str, bytes]:
        """All files of the place, by name."""
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in found}


@contextmanager
def _trial(kind: SinkKind) -> Iterator[_SinkTrial]:
    if kind.trial is None:
        raise CheckError(
            f"the declaration of {kind.name!r} has no trial, which gives the options of a sink to "
            "try: write one, as docs/how-to/add-a-sink.md shows."
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = checked_options(kind, kind.trial(folder))
        yield _SinkTrial(kind, folder, EndpointSetup(options=options, folder=folder))


@contextmanager
def _fence(opened: _SinkTrial) -> Iterator[SinkFenceHeads | SinkHeadFile]:
    fence = open_fence(opened.kind, opened.setup, opened.kind.name)
    try:
        yield fence
    finally:
        fence.close()


def _heads(unit: int, *, past: str = "") -> dict[str, Head]:
    return {name: Head(unit, bytes.fromhex(_link(name, unit, past=past))) for name in _NAMES}


def _swapped(
    fence: Fence,
    before: Mapping[str, Head | None],
    after: Mapping[str, Head],
    wanted: Mapping[str, Head],
) -> None:
    found = fence.swap(before, after)
    there = fence.read()
    if dict(found) != wanted or dict(there) != wanted:
        unit = wanted[_NAMES[0]].unit
        what = "moved to" if wanted == after else "left at"
        raise CheckError(f"the heads should be {what} unit {unit} of the first copy, and are not.")


def _head(sink: Sink, series: str, wanted: tuple[int, str] | None) -> None:
    found = sink.head(series)
    if found is None or wanted is None:
        if found is not wanted:
            raise CheckError(f"the head is {found}, and should be {wanted}.")
    elif tuple(found) != wanted:
        raise CheckError(f"the head is unit {found[0]}, and should be unit {wanted[0]}.")


def _items(name: str, first: int, last: int, *, past: str = "") -> list[ReleaseItem]:
    """Made-up releases of a series."""
    series = Series(
        name=name,
        domain=Domain.of(["north", "south"]),
        guarantee=Guarantee("1", 24),
        mechanism="uniform",
        configuration={"window": "24"},
    )
    return [
        ReleaseItem(
            series=series,
            unit=unit,
            begins=_ORIGIN + timedelta(hours=unit - 1),
            ends=_ORIGIN + timedelta(hours=unit),
            release=Released(
                unit=unit,
                value=np.array([unit, 2 * unit], np.int64),
                scale=Scale(Fraction(24)),
                guarantee=series.guarantee,
                private=True,
            ),
            link=_link(name, unit, past=past),
        )
        for unit in range(first, last + 1)
    ]


def _link(name: str, unit: int, *, past: str = "") -> str:
    return hashlib.sha256(f"{name} {unit} {past}".encode()).hexdigest()
