"""What a run shows besides its values, as short codes: fields, ledger lines, text, errors.

Nothing here is noise that somebody paid for, as a rule. So a code that goes with the stream is seen
at once, whatever field of a release it comes from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from zlib import crc32

import numpy as np

from penstock.budget.ledger import Line
from penstock.core.guarantee import Guarantee
from penstock.core.released import Released
from penstock.core.weights import UNIT

CODES = 256
"""The number of codes, from 1 on. Two different fields share one with probability 1/256."""

_KNOWN = frozenset(Released.__dataclass_fields__) | {"domain", "calendar"}

DIGESTS = {
    "scale": "the scale of the noise",
    "layers": "the number of draws",
    "divisor": "the divisor",
    "form": "kind, weights, unit, promise, types and shapes of a release",
    "public": "names, order, types and shapes of public arrays",
    "attributes": "attributes that were added to a release",
    "ledger": "ledger lines",
    "text": "log records, warnings, printed text, files, settings",
}
"""The names of codes, and what each covers. `public NAME` has the values of one public array."""


class FieldDigest:
    """The codes of one run. Give it every unit, then read `codes`.

    Parameters
    ----------
    guarantee : Guarantee
        The promise that releases carry. Another one is a part of the form.

    >>> from penstock import Uniform
    >>> digest = FieldDigest(Uniform(epsilon="1", window=2).guarantee)
    >>> run = Uniform(epsilon="1", window=2).run(2)
    >>> digest.add(run.step([3, 0]), run.ledger)
    >>> sorted(digest.codes)
    ['attributes', 'divisor', 'form', 'layers', 'ledger', 'public', 'scale']
    """

    def __init__(self, guarantee: Guarantee) -> None:
        self._guarantee = guarantee
        self._texts: dict[str, list[str]] = {}

    @property
    def codes(self) -> dict[str, int]:
        """A code per name."""
        return {
            name: 1 + crc32("".join(texts).encode()) % CODES for name, texts in self._texts.items()
        }

    def add(self, released: Released, lines: Iterable[Line]) -> None:
        """Add one unit. This is done for every unit of every run, so the usual case is short.

        Parameters
        ----------
        released : Released
            The release.
        lines : iterable of Line
            The ledger lines of the unit.
        """
        scale, public, more = released.scale, released.public, vars(released)
        self._add("scale", f"({scale.base!r}, {_plain(scale.parts)!r})")
        self._add("layers", f"({_plain(released.layers)!r},)")
        self._add("divisor", f"({_plain(released.divisor)!r},)")
        own = released.guarantee is self._guarantee or released.guarantee == self._guarantee
        value, weights = released.value, released.weights
        self._add(
            "form",
            f"({released.kind!r}, {_UNIT_TEXT if weights is UNIT else repr(weights)}, "
            f"{released.unit!r}, {None if own else released.guarantee!r}, {released.private!r}, "
            f"{value.dtype.str!r}, {value.shape!r}, {type(released.repeated).__name__!r})",
        )
        forms = tuple((name, _form(array)) for name, array in public.items()) if public else ()
        self._add("public", repr(forms))
        for name, array in public.items():
            self._add(f"public {name}", f"({_plain(array)!r},)")
        others = [key for key in more if key not in _KNOWN]
        self._add("attributes", repr(tuple((key, more[key]) for key in others)))
        charged = [(each.kind, each.label, each.amount, each.number, each.run) for each in lines]
        self._add("ledger", repr(tuple(charged)))

    def _add(self, name: str, text: str) -> None:
        texts = self._texts.get(name)
        if texts is None:
            texts = self._texts[name] = []
        texts.append(text)


_UNIT_TEXT = repr(UNIT)


def code_of(fact: object) -> int:
    """The code of anything, by its text.

    >>> 1 <= code_of({"log records": ["one"]}) <= CODES
    True
    """
    return 1 + crc32(repr(fact).encode()) % CODES


def _plain(value: Any) -> object:
    """A number as it is, an array as its type and bytes."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, crc32(np.ascontiguousarray(value).tobytes())
    return value


def _form(array: Any) -> object:
    return (array.dtype.str, array.shape) if isinstance(array, np.ndarray) else type(array).__name__
