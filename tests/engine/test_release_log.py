"""The release log in a file: a store with one series, whole units only."""

from __future__ import annotations

import gzip
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import tracemalloc
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import BudgetAbsorption, Laplace, Uniform, open_log
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError, InputError, StateError
from penstock.core.guarantee import Guarantee, Intrusion
from penstock.core.hierarchy import Hierarchy
from penstock.core.product import Product
from penstock.core.released import Released, Scale
from penstock.core.weights import Weights
from penstock.engine.release_log import LogWriter
from penstock.engine.sqlite import SQLiteReader, SQLiteStore
from penstock.private.mechanisms.hierarchical import HierarchicalPegasus
from penstock.released.log import same
from penstock.released.queries import SlidingSum
from penstock.released.series import Series
from penstock.testing import TestNoise

from tests.released.streams import MECHANISMS, noisy

PROMISE = Guarantee("1/3", 5, 2, Intrusion.WITHIN)


def equal(one: Released, other: Released) -> bool:
    for field in fields(Released):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name == "public":
            assert a.keys() == b.keys()
            assert all(np.array_equal(a[key], b[key]) and a[key].dtype == b[key].dtype for key in a)
        elif field.name == "scale":
            assert a.base == b.base
            assert np.array_equal(a.parts, b.parts)
        elif isinstance(a, np.ndarray):
            assert np.array_equal(a, b)
            assert a.dtype == b.dtype
        else:
            assert a == b
            assert type(a) is type(b)
    return True


def numbers(size: int, least: int = -(2**60)) -> st.SearchStrategy:
    return st.lists(st.integers(least, 2**60), min_size=size, max_size=size).map(
        lambda values: np.array(values, np.int64)
    )


def maybe(size: int, least: int) -> st.SearchStrategy:
    return st.one_of(st.integers(least, 99), numbers(size, least))


releases = st.builds(
    Released,
    unit=st.just(1),
    value=numbers(3),
    scale=st.builds(
        Scale, st.fractions(min_value=Fraction(1, 10**9), max_denominator=10**12), maybe(3, 0)
    ),
    guarantee=st.just(PROMISE),
    private=st.booleans(),
    repeated=st.one_of(
        st.booleans(), st.lists(st.booleans(), min_size=3, max_size=3).map(np.array)
    ),
    divisor=maybe(3, 1),
    layers=maybe(3, 1),
    public=st.dictionaries(st.text(max_size=9), numbers(3), max_size=3),
    kind=st.sampled_from(["sum", "median", "shrunk", "weighted", "gaussian", "rounded"]),
    weights=st.sampled_from(
        [
            Weights(),
            Weights.window(3),
            Weights.prefix(),
            Weights.decay("0.123456789", 9),
            Weights.power("1/3", 4),
        ]
    ),
)


@settings(max_examples=60, deadline=None)
@given(release=releases, again=st.booleans())
def test_a_file_gives_back_exactly_what_was_released(tmp_path_factory, release, again):
    path = tmp_path_factory.mktemp("log") / "a.log"
    later = replace(release.again(2) if again else release, unit=2)
    series = Series(
        name="a",
        domain=Domain.of(["ä", "b/c", ""]),
        guarantee=PROMISE,
        mechanism="m",
        configuration={"p": "1/3"},
    )
    with LogWriter(path, series) as file:
        file.append(release, ())
        file.append(later, ())
    with open_log(path) as log:
        assert log.keys == ("ä", "b/c", "")
        assert log.guarantee == PROMISE
        assert (log.mechanism, log.configuration) == ("m", {"p": "1/3"})
        assert equal(log[1], release)
        assert equal(log[2], later)
        assert log.private == (release.private and later.private)


@pytest.mark.parametrize("name", MECHANISMS)
def test_memory_and_file_are_the_same_log(name, tmp_path):
    memory = noisy(MECHANISMS[name], np.random.default_rng(1).poisson(20, (15, 3)))
    series = Series(name="a", domain=Domain.of(3), guarantee=memory.guarantee)
    with LogWriter(tmp_path / "a.log", series) as file:
        for release in memory:
            file.append(release, ())
    file = open_log(tmp_path / "a.log")
    assert file.units == memory.units
    assert all(equal(a, b) for a, b in zip(file, memory, strict=True))
    assert (file.estimates(3, 9) == memory.estimates(3, 9)).all()
    assert file.estimates().shape == (15, 3)
    one, other = SlidingSum(4).series(file), SlidingSum(4).series(memory)
    assert (one.estimate == other.estimate).all()


