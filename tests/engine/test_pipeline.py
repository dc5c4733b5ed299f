from __future__ import annotations

import contextlib
import re
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.core.calendar import Calendar
from penstock.engine.config_sections import InvalidConfigurationError
from penstock.engine.pipeline import (
    Pipeline,
    SinkConfig,
    SourceConfig,
    StoreConfig,
    reach,
    units_in,
)
from penstock.private.sources.base import Columns

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline.toml"

FULL = """\
[stream]
name = "taps"
every = "1h"
origin = "2026-01-01"

[source]
kind = "jsonl"
path = "taps/*.jsonl"
time = "ts"
key = "station"
person = "card"

[domain]
keys = ["north", "south"]

[privacy]
mechanism = "ba"
epsilon = "1"
window = 24
"""


def edited(*changes: tuple[str, str], more: str = "") -> str:
    """The full file with some texts in it replaced by others."""
    text = FULL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text + more


def written(folder: Path, text: str) -> Path:
    path = folder / "pipeline.toml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(folder: Path, text: str) -> dict[int, str]:
    """What is wrong with a text, by line, each as `key: message`."""
    with pytest.raises(InvalidConfigurationError) as caught:
        Pipeline.read(written(folder, text))
    said = {}
    for problem in caught.value.problems:
        told = re.search(
            rf"pipeline\.toml:{problem.line}: (.*{re.escape(problem.message)})",
            str(caught.value),
            re.DOTALL,
        )
        assert told is not None
        said[problem.line] = f"{said.get(problem.line, '')}{told[1].splitlines()[-1]}"
    return said


def content(**tables: Any) -> dict[str, Any]:
    """A configuration as Python has it; a table given replaces the usual one."""
    usual: dict[str, Any] = {
        "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
        "source": {"kind": "stdin", "time": "ts", "key": "station", "person": "card"},
        "domain": {"keys": ["north", "south"]},
        "privacy": {"mechanism": "ba", "epsilon": "1", "window": 24},
    }
    return {**usual, **tables}


# -- what is read ----------------------------------------------------------------------------------


def test_the_example_is_read_as_it_says():
    pipeline = Pipeline.read(EXAMPLE)
    assert pipeline.stream.calendar == Calendar(
        every="1h", zone="Europe/Zurich", origin="2026-01-01"
    )
    assert (pipeline.stream.lateness, pipeline.stream.late, pipeline.stream.tolerance) == (
        "10min",
        "drop",
        "1min",
    )
    columns = Columns(
        "tapped_at", "station", person="card", zone="Europe/Zurich", person_type="integer"
    )
    assert pipeline.source == SourceConfig(
        kind="parquet",
        columns=columns,
        options={"path": "taps/*.parquet", "table": None, "growing": False},
    )
    assert pipeline.domain().keys == (
        "Airport",
        "Central",
        "Harbour",
        "Old Town",
        "University",
        "elsewhere",
    )
    declared = ps.BudgetAbsorption(epsilon="1", window=24, contribution=2)
    assert pipeline.view().declared == declared
    assert pipeline.mechanism() == declared.decided(pipeline.domain())
    assert pipeline.guarantee == ps.Guarantee("1", 24, 2)
    assert pipeline.store == StoreConfig(path="taps.db", head="elsewhere/taps.head")
    assert [sink.name for sink in pipeline.sinks] == ["parquet", "partners"]
    assert pipeline.operator.metrics == "127.0.0.1:9464"
    assert pipeline.path("taps.db") == EXAMPLE.parent / "taps.db"


def test_the_lines_in_the_example_that_are_comments_are_true(tmp_path):
    text = EXAMPLE.read_text(encoding="utf-8")
    views = "".join(
        line.removeprefix("# ")
        for line in re.findall(r"^# \[\[view\]\]\n(?:^#.*\n)+", text, re.MULTILINE)[0:1]
    )
    views = re.sub(r"^# ?", "", views, flags=re.MULTILINE)
    text = re.sub(r'^(mechanism = "ba"|contribution = 2).*\n', "", text, flags=re.MULTILINE)
    text = text.replace('# view = "hourly"', 'view = "hourly"')  # of the alert: it names one
    pipeline = Pipeline.read(written(tmp_path, f"{text}\n{views}"))
    assert [(view.name, view.cost) for view in pipeline.views] == [
        ("hourly", Fraction(2, 3)),
        ("daily", Fraction(1, 3)),
    ]


def test_a_file_and_a_dict_are_the_same_configuration(tmp_path):
    read = Pipeline.read(written(tmp_path, FULL))
    source = {
        "kind": "jsonl",
        "path": "taps/*.jsonl",
        "time": "ts",
        "key": "station",
        "person": "card",
    }
    made = Pipeline.of(content(source=source))
    assert made == read
    assert made.fingerprint() == read.fingerprint()


def test_what_is_built_in_python_is_taken_as_it_is():
    mechanism = ps.Sample(epsilon="1", window=3, histogram=ps.QuadTree(shape=(2, 2)))
    source = {"kind": "stdin", "time": "ts"}
    pipeline = Pipeline.of(content(privacy=mechanism, domain=ps.Product.grid(2, 2), source=source))
    assert pipeline.mechanism() is mechanism
    assert pipeline.source.columns.keys == ("row", "column")
    assert pipeline.guarantee == mechanism.guarantee
    with pytest.raises(InvalidConfigurationError, match="view: cannot stand beside a mechanism"):
        Pipeline.of(content(privacy=mechanism, view=[{"name": "a"}]))
    with pytest.raises(InvalidConfigurationError, match=r"privacy: .*shape"):
        Pipeline.of(content(privacy=mechanism))


