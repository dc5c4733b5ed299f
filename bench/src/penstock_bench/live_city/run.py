"""A simulated city, published live: gates send taps to a publisher that is killed and restarted.

Everything between the gates and the releases is what `penstock run` uses: the HTTP source with its
token, the embedded store, two views and a sink of Parquet files. Only people and clock are
simulated: an hour takes a fraction of a second, and the clock waits until every gate was answered,
so a slow machine loses nothing.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import queue
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.calendar import SECOND, instant
from penstock.core.errors import ConfigurationError, StateError
from penstock.core.exact import Exact, positive, whole
from penstock.core.optional import require
from penstock.engine.sqlite import SQLiteReader
from penstock_bench.live_city.geography import MAP, MAP_KEY
from penstock_bench.live_city.geography import written as written_map
from penstock_bench.live_city.publisher import CLOCK, CONFIGURATION, CityClock
from penstock_bench.simulated.city import ORIGIN, City

STREAM: Final = "city"
DAY: Final = 24
HOUR: Final = 3600 * SECOND
BEGIN: Final = instant(f"{ORIGIN}T00:00Z")
HOURLY, DAILY = f"{STREAM}/hourly", f"{STREAM}/daily"
STORE, RELEASES = "city.db", "releases"
TOKEN: Final = "PENSTOCK_CITY_TOKEN"  # noqa: S105 - the name of a variable
KEY: Final = "PENSTOCK_CITY_KEY"
GATES: Final = 6
FIRST_CARD: Final = 100_000
PATIENCE: Final = 60.0
"""The most seconds to wait for one step."""

MARK: Final = "# Written by `penstock lab city`, which deletes this folder when it is made again."

_ARROW, _LINES = "application/vnd.apache.arrow.stream", "application/x-ndjson"
_OLD_GATE: Final = GATES - 1  # this gate sends JSON lines, some of them broken
_WITHHELD: Final = 0.005  # share of the taps at the end of an hour that arrive after its close
_DELAYED: Final = 0.02  # share of the taps of a first half hour that arrive with the second
_TWICE: Final = 0.05  # share of the batches that are sent twice
_BROKEN: Final = (b'{"at": 17804', b"\xff\xfe not UTF-8", b'{"at": "noon", "station": 7}', b"")

_TOML: Final = """{mark}
# What the city publishes and promises. `penstock check` explains this file in words.

[stream]
name = "{stream}"
every = "1h"
origin = "{origin}"
lateness = "10min"                  # an hour closes ten minutes after its end, by the city's clock

[source]
kind = "http"
listen = "127.0.0.1:0"              # any free port
token_env = "{token}"
time = "at"
clock = "microseconds"
key = "station"
person = "card"
person_type = "integer"

[domain]
keys = {keys}

[privacy]
epsilon = "{epsilon}"
window = {window}

[[view]]
name = "hourly"
every = "1h"
mechanism = "uniform"
share = "4/5"

[[view]]
name = "daily"
every = "1d"
mechanism = "uniform"
contribution = 4
share = "1/5"

[store]
path = "{store}"
key_env = "{key}"                   # seals the state: then a service may open the store

[[sink]]
kind = "parquet"
path = "{releases}"

[service]
title = "A simulated city"
map = "{map}"
map_key = "{map_key}"
{events}"""

_EVENT: Final = """
[[service.event]]
at = "{at}"
text = {text}
"""


@dataclass(frozen=True)
class CitySecrets:
    """The token of the gates and the key of the publisher's state, made anew for each run."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)


