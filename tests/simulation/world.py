"""One simulated world: machines, disks, clocks and everybody around a publisher, from one seed."""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

import msgspec

from penstock.core.calendar import instant
from penstock.core.errors import PenstockError, StateError
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.signing import SigningKey
from penstock.engine.sql_store import SqlStore
from penstock.engine.sqlite import SQLiteReader, SQLiteStore, SQLiteWriter
from penstock.private import state
from penstock.private.units import SystemClock

from tests.simulation import driver, outside
from tests.simulation.disk import Disk, content_of
from tests.simulation.plan import Plan, plan_of
from tests.simulation.scheduler import Crash, Scheduler, SimulatedRuntime, StuckError
from tests.simulation.system import SimulatedSystem
from tests.simulation.witnesses import Parcel, ViolationError, Witnesses

ORIGIN = "2026-01-01"
BEGIN = instant("2026-01-01T00:00Z")
KEYS = ["north", "south"]
SIGNING_KEY = SigningKey(bytes(range(32)))
CALM_SECONDS = 400.0
"""How long everything may take, once no more faults come."""
MAX_REFUSALS = 4
"""How often a publisher may refuse to start, once no more faults come."""
MAX_PROCESSES = 150
MAX_OFFSET = 100.0
LEAP_UNITS = 100
"""How far a clock leaps. A publisher that starts just then releases all these units, one by one."""
PIECE_BYTES = 8
"""The size of pieces of a state: all arrays are stored in pieces."""
DISK_CALLS = ("read", "write", "sync", "truncate", "remove", "rename", "sync folder")


class Machine:
    """A computer: a disk, a clock, and at most one publisher after the other."""

    def __init__(self, world, name, disk, *, copied_from=None):
        self.world, self.name, self.disk = world, name, disk
        self.offset = 0.0
        self.process = None
        self.started = 0
        self.refusals = 0
        self.refusal = ""
        self.starts_at = 0.0
        self.given_up = False
        self.copied_from = copied_from  # machine and time
        self.lost = False

    def wall(self):
        """The nanoseconds that its clock shows; someone may have set it."""
        process = self.world.process
        self.world.op(process, "clock", None)
        return int((BEGIN + (self.world.scheduler.now + self.offset) * 1e6) * 1_000)


class Process:
    """One life of a publisher."""

    def __init__(self, machine):
        world = machine.world
        machine.started += 1
        self.machine, self.world = machine, world
        self.name = f"{machine.name}.{machine.started}"
        self.dead = False
        self.death = ""
        self.reaped = False
        self.ended = False
        self.stalled_until = 0.0
        self.publisher = None
        self.source = outside.SimulatedReceiver(world, self)

    def run(self):
        world, machine = self.world, self.machine
        try:
            with world.open_store(self) as store:
                publisher = Publisher(
                    world.pipeline(machine),
                    clock=SystemClock(machine.wall),
                    noise=lambda: outside.NotedNoise(world, self, world.series),
                    store=store,
                    source=self.source,
                    listener=self._hear,
                    runtime=SimulatedRuntime(world.scheduler, self),
                )
                with publisher:
                    self.publisher = publisher
                    publisher.run()
        except PenstockError as error:
            if self.dead:
                raise Crash from None
            world.refused(self, error)
        except Exception as error:
            if self.dead:
                raise Crash from None
            raise ViolationError(
                f"{self.name} ended with {type(error).__name__}, which is no sentence: {error}"
            ) from error
        finally:
            self.ended = True

    def _hear(self, notice):
        if "unexpected error" in notice.text:
            raise ViolationError(f"{self.name}: {notice.text}")
        if notice.kind == "release" and self.publisher is not None:
            for view in self.publisher.views:
                release = view.committed.release
                if release is not None:
                    self.world.figure(self, view.name, release)