@pytest.mark.parametrize(
    ("domain", "keys"),
    [
        ({"keys": ["a", 7]}, ("a", "7")),
        ({"keys": ["a", "rest", "b"], "other": "rest"}, ("a", "rest", "b")),
        ({"range": [-1, 1], "other": "rest"}, ("-1", "0", "1", "rest")),
        ({"file": "keys.txt"}, ("A/x/one", "A/two", "three 3")),
        ({"attributes": {"s": ["f", "m"], "t": 2}}, ("f,0", "f,1", "m,0", "m,1")),
        ({"attributes": {"s": ["f", "?"], "t": 1}, "other": "?,0"}, ("f,0", "?,0")),
        ({"hierarchy": {"one": "A/x", "two": ["A"]}, "other": "rest"}, ("one", "two", "rest")),
        ({"hierarchy": "keys.txt"}, ("one", "two", "three 3")),
    ],
)
def test_a_domain_can_be_declared_in_five_ways(domain, keys, tmp_path):
    (tmp_path / "keys.txt").write_text("A/x/one\nA/two\r\n\n three 3 \n", encoding="utf-8")
    source = {
        "kind": "stdin",
        "time": "ts",
        "key": ["s", "t"] if "attributes" in domain else "station",
    }
    pipeline = Pipeline.of(content(domain=domain, source=source), folder=tmp_path)
    assert pipeline.domain().keys == keys
    assert isinstance(pipeline.domain(), ps.Hierarchy) == ("hierarchy" in domain)
    if "hierarchy" in domain:
        assert pipeline.domain().paths[:2] == (("A", "x"), ("A",))


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ({"kind": "parquet", "path": "b*"}, {"path": "b*", "table": None, "growing": False}),
        (
            {"kind": "csv", "path": "a", "delimiter": ";", "names": ["ts", "k"]},
            {
                "path": "a",
                "growing": False,
                "delimiter": ";",
                "names": ("ts", "k"),
                "quoted_newlines": False,
            },
        ),
        ({"kind": "jsonl", "path": "a", "growing": True}, {"path": "a", "growing": True}),
        (
            {"kind": "stdin", "format": "csv"},
            {"format": "csv", "delimiter": ",", "names": None, "quoted_newlines": False},
        ),
        (
            {"kind": "http", "token_env": "T"},
            {
                "listen": "127.0.0.1:8080",
                "token_env": "T",
                "tls_cert": None,
                "tls_key": None,
                "tls_client_ca": None,
                "connections_per_peer": 100,
            },
        ),
        (
            {
                "kind": "kafka",
                "servers": "k:9092",
                "topic": "t",
                "format": "avro",
                "schema_file": "s",
                "accept_loss": True,
            },
            {
                "servers": ("k:9092",),
                "topic": "t",
                "group": "penstock",
                "format": "avro",
                "schema_file": "s",
                "framed": None,
            }
            | {
                "outage": "close",
                "accept_loss": True,
                "mechanism": "PLAIN",
                "tls": None,
                "authority": None,
            },
        ),
        (
            {
                "kind": "mqtt",
                "server": "m:1883",
                "topic": "t/+",
                "username_env": "U",
                "password_env": "P",
                "tls": False,
            },
            {
                "server": "m:1883",
                "topic": "t/+",
                "client": "penstock",
                "username_env": "U",
                "password_env": "P",
            }
            | {"tls": False, "authority": None},
        ),
    ],
    ids=lambda value: value.get("kind"),
)
def test_every_kind_of_source_has_its_own_options(source, options):
    found = Pipeline.of(content(source={"time": "ts", "key": "k", **source})).source
    assert (found.kind, found.options, found.columns) == (
        source["kind"],
        options,
        Columns("ts", "k"),
    )


def test_columns_are_described_as_sources_take_them():
    source = {
        "kind": "stdin",
        "time": "ts",
        "key": ["s", "t"],
        "clock": "seconds",
        "zone": "Asia/Tokyo",
    }
    types = {"key_type": ["text", "integer"], "person": "card", "person_type": "integer"}
    domain = {"attributes": {"sex": ["f", "m"], "age": 3}}
    found = Pipeline.of(content(source={**source, **types}, domain=domain)).source.columns
    assert found == Columns(
        "ts",
        ("s", "t"),
        clock="seconds",
        zone="Asia/Tokyo",
        **{**types, "key_type": ("text", "integer")},
    )


@pytest.mark.parametrize(
    ("sink", "options"),
    [
        (
            {"kind": "parquet", "path": "out"},
            {"path": "out", "compact": True, "format": "full"},
        ),
        (
            {"kind": "csv", "path": "out", "format": "long"},
            {"path": "out", "format": "long", "comments": False},
        ),
        ({"kind": "jsonl", "path": "out"}, {"path": "out"}),
        (
            {
                "kind": "kafka",
                "servers": ["k:1", "l:2"],
                "topic": "t",
                "mechanism": "SCRAM-SHA-512",
                "authority": "broker.pem",
            },
            {
                "servers": ("k:1", "l:2"),
                "topic": "t",
                "mechanism": "SCRAM-SHA-512",
                "tls": None,
                "authority": "broker.pem",
            },
        ),
        (
            {"kind": "webhook", "url_env": "U", "token_file": "f"},
            {"url_env": "U", "token_file": "f"},
        ),
        (
            {"kind": "postgres", "url": "postgresql://u@h/d"},
            {"url": "postgresql://u@h/d", "table": "published"},
        ),
    ],
    ids=lambda value: value.get("kind"),
)
def test_every_kind_of_sink_has_its_own_options(sink, options):
    (found,) = Pipeline.of(content(sink=[sink])).sinks
    assert found == SinkConfig(name=sink["kind"], kind=sink["kind"], options=options)


def test_parameters_of_a_mechanism_stand_beside_it_by_their_own_names():
    histogram = {"method": "kd_tree", "shape": [1, 2], "cuts": 1, "decide": "0.1"}
    privacy = {
        "mechanism": "dsat",
        "epsilon": "0.5",
        "window": 24,
        "horizon": 24,
        "releases": 3,
        "histogram": histogram,
    }
    made = Pipeline.of(content(privacy=privacy)).mechanism()
    part = ps.KdTree(shape=(1, 2), cuts=1, decide="0.1")
    assert made == ps.AdaptiveThreshold(
        epsilon="0.5", window=24, horizon=24, releases=3, histogram=part
    )
    plain = Pipeline.of(
        content(privacy={"mechanism": "sample", "epsilon": 1, "window": 2, "histogram": "greedy"})
    ).mechanism()
    assert plain == ps.Sample(epsilon=1, window=2, histogram=ps.Greedy())


