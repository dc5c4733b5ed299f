from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError, PenstockError
from penstock_bench import runner
from penstock_bench.cell import MEAN, ZEROS, Cell, Stretch
from penstock_bench.results import COLUMNS, REFUSED, Results, Row, table
from penstock_bench.runner import Job, perform, plan, work, workers_for
from penstock_bench.suite import Setting

from bench.tests.tiny import ABSENT, TINY, Steps, Tiny, TinySuite

SUITE, SETTING = TinySuite(), Setting()


def run(
    folder: Path, setting: Setting = SETTING, *, workers: int = 1, only: tuple[str, ...] = ()
) -> list[Row]:
    results = Results(folder)
    perform(plan(SUITE, setting, results, only=only, workers=workers), results, workers=workers)
    return results.rows()


def test_the_same_seed_gives_the_same_table_on_any_number_of_processes(tmp_path: Path):
    one, two = run(tmp_path / "one"), run(tmp_path / "two", workers=2)
    assert table(one) == table(two)
    assert len(one) == len(two) > 0
    assert len(Results(tmp_path / "two").parts()) > 1
    other = run(tmp_path / "other", Setting(seed=2))
    assert {row["value"] for row in other if row["mechanism"] == "ba"} & {
        row["value"] for row in one if row["mechanism"] == "ba" and row["measure"] != "time"
    } == set()


def test_a_cell_is_the_same_alone_and_beside_others():
    stream = Stretch(dataset=TINY)
    cells = [SUITE.cell(TINY, line, 3) for line in ("uniform", "bd", "ba", "dsat", ZEROS, MEAN)]
    together = table(work(Job(stream, tuple(cells), 1)))
    alone = table([row for cell in cells for row in work(Job(stream, (cell,), 1))])
    assert together == alone


def test_a_row_has_the_values_of_parameters_that_were_left_open():
    """They depend on the keys: 4 keys are twice a window of 2, and not of 3."""
    for window, shift in ((2, "True"), (3, "False")):
        row, *_ = work(Job(Stretch(dataset=TINY), (SUITE.cell(TINY, "ba", window),), 1))
        assert json.loads(row["parameters"]).items() >= {"shift": shift, "cut": "True"}.items()


def test_a_row_has_all_that_is_needed_to_make_it_again(tmp_path: Path):
    rows = run(tmp_path)
    assert all(row.keys() == {*COLUMNS, "code"} for row in rows)
    row = next(row for row in rows if row["mechanism"] == "ba" and row["measure"] == "mae")
    assert (row["suite"], row["stream"], row["seed"], row["units"], row["keys"]) == (
        "tiny",
        TINY,
        1,
        30,
        4,
    )
    assert (
        row["guarantee"]
        == f"Guarantee(epsilon=1, window={json.loads(row['parameters'])['window']})"
    )
    assert row["private"]
    assert row["seconds"] > 0
    assert row["megabytes"] > 0
    assert row["command"] == f"penstock bench tiny --runs 3 --seed 1 --only {TINY} --only ba"
    assert {row["private"] for row in rows if row["mechanism"] == MEAN} == {False}
    runs = [
        row
        for row in rows
        if row["mechanism"] == "ba"
        and row["measure"] == "mae"
        and '"window": "2"' in row["parameters"]
    ]
    assert sorted(row["run"] for row in runs) == [0, 1, 2]
    assert len({row["value"] for row in runs}) == 3


