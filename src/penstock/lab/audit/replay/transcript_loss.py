"""The privacy loss of one transcript: the log-ratio of its probability on two streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from penstock.lab.audit.replay.probabilities import gaussian_delta, gaussian_epsilon

ROUNDING = 1e-6
"""How far sums of floats may be off. Losses of Laplace noise alone are exact and need no margin."""


@dataclass
class TranscriptLoss:
    """The loss of a transcript, by kind of noise.

    Parameters
    ----------
    exact : Fraction
        The part of answers with Laplace noise. Default: 0.
    computed : float
        The part of answers whose probability is a sum, such as those of a sparse vector. Default:
        0.
    rho : Fraction
        The part of answers with Gaussian noise, as ρ. Default: 0.
    spots : dict
        The part of each unit and label. Default: none.
    labels : dict
        The exact part, the computed part and the ρ of each label. Default: none.

    >>> loss = TranscriptLoss()
    >>> loss.add(1, "publish", exact=Fraction(1, 2))
    >>> loss.total, loss.exceeds(Fraction(1, 2), Fraction(0)), loss.exceeds(Fraction(1, 3))
    (0.5, False, True)
    """

    exact: Fraction = Fraction(0)
    computed: float = 0.0
    rho: Fraction = Fraction(0)
    spots: dict[tuple[int, str], float] = field(default_factory=dict)
    labels: dict[str, tuple[Fraction, float, Fraction]] = field(default_factory=dict)

    def add(
        self,
        unit: int,
        label: str,
        *,
        exact: Fraction = Fraction(0),
        computed: float = 0.0,
        rho: Fraction = Fraction(0),
    ) -> None:
        """Add the loss of one answer.

        Parameters
        ----------
        unit : int
            The unit of the answer.
        label : str
            The label of its noise.
        exact, computed, rho : number
            The loss. Default: 0.
        """
        self.exact += exact
        self.computed += computed
        self.rho += rho
        one, two, three = self.labels.get(label, (Fraction(0), 0.0, Fraction(0)))
        self.labels[label] = (one + exact, two + computed, three + rho)
        amount = float(exact) + computed + float(rho)
        if amount:
            self.spots[unit, label] = self.spots.get((unit, label), 0.0) + amount

    @property
    def total(self) -> float:
        """The log-ratio without the part of Gaussian noise."""
        return float(self.exact) + self.computed

    def epsilon(self, delta: Fraction = Fraction(0)) -> float:
        """The ε that the transcript shows.

        With a δ, it is that of the Gaussian curve of the transcript's ρ.
        """
        curve = gaussian_epsilon(float(self.rho), float(delta)) if delta and self.rho else 0.0
        return max(abs(self.total), curve)

    def exceeds(self, epsilon: Fraction, delta: Fraction = Fraction(0)) -> bool:
        """Whether the transcript breaks the promise."""
        if not self.computed:
            broken = abs(self.exact) > epsilon
        else:
            broken = abs(self.total) > float(epsilon) + ROUNDING
        if self.rho and not delta:
            return True  # the loss of Gaussian noise has no bound
        if not self.rho:
            return broken
        reached = gaussian_delta(float(self.rho), float(epsilon))
        return broken or reached > float(delta) * (1 + ROUNDING)

    def largest(self) -> tuple[int, str, float] | None:
        """The unit and label with the largest part; None if nothing was lost."""
        if not self.spots:
            return None
        (unit, label), amount = max(self.spots.items(), key=lambda each: abs(each[1]))
        return unit, label, amount
