"""Every kind of sink of ours passes the checks, and a broken one fails the right one."""

from __future__ import annotations

import os
import secrets
import threading
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from penstock.lab.checks import CheckError
from penstock.lab.sink_checks import (
    SINK_CHECKS,
    check_a_unit_is_kept_once,
    check_another_past_is_refused,
    check_it_reports_as_declared,
    check_of_two_at_the_fence_at_once_one_passes,
    check_series_do_not_disturb_each_other,
    check_the_declaration_is_complete,
    check_the_fence_lets_one_pass,
    check_the_head_is_there_after_a_restart,
    check_units_come_in_order,
    run_sink_checks,
)
from penstock.released.sinks.jsonl import KIND as JSONL
from penstock.released.sinks.registry import SINKS

SERVERS = {name: os.environ.get(f"PENSTOCK_TEST_{name.upper()}") for name in ("kafka", "postgres")}


@pytest.fixture(scope="module")
def receiver():
    """A server that takes everything."""

    class Takes(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Takes)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/taps"
    server.shutdown()
    thread.join()
    server.server_close()


def tried(name, receiver):
    """A kind with a trial for a place of its own."""
    kind = SINKS.own[name]
    if name in SERVERS and SERVERS[name] is None:
        pytest.skip(f"PENSTOCK_TEST_{name.upper()} is not set: `.ci/services` starts it")
    if name == "webhook":
        return replace(kind, trial=lambda folder: {"url": receiver})
    if name == "kafka":
        return replace(
            kind,
            trial=lambda folder: {
                "servers": SERVERS["kafka"],
                "topic": f"checks_{secrets.token_hex(6)}",
            },
        )
    if name == "postgres":
        return replace(
            kind,
            trial=lambda folder: {
                "url": SERVERS["postgres"],
                "table": f"checks_{secrets.token_hex(6)}",
            },
        )
    return kind


@pytest.mark.parametrize("name", SINKS.own)
def test_every_kind_of_ours_passes(name, receiver):
    results = run_sink_checks(tried(name, receiver))
    assert [result.message for result in results if not result.ok] == []
    assert len(results) == len(SINK_CHECKS)


@pytest.mark.parametrize("kind", SINKS.own.values(), ids=lambda kind: kind.name)
def test_every_declaration_is_complete(kind):
    check_the_declaration_is_complete(kind)


class HoldingSink:
    """A sink in memory that keeps what it is sent; each subclass is broken in one way."""

    held: dict[str, list] = {}  # noqa: RUF012 - the place that all of them share

    def head(self, series):
        last = self.held.get(series)
        return (last[-1].unit, last[-1].link) if last else None

    def put(self, items):
        for item in items:
            self.held.setdefault(item.series.name, []).append(item)

    def close(self):
        pass


class NeverReports(HoldingSink):
    def head(self, series):
        return None


class LosesAll(HoldingSink):
    def __init__(self):
        self.held = {}


class OneForAll(HoldingSink):
    def head(self, series):
        return super().head(next(iter(self.held), series))


@pytest.fixture
def broken():
    HoldingSink.held.clear()
    return lambda cls: replace(JSONL, build=lambda setup: cls())


@pytest.mark.parametrize(
    ("cls", "check", "said"),
    [
        (NeverReports, check_it_reports_as_declared, "the head is None, and should be"),
        (LosesAll, check_the_head_is_there_after_a_restart, "the head is None, and should be"),
        (HoldingSink, check_another_past_is_refused, "unit 3 was taken again with another link"),
        (HoldingSink, check_units_come_in_order, "unit 3 was taken after unit 1"),
        (OneForAll, check_series_do_not_disturb_each_other, "the head is unit"),
    ],
)
def test_a_broken_sink_is_found(cls, check, said, broken):
    kind = broken(cls)
    with pytest.raises(CheckError, match=said):
        check(kind)


class Appends(HoldingSink):
    """A file that gets whatever is sent."""

    def __init__(self, path):
        self.path = path

    def put(self, items):
        super().put(items)
        with self.path.open("a") as file:
            file.writelines(f"{item.unit}\n" for item in items)


def test_a_sink_that_writes_a_unit_twice_is_found():
    HoldingSink.held.clear()
    kind = replace(JSONL, build=lambda setup: Appends(setup.path("path")))
    with pytest.raises(CheckError, match="were written again although the sink holds them"):
        check_a_unit_is_kept_once(kind)


def test_a_place_that_is_no_option_is_found():
    with pytest.raises(CheckError, match="which are no options"):
        check_it_reports_as_declared(replace(JSONL, place=("folder",)))


def test_a_kind_without_a_trial_says_so():
    with pytest.raises(CheckError, match="has no trial"):
        check_a_unit_is_kept_once(SINKS.own["kafka"])


class MemoryFence:
    """A fence in memory; each subclass is broken in one way."""

    heads: dict[str, tuple[int, str]] = {}  # noqa: RUF012 - the place that all of them share

    def read(self):
        return dict(self.heads)

    def swap(self, before, after):
        if self.fits(before, after):
            self.heads.update(after)
        return {name: self.heads[name] for name in after if name in self.heads}

    def fits(self, before, after):
        return all(self.heads.get(name) in (before[name], after[name]) for name in after)

    def close(self):
        pass


class Overwrites(MemoryFence):
    def fits(self, before, after):
        return True


class FewAreEnough(MemoryFence):
    def fits(self, before, after):
        return any(self.heads.get(name) == before[name] for name in after)


class LostAnswerIsRefused(MemoryFence):
    def swap(self, before, after):
        if all(self.heads.get(name) == before[name] for name in after):
            self.heads.update(after)
            return after
        return {}


class ForgetsAtTheEnd(MemoryFence):
    def close(self):
        self.heads.clear()


class Slow(MemoryFence):
    """Two may look before either of them writes."""

    gate = threading.Barrier(2)

    def fits(self, before, after):
        found = super().fits(before, after)
        with suppress(threading.BrokenBarrierError):
            self.gate.wait(1)
        return found


@pytest.fixture
def fenced():
    MemoryFence.heads.clear()
    Slow.gate.reset()
    return lambda cls: replace(JSONL, fence=lambda setup: cls())


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (Overwrites, "should be left at unit 2"),
        (FewAreEnough, "should be left at unit 2"),
        (LostAnswerIsRefused, "should be left at unit 2|should be moved to unit 2"),
        (ForgetsAtTheEnd, "after a restart, the fence has lost the heads"),
    ],
)
def test_a_broken_fence_is_found(cls, said, fenced):
    with pytest.raises(CheckError, match=said):
        check_the_fence_lets_one_pass(fenced(cls))


def test_a_fence_that_looks_and_then_writes_is_found(fenced):
    with pytest.raises(CheckError, match="unit 1: the two were told different heads"):
        check_of_two_at_the_fence_at_once_one_passes(fenced(Slow))


def test_a_kind_without_a_fence_passes():
    kind = replace(JSONL, fence=None)
    check_the_fence_lets_one_pass(kind)
    check_of_two_at_the_fence_at_once_one_passes(kind)
