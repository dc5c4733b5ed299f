"""Modules of the dashboard that draw nothing: addresses, numbers, times, texts, series."""

from __future__ import annotations

import pytest

from tests.browser import needs_chromium
from tests.service.browser.modules import Modules

pytestmark = [needs_chromium, pytest.mark.slow]

NAMES = ["taps", "taps/per hour", "100 %", "a?b#c&d=e", "Zürich/Höngg", "%2F"]


@pytest.mark.parametrize("stream", NAMES)
def test_an_address_leads_back_to_what_it_was_made_from(modules: Modules, stream: str) -> None:
    found = modules.run(
        "{ readHash, writeHash } from router.js",
        """
        location.hash = writeHash(given, "compare", { key: ["a & b", "c"], window: 24,
          own: false });
        const { stream, view, params } = readHash(location.hash);
        return [stream, view, params.getAll("key"), params.get("window"), params.has("own")];
        """,
        stream,
    )
    assert found == [stream, "compare", ["a & b", "c"], "24", False]


@pytest.mark.parametrize("hash_", ["", "#", "#/", "#/s/", "#/x/taps", "#main"])
def test_an_address_that_names_no_stream_is_the_overview(modules: Modules, hash_: str) -> None:
    script = "return [readHash(given).stream, readHash(given).view];"
    assert modules.run("{ readHash } from router.js", script, hash_) == [None, ""]


def test_an_unknown_view_shows_the_stream_over_time(modules: Modules) -> None:
    script = "return given.map((view) => viewOf({ stream: 'taps', view }).module);"
    found = modules.run("{ viewOf } from views.js", script, ["", "heat", "__proto__"])
    assert found == ["./views/time.js", "./views/heat.js", "./views/time.js"]


@pytest.mark.parametrize(
    ("language", "written"),
    [
        ("en", ["1,234,568", "12.3", "−0.25", "0", "–", "1,082", "−5 – 7", "±\u00a06"]),
        ("de", ["1.234.568", "12,3", "−0,25", "0", "–", "1.082", "−5 – 7", "±\u00a06"]),
    ],
)
def test_numbers_are_written_as_in_the_language(
    modules: Modules, language: str, written: list[str]
) -> None:
    found = modules.run(
        "{ makeFormat } from format.js",
        """
        const { number, interval, margin } = makeFormat({ language: given });
        return [number(1234567.8), number(12.345), number(-0.25), number(-0.001), number(null),
          number(1082), interval(-5, 7), margin(-5, 7)];
        """,
        language,
    )
    assert found == written


def test_an_axis_has_short_numbers(modules: Modules) -> None:
    script = "return given.map(makeFormat({ language: 'en' }).short);"
    found = modules.run("{ makeFormat } from format.js", script, [950, -2000, 12345, 3.4e6])
    assert found == ["950", "−2,000", "12.3K", "3.4M"]


def test_a_share_is_a_percentage(modules: Modules) -> None:
    script = "return ['en', 'de'].map((language) => makeFormat({ language }).percent('0.95'));"
    assert modules.run("{ makeFormat } from format.js", script) == ["95\u202f%", "95\u202f%"]


