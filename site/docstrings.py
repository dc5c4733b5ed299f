"""Griffe extension: the docstrings of the code in the order that the parser of NumPy style expects.

Our docstrings go on after their parameters: a sentence on the guarantee, then an example without a
heading. The parser would take both for parameters.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_PROOF = re.compile(r"docs/(proofs/\w+)\.md")


def arranged(text: str) -> str:
    r"""A docstring with its prose before the parameters, and a heading over its example.

    >>> arranged("Do.\n\nParameters\n----------\nx : int\n    X.\n\nSo.\n\n>>> 1\n1").split("\n\n")
    ['Do.', 'So.', 'Parameters\n----------\nx : int\n    X.', 'Examples\n--------\n>>> 1\n1']
    """
    before, heading, rest = text.partition("\nParameters\n----------\n")
    if not heading:
        return text
    ours, *sections = re.split(r"\n(?=\w[\w ]*\n-{3,}\n)", rest)
    items, prose, examples = [], [], []
    for part in re.split(r"\n{2,}(?=\S)", ours):
        if part.startswith(">>> ") or examples:
            examples.append(part)
        elif re.match(r"[*\w, ]+(?: : .*)?\n ", part):
            items.append(part)
        else:
            prose.append(part)
    shown = ["Examples\n--------\n" + "\n\n".join(examples)] if examples else []
    parameters = "Parameters\n----------\n" + "\n\n".join(items)
    parts = [before, *prose, parameters, *shown, *sections]
    return "\n\n".join(part.strip("\n") for part in parts)


class Arranged(griffe.Extension):
    """Arrange every docstring, and link the proofs that it names."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = arranged(obj.docstring.value)
            obj.docstring.value = _PROOF.sub(r"[\1](../../\1.html)", text)
