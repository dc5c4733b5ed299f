"""The parameters of requests about alerts. Needs pydantic (extra `serve`)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.released.alerting import AlertRule
from penstock.released.log import Log
from penstock.released.queries.filter_options import FilterOptions
from penstock.released.queries.refusal import as_parameter
from penstock.released.queries.unit_choice import UnitChoice
from penstock.service.parameters import After, ApiParameters, Text

MAX_ALERTS = 10_000
"""The most alerts of one answer, unless a single unit has more."""


class AlertParameters(ApiParameters):
    """Which alerts are listed."""

    rule: Text | None = Field(default=None, description="The alerts of this rule. Default: all.")
    key: Text | None = Field(default=None, description="The alerts of this key. Default: all.")
    from_: Text | None = Field(
        default=None, alias="from", description="From this unit on: its number, a date or a time."
    )
    to: Text | None = Field(default=None, description="Up to this unit: its number, date or time.")
    after: After | None = Field(default=None, description="The alerts after this unit.")
    limit: int = Field(
        default=1000,
        ge=1,
        le=MAX_ALERTS,
        description="The most alerts of a page. The alerts of a unit stay together.",
    )


class TrialParameters(ApiParameters):
    """A rule to be tried on past releases, and the units to try it on."""

    question: Literal["counts", "sum", "decay", "jump", "drop", "change", "low"] = Field(
        default="counts", description="What is watched."
    )
    key: list[Text] = Field(
        default=[],
        max_length=1000,
        description="A key to watch, or a node with roll_up. Repeat it for several. Default: all.",
    )
    together: bool = Field(default=False, description="Add up the chosen keys, or all keys.")
    roll_up: bool = Field(default=False, description="Watch the nodes of the hierarchy.")
    depth: int | None = Field(
        default=None, ge=0, le=1000, description="With roll_up: one level only; 0 is the roots."
    )
    window: Text | None = Field(
        default=None, description="The number of units of a sum or a move, or a duration as 1d."
    )
    gamma: Text | None = Field(
        default=None, description="decay: a unit weighs gamma to the power of its age."
    )
    power: Text | None = Field(
        default=None, description="decay: a unit weighs (1 + age) to the power of minus this."
    )
    delta: float | None = Field(
        default=None, allow_inf_nan=False, description="The threshold of jump, drop, change or low."
    )
    above: float | None = Field(
        default=None, allow_inf_nan=False, description="Numbers of at least this raise an alert."
    )
    below: float | None = Field(
        default=None, allow_inf_nan=False, description="Numbers below this raise an alert."
    )
    clear: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="A raised key is cleared on the other side of this. Default: the threshold.",
    )
    sure: Text | None = Field(
        default=None,
        description="The confidence of the interval that must lie beyond the threshold, such as "
        "0.95. Default: the estimate alone decides.",
    )
    for_: int = Field(
        default=1,
        alias="for",
        ge=1,
        le=100_000,
        description="In how many units in a row the threshold must be passed.",
    )
    filtered: bool = Field(
        default=False, description="Whether filtered numbers are watched instead of the released."
    )
    period: list[Text] = Field(
        default=[], max_length=8, description="filtered: a season. Repeat it for several."
    )
    kind: Literal["flow", "stock"] | None = Field(
        default=None, description="filtered: flow for events of a unit, stock for what is present."
    )
    point: Literal["median", "mean"] | None = Field(
        default=None, description="filtered: median, or mean for numbers that add up."
    )
    last: Text | None = Field(
        default=None, description="The newest units: their number, or a duration such as 30d."
    )
    from_: Text | None = Field(
        default=None, alias="from", description="From this unit on: its number, a date or a time."
    )
    to: Text | None = Field(default=None, description="Up to this unit: its number, date or time.")

    @property
    def single(self) -> bool:
        """Whether the rule adds up neither keys nor units."""
        return self.question == "counts" and not self.together and not self.roll_up

    @property
    def filtering(self) -> FilterOptions:
        """Whether and how numbers are filtered."""
        return FilterOptions(
            self.filtered, tuple(self.period), self.kind, self.point, spelling=as_parameter
        )

    @property
    def units(self) -> UnitChoice:
        """The units; by default all that can be answered."""
        everything = self.last is None and self.from_ is None and self.to is None
        return UnitChoice(None, self.last, everything, self.from_, self.to, spelling=as_parameter)

    def rule(self, log: Log) -> AlertRule:
        """The rule.

        Parameters
        ----------
        log : Log
            The releases that it is tried on, filtered or not.
        """
        window: int | str | None = self.window
        if self.window is not None and self.window.isascii() and self.window.isdecimal():
            window = int(self.window[:18])
        return AlertRule.of(
            "try",
            series=log.name,
            window=window,
            keys=self.key,
            calendar=log.calendar,
            choice=log.filter,
            question=self.question,
            gamma=self.gamma,
            power=self.power,
            delta=self.delta,
            above=self.above,
            below=self.below,
            clear=self.clear,
            sure=self.sure,
            units_in_a_row=self.for_,
            together=self.together,
            roll_up=self.roll_up,
            depth=self.depth,
        )
