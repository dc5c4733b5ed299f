"""`Plain`: noise on every count."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.budget.grid import Budget
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate
from penstock.private.histograms.base import PUBLISH


@dataclass(frozen=True)
class Plain:
    """Add discrete Laplace noise of scale 1/ε to every count, or Gaussian noise with a δ.

    Spends ε (or ρ) on every key. Proof: docs/proofs/uniform.md.

    >>> from penstock.private.mechanisms.sample import Sample
    >>> Sample(epsilon="1", window=3, histogram=Plain()).histogram
    Plain()

    References
    ----------
    Dwork et al., TCC 2006.
    """

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        return gate.noisy(counts, budget=epsilon, label=PUBLISH)
