from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from penstock.core.errors import ConfigurationError
from penstock.lab.audit import engine
from penstock.lab.audit.engine import Task, Verdict, audit, tasks
from penstock.lab.audit.subjects import Subject, resolve, subject


class KilledError(Exception):
    """Stands for a process that ends in the middle."""


def same(one: Verdict, other: Verdict) -> bool:
    rows = [{**verdict.row(), "seconds": 0} for verdict in (one, other)]
    return rows[0] == rows[1] and one.cells == other.cells


def one_pair(epsilon: str, runs: int) -> Subject:
    """Plain Laplace noise on one count. Only a subject that `resolve` gives again can be audited,
    so pairs are cut by hand.
    """
    found = subject("uniform", epsilon=epsilon, window=1, runs=runs)
    return replace(found, pairs=found.pairs[:1], more=())


# -- what it finds ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_on_plain_laplace_the_bound_comes_near_the_truth_and_never_passes_it(
    epsilon: str, seed: int
) -> None:
    """At 1e6 runs of each stream. The bound passes ε with probability at most 1e-3 a case; these
    seeds do not.
    """
    verdict = audit(one_pair(epsilon, 1_000_000), confidence=0.999, seed=seed, workers=1)
    assert verdict.runs == 1_000_000
    assert 0.9 * float(verdict.claimed) <= verdict.lower_bound <= float(verdict.claimed)
    assert not verdict.convicted


def test_a_promise_with_delta_is_audited_with_delta() -> None:
    """A linear classifier finds much of a Gaussian's ε, and no more than was promised; wrong with
    probability below 1e-3.
    """
    found = subject(
        "penstock.private.mechanisms.toeplitz:CorrelatedGaussian",
        epsilon="2",
        window=1,
        runs=40_000,
    )
    verdict = audit(
        replace(found, pairs=found.pairs[:1], more=()), confidence=0.999, seed=3, workers=1
    )
    assert found.delta == verdict.delta == Fraction(1, 10**6)
    assert 0.2 < verdict.lower_bound < 2
    assert not verdict.convicted


def test_over_many_seeds_the_bound_hardly_ever_passes_epsilon() -> None:
    """40 audits at confidence 0.9: more than 15 wrong ones would have probability below 1e-5. There
    are none as a rule.
    """
    bounds = [
        audit(one_pair("1", 2_000), confidence=0.9, seed=seed, workers=1).lower_bound
        for seed in range(40)
    ]
    assert sum(bound > 1 for bound in bounds) <= 15
    assert sum(bounds) / len(bounds) > 0.7


def test_a_verdict_as_plain_data_says_it_all() -> None:
    verdict = audit(subject("uniform", runs=400), seed=5, workers=1)
    row = json.loads(json.dumps(verdict.row()))
    assert {
        "name",
        "flawed",
        "claimed",
        "lower_bound",
        "convicted",
        "seconds",
        "left",
        "right",
        "event",
        "seed",
    } <= row.keys()
    assert (row["name"], row["flawed"], row["claimed"], row["seed"]) == ("uniform", False, 2.0, 5)
    assert row["hits"] == [verdict.left_hits, verdict.right_hits]
    assert (
        verdict.left_hits / verdict.half > verdict.right_hits / verdict.half
    )  # left is where it is likelier


def test_the_event_is_chosen_on_other_runs_than_it_is_tried_on() -> None:
    todo = list(tasks(subject("uniform", runs=1_000), seed=0))
    assert len({task.key for task in todo}) == len(todo)
    for half in (0, 1):
        for side in (0, 1):
            runs = sum(
                task.runs
                for task in todo
                if (task.pair, task.side, task.chunk % 2) == (0, side, half)
            )
            assert runs == 500


def test_the_same_seed_gives_the_same_verdict_and_another_one_another() -> None:
    audited = resolve("flawed:negative_survey 1 1 200")
    one, two, other = (audit(audited, seed=seed, workers=1) for seed in (3, 3, 4))
    assert same(one, two)
    assert one.cells != other.cells


def test_several_processes_give_the_same_verdict() -> None:
    audited = resolve(SUBJECT)
    assert same(audit(audited, seed=3, workers=1), audit(audited, seed=3, workers=2))


@pytest.mark.parametrize("confidence", [0.0, 1.0, 1.5])
def test_a_confidence_outside_0_to_1_is_refused(confidence: float) -> None:
    with pytest.raises(ConfigurationError, match="confidence"):
        audit(subject("uniform", runs=10), confidence=confidence)


@pytest.mark.parametrize(
    "spec", ["uniform", "uniform 1 2 many", "uniform 1 2 3 4", "flawed:nothing 1 1 10", "bx 1 1 10"]
)
def test_a_text_that_names_nobody_is_refused(spec: str) -> None:
    with pytest.raises(ConfigurationError):
        resolve(spec)


