"""Files of the folder of data: the missing ones, and the contents of the others."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from penstock.core.errors import ConfigurationError
from penstock_bench.public_data import folder


def absent(names: tuple[str, ...]) -> str | None:
    """Why these files cannot be read here; None if they can.

    >>> absent(())
    >>> absent(("no_such_file.parquet",))
    '...no_such_file.parquet... into ../shared/data or set PENSTOCK_DATA to the folder'
    """
    where = folder()
    lacking = [name for name in names if where is None or not (where / name).is_file()]
    if lacking:
        one = len(lacking) == 1
        what = (
            f"{'the file' if one else 'the files'} {', '.join(lacking)} {'is' if one else 'are'} "
            "not there"
        )
        named = os.environ.get("PENSTOCK_DATA")
        if named:
            return f"{what} in the folder that PENSTOCK_DATA names" + (
                "" if where else ", which does not exist"
            )
        return (
            f"{what}: put {'it' if one else 'them'} into ../shared/data or set PENSTOCK_DATA to "
            "the folder"
        )
    return None


def table(name: str, *columns: str) -> Any:
    """Columns of a Parquet file of the folder. Default: all."""
    why = absent((name,))
    if why is not None:
        raise ConfigurationError(f"{why}.")
    parquet: Any = import_module("pyarrow.parquet")
    where = folder()
    assert where is not None
    return parquet.read_table(where / name, columns=list(columns) or None)


def plain(name: str | None, *, otherwise: str = "") -> str:
    """A name for a hierarchy's path: without slashes, and `otherwise` if it would be empty.

    >>> plain(" Kailua/Kona "), plain(None, otherwise="elsewhere")
    ('Kailua-Kona', 'elsewhere')
    """
    return (name or "").replace("/", "-").strip() or otherwise


def text(name: str) -> str:
    """A text file of the folder; empty if it does not exist."""
    where = folder()
    if where is None or not (where / name).is_file():
        return ""
    return (where / name).read_text(encoding="utf-8").strip()
