"""What is of PostgreSQL alone; what every store does is in test_stores.py."""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager, suppress

import pytest

from penstock.budget.ledger import Line
from penstock.core.errors import (
    ConfigurationError,
    MissingExtraError,
    StateError,
    StoreUnavailableError,
)
from penstock.engine.chain import HeadFile
from penstock.engine.postgres import PostgresReader, PostgresStore
from penstock.engine.sql_store import UncertainError
from penstock.engine.store import LeaseError
from penstock.private.mechanisms.laplace import Laplace
from penstock.private.noise import TestNoise
from penstock.released.alerting import AlertEvent, RuleProgress

from tests.engine.places import (
    KEY,
    MARK,
    NO_SERVER,
    SERVER,
    commit,
    counts,
    filled,
    fresh,
    opened,
    stream,
)

psycopg = pytest.importorskip(
    "psycopg", reason="psycopg is not installed: pip install 'penstock[postgres]'"
)
needs_server = pytest.mark.skipif(SERVER is None, reason=NO_SERVER)


@pytest.fixture
def place(tmp_path):
    with opened("postgres", tmp_path) as place:
        yield place


def end_connection(store):
    """End the store's connection on the server, as a restart or an operator would."""
    pid = store._server.info.backend_pid
    with psycopg.connect(SERVER, autocommit=True) as server:
        server.execute("SELECT pg_terminate_backend(%s)", (pid,))
        while server.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchall():
            pass


def next_unit(run, **more):
    release = run.step(counts(run.unit + 1))
    lines = [line for line in run.ledger if line.unit == run.unit]
    return {
        "lines": lines,
        "release": release,
        "state": run.snapshot(),
        "positions": {"events": run.unit},
    } | more


# -- a connection that is lost ---------------------------------------------------------------------


class Proxy:
    """Stands between a store and the server, and loses the connection at the next commit if it is
    told to.

    "before": the commit never arrives. "after": it does, and the answer is lost. "held": it arrives
    when it is delivered.
    """

    def __init__(self, address):
        self.to = re.search(r"@([^:/]+):(\d+)/", address).groups()
        self.lose = None
        self._held = None
        self._sockets, self._threads = [], []
        self._listening = socket.create_server(("127.0.0.1", 0))
        port = self._listening.getsockname()[1]
        self.address = (
            re.sub(r"@[^/]+/", f"@127.0.0.1:{port}/", address)
            + "&sslmode=disable&gssencmode=disable"
        )
        self._start(self._accept)

    def _start(self, work, *values):
        self._threads.append(threading.Thread(target=work, args=values, daemon=True))
        self._threads[-1].start()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(self.to)
                self._sockets += [client, server]
                muted, answered = threading.Event(), threading.Event()
                self._start(self._there, client, server, muted, answered)
                self._start(self._back, client, server, muted, answered)

    def _there(self, client, server, muted, answered):
        with suppress(OSError):
            while data := client.recv(1 << 16):
                how = self.lose if b"COMMIT\0" in data else None
                if how:
                    self.lose = None
                    muted.set()
                    if how == "after":
                        server.sendall(data)
                        assert answered.wait(30)
                    if how == "held":
                        self._held = server, data
                    break
                server.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
        if self._held is None or self._held[0] is not server:
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)

    def _back(self, client, server, muted, answered):
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if muted.is_set():
                    answered.set()
                else:
                    client.sendall(data)
        answered.set()
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def deliver(self):
        server, data = self._held
        with suppress(OSError):
            server.sendall(data)

    def close(self):
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        for each in (self._listening, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)
        for each in (self._listening, *self._sockets):
            each.close()


@pytest.fixture
def proxy(place):
    proxy = Proxy(place.address)
    yield proxy
    proxy.close()


