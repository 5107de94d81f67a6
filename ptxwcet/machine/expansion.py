"""What the compiler makes of an instruction of PTX, where it makes several (machine-files.md).

``machine/expansions.json`` has, for each of some architectures, the numbers of ordinary
instructions, of those of the unit for special functions and of those of 64 bits that ptxas makes of
a form, with the forms that have these numbers (``benchmarks/form_counts.py`` counts them). A form
that is not there is one ordinary instruction, is called, or loops: the row of its class is for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from ptxwcet.machine.model import ExpansionRules, OpTiming

_TABLE = Path(__file__).with_name("expansions.json")
Made = tuple[int, int, int]
"""Ordinary instructions, special ones, those of 64 bits."""


def made_of(mnemonic: str, target: int) -> Made | None:
    """What a form is made of, with the modifiers as written, or the most of any other order."""
    exact, sorted_words = _counts(target)
    return exact.get(mnemonic) or sorted_words.get(_sorted(mnemonic))


def charged_for_all(row: OpTiming, mnemonic: str, rules: ExpansionRules) -> OpTiming:
    """A row, with at least what the instructions that a form is made of take one after another."""
    made = made_of(mnemonic, rules.target.value)
    if made is None:
        return row
    issue = (rules.ordinary_issue_cycles, rules.special_issue_cycles, rules.double_issue_cycles)
    chain = (rules.ordinary_row_cycles, rules.special_row_cycles, rules.double_row_cycles)
    least = sum(n * one.value for n, one in zip(made, issue, strict=True))
    whole = sum(n * one.value for n, one in zip(made, chain, strict=True))
    initiation = max(row.initiation_cycles, least)
    both = max(row.initiation_cycles + row.latency_cycles, whole, initiation)
    if (initiation, both - initiation) == (row.initiation_cycles, row.latency_cycles):
        return row
    return replace(
        row,
        initiation_cycles=initiation,
        latency_cycles=both - initiation,
        readers=(),
        is_upper=True,
    )


@cache
def _counts(target: int) -> tuple[Mapping[str, Made], Mapping[str, Made]]:
    groups: dict[str, str] = json.loads(_TABLE.read_text(encoding="utf-8"))[str(target)]
    exact: dict[str, Made] = {}
    most: dict[str, Made] = {}
    for numbers, names in groups.items():
        ordinary, special, double = map(int, numbers.split())
        for name in names.split():
            exact[name] = ordinary, special, double
            before = most.get(key := _sorted(name), (0, 0, 0))
            a, b, c = before
            most[key] = max(a, ordinary), max(b, special), max(c, double)
    return exact, most


def _sorted(mnemonic: str) -> str:
    return ".".join(sorted(mnemonic.split(".")))
