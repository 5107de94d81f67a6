"""Kernel strings of a block's warps: from what they execute, unit by unit.

A machine file (or the user) says which units are load/store units (L) and which are cores (C);
what is neither is refused. Barriers cut a string: all warps are at the barrier before one goes on,
so the makespan of the block is the sum of those of its sections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ptxwcet.methods.makespan.strings import Loop, StringTree, shape_of
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.warp.alignment import AlignedSection, align_sections
from ptxwcet.warp.program import Barrier, BlockWorkload, Node, Repeat, TimedInstruction
from ptxwcet.warp.segments import cut_at_barriers


@dataclass(frozen=True, slots=True)
class StringSection:
    """The string between two barriers, executed ``multiplicity`` times by all warps."""

    multiplicity: int
    tree: StringTree


def sections_of(workload: BlockWorkload, letters: Mapping[str, str]) -> tuple[StringSection, ...]:
    """The strings of all warps between their barriers; ``letters`` maps a unit to L or C.

    Raises PtxwcetError: PW501 to PW504 (barriers), PW562 (warps that differ, or several paths),
    PW563 (a unit without a letter). Cost: linear in the program trees.
    """
    if not all(one.program.is_single_path for one in workload.classes):
        raise PtxwcetError(_several_paths("a loop or a branch is not decided"))
    classes = [cut_at_barriers(one.program) for one in workload.classes]
    out = []
    for step in align_sections(classes):
        if not isinstance(step, AlignedSection):
            raise PtxwcetError(_several_paths("a branch decides which barriers the block meets"))
        trees = {
            () if section is None else string_of(section.body, letters) for section in step.sections
        }
        if len(trees) > 1:
            raise PtxwcetError(_several_paths("the warps of the block execute different strings"))
        tree = trees.pop()
        if shape_of(tree).length:
            out.append(StringSection(step.multiplicity, tree))
    if not out:
        raise PtxwcetError(Diagnostic("PW560", "the warps execute no instruction"))
    return tuple(out)


def string_of(body: Sequence[Node], letters: Mapping[str, str]) -> StringTree:
    """The string of a body with a single path, loops kept. Raises PtxwcetError (PW562, PW563)."""
    out: list[str | Loop] = []
    for node in body:
        match node:
            case TimedInstruction(unit=unit) | Barrier(instruction=TimedInstruction(unit=unit)):
                letter = _letter(unit, letters)
                if out and isinstance(out[-1], str):
                    out[-1] += letter
                else:
                    out.append(letter)
            case Repeat(count=count, body=inner) if node.exact:
                if count and inner:
                    out.append(Loop(count, string_of(inner, letters)))
            case Repeat():
                raise PtxwcetError(_several_paths("a loop runs a number of times not known"))
            case _:
                raise PtxwcetError(_several_paths("a branch is not decided, or taken by lanes"))
    return tuple(out)


def _letter(unit: str, letters: Mapping[str, str]) -> str:
    if unit not in letters:
        raise PtxwcetError(
            Diagnostic(
                "PW563",
                f"unit {unit} is neither a load/store unit nor a core for the makespan",
                help=f'say which in a machine file: {unit} = "L" or "C" below [makespan]',
            )
        )
    return letters[unit]


def _several_paths(why: str) -> Diagnostic:
    return Diagnostic(
        "PW562",
        f"the block has no single kernel string: {why}",
        help="the makespan is defined for warps that all execute one known string; give the "
        "parameters or facts that decide it",
    )