def test_a_parameter_whose_name_a_view_needs_stands_in_a_table_of_its_own():
    view = {"name": "fixed", "mechanism": "fixed", "parameters": {"every": 4}}
    made = Pipeline.of(content(privacy={"epsilon": 1, "window": 8}, view=[view]))
    assert made.mechanism() == ps.FixedSampling(epsilon=1, window=8, every=4)


def test_a_mechanism_can_be_named_by_its_path():
    privacy = {
        "mechanism": "penstock.private.mechanisms.ba:BudgetAbsorption",
        "epsilon": 1,
        "window": 3,
    }
    assert Pipeline.of(content(privacy=privacy)).view().declared == ps.BudgetAbsorption(
        epsilon=1, window=3
    )


@pytest.mark.parametrize(
    ("every", "zone", "window", "units"),
    [
        ("1h", "UTC", "1d", 24),
        ("15min", "UTC", "1w", 672),
        ("1h", "Europe/Zurich", "12h", 12),
        ("1d", "Europe/Zurich", "1w", 7),
        ("1mo", "UTC", "12mo", 12),
        ("30s", "UTC", "2min", 4),
        ("1h", "UTC", 5, 5),
    ],
)
def test_a_window_may_be_a_duration_of_whole_units(every, zone, window, units):
    stream = {"name": "taps", "every": every, "zone": zone, "origin": "2026-01-01"}
    privacy = {"mechanism": "uniform", "epsilon": 1, "window": window}
    assert Pipeline.of(content(stream=stream, privacy=privacy)).guarantee.window == units


@pytest.mark.parametrize(("window", "units"), [("12h", 12), ("1d", 24), ("3w", 504)])
def test_a_duration_is_the_same_wherever_the_stream_begins(window, units):
    stream = {"name": "taps", "every": "1h", "origin": "2026-01-31T05:00"}
    privacy = {"mechanism": "uniform", "epsilon": 1, "window": window}
    assert Pipeline.of(content(stream=stream, privacy=privacy)).guarantee.window == units


@pytest.mark.parametrize(
    ("mechanism", "parameter", "units"),
    [
        ("kary", "span", 168),
        ("sw_tree", "span", 168),
        ("toeplitz", "epoch", 168),
        ("rg", "longest", 168),
        ("bs", "over", 168),
    ],
)
def test_parameters_that_count_units_may_be_durations(mechanism, parameter, units):
    privacy = {"mechanism": mechanism, "epsilon": 1, parameter: "1w"}
    made = Pipeline.of(content(privacy=privacy)).mechanism()
    assert made.configuration()[parameter] == units


@pytest.mark.parametrize("periods", [["1d", "1w"], [24, "1w"], "1d"])
def test_periods_are_a_list_of_units_or_durations(periods):
    privacy = {"mechanism": "tide", "epsilon": 1, "window": "1d", "periods": periods}
    made = Pipeline.of(content(privacy=privacy)).mechanism()
    assert made.periods == ((24,) if periods == "1d" else (24, 168))


def test_a_period_that_is_no_whole_number_of_units_is_refused():
    privacy = {"mechanism": "tide", "epsilon": 1, "window": 24, "periods": ["90min"]}
    with pytest.raises(InvalidConfigurationError, match='periods: "90min" is not a whole number'):
        Pipeline.of(content(privacy=privacy))


