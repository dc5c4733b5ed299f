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
    "text": "log records, warnings, printed text, files",
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
        self._digests: dict[str, int] = {}

    @property
    def codes(self) -> dict[str, int]:
        """A code per name."""
        return {name: 1 + digest % CODES for name, digest in self._digests.items()}

    def add(self, released: Released, lines: Iterable[Line]) -> None:
        """Add one unit.

        Parameters
        ----------
        released : Released
            The release.
        lines : iterable of Line
            The ledger lines of the unit.
        """
        scale, public = released.scale, released.public
        self._add("scale", scale.base, _plain(scale.parts))
        self._add("layers", _plain(released.layers))
        self._add("divisor", _plain(released.divisor))
        own = released.guarantee is self._guarantee or released.guarantee == self._guarantee
        value, repeated = released.value, released.repeated
        self._add(
            "form",
            released.kind,
            released.weights,
            released.unit,
            None if own else released.guarantee,
            released.private,
            value.dtype.str,
            value.shape,
            type(repeated).__name__,
        )
        self._add("public", *((name, _form(array)) for name, array in public.items()))
        for name, array in public.items():
            self._add(f"public {name}", _plain(array))
        more = vars(released)
        self._add("attributes", *((key, more[key]) for key in more if key not in _KNOWN))
        self._add(
            "ledger",
            *((each.kind, each.label, each.amount, each.number, each.run) for each in lines),
        )

    def _add(self, name: str, *facts: object) -> None:
        self._digests[name] = crc32(repr(facts).encode(), self._digests.get(name, 0))


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
