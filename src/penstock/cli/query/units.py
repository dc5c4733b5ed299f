"""At which units a query is answered."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.cli.query.refusal import refuse
from penstock.core.calendar import Calendar
from penstock.core.durations import even_units_of
from penstock.core.errors import ConfigurationError
from penstock.engine.ledger_report import units_from
from penstock.released.log import Log
from penstock.released.queries import Query


@dataclass(frozen=True)
class UnitChoice:
    """The options that choose units."""

    unit: int | None
    last: str | None
    all: bool
    from_: str | None
    to_: str | None

    def refuse_without_question(self) -> None:
        """Refuse every option of this group."""
        refuse(None, **vars(self))

    def of(
        self, asked: Query, log: Log, calendar: Calendar | None, *, plotted: bool
    ) -> int | range | None:
        """The units that were chosen and can be answered; None is the newest."""
        between = self.from_ is not None or self.to_ is not None
        ways = (self.unit is not None, self.last is not None, self.all, between)
        if sum(ways) > 1:
            raise ConfigurationError(
                "--unit, --last, --all and --from/--to exclude each other: each chooses the units."
            )
        if between:
            return self._between(asked, log, calendar)
        if self.last is not None:
            return asked.units(log)[-count_of(self.last, calendar, name="last") :] or None
        if (self.all or (plotted and self.unit is None)) and len(log):
            return asked.units(log) or None
        return self.unit

    def _between(self, asked: Query, log: Log, calendar: Calendar | None) -> range:
        wanted = units_from(calendar, log.last, self.from_, self.to_)
        can = asked.units(log)
        found = range(max(wanted.start, can.start), min(wanted.stop, can.stop))
        if not found:
            extent = f"units {can[0]} to {can[-1]} can be" if can else "no unit can be yet"
            raise ConfigurationError(f"no unit from --from to --to can be answered: {extent}.")
        return found


def count_of(text: str, calendar: Calendar | None, *, name: str) -> int:
    """A number of units: a whole number, or a duration where the calendar is known.

    A day has 24 hours here, also where clocks are changed.
    """
    plain = text.replace("_", "").replace(",", "")
    value = int(plain) if plain.removeprefix("-").isdecimal() else text
    return even_units_of(value, calendar, name=f"--{name}")
