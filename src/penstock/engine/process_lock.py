"""That only one process on this machine publishes a stream of an embedded store: known at once,
also after a crash.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from penstock.core.errors import StateError
from penstock.core.files import open_locked
from penstock.engine.store import LeaseError


class ProcessLock:
    """A lock beside the store that its holder cannot forget to give back: it is gone when the
    process is.

    Who has it may take over a lease that has not expired yet, as its holder is dead.
    """

    def __init__(self, store: Path, stream: str) -> None:
        store = store.resolve()
        path = store.with_name(f"{store.name}-{stream.replace('/', '-')}.lock")
        try:
            self._file = open_locked(path)
        except BlockingIOError:
            raise LeaseError(
                f"stream {stream!r} is being published by another process: two publishers would release a unit twice. "
                "Stop that one first."
            ) from None
        except OSError as error:
            raise StateError(
                f"{path.name} cannot be made beside the store: {error.strerror}."
            ) from None

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
