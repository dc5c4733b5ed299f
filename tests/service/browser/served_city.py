"""A small made-up city whose taps are published every second, and served by `penstock run`.

All events are made up in advance, so nothing has to be sent while a test runs: a history that is
published before the first page opens, and a future that becomes public unit by unit.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

TITLE = "City of Lanternbridge"
HISTORY, FUTURE = 180, 900
"""How many units lie before the start, and for how many there are events after it."""

SURGE, QUIET = 10, 10
"""Taps at the stadium are many for some seconds and few for some seconds, again and again."""

DISTRICTS = {
    "North": ("Observatory", "Mill Hill", "Garden Row", "Kingsfield"),
    "Centre": ("Old Town", "Market", "Cathedral", "Stadium"),
    "South": ("Harbour", "Fishergate", "Saltworks", "Long Beach"),
}
STATIONS = {"Grand Station": (1.9, 1.45), "Airport": (3.6, 2.85), "Ferry Pier": (0.75, -0.25)}
KEYS = [*(zone for zones in DISTRICTS.values() for zone in zones), *STATIONS]
PATIENCE = 180.0
"""Seconds that a server may take to answer first."""

COMMAND = [sys.executable, "-m", "penstock", "run", "city.toml", "--log", "json"]
ENVIRONMENT = {**os.environ, "CITY_KEY": "5c" * 32}
"""The key seals the state. Without it, the store would not be served."""


def map_of_the_city() -> dict[str, Any]:
    """Zones as polygons, stations as points, and a river that has no numbers."""
    shapes: list[tuple[str | None, str, Any]] = []
    for row, zones in enumerate(reversed(list(DISTRICTS.values()))):
        for column, zone in enumerate(zones):
            corners = [
                (0, 0),
                (0.5, 0),
                (1, 0),
                (1, 0.5),
                (1, 1),
                (0.5, 1),
                (0, 1),
                (0, 0.5),
                (0, 0),
            ]
            ring = [_bent(column + dx, row + dy) for dx, dy in corners]
            shapes.append((zone, "Polygon", [ring]))
    shapes += [(name, "Point", _bent(*place)) for name, place in STATIONS.items()]
    river = [_bent(-0.4 + i / 4, 1 + 0.25 * math.sin(i / 2)) for i in range(20)]
    shapes.append((None, "LineString", river))
    features = [
        {
            "type": "Feature",
            "properties": {"zone": name} if name else {"name": "River"},
            "geometry": {"type": kind, "coordinates": coordinates},
        }
        for name, kind, coordinates in shapes
    ]
    return {"type": "FeatureCollection", "features": features}


def _bent(x: float, y: float) -> list[float]:
    """A corner of the grid, moved a little, so that zones look like zones."""
    dx, dy = 0.14 * math.sin(2.1 * x + 3.3 * y), 0.14 * math.sin(1.3 + 2.7 * x - 1.9 * y)
    return [round(8.50 + 0.012 * (x + dx), 5), round(47.36 + 0.008 * (y + dy), 5)]


def taps_at(second: int, place: int) -> int:
    """How many people tap in at a place in this second."""
    if KEYS[place] == "Stadium":
        return 160 if second % (SURGE + QUIET) < SURGE else 8
    if KEYS[place] == "Long Beach":
        return 0
    wave = 1 + 0.6 * math.sin(2 * math.pi * second / 60 + place)
    return round((12 + 5 * place) * wave)


def add_taps(path: Path, seconds: range, origin: datetime) -> None:
    """Append all taps of these seconds after the origin; each is of another person."""
    start, card, lines = int(origin.timestamp()), seconds.start * 10_000, list[str]()
    for second in seconds:
        for place, key in enumerate(KEYS):
            for _ in range(taps_at(second, place)):
                card += 1
                lines.append(f"{start + second},{key},{card}")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


@dataclass
class ServedCity:
    """`penstock run` on the city, as a process of its own that can be killed and started again."""

    folder: Path
    port: int = field(default_factory=lambda: free_port())
    said: list[str] = field(default_factory=list)
    _process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """Publish the history."""
        now = datetime.now(UTC).replace(microsecond=0)
        origin = now - timedelta(seconds=HISTORY)
        (self.folder / "zones.geojson").write_text(json.dumps(map_of_the_city()), encoding="utf-8")
        taps = self.folder / "taps.csv"
        taps.write_text("at,zone,card\n", encoding="utf-8")
        add_taps(taps, range(HISTORY), origin)
        self._configure(origin, until=now)
        done = subprocess.run(
            COMMAND, cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        add_taps(taps, range(HISTORY, HISTORY + FUTURE), origin)
        self._configure(origin)

    def _configure(self, origin: datetime, *, until: datetime | None = None) -> None:
        above = {zone: f"City/{name}" for name, zones in DISTRICTS.items() for zone in zones}
        above |= dict.fromkeys(STATIONS, "City/Stations")
        hierarchy = ", ".join(
            f"{json.dumps(key)} = {json.dumps(path)}" for key, path in above.items()
        )
        end = f'until = "{until.isoformat()}"' if until else 'pace = "0s"'
        growing = "" if until else "growing = true"
        event = (origin + timedelta(seconds=HISTORY - 30)).isoformat()
        alert = """
[[alert]]
name = "crowd"
keys = ["Stadium"]
above = 100
clear = 60
sure = "0.95"
"""
        service = f"""
[service]
listen = "127.0.0.1:{self.port}"
title = "{TITLE}"
map = "zones.geojson"
map_key = "zone"
frames = ["{self.url}"]

[[service.event]]
at = "{event}"
text = "Cup final"
"""
        (self.folder / "city.toml").write_text(
            f"""
[stream]
name = "taps"
every = "1s"
origin = "{origin.isoformat()}"
tolerance = "1h"
{end}

[source]
kind = "csv"
path = "taps.csv"
time = "at"
clock = "seconds"
key = "zone"
person = "card"
{growing}

[domain]
hierarchy = {{{hierarchy}}}

[privacy]
mechanism = "uniform"
epsilon = "2"
window = 10

[store]
key_env = "CITY_KEY"
{alert}
{"" if until else service}
""",
            encoding="utf-8",
        )

    def start(self) -> None:
        """Start it, and wait until it says that it serves."""
        process = subprocess.Popen(
            COMMAND, cwd=self.folder, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
        )
        serving = threading.Event()
        self._process = process
        threading.Thread(target=self._listen, args=(process, serving), daemon=True).start()
        assert serving.wait(PATIENCE), self.said
        assert process.poll() is None, self.said

    def _listen(self, process: subprocess.Popen[str], serving: threading.Event) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                self.said.append(line)
                if '"event": "service"' in line:
                    serving.set()
        serving.set()

    def kill(self) -> None:
        """Kill it as a crash would: without a goodbye."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process = None

    def close(self) -> None:
        if self._process is not None:
            self.kill()


def free_port() -> int:
    """A port that nobody listens at: a server that is started again must have the same one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
