"""docs/how-to/add-a-histogram.md, followed to the letter: its file is saved and used as anybody
would.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.cli import main
from penstock.lab.checks import CheckError
from penstock.lab.histogram_checks import HISTOGRAM_CHECKS, check_nothing_private_is_opened
from penstock.testing import NoNoise, TestNoise

PAGE = Path(__file__).parents[1] / "docs/how-to/add-a-histogram.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with nothing in it but the page's file, as the current one."""
    (source,) = re.findall(
        r"^```python\n(\"\"\".*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    (tmp_path / "suppress.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "suppress", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def suppress(folder: Path) -> ModuleType:
    module = importlib.import_module("suppress")
    assert module.__file__ == str(folder / "suppress.py")
    return module


def commands() -> list[list[str]]:
    """What the page tells to type."""
    blocks = re.findall(
        r"^```console\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    lines = [
        line.removeprefix("$ penstock ").split() for block in blocks for line in block.splitlines()
    ]
    return [line for line in lines if any("suppress:" in word for word in line)]


def type_in(*tokens: str) -> int:
    try:
        main(tokens)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_small_numbers_are_not_shown(suppress: ModuleType) -> None:
    run = ps.Sample(epsilon=1, window=1, histogram=suppress.Suppress(least=5)).run(
        4, noise=NoNoise()
    )
    assert run.step([0, 4, 5, 900]).value.tolist() == [0, 0, 5, 900]


@pytest.mark.parametrize(
    "make",
    [
        lambda histogram: ps.Sample(epsilon="1", window=4, histogram=histogram),
        lambda histogram: ps.FixedSampling(epsilon="1", window=4, every=2, histogram=histogram),
        lambda histogram: ps.FixedThreshold(epsilon="1", window=6, releases=2, histogram=histogram),
        lambda histogram: ps.AdaptiveThreshold(
            epsilon="1", window=6, releases=2, histogram=histogram
        ),
    ],
    ids=["sample", "fixed", "dsft", "dsat"],
)
def test_it_works_in_every_mechanism_that_takes_one(make: Any, suppress: ModuleType) -> None:
    run = make(suppress.Suppress(least=20)).run(8, noise=TestNoise(5), record=True)
    rng = np.random.default_rng(5)
    fresh = 0
    for unit in range(20):
        released = run.step(rng.integers(0, 2_000 if unit % 5 == 3 else 60, 8))
        assert ((released.value == 0) | (released.value >= 20)).all()
        fresh += not np.all(released.repeated)
    assert fresh >= 3
    assert run.account().kept


def test_the_page_tells_to_check_and_to_audit() -> None:
    assert [line[:2] for line in commands()] == [["lab", "check"], ["audit", "suppress:Suppressed"]]


@pytest.mark.slow
def test_it_passes_the_checks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = commands()[0]
    assert type_in(*command, "--quick", "--json") == 0
    results = json.loads(capsys.readouterr().out)
    assert [result["name"] for result in results] == [check.__name__ for check in HISTOGRAM_CHECKS]
    assert all(result["ok"] for result in results)


@pytest.mark.slow
def test_it_is_audited_and_not_convicted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At a confidence of 0.999 a false alarm has chance 1e-3 at most, and the seed is fixed."""
    assert type_in(*commands()[1], "--runs", "400", "--seed", "1", "--workers", "1", "--json") == 0
    verdict = json.loads(capsys.readouterr().out)
    assert not verdict["convicted"]
    assert 1 < verdict["lower_bound"] < 2


def test_a_mistake_in_it_would_be_found(folder: Path) -> None:
    """The same file, with a second draw that the ledger never hears of."""
    source = (folder / "suppress.py").read_text(encoding="utf-8")
    wrong = source.replace(
        "        return replace(noisy",
        "        raw = counts._Private__value\n"
        "        again = gate._maker.noisy(raw, noisy.scale, 'publish again', None)\n"
        "        noisy = replace(noisy, value=(noisy.value + again.value) // 2)\n"
        "        return replace(noisy",
    )
    assert wrong != source
    (folder / "suppress.py").write_text(wrong, encoding="utf-8")
    histogram = importlib.import_module("suppress").Suppress()
    with pytest.raises(CheckError, match=r"reaches behind the gate: counts\._Private__value"):
        check_nothing_private_is_opened(histogram)
    found = next(
        check for check in HISTOGRAM_CHECKS if check.__name__ == "check_noise_is_what_was_paid_for"
    )
    with pytest.raises(CheckError, match="publish again"):
        found(histogram, quick=True)
