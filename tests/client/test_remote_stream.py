"""A stream of a service has the numbers, tables, charts and proofs of the store itself."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.client import remote_reader
from penstock.core.errors import ConfigurationError, InputError
from penstock.engine.publication import Publication
from penstock.engine.sqlite import SQLiteReader
from penstock.released.queries import (
    Alerts,
    Answer,
    Everything,
    Query,
    Ranking,
    RollUp,
    SlidingSum,
    TopK,
    UnitCounts,
)
from penstock.service.options import ServiceOptions
from penstock.service.server import ServiceServer
from penstock.testing import TestNoise, serving

from tests.engine import streams
from tests.engine.places import SQLitePlace, filled
from tests.engine.test_unit_proofs import FORGER
from tests.engine.test_unit_proofs import KEYS as SIGNED
from tests.released.queries.test_chosen_keys import ALL, KEYS, QUERIES, UNITS, equal

NAMES = {name: f"stream {place}/{name}" for place, name in enumerate(ALL)}


def write_log(path, mechanism, name, seed=5):
    rng = np.random.default_rng(seed)
    run = mechanism.run([f"key {i}" for i in range(KEYS)], noise=TestNoise(seed))
    with ps.open_log(path, run, name=name) as log:
        for unit in range(UNITS):
            log.append(run.step(rng.poisson(20 * (1 + unit // 5), KEYS)))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service with a stream of every mechanism, and each of them from its store."""
    folder = tmp_path_factory.mktemp("served")
    paths = {name: folder / f"{place}.db" for place, name in enumerate(ALL)}
    for name, path in paths.items():
        write_log(path, ALL[name], NAMES[name])
    stores = [lambda path=path: SQLiteReader(path) for path in paths.values()]
    options = ServiceOptions(listen="127.0.0.1:0")
    with ExitStack() as stack:
        service = stack.enter_context(ServiceServer(options, stores, folder / "copies"))
        yield lambda name: (
            stack.enter_context(ps.connect(service.url, NAMES[name])),
            stack.enter_context(Publication.read(paths[name])),
        )


def same(one, other) -> None:
    """Two results of a query are the same to the last bit."""
    assert type(one) is type(other)
    if isinstance(one, Alerts):
        assert one.raised.tobytes() == other.raised.tobytes()
        one, other = one.statistic, other.statistic
    if isinstance(one, Ranking):
        assert one.places.tobytes() == other.places.tobytes()
        one, other = one.everything, other.everything
    assert isinstance(one, Answer)
    equal(one, other)


def asked(stream: Publication, query: Query):
    try:
        return stream.ask(query).series()
    except (ConfigurationError, InputError) as error:
        return str(error)


@pytest.mark.parametrize("mechanism", ALL)
def test_every_query_has_the_same_answer_to_the_last_bit(served, mechanism):
    remote, local = served(mechanism)
    extra = (TopK(3), TopK(2, of=SlidingSum(3)), Everything(of=UnitCounts()))

    @settings(max_examples=12, deadline=None)
    @given(data=st.data())
    def check(data):
        ours, theirs = remote, local
        if data.draw(st.booleans()):
            names = st.sampled_from(local.domain.keys)
            keys = data.draw(st.lists(names, min_size=3, max_size=KEYS, unique=True))
            ours, theirs = ours[keys], theirs[keys]
        if data.draw(st.booleans()):
            first = data.draw(st.integers(1, UNITS))
            last = data.draw(st.integers(first, UNITS))
            ours, theirs = ours[first : last + 1], theirs[first : last + 1]
        if data.draw(st.booleans()) and mechanism != "eshp":
            period = data.draw(st.sampled_from([(), 4]))
            ours, theirs = ours.filtered(period), theirs.filtered(period)
        for query in (*QUERIES, *extra):
            one, other = asked(ours, query), asked(theirs, query)
            if isinstance(one, str):
                assert one == other
            else:
                same(one, other)

    check()
    assert [str(each) for each in remote] == [str(each) for each in local]
    assert list(remote.ledger) == list(local.ledger)
    assert repr(remote.verify()) == repr(local.verify())


