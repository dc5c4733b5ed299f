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


def pytest_collection_finish(session: pytest.Session) -> None:
    """Spare the garbage collector all tests and modules: they stay until the end anyway."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let the interpreter clean up as usual."""
    gc.unfreeze()
