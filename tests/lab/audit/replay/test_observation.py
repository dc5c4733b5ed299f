from __future__ import annotations

import decimal
import gc
import logging
import os
import random
import socket
import sys
import warnings
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.lab.audit.replay.observation import all_logged, differing, overheard, told
from penstock.lab.audit.replay.process_settings import SETTINGS


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


@dataclass
class Kept:
    """A dataclass of somebody else."""

    numbers: Any
    name: str = "kept"


class Noted(list[int]):
    """A list that can carry attributes."""


@dataclass
class NotedFields(dict[str, int]):
    """A dataclass that has content beside its fields."""

    name: str = "noted"


def with_attribute(value: Any, hidden: object) -> Any:
    value.hidden = hidden
    return value


def filled(value: Any, number: int) -> Any:
    value["number"] = number
    return value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Kept(np.zeros(2)), Kept(np.ones(2))),
        (Kept([Kept(1)]), Kept([Kept(True)])),
        (with_attribute(Kept(1), 1), with_attribute(Kept(1), 2)),
        (Kept(1), with_attribute(Kept(1), 2)),
        (with_attribute(Noted(), 1), with_attribute(Noted(), 2)),
        (filled(NotedFields(), 1), filled(NotedFields(), 2)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1: "one"}, {1: "two"}),
        (np.zeros((2, 2)), np.zeros((2, 2), order="F")),
        (np.arange(4)[:2], np.array([0, 1, 9])[:2]),
        (np.array([{}]), np.array([[]], dtype=object)),
        (np.zeros(2, np.dtype("i8", metadata={"a": 1})), np.zeros(2, np.int64)),
        ({1, 2}, {1, 3}),
        (0.0, -0.0),
    ],
    ids=repr,
)
def test_what_differs_deep_inside_is_found(one: Any, other: Any) -> None:
    assert list(differing("it", [one], [other]))
    assert list(differing("it", Kept({"a": (other,)}), Kept({"a": (one,)})))
    assert not list(differing("it", Kept([one]), Kept([one])))


def test_equal_values_that_are_other_objects_do_not_differ() -> None:
    one, other = (
        Kept({"a": [np.arange(3), 0.5, None, "text", Fraction(1, 3), (1, b"2"), {3}]})
        for _ in range(2)
    )
    assert not list(differing("it", one, other))


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


def test_a_unit_that_changes_the_loggers_is_overheard_and_undone() -> None:
    heard: dict[str, Any] = {}
    root = logging.getLogger()
    before = root.handlers[:], root.level, root.manager.disable
    with all_logged() as rest:
        with overheard(heard):
            root.setLevel(logging.ERROR)
            logging.disable(logging.CRITICAL)
            root.handlers.clear()
        for text in ("one", "two"):
            with overheard(heard):
                logging.getLogger("replayed.test").debug(text)
            assert [each[2] for each in heard["log records"]] == [text]
        logging.getLogger("replayed.test").debug("between units")
    assert [each[2] for each in rest] == ["between units"]
    assert (root.handlers, root.level, root.manager.disable) == before


def test_settings_of_the_process_are_overheard_and_set_back() -> None:
    heard: dict[str, Any] = {}
    before = {name: read() for name, (read, _) in SETTINGS.items()}
    with overheard(heard):
        pass
    assert heard["settings"] == {}
    with overheard(heard):
        random.random()
        np.random.random()  # noqa: NPY002
        np.seterr(all="ignore", over="raise")
        np.set_printoptions(precision=3)
        warnings.filterwarnings("ignore", "seven")
        decimal.getcontext().prec += 1
        os.chdir("/")
        sys.setrecursionlimit(sys.getrecursionlimit() + 1)
        sys.setswitchinterval(0.125)
        gc.set_threshold(1234)
        gc.disable()
        socket.setdefaulttimeout(77.0)
    assert heard["settings"].keys() == SETTINGS.keys() - {"locale"}
    assert {name: read() for name, (read, _) in SETTINGS.items()} == before


def test_settings_that_an_import_may_have_changed_are_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: dict[str, Any] = {}
    with overheard(heard):
        warnings.filterwarnings("ignore", "seven")
        random.random()
        monkeypatch.setitem(sys.modules, "imported_now", sys)
    assert heard["settings"].keys() == {"random"}


def test_an_error_tells_its_cause_and_its_context() -> None:
    def fail() -> None:
        try:
            raise ValueError("seven")
        except ValueError:
            raise RuntimeError("no") from KeyError("clean")

    with pytest.raises(RuntimeError) as caught:
        fail()
    assert [each[0] for each in told(caught.value)] == ["RuntimeError", "KeyError", "ValueError"]
