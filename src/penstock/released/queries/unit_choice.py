"""At which units a query is answered."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.core.calendar import Calendar
from penstock.core.durations import even_units_of
from penstock.core.errors import ConfigurationError
from penstock.core.unit_range import units_from
from penstock.released.log import Log
from penstock.released.queries.query import Query
from penstock.released.queries.refusal import Spelling, as_flag, refuse


@dataclass(frozen=True)
class UnitChoice:
    """The options that choose units.

    Parameters
    ----------
    unit : int, optional
        One unit. Default: the newest.
    last : str, optional
        The newest units: their number, or a duration. Default: none.
    all : bool
        Whether every unit that can be answered is chosen. Default: False.
    from_, to_ : str, optional
        The first and the last unit: numbers, dates or times. Default: none.
    spelling : callable
        How options are written in messages. Default: as on a command line.

    Examples
    --------
    >>> UnitChoice(last="24").last
    '24'
    """

    unit: int | None = None
    last: str | None = None
    all: bool = False
    from_: str | None = None
    to_: str | None = None
    spelling: Spelling = field(default=as_flag, kw_only=True, repr=False)

    def refuse_without_question(self) -> None:
        """Refuse every option of this group."""
        given = {name: value for name, value in vars(self).items() if name != "spelling"}
        refuse(None, self.spelling, **given)

    def of(
        self, asked: Query, log: Log, calendar: Calendar | None, *, plotted: bool = False
    ) -> int | range | None:
        """The units that were chosen and can be answered; None is the newest."""
        between = self.from_ is not None or self.to_ is not None
        ways = (self.unit is not None, self.last is not None, self.all, between)
        spelled = self.spelling
        if sum(ways) > 1:
            raise ConfigurationError(
                f"{spelled('unit')}, {spelled('last')}, {spelled('all')} and "
                f"{spelled('from')}/{spelled('to')} exclude each other: each chooses the units."
            )
        if between:
            return self._between(asked, log, calendar)
        if self.last is not None:
            number = count_of(self.last, calendar, name=spelled("last"))
            return asked.units(log)[-number:] or None
        if (self.all or (plotted and self.unit is None)) and len(log):
            return asked.units(log) or None
        return self.unit

    def _between(self, asked: Query, log: Log, calendar: Calendar | None) -> range:
        wanted = units_from(calendar, log.last, self.from_, self.to_, spelling=self.spelling)
        can = asked.units(log)
        found = range(max(wanted.start, can.start), min(wanted.stop, can.stop))
        if not found:
            extent = f"units {can[0]} to {can[-1]} can be" if can else "no unit can be yet"
            ends = f"from {self.spelling('from')} to {self.spelling('to')}"
            raise ConfigurationError(f"no unit {ends} can be answered: {extent}.")
        return found


def count_of(text: str, calendar: Calendar | None, *, name: str) -> int:
    """A number of units: a whole number, or a duration where the calendar is known.

    A day has 24 hours here, also where clocks are changed.
    """
    plain = text.replace("_", "").replace(",", "")
    value = int(plain) if _is_whole(plain) else text
    return even_units_of(value, calendar, name=name)


def _is_whole(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdecimal()
