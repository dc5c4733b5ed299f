"""The keys of every table of a configuration but those of single kinds of sources and sinks.

The tables are read by the other modules of this package. The example, the reference and `penstock
init` take keys, defaults and meanings from here.
"""

from __future__ import annotations

from typing import Final, get_args

from penstock.core.declaration import Option
from penstock.core.server_tls import SERVER_TLS_OPTIONS
from penstock.filters.observation import StreamKind
from penstock.filters.report import Point
from penstock.released.alerting.rule import QUESTIONS

TYPES: Final = ("text", "integer")
MISSING: Final = ("drop", "each", "refuse")
CLOCKS: Final = ("iso", "seconds", "milliseconds", "microseconds")
POSTGRES: Final = ("postgresql://", "postgres://")

STREAM: Final = (
    Option(
        name="name",
        required=True,
        example="taps",
        help="the name of the stream in the store and in sinks",
    ),
    Option(
        name="every",
        type="duration",
        required=True,
        example="1h",
        help="the length of a unit: a number and s, min, h, d, w or mo",
        advice="There is one release per unit. Longer units have less noise for what they hold.",
    ),
    Option(
        name="zone",
        type="zone",
        default="UTC",
        example="Europe/Zurich",
        help="the time zone: days, weeks and months begin at midnight there",
    ),
    Option(
        name="origin",
        type="moment",
        required=True,
        example="2026-01-01",
        help="the beginning of unit 1: public, never taken from the data",
        advice="Earlier events are not counted. Do not take it from the first event.",
    ),
    Option(
        name="until",
        type="moment",
        example="2027-01-01",
        help="the end of a finite input (default: the start of the publisher; stdin is live)",
        advice="Every unit up to there is released, also empty ones.",
    ),
    Option(
        name="lateness",
        type="duration",
        default="0s",
        example="10min",
        help="how long after its end a live unit closes",
        advice="Later events are dropped. Releases wait as long.",
    ),
    Option(
        name="late",
        choices=("drop", "current"),
        default="drop",
        help='events that come later: "drop" them, or count them in the "current" unit',
    ),
    Option(
        name="tolerance",
        type="duration",
        default="1min",
        help="events from further in the future than this are refused",
    ),
    Option(
        name="pace",
        type="duration",
        default="1s",
        help="live releases leave at multiples of this after a unit has closed",
    ),
)

COLUMNS: Final = (
    Option(
        name="time",
        required=True,
        example="tapped_at",
        help="the column of times",
        advice="The time of an event decides in which unit it counts.",
    ),
    Option(
        name="clock",
        choices=CLOCKS,
        default="iso",
        help="how times are written; the last three count from 1970",
    ),
    Option(
        name="zone",
        type="zone",
        example="Europe/Zurich",
        help="the time zone of times without an offset (default: that of the stream)",
    ),
    Option(
        name="key",
        several=True,
        required=True,
        example="station",
        help="the column of keys; for attributes an array of columns",
        advice="Events are counted by key: a station, a room, a product.",
    ),
    Option(
        name="key_type",
        choices=TYPES,
        several=True,
        default="text",
        example="integer",
        help="the type of keys: text or integer",
    ),
    Option(
        name="person",
        example="card",
        help="the column of persons (default: each event is its own person)",
        advice="The promise is to persons: without it, a person with several events is not "
        "covered.",
    ),
    Option(
        name="person_type",
        choices=TYPES,
        default="text",
        example="integer",
        help="the type of persons: text or integer (faster)",
    ),
    Option(
        name="missing_person",
        choices=MISSING,
        default="drop",
        example="each",
        help="events without a person: dropped, each a person of its own, or all input refused",
        advice='With "each", several such events of one person are protected one by one, not '
        "together.",
    ),
)

WAYS: Final = (
    Option(
        name="keys",
        type="array",
        example=["Airport", "Central", "Harbour"],
        help="the keys",
        advice="Declare them, never learn them from the data: a key that appears only because "
        "somebody was there gives that person away.",
    ),
    Option(
        name="file",
        type="path",
        example="stations.txt",
        help="a public file of keys: one per line, or a column of a CSV, Parquet or Arrow file",
    ),
    Option(name="range", type="array", example=[0, 99], help="whole numbers, both ends included"),
    Option(
        name="attributes",
        type="table",
        example={"line": ["red", "blue"], "zone": 8},
        help="every value of each attribute with every value of the others",
    ),
    Option(
        name="hierarchy",
        type="table",
        example={"gate 1": "Airport/arrivals", "gate 2": "Airport/departures"},
        help='the path above each key, or a file of lines such as "Airport/arrivals/gate 1"',
    ),
)
"""The ways to declare a domain, of which exactly one is used."""

