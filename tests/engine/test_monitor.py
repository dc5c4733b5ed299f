from __future__ import annotations

import logging
import socket
import sys
from contextlib import ExitStack
from fractions import Fraction

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import penstock
from penstock.core.errors import ConfigurationError, MissingExtraError, StateError
from penstock.engine import monitor, publisher_figures, release_metrics
from penstock.engine.monitor import Monitor
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.testing import ManualClock, NoNoise

from tests.certificates import Authority
from tests.engine import streams

TOKEN, OTHER = "operator-of-the-taps", "operator-of-the-buses"
HERE = {"metrics": "127.0.0.1:0"}


class Served:
    """Live publishers, one turn at a time, and the servers that show them."""

    def __init__(self, stack, folder, *pipelines):
        self.clock = ManualClock("2026-01-01T00:00Z")
        self.folder = folder
        made = []
        for place, tables in enumerate(pipelines):
            name = f"taps{place or ''}"
            (folder / f"{name}.csv").write_text("ts,station,card\n")
            source = {"kind": "csv", "path": f"{name}.csv", "growing": True}
            stream = {"name": name, "pace": "0s"} | tables.pop("stream", {})
            content = streams.pipeline(
                **{"source": source, "stream": stream, "store": {"path": f"{name}.db"}, **tables}
            )
            made.append(Pipeline.of(content, folder=folder))
        self.monitor = stack.enter_context(Monitor(made))
        self.publishers = [
            stack.enter_context(Publisher(each, clock=self.clock, noise=NoNoise)) for each in made
        ]
        for each in self.publishers:
            each.state = "publishing"
        self.monitor.watch(self.publishers)
        self._client = stack.enter_context(httpx.Client(trust_env=False, timeout=20))

    def write(self, *lines):
        with (self.folder / "taps.csv").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def turn(self, now):
        self.clock.set(now)
        for each in self.publishers:
            each.loop.read()
            while each.loop.draw(self.clock.now()):
                each.loop.commit()

    def get(self, path, token=None, server=0, **more):
        host, port = self.monitor.addresses[server]
        headers = (
            {} if token is None else {"authorization": f"Bearer {token}".strip().encode("latin-1")}
        )
        return self._client.request(
            more.pop("method", "GET"), f"http://{host}:{port}{path}", headers=headers, **more
        )

    def metrics(self):
        """The names of all, and what each has with some labels."""
        families = text_string_to_metric_families(self.get("/metrics").text)
        names = {sample.name for family in families for sample in family.samples}
        return names, self.samples("/metrics")

    def samples(self, path):
        """What each metric of a path has with some labels."""
        families = text_string_to_metric_families(self.get(path).text)
        found = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }
        return lambda name, **labels: found[f"penstock_{name}", *sorted(labels.items())]


@pytest.fixture
def served(tmp_path, monkeypatch):
    monkeypatch.setenv("TAPS_OPERATOR", TOKEN)
    monkeypatch.setenv("BUSES_OPERATOR", OTHER)
    with ExitStack() as stack:
        yield lambda *pipelines, name="here": Served(
            stack, folder(tmp_path / name), *(pipelines or ({"operator": HERE},))
        )


def folder(path):
    path.mkdir()
    return path


# -- public ----------------------------------------------------------------------------------------


def test_metrics_show_what_is_released_promised_and_spent(served):
    here = served(
        {"operator": HERE, "privacy": {"mechanism": "uniform", "epsilon": "1", "window": 24}}
    )
    here.turn("2026-01-01T02:00Z")
    _, told = here.metrics()
    assert told("info", version=penstock.__version__) == 1
    of_stream = {
        "publishing": 1,
        "failed": 0,
        "on_time": 1,
        "lease_held": 1,
        "promised_epsilon": 1,
        "promised_delta": 0,
        "promised_window_units": 24,
    }
    assert {name: told(name, stream="taps") for name in of_stream} == of_stream
    of_series = {
        "released_unit": 2,
        "released_unit_end_timestamp_seconds": (streams.BEGIN + 2 * streams.HOUR) / 1e6,
        "units_behind": 0,
        "overdue_seconds": 0,
        "fresh_ratio": 1,
    }
    assert {name: told(name, stream="taps", view="taps") for name in of_series} == of_series
    series = {"stream": "taps", "view": "taps", "currency": "epsilon"}
    assert Fraction(1, 12) <= told("window_cost", **series) < Fraction(1, 12) + Fraction(1, 10**9)
    assert told("window_promised", **series) == 1


