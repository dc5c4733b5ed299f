"""A lock that lets one process on this machine publish a stream of a SQLite store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from penstock.core.errors import StateError
from penstock.core.files import open_locked
from penstock.engine.store import LeaseError


class ProcessLock:
    """A locked file beside the store. The lock ends with its process, also after a crash.

    So whoever gets the lock may take over a lease that has not expired: its holder is dead.
    """

    def __init__(self, store: Path, stream: str) -> None:
        store = store.resolve()
        path = store.with_name(f"{store.name}-{stream.replace('/', '-')}.lock")
        try:
            self._file = open_locked(path)
        except BlockingIOError:
            raise LeaseError(
                f"stream {stream!r} is being published by another process. Two publishers would "
                "release a unit twice, so nothing was published. Stop the other one first."
            ) from None
        except OSError as error:
            raise StateError(
                f"the lock {path.name} cannot be made beside the store: {error.strerror}."
            ) from None

    def close(self) -> None:
        """Let another process publish."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
