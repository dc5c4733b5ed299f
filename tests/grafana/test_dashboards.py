"""The dashboards of examples/grafana: their form, their SQL on a real server, their metrics."""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import ExitStack
from pathlib import Path

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.released.sinks.postgres import PostgresSink

from tests.engine.test_monitor import HERE, Served
from tests.released.sinks.items import AWKWARD, KEYS, items, series

FOLDER = Path(__file__).parents[2] / "examples" / "grafana"
SCHEMA = json.loads((Path(__file__).parent / "dashboard.schema.json").read_text())
BOARDS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
URL = os.environ.get("PENSTOCK_TEST_POSTGRES")
real = pytest.mark.skipif(
    URL is None, reason="PENSTOCK_TEST_POSTGRES is not set: `.ci/services` starts PostgreSQL"
)
METRIC = re.compile(r"\bpenstock_\w+")
SELECTED = re.compile(r"(\w+) ?(?:=~|!~|!=|=) ?\"")
GROUPED = re.compile(r"\bby \(([\w, ]+)\)")
VARIABLE = re.compile(r"\$\{?(\w+)")


def targets(board, field):
    return [
        target[field]
        for panel in board["panels"]
        for target in panel.get("targets", ())
        if field in target
    ]


def queries(board, plugin):
    return [
        each["query"]
        for each in board["templating"]["list"]
        if each.get("datasource", {}).get("type") == plugin
    ]


# -- their form ------------------------------------------------------------------------------------


def test_both_dashboards_are_there():
    assert set(BOARDS) == {"publisher", "releases"}


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_has_the_form_that_grafana_imports(name):
    jsonschema.Draft202012Validator(SCHEMA).validate(BOARDS[name])


def damaged(change):
    board = json.loads(json.dumps(BOARDS["releases"]))
    change(board)
    return board


@pytest.mark.parametrize(
    "change",
    [
        lambda board: board.pop("__inputs"),
        lambda board: board["panels"][0].pop("targets"),
        lambda board: board["panels"][0].update(type="graph"),
        lambda board: board["panels"][0]["gridPos"].update(w=25),
        lambda board: board["panels"][0]["targets"][0].update(rawSql="DROP TABLE published"),
        lambda board: board["templating"]["list"][1].pop("datasource"),
        lambda board: board["panels"][0]["datasource"].update(uid="mine"),
    ],
)
def test_the_schema_refuses_what_grafana_could_not_use(change):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(damaged(change))


@pytest.mark.parametrize("name", BOARDS)
def test_inputs_variables_and_panels_fit_together(name):
    board = BOARDS[name]
    text = json.dumps({**board, "__inputs": None})
    inputs = {each["name"] for each in board["__inputs"]}
    assert set(re.findall(r"\$\{((?:DS|VAR)_[A-Z]+)\}", text)) == inputs
    variables = {each["name"] for each in board["templating"]["list"]}
    asked = [
        *targets(board, "rawSql"),
        *targets(board, "expr"),
        *(each["title"] for each in board["panels"]),
    ]
    used = {each for text in asked for each in VARIABLE.findall(text)}
    assert used - {"__timeFilter"} <= variables
    assert all(each["repeat"] in variables for each in board["panels"] if "repeat" in each)
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(set(numbers)) == len(numbers)
    kinds = {each["id"] for each in board["__requires"] if each["type"] == "panel"}
    assert {panel["type"] for panel in board["panels"]} <= kinds