@pytest.mark.parametrize("how", ["before", "after", "held"])
def test_a_commit_whose_answer_was_lost_is_found_out_and_never_done_twice(place, proxy, how):
    run = fresh()
    with PostgresStore(proxy.address, key=KEY) as store:
        store.begin(stream(run))
        for _ in range(3):
            commit(store, run)
        unit = next_unit(run)
        proxy.lose = how
        with pytest.raises(UncertainError, match="all of it is written or nothing"):
            store.commit("visits", 4, **unit)
        last = store.last("visits")
        assert last.unit == store.head("visits").unit == (4 if how == "after" else 3)
        if how == "held":
            proxy.deliver()  # too late: whoever was told that unit 3 is the newest is not deceived
        assert store.last("visits").unit == last.unit
        if how == "after":
            assert last.state == unit["state"]
            with pytest.raises(
                StateError, match=r"unit 4 of 'visits' cannot follow unit 4\. Nothing was written"
            ):
                store.commit("visits", 4, **unit)
        else:
            store.commit("visits", 4, **unit)
        commit(store, run)
        assert store.verify("visits").head.unit == 5
    with place.reader() as reader:
        assert reader.verify("visits").head.unit == 5


def test_a_commit_that_is_still_under_way_is_waited_for(proxy):
    run = fresh()
    with PostgresStore(proxy.address, wait=0.1) as store:
        store.begin(stream(run))
        commit(store, run)
        store._backend = (
            None  # as behind a pooler, where the connection that was left cannot be ended
        )
        proxy.lose = "held"
        with pytest.raises(UncertainError):
            commit(store, run)
        for ask in (store.head, store.last):
            with pytest.raises(StoreUnavailableError, match="Another program holds it"):
                ask("visits")
        proxy.deliver()
        while True:
            with suppress(StateError):
                assert store.head("visits").unit == 2
                break
        commit(store, run)
        assert store.verify("visits").head.unit == 3


def commit_both(store, first, second):
    with store.together():
        commit(store, first)
        commit(store, second, "rides")


@pytest.mark.parametrize("how", ["before", "after"])
def test_what_is_together_is_lost_or_kept_together(proxy, tmp_path, how):
    first, second = fresh(), fresh(seed=4)
    noted = HeadFile(tmp_path / "heads.json")
    with PostgresStore(proxy.address, head=noted.path) as store:
        store.begin(stream(first))
        store.begin(stream(second, "rides"))
        proxy.lose = how
        with pytest.raises(UncertainError):
            commit_both(store, first, second)
        assert [
            store.last(name).unit if store.last(name) else 0 for name in store.series_names
        ] == ([1, 1] if how == "after" else [0, 0])
        assert noted.read()["visits"].unit == 0
    with PostgresStore(proxy.address, head=noted.path) as store:
        store.begin(stream(first))
        assert noted.read()["visits"] == store.head("visits")
        assert store.head("visits").unit == (1 if how == "after" else 0)


@pytest.mark.parametrize("how", ["before", "after", "held"])
def test_a_unit_whose_showing_was_not_answered_is_shown_once(proxy, place, tmp_path, how):
    """The second transaction of a unit is lost, after its head has moved."""
    run = fresh()
    noted = HeadFile(tmp_path / "heads.json")
    with PostgresStore(proxy.address, head=noted.path) as store:
        store.begin(stream(run))
        commit(store, run)
        with store.together():
            commit(store, run)
        proxy.lose = how
        with pytest.raises(UncertainError):
            store.settle(["visits"])
        assert noted.read()["visits"].unit == 2
        if how == "held":
            proxy.deliver()
        assert store.head("visits").unit == 2  # a connection that is made again repeats it
        store.settle(["visits"])
        with place.reader() as reader:
            assert reader.verify("visits").head == noted.read()["visits"]
        commit(store, run)


def test_a_connection_that_is_lost_before_a_unit_is_shown_is_made_again(
    place, tmp_path, monkeypatch
):
    """The new connection shows the unit at once, and so nothing is left to be done."""
    run = fresh()
    with place.store(head=tmp_path / "heads.json") as store:
        store.begin(stream(run))
        commit(store, run)
        swap = HeadFile.swap

        def swapped(*values):
            found = swap(*values)
            end_connection(store)
            return found

        monkeypatch.setattr(HeadFile, "swap", swapped)
        for unit in (2, 3):
            commit(store, run)
            assert store.verify("visits").head.unit == unit