def test_times_are_those_of_the_streams_zone_not_of_the_reader(modules: Modules) -> None:
    """The page itself is in New York."""
    found = modules.run(
        "{ makeFormat } from format.js",
        """
        const { unit } = makeFormat({ language: "en", zone: "Europe/Zurich" });
        return [
          unit("2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"), // clocks go forward in this hour
          unit("2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"),
          unit("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"), // a day of 23 hours
          unit("2026-01-01T00:00:30Z", "2026-01-01T00:00:40Z"),
        ];
        """,
    )
    assert found == [
        "Sun 29 Mar 2026, 01:00",
        "Sun 29 Mar 2026, 03:00",
        "Sun 29 Mar 2026",
        "Thu 1 Jan 2026, 01:00:30",
    ]


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("2026-03-01T18:00", "Europe/Zurich", "2026-03-01T17:00:00Z"),
        ("2026-07-01T18:00", "Europe/Zurich", "2026-07-01T16:00:00Z"),
        ("2026-03-29T03:00", "Europe/Zurich", "2026-03-29T01:00:00Z"),
        ("2026-03-29", "America/New_York", "2026-03-29T04:00:00Z"),
        ("2026-03-01T18:00+05:30", "Europe/Zurich", "2026-03-01T12:30:00Z"),
        ("2026-03-01T18:00:00Z", "Asia/Kolkata", "2026-03-01T18:00:00Z"),
    ],
)
def test_a_local_time_is_read_in_its_zone(
    modules: Modules, text: str, zone: str, moment: str
) -> None:
    found = modules.run(
        "{ zonedSeconds } from format.js",
        "return new Date(zonedSeconds(...given) * 1000).toISOString().replace('.000', '');",
        [text, zone],
    )
    assert found == moment


def test_durations_have_the_longest_unit_that_divides_them(modules: Modules) -> None:
    script = """
    const en = makeFormat({ language: "en" }), de = makeFormat({ language: "de" });
    return [...given.map(en.duration), de.duration(86400), en.each(3600), en.each(7200),
      de.each(86400)];
    """
    found = modules.run("{ makeFormat } from format.js", script, [1, 90, 5400, 86400, 604800])
    long = ["1 second", "90 seconds", "90 minutes", "1 day", "7 days"]
    assert found == [*long, "1 Tag", "hour", "2 hours", "Tag"]


def test_texts_have_values_and_forms_for_counts(modules: Modules) -> None:
    found = modules.run(
        "{ makeText } from texts.js",
        """
        const text = makeText({
          "keys.one": "{count} key", "keys.other": "{count} keys", "plain": "{a} and {b}, {a}",
        }, "en");
        return [text("keys", { count: 1 }), text("keys", { count: 1200 }), text("plain", { a: "x",
          b: 2 })];
        """,
    )
    assert found == ["1 key", "1,200 keys", "x and 2, x"]


def test_a_text_that_is_missing_is_named(modules: Modules) -> None:
    script = "return makeText({}, 'en')('nothing.here');"
    assert modules.run("{ makeText } from texts.js", script) == "nothing.here"
    assert modules.complaints == ['texts/en.json has no "nothing.here"']
    modules.complaints.clear()


@pytest.mark.parametrize(
    ("service", "wanted", "stored", "chosen"),
    [
        ({"languages": ["en", "de"], "language": "en"}, ["de-CH", "en"], None, "de"),
        ({"languages": ["en", "de"], "language": "de"}, ["fr"], None, "de"),
        ({"languages": ["en", "de"], "language": "en"}, ["de"], "en", "en"),
        ({"languages": ["en"], "language": "en"}, ["de"], "de", "en"),
        ({}, [], None, "en"),
    ],
)
def test_the_language_is_the_readers_if_it_is_offered(
    modules: Modules, service: dict[str, object], wanted: list[str], stored: str, chosen: str
) -> None:
    script = "return chooseLanguage(...given);"
    found = modules.run("{ chooseLanguage } from texts.js", script, [service, wanted, stored])
    assert found == chosen


HOURLY = {"seconds": 3600, "every": "1h", "units": 9000, "zone": "UTC"}
MINUTES = {"seconds": 60, "every": "1min", "units": 20_000, "zone": "UTC"}
SECONDS = {"seconds": 1, "every": "1s", "units": 300, "zone": "UTC"}
DAILY = {"seconds": None, "every": "1d", "units": 100, "zone": "Europe/Zurich"}
MONTHLY = {"seconds": None, "every": "1mo", "units": 40, "zone": "UTC"}


