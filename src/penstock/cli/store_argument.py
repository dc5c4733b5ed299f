"""The STORE argument of a verb: a SQLite file, a PostgreSQL address, or a pipeline file."""

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
"""The environment variable with the password of a PostgreSQL address."""

_ADDRESSES = ("postgresql://", "postgres://")


def open_store(where: str) -> Reader:
    """Open the public part of a store: a path, postgresql://…, or a pipeline's .toml file."""
    if is_address(where):
        return _postgres(where)
    if not configures(where):
        return SQLiteReader(where)
    pipeline = read_pipeline(where)
    path = pipeline.store.path
    if path is not None and not pipeline.path(path).exists():
        store = pipeline.path(path).absolute()
        raise ConfigurationError(f"there is no store {store} yet: penstock run {where} makes it.")
    return factory.reader(pipeline)


def read_pipeline(where: str | Path) -> Pipeline:
    """Read a pipeline file; modules in the current directory may define its mechanisms."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    return Pipeline.read(where)


def is_address(where: str) -> bool:
    """Whether this is the address of a database."""
    return where.startswith(_ADDRESSES)


def configures(where: str) -> bool:
    """Whether this names a pipeline file."""
    return where.endswith(".toml")


def _postgres(url: str) -> Reader:
    try:
        parts = urlsplit(url)
        told = parts.password is not None or any(
            "password" in name for name, _ in parse_qsl(parts.query)
        )
    except ValueError:
        raise ConfigurationError(
            "the address of a database must be like postgresql://reader@host/name."
        ) from None
    if told:
        raise ConfigurationError(
            "a password does not belong on the command line, where others can see it: put it into "
            f"{PASSWORD}."
        )
    from penstock.engine.postgres import PostgresReader  # an optional dependency

    return PostgresReader(url, password=os.environ.get(PASSWORD))


def chosen(names: Iterable[str], stream: str | None, *, what: str = "stream") -> str:
    """The name that was chosen; without a choice, the only one."""
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