def test_metrics_are_text_that_nobody_keeps(served):
    answer = served().get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert answer.headers["cache-control"] == "no-store"
    assert "server" not in answer.headers


def test_metrics_tell_nothing_of_the_process_or_of_the_events(served):
    empty, full = served(name="empty"), served(name="full")
    full.write(
        *(
            f"2026-01-01T00:{minute:02d}Z,{key},{minute}"
            for minute in range(60)
            for key in streams.KEYS
        )
    )
    full.write("2026-01-01T00:01Z,nowhere,1", "2027-01-01T00:00Z,Airport,1", "broken")
    for now in ("2026-01-01T00:30Z", "2026-01-01T01:00Z"):
        for each in (empty, full):
            each.turn(now)
        full.write("2026-01-01T00:10Z,Airport,1")
        assert empty.get("/metrics").text == full.get("/metrics").text
        assert empty.get("/status").text == full.get("/status").text
        assert empty.get("/health").text == full.get("/health").text
    assert empty.get("/releases").text != full.get("/releases").text  # that is what is published
    names, _ = full.metrics()
    assert {name.partition("_")[0] for name in names} == {"penstock"}


def test_the_newest_release_is_served_apart_from_the_figures_of_the_publisher(served):
    here = served(
        {"operator": HERE, "privacy": {"mechanism": "uniform", "epsilon": "1", "window": 24}}
    )
    assert "penstock_release_value{" not in here.get("/releases").text
    here.write(*(f"2026-01-01T01:{minute:02d}Z,Airport,{minute}" for minute in range(7)))
    here.turn("2026-01-01T02:00Z")
    told = here.samples("/releases")
    release = here.publishers[0].views[0].committed.release
    low, high = release.interval("0.95")
    for i, key in enumerate(streams.KEYS):
        labels = {"stream": "taps", "view": "taps", "key": key}
        assert told("release_value", **labels) == release.estimate[i]
        assert told("release_low", **labels) == low[i]
        assert told("release_high", **labels) == high[i]
    assert told("release_value", stream="taps", view="taps", key="Airport") == 7
    view = {"stream": "taps", "view": "taps"}
    assert told("release_unit", **view) == 2
    assert told("release_unit_end_timestamp_seconds", **view) == (
        (streams.BEGIN + 2 * streams.HOUR) / 1e6
    )
    assert told("release_keys", **view) == told("release_keys_shown", **view) == len(streams.KEYS)
    assert told("release_private", **view) == 0  # without noise, in this test
    assert "penstock_release_" not in here.get("/metrics").text
    answer = here.get("/releases")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert answer.headers["cache-control"] == "no-store"
    assert "it covers the added noise with at least 95 %" in answer.text


def test_a_request_shows_a_bounded_number_of_keys_or_those_that_it_names(served, monkeypatch):
    monkeypatch.setattr(release_metrics, "MAX_KEYS_PER_VIEW", 2)
    here = served()
    here.turn("2026-01-01T01:00Z")
    told = here.samples("/releases")
    assert told("release_keys_shown", stream="taps", view="taps") == 2
    assert told("release_keys", stream="taps", view="taps") == len(streams.KEYS)
    last = streams.KEYS[-1]
    assert f'key="{last}"' not in here.get("/releases").text
    chosen = here.get("/releases", params={"key": [last, streams.KEYS[0]]}).text
    assert chosen.count("penstock_release_value{") == 2
    assert f'key="{last}"' in chosen
    for params, said in (
        ({"key": "nowhere"}, "there is no key 'nowhere'"),
        ({"key": list(streams.KEYS)}, "at most 2 times"),
        ({"keys": last}, "there is no parameter 'keys': use key."),
    ):
        refused = here.get("/releases", params=params)
        assert refused.status_code == 400
        assert said in refused.json()["error"]


