"""A publisher on a store: killed at any moment, every unit is committed exactly once and never
changes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap

from penstock.engine.chain import Head, HeadFile
from penstock.engine.sealing import Key
from penstock.engine.sqlite import SQLiteReader, SQLiteStore
from penstock.private.mechanisms.laplace import Laplace
from penstock.private.noise import TestNoise
from penstock.released.series import Series

WORKER = textwrap.dedent(
    """
    import json, sys
    from penstock.engine.sealing import Key
    from penstock.engine.sqlite import SQLiteStore
    from penstock.released.series import Series
    from penstock.private.mechanisms.laplace import Laplace
    from penstock.private.noise import TestNoise

    path, head, seed = sys.argv[1:]
    run = Laplace(epsilon="1/2").run(3, noise=TestNoise(int(seed)))
    store = SQLiteStore(path, head=head, key=Key(bytes(range(32))))
    store.begin(Series.of(run, name="visits"), takeover=True)
    last = store.last("visits")
    position, seen = 0, []
    if last is not None:
        position, seen = last.positions["events"], json.loads(last.private.get("open", b"[]"))
        if last.state is not None:
            run.load(last.state)
    value = run.last.value.tolist() if run.last else None
    print(json.dumps(["last", run.unit, value, ""]), flush=True)
    while True:
        # Event number n is of unit n // 3 + 1: three events, then the unit closes.
        seen.append(position)
        position += 1
        if len(seen) < 3:
            opened = json.dumps(seen).encode()
            store.save("visits", positions={"events": position}, private={"open": opened})
            continue
        unit = run.unit + 1
        assert seen == [3 * unit - 3, 3 * unit - 2, 3 * unit - 1], seen
        release = run.step([sum(seen), 7, unit], unit=unit)
        seen = []
        committed = store.commit(
            "visits",
            unit,
            lines=[line for line in run.ledger if line.unit == unit],
            release=release,
            state=run.snapshot(),
            positions={"events": position},
            private={"open": None},
        )
        print(json.dumps(["fresh", unit, release.value.tolist(), committed.link.hex()]), flush=True)
    """
)


def begun(path, noted, seed):
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(path), str(noted), str(seed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
        bufsize=1,
    )


def test_a_publisher_that_is_killed_again_and_again_commits_every_unit_once(tmp_path):
    """Each start has noise of its own: a unit that was drawn twice would show other numbers."""
    chooser = random.Random(11)
    path, noted = tmp_path / "city.db", tmp_path / "heads.json"
    seen: dict[int, list[int]] = {}
    links: dict[int, str] = {}
    for start in range(15):
        worker = begun(path, noted, start)
        target = chooser.randrange(0, 25)
        lines = []
        for line in worker.stdout:
            lines.append(line)
            if len(lines) > target:
                for _ in range(chooser.randrange(0, 300_000)):  # somewhere between two lines
                    pass
                worker.send_signal(signal.SIGKILL)
                break
        lines += worker.stdout.readlines()
        worker.stdout.close()
        worker.stderr.close()
        assert worker.wait() == -signal.SIGKILL
        if lines and not lines[-1].endswith("\n"):
            lines.pop()  # cut off in the pipe: it was committed, and the next start shows it
        kind, unit, value, _ = json.loads(lines[0])
        assert kind == "last"
        assert unit in (
            len(seen),
            len(seen) + 1,
        )  # the unit that was committed but not seen any more
        if unit:
            assert seen.setdefault(unit, value) == value
        for offset, line in enumerate(lines[1:], start=1):
            kind, printed, value, link = json.loads(line)
            assert (kind, printed) == ("fresh", unit + offset)
            assert printed not in seen
            seen[printed], links[printed] = value, link
        with SQLiteReader(path) as reader:
            verified = reader.verify(
                "visits", head=Head(max(links), bytes.fromhex(links[max(links)])) if links else None
            )
            assert verified.account.kept
            stored = {release.unit: release.value.tolist() for release in reader.releases("visits")}
            assert {unit: stored[unit] for unit in seen} == seen
            assert list(stored) == list(range(1, verified.head.unit + 1))
            assert verified.head.unit in (len(seen), len(seen) + 1)
            assert [line.unit for line in reader.lines("visits")] == list(stored)
            assert HeadFile(noted).read()["visits"].unit in (
                verified.head.unit,
                verified.head.unit + 1,  # it moves before anybody sees the unit
            )
    assert len(seen) >= 100
    with SQLiteStore(path, head=noted, key=Key(bytes(range(32)))) as store:
        run = Laplace(epsilon="1/2").run(3, noise=TestNoise(1))
        store.begin(Series.of(run, name="visits"), takeover=True)
        last = store.last("visits")
        run.load(last.state)
        assert run.unit == last.unit
        assert run.last.value.tolist() == last.release.value.tolist()
        open_events = json.loads(last.private.get("open", b"[]"))
        assert last.positions["events"] == 3 * last.unit + len(open_events)


def test_of_two_publishers_at_once_the_overtaken_one_stops_and_no_unit_is_committed_twice(tmp_path):
    path, noted = tmp_path / "city.db", tmp_path / "heads.json"
    seen: dict[int, list[int]] = {}
    worker = begun(path, noted, 0)
    for start in range(1, 4):
        lines = [worker.stdout.readline() for _ in range(10)]
        heir = begun(path, noted, start)  # takes over while the other one commits
        with worker:
            lines += worker.stdout.readlines()
            assert (
                "another publisher has taken it over. Nothing was written" in worker.stderr.read()
            )
        assert worker.returncode == 1
        for line in lines:
            kind, unit, value, _ = json.loads(line)
            if kind == "fresh":
                assert unit not in seen
            if unit:  # the heir may show a unit that the other one had stored
                assert seen.setdefault(unit, value) == value
        worker = heir
    worker.kill()
    worker.communicate()
    with SQLiteReader(path) as reader:
        reader.verify("visits")
        stored = {release.unit: release.value.tolist() for release in reader.releases("visits")}
    assert sorted(seen) == list(range(1, len(seen) + 1))
    assert {unit: stored[unit] for unit in seen} == seen
    assert len(seen) >= 27
