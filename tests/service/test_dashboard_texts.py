"""The dashboard speaks two languages, and has a text for everything that the API can say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import penstock.service
from penstock.core.guarantee import Guarantee, Intrusion
from penstock.core.promise_gaps import promise_gaps

TEXTS = Path(penstock.service.__file__).parent / "assets" / "texts"


@pytest.mark.parametrize("language", ["en", "de"])
def test_every_gap_of_a_promise_has_a_text(language: str) -> None:
    texts = json.loads((TEXTS / f"{language}.json").read_text(encoding="utf-8"))
    promises = [Guarantee("1", 24, intrusion=look) for look in Intrusion]
    for promise in promises:
        for choice in ({}, {"persons": False}, {"counts_alone": True}):
            for gap in promise_gaps(promise, **choice):
                text = texts[f"privacy.gap.{gap.kind}"]
                assert set(re.findall(r"{(\w+)}", text)) <= gap.values.keys()


def test_both_languages_have_the_same_texts() -> None:
    english, german = (
        json.loads((TEXTS / f"{language}.json").read_text(encoding="utf-8"))
        for language in ("en", "de")
    )
    assert english.keys() == german.keys()
    assert all(text.strip() for text in (*english.values(), *german.values()))