def test_a_unit_that_waits_is_not_served(served):
    here = served()
    here.turn("2026-01-01T01:00Z")
    before = here.get("/releases").text
    publisher = here.publishers[0]
    here.clock.set("2026-01-01T02:00Z")
    publisher.loop.read()
    assert publisher.loop.draw(here.clock.now())
    assert here.get("/releases").text == before
    publisher.loop.commit()
    assert here.get("/releases").text != before


def test_sinks_are_shown(served):
    here = served({"operator": HERE, "sink": [{"kind": "jsonl", "path": "releases.jsonl"}]})
    here.turn("2026-01-01T02:00Z")
    assert here.publishers[0].deliveries.finish(20)
    _, told = here.metrics()
    assert told("sink_up", stream="taps", sink="jsonl") == 1
    assert told("sink_units_behind", stream="taps", sink="jsonl") == 0


def test_health_is_whether_units_are_on_time(served):
    here = served()
    here.turn("2026-01-01T01:00Z")
    assert (here.get("/health").status_code, here.get("/health").json()["status"]) == (
        200,
        "on time",
    )
    here.clock.set("2026-01-01T02:01:01Z")
    late = here.get("/health")
    assert late.status_code == 503
    assert late.json() == {
        "status": "not on time",
        "late": ["taps"],
        "source": "healthy",
        "unhealthy": [],
    }
    here.turn("2026-01-01T02:01:01Z")
    assert here.get("/health").status_code == 200


def test_status_has_the_exact_figures(served):
    here = served(
        {"operator": HERE, "privacy": {"mechanism": "uniform", "epsilon": "1", "window": 24}}
    )
    here.turn("2026-01-01T01:00Z")
    assert here.get("/status").json() == publisher_figures.plain(
        publisher_figures.public(here.publishers)
    )
    assert here.get("/status").json()["streams"][0]["series"][0]["cost"] == "1/24"


def test_nothing_else_is_served(served):
    here = served()
    for path in ("/", "/docs", "/openapi.json", "/metrics/", "/events"):
        assert here.get(path).status_code == 404
    assert here.get("/metrics", method="POST").status_code == 405


# -- private ---------------------------------------------------------------------------------------


def test_private_figures_need_the_token(served):
    here = served({"operator": {**HERE, "token_env": "TAPS_OPERATOR"}})
    here.write("2026-01-01T00:10Z,Airport,1", "2026-01-01T00:20Z,nowhere,2")
    here.clock.set("2026-01-01T00:30Z")
    here.publishers[0].loop.read()
    for token in (None, "", "wrong-but-long-enough", TOKEN[:-1], TOKEN + "x", "ä"):
        answer = here.get("/operator", token)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "taps" not in answer.text
    answer = here.get("/operator", TOKEN)
    assert answer.status_code == 200
    (stream,) = answer.json()["streams"]
    assert stream["rejections"] == {"unknown key": 1}
    assert stream["series"][0]["open"] == {"1": 1}


def test_connections_that_went_wrong_are_a_private_figure(served):
    here = served({"operator": {**HERE, "token_env": "TAPS_OPERATOR"}})
    with socket.create_connection(here.monitor.addresses[0]) as connection:
        connection.sendall(b"s3cret\r\n\r\n")
        while connection.recv(1000):
            pass
    answer = here.get("/operator", TOKEN)
    assert answer.json()["connections"] == {"malformed": 1}
    assert answer.json()["streams"][0]["connections"] == {}
    assert "malformed" not in here.get("/metrics").text + here.get("/status").text