def test_a_duration_in_a_view_counts_the_units_of_the_view():
    view = {"name": "days", "every": "1d", "mechanism": "kary", "span": "1w"}
    made = Pipeline.of(content(privacy={"epsilon": 1, "window": 24}, view=[view]))
    assert made.mechanism().span == 7


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('name = "taps"', 'name = "a b"', 2, "stream.name: must be of letters, digits"),
        ('name = "taps"', "", 1, 'stream: name is missing: write a text such as name = "taps"'),
        ('"1h"', '"1x"', 3,
         'stream.every: must be a number and one of s, min, h, d, w, mo, such as "1h", not "1x".'),
        ('"1h"', '"5m"', 3, 'Write "min" for minutes, "mo" for months.'),
        ('"1h"', '"0h"', 3, "stream.every: must be a whole number from 1"),
        ('"1h"', "3600", 3, "stream.every: must be a text, not 3600"),
        ('"2026-01-01"', '"2026-13-01"', 4, "stream.origin: must be a datetime or ISO text"),
        ('"2026-01-01"', "12", 4, "stream.origin: must be a date or a time"),
        ('"2026-01-01"', '"2026-01-01"\nzone = "Mars/Base"', 5,
         'stream.zone: "Mars/Base" is no time zone: use UTC or'),
        ('"2026-01-01"', '"2026-01-01"\nlateness = "1mo"', 5,
         "stream.lateness: must be a length in s, min, h, d or w"),
        ('"2026-01-01"', '"2026-01-01"\nlate = "dropp"', 5,
         'stream.late: "dropp" is not known: use drop, current. Did you'),
        ('"2026-01-01"', '"2026-01-01"\nuntil = "2025-01-01"', 5,
         "stream.until: must be after the origin"),
        ('"2026-01-01"', '"2026-01-01"\nuntil = "soon"', 5,
         "stream.until: must be a datetime or ISO text"),
        ('every = "1h"', 'every = "1h"\nevry = "2h"', 4,
         "stream.evry: is not known here: use every, late, lateness, name"),
        ('every = "1h"', 'every = "1h"\nevry = "2h"', 4, "Did you mean every?"),
        ('"jsonl"', '"json"', 7,
         ('source.kind: "json" is not known: '
          "use arrow, csv, http, jsonl, kafka, mqtt, parquet, stdin. Did")),
        ('path = "taps/*.jsonl"', "", 6, "source: path is missing: write a text such as path ="),
        ('path = "taps/*.jsonl"', "path = 3", 8,
         "source.path: must be a text, not 3: write a text such as path ="),
        ('time = "ts"', 'time = "ts"\nclock = "unix"', 10,
         'source.clock: "unix" is not known: use iso, seconds, milliseconds'),
        ('time = "ts"', 'time = "ts"\nkey_type = "int"', 10,
         'source.key_type: "int" is not known: use text, integer. Did'),
        ('time = "ts"', 'time = "ts"\nkey_type = ["text", "text"]', 10,
         "source.key_type: must be one type, or one for each"),
        ('time = "ts"', 'time = "ts"\nzone = "Europe/Zürich"', 10, "Did you mean Europe/Zurich?"),
        ('key = "station"', 'key = ["a", "b"]', 10,
         "source.key: must be one column, not 2 columns."),
        ('key = "station"', "", 6, "source: key is missing"),
        ('"card"', '"card"\ngrowing = "yes"', 12,
         'source.growing: must be true or false, not "yes".'),
        ('keys = ["north", "south"]', "", 13,
         "domain: says nothing of its keys: use exactly one of keys, file, range"),
        ('keys = ["north", "south"]', 'keys = ["a"]\nrange = [0, 1]', 13,
         "domain: has keys and range: use exactly one of"),
        ('keys = ["north", "south"]', 'keys = ["a", "a"]', 14,
         "domain.keys: must not name a key twice."),
        ('keys = ["north", "south"]', "keys = []", 14, "domain.keys: must have at least one key."),
        ('keys = ["north", "south"]', "keys = [0.5]", 14,
         "domain.keys: must be an array of texts or whole numbers"),
        ('keys = ["north", "south"]', 'file = "none.txt"', 14,
         'none.txt cannot be read: No such file'),
        ('keys = ["north", "south"]', "range = [5, 1]", 14,
         "domain.range: must be the first and the last of the keys"),
        ('keys = ["north", "south"]', "attributes = 3", 14,
         "domain.attributes: must be a table of attributes"),
        ('keys = ["north", "south"]', 'attributes = {s = 2}\nother = "2"', 14,
         'domain.attributes: other must be one of the'),
        ('keys = ["north", "south"]', "hierarchy = 3", 14,
         "domain.hierarchy: must be a file, or a table"),
        ('"ba"', '"bx"', 17,
         "privacy.mechanism: there is no mechanism 'bx': use uniform, sample, bd, ba,"),
        ('"ba"', '"pegasos"', 17, "Did you mean pegasus?"),
        ('"ba"', '"no.such:Thing"', 17, "privacy.mechanism: "),
        ('"1"\n', "0.1\n", 18,
         ("privacy.epsilon: 0.1 is a floating-point number, "
          "and such a number is not exactly what it")),
        ('"1"\n', "0.10\n", 18, 'Write epsilon = "0.10".'),
        ('"1"\n', '"much"\n', 18, "privacy.epsilon: epsilon='much' is not a number"),
        ('"1"\n', "0\n", 18, "privacy.epsilon: must be above 0, not 0."),
        ('"1"\n', "true\n", 18, "privacy.epsilon: epsilon=True is a bool"),
        ('epsilon = "1"\n', "", 16,
         'privacy: epsilon is missing: write a whole number or a text, such as epsilon = "0.5"'),
        ("window = 24", "window = 0", 19,
         "privacy.window: must be a whole number of units, at least 1, or a duration"),
        ("window = 24", 'window = "90min"', 19,
         '"90min" is not a whole number of units of "1h": write a number of units.'),
        ("window = 24", 'window = "1mo"', 19,
         '"1mo" has 672 to 744 units of "1h" in UTC: write window = 744 for'),
        ("window = 24", "", 16,
         "privacy: window is missing: write how much of a person is protected"),
        ("window = 24", "window = 24\nhorizon = 12", 19,
         "privacy.window: must be at most the horizon of 12 units"),
        ("window = 24", "window = 24\nshfit = true", 20,
         "privacy.shfit: is not known here: use contribution, cut, delta, epsilon,"),
        ("window = 24", "window = 24\nshfit = true", 20, "Did you mean shift?"),
        ("window = 24", "window = 24\nshift = 1", 20,
         "privacy.shift: must be true or false, not 1."),
        ("window = 24", "window = 24\nshift = true", 20, "privacy"),
        ("window = 24", "window = 24\ncontribution = 0", 20,
         "privacy.contribution: must be a whole number of at least 1"),
        ("window = 24", 'window = 24\ncontribution = "2"', 20,
         'privacy.contribution: must be a whole number, not "2".'),
        ("window = 24", "window = 24\nparameters = {shift = false, shft = 1}", 20,
         "privacy.parameters.shft: is not known"),
        ("window = 24", "window = 24\nparameters = {epsilon = 1}", 20,
         "privacy.parameters.epsilon: "),
        ("window = 24", 'window = 24\n[stroe]\npath = "x"', 20,
         "stroe: is not known here: use alert, domain, engine, operator, plan, privacy"),
        ("window = 24", 'window = 24\n[store]\nhed = "x"', 21, "Did you mean head?"),
        ("window = 24", 'window = 24\n[store]\npath = "x"\nurl_env = "X"', 22,
         "store.url_env: cannot stand beside path"),
        ("window = 24", 'window = 24\n[store]\nurl = "mysql://x"', 21,
         "store.url: must begin with postgresql:// or postgres://."),
        ("window = 24", "window = 24\n[[sink]]\n", 20,
         "sink[1]: kind is missing: use csv, jsonl, kafka, parquet,"),
        ("window = 24", 'window = 24\n[[sink]]\nkind = "parquett"', 21, "Did you mean parquet?"),
        ("window = 24", 'window = 24\n[[sink]]\nkind = "jsonl"', 20, "sink[1]: path is missing"),
        ("window = 24", 'window = 24\n[[sink]]\nkind = "webhook"', 20,
         "sink[1]: url or url_env is missing"),
        ("window = 24", 'window = 24\n[[sink]]\nkind = "webhook"\nurl = "ftp://x/y"', 22,
         "sink[1].url: must begin with https:// or http"),
        ("window = 24", 'window = 24\n[[sink]]\nkind = "jsonl"\npath = "x"\nviews = "day"', 23,
         'there is no view "day": use'),
        ("window = 24", 'window = 24\n[sink]\nkind = "jsonl"', 20,
         "sink: must be tables, each headed [[sink]], not a"),
        ("window = 24", 'window = 24\n[operator]\nmetrics = "9464"', 21,
         "operator.metrics: must be a host and a port"),
        ("window = 24", 'window = 24\n[operator]\nmetrics = "a:99999"', 21,
         "operator.metrics: must be a host and a port"),
    ],
)  # fmt: skip
def test_an_error_names_file_line_key_and_what_is_accepted(old, new, line, said, tmp_path):
    found = problems(tmp_path, edited((old, new)))
    assert list(found) == [line]
    assert said in found[line]


