"""`Where`: the sum over keys with chosen attribute values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.product import Product
from penstock.released.log import Log
from penstock.released.queries.aggregate import COUNTS, OverKeys
from penstock.released.queries.query import NumberQuery

Value: TypeAlias = str | int
Chosen: TypeAlias = Value | tuple[Value | None, Value | None] | Iterable[Value]
"""A value, a tuple (first, last) with None for an open end, or a list of values."""


@dataclass(frozen=True)
class Where(OverKeys):
    """The sum over all keys with these attribute values, in a log over a `Product`.

    Parameters
    ----------
    attributes : mapping, optional
        What is chosen of each attribute, for names that are no Python names.
    of : NumberQuery
        The query whose numbers are added up. Default: `UnitCounts()`.
    **more
        What is chosen of each attribute: a value, a list of values, or a tuple (first, last) of a
        range in the attribute's order. None leaves an end of the range open. An attribute that is
        not named may have any value.

    Examples
    --------
    >>> Where(age=("20", "39"), sex="f").in_words()
    'counts where age is 20 to 39 and sex is f'
    >>> Where({"home region": ["north", "west"], "age": ("65", None)}).in_words()
    'counts where home region is north or west and age is from 65'
    """

    chosen: tuple[tuple[str, _Among | _Between], ...]

    def __init__(
        self,
        attributes: Mapping[str, Chosen] | None = None,
        /,
        *,
        of: NumberQuery = COUNTS,
        **more: Chosen,
    ) -> None:
        named = {str(name): what for name, what in (attributes or {}).items()}
        if twice := named.keys() & more.keys():
            raise ConfigurationError(f"where: {min(twice)!r} must not be named twice.")
        object.__setattr__(
            self,
            "chosen",
            tuple((name, _choice(name, what)) for name, what in {**named, **more}.items()),
        )
        object.__setattr__(self, "of", of)

    def in_words(self) -> str:
        words = " and ".join(f"{name} is {choice.in_words()}" for name, choice in self.chosen)
        return f"{self.of.in_words()} {f'where {words}' if words else 'of all keys together'}"

    def groups(self, log: Log) -> tuple[list[IntArray], tuple[str, ...]]:
        domain = product_of(log)
        places = {name: np.arange(len(values)) for name, values in domain.attributes}
        values = dict(domain.attributes)
        for name, choice in self.chosen:
            if name not in places:
                raise ConfigurationError(
                    f"where: this log has no attribute {name!r}: "
                    f"it has {_listed(name, domain.names)}."
                )
            places[name] = choice.places(
                name, {value: place for place, value in enumerate(values[name])}
            )
        keys = np.ravel_multi_index(np.ix_(*places.values()), domain.shape).reshape(-1)
        name = ", ".join(f"{name} {choice.in_words()}" for name, choice in self.chosen)
        return [np.asarray(keys, np.int64)], (name or "all",)


def product_of(log: Log) -> Product:
    """The attributes of a log's keys."""
    if not isinstance(log.domain, Product):
        raise ConfigurationError(
            "where: the keys of this log have no attributes: "
            "run over Product.of({attribute: values})."
        )
    return log.domain


@dataclass(frozen=True)
class _Among:
    """A list of values."""

    values: tuple[str, ...]

    def in_words(self) -> str:
        if len(self.values) > 4:
            return f"one of {len(self.values)} values"
        return " or ".join(filter(None, (", ".join(self.values[:-1]), self.values[-1])))

    def places(self, attribute: str, place: Mapping[str, int]) -> IntArray:
        return np.unique([_place(attribute, value, place) for value in self.values])


@dataclass(frozen=True)
class _Between:
    """A range of values in the attribute's order; None is an open end."""

    first: str | None
    last: str | None

    def in_words(self) -> str:
        if self.first is None:
            return "any value" if self.last is None else f"up to {self.last}"
        return f"from {self.first}" if self.last is None else f"{self.first} to {self.last}"

    def places(self, attribute: str, place: Mapping[str, int]) -> IntArray:
        first = 0 if self.first is None else _place(attribute, self.first, place)
        last = len(place) - 1 if self.last is None else _place(attribute, self.last, place)
        if first > last:
            raise ConfigurationError(
                f"where: {self.first!r} comes after {self.last!r} in the order of {attribute!r}."
            )
        return np.arange(first, last + 1)


def _choice(attribute: str, what: Chosen) -> _Among | _Between:
    if isinstance(what, (str, int, np.integer)):
        return _Among((str(what),))
    if isinstance(what, tuple):
        if len(what) != 2:
            raise ConfigurationError(
                f"where: {attribute!r} must be a value, (first, last) or a list of values."
            )
        first, last = (None if end is None else str(end) for end in what)
        return _Between(first, last)
    if not isinstance(what, Iterable):
        raise ConfigurationError(
            f"where: {attribute!r} must be a value, (first, last) or a list of values."
        )
    values = tuple(map(str, what))
    if not values or len(set(values)) != len(values):
        raise ConfigurationError(
            f"where: {attribute!r} must list at least one value, and none twice."
        )
    return _Among(values)


def _place(attribute: str, value: str, place: Mapping[str, int]) -> int:
    if value not in place:
        raise ConfigurationError(
            f"where: {attribute!r} has no value {value!r}: it has {_listed(value, tuple(place))}."
        )
    return place[value]


def _listed(name: str, names: tuple[str, ...]) -> str:
    """The names that exist, and the nearest one."""
    some = [*names[:3], "…", names[-1]] if len(names) > 6 else names
    text = ", ".join(each if each == "…" else repr(each) for each in some)
    near = get_close_matches(name, names[:20_000], n=1)
    return f"{text}; nearest is {near[0]!r}" if near else text
