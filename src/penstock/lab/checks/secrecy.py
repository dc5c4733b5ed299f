"""A check that a mechanism reads nothing private: by its source code and by its memory."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import math
import operator
import pickle
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import SealedError
from penstock.core.private import Private
from penstock.lab.checks.base import AnyMechanism, failure
from penstock.lab.checks.streams import LEAP
from penstock.private.mechanisms.base import Mechanism
from penstock.testing import TestNoise


def check_nothing_private_can_be_read(cls: AnyMechanism, *, quick: bool = False) -> None:
    """The mechanism can read nothing private, does not try, and keeps nothing raw.

    Every `Private` that reaches the mechanism refuses to be read. Its source code names no way
    around that. After each step, neither its state nor its configuration holds a `Private`, the raw
    counts, their running sum, or their distance to a release.
    """
    parts = [each for each in cls.__mro__ if issubclass(each, Mechanism)]
    look_at_source(cls, parts, Mechanism.__module__)
    reached: list[Private] = []

    class Watched(cls):  # type: ignore[misc, valid-type]
        def step(self, state: Any, unit: Private, gate: Any) -> Any:
            reached.append(unit)
            return super().step(state, unit, gate)

    # The counts are far apart, and the noise has a scale of at least 4,000. The probability that
    # half of 16 keys agree by chance is below 1e-20.
    mechanism = Watched(epsilon="0.001", window=4)
    run = mechanism.run(16, noise=TestNoise(19))
    rng = np.random.default_rng(19)
    total = np.zeros(16, np.int64)
    shown: list[IntArray] = []
    for unit in range(1, 9 if quick else 25):
        counts = rng.integers(0, LEAP, 16)
        total += counts
        shown = [*shown[-1:], run.step(counts).value]
        truth = run.released.totals(counts)
        distances = [truth - value for value in shown]
        secrets = [counts, total, truth, *distances, *map(np.abs, distances)]
        numbers = {int(secret.sum()) for secret in secrets}
        for holder, what in ((run._state, "state"), (vars(mechanism), "configuration or caches")):
            _look_at_memory(cls, f"{mechanism}, unit {unit}: its {what}", holder, secrets, numbers)
    for private in reached:
        for name, attempt in _LOOKS.items():
            try:
                attempt(private)
            except (SealedError, TypeError):
                continue
            raise failure(cls, f"a Private that reached step() does not refuse {name}.")
        if (
            f"{private}" != repr(private)
            or f"{private!s}" != repr(private)
            or "sensitivity" not in repr(private)
        ):
            raise failure(cls, "a Private that reached step() shows more than its sensitivity.")


_LOOKS: dict[str, Callable[[Any], object]] = {
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "len": len,
    "iteration": iter,
    "next": next,
    "index": operator.index,
    "indexing": lambda x: x[0],
    "assignment": lambda x: operator.setitem(x, 0, 0),
    "in": lambda x: 1 in x,
    "list": list,
    "sum": sum,
    "max": max,
    "sorting": sorted,
    "reversed": reversed,
    "round": round,
    "math.floor": math.floor,
    "memoryview": memoryview,
    "numpy.asarray": np.asarray,
    "numpy.array": np.array,
    "numpy.add": lambda x: np.add(x, 1),
    "numpy.sum": lambda x: np.sum(x),
    "array + private": lambda x: np.arange(16) + x,
    "==": lambda x: x == 0,
    "!=": lambda x: x != 0,
    "<": lambda x: x < 1,
    ">": lambda x: x > 1,
    "<=": lambda x: x <= 1,
    ">=": lambda x: x >= 1,
    "+": lambda x: x + 1,
    "1 +": lambda x: 1 + x,
    "-": lambda x: x - 1,
    "*": lambda x: x * 2,
    "/": lambda x: x / 2,
    "//": lambda x: x // 2,
    "%": lambda x: x % 2,
    "**": lambda x: x**2,
    "negation": operator.neg,
    "abs": abs,
    "hash": hash,
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "vars": vars,
}


_FORBIDDEN = frozenset(
    {
        "unseal",
        "_Private__value",
        "_gate",
        "_ledger",
        "_maker",
        "_held",
        "_folds",
        "_runs",
    }
)
"""Names that open a `Private` or reach behind the gate."""


_NOT_FOR_MECHANISMS = frozenset({"memory", "save", "load", "wipe", "begin", "end", "disturb"})
"""Methods that the gate offers to the run and to the lab only."""


def look_at_source(cls: type, parts: Iterable[type], base: str) -> None:
    """Refuse a class whose source code reaches behind the gate.

    `parts` are the classes to look at, except those of the module `base`. The functions and classes
    that they name are looked at too.
    """
    for source, name in _sources(cls, parts, base):
        tree = ast.parse(textwrap.dedent(source))
        sealed = {"gate", "unit", "part"} | {
            node.arg for node in ast.walk(tree) if isinstance(node, ast.arg) and _is_sealed(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and _reaches_behind(node, sealed):
                raise failure(cls, f"{name} reaches behind the gate: {ast.unparse(node)}.")
            if (named := _name_in(node)) in _FORBIDDEN:
                raise failure(cls, f"{name} mentions {named!r}, which only the gate may use.")


def _is_sealed(argument: ast.arg) -> bool:
    """Whether an argument is annotated as a `Gate` or a `Private`."""
    if argument.annotation is None:
        return False
    annotation = ast.unparse(argument.annotation).strip("'\"")
    return annotation.rpartition(".")[2] in ("Gate", "Private")


def _reaches_behind(node: ast.Attribute, sealed: set[str]) -> bool:
    """Whether this is a private attribute of a sealed object, or a method for the lab only."""
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or root.id not in sealed:
        return False
    return node.attr.startswith("_") or (node.attr in _NOT_FOR_MECHANISMS and root.id == "gate")


def _name_in(node: ast.AST) -> str:
    """The name that a node of the syntax tree mentions, or nothing."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return node.name.rpartition(".")[2] if isinstance(node, ast.alias) else ""