@pytest.mark.parametrize(
    ("mechanism", "parameter", "said"),
    [
        ('"pegasus"', "theta = 0.5", 'is not exactly what it shows. Write theta = "0.5".'),
        ('"pegasus"', "theta = 0", "privacy.theta: must be above 0, not 0."),
        ('"pegasus"', "theta = true",
         'privacy.theta: must be a whole number or a text such as theta = "0.5", not true.'),
        ('"pegasus"', 'smoother = "mediam"', 'privacy.smoother: "mediam" is not known: use '),
        ('"pegasus"', 'smoother = "mediam"', "Did you mean median?"),
        ('"kary"', "span = 2.0", 'privacy.span: 2.0 is a floating-point number'),
        ('"sample"', 'histogram = "quadtree"',
         "privacy.histogram: there is no histogram 'quadtree'"),
        ('"sample"', 'histogram = {method = "quad_tre"}', "Did you mean quad_tree?"),
        ('"sample"', "histogram = {cuts = 1}", "privacy.histogram: method is missing"),
        ('"sample"', 'histogram = {method = "greedy", share = 0.1}',
         'privacy.histogram.share: 0.1 is a floating-point number'),
        ('"sample"', 'histogram = {method = "greedy", share = "2"}',
         "privacy.histogram.share: must lie between 0 and 1"),
        ('"sample"', 'histogram = {method = "greedy", shares = 1}',
         "privacy.histogram.shares: is not known here: use method"),
        ('"sample"', 'histogram = {method = "quad_tree", shape = [3, 3]}',
         "privacy.histogram.shape: "),
        ('"sample"', "histogram = 3", "privacy.histogram: must be a name or a table"),
    ],
)  # fmt: skip
def test_parameters_of_a_mechanism_are_checked_against_it(mechanism, parameter, said, tmp_path):
    found = problems(
        tmp_path, edited(('"ba"', mechanism), ("window = 24", f"window = 24\n{parameter}"))
    )
    assert list(found) == [20]
    assert said in found[20]


def test_all_errors_of_a_file_are_listed_at_once(tmp_path):
    text = edited(
        ('"1h"', '"1x"'),
        ('"jsonl"', '"json"'),
        ('["north", "south"]', "[]"),
        ('"1"\n', "1.5\n"),
        more='[[sink]]\nkind = "jsonl"\n[operator]\ntokne_env = "X"\n',
    )
    assert list(problems(tmp_path, text)) == [3, 7, 14, 18, 20, 23]


def test_an_empty_file_is_told_all_that_is_missing(tmp_path):
    (said,) = problems(tmp_path, "").values()
    for each in ("name", "every", "origin", "kind", "time", "key", "mechanism", "epsilon"):
        assert f"{each} is missing" in said


def test_a_dict_has_no_lines_and_its_floats_are_refused_too():
    with pytest.raises(InvalidConfigurationError) as caught:
        Pipeline.of(content(privacy={"mechanism": "ba", "epsilon": 0.1, "window": 24}))
    assert str(caught.value).startswith("privacy.epsilon: 0.1 is a floating-point number")
    assert str(caught.value).endswith('Write epsilon = "0.1".')


def test_a_window_of_a_day_is_refused_where_days_differ(tmp_path):
    text = edited(("2026-01-01", '2026-01-01"\nzone = "Europe/Zurich'), ("24", '"1d"'))
    assert "has 23 to 25 units" in problems(tmp_path, text)[20]


# -- secrets ---------------------------------------------------------------------------------------

TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.mark.parametrize(
    "more",
    [
        f'[operator]\ntoken_env = "{TOKEN}"',
        f'[operator]\ntoken = "{TOKEN}"',
        f'[operator]\ntoken_file = "{TOKEN}"',
        f'[store]\nkey = "{TOKEN}"',
        f'[store]\nurl = "postgresql://publisher:{TOKEN}@localhost/penstock"',
        '[store]\nurl = "postgresql://publisher:hunter2@localhost/penstock"',
        '[store]\nkey_env = "hunter2!"',
        '[[sink]]\nkind = "webhook"\nurl = "https://example.org/hook?token=hunter2"',
        f'[[sink]]\nkind = "webhook"\nurl = "https://example.org/hook/{TOKEN}"',
        f'[[sink]]\nname = "{TOKEN}"\nkind = "jsonl"\npath = "x"',
        '[[sink]]\nkind = "postgres"\nurl_env = "U"\npassword = "hunter2"',
        '[[sink]]\nkind = "kafka"\ntopic = "t"\nservers = ["k:1", "me:hunter2@k:9092"]',
    ],
)
def test_a_secret_in_the_file_is_refused_and_never_shown(more, tmp_path):
    with pytest.raises(InvalidConfigurationError) as caught:
        Pipeline.read(written(tmp_path, edited(more=more)))
    assert TOKEN not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "environment variable" in str(caught.value)
    assert all(problem.line is not None and problem.line > 20 for problem in caught.value.problems)


def test_names_of_variables_and_files_are_no_secrets():
    operator = {"token_env": "PENSTOCK_OPERATOR_TOKEN"}
    pipeline = Pipeline.of(content(operator=operator, store={"key_file": "/run/secrets/state.key"}))
    assert pipeline.operator.token_env == "PENSTOCK_OPERATOR_TOKEN"
    assert pipeline.store == StoreConfig(path="taps.db", key_file="/run/secrets/state.key")


