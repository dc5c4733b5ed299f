from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.core.errors import ConfigurationError
from penstock_bench.cell import MEAN, ZEROS, Cell, Stretch

from bench.tests.tiny import TINY

STREAM = Stretch(dataset=TINY)


def cell(mechanism: str = "ba", **parameters: str | int) -> Cell:
    return Cell.of(
        "tiny", STREAM, mechanism, ("mae",), **{"epsilon": "1", "window": 3, **parameters}
    )


def test_a_key_depends_on_all_that_the_numbers_depend_on():
    other = Cell.of("tiny", Stretch(dataset=TINY, units=5), "ba", ("mae",), epsilon="1", window=3)
    more = Cell.of("tiny", STREAM, "ba", ("mae", "mre"), epsilon="1", window=3)
    cells = [cell(), cell(window=4), cell(epsilon="2"), cell("bd"), cell().runs(2)[1], other, more]
    assert len({each.key(1) for each in cells}) == len(cells)
    assert cell().key(1) != cell().key(2)


def test_a_default_that_is_written_out_changes_nothing():
    assert cell(contribution=1, shift=0).key(1) != cell(contribution=2).key(1)
    assert cell(contribution=1).key(1) == cell().key(1)
    assert cell(epsilon="1.0").key(1) == cell().key(1)


def test_how_much_memory_a_stream_needs_is_no_part_of_its_key():
    heavy = Cell.of(
        "tiny", Stretch(dataset=TINY, megabytes=999), "ba", ("mae",), epsilon="1", window=3
    )
    assert heavy.key(1) == cell().key(1)


def test_the_noise_does_not_depend_on_what_is_measured():
    more = Cell.of("tiny", STREAM, "ba", ("mae", "mre"), epsilon="1", window=3)
    assert more.noise(1) == cell().noise(1)
    noises = {each.noise(seed) for each in cell().runs(20) for seed in (1, 2)}
    assert len(noises) == 40


def test_a_trivial_line_has_no_parameters_and_one_run():
    for name in (ZEROS, MEAN):
        assert cell(name) == cell(name, window=9, epsilon="5")
        assert len(cell(name).runs(10)) == 1
        assert cell(name).guarantee() == ""
        with pytest.raises(ConfigurationError, match="needs no mechanism"):
            cell(name).made()


def test_what_is_not_private_is_marked():
    assert cell().private
    assert cell(ZEROS).private
    assert not cell(MEAN).private
    published = cell("flawed:IndependentAbsorption", each=2)
    assert not published.private
    assert published.guarantee() == "none (claimed: epsilon=1, window=3)"
    assert cell().guarantee() == "Guarantee(epsilon=1, window=3)"


def test_a_stretch_says_what_was_made_of_the_dataset():
    assert Stretch(dataset="x").name == "x"
    assert Stretch(dataset="x", options=(("a", 1),), units=5, merge=2, keys=3, copies=4).name == (
        "x (a=1, merge=2, units=5, keys=3, copies=4)"
    )


def test_a_key_depends_on_the_source_of_what_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Edited, somebody's mechanism is another one: its old results are not taken for new ones."""
    source = "from penstock import Uniform\n\n\nclass Mine(Uniform):\n    name = 'mine'\n"
    monkeypatch.syspath_prepend(str(tmp_path))
    keys, noises = [], []
    for more in ("", "# edited\n", ""):
        (tmp_path / "edited_mechanism.py").write_text(source + more)
        monkeypatch.delitem(sys.modules, "edited_mechanism", raising=False)
        keys.append(cell("edited_mechanism:Mine").key(1))
        noises.append(cell("edited_mechanism:Mine").noise(1))
    assert keys[0] == keys[2] != keys[1]
    assert len(set(noises)) == 1


def test_who_promises_less_is_known():
    toeplitz = Cell.of("windows", STREAM, "toeplitz", ("mae",), epsilon="1", window=1)
    response = Cell.of("eshp", STREAM, "lab:randomised_response", ("mae",), epsilon="1")
    survey = Cell.of("eshp", STREAM, "lab:negative_survey", ("mae",), epsilon="1")
    apb = Cell.of("eshp", STREAM, "lab:apb", ("mae",), epsilon="1")
    everybody = (cell(), apb, toeplitz, response, survey, cell(MEAN))
    assert [each.comparable for each in everybody] == [*[True] * 3, *[False] * 3]
    assert [bool(each.delta) for each in everybody] == [False, False, True, *[False] * 3]
