"""Several streams in one process: one publisher and one thread per stream.

Streams of the same SQLite store share it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

from penstock.core.errors import ConfigurationError, PenstockError
from penstock.engine import factory, publisher_figures
from penstock.engine.committer import StoreWait
from penstock.engine.counting_engine import CountingEngine, LocalEngine
from penstock.engine.notices import Listener, Notifier
from penstock.engine.pipeline import Pipeline, StoreConfig
from penstock.engine.publisher import FINITE_PATIENCE, Publisher
from penstock.engine.store import Store
from penstock.engine.waiting import StopFlag
from penstock.private.noise import Noise


class Process:
    """Runs the publishers of some pipelines. If one fails, the others go on.

    Parameters
    ----------
    pipelines : sequence of Pipeline
        The configurations, one per stream.
    listener, noise, takeover, anyway
        As for `Publisher`.
    engine : callable
        Gives the engine that counts a pipeline's events; default: this process counts them.

    Attributes
    ----------
    failures : dict of str to BaseException
        The errors that ended publishers, by stream.
    unfinished : list of str
        The streams that were stopped, or whose sinks lack releases.
    """

    def __init__(
        self,
        pipelines: Sequence[Pipeline],
        *,
        listener: Listener = lambda notice: None,
        noise: Callable[[], Noise | None] = lambda: None,
        takeover: bool = False,
        anyway: bool = False,
        engine: Callable[[Pipeline], CountingEngine] = lambda pipeline: LocalEngine(),
    ) -> None:
        names = [pipeline.stream.name for pipeline in pipelines]
        for place, name in enumerate(names):
            if name in names[:place]:
                raise ConfigurationError(
                    f"two of these pipelines publish a stream {name!r}. Give each its own name."
                )
        places = [
            (sink.place, pipeline.folder.resolve())
            for pipeline in pipelines
            for sink in pipeline.sinks
            if sink.place
        ]
        if len(set(places)) < len(places):
            raise ConfigurationError(
                "two of these pipelines have a sink at the same place. Give each sink its own."
            )
        for pipeline in pipelines:
            factory.require_packages(pipeline)
        self._listener = listener
        self.failures: dict[str, BaseException] = {}
        self.unfinished: list[str] = []
        self._closing = ExitStack()
        self._stores: dict[object, tuple[StoreConfig, Store]] = {}
        self.publishers: tuple[Publisher, ...] = ()
        try:
            for pipeline in pipelines:
                publisher = Publisher(
                    pipeline,
                    store=self._store(pipeline),
                    listener=listener,
                    noise=noise,
                    takeover=takeover,
                    anyway=anyway,
                    engine=engine(pipeline),
                )
                self._closing.enter_context(publisher)
                self.publishers += (publisher,)
        except BaseException:
            self._closing.close()
            raise
        self._threads = [
            threading.Thread(
                target=self._work, args=(publisher,), name=publisher.pipeline.stream.name
            )
            for publisher in self.publishers
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._closing.close()

    def _store(self, pipeline: Pipeline) -> Store:
        """Open a store once for all its streams, because it has one writer."""
        declared = pipeline.store
        place = declared if declared.path is None else pipeline.path(declared.path).resolve()
        if place not in self._stores:
            wait = StoreWait(
                patience=FINITE_PATIENCE if factory.finite(pipeline) else float("inf"),
                notify=Notifier(pipeline.stream.name, self._listener),
                stop=StopFlag(),
            )
            store = wait(lambda: factory.store(pipeline))
            self._stores[place] = declared, self._closing.enter_context(store)
        first, store = self._stores[place]
        if replace(first, path=declared.path) != declared:
            raise ConfigurationError(
                "two of these pipelines share a store and differ in its head file or its key. "
                f"Write the same [store] in both (stream {pipeline.stream.name!r})."
            )
        return store

    def start(self) -> None:
        """Start all publishers."""
        for thread in self._threads:
            thread.start()

    @property
    def running(self) -> bool:
        """Whether any publisher is still at work."""
        return any(thread.is_alive() for thread in self._threads)

    def wait(self, seconds: float) -> bool:
        """Wait until all have ended, at most this long; return whether they have."""
        for thread in self._threads:
            thread.join(seconds / len(self._threads))
        return not self.running

    def stop(self) -> None:
        """Ask all publishers to end soon. Each finishes a commit that has begun."""
        for publisher in self.publishers:
            publisher.stop()

    def _work(self, publisher: Publisher) -> None:
        name = publisher.pipeline.stream.name
        try:
            if not publisher.run():
                self.unfinished.append(name)
        except PenstockError as error:
            self.failures[name] = error
        except BaseException as error:
            self.failures[name] = error
            raise
        finally:
            self._save_private_figures(publisher)

    def _save_private_figures(self, publisher: Publisher) -> None:
        """Write the operator's private figures into the file that the configuration names."""
        path = publisher.pipeline.operator.figures
        try:
            if path is not None:
                publisher_figures.save(publisher, publisher.pipeline.path(path))
        except PenstockError as error:
            self.failures.setdefault(publisher.pipeline.stream.name, error)
