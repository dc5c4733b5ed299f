"""What must hold of every sink that can tell what it holds."""

from __future__ import annotations

import os
import secrets
from random import Random

import pytest

from penstock.released.sinks.base import Sink

from tests.released.sinks.items import AWKWARD, items, link, series

KAFKA, POSTGRES = os.environ.get("PENSTOCK_TEST_KAFKA"), os.environ.get("PENSTOCK_TEST_POSTGRES")


def without(server, name):
    return pytest.mark.skipif(
        server is None, reason=f"PENSTOCK_TEST_{name} is not set: `.ci/services` starts it"
    )


@pytest.fixture(
    params=[
        "parquet",
        "csv",
        "jsonl",
        pytest.param("kafka", marks=without(KAFKA, "KAFKA")),
        pytest.param("postgres", marks=without(POSTGRES, "POSTGRES")),
    ]
)
def opened(request, tmp_path):
    """Opens the same sink again and again, and closes all of them."""
    name, sinks = f"every_{secrets.token_hex(6)}", []

    def make() -> Sink:
        sink: Sink
        if request.param == "parquet":
            from penstock.released.sinks.parquet import ParquetSink

            sink = ParquetSink(tmp_path)
        elif request.param == "csv":
            from penstock.released.sinks.csv_files import CsvSink

            sink = CsvSink(tmp_path)
        elif request.param == "jsonl":
            from penstock.released.sinks.jsonl import JsonLinesSink

            sink = JsonLinesSink(tmp_path / "out.jsonl")
        elif request.param == "kafka":
            from penstock.released.sinks.kafka import KafkaSink

            sink = KafkaSink(KAFKA, name)
        else:
            from penstock.released.sinks.postgres import PostgresSink

            sink = PostgresSink(POSTGRES, table=name)
        sinks.append(sink)
        return sink

    yield make
    for sink in sinks:
        sink.close()
    if request.param == "postgres":
        import psycopg

        with psycopg.connect(POSTGRES, autocommit=True) as connection:
            for each in (name, f"{name}_heads"):
                connection.execute(
                    psycopg.sql.SQL("DROP TABLE IF EXISTS {}").format(psycopg.sql.Identifier(each))
                )


def test_it_catches_up_from_its_head_however_often_it_is_closed_and_whatever_is_sent_again(opened):
    random, both = Random(3), (series("taps"), series(AWKWARD, keys=3))
    held = {of.name: 0 for of in both}
    sink = opened()
    assert [sink.head(of.name) for of in both] == [None, None]
    for _ in range(8):
        if random.random() < 0.5:
            sink.close()
            sink = opened()
        some = []
        for of in both:
            first = max(1, held[of.name] + 1 - random.randint(0, 2))
            last = held[of.name] + random.randint(0, 7)
            some += items(of, first, last)
            held[of.name] = max(held[of.name], last)
        sink.put(some)
        for of in both:
            wanted = (held[of.name], link(of, held[of.name])) if held[of.name] else None
            assert sink.head(of.name) == wanted
    assert all(held.values())
    assert sink.head("nobody") is None


def test_closing_twice_and_going_on_is_harmless(opened):
    sink, of = opened(), series("taps")
    sink.put(items(of, 1, 2))
    sink.close()
    sink.close()
    sink.put(items(of, 2, 3))
    assert sink.head("taps") == (3, link(of, 3))