def test_a_server_that_lost_that_a_unit_was_shown_shows_it_again(place, tmp_path):
    """It may lose the newest transactions that are not durable when it crashes."""
    run = fresh()
    with place.store(head=tmp_path / "heads.json") as store:
        store.begin(stream(run))
        commit(store, run)
        with store.together():
            commit(store, run)
        before = place.backup()
        store.settle(["visits"])
        place.restore(before)
        with place.reader() as reader:
            assert reader.head("visits").unit == 1
        end_connection(store)
        assert store.head("visits").unit == 2
        commit(store, run)
        assert store.verify("visits").head.unit == 3


@pytest.mark.parametrize("how", ["before", "after", "held"])
def test_a_lease_whose_answer_was_lost_can_be_taken_again(proxy, how):
    run = fresh()
    with PostgresStore(proxy.address) as store:
        proxy.lose = how
        with pytest.raises(UncertainError):
            store.begin(stream(run), seconds=10_000)
        with pytest.raises(StateError, match="has not begun here"):
            store.renew("visits")
        assert store.begin(stream(run)).number == (2 if how == "after" else 1)
        commit(store, run)
        assert store.verify("visits").head.unit == 1


@pytest.mark.parametrize("how", ["before", "after"])
def test_reading_where_a_publisher_stands_is_never_uncertain(proxy, how):
    run = fresh()
    with PostgresStore(proxy.address) as store:
        store.begin(stream(run))
        commit(store, run)
        proxy.lose = how
        with pytest.raises(
            StoreUnavailableError, match="cannot be read: the connection was lost"
        ) as told:
            store.last("visits")
        assert not isinstance(told.value, UncertainError)
        assert store.last("visits").unit == 1


def test_a_connection_that_ended_between_two_calls_is_made_again(place):
    run = fresh()
    with place.store() as store, place.reader() as reader:
        store.begin(stream(run))
        for call in (
            lambda: commit(store, run),
            lambda: store.head("visits"),
            lambda: store.last("visits"),
            lambda: store.save("visits", positions={}, private={"a": b"b"}),
            lambda: store.renew("visits"),
            lambda: commit(store, run),
        ):
            end_connection(store)
            call()
        end_connection(reader)
        assert reader.verify("visits").head == store.head("visits")
        units = reader.releases("visits")
        next(units)
        end_connection(reader)
        assert [each.unit for each in units] == [2]


def test_a_connection_that_ends_within_a_commit_leaves_nothing(place, monkeypatch):
    run = fresh()
    with place.store() as store:
        store.begin(stream(run))
        commit(store, run)
        put = store._sealed.put

        def cut(*args, **more):
            put(*args, **more)
            end_connection(store)
            put(*args, **more)

        unit = next_unit(run)
        with monkeypatch.context() as patch:
            patch.setattr(store._sealed, "put", cut)
            with pytest.raises(
                StoreUnavailableError, match="cannot be written: the connection was lost"
            ) as told:
                store.commit("visits", 2, **unit)
            assert not isinstance(told.value, UncertainError)
        assert store.last("visits").unit == 1
        store.commit("visits", 2, **unit)
        assert store.verify("visits").head.unit == 2


def test_a_server_that_lost_what_it_had_confirmed_is_refused(place):
    run = filled(place, 3)
    backup = place.backup()
    with place.store() as store:
        store.begin(stream(run))
        commit(store, run)
        place.restore(backup)  # as if a standby that was behind had taken over
        end_connection(store)
        message = (
            "ends with unit 3, and what was committed here is of unit 4. "
            "Going on would release units again"
        )
        for refused in (
            lambda: store.head("visits"),
            lambda: store.last("visits"),
            lambda: commit(store, run),
            lambda: store.begin(stream(run), takeover=True),
        ):
            with pytest.raises(StateError, match=message):
                refused()