def test_the_trivial_lines_are_what_they_say(tmp_path: Path):
    truth = np.array([np.arange(4) * 10 + unit % 7 for unit in range(1, 31)])
    found = {
        row["mechanism"]: row["value"]
        for row in run(tmp_path)
        if row["measure"] == "mae" and row["run"] == 0
    }
    assert found[ZEROS] == pytest.approx(truth.mean())
    assert found[MEAN] == pytest.approx(np.abs(truth - truth.mean(axis=0)).mean())


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_suite_goes_on_from_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
):
    whole = table(run(tmp_path / "whole"))
    monkeypatch.setattr(runner, "MOST_CELLS", 3)
    results = Results(tmp_path / "cut")
    todo = plan(SUITE, Setting(), results, workers=workers)
    assert len(todo.jobs) > 3
    told = []

    def interrupt(job: Job) -> None:
        told.append(job)
        if len(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform(todo, results, workers=workers, tell=interrupt)
    left = plan(SUITE, Setting(), results, workers=workers)
    assert left.done == 6
    assert left.cells == todo.cells - 6
    perform(left, results, workers=workers)
    assert table(results.rows()) == whole
    assert plan(SUITE, Setting(), results).jobs == ()


def test_more_runs_keep_the_first_ones(tmp_path: Path):
    few = table(run(tmp_path, Setting(runs=1)))
    more = plan(SUITE, Setting(runs=2), Results(tmp_path))
    assert {cell.run for job in more.jobs for cell in job.cells} == {1}
    perform(more, Results(tmp_path))
    assert set(few) < set(table(Results(tmp_path).rows()))


def test_missing_data_are_skipped_with_the_reason(tmp_path: Path):
    todo = plan(SUITE, Setting(), Results(tmp_path))
    assert todo.skipped == {ABSENT: "it was never collected"}
    assert {job.stream.dataset for job in todo.jobs} == {TINY}


def test_a_mechanism_that_fails_is_noted_and_tried_again(tmp_path: Path):
    setting = Setting(runs=1, also=("bench.tests.tiny:Failing",))
    results = Results(tmp_path)
    notes = perform(plan(SUITE, setting, results), results)
    assert {note["note"] for note in notes} == {"RuntimeError: it broke"}
    assert {(note["mechanism"], note["measure"]) for note in notes} == {
        ("bench.tests.tiny:Failing", REFUSED)
    }
    assert {row["mechanism"] for row in results.rows() if row["measure"] == "mae"} == {
        "uniform",
        "sample",
        "ba",
        ZEROS,
        MEAN,
    }
    again = plan(SUITE, setting, results)
    assert {cell.mechanism for job in again.jobs for cell in job.cells} == {
        "bench.tests.tiny:Failing"
    }


def test_a_process_that_dies_is_told_and_what_was_done_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runner, "MOST_CELLS", 2)
    results = Results(tmp_path)
    todo = plan(SUITE, Setting(runs=1, also=("bench.tests.tiny:Dying",)), results, workers=2)
    jobs = sorted(todo.jobs, key=lambda job: any("Dying" in cell.mechanism for cell in job.cells))
    with pytest.raises(
        PenstockError, match=r"was killed.*fewer --jobs. Finished work is stored\.$"
    ):
        perform(replace(todo, jobs=tuple(jobs)), results, workers=2)
    assert results.done()


def test_a_mechanism_that_cannot_be_made_is_noted():
    stream = Stretch(dataset=TINY)
    wrong = Cell.of("tiny", stream, "ba", ("mae",), epsilon="1", window=0)
    right = SUITE.cell(TINY, "uniform", 2)
    unknown = replace(right, measures=("nothing",))
    rows = work(Job(stream, (wrong, right, unknown), 1))
    assert [row["note"] != "" for row in rows if row["measure"] == REFUSED] == [True, True]
    assert {row["measure"] for row in rows} == {REFUSED, "mae", "mre", "time"}


def test_data_that_vanish_are_noted():
    (row,) = work(Job(Stretch(dataset=ABSENT), (SUITE.cell(ABSENT, "ba", 2),), 1))
    assert row["measure"] == REFUSED
    assert "never collected" in row["note"]


def test_only_some_of_it(tmp_path: Path):
    rows = run(tmp_path, only=("ba", TINY))
    assert {row["mechanism"] for row in rows} == {"ba", ZEROS, MEAN}
    with pytest.raises(ConfigurationError, match=r"tiny has no 'bx': use window, .*uniform"):
        run(tmp_path, only=("bx",))


