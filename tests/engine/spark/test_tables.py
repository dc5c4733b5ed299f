"""Tables of Spark's catalogue, by real Spark: the same releases and links as files without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.errors import ConfigurationError, InputError, StateError, UnusableSourceError
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.spark import jobs
from penstock.engine.spark.engine import SparkEngine
from penstock.engine.spark.tables import CatalogueTable, TablePlace, local_path
from penstock.private.noise import TestNoise

from tests.engine.spark.worlds import (
    TURNS,
    WITH_REAL_SPARK,
    Engine,
    outcome,
    rows_of_turn,
    settings,
    taps_toml,
    write_parquet,
)

pytestmark = WITH_REAL_SPARK

COLUMNS = "ts string, station string, card string"
ALL = len(TURNS)
END = {"until": "2026-01-01T06:00Z"}
FILES = {"kind": "parquet", "path": "taps/*.parquet"}
TABLE = {"kind": "parquet", "table": "taps"}
BY_TIME = " PARTITIONED BY (ts)"


@pytest.fixture
def spark(real_spark):
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    yield session
    for each in session.catalog.listTables():
        kind = "VIEW" if each.tableType in ("VIEW", "TEMPORARY") else "TABLE"
        session.sql(f"DROP {kind} IF EXISTS {each.name}")


def created(spark, folder, *more, columns=COLUMNS, name="taps"):
    """A table without files, in a folder of this name."""
    place = folder / "warehouse" / name
    place.mkdir(parents=True)
    tail = " ".join(more)
    spark.sql(f"CREATE TABLE {name} ({columns}) USING parquet {tail} LOCATION '{place}'")
    return place


def inserted(spark, rows, *, columns=COLUMNS):
    frame = spark.createDataFrame(rows, columns)
    frame.select(*spark.table("taps").columns).write.insertInto("taps")


def filled(folder, upto=ALL):
    (folder / "taps").mkdir(exist_ok=True)
    for number in range(upto):
        path = folder / "taps" / f"{number}.parquet"
        if not path.exists():
            write_parquet(path, rows_of_turn(number))


def published(folder, source, *, engine=None, **more):
    content = settings(source, store="there.db" if engine else "here.db", stream=END, **more)
    if engine is not None:
        content["engine"] = engine
    pipeline = Pipeline.of(content, folder=folder)
    made = None if engine is None else SparkEngine(pipeline)
    with Publisher(pipeline, noise=lambda: TestNoise(5), engine=made) as publisher:
        assert publisher.run()
        return outcome(publisher)


def pair(folder, engine):
    """A publisher of growing files without Spark, and one of a growing table with it."""
    here = settings({**FILES, "growing": True}, store="here.db")
    there = settings({**TABLE, "growing": True}, store="there.db", engine=engine)
    return (
        Engine(Pipeline.of(here, folder=folder)),
        Engine(Pipeline.of(there, folder=folder), SparkEngine),
    )


@pytest.mark.parametrize("partitions", [(), ("station",), ("card", "station"), ("ts",)])
def test_a_table_gives_the_same_releases_and_links_as_files(
    tmp_path, real_spark, spark, partitions
):
    by = f"PARTITIONED BY ({', '.join(partitions)})" if partitions else ""
    created(spark, tmp_path, by)
    filled(tmp_path)
    inserted(spark, [row for number in range(ALL) for row in rows_of_turn(number)])
    assert published(tmp_path, TABLE, engine=real_spark) == published(tmp_path, FILES)


def test_a_growing_table_gives_the_same_as_growing_files_also_with_restarts(
    tmp_path, real_spark, spark
):
    """Later files have earlier names: the order of names must not matter."""
    place = created(spark, tmp_path)
    both = pair(tmp_path, real_spark)
    try:
        for number, now in enumerate(TURNS):
            filled(tmp_path, number + 1)
            write_parquet(place / f"{9 - number}.parquet", rows_of_turn(number))
            for each in both:
                if each.publisher is None:
                    each.open()
                each.turn(now)
            assert len(TablePlace.of(both[1].publisher.progress.position).taken) == number + 1
            both[1].close()
        both[1].open()
        first, second = (outcome(each.publisher)[0] for each in both)
        for name, (releases, head, _) in first.items():
            assert second[name][:2] == (releases, head)
        assert [unit for unit, _ in first["taps/hours"][0]] == [1, 2, 3, 4, 5, 6]
    finally:
        for each in both:
            each.close()


def test_the_files_of_a_range_are_stored_before_it_is_counted(
    tmp_path, real_spark, spark, monkeypatch
):
    """A driver that is killed counts the same files again, also if another one has come."""
    place = created(spark, tmp_path)
    both = pair(tmp_path, real_spark)
    here, there = both
    count, killed = jobs.SparkCounter.counted, []

    def counted(self, given, rules, units):
        if not killed:
            killed.append(units)
            raise KeyboardInterrupt
        return count(self, given, rules, units)

    monkeypatch.setattr(jobs.SparkCounter, "counted", counted)
    try:
        filled(tmp_path, 2)
        write_parquet(place / "5.parquet", [*rows_of_turn(0), *rows_of_turn(1)])
        here.open()
        here.turn(TURNS[1])
        there.open()
        with pytest.raises(KeyboardInterrupt):
            there.turn(TURNS[1])
        there.close()
        late = [("2026-01-01T00:20:00Z", "north", f"card-{number}") for number in range(500, 600)]
        write_parquet(place / "3.parquet", late)
        there.open()
        there.publisher.loop.draw(there.clock.now())
        there.publisher.loop.commit()
        first, second = (
            [each.value.tolist() for each in engine.publisher.store.releases("taps/hours")]
            for engine in both
        )
        assert (first, len(killed)) == (second, 1)
        assert len(first) == 1
    finally:
        for each in both:
            each.close()


def test_files_that_changed_or_are_gone_are_refused(tmp_path, real_spark, spark):
    place = created(spark, tmp_path)
    _, there = pair(tmp_path, real_spark)
    write_parquet(place / "7.parquet", rows_of_turn(0))
    there.open()
    try:
        there.turn(TURNS[0])
        write_parquet(place / "3.parquet", rows_of_turn(1))
        write_parquet(place / "7.parquet", [*rows_of_turn(2), *rows_of_turn(3)])
        with pytest.raises(StateError, match=r"^7\.parquet: this is not the file that was read"):
            there.turn(TURNS[1])
        (place / "7.parquet").unlink()
        with pytest.raises(
            StateError, match=r"^7\.parquet: .* in which the source stands, is gone"
        ):
            there.turn(TURNS[1])
        assert there.publisher.views[0].closed == 0
        spark.sql("DROP TABLE taps")
        with pytest.raises(StateError, match="no longer has the table taps"):
            there.turn(TURNS[1])
    finally:
        there.close()


def test_a_changed_file_of_a_stored_range_is_refused_by_the_worker(tmp_path, real_spark, spark):
    place = created(spark, tmp_path)
    _, there = pair(tmp_path, real_spark)
    write_parquet(place / "7.parquet", rows_of_turn(0))
    there.open()
    try:
        there.turn(TURNS[0])
        write_parquet(place / "3.parquet", rows_of_turn(1))
        there.clock.set("2026-01-01T01:05Z")
        there.publisher.loop._retry_at = 0.0
        there.publisher.loop.read()  # the source stands in the other file now
        write_parquet(place / "7.parquet", rows_of_turn(3))
        with pytest.raises(StateError, match=r"7\.parquet: this is not the file that was read"):
            there.turn(TURNS[1])
        assert there.publisher.views[0].closed == 0
    finally:
        there.close()


def test_a_damaged_file_is_left_out_when_another_one_follows_and_no_folder_is_named(
    tmp_path, real_spark, spark
):
    """Names of folders may be ids of persons."""
    place = created(spark, tmp_path, "PARTITIONED BY (card)")
    inserted(spark, [("2026-01-01T00:10:00Z", "north", "planted-7734")])
    _, there = pair(tmp_path, real_spark)
    said = []
    there.more["listener"] = lambda notice: said.append(notice.text)
    there.open()
    try:
        there.turn(TURNS[0])
        broken = place / "card=planted-7734" / "broken.parquet"
        broken.write_bytes(b"no Parquet")
        with pytest.raises(InputError, match=r"^broken\.parquet: the file is not Parquet"):
            list(there.publisher.source.batches(there.publisher.progress.position))
        assert there.publisher.source.unreadable
        inserted(spark, [("2026-01-01T00:20:00Z", "north", "planted-7735")])
        os.utime(broken, ns=(0, 0))
        there.turn(TURNS[1])
        assert there.publisher.source.rejections.for_operator()["unreadable file"] == 1
        assert any("broken.parquet" in text and "left out" in text for text in said)
        assert "planted" not in str(said)
        assert there.publisher.views[0].closed == 1
    finally:
        there.close()


def test_a_time_of_the_catalogue_is_an_instant_in_every_zone(tmp_path, real_spark, spark):
    """Spark writes timestamps without a time zone, in UTC."""
    created(spark, tmp_path, columns="ts timestamp, station string, card string")
    spark.sql(
        "INSERT INTO taps VALUES (timestamp'2026-01-01 05:10:00Z', 'north', 'a'), "
        "(timestamp'2026-01-01 06:20:00Z', 'south', 'b')"
    )
    (tmp_path / "taps").mkdir()
    rows = [("2026-01-01T05:10:00Z", "north", "a"), ("2026-01-01T06:20:00Z", "south", "b")]
    write_parquet(tmp_path / "taps" / "0.parquet", rows)
    found = []
    for source, store in ((TABLE, "there.db"), (FILES, "here.db")):
        stream = {"zone": "America/New_York", "until": "2026-01-01T07:00Z"}
        content = settings(source, store=store, stream=stream, engine=real_spark)
        pipeline = Pipeline.of(content, folder=tmp_path)
        with Publisher(
            pipeline, noise=lambda: TestNoise(5), engine=SparkEngine(pipeline)
        ) as publisher:
            assert publisher.run()
            found.append(outcome(publisher))
    assert found[0] == found[1]
    assert found[0][0]["taps/hours"][2] == (0, 0, 0)  # nothing was before unit 1


def test_partitions_of_dates_and_numbers_are_read_as_columns_are(tmp_path, real_spark, spark):
    created(
        spark,
        tmp_path,
        "PARTITIONED BY (ts, card)",
        columns="station string, ts date, card int",
    )
    spark.sql("INSERT INTO taps VALUES ('north', date'2026-01-01', 7), ('west', NULL, 8)")
    (tmp_path / "taps").mkdir()
    rows = {
        "station": ["north", "west"],
        "ts": pa.array(["2026-01-01", None]).cast(pa.date32()),
        "card": pa.array([7, 8], pa.int32()),
    }
    pq.write_table(pa.table(rows), tmp_path / "taps" / "0.parquet")
    there = published(tmp_path, TABLE, engine=real_spark, integer=True)
    assert there == published(tmp_path, FILES, integer=True)
    assert there[1] == {"missing value": 1}


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        ([], "there is no table taps, because Spark was started without a metastore"),
        (
            [f"CREATE TABLE base ({COLUMNS}) USING parquet", "CREATE VIEW taps AS TABLE base"],
            "taps is a view, which has no files of its own",
        ),
        ([f"CREATE TABLE taps ({COLUMNS}) USING csv"], "taps is a table of csv files"),
        (
            [
                "CREATE TABLE taps (station string, card string, ts timestamp) USING parquet"
                + BY_TIME
            ],
            "partitioned by 'ts', of type timestamp_ltz, and only string, ",
        ),
        (
            ["CREATE TABLE taps (ts string, station string, cards string) USING parquet"],
            "taps has no column 'card'; it has 'ts', 'station', 'cards'. Did you mean",
        ),
    ],
    ids=["missing", "view", "csv", "partition type", "column"],
)
def test_tables_that_cannot_be_read_are_refused_in_one_sentence(
    tmp_path, real_spark, spark, statements, told, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    for number, each in enumerate(statements):
        where = f" LOCATION '{tmp_path / str(number)}'" if "CREATE TABLE" in each else ""
        spark.sql(each + where)
    pipeline = Pipeline.of(settings(TABLE, store="there.db", engine=real_spark), folder=tmp_path)
    capfd.readouterr()
    with pytest.raises(ConfigurationError) as caught:
        Publisher(pipeline, engine=SparkEngine(pipeline))
    assert told in str(caught.value)
    assert capfd.readouterr().err == ""


def test_a_table_without_files_and_a_partition_elsewhere_are_refused(tmp_path, real_spark, spark):
    created(spark, tmp_path, "PARTITIONED BY (station)")
    with pytest.raises(UnusableSourceError, match=r"taps has no files\..*growing = true"):
        published(tmp_path, TABLE, engine=real_spark)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_parquet(elsewhere / "0.parquet", rows_of_turn(0))
    spark.sql(f"ALTER TABLE taps ADD PARTITION (station='north') LOCATION '{elsewhere}'")
    with pytest.raises(UnusableSourceError, match="not named after the value of 'station'"):
        published(tmp_path, TABLE, engine=real_spark)


def test_only_paths_that_every_machine_sees_are_taken():
    assert str(local_path("file:///data/a b/c:d", "taps")) == "/data/a b/c:d"
    assert str(local_path("file:/data/x", "taps")) == "/data/x"
    assert str(local_path("/data/c:d", "taps")) == "/data/c:d"
    with pytest.raises(ConfigurationError, match=r"taps are at hdfs://, and workers read files"):
        local_path("hdfs://name/data/x", "taps")


def test_the_catalogue_is_asked_now_and_then_and_when_a_unit_closes(
    tmp_path, real_spark, spark, monkeypatch
):
    place = created(spark, tmp_path)
    write_parquet(place / "0.parquet", rows_of_turn(0))
    asked, files = [], CatalogueTable.files
    monkeypatch.setattr(CatalogueTable, "files", lambda self: asked.append(1) or files(self))
    _, there = pair(tmp_path, real_spark)
    there.open()
    try:
        for _ in range(3):
            there.turn(TURNS[0])
        assert len(asked) == 1
        there.turn(TURNS[1])
        assert len(asked) == 2
    finally:
        there.close()


FILL = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").enableHiveSupport().getOrCreate()
spark.sql("CREATE DATABASE city")
for name, kind in (("city.taps", "USING parquet"), ("city.hive_taps", "STORED AS parquet")):
    spark.sql(f"CREATE TABLE {name} (ts timestamp, card string, station string) {kind}")
    spark.sql(f"INSERT INTO {name} SELECT timestamp'2026-01-01 00:10:00Z', "
              "concat('planted-', id), 'north' FROM range(773)")
"""


