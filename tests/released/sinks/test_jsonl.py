"""One growing file of lines: whole lines only, each unit once, whatever was torn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from penstock.core.errors import ConfigurationError
from penstock.released.sinks import jsonl as module
from penstock.released.sinks.base import SinkError
from penstock.released.sinks.jsonl import JsonLinesSink
from penstock.released.sinks.release_document import beginning, document

from tests.released.sinks.items import AWKWARD, ROOT_OF_TESTS, item, items, link, series
from tests.released.sinks.killing import killed_often

TAPS = series()
OTHER = series(AWKWARD, keys=3)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "releases.jsonl"


def lines(*some):
    return b"".join(document(one) + b"\n" for one in some)


def put(path, some):
    sink = JsonLinesSink(path)
    sink.put(some)
    sink.close()


def test_a_unit_is_a_line(path):
    sink = JsonLinesSink(path)
    assert sink.head("taps") is None
    sink.put([])
    sink.put([item(TAPS, 1)])
    sink.put(items(TAPS, 2, 5))
    assert path.read_bytes() == lines(*items(TAPS, 1, 5))
    assert [json.loads(line)["unit"] for line in path.read_text().splitlines()] == [1, 2, 3, 4, 5]
    assert sink.head("taps") == JsonLinesSink(path).head("taps") == (5, link(TAPS, 5))
    sink.close()
    sink.close()


def test_repeating_changes_nothing(path):
    put(path, items(TAPS, 1, 4))
    put(path, items(TAPS, 1, 4))
    put(path, [item(TAPS, 2)])
    sink = JsonLinesSink(path)
    sink.put(items(TAPS, 3, 6))
    sink.put(items(TAPS, 3, 6))
    assert path.read_bytes() == lines(*items(TAPS, 1, 6))


def test_two_series_share_a_file(path):
    sink = JsonLinesSink(path)
    sink.put([item(OTHER, 1), *items(TAPS, 1, 40)])
    assert sink.head(AWKWARD) == (1, link(OTHER, 1))
    assert sink.head("taps") == (40, link(TAPS, 40))
    assert sink.head("Zürich") is None
    sink.put([item(OTHER, 2)])
    assert JsonLinesSink(path).head("taps") == (40, link(TAPS, 40))
    assert JsonLinesSink(path).head(AWKWARD) == (2, link(OTHER, 2))


@pytest.mark.parametrize("chunk", [1, 7, 100, 4096])
def test_the_search_from_the_end_does_not_depend_on_how_much_is_read_at_a_time(
    path, monkeypatch, chunk
):
    put(path, [*items(OTHER, 1, 2), *items(TAPS, 1, 3)])
    monkeypatch.setattr(module, "BYTES_PER_READ", chunk)
    assert JsonLinesSink(path).head(AWKWARD) == (2, link(OTHER, 2))
    with path.open("ab") as file:
        file.write(document(item(TAPS, 4))[:-10])
    assert JsonLinesSink(path).head("taps") == (3, link(TAPS, 3))
    put(path, items(TAPS, 3, 4))
    assert path.read_bytes() == lines(*items(OTHER, 1, 2), *items(TAPS, 1, 4))


def test_a_series_whose_name_begins_another_is_not_mistaken(path):
    put(path, [item(series("taps/daily"), 1), item(series('taps","unit":7'), 1)])
    assert JsonLinesSink(path).head("taps") is None


@pytest.mark.parametrize("before", [0, 2])
def test_a_torn_line_is_cut_off_and_written_again_wherever_it_was_torn(path, before):
    whole = lines(*items(TAPS, 1, before))
    line = lines(item(TAPS, before + 1))
    for cut in sorted({1, 5, 40, 100, len(line) // 2, len(line) - 2, len(line) - 1}):
        path.write_bytes(whole + line[:cut])
        wanted = (before, link(TAPS, before)) if before else None
        assert JsonLinesSink(path).head("taps") == wanted
        put(path, items(TAPS, 1, before + 1))
        assert path.read_bytes() == whole + line


@pytest.mark.parametrize("size", [1, len(beginning())])
def test_a_new_file_that_a_power_cut_has_left_with_zeros_is_taken(path, size):
    path.write_bytes(bytes(size))
    put(path, items(TAPS, 1, 2))
    assert path.read_bytes() == lines(*items(TAPS, 1, 2))


def test_each_line_is_on_disk_before_the_next_and_a_new_file_is_known_by_its_first_bytes(
    path, monkeypatch
):
    """So a power cut tears the last line only, and what is left of the first one is ours."""
    synced, sync = [], os.fsync

    def noting(file):
        sync(file)
        if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
            synced.append(path.read_bytes())

    monkeypatch.setattr(os, "fsync", noting)
    put(path, items(TAPS, 1, 3))
    assert synced == [b"", beginning(), *(lines(*items(TAPS, 1, last)) for last in (1, 2, 3))]


@pytest.mark.parametrize(
    "rest", [bytes(700), bytes(300) + b"\n", b'{"format":["penstock release",1],"ser\0\0\0"}\n']
)
def test_zeros_of_a_power_cut_are_cut_off(path, rest):
    path.write_bytes(lines(*items(TAPS, 1, 2)) + rest)
    assert JsonLinesSink(path).head("taps") == (2, link(TAPS, 2))
    put(path, items(TAPS, 1, 3))
    assert path.read_bytes() == lines(*items(TAPS, 1, 3))


@pytest.mark.parametrize(
    "foreign",
    [
        b"name,value\na,1\n",
        b"one line without an end",
        b"SQLite format 3\0\0\0\n\0\0\0",
        b"\n",
        b'{"unit":1}\n',
        bytes(50),
    ],
)
def test_a_file_of_somebody_else_is_left_as_it_is(path, foreign):
    path.write_bytes(foreign)
    sink = JsonLinesSink(path)
    for attempt in (lambda: sink.head("taps"), lambda: sink.put([item(TAPS, 1)])):
        with pytest.raises(
            ConfigurationError, match=r"releases.jsonl holds something that is no release"
        ):
            attempt()
    assert path.read_bytes() == foreign


def test_foreign_lines_after_ours_are_left_as_they_are(path):
    content = lines(item(TAPS, 1)) + b"a note\n"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="no release"):
        JsonLinesSink(path).put([item(TAPS, 2)])
    assert path.read_bytes() == content


@pytest.mark.slow
def test_a_killed_writer_leaves_every_unit_once_and_at_most_one_torn_line(path):
    of = series("kept", keys=2000)

    def look(confirmed: int) -> None:
        head = JsonLinesSink(path).head("kept")
        assert head is not None
        assert head[0] >= confirmed
        whole = path.read_bytes()
        whole = whole[: whole.rfind(b"\n") + 1]
        assert whole == lines(*items(of, 1, head[0]))

    last = killed_often("jsonl", path, kills=4, seen=look)
    put(path, items(of, last, last + 50))
    assert path.read_bytes() == lines(*items(of, 1, last + 50))


def test_a_second_writer_is_refused(path):
    first, second = JsonLinesSink(path), JsonLinesSink(path)
    first.put([item(TAPS, 1)])
    with pytest.raises(SinkError, match="being written by another sink"):
        second.put([item(TAPS, 2)])
    first.close()
    second.put([item(TAPS, 2)])
    assert path.read_bytes() == lines(*items(TAPS, 1, 2))


def test_a_file_that_was_moved_away_is_gone_on_with_in_another(path):
    sink = JsonLinesSink(path)
    sink.put(items(TAPS, 1, 2))
    path.rename(path.with_suffix(".old"))
    sink.put(items(TAPS, 2, 3))
    assert path.read_bytes() == lines(item(TAPS, 3))
    assert JsonLinesSink(path).head("taps") == (3, link(TAPS, 3))
    assert path.with_suffix(".old").read_bytes() == lines(*items(TAPS, 1, 2))


def test_another_past_and_a_gap_are_refused_and_nothing_is_written(path):
    sink = JsonLinesSink(path)
    sink.put(items(TAPS, 1, 2))
    with pytest.raises(SinkError, match="another link") as caught:
        sink.put([item(OTHER, 1), replace(item(TAPS, 2), link="0" * 64), item(TAPS, 3)])
    assert caught.value.lasting
    with pytest.raises(SinkError, match="does not follow"):
        sink.put([item(OTHER, 1), item(TAPS, 4)])
    assert path.read_bytes() == lines(*items(TAPS, 1, 2))
    sink.put([item(TAPS, 3)])
    assert path.read_bytes() == lines(*items(TAPS, 1, 3))


def test_many_keys_fit(path):
    big = series("cells", 88_762)
    put(path, items(big, 1, 2))
    put(path, items(big, 1, 3))
    assert path.read_bytes() == lines(*items(big, 1, 3))
    assert JsonLinesSink(path).head("cells") == (3, link(big, 3))


FULL = """
import resource, sys
from penstock.released.sinks import *
from tests.released.sinks.items import *
sink = JsonLinesSink(sys.argv[1])
sink.put([item(series(), 1)])
large = os.path.getsize(sys.argv[1]) * 5 // 2
resource.setrlimit(resource.RLIMIT_FSIZE, (large, large))
try:
    sink.put(items(series(), 2, 5))
