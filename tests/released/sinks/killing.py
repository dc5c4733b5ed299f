"""Sinks whose process dies: killed from outside, or before a chosen change of the disk.

`python killing.py KIND PATH` goes on where the sink stands, and prints every unit after its put.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

from penstock.released.sinks import parquet_days

ROOT = Path(__file__).parents[3]


def killed_often(kind: str, path: Path, *, kills: int, seen: Callable[[int], None]) -> int:
    """Kill the writer again and again at uneven moments; the last unit it has confirmed. `seen` is
    called after each kill.
    """
    random, confirmed = Random(7), 0
    for _ in range(kills):
        command = [sys.executable, "-m", "tests.released.sinks.killing", kind, str(path)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(random.randint(1, 12)):
                confirmed = int(process.stdout.readline())
            process.kill()
            for line in process.stdout:  # what it had said before it died
                confirmed = int(line) if line.endswith("\n") else confirmed
        seen(confirmed)
    return confirmed


CHANGES = (
    (os, "fsync"),
    (Path, "replace"),
    (Path, "mkdir"),
    (os, "unlink"),
    (os, "rmdir"),
    (os, "ftruncate"),
    (shutil, "rmtree"),
    (parquet_days, "exchange"),
)
"""Every call of file sinks that changes the disk, by where it is looked up."""


def dies_before_change(number: int, work: Callable[[], None]) -> bool:
    """Whether a process dies that does this work, and dies before its n-th change of the disk."""
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 9)
        return code == 9
    left = number

    def dying(real: Callable) -> Callable:
        def call(*args, **more):
            nonlocal left
            left -= 1
            if not left:
                os._exit(9)
            return real(*args, **more)

        return call

    try:
        for owner, name in CHANGES:
            setattr(owner, name, dying(getattr(owner, name)))
        work()
        os._exit(0)
    finally:
        os._exit(1)


def main(kind: str, path: str) -> None:
    from penstock.released.sinks import CsvSink, JsonLinesSink, ParquetSink

    from tests.released.sinks.items import items, series

    sink = {"parquet": ParquetSink, "jsonl": JsonLinesSink, "csv": CsvSink}[kind](path)
    of = series("kept", keys=2000)
    head = sink.head(of.name)
    unit = head[0] if head else 0
    while True:
        some = items(of, unit + 1, unit + 1 + unit % 3)
        sink.put(some)
        unit = some[-1].unit
        print(unit, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
