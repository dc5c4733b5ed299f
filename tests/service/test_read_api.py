"""The read API gives what was released, says what it means, and refuses the rest in words."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import Tide
from penstock.cli import build
from penstock.core.domain import Domain
from penstock.engine.sink_items import items_of
from penstock.engine.sqlite import SQLiteReader
from penstock.engine.store import SeriesLog
from penstock.released.log import Log
from penstock.released.queries.aggregate import Everything
from penstock.released.sinks.release_document import document
from penstock.service import alert_schemas, schemas
from penstock.service import answers as served_answers
from penstock.service.api_errors import ApiError

from tests.service.conftest import UNITS
from tests.service.published import KEYS, PublishedStore, client, sealed_store, service

TAPS = "/v1/streams/taps"


def path_of(quiet):
    return next(iter(quiet.streams)).reader.path


def test_every_address_in_an_answer_can_be_asked(ask):
    about = ask.get("/v1").json()
    streams = ask.get(about["streams_url"]).json()["streams"]
    assert [each["name"] for each in streams] == ["taps"]
    details = ask.get(streams[0]["url"]).json()
    assert ask.get(about["openapi_url"]).json()["openapi"].startswith("3.1")
    assert details["newest"]["unit"] == UNITS
    assert details["promise"]["epsilon"] == "4"
    for question in details["questions"]:
        needed = {
            each["name"]: {"window": "2", "delta": "1"}[each["name"]]
            for each in question["parameters"]
            if each["required"]
        }
        if question["question"] == "decay":
            needed["gamma"] = "0.9"
        assert question["why_not"] is None
        assert ask.get(question["url"], params=needed).status_code == 200


ANSWERS = {
    "": (schemas.StreamDetails, {}),
    "/keys": (schemas.KeyList, {"limit": 2}),
    "/releases": (schemas.AnswerContent, {"last": "1d"}),
    "/answers/counts": (schemas.AnswerContent, {"after": 3, "limit": 4}),
    "/answers/sum": (schemas.AnswerContent, {"window": "6h", "last": 30, "points": 6}),
    "/answers/jump": (schemas.AnswerContent, {"window": 2, "delta": 3, "last": 9}),
    "/answers/top": (schemas.AnswerContent, {"k": 2, "last": 3}),
    "/answers/decay": (schemas.AnswerContent, {"window": 5, "gamma": "0.9", "nonnegative": True}),
    "/ledger": (schemas.LedgerPage, {"limit": 3}),
    "/ledger/windows": (schemas.WindowCosts, {}),
    "/ledger/head": (schemas.HeadContent, {}),
    "/alerts": (alert_schemas.AlertPage, {}),
    "/alerts/rules": (alert_schemas.RuleList, {}),
    "/alerts/try": (alert_schemas.TrialContent, {"above": 41, "key": "Harbour"}),
    "/ledger/verification": (schemas.VerificationContent, {}),
}


@pytest.mark.parametrize("path", ANSWERS)
def test_an_answer_is_as_the_openapi_document_says(ask, path):
    model, parameters = ANSWERS[path]
    answer = ask.get(f"{TAPS}{path}", params=parameters)
    while answer.status_code == 503:  # the ledger is being read
        answer = ask.get(f"{TAPS}{path}", params=parameters)
    assert answer.status_code == 200
    model.model_validate(answer.json(), strict=True)


def test_every_example_is_as_its_schema_says():
    for name, model in {
        "ABOUT_EXAMPLE": schemas.AboutContent,
        "STREAM_EXAMPLE": schemas.StreamContent,
        "DETAILS_EXAMPLE": schemas.StreamDetails,
        "KEYS_EXAMPLE": schemas.KeyList,
        "ANSWER_EXAMPLE": schemas.AnswerContent,
        "LEDGER_EXAMPLE": schemas.LedgerPage,
        "WINDOWS_EXAMPLE": schemas.WindowCosts,
        "HEAD_EXAMPLE": schemas.HeadContent,
        "VERIFICATION_EXAMPLE": schemas.VerificationContent,
    }.items():
        model.model_validate(getattr(schemas, name), strict=True)


# -- the same numbers as the command line ----------------------------------------------------------


def queried(capsys, path, question, options):
    """The rows that `penstock query --json` prints."""
    tokens = ["query", str(path), question, "--json"]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        values = value if isinstance(value, list) else [value]
        for each in values:
            tokens += [flag] if each is True else [flag, str(each)]
    build(tokens)(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    return json.loads(capsys.readouterr().out)["rows"]


KEY_OPTIONS = st.one_of(
    st.just({}),
    st.just({"together": True}),
    st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True).map(
        lambda keys: {"key": keys}
    ),
)
UNIT_OPTIONS = st.one_of(
    st.just({}),
    st.integers(8, UNITS).map(lambda unit: {"unit": unit}),
    st.integers(1, UNITS).map(lambda last: {"last": str(last)}),
    st.tuples(st.integers(8, UNITS), st.integers(0, 20)).map(
        lambda ends: {"from": str(ends[0]), "to": str(min(sum(ends), UNITS))}
    ),
)
QUESTIONS = st.one_of(
    st.just(("counts", {})),
    st.integers(1, 8).map(lambda width: ("sum", {"window": str(width)})),
    st.integers(1, 8).map(lambda width: ("decay", {"window": str(width), "gamma": "0.8"})),
    st.tuples(st.sampled_from(("jump", "drop", "change")), st.integers(2, 5)).map(
        lambda pair: (pair[0], {"window": str(pair[1]), "delta": 7.5})
    ),
    st.integers(1, 8).map(lambda width: ("low", {"window": str(width), "delta": 30})),
    st.integers(1, 4).map(lambda k: ("top", {"k": k})),
)
MORE = st.fixed_dictionaries({}, optional={"confidence": st.sampled_from(("0.5", "0.99"))})


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=QUESTIONS, keys=KEY_OPTIONS, units=UNIT_OPTIONS, more=MORE)
def test_numbers_are_those_of_the_command_line(quiet, ask, capsys, question, keys, units, more):
    name, options = question
    alert = name in ("jump", "drop", "change", "low")
    keys = {} if (alert and "together" in keys) or name == "top" else keys
    options = {**options, **keys, **units, **more}
    rows = queried(capsys, path_of(quiet), name, options)
    answer = ask.get(f"{TAPS}/answers/{name}", params=options).json()
    if name == "top":
        found = [row for unit in answer["ranking"] for row in unit["rows"]]
        fields = ("rank", "name", "estimate", "low", "high", "surely_among_them")
    else:
        series = answer["series"]
        found = [
            {"unit": unit, **{field: each[field][place] for field in each if field != "name"
                              and each[field] is not None}, "name": each["name"]}
            for place, unit in enumerate(answer["units"])
            for each in series
        ]  # fmt: skip
        fields = ("unit", "name", "estimate", "low", "high", "unread")
        fields += ("raised", "doubt") if alert else ()
    assert [[row[field] for field in fields] for row in found] == [
        [row[field] for field in fields] for row in rows
    ]


def test_a_release_is_the_document_that_sinks_get(quiet, ask):
    with SQLiteReader(path_of(quiet)) as reader:
        (item,) = items_of(reader, reader.series("taps"), 7, 7)
    assert ask.get(f"{TAPS}/releases/7").content == document(item)
    table = pa.ipc.open_stream(ask.get(f"{TAPS}/releases/7.arrow").content).read_all()
    assert table.column("key").to_pylist() == list(KEYS)
    assert table.schema.metadata[b"penstock.link"].decode() == item.link


def test_every_form_has_the_same_numbers(ask):
    asked = {"window": "3", "last": "4", "key": ["Market", "Airport"]}
    whole = ask.get(f"{TAPS}/answers/sum.json", params=asked).json()
    values = [each["estimate"][place] for place in range(4) for each in whole["series"]]
    rows = list(csv.DictReader(io.StringIO(ask.get(f"{TAPS}/answers/sum.csv", params=asked).text)))
    assert [float(row["value"]) for row in rows] == values
    assert [row["begins"] for row in rows][::2] == whole["begins"]
    arrow = ask.get(f"{TAPS}/answers/sum", params=asked, headers={
        "accept": "application/vnd.apache.arrow.stream"
    })  # fmt: skip
    assert pa.ipc.open_stream(arrow.content).read_all().column("value").to_pylist() == values
    parquet = ask.get(f"{TAPS}/answers/sum.parquet", params=asked)
    assert pq.read_table(io.BytesIO(parquet.content)).column("value").to_pylist() == values


def test_what_is_not_known_is_an_empty_cell(tmp_path):
    with sealed_store(tmp_path / "tide.db") as store:
        PublishedStore(store, mechanism=Tide(epsilon=2, window=3, periods=(4,))).grow(3)
    with service(tmp_path / "tide.db", tmp_path / "copy") as server, client(server) as asking:
        text = asking.get(f"{TAPS}/answers/sum.csv?window=2").text
        whole = asking.get(f"{TAPS}/answers/sum?window=2").json()
    assert [row["low"] for row in csv.DictReader(io.StringIO(text))] == [""] * len(KEYS)
    assert [series["low"] for series in whole["series"]] == [[None]] * len(KEYS)


# -- pages and points ------------------------------------------------------------------------------


def test_pages_follow_one_another_to_the_end(ask):
    units, url = [], f"{TAPS}/answers/counts?limit=25&key=Harbour"
    while url:
        page = ask.get(url)
        assert "immutable" in page.headers["cache-control"] or page.json()["next"] is None
        units += page.json()["units"]
        url = page.json()["next"]
    assert units == list(range(1, UNITS + 1))


def test_a_form_without_room_for_it_names_the_next_page_in_a_header(ask):
    first = ask.get(f"{TAPS}/answers/counts.csv", params={"after": 0, "limit": 50})
    assert first.links["next"]["url"].startswith(f"{TAPS}/answers/counts.csv?")
    assert "next" not in ask.get(first.links["next"]["url"]).links


def test_points_keep_the_ends_and_the_extremes(ask):
    whole = ask.get(f"{TAPS}/releases", params={"last": UNITS, "key": "Harbour"}).json()
    thin = ask.get(f"{TAPS}/releases", params={"last": UNITS, "key": "Harbour", "points": 8}).json()
    (all_of_it,), (some,) = whole["series"], thin["series"]
    assert "units" not in thin
    assert len(some["units"]) <= 10
    assert (some["units"][0], some["units"][-1]) == (1, UNITS)
    assert max(some["estimate"]) == max(all_of_it["estimate"])
    assert min(some["estimate"]) == min(all_of_it["estimate"])
    assert all(
        all_of_it["estimate"][unit - 1] == value
        for unit, value in zip(some["units"], some["estimate"], strict=True)
    )


def test_keys_are_found_by_a_part_of_them_and_come_in_pages(ask):
    assert ask.get(f"{TAPS}/keys", params={"search": "OLD"}).json()["total"] == 1
    first = ask.get(f"{TAPS}/keys", params={"limit": 3}).json()
    rest = ask.get(first["next"]).json()
    assert [each["key"] for each in first["keys"] + rest["keys"]] == list(KEYS)
    assert rest["next"] is None


# -- caching ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "parameters", "fixed"),
    [
        ("releases/9", {}, True),
        ("releases", {"unit": 9}, True),
        ("releases", {"from": "3", "to": "9"}, True),
        ("releases", {"from": "2026-01-01", "to": "2026-01-01T05:00"}, True),
        ("releases", {"to": str(UNITS)}, True),
        ("releases", {"to": str(UNITS + 1)}, False),
        ("releases", {"to": "2026-03-01"}, False),
        ("releases", {"from": "3"}, False),
        ("releases", {"last": "5"}, False),
        ("releases", {}, False),
        ("answers/sum", {"unit": 9, "window": 3, "hindsight": True}, False),
        ("ledger", {"limit": 2}, True),
        ("ledger", {}, False),
    ],
)
def test_what_cannot_change_may_be_kept_for_ever(ask, quiet, path, parameters, fixed):
    answer = ask.get(f"{TAPS}/{path}", params=parameters)
    kept = answer.headers["cache-control"]
    assert kept == ("public, max-age=31536000, immutable" if fixed else "no-cache")
    with SQLiteReader(path_of(quiet)) as reader:
        links = {reader.at("taps", unit).link.hex() for unit in range(1, UNITS + 1)}
    assert answer.headers["etag"].strip('"')[:64] in links
    again = ask.get(
        f"{TAPS}/{path}", params=parameters, headers={"if-none-match": answer.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == answer.headers["etag"]


def test_another_form_or_parameter_has_another_etag(ask):
    tags = [
        ask.get(f"{TAPS}/{path}").headers["etag"]
        for path in (
            "answers/counts?unit=9",
            "answers/counts.csv?unit=9",
            "answers/counts?unit=9&key=Harbour",
            "answers/sum?unit=9&window=2",
        )
    ]
    assert len(set(tags)) == len(tags)


def test_a_new_unit_changes_what_ends_with_it_and_nothing_else(tmp_path):
    path = tmp_path / "taps.db"
    with sealed_store(path) as store:
        publisher = PublishedStore(store)
        publisher.grow(5)
        with service(path, tmp_path / "copy") as server, client(server) as asking:
            newest = asking.get(f"{TAPS}/releases").headers["etag"]
            fixed = asking.get(f"{TAPS}/releases?unit=5")
            with asking.stream("GET", f"{TAPS}/live?after=5") as live:
                publisher.grow()
                next(line for line in live.iter_lines() if line.startswith("id: 6"))
            changed = asking.get(f"{TAPS}/releases", headers={"if-none-match": newest})
            assert (changed.status_code, changed.json()["last"]) == (200, 6)
            same = asking.get(f"{TAPS}/releases?unit=5")
            assert (same.content, same.headers["etag"]) == (fixed.content, fixed.headers["etag"])


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "near", "said"),
    [
        ("/v1/streams/tap", 404, "taps", "there is no stream 'tap'"),
        (f"{TAPS}/answers/counts?key=harbor", 404, "Harbour", "there is no key 'harbor'"),
        (f"{TAPS}/answers/count", 404, "counts", "there is no question 'count'"),
        (f"{TAPS}/answers/os:system", 404, None, "there is no question"),
        (f"{TAPS}/releases/61", 404, None, "is not released yet"),
        (f"{TAPS}/releases?unit=61", 404, None, "is not released yet"),
        (f"{TAPS}/releases?after=60", 404, None, "no unit after 60 yet"),
        (f"{TAPS}/answers/sum", 422, None, "sum needs window."),
        (f"{TAPS}/answers/sum?windw=3", 422, "window", "no parameter 'windw'"),
        (f"{TAPS}/answers/sum?window=0", 422, None, "window must be at least 1"),
        (f"{TAPS}/answers/counts?window=3", 422, None, "window cannot be used with counts"),
        (f"{TAPS}/answers/counts?confidence=2", 422, None, "confidence must lie between"),
        (f"{TAPS}/answers/counts?confidence=x", 422, None, "confidence"),
        (f"{TAPS}/answers/counts?from=9&to=3", 422, None, "no unit from from to to"),
        (f"{TAPS}/answers/counts?from=yesterday", 422, None, "from must be a unit's number"),
        (f"{TAPS}/answers/counts?unit=3&last=2", 422, None, "exclude each other"),
        (f"{TAPS}/answers/counts?unit=0", 422, None, "unit: "),
        (f"{TAPS}/answers/counts?range=Harbour", 422, None, "range must be given twice"),
        (f"{TAPS}/answers/counts?roll_up=true", 422, None, "hierarchy"),
        (f"{TAPS}/answers/top?k=9", 422, None, "k must be at most 4"),
        (f"{TAPS}/answers/top?nonnegative=true", 422, None, "nonnegative cannot be used with top"),
        (f"{TAPS}/keys.csv", 404, None, "has no form .csv"),
        (f"{TAPS}/live?after=-1", 422, None, "after: "),
        ("/v1/nothing", 404, None, "/v1 says where things are"),
        ("/v1/map", 404, None, "no map"),
    ],
)
def test_a_refusal_says_what_to_do(ask, path, status, near, said):
    answer = ask.get(path)
    assert answer.status_code == status
    assert answer.json()["nearest"] == near
    assert said in answer.json()["error"]
    assert "--" not in answer.json()["error"]
    assert answer.headers["cache-control"] == "no-store"


def test_too_many_numbers_are_refused_before_they_are_computed(tmp_path):
    path = tmp_path / "many.db"
    with sealed_store(path) as store:
        PublishedStore(store, domain=[f"key {place}" for place in range(2000)]).grow(60)
    with service(path, tmp_path / "copy") as server, client(server) as asking:
        refused = asking.get(f"{TAPS}/releases", params={"last": 60})
        assert refused.status_code == 413
        assert "limit: 100,000" in refused.json()["error"]
        assert asking.get(f"{TAPS}/releases?last=50").status_code == 200
        assert asking.get(f"{TAPS}/releases?last=60&points=2").status_code == 200
        assert asking.get(f"{TAPS}/answers/counts?last=60&together=true").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "answers/counts?together=true&last={}",
        "answers/counts?together=true&key=Harbour&key=Market&last={}",
        "answers/sum?together=true&window=4&last={}",
        "alerts/try?together=true&above=9&last={}",
    ],
)
def test_sums_that_would_take_too_long_say_what_would_fit(ask, monkeypatch, path):
    """With the real limit, 10,000 keys over 10,000 units are refused and 4,000 units are not."""
    keys, before = 2 if "key=" in path else len(KEYS), 3 if "window=4" in path else 0
    fitting = UNITS - before - 1
    monkeypatch.setattr(served_answers, "MAX_ADDED_UP", keys * (fitting + before) + keys - 1)
    assert ask.get(f"{TAPS}/{path.format(fitting)}").status_code == 200
    refused = ask.get(f"{TAPS}/{path.format(fitting + 1)}")
    assert refused.status_code == 413
    assert f"at most {fitting} units at once" in refused.json()["error"]


def test_a_window_that_can_never_be_added_up_is_said(ask, monkeypatch):
    monkeypatch.setattr(served_answers, "MAX_ADDED_UP", 3 * len(KEYS))
    refused = ask.get(f"{TAPS}/answers/sum?together=true&window=4&last=1")
    assert refused.status_code == 413
    assert "a smaller window" in refused.json()["error"]


def test_a_year_of_ten_thousand_keys_is_refused_at_once():
    """No number is read: the log has none."""
    log = Log(Domain([f"key {place}" for place in range(10_000)]))
    with pytest.raises(ApiError, match="at most 4,000 units at once") as error:
        served_answers.check_added_up(Everything(), log, 10_000)
    assert error.value.status == 413
    served_answers.check_added_up(Everything(), log, 4_000)


def test_only_get_is_answered(ask):
    for method in ("POST", "PUT", "DELETE", "PATCH", "HEAD"):
        answer = ask.request(method, TAPS)
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET"


def test_answers_are_packed_for_those_who_ask(ask):
    path = f"{TAPS}/releases?last={UNITS}"
    packed = ask.get(path, headers={"accept-encoding": "gzip"})
    plain = ask.get(path, headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()
    assert packed.headers["etag"] != plain.headers["etag"]


def test_a_filter_is_kept_and_gives_what_the_log_gives(quiet, ask):
    asked = {"filtered": True, "period": "1d", "last": "5", "key": "Market"}
    first, again = (ask.get(f"{TAPS}/answers/counts", params=asked).json() for _ in range(2))
    with SQLiteReader(path_of(quiet)) as reader:
        log = SeriesLog(reader, "taps").filtered("1d")
        values = [float(log[unit].estimate[1]) for unit in range(UNITS - 4, UNITS + 1)]
    assert first == again
    assert first["confidence"] == "0.9"
    assert first["series"][0]["estimate"] == values
