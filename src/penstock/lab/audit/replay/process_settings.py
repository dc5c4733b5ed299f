"""What a run changes in its process: settings that any other code there can read."""

from __future__ import annotations

import contextlib
import ctypes
import decimal
import gc
import locale
import os
import random
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.random.mtrand import get_bit_generator

Setting = tuple[Callable[[], Any], Callable[[Any], object]]
"""How a setting is read, and how it is set."""


_WORDS = 625
"""The state of a Mersenne twister: 624 numbers of four bytes, and a place among them."""


def _numpy_state() -> bytes:
    """The state of NumPy's old generator, from its memory: NumPy's own way takes a hundred times as
    long.
    """
    bits = get_bit_generator()
    if type(bits) is not np.random.MT19937:
        return b""
    return ctypes.string_at(bits.ctypes.state_address, 4 * _WORDS)


def _set_numpy_state(kept: bytes) -> None:
    ctypes.memmove(get_bit_generator().ctypes.state_address, kept, len(kept))


def _set_filters(kept: list[Any]) -> None:
    warnings.filters[:] = kept  # type: ignore[index]
    warnings.simplefilter("default", append=True)  # no function says that filters have changed
    warnings.filters[:] = kept  # type: ignore[index]


def _decimals() -> tuple[int, str]:
    context = decimal.getcontext()
    return context.prec, context.rounding


def _set_decimals(kept: tuple[int, str]) -> None:
    context = decimal.getcontext()
    context.prec, context.rounding = kept


SETTINGS: Mapping[str, Setting] = {
    "random": (random.getstate, random.setstate),
    "numpy.random": (_numpy_state, _set_numpy_state),
    "numpy.geterr": (np.geterr, lambda kept: np.seterr(**kept)),
    "numpy.get_printoptions": (np.get_printoptions, lambda kept: np.set_printoptions(**kept)),
    "warnings.filters": (lambda: list(warnings.filters), _set_filters),
    "decimal": (_decimals, _set_decimals),
    "current folder": (os.getcwd, os.chdir),
    "locale": (
        lambda: locale.setlocale(locale.LC_ALL),
        lambda kept: locale.setlocale(locale.LC_ALL, kept),
    ),
    "recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
    "switch interval": (sys.getswitchinterval, sys.setswitchinterval),
    "gc.get_threshold": (gc.get_threshold, lambda kept: gc.set_threshold(*kept)),
    "gc.isenabled": (gc.isenabled, lambda kept: gc.enable() if kept else gc.disable()),
    "socket timeout": (socket.getdefaulttimeout, socket.setdefaulttimeout),
}
"""Settings that hold for the whole process. Those of the environment and of loggers are heard in
other ways.
"""

GENERATORS = ("random", "numpy.random")
"""Settings that no import changes."""


@contextlib.contextmanager
def watched_settings(changed: dict[str, str]) -> Iterator[None]:
    """Collect the settings that change inside, and set them back.

    They are set back, so that a unit of the other stream begins with the same settings. A module
    that is imported inside may change settings, once per process, so then only `GENERATORS` are
    collected.

    Parameters
    ----------
    changed : dict
        By name, the value of each setting that is another one at the end.

    >>> changed = {}
    >>> with watched_settings(changed):
    ...     sys.setrecursionlimit(sys.getrecursionlimit() + 7)
    >>> list(changed)
    ['recursion limit']
    """
    before, modules = {name: read() for name, (read, _) in SETTINGS.items()}, len(sys.modules)
    try:
        yield
    finally:
        imported = len(sys.modules) != modules
        for name, (read, put) in SETTINGS.items():
            after = read()
            if after != before[name]:
                put(before[name])
                if not imported or name in GENERATORS:
                    changed[name] = repr(after)