def test_a_source_over_http_must_have_a_token():
    with pytest.raises(
        InvalidConfigurationError, match="source: token_env or token_file is missing"
    ):
        Pipeline.of(content(source={"kind": "http", "time": "ts", "key": "k"}))


# -- views -----------------------------------------------------------------------------------------


def viewed(
    *views: dict[str, Any], every: str = "1min", zone: str = "UTC", **privacy: Any
) -> Pipeline:
    stream = {"name": "taps", "every": every, "zone": zone, "origin": "2026-01-01"}
    given = {"epsilon": "1", "window": 1440, **privacy}
    return Pipeline.of(content(stream=stream, privacy=given, view=list(views)))


MINUTE = {"name": "minute", "mechanism": "pegasus"}
HOUR = {"name": "hour", "every": "1h", "mechanism": "ba", "contribution": 4}
DAY = {"name": "day", "every": "1d", "mechanism": "uniform", "contribution": 7}


def test_three_views_of_one_stream_share_its_promise():
    pipeline = viewed(MINUTE, HOUR, DAY)
    third = Fraction(1, 3)
    assert [view.mechanism.guarantee for view in pipeline.views] == [
        ps.Guarantee(third, 1440),
        ps.Guarantee(third / 2, 25, 4),
        ps.Guarantee(third / 2, 2, 7),
    ]
    assert [(view.units, view.times) for view in pipeline.views] == [(1, 1), (60, 2), (1440, 2)]
    assert pipeline.guarantee == ps.Guarantee("1", 1440, 7)
    assert pipeline.mechanism("hour").name == "ba"
    assert (pipeline.series("hour"), Pipeline.of(content()).series()) == ("taps/hour", "taps")
    with pytest.raises(
        ps.ConfigurationError, match="view must be one of minute, hour, day, not None"
    ):
        pipeline.mechanism()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    epsilon=st.fractions(min_value="1/997", max_value=20, max_denominator=997),
    parts=st.lists(st.integers(1, 97), min_size=1, max_size=3),
    window=st.integers(1, 3000),
)
def test_what_views_cost_adds_up_to_epsilon_exactly(epsilon, parts, window):
    shares = [str(Fraction(part, sum(parts))) for part in parts]
    views = [
        {**view, "mechanism": "uniform", "share": share}
        for view, share in zip((HOUR, MINUTE, DAY), shares, strict=False)
    ]
    pipeline = viewed(*views, epsilon=epsilon, window=window)
    assert sum(view.cost for view in pipeline.views) == epsilon
    assert [view.cost for view in pipeline.views] == [
        view.share * epsilon for view in pipeline.views
    ]


def test_views_without_a_share_have_equal_parts_of_the_rest():
    pipeline = viewed({**MINUTE, "share": "0.4"}, HOUR, DAY, epsilon="0.7")
    assert [view.share for view in pipeline.views] == [
        Fraction(2, 5),
        Fraction(3, 10),
        Fraction(3, 10),
    ]
    assert sum(view.cost for view in pipeline.views) == Fraction(7, 10)