class ServerStore(SqlStore, SQLiteWriter):
    """A store on another machine, as PostgreSQL is: only the lease keeps publishers apart."""

    def __init__(self, path, *, head, clock, connect):
        self.path, self.name = path, path.name
        self._clock = clock
        self._driver = connect
        self._wait = 0
        SqlStore.__init__(self, head=head, key=None)

    def _now(self):
        return self._clock()

    def _select(self, what, *values):
        self._look_again()
        return super()._select(what, *values)

    @contextmanager
    def _whole(self, kind):
        self._look_again()
        with super()._whole(kind):
            yield

    def _look_again(self):
        """Compare the store with what was committed here, after each new connection."""
        if self._file.renewed and not self._file.in_transaction:
            self._file.renewed = False
            try:
                self._compare_after_outage()
            except BaseException:
                self._file.renewed = True
                raise

    def _check_tables(self):
        self._version()
        self._set_up()
        self._bring_up_to_date()


class EmbeddedStore(SQLiteStore):
    """The store beside the publisher, on the machine's own disk."""

    def __init__(self, path, *, head, clock, connect):
        self._driver = connect
        super().__init__(path, head=head, clock=clock, wait=0, signing_key=SIGNING_KEY)


class Observer(SQLiteReader):
    """Somebody who reads a store as any reader does, and has read it before."""

    _driver = staticmethod(driver.plain_reader)

    def __init__(self, path):
        self.read_to: dict[str, int] = {}
        super().__init__(path)


