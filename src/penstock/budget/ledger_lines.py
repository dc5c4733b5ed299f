"""The lines of a ledger as a reader gets them: a tuple that can be looked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from penstock.budget.grid import Grid
from penstock.budget.ledger import Line
from penstock.core.guarantee import Guarantee
from penstock.core.notebook_html import MAX_HTML_ROWS, card, table


class LedgerLines(tuple[Line, ...]):
    """The lines of a ledger, in order. It is a tuple of `Line`.

    Parameters
    ----------
    lines : iterable of Line
        The lines.
    guarantee : Guarantee
        The promise that they are held to.

    Examples
    --------
    >>> LedgerLines([Line(1, "spend", "publish", 5, 5)], Guarantee("1", 2))
    <LedgerLines: 1 line, unit 1>
    """

    guarantee: Guarantee

    def __new__(cls, lines: Iterable[Line], guarantee: Guarantee) -> Self:
        made = super().__new__(cls, lines)
        made.guarantee = guarantee
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[Line, ...], Guarantee]]:
        return type(self), (tuple(self), self.guarantee)

    def __repr__(self) -> str:
        return f"<LedgerLines: {self._extent}>"

    @property
    def _extent(self) -> str:
        if not self:
            return "no lines yet"
        units = f"unit {self[0].unit}"
        if self[-1].unit != self[0].unit:
            units = f"units {self[0].unit}..{self[-1].unit}"
        return f"{'1 line' if len(self) == 1 else f'{len(self)} lines'}, {units}"

    def _repr_html_(self) -> str:
        """The newest lines, for a notebook."""
        quantum = Grid.of(self.guarantee).quantum
        sign = "ρ" if self.guarantee.delta else "ε"
        rows = [
            (str(line.unit), line.kind, line.label, f"{float(line.amount * quantum):.4g}")
            for line in self[-MAX_HTML_ROWS:]
        ]
        left = len(self) - len(rows)
        return card(
            f"Ledger: {self._extent}",
            promise=self.guarantee.in_words(),
            parts=[table(("unit", "kind", "label", f"amount ({sign})"), rows)],
            note=f"These are the newest lines. {left} earlier ones are not shown." if left else "",
        )