def test_the_token_is_a_bearer_token(served):
    here = served({"operator": {**HERE, "token_env": "TAPS_OPERATOR"}})
    host, port = here.monitor.addresses[0]
    answer = httpx.get(
        f"http://{host}:{port}/operator",
        headers={"authorization": f"Basic {TOKEN}"},
        trust_env=False,
    )
    assert answer.status_code == 401
    assert here.get(f"/operator?token={TOKEN}").status_code == 401


def test_without_a_token_nothing_private_is_served(served):
    here = served()
    for token in (None, "", TOKEN):
        answer = here.get("/operator", token)
        assert answer.status_code == 404
        assert "token_env" in answer.json()["error"]


def test_a_token_may_stand_in_a_file(served, tmp_path):
    token = folder(tmp_path / "secrets") / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    here = served({"operator": {**HERE, "token_file": "../secrets/token"}})
    assert here.get("/operator", TOKEN).status_code == 200


def test_a_token_that_others_can_read_is_refused(served, tmp_path):
    token = folder(tmp_path / "secrets") / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o644)
    with pytest.raises(ConfigurationError, match="holds the token, and other users can read"):
        served({"operator": {**HERE, "token_file": "../secrets/token"}})


def test_pipelines_with_one_address_share_a_server_and_no_secrets(served):
    here = served(
        {"operator": {**HERE, "token_env": "TAPS_OPERATOR"}},
        {"operator": {**HERE, "token_env": "BUSES_OPERATOR"}},
        {"operator": HERE},
    )
    here.turn("2026-01-01T01:00Z")
    assert len(here.monitor.addresses) == 1
    assert [each["stream"] for each in here.get("/status").json()["streams"]] == [
        "taps",
        "taps1",
        "taps2",
    ]
    assert [each["stream"] for each in here.get("/operator", TOKEN).json()["streams"]] == ["taps"]
    assert [each["stream"] for each in here.get("/operator", OTHER).json()["streams"]] == ["taps1"]
    for token in (
        None,
        "",
        "neither-of-the-two",
    ):  # the third has none, and nobody sees its private figures
        assert here.get("/operator", token).status_code == 401


def test_addresses_show_only_their_own_pipelines(served):
    here = served({"operator": HERE}, {"operator": {"metrics": "localhost:0"}}, {})
    assert [each["stream"] for each in here.get("/status").json()["streams"]] == ["taps"]
    assert [each["stream"] for each in here.get("/status", server=1).json()["streams"]] == ["taps1"]


# -- TLS -------------------------------------------------------------------------------------------


def tls_options(files):
    cert, key = files.cert, files.key
    return {"tls_cert": str(cert), "tls_key": str(key)} | (
        {} if files.client_ca is None else {"tls_client_ca": str(files.client_ca)}
    )


def test_figures_are_served_over_tls(served, tmp_path):
    authority = Authority(tmp_path / "tls")
    here = served({"operator": HERE | tls_options(authority.server(clients=authority))})
    (url,) = here.monitor.urls
    assert url.startswith("https://127.0.0.1:")
    for path in ("health", "metrics", "status"):
        answer = httpx.get(f"{url}/{path}", verify=authority.client(authority), trust_env=False)
        assert answer.status_code == 200
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{url}/health", verify=authority.client(), trust_env=False)
    with pytest.raises(httpx.TransportError):
        here.get("/health")


def test_pipelines_with_one_address_have_the_same_tls_files(tmp_path):
    options = tls_options(Authority(tmp_path / "tls").server())
    with pytest.raises(ConfigurationError, match="differ in their TLS files"):
        Monitor([pipeline(tmp_path, **HERE, **options), pipeline(tmp_path, **HERE)])
    Monitor([pipeline(tmp_path, **HERE, **options)] * 2)


def test_wrong_tls_files_are_said_before_anything_is_opened(tmp_path):
    options = tls_options(Authority(tmp_path / "tls").server())
    with pytest.raises(ConfigurationError, match="tls_cert and tls_key"):
        pipeline(tmp_path, **HERE, tls_cert=options["tls_cert"])
    with pytest.raises(ConfigurationError, match=r"tls_key: .*cannot be read"):
        Monitor([pipeline(tmp_path, **HERE, **options | {"tls_key": "none.key"})])


