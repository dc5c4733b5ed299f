"""`penstock run`."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
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

from penstock.cli.options import Flag
from penstock.cli.store_argument import read_pipeline
from penstock.core.calendar import instant
from penstock.core.errors import ConfigurationError, PenstockError, StateError
from penstock.engine import publisher_figures
from penstock.engine.monitor import Monitor
from penstock.engine.notices import Notice
from penstock.engine.process import Process
from penstock.engine.publisher import Publisher
from penstock.engine.publisher_figures import SeriesFigures

Style: TypeAlias = Literal["text", "json", "none"]

STOP = "told to stop: what is being committed is finished, the rest is left whole for the next start. A second time ends at once."

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STYLES = {"info": "default", "warning": "yellow", "error": "bold red"}
_SHOW_CURSOR = b"\x1b[?25h\n"


def run(
    *files: Annotated[Path, Parameter(name="PIPELINE")],
    log: Style = "text",
    takeover: Flag = False,
) -> None:
    """Publish one or more streams, each as its configuration says, until its input ends or it is
    told to stop.

    Stopped (Ctrl-C or SIGTERM), killed or out of power, it goes on at the next start where it was:
    every unit is released once and never again with other noise. penstock check says what a
    configuration will publish, without touching any data.

    It ends with 0 when all is published or when it was told to stop, with 1 when it could not go on
    (start it again once the problem is solved), and with 2 when a configuration or an option is
    wrong.

    For example:

    * penstock run taps.toml

    * penstock run gates.toml buses.toml --log json 2> penstock.log

    Parameters
    ----------
    files
        Configurations, one a stream; penstock init writes one.
    log
        What happens, on standard error: as text, as one JSON object a line, or not at all. No data
        are in it.
    takeover
        Take a stream over from a publisher that is known to be dead, without waiting for its lease
        to expire.
    """
    if not files:
        raise ConfigurationError(
            "which pipeline? Name one or more configurations: penstock run taps.toml."
        )
    screen = Console(stderr=True)
    logs = RunLog(log, screen)
    pipelines = [read_pipeline(path) for path in files]
    monitor = Monitor(pipelines)
    stop = _Stop()
    with ExitStack() as stack:
        stack.enter_context(_only_words(logs))
        stack.enter_context(stop)
        try:
            process = stack.enter_context(Process(pipelines, listener=logs, takeover=takeover))
            stack.enter_context(monitor)
            monitor.watch(process.publishers)
            stop.begun()
        except _StoppedError:
            logs(Notice(kind="end", text="told to stop before anything was published"))
            return
        except StateError as error:
            _end(logs, {"": error})
        _introduce(process, monitor, logs)
        process.start()
        with _shown(process, screen, log):
            while not process.wait(0.1):
                if stop.wanted and not stop.passed_on:
                    stop.passed_on = True
                    logs(Notice(kind="stopping", text=STOP))
                    process.stop()
    if process.failures:
        _end(logs, process.failures)
    if process.unfinished and not stop.wanted:
        names = ", ".join(process.unfinished)
        _end(logs, {names: StateError("some sinks lack releases. Start again to send them.")})


def _end(logs: RunLog, failures: dict[str, BaseException] | dict[str, StateError]) -> NoReturn:
    """Say what went wrong, without what others' errors say, as that may hold data; exit code 1."""
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
    sys.exit(1)


# -- what is told ----------------------------------------------------------------------------------


class RunLog:
    """Lines for people or for machines, from all threads. One that cannot be written is lost:
    publishing goes on.
    """

    def __init__(self, style: Style, screen: Console) -> None:
        self.style = style
        self._screen = screen
        self._lock = threading.Lock()

    def __call__(self, told: Notice) -> None:
        if self.style == "none":
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self._lock, suppress(OSError, ValueError, SystemExit):
            if self.style == "json":
                entry = {"time": now, "level": told.level, "event": told.kind}
                entry |= {"stream": told.stream} if told.stream else {}
                more = {"unit": told.unit, "text": told.text}
                line = json.dumps(
                    entry | {name: value for name, value in more.items() if value},
                    ensure_ascii=False,
                )
                print(line, file=sys.stderr, flush=True)
                return
            unit = f" unit {told.unit}" if told.unit else ""
            text = f": {' '.join(told.text.split())}" if told.text else ""
            line = f"{now} {told.level:7} {told.stream + ' ' if told.stream else ''}{told.kind}{unit}{text}"
            if not self._screen.is_terminal:
                print(line, file=sys.stderr, flush=True)
            elif told.kind != "release":  # the line below the log shows it
                self._screen.print(Text(line, _STYLES[told.level]), soft_wrap=True)