def test_a_kept_run_and_its_log_go_on_together(tmp_path):
    mechanism = BudgetAbsorption(epsilon=1, window=3)
    state, path = tmp_path / "a.state", tmp_path / "a.log"
    with mechanism.run(2, keep=state) as run, open_log(path, run) as log:
        log.append(run.step([5, 0]))
        run.step([6, 0])  # and then the power went
    with mechanism.run(2, keep=state) as run, open_log(path, run) as log:
        assert log.units == range(1, 3)
        assert same(log[2], run.last)
        log.append(run.step([7, 0]))
    with open_log(path) as log:
        assert len(log) == 3


def test_a_run_that_lags_behind_its_log_is_refused(tmp_path):
    mechanism = Laplace(epsilon=1)
    run = mechanism.run(2)
    with open_log(tmp_path / "a.log", run) as log:
        log.append(run.step([5, 0]))
        log.append(run.step([5, 0]))
    with pytest.raises(StateError, match="units up to 2, the run stands at 0"):
        open_log(tmp_path / "a.log", mechanism.run(2))


@pytest.mark.parametrize(
    "domain",
    [
        Hierarchy.of({"r1": "A/1", "r2": "A/1", "kiosk": ""}),
        ["x", "y", "z"],
        Product.of({"sex": ["ü"], "age =": ["0", "[1]", '"2"']}),
        Product.of(["x,1", "x", "y"]),
    ],
)
def test_a_file_knows_its_domain(domain, tmp_path):
    mechanism = (
        HierarchicalPegasus(epsilon=1) if isinstance(domain, Hierarchy) else Laplace(epsilon=1)
    )
    run = mechanism.run(domain)
    open_log(tmp_path / "a.log", run, name="campus").append(run.step([1, 2, 3]))
    log = open_log(tmp_path / "a.log")
    assert log.domain == run.released
    assert log.name == "campus"
    assert (log.parents is not None) == isinstance(domain, Hierarchy)
    if log.parents is not None:
        assert log.parents.tolist() == domain.parents.tolist()
    own = Laplace(epsilon=1).run(domain)
    assert open_log(tmp_path / "b.log", own).domain == open_log(tmp_path / "b.log").domain


def test_a_log_over_a_product_knows_its_attributes_and_is_of_no_other(tmp_path):
    census, path = Product.of({"sex": ["f", "m"], "age": 3}), tmp_path / "a.log"
    run = Laplace(epsilon=1).run(census)
    with open_log(path, run) as log:
        log.append(run.step(range(6)))
    read = open_log(path).domain
    assert isinstance(read, Product)
    assert (read.attributes, read.keys, read.facts) == (
        census.attributes,
        census.keys,
        census.facts,
    )
    assert open_log(path, run).last == 1
    for other in (Product.of({"sex": ["f", "m"], "years": 3}), census.keys):
        with pytest.raises(StateError, match="another series: its domain"):
            open_log(path, Laplace(epsilon=1).run(other))


@pytest.mark.parametrize(
    "wrong",
    [
        '"attributes": 5',
        '"attributes": []',
        '"attributes": [["a", []]]',
        '"attributes": [["a", ["0"]]]',
        '"attributes": [["a", ["1", "0"]]]',
        '"attributes": [["a", ["0", "0"]]]',
    ],
)
def test_attributes_that_do_not_make_the_keys_are_refused(wrong, tmp_path):
    statement = (
        f"""UPDATE streams SET about = replace(about, '"nodes":false', '"nodes":false,{wrong}')"""
    )
    with pytest.raises(StateError, match="the description of series 'a' is damaged"):
        open_log(damaged(tmp_path / "a.log", statement))


