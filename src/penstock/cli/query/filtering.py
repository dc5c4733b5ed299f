"""Whether a query is asked of filtered numbers, and how they are filtered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.cli.query.refusal import refuse
from penstock.core.errors import ConfigurationError
from penstock.released.log import Log


@dataclass(frozen=True)
class FilterOptions:
    """The options of the filter, as they were given."""

    filtered: bool
    period: tuple[str, ...]
    kind: Literal["flow", "stock"] | None
    point: Literal["median", "mean"] | None

    def refuse_without_question(self) -> None:
        """Refuse every option of this group."""
        refuse(None, **vars(self))

    def applied(self, log: Log, *, single: bool) -> Log:
        """The log that a question is asked of; `single` if it adds up neither keys nor units."""
        if not self.filtered:
            if self.period or self.kind is not None or self.point is not None:
                raise ConfigurationError("--period, --kind and --point need --filtered.")
            return log
        periods = [int(text) if text.isdecimal() else text for text in self.period]
        return log.filtered(
            periods, kind=self.kind or "flow", point=self.point or ("median" if single else "mean")
        )
