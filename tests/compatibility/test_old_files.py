"""What earlier code wrote is read, verified and gone on with: see tests/fixtures/*/README.md."""

from __future__ import annotations

import gzip
import json
import shutil
import threading
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.cli import main
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.testing import ManualClock, TestNoise

OLD = Path(__file__).parents[1] / "fixtures" / "v0_1_dev"
SEED = 7
HISTOGRAMS = {"greedy": ps.Greedy, "kd_tree": ps.KdTree, "quad_tree": ps.QuadTree}


def recorded(name):
    return json.loads((OLD / f"{name}.json").read_text())


STORES, EXPORTS, STATES = recorded("stores"), recorded("exports"), recorded("states")
LOGS, PIPELINES = recorded("logs"), recorded("pipelines")
SNAPSHOTS = sorted(path.name.partition(".")[0] for path in OLD.glob("states/*.snapshot.gz"))
GOES_ON = [name for name, store in STORES.items() if "after" in store]

# -- old files, copied ---------------------------------------------------------------------------


def unpacked(path, folder):
    """An old file in this folder, with the mode that a publisher gives it."""
    target = folder / path.name.removesuffix(".gz")
    content = path.read_bytes()
    target.write_bytes(gzip.decompress(content) if path.suffix == ".gz" else content)
    target.chmod(0o600)
    return target


@pytest.fixture
def old_store(tmp_path):
    """A copy of a store with all that stood around it: the folder."""

    def copied(name):
        folder = tmp_path / name
        shutil.copytree(OLD / "stores" / name, folder)
        for path in folder.glob("*.gz"):
            unpacked(path, folder)
        for key in folder.glob("*.key"):
            key.chmod(0o600)
        return folder

    return copied


@pytest.fixture
def told(capsys):
    """What a command prints; it must not fail."""

    def printed(*tokens):
        capsys.readouterr()
        code = None
        try:
            main([str(token) for token in tokens])
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        assert not code, err
        return out

    return printed


@pytest.fixture
def asked(told):
    return lambda *tokens: json.loads(told(*tokens, "--json"))


# -- what is in them, as plain data --------------------------------------------------------------


def plain(release):
    values = [None if value != value else value for value in release.value.tolist()]
    repeated = np.asarray(release.repeated).tolist()
    found = {"unit": release.unit, "value": values}
    return found | {"repeated": repeated, "private": release.private}


def releases(store, series):
    with ps.Publication.read(store, series) as publication:
        return [plain(release) for release in publication.log]


def promise(guarantee):
    return {
        "epsilon": str(guarantee.epsilon),
        "delta": str(guarantee.delta),
        "window": guarantee.window,
        "contribution": guarantee.contribution,
        "horizon": guarantee.horizon,
    }


def numbers(answer):
    """Of an answer what is no sentence."""
    rows = [dict(row) for row in answer["rows"]]
    for row in rows:
        row.pop("note", None)
    return rows


