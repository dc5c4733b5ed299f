"""What every store does, whatever it is kept in."""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock.budget.ledger import Line
from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError, InputError, LedgerError, StateError
from penstock.core.hierarchy import Hierarchy
from penstock.engine.chain import FencedError, Head, HeadError, HeadFile
from penstock.engine.sealing import Key
from penstock.engine.sql_store import SqlStore
from penstock.engine.sqlite import SQLiteStore
from penstock.engine.store import Reader, SeriesLog, Store
from penstock.private.mechanisms.ba import BudgetAbsorption
from penstock.private.mechanisms.laplace import Laplace
from penstock.private.mechanisms.rg import RetroactiveGrouping
from penstock.private.noise import TestNoise
from penstock.released.log import Log, same
from penstock.released.series import Series

from tests.engine.places import (
    KEY,
    KINDS,
    MARK,
    StoreClock,
    commit,
    content,
    counts,
    filled,
    fresh,
    opened,
    stream,
    telling,
)


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    with opened(request.param, tmp_path) as place:
        yield place


# -- what comes back -------------------------------------------------------------------------------


def test_it_is_a_store(place):
    with place.store() as store:
        writes: Store = store
        reads: Reader = store
        for protocol in (Store, Reader):
            for name in (each for each in vars(protocol) if not each.startswith("_")):
                assert hasattr(writes, name)
        assert reads.series_names == ()


def test_everything_that_was_committed_comes_back(place):
    run = fresh(record=True)
    released = []
    with place.store() as store:
        assert store.last("visits") is None
        store.begin(stream(run))
        assert store.last("visits") is None
        for unit in range(1, 150):
            head = commit(store, run)
            released.append(run.last)
            last = store.last("visits")
            assert (last.unit, last.head, last.state, last.positions) == (
                unit,
                head,
                run.snapshot(),
                {"events": unit * 10},
            )
            assert same(last.release, run.last)
    with place.reader() as reader:
        assert reader.series_names == ("visits",)
        assert reader.series("visits") == stream(run)
        assert reader.head("visits") == head
        stored = list(reader.releases("visits"))
        assert len(stored) == len(released)
        for one, other in zip(stored, released, strict=True):
            assert same(one, other)
            assert (one.unit, one.guarantee, one.private) == (other.unit, other.guarantee, False)
        assert tuple(reader.lines("visits")) == run.ledger
        assert [each.unit for each in reader.releases("visits", 60, 70)] == list(range(60, 71))
        read = {line.unit for line in run.ledger}  # a unit of `ba` may be nullified
        assert {line.unit for line in reader.lines("visits", 60, 64)} == read & set(range(60, 65))
        assert list(reader.releases("visits", 5, 4)) == []
        for first, last in ((0, 3), (140, 150)):
            with pytest.raises(InputError, match=r"it has units 1\.\.149"):
                list(reader.releases("visits", first, last))
        with pytest.raises(InputError, match="there is no series 'rides'"):
            reader.head("rides")
        verified = reader.verify("visits", head=head)
        assert verified.head == head
        assert verified.account.windows.tolist() == run.account().windows.tolist()


def test_a_run_goes_on_from_the_store_as_if_nothing_had_happened(place):
    straight = fresh()
    for _ in range(12):
        with place.store(key=KEY) as store:
            run = fresh()
            store.begin(stream(run))
            last = store.last("visits")
            if last is not None:
                run.load(last.state)
            commit(store, run)
            assert (
                run.last.value.tolist() == straight.step(counts(straight.unit + 1)).value.tolist()
            )


@pytest.mark.parametrize(
    "run",
    [
        lambda: Laplace(epsilon="1").run(3, noise=TestNoise(1), record=True),
        lambda: RetroactiveGrouping(epsilon="1").run(3, noise=TestNoise(1), record=True),
        lambda: Laplace(epsilon="1").run(
            Hierarchy(("a", "b", "c"), (("x",), ("x",), ("y",))), noise=TestNoise(1), record=True
        ),
    ],
    ids=["laplace", "rg", "hierarchy"],
)
def test_other_streams_come_back_too(place, run):
    run = filled(place, 9, run())
    with place.reader() as reader:
        assert reader.series("visits") == stream(run)
        assert same(list(reader.releases("visits"))[-1], run.last)
        assert reader.verify("visits").account.worst == run.account().worst > 0


def test_a_stream_can_be_asked_like_any_release_log(place):
    run = fresh()
    with place.store() as store, place.reader() as reader:
        store.begin(stream(run))
        log = SeriesLog(reader, "visits")
        assert (len(log), list(log)) == (0, [])
        plain = Log.of(run)
        for _ in range(9):
            commit(store, run)
            plain.append(run.last)
        assert log.units == plain.units == range(1, 10)
        assert log.keys == plain.keys
        assert log.estimates(2, 8).tolist() == plain.estimates(2, 8).tolist()
        assert (log.guarantee, log.mechanism, log.configuration) == (
            plain.guarantee,
            plain.mechanism,
            plain.configuration,
        )
        assert same(log[7], plain[7])
        assert not log.private
        log.append(run.last)  # it is there already
        with pytest.raises(
            InputError, match="'visits' is open for reading only: its publisher commits"
        ):
            log.append(run.step(counts(10)))


