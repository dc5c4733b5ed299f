from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.budget.ledger import Line
from penstock.core.errors import StateError
from penstock.engine.chain import (
    Head,
    HeadError,
    HeadFile,
    after_line,
    after_release,
    beginning,
    canonical,
)

LINE = Line(7, "open", "watch", 5, 3, 1)
START = beginning("a stream")

lines = st.builds(
    Line,
    st.integers(1, 2**40),
    st.sampled_from(["spend", "expose", "settle", "open", "ask", "yes", "close"]),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(0, 2**60),
    st.integers(0, 2**60),
    st.integers(0, 2**40),
)


@given(one=lines, other=lines)
def test_two_lines_have_the_same_bytes_only_if_they_are_the_same(one, other):
    assert (canonical(one) == canonical(other)) == (one == other)


@given(line=lines)
def test_the_bytes_of_a_line_say_what_is_in_it(line):
    unit, kind, label, amount, number, run = json.loads(canonical(line))
    assert Line(unit, kind, label, amount, number, run) == line


@pytest.mark.parametrize(
    "change",
    [{"unit": 8}, {"kind": "spend"}, {"label": "watcg"}, {"amount": 6}, {"number": 4}, {"run": 2}],
    ids=str,
)
def test_a_link_depends_on_every_part_of_its_line(change):
    assert after_line(START, LINE) != after_line(START, replace(LINE, **change))


def test_a_link_depends_on_all_that_came_before():
    one, other = LINE, replace(LINE, label="other")
    assert after_line(after_line(START, one), other) != after_line(after_line(START, other), one)
    assert after_line(START, one) != after_line(beginning("another stream"), one)


def test_a_link_depends_on_every_part_of_a_release():
    link = after_release(START, 7, b"flags", bytes(32))
    assert link != after_release(START, 8, b"flags", bytes(32))
    assert link != after_release(START, 7, b"flagz", bytes(32))
    assert link != after_release(START, 7, b"flags", bytes(31) + b"x")
    assert link != after_release(after_line(START, LINE), 7, b"flags", bytes(32))


# -- the head file ---------------------------------------------------------------------------------


def test_a_head_file_keeps_the_newest_head_of_every_stream(tmp_path):
    file = HeadFile(tmp_path / "heads.json")
    assert file.read() == {}
    file.write("visits", Head(1, b"a" * 32))
    file.write("rides\n", Head(9, b"b" * 32))
    file.write("visits", Head(2, b"c" * 32))
    assert HeadFile(tmp_path / "heads.json").read() == {
        "visits": Head(2, b"c" * 32),
        "rides\n": Head(9, b"b" * 32),
    }
    assert [path.name for path in tmp_path.iterdir()] == ["heads.json"]


def test_the_new_head_is_on_the_disk_before_it_replaces_the_old_one(tmp_path, monkeypatch):
    order = []
    real_fsync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (order.append("fsync"), real_fsync(handle))[1])
    monkeypatch.setattr(
        os,
        "replace",
        lambda *args, **more: (order.append("replace"), real_replace(*args, **more))[1],
    )
    HeadFile(tmp_path / "heads.json").write("visits", Head(1, b"a" * 32))
    assert order == ["fsync", "replace", "fsync"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_head_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch, call):
    file = HeadFile(tmp_path / "heads.json")
    file.write("visits", Head(1, b"a" * 32))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(HeadError, match=r"head file heads\.json cannot be written: No space"):
            file.write("visits", Head(2, b"b" * 32))
    assert file.read() == {"visits": Head(1, b"a" * 32)}
    assert [path.name for path in tmp_path.iterdir()] == ["heads.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"format":["penstock head",2],"heads":{}}',
        b'{"format":["penstock head",1],"heads":{"visits":[1,"00"]}}',
        b'{"format":["penstock head",1],"heads":{"visits":["1","' + b"00" * 32 + b'"]}}',
        b'{"format":["penstock head",1],"heads":{"visits":[1]}}',
    ],
)
def test_a_damaged_head_file_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "heads.json"
    path.write_bytes(content)
    with pytest.raises(StateError, match=r"heads\.json is not a head file, or damaged"):
        HeadFile(path).read()
    with pytest.raises(StateError, match="damaged"):
        HeadFile(path).write("visits", Head(1, bytes(32)))
    assert path.read_bytes() == content


