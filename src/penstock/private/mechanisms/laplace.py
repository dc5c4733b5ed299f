"""`laplace`: every unit by itself."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.private.mechanisms.uniform import Uniform


@dataclass(frozen=True, kw_only=True)
class Laplace(Uniform):
    r"""Publish every unit with noise of its own, for one event.

    Counts get discrete Laplace noise of scale :math:`1/\varepsilon` in every unit: `uniform` at
    event level. Asked for a longer window, it is `uniform`.

    Guarantee: event level, pure; :math:`(\varepsilon, w)` for any window. Proof:
    docs/proofs/uniform.md. Kept between units: nothing.

    >>> Laplace(epsilon="0.1").guarantee
    Guarantee(epsilon=1/10, window=1)

    References
    ----------
    Dwork et al., TCC 2006.
    """

    name = "laplace"
    paper = "Dwork et al., TCC 2006"
    family = "event"

    window: int = 1
