"""The codec of saved state and stored releases: exact values as plain data, and back.

Plain data are what MessagePack and JSON can write. Any other value is a map with one entry, from
the tag of its form to its content. Nothing is executed when plain data are read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from penstock.core.errors import StateError

Convert: TypeAlias = Callable[[Any], Any]

_NUMBERS = range(-(2**63), 2**64)
"""The whole numbers that MessagePack can write; others are written as text."""


@dataclass(frozen=True)
class Form:
    """How values of one type are written: under which tag, and how to convert there and back.

    Both functions get the value and the codec's own conversion, for values inside it.
    """

    tag: str
    type: type
    plain: Callable[[Any, Convert], Any]
    rich: Callable[[Any, Convert], Any]


FRACTION = Form("ratio", Fraction, lambda value, _: str(value), lambda text, _: Fraction(text))
TUPLE = Form(
    "tuple",
    tuple,
    lambda value, plain: [plain(each) for each in value],
    lambda content, rich: tuple(rich(each) for each in content),
)
MAP = Form(
    "map",
    Mapping,
    lambda value, plain: [[plain(key), plain(each)] for key, each in value.items()],
    lambda content, rich: {rich(key): rich(each) for key, each in content},
)
SORTED_MAP = dataclasses.replace(
    MAP, plain=lambda value, plain: [[key, plain(value[key])] for key in sorted(value)]
)


@dataclass(frozen=True)
class Codec:
    """A set of forms, and the dataclasses that may occur, by the names they are written under.

    `array` writes an array, if none of the forms does; `renamed` gives the class of a name that
    an earlier version wrote.

    >>> codec = Codec((FRACTION, TUPLE))
    >>> codec.plain([Fraction(1, 3), (1, 2**70)])
    [{'ratio': '1/3'}, {'tuple': [1, {'int': '1180591620717411303424'}]}]
    >>> codec.rich({"tuple": [{"ratio": "1/3"}, 5]})
    (Fraction(1, 3), 5)
    """

    forms: tuple[Form, ...]
    classes: Mapping[str, type] = field(default_factory=dict)
    array: Callable[[Any], Any] | None = None
    renamed: Callable[[str], type | None] = lambda _: None

    def plain(self, value: Any) -> Any:
        """The value as plain data; what `rich` could not read back is a `StateError`."""
        if value is None or isinstance(value, (bool, str, bytes)):
            return value
        if isinstance(value, (int, np.integer)):
            return int(value) if int(value) in _NUMBERS else {"int": str(int(value))}
        if isinstance(value, (float, np.floating)):
            return float(value)
        if isinstance(value, np.bool_):
            return bool(value)
        for form in self.forms:
            if isinstance(value, form.type):
                return {form.tag: form.plain(value, self.plain)}
        if isinstance(value, list):
            return [self.plain(each) for each in value]
        if isinstance(value, np.ndarray) and self.array is not None:
            return self.array(value)
        name = class_name(type(value))
        if name not in self.classes:
            raise StateError(f"state must be plain data; {type(value).__name__} cannot be saved.")
        fields = dataclasses.fields(value)
        content = {each.name: self.plain(getattr(value, each.name)) for each in fields}
        return {"class": name, "fields": content}

    def rich(self, value: Any) -> Any:
        """The value again; a `ValueError`, `KeyError` or `TypeError` if it cannot be one."""
        if isinstance(value, list):
            return [self.rich(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "class" in value:
            cls = self.classes.get(value["class"]) or self.renamed(value["class"])
            if cls is None:
                raise KeyError("an unknown class")
            return cls(**{name: self.rich(each) for name, each in value["fields"].items()})
        ((tag, content),) = value.items()
        if tag == "int":
            return int(content)
        return self._by_tag[tag].rich(content, self.rich)

    @cached_property
    def _by_tag(self) -> dict[str, Form]:
        return {form.tag: form for form in self.forms}


def class_name(cls: type) -> str:
    """The name under which a dataclass is written: its module and its name there."""
    return f"{cls.__module__}:{cls.__qualname__}"
