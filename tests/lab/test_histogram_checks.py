from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from penstock import Budget, Gate, Greedy, Histogram, Plain, Private, Released
from penstock.cli import main
from penstock.core.cover import EACH, Groups
from penstock.core.private import unseal
from penstock.core.released import Scale
from penstock.lab import histogram_checks
from penstock.lab.checks import CheckError, CheckResult, title
from penstock.lab.histogram_checks import (
    HISTOGRAM_CHECKS,
    HistogramCheck,
    as_mechanism,
    run_histogram_checks,
)
from penstock.private.histograms.registry import HISTOGRAMS

names = [check.__name__ for check in HISTOGRAM_CHECKS]
FAST = [
    check for check in HISTOGRAM_CHECKS if "memory" not in check.__name__
]  # thousands of units: tests/test_how_to_histogram.py


@pytest.mark.parametrize("check", FAST, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", HISTOGRAMS)
def test_every_method_passes_every_check(name: str, check: HistogramCheck) -> None:
    check(HISTOGRAMS[name](), quick=True)


def test_checks_have_a_name_and_a_title_of_their_own() -> None:
    assert len(set(names)) == len(names)
    assert all(title(check).endswith(".") for check in HISTOGRAM_CHECKS)
    defined = {name for name in vars(histogram_checks) if name.startswith("check_")}
    assert defined <= set(names)


def test_a_method_becomes_a_mechanism() -> None:
    cls = as_mechanism(Plain())
    assert cls(epsilon=1, window=3).histogram == Plain()
    assert cls.__name__ == "Plain"
    assert cls(epsilon=1, window=3).by_key
    assert not as_mechanism(Greedy())(
        epsilon=1, window=3
    ).by_key  # it looks at several keys at once


# Every check of methods can fail: methods that are each wrong in one way, and the check that says
# so.


@dataclass(frozen=True)
class Spends(Plain):
    """Half as much again."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        gate.laplace(counts, epsilon=epsilon // 2, label="publish more")
        return super().release(counts, epsilon, gate)


@dataclass(frozen=True)
class Renames(Plain):
    """Another label."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        return gate.laplace(counts, epsilon=epsilon, label="mine")


@dataclass(frozen=True)
class Fractions(Plain):
    """Floats."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        released = super().release(counts, epsilon, gate)
        return replace(released, value=released.value / 2)  # type: ignore[arg-type]


@dataclass(frozen=True)
class DividesByNothing(Plain):
    """A divisor of 0."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        return replace(super().release(counts, epsilon, gate), divisor=0)


@dataclass(frozen=True)
class Exactly(Plain):
    """Says that there is no noise."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        return replace(super().release(counts, epsilon, gate), layers=0)


@dataclass(frozen=True)
class Repeats(Plain):
    """Calls what it has read a repetition."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        return replace(super().release(counts, epsilon, gate), repeated=True)


class Changeable:
    """No dataclass."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        return gate.laplace(counts, epsilon=epsilon, label="publish")


@dataclass
class Thawed:
    """Not frozen."""

    depth: int = 3

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        return gate.laplace(counts, epsilon=epsilon, label="publish")


@dataclass(frozen=True)
class Secretive(Plain):
    """A parameter that does not show."""

    depth: int = field(default=3, repr=False)


@dataclass(frozen=True)
class Addressed(Plain):
    """A parameter that shows where it lies."""

    rule: Any = field(default_factory=object)


@dataclass(frozen=True)
class Impersonates(Plain):
    """Shows itself as another."""

    def __repr__(self) -> str:
        return "_OtherMethod()"


@dataclass(frozen=True)
class Understates(Plain):
    """Claims half of the scale."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        released = super().release(counts, epsilon, gate)
        return replace(released, scale=Scale(released.scale.base / 2, released.scale.parts))


@dataclass(frozen=True)
class Shares(Plain):
    """One noise for every eight keys, each of which claims an eighth of it."""

    by_place: ClassVar[bool] = True

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        groups = Groups.from_labels(np.arange(len(unseal(counts))) // 8)
        released = gate.laplace(counts.sums(groups), epsilon=epsilon, label="publish")
        return replace(released, value=released.value[groups.of], divisor=groups.sizes[groups.of])


@dataclass(frozen=True)
class Opens(Plain):
    """Reads the counts themselves."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        return replace(super().release(counts, epsilon, gate), value=unseal(counts).copy())


@dataclass(frozen=True)
class Sneaks(Plain):
    """Goes behind the gate."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        gate.memory()
        return super().release(counts, epsilon, gate)


def _helper(counts: Private) -> object:
    return unseal(counts)


@dataclass(frozen=True)
class HasItOpened(Plain):
    """Lets a function of its own do it."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        _helper(counts)
        return super().release(counts, epsilon, gate)


@dataclass(frozen=True)
class Numbers(Plain):
    """Adds each key's place, and does not say that keys have places."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        released = super().release(counts, epsilon, gate)
        return replace(released, value=released.value + np.arange(len(released.value)))


_seen: list[int] = []


@dataclass(frozen=True)
class Remembers(Plain):
    """Counts its releases, where no snapshot finds it."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        _seen.append(gate.unit)
        released = super().release(counts, epsilon, gate)
        return replace(released, value=released.value + len(_seen))


@dataclass(frozen=True)
class DrawsUnpaid(Plain):
    """A second release that the ledger never hears of."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        gate._maker.noisy(
            unseal(counts), Scale(counts.sensitivity / epsilon.epsilon), "publish more", None
        )
        return super().release(counts, epsilon, gate)


@dataclass(frozen=True)
class Doubles(Plain):
    """Says that twice a count moves no more than the count."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        return gate.laplace(
            counts.map(lambda c: 2 * c, stability=1, cover=EACH), epsilon=epsilon, label="publish"
        )


@dataclass(frozen=True)
class Tells(Plain):
    """Shows something that was looked at on the way."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        seen: list[int] = []
        counts.map(lambda c: seen.append(int(c.sum())) or c, stability=1, cover=EACH)  # type: ignore[func-returns-value]
        return replace(super().release(counts, epsilon, gate), public={"total": np.array(seen)})


@pytest.mark.parametrize(
    ("histogram", "check", "said"),
    [
        (
            Spends(),
            "check_it_spends_at_most_what_it_was_given",
            "was given epsilon=1/2 and spent 3/4|above the promised",
        ),
        (Renames(), "check_it_spends_at_most_what_it_was_given", "'mine'"),
        (Fractions(), "check_every_key_has_a_number", "float64"),
        (DividesByNothing(), "check_every_key_has_a_number", "divisor"),
        (Exactly(), "check_every_key_has_a_number", "no variance"),
        (Repeats(), "check_every_key_has_a_number", "repeated"),
        (Changeable(), "check_its_parameters_are_part_of_a_run", "frozen dataclass"),
        (Thawed(), "check_its_parameters_are_part_of_a_run", "frozen dataclass"),
        (Secretive(), "check_its_parameters_are_part_of_a_run", "'depth' does not show"),
        (Addressed(), "check_its_parameters_are_part_of_a_run", "another text in every process"),
        (Impersonates(), "check_its_parameters_are_part_of_a_run", "went on with another"),
        (Understates(), "check_the_noise_is_no_larger_than_claimed", "noise of keys"),
        (Shares(), "check_the_noise_is_no_larger_than_claimed", "the sum of all keys"),
        (Doubles(), "check_no_transcript_loses_more_than_was_given", "one transcript loses 2,"),
        (Tells(), "check_no_transcript_loses_more_than_was_given", "depends on the counts"),
        (Opens(), "check_nothing_private_is_opened", "unseal"),
        (Sneaks(), "check_nothing_private_is_opened", r"gate\.memory"),
        (HasItOpened(), "check_nothing_private_is_opened", "_helper mentions 'unseal'"),
        (Numbers(), "check_relabelling_keys_relabels_the_output", "another release"),
        (Remembers(), "check_a_restart_changes_nothing", "another release"),
        (DrawsUnpaid(), "check_noise_is_what_was_paid_for", "publish more"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Histogram) else None,
)
def test_every_check_can_fail(histogram: Histogram, check: str, said: str) -> None:
    chosen = next(each for each in HISTOGRAM_CHECKS if each.__name__ == check)
    with pytest.raises(CheckError, match=said):
        chosen(histogram, quick=True)


def test_keys_that_have_places_need_not_be_permuted() -> None:
    @dataclass(frozen=True)
    class Placed(Numbers):
        by_place: ClassVar[bool] = True

    histogram_checks.check_relabelling_keys_relabels_the_output(Placed(), quick=True)


def test_a_method_without_source_cannot_be_judged() -> None:
    made: dict[str, Any] = {}
    exec(
        "class Made:\n    def release(self, counts, epsilon, gate): ...\n",
        {"__name__": "nowhere"},
        made,
    )
    with pytest.raises(CheckError, match="source of Made cannot be found"):
        histogram_checks.check_nothing_private_is_opened(made["Made"]())


def test_results_tell_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histogram_checks, "HISTOGRAM_CHECKS", HISTOGRAM_CHECKS[:3])
    told: list[tuple[str, CheckResult | None]] = []
    results = run_histogram_checks(
        Renames(), quick=True, progress=lambda name, result: told.append((name, result))
    )
    assert [result.ok for result in results] == [False, True, True]
    assert "'mine'" in results[0].message
    assert [name for name, _ in told] == [name for name in names[:3] for _ in range(2)]
    assert told[1][1] == results[0]


OWN = '''
from dataclasses import dataclass
from penstock import Plain

@dataclass(frozen=True)
class Mine(Plain):
    """Another label."""

    def release(self, counts, epsilon, gate):
        return gate.laplace(counts, epsilon=epsilon, label="mine")
'''


@pytest.mark.parametrize("own", [False, True], ids=["registered", "one's own"])
def test_the_command_checks_a_method(
    own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(histogram_checks, "HISTOGRAM_CHECKS", HISTOGRAM_CHECKS[:3])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_histogram_to_check.py").write_text(OWN)
    name = "own_histogram_to_check:Mine" if own else "plain"
    codes = []
    for more in ([], ["--json"]):
        try:
            main(["lab", "check", "--histogram", name, "--quick", *more])
            codes.append(0)
        except SystemExit as end:
            codes.append(int(end.code or 0))
    assert codes == ([1, 1] if own else [0, 0])
    shown = capsys.readouterr().out
    assert f"{2 if own else 3} of 3 checks passed" in shown
    assert [each["ok"] for each in json.loads(shown[shown.index("[\n") :])] == [not own, True, True]