def _sources(cls: type, parts: Iterable[type], base: str) -> Iterator[tuple[str, str]]:
    """The source of these parts and of everything they name, except Penstock's other layers."""
    ours = (
        "penstock.core.",
        "penstock.budget.",
        "penstock.private.gate",
        "penstock.private.run",
        "penstock.private.noise",
    )
    waiting: list[Any] = [each for each in parts if each.__module__ != base]
    roots = {each.__module__.partition(".")[0] for each in waiting}
    seen: set[int] = set()
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        try:
            source = inspect.getsource(thing)
        except (OSError, TypeError):
            raise failure(
                cls,
                f"the source of {thing.__qualname__} cannot be found, so it cannot be checked.",
            ) from None
        yield source, thing.__qualname__
        around = vars(sys.modules[thing.__module__]) if thing.__module__ in sys.modules else {}
        for node in ast.walk(ast.parse(textwrap.dedent(source))):
            found = around.get(node.id) if isinstance(node, ast.Name) else None
            if (inspect.isclass(found) or inspect.isfunction(found)) and found.__module__ != base:
                module = found.__module__
                if module.partition(".")[0] in roots and not module.startswith(ours):
                    waiting.append(found)


def _look_at_memory(
    cls: AnyMechanism, where: str, holder: object, secrets: list[IntArray], numbers: set[int]
) -> None:
    """Refuse a holder that keeps a `Private`, an array that agrees with a secret, or its sum."""
    for value in _walk(holder):
        if isinstance(value, Private):
            raise failure(cls, f"{where} keeps a Private.")
        if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
            for secret in secrets:
                if value.size != secret.size:
                    continue
                if 2 * np.count_nonzero(np.abs(value.ravel()) == np.abs(secret)) >= secret.size:
                    raise failure(cls, f"{where} keeps raw counts, or their distance to a release.")
        elif (
            isinstance(value, (int, float, np.number))
            and not isinstance(value, bool)
            and int(value) in numbers
        ):
            raise failure(cls, f"{where} keeps a raw total.")


def _walk(value: object, seen: set[int] | None = None) -> Iterator[object]:
    """Everything that is held inside a value."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    yield value
    inside: Iterable[object] = ()
    if isinstance(value, Mapping):
        inside = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        inside = value
    elif isinstance(value, np.ndarray) and value.dtype == object:
        inside = value.ravel().tolist()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = [getattr(value, field.name) for field in dataclasses.fields(value)]
        inside = [*named, *vars(value).values()] if hasattr(value, "__dict__") else named
    elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
        inside = list(vars(value).values())
    for each in inside:
        yield from _walk(each, seen)


def arrays_in(holder: object) -> Iterator[Any]:
    """The arrays that are held inside a value."""
    return (value for value in _walk(holder) if isinstance(value, np.ndarray))
