"""The docstrings of mechanisms and histogram methods list every parameter, one by one."""

from __future__ import annotations

import dataclasses
import inspect
import re

import pytest

from penstock.private.histograms.registry import HISTOGRAMS
from penstock.private.mechanisms.registry import MECHANISMS

EVERY = {**MECHANISMS, **HISTOGRAMS}


@pytest.mark.parametrize("name", EVERY)
def test_every_parameter_is_listed_with_its_default(name: str) -> None:
    cls = EVERY[name]
    _, _, rest = inspect.getdoc(cls).partition("Parameters\n----------\n")
    section = rest.partition("\n\n")[0]
    listed = re.split(r"\n(?=\S)", section) if section else []
    texts = {each: text for text in listed for each in text.partition(" : ")[0].split(", ")}
    fields = {field.name: field for field in dataclasses.fields(cls)}
    assert texts.keys() == fields.keys()
    for parameter, text in texts.items():
        if fields[parameter].default is not dataclasses.MISSING:
            assert re.search(r"\bDefaults?:", text), parameter


@pytest.mark.parametrize("name", EVERY)
def test_the_summary_is_one_sentence_and_an_example_and_a_reference_follow(name: str) -> None:
    text = inspect.getdoc(EVERY[name])
    summary, _, rest = text.partition("\n\n")
    assert "\n" not in summary
    assert summary.endswith(".")
    assert "\n>>> " in rest
    assert "References\n----------\n" in rest
    assert "docs/proofs/" in rest
