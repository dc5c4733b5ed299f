"""Which code a result depends on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock_bench import code_digest
from penstock_bench.cell import Cell, Stretch
from penstock_bench.code_digest import code_of, modules


def cell(mechanism: str, **more: object) -> Cell:
    given = {"epsilon": "1", "window": 5} | more
    stream = Stretch(dataset="wifi_low")
    return Cell.of("any", stream, mechanism, ("mae", "time"), **given)  # type: ignore[arg-type]


def test_a_mechanism_depends_on_its_own_parts_and_on_no_other_mechanism():
    found = modules(["penstock.private.mechanisms.ba"])
    assert {"penstock.private.mechanisms.shares", "penstock.private.gate"} <= found
    assert "penstock.private.mechanisms.tide" not in found
    assert "penstock.filters.tide" in modules(["penstock.private.mechanisms.tide"])


def forget() -> None:
    """Forget all digests, so that a change of a module is seen."""
    for cached in (code_digest._digest, code_digest._content, code_digest._imports):
        cached.cache_clear()


@pytest.fixture
def fresh() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("module", "changed"),
    [
        ("penstock.private.mechanisms.tide", {"tide"}),
        ("penstock.filters.report", {"tide"}),
        ("penstock.private.mechanisms.shares", {"ba"}),
        ("penstock.private.noise.laplace", {"tide", "ba", "zeros", "lab:adapub"}),
        ("penstock.core.exact", {"tide", "ba", "zeros", "lab:adapub"}),
        ("penstock.core.calendar", set()),
        ("penstock.released.series", set()),
        ("penstock_bench.competitors.adapub", {"lab:adapub"}),
        ("penstock_bench.measures.counts", {"tide", "ba", "zeros", "lab:adapub"}),
        ("penstock_bench.lines", {"tide", "ba", "zeros", "lab:adapub"}),
    ],
)
def test_a_change_of_a_module_changes_the_digests_that_depend_on_it(
    module: str, changed: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    cells = [cell(name) for name in ("tide", "ba", "zeros", "lab:adapub")]
    before = {each.mechanism: code_of(each) for each in cells}
    assert len(set(before.values())) == 4
    path = code_digest._path(module)
    assert path is not None
    other = tmp_path / "other.py"

    def digests(more: str) -> set[str]:
        other.write_text(path.read_text(encoding="utf-8") + more, encoding="utf-8")
        forget()
        return {each.mechanism for each in cells if code_of(each) != before[each.mechanism]}

    there = code_digest._path
    monkeypatch.setattr(code_digest, "_path", lambda name: other if name == module else there(name))
    assert digests('\n# a comment\n"""a text"""\n') == set()
    assert digests("\nanother = 1\n") == changed


def test_a_cell_that_cannot_be_made_has_no_digest():
    assert code_of(cell("nobody:Knows")) == ""