def test_a_release_that_stands_again_is_stored_once(place):
    run = filled(place, 12)
    ((bodies,),) = place.rows("SELECT count(body) FROM releases")
    with place.reader() as reader:
        flags = [each.repeated for each in reader.releases("visits")]
    assert run.unit == 12
    assert bodies == flags.count(False) + 1 < 12  # and the zeros that stand before the first


def test_what_is_kept_of_open_units_stays_until_it_is_replaced_or_taken_away(place):
    run = fresh()
    with place.store(key=KEY) as store:
        store.begin(stream(run))
        store.save("visits", positions={"a": 1}, private={"unit 1": b"one", "unit 2": b"two"})
        last = store.last("visits")
        assert (last.unit, last.release, last.state) == (0, None, None)
        assert (last.positions, last.private) == ({"a": 1}, {"unit 1": b"one", "unit 2": b"two"})
        commit(store, run, positions={"a": 2}, private={"unit 1": None, "unit 3": b""})
        assert store.last("visits").private == {"unit 2": b"two", "unit 3": b""}
        state = store.last("visits").state
        store.save(
            "visits", positions={"a": 3, "b": [b"x", "y", None]}, private={"unit 2": b"more"}
        )
        last = store.last("visits")
        assert (last.unit, last.state, last.private) == (
            1,
            state,
            {"unit 2": b"more", "unit 3": b""},
        )
        assert last.positions == {"a": 3, "b": [b"x", "y", None]}
        commit(store, run)
        assert store.last("visits").private == {"unit 2": b"more", "unit 3": b""}


def test_streams_do_not_meet(place):
    one, other = fresh(1), fresh(2)
    with place.store() as store:
        for run, name in ((one, "one"), (other, "other")):
            store.begin(stream(run, name))
        for _ in range(4):
            commit(store, one, "one", private={"p": b"1"})
        commit(store, other, "other")
        assert store.series_names == ("one", "other")
        assert (store.last("one").unit, store.last("other").unit) == (4, 1)
        assert store.last("other").private == {}
        for name in store.series_names:
            store.verify(name)
        store.end("one")
        with pytest.raises(StateError, match="'one' has not begun here"):
            store.renew("one")
        commit(store, other, "other")


def test_nothing_secret_is_shown(place):
    run = fresh()
    with place.store(key=KEY) as store:
        store.begin(stream(run))
        commit(
            store,
            run,
            state=MARK,
            private={"unit 2": MARK},
            positions={"events": "threshold noise"},
        )
        assert "threshold" not in repr(store.last("visits"))
        assert repr(store) == f"<{type(store).__name__} {place.name}>"


# -- what is refused -------------------------------------------------------------------------------


