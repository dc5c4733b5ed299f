"""Reading the table [engine]: the cluster that counts events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.engine.config_sections import Section
from penstock.engine.pipeline.model import EngineConfig, SourceConfig, StreamConfig
from penstock.engine.pipeline.options import ENGINE

SPARK_SOURCES: Final = ("kafka", "parquet")
"""The kinds of sources that Spark reads."""


def read_engine(
    section: Section, stream: StreamConfig | None, source: SourceConfig | None
) -> EngineConfig | None:
    """The table [engine]; None if it is not there."""
    if not section.content:
        return None
    found = section.options(ENGINE)
    section.close()
    if not found.get("partitioner"):
        found["partitioner"] = "murmur2"
    engine = EngineConfig(**found)
    if stream is not None and source is not None:
        for key, message in engine_problems(engine, stream, source):
            section.wrong(key if key and key in section else None, message)
    return engine


def engine_problems(
    engine: EngineConfig, stream: StreamConfig, source: SourceConfig
) -> Iterator[tuple[str | None, str]]:
    """Why Spark cannot count this stream: the key of [engine] at fault, if any, and a sentence."""
    if source.kind not in SPARK_SOURCES:
        message = (
            "Spark counts events of Kafka topics, Parquet files and tables of them, not of kind = "
            f'"{source.kind}". '
            "Publish this stream without it."
        )
        yield None, message
    if stream.late == "current":
        message = (
            'late = "current" cannot be used on Spark, where a unit is counted once from a range '
            'of the input. Write late = "drop" in [stream].'
        )
        yield None, message
    if engine.partitioned is not None and source.kind != "kafka":
        yield "partitioned", "can only be used with a Kafka topic, which has partitions."
    elif engine.partitioned is not None and source.columns.person is None:
        yield "partitioned", "needs the column of the person in [source]."