except SinkError as error:
    print(error)
print(os.path.getsize(sys.argv[1]) * 5 // 2 == large)
sink.put([item(series(), 2)])
"""


def test_a_full_disk_leaves_the_file_as_it_was(path):
    script = "import os\n" + FULL
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        cwd=ROOT_OF_TESTS,
        capture_output=True,
        text=True,
        check=True,
    )
    said, whole = done.stdout.splitlines()
    assert said.startswith(
        "releases.jsonl cannot be used: File too large. Check that the disk is there and not full"
    )
    assert whole == "True"
    assert path.read_bytes() == lines(*items(TAPS, 1, 2))


def test_a_folder_that_may_not_be_written_is_an_error_with_advice(tmp_path):
    folder = tmp_path / "guarded"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("the administrator may write anywhere")
    sink = JsonLinesSink(folder / "out.jsonl")
    assert sink.head("taps") is None
    with pytest.raises(
        SinkError, match=r"out.jsonl cannot be used: Permission denied.*may write to it"
    ) as caught:
        sink.put([item(TAPS, 1)])
    assert str(tmp_path) not in str(caught.value)
    folder.chmod(0o700)
    sink.put([item(TAPS, 1)])
    assert sink.head("taps") == (1, link(TAPS, 1))


def test_a_file_in_the_way_of_a_folder_is_an_error_with_advice(tmp_path):
    (tmp_path / "taken").write_text("something")
    with pytest.raises(
        SinkError, match=r"out.jsonl cannot be used: File exists.*may write to it"
    ) as caught:
        JsonLinesSink(tmp_path / "taken" / "out.jsonl").put([item(TAPS, 1)])
    assert str(tmp_path) not in str(caught.value)


def test_folders_are_made_and_the_repr_has_a_name_only(tmp_path):
    sink = JsonLinesSink(tmp_path / "a" / "b" / "out.jsonl")
    sink.put([item(TAPS, 1)])
    assert repr(sink) == "<JsonLines 'out.jsonl'>"
