"""The memory of another process, as an intruder with its rights reads it (Linux)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HAS_PROC = sys.platform == "linux"


@dataclass(frozen=True)
class Look:
    """The facts that a process told before it waited, and all of its memory at that moment."""

    facts: Any
    regions: tuple[bytes, ...]

    def holds(self, pattern: bytes) -> bool:
        """Whether the bytes stand anywhere in the memory."""
        return any(pattern in region for region in self.regions)

    def numbers_among(self, wanted: NDArray[np.int64]) -> set[int]:
        """The wanted numbers that stand somewhere as an aligned int64."""
        found: set[int] = set()
        low, high = wanted.min(), wanted.max()
        for region in self.regions:
            words = np.frombuffer(region, np.int64, count=len(region) // 8)
            near = words[(words >= low) & (words <= high)]
            found.update(near[np.isin(near, wanted)].tolist())
        return found


@contextmanager
def looked_into(script: str) -> Iterator[Look]:
    """Run a script until it calls `wait(facts)`, and look into its memory."""
    prelude = (
        "import json, sys\n"
        "def wait(facts):\n"
        "    print(json.dumps(facts), flush=True)\n"
        "    sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", prelude + script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the script failed"
        regions = tuple(_writable_regions(process.pid))
        assert sum(map(len, regions)) > 1 << 20
        yield Look(json.loads(line), regions)
        process.stdin.close()
    assert process.returncode == 0


def _writable_regions(process: int) -> Iterator[bytes]:
    about = Path(f"/proc/{process}")
    with (about / "maps").open(encoding="ascii") as maps:
        lines = maps.read().splitlines()
    with (about / "mem").open("rb", buffering=0) as memory:
        for line in lines:
            span, rights, *_ = line.split()
            if not rights.startswith("rw"):
                continue
            start, end = (int(place, 16) for place in span.split("-"))
            memory.seek(start)
            try:
                yield memory.read(end - start)
            except OSError:
                continue  # a region of the kernel's
