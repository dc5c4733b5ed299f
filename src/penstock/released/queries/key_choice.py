"""Which keys a query is about, and how they are added up."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.core.errors import ConfigurationError
from penstock.core.product import SEPARATOR, Product
from penstock.released.log import Log
from penstock.released.queries.aggregate import Aggregate, Everything
from penstock.released.queries.query import NumberQuery, key_places
from penstock.released.queries.ranges import Range
from penstock.released.queries.rectangle import Rectangle
from penstock.released.queries.refusal import Spelling, as_flag, refuse
from penstock.released.queries.roll_up import RollUp
from penstock.released.queries.where import Chosen, Where, product_of


@dataclass(frozen=True)
class KeyChoice:
    """The options that choose keys or add them up.

    Parameters
    ----------
    key : tuple of str
        The keys to show, or to add up with `together`. Default: all.
    together : bool
        Whether the chosen keys, or all keys, are added up. Default: False.
    range_ : tuple of str, optional
        The first and the last key of a range to add up. Default: none.
    where : tuple of str
        Conditions on attributes, such as "age=20..39", whose keys are added up. Default: none.
    rectangle : str, optional
        Two corners of a grid, "x,y:x,y", whose cells are added up. Default: none.
    grid : str, optional
        The rows and columns of the grid, such as "10x20". Default: as the keys say.
    roll_up : bool
        Whether every node of the hierarchy is answered. Default: False.
    depth : int, optional
        With `roll_up`, one level only. Default: all.
    spelling : callable
        How options are written in messages. Default: as on a command line.

    Examples
    --------
    >>> KeyChoice(key=("Harbour", "Market"), together=True).sums
    1
    """

    key: tuple[str, ...] = ()
    together: bool = False
    range_: tuple[str, str] | None = None
    where: tuple[str, ...] = ()
    rectangle: str | None = None
    grid: str | None = None
    roll_up: bool = False
    depth: int | None = None
    spelling: Spelling = field(default=as_flag, kw_only=True, repr=False)

    def refuse_without_question(self) -> None:
        """Refuse every option of this group."""
        given = {name: value for name, value in vars(self).items() if name != "spelling"}
        refuse(None, self.spelling, **given)

    def refuse_sums(self, question: str) -> None:
        """Refuse everything that adds up keys, for a question about single keys."""
        if self.sums or self.grid is not None or self.depth is not None:
            raise ConfigurationError(
                f"{question} is asked of single keys: choose some with {self.spelling('key')}."
            )

    @property
    def sums(self) -> int:
        """How many of the options that add up keys were given."""
        return sum(
            bool(way)
            for way in (self.together, self.range_, self.where, self.rectangle, self.roll_up)
        )

    def summed(self, inner: NumberQuery, log: Log) -> NumberQuery:
        """The query over the sums that these options ask for."""
        self._check()
        if self.together:
            return Aggregate(self.key, of=inner) if self.key else Everything(of=inner)
        if self.range_ is not None:
            return Range(*self.range_, of=inner)
        if self.where:
            return Where(_attributes(self.where, product_of(log), self.spelling), of=inner)
        if self.rectangle is not None:
            first, last = _corners(self.rectangle, self.spelling)
            shape = (
                None if self.grid is None else _pair(self.grid, "x", self.spelling("grid"), "10x20")
            )
            return Rectangle(first, last, shape=shape, of=inner)
        return RollUp(of=inner, depth=self.depth) if self.roll_up else inner

    def _check(self) -> None:
        spelled = self.spelling
        if self.sums > 1:
            raise ConfigurationError(
                f"{spelled('together')}, {spelled('range')}, {spelled('where')}, "
                f"{spelled('rectangle')} and {spelled('roll_up')} exclude each other."
            )
        if self.depth is not None and not self.roll_up:
            raise ConfigurationError(
                f"{spelled('depth')} can only be used with {spelled('roll_up')}."
            )
        if self.grid is not None and self.rectangle is None:
            raise ConfigurationError(
                f"{spelled('grid')} can only be used with {spelled('rectangle')}."
            )
        if self.key and self.sums and not self.together:
            raise ConfigurationError(
                f"{spelled('key')} cannot be used here: it chooses keys to show, or to add up with "
                f"{spelled('together')}."
            )

    def shown(self, log: Log) -> tuple[str, ...] | None:
        """The keys that `key` chooses to show; None for all."""
        if not self.key or self.together:
            return None
        key_places(log, self.key, name=self.spelling("key"))
        return self.key


def _attributes(texts: tuple[str, ...], domain: Product, spelling: Spelling) -> dict[str, Chosen]:
    """What `where` chooses of each attribute. A text that is a value means that value."""
    option = spelling("where")
    values, chosen = dict(domain.attributes), dict[str, Chosen]()
    for text in texts:
        name, equals, what = text.partition("=")
        if not equals or not what:
            raise ConfigurationError(
                f"{option} must be like age=20..39, sex=f or region=north,west, not {text!r}."
            )
        if name in chosen:
            raise ConfigurationError(
                f"{option} must not name {name!r} twice: write values with ',' between them."
            )
        first, dots, last = what.partition("..")
        if what in values.get(name, ()):
            chosen[name] = what
        else:
            chosen[name] = (first or None, last or None) if dots else what.split(SEPARATOR)
    return chosen


def _pair(text: str, between: str, option: str, example: str) -> tuple[int, int]:
    try:
        first, last = (int(part) for part in text.split(between))
    except ValueError:
        raise ConfigurationError(f"{option} must be like {example}, not {text!r}.") from None
    return first, last


def _corners(text: str, spelling: Spelling) -> tuple[tuple[int, int], tuple[int, int]]:
    option, example = spelling("rectangle"), "0,0:3,4"
    parts = text.split(":")
    if len(parts) != 2:
        raise ConfigurationError(f"{option} must be like {example}, not {text!r}.")
    return _pair(parts[0], ",", option, example), _pair(parts[1], ",", option, example)
