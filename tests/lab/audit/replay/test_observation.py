from __future__ import annotations

import logging
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.lab.audit.replay.observation import differing, overheard


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        (1, True),
        (1.0, 1),
        (0.1, 0.1 + 2**-56),
        (float("nan"), 1.0),
        ([1], [1, 2]),
        ((1,), [1]),
        ({"a": 1}, {"a": 2}),
        (None, 0),
        (Fraction(1, 2), Fraction(1, 3)),
        (np.zeros(2), np.zeros(3)),
        (np.zeros(2, np.int32), np.zeros(2, np.int64)),
        (np.array([0.0]), np.array([-0.0])),
    ],
    ids=repr,
)
def test_what_differs_is_found(one: Any, other: Any) -> None:
    assert list(differing("it", one, other))
    assert not list(differing("it", one, one))


def test_equal_nans_do_not_differ() -> None:
    assert not list(differing("it", float("nan"), float("nan")))


def test_everything_that_is_said_is_overheard(tmp_path: Path) -> None:
    heard: dict[str, Any] = {}
    logger, path = logging.getLogger("replayed.test"), tmp_path / "note.txt"
    level = logging.getLogger().level
    with overheard(heard):
        logger.debug("%d events", 7)
        warnings.warn("seven", stacklevel=1)
        print("said")
        path.write_text("7")
    ((*record, more),) = heard["log records"]
    assert record == ["replayed.test", logging.DEBUG, "7 events"]
    assert more["args"] == (7,)
    assert "lineno" in more
    assert "created" not in more
    ((category, text, filename, line),) = heard["warnings"]
    assert (category, text, filename, line > 0) == ("UserWarning", "seven", __file__, True)
    assert heard["printed text"] == ("said\n", "")
    assert heard["files"] == {str(path): b"7"}
    assert logging.getLogger().level == level


def test_what_was_said_before_an_error_is_kept() -> None:
    heard: dict[str, Any] = {}

    def fail() -> None:
        with overheard(heard):
            print("said")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert heard["printed text"] == ("said\n", "")