# -- killed and started again ----------------------------------------------------------------------

SUBJECT = "flawed:half_sensitivity 1 1 130000"  # one pair, 12 chunks


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which chunks were really done."""
    done: list[str] = []
    genuine = engine.work

    def work(task: Task) -> object:
        done.append(task.key)
        return genuine(task)

    monkeypatch.setattr(engine, "work", work)
    return done


def kill_after(chunks: int, folder: Path, *, seed: int | None) -> None:
    def progress(done: int, of: int) -> None:
        if done == chunks:
            raise KilledError

    with pytest.raises(KilledError):
        audit(resolve(SUBJECT), seed=seed, workers=1, folder=folder, progress=progress)


@pytest.mark.parametrize("chunks", [0, 1, 7])
def test_a_killed_audit_goes_on_from_what_was_done(
    chunks: int, tmp_path: Path, counted: list[str]
) -> None:
    undisturbed = audit(resolve(SUBJECT), seed=9, workers=1)
    everything = sorted(counted)
    counted.clear()
    kill_after(chunks, tmp_path, seed=9)
    assert len(counted) == chunks
    told: list[tuple[int, int]] = []
    verdict = audit(
        resolve(SUBJECT),
        seed=9,
        workers=1,
        folder=tmp_path,
        progress=lambda done, of: told.append((done, of)),
    )
    assert sorted(counted) == everything  # each chunk once, over both attempts
    assert told[0] == (chunks, len(everything))
    assert told[-1] == (len(everything), len(everything))
    assert same(verdict, undisturbed)


def test_without_a_seed_it_goes_on_with_the_one_it_began_with(
    tmp_path: Path, counted: list[str]
) -> None:
    kill_after(4, tmp_path, seed=None)
    verdict = audit(resolve(SUBJECT), workers=1, folder=tmp_path)
    assert len(counted) == len(set(counted))
    assert same(verdict, audit(resolve(SUBJECT), seed=verdict.seed, workers=1))


def test_another_seed_begins_anew(tmp_path: Path, counted: list[str]) -> None:
    kill_after(4, tmp_path, seed=1)
    assert same(
        audit(resolve(SUBJECT), seed=2, workers=1, folder=tmp_path),
        audit(resolve(SUBJECT), seed=2, workers=1),
    )
    assert len(counted) > len(set(counted))


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_a_torn_last_line_is_dropped(cut: int, tmp_path: Path, counted: list[str]) -> None:
    kill_after(5, tmp_path, seed=9)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[: -1 - cut])
    torn = counted[4]
    verdict = audit(resolve(SUBJECT), seed=9, workers=1, folder=tmp_path)
    assert [key for key in counted if counted.count(key) > 1] == [torn, torn]
    assert same(verdict, audit(resolve(SUBJECT), seed=9, workers=1))


def test_a_line_torn_in_the_middle_of_a_letter_is_dropped(tmp_path: Path) -> None:
    kill_after(5, tmp_path, seed=9)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes() + b'{"task": "0/0/1", "counts": {"all": {"\\u22')
    assert same(
        audit(resolve(SUBJECT), seed=9, workers=1, folder=tmp_path),
        audit(resolve(SUBJECT), seed=9, workers=1),
    )


def test_killed_twice_at_a_torn_line(tmp_path: Path, counted: list[str]) -> None:
    kill_after(5, tmp_path, seed=9)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:-10])
    kill_after(9, tmp_path, seed=9)
    verdict = audit(resolve(SUBJECT), seed=9, workers=1, folder=tmp_path)
    assert len(counted) == len(set(counted)) + 1
    assert same(verdict, audit(resolve(SUBJECT), seed=9, workers=1))


def test_two_audits_keep_their_work_apart(tmp_path: Path) -> None:
    kill_after(3, tmp_path, seed=9)
    other = resolve("uniform 2 1 100")
    assert same(audit(other, seed=9, workers=1, folder=tmp_path), audit(other, seed=9, workers=1))


def test_kept_chunks_are_invalid_once_any_file_of_the_package_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited = subject("uniform", runs=100)
    names = []
    for content in ("one", "two"):
        package = tmp_path / content
        (package / "core").mkdir(parents=True)
        (package / "core" / "exact.py").write_text(content)
        (package / "__pycache__").mkdir()
        (package / "__pycache__" / "exact.pyc").write_text(content)
        monkeypatch.setattr(engine, "PACKAGE", package)
        names.append(engine.kept_path(tmp_path, audited).name)
    assert names[0] != names[1]
    (tmp_path / "two" / "__pycache__" / "exact.pyc").write_text("compiled anew")
    engine.source_digest.cache_clear()
    assert engine.kept_path(tmp_path, audited).name == names[1]