def test_sums_over_the_nodes_of_a_hierarchy_are_the_same(tmp_path):
    tree = ps.Hierarchy.of({f"room {n}": ("house", f"floor {n % 2}") for n in range(6)})
    run = ps.RetroactiveGrouping(epsilon=1, watch="0.4").run(tree, noise=TestNoise(3))
    path = tmp_path / "rooms.db"
    with ps.open_log(path, run) as log:
        for counts in np.random.default_rng(3).poisson(9, (UNITS, 6)):
            log.append(run.step(counts))
    with serving(path) as url, ps.connect(url) as remote, Publication.read(path) as local:
        assert remote.domain == local.domain
        for query in (RollUp(), RollUp(of=SlidingSum(3))):
            same(remote.ask(query).series(), local.ask(query).series())


# -- what a notebook does --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A stream with times, from a service and from its store."""
    folder = tmp_path_factory.mktemp("both")
    streams.parquet(folder / "taps.parquet", streams.events())
    with (
        ps.publish(
            folder / "taps.parquet",
            time="ts",
            key="station",
            person="card",
            every="1h",
            zone="Europe/Zurich",
            origin="2026-01-01",
            until="2026-01-01T12:00Z",
            mechanism=ps.BudgetAbsorption(epsilon="1", window=6),
            domain=streams.KEYS,
            store=folder / "taps.db",
            noise=TestNoise(1),
        ) as local,
        serving(folder / "taps.db") as url,
        ps.connect(url) as remote,
    ):
        yield remote, local


def test_a_remote_stream_says_what_it_is_and_where(both):
    remote, local = both
    assert remote.url.startswith("http://127.0.0.1:")
    assert repr(remote) == repr(local).replace(
        "<Publication 'taps':", f"<RemoteStream 'taps' at {remote.url}:"
    )
    for name in ("domain", "keys", "units", "guarantee", "promise", "calendar", "name"):
        assert getattr(remote, name) == getattr(local, name)
    assert len(remote) == len(local) == 13
    assert "Harbour" in remote
    assert "Nowhere" not in remote


