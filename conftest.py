"""Settings for all tests.

Tests that make up examples make up the same ones in every run, and each may take any time on a busy
machine. `make nightly` makes up new ones.
"""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings

settings.register_profile("nightly", deadline=None)
settings.register_profile("penstock", deadline=None, derandomize=True)
settings.load_profile("penstock")


def spare_the_collector() -> None:
    """Take all objects that are left out of later garbage collections.

    Tests and imported libraries stay until the end, and a collection that looks at all of them
    takes most of a second.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_finish(session: pytest.Session) -> None:
    """All tests have been imported."""
    spare_the_collector()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The tests of a file have run, and they may have imported more."""
    if nextitem is not None and nextitem.path != item.path:
        spare_the_collector()


def pytest_unconfigure() -> None:
    """Let the interpreter clean up as usual."""
    gc.unfreeze()
