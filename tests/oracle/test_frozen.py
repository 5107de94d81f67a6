"""Answers are those that are kept, field by field: see benchmarks/frozen.py."""

from __future__ import annotations

import json
import sys

import pytest
from places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import frozen

DATA = json.loads(frozen.KEPT.read_text(encoding="utf-8"))


@pytest.mark.parametrize("part", range(10))
def test_answers_are_those_that_are_kept(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever changes one on purpose runs ``benchmarks/frozen.py keep`` and says why."""
    monkeypatch.chdir(ROOT)
    now = {words: frozen.fields_of(words.split()) for words in DATA["gate"][part::10]}
    assert list(frozen.differences(DATA["requests"], now)) == []


def test_a_changed_field_is_named() -> None:
    words = DATA["gate"][0]
    changed = {**DATA["requests"][words], "code": "7"}
    assert list(frozen.differences(DATA["requests"], {words: changed})) == [f"{words}: code"]