CUTS = {
    "all": lambda stream: stream,
    "a key": lambda stream: stream["Harbour"],
    "keys": lambda stream: stream[["Old Town", "Airport"]],
    "newest": lambda stream: stream[-5:],
    "time": lambda stream: stream["2026-01-01T06:00":"2026-01-01T09:00"],
    "a key and time": lambda stream: stream["Harbour"]["2026-01-01T06:00":],
    "filtered": lambda stream: stream.filtered(("4h",)),
    "filtered key": lambda stream: stream["Harbour"].filtered(point="mean")[2:9],
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_tables_charts_and_cards_are_the_same(both, cut):
    remote, local = map(cut, both)
    assert remote.to_polars().equals(local.to_polars())
    assert remote.to_polars(nonnegative=True).equals(local.to_polars(nonnegative=True))
    assert remote.to_pandas().equals(local.to_pandas())
    assert remote.to_arrow().equals(local.to_arrow())
    assert remote.to_arrow().schema.metadata == local.to_arrow().schema.metadata
    assert remote.plot().page() == local.plot().page()
    assert remote._repr_html_() == local._repr_html_()
    assert [str(each) for each in remote] == [str(each) for each in local]
    assert str(remote[-1]) == str(local[-1])


QUESTIONS = {
    "a window": lambda stream: stream.window("3h"),
    "a jump": lambda stream: stream.jump("2h", 1),
    "a drop": lambda stream: stream.drop(3, 1, hindsight=True),
    "the largest": lambda stream: stream.top(2),
    "the largest of a window": lambda stream: stream.top(1, window="4h"),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_questions_have_the_same_answers(both, question):
    remote, local = (question(stream[["Harbour", "Airport"]][3:]) for stream in both)
    same(remote.answer(), local.answer())
    same(remote.series(), local.series())
    assert remote.answer().to_polars().equals(local.answer().to_polars())


def test_mistakes_get_the_same_words(both):
    for stream in both:
        with pytest.raises(ConfigurationError, match=r"Did you mean 'Harbour'\?"):
            stream["Habour"]
        with pytest.raises(InputError, match="unit 99 is not in 'taps': it has units 1 to 13"):
            stream[99]
        with pytest.raises(ConfigurationError, match="without steps"):
            stream[1:5:2]


def test_a_closed_stream_says_so(both):
    with ps.connect(both[0].url) as stream:
        assert len(stream) == 13
    assert repr(stream) == "<RemoteStream 'taps': closed>"
    with pytest.raises(ps.StateError, match="is closed"):
        stream.refresh()


# -- how much is fetched ---------------------------------------------------------------------------


def test_units_are_fetched_when_they_are_needed_and_kept(tmp_path, monkeypatch):
    run = ps.Uniform(epsilon=1, window=3).run(2, noise=TestNoise(1))
    with ps.open_log(tmp_path / "taps.db", run) as log:
        for _ in range(300):
            log.append(run.step([5, 6]))
    with serving(tmp_path / "taps.db") as url, ps.connect(url) as stream:
        kept = stream._reader._units
        assert not kept
        first = stream[-1].value.tolist()
        assert {unit for _, unit in kept} == set(range(257, 301))
        monkeypatch.setattr(remote_reader, "MAX_BYTES_KEPT", 10_000)
        assert len(stream.to_polars()) == 600
        assert len(kept) == remote_reader.UNITS_AROUND
        assert stream[-1].value.tolist() == first
        assert stream.verify().links == 600


def test_a_repeated_release_is_read_where_its_numbers_are(tmp_path):
    run = ps.Sample(epsilon=1, window=200).run(2, noise=TestNoise(1))
    with ps.open_log(tmp_path / "taps.db", run) as log:
        for _ in range(300):
            log.append(run.step([5, 6]))
    with (
        serving(tmp_path / "taps.db") as url,
        ps.connect(url) as stream,
        Publication.read(tmp_path / "taps.db") as local,
    ):
        assert str(stream[190]) == str(local[190])  # its numbers are those of unit 1
        assert {1, 190} <= {unit for _, unit in stream._reader._units}


# -- proofs ----------------------------------------------------------------------------------------


def test_signatures_are_checked(tmp_path):
    place = SQLitePlace(tmp_path)
    filled(place, **SIGNED)
    public = SIGNED["signing_key"].public
    (tmp_path / "publisher.pub").write_bytes(public.pem)
    with (
        serving(place.path) as url,
        ps.connect(url) as stream,
        Publication.read(place.path) as local,
    ):
        found = stream.verify(public_key=tmp_path / "publisher.pub")
        assert (found.head, repr(found)) == (local.verify().head, repr(local.verify()))
        assert (found.signed_from, found.signed_by, found.keyed_from) == (1, public, 1)
        assert found.head.signature == place.reader().head(stream.name).signature
        with pytest.raises(ps.LedgerError, match="made with another key"):
            stream.verify(public_key=FORGER.public)


def test_a_head_that_was_noted_must_be_in_the_past(both):
    remote, local = both
    noted = local._reader.at("taps", 5)
    assert remote.verify(head=noted).head == remote.refresh()
    with pytest.raises(ps.StateError, match="has another past than the head that was noted"):
        remote.verify(head=replace(noted, link=bytes(32)))
    with pytest.raises(ps.StateError, match="is of unit 99"):
        remote.verify(head=replace(noted, unit=99))


def test_frames_are_polars_and_begin_as_those_of_a_store(both):
    frame = both[0].to_polars()
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns[:6] == ["begins", "unit", "key", "value", "low", "high"]
