"""A check, its result, and the functions that all checks share."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from penstock.core.errors import PenstockError
from penstock.core.optional import require
from penstock.private.mechanisms.base import Mechanism

AnyMechanism: TypeAlias = type[Mechanism[Any]]


class Check(Protocol):
    """A function that returns if a mechanism passes and raises `CheckError` if not.

    With `quick=True` it tries fewer and shorter streams.
    """

    @property
    def __name__(self) -> str: ...

    def __call__(self, cls: AnyMechanism, *, quick: bool = False) -> None: ...


class CheckError(PenstockError, AssertionError):
    """A mechanism failed a check. The message says what failed and how to see it again."""


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check; the message is empty if it passed."""

    name: str
    ok: bool
    seconds: float
    message: str


def title(check: Callable[..., None]) -> str:
    """The property that a check tests, in one line: the first line of its docstring."""
    return (inspect.getdoc(check) or check.__name__).partition("\n")[0]


def run_all(
    checks: Iterable[Callable[..., None]],
    subject: object,
    *,
    quick: bool,
    progress: Callable[[str, CheckResult | None], object] | None,
) -> list[CheckResult]:
    """Run these checks on one subject: a mechanism, a histogram method, a source or a sink."""
    results = []
    for check in checks:
        if progress is not None:
            progress(check.__name__, None)
        start = time.perf_counter()
        message = ""
        try:
            check(subject, quick=quick)
        except Exception as error:
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            message = "\n".join([f"{kind}{error}", *getattr(error, "__notes__", ())])
        result = CheckResult(check.__name__, not message, time.perf_counter() - start, message)
        results.append(result)
        if progress is not None:
            progress(check.__name__, result)
    return results


def failure(cls: type, problem: str) -> CheckError:
    """The error for a class that fails a check."""
    return CheckError(f"{cls.__name__}: {problem}")


def hypothesis_module() -> Any:
    """Hypothesis, or an error that says how to install it."""
    return require("hypothesis", "lab", "checking a mechanism on random streams")


def explore(test: Callable[..., None], *strategies: Any, examples: int) -> None:
    """Run a test on random examples: the same ones every time, nothing stored, no deadline."""
    hypothesis = hypothesis_module()
    settings = hypothesis.settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )
    settings(hypothesis.given(*strategies)(test))()
