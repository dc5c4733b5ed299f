"""The parameters of the read API, as its OpenAPI document describes them. Needs pydantic, which
comes with FastAPI (extra `serve`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path as PathParameter
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from penstock.core.errors import ConfigurationError
from penstock.released.queries.filter_options import FilterOptions
from penstock.released.queries.key_choice import KeyChoice
from penstock.released.queries.questions import QueryOptions
from penstock.released.queries.refusal import as_parameter
from penstock.released.queries.unit_choice import UnitChoice
from penstock.service.answers import AnswerRequest, find_query

MAX_UNIT = 2**53
"""Larger numbers of units are refused before they are looked for."""

Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Unit = Annotated[int, Field(ge=1, le=MAX_UNIT)]
Limit = Annotated[int, Field(ge=1, le=100_000)]
After = Annotated[int, Field(ge=0, le=MAX_UNIT)]


StreamName = Annotated[
    str,
    PathParameter(
        description="The name of a stream, or STREAM/VIEW.", examples=["taps", "taps/hourly"]
    ),
]
QuestionName = Annotated[
    str,
    PathParameter(
        description="counts, sum, decay, jump, drop, change, low, top, or the name of a plug-in.",
        examples=["counts", "sum"],
    ),
]
UnitNumber = Annotated[
    int, PathParameter(ge=1, le=MAX_UNIT, description="The number of a unit.", examples=[240])
]


class ApiParameters(BaseModel):
    """Parameters of a request. An unknown one is an error."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    def given(self) -> dict[str, Any]:
        """The parameters that were given, by the names that they have in a URL."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class NumberParameters(ApiParameters):
    """Which numbers a request is about: keys, units, and how they are shown."""

    key: list[Text] = Field(
        default=[],
        max_length=1000,
        description="A key to answer for. Repeat it for several. Default: all keys.",
    )
    unit: Unit | None = Field(default=None, description="Answer at this unit. Default: the newest.")
    last: Text | None = Field(
        default=None,
        description="Answer at each of the newest units: their number, or a duration such as 2d.",
    )
    from_: Text | None = Field(
        default=None,
        alias="from",
        description="Answer from this unit on: its number, or a date or time in it.",
    )
    to: Text | None = Field(
        default=None, description="Answer up to this unit: its number, or a date or time in it."
    )
    after: After | None = Field(
        default=None, description="A page of all units: those after this unit."
    )
    limit: Limit | None = Field(
        default=None, description="The most units of a page. Default: 1000, if after is given."
    )
    confidence: Text | None = Field(
        default=None,
        description="The confidence of the intervals, such as 0.9. Default: 0.95, and 0.9 for "
        "filtered numbers.",
    )
    nonnegative: bool = Field(default=False, description="Whether no number is negative.")
    points: int | None = Field(
        default=None,
        ge=2,
        le=100_000,
        description="Thin each series out to about this many numbers: the smallest and the largest "
        "of each stretch. Default: show all.",
    )

    def request(self, question: str) -> AnswerRequest:
        """The question that these parameters ask."""
        return AnswerRequest(
            question=question,
            keys=self._keys(),
            units=UnitChoice(
                self.unit, self.last, False, self.from_, self.to, spelling=as_parameter
            ),
            options=self._options(),
            filtering=self._filtering(),
            after=self.after,
            limit=self.limit,
            confidence=self.confidence,
            nonnegative=self.nonnegative,
            points=self.points,
            given=self.given(),
        )

    def _keys(self) -> KeyChoice:
        return KeyChoice(tuple(self.key), spelling=as_parameter)

    def _options(self) -> QueryOptions:
        return QueryOptions(spelling=as_parameter, find=find_query)

    def _filtering(self) -> FilterOptions:
        return FilterOptions(spelling=as_parameter)


class AnswerParameters(NumberParameters):
    """The parameters of an answer. They mean what those of `penstock query` mean."""

    together: bool = Field(default=False, description="Add up the chosen keys, or all keys.")
    range_: list[Text] = Field(
        default=[],
        alias="range",
        max_length=2,
        description="Add up all keys from the first to the second, in the domain's order: give it "
        "twice.",
    )
    where: list[Text] = Field(
        default=[],
        max_length=100,
        description="Add up all keys with these attribute values: sex=f, region=north,west or "
        "age=20..39. Repeat it for several attributes.",
    )
    rectangle: Text | None = Field(
        default=None, description="Add up all cells between two corners, x,y:x,y."
    )
    grid: Text | None = Field(
        default=None, description="The rows and columns of the grid, such as 10x20."
    )
    roll_up: bool = Field(default=False, description="Answer for every node of the hierarchy.")
    depth: int | None = Field(
        default=None, ge=0, le=1000, description="With roll_up: one level only; 0 is the roots."
    )
    window: Text | None = Field(
        default=None, description="The number of units of a sum, or a duration such as 1d."
    )
    gamma: Text | None = Field(
        default=None, description="decay: a unit weighs gamma to the power of its age."
    )
    power: Text | None = Field(
        default=None,
        description="decay: a unit weighs (1 + age) to the power of minus this number.",
    )
    delta: float | None = Field(
        default=None, allow_inf_nan=False, description="The threshold of jump, drop, change or low."
    )
    k: int | None = Field(
        default=None, ge=1, le=100_000, description="top: how many keys. Default: 10."
    )
    set_: list[Text] = Field(
        default=[],
        alias="set",
        max_length=100,
        description="A parameter of a query of another package, such as width=24.",
    )
    hindsight: bool = Field(
        default=False, description="Whether releases that came after a unit are used as well."
    )
    filtered: bool = Field(
        default=False, description="Whether the filtered numbers are asked instead of the released."
    )
    period: list[Text] = Field(
        default=[],
        max_length=8,
        description="filtered: a season, as a number of units or a duration such as 1d. Repeat it "
        "for several.",
    )
    kind: Literal["flow", "stock"] | None = Field(
        default=None, description="filtered: flow for events of a unit, stock for what is present."
    )
    point: Literal["median", "mean"] | None = Field(
        default=None, description="filtered: median, or mean for numbers that add up."
    )

    def _keys(self) -> KeyChoice:
        if len(self.range_) == 1:
            raise ConfigurationError(
                "range must be given twice: range=FIRST&range=LAST.", parameter="range"
            )
        return KeyChoice(
            tuple(self.key),
            self.together,
            (self.range_[0], self.range_[1]) if self.range_ else None,
            tuple(self.where),
            self.rectangle,
            self.grid,
            self.roll_up,
            self.depth,
            spelling=as_parameter,
        )

    def _options(self) -> QueryOptions:
        return QueryOptions(
            self.window,
            self.gamma,
            self.power,
            self.delta,
            self.k,
            tuple(self.set_),
            self.hindsight,
            spelling=as_parameter,
            find=find_query,
        )

    def _filtering(self) -> FilterOptions:
        return FilterOptions(
            self.filtered, tuple(self.period), self.kind, self.point, spelling=as_parameter
        )


class KeyParameters(ApiParameters):
    """Which keys are listed."""

    search: Text | None = Field(
        default=None, description="A part of the key, whatever its capitals. Default: all keys."
    )
    parent: str | None = Field(
        default=None,
        max_length=1000,
        description="The keys right below this node of the hierarchy; empty for the roots.",
    )
    after: Text | None = Field(default=None, description="The keys after this one, as listed.")
    limit: Limit = Field(default=1000, description="The most keys of a page.")


class PageParameters(ApiParameters):
    """A page of a list by unit."""

    from_: Text | None = Field(
        default=None, alias="from", description="From this unit on: its number, a date or a time."
    )
    to: Text | None = Field(default=None, description="Up to this unit: its number, date or time.")
    after: After | None = Field(default=None, description="The units after this one.")
    limit: Limit = Field(default=1000, description="The most units of a page.")


class LiveParameters(ApiParameters):
    """Where live events begin."""

    after: After | None = Field(
        default=None,
        description="The newest unit that the reader has. A Last-Event-ID header goes before it.",
    )


class NoParameters(ApiParameters):
    """A request that has no parameters."""
