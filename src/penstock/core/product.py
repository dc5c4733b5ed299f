"""Keys that are combinations: every value of one attribute with every value of another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from penstock.core.domain import AnyDomain, Domain
from penstock.core.errors import ConfigurationError

SEPARATOR = ","

MAX_KEYS = 100_000_000
"""The most keys of a product."""


@dataclass(frozen=True, repr=False)
class Product(Domain):
    """Several attributes, each with its values in order; the last one changes fastest from key to
    key.

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
        """From each attribute's values, or their number; any other domain becomes one attribute,
        `key`.
        """
        if isinstance(what, Product):
            return what
        attributes = what if isinstance(what, Mapping) else {"key": Domain.of(what)}
        return cls(tuple(attributes.items()))  # type: ignore[arg-type]

    @classmethod
    def grid(cls, rows: int, columns: int) -> Product:
        """The cells of a map, row by row.

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
                f"domain must have at most {MAX_KEYS:,} keys: attributes of {sides} values have more.",
                parameter="domain",
            )
        combined = itertools.product(
            *(values for _, values in attributes)
        )  # all differ, as no value has the separator in it
        object.__setattr__(self, "keys", tuple(map(SEPARATOR.join, combined)))

    def __repr__(self) -> str:
        return f"Product({self.size} keys: {', '.join(f'{name} {len(values)}' for name, values in self.attributes)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names."""
        return tuple(name for name, _ in self.attributes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many values each attribute has: counts reshaped to it have an axis per attribute."""
        return tuple(len(values) for _, values in self.attributes)

    @property
    def facts(self) -> tuple[str, ...]:
        kind = (
            "product",
            "product",
        )  # twice: what no other domain begins with, as it names no key twice
        values = itertools.chain.from_iterable(values for _, values in self.attributes)
        return (*kind, str(len(self.attributes)), *self.names, *map(str, self.shape), *values)


def _values(name: str, values: AnyDomain) -> tuple[str, ...]:
    try:
        return Domain.of(values).keys
    except ConfigurationError as error:
        raise ConfigurationError(
            f"domain: attribute {name!r} {str(error).removeprefix('domain ')}", parameter="domain"
        ) from None