DOMAIN: Final = (
    *WAYS,
    Option(
        name="column",
        example="station",
        help="the column of the file that has the keys (default: its only column)",
    ),
    Option(
        name="other",
        example="elsewhere",
        help="the key that counts unknown keys (default: they are dropped)",
    ),
)

_CONTRIBUTION: Final = Option(
    name="contribution",
    type="whole",
    default=1,
    example=2,
    help="the most events of one person that count in one unit",
    advice="More events per person mean more noise for everybody.",
)
PARAMETERS: Final = Option(
    name="parameters",
    type="table",
    example={"every": 4},
    help="parameters whose names are keys here already; all others are written beside mechanism",
)

PRIVACY: Final = (
    Option(
        name="mechanism",
        required=True,
        example="ba",
        help='one of `penstock mechanisms` with its parameters beside it, or "auto"',
        advice='"auto" is what penstock plan recommends from the table [plan]. The choice is '
        "stored with the promise and never changes afterwards.",
    ),
    Option(
        name="epsilon",
        type="exact",
        required=True,
        example="1",
        help='the budget of a window: a whole number, or a text such as "0.5"',
        advice="1 lets a suspicion of 50 % rise to 73 %, 0.1 to 53 %. Smaller is safer, and "
        "noisier.",
    ),
    Option(
        name="delta",
        type="exact",
        example="1e-6",
        help="the delta of the promise; above 0, noise is Gaussian (default: the mechanism's, 0 "
        "for most)",
        advice="Far below one in the number of people.",
    ),
    Option(
        name="window",
        type="units",
        example=24,
        help='the time in which a person is protected: units, or a duration such as "12h"',
    ),
    Option(
        name="horizon",
        type="units",
        example=720,
        help="the last unit that is ever read (default: none); equal to window for user level",
    ),
    _CONTRIBUTION,
)

PLAN: Final = (
    Option(
        name="typical",
        type="exact",
        example="2",
        help="the mean count of a key in a unit, as far as it is publicly known",
        advice="Never compute it from the private events: it decides what is published.",
    ),
    Option(
        name="seasons",
        type="duration",
        several=True,
        example=["1d", "7d"],
        help="durations after which the stream looks similar again",
    ),
    Option(
        name="sparse",
        type="flag",
        default=False,
        help="whether a few keys have almost all events",
    ),
    Option(
        name="stock",
        type="flag",
        default=False,
        help="whether counts are what is present in a unit, such as docked bikes, and not events",
    ),
    Option(
        name="sample",
        type="path",
        example="public.csv",
        help="a public file of similar events or counts (.csv, .parquet), never the source; with "
        "typical, its counts are scaled to that mean",
    ),
)

VIEW: Final = (
    Option(name="name", required=True, example="hourly", help="the name of the view"),
    Option(
        name="every",
        type="duration",
        example="1h",
        help="the length of its units (default: that of the stream's units)",
    ),
    Option(name="mechanism", required=True, example="ba", help="its mechanism, as in [privacy]"),
    Option(
        name="share",
        type="exact",
        example="2/3",
        help="its share of epsilon (default: an equal part of what is left)",
    ),
    _CONTRIBUTION,
)

STORE: Final = (
    Option(
        name="path",
        type="path",
        example="taps.db",
        help="a SQLite file, readable for its owner only (default: NAME.db)",
    ),
    Option(
        name="url",
        type="url",
        prefixes=POSTGRES,
        example="postgresql://publisher@localhost/penstock",
        help="a PostgreSQL database instead, without a password; or url_env",
    ),
    Option(
        name="password",
        type="variable",
        example="PENSTOCK_STORE_PASSWORD",
        help="the environment variable with the password of the database",
    ),
    Option(
        name="key",
        type="secret",
        example="PENSTOCK_STATE_KEY",
        help="the key that state is encrypted with (default: state is not encrypted)",
    ),
    Option(
        name="signing_key",
        type="secret",
        example="PENSTOCK_SIGNING_KEY",
        help="the key that heads are signed with, made by penstock ledger keygen "
        "(default: heads are not signed)",
    ),
    Option(
        name="head",
        type="path",
        example="elsewhere/taps.head",
        help="the head file, on another disk: it shows that a restored store is an old one",
    ),
)

