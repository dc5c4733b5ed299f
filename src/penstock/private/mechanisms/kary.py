"""`kary`: sums of the last units from signed blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole
from penstock.private.mechanisms.blocks import Blocks, best
from penstock.private.mechanisms.sw_tree import WindowTree


@dataclass(frozen=True, kw_only=True)
class SignedBlocks(WindowTree):
    r"""Publish the sum of the last units, from blocks that are added and subtracted.

    Blocks have :math:`1, k, \dots, k^{h-1}` units, with :math:`k` odd. Each has noise of scale
    :math:`h/\varepsilon`, drawn once. The ends of the last :math:`W` units are rounded to the
    *nearest* block of every size. So at most :math:`(k-1)/2` blocks of a size are added or
    subtracted at either end. A subtracted block may lie in the future: its noise is there before
    its data. On average a sum carries :math:`W/k^{h-1}+(h-1)(k^2-1)/2k` noises of variance about
    :math:`2h^2/\varepsilon^2`.

    The number of sizes h is the best one for `span` and `arity`. Up to a span of 32 that is one. A
    sum then carries the same noise as a sum of `laplace` releases, which serve more queries.

    Parameters
    ----------
    epsilon : int, Fraction or str
        The ε that is spent in any window: exact, above 0.
    window : int
        The number of consecutive units in which a person is protected. Default: 1.
    contribution : int
        The most events of one person that count in one unit. Default: 1.
    horizon : int, optional
        The last unit that is ever read; `horizon=window` is user level. Default: none.
    span : int
        The number of units W in a sum. Default: 168.
    arity : int
        The k above: odd, at least 3. Default: 0, the best one for `span`.

    Guarantee: event level, pure; :math:`(\varepsilon, w)` for any window; for streams that are
    fixed in advance. Proof: docs/proofs/kary.md.
    Kept between units: nothing. The gate keeps the counts of `span` units and the noise of about as
    many blocks. Neither counts nor sums of fewer units follow from these releases.

    >>> blocks = SignedBlocks(epsilon="1", span=1024).blocks
    >>> blocks.arity, blocks.levels
    (13, 3)

    References
    ----------
    Our own, after the trees of Cao et al., EDBT 2013 (`sw_tree`).
    """

    name = "kary"
    paper = "our own, after Cao et al., EDBT 2013"
    proof = "kary.md"

    arity: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "arity", whole(self.arity, name="arity", least=0))
        if self.arity and (self.arity % 2 == 0 or self.arity < 3):
            raise ConfigurationError(
                f"arity must be an odd number of at least 3, or 0 for the best, not {self.arity}.",
                parameter="arity",
            )

    @cached_property
    def blocks(self) -> Blocks:
        arity, levels = best(self.span, self.arity)
        return Blocks(self.span, arity=arity, levels=levels, signed=True)
