"""`auto` chooses once, before the first release, and a restart never changes the choice."""

from __future__ import annotations

from dataclasses import replace

import pytest

import penstock as ps
from penstock.core.errors import ConfigurationError, StateError
from penstock.engine.config_sections import InvalidConfigurationError
from penstock.engine.pipeline import Pipeline
from penstock.engine.pipeline.model import AUTO_FALLBACK
from penstock.engine.plan.auto import chosen
from penstock.engine.plan.candidates import MechanismChoice
from penstock.engine.publisher import Publisher
from penstock.engine.sqlite import SQLiteReader

EVENTS = "ts,station\n2026-01-01T00:10Z,north\n2026-01-01T01:20Z,south\n"


def content(**more):
    return {
        "stream": {
            "name": "taps",
            "every": "1h",
            "origin": "2026-01-01",
            "until": "2026-01-01T03:00Z",
        },
        "source": {"kind": "csv", "path": "taps.csv", "time": "ts", "key": "station"},
        "domain": {"keys": ["north", "south"]},
        "privacy": {"mechanism": "auto", "epsilon": "1", "window": 4},
        "store": {"path": "taps.db"},
    } | more


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "taps.csv").write_text(EVENTS, encoding="utf-8")
    return tmp_path


def published(folder, **more):
    with Publisher(Pipeline.of(content(**more), folder=folder)) as publisher:
        publisher.run()
        return publisher.pipeline.mechanism()


def test_without_knowledge_the_fallback_is_used(folder):
    assert published(folder).name == AUTO_FALLBACK


def test_only_a_stated_stock_is_one(folder):
    assert published(folder).kind == "flow"
    (folder / "taps.db").unlink()
    assert published(folder, plan={"stock": True, "seasons": ["2h"]}).kind == "stock"


def test_the_choice_keeps_the_declared_promise(folder):
    privacy = {"mechanism": "auto", "epsilon": "1/3", "window": "2h", "contribution": 2}
    made = chosen(Pipeline.of(content(privacy=privacy, plan={"typical": "9"}), folder=folder))
    assert made.guarantee == ps.Guarantee("1/3", 2, 2) == made.mechanism().guarantee
    assert made.view().auto is None


def test_what_is_chosen_depends_on_what_is_known(folder):
    def best(typical):
        return chosen(Pipeline.of(content(plan={"typical": typical}), folder=folder)).mechanism()

    assert best("100000") != best("1/10")


def test_a_sample_has_the_form_and_typical_the_size(folder):
    rows = "\n".join(f"{unit % 3},{unit % 2}" for unit in range(60))
    (folder / "public.csv").write_text(f"north,south\n{rows}\n", encoding="utf-8")

    def best(**known):
        plan = {"sample": "public.csv"} | known
        return chosen(Pipeline.of(content(plan=plan), folder=folder)).mechanism()

    assert best() == best(typical="3/4")  # the mean of the sample
    assert best(typical="100000") != best()


def test_the_choice_stands_in_the_store_and_a_restart_keeps_it(folder):
    first = published(folder, plan={"typical": "100000"})
    with SQLiteReader(folder / "taps.db") as reader:
        series = reader.series("taps")
    assert series.mechanism == first.name
    assert series.configuration == {
        name: str(value) for name, value in first.configuration().items()
    }
    other = chosen(Pipeline.of(content(plan={"typical": "1/10"}), folder=folder)).mechanism()
    assert other != first
    assert published(folder, plan={"typical": "1/10"}) == first
    assert published(folder) == first


def test_the_choice_may_be_written_by_hand_afterwards(folder):
    first = published(folder, plan={"typical": "100000"})
    named = {"mechanism": first.name, "epsilon": "1", "window": 4}
    own = MechanismChoice.of(first).chosen
    assert published(folder, privacy=named | dict(own)) == first


def test_another_promise_is_refused_after_the_choice(folder):
    published(folder)
    with pytest.raises((StateError, ConfigurationError), match="privacy"):
        published(folder, privacy={"mechanism": "auto", "epsilon": "2", "window": 4})


def test_a_choice_that_cannot_be_read_back_stops_the_publisher(folder):
    published(folder, plan={"typical": "100000"})
    pipeline = Pipeline.of(content(), folder=folder)

    with SQLiteReader(folder / "taps.db") as reader:
        damaged = replace(reader.series("taps"), configuration={"colour": "blue"})

        class Elsewhere:
            series_names = ("taps",)

            def series(self, name):
                return damaged

        with pytest.raises(StateError, match="Write the mechanism and its parameters into"):
            chosen(pipeline, Elsewhere())


def test_every_view_of_several_may_be_chosen(folder):
    views = [
        {"name": "hourly", "every": "1h", "mechanism": "auto"},
        {"name": "all", "every": "3h", "mechanism": "uniform"},
    ]
    given = content(privacy={"epsilon": "1", "window": 6}, view=views, plan={"typical": "50000"})
    before = Pipeline.of(given, folder=folder)
    made = chosen(before)
    assert made.guarantee == before.guarantee
    assert made.mechanism("hourly").epsilon == before.mechanism("hourly").epsilon
    assert made.mechanism("all").name == "uniform"


@pytest.mark.parametrize(
    ("privacy", "problem"),
    [
        ({"shift": True}, "cannot stand beside auto, which chooses all parameters"),
        ({"delta": "0"}, "delta: must be above 0"),
        ({"window": None}, "window is missing"),
    ],
)
def test_a_mistake_beside_auto_is_named(folder, privacy, problem):
    given = content()
    given["privacy"] = given["privacy"] | privacy
    with pytest.raises(InvalidConfigurationError, match=problem):
        Pipeline.of(given, folder=folder)


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        ({"typical": -1}, "typical: must be above 0"),
        ({"seasons": ["daily"]}, 'must be durations such as "1d", not "daily"'),
        ({"sparse": "yes"}, "sparse"),
        ({"truth": 3}, "plan.truth: is not known here"),
    ],
)
def test_a_mistake_in_the_knowledge_is_named(folder, plan, problem):
    with pytest.raises(InvalidConfigurationError, match=problem):
        Pipeline.of(content(plan=plan), folder=folder)


def test_the_source_cannot_be_the_public_sample(folder):
    with pytest.raises(ConfigurationError, match="is a file of the private source"):
        chosen(Pipeline.of(content(plan={"sample": "taps.csv"}), folder=folder))


def test_publish_chooses_by_default(folder):
    given = {
        "time": "ts",
        "key": "station",
        "every": "1h",
        "origin": "2026-01-01",
        "until": "2026-01-01T03:00Z",
        "domain": ["north", "south"],
        "store": folder / "taps.db",
    }
    with ps.publish(folder / "taps.csv", epsilon="1", window="4h", **given) as stream:
        assert stream.guarantee == ps.Guarantee("1", 4)
        assert stream.log.mechanism == AUTO_FALLBACK
    with pytest.raises(ConfigurationError, match='typical is for mechanism="auto"'):
        ps.publish(folder / "taps.csv", mechanism=ps.Laplace(epsilon="1"), typical=3, **given)
    with pytest.raises(ConfigurationError, match="epsilon is missing"):
        ps.publish(folder / "taps.csv", **given)