def test_a_start_waits_for_a_server_and_not_for_one_that_refuses_it(place):
    with pytest.raises(StoreUnavailableError, match="cannot be reached"):
        PostgresStore(re.sub(r"@[^/]+/", "@127.0.0.1:1/", place.address))
    with pytest.raises(StateError, match=r"cannot be reached: .*does not exist") as told:
        PostgresStore(re.sub(r"/penstock\?", "/nowhere_at_all?", place.address))
    assert not isinstance(told.value, StoreUnavailableError)
    with pytest.raises(StateError, match=r"cannot be reached: .*role .* does not exist") as told:
        PostgresStore(re.sub(r"//[^@]+@", "//nobody_at_all@", place.address))
    assert not isinstance(told.value, StoreUnavailableError)


def test_a_server_that_cannot_be_reached_says_so_and_a_publisher_can_still_stop(place, proxy):
    store = PostgresStore(proxy.address)
    store.begin(stream())
    proxy.close()
    with pytest.raises(
        StoreUnavailableError, match=r"database 'penstock' cannot be reached: .*refused"
    ):
        store.renew("visits")
    store.close()
    with pytest.raises(StateError, match="was closed here"):
        store.head("visits")


# -- publishers that are killed, and two at once ---------------------------------------------------

WORKER = textwrap.dedent(
    """
    import json, sys
    from penstock.engine.postgres import PostgresStore
    from penstock.engine.sealing import Key
    from penstock.released.series import Series
    from penstock.private.mechanisms.laplace import Laplace
    from penstock.private.noise import TestNoise

    address, head, seed = sys.argv[1:]
    run = Laplace(epsilon="1/2").run(3, noise=TestNoise(int(seed)))
    store = PostgresStore(address, head=head, key=Key(bytes(range(32))))
    store.begin(Series.of(run, name="visits"), takeover=True)
    last = store.last("visits")
    if last is not None:
        run.load(last.state)
    print(json.dumps(["last", run.unit, run.last.value.tolist() if run.last else None]), flush=True)
    while True:
        unit = run.unit + 1
        release = run.step([unit, 7, 2 * unit], unit=unit)
        lines = [line for line in run.ledger if line.unit == unit]
        store.commit(
            "visits",
            unit,
            lines=lines,
            release=release,
            state=run.snapshot(),
            positions={"events": unit},
        )
        print(json.dumps(["fresh", unit, release.value.tolist()]), flush=True)
    """
)


def begun(place, noted, seed):
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, place.address, str(noted), str(seed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
        bufsize=1,
    )


def test_a_publisher_that_is_killed_again_and_again_commits_every_unit_once(place, tmp_path):
    """Each start has noise of its own: a unit that was drawn twice would show other numbers."""
    chooser, noted, seen = random.Random(11), tmp_path / "heads.json", {}
    for start in range(5):
        worker = begun(place, noted, start)
        target = chooser.randrange(1, 20)
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
        told = worker.stderr.read()
        worker.stderr.close()
        assert worker.wait() == -signal.SIGKILL, told
        if lines and not lines[-1].endswith("\n"):
            lines.pop()
        kind, unit, value = json.loads(lines[0])
        assert kind == "last"
        assert unit in (
            len(seen),
            len(seen) + 1,
        )  # the unit that was committed but not seen any more
        if unit:
            assert seen.setdefault(unit, value) == value
        for line in lines[1:]:
            kind, unit, value = json.loads(line)
            assert kind == "fresh"
            assert unit not in seen
            seen[unit] = value
        with place.reader() as reader:
            verified = reader.verify("visits")
            stored = {release.unit: release.value.tolist() for release in reader.releases("visits")}
            assert {unit: stored[unit] for unit in seen} == seen
            assert verified.head.unit in (len(seen), len(seen) + 1)
    assert len(seen) >= 30
    with place.store(head=noted, key=KEY) as store:
        run = Laplace(epsilon="1/2").run(3, noise=TestNoise(1))
        store.begin(stream(run), takeover=True)
        run.load(store.last("visits").state)
        assert run.unit == store.head("visits").unit


