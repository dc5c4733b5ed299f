"""Verifies every ledger in the background, again and again as units come."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from penstock.budget.accountant import Account
from penstock.budget.grid import promised
from penstock.core.errors import LedgerError, PenstockError
from penstock.engine.sql_store import SqlReader
from penstock.engine.store import VerifiedLedger

MIN_PAUSE_SECONDS = 1.0
PAUSE_PER_SECOND = 20.0
"""After a verification, the next waits this many times as long as it took. So it uses little of a
core, however long the history is."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The newest result of verifying one ledger.

    Parameters
    ----------
    state : "verified", "running", "failed" or "never"
        What is known: "running" is the first verification.
    unit : int
        The newest unit that was verified. Default: 0, none.
    checked_at : datetime, optional
        When it was done. Default: never.
    found : VerifiedLedger, optional
        The result. Default: none.
    problem : str, optional
        What is wrong. Default: nothing.
    """

    state: Literal["verified", "running", "failed", "never"] = "never"
    unit: int = 0
    checked_at: datetime | None = None
    found: VerifiedLedger | None = None
    problem: str | None = None

    @property
    def account(self) -> Account | None:
        """The cost of every window."""
        return None if self.found is None else self.found.account

    def content(self) -> dict[str, Any]:
        """The result as JSON."""
        found = self.found
        key = None if found is None else found.signed_by
        return {
            "state": self.state,
            "unit": self.unit or None,
            "checked_at": None
            if self.checked_at is None
            else self.checked_at.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "kept": None if found is None else found.account.kept,
            "highest": None if found is None else str(found.account.worst),
            "limit": None if found is None else str(promised(found.account.guarantee).amount),
            "links": None if found is None else found.links,
            "signed_from": None if found is None else found.signed_from,
            "public_key": None if key is None else key.fingerprint,
            "problem": self.problem,
        }


class Verifier:
    """Verifies the ledgers of one store, in a thread of its own.

    Parameters
    ----------
    open_store : callable
        Opens a connection for it alone.
    heads : callable
        Gives the newest served unit of every series, by name.
    """

    def __init__(
        self, open_store: Callable[[], SqlReader], heads: Callable[[], dict[str, int]]
    ) -> None:
        self._open, self._heads = open_store, heads
        self._found: dict[str, Verification] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-verify", daemon=True)

    def of(self, series: str) -> Verification:
        """The newest result of a series.

        Parameters
        ----------
        series : str
            Its name.
        """
        return self._found.get(series, Verification())

    def forget(self, series: str) -> None:
        """Verify a series from its beginning, because its history is another one.

        Parameters
        ----------
        series : str
            Its name.
        """
        self._found.pop(series, None)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End after the series that is being verified."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(5)

    def _run(self) -> None:
        try:
            with self._open() as reader:
                while not self._closing.is_set():
                    started = time.monotonic()
                    reader.refresh()
                    for name, unit in self._heads().items():
                        known = self.of(name)
                        if known.state == "never" or unit > known.unit:
                            self._verify(reader, name)
                    spent = time.monotonic() - started
                    self._closing.wait(max(MIN_PAUSE_SECONDS, PAUSE_PER_SECOND * spent))
        except PenstockError as error:
            _log.error("service: ledgers are not verified (%s).", type(error).__name__)

    def _verify(self, reader: SqlReader, name: str) -> None:
        known = self.of(name)
        if known.state == "never":
            self._found[name] = Verification(state="running")
        try:
            found = reader.verify(name)
        except LedgerError as error:
            _log.error("service: the ledger of %r is not valid: %s", name, error)
            self._found[name] = Verification(
                state="failed",
                unit=known.unit,
                checked_at=datetime.now(UTC),
                problem=str(error),
            )
        except PenstockError as error:
            _log.warning("service: the ledger of %r was not verified: %s", name, error)
            self._found[name] = known
        else:
            self._found[name] = Verification(
                state="verified",
                unit=found.head.unit,
                checked_at=datetime.now(UTC),
                found=found,
            )
