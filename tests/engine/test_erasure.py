"""Nothing of a closed unit stays in the files of an embedded store."""

from __future__ import annotations

import random
import secrets
import sqlite3

import numpy as np
import pytest

from penstock.core.calendar import Calendar, instant
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.sqlite import SQLiteReader, SQLiteStore
from penstock.private.counting import Counting, Events
from penstock.private.units import Units
from penstock.testing import ManualClock, NoNoise

from tests.engine import streams
from tests.engine.places import KEY, commit, fresh, stream

SIZES = (20, 100, 300, 700, 1_500, 3_000, 3_900, 4_100, 9_000, 40_000)


def bytes_of(folder):
    """Every byte of the store's files."""
    return b"".join(each.read_bytes() for each in sorted(folder.iterdir()) if each.is_file())


class LiveStream:
    """A live publisher of a growing file with ids of text, one turn at a time."""

    def __init__(self, folder, *, keyed):
        self.store = folder / "store"
        self.store.mkdir()
        self.input = folder / "taps.csv"
        self.input.write_text("ts,station,card\n")
        self.clock = ManualClock("2026-01-01T00:00Z")
        self.ids = {}
        (folder / "key").write_text("ab" * 32)
        (folder / "key").chmod(0o600)
        self.pipeline = Pipeline.of(
            streams.pipeline(
                stream={"every": "1min", "lateness": "30s", "pace": "0s"},
                source={"kind": "csv", "path": "taps.csv", "growing": True, "person_type": "text"},
                store={"path": "store/taps.db"} | ({"key_file": "key"} if keyed else {}),
            ),
            folder=folder,
        )

    def opened(self):
        return Publisher(self.pipeline, clock=self.clock, noise=NoNoise)

    def write(self, *units):
        """Events of one person per unit, none of whom comes again."""
        lines = []
        for unit in units:
            card = f"card-{secrets.token_hex(12)}"
            self.ids.setdefault(unit, []).append(card)
            moment = streams.moment(streams.BEGIN + (unit - 1) * streams.MINUTE + 1_000_000)
            lines.append(f"{moment},Central,{card}\n")
        with self.input.open("a") as file:
            file.writelines(lines)

    def found(self):
        """The units of which some id is in the store's files."""
        content = bytes_of(self.store)
        return [
            unit for unit, ids in self.ids.items() if any(id_.encode() in content for id_ in ids)
        ]


def turn(publisher, now):
    """One round of the loop: read, draw, commit, and store what is open."""
    publisher.clock.set(now)
    publisher.loop.read()
    publisher.committer.save()
    while publisher.loop.draw(publisher.clock.now()):
        publisher.loop.commit()
    publisher.committer.erase()


@pytest.mark.parametrize("keyed", [False, True])
def test_no_id_of_a_closed_unit_stays_in_any_file_of_the_store(tmp_path, keyed):
    live = LiveStream(tmp_path, keyed=keyed)
    with live.opened() as publisher:
        for minute in range(1, 8):
            for second in (10, 25, 40, 55):
                units = (minute, minute - 1) if second < 30 and minute > 1 else (minute,)
                live.write(*units * 3)  # until it closes, a unit shares batches with the next one
                turn(publisher, f"2026-01-01T00:{minute - 1:02}:{second}Z")
            still_open = [] if keyed else [minute]
            assert live.found() == still_open
        assert publisher.views[0].closed == 6
    assert live.found() == ([] if keyed else [7])
    with live.opened() as publisher:
        turn(publisher, "2026-01-01T00:08:00Z")
        assert publisher.views[0].closed == 7
        assert live.found() == []


