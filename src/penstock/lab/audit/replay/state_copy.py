"""Deep copies of a mechanism's state, made for each unit of a replay.

`copy.deepcopy` asks every object how it wants to be copied. States consist of plain data, arrays
and dataclasses, which are copied here directly. All else is left to `copy.deepcopy`.
"""

from __future__ import annotations

import copyreg
from copy import deepcopy
from fractions import Fraction
from functools import lru_cache
from types import NoneType
from typing import Any

import numpy as np

_NEVER_CHANGE = frozenset((NoneType, bool, int, float, complex, str, bytes, Fraction))
"""Types whose instances are not copied, as `copy.deepcopy` does not."""


def deep_copy(value: Any, memo: dict[int, Any]) -> Any:
    """A copy that shares nothing with a value which can be changed in place.

    Parameters
    ----------
    value : object
        The value.
    memo : dict
        By `id`, the copies that were made already, and objects that are not copied.

    >>> state = {"last": np.array([1, 2])}
    >>> copied = deep_copy(state, {})
    >>> state["last"][0] = 7
    >>> copied
    {'last': array([1, 2])}
    """
    kind: Any = type(value)
    if kind in _NEVER_CHANGE:
        return value
    place = id(value)
    if place in memo:
        return memo[place]
    made: Any
    if kind is np.ndarray and not value.dtype.hasobject:
        made = memo[place] = value.copy(order="K")
    elif kind is tuple:
        parts = [deep_copy(each, memo) for each in value]
        if place in memo:  # one of its parts contains it
            return memo[place]
        same = all(one is other for one, other in zip(parts, value, strict=True))
        made = memo[place] = value if same else tuple(parts)
    elif kind is list:
        made = memo[place] = []
        made.extend(deep_copy(each, memo) for each in value)
    elif kind is dict:
        made = memo[place] = {}
        for key, each in value.items():
            made[deep_copy(key, memo)] = deep_copy(each, memo)
    elif _is_plain(kind):
        made = memo[place] = object.__new__(kind)
        made.__dict__.update({key: deep_copy(each, memo) for key, each in vars(value).items()})
    else:
        made = deepcopy(value, memo)
    return made


@lru_cache(maxsize=1024)
def _is_plain(kind: Any) -> bool:
    """Whether an instance is its `__dict__`, and its class has no wish of its own for copies."""
    return (
        kind.__new__ is object.__new__
        and bool(kind.__dictoffset__)
        and kind not in copyreg.dispatch_table
        and not any(vars(cls).get("__slots__") for cls in kind.__mro__)
        and not any(hasattr(kind, name) for name in _OWN_COPIES)
        and all(getattr(kind, name) is getattr(object, name) for name in _OF_EVERY_OBJECT)
    )


_OWN_COPIES = ("__deepcopy__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
"""Methods by which a class says how it is copied."""

_OF_EVERY_OBJECT = ("__reduce__", "__reduce_ex__", "__getstate__")
"""Methods for copies that every class has."""
