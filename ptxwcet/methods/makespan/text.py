"""A makespan as text for people and as plain data for programs."""

from __future__ import annotations

from typing import Any

from ptxwcet.claims import AssumptionState
from ptxwcet.ir.kernel import Kernel
from ptxwcet.methods.makespan.strings import shape_of, written
from ptxwcet.methods.makespan.study import Makespan, SectionMakespan
from ptxwcet.support.diagnostics import Diagnostic

SCHEMA = 1
"""Schema number of the JSON form."""

_MOST_SHOWN = 72
_MOST_SECTIONS = 12


def render_makespan_text(title: str, makespan: Makespan) -> str:
    """Everything there is to say about a makespan; ``title`` says of what it is."""
    first = makespan.sections[0]
    claim = first.answer.claim
    exact = ", exact" if makespan.is_exact else ""
    methods = ", ".join(dict.fromkeys(one.answer.claim.method for one in makespan.sections))
    lines = [
        title,
        f"machine    {first.problem.load_store} on load/store units and {first.problem.cores} on "
        "cores, warps a time slot; work-conserving, no latencies",
        f"warps      {makespan.warps:,}",
    ]
    if len(makespan.sections) == 1 and first.multiplicity == 1:
        lines += _section(first)
    else:
        lines += [f"sections   {len(makespan.sections)}, all warps meet at the end of each"]
        for section in makespan.sections[:_MOST_SECTIONS]:
            shape = section.problem.shape
            lines.append(
                f"           {section.multiplicity:,} x {section.answer.slots:,} slots: I = "
                f"{shape.length:,}, M = {shape.pairs:,}  {_short(written(section.tree), 40)}"
            )
        if len(makespan.sections) > _MOST_SECTIONS:
            lines.append(f"           and {len(makespan.sections) - _MOST_SECTIONS} more")
    lines += [
        "",
        f"MAKESPAN   {makespan.slots:,} slots   {makespan.guarantee.value}{exact}",
        f"method     {methods}",
    ]
    if not makespan.is_exact:
        lines.append(f"at least   {makespan.lower:,} slots in some schedule")
    notes = dict.fromkeys(one.answer.note for one in makespan.sections if one.answer.note)
    if len(notes) == 1:
        lines.append(f"from       {next(iter(notes))}")
    lines += [f"source     {one.paper}, {one.place}" for one in claim.citations]
    if len(makespan.sections) == 1 and first.answer.schedule is not None:
        lines.append(f"schedule   {first.answer.schedule.makespan:,} slots, checked")
    lines.append(f"time       {makespan.seconds:.3f} s")
    for number, needed in enumerate(claim.assumptions):
        doubt = " (doubtful)" if needed.state is AssumptionState.DOUBTFUL else ""
        lines.append(f"{'assumes' if number == 0 else '':<11}{needed.key}{doubt}: {needed.text}")
    return "\n".join(lines) + "\n"


def _section(section: SectionMakespan) -> list[str]:
    given, solved = shape_of(section.tree), section.problem.shape
    lines = [
        f"string     {_short(written(section.tree))}  ({given.length:,} instructions: "
        f"{given.loads:,} L, {given.cores:,} C)"
    ]
    if solved != given:
        lines.append(
            f"           solved as {_short(written(section.problem.tree))}  ({solved.length:,} "
            "slots a warp)"
        )
    return lines


def _short(text: str, most: int = _MOST_SHOWN) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def makespan_data(makespan: Makespan) -> dict[str, Any]:
    """The makespan as plain data; slots, never cycles."""
    return {
        "schema": SCHEMA,
        "warps": makespan.warps,
        "slots": makespan.slots,
        "at_least_slots": makespan.lower,
        "guarantee": makespan.guarantee.value,
        "exact": makespan.is_exact,
        "seconds": round(makespan.seconds, 6),
        "sections": [
            {
                "multiplicity": section.multiplicity,
                "string": _short(written(section.tree), 10_000),
                "instructions": section.problem.shape.length,
                "disjoint_pairs": section.problem.shape.pairs,
                "load_store": section.problem.load_store,
                "cores": section.problem.cores,
                "slots": section.answer.slots,
                "at_least_slots": section.answer.lower,
                "method": section.answer.claim.method,
                "note": section.answer.note,
            }
            for section in makespan.sections
        ],
        "assumptions": [
            {"key": one.key, "text": one.text, "state": one.state.value, "source": one.source}
            for one in makespan.sections[0].answer.claim.assumptions
        ],
    }


def refusal_data(kernel: Kernel, diagnostics: tuple[Diagnostic, ...]) -> dict[str, Any]:
    """A kernel without a makespan as plain data."""
    return {
        "kernel": kernel.name,
        "readable": kernel.readable,
        "refused": [{"code": one.code, "message": one.message} for one in diagnostics],
    }
