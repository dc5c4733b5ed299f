"""A service over PostgreSQL: woken by the transaction that shows a unit, and without secrets."""

from __future__ import annotations

import re
import secrets as random_names
import threading
from urllib.parse import urlsplit

import pytest

from penstock.engine.postgres import PostgresReader
from penstock.service import streams
from penstock.service.options import ServiceOptions
from penstock.service.server import ServiceServer

from tests.cli.outcome import Outcome
from tests.engine.places import NO_SERVER, SERVER, PostgresPlace
from tests.service.published import KEY, PublishedStore, client
from tests.service.test_live import Following

pytestmark = pytest.mark.skipif(SERVER is None, reason=NO_SERVER)


@pytest.fixture
def place():
    found = PostgresPlace(SERVER)
    yield found
    found.clean()


def served(address, folder):
    options = ServiceOptions(listen="127.0.0.1:0")
    return ServiceServer(options, [lambda: PostgresReader(address)], folder)


def test_a_unit_wakes_its_readers_without_a_poll(place, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "SLOW_POLL_SECONDS", threading.TIMEOUT_MAX)
    with place.store(key=KEY) as store:
        publisher = PublishedStore(store)
        publisher.grow(2)
        with (
            served(place.address, tmp_path) as server,
            client(server) as asking,
            Following(asking, after=2) as reader,
        ):
            for unit in range(3, 8):
                publisher.grow()
                assert reader.units(1) == [unit]
            answer = asking.get("/v1/streams/taps/releases", params={"last": 7}).json()
            assert answer["units"] == list(range(1, 8))


def test_with_a_fence_a_unit_is_announced_when_it_is_shown(place, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "SLOW_POLL_SECONDS", threading.TIMEOUT_MAX)
    with place.store(key=KEY, head=tmp_path / "head") as store:
        publisher = PublishedStore(store)
        with (
            served(place.address, tmp_path / "copy") as server,
            client(server) as asking,
            Following(asking, after=0) as reader,
        ):
            publisher.grow(2)
            assert reader.units(2) == [1, 2]


def test_state_that_a_role_may_read_is_refused_unless_it_is_sealed(place, capsys, monkeypatch):
    with place.store() as store:
        PublishedStore(store).grow(1)
    parts = urlsplit(place.address)
    monkeypatch.setenv("PGPASSWORD", parts.password or "")
    named = parts._replace(netloc=re.sub(":[^@]*@", "@", parts.netloc)).geturl()
    done = Outcome(capsys, "serve", named)
    assert done.code == 2
    assert "connect as a role that may read the public tables only" in done.err
    role = f"reader_{random_names.token_hex(6)}"
    with PostgresReader(place.address) as reader:
        assert reader.shows_state()
    place._do(
        f"CREATE ROLE {role}",
        f"GRANT USAGE ON SCHEMA {place.schema} TO {role}",
        f"GRANT SELECT ON {place.schema}.penstock_store, {place.schema}.streams, "
        f"{place.schema}.releases, {place.schema}.lines, {place.schema}.marks TO {role}",
    )
    try:
        with PostgresReader(place.address + f"%20-crole%3D{role}") as reader:
            assert reader.head("taps").unit == 1
            assert not reader.shows_state()
    finally:
        place._do(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_a_reader_that_may_see_sealed_state_only_is_served(place):
    with place.store(key=KEY) as store:
        PublishedStore(store).grow(1)
    with PostgresReader(place.address) as reader:
        assert not reader.shows_state()
