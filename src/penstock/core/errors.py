"""Every error that Penstock raises on purpose.

::

    PenstockError
    ├── ConfigurationError (ValueError)   a parameter that cannot be used
    │   ├── InexactError   (TypeError)    a float where an exact number is needed
    │   ├── MechanismError                a mechanism failed or used the gate against its rules
    │   ├── NotCoveredError (InputError)  a query asks for units or sums that were not released
    │   ├── UnusableSourceError (InputError)  a source without its file or its columns
    │   │   └── UnreadableRowsError           a source most of whose rows cannot be taken
    │   ├── NotAStoreError (StateError)   a store's name on a file of something else
    │   ├── ChangedPromiseError (StateError)  a stream that began with another promise
    │   └── InvalidConfigurationError     a file with all its mistakes (engine/config_sections.py)
    ├── InputError         (ValueError)   counts or units that cannot be taken
    ├── BudgetError                       a charge above the promise
    ├── SealedError        (TypeError)    an attempt to look at private data
    ├── NoiseError                        noise that cannot be drawn safely
    ├── StateError                        saved state that is damaged or belongs elsewhere
    │   ├── StoreUnavailableError ↻       a store that is locked, full or not reachable
    │   │   ├── UncertainError ↻          a connection lost during a commit (engine/sql_store.py)
    │   │   └── HeadError ↻               a head that cannot be written (engine/chain.py)
    │   ├── FencedError                   another copy of the store went on (engine/chain.py)
    │   ├── LeaseError                    a series of another publisher (engine/store.py)
    │   └── DivergedError                 a sink with units of no store (engine/delivery.py)
    ├── SinkError ↻                       a sink that took no release (released/sinks/base.py)
    ├── LedgerError                       recorded lines that contradict the promise
    └── MissingExtraError  (ImportError)  an optional dependency is not installed

↻ marks errors that may pass: the same call, with the same content, is worth a retry. Stop on all
others. Messages on the private side name configuration, types and unit numbers, never data.
"""

from __future__ import annotations

from fractions import Fraction


class PenstockError(Exception):
    """The root of all errors of this package.

    >>> from penstock import Laplace, PenstockError
    >>> try:
    ...     Laplace(epsilon="0")
    ... except PenstockError as error:
    ...     print(error)
    epsilon must be above 0, not 0.
    """


class ConfigurationError(PenstockError, ValueError):
    """A parameter cannot be used. The message says which values would be accepted.

    Parameters
    ----------
    message : str
        The text. It begins with the parameter's name where one parameter is at fault.
    parameter : str, optional
        The name of that parameter. Default: None, the error is about no single parameter.

    >>> ConfigurationError("epsilon must be above 0, not 0.", parameter="epsilon").parameter
    'epsilon'
    """

    def __init__(self, message: str, *, parameter: str | None = None) -> None:
        self.parameter = parameter
        super().__init__(message)


class InexactError(ConfigurationError, TypeError):
    """A float (or something else inexact) where privacy needs an exact number.

    >>> from penstock import Guarantee
    >>> Guarantee(0.1, 24)
    Traceback (most recent call last):
    penstock.core.errors.InexactError: epsilon must be exact...
    """


class InputError(PenstockError, ValueError):
    """Counts or a unit that cannot be taken. The run is as it was before the call.

    >>> from penstock import Laplace
    >>> Laplace(epsilon="1").run(2).step([1, 2, 3])
    Traceback (most recent call last):
    penstock.core.errors.InputError: unit 1: ...
    """


class MechanismError(ConfigurationError):
    """A mechanism failed, or used the gate against its rules. Nothing of the unit was released.

    >>> from penstock import ConfigurationError, MechanismError
    >>> issubclass(MechanismError, ConfigurationError)
    True
    """


class NotCoveredError(ConfigurationError, InputError):
    """A query asks for units or sums that the releases do not cover. Other queries may work.

    >>> from penstock import Log
    >>> from penstock.released.queries import SlidingSum
    >>> SlidingSum(24).answer(Log(["north", "south"]))
    Traceback (most recent call last):
    penstock.core.errors.NotCoveredError: the log has no units yet.
    """


