"""Files by glob, files that grow, and files that are not what they were."""

from __future__ import annotations

import signal
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.errors import ConfigurationError, InputError, StateError
from penstock.private.sources import parquet
from penstock.private.sources.base import Rejections
from penstock.private.sources.csv import CsvFormat
from penstock.private.sources.files import AHEAD, ahead
from penstock.private.sources.jsonl import JsonLinesFormat
from penstock.private.sources.stdin import StdinSource

from tests.private.sources.events import (
    FORMATS,
    INTAKE,
    csv_text,
    events,
    jsonl_text,
    rows_of,
    source,
    write_csv,
    write_parquet,
)


class Follower:
    """Reads what is there now, each time from where it stood."""

    def __init__(self, files):
        self.files, self.position = files, None

    def now(self):
        batches = list(self.files.batches(self.position))
        if batches:
            self.position = batches[-1].position
        return rows_of(batches)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("step", [1, 13, 40])
def test_a_growing_file_gives_each_line_once_it_is_whole(tmp_path, kind, step):
    rows = events(6)
    data = (csv_text(rows) if kind == "csv" else jsonl_text(rows)).encode()
    path = tmp_path / "log"
    path.touch()
    follower = Follower(source(path, FORMATS[kind][0], growing=True))
    taken = []
    for start in range(0, len(data), step):
        with path.open("ab") as file:
            file.write(data[start : start + step])
        taken += follower.now()
        whole = data[: start + step].count(b"\n") - (kind == "csv")
        assert taken == rows[: max(whole, 0)]
    assert taken == rows
    assert follower.files.rejections.for_operator() == {}


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_finished_file_needs_no_line_end_but_a_growing_one_does(tmp_path, kind):
    rows = events(3)
    text = csv_text(rows) if kind == "csv" else jsonl_text(rows)
    path = tmp_path / "log"
    path.write_text(text[:-1], encoding="utf-8")
    assert rows_of(source(path, FORMATS[kind][0]).batches()) == rows
    assert rows_of(source(path, FORMATS[kind][0], growing=True).batches()) == rows[:-1]


def test_a_file_that_goes_on_in_a_line_that_was_taken_is_noticed(tmp_path):
    path = tmp_path / "log"
    path.write_text(jsonl_text(events(3))[:-1], encoding="utf-8")
    files = source(path, JsonLinesFormat())
    *_, last = files.batches()
    with path.open("a") as file:
        file.write("7\n")
    with pytest.raises(StateError, match="log: the file went on in the middle of a line"):
        list(files.batches(last.position))


def test_a_new_file_finishes_the_one_before(tmp_path):
    rows = events(9)
    follower = Follower(source(tmp_path / "log-*", CsvFormat(), growing=True))
    assert follower.now() == []
    (tmp_path / "log-1").write_text(csv_text(rows[:3])[:-1], encoding="utf-8")
    assert follower.now() == rows[:2]
    (tmp_path / "log-2").write_text(csv_text(rows[3:6]), encoding="utf-8")
    (tmp_path / "elsewhere").write_text("not ours")
    assert follower.now() == rows[2:6]
    (tmp_path / "log-3").write_text("time,ke")
    assert follower.now() == []
    (tmp_path / "log-3").write_text(csv_text(rows[6:]), encoding="utf-8")
    (tmp_path / "log-1").unlink()
    assert follower.now() == rows[6:]
    assert follower.now() == []


def test_a_file_before_its_turn_is_counted_once_and_not_read(tmp_path):
    rows = events(4)
    write_csv(tmp_path / "b", rows[:2])
    follower = Follower(source(tmp_path / "*", CsvFormat(), growing=True))
    assert follower.now() == rows[:2]
    write_csv(tmp_path / "a", rows)
    write_csv(tmp_path / "c", rows[2:])
    assert follower.now() == rows[2:]
    assert follower.now() == []
    assert follower.files.rejections.for_operator() == {"file after its turn": 1}