def test_of_two_publishers_at_once_the_overtaken_one_stops_and_no_unit_is_committed_twice(
    place, tmp_path
):
    noted, seen = tmp_path / "heads.json", {}
    worker = begun(place, noted, 0)
    for start in range(1, 3):
        lines = [worker.stdout.readline() for _ in range(8)]
        heir = begun(place, noted, start)  # takes over while the other one commits
        with worker:
            lines += worker.stdout.readlines()
            assert (
                "another publisher has taken it over. Nothing was written" in worker.stderr.read()
            )
        assert worker.returncode == 1
        for line in lines:
            kind, unit, value = json.loads(line)
            if kind == "fresh":
                assert unit not in seen
            if unit:  # the heir may show a unit that the other one had stored
                assert seen.setdefault(unit, value) == value
        worker = heir
    worker.kill()
    worker.communicate()
    with place.reader() as reader:
        reader.verify("visits")
        stored = {release.unit: release.value.tolist() for release in reader.releases("visits")}
    assert sorted(seen) == list(range(1, len(seen) + 1))
    assert {unit: stored[unit] for unit in seen} == seen
    assert len(seen) >= 14


def waits(store):
    """Until the server says that the store waits for somebody else's lock."""
    with psycopg.connect(SERVER, autocommit=True) as server:
        question = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        while not server.execute(question, (store._server.info.backend_pid,)).fetchall():
            pass


def test_who_takes_over_during_a_commit_waits_for_it_and_goes_on_after_it(place, monkeypatch):
    run = fresh()
    with place.store(wait=60) as first, place.store(wait=60) as second:
        first.begin(stream(run))
        taking = threading.Thread(
            target=second.begin, args=(stream(run),), kwargs={"takeover": True}
        )
        put = first._sealed.put

        def slow(*args, **more):
            taking.start()
            waits(second)
            put(*args, **more)

        with monkeypatch.context() as patch:
            patch.setattr(first._sealed, "put", slow)
            commit(first, run)
        taking.join()
        assert second.last("visits").unit == 1
        with pytest.raises(LeaseError, match="another publisher has taken it over"):
            first.save("visits", positions={}, private={})
        commit(second, run)
        assert second.verify("visits").head.unit == 2


def test_a_commit_during_a_takeover_waits_for_it_and_is_refused(place, monkeypatch):
    run, told = fresh(), []
    with place.store(wait=60) as first, place.store(wait=60) as second:
        first.begin(stream(run))
        unit = next_unit(run)

        def work():
            try:
                first.commit("visits", 1, **unit)
            except LeaseError as error:
                told.append(str(error))

        committing = threading.Thread(target=work)
        write = second._leases._write

        def slow(lease):
            committing.start()
            waits(first)
            write(lease)

        with monkeypatch.context() as patch:
            patch.setattr(second._leases, "_write", slow)
            second.begin(stream(run), takeover=True)
        committing.join()
        assert len(told) == 1
        assert second.last("visits") is None
        second.commit("visits", 1, **unit)


def test_a_unit_is_shown_before_a_takeover_begins_or_after_it(place, tmp_path, monkeypatch):
    run, noted = fresh(), tmp_path / "heads.json"
    with place.store(wait=60, head=noted) as first, place.store(wait=60, head=noted) as second:
        first.begin(stream(run))
        commit(first, run)
        with first.together():
            commit(first, run)  # stored, and not shown yet
        showing = threading.Thread(target=first.settle, args=(["visits"],))
        check = second._check_fence

        def slow(*args):
            showing.start()
            waits(first)
            check(*args)

        with monkeypatch.context() as patch:
            patch.setattr(second, "_check_fence", slow)
            second.begin(stream(run), takeover=True)
        showing.join()
        assert second.verify("visits").head.unit == 2
        with pytest.raises(LeaseError, match="another publisher has taken it over"):
            commit(first, run)
        assert second.last("visits").unit == 2


def test_a_unit_that_another_publisher_has_just_shown_stays_shown(place, tmp_path, monkeypatch):
    run, noted = fresh(), tmp_path / "heads.json"
    with place.store(head=noted) as first, place.store(head=noted) as second:
        first.begin(stream(run))
        with first.together():
            commit(first, run)
        move = first._move

        def late(*args):
            second.begin(stream(run), takeover=True)  # shows what waits
            move(*args)

        with monkeypatch.context() as patch:
            patch.setattr(first, "_move", late)
            first.settle(["visits"])
        assert first.pending("visits") is None
        assert first.verify("visits").head == second.head("visits")
        with pytest.raises(LeaseError, match="another publisher has taken it over"):
            commit(first, run)