class BudgetError(PenstockError):
    """A charge that would bring a window above its promise. Nothing was drawn or recorded.

    Parameters
    ----------
    unit : int
        The unit of the charge.
    label : str
        The purpose of the charge.
    amount : Fraction
        The charge.
    first, last : int
        The first and the last unit of the window.
    total : Fraction
        What the window would have cost.
    promised : Fraction
        The limit.
    currency : str
        "epsilon" or "rho". Default: "epsilon".

    >>> half = Fraction(1, 2)
    >>> print(BudgetError(
    ...     unit=6, label="publish", amount=half, first=4, last=6, total=3 * half,
    ...     promised=Fraction(1),
    ... ))
    unit 6: spending epsilon=1/2 for 'publish' would bring units 4..6 to 3/2, above the promised 1.
    Nothing was drawn or recorded.
    """

    def __init__(
        self,
        *,
        unit: int,
        label: str,
        amount: Fraction,
        first: int,
        last: int,
        total: Fraction,
        promised: Fraction,
        currency: str = "epsilon",
    ) -> None:
        self.unit = unit
        self.label = label
        self.amount = amount
        self.first = first
        self.last = last
        self.total = total
        self.promised = promised
        self.currency = currency
        super().__init__(
            f"unit {unit}: spending {currency}={amount} for {label!r} "
            f"would bring units {first}..{last} to {total}, "
            f"above the promised {promised}. Nothing was drawn or recorded."
        )


class SealedError(PenstockError, TypeError):
    """An attempt to look at a `Private` value outside the gate.

    >>> import numpy as np
    >>> from penstock import Private
    >>> bool(Private(np.array([7]), sensitivity=1, unit=1))
    Traceback (most recent call last):
    penstock.core.errors.SealedError: ...
    """


class NoiseError(PenstockError):
    """Noise that cannot be drawn safely: a copied or forked source, a scale out of range.

    >>> from copy import copy
    >>> from penstock.private.noise import SystemNoise
    >>> copy(SystemNoise())
    Traceback (most recent call last):
    penstock.core.errors.NoiseError: ...
    """


class StateError(PenstockError):
    """A snapshot of something else, of another configuration or version, or a damaged one.

    >>> from penstock import Laplace
    >>> Laplace(epsilon="1").restore(b"something else", 2)
    Traceback (most recent call last):
    penstock.core.errors.StateError: ...
    """


class UnusableSourceError(ConfigurationError, InputError):
    """A source without its file or its columns. Nothing was released from it."""


class UnreadableRowsError(UnusableSourceError):
    """A source most of whose rows cannot be taken as configured. Nothing was released from them."""


class NotAStoreError(ConfigurationError, StateError):
    """The file or database that is named as a store holds something else. It was not changed."""


class ChangedPromiseError(ConfigurationError, StateError):
    """A series that has begun with another promise. Nothing was released or changed."""


class StoreUnavailableError(StateError):
    """A store that is locked, full or not reachable. The same call is worth a retry.

    >>> from penstock import StateError, StoreUnavailableError
    >>> issubclass(StoreUnavailableError, StateError)
    True
    """


class LedgerError(PenstockError):
    """Recorded ledger lines that contradict each other or the promise.

    >>> from penstock import Guarantee, Line, account
    >>> lines = [Line(unit=2, kind="spend", label="publish"), Line(1, "spend", "publish")]
    >>> account(lines, Guarantee("1", 3))
    Traceback (most recent call last):
    penstock.core.errors.LedgerError: a line of unit 1 stands after one of unit 2.
    """


class MissingExtraError(PenstockError, ImportError):
    """An optional dependency is missing; the message says how to install it.

    Parameters
    ----------
    package : str
        The package that is missing.
    extra : str
        The extra of Penstock that installs it.
    purpose : str
        The activity that needs it.

    >>> print(MissingExtraError("scipy", "lab", "the auditor"))
    the auditor needs scipy, which is not installed: pip install 'penstock[lab]'
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(
            f"{purpose} needs {package}, which is not installed: pip install 'penstock[{extra}]'"
        )