def test_names_are_in_order_over_folders_and_hidden_files_are_not_read(tmp_path):
    rows = events(6)
    for day in ("day=1", "day=2"):
        (tmp_path / day).mkdir()
    write_csv(tmp_path / "day=2" / "a.csv", rows[4:])
    write_csv(tmp_path / "day=1" / "b.csv", rows[2:4])
    write_csv(tmp_path / "day=1" / "a.csv", rows[:2])
    write_csv(tmp_path / "day=1" / ".part.csv", rows)
    batches = list(source(tmp_path / "**" / "*.csv", CsvFormat()).batches())
    assert rows_of(batches) == rows
    assert [batch.position["path"] for batch in batches] == [
        "day=1/a.csv",
        "day=1/b.csv",
        "day=2/a.csv",
    ]


def test_a_folder_that_moved_changes_nothing(tmp_path):
    rows = events(6)
    (tmp_path / "here").mkdir()
    write_csv(tmp_path / "here" / "a", rows)
    first, *_ = source(tmp_path / "here" / "*", CsvFormat(), rows=2).batches()
    (tmp_path / "here").rename(tmp_path / "there")
    assert (
        rows_of([first])
        + rows_of(source(tmp_path / "there" / "*", CsvFormat()).batches(first.position))
        == rows
    )


def test_a_file_may_be_named_like_a_pattern(tmp_path):
    write_csv(tmp_path / "a[1].csv", events(2))
    assert rows_of(source(tmp_path / "a[1].csv", CsvFormat()).batches()) == events(2)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_replaced_file_is_noticed(tmp_path, kind):
    reader, write = FORMATS[kind]
    path = tmp_path / "log"
    write(path, events(20))
    first, *_ = source(path, reader, rows=5).batches()
    write(path, events(40, seed=1))
    with pytest.raises(StateError, match="log: this is not the file that was read before"):
        list(source(path, reader).batches(first.position))


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_line_changed_far_from_the_beginning_is_noticed(tmp_path, kind):
    reader, write = FORMATS[kind]
    path = tmp_path / "log"
    rows = events(300)
    write(path, rows)
    *_, last = source(path, reader, rows=50).batches()
    write(path, [*rows[:290], *events(50, seed=1)])
    with pytest.raises(StateError, match="replaced or changed"):
        list(source(path, reader).batches(last.position))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_truncated_file_is_noticed(tmp_path, kind):
    reader, write = FORMATS[kind]
    path = tmp_path / "log"
    write(path, events(20))
    *_, last = source(path, reader, rows=5).batches()
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(StateError, match="log: the file is shorter"):
        list(source(path, reader, growing=True).batches(last.position))


def test_a_longer_parquet_file_is_another_file(tmp_path):
    path = tmp_path / "log"
    write_parquet(path, events(20))
    first, *_ = source(path, FORMATS["parquet"][0], rows=5).batches()
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(StateError, match="not the file"):
        list(source(path, FORMATS["parquet"][0]).batches(first.position))


def test_a_file_that_is_gone_is_noticed(tmp_path):
    write_csv(tmp_path / "a", events(3))
    first, *_ = source(tmp_path / "?", CsvFormat(), rows=1).batches()
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(StateError, match=r"^a: this file, in which the source stands, is gone\.$"):
        list(source(tmp_path / "?", CsvFormat()).batches(first.position))


def test_no_file_is_an_error_unless_one_may_come(tmp_path):
    with pytest.raises(InputError, match="no file matches"):
        list(source(tmp_path / "*.csv", CsvFormat()).batches())
    with pytest.raises(InputError, match="no file matches"):
        list(source(tmp_path / "a.csv", CsvFormat()).batches())
    assert list(source(tmp_path / "*.csv", CsvFormat(), growing=True).batches()) == []


