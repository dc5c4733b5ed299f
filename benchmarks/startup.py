"""CPU time of a start: of `penstock --help` and of `import penstock`.

    python benchmarks/startup.py [--json]

User and system time of a child process, interpreter included; the best of five runs. An empty
Python program and `import numpy` stand beside them, because the machine's load moves all four.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator

from report import Figure, main

ROUNDS = 5
STARTS = (
    ("python -c pass", ["-c", "pass"], None),
    ("python -c 'import numpy'", ["-c", "import numpy"], None),
    ("import penstock", ["-c", "import penstock"], 0.2),
    ("penstock --help", ["-m", "penstock", "--help"], 0.3),
)


def child_cpu(arguments: list[str]) -> float:
    """The CPU seconds, user and system, of one child process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure() -> Iterator[Figure]:
    """The best of some runs of each start."""
    for name, arguments, limit in STARTS:
        best = min(child_cpu(arguments) for _ in range(ROUNDS))
        yield Figure(name, best, "s of CPU", limit)


if __name__ == "__main__":
    main(__doc__ or "", measure)
