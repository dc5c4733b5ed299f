"""The example notebooks run from beginning to end, and their cells show what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="nbclient runs notebooks: pip install '.[test]'")
nbformat = pytest.importorskip("nbformat", reason="nbclient runs notebooks: pip install '.[test]'")

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
SHOWN = {
    "first_look": ["Did you mean 'Jamaica'", "promise kept", "srcdoc", "penstock-card"],
    "choosing_a_mechanism": ["BudgetAbsorption", "mean error, filtered", "Plan for stream"],
    "audit": ["CONVICTED", "acquitted", "the unit's number cannot go from"],
}


def test_every_notebook_is_run_here():
    assert {path.stem for path in NOTEBOOKS} == SHOWN.keys()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Jupyter's own packages
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_beginning_to_end(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert all(output["output_type"] != "error" for output in outputs)
    said = json.dumps(outputs, ensure_ascii=False)
    for words in SHOWN[path.stem]:
        assert words in said, words