@pytest.mark.parametrize("name", BOARDS)
def test_panels_do_not_overlap(name):
    taken = set()
    for panel in BOARDS[name]["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


# -- SQL -------------------------------------------------------------------------------------------


def filled(sql, *, table, series, keys):
    """The statement that Grafana sends: its variables and macros replaced."""

    def quoted(values):
        return ",".join("'" + each.replace("'", "''") + "'" for each in values)

    values = {"series": quoted([series]), "key": quoted(keys), "table": table}
    sql = re.sub(r"\$\{(\w+)(?::sqlstring)?\}", lambda found: values[found[1]], sql)
    return re.sub(
        r"\$__timeFilter\((\w+)\)",
        r"\1 BETWEEN '2026-01-01T00:00:00Z' AND '2026-01-01T03:59:59Z'",
        sql,
    )


@pytest.fixture
def table():
    """A table that a sink has filled, with five units of two series."""
    psycopg = pytest.importorskip("psycopg")
    name = f"published_{secrets.token_hex(6)}"
    sink = PostgresSink(URL, table=name)
    sink.put([*items(series(), 1, 5), *items(series(AWKWARD), 1, 5)])
    sink.close()
    yield name
    with psycopg.connect(URL, autocommit=True) as connection:
        for each in (name, f"{name}_heads"):
            connection.execute(f"DROP TABLE {each}")


def rows(sql):
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(URL, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = on")
        cursor = connection.execute(sql)
        return [column.name for column in cursor.description], cursor.fetchall()


def releases_sql(table, name, keys):
    board = BOARDS["releases"]
    asked = queries(board, "grafana-postgresql-datasource") + targets(board, "rawSql")
    return {each: filled(each, table=table, series=name, keys=keys) for each in asked}


@real
@pytest.mark.parametrize("name", ["taps", AWKWARD])
@pytest.mark.parametrize("key", KEYS)
def test_every_sql_finds_rows_in_the_table_of_a_sink(table, name, key):
    for raw, sql in releases_sql(table, name, [key]).items():
        columns, found = rows(sql)
        assert found, raw
        assert len(set(columns)) == len(columns)


@real
def test_series_and_keys_can_be_chosen(table):
    ask_series, ask_keys = queries(BOARDS["releases"], "grafana-postgresql-datasource")
    _, found = rows(filled(ask_series, table=table, series="", keys=[]))
    assert sorted(name for (name,) in found) == sorted(["taps", AWKWARD])
    _, found = rows(filled(ask_keys, table=table, series="taps", keys=[]))
    assert sorted(key for (key,) in found) == sorted(KEYS)


@real
def test_charts_have_the_numbers_of_the_releases(table):
    charts = [
        target["rawSql"]
        for panel in BOARDS["releases"]["panels"]
        for target in panel.get("targets", ())
        if target.get("format") == "time_series"
    ]
    assert len(charts) == 2
    of = list(items(series(), 1, 5))
    one, together = (
        filled(each, table=table, series="taps", keys=keys)
        for each, keys in zip(charts, (KEYS[:1], KEYS), strict=True)
    )
    columns, found = rows(one)
    assert columns == ["time", "count", "low", "high"]
    assert [row[:2] for row in found] == [
        (each.begins, float(each.release.value[0]))
        for each in of[:4]  # the fifth is too late
    ]
    assert all(low < value < high for _, value, low, high in found)
    columns, found = rows(together)
    assert columns == ["time", "metric", "value"]
    assert {(time, key): value for time, key, value in found} == {
        (each.begins, key): float(value)
        for each in of[:4]
        for key, value in zip(KEYS, each.release.value, strict=True)
    }


# -- metrics ---------------------------------------------------------------------------------------


@pytest.fixture
def labels(tmp_path):
    """The labels of every metric that a running publisher serves."""
    with ExitStack() as stack:
        here = Served(stack, tmp_path, {"operator": HERE, "sink": [{"kind": "csv", "path": "out"}]})
        here.turn("2026-01-01T02:00Z")
        found: dict[str, set[str]] = {}
        for path in ("/metrics", "/releases"):
            for family in text_string_to_metric_families(here.get(path).text):
                for sample in family.samples:
                    found.setdefault(sample.name, set()).update(sample.labels)
        yield found


def test_every_metric_and_label_is_served(labels):
    board = BOARDS["publisher"]
    asked = [*targets(board, "expr"), *queries(board, "prometheus")]
    assert len(asked) > 10
    for expression in asked:
        names = METRIC.findall(expression)
        assert names, expression
        used = set(SELECTED.findall(expression))
        for group in GROUPED.findall(expression):
            used |= {each.strip() for each in group.split(",")}
        for each in re.findall(r"label_values\(.*, (\w+)\)", expression):
            used.add(each)
        for name in names:
            assert name in labels, name
            assert used <= labels[name], expression


def test_legends_name_labels_that_are_served(labels):
    for panel in BOARDS["publisher"]["panels"]:
        for target in panel.get("targets", ()):
            (name, *_) = METRIC.findall(target["expr"])
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert shown <= labels[name], panel["title"]
