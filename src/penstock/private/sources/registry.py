"""Every kind of source by name, ours and those of other packages."""

from __future__ import annotations

from typing import Final

from penstock.core.declaration import KindRegistry
from penstock.private.sources.base import SourceKind

SOURCES: Final = KindRegistry("source", "penstock.private.sources", "penstock.sources", SourceKind)
"""Each module of this package that has a `KIND`, and entry points `penstock.sources`."""


def kind_of_file(name: str) -> str | None:
    """The kind of source that reads files with this ending; None if there is none.

    >>> kind_of_file("taps/*.csv"), kind_of_file("localhost:9092")
    ('csv', None)
    """
    kinds = SOURCES.own.values()
    return next((kind.name for kind in kinds if name.endswith(kind.suffixes or ("\0",))), None)