def test_what_is_not_a_log_of_this_stream_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"there is no store /.*/none\.log\."):
        open_log(tmp_path / "none.log")
    (tmp_path / "text.log").write_text("hello, this is not a database at all" * 50)
    with pytest.raises(StateError, match="It is not a store"):
        open_log(tmp_path / "text.log")
    sqlite3.connect(tmp_path / "other.log").execute("CREATE TABLE t (x)")
    with pytest.raises(StateError, match="is not a store: it holds something else"):
        open_log(tmp_path / "other.log")
    (tmp_path / "empty.log").touch()
    with pytest.raises(StateError, match="has tables of version 0"):
        open_log(tmp_path / "empty.log")
    open_log(tmp_path / "a.log", Laplace(epsilon=1).run(2)).close()
    for run, what in (
        (Laplace(epsilon=1).run(3), "domain"),
        (Laplace(epsilon=2).run(2), "guarantee"),
        (Uniform(epsilon=1, window=1).run(2), "mechanism"),
    ):
        with pytest.raises(StateError, match=f"another series: its {what}"):
            open_log(tmp_path / "a.log", run)
    for number in (1, 2):
        with SQLiteStore(tmp_path / "store.db") as store:
            store.begin(Series.of(Laplace(epsilon=1).run(2), name=f"series {number}"))
    with pytest.raises(StateError, match="is not a release log: it has 2 series"):
        open_log(tmp_path / "store.db")
    with pytest.raises(StateError, match="is the store of a publisher, not a release log"):
        open_log(tmp_path / "store.db", Laplace(epsilon=1).run(2))
    file = sqlite3.connect(tmp_path / "a.log")
    file.execute("UPDATE penstock_store SET version = 99")
    file.commit()
    with pytest.raises(StateError, match="tables of version 99"):
        open_log(tmp_path / "a.log")


def test_a_log_file_has_the_ledger_lines_of_its_units(tmp_path):
    run = BudgetAbsorption(epsilon=1, window=3).run(2)
    with open_log(tmp_path / "city.log", run) as log:
        for unit in range(9):
            log.append(run.step([50 * unit, 1]))
    with SQLiteReader(tmp_path / "city.log") as reader:
        assert reader.series_names == ("city",)
        assert reader.verify("city").head.unit == 9
        assert [line for line in reader.lines("city") if line.unit > 6] == list(run.ledger)


def test_a_release_whose_ledger_lines_are_gone_is_refused(tmp_path):
    run = Laplace(epsilon=1).run(2)
    with open_log(tmp_path / "a.log", run) as log:
        first = run.step([1, 1])
        with pytest.raises(InputError, match="unit 2 is not of this run"):
            log.append(replace(first, unit=2))
        run.step([1, 1])
        with pytest.raises(InputError, match="no longer has the ledger lines of this unit"):
            log.append(first)


def test_a_log_file_begins_with_the_first_unit(tmp_path):
    run = Laplace(epsilon=1).run(2)
    run.step([1, 1])
    run.step([1, 1])
    with pytest.raises(StateError, match="the run stands at unit 2: a log file begins with unit 1"):
        open_log(tmp_path / "a.log", run)


# -- files of version 0.1 --------------------------------------------------------------------------

OLD = Path(__file__).parents[1] / "fixtures" / "v0_1_dev" / "logs"


def old_log(folder: Path) -> Path:
    source = min(OLD.glob("*.log.gz"))
    path = folder / "old.log"
    path.write_bytes(gzip.decompress(source.read_bytes()))
    return path


def test_an_old_log_is_read_and_not_appended_to(tmp_path):
    path = old_log(tmp_path)
    with open_log(path) as log:
        assert len(log) > 1
        assert [release.unit for release in log] == list(log.units)
    before = path.read_bytes()
    with pytest.raises(StateError, match=r"release log of version 0.1: it can be read, and not"):
        open_log(path, Laplace(epsilon=1).run(2))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM about WHERE name = 'domain'",
        "UPDATE about SET value = '{}' WHERE name = 'guarantee'",
        "UPDATE about SET value = '[1]' WHERE name = 'domain'",
        "UPDATE about SET value = '[\"penstock log\", 99]' WHERE name = 'format'",
        "DELETE FROM units WHERE unit = 3",
        "UPDATE units SET flags = x'00' WHERE unit = 3",
        "UPDATE units SET body = x'' WHERE unit = 3",
        "UPDATE units SET body_of = 99 WHERE unit = 3",
    ],
)
def test_a_damaged_old_log_is_one_clear_error(statement, tmp_path):
    path = old_log(tmp_path)
    file = sqlite3.connect(path)
    file.execute(statement)
    file.commit()
    file.close()
    with pytest.raises(StateError, match=r"old\.log is a damaged release log"):
        open_log(path)


