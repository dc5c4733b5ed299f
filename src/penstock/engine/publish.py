"""`penstock.publish`: the publisher for a notebook, with the same engine, store and promise."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from penstock.core.deprecated import renamed
from penstock.core.domain import AnyDomain, Domain
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact
from penstock.engine import factory
from penstock.engine.pipeline import AUTO, AnyMechanism, Pipeline
from penstock.engine.publication import Publication
from penstock.engine.publisher import Publisher
from penstock.private.noise import Noise
from penstock.private.sources.base import Intake
from penstock.private.sources.frame import FRAME, FrameSource, needed_columns
from penstock.private.sources.registry import SOURCES, kind_of_file

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame


@renamed(user="person", user_type="person_type")
# reason: one keyword per line
def publish(
    source: str | os.PathLike[str] | IntoFrame,
    *,
    time: str,
    key: str | tuple[str, ...],
    every: str,
    origin: str | datetime,
    domain: AnyDomain,
    mechanism: AnyMechanism | Literal["auto"] = "auto",
    epsilon: Exact | None = None,
    window: int | str | None = None,
    contribution: int = 1,
    delta: Exact | None = None,
    typical: Exact | None = None,
    seasons: Sequence[str] = (),
    sparse: bool = False,
    stock: bool = False,
    sample: str | os.PathLike[str] | None = None,
    person: str | None = None,
    until: str | datetime | None = None,
    zone: str = "UTC",
    other: str | None = None,
    name: str | None = None,
    store: str | os.PathLike[str] | None = None,
    clock: Literal["iso", "seconds", "milliseconds", "microseconds"] = "iso",
    key_type: Literal["text", "integer"] = "text",
    person_type: Literal["text", "integer"] = "text",
    missing_person: Literal["drop", "each", "refuse"] = "drop",
    noise: Noise | None = None,
    anyway: bool = False,
) -> Publication:
    """Publish a data frame or finished files of events, and return what was released.

    **The same stream published again gives the same numbers**: they are read from the store. Fresh
    noise for the same events would let anyone average the noise away.

    Parameters
    ----------
    source : path or data frame
        A Parquet, CSV or JSON lines file, or a pattern such as ``"taps/*.csv"``; or a data frame:
        Polars (also lazy), pandas, an Arrow table, a DuckDB relation. Nothing of a frame is written
        anywhere but the releases.
    time : str
        The column with the time of an event.
    key : str or tuple of str
        The column with the key; for a `Product`, one column per attribute.
    every : str
        The length of a unit, such as ``"1h"``.
    origin : str or datetime
        When unit 1 begins. It is public and never taken from the data.
    domain : Domain or list of str
        All keys. It is public and never taken from the data.
    mechanism : Mechanism or "auto"
        The mechanism, with its promise; default: "auto", what `penstock.plan` recommends from
        `typical`, `seasons`, `sparse`, `stock` and `sample`. The store keeps the first choice for
        ever.
    epsilon : int, Fraction or str, optional
        With "auto", the ε of a window; it is needed then.
    window : int or str, optional
        With "auto", the window: units, or a duration such as ``"1d"``; it is needed then.
    contribution : int
        With "auto", the most events of one person that count in one unit; default: 1.
    delta : int, Fraction or str, optional
        With "auto", the δ that a mechanism may use; default: none.
    typical : int, Fraction or str, optional
        The mean count of a key in a unit, as far as it is publicly known; default: unknown.
    seasons : sequence of str
        Durations after which the stream looks similar again; default: none.
    sparse : bool
        Whether a few keys have almost all events; default: False.
    stock : bool
        Whether counts are what is present in a unit, and not events; default: False.
    sample : path, optional
        A public file of similar events or counts, never the source; default: none.
    person : str, optional
        The column with the person; default: none, each event counts as its own person.
    until : str or datetime, optional
        When the last unit ends; default: now. It is public and never taken from the data.
    zone : str
        The time zone of units, and of times without an offset; default: "UTC".
    other : str, optional
        The key that counts events with an unknown key; default: none, they are left out.
    name : str, optional
        The name of the stream; default: the name of the file. A data frame needs one.
    store : path, optional
        The SQLite file with releases and ledger; default: NAME.db in the current folder.
    clock : {"iso", "seconds", "milliseconds", "microseconds"}
        How times are written: as text, or as numbers since 1970; default: "iso".
    key_type : {"text", "integer"}
        The type of the key column; default: "text".
    person_type : {"text", "integer"}
        The type of the person column; default: "text".
    missing_person : {"drop", "each", "refuse"}
        What happens to an event without a person: it is dropped, it counts as a person of its own
        (the promise then says so), or an `UnreadableRowsError` is raised; default: "drop".
    noise : Noise, optional
        Noise for tests; default: secure noise.
    anyway : bool
        Whether to publish although fewer than half of the rows of a sample can be taken; default:
        False, which is an `UnreadableRowsError` and releases nothing.

    Returns
    -------
    Publication
        The releases, to look at and to query.

    Examples
    --------
    >>> import tempfile, penstock as ps
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "taps.csv").write_text(
    ...     "ts,station\\n2026-01-01T00:10Z,north\\n2026-01-01T01:20Z,south\\n"
    ... )
    >>> stream = ps.publish(
    ...     folder / "taps.csv", time="ts", key="station", every="1h", origin="2026-01-01",
    ...     until="2026-01-01T03:00Z", mechanism=ps.Laplace(epsilon="1"),
    ...     domain=["north", "south"], store=folder / "taps.db",
    ... )
    >>> stream
    <Publication 'taps': 3 units of 1h over 2 keys, Guarantee(epsilon=1, window=1)>
    >>> stream.verify().account.worst
    Fraction(1, 1)

    A data frame needs a name:

    >>> import polars as pl
    >>> ps.publish(
    ...     pl.read_csv(folder / "taps.csv"), name="frame", time="ts", key="station", every="1h",
    ...     origin="2026-01-01", until="2026-01-01T03:00Z", mechanism=ps.Laplace(epsilon="1"),
    ...     domain=["north", "south"], store=folder / "frame.db",
    ... )
    <Publication 'frame': 3 units of 1h over 2 keys, Guarantee(epsilon=1, window=1)>
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        origin_of_events = {"kind": _kind(path), "path": _absolute(path)}
        title = name or path.stem.replace("*", "").strip("._-") or "stream"
    else:
        origin_of_events = {"kind": FRAME.name}
        title = _name_of_a_frame(name)
        until = datetime.now(UTC) if until is None else until
    declared = Domain.of(domain)
    if other is not None and other not in declared.keys:
        raise ConfigurationError(
            f"other must be a key of the domain, such as {declared.keys[0]!r}, not {other!r}.",
            parameter="other",
        )
    stream = {"name": title, "every": every, "zone": zone, "origin": _text(origin)}
    columns = {"time": time, "key": key, "clock": clock}
    columns |= {"key_type": key_type, "person_type": person_type}
    columns |= {"missing_person": missing_person}
    promise = {"epsilon": epsilon, "window": window, "delta": delta}
    known: dict[str, Any] = {"typical": typical, "seasons": list(seasons) or None}
    known |= {"sparse": sparse or None, "stock": stock or None}
    known |= {"sample": None if sample is None else _absolute(sample)}
    if mechanism != AUTO:
        _refuse_beside_a_mechanism(promise | known)
    pipeline = Pipeline.of(
        {
            "stream": stream | ({} if until is None else {"until": _text(until)}),
            "source": origin_of_events | columns | ({} if person is None else {"person": person}),
            "domain": declared,
            "privacy": promise | {"mechanism": AUTO, "contribution": contribution}
            if mechanism == AUTO
            else mechanism,
            "plan": known,
            "store": {"path": _absolute(f"{title}.db" if store is None else store)},
        }
    )
    pipeline = replace(pipeline, other=other)
    events = None
    if not isinstance(source, (str, os.PathLike)):
        wanted = pipeline.source.columns
        intake = Intake(columns=wanted, domain=declared, other=other)
        events = FrameSource(table=needed_columns(source, wanted), intake=intake)
    with Publisher(pipeline, source=events, noise=lambda: noise, anyway=anyway) as publisher:
        publisher.run()
    return Publication(factory.reader(pipeline), pipeline.series())


def _name_of_a_frame(name: str | None) -> str:
    if name is None:
        raise ConfigurationError(
            'name must be given with a data frame, such as name="taps": releases and ledger are '
            "kept under it.",
            parameter="name",
        )
    return name


def _kind(path: Path) -> str:
    kind = kind_of_file(path.name)
    if kind is None:
        endings = ", ".join(end for each in SOURCES.own.values() for end in each.suffixes)
        raise ConfigurationError(
            f"source must be a file or a pattern that ends in {endings}, not {path.name!r}.",
            parameter="source",
        )
    return kind


def _absolute(path: str | os.PathLike[str]) -> str:
    return str(Path(path).absolute())


def _refuse_beside_a_mechanism(given: Mapping[str, Any]) -> None:
    """Refuse what only `auto` can use."""
    for name, value in given.items():
        if value is not None:
            raise ConfigurationError(
                f'{name} is for mechanism="auto": a mechanism that is given has its own promise.',
                parameter=name,
            )


def _text(moment: str | datetime) -> str:
    return moment if isinstance(moment, str) else moment.isoformat()
