"""Every kind of sink by name, ours and those of other packages."""

from __future__ import annotations

from typing import Final

from penstock.core.declaration import KindRegistry
from penstock.released.sinks.base import SinkKind

SINKS: Final = KindRegistry("sink", "penstock.released.sinks", "penstock.sinks", SinkKind)
"""Each module of this package that has a `KIND`, and entry points `penstock.sinks`."""
