"""Keys that are combinations: every value of one attribute with every value of another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from penstock.core.domain import AnyDomain, Domain, check_keys, keys_of
from penstock.core.errors import ConfigurationError

SEPARATOR = ","

MAX_KEYS = 100_000_000
"""The most keys of a product."""


@dataclass(frozen=True, repr=False)
class Product(Domain):
    """Several attributes, each with its values in order; the last changes fastest from key to key.

    Parameters
    ----------
    attributes : tuple of (str, tuple of str)
        The name and the values of each attribute. `Product.of` takes a mapping.

    >>> census = Product.of({"sex": ["f", "m"], "age": 3})
    >>> census.keys
    ('f,0', 'f,1', 'f,2', 'm,0', 'm,1', 'm,2')
    >>> census.names, census.shape
    (('sex', 'age'), (2, 3))
    """

    keys: tuple[str, ...] = field(init=False, compare=False)
    attributes: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def of(cls, what: AnyDomain | Mapping[str, int | Iterable[str]]) -> Product:
        """A product from the values of each attribute, or their number.

        Parameters
        ----------
        what : mapping of str to int or values, or any domain
            The attributes. Any other domain becomes one attribute, `key`.
        """
        if isinstance(what, Product):
            return what
        attributes = what if isinstance(what, Mapping) else {"key": Domain.of(what)}
        return cls(tuple(attributes.items()))  # type: ignore[arg-type]

    @classmethod
    def grid(cls, rows: int, columns: int) -> Product:
        """The cells of a map, row by row.

        Parameters
        ----------
        rows : int
            The number of rows.
        columns : int
            The number of columns.

        >>> Product.grid(2, 2).keys
        ('0,0', '0,1', '1,0', '1,1')
        """
        return cls.of({"row": rows, "column": columns})

    def __post_init__(self) -> None:
        attributes = tuple(
            (str(name), _values(str(name), values)) for name, values in self.attributes
        )
        object.__setattr__(self, "attributes", attributes)
        if not attributes:
            raise ConfigurationError("domain must have at least one attribute.", parameter="domain")
        if not all(self.names) or len(set(self.names)) != len(self.names):
            raise ConfigurationError(
                "domain must give every attribute a name of its own.", parameter="domain"
            )
        Domain(self.names)
        for name, values in attributes:
            if len(attributes) > 1 and SEPARATOR in "".join(values):
                raise ConfigurationError(
                    f"domain: attribute {name!r} must have no value with {SEPARATOR!r} in it.",
                    parameter="domain",
                )
        if math.prod(self.shape) > MAX_KEYS:
            sides = " × ".join(map(str, self.shape))
            raise ConfigurationError(
                f"domain must have at most {MAX_KEYS:,} keys: "
                f"attributes of {sides} values have more.",
                parameter="domain",
            )
        combined = itertools.product(
            *(values for _, values in attributes)
        )  # all differ, as no value has the separator in it
        object.__setattr__(self, "keys", tuple(map(SEPARATOR.join, combined)))

    def __repr__(self) -> str:
        sides = ", ".join(f"{name} {len(values)}" for name, values in self.attributes)
        return f"Product({self.size} keys: {sides})"

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names."""
        return tuple(name for name, _ in self.attributes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each attribute."""
        return tuple(len(values) for _, values in self.attributes)

    @property
    def facts(self) -> tuple[str, ...]:
        kind = ("product", "product")  # no other domain begins so: it names no key twice
        values = itertools.chain.from_iterable(values for _, values in self.attributes)
        return (*kind, str(len(self.attributes)), *self.names, *map(str, self.shape), *values)


def _values(name: str, values: AnyDomain) -> tuple[str, ...]:
    subject = f"domain: attribute {name!r}"
    keys = keys_of(values, subject=subject)
    check_keys(keys, subject=subject)
    return keys
