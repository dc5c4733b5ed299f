"""`AlertSender`: posts the alerts of one rule to its address, and again after an outage."""

from __future__ import annotations

from penstock.core.errors import PenstockError
from penstock.engine.notices import Level, Notifier
from penstock.engine.store import Store
from penstock.engine.waiting import Backoff, Runtime
from penstock.released.alerting import AlertRule
from penstock.released.alerting.alert_document import alerts_document, idempotency_key
from penstock.released.series import Series
from penstock.released.sinks.base import SinkError
from penstock.released.sinks.http_post import HttpPoster

MAX_ALERTS_PER_REQUEST = 1_000

RETRY_SECONDS = (0.5, 60.0)
"""The first and the longest pause before an address that failed is tried again."""


class AlertSender:
    """Posts the alerts of one rule, in a thread of its own. Nobody else waits for the receiver.

    A request has alerts of one unit. The store is told after the receiver has taken them. A crash
    in between repeats the request with the same idempotency key and the same body.

    Parameters
    ----------
    rule : AlertRule
        The rule.
    series : Series
        The series that it watches.
    poster : HttpPoster
        The address.
    store : Store
        The store, which has the alerts.
    notify : Notifier
        Hears of problems.
    runtime : Runtime
        Gives time and threads.
    """

    def __init__(
        self,
        rule: AlertRule,
        series: Series,
        poster: HttpPoster,
        store: Store,
        *,
        notify: Notifier,
        runtime: Runtime,
    ) -> None:
        self.problem = ""
        self._rule = rule
        self._series = series
        self._poster = poster
        self._store = store
        self._notify = notify
        self._more = runtime.event()
        self._ending = runtime.event()
        self._thread = runtime.thread(self._work, name=f"alert {rule.name}")

    def start(self) -> None:
        """Begin to send the alerts that the receiver lacks."""
        self._more.set()
        self._thread.start()

    def wake(self) -> None:
        """Say that there are new alerts in the store."""
        self._more.set()

    @property
    def ended(self) -> bool:
        """Whether nothing is being sent, and nothing will be."""
        return not self._thread.is_alive()

    def end(self) -> None:
        """Begin nothing after the alerts that are left."""
        self._ending.set()
        self._more.set()

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, for at most this long."""
        self._thread.join(seconds)

    def interrupt(self) -> None:
        """End a request under way."""
        self._poster.interrupt()

    def _work(self) -> None:
        backoff = Backoff(*RETRY_SECONDS)
        while True:
            self._more.wait()
            self._more.clear()
            try:
                while self._send():
                    backoff.reset()
            except Exception as error:  # the receiver, or an unavailable store
                self._report(error)
                asked = error.after if isinstance(error, SinkError) else None
                if self._ending.wait(max(asked or 0, backoff.next_pause())):
                    return
                self._more.set()
                continue
            if self.problem:
                self.problem = ""
                self._tell(f"alert {self._rule.name!r}: the receiver is back.", "info")
            if self._ending.is_set() and not self._more.is_set():
                return

    def _send(self) -> bool:
        """Send the next alerts, all of one unit; return whether there were any."""
        name, series = self._rule.name, self._series.name
        sent, events = self._store.unsent_alerts(series, name, MAX_ALERTS_PER_REQUEST)
        if not events:
            return False
        first = sent + 1
        self._poster.post(
            alerts_document(series, events, first, self._series.calendar),
            key=idempotency_key(series, events[0], first),
            where=f"alerts of unit {events[0].unit}",
        )
        self._store.mark_alerts_sent(series, name, sent + len(events))
        return True

    def _report(self, error: Exception) -> None:
        """Tell of a problem once. Texts of errors that are not ours may quote anything."""
        known = isinstance(error, PenstockError)
        problem = str(error) if known else f"an unexpected error ({type(error).__name__})."
        if problem != self.problem:
            self.problem = problem
            self._tell(f"alert {self._rule.name!r}: {problem}", "warning")

    def _tell(self, text: str, level: Level) -> None:
        self._notify("alert", text, series=self._series.name, level=level)
