"""Which store a verb is about: a SQLite file, a PostgreSQL address, or what a pipeline's
configuration names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from penstock.core.errors import ConfigurationError
from penstock.engine import factory
from penstock.engine.config_sections import nearest
from penstock.engine.pipeline import Pipeline
from penstock.engine.sqlite import SQLiteReader
from penstock.engine.store import Reader

PASSWORD = "PGPASSWORD"  # noqa: S105 - the name of a variable
"""The environment variable that has the password where an address stands for the store."""

_ADDRESSES = ("postgresql://", "postgres://")


def open_store(where: str) -> Reader:
    """A store for reading, without what is secret in it: a path, postgresql://…, or a .toml whose
    store it is.
    """
    if is_address(where):
        return _postgres(where)
    if not configures(where):
        return SQLiteReader(where)
    pipeline = read_pipeline(where)
    path = pipeline.store.path
    if path is not None and not pipeline.path(path).exists():
        raise ConfigurationError(f"there is no store {path!r} yet: penstock run {where} makes it.")
    return factory.reader(pipeline)


def read_pipeline(where: str | Path) -> Pipeline:
    """A pipeline's configuration; mechanisms of modules in the current directory are within reach."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    return Pipeline.read(where)


def is_address(where: str) -> bool:
    """Whether this is the address of a database."""
    return where.startswith(_ADDRESSES)


def configures(where: str) -> bool:
    """Whether this names a pipeline's configuration."""
    return where.endswith(".toml")


def _postgres(url: str) -> Reader:
    try:
        parts = urlsplit(url)
        told = parts.password is not None or any(
            "password" in name for name, _ in parse_qsl(parts.query)
        )
    except ValueError:
        raise ConfigurationError(
            "this is no address of a database: it must be like postgresql://reader@host/name."
        ) from None
    if told:
        raise ConfigurationError(
            f"a password does not belong on the command line, where others can see it: put it into {PASSWORD}."
        )
    from penstock.engine.postgres import PostgresReader  # an optional dependency

    return PostgresReader(url, password=os.environ.get(PASSWORD))


def chosen(names: Iterable[str], stream: str | None, *, what: str = "stream") -> str:
    """The one that is meant: the one named, or the only one."""
    names = tuple(names)
    if stream is not None:
        if stream not in names:
            raise ConfigurationError(
                f"there is no {what} {stream!r} here: {_listed(names)}.{nearest(stream, names)}"
            )
        return stream
    if len(names) != 1:
        raise ConfigurationError(
            f"which {what}? {_listed(names)}: choose one with --stream."
            if names
            else "the store is empty."
        )
    return names[0]


def _listed(names: tuple[str, ...]) -> str:
    return f"it has {', '.join(names)}" if names else "the store is empty"
