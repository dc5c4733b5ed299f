"""Bad input through the whole publisher: it is counted for the operator, said where that is due,
and changes nothing else.

Every release with bad input among the good is compared, with the noise off, to that of the good
input alone.
"""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.errors import InputError
from penstock.engine import publisher_figures
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.sqlite import SQLiteReader
from penstock.private.sources.base import Batch, Intake, Rejections, Source
from penstock.private.sources.csv import CsvFormat
from penstock.private.sources.files import FileSource
from penstock.private.sources.http import HttpSource
from penstock.private.sources.jsonl import JsonLinesFormat
from penstock.private.sources.parquet import ParquetFormat
from penstock.private.sources.prefetch import PrefetchSource
from penstock.testing import ManualClock, NoNoise

from tests.engine import streams
from tests.engine.streams import BEGIN, HOUR, KEYS, MINUTE

HOURS = 3
UNTIL = {"until": "2026-01-01T03:00Z"}
HEADER = b"ts,station,card\n"
YEAR = 365 * 24 * HOUR

CSV = {
    b"2026-01-01T00:10Z,Airport\n": "wrong number of fields",
    b"2026-01-01T00:10Z,Airport,901,1\n": "wrong number of fields",
    b"\0\0\0\n": "wrong number of fields",
    b'2026-01-01T00:10Z,"Airport,902\n': "broken line",
    b'2026-01-01T00:10Z,Air"port,"903\n': "broken line",
    b"2026-01-01T00:10Z,Airport,904\xff\n": "not UTF-8",
    b"2026-01-01T00:10Z,Airport\xe2\x82,905\n": "not UTF-8",
    b",Airport,906\n": "missing value",
    b"2026-01-01T00:10Z,,907\n": "missing value",
    b"2026-01-01T00:10Z,Airport,\n": "missing value",
    b"2026-01-01T00:10Z,Atlantis,908\n": "unknown key",
    b"2026-01-01T00:10Z,Air\0port,909\n": "unknown key",
    b"soon,Airport,910\n": "wrong type",
    b"2026-01-01T00:10Z\0,Airport,911\n": "wrong type",
    b"2026-02-29T00:10Z,Airport,912\n": "wrong type",
    b"2026-01-01T00:10Z,Airport,bob\n": "wrong type",
    b"2026-01-01T00:10Z,Airport,\x00913\n": "wrong type",
    b"2026-01-01T00:10Z,Airport,18446744073709551615\n": "wrong type",
    HEADER: "wrong type",
    b"0000-01-01T00:10Z,Airport,914\n": "time out of range",
    b"2026-01-01T00:10Z,Airport," + b"9" * 2**20 + b"\n": "line too long",
}
JSON = {
    b'{"ts":"2026-01-01T00:10Z","station":"Airport","ca\n': "broken line",
    b"[1]\n": "broken line",
    b'{"ts":"2026-01-01T00:10Z","station":"Airport","card":901}\0{}\n': "broken line",
    b'{"ts":"2026-01-01T00:10Z","station":"Airport","card":902\xff}\n': "not UTF-8",
    b'{"ts":"2026-01-01T00:10Z","station":"Airport"}\n': "missing value",
    b'{"ts":"2026-01-01T00:10Z","station":null,"card":903}\n': "missing value",
    b'{"ts":"2026-01-01T00:10Z","station":"Atlantis","card":904}\n': "unknown key",
    b'{"ts":"2026-01-01T00:10Z","station":"Air\\u0000port","card":905}\n': "unknown key",
    b'{"ts":"2026-01-01T00:10Z","station":"Airport","card":"bob"}\n': "wrong type",
    b'{"ts":"2026-01-01T00:10Z","station":"Airport","card":1.5}\n': "wrong type",
    b'{"ts":"2026-01-01T00:10Z","station":"Airport","card":18446744073709551615}\n': "wrong type",
    b'{"ts":"2026-01-01T00:10Z","station":"Airport","card":907,"card":908}\n': "wrong type",
    b'{"ts":"2026-01-01T00:10Z","station":"\\ud83d","card":909}\n': "wrong type",
    b'{"ts":"soon","station":"Airport","card":910}\n': "wrong type",
    b'{"x":"' + b"x" * 2**20 + b'"}\n': "line too long",
}
BAD = {"csv": CSV, "jsonl": JSON}
SAID = [f"9{number:02d}" for number in range(1, 15)] + ["bob", "Atlantis", "18446744073709551615"]
"""What no log line may show."""