@pytest.mark.nightly
def test_penstock_run_reads_tables_of_a_metastore(tmp_path, real_spark):
    """Each run has a session of its own, which takes long. The quick twins are the tests above."""
    metastore = f"jdbc:derby:;databaseName={tmp_path / 'metastore'};create=true"
    environment = {**os.environ, "SPARK_CONF_DIR": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"}
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text(
        f"spark.hadoop.javax.jdo.option.ConnectionURL {metastore}\n"
        f"spark.sql.warehouse.dir {tmp_path / 'warehouse'}\n"
        f"spark.driver.extraJavaOptions -Dderby.system.home={tmp_path}\n"
    )

    def run(*command):
        return subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def started(table, store="none.db"):
        source, engine = f'kind = "parquet"\ntable = "{table}"', '[engine]\nmaster = "local[2]"'
        (tmp_path / "taps.toml").write_text(taps_toml(source, store=store, engine=engine))
        return run("-m", "penstock", "run", "taps.toml", "--engine", "spark")

    done = run("-c", FILL)
    assert done.returncode == 0, done.stderr[-2000:]
    for table in ("city.taps", "spark_catalog.`city`.hive_taps"):
        done = started(table, f"{len(table)}.db")
        assert done.returncode == 0, done.stderr
        assert "published" in done.stderr
        assert "planted" not in done.stdout + done.stderr
        assert "773" not in done.stdout + done.stderr
    for table, told in (
        ("city.stations", "Spark's catalogue has no table city.stations."),
        ("town.taps", "Spark's catalogue has no database town."),
    ):
        done = started(table)
        assert (done.returncode, told in done.stderr) == (2, True), done.stderr
        assert sum("penstock:" in line for line in done.stderr.splitlines()) == 1
    defaults.write_text("spark.hadoop.hive.metastore.uris thrift://127.0.0.1:1\n")
    done = started("city.taps")
    assert done.returncode == 1, done.stderr
    assert "Spark's catalogue cannot be asked for city.taps" in done.stderr
    assert json.dumps("stacktrace") not in done.stderr
