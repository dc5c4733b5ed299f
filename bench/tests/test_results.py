from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyarrow import parquet

from penstock.core.errors import ConfigurationError
from penstock_bench import results as module
from penstock_bench.results import COLUMNS, REFUSED, Results, value_of
from penstock_bench.suite import Setting


def row(**given: object) -> dict[str, object]:
    kinds = {"string": "", "bool": True, "int64": 0, "float64": 1.5}
    return (
        {name: kinds[kind] for name, kind in COLUMNS.items()}
        | {"cell": "a", "measure": "mae"}
        | given
    )


def test_rows_come_back_as_they_were(tmp_path: Path):
    results = Results(tmp_path / "new")
    assert results.rows() == []
    results.add([row(note="é"), row(measure="mre", value=float("inf"))])
    results.add([row(cell="b")])
    expected = [row(note="é"), row(measure="mre", value=float("inf")), row(cell="b")]
    assert results.rows() == expected
    assert set(results.done()) == {"a", "b"}


def test_a_part_that_was_cut_short_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    results = Results(tmp_path)

    def killed(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            results.add([row()])
    assert results.rows() == []
    results.add([row()])
    assert len(results.rows()) == 1


def test_the_later_of_two_results_counts_and_a_value_outweighs_a_note(tmp_path: Path):
    results = Results(tmp_path)
    results.add([row(measure=REFUSED, note="why")])
    assert results.done() == {}
    assert [each["note"] for each in results.rows()] == ["why"]
    results.add([row(value=1.0)])
    results.add([row(value=2.0)])
    assert [each["value"] for each in results.rows()] == [2.0]
    assert set(results.done()) == {"a"}


def test_parts_name_the_versions_and_rows_the_code_that_made_them(tmp_path: Path):
    results = Results(tmp_path)
    results.add([row(code="one")])
    (about,) = results.versions()
    assert about.keys() == {"penstock", "python", "numpy"}
    assert results.done() == {"a": "one"}
    results.add([row(code="two")])
    assert len(results.versions()) == 1
    assert results.done() == {"a": "two"}


def test_packed_results_are_the_same_and_can_be_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    results, packed = Results(tmp_path / "one"), Results(tmp_path / "two" / "one")
    results.note("w-event", Setting(), (), {})
    for cell in ("a", "b", "a"):
        results.add([row(cell=cell, code=cell, value=float(len(results.parts())))])
    packed.add([row(cell="gone")])
    monkeypatch.setattr(module, "ROWS_PER_PACK", 1)
    written = results.pack(packed)
    assert [path.name for path in written] == [
        "part-000000-packed.parquet",
        "part-000001-packed.parquet",
        "suite.json",
    ]
    assert sorted(packed.rows(), key=str) == sorted(results.rows(), key=str)
    assert packed.asked() == results.asked()
    packed.add([row(cell="c")])
    assert set(packed.done()) == {"a", "b", "c"}


def test_rows_of_a_file_without_digests_are_of_unknown_code(tmp_path: Path):
    results = Results(tmp_path)
    results.add([row(code="one")])
    (path,) = results.parts()
    parquet.write_table(parquet.read_table(path).drop_columns(["code"]), path)
    assert results.done() == {"a": "unknown"}


def test_what_was_asked_for_is_kept_and_adds_up(tmp_path: Path):
    results = Results(tmp_path)
    setting = Setting(quick=True, also=("x",))
    results.note("tiny", setting, ["a"], {"one": "gone"})
    results.note("tiny", setting, ["b"], {"two": "gone too"})
    results.note("tiny", setting, ["a"], {})
    asked = results.asked()
    assert (asked.suite, asked.setting, asked.selections) == ("tiny", setting, (("b",), ("a",)))
    assert asked.skipped == {"one": "gone", "two": "gone too"}
    results.note("tiny", Setting(), [], {})
    assert results.asked().selections == ((),)
    assert results.asked().skipped == {}


def test_a_folder_without_results_is_refused(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"not a folder of results\.$"):
        Results(tmp_path).asked()
    (tmp_path / "suite.json").write_text(json.dumps({"setting": {}}))
    with pytest.raises(ConfigurationError, match=r"cannot be read: start the suite again"):
        Results(tmp_path).asked()


def test_intervals_are_students():
    assert value_of([4.0]).half != value_of([4.0]).half
    one = value_of([1.0, 2.0, 3.0, 4.0], 2.5, [0.3, 0.4])
    assert (one.mean, one.runs, one.formula) == (2.5, 4, 2.5)
    assert one.half == pytest.approx(3.1824 * (5 / 3) ** 0.5 / 2, rel=1e-4)
    assert one.error == pytest.approx(0.25)


@pytest.mark.parametrize("content", [b"", b"PAR1 and no more"])
def test_a_part_that_cannot_be_read_is_named(tmp_path: Path, content: bytes):
    results = Results(tmp_path)
    results.add([row()])
    bad = tmp_path / "part-000007-bad.parquet"
    bad.write_bytes(content)
    with pytest.raises(
        ConfigurationError,
        match=r"part-000007-bad\.parquet cannot be read .*: delete it, and its cells",
    ):
        results.rows()
    bad.unlink()
    assert len(results.rows()) == 1


def test_data_that_are_here_now_are_not_missing_any_more(tmp_path: Path):
    results = Results(tmp_path)
    results.note("w-event", Setting(), (), {"births": "gone", "covid": "gone"})
    results.note("w-event", Setting(), ("births",), {"bikes": "gone"}, here={"births"})
    assert results.asked().skipped == {"covid": "gone", "bikes": "gone"}


def test_results_of_another_setting_are_told(tmp_path: Path):
    results = Results(tmp_path)
    assert results.other(Setting()) == []
    results.add([row()])
    results.note("w-event", Setting(), (), {})
    assert results.other(Setting()) == []
    (said,) = results.other(Setting(seed=2))
    assert "of another setting" in said