def _introduce(process: Process, monitor: Monitor, logs: RunLog) -> None:
    """What is published and promised, and where each series goes on."""
    for publisher, stream in zip(
        process.publishers, publisher_figures.public(process.publishers).streams, strict=True
    ):
        sinks = ", ".join(sink.name for sink in stream.sinks) or "the store alone"
        logs(Notice(kind="promise", stream=stream.stream, text=stream.promise))
        for view, series in zip(publisher.views, stream.series, strict=True):
            what = f"{series.mechanism} every {series.every}, to {sinks}"
            if series.unit:
                logs(Notice(kind="resume", stream=view.name, unit=series.unit + 1, text=what))
            else:
                logs(Notice(kind="start", stream=view.name, unit=1, text=what))
    for host, port in monitor.addresses:
        logs(
            Notice(
                kind="metrics", text=f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
            )
        )


class _Bridge(logging.Handler):
    """What libraries log, without their words: these may quote data. Ours have none, and are told
    as they are.
    """

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
def _only_words(logs: RunLog) -> Iterator[None]:
    """Nothing but the log speaks, as what Python or a library prints of an error may quote data."""
    bridge, root, before = _Bridge(logs), logging.getLogger(), threading.excepthook

    def unexpected(error: threading.ExceptHookArgs) -> None:
        places = [
            f"{Path(frame.filename).name}:{frame.lineno}"
            for frame in traceback.extract_tb(error.exc_traceback)[-4:]
        ]
        text = f"an unexpected error ({error.exc_type.__name__}) at {', '.join(places)}. What it says may hold data."
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


# -- being told to stop ----------------------------------------------------------------------------


class _StoppedError(BaseException):
    """Told to stop before anything was published."""


class _Stop:
    """SIGTERM, SIGINT and SIGHUP: the first asks for an end with whole units, the second ends the
    process there and then.

    The handler only notes it, as it may come in the middle of anything. Before publishing has begun
    there is nothing to finish, and it ends what is being prepared. Signals that were ignored at the
    start stay so.
    """

    def __init__(self) -> None:
        self.wanted = False
        self.passed_on = False
        self._publishing = False
        self._before: dict[
            signal.Signals, Callable[[int, FrameType | None], object] | int | None
        ] = {}

    def begun(self) -> None:
        """From now on there is something to finish."""
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


# -- what a terminal shows -------------------------------------------------------------------------


@contextmanager
def _shown(process: Process, screen: Console, log: Style) -> Iterator[None]:
    """On a terminal: a bar for each finite input, a line for each live stream."""
    if not screen.is_terminal or log == "json":
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    bars = Progress(*columns, console=screen, auto_refresh=False)
    tasks: dict[str, TaskID] = {}
    for publisher in process.publishers:
        if publisher.finite:
            name = publisher.pipeline.stream.name
            tasks[name] = bars.add_task(name, total=1.0, told="")

    def picture() -> Group:
        lines = []
        for publisher in process.publishers:
            name = publisher.pipeline.stream.name
            if name in tasks:
                told = " · ".join(f"{view.closed:,} units" for view in publisher.views)
                bars.update(tasks[name], completed=progress(publisher), told=told)
            else:
                lines.append(status_line(publisher))
        return Group(*([bars] if tasks else []), *lines)

    with Live(get_renderable=picture, console=screen, refresh_per_second=4, transient=not tasks):
        yield


def progress(publisher: Publisher) -> float:
    """How much of a finite input is done, from 0 to 1: reading is most of the work, unless units
    are released on the way.
    """
    end = publisher.pipeline.stream.until
    if publisher.state == "ended":
        return 1.0
    now = datetime.now(UTC) if end is None else end
    units = [
        (view.closed, view.view.calendar.unit_at(instant(now)) - 1) for view in publisher.views
    ]
    released = min((closed / last if last > 0 else 1.0 for closed, last in units), default=1.0)
    return max(released, (9 * publisher.progress.share + released) / 10)


def status_line(publisher: Publisher) -> Text:
    """A live stream in a line: what is wrong, how the sinks are, what was released last, what comes
    next, what it has cost.

    It goes on in a second line where the screen is narrow.
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
        line.append(f", {_spent(series)}", "default")
        if series.overdue:
            line.append(
                f", {series.behind} unit{'' if series.behind == 1 else 's'} behind",
                "yellow" if stream.on_time else "bold red",
            )
    return line


def _spent(series: SeriesFigures) -> str:
    percent = -(-100 * series.cost // series.most) if series.most else 0
    return f"window {percent} % spent"