@given(window=st.integers(1, 60), units=st.integers(1, 12), first=st.integers(0, 200))
def test_no_window_meets_more_units_of_a_view_than_its_mechanism_covers(window, units, first):
    met = {unit // units for unit in range(first, first + window)}
    covered, times = reach(window, units)
    assert len(met) <= covered
    in_part = [
        one
        for one in met
        if not set(range(one * units, (one + 1) * units)) <= set(range(first, first + window))
    ]
    assert times == 2 or not in_part


def bounded(events: list[tuple[int, int]], units: int, most: int) -> dict[int, Counter[int]]:
    """What counts of a person in each unit of a view: the earliest events, then the least keys."""
    kept: dict[int, Counter[int]] = defaultdict(Counter)
    for unit, key in sorted(events):
        if kept[unit // units].total() < most:
            kept[unit // units][key] += 1
    return kept


@given(
    events=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=25),
    window=st.integers(1, 20),
    units=st.integers(1, 8),
    first=st.integers(0, 30),
    most=st.integers(1, 3),
)
def test_leaving_out_a_window_is_as_many_changes_of_presence_as_the_view_is_charged(
    events, window, units, first, most
):
    """Each step of the argument: first what was chosen goes, then another choice comes, in as many
    units as are covered.
    """
    before = bounded(events, units, most)
    after = bounded(
        [event for event in events if not first <= event[0] < first + window], units, most
    )
    changed = [unit for unit in before.keys() | after.keys() if before.get(unit) != after.get(unit)]
    covered, times = reach(window, units)
    assert not changed or max(changed) - min(changed) < covered
    assert all(kept.total() <= most for kept in (*before.values(), *after.values()))
    steps = 1 if all(not after.get(unit) for unit in changed) else 2
    assert steps <= times


@pytest.mark.parametrize(
    ("window", "units"), [(1, 1), (1, 5), (2, 5), (5, 5), (6, 5), (7, 5), (24, 1), (25, 24)]
)
def test_some_window_meets_as_many_units_as_its_mechanism_covers(window, units):
    most = max(
        len({unit // units for unit in range(first, first + window)}) for first in range(units)
    )
    assert reach(window, units)[0] == most


def test_at_user_level_nothing_counts_twice():
    pipeline = viewed(MINUTE, HOUR, DAY, window="1w", horizon="1w")
    assert [view.times for view in pipeline.views] == [1, 1, 1]
    assert [view.mechanism.guarantee.window for view in pipeline.views] == [10080, 168, 7]
    assert all(view.mechanism.guarantee.user_level for view in pipeline.views)
    assert pipeline.guarantee.user_level


def test_a_view_of_months_counts_with_the_shortest():
    pipeline = viewed(
        {"name": "month", "every": "1mo", "mechanism": "uniform"}, every="1d", window=31
    )
    assert (pipeline.view().units, pipeline.view().mechanism.window, pipeline.view().times) == (
        28,
        3,
        2,
    )
    zurich = viewed(DAY, every="1h", zone="Europe/Zurich", window=24)
    assert (zurich.view().units, zurich.view().mechanism.window) == (23, 2)


def test_units_fit_into_others_or_do_not():
    def calendar(every: str, origin: str = "2026-01-01") -> Calendar:
        return Calendar(every=every, origin=origin)

    assert units_in(calendar("15min"), calendar("1h")) == (4, 4)
    assert units_in(calendar("1d"), calendar("1w")) == (7, 7)
    assert units_in(calendar("1d"), calendar("1mo")) == (28, 31)
    assert units_in(calendar("1d"), calendar("48h")) is None
    assert units_in(calendar("7h"), calendar("1d")) is None
    assert units_in(calendar("1w"), calendar("1mo")) is None
    assert units_in(calendar("1h"), calendar("1h", "2026-01-02")) is None


@pytest.mark.parametrize(
    ("view", "privacy", "said"),
    [
        ({**HOUR, "every": "90s"}, {},
         'view[1].every: must be a whole number of the stream\'s units of "1min", not "90s".'),
        ({**HOUR, "epsilon": "1"}, {},
         "view[1].epsilon: is computed from [privacy]: write a share there."),
        ({**HOUR, "window": 3}, {}, "view[1].window: is computed from [privacy]: write it there."),
        ({**HOUR, "share": "0.5"}, {},
         "view[1].share: the shares of all views add up to 1/2: they must add up to 1"),
        ({**HOUR, "share": "3/2"}, {}, "view[1].share: the shares of all views add up to 3/2"),
        ({**HOUR, "share": 0.5}, {}, 'view[1].share: 0.5 is a floating-point number'),
        ({**HOUR, "share": "-1"}, {}, "view[1].share: must be above 0, not -1."),
        ({**HOUR, "mechanism": "toeplitz"}, {},
         "view[1].mechanism: toeplitz keeps a delta, which does not add up"),
        ({**HOUR, "delta": "1e-6"}, {},
         "view[1].mechanism: ba keeps a delta, which does not add up"),
        ({**HOUR, "mechanism": "bs", "delta": "1e-6"}, {},
         "view[1].delta: bs keeps a pure promise, without a delta: leave it out, or use one of"),
        ({**HOUR, "shfit": True}, {}, "Did you mean shift?"),
        ({**HOUR, "parameters": {"contribution": 4}}, {},
         "view[1].parameters.contribution: is given twice"),
        ({"every": "1h", "mechanism": "ba"}, {}, "view[1]: name is missing"),
        ({**HOUR, "name": "the hour"}, {}, "view[1].name: must be of letters"),
        (HOUR, {"mechanism": "ba"}, "privacy.mechanism: belongs in each [[view]]"),
        (HOUR, {"contribution": 2}, "privacy.contribution: belongs in each [[view]]"),
        (HOUR, {"theta": 2}, "privacy.theta: is not known here: use epsilon, horizon, window."),
        (HOUR, {"window": 60, "horizon": 90},
         'view[1].every: the horizon of 90 units must be a whole number of'),
        (HOUR, {"window": 60, "horizon": 30}, "privacy.window: must be at most the horizon"),
    ],
)  # fmt: skip
def test_views_that_cannot_be_exact_are_refused(view, privacy, said):
    with pytest.raises(InvalidConfigurationError) as caught:
        viewed(view, **privacy)
    assert said in str(caught.value)
    assert len(caught.value.problems) == 1


def test_two_views_or_two_sinks_cannot_have_one_name():
    with pytest.raises(InvalidConfigurationError, match=r'view\[2\]\.name: "hour" names two views'):
        viewed(HOUR, {**MINUTE, "name": "hour"})
    with pytest.raises(InvalidConfigurationError, match=r'sink\[2\]: "jsonl" names two sinks'):
        Pipeline.of(content(sink=[{"kind": "jsonl", "path": "a"}, {"kind": "jsonl", "path": "b"}]))


def test_a_sink_may_have_some_of_the_views_only():
    views = [MINUTE, HOUR]
    tables = {
        "privacy": {"epsilon": 1, "window": 60},
        "view": views,
        "stream": {**content()["stream"], "every": "1min"},
    }
    pipeline = Pipeline.of(
        content(**tables, sink=[{"kind": "jsonl", "path": "a", "views": ["hour"]}])
    )
    assert pipeline.sinks[0].views == ("hour",)
    with pytest.raises(
        InvalidConfigurationError,
        match=r'there is no view "hours": use minute, hour. Did you mean hour\?',
    ):
        Pipeline.of(content(**tables, sink=[{"kind": "jsonl", "path": "a", "views": ["hours"]}]))


# -- from one start to the next --------------------------------------------------------------------


def test_the_fingerprint_never_changes_by_itself():
    """A store of an older release must be recognised: this digest may change only together with a
    migration.
    """
    pipeline = Pipeline.of(content())
    assert pipeline.fingerprint() == (
        "7c67b077c695d941c3ae2fdba44c70d2ae6b0f6db12b9392ee866e0228fbc7d6"
    )
    # Stores that began before `cut` go on as they are.
    kept = {"taps": {"shift": "False"}}
    assert (
        pipeline.going_on(kept).fingerprint()
        == "cb41c6b8c743c9345f16d3b0c9e83b2c14b64fc06b1d8e185cfa212e4468b2d4"
    )


@pytest.mark.parametrize(
    "tables",
    [
        {
            "stream": {
                "name": "taps",
                "every": "1h",
                "origin": "2026-01-01",
                "lateness": "5min",
                "late": "current",
            }
        },
        {
            "stream": {
                "name": "taps",
                "every": "1h",
                "origin": "2026-01-01T00:00Z",
                "until": "2027-01-01",
            }
        },
        {
            "source": {
                "kind": "jsonl",
                "path": "x",
                "time": "ts",
                "key": "station",
                "person": "card",
            }
        },
        {"sink": [{"kind": "jsonl", "path": "a"}], "operator": {"token_env": "X"}},
        {"store": {"path": "elsewhere.db", "head": "h"}},
        {"privacy": {"mechanism": "ba", "epsilon": Fraction(2, 2), "window": "1d", "shift": False}},
    ],
)
def test_what_may_change_leaves_the_fingerprint(tables):
    before, after = Pipeline.of(content()), Pipeline.of(content(**tables))
    assert after.fingerprint() == before.fingerprint()
    assert after.changed(before.facts()) == ()


@pytest.mark.parametrize(
    ("tables", "names"),
    [
        ({"stream": {"name": "tips", "every": "1h", "origin": "2026-01-01"}}, {"stream.name"}),
        ({"stream": {"name": "taps", "every": "2h", "origin": "2026-01-01"}}, {"stream.every"}),
        ({"stream": {"name": "taps", "every": "1h", "origin": "2026-01-02"}}, {"stream.origin"}),
        ({"domain": {"keys": ["south", "north"]}}, {"domain"}),
        ({"domain": {"keys": ["north", "south"], "other": "south"}}, {"domain.other"}),
        ({"source": {"kind": "stdin", "time": "ts", "key": "station"}}, {"source.person"}),
        (
            {"source": {"kind": "stdin", "time": "ts", "key": "line", "person": "card"}},
            {"source.key"},
        ),
        (
            {"source": {"kind": "stdin", "time": "at", "key": "station", "person": "card"}},
            {"source.time"},
        ),
        (
            {
                "source": {
                    "kind": "stdin",
                    "time": "ts",
                    "key": "station",
                    "person": "card",
                    "zone": "Asia/Tokyo",
                }
            },
            {"source.zone"},
        ),
        (
            {
                "source": {
                    "kind": "stdin",
                    "time": "ts",
                    "key": "station",
                    "person": "card",
                    "person_type": "integer",
                }
            },
            {"source.person_type"},
        ),
        ({"privacy": {"mechanism": "ba", "epsilon": "0.9", "window": 24}}, {"privacy", ".epsilon"}),
        (
            {"privacy": {"mechanism": "ba", "epsilon": 1, "window": 24, "contribution": 2}},
            {"privacy", ".contribution"},
        ),
        (
            {"privacy": {"mechanism": "uniform", "epsilon": 1, "window": 24}},
            {".mechanism", ".shift"},
        ),
    ],
)
def test_what_may_not_change_is_named(tables, names):
    before, after = Pipeline.of(content()), Pipeline.of(content(**tables))
    assert after.fingerprint() != before.fingerprint()
    changed = {
        name.removeprefix("view.taps").removeprefix("view.tips")
        for name in after.changed(before.facts())
    }
    assert names <= changed


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.decimals()
    | st.dates()
    | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=4,
)
TABLES: dict[str, list[dict[str, Any]]] = {
    "stream": [
        {"name": 1, "every": 1, "zone": 1, "origin": 1, "until": 1, "lateness": 1, "late": 1}
    ],
    "source": [
        {
            "kind": 1,
            "time": 1,
            "key": 1,
            "person": 1,
            "time_format": 1,
            "format": 1,
            "delimiter": 1,
            "path": 1,
        }
    ],
    "domain": [
        dict.fromkeys([way, "other"], 1)
        for way in ("keys", "range", "attributes", "hierarchy", "file")
    ],
    "privacy": [
        {
            "mechanism": 1,
            "epsilon": 1,
            "window": 1,
            "horizon": 1,
            "contribution": 1,
            "shift": 1,
            "parameters": 1,
        }
    ],
    "store": [{"path": 1, "url": 1, "url_env": 1, "key_env": 1, "key_file": 1, "head": 1}],
    "operator": [{"token_env": 1, "token_file": 1, "metrics": 1}],
}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_stands_in_a_configuration_is_taken_or_refused_in_words(data):
    tables = content()
    for name in data.draw(
        st.lists(
            st.sampled_from([*TABLES, "view", "sink", "nothing"]),
            min_size=1,
            max_size=2,
            unique=True,
        )
    ):
        if name not in TABLES or data.draw(st.integers(0, 9)) == 0:
            tables[name] = data.draw(ANYTHING)
            continue
        table = dict(tables.get(name, {}))
        for key in data.draw(
            st.lists(
                st.sampled_from([*data.draw(st.sampled_from(TABLES[name]))]), min_size=1, max_size=3
            )
        ):
            table[key] = data.draw(ANYTHING)
        tables[name] = table
    with contextlib.suppress(InvalidConfigurationError):
        assert len(Pipeline.of(tables).fingerprint()) == 64


def test_late_events_of_several_views_are_dropped():
    """One that is late for its hour, and not for its day, would count in an hour and in another
    day.
    """
    views = [
        {"name": "hours", "mechanism": "uniform"},
        {"name": "days", "every": "1d", "mechanism": "uniform"},
    ]
    stream = {"name": "taps", "every": "1h", "origin": "2026-01-01", "late": "current"}
    with pytest.raises(
        InvalidConfigurationError, match='late: must be "drop" where there are several views'
    ):
        Pipeline.of(content(stream=stream, privacy={"epsilon": 1, "window": 24}, view=views))


def test_a_view_whose_units_are_sometimes_longer_counts_twice():
    """Samoa skipped a day: most units of two days have two, one has one, and it is the others that
    a window cuts.
    """
    zone = {"zone": "Pacific/Apia", "origin": "2011-12-01"}
    small, large = (Calendar(every=every, **zone) for every in ("1d", "2d"))
    assert units_in(small, large) == (1, 2)
    assert reach(3, 1, most=2) == (3, 2)
    assert reach(3, 1, most=1) == reach(3, 1) == (3, 1)


@pytest.mark.parametrize(
    "sink",
    [
        {"kind": "jsonl", "path": "out"},
        {"kind": "parquet", "path": "out"},
        {"kind": "kafka", "servers": "k:9092", "topic": "t"},
        {"kind": "postgres", "url": "postgresql://u@h/d"},
    ],
    ids=lambda sink: sink["kind"],
)
def test_two_sinks_do_not_go_to_one_place(sink):
    with pytest.raises(InvalidConfigurationError, match='goes to the same place as "one"'):
        Pipeline.of(content(sink=[{"name": "one", **sink}, {"name": "two", **sink}]))
    hook = {"kind": "webhook", "url": "https://example.org/taps"}
    assert (
        len(Pipeline.of(content(sink=[{"name": "one", **hook}, {"name": "two", **hook}])).sinks)
        == 2
    )