def test_a_head_file_that_cannot_be_read_says_why(tmp_path):
    with pytest.raises(StateError, match="cannot be read: Is a directory"):
        HeadFile(tmp_path).read()


@pytest.mark.slow
def test_streams_of_several_processes_in_one_file_never_go_back(tmp_path):
    """Each notes its own heads, as fast as it can; what one has noted, the others leave."""
    script = (
        "import sys; from penstock.engine.chain import Head, HeadFile\n"
        "file, name = HeadFile(sys.argv[1]), sys.argv[2]\n"
        "for unit in range(1, 61):\n"
        "    assert file.read().get(name, Head(0, b'')).unit == unit - 1\n"
        "    file.write(name, Head(unit, bytes(32)))\n"
    )
    names = ("gates", "buses", "trams")
    started = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "heads"), name])
        for name in names
    ]
    assert [each.wait(120) for each in started] == [0, 0, 0]
    assert {
        name: head.unit for name, head in HeadFile(tmp_path / "heads").read().items()
    } == dict.fromkeys(names, 60)


def test_what_a_killed_process_left_beside_the_file_is_taken_away(tmp_path):
    left = tmp_path / "heads.0123abcd.new"
    left.write_bytes(b"half")
    HeadFile(tmp_path / "heads").write("gates", Head(1, bytes(32)))
    assert not left.exists()


# -- the fence -------------------------------------------------------------------------------------

ONE, TWO, OTHER = Head(1, b"a" * 32), Head(2, b"b" * 32), Head(2, b"c" * 32)


def test_of_two_who_would_move_a_head_one_does(tmp_path):
    first, second = HeadFile(tmp_path / "heads"), HeadFile(tmp_path / "heads")
    assert first.swap({"visits": None}, {"visits": ONE}) == {"visits": ONE}
    assert first.swap({"visits": ONE}, {"visits": TWO}) == {"visits": TWO}
    assert second.swap({"visits": ONE}, {"visits": OTHER}) == {"visits": TWO}
    assert second.swap({"visits": None}, {"visits": OTHER}) == {"visits": TWO}
    assert HeadFile(tmp_path / "heads").read() == {"visits": TWO}


def test_heads_move_all_at_once_or_not_at_all(tmp_path):
    file = HeadFile(tmp_path / "heads")
    file.update({"hourly": ONE, "daily": ONE, "rides": ONE})
    before = {"hourly": ONE, "daily": TWO}
    assert file.swap(before, {"hourly": TWO, "daily": OTHER}) == {"hourly": ONE, "daily": ONE}
    assert file.read() == {"hourly": ONE, "daily": ONE, "rides": ONE}


def test_a_head_file_that_is_gone_does_not_move(tmp_path):
    file = HeadFile(tmp_path / "heads")
    assert file.swap({"visits": ONE}, {"visits": TWO}) == {}
    assert not file.path.exists()


def test_a_head_that_is_there_already_is_written_again(tmp_path, monkeypatch):
    """The attempt that wrote it may have failed before the new name was on the disk."""
    file = HeadFile(tmp_path / "heads")
    file.write("visits", ONE)
    synced = []
    real = os.fsync

    def fails_late(handle):
        synced.append(handle)
        if len(synced) == 2:
            raise OSError(5, "Input/output error")
        real(handle)

    monkeypatch.setattr(os, "fsync", fails_late)
    with pytest.raises(HeadError, match="Input/output error"):
        file.swap({"visits": ONE}, {"visits": TWO})
    assert file.read() == {"visits": TWO}
    assert file.swap({"visits": ONE}, {"visits": TWO}) == {"visits": TWO}
    assert len(synced) == 4
