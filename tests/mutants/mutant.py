"""A mutant: one small fault in one file, as data."""

from __future__ import annotations

import compileall
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "penstock"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One fault.

    Parameters
    ----------
    name : str
        What it is called, such as `pots-not-emptied`.
    file : str
        The file that is changed, below `src/penstock`.
    old, new : str
        The text that is replaced, which occurs once in the file, and its replacement.
    about : str
        What the fault does, in one sentence.
    operator : str
        The kind of change, one of `OPERATORS`.
    subjects : tuple of str
        The audits that it concerns, as `penstock audit` names them.
    histograms : tuple of str
        The histogram methods that it concerns. Default: none.
    tests : tuple of str
        Unit tests, below `tests`, that are run if nobody else convicts it. Default: those of the
        folder of the file.
    equivalent : str
        Why no observer can ever tell the mutant from the original. Default: it can be told.
    """

    name: str
    file: str
    old: str
    new: str
    about: str
    operator: str
    subjects: tuple[str, ...] = ()
    histograms: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    equivalent: str = ""

    def mutated(self) -> str:
        """The whole text of the file with the fault."""
        text = (PACKAGE / self.file).read_text(encoding="utf-8")
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.name}: its text occurs {found} times in {self.file}")
        return text.replace(self.old, self.new)

    def plant(self, folder: Path, package: Path = PACKAGE) -> Path:
        """Copy the package into a folder, with the fault. The checkout is not touched.

        Parameters
        ----------
        folder : Path
            An empty folder. It belongs on PYTHONPATH afterwards.
        package : Path
            The package without the fault. Default: that of the checkout.
        """
        there = folder / "penstock"
        shutil.copytree(package, there)  # with compiled files, whose sources keep their times
        (there / self.file).unlink()
        (there / self.file).write_text(self.mutated(), encoding="utf-8")
        return folder

    @property
    def digest(self) -> str:
        """A short digest of the change."""
        change = "\0".join((self.file, self.old, self.new))
        return hashlib.sha256(change.encode()).hexdigest()[:16]

    @property
    def test_paths(self) -> tuple[str, ...]:
        """The unit tests that stand beside the file."""
        return self.tests or (f"tests/{Path(self.file).parent}",)


def compiled_package(folder: Path) -> Path:
    """A copy of the package with compiled files and loops, to be copied for each mutant.

    Parameters
    ----------
    folder : Path
        An empty folder.
    """
    package = folder / "penstock"
    shutil.copytree(PACKAGE, package)
    compileall.compile_dir(package, quiet=1)
    loops = [
        sys.executable,
        "-c",
        "import penstock.private.bounding_fast, penstock.private.json_fast",
    ]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    subprocess.run(loops, env=environment, cwd=folder, capture_output=True, check=False)
    return package


OPERATORS = {
    "charge": "a charge is omitted, halved or forgotten",
    "scale": "the noise is smaller than was paid for",
    "sensitivity": "a person changes a number by more than is said",
    "noise": "noise is reused, equal in two places, biased, or of another law",
    "window": "a window, a block or a place is off by one",
    "comparison": "a comparison is turned or left out",
    "mask": "another set of numbers is read, charged or released",
    "state": "something is not saved, not restored, or not forgotten",
    "budget": "a share of the budget is too large",
    "guard": "a rule of the gate or of the ledger is not enforced",
    "bounding": "a person counts more than once, or moves the events of others",
}
"""The kinds of changes."""
