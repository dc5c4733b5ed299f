"""`penstock run`."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal, NoReturn, TypeAlias

from cyclopts import Parameter
from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from penstock.cli import run_words
from penstock.cli.dry_run import show_dry_runs
from penstock.cli.options import Flag
from penstock.cli.service_options import RunServices
from penstock.cli.store_argument import read_pipeline
from penstock.core.calendar import instant
from penstock.core.errors import ConfigurationError, PenstockError, StateError
from penstock.engine import publisher_figures
from penstock.engine.counting_engine import CountingEngine, LocalEngine
from penstock.engine.monitor import Monitor
from penstock.engine.notices import Notice
from penstock.engine.pipeline import Pipeline
from penstock.engine.process import Process
from penstock.engine.publisher import Publisher
from penstock.engine.publisher_figures import SeriesFigures

Style: TypeAlias = Literal["text", "json", "none"]
EngineName: TypeAlias = Literal["local", "spark"]

STOP = (
    "asked to stop: a commit that has begun is finished, the rest is left for the next start. "
    "A second signal ends the process at once."
)

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STYLES = {"info": "default", "warning": "yellow", "error": "bold red"}
_PLAIN: dict[str, str] = {"published": "published", "next": "next"}
"""Notices that a terminal shows without time and level: the last words of a run."""

_SHOW_CURSOR = b"\x1b[?25h\n"


def run(
    *files: Annotated[Path, Parameter(name="PIPELINE")],
    log: Style = "text",
    takeover: Flag = False,
    anyway: Flag = False,
    dry: Flag = False,
    engine: EngineName = "local",
) -> None:
    """Publish one or more streams until their input ends or a signal asks it to stop.

    After a stop (Ctrl-C or SIGTERM), a crash or a power cut, the next start goes on from the store.
    Each unit is released once, and never again with other noise. penstock check explains what a
    configuration will publish, and reads no data.

    Exit codes: 0 if all was published or it was asked to stop; 1 if it could not go on (solve the
    problem and start it again); 2 if a configuration or an option is wrong, or does not fit the
    input or the store.

    Examples:

    * penstock run taps.toml

    * penstock run taps.toml --dry

    * penstock run gates.toml buses.toml --log json 2> penstock.log

    Parameters
    ----------
    files
        Configurations, one per stream. penstock init writes one.
    log
        The format of the log on standard error: text, one JSON object per line, or none. The log
        holds no data.
    takeover
        Take over the stream of a publisher that is known to be dead, without waiting until its
        lease expires.
    anyway
        Publish although fewer than half of the rows of a sample of the input can be taken.
    dry
        Publish nothing. Read the source, and say on this terminal whether it can be read: the
        columns, the share of rows that can be taken, and the first and the last day. Nothing is
        written to disk, and the store is not opened.
    engine
        Where events are counted: local is this process, spark the cluster of [engine].
    """
    if not files:
        raise ConfigurationError(
            "PIPELINE is missing: name one or more configurations, as in penstock run taps.toml."
        )
    screen = Console(stderr=True)
    logs = RunLog(log, screen)
    pipelines = [read_pipeline(path) for path in files]
    if dry:
        with _quiet(logs):
            show_dry_runs(pipelines)
        return
    monitor, services = Monitor(pipelines), RunServices(pipelines)
    stop = _Stop()

    def hear(notice: Notice) -> None:
        logs(notice)
        if notice.kind == "release":
            services.wake(notice.stream)

    with ExitStack() as stack:
        stack.enter_context(_quiet(logs))
        stack.enter_context(stop)
        try:
            made = partial(Process, pipelines, listener=hear, engine=_engine(engine))
            process = stack.enter_context(made(takeover=takeover, anyway=anyway))
            stack.enter_context(monitor)
            monitor.watch(process.publishers)
            stack.enter_context(services).start()
            stop.begun()
        except _StoppedError:
            logs(Notice(kind="end", text="asked to stop before anything was published"))
            return
        except StateError as error:
            _end(logs, {"": error})
        before = [view.committed.unit for each in process.publishers for view in each.views]
        _introduce(process, monitor, logs)
        for url in services.urls:
            logs(Notice(kind="service", text=f"open {url}"))
        process.start()
        with _live_display(process, screen, log):
            _wait(process, stop, logs)
        _conclude(process, files, before, logs)
    failures = dict(process.failures)
    if process.unfinished and not stop.wanted:
        names = ", ".join(process.unfinished)
        failures[names] = StateError("some sinks lack releases. Start again to send them.")
    if failures:
        _end(logs, failures)


def _wait(process: Process, stop: _Stop, logs: RunLog) -> None:
    """Wait until all publishers have ended, and pass on a stop."""
    while not process.wait(0.1):
        if stop.wanted and not stop.passed_on:
            stop.passed_on = True
            logs(Notice(kind="stopping", text=STOP))
            process.stop()


def _engine(name: EngineName) -> Callable[[Pipeline], CountingEngine]:
    """What gives the engine of a pipeline. Spark is imported where it is asked for."""
    if name == "local":
        return lambda pipeline: LocalEngine()
    from penstock.engine.spark.engine import SparkEngine

    return SparkEngine


def _end(logs: RunLog, failures: Mapping[str, BaseException]) -> NoReturn:
    """Print the errors and exit: with 2 if all are mistakes in a configuration, otherwise with 1.

    Texts of errors that are not ours may hold data.
    """
    for name, error in failures.items():
        known = isinstance(error, PenstockError)
        text = (
            " ".join(str(error).split())
            if known
            else f"an unexpected error ({type(error).__name__})."
        )
        if logs.style == "json":
            logs(Notice(kind="failed", stream=name, text=text, level="error"))
        else:
            print(f"penstock: {name + ': ' if name else ''}{text}", file=sys.stderr)
    mistakes = all(isinstance(error, ConfigurationError) for error in failures.values())
    sys.exit(2 if mistakes else 1)


# -- the log ----------------------------------------------------------------------------------


class RunLog:
    """Writes notices of all threads as lines. A line that cannot be written is lost."""

    def __init__(self, style: Style, screen: Console) -> None:
        self.style = style
        self._screen = screen
        self._lock = threading.Lock()

    def __call__(self, notice: Notice) -> None:
        if self.style == "none":
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self._lock, suppress(OSError, ValueError, SystemExit):
            if self.style == "json":
                entry = {"time": now, "level": notice.level, "event": notice.kind}
                entry |= {"stream": notice.stream} if notice.stream else {}
                more = {"unit": notice.unit, "text": notice.text}
                line = json.dumps(
                    entry | {name: value for name, value in more.items() if value},
                    ensure_ascii=False,
                )
                print(line, file=sys.stderr, flush=True)
                return
            unit = f" unit {notice.unit}" if notice.unit else ""
            text = f": {' '.join(notice.text.split())}" if notice.text else ""
            stream = f"{notice.stream} " if notice.stream else ""
            line = f"{now} {notice.level:7} {stream}{notice.kind}{unit}{text}"
            if not self._screen.is_terminal:
                print(line, file=sys.stderr, flush=True)
            elif notice.kind in _PLAIN:
                self._screen.print(Text(f"{stream}{_PLAIN[notice.kind]}{text}"), soft_wrap=True)
            elif notice.kind != "release":  # the status line shows it
                self._screen.print(Text(line, _STYLES[notice.level]), soft_wrap=True)


def _introduce(process: Process, monitor: Monitor, logs: RunLog) -> None:
    """Log what is published and promised, and where each series goes on."""
    for publisher, stream in zip(
        process.publishers, publisher_figures.public(process.publishers).streams, strict=True
    ):
        sinks = ", ".join(sink.name for sink in stream.sinks) or "the store alone"
        where = run_words.accepting(publisher.pipeline)
        logs(Notice(kind="accepting", stream=stream.stream, text=where))
        logs(Notice(kind="promise", stream=stream.stream, text=stream.promise))
        for view, series in zip(publisher.views, stream.series, strict=True):
            what = f"{series.mechanism} every {series.every}, to {sinks}"
            if series.unit:
                logs(Notice(kind="resume", stream=view.name, unit=series.unit + 1, text=what))
            else:
                logs(Notice(kind="start", stream=view.name, unit=1, text=what))
    for url in monitor.urls:
        logs(Notice(kind="metrics", text=f"{url}/metrics"))


def _conclude(process: Process, files: Sequence[Path], before: Sequence[int], logs: RunLog) -> None:
    """Log how many units are published, where they are, and what to do next."""
    earlier = iter(before)
    for publisher, file in zip(process.publishers, files, strict=True):
        name = publisher.pipeline.stream.name
        units = [(view, next(earlier)) for view in publisher.views]
        if name in process.failures and not any(view.committed.unit for view, _ in units):
            continue
        for view, unit in units:
            text = run_words.published(view, publisher.pipeline, before=unit)
            logs(Notice(kind="published", stream=view.name, text=text))
        if name not in process.failures and any(view.committed.unit for view, _ in units):
            for command in run_words.next_commands(publisher, file):
                logs(Notice(kind="next", stream=name, text=command))


class _Bridge(logging.Handler):
    """Passes on what libraries log, without their texts: these may quote data. Ours do not."""

    def __init__(self, logs: RunLog) -> None:
        super().__init__(logging.WARNING)
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] == "penstock":
            text = record.getMessage()
        else:
            kind = (
                record.exc_info[0].__name__
                if record.exc_info and record.exc_info[0]
                else "a message that is not shown"
            )
            text = f"{record.name}: {kind}, at {record.filename}:{record.lineno}"
        self._logs(
            Notice(
                kind="trouble",
                text=text,
                level="error" if record.levelno >= logging.ERROR else "warning",
            )
        )


@contextmanager
def _quiet(logs: RunLog) -> Iterator[None]:
    """Let only the log speak: what Python or a library prints about an error may quote data."""
    bridge, root, before = _Bridge(logs), logging.getLogger(), threading.excepthook

    def unexpected(error: threading.ExceptHookArgs) -> None:
        places = [
            f"{Path(frame.filename).name}:{frame.lineno}"
            for frame in traceback.extract_tb(error.exc_traceback)[-4:]
        ]
        text = (
            f"an unexpected error ({error.exc_type.__name__}) at {', '.join(places)}. "
            "Its text is not shown, because it may hold data."
        )
        name = "" if error.thread is None else error.thread.name
        logs(Notice(kind="trouble", stream=name, text=text, level="error"))

    root.addHandler(bridge)
    threading.excepthook = unexpected
    try:
        yield
    except (PenstockError, OSError, KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:
        unexpected(threading.ExceptHookArgs((type(error), error, error.__traceback__, None)))
        print(f"penstock: an unexpected error ({type(error).__name__}).", file=sys.stderr)
        sys.exit(1)
    finally:
        threading.excepthook = before
        root.removeHandler(bridge)


# -- signals ----------------------------------------------------------------------------


class _StoppedError(BaseException):
    """Asked to stop before anything was published."""


class _Stop:
    """Handles SIGTERM, SIGINT and SIGHUP: the first stops the publishers, the second the process.

    The handler only notes a signal, because it may come in the middle of anything. Before
    publishing begins there is nothing to finish, so it ends the start. Signals that were ignored
    at the start stay ignored.
    """

    def __init__(self) -> None:
        self.wanted = False
        self.passed_on = False
        self._publishing = False
        self._before: dict[
            signal.Signals, Callable[[int, FrameType | None], object] | int | None
        ] = {}

    def begun(self) -> None:
        """Note that publishing begins: from now on there is something to finish."""
        self._publishing = True

    def __enter__(self) -> _Stop:
        if threading.current_thread() is threading.main_thread():
            for each in _SIGNALS:
                if signal.getsignal(each) is not signal.SIG_IGN:
                    self._before[each] = signal.signal(each, self._heard)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            if os.isatty(2):
                os.write(2, _SHOW_CURSOR)
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.wanted = True
        if not self._publishing:
            raise _StoppedError


# -- the terminal -------------------------------------------------------------------------


@contextmanager
def _live_display(process: Process, screen: Console, log: Style) -> Iterator[None]:
    """On a terminal, show a bar per finite input and a line per live stream."""
    if not screen.is_terminal or log == "json":
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[units]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    bars = Progress(*columns, console=screen, auto_refresh=False)
    tasks: dict[str, TaskID] = {}
    for publisher in process.publishers:
        if publisher.finite:
            name = publisher.pipeline.stream.name
            tasks[name] = bars.add_task(name, total=1.0, units="")

    def picture() -> Group:
        lines = []
        for publisher in process.publishers:
            name = publisher.pipeline.stream.name
            if name in tasks:
                units = " · ".join(f"{view.committed.unit:,} units" for view in publisher.views)
                bars.update(tasks[name], completed=progress(publisher), units=units)
            else:
                lines.append(status_line(publisher))
        return Group(*([bars] if tasks else []), *lines)

    with Live(get_renderable=picture, console=screen, refresh_per_second=4, transient=not tasks):
        yield


def progress(publisher: Publisher) -> float:
    """Return how much of a finite input is done, from 0 to 1.

    Reading is most of the work, unless units are released on the way.
    """
    end = publisher.pipeline.stream.until
    if publisher.state == "ended":
        return 1.0
    now = datetime.now(UTC) if end is None else end
    units = [
        (view.committed.unit, view.view.calendar.unit_at(instant(now)) - 1)
        for view in publisher.views
    ]
    released = min((closed / last if last > 0 else 1.0 for closed, last in units), default=1.0)
    return max(released, (9 * publisher.progress.share + released) / 10)


def status_line(publisher: Publisher) -> Text:
    """Show a live stream in one line: problem, sinks, newest unit, next unit, and spend.

    It continues in a second line where the screen is narrow.
    """
    (stream,) = publisher_figures.public([publisher]).streams
    line = Text(stream.stream, "bold", overflow="fold")
    if publisher.problem:
        line.append(f" · {publisher.problem}", "red")
    for sink in stream.sinks:
        lacks = (
            "not reached"
            if sink.behind is None
            else f"{sink.behind} behind"
            if sink.behind or not sink.up
            else "✓"
        )
        line.append(f" · {sink.name} {lacks}", "green" if sink.up else "red")
    for view, series in zip(publisher.views, stream.series, strict=True):
        name = "" if len(stream.series) == 1 else f"{series.view}: "
        last = (
            f"unit {series.unit} ({view.view.calendar.label(series.unit)})"
            if series.unit
            else "nothing yet"
        )
        line.append(f" · {name}released {last}", "default")
        if series.unit < view.view.calendar.last and not series.behind:
            closes = datetime.fromtimestamp(view.closes(series.unit + 1) / 1e6, UTC)
            line.append(f", next closes {closes:%H:%M:%S} UTC", "default")
        line.append(f", {_spend(series)}", "default")
        if series.overdue:
            line.append(
                f", {series.behind} unit{'' if series.behind == 1 else 's'} behind",
                "yellow" if stream.on_time else "bold red",
            )
    return line


def _spend(series: SeriesFigures) -> str:
    percent = -(-100 * series.cost // series.most) if series.most else 0
    return f"window {percent} % spent"