@pytest.mark.parametrize(
    ("stream", "ranges", "first", "windows"),
    [
        (HOURLY, ["day", "week", "month", "year", "all"], "week", [1, 2, 3, 6, 12, 24]),
        (MINUTES, ["hour", "day", "week", "all"], "hour", [1, 5, 10, 15, 30, 60]),
        (SECONDS, ["minute", "all"], "all", [1, 5, 10, 15, 30, 60]),
        (DAILY, ["week", "month", "all"], "month", [1, 2, 3, 7, 14, 30]),
        (MONTHLY, ["units30", "all"], "units30", [1, 2, 3, 5, 7, 10]),
        ({**HOURLY, "units": 10}, ["all"], "all", [1, 2, 3]),
    ],
    ids=["hourly", "minutes", "seconds", "daily", "monthly", "young"],
)
def test_stretches_and_windows_fit_the_stream(
    modules: Modules,
    stream: dict[str, object],
    ranges: list[str],
    first: str,
    windows: list[int],
) -> None:
    found = modules.run(
        "{ firstRange, rangesOf, windowsOf } from parts/ranges.js",
        "return [rangesOf(given).map(([name]) => name), firstRange(given), windowsOf(given)];",
        stream,
    )
    assert found[:2] == [ranges, first]
    assert found[2][: len(windows)] == windows
    assert found[2][-1] * (stream["seconds"] or 86400) <= 30 * 86400


@pytest.mark.parametrize(
    ("choice", "window", "parameters"),
    [
        ({"range": "week"}, 1, {"last": 168}),
        ({"range": "year"}, 1, {"last": 8760, "points": 1000}),
        ({"range": "all"}, 1, {"last": 9000, "points": 1000}),
        ({"range": "all"}, 24, {"last": 8977, "points": 1000}),
        (
            {"range": "dates", "from": "2026-01-01", "to": ""},
            1,
            {"from": "2026-01-01", "points": 1000},
        ),
    ],
)
def test_a_long_stretch_is_thinned_by_the_server(
    modules: Modules, choice: dict[str, str], window: int, parameters: dict[str, object]
) -> None:
    found = modules.run(
        "{ rangeParams } from parts/ranges.js",
        "return rangeParams(given.stream, given.choice, given.window);",
        {"stream": HOURLY, "choice": choice, "window": window},
    )
    assert {name: value for name, value in found.items() if value} == parameters


SERIES = """
const column = (first, count) => Array.from({ length: count }, (_, at) => first + at);
const made = (first, count, name = "a") => ({
  name, units: column(first, count), times: column(first * 10, count).map((x, at) =>
    first * 10 + 10 * at),
  ends: column(first, count).map((unit) => unit * 10 + 10), estimate: column(first, count),
  low: column(first - 1, count), high: column(first + 1, count),
  repeated: column(first, count).map((unit) => unit % 2 === 0), unread: null, raised: null,
});
"""


def test_new_units_are_appended_once_and_old_ones_leave(modules: Modules) -> None:
    found = modules.run(
        "{ append } from parts/answers.js",
        SERIES
        + """
        const series = [made(1, 5), made(1, 5, "b")];
        append(series, [made(4, 4), made(4, 4, "b")], 30);
        return series.map(({ units, estimate, repeated, unread }) => [units, estimate,
          repeated.length, unread]);
        """,
    )
    assert found == [[[3, 4, 5, 6, 7], [3, 4, 5, 6, 7], 5, None]] * 2


def test_a_closer_look_replaces_thinned_units(modules: Modules) -> None:
    found = modules.run(
        "{ spliced } from parts/following_series.js",
        SERIES
        + """
        const coarse = made(1, 30), keep = coarse.units.filter((unit) => unit % 5 === 0);
        for (const name of Object.keys(coarse)) {
          if (Array.isArray(coarse[name])) coarse[name] = coarse[name].filter((_, at) =>
            (at + 1) % 5 === 0);
        }
        const fine = spliced(coarse, made(9, 5));
        return [fine.units, fine.estimate, fine.name, keep];
        """,
    )
    assert found[0] == found[1] == [5, 9, 10, 11, 12, 13, 15, 20, 25, 30]
    assert found[2] == "a"