SINK: Final = (
    Option(name="name", example="archive", help="the name of the sink (default: its kind)"),
    Option(
        name="views",
        several=True,
        example=["hourly"],
        help="the views that go there (default: all)",
    ),
    Option(
        name="filtered",
        type="flag",
        default=False,
        example=True,
        help="whether filtered numbers go there instead of the released ones; costs no budget",
    ),
    Option(
        name="filter_periods",
        several=True,
        example=["1d", "7d"],
        help="the seasons of the stream, as durations (default: seasons of [plan] that fit); only "
        "with filtered",
    ),
    Option(
        name="filter_kind",
        choices=get_args(StreamKind),
        example="flow",
        help="flow for events of a unit, stock for what is present in it (default: stock if [plan] "
        "says so, else flow); only with filtered",
    ),
    Option(
        name="filter_point",
        choices=get_args(Point),
        example="mean",
        help="median, or mean for numbers that add up (default: median); only with filtered",
    ),
    Option(
        name="nonnegative",
        type="flag",
        default=False,
        example=True,
        help="whether no negative numbers go there; totals of a hierarchy are kept, other numbers "
        "are cut at 0; costs no budget",
    ),
)

ALERT: Final = (
    Option(name="name", required=True, example="busy", help="the name of the rule"),
    Option(
        name="view",
        example="hourly",
        help="the view that is watched (default: the only one)",
    ),
    Option(
        name="question",
        choices=QUESTIONS,
        default="counts",
        help="what is watched, as `penstock query` names it",
    ),
    Option(
        name="keys",
        several=True,
        example=["Airport", "Harbour"],
        help="the keys that are watched, or the nodes with roll_up (default: all)",
    ),
    Option(
        name="together",
        type="flag",
        default=False,
        example=True,
        help="whether the keys are added up",
    ),
    Option(
        name="roll_up",
        type="flag",
        default=False,
        example=True,
        help="whether the nodes of the hierarchy are watched",
    ),
    Option(
        name="for",
        type="whole",
        default=1,
        example=3,
        help="in how many units in a row the threshold must be passed before a key is raised",
    ),
    Option(
        name="filtered",
        type="flag",
        default=False,
        example=True,
        help="whether filtered numbers are watched instead of the released ones",
    ),
    *(option for option in SINK if option.name in ("filter_periods", "filter_kind")),
    Option(
        name="filter_point",
        choices=get_args(Point),
        example="mean",
        help="median, or mean for numbers that add up (default: median for counts of single keys, "
        "else mean); only with filtered",
    ),
    Option(
        name="url",
        type="url",
        prefixes=("https://", "http://"),
        example="https://example.org/alerts",
        help="the address that alerts are posted to (default: they go to the log only)",
    ),
    Option(
        name="token",
        type="secret",
        example="ALERTS_TOKEN",
        help="the token that is sent along",
    ),
)
"""The keys of [[alert]] that are read like those of other tables."""

ALERT_NUMBERS: Final = (
    Option(
        name="above",
        type="number",
        example=500,
        help="a number of at least this raises a key; for counts, sum and decay",
    ),
    Option(
        name="below",
        type="number",
        example=10,
        help="a number below this raises a key; for counts, sum and decay",
    ),
    Option(
        name="delta",
        type="number",
        example=200,
        help="the threshold of jump, drop, change and low",
    ),
    Option(
        name="clear",
        type="number",
        example=400,
        help="a raised key is cleared on the other side of this (default: the threshold itself)",
    ),
    Option(
        name="sure",
        type="exact",
        example="0.95",
        help="the confidence of the interval that must lie beyond the threshold as a whole "
        "(default: the estimate alone decides)",
    ),
    Option(
        name="window",
        type="units",
        example="1d",
        help="the units of a sum, a decayed sum or a move: a number or a duration",
    ),
    Option(
        name="gamma",
        type="exact",
        example="0.95",
        help="decay: a unit weighs gamma to the power of its age",
    ),
    Option(
        name="power",
        type="exact",
        example="1.5",
        help="decay: a unit weighs (1 + age) to the power of minus this",
    ),
    Option(
        name="depth",
        type="number",
        example=0,
        help="one level of the hierarchy only, 0 for the roots; only with roll_up",
    ),
)

