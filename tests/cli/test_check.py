"""`penstock check`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from penstock.engine.explain import in_words
from penstock.engine.pipeline import Pipeline

from tests.cli.outcome import Outcome

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline.toml"

SMALL = """
[stream]
name = "taps"
every = "1h"
origin = "2026-01-01"

[source]
kind = "parquet"
path = "taps/*.parquet"
time = "ts"
key = "station"

[domain]
keys = ["north", "south"]

[privacy]
mechanism = "uniform"
epsilon = "1"
window = 24
"""


def written(text: str, name: str = "taps.toml") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def test_all_of_it_is_said_in_words(capsys):
    done = Outcome(capsys, "check", str(EXAMPLE))
    assert (done.code, done.err) == (0, "")
    useful = "For 'taps', it cannot be judged whether the numbers are useful"
    assert useful in " ".join(done.out.split())
    said = [line for line in done.out.splitlines() if line.strip()]
    expected = [line for line in in_words(Pipeline.read(EXAMPLE)).splitlines() if line.strip()]
    assert [line for line in said if line in expected] == expected
    assert "Warnings" not in done.out


LONG_AGO = SMALL.replace(
    'origin = "2026-01-01"',
    'origin = "2020-03-01"\nuntil = "2020-05-01"\nzone = "America/New_York"',
)


def test_noise_is_called_noise_with_what_would_help(capsys):
    done = Outcome(capsys, "check", written(LONG_AGO), "--typical", "2")
    said = " ".join(done.out.split())
    assert "For 'taps', a count of about 2 is published as 2 ± 3" in said
    assert ": noise. On average, a number is off by 2" in said
    assert '- Longer units: every = "' in said
    assert "A file of past public counts gives surer figures" in said
    assert "- Another mechanism: mechanism = " in said
    assert done.err.startswith("Simulated in ")
    assert "A run publishes 1,463 units." in said  # one hour is skipped in March
    told = json.loads(Outcome(capsys, "check", "taps.toml", "--typical", "2", "--json").out)
    (view,) = told["views"]
    assert (view["verdict"], view["units"]) == ("noise", 1463)
    assert view["suggestions"][0]["what"] == "another mechanism"
    assert view["suggestions"][0]["simulated_deviation"] < view["simulated_deviation"]


def test_verdicts_have_colours(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    noise = Outcome(capsys, "check", written(LONG_AGO), "--typical", "2").out
    assert "\x1b[1;31m- For 'taps', a count" in noise
    useful = Outcome(capsys, "check", "taps.toml", "--typical", "9000").out
    assert "\x1b[1;32m- For 'taps', a count" in useful


def test_units_that_are_mostly_empty_are_warned_of(capsys):
    done = Outcome(capsys, "check", written(LONG_AGO), "--typical", "1/100000")
    said = " ".join(done.out.split())
    assert "Most units of 'taps' will be empty: about" in said
    assert "of 1,463 units have no event in any key." in said
    assert "will be empty" not in Outcome(capsys, "check", "taps.toml", "--typical", "2").out


def test_the_number_of_units_up_to_now_is_said_of_an_input_without_an_end(capsys):
    said = " ".join(Outcome(capsys, "check", written(SMALL)).out.split())
    assert "units, if it starts now." in said
    assert "No end of the input is declared." in said


def test_a_restore_that_could_not_be_noticed_is_warned_of(capsys):
    done = Outcome(capsys, "check", written(SMALL))
    assert done.code == 0
    assert "Warnings" in done.out
    assert "If the store is restored from an old backup, nothing would show it" in done.out
    told = json.loads(Outcome(capsys, "check", "taps.toml", "--json").out)
    assert len(told["warnings"]) == 1
    assert json.loads(Outcome(capsys, "check", str(EXAMPLE), "--json").out)["warnings"] == []


def test_it_is_said_for_programs_too(capsys):
    told = json.loads(Outcome(capsys, "check", written(SMALL), "--json").out)
    assert (told["valid"], told["epsilon"], told["window"], told["person"]) == (True, "1", 24, None)
    (view,) = told["views"]
    assert (view["series"], view["mechanism"], view["numbers"], view["cost"]) == (
        "taps",
        "uniform",
        2,
        "1",
    )
    assert view["error"]["within_95_percent"] == [72.0, 72.0]
    assert "Every unit that ended before the publisher starts" in " ".join(
        told["words"]["What is published"]
    )
    assert told["fingerprint"] == Pipeline.read("taps.toml").fingerprint()


def test_neither_the_store_nor_the_data_are_touched(tmp_path, capsys):
    assert Outcome(capsys, "check", written(SMALL)).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["taps.toml"]


def test_all_mistakes_are_said_at_once_with_their_lines(capsys):
    text = (
        SMALL.replace('"1h"', '"1x"')
        .replace('kind = "parquet"', 'kind = "parket"')
        .replace("window = 24", "windou = 24")
    )
    done = Outcome(capsys, "check", written(text))
    assert done.code == 2
    assert done.out == ""
    lines = done.err.splitlines()
    assert lines[0] == "penstock: taps.toml has 4 mistakes:"
    assert lines[1].startswith(
        "penstock: taps.toml:4: stream.every: must be a number and one of s, min, h, d, w, mo, "
        'such as "1h"'
    )
    assert lines[2].startswith("penstock: taps.toml:8: source.kind:")
    assert "taps.toml:19: privacy.windou:" in done.err
    told = Outcome(capsys, "check", "taps.toml", "--json")
    assert told.code == 2
    problems = json.loads(told.out)["problems"]
    assert {"line": 8, "key": "source.kind"}.items() <= problems[1].items()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stream =", "penstock: taps.toml:1: this is not TOML"),
        (SMALL + "[store]\nurl = 'postgresql://me:hunter2@localhost/x'\n", "looks like a secret"),
    ],
)
def test_what_cannot_be_a_configuration_is_refused(text, message, capsys):
    done = Outcome(capsys, "check", written(text))
    assert done.code == 2
    assert message in done.err
    assert "hunter2" not in done.err


def test_a_file_that_is_not_there_is_one_line(capsys):
    done = Outcome(capsys, "check", "none.toml")
    assert done.code == 2
    assert done.err == (
        f"penstock: {Path.cwd()}/none.toml cannot be read: there is no such file. Check its name, "
        "or name another file. penstock init writes a configuration.\n"
    )


def test_a_mechanism_of_your_own_is_found_beside_you(capsys, tmp_path):
    """The module is in the current directory, and nothing there takes the place of what is
    installed.
    """
    (tmp_path / "own_mechanism.py").write_text(
        "from penstock import Uniform\nclass Own(Uniform):\n    pass\n"
    )
    (tmp_path / "colorsys.py").write_text(
        "raise SystemExit('a module of the current directory took its place')\n"
    )
    text = SMALL.replace('mechanism = "uniform"', 'mechanism = "own_mechanism:Own"')
    assert Outcome(capsys, "check", written(text)).code == 0
    import colorsys

    assert colorsys.rgb_to_hls(0, 0, 0) == (0, 0, 0)


def test_paths_start_from_the_folder_of_the_file(capsys, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "keys.txt").write_text("north\nsouth\n")
    shutil.move(
        written(SMALL.replace('keys = ["north", "south"]', 'file = "keys.txt"')), "deep/taps.toml"
    )
    assert Outcome(capsys, "check", "deep/taps.toml").code == 0
