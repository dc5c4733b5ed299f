"""The keys that counts are given for: declared, public, never learned from the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError

MAX_REPR_LETTERS = 60
"""The most letters of keys that a repr shows."""


@dataclass(frozen=True)
class Domain:
    """Keys in a fixed order. Counts, releases and masks are arrays in that order.

    Parameters
    ----------
    keys : tuple of str
        The keys, without repetition. `Domain.of` takes a number or any sequence of names.

    >>> Domain.of(["north", "south"]).size
    2
    >>> Domain.of(3).keys
    ('0', '1', '2')
    """

    keys: tuple[str, ...]

    @classmethod
    def of(cls, what: AnyDomain) -> Domain:
        """A domain from another domain, from a number of keys, or from their names.

        Parameters
        ----------
        what : Domain, int or sequence of str
            The domain, the number of keys, or the keys.
        """
        return what if isinstance(what, Domain) else cls(keys_of(what))

    def __post_init__(self) -> None:
        check_keys(self.keys)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.keys[:3]))
        if len(shown) > MAX_REPR_LETTERS or self.size > 3:
            shown = f"{shown[:MAX_REPR_LETTERS].rstrip(', ')}, …"
        return f"{type(self).__name__}({self.size} keys: {shown})"

    @property
    def size(self) -> int:
        return len(self.keys)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of each key.

        >>> Domain.of(["north", "south"]).places["south"]
        1
        """
        return {key: place for place, key in enumerate(self.keys)}

    @cached_property
    def ranks(self) -> IntArray:
        """Each key's place in alphabetical order, whatever the order of listing."""
        ranks = np.empty(self.size, np.int64)
        ranks[sorted(range(self.size), key=self.keys.__getitem__)] = np.arange(self.size)
        return ranks

    @property
    def facts(self) -> tuple[str, ...]:
        """All that tells this domain from another. A run goes on with the same domain only."""
        return self.keys

    def totals(self, counts: IntArray) -> IntArray:
        """The numbers of this domain, made of the counts of the base keys: here these counts.

        Parameters
        ----------
        counts : array of int
            One count per base key.
        """
        return counts


AnyDomain: TypeAlias = Domain | int | Iterable[str]
"""What a user may give as a domain."""


def keys_of(what: AnyDomain, *, subject: str = "domain") -> tuple[str, ...]:
    """The keys of a domain, of a number of keys, or of their names; errors begin with `subject`."""
    if isinstance(what, Domain):
        return what.keys
    if isinstance(what, (int, np.integer)) and not isinstance(what, bool) and what >= 1:
        return tuple(map(str, range(int(what))))
    if isinstance(what, Mapping):
        rule = "for attributes and their values use Product.of, for keys and paths Hierarchy.of."
        raise ConfigurationError(f"{subject}: {rule}", parameter="domain")
    if isinstance(what, (int, np.integer)):
        rule = f"must be a whole number of at least 1, not {what!r}."
    elif isinstance(what, str):
        rule = "must be a number of keys or several names, not one string."
    elif not isinstance(what, Iterable):
        rule = f"must be a number of keys or several names, not {type(what).__name__}."
    else:
        return tuple(map(str, what))
    raise ConfigurationError(f"{subject} {rule}", parameter="domain")


def check_keys(keys: tuple[str, ...], *, subject: str = "domain") -> None:
    """Refuse keys that are none, repeated, or not text; errors begin with `subject`."""
    if not keys:
        rule = "must have at least one key."
    elif len(set(keys)) != len(keys):
        rule = "must not name a key twice."
    else:
        try:
            "".join(keys).encode()
        except UnicodeEncodeError:
            rule = "must have keys of text that UTF-8 can write."
        else:
            return
    raise ConfigurationError(f"{subject} {rule}", parameter="domain")
