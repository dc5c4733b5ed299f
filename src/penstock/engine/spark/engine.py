"""The engine that has Spark count: `penstock run pipeline.toml --engine spark`."""

from __future__ import annotations

from penstock.core.errors import ConfigurationError
from penstock.engine import factory
from penstock.engine.counting_engine import Counter, CountingHost
from penstock.engine.pipeline import EngineConfig, Pipeline, View
from penstock.engine.pipeline.cluster import engine_problems
from penstock.engine.spark.counting import ReportedRanges, SparkCounting
from penstock.engine.spark.jobs import SparkCounter
from penstock.engine.spark.session import spark_session
from penstock.engine.spark.sources import SparkKafkaSource, SparkParquetSource
from penstock.engine.spark.tables import SparkTableSource, catalogue_table
from penstock.private.sources.base import Source
from penstock.private.sources.files import FileSource
from penstock.private.sources.kafka import KafkaSource
from penstock.private.units import Units


class SparkEngine:
    """Gives a publisher sources of ranges, and counters that run jobs of Spark.

    Noise, state and places in sources stay with the publisher.

    Parameters
    ----------
    pipeline : Pipeline
        The configuration. What Spark cannot count is a `ConfigurationError`.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._config = pipeline.engine or EngineConfig()
        for key, message in engine_problems(self._config, pipeline.stream, pipeline.source):
            raise ConfigurationError(f"engine{f'.{key}' if key else ''}: {message}")
        self._spark = spark_session(
            self._config,
            folder=pipeline.folder,
            kafka=pipeline.source.kind == "kafka",
            catalogue=pipeline.source.options.get("table") is not None,
        )
        self._reported = ReportedRanges()

    def __repr__(self) -> str:
        return f"<SparkEngine at {self._config.master}>"

    def source(self, pipeline: Pipeline) -> Source:
        """The source of ranges."""
        options = pipeline.source.options
        if options.get("table") is not None:
            intake = factory.intake(pipeline)
            table = catalogue_table(self._spark, options["table"], intake.columns)
            return SparkTableSource(table=table, intake=intake, growing=options["growing"])
        source = factory.source(pipeline)
        if isinstance(source, KafkaSource):
            partitioned = self._config.partitioned is not None
            return SparkKafkaSource(kafka=source, partitioned=partitioned)
        assert isinstance(source, FileSource)
        return SparkParquetSource(files=source)

    def counter(self, pipeline: Pipeline, view: View, host: CountingHost) -> Counter:
        """Makes a `SparkCounting`."""
        source = host.source
        assert isinstance(source, (SparkKafkaSource, SparkParquetSource, SparkTableSource))

        def counting(units: Units, keys: int, contribution: int) -> SparkCounting:
            counter = SparkCounter(
                spark=self._spark,
                intake=source.intake,
                calendar=view.calendar,
                tolerance=pipeline.stream.tolerance,
                keys=keys,
                contribution=contribution,
                finite=host.finite,
                partitions=self._config.partitions,
                partitioner=self._config.partitioner if self._config.partitioned else None,
            )
            return SparkCounting(
                units, counter=counter, source=source, host=host, reported=self._reported
            )

        return counting