@pytest.mark.parametrize("seed", [30, 41, 77])
def test_pages_that_split_leave_no_copy_behind(tmp_path, seed):
    """Without padding, SQLite 3.40 leaves copies of rows of these sequences."""
    chooser = random.Random(seed)
    run, live, gone, number = fresh(), {}, set(), 0

    def content():
        nonlocal number
        number += 1
        mark = b"ID%08d-%08x" % (number, chooser.getrandbits(32))
        return mark, (mark * (chooser.choice(SIZES) // len(mark) + 1))

    with SQLiteStore(tmp_path / "city.db") as store:
        store.begin(stream(run))
        store._file.execute("PRAGMA synchronous = OFF")  # it is not about power cuts
        for _ in range(20):
            for _ in range(chooser.randrange(1, 12)):
                mark, body = content()
                parts = {f"events {number:06d}": body}
                live[f"events {number:06d}"] = mark
                if chooser.random() < 0.3:
                    name = chooser.choice(list(live))
                    gone.add(live[name])
                    live[name], parts[name] = content()
                store.save("visits", positions={}, private=parts)
            closed = [name for name in live if chooser.random() < 0.6]
            gone |= {live.pop(name) for name in closed}
            commit(store, run, private=dict.fromkeys(closed))
            assert store.erase()
            there = bytes_of(tmp_path)
            assert not [mark for mark in gone if mark in there]
            assert all(mark in there for mark in live.values())


def test_a_reader_in_the_way_only_delays_it(tmp_path):
    run = fresh()
    with SQLiteStore(tmp_path / "city.db") as store:
        store.begin(stream(run))
        store.save("visits", positions={}, private={"open": b"card-17" * 1_000})
        reader = sqlite3.connect(tmp_path / "city.db", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM releases").fetchall()
        commit(store, run, private={"open": None})
        assert not store.erase()
        assert b"card-17" in bytes_of(tmp_path)
        reader.execute("COMMIT")
        assert store.erase()
        assert b"card-17" not in bytes_of(tmp_path)
        reader.close()
        with SQLiteReader(tmp_path / "city.db") as again:
            assert again.verify("visits").head.unit == 1


def test_secrets_of_an_old_store_are_moved_and_leave_nothing_behind(tmp_path):
    run = fresh()
    path = tmp_path / "city.db"
    with SQLiteStore(path) as store:
        store.begin(stream(run))
        commit(store, run, private={"open": b"card-17" * 30})
        before = store.last("visits")
        padding = len(store.padding)
    file = sqlite3.connect(path, isolation_level=None)
    file.execute("UPDATE secrets SET content = substr(content, ?)", (padding + 1,))
    file.execute("UPDATE secrets SET content = ? WHERE part = 'private open'", (b"card-18" * 30,))
    file.execute("PRAGMA secure_delete = ON")
    for number in range(50):
        file.execute(
            "INSERT INTO secrets VALUES ('x', ?, 0, '', ?)", (f"{number}", b"card-19" * 80)
        )
    file.execute("DELETE FROM secrets WHERE stream = 'x'")
    file.close()
    with SQLiteStore(path, key=KEY) as store:
        store.begin(stream(run))
        after = store.last("visits")
        assert (after.state, after.positions) == (before.state, before.positions)
        assert after.private == {"open": b"card-18" * 30}
        for card in (b"card-17", b"card-18", b"card-19"):
            assert card not in bytes_of(tmp_path)


def test_parts_that_mixed_units_are_replaced_at_the_next_save():
    begin, hour = instant("2026-01-01T00:00Z"), 3_600_000_000
    units = Units(Calendar(every="1h", origin="2026-01-01"))
    old = Events(
        unit=np.array([1, 2, 1]),
        time=begin + np.array([0, hour, 1]),
        key=np.array([0, 1, 1]),
        person=np.array([7, 8, 9]),
    )
    kept = Counting(units, keys=2, contribution=1, finite=False).changes()
    each = Counting(units, keys=2, contribution=1, finite=False)
    each.restore(kept | {"events 000000000004": old.encode()})
    changes = each.changes()
    assert changes["events 000000000004"] is None
    parts = {
        name: Events.decode(content)
        for name, content in changes.items()
        if "events" in name and content
    }
    assert {name: part.person.tolist() for name, part in parts.items()} == {
        "events 000000000005 of 1": [7, 9],
        "events 000000000006 of 2": [8],
    }
    each.settled()
    list(each.due(begin + 2 * hour))
    assert [each.counts(unit).tolist() for unit in (1, 2)] == [[1, 1], [0, 1]]
