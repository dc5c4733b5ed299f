"""A sink that is written to in another process, and killed: `python killing.py KIND PATH` goes on
where the sink stands.

Every unit that was put is printed after it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

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


def main(kind: str, path: str) -> None:
    from penstock.released.sinks import JsonLinesSink, ParquetSink

    from tests.released.sinks.items import items, series

    sink = {"parquet": ParquetSink, "jsonl": JsonLinesSink}[kind](path)
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