def damaged(path: Path, *statements: str) -> Path:
    run = Laplace(epsilon=1).run(2)
    with open_log(path, run) as log:
        for unit in range(6):
            log.append(run.step([10**6 * unit, 1]))  # no two alike: those would be written once
    file = sqlite3.connect(path)
    for statement in statements:
        file.execute(statement)
    file.commit()
    file.close()
    return path


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM streams", "it has 0 series"),
        ("UPDATE streams SET about = '{}'", "description of series 'a' is damaged"),
        ("UPDATE streams SET about = '[1]'", "description of series 'a' is damaged"),
        ("DROP TABLE releases", "cannot be read: no such table"),
        ("DELETE FROM releases WHERE unit = 3", r"some of the units 1..6 of 'a' are missing"),
        ("UPDATE releases SET flags = x'00' WHERE unit = 3", "unit 3 of 'a' cannot be read"),
        ("UPDATE releases SET body = x'' WHERE unit = 3", "unit 3 of 'a' cannot be read"),
        ("UPDATE releases SET body_of = 99 WHERE unit = 3", "unit 99 of 'a' is missing"),
    ],
)
def test_a_damaged_file_is_one_clear_error(statement, message, tmp_path):
    path = damaged(tmp_path / "a.log", statement)
    with pytest.raises(StateError, match=message):
        open_log(path).estimates()


def test_garbage_in_a_file_is_one_clear_error(tmp_path):
    """Anything may be read from random bytes but nothing other than a `StateError` comes of it.
    Fixed seed.
    """
    run = Laplace(epsilon=1).run(100)
    with open_log(tmp_path / "a.log", run) as log:
        for _ in range(60):
            log.append(run.step([1] * 100))
    whole, rng, refused = (tmp_path / "a.log").read_bytes(), np.random.default_rng(1), 0
    for number in range(40):
        garbled = bytearray(whole)
        place = int(rng.integers(0, len(whole) - 64))
        garbled[place : place + 64] = rng.bytes(64)
        path = tmp_path / f"{number}.log"
        path.write_bytes(garbled if number % 2 else garbled[:place])
        try:
            with open_log(path) as log:
                assert log.private in (True, False)
                log.estimates()
        except StateError:
            refused += 1
    assert refused > 20


def test_a_closed_log_says_so(tmp_path):
    log = open_log(tmp_path / "a.log", Laplace(epsilon=1).run(2))
    log.close()
    with pytest.raises(StateError, match="closed"):
        len(log)


def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "app.db"
    file = sqlite3.connect(path)
    file.execute("CREATE TABLE users (name TEXT)")
    file.close()
    before = path.read_bytes()
    with pytest.raises(StateError, match="is not a store: it holds something else"):
        open_log(path, Laplace(epsilon=1).run(2))
    assert path.read_bytes() == before


def test_a_unit_for_which_there_is_no_room_is_not_there_and_can_come_again(tmp_path):
    run = Laplace(epsilon=1).run(5000)
    with open_log(tmp_path / "a.log", run) as log:
        log.append(run.step([1] * 5000))
        file = log._file._file
        pages = file.execute("PRAGMA page_count").fetchone()[0]
        file.execute(f"PRAGMA max_page_count = {pages}")
        run.step([1] * 5000)
        assert run.last is not None
        with pytest.raises(StateError, match="cannot be written: database or disk is full"):
            log.append(run.last)
        assert log.last == 1
        file.execute(f"PRAGMA max_page_count = {pages + 99}")
        log.append(run.last)
        assert log.last == 2


def test_a_reader_cannot_write(tmp_path):
    run = Laplace(epsilon=1).run(2)
    open_log(tmp_path / "a.log", run).close()
    with pytest.raises(InputError, match="opened for reading"):
        open_log(tmp_path / "a.log").append(run.step([1, 1]))