@pytest.mark.parametrize(
    "position",
    [
        {},
        {"path": "a"},
        {"path": "a", "offset": "1", "row": 0, "fingerprint": "", "files": 1},
        {"partition": 1, "offset": 2},
    ],
)
def test_a_position_of_something_else_is_refused(tmp_path, position):
    write_csv(tmp_path / "a", events(3))
    with pytest.raises(StateError, match="the position is not one of files"):
        list(source(tmp_path / "a", CsvFormat()).batches(position))


@pytest.mark.parametrize("rows", [0, -1, 1.5, True])
def test_the_number_of_rows_is_a_whole_number(tmp_path, rows):
    with pytest.raises(ConfigurationError, match="rows must be a whole number"):
        source(tmp_path, CsvFormat(), rows=rows)
    with pytest.raises(ConfigurationError, match="rows must be a whole number"):
        StdinSource(format=CsvFormat(), intake=INTAKE, rows=rows)


class TalkativeFile(CsvFormat):
    """A format that fails with data in its message."""

    def tables(self, *places, **parameters):
        raise pa.ArrowInvalid("bob, 4711")


@pytest.mark.parametrize(
    "make",
    [
        lambda path: source(path, TalkativeFile()),
        lambda path: StdinSource(format=TalkativeFile(), intake=INTAKE),
    ],
)
def test_what_arrow_says_is_not_passed_on(tmp_path, make):
    write_csv(tmp_path / "log", events(3))
    with pytest.raises(
        InputError, match=r"^(/.*/log|standard input): rows that cannot be read \(ArrowInvalid\)\.$"
    ) as caught:
        list(make(tmp_path / "log").batches())
    assert caught.value.__suppress_context__


def test_what_is_read_ahead_comes_in_order_and_never_more_than_a_little_of_it():
    taken = []
    source = (taken.append(number) or number for number in range(20))
    for number, each in enumerate(ahead(source)):
        assert each == number
        assert len(taken) <= number + 1 + AHEAD
    assert number == 19


def test_what_goes_wrong_while_reading_ahead_is_raised_in_its_turn():
    def source():
        yield 1
        raise InputError("broken.")

    found = ahead(source())
    assert next(found) == 1
    with pytest.raises(InputError, match="broken"):
        next(found)


def test_who_stops_reading_leaves_no_thread_behind():
    found = ahead(iter(range(100)))
    assert next(found) == 0
    found.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("penstock-reader")]


def test_a_large_row_group_is_read_piece_by_piece(tmp_path, monkeypatch):
    rows = events(1000)
    write_parquet(tmp_path / "log", rows, group=400)
    buffers = []

    def opened(*places, buffer_size=0, real=pq.ParquetFile, **parameters):
        buffers.append(buffer_size)
        return real(*places, buffer_size=buffer_size, **parameters)

    monkeypatch.setattr(pq, "ParquetFile", opened)
    assert rows_of(source(tmp_path / "log", FORMATS["parquet"][0]).batches()) == rows
    assert set(buffers) == {0}
    monkeypatch.setattr(parquet, "LARGE_ROW_GROUP_BYTES", 100)
    assert rows_of(source(tmp_path / "log", FORMATS["parquet"][0]).batches()) == rows
    assert max(buffers) == parquet.COLUMN_BUFFER_BYTES


def test_a_signal_that_comes_while_csv_is_parsed_is_not_lost(tmp_path, monkeypatch):
    """PyArrow calls for a line with too many fields while its own handlers would be in place."""
    heard, add = [], Rejections.add

    def signalled(self, reason, number):
        signal.raise_signal(signal.SIGTERM)
        add(self, reason, number)

    rows = events(6)
    path = tmp_path / "log"
    path.write_text(csv_text(rows) + "too,many,fields,of,one,line\n", encoding="utf-8")
    monkeypatch.setattr(Rejections, "add", signalled)
    pa.enable_signal_handlers(True)
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        taken = rows_of(source(path, CsvFormat()).batches())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert taken == rows
    assert set(heard) == {signal.SIGTERM}