def good(kind, seed=1, hours=HOURS):
    """Lines of good events."""
    columns = streams.events(hours=hours, each=10, people=20, seed=seed)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    write = csv_line if kind == "csv" else json_line
    return [write(*row) for row in rows], columns


def csv_line(when, key, card):
    return f"{streams.moment(when)},{KEYS[key]},{card}\n".encode()


def json_line(when, key, card):
    return (
        json.dumps({"ts": streams.moment(when), "station": KEYS[key], "card": card}) + "\n"
    ).encode()


def mixed(kind):
    """Good lines with every kind of bad one among them, and how many of each there are."""
    lines, columns = good(kind)
    bad = list(BAD[kind])
    for number, line in enumerate(bad):
        lines.insert((7 * number) % len(lines), line)
    counts = {}
    for reason in BAD[kind].values():
        counts[reason] = counts.get(reason, 0) + 1
    return lines, columns, counts


def truth(columns, hours=HOURS):
    return streams.truth(*columns, units=hours).tolist()


class BadInputRun:
    """A publisher of what is in a folder, finite or live, and all that it said."""

    def __init__(self, folder, source, *, live, **tables):
        self.folder, self.told = folder, []
        times = {"lateness": "10min", "pace": "0s"} if live else UNTIL
        source = {**source, "growing": live} if "path" in source else source
        tables["stream"] = {**times, **tables.get("stream", {})}
        self.made = Pipeline.of(streams.pipeline(source=source, **tables), folder=folder)
        self.clock = ManualClock("2026-01-01T00:00Z")
        self.live = live

    def open(self, **more):
        if self.live:
            more["clock"] = self.clock
        return Publisher(self.made, noise=NoNoise, listener=self.told.append, **more)

    def turn(self, publisher, now):
        """What the loop does once; an error of the source has it wait, but not here."""
        self.clock.set(now)
        publisher.loop._retry_at = 0.0
        publisher.loop.read()
        while publisher.loop.draw(self.clock.now()):
            publisher.loop.commit()

    def all(self):
        """Publish all of it; what the operator sees of it then."""
        with self.open() as publisher:
            if self.live:
                for now in ("2026-01-01T03:00Z", "2026-01-01T03:10Z"):
                    self.turn(publisher, now)
            else:
                assert publisher.run()
            (self.private,) = publisher_figures.private([publisher])
        return self.private

    @property
    def values(self):
        with SQLiteReader(self.folder / "taps.db") as reader:
            return [release.value.tolist() for release in reader.releases("taps")]

    @property
    def warnings(self):
        return [each.text for each in self.told if each.level != "info"]


MODES = pytest.mark.parametrize("live", [False, True], ids=["finite", "live"])
KINDS = pytest.mark.parametrize("kind", ["csv", "jsonl"])


# -- lines -----------------------------------------------------------------------------------------


@MODES
@KINDS
def test_bad_lines_are_counted_and_change_nothing(tmp_path, kind, live):
    lines, columns, counts = mixed(kind)
    (tmp_path / "taps").write_bytes((HEADER if kind == "csv" else b"") + b"".join(lines))
    run = BadInputRun(tmp_path, {"kind": kind, "path": "taps"}, live=live)
    private = run.all()
    assert run.values == truth(columns)
    assert private.rejections == counts
    assert not run.warnings
    assert not any(word in repr(run.told) + repr(private) for word in SAID)