def test_of_publishers_that_begin_at_the_same_moment_one_does(place):
    with place.store():
        pass
    told, holders = [], []
    barrier = threading.Barrier(4)

    def work():
        with place.store() as store:
            barrier.wait(30)
            try:
                store.begin(stream(), seconds=1000)
                holders.append(store.owner)
            except LeaseError as error:
                told.append(str(error))
            barrier.wait(30)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(holders) == 1
    assert len(told) == 3
    assert all(f"held by publisher {holders[0]}" in each for each in told)


def test_stores_that_are_opened_at_the_same_moment_make_the_tables_once(place):
    problems, barrier = [], threading.Barrier(4)

    def work():
        barrier.wait(30)
        try:
            with place.store() as store:
                assert store.series_names == ()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert place.rows("SELECT version FROM penstock_store") == [(3,)]


def test_a_publisher_of_another_stream_is_not_held_up(place, monkeypatch):
    one, other = fresh(1), fresh(2)
    with place.store(wait=0.2) as first, place.store(wait=0.2) as second:
        first.begin(stream(one, "one"))
        second.begin(stream(other, "other"))
        with first.together():
            commit(first, one, "one")
            commit(second, other, "other")
            assert second.head("other").unit == 1
            assert second.head("one").unit == 0
        assert second.head("one").unit == 1


# -- the clock, durability, time limits ------------------------------------------------------------


def test_leases_go_by_the_clock_of_the_database(place, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 0.0)
    with place.store() as store:
        ((before,),) = place.rows("SELECT extract(epoch FROM clock_timestamp())::float8")
        lease = store.begin(stream(), seconds=30)
        ((after,),) = place.rows("SELECT extract(epoch FROM clock_timestamp())::float8")
        assert before <= lease.since <= after
        assert lease.expires == lease.since + 30


@pytest.mark.parametrize(
    ("asked", "used"),
    [("off", "on"), ("local", "on"), ("on", "on"), ("remote_apply", "remote_apply")],
)
def test_a_commit_is_durable_whatever_the_session_says(place, monkeypatch, asked, used):
    run, seen = fresh(), []
    with PostgresStore(f"{place.address}%20-csynchronous_commit%3D{asked}") as store:
        store.begin(stream(run))
        put = store._sealed.put

        def look(*args, **more):
            put(*args, **more)
            seen.extend(store._select("current_setting('synchronous_commit')"))

        monkeypatch.setattr(store._sealed, "put", look)
        commit(store, run)
    assert seen == [(used,)]


def test_what_somebody_else_locks_is_an_error_after_a_while(place):
    run = fresh()
    with place.store(wait=0.05) as store:
        store.begin(stream(run))
        unit = next_unit(run)
        with psycopg.connect(place.address) as other:
            other.execute("SELECT * FROM leases FOR UPDATE")
            with pytest.raises(
                StoreUnavailableError, match="Another program holds it: stop that one, or try again"
            ):
                store.commit("visits", 1, **unit)
            assert store.last("visits") is None
        store.commit("visits", 1, **unit)


def test_a_statement_that_takes_too_long_is_given_up(place):
    with place.store(timeout=0.05) as store:
        with pytest.raises(StateError, match="It took too long"):
            store._select("pg_sleep(30)")
        store.begin(stream())


@pytest.mark.parametrize("limit", ["wait", "timeout"])
@needs_server
def test_limits_are_seconds(limit):
    for seconds in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ConfigurationError, match=f"{limit} must be above 0"):
            PostgresReader(SERVER, **{limit: seconds})


# -- who may see what ------------------------------------------------------------------------------


@contextmanager
def role(place, *grants):
    """A role of its own, with these rights."""
    name = f"role_{secrets.token_hex(6)}"
    with psycopg.connect(place.server, autocommit=True) as server:
        server.execute(f"CREATE ROLE {name} LOGIN")
        try:
            for grant in grants:
                server.execute(f"SET search_path = {place.schema}")
                server.execute(grant.format(schema=place.schema, role=name))
            yield re.sub(r"//[^@]*@", f"//{name}@", place.address)
        finally:
            server.execute(f"DROP OWNED BY {name}")
            server.execute(f"DROP ROLE {name}")