def test_only_the_next_unit_is_taken(place):
    run = fresh()
    with place.store() as store:
        store.begin(stream(run))
        commit(store, run)
        again = {"lines": run.ledger, "release": run.last, "state": run.snapshot(), "positions": {}}
        with pytest.raises(
            StateError, match=r"unit 1 of 'visits' cannot follow unit 1\. Nothing was written"
        ):
            store.commit("visits", 1, **again)
        run.step(counts(2))
        with pytest.raises(StateError, match="unit 3 of 'visits' cannot follow unit 1"):
            commit(store, run)
        for unit in (0, -1, 1.0, True):
            with pytest.raises(ConfigurationError, match="unit must be a whole number"):
                store.commit("visits", unit, **again)
        assert store.head("visits").unit == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: {"release": np.zeros(3)}, "takes a release, not ndarray"),
        (lambda run: {"release": replace(run.last, unit=2)}, "the release is of unit 2"),
        (lambda run: {"release": replace(run.last, value=np.zeros(2, np.int64))}, "with 2 numbers"),
        (
            lambda run: {"release": Laplace(epsilon="2").run(3).step([1, 2, 3])},
            "released under Guarantee.epsilon=2",
        ),
        (lambda run: {"lines": [Line(2, "spend", "x", 1, 1)]}, "a line is of unit 2"),
        (lambda run: {"positions": {"a": object()}}, "positions must be plain data"),
        (lambda run: {"positions": {"a": 2**70}}, "positions must be plain data"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(place, change, message):
    run = fresh()
    with place.store() as store:
        store.begin(stream(run))
        release = run.step(counts(1))
        good = {"lines": run.ledger, "release": release, "state": run.snapshot(), "positions": {}}
        with pytest.raises((InputError, ConfigurationError), match=message):
            store.commit("visits", 1, **(good | change(run)))
        assert store.last("visits") is None
        store.commit("visits", 1, **good)


def test_a_stream_of_something_else_is_refused(place):
    filled(place)
    others = {
        "domain": BudgetAbsorption(epsilon="1", window=4).run(["south", "north", "wést"]),
        "guarantee": BudgetAbsorption(epsilon="2", window=4).run(["north", "south", "wést"]),
        "mechanism": replace(stream(), mechanism="bd"),
        "caution": replace(stream(), configuration={"caution": "1"}),
        "calendar": replace(stream(), calendar=Calendar(every="1h", origin="2026-01-01")),
        "source.person": replace(stream(), facts={"source.person": "card"}),
    }
    with place.store() as store:
        for what, other in others.items():
            with pytest.raises(StateError, match=f"is another one: .*{what}.* differs"):
                store.begin(other if isinstance(other, Series) else stream(other))
        with pytest.raises(StateError, match="has not begun here"):
            store.renew("visits")
        store.begin(stream())


def test_units_of_several_streams_commit_together_or_not_at_all(place, tmp_path):
    first, second = fresh(), fresh(seed=4)
    head = HeadFile(tmp_path / "city.head")
    with place.store(head=head.path) as store:
        store.begin(stream(first))
        store.begin(stream(second, name="visits/daily"))
        with store.together():
            commit(store, first)
            commit(store, second, name="visits/daily")
            store.mark("visits", "partners", 1)
            assert head.read()["visits"].unit == 0  # nobody can have seen it yet
        with place.reader() as reader:
            assert [reader.head(name).unit for name in reader.series_names] == [0, 0]
        store.settle(["visits", "visits/daily"])
        assert {name: each.unit for name, each in head.read().items()} == {
            "visits": 1,
            "visits/daily": 1,
        }
        assert store.marks("visits") == {"partners": 1}
        with suppress(KeyError), store.together():
            commit(store, first)
            store.mark("visits", "partners", 2)
            commit(store, second, name="visits/daily")
            raise KeyError
        assert [store.head(name).unit for name in store.series_names] == [1, 1]
        assert store.marks("visits") == {"partners": 1}
        with (
            pytest.raises(ConfigurationError, match="in a transaction already"),
            store.together(),
            store.together(),
        ):
            pass
    with place.reader() as reader:
        assert reader.marks("visits") == {"partners": 1}


def test_what_failed_inside_takes_everything_with_it_even_if_nobody_minds(place):
    first, second = fresh(), fresh(seed=4)

    def half(store):
        with store.together():
            commit(store, first)
            with suppress(StateError):
                store.commit(
                    "rides",
                    7,
                    lines=[],
                    release=replace(second.step(counts(1)), unit=7),
                    state=b"",
                    positions={},
                )
            with pytest.raises(StateError, match="an earlier part of this transaction failed"):
                store.mark("visits", "partners", 1)

    with place.store() as store:
        store.begin(stream(first))
        store.begin(stream(second, name="rides"))
        with pytest.raises(StateError, match="an earlier part of this transaction failed"):
            half(store)
        assert [store.head(name).unit for name in store.series_names] == [0, 0]
        assert store.marks("visits") == {}
        first = fresh()
        commit(store, first)
        with pytest.raises(ConfigurationError, match="'trips' must begin before"), store.together():
            store.begin(stream(name="trips"))
        commit(store, first)
        assert store.verify("visits").head.unit == 2


def test_the_link_after_any_unit_can_be_had(place):
    with place.store() as store:
        run = fresh()
        store.begin(stream(run))
        heads = [store.head("visits"), *(commit(store, run) for _ in range(3))]
        assert [store.at("visits", unit) for unit in range(4)] == heads
        with pytest.raises(InputError, match=r"unit 4 is not in 'visits': it has units 1\.\.3"):
            store.at("visits", 4)


def test_streams_are_in_the_order_of_their_signs(place):
    names = ("B", "a", "Ä", "a b", "Z")
    with place.store() as store:
        for name in names:
            store.begin(stream(name=name))
        assert store.series_names == tuple(sorted(names))


def test_others_wait_until_what_is_together_is_done(place):
    run, order = fresh(), []
    with place.store() as store:
        store.begin(stream(run))
        waiting = threading.Thread(
            target=lambda: (store.mark("visits", "partners", 1), order.append("mark"))
        )
        with store.together():
            waiting.start()
            commit(store, run)
            order.append("commit")
        waiting.join()
        assert order == ["commit", "mark"]
        assert store.marks("visits") == {"partners": 1}


# -- all or nothing --------------------------------------------------------------------------------


def test_nobody_sees_a_unit_before_all_of_it_is_there(place, monkeypatch):
    run = fresh()
    with place.store() as store:
        store.begin(stream(run))
        commit(store, run)
        seen = []
        put = store._sealed.put

        def look(*args, **more):
            put(*args, **more)
            with place.reader() as reader:
                seen.append(
                    (
                        reader.head("visits").unit,
                        len(list(reader.lines("visits"))),
                        reader.verify("visits").head.unit,
                    )
                )

        monkeypatch.setattr(store._sealed, "put", look)
        lines = len(list(store.lines("visits")))
        commit(store, run)
        assert seen == [(1, lines, 1)]
        with place.reader() as reader:
            assert reader.head("visits").unit == 2


def test_others_read_while_it_grows(place):
    run = fresh()
    with place.store() as store, place.reader() as reader:
        store.begin(stream(run))
        stop, problems, rounds = threading.Event(), [], []

        def read():
            while not stop.is_set():
                try:
                    releases = [each.unit for each in reader.releases("visits")]
                    assert releases == list(range(1, len(releases) + 1))
                    rounds.append(reader.verify("visits").head.unit)
                    store.head("visits")
                except BaseException as problem:
                    problems.append(problem)
                    return

        thread = threading.Thread(target=read)
        thread.start()
        for _ in range(60):
            commit(store, run)
        stop.set()
        thread.join()
        assert not problems
        assert rounds == sorted(rounds)
        assert reader.verify("visits").head.unit == 60


# -- one publisher at a time -----------------------------------------------------------------------


def test_a_second_publisher_is_refused_while_the_first_holds_the_stream(place):
    clock, run = StoreClock(), fresh()
    with place.store(clock=clock) as first, place.store(clock=clock) as second:
        lease = first.begin(stream(run), seconds=30)
        assert (lease.owner, lease.number, lease.since, lease.expires) == (
            first.owner,
            1,
            clock.now,
            clock.now + 30,
        )
        clock.now += 29
        message = (
            f"'visits' is held by publisher {first.owner} since 1970-01-12 13:46:40 UTC, "
            "until 1970-01-12 13:47:10 UTC"
        )
        with pytest.raises(StateError, match=message):
            second.begin(stream(run))
        with pytest.raises(StateError, match="has not begun here"):
            commit(second, run)
        first.renew("visits")
        clock.now += 29
        with pytest.raises(StateError, match="held by publisher"):
            second.begin(stream(run))
        second.begin(stream(run, "rides"))


def test_a_commit_of_a_publisher_that_was_overtaken_is_refused(place):
    clock, run = StoreClock(), fresh()
    with place.store(clock=clock) as first, place.store(clock=clock) as second:
        first.begin(stream(run), seconds=30)
        commit(first, run)
        state = run.snapshot()
        clock.now += 31
        assert second.begin(stream(run)).number == 2
        message = (
            f"held by publisher {second.owner} since .*: another publisher has taken it over. "
            "Nothing was written"
        )
        with pytest.raises(StateError, match=message):
            commit(first, run)
        for refused in (
            lambda: first.renew("visits"),
            lambda: first.end("visits"),
            lambda: first.save("visits", positions={}, private={}),
        ):
            with pytest.raises(StateError, match=message):
                refused()
        heir = fresh()
        heir.load(state)
        commit(second, heir)
        assert second.last("visits").unit == 2
        first.close()  # takes nothing away from the second
        commit(second, heir)
        second.verify("visits")


def test_a_lease_that_expired_and_nobody_took_is_still_good(place):
    clock, run = StoreClock(), fresh()
    with place.store(clock=clock) as store:
        store.begin(stream(run), seconds=30)
        clock.now += 1000
        commit(store, run)
        assert store.renew("visits").expires == clock.now + 30


def test_a_clock_that_goes_back_frees_no_lease(place):
    clock, run = StoreClock(), fresh()
    with place.store(clock=clock) as first, place.store(clock=clock) as second:
        first.begin(stream(run), seconds=30)
        clock.now -= 3600
        commit(first, run)
        with pytest.raises(StateError, match="held by publisher"):
            second.begin(stream(run))
        clock.now += 3600  # set right again: the commit of an hour ago has not shortened the lease
        with pytest.raises(StateError, match="held by publisher"):
            second.begin(stream(run))
        clock.now -= 3600
        second.begin(stream(run), takeover=True)
        with pytest.raises(StateError, match="taken it over"):
            commit(first, run)


def test_a_clean_stop_gives_the_lease_back(place):
    clock, run = StoreClock(), fresh()
    with place.store(clock=clock) as store:
        store.begin(stream(run), seconds=10_000)
        store.end("visits")
        with pytest.raises(StateError, match="has not begun here"):
            commit(store, run)
    numbers = []
    for _ in range(3):
        with place.store(clock=clock) as store:
            numbers.append(store.begin(stream(run), seconds=10_000).number)
    assert numbers == [2, 3, 4]


def test_a_lease_lasts_some_time(place):
    with place.store() as store:
        for seconds in (0, -1, float("nan"), float("inf")):
            with pytest.raises(
                ConfigurationError, match="seconds must be above 0 and at most 86400"
            ):
                store.begin(stream(), seconds=seconds)


# -- the chain -------------------------------------------------------------------------------------

SOMEBODY = [
    ("UPDATE lines SET amount = amount + 1 WHERE unit = 3 AND place = 2", "line 2 of unit 3"),
    ("UPDATE lines SET number = number - 1 WHERE unit = 3 AND place = 2", "line 2 of unit 3"),
    ("UPDATE lines SET run = run + 1 WHERE unit = 3 AND place = 1", "line 1 of unit 3"),
    ("UPDATE lines SET kind = 'expose' WHERE unit = 3 AND place = 1", "line 1 of unit 3"),
    ("UPDATE lines SET label = label || ' ' WHERE unit = 3 AND place = 1", "line 1 of unit 3"),
    ("UPDATE lines SET link = zeroblob(32) WHERE unit = 3 AND place = 1", "line 1 of unit 3"),
    ("UPDATE lines SET place = 9 WHERE unit = 3 AND place = 2", "line 2 of unit 3"),
    ("DELETE FROM lines WHERE unit = 3 AND place = 1", "line 1 of unit 3"),
    ("DELETE FROM lines WHERE unit = 3 AND place = 2", "release of unit 3 .* or a line is missing"),
    ("DELETE FROM lines WHERE unit = 7", "release of unit 7 .* or a line is missing"),
    ("INSERT INTO lines VALUES ('visits', 3, 3, 'spend', 'x', 0, 0, 0, x'00')", "line 3 of unit 3"),
    (
        "INSERT INTO lines VALUES ('visits', 8, 1, 'spend', 'x', 1, 1, 0, x'00')",
        "lines are of units that were never released: 8",
    ),
    (
        "INSERT INTO lines VALUES ('visits', 0, 1, 'spend', 'x', 1, 1, 0, x'00')",
        "lines are of units that were never released: 0",
    ),
    (
        (
            "INSERT INTO releases SELECT stream, -1, body_of, flags, digest, link, body, mac, "
            "signature FROM releases WHERE unit = 1"
        ),
        "releases are of units that were never released: -1",
    ),
    ("INSERT INTO marks VALUES ('visits', 'web', 8)", "sink 'web' was sent unit 8"),
    ("UPDATE lines SET unit = 4, place = 3 WHERE unit = 3 AND place = 2", "release of unit 3"),
    ("UPDATE releases SET flags = x'92c3c2' WHERE unit = 2", "release of unit 2"),
    ("UPDATE releases SET link = zeroblob(32) WHERE unit = 2", "release of unit 2"),
    ("UPDATE releases SET digest = zeroblob(32) WHERE unit = 2", "release of unit 2"),
    ("UPDATE releases SET body = zeroblob(length(body)) WHERE unit = 1", "release of unit 1"),
    ("UPDATE releases SET body = NULL WHERE unit = 1", "release of unit 1"),
    ("UPDATE releases SET body_of = 1 WHERE unit = 7", "release of unit 7"),
    (
        "UPDATE releases SET body = (SELECT body FROM releases WHERE unit = 1) WHERE unit = 2",
        "release of unit 2",
    ),
    ("DELETE FROM releases WHERE unit = 4", "release of unit 4"),
    ("UPDATE releases SET unit = 8 WHERE unit = 7", "release of unit 7"),
    ("UPDATE releases SET link = zeroblob(32) WHERE unit = 7", "release of unit 7"),
    ("UPDATE streams SET about = replace(about, 'north', 'North')", "line 1 of unit 1"),
    ("UPDATE streams SET about = about || ' '", "its description is not what was committed"),
    (
        'UPDATE streams SET about = replace(about, \'"name":"visits"\', \'"name":"rides"\')',
        "its description",
    ),
]


@pytest.mark.parametrize(("statement", "message"), SOMEBODY, ids=[each for each, _ in SOMEBODY])
def test_whatever_somebody_changes_is_found_and_named(place, statement, message):
    filled(place, run=telling())
    place.tamper(statement)
    with (
        place.reader() as reader,
        pytest.raises(LedgerError, match=f"series 'visits': .*{message}"),
    ):
        reader.verify("visits")


def test_two_lines_that_change_places_are_found(place):
    filled(place, run=telling())
    swap = "UPDATE lines SET place = {} WHERE unit = 3 AND place = {}"
    place.tamper(swap.format(9, 1), swap.format(1, 2), swap.format(2, 9))
    with place.reader() as reader, pytest.raises(LedgerError, match="line 1 of unit 3"):
        reader.verify("visits")


def test_units_that_are_cut_off_at_the_end_are_found_by_whoever_noted_the_head(place):
    filled(place, run=telling())
    with place.reader() as reader:
        head = reader.head("visits")
        early = Head(3, next(row[0] for row in reader._select("link FROM releases WHERE unit = 3")))
    place.tamper("DELETE FROM releases WHERE unit > 5", "DELETE FROM lines WHERE unit > 5")
    with place.store() as store:
        assert store.verify("visits", head=early).head.unit == 5
        with pytest.raises(StateError, match="restored from an old backup"):
            store.verify("visits", head=head)
        with pytest.raises(StateError, match="the saved state of 'visits' is not of unit 5"):
            store.last("visits")


def test_lines_that_cost_more_than_was_promised_are_found(place):
    run = fresh()
    with place.store() as store:
        store.begin(stream(run))
        much = store.series("visits").guarantee.window * 2 * 2**24
        commit(store, run, lines=[Line(1, "spend", "publish", much, much)])
        assert store.verify("visits").account.worst == 1
        commit(store, run, lines=[Line(2, "spend", "publish", 1, 1)])
        with pytest.raises(LedgerError, match=r"a window cost .*, above 1"):
            store.verify("visits")


def test_lines_that_cannot_be_true_are_found(place):
    run = fresh()
    with place.store() as store:
        store.begin(stream(run))
        commit(store, run, lines=[Line(1, "ask", "watch", run=1)])
        with pytest.raises(LedgerError, match="run 1 is not open"):
            store.verify("visits")


def test_the_chain_can_be_followed_without_this_package(place):
    filled(place, 2, run=telling())
    ((about,),) = place.rows("SELECT about FROM streams")
    link = hashlib.sha256(b"penstock chain 1\n" + about.encode()).digest()
    for unit, flags, body in place.rows("SELECT unit, flags, body FROM releases ORDER BY unit"):
        rows = place.rows(
            f"SELECT kind, label, amount, number, run FROM lines WHERE unit = {unit} ORDER BY place"
        )
        for kind, label, amount, number, run in rows:
            text = f'line[{unit},"{kind}","{label}",{amount},{number},{run}]'
            link = hashlib.sha256(link + text.encode()).digest()
        digest = hashlib.sha256(body).digest()
        link = hashlib.sha256(link + b"unit" + unit.to_bytes(8, "big") + digest + flags).digest()
    with place.reader() as reader:
        assert reader.head("visits") == Head(2, link)


# -- restored from an old backup -------------------------------------------------------------------


def test_an_old_backup_is_refused(place, tmp_path):
    noted = tmp_path / "heads.json"
    run = filled(place, 3, head=noted)
    backup = place.backup()
    with place.store(head=noted) as store:
        store.begin(stream(run))
        head = commit(store, run)
    assert HeadFile(noted).read() == {"visits": head}
    place.restore(backup)
    message = (
        f"{place.name} was restored from an old backup: "
        "series 'visits' ends with unit 3, and the head file is of unit 4"
    )
    with place.store(head=noted) as store:
        with pytest.raises(StateError, match=message):
            store.begin(stream(run))
        with pytest.raises(StateError, match="has not begun here"):
            commit(store, run)
    with place.store() as store:
        with pytest.raises(StateError, match="and the head that a sink has seen is of unit 4"):
            store.begin(stream(run), heads=[head])
        store.begin(stream(run))  # nobody has noted anything: it cannot be told
    assert HeadFile(noted).read() == {"visits": head}


def test_a_store_that_is_gone_is_refused(place, tmp_path):
    run = filled(place, 3, head=tmp_path / "heads.json")
    place.remove()
    with place.store(head=tmp_path / "heads.json") as store:
        with pytest.raises(StateError, match="ends with unit 0, and the head file is of unit 3"):
            store.begin(stream(run))
        assert store.series_names == ()
        with pytest.raises(InputError, match="there is no series 'visits'"):
            store.series("visits")


def test_a_backup_that_went_on_has_another_past(place, tmp_path):
    noted = tmp_path / "heads.json"
    run = filled(place, 3, head=noted)
    backup = place.backup()
    state = run.snapshot()
    with place.store(head=noted) as store:
        store.begin(stream(run))
        commit(store, run)
    other = fresh(seed=99)
    other.load(state)
    place.restore(backup)
    with place.store() as store:
        store.begin(stream(other))
        for _ in range(3):
            commit(store, other)
    with (
        place.store(head=noted) as store,
        pytest.raises(StateError, match="has another past than the head file: unit 4"),
    ):
        store.begin(stream(run))


@pytest.mark.parametrize("behind", [1, 3])
def test_a_head_file_that_is_behind_is_brought_up_to_date(place, tmp_path, behind):
    noted = tmp_path / "heads.json"
    run = filled(place, 4, head=noted)
    old = noted.read_bytes()
    with place.store(head=noted) as store:
        store.begin(stream(run))
        for _ in range(behind):
            head = commit(store, run)
    noted.write_bytes(old)
    with place.store(head=noted) as store:
        store.begin(stream(run))
        assert HeadFile(noted).read() == {"visits": head}
        commit(store, run)


@pytest.mark.parametrize("key", [None, KEY])
def test_a_unit_whose_head_cannot_be_written_waits_and_is_shown_later(
    place, tmp_path, monkeypatch, key
):
    noted = HeadFile(tmp_path / "heads.json")
    run = filled(place, 2, head=noted.path, key=key)
    with place.store(head=noted.path, key=key) as store:
        store.begin(stream(run))
        with monkeypatch.context() as patch:
            patch.setattr(HeadFile, "swap", full_disk)
            with pytest.raises(HeadError, match="No space left"):
                commit(store, run)
        waits = store.pending("visits")
        assert (waits.unit, waits.value.tolist()) == (3, run.last.value.tolist())
        assert (store.last("visits").unit, store.last("visits").release.unit) == (3, 2)
        assert noted.read()["visits"] == store.head("visits") == store.at("visits", 2)
        store.save("visits", positions={"events": 31}, private={"open": b"more"})
        with pytest.raises(StateError, match="unit 3 of 'visits' is stored and waits to be shown"):
            commit(store, rewound(run))
    with place.reader() as reader:
        assert reader.verify("visits").head.unit == 2
    with place.store(head=noted.path, key=key) as store:
        store.begin(stream(run))
        assert noted.read()["visits"] == store.head("visits") == store.last("visits").head
        assert store.pending("visits") is None
        assert store.last("visits").positions == {"events": 31}
        (shown,) = store.releases("visits", 3)
        assert same(shown, run.last)
        assert store.verify("visits").head.unit == 3
        commit(store, run)


def full_disk(*_):
    raise HeadError("the head file cannot be written: No space left on device.")


def rewound(run):
    again = fresh(seed=8)
    again.load(run.snapshot())
    return again


def test_a_crash_before_a_unit_is_shown_shows_it_at_the_next_start(place, tmp_path, monkeypatch):
    """The head was written, and the process died before the unit was public."""
    noted = HeadFile(tmp_path / "heads.json")
    run = filled(place, 2, head=noted.path)
    with place.store(head=noted.path) as store:
        store.begin(stream(run))
        with monkeypatch.context() as patch:
            patch.setattr(SqlStore, "_show", lambda *_: (_ for _ in ()).throw(KeyError()))
            with pytest.raises(KeyError):
                commit(store, run)
        assert noted.read()["visits"].unit == 3
        assert store.head("visits").unit == 2
    with place.store(head=noted.path) as store:
        store.begin(stream(run))
        assert noted.read()["visits"] == store.head("visits")
        assert same(next(store.releases("visits", 3)), run.last)


def test_units_of_two_views_are_shown_when_both_have_begun(place, tmp_path, monkeypatch):
    first, second = fresh(), fresh(seed=4)
    noted = HeadFile(tmp_path / "heads.json")
    names = ("visits", "visits/daily")
    with place.store(head=noted.path) as store:
        for run, name in zip((first, second), names, strict=True):
            store.begin(stream(run, name))
        with store.together():
            commit(store, first)
            commit(store, second, name="visits/daily")
    with place.store(head=noted.path) as store:
        store.begin(stream(first))
        assert [store.head(name).unit for name in names] == [0, 0]
        store.begin(stream(second, "visits/daily"))
        assert [store.head(name).unit for name in names] == [1, 1]
        assert noted.read() == {name: store.head(name) for name in names}


def test_of_two_copies_one_releases_and_the_other_shows_nothing(place, tmp_path):
    noted = tmp_path / "heads.json"
    run = filled(place, 3, head=noted)
    backup, state, before = place.backup(), run.snapshot(), HeadFile(noted).read()
    with place.store(head=noted) as store:
        store.begin(stream(run))
        first = commit(store, run)
    place.restore(backup)
    other = fresh(seed=99)
    other.load(state)
    with place.store() as store:
        store.begin(stream(other), fence=Asleep(noted, before))
        with pytest.raises(
            FencedError,
            match=r"another copy of this store has released unit 4 of 'visits': the head file has "
            r"another head than this store\. Unit 4 of this store was shown to nobody\.",
        ):
            commit(store, other)
        assert store.head("visits").unit == 3
        with pytest.raises(FencedError, match="another copy of this store"):
            store.settle(["visits"])
    with place.reader() as reader:
        assert reader.verify("visits").head.unit == 3
    assert HeadFile(noted).read() == {"visits": first}
    with place.store(head=noted) as store, pytest.raises(FencedError, match="another copy of this"):
        store.begin(stream(other))


class Asleep(HeadFile):
    """A head file as a copy saw it that began before the other one went on."""

    def __init__(self, path, heads):
        super().__init__(path)
        self._first = [heads]

    def read(self):
        return self._first.pop() if self._first else super().read()


def test_of_two_new_stores_one_releases(tmp_path):
    noted = tmp_path / "heads.json"
    run, other = (Laplace(epsilon="1").run(3, noise=TestNoise(seed)) for seed in (1, 2))
    with (
        SQLiteStore(tmp_path / "one.db", head=noted) as store,
        SQLiteStore(tmp_path / "two.db", head=noted) as twin,
    ):
        store.begin(stream(run))
        twin.begin(stream(other))
        head = commit(store, run)
        with pytest.raises(FencedError, match="released unit 1 of 'visits'"):
            commit(twin, other)
        commit(store, run)
        assert (store.head("visits").unit, twin.head("visits").unit) == (2, 0)
        assert store.at("visits", 1) == head


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Path.unlink, "the head file has no head of 'visits' any more: it was removed"),
        (
            lambda path: HeadFile(path).write("visits", Head(1, bytes(32))),
            "the head file was changed by others: it has unit 1 of 'visits'",
        ),
    ],
    ids=["gone", "changed"],
)
def test_a_head_file_that_changes_while_a_publisher_runs_stops_it(place, tmp_path, change, message):
    noted = tmp_path / "heads.json"
    run = filled(place, 2, head=noted)
    with place.store(head=noted) as store:
        store.begin(stream(run))
        change(noted)
        with pytest.raises(FencedError, match=message):
            commit(store, run)
        assert store.head("visits").unit == 2


