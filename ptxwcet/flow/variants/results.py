"""The search for what a loop leaves in registers: by how much an iteration changes them.

What is found is a certificate (:mod:`ptxwcet.flow.certificates.behind`), and counts only once it is
confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxwcet.flow.certificates.behind import Change, Result, Span
from ptxwcet.flow.effort import Effort, TooMuchEffort
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.variants.body import traverse
from ptxwcet.flow.variants.cases import Case, Content
from ptxwcet.flow.variants.linear_forms import Form, plus, variable
from ptxwcet.flow.variants.regions import Region


def results_of(
    body: Region,
    wanted: frozenset[str],
    effort: Effort,
    fixed: tuple[tuple[str, int], ...] = (),
) -> Mapping[str, Result]:
    """What a loop does to integer registers, as far as it is known; nothing with too much effort.

    A number is read as a signed one. ``fixed`` are registers that the loop does not write, with
    what they hold. Cost: one iteration on cases.
    """
    try:
        return _results_of(body, wanted, effort, fixed)
    except TooMuchEffort:
        return {}


def _results_of(
    body: Region,
    wanted: frozenset[str],
    effort: Effort,
    fixed: tuple[tuple[str, int], ...],
) -> Mapping[str, Result]:
    how = body.stepping(signed=True)
    names = [name for name in sorted(wanted) if _is_integer(body, name)]
    registers: dict[str, Content] = {
        name: how.unknown(name, f"{name}@0") for name in body.relevant if name in body.written
    }
    registers |= {name: Form(value) for name, value in fixed}
    ranges: dict[str, Interval] = {}
    for name in names:
        kind = IntegerType(how.width(name), signed=True)
        registers[name], ranges[f"{name}@h"] = variable(f"{name}@h"), kind.interval
    start = Case(registers, ranges, effort=effort)
    going, leaving, _ = traverse(body, start, True, frozenset(names))
    results: dict[str, Result] = {}
    for name in names:
        source = _source(leaving, name)
        if source in names and how.width(source) == how.width(name):
            back, out = _change(going, source, source), _change(leaving, name, source)
            if back is not None and out is not None and leaving:
                results[name] = Result(name, source, how.width(name), back, out, fixed)
    return results


def _source(cases: list[Case], name: str) -> str:
    """The register that cases leave another with: itself, if they do not agree on one."""
    found = {
        variable_[:-2]
        for case in cases
        if isinstance(content := case.registers.get(name), Form)
        for variable_, _ in content.terms
        if variable_.endswith("@h")
    }
    return found.pop() if len(found) == 1 else name


def _is_integer(body: Region, name: str) -> bool:
    kind = body.types[name]
    wide = kind != "pred" and kind[0] != "f" and "x" not in kind
    return wide and 1 < body.stepping(signed=True).width(name) <= 64


def _change(cases: list[Case], name: str, source: str) -> Change | None:
    """What cases do to a register, from another; None if in one it may become anything."""
    steps: list[Interval] = []
    values: list[Interval] = []
    start = f"{source}@h"
    for case in cases:
        content = case.registers.get(name)
        if not isinstance(content, Form):
            return None
        coefficient = dict(content.terms).get(start, 0)
        if coefficient not in (0, 1):
            return None
        rest = plus(content, variable(start), -coefficient)
        (steps if coefficient else values).append(case.interval(rest))
    return Change(_hull(steps), _hull(values))


def _hull(intervals: list[Interval]) -> Span | None:
    """The least span around some; None if there are none."""
    if not intervals:
        return None
    return Span(min(one.low for one in intervals), max(one.high for one in intervals))