def test_the_unit_at_a_time_is_found_also_between_thinned_ones(modules: Modules) -> None:
    found = modules.run(
        "{ placeAt } from parts/answers.js",
        SERIES
        + """
        const series = { ...made(1, 3), times: [10, 20, 100], ends: [20, 30, 110] };
        return given.map((time) => series.units[placeAt(series, time)]);
        """,
        [0, 10, 19.9, 20, 40, 90, 105, 1e9],
    )
    assert found == [1, 1, 1, 2, 2, 3, 3, 3]


def test_an_answer_becomes_series_with_or_without_points(modules: Modules) -> None:
    times = {"begins": ["2026-01-01T00:00:00Z"], "ends": ["2026-01-01T01:00:00Z"], "units": [7]}
    numbers = {"name": "a", "estimate": [5], "low": [None], "high": [9], "repeated": None}
    script = "return given.map((answer) => seriesOf(answer)[0]);"
    given = [{**times, "series": [numbers]}, {"series": [{**numbers, **times}]}]
    plain, thinned = modules.run("{ seriesOf } from parts/answers.js", script, given)
    assert plain == thinned
    assert plain["times"] == [1767225600]
    assert plain["ends"] == [1767229200]


def test_an_alert_lasts_from_raised_to_cleared(modules: Modules) -> None:
    alerts = [
        {"rule": "crowd", "key": "A", "unit": 9, "state": "cleared"},
        {"rule": "crowd", "key": "A", "unit": 5, "state": "raised"},
        {"rule": "crowd", "key": "B", "unit": 6, "state": "raised"},
        {"rule": "quiet", "key": "A", "unit": 7, "state": "cleared"},
    ]
    script = """return pairAlerts(given).map(({ raised, cleared }) => (
      [raised.key, raised.unit, cleared?.unit ?? null]));"""
    found = modules.run("{ pairAlerts } from parts/timeline_marks.js", script, alerts)
    assert found == [["A", 5, 9], ["B", 6, None]]


STREAM = {
    "url": "/v1/streams/taps",
    "keys": 9,
    "questions": [{"question": "counts", "why_not": None}, {"question": "sum", "why_not": None}],
}


@pytest.mark.parametrize(
    ("choice", "call"),
    [
        ({"keys": ["a", "b"]}, "/answers/counts?key=a&key=b"),
        ({"together": True, "nonnegative": True}, "/answers/counts?nonnegative=true&together=true"),
        ({"keys": ["a"], "window": 24}, "/answers/sum?key=a&window=24"),
        ({"nodes": True, "filtered": True}, "/answers/counts?filtered=true&roll_up=true"),
    ],
)
def test_a_choice_is_one_call_of_the_api(
    modules: Modules, choice: dict[str, object], call: str
) -> None:
    found = modules.run(
        "{ numbersCall } from parts/questions.js",
        """
        const { makeApi } = await import("/assets/api.js");
        return makeApi().url(...numbersCall(given.stream, given.choice));
        """,
        {"stream": STREAM, "choice": choice},
    )
    assert found == STREAM["url"] + call


def test_a_stream_without_counts_shows_its_releases(modules: Modules) -> None:
    stream = {**STREAM, "questions": [{"question": "counts", "why_not": "it releases sums."}]}
    script = "return numbersCall(given, { keys: ['a'] });"
    found = modules.run("{ numbersCall } from parts/questions.js", script, stream)
    assert found == ["/v1/streams/taps/releases", {"key": ["a"]}]


ANSWERS = """
const answer = (status, body, headers = {}) => new Response(JSON.stringify(body), { status,
  headers });
"""


