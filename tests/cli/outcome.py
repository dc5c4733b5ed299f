"""What a command printed and how it ended."""

from __future__ import annotations

import pytest

from penstock.cli import main


class Outcome:
    """One run of the command line, in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *tokens: str) -> None:
        capsys.readouterr()
        self.code = 0
        try:
            main(tokens)
        except SystemExit as end:
            self.code = int(end.code or 0)
        self.out, self.err = capsys.readouterr()
