"""Whether a query is asked of filtered numbers, and how they are filtered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from penstock.core.errors import ConfigurationError
from penstock.released.log import Log
from penstock.released.queries.refusal import Spelling, as_flag, refuse


@dataclass(frozen=True)
class FilterOptions:
    """The options of the filter, as they were given.

    Parameters
    ----------
    filtered : bool
        Whether filtered numbers are asked. Default: False.
    period : tuple of str
        The seasons of the stream, as numbers of units or durations. Default: none.
    kind : "flow" or "stock", optional
        Whether counts are events of a unit, or what is present in it. Default: flow.
    point : "median" or "mean", optional
        The number to report. Default: median for counts of single keys, mean for everything else.
    spelling : callable
        How options are written in messages. Default: as on a command line.

    Examples
    --------
    >>> FilterOptions(filtered=True, period=("1d",)).period
    ('1d',)
    """

    filtered: bool = False
    period: tuple[str, ...] = ()
    kind: Literal["flow", "stock"] | None = None
    point: Literal["median", "mean"] | None = None
    spelling: Spelling = field(default=as_flag, kw_only=True, repr=False)

    def refuse_without_question(self) -> None:
        """Refuse every option of this group."""
        given = {name: value for name, value in vars(self).items() if name != "spelling"}
        refuse(None, self.spelling, **given)

    def applied(self, log: Log, *, single: bool) -> Log:
        """The log that a question is asked of; `single` if it adds up neither keys nor units."""
        if not self.filtered:
            if self.period or self.kind is not None or self.point is not None:
                spelled = self.spelling
                raise ConfigurationError(
                    f"{spelled('period')}, {spelled('kind')} and {spelled('point')} need "
                    f"{spelled('filtered')}."
                )
            return log
        periods = [
            int(text) if text.isascii() and text.isdecimal() else text for text in self.period
        ]
        return log.filtered(
            periods, kind=self.kind or "flow", point=self.point or ("median" if single else "mean")
        )
