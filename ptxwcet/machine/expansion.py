"""Computes the cost of a PTX instruction by its machine instructions (machine-files.md).

``machine/expansions.json`` has, for some architectures, the numbers of ordinary instructions, of
instructions of the unit for special functions and of 64-bit ones to which ptxas compiles a form,
with the forms that have these numbers (``benchmarks/form_counts.py`` counts them). A form that is
not in the table is one ordinary instruction, is called, or loops: the row of its class is for it.
An instruction of machine code is one of these by its opcode.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from ptxwcet.ir.op_classes import Kind, OpClass
from ptxwcet.machine.model import ExpansionRules, Machine, OpTiming, RefusedOp

_TABLE = Path(__file__).with_name("expansions.json")
Made = tuple[int, int, int]
"""Numbers of ordinary, special and 64-bit instructions."""


def made_of(mnemonic: str, target: int) -> Made | None:
    """Returns the counts of a form with its modifiers as written, else the largest of any order."""
    exact, sorted_words = _counts(target)
    return exact.get(mnemonic) or sorted_words.get(_sorted(mnemonic))


_ONE_SPECIAL = (0, 1, 0)
_WIDE = frozenset({"F64", "S64", "U64"})
_TESTS_AND_SIGNS = frozenset({"setp", "set", "testp", "abs", "neg", "copysign"})  # f64 too


def as_executed(
    timing: OpTiming, mnemonic: str, machine: Machine, kind: Kind | None = None
) -> OpTiming | RefusedOp:
    """Returns the timing of an instruction whose class has a row that does not name its form.

    Instructions that only the unit for special functions executes are charged there, and a test or
    a sign of f64 at least as a sum. ``kind`` is the kind of an instruction of machine code. A
    machine file that does not distinguish instructions charges the row.
    """
    rules, words = machine.expansion, mnemonic.split(".")
    if rules is None:
        return timing
    both = timing.initiation_cycles + timing.latency_cycles
    if kind is Kind.ORDINARY:
        figure = rules.ordinary_issue_cycles
        charged = _charged(timing, timing.unit, min(timing.initiation_cycles, figure.value), both)
        return timing if charged == timing else replace(charged, source=figure.source)
    made = made_of(mnemonic, rules.target.value)
    if kind is Kind.SPECIAL:
        issue, chain = rules.special_issue_cycles.value, rules.special_row_cycles.value
        if not _WIDE.isdisjoint(words):
            issue, chain = rules.double_issue_cycles.value, rules.double_row_cycles.value
        # At least the row's latency follows the unit: special registers take longest.
        timing = _charged(timing, timing.unit, issue, max(chain, issue + timing.latency_cycles))
    elif made is not None:
        timing = _charged_for_all(timing, made, rules)
    has_double = words[0] in _TESTS_AND_SIGNS and words[-1] == "f64" and (not made or made[2])
    if kind is Kind.SPECIAL or made == _ONE_SPECIAL:
        unit = machine.timings[OpClass.FP32_SFU]
        return replace(timing, unit=unit.unit) if isinstance(unit, OpTiming) else unit
    if kind is Kind.DOUBLE or has_double:
        least = machine.timings[OpClass.FP64_ADD]
        if isinstance(least, OpTiming):
            issue = max(timing.initiation_cycles, least.initiation_cycles)
            both = max(t.initiation_cycles + t.latency_cycles for t in (timing, least))
            return _charged(timing, least.unit, issue, both)
        return least
    return timing


def _charged(timing: OpTiming, unit: str, issue: int, both: int) -> OpTiming:
    """Returns a timing of a unit with another initiation, and sum of initiation and latency."""
    latency = max(0, both - issue)
    made = replace(timing, unit=unit, initiation_cycles=issue, latency_cycles=latency)
    return timing if made == timing else replace(made, readers=(), is_upper=True)


def _charged_for_all(timing: OpTiming, made: Made, rules: ExpansionRules) -> OpTiming:
    """Returns a timing charged at least with the sequence of instructions of a form."""
    issue = (rules.ordinary_issue_cycles, rules.special_issue_cycles, rules.double_issue_cycles)
    chain = (rules.ordinary_row_cycles, rules.special_row_cycles, rules.double_row_cycles)
    least = sum(n * each.value for n, each in zip(made, issue, strict=True))
    whole = sum(n * each.value for n, each in zip(made, chain, strict=True))
    both = max(timing.initiation_cycles + timing.latency_cycles, whole)
    return _charged(timing, timing.unit, max(timing.initiation_cycles, least), both)


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
