"""One service over a store that does not grow, for tests that only ask."""

from __future__ import annotations

import pytest

from tests.service.published import PublishedStore, client, sealed_store, service

UNITS = 60


@pytest.fixture(scope="package")
def quiet(tmp_path_factory):
    """A service over 60 units of four keys, and of one view with a hierarchy."""
    folder = tmp_path_factory.mktemp("service")
    path = folder / "taps.db"
    with sealed_store(path) as store:
        PublishedStore(store).grow(UNITS)
    with service(path, folder / "copy") as server:
        yield server


@pytest.fixture
def ask(quiet):
    """Asks that service."""
    with client(quiet) as asking:
        yield asking
