"""`AlertRule`: what is watched, and when a key is raised and cleared."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from penstock.core.calendar import Calendar
from penstock.core.durations import even_units_of
from penstock.core.error_bounds import miss_of
from penstock.core.errors import ConfigurationError
from penstock.core.exact import exact
from penstock.core.nearest_name import nearest_names
from penstock.core.weights import Weights
from penstock.released.log import FilteredLog, Log
from penstock.released.queries import (
    Aggregate,
    Change,
    Drop,
    Everything,
    Jump,
    LowSignal,
    Query,
    RollUp,
    SlidingSum,
    UnitCounts,
    WeightedSum,
)
from penstock.released.queries.aggregate import OverKeys
from penstock.released.queries.query import NumberQuery, places_among
from penstock.released.release_filter import FilterChoice

Side: TypeAlias = Literal["above", "below", "either"]
Number: TypeAlias = int | float | Decimal | Fraction | str

MOVES: dict[str, type[Jump]] = {"jump": Jump, "drop": Drop, "change": Change}
"""The questions about moves, with their queries."""

QUESTIONS = ("counts", "sum", "decay", *MOVES, "low")
"""What a rule can watch, by the names that `penstock query` has."""

_NUMBERS = ("counts", "sum", "decay")
_MAX_KEYS_NAMED = 4
_RENAMED = {"units_in_a_row": "for"}
"""Fields whose key in a configuration is no Python name."""


@dataclass(frozen=True, kw_only=True)
class AlertRule:
    """What is watched, and when a key is raised and cleared.

    A key is raised when its number is at `above` or more, below `below`, or when it has moved by
    `delta` or more. It is cleared when that is no longer so, or, with `clear`, when its number is
    back beyond `clear`. With `sure`, the whole interval of the number must lie there.

    Parameters
    ----------
    name : str
        The name of the rule.
    series : str
        The series that it watches. Default: "", that of any log.
    question : str
        What is watched: counts, sum, decay, or a move or a low sum (jump, drop, change, low).
        Default: "counts".
    window : int, optional
        The number of units of a sum, a decayed sum, a move or a low sum. Default: none.
    gamma : str, optional
        decay: a unit weighs gamma to the power of its age. Default: none.
    power : str, optional
        decay: a unit weighs (1 + age) to the power of minus this number. Default: none.
    delta : float, optional
        The threshold of a move or of a low sum. Default: none.
    above : float, optional
        Numbers of at least this raise an alert. Default: none.
    below : float, optional
        Numbers below this raise an alert. Default: none.
    clear : float, optional
        The threshold at which a raised key is cleared. Default: the one that raises it.
    sure : str, optional
        The confidence of the interval that must lie beyond a threshold. Default: none, the
        estimate alone decides.
    units_in_a_row : int
        In how many units in a row the threshold must be passed, before a key is raised. It is `for`
        in a configuration. Default: 1.
    keys : tuple of str
        The keys, or with `roll_up` the nodes. Default: all.
    together : bool
        Whether the keys are added up. Default: False.
    roll_up : bool
        Whether the nodes of the hierarchy are watched instead of keys. Default: False.
    depth : int, optional
        With `roll_up`: one level only; 0 is the roots. Default: all levels.
    filter : FilterChoice, optional
        The settings of the filter. Default: none, numbers are watched as they were released.

    Examples
    --------
    >>> print(AlertRule(name="busy", above=500, clear=400, sure="0.95").in_words())
    counts: a key is raised at 500 or more and cleared below 400, each time only if the whole 0.95
    interval lies there
    >>> AlertRule(name="busy", question="jump", above=500)
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: above cannot be used with question = "jump": ...
    """

    name: str
    series: str = ""
    question: str = "counts"
    window: int | None = None
    gamma: str | None = None
    power: str | None = None
    delta: float | None = None
    above: float | None = None
    below: float | None = None
    clear: float | None = None
    sure: str | None = None
    units_in_a_row: int = 1
    keys: tuple[str, ...] = ()
    together: bool = False
    roll_up: bool = False
    depth: int | None = None
    filter: FilterChoice | None = field(default=None)

    @classmethod
    def of(
        cls,
        name: str,
        *,
        series: str = "",
        window: int | str | None = None,
        keys: Iterable[str] = (),
        calendar: Calendar | None = None,
        choice: FilterChoice | None = None,
        **more: Any,
    ) -> AlertRule:
        """A rule from what people write: durations, and numbers as text.

        Parameters
        ----------
        name : str
            The name of the rule.
        series : str
            The series that it watches. Default: "".
        window : int or str, optional
            The number of units, or a duration such as "1d". Default: none.
        keys : iterable of str
            The keys. Default: all.
        calendar : Calendar, optional
            How long units are. Where it is None, durations are refused.
        choice : FilterChoice, optional
            The settings of the filter. Default: none.
        **more
            The other parameters of a rule; `for` is a name of `units_in_a_row`.

        Examples
        --------
        >>> hours = Calendar(every="1h", origin="2026-01-01")
        >>> AlertRule.of("quiet", question="low", window="1d", delta="5", calendar=hours).window
        24
        """
        units = None if window is None else even_units_of(window, calendar, name="window")
        known = {key: value for key, value in more.items() if value is not None}
        if "for" in known:
            known["units_in_a_row"] = known.pop("for")
        for number in ("gamma", "power", "sure"):
            if number in known:
                known[number] = str(known[number])
        return cls(name=name, series=series, window=units, keys=tuple(keys), filter=choice, **known)

    def __post_init__(self) -> None:
        if self.question not in QUESTIONS:
            near = nearest_names(self.question, QUESTIONS)
            self._refuse("question", f"must be one of {', '.join(QUESTIONS)}.{near}")
        for each in ("delta", "above", "below", "clear"):
            object.__setattr__(self, each, _finite(getattr(self, each), each))
        self._check_threshold()
        self._check_window()
        self._check_conditions()
        self._check_keys()
        self.query()

    # -- what it says ------------------------------------------------------------------------------

    @property
    def threshold(self) -> float:
        """The number that raises a key."""
        return next(each for each in (self.delta, self.above, self.below) if each is not None)

    @property
    def clears_at(self) -> float:
        """The number that clears a raised key."""
        return self.threshold if self.clear is None else self.clear

    @property
    def side(self) -> Side:
        """On which side of the threshold a key is raised."""
        if self.question == "change":
            return "either"
        return "below" if self.question == "low" or self.below is not None else "above"

    def query(self) -> Query:
        """The query whose numbers are compared with the threshold."""
        width = self.window or 1
        if self.question in MOVES:
            return MOVES[self.question](width, self.threshold)
        if self.question == "low":
            return LowSignal(width, self.threshold)
        return self._summed(self._number(width))

    def _number(self, width: int) -> NumberQuery:
        if self.question == "counts":
            return UnitCounts()
        if self.question == "sum":
            return SlidingSum(width)
        decays = self.gamma is not None
        weights = (
            Weights.decay(self.gamma or "", width)
            if decays
            else Weights.power(self.power or "", width)
        )
        return WeightedSum(weights)

    def _summed(self, inner: NumberQuery) -> NumberQuery:
        if self.together:
            return Aggregate(self.keys, of=inner) if self.keys else Everything(of=inner)
        return RollUp(of=inner, depth=self.depth) if self.roll_up else inner

    @property
    def shown_keys(self) -> tuple[str, ...] | None:
        """The names that the query is asked for; None for all."""
        return None if self.together or not self.keys else self.keys

    def watched(self, log: Log) -> Log:
        """The log with the numbers that are watched: filtered, or as it is.

        Parameters
        ----------
        log : Log
            The releases, or the filtered log itself.
        """
        if self.filter is None or log.filter == self.filter:
            return log
        return FilteredLog(log, self.filter)

    def choices(self, log: Log) -> tuple[str, ...]:
        """The names among which `keys` chooses: the keys of a log, or the nodes with `roll_up`.

        Parameters
        ----------
        log : Log
            The releases, which may be none yet.
        """
        return RollUp(depth=self.depth).groups(log)[1] if self.roll_up else log.keys

    def names(self, log: Log) -> tuple[str, ...]:
        """The names of the numbers that are watched. A key that is not there is refused.

        Parameters
        ----------
        log : Log
            The releases, which may be none yet.
        """
        names = self.choices(log)
        if self.keys:
            places_among(names, self.keys)
        if self.together:
            asked = self.query()
            assert isinstance(asked, OverKeys)
            return asked.groups(log)[1]
        return self.keys or names

    def in_words(self) -> str:
        """The rule in words, without its name."""
        back = {"above": "below", "below": "at or above", "either": "below"}[self.side]
        size = f"{self.threshold:.15g}"
        raised = f"below {size}" if self.side == "below" else f"at {size} or more"
        noun = "node" if self.roll_up else "sum" if self.together else "key"
        lasting = f" for {self.units_in_a_row} units in a row" if self.units_in_a_row > 1 else ""
        sure = f", each time only if the whole {self.sure} interval lies there" if self.sure else ""
        filtered = "filtered " if self.filter is not None else ""
        return (
            f"{filtered}{self._subject()}: a {noun} is raised {raised}{lasting} and cleared "
            f"{back} {self.clears_at:.15g}{sure}"
        )

    def _subject(self) -> str:
        width = f"within {self.window} units"
        what = {
            "jump": f"rise {width}",
            "drop": f"fall {width}",
            "change": f"rise or fall {width}",
            "low": f"sums of {self.window} units",
        }.get(self.question)
        if what is None:
            what = self.query().in_words()
        if self.shown_keys is None:
            return what
        named = ", ".join(self.keys) if len(self.keys) <= _MAX_KEYS_NAMED else ""
        return f"{what} of {named or f'{len(self.keys)} keys'}"

    # -- as plain data -----------------------------------------------------------------------------

    def definition(self) -> dict[str, Any]:
        """All that decides about its alerts, as plain data, without the name and the series."""
        found: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in ("name", "series") or value == each.default:
                continue
            if isinstance(value, FilterChoice):
                value = {
                    "periods": list(value.periods),
                    "kind": value.kind,
                    "point": value.point,
                }
            name = _RENAMED.get(each.name, each.name)
            found[name] = list(value) if isinstance(value, tuple) else value
        return found

    @property
    def about(self) -> str:
        """The definition as text, the same on every machine. A changed rule has another one."""
        return json.dumps(self.definition(), sort_keys=True, ensure_ascii=False)

    @property
    def digest(self) -> str:
        """A short digest of the definition."""
        return hashlib.sha256(self.about.encode()).hexdigest()[:12]

    @classmethod
    def read(cls, name: str, series: str, about: str) -> AlertRule:
        """The rule of a stored definition.

        Parameters
        ----------
        name : str
            The name of the rule.
        series : str
            The series that it watches.
        about : str
            The definition as text.

        Examples
        --------
        >>> rule = AlertRule(name="busy", series="taps", above=500)
        >>> AlertRule.read("busy", "taps", rule.about) == rule
        True
        """
        found: Mapping[str, Any] = json.loads(about)
        filtered = found.get("filter")
        choice = None if filtered is None else FilterChoice.of(**filtered)
        given = {key: value for key, value in found.items() if key != "filter"}
        return cls.of(name, series=series, choice=choice, **given)

    # -- checks ------------------------------------------------------------------------------------

    def _check_threshold(self) -> None:
        moves = self.question not in _NUMBERS
        for name in ("above", "below") if moves else ("delta",):
            if getattr(self, name) is not None:
                other = "delta" if moves else "above or below"
                self._refuse(
                    name, f'cannot be used with question = "{self.question}": use {other}.'
                )
        if moves and self.delta is None:
            self._refuse(None, f'question = "{self.question}" needs delta, the threshold.')
        if not moves and (self.above is None) == (self.below is None):
            self._refuse(
                None if self.above is None else "below",
                f'question = "{self.question}" needs above or below, exactly one of both.',
            )
        if self.question in MOVES and self.threshold <= 0:
            self._refuse("delta", f"must be above 0, not {self.threshold:.15g}.")
        if self.clear is None:
            return
        below = self.side == "below"
        if self.clear < self.threshold if below else self.clear > self.threshold:
            least = "at least" if below else "at most"
            self._refuse(
                "clear",
                f"must be {least} {self.threshold:.15g}, the threshold, not {self.clear:.15g}.",
            )
        if self.side == "either" and self.clear <= 0:
            self._refuse("clear", f"must be above 0, not {self.clear:.15g}.")

    def _check_window(self) -> None:
        if self.question == "counts":
            if self.window is not None:
                self._refuse("window", 'cannot be used with question = "counts": use "sum".')
        elif self.window is None:
            self._refuse(None, f'question = "{self.question}" needs window, a number of units.')
        if self.question in MOVES and (self.window or 0) < 2:
            self._refuse("window", "must be at least 2 units: a move is between two of them.")
        if self.question == "decay":
            if (self.gamma is None) == (self.power is None):
                self._refuse(None, 'question = "decay" needs gamma or power, one of both.')
            return
        for name in ("gamma", "power"):
            if getattr(self, name) is not None:
                self._refuse(name, 'can only be used with question = "decay".')

    def _check_conditions(self) -> None:
        if self.sure is not None:
            try:
                miss_of(exact(self.sure, name="sure"))
            except ConfigurationError as error:
                text = str(error).replace("confidence must", "must").removeprefix("sure ")
                self._refuse("sure", text if text.startswith("must") else f"is wrong: {text}")
            if self.filter is not None and (self.together or self.roll_up):
                self._refuse(
                    "sure",
                    "cannot be used with sums over keys of filtered numbers: their intervals are "
                    "not known.",
                )
        if self.units_in_a_row < 1:
            self._refuse("for", f"must be at least 1, not {self.units_in_a_row}.")

    def _check_keys(self) -> None:
        if len(set(self.keys)) != len(self.keys):
            self._refuse("keys", "must not name a key twice.")
        if self.together and self.roll_up:
            self._refuse("roll_up", "cannot stand beside together: use one of them.")
        if self.depth is not None and not self.roll_up:
            self._refuse("depth", "can only be used with roll_up.")
        if self.question not in _NUMBERS and (self.together or self.roll_up):
            self._refuse(
                "together" if self.together else "roll_up",
                f'cannot be used with question = "{self.question}", which is asked of single keys.',
            )

    def _refuse(self, parameter: str | None, message: str) -> None:
        text = message if parameter is None else f"{parameter} {message}"
        raise ConfigurationError(text, parameter=parameter)


def _finite(value: Number | None, name: str) -> float | None:
    """A threshold as a float."""
    if value is None:
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ConfigurationError(
            f"{name} must be a finite number, such as {name} = 500.", parameter=name
        )
    return number