def test_an_error_of_the_api_says_what_to_do(modules: Modules) -> None:
    found = modules.run(
        "{ makeApi, ApiError } from api.js",
        ANSWERS
        + """
        const api = makeApi({ fetch: async () => answer(404, { error: "no such key.",
          nearest: "Zoo" }), token: () => null });
        try { await api.get("/v1/x"); } catch (error) {
          return [error instanceof ApiError, error.status, error.message, error.nearest];
        }
        """,
    )
    assert found == [True, 404, "no such key.", "Zoo"]


def test_an_answer_that_breaks_off_is_no_answer(modules: Modules) -> None:
    found = modules.run(
        "{ makeApi, ApiError } from api.js",
        """
        const broken = () => new Response(new ReadableStream({
          start(stream) { stream.enqueue(new TextEncoder().encode("{")); },
          pull(stream) { stream.error(new TypeError("Failed to fetch")); } }));
        const api = makeApi({ fetch: async () => broken(), token: () => null }), found = [];
        for (const ask of [api.get, api.file]) {
          try { await ask("/v1/x"); } catch (error) {
            found.push([error instanceof ApiError, error.status, error.message]);
          }
        }
        return found;
        """,
    )
    assert found == [[True, 0, "Failed to fetch"]] * 2


def test_the_client_waits_when_it_is_asked_to(modules: Modules) -> None:
    found = modules.run(
        "{ makeApi } from api.js",
        ANSWERS
        + """
        const answers = [answer(429, { error: "too many." }, { "Retry-After": "0" }), answer(200,
          { fine: true })], seen = [];
        const api = makeApi({
          fetch: async (address, { headers }) => { seen.push([address, headers.Authorization]);
            return answers.shift(); },
          token: () => "secret",
        });
        return [await api.get("/v1/x", { key: ["a/b", "c"] }), seen];
        """,
    )
    assert found == [{"fine": True}, [["/v1/x?key=a%2Fb&key=c", "Bearer secret"]] * 2]


def test_events_are_read_however_the_bytes_are_cut(modules: Modules) -> None:
    text = (
        'retry: 2000\n\n: comment\n\nid: 1\nevent: unit\ndata: {"unit":\ndata: 1}\n\n'
        "id: 2\r\nevent: older\r\ndata: é\r\n\r\nid: 3\nevent: unit\ndata: lost"
    )
    for size in (1, 2, 3, 7, 1000):
        found = modules.run(
            "{ readEvents } from events.js",
            """
            const bytes = new TextEncoder().encode(given.text), found = [];
            let heard = 0;
            const body = new ReadableStream({ start(stream) {
              for (let at = 0; at < bytes.length; at += given.size) stream.enqueue(bytes.slice(at,
                at + given.size));
              stream.close();
            } });
            for await (const { id, event, data, retry } of readEvents(body, () => { heard += 1;
              })) found.push([id, event, data, retry]);
            return [found, heard === Math.ceil(bytes.length / given.size)];
            """,
            {"text": text, "size": size},
        )
        assert found == [
            [
                [None, "message", "", 2000],
                ["1", "unit", '{"unit":\n1}', None],
                ["2", "older", "é", None],
            ],
            True,
        ]


def test_a_token_stays_in_the_tab_and_is_sent_as_a_header(modules: Modules) -> None:
    found = modules.run(
        "{ hasToken, keepToken, makeApi } from api.js",
        """
        const seen = [], before = hasToken();
        const api = makeApi({ fetch: async (address, { headers }) => {
          seen.push([address, headers.Authorization ?? null]);
          return new Response("{}");
        } });
        await api.get("/v1");
        keepToken("secret");
        await api.get("/v1");
        const kept = [hasToken(), sessionStorage.getItem("token"), localStorage.length];
        keepToken("");
        return [before, seen, kept, hasToken()];
        """,
    )
    addresses = [["/v1", None], ["/v1", "Bearer secret"]]
    assert found == [False, addresses, [True, "secret", 0], False]
