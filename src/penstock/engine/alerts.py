"""Alerts of a publisher: rules are applied to each new unit, and alerts are logged and sent.

Nothing here is needed to publish. The rules follow the store in a thread of their own, and each
address has another one. What a rule has seen and raised stands in the store. A restart goes on from
there, and gives the alerts that would have come without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from penstock.core.errors import PenstockError
from penstock.engine import factory
from penstock.engine.alert_sender import AlertSender
from penstock.engine.deliveries import END_SECONDS, INTERRUPT_SECONDS, wait_for
from penstock.engine.notices import Level, Notifier
from penstock.engine.pipeline import Pipeline
from penstock.engine.store import SeriesLog, Store
from penstock.engine.waiting import Backoff, StopFlag
from penstock.released.alerting import AlertEvent, AlertRule, RuleProgress, evaluate
from penstock.released.alerting.evaluation import AlertState, units_needed
from penstock.released.log import Log
from penstock.released.recent_log import RecentLog
from penstock.released.release_filter import FilterChoice
from penstock.released.series import Series

MAX_UNITS_PER_STEP = 100

RETRY_SECONDS = (0.5, 60.0)
"""The first and the longest pause before a rule that failed is applied again."""

_MAX_KEYS_LOGGED = 5
"""The most keys of one unit that a log entry names."""


@dataclass(eq=False)
class WatchedRule:
    """A rule at work: how far it has come, and who sends its alerts."""

    rule: AlertRule
    log: Log
    progress: RuleProgress
    sender: AlertSender | None = None
    problem: str = field(default="", repr=False)


class AlertWatch:
    """Applies the rules of one stream to each new unit, in a thread of its own.

    Parameters
    ----------
    pipeline : Pipeline
        The configuration.
    store : Store
        The store.
    series : sequence of Series
        The series of all views.
    notify : Notifier
        Hears of alerts and problems.
    stop : StopFlag
        Whether the publisher was asked to stop. It gives time and threads.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        store: Store,
        series: Sequence[Series],
        *,
        notify: Notifier,
        stop: StopFlag,
    ) -> None:
        self.rules: list[WatchedRule] = []
        self._pipeline = pipeline
        self._store = store
        self._series = {each.name: each for each in series}
        self._notify = notify
        self._stop = stop
        self._problem = ""
        self._more = stop.runtime.event()
        self._ending = stop.runtime.event()
        self._thread = stop.runtime.thread(self._work, name="alerts")
        self._started = False
        self._posters = {
            (alert.rule.series, alert.rule.name): factory.alert_poster(alert, pipeline)
            for alert in pipeline.alerts
            if alert.posts
        }

    # -- beginning ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Go on from what the store has, and begin to apply the rules.

        A new rule begins with the next unit. A changed one goes on after the newest unit that it
        has seen, with no key raised. The keys of a changed or removed rule are cleared.
        """
        logs = self._logs()
        for name in self._series:
            own = {
                alert.rule.name: alert.rule
                for alert in self._pipeline.alerts
                if alert.rule.series == name
            }
            self._begin(name, own, logs)
        if not self.rules:
            return
        for each in self.rules:
            if each.sender is not None:
                each.sender.start()
        self._started = True
        self._more.set()
        self._thread.start()

    def _logs(self) -> dict[tuple[str, FilterChoice | None], Log]:
        """The log of each series and filter that is watched, with as many units as rules need."""
        needed: dict[tuple[str, FilterChoice | None], int] = {}
        for alert in self._pipeline.alerts:
            place = alert.rule.series, alert.rule.filter
            needed[place] = max(needed.get(place, 0), units_needed(alert.rule))
        found = {}
        for alert in self._pipeline.alerts:
            place = alert.rule.series, alert.rule.filter
            if place not in found:
                log = alert.rule.watched(SeriesLog(self._store, alert.rule.series))
                found[place] = RecentLog(log, needed[place] + MAX_UNITS_PER_STEP)
        return dict(found)

    def _begin(
        self,
        series: str,
        own: dict[str, AlertRule],
        logs: dict[tuple[str, FilterChoice | None], Log],
    ) -> None:
        """Bring the store's state of the rules of a series to what the pipeline says."""
        newest = self._store.head(series).unit
        known = {each.rule: each for each in self._store.alert_rules(series)}
        changes: list[tuple[RuleProgress, Sequence[AlertEvent]]] = []
        for name, rule in own.items():
            before = known.get(name)
            change = _begun(rule, before, newest)
            if change[0] != before:
                changes.append(change)
            watched = WatchedRule(rule, logs[series, rule.filter], change[0])
            watched.sender = self._sender(rule)
            self.rules.append(watched)
        removed = [each for name, each in known.items() if name not in own and each.about]
        changes += [_ended(each, about="") for each in removed]
        if changes:
            self._store.record_alerts(series, changes)
        for progress, events in changes:
            self._log(series, events)
            if not progress.about:  # there is no address any more
                self._store.mark_alerts_sent(series, progress.rule, progress.number)

    def _sender(self, rule: AlertRule) -> AlertSender | None:
        poster = self._posters.get((rule.series, rule.name))
        if poster is None:
            return None
        return AlertSender(
            rule,
            self._series[rule.series],
            poster,
            self._store,
            notify=self._notify,
            runtime=self._stop.runtime,
        )

    # -- working -----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Say that there are new units in the store."""
        self._more.set()

    def _work(self) -> None:
        backoff = Backoff(*RETRY_SECONDS)
        while True:
            self._more.clear()
            good = self._advance_all()
            if self._ending.is_set() and not self._more.is_set():
                break
            if good:
                backoff.reset()
                self._more.wait()
            else:
                self._more.wait(backoff.next_pause())
        for sender in self._senders():
            sender.end()

    def _advance_all(self) -> bool:
        """Apply all rules to all new units; return whether each rule could be applied."""
        for series in self._series:
            rules = [each for each in self.rules if each.rule.series == series]
            while rules and not self._hurried and self._advance(series, rules):
                pass
        return not self._problem and not any(each.problem for each in self.rules)

    @property
    def _hurried(self) -> bool:
        """Whether the publisher was stopped: what is left is done at the next start."""
        return self._ending.is_set() and self._stop.is_set()

    def _advance(self, series: str, rules: Sequence[WatchedRule]) -> bool:
        """Apply the rules of a series to its next units; return whether there may be more."""
        try:
            newest = self._store.head(series).unit
            found = [(each, *change) for each in rules if (change := self._applied(each, newest))]
            if found:
                self._store.record_alerts(series, [(state, events) for _, state, events in found])
        except Exception as error:  # the store may be unavailable
            self._problem = self._told(f"alerts of {series!r}", error, self._problem, series)
            return False
        self._problem = ""
        for each, progress, events in found:
            each.progress = progress
            self._log(series, events)
            if events and each.sender is not None:
                each.sender.wake()
        return bool(found)

    def _applied(
        self, each: WatchedRule, newest: int
    ) -> tuple[RuleProgress, Sequence[AlertEvent]] | None:
        """How far a rule comes with its next units; None if there are none, or if it fails.

        A rule that fails does not keep others from going on.
        """
        progress = each.progress
        last = min(newest, progress.unit + MAX_UNITS_PER_STEP)
        if progress.unit >= last:
            return None
        try:
            units = range(progress.unit + 1, last + 1)
            found = evaluate(each.rule, each.log, units, progress.raised)
        except Exception as error:  # a log that cannot answer, or an unavailable store
            what = f"alert {each.rule.name!r}"
            each.problem = self._told(what, error, each.problem, each.rule.series)
            return None
        if each.problem:
            each.problem = ""
            text = f"alert {each.rule.name!r} is watched again."
            self._notify("alert", text, series=each.rule.series)
        number = progress.number + len(found.events)
        return replace(progress, unit=last, number=number, raised=found.raised), found.events

    # -- ending ------------------------------------------------------------------------------------

    def _senders(self) -> Iterator[AlertSender]:
        return (each.sender for each in self.rules if each.sender is not None)

    @property
    def ended(self) -> bool:
        """Whether no rule is being applied, and none will be."""
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Wait until the rules have ended, for at most this long."""
        if self._started:
            self._thread.join(seconds)

    def ask_to_end(self) -> None:
        """Begin nothing after the units and alerts that are left."""
        self._ending.set()
        self._more.set()

    def finish(self, seconds: float) -> bool:
        """Apply the rules to all units and send all alerts, for at most this long and not much
        longer than a stop; return whether that is done.
        """
        if not self._started:
            return True
        self.ask_to_end()
        wait_for([self, *self._senders()], seconds, self._stop)
        problems = [self._problem, *(each.problem for each in self.rules)]
        problems += [sender.problem for sender in self._senders()]
        ended = self.ended and all(sender.ended for sender in self._senders())
        return ended and not any(problems)

    def end(self) -> None:
        """End all. A request under way gets a little time, and is then interrupted."""
        if not self._started:
            return
        self.ask_to_end()
        self._ending_senders()
        wait_for([self, *self._senders()], END_SECONDS, self._stop)
        for sender in self._senders():
            sender.interrupt()
        wait_for([self, *self._senders()], INTERRUPT_SECONDS, self._stop)

    def _ending_senders(self) -> None:
        for sender in self._senders():
            sender.end()

    # -- telling -----------------------------------------------------------------------------------

    def _log(self, series: str, events: Sequence[AlertEvent]) -> None:
        """One log entry per unit and state: released numbers only."""
        for (unit, state), some in groupby(
            sorted(events, key=lambda event: (event.unit, event.state == "raised")),
            key=lambda event: (event.unit, event.state),
        ):
            text = alert_text(state, list(some))
            level: Level = "warning" if state == "raised" else "info"
            self._notify("alert", text, series=series, unit=unit, level=level)

    def _told(self, what: str, error: Exception, before: str, series: str) -> str:
        """Tell of a problem once, and return it.

        Texts of errors that are not ours may quote anything.
        """
        known = isinstance(error, PenstockError)
        problem = str(error) if known else f"an unexpected error ({type(error).__name__})."
        if problem != before:
            self._notify("alert", f"{what}: {problem}", series=series, level="warning")
        return problem


def _begun(
    rule: AlertRule, before: RuleProgress | None, newest: int
) -> tuple[RuleProgress, Sequence[AlertEvent]]:
    """The state from which a rule goes on, and the keys that are cleared because it changed."""
    if before is None:
        return RuleProgress(rule=rule.name, about=rule.about, since=newest + 1, unit=newest), ()
    if before.about == rule.about:
        return before, ()
    if not before.about:  # it was removed, and is there again
        return replace(before, about=rule.about, since=newest + 1, unit=newest), ()
    progress, events = _ended(before, about=rule.about)
    return replace(progress, since=before.unit + 1), events


def _ended(before: RuleProgress, *, about: str) -> tuple[RuleProgress, Sequence[AlertEvent]]:
    """The state of a rule whose definition does not hold any more, and its keys, cleared."""
    events = [
        AlertEvent(rule=before.rule, unit=before.unit, key=key, state="cleared")
        for key in before.raised
    ]
    return replace(before, about=about, number=before.number + len(events), raised=()), events


def alert_text(state: AlertState, events: Sequence[AlertEvent]) -> str:
    """Alerts of one rule, unit and state in words.

    Parameters
    ----------
    state : "raised" or "cleared"
        What happened.
    events : sequence of AlertEvent
        The alerts.

    Examples
    --------
    >>> alert_text("raised", [AlertEvent(rule="busy", unit=2, key="north", state="raised",
    ...     estimate=512.0, low=498.0, high=526.0, threshold=500.0)])
    "'busy' raised: north 512 (498 to 526); the threshold is 500."
    """
    first, keys = events[0], ", ".join(_key_text(event) for event in events[:_MAX_KEYS_LOGGED])
    more = len(events) - _MAX_KEYS_LOGGED
    left = f", and {more} more" if more > 0 else ""
    why = (
        "the rule was changed or removed"
        if first.threshold is None
        else f"the threshold is {first.threshold:.15g}"
    )
    return f"{first.rule!r} {state}: {keys}{left}; {why}."


def _key_text(event: AlertEvent) -> str:
    if event.estimate is None:
        return event.key
    known = event.low is not None and event.high is not None
    interval = f" ({event.low:.6g} to {event.high:.6g})" if known else ""
    return f"{event.key} {event.estimate:.6g}{interval}"
