from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.recovery.world")


def a_nest():
    from tests.recovery.world import Nest

    made = Nest()
    yield made
    made.close()


nest = pytest.fixture(scope="session", name="nest")(a_nest)
other_nest = pytest.fixture(scope="session", name="other_nest")(a_nest)
