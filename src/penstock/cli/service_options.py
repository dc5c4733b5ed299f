"""From the table [service] of a pipeline to the settings of the read service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from penstock.core.declaration import EndpointSetup
from penstock.core.errors import ConfigurationError
from penstock.core.server_tls import ServerTls
from penstock.engine import factory
from penstock.engine.pipeline import Pipeline
from penstock.engine.sql_store import SqlReader
from penstock.engine.store import Reader
from penstock.released.alerting import AlertRule
from penstock.service.options import LISTEN, ServiceOptions, TimelineEvent
from penstock.service.server import ServiceServer, require_packages


def service_options(pipeline: Pipeline) -> ServiceOptions:
    """The settings of the read service that a pipeline declares, with its token.

    Parameters
    ----------
    pipeline : Pipeline
        The configuration.
    """
    declared = pipeline.service
    setup = EndpointSetup(options=vars(declared), folder=pipeline.folder)
    return ServiceOptions(
        listen=declared.listen or LISTEN,
        title=declared.title or pipeline.stream.name,
        language=declared.language,
        origins=declared.origins,
        frames=declared.frames,
        token=setup.secret("token"),
        tls=ServerTls.of(setup),
        map=setup.path("map"),
        map_key=declared.map_key or "key",
        events=tuple(TimelineEvent(at=each.at, text=each.text) for each in declared.events),
        rules=_rules(pipeline),
    )


def _rules(pipeline: Pipeline) -> dict[str, tuple[AlertRule, ...]]:
    """By series of a pipeline: its rules of alerts."""
    names = [pipeline.series(view.name) for view in pipeline.views]
    every = [alert.rule for alert in pipeline.alerts]
    return {name: tuple(rule for rule in every if rule.series == name) for name in names}


def copy_folder(pipeline: Pipeline) -> Path:
    """The folder of the copy by key: as the pipeline says, or beside the store.

    Parameters
    ----------
    pipeline : Pipeline
        The configuration.
    """
    declared, store = pipeline.service.copy, pipeline.store.path
    if declared is not None:
        return pipeline.path(declared)
    return pipeline.path(f"{pipeline.stream.name}.copy" if store is None else f"{store}.copy")


def sql_reader(open_store: Callable[[], Reader]) -> SqlReader:
    """Open a store for the service, which reads tables.

    Parameters
    ----------
    open_store : callable
        Opens it.
    """
    found = open_store()
    if not isinstance(found, SqlReader):
        found.close()
        raise ConfigurationError("only a store in SQLite or PostgreSQL can be served.")
    return found


class RunServices:
    """The read services that some pipelines declare, beside their publishers.

    The constructor finds missing packages and secrets before anything is opened. Pipelines with the
    same address share a service.

    Parameters
    ----------
    pipelines : sequence of Pipeline
        The configurations; those without `[service] listen` are not served.
    """

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self._declared: dict[str, list[Pipeline]] = {}
        self._options: dict[str, ServiceOptions] = {}
        self._servers: list[ServiceServer] = []
        for pipeline in pipelines:
            address = pipeline.service.listen
            if address is None:
                continue
            require_packages()
            options = service_options(pipeline)
            if options.tls is not None:
                options.tls.context()
            known = self._options.setdefault(address, options)
            if known is not options:
                rules = {**known.rules, **options.rules}
                options = replace(options, rules=known.rules)
                if pipeline.service.title is None:
                    options = replace(options, title=known.title)
                self._options[address] = replace(known, rules=rules)
                if options != known:
                    raise ConfigurationError(
                        f"two of these pipelines have a service at {address} and differ in its "
                        "settings. Write the same [service] in both, or use two addresses."
                    )
            self._declared.setdefault(address, []).append(pipeline)

    @property
    def urls(self) -> tuple[str, ...]:
        """Where they listen."""
        return tuple(server.url for server in self._servers)

    def start(self) -> None:
        """Open the stores, which exist by now, and listen at every address, or at none."""
        try:
            for address, pipelines in self._declared.items():
                stores = {
                    each.path(each.store.path).resolve() if each.store.path else each.store: each
                    for each in pipelines
                }
                self._servers.append(
                    ServiceServer(
                        self._options[address],
                        [_opener(each) for each in stores.values()],
                        copy_folder(pipelines[0]),
                    )
                )
            for server in self._servers:
                server.start()
        except BaseException:
            self.close()
            raise

    def wake(self, series: str) -> None:
        """Tell all services that a series has a new unit.

        Parameters
        ----------
        series : str
            The name of the series.
        """
        for server in self._servers:
            server.wake(series)

    def close(self) -> None:
        """Stop listening."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    def __enter__(self) -> RunServices:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opener(pipeline: Pipeline) -> Callable[[], SqlReader]:
    return lambda: sql_reader(lambda: factory.reader(pipeline))