def test_senders_cannot_keep_the_monitor_from_answering(served):
    here = served()
    with ExitStack() as stack:
        for _ in range(monitor.LIMITS.connections + 5):
            connection = stack.enter_context(socket.create_connection(here.monitor.addresses[0]))
            connection.sendall(b"GET /health HTTP/1.1\r\nhost: test\r\n\r\n")
            assert connection.recv(65536)
            connection.sendall(b"GET /health HT")
        for path in ("/health", "/metrics"):
            assert here.get(path).status_code == 200


# -- what goes wrong -------------------------------------------------------------------------------


def pipeline(folder, **operator):
    return Pipeline.of(streams.pipeline(operator=operator), folder=folder)


def test_an_address_in_use_is_a_clear_error(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as used:
        address = f"127.0.0.1:{used.getsockname()[1]}"
        with Monitor([pipeline(tmp_path, metrics=address)]) as made:
            with pytest.raises(
                StateError, match=f"metrics: {address} cannot be bound .*Nothing was published"
            ):
                made.watch([])
            assert made.addresses == ()


def test_a_host_that_is_not_known_is_a_clear_error(tmp_path):
    with pytest.raises(ConfigurationError, match=r"'nowhere\.invalid' cannot be found"):
        Monitor([pipeline(tmp_path, metrics="nowhere.invalid:9464")]).watch([])


def test_closed_the_address_is_free_again(tmp_path):
    made = Monitor([pipeline(tmp_path, **HERE)])
    made.watch([])
    (address,) = made.addresses
    made.close()
    socket.create_server(address).close()


def test_without_an_address_nothing_is_served(tmp_path):
    with Monitor([pipeline(tmp_path)]) as made:
        made.watch([])
        assert made.addresses == ()


@pytest.mark.parametrize("token", ["short", "with a space in the middle", "größer-als-nötig-hier"])
def test_a_token_that_is_no_good_is_refused_and_not_shown(tmp_path, monkeypatch, token):
    monkeypatch.setenv("TAPS_OPERATOR", token)
    with pytest.raises(ConfigurationError, match="at least 16 characters") as caught:
        Monitor([pipeline(tmp_path, **HERE, token_env="TAPS_OPERATOR")])
    assert token not in str(caught.value)


def test_a_token_that_is_not_there_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("TAPS_OPERATOR", raising=False)
    with pytest.raises(ConfigurationError, match="TAPS_OPERATOR is not set"):
        Monitor([pipeline(tmp_path, **HERE, token_env="TAPS_OPERATOR")])


@pytest.mark.parametrize("name", ["fastapi", "uvicorn", "prometheus_client"])
def test_without_the_extra_it_says_how_to_install_it(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    package = name.replace("_", "-")
    with pytest.raises(
        MissingExtraError, match=rf"serving metrics needs {package}.*penstock\[serve\]"
    ):
        Monitor([pipeline(tmp_path, **HERE)])
    Monitor([pipeline(tmp_path)])


def test_what_goes_wrong_with_a_request_is_told_without_its_message(served, monkeypatch, caplog):
    def fail(publishers):
        raise ValueError("card 4711 at Airport")

    here = served()
    monkeypatch.setattr(monitor.publisher_figures, "public", fail)
    with caplog.at_level(logging.WARNING):
        answer = here.get("/metrics")
    assert answer.status_code == 500
    assert "4711" not in answer.text + caplog.text
    assert "a request failed (ValueError)" in caplog.text


def test_amounts_are_never_shown_as_less_than_they_are():
    for amount in (
        Fraction(1, 3),
        Fraction(2, 3),
        Fraction(1, 24),
        Fraction(10**20 + 1),
        Fraction(1, 2),
        3,
    ):
        assert amount <= monitor._up(amount) <= amount * (1 + Fraction(1, 10**15))