OLD_READER = (
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT ON penstock_store, streams, releases, lines, marks TO {role}",
)
READER = (*OLD_READER, "GRANT SELECT ON alert_rules, alerts TO {role}")


def test_a_role_with_the_rights_of_a_reader_reads_everything_public_and_nothing_else(place):
    filled(place, 3)
    with role(place, *READER) as address:
        with PostgresReader(address) as reader:
            assert reader.verify("visits").head.unit == 3
            assert (
                reader.series_names,
                reader.marks("visits"),
                len(list(reader.releases("visits"))),
            ) == (("visits",), {}, 3)
            for table in ("secrets", "leases"):
                with pytest.raises(StateError, match=f"permission denied for table {table}"):
                    reader._select(f"* FROM {table}")
        with PostgresStore(address) as store:
            with pytest.raises(StateError, match=r"permission denied .* Grant it to this role"):
                store.begin(stream())
            with pytest.raises(StateError, match="permission denied for table secrets"):
                store.last("visits")


def test_a_role_from_before_alerts_reads_everything_else(place):
    run = filled(place, 3)
    found = AlertEvent(rule="busy", unit=1, key="north", state="raised")
    progress = RuleProgress(rule="busy", about="{}", since=1, unit=1, number=1)
    with place.store() as store:
        store.begin(stream(run))
        store.record_alerts("visits", [(progress, [found])])
    for grants, alerts in ((OLD_READER, []), (READER, [found])):
        with role(place, *grants) as address, PostgresReader(address) as reader:
            assert reader.alerts("visits") == alerts
            assert len(reader.alert_rules("visits")) == len(alerts)
            assert reader.strays() == ()
            assert reader.verify("visits").head.unit == 3


def test_a_publisher_need_not_own_the_tables(place):
    run = filled(place, 1)
    grants = (
        "GRANT USAGE ON SCHEMA {schema} TO {role}",
        "GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}",
    )
    with role(place, *grants) as address, PostgresStore(address) as store:
        store.begin(stream(run))
        commit(store, run)
        assert store.verify("visits").head.unit == 2


def test_a_reader_cannot_write_even_where_its_role_could(place):
    filled(place, 1)
    with place.reader() as reader:
        for statement in (
            "DELETE FROM lines",
            "UPDATE leases SET number = 0",
            "CREATE TABLE x (a int)",
        ):
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                reader._server.execute(statement)
        assert not {"last", "commit", "save", "begin"} & set(dir(reader))


def test_a_key_that_comes_later_seals_what_lay_there_in_clear(place):
    run = fresh()
    with place.store() as store:
        store.begin(stream(run))
        commit(store, run, state=MARK, private={"open": MARK})
    assert MARK in b"".join(content for (content,) in place.rows("SELECT content FROM secrets"))
    ((before,),) = place.rows("SELECT pg_relation_filenode('secrets')")
    with place.store(key=KEY) as store:
        store.begin(stream(run))
        assert store.last("visits").state == MARK
    assert MARK not in b"".join(content for (content,) in place.rows("SELECT content FROM secrets"))
    assert place.rows("SELECT pg_relation_filenode('secrets')") != [(before,)]  # written anew


PASSWORD = "very/secret@word"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://publisher:{PASSWORD}@localhost/city",
        "postgresql://publisher:very%ZZsecret@localhost/city",
        "postgresql://publisher:secret@word@localhost/city",
        "secret",
    ],
)
def test_an_address_that_cannot_be_one_is_refused_without_being_quoted(address):
    for kind in (PostgresStore, PostgresReader):
        with pytest.raises(
            ConfigurationError, match="url must be the address of a PostgreSQL database"
        ) as told:
            kind(address)
        assert "secret" not in str(told.value)
        assert "word@" not in str(told.value)
        assert told.value.__suppress_context__ or told.value.__context__ is None


