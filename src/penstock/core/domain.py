"""The keys that counts are given for: declared, public, never learned from the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole


@dataclass(frozen=True)
class Domain:
    """Keys in a fixed order; counts, releases and masks are arrays in that order.

    >>> Domain.of(["north", "south"]).size
    2
    >>> Domain.of(3).keys
    ('0', '1', '2')
    """

    keys: tuple[str, ...]

    @classmethod
    def of(cls, what: AnyDomain) -> Domain:
        """A domain from itself, from a number of keys or from their names."""
        if isinstance(what, Domain):
            return what
        if isinstance(what, (int, np.integer)):
            return cls(tuple(map(str, range(whole(what, name="domain", least=1)))))
        if isinstance(what, str):
            raise ConfigurationError(
                "domain must be a number of keys or several names, not one string.",
                parameter="domain",
            )
        if isinstance(what, Mapping):
            raise ConfigurationError(
                "domain: for attributes and their values use Product.of, for keys and paths Hierarchy.of.",
                parameter="domain",
            )
        if not isinstance(what, Iterable):
            raise ConfigurationError(
                f"domain must be a number of keys or several names, not {type(what).__name__}.",
                parameter="domain",
            )
        return cls(tuple(map(str, what)))

    def __post_init__(self) -> None:
        if not self.keys:
            raise ConfigurationError("domain must have at least one key.", parameter="domain")
        if len(set(self.keys)) != len(self.keys):
            raise ConfigurationError("domain must not name a key twice.", parameter="domain")
        try:
            "".join(self.keys).encode()
        except UnicodeEncodeError:
            raise ConfigurationError(
                "domain must have keys of text that UTF-8 can write.", parameter="domain"
            ) from None

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.keys[:3])) + (", …" if self.size > 3 else "")
        return f"Domain({self.size} keys: {shown})"

    @property
    def size(self) -> int:
        return len(self.keys)

    @cached_property
    def ranks(self) -> IntArray:
        """Each key's place in the alphabet of keys: an order that does not depend on how the keys
        were listed.
        """
        ranks = np.empty(self.size, np.int64)
        ranks[sorted(range(self.size), key=self.keys.__getitem__)] = np.arange(self.size)
        return ranks

    @property
    def facts(self) -> tuple[str, ...]:
        """All that tells this domain from another: a run goes on with the same only."""
        return self.keys

    def totals(self, counts: IntArray) -> IntArray:
        """What this domain's numbers are, made of the counts of the base keys: here those counts
        themselves.
        """
        return counts


AnyDomain: TypeAlias = Domain | int | Iterable[str]
"""What a user may give as a domain."""