def test_a_unit_that_waits_is_shown_without_a_fence_that_was_taken_away(
    place, tmp_path, monkeypatch
):
    run = filled(place, 2, head=tmp_path / "heads.json")
    with place.store(head=tmp_path / "heads.json") as store:
        store.begin(stream(run))
        monkeypatch.setattr(HeadFile, "swap", full_disk)
        with pytest.raises(HeadError):
            commit(store, run)
    with place.store() as store:
        store.begin(stream(run))
        assert same(next(store.releases("visits", 3)), run.last)


def test_a_damaged_head_file_is_no_head_file(place, tmp_path):
    noted = tmp_path / "heads.json"
    run = filled(place, 2, head=noted)
    noted.write_text("{}")
    with (
        place.store(head=noted) as store,
        pytest.raises(StateError, match="not a head file, or damaged"),
    ):
        store.begin(stream(run))


# -- for its owner only ----------------------------------------------------------------------------


def test_another_key_is_refused(place):
    run, other = filled(place, key=KEY), Key(bytes(32))
    with place.store(key=other) as store:
        for refused in (lambda: store.begin(stream(run)), lambda: store.last("visits")):
            with pytest.raises(
                StateError, match=f"sealed with key {KEY.id}, and the key given is {other.id}"
            ):
                refused()
    with (
        place.store() as store,
        pytest.raises(StateError, match=f"sealed with key {KEY.id}: give that key"),
    ):
        store.last("visits")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE secrets SET content = zeroblob(length(content)) WHERE part = 'state'",
        (
            "UPDATE secrets SET content = (SELECT content FROM secrets WHERE part = 'positions')"
            " WHERE part = 'state'"
        ),
        "UPDATE secrets SET unit = 6 WHERE part = 'state'",
        "DELETE FROM secrets WHERE part = 'state'",
        "DELETE FROM secrets WHERE part = 'positions'",
    ],
)
def test_a_state_that_was_changed_is_refused(place, statement):
    filled(place, key=KEY)
    place.tamper(statement)
    with place.store(key=KEY) as store, pytest.raises(StateError, match=r"damaged|not of unit 7"):
        store.last("visits")


