"""`run(keep=...)`: whatever happens, and whenever, no release is lost or drawn again."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from penstock.core.errors import InputError, StateError
from penstock.private.mechanisms.ba import BudgetAbsorption
from penstock.private.mechanisms.uniform import Uniform
from penstock.private.noise import NoNoise, TestNoise

COUNTS = [[unit, 500 * (unit // 3 % 2)] for unit in range(1, 30)]


def mechanism():
    return BudgetAbsorption(epsilon="1", window=4)


# -- faults ----------------------------------------------------------------------------------------

CALLS = ["open", "fsync", "replace", "rename", "write", "close", "ftruncate", "fdopen"]


class Faulty:
    """Makes the k-th call into the operating system fail, before or after it was done."""

    def __init__(self, monkeypatch, *, after: bool) -> None:
        self.calls: list[str] = []
        self.fail_at: int | None = None
        self._after = after
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name, real):
        def call(*args, **kwargs):
            if self.fail_at is None:
                return real(*args, **kwargs)
            self.calls.append(name)
            if len(self.calls) - 1 != self.fail_at:
                return real(*args, **kwargs)
            if self._after:
                result = real(*args, **kwargs)
                if name in ("open", "fdopen"):
                    (os.close if isinstance(result, int) else type(result).close)(result)
            raise OSError(errno.EIO, "injected")

        return call


@pytest.mark.parametrize("after", [False, True], ids=["before it is done", "after it is done"])
def test_a_fault_at_any_call_leaves_the_old_or_the_new_snapshot(tmp_path, monkeypatch, after):
    path = tmp_path / "run.state"
    faulty = Faulty(monkeypatch, after=after)
    handed = {}
    for place in range(40):
        run = mechanism().run(2, keep=path)
        unit = run.unit + 1
        if unit > 1:
            kept = run.last.value.tolist()
            assert handed.setdefault(run.unit, kept) == kept
            with pytest.raises(InputError, match="never drawn again"):
                run.step(COUNTS[0], unit=run.unit)
        handed[unit] = run.step(COUNTS[unit % 29], unit=unit).value.tolist()  # one that works
        faulty.calls, faulty.fail_at = [], place
        try:
            released = run.step(COUNTS[unit % 29 - 1], unit=unit + 1)
        except OSError:
            failed = True
            with pytest.raises(StateError, match="failed midway"):
                run.step(COUNTS[0])
        else:
            failed = False
            handed[unit + 1] = released.value.tolist()
        calls, faulty.fail_at = faulty.calls, None
        run.close()
        again = mechanism().run(2, keep=path)
        assert again.unit in ((unit, unit + 1) if failed else (unit + 1,))
        if again.unit in handed:
            assert again.last.value.tolist() == handed[again.unit]
        again.close()
        if place >= len(calls):
            assert not failed
            break
    else:
        pytest.fail("the calls never ended")
    assert {"fsync", "open"} <= set(calls)
    assert calls.count("fsync") >= 2  # the file and its folder
    assert {"replace", "rename"} & set(calls)


def test_a_disk_that_is_full_in_the_middle_of_a_write_leaves_the_old_snapshot(
    tmp_path, monkeypatch
):
    path = tmp_path / "run.state"
    run = mechanism().run(2, keep=path)
    first = run.step([1, 2])
    before, real = path.read_bytes(), os.fdopen

    def small(*args, **more):
        file = real(*args, **more)
        write = file.write

        class Small:
            def __enter__(self):
                return self

            def __exit__(self, *_):
                file.close()

            def write(self, content):
                write(content[: len(content) // 2])
                raise OSError(errno.ENOSPC, "no space left")

        return Small()

    monkeypatch.setattr(os, "fdopen", small)
    with pytest.raises(OSError, match="no space"):
        run.step([3, 4])
    monkeypatch.undo()
    assert path.read_bytes() == before
    run.close()
    with mechanism().run(2, keep=path) as again:
        assert again.last.value.tolist() == first.value.tolist()
        assert again.step([3, 4], unit=2).unit == 2


def test_the_new_snapshot_is_on_the_disk_before_it_replaces_the_old_one(tmp_path, monkeypatch):
    order = []
    real_fsync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (order.append("fsync"), real_fsync(handle))[1])
    monkeypatch.setattr(
        os,
        "replace",
        lambda *args, **more: (order.append("replace"), real_replace(*args, **more))[1],
    )
    with mechanism().run(2, keep=tmp_path / "run.state") as run:
        run.step([1, 2])
    assert order == ["fsync", "replace", "fsync"]


def test_a_snapshot_that_was_written_half_is_not_the_snapshot(tmp_path):
    path = tmp_path / "run.state"
    with mechanism().run(2, keep=path) as run:
        first = run.step([1, 2])
    leftovers = set(tmp_path.iterdir())
    for name in ("run.state.new", "run.state.tmp"):
        (tmp_path / name).write_bytes(b"half a snap")
    with mechanism().run(2, keep=path) as run:
        assert run.last.value.tolist() == first.value.tolist()
        run.step([3, 4])
    with mechanism().run(2, keep=path) as run:
        assert run.unit == 2
    assert leftovers <= set(tmp_path.iterdir())


def test_a_damaged_file_is_refused_and_left_alone(tmp_path):
    with mechanism().run(2, keep=tmp_path / "run.state") as run:
        run.step([1, 2])
    good = (tmp_path / "run.state").read_bytes()
    for number, bad in enumerate((b"", good[:-1], good[:30], b"x" + good[1:], good + b"x")):
        path = tmp_path / f"{number}.state"
        path.write_bytes(bad)
        with pytest.raises(StateError, match=r"damaged|not a snapshot"):
            mechanism().run(2, keep=path)
        assert path.read_bytes() == bad


def test_a_file_that_was_refused_is_free_again(tmp_path):
    path = tmp_path / "run.state"
    with mechanism().run(2, keep=path) as run:
        run.step([1, 2])
    with pytest.raises(StateError, match="another configuration"):
        BudgetAbsorption(epsilon="2", window=4).run(2, keep=path)
    with mechanism().run(2, keep=path) as run:
        assert run.unit == 1


# -- one run at a time, readable by its owner ------------------------------------------------------


def test_a_second_run_is_refused_while_the_first_lives(tmp_path):
    path = tmp_path / "run.state"
    first = mechanism().run(2, keep=path)
    for _ in range(2):
        with pytest.raises(StateError, match="in use by another run"):
            mechanism().run(2, keep=path)
    first.step([1, 2])
    with pytest.raises(StateError, match="in use by another run"):
        mechanism().run(2, keep=str(path))
    first.close()
    first.close()
    with mechanism().run(2, keep=path) as second:
        assert second.unit == 1
    with pytest.raises(StateError):
        first.step([1, 2])


def test_a_second_run_is_refused_under_another_name_of_the_same_file(tmp_path):
    path, link = tmp_path / "run.state", tmp_path / "link.state"
    with mechanism().run(2, keep=path) as run:
        run.step([1, 2])
    link.symlink_to(path)
    with mechanism().run(2, keep=path), pytest.raises(StateError, match="in use by another run"):
        mechanism().run(2, keep=link)


def test_a_run_stays_with_its_file_when_the_folder_changes(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with mechanism().run(2, keep="run.state") as run:
        run.step([1, 2])
        monkeypatch.chdir(tmp_path / "elsewhere")
        run.step([3, 4])
    with mechanism().run(2, keep=tmp_path / "run.state") as run:
        assert run.unit == 2


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_the_file_is_readable_by_its_owner_only(tmp_path, mask):
    before = os.umask(mask)
    try:
        with mechanism().run(2, keep=tmp_path / "run.state") as run:
            run.step([1, 2])
            modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == {0o600}


def test_the_file_is_readable_by_its_owner_only_even_if_something_lay_in_its_place(tmp_path):
    path = tmp_path / "run.state"
    for name in ("run.state.new", "run.state"):
        (tmp_path / name).touch(mode=0o644)
        (tmp_path / name).chmod(0o644)
    path.unlink()
    with mechanism().run(2, keep=path) as run:
        run.step([1, 2])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_kept_run_goes_on_as_if_nothing_had_happened(tmp_path):
    straight = mechanism().run(2, noise=TestNoise(3))
    for row in COUNTS:
        with mechanism().run(2, noise=TestNoise(3), keep=tmp_path / "run.state") as run:
            assert run.step(row).value.tolist() == straight.step(row).value.tolist()


def test_nothing_is_handed_out_that_was_not_saved(tmp_path, monkeypatch):
    path = tmp_path / "run.state"
    run = Uniform(epsilon="1", window=2).run(2, noise=NoNoise(), keep=path)
    run.step([1, 2])
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        run.step([3, 4])
    assert run.unit == 1
    assert path.read_bytes() == before
    run.close()


# -- killed ----------------------------------------------------------------------------------------

WORKER = textwrap.dedent(
    """
    import json, sys
    from penstock.private.mechanisms.ba import BudgetAbsorption

    run = BudgetAbsorption(epsilon="1", window=4).run(3, keep=sys.argv[1])
    last = run.last
    print(json.dumps(["last", run.unit, last.value.tolist() if last else None]), flush=True)
    for unit in range(run.unit + 1, 10**6):
        released = run.step([unit, 300 * (unit // 5 % 2), 7], unit=unit)
        print(json.dumps(["fresh", unit, released.value.tolist()]), flush=True)
    """
)


def test_a_run_that_is_killed_again_and_again_repeats_and_loses_nothing(tmp_path):
    chooser = random.Random(7)
    path = tmp_path / "run.state"
    fresh: dict[int, list[int]] = {}
    last_unit = 0
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(15):
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path)],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            bufsize=1,
        )
        target = chooser.randrange(0, 40)
        lines = []
        for line in worker.stdout:
            lines.append(line)
            if len(lines) > target:
                worker.send_signal(signal.SIGKILL)
                break
        lines += worker.stdout.readlines()
        worker.stdout.close()
        assert worker.wait() == -signal.SIGKILL
        if lines and not lines[-1].endswith("\n"):
            lines.pop()  # cut off in the pipe: it was saved, and the next run shows it
        kind, unit, value = json.loads(lines[0])
        assert kind == "last"
        assert unit in (last_unit, last_unit + 1)  # the unit that was saved but not seen any more
        if unit in fresh:
            assert value == fresh[unit]
        elif unit:
            fresh[unit] = value
        for offset, line in enumerate(lines[1:], start=1):
            kind, printed, value = json.loads(line)
            assert (kind, printed) == ("fresh", unit + offset)
            assert printed not in fresh
            fresh[printed] = value
        last_unit = max(fresh, default=0)
    assert sorted(fresh) == list(range(1, last_unit + 1))
    assert last_unit >= 100
    assert len({tuple(value) for value in fresh.values()}) > 10
    with mechanism().run(3, keep=path) as run:
        assert run.unit in (last_unit, last_unit + 1)
        assert np.isfinite(run.last.estimate).all()
    assert Path(path).stat().st_size < 10_000
