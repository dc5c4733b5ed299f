"""Who is convicted by replay, and who is not."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.lab.audit.flawed import VARIANTS
from penstock.lab.audit.replay import ReplayVerdict, replay_audit
from penstock.lab.audit.report import BEYOND_REPLAY
from penstock.lab.audit.subjects import resolve, subject
from penstock.lab.audit.suite import FLAWED_REPLAYS, SHIPPED

from tests.lab.audit.replay import blind_cheats, cheats, more_cheats

HERE = cheats.__name__

ACQUITTED = {
    "OnlyInPublic": "it behaves well where the noise is not the system's",
    "AtUnit1000": "no stream of an audit has as many units",
    "AtOneCount": "no stream of an audit has that count; `hard_streams` would name it",
    "KeptStream": "it kept a standard stream from before the audit, and writes nowhere else",
}
"""Cheats that a replay does not reach, and why."""

LARGE = {
    "AtUnit60",
    "AtKey65",
    "AtThreeEvents",
    "AfterARestart",
    "LongBefore",
    "AtManyKeys",
    "AtLargeCounts",
    "SmallTypeOverflows",
}
"""Cheats that show on large streams, with three events or after a restart only."""

PATHS = {
    name: f"{each.__module__}:{name}"
    for module in (cheats, more_cheats, blind_cheats)
    for name, each in vars(module).items()
    if isinstance(each, type) and each.__module__ == module.__name__ and hasattr(each, "step")
}
"""The import path of each mechanism that cheats."""

FIRST_SIGHT = sorted(
    PATHS.keys()
    - {"Cheat", "Honest", "Overspends", "Crashes", "ByKeyLie"}
    - ACQUITTED.keys()
    - LARGE
)


def found_of(name: str, replays: int, *, seed: int = 1) -> ReplayVerdict:
    return replay_audit(subject(PATHS[name]), replays=replays, seed=seed)


@pytest.mark.parametrize("name", FIRST_SIGHT)
def test_a_cheat_is_convicted_at_first_sight(name: str) -> None:
    found = found_of(name, 8)
    assert found.convicted, found.row()
    assert found.exit_code == 1


def test_there_are_many_cheats() -> None:
    assert len(FIRST_SIGHT) >= 62


def test_a_lie_about_keys_is_refused() -> None:
    with pytest.raises(ps.ConfigurationError, match="remove by_key"):
        subject(PATHS["ByKeyLie"])


@pytest.mark.parametrize("name", sorted(LARGE))
def test_a_cheat_on_large_streams_is_convicted(name: str) -> None:
    assert found_of(name, 120).convicted


@pytest.mark.parametrize("name", sorted(ACQUITTED))
def test_a_cheat_beyond_the_reach_of_a_replay_is_acquitted(name: str) -> None:
    """These are limits, stated in docs/how-to/audit.md; a conviction here would be good news."""
    assert found_of(name, 6).outcome == "acquitted"


def test_a_refusal_of_the_ledger_is_a_verdict() -> None:
    found = found_of("Overspends", 6)
    assert (found.outcome, found.exit_code) == ("refused", 3)
    assert "would bring units 1..1 to 4, above the promised 2" in found.sentence()


def test_a_crash_is_a_verdict() -> None:
    found = found_of("Crashes", 6)
    assert (found.outcome, found.exit_code) == ("crashed", 3)
    assert "out of ideas" in found.sentence()


def test_an_honest_mechanism_of_others_is_acquitted() -> None:
    found = found_of("Honest", 12)
    assert (found.outcome, found.loss, found.exit_code) == ("acquitted", 2.0, 0)
    assert found.tried().startswith("12 transcripts in ")
    assert found.weakest()[0].startswith("Streams: ")


SLOW = {"phs_pegasus", "hs_pegasus", "dsft", "dsat", "dsft@user", "fixed"}
"""Mechanisms that are replayed at night. `.ci/run` replays all of them quickly, and `make test`
replays their relatives `pegasus` and `dsat@user`.
"""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.nightly] * (name in SLOW)) for name in SHIPPED],
)
def test_a_short_replay_acquits(name: str) -> None:
    """A replay has no false alarms: a loss is computed, and a difference is a difference."""
    found = replay_audit(subject(name), replays=12, seed=5)
    assert found.outcome == "acquitted", found.row()


RARE = {"tide_closes_on_counts", "bd_pan_third"}  # hundreds of transcripts


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.nightly] * (name in RARE))
        for name in VARIANTS
        if name not in BEYOND_REPLAY
    ],
)
def test_a_flawed_variant_is_convicted_by_replay_alone(name: str) -> None:
    variant = VARIANTS[name]
    spec = f"flawed:{name} {variant.claimed} {variant.window} {variant.runs}"
    found = replay_audit(resolve(spec), replays=FLAWED_REPLAYS, seed=2)
    assert found.convicted, found.row()


def test_what_a_replay_cannot_reach_is_known() -> None:
    assert set(VARIANTS) >= BEYOND_REPLAY
    assert len(VARIANTS) - len(BEYOND_REPLAY) >= 15


def test_the_same_seed_gives_the_same_verdict() -> None:
    one, two = (replay_audit(subject("bd"), replays=9, seed=4).row(seconds=False) for _ in range(2))
    assert one == two


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SHIPPED)
def test_a_long_replay_acquits(name: str, seed: int) -> None:
    """Quick twin: `test_a_short_replay_acquits`. About 5 CPU seconds per mechanism and seed."""
    found = replay_audit(subject(name), replays=400, seed=seed)
    assert found.outcome == "acquitted", found.row()


TIGHT = (
    *("uniform", "sample", "ba", "ba_grouped", "laplace", "bs", "rg"),
    *("eshp", "sw_tree", "kary", "fixed", "fast", "tide"),
)
"""Mechanisms that spend exactly what they promise, if everything happens that may happen."""

QUICK_TO_REACH = ("uniform", "ba", "rg", "tide")


@pytest.mark.parametrize(
    ("name", "window"),
    [
        pytest.param(
            name,
            window,
            marks=() if name in QUICK_TO_REACH and window == 3 else pytest.mark.nightly,
        )
        for name in TIGHT
        for window in (1, 3, 24)
    ],
)
def test_a_replay_reaches_the_promise_where_the_proof_is_tight(name: str, window: int) -> None:
    """The table of docs/how-to/audit.md has these shares, and says why others are lower."""
    audited = subject(name, epsilon="1", window=window)
    found = replay_audit(audited, replays=140, seed=7, elsewhere=False)
    assert found.outcome == "acquitted"
    assert found.loss >= 0.95