# -- versions --------------------------------------------------------------------------------------


def test_an_older_store_is_brought_to_the_new_version(place, monkeypatch):
    run = filled(place)
    done = []

    def second(file):
        done.append(file.execute("SELECT count(*) FROM releases").fetchone()[0])
        file.execute("ALTER TABLE streams ADD COLUMN note TEXT NOT NULL DEFAULT 'none'")

    monkeypatch.setattr(place.module, "MIGRATIONS", [*place.module.MIGRATIONS, second])
    with place.reader() as reader:
        assert reader.verify("visits").head.unit == run.unit
    for _ in range(2):
        with place.store() as store:
            assert store._select("note FROM streams") == [("none",)]
            assert store.verify("visits").head.unit == run.unit
    assert done == [7]
    with place.reader() as reader:
        assert reader.series_names == ("visits",)
    monkeypatch.undo()
    for kind in (place.store, place.reader):
        with pytest.raises(
            StateError, match="tables of version 4; this Penstock knows versions up to 3"
        ):
            kind()


def test_a_migration_that_fails_changes_nothing(place, monkeypatch):
    filled(place)
    before = content(place.reader())

    def second(file):
        file.execute("ALTER TABLE streams ADD COLUMN note TEXT NOT NULL DEFAULT 'none'")

    def third(file):
        file.execute("DELETE FROM lines")
        file.execute("SELECT nonsense FROM nowhere")

    with monkeypatch.context() as patch:
        patch.setattr(place.module, "MIGRATIONS", [*place.module.MIGRATIONS, second, third])
        with pytest.raises(StateError, match="nowhere"):
            place.store()
    assert content(place.reader()) == before
    with place.store() as store, pytest.raises(StateError, match="note"):
        store._select("note FROM streams")


# -- trouble ---------------------------------------------------------------------------------------


def test_a_store_that_was_closed_says_so(place):
    store = place.store()
    store.begin(stream())
    store.close()
    store.close()
    with pytest.raises(StateError, match="closed"):
        store.begin(stream())