def test_a_finished_log_is_read_where_nothing_can_be_written(tmp_path):
    run = Laplace(epsilon=1).run(2)
    with open_log(tmp_path / "a.log", run) as log:
        log.append(run.step([1, 1]))
    with open_log(tmp_path / "a.log") as log:
        assert len(log) == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.log"]
    copy = tmp_path / "elsewhere" / "a.log"
    copy.parent.mkdir()
    copy.write_bytes((tmp_path / "a.log").read_bytes())
    copy.chmod(0o400)
    copy.parent.chmod(0o500)
    try:
        assert len(open_log(copy)) == 1
    finally:
        copy.parent.chmod(0o700)


def test_a_repeated_release_is_stored_once(tmp_path):
    run = MECHANISMS["sample"].run(10_000, noise=TestNoise(1))
    with open_log(tmp_path / "a.log", run) as log:
        for _ in range(20):
            log.append(run.step(np.zeros(10_000, np.int64)))
        one, other = log.between(1, 2)
        assert one.value is other.value
    assert (
        tmp_path / "a.log"
    ).stat().st_size < 200_000  # 20 units of 10 kB each, and the keys' names


def test_only_so_much_of_a_long_log_is_kept_in_memory(tmp_path):
    run = Laplace(epsilon=1).run(10_000)
    with open_log(tmp_path / "a.log", run) as log:
        for _ in range(100):
            log.append(run.step([1] * 10_000))
        tracemalloc.start()
        try:
            assert sum(1 for _ in log) == 100
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert most < 2_000_000  # a release has 80 kB of numbers, all of them 8 MB


WRITER = """
import sys
from penstock import Laplace, open_log
from penstock.testing import TestNoise

run = Laplace(epsilon=1).run(50, noise=TestNoise(1))
log = open_log(sys.argv[1], run)
for unit in range(1, int(sys.argv[2]) + 1):
    log.append(run.step([unit] * 50))
    print(unit, flush=True)
    if len(sys.argv) > 3:
        sys.stdin.readline()
"""


def writer(path: Path, units: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(path), str(units), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def test_another_process_reads_while_the_log_grows(tmp_path):
    path = tmp_path / "a.log"
    process = writer(path, 6, "one by one")
    assert process.stdout is not None
    assert process.stdin is not None
    live = []
    log = None
    for unit in range(1, 7):
        assert int(process.stdout.readline()) == unit
        log = log or open_log(path)
        assert log.units == range(1, unit + 1)  # what was said to be there is there
        if unit >= 3:
            live.append(SlidingSum(3).answer(log).estimate[0])
        process.stdin.write("\n")
        process.stdin.flush()
    process.communicate()
    assert (SlidingSum(3).series(open_log(path)).estimate == np.array(live)).all()


def test_a_writer_killed_at_any_point_leaves_whole_units(tmp_path):
    expected = noisy(Laplace(epsilon=1), [[unit] * 50 for unit in range(1, 400)])
    for number, after in enumerate((1, 7, 40)):
        path = tmp_path / f"{number}.log"
        process = writer(path, 100_000)
        assert process.stdout is not None
        for _ in range(after):
            said = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        with open_log(path) as log:
            assert log.first == 1
            assert log.last >= said
            assert all(equal(log[unit], expected[unit]) for unit in log.units[:300])
            last = log.last
        run = Laplace(epsilon=1).run(50, noise=TestNoise(1))
        with pytest.raises(StateError, match="the run stands at 0"):
            open_log(path, run)
        for unit in range(1, last + 1):
            run.step([unit] * 50)  # the same noise: the same units
        with open_log(path, run) as log:
            log.append(run.step([last + 1] * 50))
            assert log.last == last + 1


def test_two_writers_cannot_both_append_a_unit(tmp_path):
    run, other = (Laplace(epsilon=1).run(2, noise=TestNoise(seed)) for seed in (1, 2))
    one, two = open_log(tmp_path / "a.log", run), open_log(tmp_path / "a.log", other)
    one.append(run.step([1, 1]))
    with pytest.raises(InputError, match="with other numbers"):
        two.append(other.step([50, 50]))
