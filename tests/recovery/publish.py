"""Publishers to be killed: `python -m tests.recovery.publish` starts one for every line that it
reads, in a process of its own.

A line is a JSON object, see `publish`. What happens is told on standard output, one JSON object a
line, each in one write, so that a line is there whole or not at all. All modules are loaded before
the first start: a publisher is a fork of this process, and begins at once. Faults on purpose
(`Fault`) are put in here, around the parts; there is nothing for them in `src`.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.engine import (
    alert_sender,
    chain,
    committer,
    delivery,
    pacing,
    publisher,
    sql_store,
    view_run,
)
from penstock.engine.pipeline import Pipeline
from penstock.engine.sql_store.sealed_state import SealedState
from penstock.private import state
from penstock.private.noise import NoNoise, TestNoise
from penstock.released import sinks
from penstock.released.sinks.http_post import HttpPoster

AHEAD = (
    "penstock.private.sources.http",
    "penstock.private.sources.kafka",
    "penstock.private.sources.mqtt",
    "paho.mqtt.client",
    "penstock.released.sinks.kafka",
    "penstock.engine.postgres",
    "penstock.released.sinks.postgres",
    "penstock.private.bounding_fast",
    "penstock.private.json_fast",
    "confluent_kafka.admin",
    "psycopg",
    "pyarrow.parquet",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.json",
    "uvicorn",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.http.h11_impl",
    "uvicorn.loops.asyncio",
    "uvicorn.lifespan.off",
    "fastapi",
)


_told_to = 1
"""The file descriptor of standard output, or its copy where others write to standard output."""


def tell(what, **more):
    os.write(_told_to, json.dumps({"what": what, **more}).encode() + b"\n")


class Told:
    """A clock that a test sets from outside, by a file that it replaces."""

    def __init__(self, path):
        self._path = Path(path)

    def now(self):
        return int(self._path.read_text())


def publish(
    folder,
    tables_of,
    *,
    noise="none",
    clock=None,
    fault=None,
    takeover=False,
    lease=None,
    source=None,
    humble=False,
    acknowledged=None,
    engine=None,
):
    """Publish until the input ends or SIGTERM comes, and tell of it.

    `noise` is "none", "test", "fresh", which is the real one, or "both" of these, for two views.
    `fault` is a point (see `Fault`) and how often it is passed. `source` holds attributes of the
    source to be set. `humble` gives up what root may do. `acknowledged` is a file that gets the
    digest of each MQTT message just before it is acknowledged. `engine` is "spark", or "in process"
    for a session of Spark that is stood in for. SIGUSR1 makes the store read-only, SIGUSR2 writable
    again.
    """
    if humble:
        give_up()
    delivery.RETRY_SECONDS = alert_sender.RETRY_SECONDS = (0.05, 0.5)
    pacing.IDLE_SECONDS = 0.02
    committer.LEASE_SECONDS = lease or committer.LEASE_SECONDS
    if acknowledged:
        note_acknowledgements(acknowledged)
    if fault:
        Fault(*fault).lie_in_wait()
    prepare = view_run.ViewRun.prepare

    def drawn(self, unit):
        ready = prepare(self, unit)
        tell("drawn", stream=self.name, unit=unit, values=ready.release.value.tolist())
        return ready

    view_run.ViewRun.prepare = drawn
    save = committer.Committer.save

    def saved(self):
        save(self)
        tell("kept")

    committer.Committer.save = saved
    both = iter((TestNoise(7), None))
    makes = {
        "none": NoNoise,
        "test": lambda: TestNoise(7),
        "fresh": lambda: None,
        "both": lambda: next(both),
    }[noise]
    pipeline = Pipeline.of(tables_of, folder=folder)
    try:
        made = publisher.Publisher(
            pipeline,
            clock=Told(clock) if clock else None,
            noise=makes,
            takeover=takeover,
            engine=spark_engine(engine, pipeline) if engine else None,
            listener=lambda told: tell(
                told.kind, stream=told.stream, unit=told.unit, text=told.text
            ),
        )
        with made:
            signal.signal(signal.SIGTERM, lambda *_: made.stop())
            for number, value in ((signal.SIGUSR1, "ON"), (signal.SIGUSR2, "OFF")):
                signal.signal(
                    number,
                    lambda *_, value=value: made.store._file.execute(
                        f"PRAGMA query_only = {value}"
                    ),
                )
            for name, value in (source or {}).items():
                setattr(made.source, name, value)
            whole = made.run()
        tell("over", whole=whole)
    except PenstockError as error:
        tell("refused", error=type(error).__name__, text=str(error))


def spark_engine(kind, pipeline):
    """Counts on Spark. What Spark and its workers print goes to standard error."""
    global _told_to
    from penstock.engine.spark import counting, engine

    counting.RETRY_SECONDS = (0.05, 0.5)
    if kind == "in process":
        from tests.engine.spark.in_process import InProcessSpark

        session = InProcessSpark()
        engine.spark_session = lambda *_, **__: session
    else:
        _told_to = os.dup(1)
        os.dup2(2, 1)
    return engine.SparkEngine(pipeline)


def note_acknowledgements(path):
    from paho.mqtt.client import Client

    from penstock.private.sources.mqtt import MqttSource

    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    digests = {}
    came, ack = MqttSource._came, Client.ack

    def noted(source, connection, data, message):
        digests[message.mid] = hashlib.sha256(message.payload).hexdigest()
        came(source, connection, data, message)

    def acknowledging(client, number, quality):
        os.write(file, f"{digests[number]}\n".encode())
        return ack(client, number, quality)

    MqttSource._came, Client.ack = noted, acknowledging


def give_up():
    """Be bound by the modes of files, also as root."""
    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None, use_errno=True).capset(header, nothing) == 0


# -- faults on purpose -----------------------------------------------------------------------------


class Fault:
    """Kills this process when it comes to a point for the n-th time."""

    points = (
        "begun",
        "restored",
        "read",
        "drawn",
        "state written, pieces not",
        "written, not stored",
        "stored, head not moved",
        "head written, not renamed",
        "head moved, not shown",
        "shown, not committed",
        "shown",
        "told",
        "to be answered",
        "answered",
        "kept",
        "before a put of ParquetSink",
        "Parquet written, not renamed",
        "after a put of ParquetSink",
        "CSV renamed, about.json not",
        "half a line",
        "after a put of JsonLinesSink",
        "before a put of WebhookSink",
        "after a put of WebhookSink",
        "marked",
    )
    alert_points = (
        "alerts found, not recorded",
        "alerts recorded",
        "alerts to be sent",
        "alerts sent, not marked",
        "alerts marked",
    )
    """The points that only a pipeline with a rule comes to, whose alerts are posted."""

    def __init__(self, point, times):
        assert point in (*self.points, *self.alert_points)
        self._point = point
        self._left = times

    def here(self, point):
        if point == self._point:
            self._left -= 1
            if not self._left:
                time.sleep(0.02)  # what was told too early, to a sender or a sink, gets out
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)

    def lie_in_wait(self):
        from penstock.private.counting import Counting
        from penstock.private.sources.http import HttpSource

        self._around(sql_store.SqlStore, "begin", after="begun")
        self._around(view_run.ViewRun, "restore", after="restored")
        self._around(Counting, "take", after="read")
        self._around(view_run.ViewRun, "prepare", after="drawn")
        self._around(SealedState, "put_pieces", before="state written, pieces not")
        self._around(view_run.ViewRun, "write", after="written, not stored")
        self._around(
            chain.HeadFile, "swap", before="stored, head not moved", after="head moved, not shown"
        )
        self._around(sql_store.SqlStore, "_insert", after="shown, not committed")
        self._around(sql_store.SqlStore, "settle", after="shown")
        self._around(view_run.ViewRun, "shown", after="told")
        self._around(HttpSource, "kept", before="to be answered", after="answered")
        self._around(committer.Committer, "save", after="kept")
        for sink in (sinks.ParquetSink, sinks.CsvSink, sinks.JsonLinesSink, sinks.WebhookSink):
            name = sink.__name__
            self._around(
                sink, "put", before=f"before a put of {name}", after=f"after a put of {name}"
            )
        self._around(sql_store.SqlStore, "mark", after="marked")
        self._around(
            sql_store.SqlStore,
            "record_alerts",
            before="alerts found, not recorded",
            after="alerts recorded",
        )
        self._around(
            HttpPoster, "post", before="alerts to be sent", after="alerts sent, not marked"
        )
        self._around(sql_store.SqlStore, "mark_alerts_sent", after="alerts marked")
        self._renaming()
        if self._point == "half a line":
            self._half()

    def _around(self, owner, name, *, before=None, after=None):
        real = getattr(owner, name)

        def wrapped(*args, **more):
            self.here(before)
            result = real(*args, **more)
            self.here(after)
            return result

        setattr(owner, name, wrapped)

    def _renaming(self):
        real = Path.replace

        def replace(path, target):
            name = str(target)
            if name.endswith(".head"):
                self.here("head written, not renamed")
            if name.endswith("about.json"):
                self.here("CSV renamed, about.json not")
            if name.endswith(".parquet"):
                self.here("Parquet written, not renamed")
            return real(path, target)

        Path.replace = replace

    def _half(self):
        real, append = os.write, sinks.JsonLinesSink._append

        def write(file, content):
            if file == self._file:
                real(file, content[: len(content) // 2])
                self.here("half a line")
                return len(content) // 2
            return real(file, content)

        def appended(sink, file, items):
            self._file = file
            append(sink, file, items)
            self._file = None

        self._file = None
        os.write = write
        sinks.JsonLinesSink._append = appended


# -- one after the other ---------------------------------------------------------------------------


def main():
    state.PIECE_BYTES = 16  # small states are stored in pieces, too
    for name in AHEAD:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    tell("ready")
    for line in sys.stdin:
        child = os.fork()
        if not child:
            code = 1
            try:
                publish(**json.loads(line))
                code = 0
            except BaseException as error:
                import traceback

                tell("failed", text="".join(traceback.format_exception(error)))
            finally:
                os._exit(code)
        tell("started", process=child)
        _, status = os.waitpid(child, 0)
        tell("died", process=child, killed=os.WIFSIGNALED(status), code=status)


if __name__ == "__main__":
    main()
