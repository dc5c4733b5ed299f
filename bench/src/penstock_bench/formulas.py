"""Mean squared errors of sums of releases by theory, written apart from the code of the noise."""

from __future__ import annotations

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.error_bounds import laplace_variance
from penstock.core.exact import exact
from penstock.core.weights import Weights
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.kary import SignedBlocks
from penstock.private.mechanisms.laplace import Laplace
from penstock.private.mechanisms.sw_tree import WindowTree
from penstock.private.mechanisms.toeplitz import CorrelatedGaussian


def formula(mechanism: Mechanism[object], weights: Weights, units: IntArray) -> float | None:
    """The mean squared error of sums with these weights, on average over the last units given.

    None if it depends on the data.

    >>> from penstock import Laplace
    >>> variance = formula(Laplace(epsilon="0.01"), Weights.window(64), np.arange(64, 128))
    >>> round(variance / (64 * 2 * 100**2), 3)
    1.0
    """
    if isinstance(mechanism, CorrelatedGaussian):
        return _gaussian(mechanism, weights, units)
    epsilon = float(exact(mechanism.epsilon)) / (mechanism.window * mechanism.contribution)
    if isinstance(mechanism, Laplace):
        squares = np.cumsum(np.square(weights.sequence(int(units.max()))))
        return float(squares[units - 1].mean() * _variance(1 / epsilon))
    if (
        isinstance(mechanism, WindowTree)
        and weights == Weights.window(mechanism.span)
        and units.min() >= mechanism.span
    ):
        if isinstance(mechanism, SignedBlocks):
            levels, arity = mechanism.blocks.levels, mechanism.blocks.arity
            noises: float = mechanism.span / arity ** (levels - 1) + (levels - 1) * (
                arity**2 - 1
            ) / (2 * arity)
            return noises * _variance(levels / epsilon)
        return _binary(mechanism.span, epsilon)
    return None


def _variance(scale: float) -> float:
    """The variance of discrete Laplace noise."""
    return float(laplace_variance(np.array(scale)))


def _binary(span: int, epsilon: float) -> float | None:
    """Windows of 2^m units from a binary tree: one node for a block, else a suffix and a prefix."""
    if span & (span - 1):
        return None
    inside = np.arange(1, span)
    nodes = 1 + int((_ones(inside) + _ones(span - inside)).sum())
    return nodes / span * _variance(span.bit_length() / epsilon)


def _ones(numbers: IntArray) -> IntArray:
    """The number of binary digits that are 1."""
    return np.array([int(number).bit_count() for number in numbers], np.int64)


def _gaussian(mechanism: CorrelatedGaussian, weights: Weights, units: IntArray) -> float | None:
    r"""The variance of one draw times :math:`\|a/l\|^2`, cut after the last unit."""
    if mechanism.sums != weights or (
        weights.kind == "prefix" and int(units.max()) > mechanism.epoch
    ):
        return None
    growth: FloatArray = np.square(mechanism.spread)
    return float(growth[np.minimum(units, len(growth)) - 1].mean() * mechanism.deviation**2)