def test_a_password_that_a_message_would_quote_is_taken_out_of_it():
    with pytest.raises(StateError, match=r"cannot be reached: .*/nowhere/…/") as told:
        PostgresReader("postgresql:///city?host=/nowhere/hidden", password="hidden")
    assert "hidden" not in str(told.value)


@needs_server
def test_a_password_is_taken_apart_and_never_shown(place):
    guarded = os.environ.get("PENSTOCK_TEST_POSTGRES_GUARDED")
    if guarded is None:
        pytest.skip(
            "PENSTOCK_TEST_POSTGRES_GUARDED is not set: "
            '.ci/services start, then eval "$(.ci/services env)"'
        )
    filled(place, 2)
    name = re.search(r"//([^@]+)@", guarded).group(1)
    place._do(*(grant.format(schema=place.schema, role=name) for grant in READER))
    address = f"{guarded}?options=-csearch_path%3D{place.schema}"
    with PostgresReader(address, password=os.environ["PENSTOCK_TEST_PASSWORD"]) as reader:
        assert reader.verify("visits").head.unit == 2
        assert repr(reader) == "<PostgresReader database 'penstock'>"
    with pytest.raises(StateError, match="cannot be reached") as told:
        PostgresReader(address, password=PASSWORD)
    assert PASSWORD not in str(told.value)
    assert told.value.__suppress_context__


def test_what_goes_wrong_quotes_no_value(place):
    run = fresh()
    with place.store() as store:
        store.begin(stream(run))
        for change in (
            {"lines": [Line(1, "spend", "threshold\0noise", 1, 1)]},
            {"lines": [Line(1, "spend", "threshold", 987654321 * 10**20, 1)]},
            {"private": {"threshold\0": b"threshold"}},
        ):
            with pytest.raises(StateError, match="cannot be written") as told:
                commit(store, run, **change)
            assert "threshold" not in str(told.value)
            assert "987654321" not in str(told.value)
            assert told.value.__suppress_context__
            run = fresh()
        commit(store, run)


# -- what it finds ---------------------------------------------------------------------------------


def test_tables_of_somebody_else_are_refused_and_left_alone(place):
    place._do("CREATE TABLE lines (a int)", "INSERT INTO lines VALUES (7)")
    for kind in (place.store, place.reader):
        with pytest.raises(
            StateError, match="database 'penstock' is not a store: it holds something else"
        ):
            kind()
    assert place.rows("SELECT * FROM lines") == [(7,)]


def test_other_tables_beside_it_do_not_matter(place):
    place._do("CREATE TABLE trips (a int)")
    filled(place, 1)
    with place.reader() as reader:
        assert reader.verify("visits").head.unit == 1


def test_a_store_that_is_not_there_cannot_be_read(place):
    with pytest.raises(
        StateError, match="tables of version 0: its publisher must open it once first"
    ):
        place.reader()
    with pytest.raises(ConfigurationError, match="CREATE SCHEMA first"):
        PostgresReader(place.address + "_elsewhere")
    with pytest.raises(StateError, match=r"cannot be reached: .*does not exist"):
        PostgresStore(re.sub(r"/penstock\?", "/nowhere_at_all?", place.address))


@needs_server
def test_a_database_of_another_alphabet_is_refused():
    name = f"latin_{secrets.token_hex(6)}"
    with psycopg.connect(SERVER, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        try:
            with pytest.raises(
                StateError, match="is kept in LATIN1: create one WITH ENCODING 'UTF8'"
            ):
                PostgresStore(re.sub(r"/[^/]*$", f"/{name}", SERVER))
        finally:
            server.execute(f"DROP DATABASE {name}")


def test_large_parts_come_back(place):
    run = fresh()
    state, part = os.urandom(30_000_000), os.urandom(1_000_000) * 100
    with place.store(key=KEY) as store:
        store.begin(stream(run))
        commit(store, run, state=state, private={"open": part})
        last = store.last("visits")
        assert last.state == state
        assert last.private == {"open": part}


def test_without_its_package_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for kind in (PostgresStore, PostgresReader):
        with pytest.raises(
            MissingExtraError, match=r"needs psycopg, .*: pip install 'penstock\[postgres\]'"
        ):
            kind("postgresql://localhost/city")