ALERT_KEYS: Final = (*ALERT[:3], *ALERT_NUMBERS[:-1], *ALERT[3:6], ALERT_NUMBERS[-1], *ALERT[6:])
"""All keys of [[alert]], in the order of the example and the reference."""

UNHEALTHY_ABOVE: Final = Option(
    name="unhealthy_above",
    type="exact",
    example="0.2",
    help="the share of refused rows above which everybody sees that the source is unhealthy "
    "(default: none)",
    advice="At the limit, the rows of one person can decide what everybody sees.",
)

OPERATOR: Final = (
    Option(
        name="token",
        type="secret",
        example="PENSTOCK_OPERATOR",
        help="the token that shows private figures",
    ),
    Option(
        name="metrics",
        type="address",
        example="127.0.0.1:9464",
        help="the address that serves public figures, for Prometheus",
    ),
    Option(
        name="figures",
        type="path",
        example="private.json",
        help="the file for private figures, written when a run ends",
    ),
    *SERVER_TLS_OPTIONS,
    UNHEALTHY_ABOVE,
)

ENGINE: Final = (
    Option(
        name="master",
        default="local[*]",
        example="spark://cluster:7077",
        help="the master of the Spark cluster; local[N] is this machine with N cores",
    ),
    Option(
        name="partitions",
        type="whole",
        example=64,
        help="the parts that persons are spread over (default: twice the cores)",
    ),
    Option(
        name="partitioned",
        choices=("person",),
        example="person",
        help="person if each person's messages are all in one partition of the topic; events that "
        "are not are dropped (default: events are sent to where their person is counted)",
    ),
    Option(
        name="partitioner",
        choices=("murmur2", "crc32"),
        default="murmur2",
        when=("partitioned", "person"),
        help="how producers choose the partition of a person's id: murmur2 is the default of Java "
        "clients, crc32 that of librdkafka",
    ),
    Option(
        name="jars",
        type="path",
        example="spark-jars",
        help="the folder with the Kafka connector of Spark (default: Spark has it already)",
    ),
)

SERVICE: Final = (
    Option(
        name="listen",
        type="address",
        example="127.0.0.1:8090",
        help="the address at which penstock run serves the read API and the dashboard (default: "
        "nowhere; penstock serve uses 127.0.0.1:8090)",
    ),
    Option(
        name="title",
        example="Taps in our city",
        help="the title of the dashboard (default: the name of the stream)",
    ),
    Option(
        name="language",
        choices=("en", "de"),
        default="en",
        help="the language of the dashboard before a reader chooses one",
    ),
    Option(
        name="copy",
        type="path",
        example="taps.db.copy",
        help="the folder of the copy of the releases by key (default: beside the store)",
    ),
    Option(
        name="token",
        type="secret",
        example="PENSTOCK_READERS",
        help="the token that readers must show (default: everybody may read)",
    ),
    Option(
        name="origins",
        several=True,
        example=["https://www.example.org"],
        help="the origins whose pages may call the API (default: none)",
    ),
    Option(
        name="frames",
        several=True,
        example=["https://www.example.org"],
        help="the origins whose pages may show a chart in a frame (default: none)",
    ),
    Option(
        name="map",
        type="path",
        example="stations.geojson",
        help="a GeoJSON file with the places of keys (default: no map)",
    ),
    Option(
        name="map_key",
        example="station",
        help='the property of a place that holds its key (default: "key"); only with map',
    ),
    *SERVER_TLS_OPTIONS,
)

SERVICE_EVENT: Final = (
    Option(
        name="at",
        type="moment",
        required=True,
        example="2026-03-01T18:00",
        help="the date or time, in the zone of the stream if it has no offset",
    ),
    Option(name="text", required=True, example="Cup final", help="what happened"),
)