def test_large_streams_have_fewer_processes():
    light, heavy = Stretch(dataset="a", megabytes=10), Stretch(dataset="b", megabytes=1500)
    assert workers_for([light], 3) == 3
    assert workers_for([light, heavy], 8) == 2
    assert workers_for([replace(heavy, megabytes=10**6)], 8) == 1
    assert workers_for([light]) >= 1


def test_jobs_are_small_enough_and_the_largest_come_first(tmp_path: Path):
    class Two(TinySuite):
        def questions(self, setting: Setting):  # type: ignore[no-untyped-def]
            (question,) = super().questions(setting)
            points = [
                replace(
                    point,
                    cell=replace(
                        point.cell,
                        stream=replace(
                            point.cell.stream, dataset=TINY, units=units, megabytes=units
                        ),
                    ),
                )
                for point in question.points
                for units in (5, 20)
            ]
            return (replace(question, points=tuple(points)),)

    todo = plan(Two(), Setting(runs=10), Results(tmp_path), workers=2)
    assert [job.stream.megabytes for job in todo.jobs] == sorted(
        (job.stream.megabytes for job in todo.jobs), reverse=True
    )
    assert max(len(job.cells) for job in todo.jobs) <= runner.MOST_CELLS
    assert todo.cells == 2 * (2 * 3 * 10 + 2)


class Breaking(Tiny):
    """Fails in its twentieth unit."""

    def make(self) -> Steps:
        class ShortInRunner(Steps):
            def row(self, unit: int) -> IntArray:
                if unit == 20:
                    raise ValueError("no more of it")
                return super().row(unit)

        return ShortInRunner(self.units, self.keys)


class Unmade(Tiny):
    """Cannot be made at all."""

    def make(self) -> Steps:
        raise OSError("a disk")


@pytest.mark.parametrize(
    ("name", "words"), [("Breaking", "ValueError: no more of it"), ("Unmade", "OSError: a disk")]
)
def test_a_dataset_that_fails_is_told_and_ends_nothing_else(name: str, words: str):
    cells = tuple(SUITE.cell(f"{__name__}:{name}", line, 3) for line in ("uniform", "ba"))
    rows = work(Job(cells[0].stream, cells, 1))
    assert [(row["measure"], row["note"]) for row in rows] == [(REFUSED, words)] * 2


@pytest.mark.parametrize(
    ("mechanism", "measure", "more"),
    [
        ("eshp", "mae", {}),
        ("eshp", "nodes_l1", {}),
        ("eshp", "ranges:10", {}),
        ("sw_tree", "log_sse:2", {}),
        ("lab:apb", "window_mse:2", {}),
        ("hs_pegasus", "mae", {}),
        ("hs_pegasus", "sse:2", {}),
        ("hs_pegasus", "unit_l1", {}),
        ("hs_pegasus", "ranges:10", {}),
    ],
)
def test_who_shows_something_else_is_not_measured_by_it(
    mechanism: str, measure: str, more: dict[str, int]
):
    given: dict[str, str | int] = (
        {"epsilon": "1"} if mechanism.startswith("lab:") else {"epsilon": "1", "window": 1}
    )
    one = Cell.of("tiny", Stretch(dataset=TINY), mechanism, (measure,), **given, **more)
    (row,) = work(Job(one.stream, (one,), 1))
    assert row["measure"] == REFUSED
    assert f"the measure '{measure}'" in row["note"]


def test_processes_do_not_take_each_others_cores(monkeypatch: pytest.MonkeyPatch):
    for name in runner.THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    with runner._pool(1) as pool:
        seen = (
            pool.submit(os.getenv, "OPENBLAS_NUM_THREADS").result(),
            pool.submit(os.getenv, "OMP_NUM_THREADS").result(),
        )
    assert seen == ("1", "7")
    assert "OPENBLAS_NUM_THREADS" not in os.environ