@MODES
def test_an_unknown_key_counts_as_other_where_there_is_one(tmp_path, live):
    times, keys, cards = streams.events(hours=HOURS, each=10, people=20)
    names = [*KEYS, "elsewhere"]
    written = np.where(np.arange(len(keys)) % 5 == 0, 4, keys)
    rows = zip(times.tolist(), written.tolist(), cards.tolist(), strict=True)
    odd = [*KEYS, "Atlantis"]
    lines = [f"{streams.moment(when)},{odd[key]},{card}\n" for when, key, card in rows]
    (tmp_path / "taps.csv").write_text("ts,station,card\n" + "".join(lines))
    run = BadInputRun(
        tmp_path,
        {"kind": "csv", "path": "taps.csv"},
        live=live,
        domain={"keys": KEYS, "other": "elsewhere"},
    )
    assert run.all().rejections == {}
    expected = np.zeros((HOURS, len(names)), np.int64)
    seen = set()
    for when, key, card in sorted(
        zip(times.tolist(), written.tolist(), cards.tolist(), strict=True)
    ):
        unit = (when - BEGIN) // HOUR
        if (unit, card) not in seen:
            seen.add((unit, card))
            expected[unit, key] += 1
    assert run.values == expected.tolist()


@MODES
def test_events_a_year_away_are_refused_and_move_nothing(tmp_path, live):
    lines, columns = good("csv")
    away = [
        csv_line(BEGIN + by, 0, card)
        for card, by in enumerate([-YEAR, YEAR, YEAR, -1, 4 * HOUR, 10 * YEAR], start=900)
    ]
    for number, line in enumerate(away):
        lines.insert(6 * number, line)
    (tmp_path / "taps.csv").write_bytes(HEADER + b"".join(lines))
    run = BadInputRun(tmp_path, {"kind": "csv", "path": "taps.csv"}, live=live)
    (series,) = run.all().series
    assert run.values == truth(columns)
    assert (series.past, series.late, series.future) == (2, 0, 4)
    assert series.open == {}


def test_a_late_event_of_last_year_counts_nowhere_and_one_of_the_last_hour_is_late(tmp_path):
    run = BadInputRun(tmp_path, {"kind": "csv", "path": "taps.csv"}, live=True)
    (tmp_path / "taps.csv").write_bytes(HEADER + csv_line(BEGIN + MINUTE, 1, 1))
    with run.open() as publisher:
        run.turn(publisher, "2026-01-01T01:10Z")
        with (tmp_path / "taps.csv").open("ab") as file:
            file.write(
                csv_line(BEGIN + 2 * MINUTE, 0, 2)
                + csv_line(BEGIN - YEAR, 0, 3)
                + csv_line(BEGIN + YEAR, 0, 4)
            )
        run.turn(publisher, "2026-01-01T02:10Z")
        (series,) = publisher_figures.private([publisher])[0].series
    assert (series.late, series.past, series.future) == (1, 1, 1)
    assert run.values == [[0, 1, 0, 0], [0, 0, 0, 0]]