@dataclass(frozen=True, kw_only=True)
class CityPlan:
    """The plan of a run. The publisher is killed in the first half of hour `crash`, while gates
    send.
    """

    folder: Path
    city: City
    hours: int = 336
    epsilon: Fraction = Fraction(1)
    window: int = DAY
    crash: int = -1
    seconds: float = 0.06
    """The least real seconds per simulated hour."""

    secrets: CitySecrets = field(default_factory=CitySecrets, compare=False)

    def __post_init__(self) -> None:
        whole(self.hours, name="hours", least=2)
        whole(self.window, name="window", least=1)
        if not self.folder.name:
            raise ConfigurationError(
                "out must be a folder with a name of its own, such as out/city."
            )
        if not 0 <= self.seconds <= 3600:
            raise ConfigurationError(
                f"seconds={self.seconds}: an hour of the city takes 0 to 3600 seconds"
            )
        if not 0 <= self.crash < self.hours:
            raise ConfigurationError(
                f"crash={self.crash}: the publisher is killed in one of the hours "
                f"0..{self.hours - 1}"
            )

    @classmethod
    def of(
        cls,
        folder: Path,
        *,
        people: int,
        hours: int,
        epsilon: Exact,
        window: int,
        seed: int,
        seconds: float,
    ) -> CityPlan:
        """A plan with the crash in the rush hour after the middle, or in the middle if there is
        none.
        """
        whole(hours, name="hours", least=2)
        crash = next((hour for hour in range(hours // 2, hours) if hour % DAY == 8), hours // 2)
        city = City(people=people, seed=seed)
        share = positive(epsilon, name="epsilon")
        return cls(
            folder=folder,
            city=city,
            hours=hours,
            epsilon=share,
            window=window,
            crash=crash,
            seconds=seconds,
        )

    @property
    def page(self) -> Path:
        """The path of the page: beside the folder, with its name."""
        return self.folder.with_name(f"{self.folder.name}.html")

    @property
    def notes(self) -> list[tuple[int, str]]:
        """What readers should know of, by hour: the events of the story, and the crash."""
        crash = (self.crash, "The publisher is killed (SIGKILL) and started again")
        return sorted([*self.city.notes(self.hours), crash])

    def write(self) -> None:
        """Make a new folder with configuration and map. A folder of others is refused."""
        configuration = self.folder / CONFIGURATION
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            ours = configuration.is_file() and configuration.read_text(
                encoding="utf-8", errors="replace"
            ).startswith(MARK)
            if not ours:
                raise ConfigurationError(
                    f"{self.folder} is in use, and was not made by this command: choose another "
                    "--out."
                )
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        keys = "[\n" + "".join(f"    {json.dumps(key)},\n" for key in self.city.keys) + "]"
        text = _TOML.format(
            mark=MARK,
            stream=STREAM,
            origin=ORIGIN,
            token=TOKEN,
            keys=keys,
            epsilon=self.epsilon,
            window=self.window,
            store=STORE,
            key=KEY,
            releases=RELEASES,
            map=MAP,
            map_key=MAP_KEY,
            events="".join(
                _EVENT.format(at=local_time(hour), text=json.dumps(note, ensure_ascii=False))
                for hour, note in self.notes
            ),
        )
        configuration.write_text(text, encoding="utf-8")
        (self.folder / MAP).write_text(written_map(self.city), encoding="utf-8")


def local_time(hour: int) -> str:
    """The beginning of an hour as text, in the zone of the city."""
    return (datetime.fromisoformat(ORIGIN) + timedelta(hours=hour)).isoformat(timespec="minutes")


def needed() -> None:
    """Check that the optional packages are installed."""
    for module, extra, purpose in (
        ("fastapi", "serve", "events by HTTP"),
        ("uvicorn", "serve", "events by HTTP"),
    ):
        require(module, extra, purpose)


# -- what the gates send ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """One request of a gate."""

    gate: int
    key: str
    media: str
    body: bytes
    taps: int
    twice: bool


@dataclass(frozen=True, kw_only=True)
class Sent:
    """The totals that the gates sent."""

    taps: int = 0
    batches: int = 0
    twice: int = 0
    again: int = 0
    late: int = 0
    delayed: int = 0
    broken: int = 0


@dataclass(frozen=True, kw_only=True)
class Hour:
    """The requests of both halves of an hour, and the totals up to its end."""

    halves: tuple[list[Parcel], ...]
    sent: Sent


class TapGates:
    """All taps of the city by half hours, with the mistakes of careless gates."""

    def __init__(self, city: City, hours: int) -> None:
        self.city = city
        person, hour, self._station = city.moves(hours)
        self._card = person + FIRST_CARD
        self._ends = np.searchsorted(hour, np.arange(hours + 1))
        self.truth: IntArray = np.bincount(
            hour * city.stations + self._station, minlength=hours * city.stations
        ).reshape(hours, city.stations)  # fmt: skip
        self.sent = Sent(taps=len(person))

        self._withheld: list[tuple[IntArray, IntArray, IntArray]] = []

    def hour(self, hour: int) -> Hour:
        """The requests of both halves of an hour. Hours come in order."""
        rng = np.random.default_rng((self.city.seed, 7, hour))
        station, card = self._taps(hour)
        offset = rng.integers(0, HOUR, len(card))
        at = BEGIN + hour * HOUR + offset
        second = offset >= HOUR // 2
        delayed = ~second & (rng.random(len(card)) < _DELAYED)
        withheld = (offset >= 5 * HOUR // 6) & (rng.random(len(card)) < _WITHHELD)
        late, self._withheld = self._withheld, [(at[withheld], station[withheld], card[withheld])]
        columns = (at, station, card)
        halves = [
            [each[~second & ~delayed] for each in columns],
            [
                np.concatenate([each[(second | delayed) & ~withheld], *(old[i] for old in late)])
                for i, each in enumerate(columns)
            ],
        ]
        self.sent = replace(
            self.sent,
            late=self.sent.late + sum(len(old[0]) for old in late),
            delayed=self.sent.delayed + int(delayed.sum()),
        )
        made = tuple(self._parcels(hour, half, columns, rng) for half, columns in enumerate(halves))
        return Hour(halves=made, sent=self.sent)

    def _taps(self, hour: int) -> tuple[IntArray, IntArray]:
        """The station and the card of every tap of an hour."""
        mine = slice(self._ends[hour], self._ends[hour + 1])
        return self._station[mine], self._card[mine]

    def _parcels(
        self, hour: int, half: int, columns: list[IntArray], rng: np.random.Generator
    ) -> list[Parcel]:
        order = rng.permutation(len(columns[0]))
        at, station, card = (each[order] for each in columns)
        made = []
        for gate in range(GATES):
            mine = station % GATES == gate
            old = gate == _OLD_GATE
            broken = int(rng.integers(1, 4)) if old else 0
            body = (_in_lines if old else _in_arrow)(
                self.city.keys, at[mine], station[mine], card[mine]
            )
            if old:
                body += b"\n".join(_BROKEN[i % len(_BROKEN)] for i in range(broken)) + b"\n"
            twice = bool(rng.random() < _TWICE)
            key = f"gate {gate}, hour {hour}, half {half}"
            taps = int(mine.sum())
            if taps:
                made.append(
                    Parcel(
                        gate=gate,
                        key=key,
                        media=_LINES if old else _ARROW,
                        body=body,
                        taps=taps,
                        twice=twice,
                    )
                )
                self.sent = replace(
                    self.sent,
                    batches=self.sent.batches + 1,
                    twice=self.sent.twice + twice,
                    broken=self.sent.broken + broken,
                )
        return made


def _in_lines(keys: tuple[str, ...], at: IntArray, station: IntArray, card: IntArray) -> bytes:
    names = [json.dumps(key) for key in keys]
    rows = zip(at.tolist(), station.tolist(), card.tolist(), strict=True)
    return "".join(
        f'{{"at": {t}, "station": {names[s]}, "card": {c}}}\n' for t, s, c in rows
    ).encode()


def _in_arrow(keys: tuple[str, ...], at: IntArray, station: IntArray, card: IntArray) -> bytes:
    pa: Any = import_module("pyarrow")
    named = pa.DictionaryArray.from_arrays(pa.array(station.astype(np.int32)), pa.array(keys))
    table = pa.table({"at": at, "station": named, "card": card})
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


# -- the publisher, from outside -------------------------------------------------------------------


class Outside:
    """The process that publishes: its address, its messages, its end."""

    def __init__(self, folder: Path, given: CitySecrets) -> None:
        self._folder, self._given = folder, given
        self._address: tuple[str, int] | None = None
        self._there = threading.Event()
        self.troubles: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.problem = ""

    def begin(self) -> None:
        """Start the process, without waiting for it."""
        self._there.clear()
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "penstock_bench.live_city.publisher", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {TOKEN: self._given.token, KEY: self._given.key},
            start_new_session=True,  # Ctrl-C is for the parent, which ends this process in order
        )
        self._first: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._reading = threading.Thread(
            target=self._listen, args=(self._process, self._first), daemon=True
        )
        self._reading.start()

    def ready(self) -> dict[str, Any]:
        """Wait until it listens; return its message."""
        try:
            said = self._first.get(timeout=PATIENCE)
        except queue.Empty:
            said = {"what": "failed", "text": "it did not begin to listen in time."}
        if said["what"] != "listening":
            self.close()
            raise StateError(
                f"the publisher of the city did not start: {said.get('text') or 'it has ended.'}"
            )
        self._address = str(said["host"]), int(said["port"])
        self._there.set()
        return said

    def _listen(
        self, process: subprocess.Popen[bytes], first: queue.SimpleQueue[dict[str, Any]]
    ) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            said = json.loads(line)
            if said["what"] in ("listening", "failed"):
                first.put(said)
            if said["what"] == "failed":
                self.problem = said["text"]
            if said.get("level", "info") != "info":
                self.troubles.put(said["text"])
        first.put({"what": "ended"})

    def where(self) -> tuple[str, int]:
        """Its address, as soon as it listens."""
        if not self._there.wait(PATIENCE) or self._address is None:
            raise StateError("the publisher of the city does not listen.")
        return self._address

    def check(self) -> None:
        """Raise an error if the process has ended."""
        process = self._process
        gone = self._there.is_set() and process.poll() is not None
        if (
            gone and self._there.is_set() and process is self._process
        ):  # and it was not killed on purpose
            raise StateError(
                "the publisher of the city has ended by itself: "
                f"{self.problem or 'it did not say why.'}"
            )

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._there.clear()
        self._process.kill()
        self._ended()

    def close(self) -> int:
        """Let the process end by itself, after whole units; return its exit code."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
        return self._ended()

    def _ended(self) -> int:
        code = self._process.wait()
        self._reading.join(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        return code


@dataclass(eq=False)
class TapGate:
    """A sender that repeats a request with its key until it is answered."""

    outside: Outside
    token: str = field(repr=False)
    again: int = 0
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def send(self, parcel: Parcel) -> None:
        deadline = time.monotonic() + PATIENCE
        for _ in range(2 if parcel.twice else 1):
            while not self._sent(parcel):
                if time.monotonic() > deadline:
                    raise StateError("the publisher of the city does not answer its gates.")
                self.again += 1
                self.close()

    def _sent(self, parcel: Parcel) -> bool:
        self.outside.check()
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": parcel.media,
            "Idempotency-Key": parcel.key,
        }
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(
                    *self.outside.where(), timeout=PATIENCE
                )
            self._connection.request("POST", "/events", parcel.body, headers)
            answer = self._connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            return False
        if answer.status in (429, 503):
            time.sleep(0.05)
            return False
        if answer.status != 200:
            raise StateError(f"the publisher of the city answers {answer.status} to a gate.")
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


# -- the show --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Crash:
    """The crash: when, with which requests unanswered, and where publishing continued."""

    hour: int
    unanswered: int
    taps: int
    down: float
    released: dict[str, int]
    """The newest unit of each series when it was killed."""

    resumed: dict[str, int]
    """The newest unit of each series after the restart."""

    @property
    def waited(self) -> int:
        """How many units were stored and not yet shown when it was killed: the restart shows them.

        It is 0 or 1 per series if nothing was lost or drawn again.
        """
        return sum(self.resumed.values()) - sum(self.released.values())

    @property
    def whole(self) -> bool:
        """Whether publishing continued where it was."""
        return all(self.resumed[name] - unit in (0, 1) for name, unit in self.released.items())


@dataclass(frozen=True, kw_only=True)
class CityEvent:
    """A progress report: a half hour has passed, or there is a message."""

    hour: int
    half: int
    sent: Sent
    line: str = ""


@dataclass(frozen=True, kw_only=True)
class CityOutcome:
    """Everything known at the end, with the truth: nobody in this city is real."""

    plan: CityPlan
    truth: IntArray
    sent: Sent
    crash: Crash
    seen: dict[tuple[str, int], IntArray]
    """Every release as it was when first seen."""

    seconds: float


def run(
    plan: CityPlan, watch: Callable[[CityEvent, SQLiteReader], None] = lambda shown, reader: None
) -> CityOutcome:
    """Run the city: gates send every half hour, every hour is released, one crash on the way."""
    needed()
    plan.write()
    return CityShow(plan, watch).run()


class CityShow:
    """Drives the city through its hours: the clock, the gates, the publisher and its crash."""

    def __init__(self, plan: CityPlan, watch: Callable[[CityEvent, SQLiteReader], None]) -> None:
        self.plan = plan
        self._watch = watch
        self._clock = CityClock(plan.folder / CLOCK)
        self._outside = Outside(plan.folder, plan.secrets)
        self._seen: dict[tuple[str, int], IntArray] = {}
        self._crash: Crash | None = None

    def run(self) -> CityOutcome:
        """Run the hours of the plan, and return what is known at the end."""
        began = time.monotonic()
        self._clock.beat(BEGIN)
        with self._publishing(lambda: TapGates(self.plan.city, self.plan.hours)):
            self._days()
            self._last()
        if self._crash is None:
            raise StateError("the publisher of the city was never killed.")
        return CityOutcome(
            plan=self.plan,
            truth=self._gates.truth,
            sent=self._sent,
            crash=self._crash,
            seen=self._seen,
            seconds=time.monotonic() - began,
        )

    @contextmanager
    def _publishing(self, make_gates: Callable[[], TapGates]) -> Iterator[None]:
        """Start the publisher and the gates, and end them afterwards in order."""
        self._outside.begin()
        token = self.plan.secrets.token
        self._senders = [TapGate(self._outside, token) for _ in range(GATES)]
        try:
            self._gates = make_gates()
            self._outside.ready()
            with (
                SQLiteReader(self.plan.folder / STORE) as reader,
                ThreadPoolExecutor(GATES, "gate") as pool,
            ):
                self._reader, self._pool = reader, pool
                yield
        finally:
            for sender in self._senders:  # gates at work have ended: they would connect again
                sender.close()
            code = self._outside.close()
        if code:
            raise StateError(
                "the publisher of the city has failed: "
                f"{self._outside.problem or 'it did not say why.'}"
            )

    def _days(self, first: int = 0, hours: int | None = None) -> None:
        """Run hour by hour. The next hour is prepared while this one is sent."""
        last = first + (self.plan.hours if hours is None else hours) - 1
        with ThreadPoolExecutor(1, "packing") as packing:
            coming = packing.submit(self._gates.hour, first)
            for hour in range(first, last + 1):
                packed = coming.result()
                if hour < last:
                    coming = packing.submit(self._gates.hour, hour + 1)
                self._packed = packed.sent
                self._hour(hour, packed)

    def _kills(self, hour: int) -> bool:
        """Whether the publisher is killed in an hour."""
        return hour == self.plan.crash

    @property
    def _sent(self) -> Sent:
        return replace(self._packed, again=sum(sender.again for sender in self._senders))

    def _hour(self, hour: int, packed: Hour) -> None:
        """Send each half when it is over. The previous hour has closed by the first half."""
        for half, parcels in enumerate(packed.halves):
            began = time.monotonic()
            self._clock.beat(BEGIN + hour * HOUR + (half + 1) * (HOUR // 2))
            under_way = {
                self._pool.submit(self._senders[parcel.gate].send, parcel): parcel
                for parcel in parcels
            }
            if half == 0 and self._kills(hour):
                self._kill(hour, under_way)
            for each in under_way:
                each.result()
            self._note()
            while not self._outside.troubles.empty():
                line = self._outside.troubles.get()
                self._watch(
                    CityEvent(hour=hour, half=half, sent=self._sent, line=line), self._reader
                )
            self._watch(CityEvent(hour=hour, half=half, sent=self._sent), self._reader)
            time.sleep(max(self.plan.seconds / 2 - (time.monotonic() - began), 0))

    def _kill(self, hour: int, under_way: dict[Future[None], Parcel]) -> None:
        """Kill the publisher as soon as one gate was answered, while others wait."""
        wait(under_way, timeout=1.0, return_when="FIRST_COMPLETED")
        began = time.monotonic()
        self._outside.kill()
        open_ = [parcel for each, parcel in under_way.items() if not each.done()]
        self._note()
        released = {name: self._reader.head(name).unit for name in (HOURLY, DAILY)}
        name = self.plan.city.unit_names(max(self.plan.hours, hour + 1))[hour]
        sent = self._sent
        self._watch(
            CityEvent(
                hour=hour, half=0, sent=sent, line=f"{name}: the publisher is killed (SIGKILL)"
            ),
            self._reader,
        )
        self._wait_before_restart()
        self._outside.begin()
        resumed = self._outside.ready()["units"]
        down = time.monotonic() - began
        self._crash = Crash(
            hour=hour,
            unanswered=len(open_),
            taps=sum(parcel.taps for parcel in open_),
            down=down,
            released=released,
            resumed=resumed,
        )
        line = (
            f"{name}: started again after {down:.1f} s; it continues with hour "
            f"{resumed[HOURLY] + 1}, and the gates send again"
        )
        self._watch(CityEvent(hour=hour, half=0, sent=sent, line=line), self._reader)

    def _wait_before_restart(self) -> None:
        """Start again at once."""

    def _last(self) -> None:
        """Close the last hour."""
        self._clock.beat(BEGIN + self.plan.hours * HOUR + 601 * SECOND)
        deadline = time.monotonic() + PATIENCE
        wanted = {HOURLY: self.plan.hours, DAILY: self.plan.hours // DAY}
        while any(self._reader.head(name).unit < unit for name, unit in wanted.items() if unit):
            self._outside.check()
            if time.monotonic() > deadline:
                raise StateError("the publisher of the city did not release the last hour in time.")
            time.sleep(0.01)
        self._note()

    def _note(self) -> None:
        """Store every release as it was when first seen."""
        for name in (HOURLY, DAILY):
            known = sum(stream == name for stream, _ in self._seen)
            for release in self._fresh(name, known):
                self._seen[name, release.unit] = np.array(release.value)

    def _fresh(self, name: str, known: int) -> Iterator[Any]:
        newest = self._reader.head(name).unit
        return self._reader.releases(name, known + 1, newest) if newest > known else iter(())