def close(found, expected):
    """Whether two structures are the same, floats up to rounding."""
    if isinstance(expected, dict):
        same = found.keys() == expected.keys()
        return same and all(close(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    if isinstance(expected, float) and isinstance(found, (int, float)):
        return found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    return found == expected


def go_on(folder, *, last=None, now=None):
    """Publish with test noise until the input ends, or until a unit is released."""

    def listener(event):
        if event.kind == "release" and event.unit == last:
            publisher.stop()

    publisher = Publisher(
        Pipeline.read(folder / "pipeline.toml"),
        noise=lambda: TestNoise(SEED),
        clock=ManualClock(now) if now else None,
        listener=listener,
    )
    with publisher:
        publisher.run()


def went_on(folder, name):
    """The store of an old publisher after a new one has gone on with it."""
    for more in folder.glob("more_*"):
        with (folder / more.name.removeprefix("more_")).open("a") as file:
            file.write(more.read_text())
    go_on(folder, last=STORES[name].get("last"), now=STORES[name].get("then"))
    return folder / STORES[name]["store"]


# -- stores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STORES)
def test_an_old_store_has_the_same_numbers(old_store, name):
    expected = STORES[name]["now"]
    store = old_store(name) / STORES[name]["store"]
    for series in expected["series"]:
        assert releases(store, series) == expected["releases"][series]
        with ps.Publication.read(store, series) as publication:
            assert promise(publication.guarantee) == expected["promises"][series]


@pytest.mark.parametrize("name", STORES)
def test_an_old_ledger_verifies_with_the_same_head(old_store, asked, name):
    store = old_store(name) / STORES[name]["store"]
    verified = STORES[name]["now"]["verified"]
    assert verified.items() <= asked("ledger", "verify", store).items()


@pytest.mark.parametrize("name", ["taps", "sealed"])
def test_an_old_head_file_fits_its_store(old_store, asked, name):
    folder = old_store(name)
    assert asked("ledger", "verify", folder / "taps.db", "--head", folder / "taps.head")["valid"]


@pytest.mark.parametrize("name", STORES)
def test_the_status_of_an_old_store_is_the_same(old_store, asked, name):
    """Sentences may change, numbers may not."""
    found = asked("status", old_store(name) / STORES[name]["store"])
    expected = STORES[name]["now"]["status"]
    assert [stream["stream"] for stream in found] == [stream["stream"] for stream in expected]
    for here, there in zip(found, expected, strict=True):
        assert here["private"] == there["private"]
        assert here.get("together") == there.get("together")
        for one, other in zip(here["series"], there["series"], strict=True):
            facts = other.keys() - {"span"}
            assert {fact: one[fact] for fact in facts} == {fact: other[fact] for fact in facts}


@pytest.mark.parametrize("name", STORES)
def test_an_old_store_answers_the_same(old_store, asked, name):
    expected = STORES[name]["now"]
    store = old_store(name) / STORES[name]["store"]
    for series in expected["series"]:
        of = ("--stream", series)
        counts = asked("query", store, "counts", *of, "--last", 2)
        sums = asked("query", store, "sum", *of, "--window", 1, "--together")
        assert close(numbers(counts), numbers(expected["counts"][series]))
        assert close(numbers(sums), numbers(expected["sums"][series]))
        about = asked("query", store, *of)
        for fact in ("mechanism", "configuration", "keys", "first_unit", "last_unit", "answers"):
            assert about[fact] == expected["about"][series][fact]


@pytest.mark.parametrize("name", [path.stem for path in sorted(OLD.glob("ledgers/*.json"))])
def test_an_old_ledger_is_shown_as_before(old_store, asked, told, name):
    base = name.removesuffix("_daily")
    store = old_store(base) / STORES[base]["store"]
    of = ("--stream", "taps/daily") if name != base else ()
    expected = OLD / "ledgers" / f"{name}.json"
    assert asked("ledger", "show", store, *of) == json.loads(expected.read_text())
    table = expected.with_suffix(".csv")
    if table.exists():
        assert told("ledger", "show", store, *of, "--csv") == table.read_text()


@pytest.mark.parametrize("name", GOES_ON)
def test_an_old_store_goes_on_where_it_stopped(old_store, asked, monkeypatch, name):
    """With the same test noise, the units that follow are those that the old code released."""
    monkeypatch.setenv("TAPS_TOKEN", STORES["http"]["sent"]["token"])
    expected = STORES[name]
    store = went_on(old_store(name), name)
    for series in expected["now"]["series"]:
        before, after = expected["now"]["releases"][series], expected["after"]["releases"][series]
        found = releases(store, series)
        assert found[: len(before)] == before
        assert found == after
        assert len(after) > len(before)
    verified = asked("ledger", "verify", store)
    assert verified["valid"]
    then = expected["after"]["verified"]["series"]
    for here, there in zip(verified["series"], then, strict=True):
        facts = there.keys() - {"head"}
        assert {fact: here[fact] for fact in facts} == {fact: there[fact] for fact in facts}
    for series in expected["now"]["verified"]["series"]:
        of = ("--stream", series["series"])
        assert asked("ledger", "verify", store, *of, "--head", series["head"])["valid"]


@pytest.mark.parametrize("name", GOES_ON)
def test_a_store_that_goes_on_gets_the_old_codes_head(old_store, asked, monkeypatch, name):
    """What is chained is written as before, so that an old auditor can follow."""
    monkeypatch.setenv("TAPS_TOKEN", STORES["http"]["sent"]["token"])
    store = went_on(old_store(name), name)
    verified = STORES[name]["after"]["verified"]
    assert verified.items() <= asked("ledger", "verify", store).items()


def test_a_store_with_real_noise_goes_on_from_the_command_line(old_store, told, asked):
    folder = old_store("real")
    store, path = folder / "taps.db", folder / "pipeline.toml"
    with (folder / "taps.csv").open("a") as file:
        file.write((folder / "more_taps.csv").read_text())
    path.write_text(path.read_text().replace("T06:00", "T12:00"))
    told("run", path, "--log", "none")
    before = STORES["real"]["now"]
    found = releases(store, "taps")
    assert found[:6] == before["releases"]["taps"]
    assert [release["unit"] for release in found] == list(range(1, 13))
    assert all(release["private"] for release in found)
    head = before["verified"]["series"][0]["head"]
    assert asked("ledger", "verify", store, "--head", head)["valid"]


def test_an_old_store_goes_on_from_python(old_store):
    """`ps.publish` takes the store of a publisher, as it is the same stream."""
    folder = old_store("taps")
    publication = ps.publish(
        folder / "taps.csv",
        time="tapped_at",
        key="station",
        person="card",
        person_type="integer",
        every="1h",
        zone="Europe/Zurich",
        origin="2026-01-01",
        until="2026-01-01T12:00+01:00",
        mechanism=ps.BudgetAbsorption(epsilon="1", window=4, contribution=2),
        domain=["Airport", "Central", "Harbour", "Old Town"],
        store=folder / "taps.db",
        name="taps",
        noise=TestNoise(SEED),
    )
    with publication:
        publication.verify()
        found = [plain(release) for release in publication.log]
    assert found == STORES["taps"]["after"]["releases"]["taps"]


def test_an_old_head_file_goes_on_with_its_store(old_store, asked):
    folder = old_store("taps")
    store = went_on(folder, "taps")
    (series,) = asked("ledger", "verify", store, "--head", folder / "taps.head")["series"]
    unit, _, link = series["head"].partition(":")
    heads = json.loads((folder / "taps.head").read_text())["heads"]
    assert heads == {"taps": [int(unit), link]}


def test_an_old_head_file_shows_that_a_store_is_too_old(old_store):
    folder = old_store("taps")
    backup = (folder / "taps.db").read_bytes()
    went_on(folder, "taps")
    (folder / "taps.db").write_bytes(backup)
    with pytest.raises(ps.PenstockError):
        go_on(folder)
    assert len(releases(folder / "taps.db", "taps")) == 7


def test_old_sinks_get_what_follows(old_store):
    folder = old_store("taps")
    lines = (folder / "releases.jsonl").read_text()
    files = {path: path.read_bytes() for path in folder.glob("releases/**/*.parquet")}
    assert lines
    assert files
    went_on(folder, "taps")
    text = (folder / "releases.jsonl").read_text()
    assert text.startswith(lines)
    expected = STORES["taps"]["after"]["releases"]["taps"]
    assert [json.loads(line)["unit"] for line in text.splitlines()] == list(range(1, 13))
    assert {path: path.read_bytes() for path in files} == files
    tables = [pq.ParquetFile(path).read() for path in folder.glob("releases/**/*.parquet")]
    units = sorted(unit for table in tables for unit in table["unit"].to_pylist())
    assert units == [release["unit"] for release in expected for _ in range(4)]


def test_a_batch_that_an_old_publisher_kept_is_not_counted_again(old_store, monkeypatch):
    """Its idempotency key is in the store: sent again it is answered, and another body refused."""
    expected = STORES["http"]
    token, key = expected["sent"]["token"], expected["sent"]["key"]
    monkeypatch.setenv("TAPS_TOKEN", token)
    folder = old_store("http")
    clock = ManualClock("2026-01-01T03:30:00Z")
    body = (folder / "sent.jsonl").read_bytes()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/x-ndjson"}

    def listener(event):
        if event.kind == "release" and event.unit == expected["last"]:
            publisher.stop()

    publisher = Publisher(
        Pipeline.read(folder / "pipeline.toml"),
        noise=lambda: TestNoise(SEED),
        clock=clock,
        listener=listener,
    )
    with publisher:
        thread = threading.Thread(target=publisher.run)
        thread.start()
        try:
            address = "http://{}:{}/events".format(*publisher.source.address)
            headers["Idempotency-Key"] = key
            request = urllib.request.Request(address, body, headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert answer.status == 200
            request = urllib.request.Request(address, body + body, headers)
            with pytest.raises(urllib.error.HTTPError, match="422") as refused:
                urllib.request.urlopen(request, timeout=60)
            refused.value.close()
            clock.set(expected["then"])
            thread.join(60)
        finally:
            publisher.stop()
            thread.join(60)
    assert releases(folder / "taps.db", "taps") == expected["after"]["releases"]["taps"]


def test_a_sealed_store_is_not_gone_on_with_under_another_key(old_store):
    folder = old_store("sealed")
    (folder / "tests-only.key").write_text("00" * 32)
    with pytest.raises(ps.PenstockError):
        go_on(folder)


# -- exports -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPORTS)
def test_an_old_export_verifies_and_is_in_the_past_of_its_store(old_store, asked, tmp_path, name):
    export = unpacked(OLD / "exports" / f"{name}.db.gz", tmp_path)
    assert EXPORTS[name].items() <= asked("ledger", "verify", export).items()
    assert asked("ledger", "verify", old_store(name) / "taps.db", "--export", export)["valid"]
    for series in STORES[name]["now"]["series"]:
        assert releases(export, series) == STORES[name]["now"]["releases"][series]


@pytest.mark.parametrize("name", EXPORTS)
def test_an_old_export_is_brought_up_to_date(old_store, told, asked, tmp_path, name):
    export = unpacked(OLD / "exports" / f"{name}.db.gz", tmp_path)
    store = went_on(old_store(name), name)
    told("export", store, export)
    assert asked("ledger", "verify", export) == asked("ledger", "verify", store)


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_an_old_store_is_exported_into_the_same_table(old_store, told, tmp_path, name, ending):
    out, old = tmp_path / f"out.{ending}", OLD / "exports" / f"{name}.{ending}"
    only = name == "views" and ending != "parquet"
    told("export", old_store(name) / "taps.db", out, *(["--stream", "taps/daily"] if only else []))
    if ending == "csv":
        assert out.read_text() == old.read_text()
    elif ending == "jsonl":
        found, expected = (path.read_text().splitlines() for path in (out, old))
        assert close([json.loads(line) for line in found], [json.loads(line) for line in expected])
    else:
        found, expected = (pq.ParquetFile(path).read() for path in (out, old))
        assert found.schema.names == expected.schema.names
        assert found.schema.types == expected.schema.types
        assert close(found.to_pylist(), expected.to_pylist())


# -- kept runs and snapshots ---------------------------------------------------------------------


def domain_of(declared):
    if isinstance(declared, list):
        return declared
    if "attributes" in declared:
        return ps.Product.of({name: tuple(each) for name, each in declared["attributes"].items()})
    return ps.Hierarchy.of(declared["hierarchy"])


def mechanism_of(recorded_run):
    given = dict(recorded_run["parameters"])
    if "histogram" in given:
        method, more = given["histogram"]
        given["histogram"] = HISTOGRAMS[method](**more)
    return getattr(ps, recorded_run["class"])(**given)


@pytest.mark.parametrize("name", STATES)
def test_a_run_that_was_kept_goes_on_with_the_same_releases(tmp_path, name):
    expected = STATES[name]
    path = unpacked(OLD / "states" / f"{name}.state.gz", tmp_path)
    mechanism = mechanism_of(expected)
    assert mechanism.name == expected["mechanism"]
    assert promise(mechanism.guarantee) == expected["promise"]
    domain = domain_of(expected["domain"])
    with mechanism.run(domain, noise=TestNoise(SEED), keep=path) as run:
        here = {key: str(value) for key, value in run.mechanism.configuration().items()}
        assert here == expected["configuration"]
        assert run.unit == 9
        assert plain(run.last) == expected["kept"][-1]
        assert str(run.cost.amount) == expected["cost_before"]
        for release in expected["after"]:
            assert close(plain(run.step(expected["counts"][run.unit])), release)
        assert close(run.last.estimate.tolist(), expected["estimate"])
        assert str(run.cost.amount) == expected["cost_after"]
    with mechanism.run(domain, noise=TestNoise(SEED), keep=path) as again:
        assert close(plain(again.last), expected["after"][-1])


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_an_old_snapshot_goes_on_with_the_same_releases(name):
    expected = STATES[name]
    snapshot = gzip.decompress((OLD / "states" / f"{name}.snapshot.gz").read_bytes())
    domain = domain_of(expected["domain"])
    run = mechanism_of(expected).restore(snapshot, domain, noise=TestNoise(SEED))
    assert plain(run.last) == expected["in_snapshot"]
    for release in (*expected["kept"], *expected["after"]):
        assert close(plain(run.step(expected["counts"][run.unit])), release)


def test_every_mechanism_has_an_old_state():
    known = json.loads((OLD / "public_names.json").read_text())["penstock"]
    mechanisms = {
        name
        for name in known
        if isinstance(getattr(ps, name), type)
        and issubclass(getattr(ps, name), ps.Mechanism)
        and name not in ("Mechanism", "Incremental")
    }
    assert {run["class"] for run in STATES.values()} == mechanisms


# -- release logs --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOGS)
def test_an_old_release_log_answers_the_same(asked, tmp_path, name):
    expected, path = LOGS[name], unpacked(OLD / "logs" / f"{name}.log.gz", tmp_path)
    about = asked("query", path)
    for fact in ("name", "mechanism", "configuration", "private", "keys", "attributes"):
        assert about[fact] == expected["about"][fact]
    for fact in ("first_unit", "last_unit", "answers"):
        assert about[fact] == expected["about"][fact]
    for question, answer in expected["questions"]:
        found = asked("query", path, *question)
        assert found["rows"]
        assert close(numbers(found), numbers(answer))


@pytest.mark.parametrize("name", LOGS)
def test_an_old_release_log_has_the_same_releases(tmp_path, name):
    expected, path = LOGS[name], unpacked(OLD / "logs" / f"{name}.log.gz", tmp_path)
    with ps.open_log(path) as log:
        assert [plain(release) for release in log] == expected["releases"]
        assert promise(log.guarantee) == expected["promise"]


# -- configurations ------------------------------------------------------------------------------


def configured(pipeline):
    """What a configuration means, as plain data."""
    stream, source, columns = pipeline.stream, pipeline.source, pipeline.source.columns
    times = ("until", "lateness", "late", "tolerance", "pace")
    return {
        "stream": {
            "name": stream.name,
            "every": stream.calendar.every,
            "zone": stream.calendar.zone,
            "origin": str(stream.calendar.origin),
            **{name: getattr(stream, name) for name in times},
        },
        "source": {
            "kind": source.kind,
            "time": columns.time,
            "keys": columns.keys,
            "key_types": columns.key_types,
            "person": columns.person,
            "person_type": columns.person_type,
            "clock": columns.clock,
            "zone": columns.zone,
            "options": dict(source.options),
        },
        "keys": pipeline.domain().keys,
        "other": pipeline.other,
        "promise": promise(pipeline.guarantee),
        "views": [viewed(pipeline, view) for view in pipeline.views],
        "store": vars(pipeline.store),
        "sinks": [
            {
                "name": sink.name,
                "kind": sink.kind,
                "views": sink.views,
                "options": dict(sink.options),
            }
            for sink in pipeline.sinks
        ],
        "operator": vars(pipeline.operator),
        "facts": pipeline.facts(),
        "fingerprint": pipeline.fingerprint(),
    }


def viewed(pipeline, view):
    mechanism = view.mechanism
    return {
        "name": view.name,
        "series": pipeline.series(view.name),
        "every": view.calendar.every,
        "mechanism": mechanism.name,
        "configuration": {key: str(value) for key, value in mechanism.configuration().items()},
        "numbers": mechanism.released(pipeline.domain()).keys,
        "units": view.units,
        "share": str(view.share),
        "times": view.times,
        "cost": str(view.cost),
    }


LATER_OPTIONS = {
    "tls_cert": None,
    "tls_key": None,
    "tls_client_ca": None,
    "connections_per_peer": 100,
    "unhealthy_above": None,
    "outage": "close",
    "nonnegative": False,
    "format": "full",
    "table": None,
    "compact": True,  # merges the files of finished days, which changes no row
}
"""Options of later versions, with the defaults that leave an old configuration as it was."""


def without_later_options(found):
    if isinstance(found, list):
        return [without_later_options(each) for each in found]
    if not isinstance(found, dict):
        return found
    return {
        name: without_later_options(value)
        for name, value in found.items()
        if name not in LATER_OPTIONS or value != LATER_OPTIONS[name]
    }


@pytest.mark.parametrize("name", PIPELINES)
def test_an_old_configuration_with_its_store_means_the_same(name):
    """A parameter that the configuration leaves open has the value that the store began with."""
    expected = PIPELINES[name]["configured"]
    began = {view["series"]: view["configuration"] for view in expected["views"]}
    found = configured(Pipeline.read(OLD / "pipelines" / name).going_on(began))
    found = without_later_options(json.loads(json.dumps(found)))
    assert found.keys() == expected.keys()
    for name, value in expected["store"].items():  # later versions have more options
        assert found["store"].pop(name) == value
    assert set(found.pop("store").values()) <= {None}
    assert found.items() <= expected.items()


@pytest.mark.parametrize("name", PIPELINES)
def test_an_old_configuration_is_checked_with_the_same_figures(asked, name):
    found = asked("check", OLD / "pipelines" / name)
    assert found["valid"]
    expected = dict(PIPELINES[name]["checked"])
    del expected["fingerprint"]  # of a new store, whose open parameters have today's defaults
    assert {figure: found[figure] for figure in expected} == expected


# -- names ---------------------------------------------------------------------------------------


def test_every_public_name_is_still_there():
    known = json.loads((OLD / "public_names.json").read_text())["penstock"]
    assert [name for name in known if not hasattr(ps, name)] == []
