"""Parts of the block indices and of parameters' ranges, which are analysed apart.

Indices start as whole ranges and are cut where a decision is not the same for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.launch import Dim3, Launch
from ptxwcet.flow.values.lane_state import BlockIndex, Span
from ptxwcet.flow.values.regions import SplitRequest, Symbol
from ptxwcet.flow.values.value import Cause, CauseKind
from ptxwcet.flow.walk.path import BlockPaths, WarpPath
from ptxwcet.ir.operands import SpecialRegister, leaves
from ptxwcet.support.records import dataclass

_MOST_NAMED = 4
_UNLIMITED: Dim3 = (2**31 - 1, 65535, 65535)


@dataclass(frozen=True, slots=True)
class Piece:
    """Block indices from ``first`` to ``last`` and values of parameters of which ranges are known.

    ``splittable``: parts of the indices may be analysed apart.
    """

    first: Dim3
    last: Dim3
    spans: tuple[tuple[str, Span], ...] = ()
    splittable: bool = True

    def unsplittable(self) -> Piece:
        """These block indices, to be analysed as a whole."""
        spans = tuple((name, replace(span, splittable=False)) for name, span in self.spans)
        return replace(self, spans=spans, splittable=False)


def all_values(graph: FlowGraph, launch: Launch) -> Piece:
    """All block indices that the launch allows, as far as control flow depends on them."""
    limits = launch.grid if launch.grid is not None else _UNLIMITED
    used = {
        leaf.name
        for instruction in graph.kernel.instructions
        if any(name in graph.control_registers for name in instruction.writes)
        for operand in instruction.operands
        for leaf in leaves(operand)
        if isinstance(leaf, SpecialRegister)
    }
    last = [limits[i] - 1 if f"%ctaid.{axis}" in used else 0 for i, axis in enumerate("xyz")]
    spans = tuple(
        (name, Span(low, 1, high - low + 1)) for name, (low, high) in launch.ranges.items()
    )
    return Piece((0, 0, 0), (last[0], last[1], last[2]), spans)


def is_in_every_launch(piece: Piece, whole: Piece, launch: Launch) -> bool:
    """Whether every launch that ``whole`` stands for has blocks of a piece.

    If the grid is not known, only block (0, 0, 0) is sure to exist; if a parameter has a range, no
    value of it is sure.
    """
    if piece.spans != whole.spans:
        return False
    return launch.grid is not None or piece.first == (0, 0, 0)


def excluded_values(pieces: Sequence[Piece], whole: Piece, launch: Launch) -> tuple[str, ...]:
    """The values of parameters and the indices of blocks that distinguish some parts, in words."""
    intervals: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for piece in pieces:
        parts = [
            (launch.name_of(name), span)
            for (name, span), (_, full) in zip(piece.spans, whole.spans, strict=True)
            if span != full
        ]
        parts += [
            (f"ctaid.{axis}", Span(first, 1, last - first + 1))
            for axis, first, last, *full in zip(
                "xyz", piece.first, piece.last, whole.first, whole.last, strict=True
            )
            if [first, last] != full
        ]
        (name, span), *others = parts
        key = (name, f" in steps of {span.step}" * (span.step > 1), *map(_with, others))
        intervals.setdefault(key, []).append(
            (span.first, span.first + span.step * (span.count - 1))
        )
    found = []
    for (name, step, *rest), ends in intervals.items():
        for first, last in _joined(ends) if not step else ends:
            found.append(f"{name} in {first}..{last}{step}{''.join(rest)}")
    more = len(found) - _MOST_NAMED
    return (*found[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else []))


def _with(part: tuple[str, Span]) -> str:
    name, span = part
    step = f" in steps of {span.step}" * (span.step > 1)
    return f" with {name} in {span.first}..{span.first + span.step * (span.count - 1)}{step}"


def _joined(ends: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals in ascending order, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ends):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return joined


def parts_asked_for(piece: Piece, split: SplitRequest) -> int:
    """How many parts of a piece a decision asks for: two, or one for each remainder."""
    if not split.modulus:
        return 2
    return min(split.modulus, dict(piece.spans)[split.symbol.name].count)


def split_piece(piece: Piece, split: SplitRequest) -> list[Piece]:
    """The parts of a piece that a decision asks for. Cost: linear in their number."""
    if split.symbol.is_parameter:
        return _split_span(piece, split)
    axis = "xyz".index(split.symbol.name[-1])
    first, last = piece.first, piece.last
    cut = first[axis] + split.at

    def replaced(index: Dim3, value: int) -> Dim3:
        numbers = [*index]
        numbers[axis] = value
        return numbers[0], numbers[1], numbers[2]

    return [
        replace(piece, last=replaced(last, cut - 1)),
        replace(piece, first=replaced(first, cut)),
    ]


def _split_span(piece: Piece, split: SplitRequest) -> list[Piece]:
    """The parts of a parameter's range: below and from a value, or by the remainder."""
    spans = dict(piece.spans)
    span = spans[split.symbol.name]
    if split.modulus:
        parts = [
            replace(
                span,
                first=span.first + span.step * rest,
                step=span.step * split.modulus,
                count=-(-(span.count - rest) // split.modulus),
            )
            for rest in range(min(split.modulus, span.count))
        ]
    else:
        rest_at = span.first + span.step * split.at
        parts = [
            replace(span, count=split.at),
            replace(span, first=rest_at, count=span.count - split.at),
        ]
    return [replace(piece, spans=tuple({**spans, split.symbol.name: one}.items())) for one in parts]


def block_index(piece: Piece) -> BlockIndex:
    """The block index, as a symbol in each axis in which the piece has more than one."""
    first, last = piece.first, piece.last
    symbols = [
        Symbol(
            f"ctaid.{axis}",
            position - 3,
            last[position] - first[position] + 1,
            splittable=piece.splittable,
            fixed=not piece.splittable,
            origin=frozenset({Cause(CauseKind.LAUNCH, f"%ctaid.{axis}")}),
        )
        if last[position] > first[position]
        else None
        for position, axis in enumerate("xyz")
    ]
    return BlockIndex(first, (symbols[0], symbols[1], symbols[2]))


def merge_equal(pieces: list[BlockPaths]) -> list[BlockPaths]:
    """One representative of ranges whose warps execute the same, in the order of block indices."""
    kept: dict[tuple[WarpPath, ...], BlockPaths] = {}
    for piece in sorted(pieces, key=lambda piece: piece.first[::-1]):
        kept.setdefault(piece.warps, piece)
    return list(kept.values())