class World:
    """Everything that one seed decides."""

    crash = Crash
    series = "taps"

    def __init__(self, seed: int, *, plan: Plan | None = None):
        self.seed = seed
        self.random = Random(seed)
        self.noise = Random(seed + 1_000_000_007)
        self.plan = plan or plan_of(self.random)
        self.scheduler = Scheduler(self.random)
        self.witnesses = Witnesses()
        self.trace: list[str] = []
        self.calls = 0
        self.calling = None
        self.connections: list[driver.SimulatedConnection] = []
        self.sinks: dict[str, dict] = {}
        self.machines: list[Machine] = []
        self.processes: list[Process] = []
        self.backup: dict[str, bytes] | None = None
        self.calm = False
        self.may_refuse = False
        self._observers: dict[tuple[str, str], Observer] = {}
        self._disks: dict[str, Disk] = {}

    # -- the world runs ----------------------------------------------------------------------------

    def run(self):
        """Run from the beginning to a calm end, and check everything on the way."""
        folder = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.place = Path(tempfile.mkdtemp(prefix="penstock-world-", dir=folder))
        driver.WORLDS[str(self.place)] = self
        outside.WORLD.append(self)
        self.system = SimulatedSystem(self)
        gc_was_on = gc.isenabled()
        gc.disable()  # a collection at a random moment must not run anything of a dead process
        try:
            with self.system.installed(), patch.object(state, "PIECE_BYTES", PIECE_BYTES):
                try:
                    self._build()
                    self.scheduler.run(self._ended)
                    self._check_end()
                finally:
                    self._tear_down()
        finally:
            outside.WORLD.pop()
            del driver.WORLDS[str(self.place)]
            shutil.rmtree(self.place, ignore_errors=True)
            if gc_was_on:
                gc.enable()
            gc.collect()

    def _build(self):
        plan = self.plan
        self.head_disk = self._disk("heads") if plan.head == "apart" else None
        self.server_disk = self._disk("server") if plan.store == "server" else None
        self.add_machine("first")
        if plan.lies:
            (self.server_disk or self.machines[0].disk).lies = True
        self.scheduler.spawn(self._supervise, name="supervisor")
        self.scheduler.spawn(self._special_events, name="events")
        for number in range(plan.senders):
            sender = outside.SimulatedSender(self, number)
            self.scheduler.spawn(sender.run, name=f"sender {number}")

    def _disk(self, name):
        disk = Disk(self.place, self.random, name)
        self._disks[name] = disk
        return disk

    def add_machine(self, name, image=None, copied_from=None):
        disk = self._disk(name)
        if image is not None:
            disk.restore(image)
        machine = Machine(self, name, disk, copied_from=copied_from)
        self.machines.append(machine)
        return machine

    def _supervise(self):
        """Start a publisher again where one has ended, as an operator or the system does."""
        while True:
            for machine in list(self.machines):
                process = machine.process
                if machine.given_up or (process is not None and not process.ended):
                    continue
                if self.scheduler.now < machine.starts_at:
                    continue
                if machine.offset > MAX_OFFSET:
                    machine.offset = 0.0  # the operator sees that the clock is wrong
                if len(self.processes) > MAX_PROCESSES:
                    raise StuckError(f"publishers were started again and again: {machine.refusal}")
                machine.process = process = Process(machine)
                self.processes.append(process)
                self.scheduler.spawn(process.run, process=process, name=process.name)
            if not self.calm and self.scheduler.now > self.plan.seconds:
                self._calm_down()
            self.scheduler.pause(0.3 if self.calm else self.random.uniform(0.1, 2.0))

    def _calm_down(self):
        """No more faults; what people can repair is repaired."""
        self.calm = True
        for disk in self._disks.values():
            disk.full = disk.lies = False
        for machine in self.machines:
            machine.offset = 0.0
            machine.refusals = 0
            machine.starts_at = 0.0

    def _special_events(self):
        plan, pause = self.plan, self.scheduler.pause
        for moment in (plan.twin_at, plan.rival_at, plan.backup_at):
            if moment is not None:
                pause(moment)
        if plan.twin_at is not None:
            self.note("twin: the machine is cloned, and both go on")
            first = self.machines[0]
            self.may_refuse = True
            self.add_machine("twin", first.disk.image(), (first.name, self.scheduler.now))
        if plan.rival_at is not None:
            self.note("rival: a second publisher is started")
            rival = Machine(self, "rival", self.machines[0].disk)
            self.machines.append(rival)
        if plan.backup_at is not None:
            self.backup = self.machines[0].disk.image()
        pause(float("inf"))

    def _ended(self):
        self._reap()
        if not self.calm:
            return False
        if self.scheduler.now > self.plan.seconds + CALM_SECONDS:
            lacking = {m.name: m.refusal for m in self.machines}
            raise ViolationError(f"the world did not go on in calm times: {lacking}")
        working = [machine for machine in self.machines if not machine.given_up]
        done = [machine for machine in working if self._is_done(machine)]
        if done:  # the others need not go on, if they have said why
            return all(machine in done or machine.refusals for machine in working)
        return not working

    def _is_done(self, machine):
        process = machine.process
        if process is None or process.publisher is None or process.ended:
            return False
        store = self.server_disk or machine.disk
        newest = self._look(store, "taps.db")
        if newest < self.plan.units:
            return False
        return all(
            delivery.sent[self.series] >= self.plan.units
            for delivery in process.publisher.deliveries
        )

    # -- faults ------------------------------------------------------------------------------------

    @property
    def process(self):
        """The process whose task runs now."""
        task = self.scheduler.running
        return None if task is None else task.process

    @contextmanager
    def inside(self, process):
        """What SQLite does now is done for this process."""
        before, self.calling = self.calling, process
        try:
            yield
        finally:
            self.calling = before
            self.check_alive(process)

    def check_alive(self, process):
        if process is not None and process.dead:
            raise Crash

    def note(self, text):
        self.trace.append(f"{self.scheduler.now:9.3f} s, call {self.calls}: {text}")

    def op(self, process, kind, disk, *, remote=False, switches=False):
        """One call of a process: the place where a fault may come. It returns what went wrong.

        A process that dies here does not return.
        """
        self.check_alive(process)
        self.calls += 1
        if disk is not None and disk.full and kind == "write" and not self.calm:
            return "full"
        if process is None or self.calm:
            return None
        if switches or kind.startswith("sql begin") or kind == "after commit":
            self._switch(process)
        fault = self._fault(kind, disk, remote)
        if fault is None:
            return None
        where = f"{kind}{' of ' + disk.name if disk else ''} in {process.name}"
        self.note(f"{fault} at {where}")
        return self._happen(fault, process, disk)

    def _fault(self, kind, disk, remote):
        rates = self.plan.rates
        candidates = ["kill", "power", "stop"]
        if kind in ("clock", "receive", "answer", "send"):  # a server ends the others' waits
            candidates.append("stall")
        if kind in DISK_CALLS:
            candidates.append("error")
            if kind == "write":
                candidates += ["short", "full"]
            if kind == "sync" and disk.lies and self.random.random() < 0.3:
                return "lie"
        elif kind.startswith("sql") and remote:
            candidates += ["lost request", "server power"]
            if kind == "sql commit":
                candidates.append("lost answer")
        elif kind == "clock":
            candidates.append("clock")
        elif kind == "send":
            candidates += ["lost request", "lost answer", "short"]
        elif kind == "receive":
            candidates.append("lost request")
        point = self.random.random()
        for name in candidates:
            rate = rates.get(name, 0.0)
            if kind == "read":
                rate /= 5
            if point < rate:
                return name
            point -= rate
        return None

    def _happen(self, fault, process, disk):
        match fault:
            case "kill" | "power":
                process.dead = True
                process.death = fault
                raise Crash
            case "full":
                disk.full = True
                self.scheduler.spawn(lambda: self._free(disk), name="space")
            case "server power":
                self.server_disk.cut_power()
                return "lost request"
            case "clock":
                self._step_clock(process.machine)
                return None
            case "stall":
                process.stalled_until = self.scheduler.now + self.random.choice((2.0, 12.0, 45.0))
                self.scheduler.pause(0)
                return None
            case "stop":
                if process.publisher is not None:
                    process.publisher.stop()
                return None
        return fault

    def in_sqlite(self, process):
        return self.calling is process

    def _free(self, disk):
        self.scheduler.pause(self.random.uniform(0.5, 20))
        disk.full = False

    def _step_clock(self, machine):
        every = self.plan.every
        step = self.random.choice((-700.0, -3.0, 0.5, every * 1.5, every * 3.0, LEAP_UNITS * every))
        machine.offset += step
        self.note(f"the clock of {machine.name} steps by {step} s")

    def outside_fault(self, _):
        """What goes wrong between a sender and the publisher."""
        if self.calm:
            return None
        for name in ("lost request", "lost answer", "duplicate"):
            if self.random.random() < self.plan.rates.get(name, 0.0) * 3:
                self.note(f"{name} of a sender")
                return name
        return "duplicate" if self.random.random() < 0.05 else None

    def _switch(self, process):
        """Let other processes run in between. The tasks of this one hold locks."""
        if self.random.random() >= self.plan.switching or self.in_sqlite(process):
            return
        if not any(other.process is not process for other in self.scheduler.tasks):
            return
        held = [
            task
            for task in self.scheduler.tasks
            if task.process is process and task is not self.scheduler.running
        ]
        waits = [(task, task.wakes_at, task.until) for task in held]
        for task in held:
            task.wakes_at, task.until = float("inf"), None
        try:
            self.scheduler.pause(self.random.choice((0, 0, 0.05, 1.0)))
        finally:
            for task, wakes_at, until in waits:
                task.wakes_at, task.until = wakes_at, until

    def _reap(self):
        """Clear away what dead processes have left, before anybody else runs."""
        for process in self.processes:
            if not process.dead or process.reaped:
                continue
            process.reaped = True
            process.ended = True
            self.scheduler.kill(process)
            for connection in [each for each in self.connections if each.process is process]:
                connection.drop()
                self.connections.remove(connection)
            self.system.close_all(process)
            if process.death == "power":
                self._forget_observers(process.machine.disk)
                process.machine.disk.cut_power()
                self._neighbours_die(process)
            self._restore_backup(process.machine)

    def _neighbours_die(self, process):
        for other in self.processes:
            if other.machine.disk is process.machine.disk and not other.dead and not other.ended:
                other.dead, other.death = True, "kill"

    def _restore_backup(self, machine):
        """Sometimes the operator brings back an old copy after a crash."""
        if self.backup is None or self.calm or self.random.random() < 0.3:
            return
        image, self.backup = self.backup, None
        self.note("an old backup of the store is restored")
        self.may_refuse = True
        machine.lost = True
        self._forget_observers(machine.disk)
        machine.disk.restore(image)

    # -- publishers --------------------------------------------------------------------------------

    def disk_at(self, folder):
        return next(disk for disk in self._disks.values() if disk.folder == folder)

    def disk_of_call(self, path):
        if self.process is None:
            return None
        for disk in self._disks.values():
            if path.startswith(str(disk.folder)):
                return disk
        return None

    def head_path(self, machine):
        if self.plan.head == "none":
            return None
        disk = self.head_disk or machine.disk
        return disk.folder / "taps.head"

    def pipeline(self, machine):
        plan = self.plan
        sinks = [
            {"name": "file", "kind": "jsonl", "path": "releases.jsonl"}
            if kind == "file"
            else {"name": kind, "kind": f"tests.simulation.outside:{kind.upper()}"}
            for kind in plan.sinks
        ]
        head = self.head_path(machine)
        content = {
            "stream": {
                "name": self.series,
                "every": f"{plan.every}s",
                "origin": ORIGIN,
                "lateness": f"{plan.lateness}s",
                "pace": f"{plan.pace}s",
            },
            "source": {"kind": "jsonl", "path": "none", "time": "t", "key": "k"},
            "domain": {"keys": KEYS},
            "privacy": {"mechanism": plan.mechanism, "epsilon": "1", "window": 3},
            "store": {"path": "taps.db"} | ({} if head is None else {"head": str(head)}),
            "sink": sinks,
        }
        return Pipeline.of(content, folder=machine.disk.folder)

    def open_store(self, process):
        machine, server = process.machine, self.server_disk
        disk = server or machine.disk

        def connect(*_, **__):
            return driver.SimulatedConnection(
                self, process, disk, "taps.db", remote=server is not None
            )

        cls = EmbeddedStore if server is None else ServerStore
        clock = (lambda: BEGIN / 1e6 + self.scheduler.now) if server else machine_time(machine)
        return cls(
            disk.folder / "taps.db", head=self.head_path(machine), clock=clock, connect=connect
        )

    def refused(self, process, error):
        """A publisher ended with a sentence."""
        machine = process.machine
        self.note(f"{process.name} stops: {error}")
        machine.refusal = str(error)
        machine.refusals += 1
        machine.starts_at = self.scheduler.now + min(0.5 * 2**machine.refusals, 8.0)
        if "leapt ahead" in str(error):
            machine.offset = 0.0
        if self.calm and machine.refusals >= MAX_REFUSALS:
            machine.given_up = True

    def receiving(self):
        open_ones = [
            process
            for process in self.processes
            if not process.dead and not process.ended and process.source.is_open
        ]
        return self.random.choice(open_ones) if open_ones else None

    # -- what people see ---------------------------------------------------------------------------

    def new_parcel(self):
        time = int(BEGIN + self.scheduler.now * 1e6) * 1
        while any(parcel.time == time for parcel in self.witnesses.parcels.values()):
            time += 1
        number = len(self.witnesses.parcels)
        unit = (time - BEGIN) // (self.plan.every * 1_000_000) + 1
        parcel = Parcel(number=number, time=time, key=self.random.randrange(len(KEYS)), unit=unit)
        self.witnesses.parcels[number] = parcel
        return parcel

    def handed(self, process, batch):
        """A publisher takes a batch: note which of its events are in time."""
        view = process.publisher.views[0]
        units = view.counting.units
        now = process.publisher.clock.now()
        open_units = units.open(now)
        by_time = {parcel.time: parcel for parcel in self.witnesses.parcels.values()}
        for time in batch.time.tolist():
            parcel = by_time[time]
            parcel.handed[process.name] = parcel.unit in open_units
        # A unit that the clock has ended takes events until the publisher asks what is due.

    def committed(self, disk, name):
        self._look(disk, name)

    def wrote(self, disk, path):
        """Readers of a file sink see every whole line at once."""
        if not path.endswith(".jsonl"):
            return
        for line in content_of(path).split(b"\n")[:-1]:
            try:
                found = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue
            self.witnesses.sees(
                "a file", found["series"], found["unit"], found["link"], found["values"]
            )

    def figure(self, process, series, release):
        """The monitor shows the newest release."""
        known = self.witnesses.seen.get((series, release.unit))
        values = tuple(map(float, release.value))
        if known is None and (self.server_disk or process.machine.disk).lost_promised:
            return  # no reader can read the damaged store
        if known is None or known[1] != values:
            raise ViolationError(
                f"the monitor of {process.name} shows another unit {release.unit} than the store."
            )

    def _look(self, disk, name):
        """Read a store as a reader does; return its newest unit."""
        path = disk.folder / name
        key = disk.name, str(path)
        try:
            if key not in self._observers:
                if not path.exists():
                    return 0
                self._observers[key] = Observer(path)
            return self._read(self._observers[key], disk)
        except StateError as error:
            observer = self._observers.pop(key, None)
            if observer is not None:
                observer.close()
            if disk.lost_promised or "must open it once" in str(error):
                return 0
            raise ViolationError(f"a reader of {disk.name}: {error}") from error

    def _read(self, observer, disk):
        newest = 0
        for series in observer.series_names:
            newest = observer.head(series).unit
            last = observer.read_to.get(series, 0)
            if newest == last:
                continue
            observer.verify(series)
            first = last + 1
            lines = list(observer.lines(series, first, newest))
            for release in observer.releases(series, first, newest):
                link = observer.at(series, release.unit).link.hex()
                who = f"a reader of {disk.name}"
                self.witnesses.sees(who, series, release.unit, link, release.value)
                labels = Counter(
                    line.label for line in lines if line.unit == release.unit and line.number
                )
                direct = self.plan.mechanism == "uniform"
                self.witnesses.check_ledger(
                    series, release.unit, labels, release.value, direct=direct
                )
            observer.read_to[series] = newest
        return newest

    def _forget_observers(self, disk):
        for key in [key for key in self._observers if key[0] == disk.name]:
            self._observers.pop(key).close()

    # -- the end -----------------------------------------------------------------------------------

    def _check_end(self):
        lies = any(disk.lost_promised for disk in self._disks.values())
        done = [machine for machine in self.machines if self._is_done(machine)]
        if not done and not self.may_refuse and not lies:
            raise ViolationError(f"nobody can go on: {self.machines[0].refusal}")
        if not done or lies or self.plan.mechanism != "uniform":
            return
        final = done[0]
        if final.lost:
            return
        disk = self.server_disk or final.disk
        self._check_sinks(final)
        observer = Observer(disk.folder / "taps.db")
        try:
            for release in observer.releases(self.series, 1, self.plan.units):
                labels = Counter(
                    line.label
                    for line in observer.lines(self.series, release.unit, release.unit)
                    if line.number
                )
                counts = self.witnesses.check_ledger(
                    self.series, release.unit, labels, release.value, direct=True
                )
                self.witnesses.check_counts(release.unit, counts, self._lineage(final))
        finally:
            observer.close()

    def _check_sinks(self, machine):
        """Every sink has every unit, whole."""
        held = {
            kind: {unit for unit, _ in kept.get(self.series, ())}
            for kind, kept in self.sinks.items()
        }
        if "file" in self.plan.sinks:
            lines = content_of(machine.disk.folder / "releases.jsonl").split(b"\n")[:-1]
            held["file"] = {msgspec.json.decode(line)["unit"] for line in lines}
        for kind, units in held.items():
            if not units >= set(range(1, self.plan.units + 1)):
                raise ViolationError(f"sink {kind} has the units {sorted(units)} only.")

    def _lineage(self, final):
        def belongs(process, moment):
            machine = process.partition(".")[0]
            if machine == final.name or self.server_disk is not None or machine == "rival":
                return True
            if final.copied_from is not None:
                return machine == final.copied_from[0] and moment < final.copied_from[1]
            return False

        return belongs

    def _tear_down(self):
        for process in self.processes:
            if not process.ended:
                process.dead = True
                process.death = "kill"
        self.calm = True
        for observer in self._observers.values():
            observer.close()
        self._observers.clear()
        for process in self.processes:
            process.dead = True
        for task in self.scheduler.tasks:
            task.kill()
        for process in self.processes:
            self.system.close_all(process)
        for connection in self.connections:
            connection.drop()


def machine_time(machine):
    world = machine.world
    return lambda: BEGIN / 1e6 + world.scheduler.now + machine.offset


def simulate(seed: int, *, plan: Plan | None = None) -> World:
    """Run the world of a seed. A broken rule is a `ViolationError` or a `StuckError`."""
    world = World(seed, plan=plan)
    world.run()
    return world


__all__ = ["StuckError", "ViolationError", "World", "simulate"]