LONG = """
import resource, sys
from pathlib import Path
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.testing import NoNoise
from tests.engine import streams

folder, kind, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
line = {
    "csv": b"2026-01-01T00:10Z,Airport,7\\n",
    "jsonl": b'{"ts":"2026-01-01T00:10Z","station":"Airport","card":7}\\n',
}[kind]
other = line.replace(b"7", b"8").replace(b"T00", b"T01")
most = {}
for name, hole in (("short", 0), ("long", size)):
    with (folder / name).open("wb") as file:
        file.write(b"ts,station,card\\n" if kind == "csv" else b"")
        file.write(line)
        file.seek(hole, 1)
        file.write(b"\\n" + other)
    source, until = {"kind": kind, "path": name}, {"until": "2026-01-01T02:00Z"}
    made = streams.pipeline(stream=until, source=source, store={"path": name + ".db"})
    with Publisher(Pipeline.of(made, folder=folder), noise=NoNoise) as publisher:
        assert publisher.run()
        rejected = publisher.source.rejections.for_operator()
        values = [release.value.tolist() for release in publisher.store.releases("taps")]
    most[name] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(most["long"] - most["short"], rejected, values)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "size"),
    [
        pytest.param("csv", 10**9, marks=pytest.mark.nightly),
        ("csv", 2 * 10**8),
        ("jsonl", 2 * 10**8),
    ],
)
def test_a_line_of_a_gigabyte_is_passed_over_in_little_memory(tmp_path, kind, size):
    """The line is a hole in a file: it takes no space on the disk."""
    done = subprocess.run(
        [sys.executable, "-c", LONG, str(tmp_path), kind, str(size)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    more, rest = done.stdout.split(" ", 1)
    assert rest.strip() == "{'line too long': 1} [[1, 0, 0, 0], [1, 0, 0, 0]]"
    assert int(more) < 150


# -- senders ---------------------------------------------------------------------------------------

TOKEN = "a-token-of-the-tests"


class ServedInput:
    """A live publisher that listens, in a thread of its own, and a client."""

    def __init__(self, run):
        intake = Intake(columns=run.made.source.columns, domain=run.made.domain())
        self.source = HttpSource(intake=intake, host="127.0.0.1", port=0, token=TOKEN)
        self.publisher = run.open(source=self.source)
        self._thread = threading.Thread(target=self.publisher.run)
        self.run = run

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.publisher.stop()
        self._thread.join(20)
        self.publisher.close()

    def post(self, content, key=None):
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/x-ndjson"}
        headers |= {"idempotency-key": key} if key else {}
        url = "http://{}:{}/events".format(*self.source.address)
        return httpx.post(url, content=content, headers=headers, timeout=20).status_code

    def until(self, units):
        deadline = time.monotonic() + 20
        while len(self.run.values) < units:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.slow
def test_a_batch_that_is_sent_again_under_its_key_counts_once_also_after_a_restart(tmp_path):
    run = BadInputRun(
        tmp_path, {"kind": "csv", "path": "taps.csv"}, live=True, privacy={"contribution": 5}
    )
    run.clock.set("2026-01-01T00:30Z")
    one, other = (json_line(BEGIN + MINUTE, 0, card) * 2 for card in (901, 902))
    with ServedInput(run) as served:
        assert [served.post(one, "monday") for _ in range(3)] == [200] * 3
        assert served.post(other, "monday") == 422
    with ServedInput(run) as served:
        assert served.post(one, "monday") == 200
        assert served.post(other, "monday") == 422
        assert served.post(other, "tuesday") == 200
        run.clock.set("2026-01-01T01:10Z")
        served.until(1)
        assert served.post(one, "monday") == 200
        run.clock.set("2026-01-01T02:10Z")
        served.until(2)
    assert run.values == [[4, 0, 0, 0], [0, 0, 0, 0]]
    assert not run.warnings


def test_bad_rows_of_a_sender_are_counted_and_change_nothing(tmp_path):
    lines, columns, counts = mixed("jsonl")
    run = BadInputRun(
        tmp_path, {"kind": "csv", "path": "taps.csv"}, live=True, stream={"lateness": "4h"}
    )
    run.clock.set("2026-01-01T03:00Z")
    with ServedInput(run) as served:
        assert served.post(b"".join(lines)) == 200
        assert served.post(b"Atlantis\n") == 200
        assert served.post(b"\xff\0\n") == 200
        run.clock.set("2026-01-01T07:00Z")
        served.until(HOURS)
        (private,) = publisher_figures.private([served.publisher])
    assert run.values == truth(columns)
    assert private.rejections == counts | {
        "broken line": counts["broken line"] + 1,
        "not UTF-8": counts["not UTF-8"] + 1,
    }
    assert not run.warnings
    assert not any(word in repr(run.told) + repr(private) for word in SAID)


# -- files -----------------------------------------------------------------------------------------

COLUMNS = streams.events(hours=HOURS, each=20, people=30)


def part(number):
    """The events of one hour."""
    here = (COLUMNS[0] - BEGIN) // HOUR == number
    return tuple(column[here] for column in COLUMNS)


def table(number):
    return streams.table(*part(number))


def written(kind, content):
    """A table as a file of some kind."""
    if kind == "parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(content, sink)
        return sink.getvalue().to_pybytes()
    rows = content.to_pylist()
    texts = [{**row, **({"ts": row["ts"].isoformat()} if "ts" in row else {})} for row in rows]
    if kind == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in texts).encode()
    head = ",".join(content.column_names)
    return "".join(
        f"{line}\n" for line in [head, *(",".join(map(str, row.values())) for row in texts)]
    ).encode()


BROKEN = {
    "csv without a column": (
        "csv",
        lambda whole: written("csv", whole.drop_columns(["station"])),
        r"2\.csv has no column 'station'",
    ),
    "csv without a header": (
        "csv",
        lambda whole: written("csv", whole).split(b"\n", 1)[1],
        r"2\.csv has no column 'ts'",
    ),
    "jsonl without a field": (
        "jsonl",
        lambda whole: written("jsonl", whole.drop_columns(["card"])),
        r"2\.jsonl has no column 'card'; it has 'ts', 'station'\.",
    ),
    "parquet without a column": (
        "parquet",
        lambda whole: written("parquet", whole.drop_columns(["card"])),
        r"2\.parquet has no column 'card'; it has 'ts', 'station'\.",
    ),
    "no parquet": (
        "parquet",
        lambda whole: written("csv", whole),
        r"2\.parquet: the file is not Parquet, or is damaged\.$",
    ),
    "an empty parquet file": (
        "parquet",
        lambda whole: b"",
        r"2\.parquet: the file is not Parquet, or is damaged\.$",
    ),
    "half a parquet file": (
        "parquet",
        lambda whole: written("parquet", whole)[:-300],
        r"2\.parquet: the file is not Parquet, or is damaged\.$",
    ),
    "a damaged page": (
        "parquet",
        lambda whole: b"PAR1" + bytes(300) + written("parquet", whole)[304:],
        r"2\.parquet: (the file is not Parquet, or is damaged|rows that cannot be read)",
    ),
}
EACH = pytest.mark.parametrize(("kind", "spoil", "message"), BROKEN.values(), ids=BROKEN)


def folder(tmp_path, kind, *contents):
    (tmp_path / "taps").mkdir(exist_ok=True)
    for number, content in enumerate(contents, start=1):
        (tmp_path / "taps" / f"{number}.{kind}").write_bytes(content)
    return {"kind": kind, "path": f"taps/*.{kind}"}


@EACH
def test_a_finite_input_stops_before_a_file_that_cannot_be_read_and_goes_on_when_it_is_repaired(
    tmp_path, kind, spoil, message
):
    source = folder(
        tmp_path, kind, written(kind, table(0)), spoil(table(1)), written(kind, table(2))
    )
    run = BadInputRun(tmp_path, source, live=False)
    with run.open() as publisher, pytest.raises(InputError, match=message):
        publisher.run()
    before = run.values
    assert before == truth(COLUMNS)[: len(before)]
    assert len(before) < 2
    assert [each.text for each in run.told if each.level == "error"]
    folder(tmp_path, kind, written(kind, table(0)), written(kind, table(1)))
    run.all()
    assert run.values == truth(COLUMNS)


@EACH
def test_a_live_stream_leaves_out_a_file_that_cannot_be_read_once_another_follows(
    tmp_path, kind, spoil, message
):
    run = BadInputRun(
        tmp_path, folder(tmp_path, kind, written(kind, table(0)), spoil(table(1))), live=True
    )
    with run.open() as publisher:
        run.turn(publisher, "2026-01-01T02:00Z")
        run.turn(publisher, "2026-01-01T02:05Z")
        if kind == "jsonl":  # each line is counted by itself
            counts, warned = {"missing value": len(part(1)[0])}, 0
        else:
            counts, warned = {}, 1
        assert publisher.source.rejections.for_operator() == counts
        assert len(run.warnings) == warned
        run.turn(publisher, "2026-01-01T02:10Z")
        folder(
            tmp_path,
            kind,
            written(kind, table(0)),
            spoil(table(1)),
            b"" if kind == "parquet" else written(kind, table(2)[:0]),
        )
        run.turn(publisher, "2026-01-01T02:11Z")
        folder(tmp_path, kind, written(kind, table(0)), spoil(table(1)), written(kind, table(2)))
        run.turn(publisher, "2026-01-01T03:00Z")
        run.turn(publisher, "2026-01-01T03:10Z")
        (private,) = publisher_figures.private([publisher])
    expected = truth(COLUMNS)
    assert run.values == [expected[0], [0] * len(KEYS), expected[2]]
    assert private.rejections == (counts or {"unreadable file": 1})
    assert private.problem == ""
    assert sum("left out" in text for text in run.warnings) == warned
    assert not any(f"{card}" in text for text in run.warnings for card in ("Airport", "2026-"))
    with run.open() as publisher:
        run.turn(publisher, "2026-01-01T03:20Z")
        assert publisher.source.rejections.for_operator() == {}


def test_a_parquet_file_that_is_still_being_written_is_waited_for(tmp_path):
    whole = written("parquet", table(1))
    run = BadInputRun(
        tmp_path, folder(tmp_path, "parquet", written("parquet", table(0)), whole[:-100]), live=True
    )
    with run.open() as publisher:
        run.turn(publisher, "2026-01-01T01:30Z")
        assert publisher.problem == (
            f"{tmp_path}/taps/2.parquet: the file is not Parquet, or is damaged."
        )
        folder(tmp_path, "parquet", written("parquet", table(0)), whole)
        run.turn(publisher, "2026-01-01T02:00Z")
        run.turn(publisher, "2026-01-01T02:10Z")
        assert (publisher.problem, publisher.source.rejections.for_operator()) == ("", {})
    assert run.values == truth(COLUMNS)[:2]


def test_a_file_that_was_left_out_and_becomes_whole_before_a_later_one_was_read_is_read_after_all(
    tmp_path,
):
    good = [written("parquet", table(number)) for number in range(HOURS)]
    run = BadInputRun(
        tmp_path, folder(tmp_path, "parquet", good[0], good[1][:-100], good[2][:-100]), live=True
    )
    with run.open() as publisher:
        run.turn(publisher, "2026-01-01T01:30Z")
        named = [Path(text.split(":")[0]).name for text in run.warnings]
        assert named == ["2.parquet", "3.parquet"]
        folder(tmp_path, "parquet", *good)
        run.turn(publisher, "2026-01-01T03:00Z")
        run.turn(publisher, "2026-01-01T03:10Z")
        assert publisher.source.rejections.for_operator() == {"unreadable file": 1}
    assert run.values[1:] == truth(COLUMNS)[1:]


class Ailing(CsvFormat):
    """A disk that fails while a file is read."""

    def tables(self, file, mark, how):
        if Path(how.name).name == "1.csv":
            raise OSError(errno.EIO, "a message with a path")
        yield from super().tables(file, mark, how)


def test_a_file_that_the_machine_cannot_read_is_not_left_out(tmp_path):
    """Its events are all there: they are waited for."""
    run = BadInputRun(
        tmp_path,
        folder(tmp_path, "csv", written("csv", table(0)), written("csv", table(1))),
        live=True,
    )
    intake = Intake(columns=run.made.source.columns, domain=run.made.domain())
    files = FileSource(
        pattern=tmp_path / "taps" / "*.csv", format=Ailing(), intake=intake, growing=True
    )
    with run.open(source=files) as publisher:
        run.turn(publisher, "2026-01-01T01:00Z")
        assert publisher.problem == f"{tmp_path}/taps/1.csv: the file cannot be read (OSError)."
        assert files.rejections.for_operator() == {}
        assert publisher.progress.pending == 0
        object.__setattr__(files, "format", CsvFormat())
        run.turn(publisher, "2026-01-01T01:00Z")
        run.turn(publisher, "2026-01-01T01:10Z")
        assert publisher.problem == ""
    assert run.values == truth(COLUMNS)[:1]


@MODES
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_later_file_may_have_its_columns_in_another_order_and_more_of_them(tmp_path, kind, live):
    other = (
        table(1)
        .select(["card", "station", "ts"])
        .append_column("more", pa.array([1.5] * len(part(1)[0])))
    )
    run = BadInputRun(
        tmp_path,
        folder(
            tmp_path, kind, written(kind, table(0)), written(kind, other), written(kind, table(2))
        ),
        live=live,
    )
    assert run.all().rejections == {}
    assert run.values == truth(COLUMNS)


@MODES
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_later_file_with_a_column_of_another_type_is_counted_row_by_row(tmp_path, kind, live):
    cards = pa.array([card + 0.5 for card in part(1)[2].tolist()])
    other = table(1).set_column(2, "card", cards)
    run = BadInputRun(
        tmp_path,
        folder(
            tmp_path, kind, written(kind, table(0)), written(kind, other), written(kind, table(2))
        ),
        live=live,
    )
    assert run.all().rejections == {"wrong type": len(cards)}
    expected = truth(COLUMNS)
    assert run.values == [expected[0], [0] * len(KEYS), expected[2]]


@MODES
@KINDS
def test_an_empty_file_changes_nothing(tmp_path, kind, live):
    contents = [written(kind, table(0)), b"", written(kind, table(1)), written(kind, table(2)), b""]
    run = BadInputRun(tmp_path, folder(tmp_path, kind, *contents), live=live)
    assert run.all().rejections == {}
    assert run.values == truth(COLUMNS)
    assert not run.warnings


class FailingInput(Source):
    """Something that is read once, and breaks."""

    resumable = False

    def __init__(self, batch):
        self.batch, self.rejections = batch, Rejections()

    def batches(self, after=None):
        yield self.batch
        raise InputError("standard input: it is broken.")


def test_standard_input_that_breaks_ends_the_run_with_an_error_and_what_came_before_is_kept(
    tmp_path,
):
    """It cannot be asked again."""
    run = BadInputRun(tmp_path, {"kind": "csv", "path": "taps.csv"}, live=True)
    run.clock.set("2026-01-01T00:30Z")
    batch = Batch(
        time=np.array([BEGIN + MINUTE]), key=np.array([1]), person=np.array([7]), position=None
    )
    with run.open(source=PrefetchSource(FailingInput(batch))) as publisher:
        with pytest.raises(InputError, match="it is broken"):
            publisher.run()
        assert publisher.state == "failed"
    with run.open() as publisher:
        run.turn(publisher, "2026-01-01T01:10Z")
    assert run.values == [[0, 1, 0, 0]]


# -- how much is read ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_how_much_of_a_finite_input_is_read_goes_from_nothing_to_all(tmp_path, kind):
    run = BadInputRun(
        tmp_path,
        folder(tmp_path, kind, *(written(kind, table(number)) for number in range(HOURS))),
        live=False,
    )
    intake = Intake(columns=run.made.source.columns, domain=run.made.domain())
    form = {"csv": CsvFormat(), "jsonl": JsonLinesFormat(), "parquet": ParquetFormat()}[kind]
    files = FileSource(pattern=tmp_path / "taps" / f"*.{kind}", format=form, intake=intake, rows=7)
    shares = [files.progress(batch.position) for batch in files.batches()]
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.2
    assert shares[-1] == 1
    assert max(np.diff(shares)) < 0.2
    with run.open(source=files) as publisher:
        assert publisher.progress.share == 0
        assert publisher.run()
        assert publisher.progress.share == 1


def test_a_file_that_is_gone_does_not_stop_the_progress(tmp_path):
    run = BadInputRun(
        tmp_path,
        folder(tmp_path, "csv", *(written("csv", table(number)) for number in range(HOURS))),
        live=False,
    )
    with run.open() as publisher:
        first = next(iter(publisher.source.batches())).position
        for path in (tmp_path / "taps").iterdir():
            path.unlink()
        assert 0 <= publisher.source.progress(first) <= 1
