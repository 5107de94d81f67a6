"""Loop bounds in comments of the PTX, put there by ``asm volatile`` in the CUDA source.

``asm volatile("// ptxwcet: loop_bound 64")`` in the body of a loop: a thread passes this place at
most 64 times for each entry of the innermost loop around it; ``loop_total N``: at most N times in a
run. The compiler keeps each execution of the statement and their order, but copies it when it
unrolls, and may leave it outside of any loop. So what is counted are *passings*: if every way
through one iteration of a loop in the PTX passes at least ``c`` copies, no entry has more than
``N // c`` whole iterations (``docs/flow-facts.md`` has the argument and its limits).
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from heapq import heappop, heappush

from ptxwcet.flow.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.loops import Loop, LoopForest
from ptxwcet.flow.stated import FactSource, Mark, conflict
from ptxwcet.ir.kernel import Instruction, Kernel, Module
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ptx.statements import COMMENT, blank_comments
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.source import SourceFile, Span

_COMMENT = re.compile(rf'"[^"\n]*+"|{COMMENT}')
_MARK = re.compile(r"\s*ptxwcet\s*:\s*(.*?)\s*", re.DOTALL)
_FACT = re.compile(r"(loop_bound|loop_total)\s+([0-9]{1,18})", re.ASCII)
_STRING = re.compile(r'"[^"\n]*"')
_LABEL = re.compile(r"[\w$%]\s*:(?!:)", re.ASCII)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)[^\n]*", re.ASCII)
_FILE = re.compile(r'^[ \t]*\.file\s+(\d+)\s+"([^"\n]*)"', re.MULTILINE | re.ASCII)
_TWO_LOOPS = (
    "if one of them was in a loop inside that the compiler has unrolled completely, remove it or "
    "write #pragma unroll 1 before that loop"
)


@dataclass(frozen=True, slots=True)
class MarkedBound:
    """What the comments in one loop say of its body executions for each entry.

    ``is_total``: it follows from passings in a whole run, whatever loop the comment was in.
    """

    most: int
    source: FactSource
    is_total: bool


def find_marks(module: Module) -> tuple[Mark, ...]:
    """All comments of the module that state a loop bound, in the order of the text.

    Raises PtxwcetError with every malformed one (PW248) and every one outside of a body (PW249).
    Cost: linear in the text.
    """
    source = module.source
    if "ptxwcet" not in source.text:
        return ()
    files = dict(_FILE.findall(source.text))
    found: list[Mark] = []
    problems: list[Diagnostic] = []
    bodies = [one.instructions for one in (*module.kernels, *module.functions) if one.instructions]
    for match in _COMMENT.finditer(source.text):
        text = match.group()
        mark = None if text[0] == '"' else _MARK.fullmatch(text.removesuffix("*/")[2:])
        if mark is None:
            continue
        span = Span(source, match.start(), match.end())
        fact = _FACT.fullmatch(mark.group(1))
        around = _around(bodies, span)
        if fact is None:
            problems.append(_malformed(span, mark.group(1)))
        elif around is None:
            problems.append(_orphan(span))
        else:
            found.append(_mark(span, (fact[1] == "loop_total", int(fact[2])), around, files))
    if problems:
        raise PtxwcetError(problems)
    return tuple(found)


def _malformed(span: Span, text: str) -> Diagnostic:
    return Diagnostic(
        "PW248",
        f"comment not understood: {' '.join(text.split())!r} is no fact",
        span,
        help="write ptxwcet: loop_bound N, or ptxwcet: loop_total N",
    )


def _orphan(span: Span) -> Diagnostic:
    return Diagnostic(
        "PW249",
        "this comment is in no loop: there is nothing that it bounds",
        span,
        help="remove it if the compiler has unrolled the loop completely; else put it into the "
        "loop's body",
    )


def _around(
    bodies: list[tuple[Instruction, ...]], span: Span
) -> tuple[Instruction, Instruction] | None:
    """The instructions before and after a place in a body; None at its ends and outside."""
    for body in bodies:
        if body[0].start < span.start and span.end <= body[-1].start:
            low, high = 0, len(body) - 1
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if body[middle].start < span.start else (low, middle)
            return body[low], body[high]
    return None


def _mark(
    span: Span,
    fact: tuple[bool, int],
    around: tuple[Instruction, Instruction],
    files: dict[str, str],
) -> Mark:
    before, after = around
    source = span.source
    lead = _code(source, before.end, span.start)
    follow = _code(source, span.end, after.start)
    anchor, other, is_sure = after, before, True
    if _LABEL.search(follow):
        anchor, other = before, after
        plain = before.control in (ControlEffect.NONE, ControlEffect.BARRIER)
        is_sure = plain and not _LABEL.search(lead)
    if anchor.control is ControlEffect.CALL:
        is_sure = False  # its copies spread over several blocks when the function is put in place
    origin, name = None, f"PTX line {span.line}"
    locations = list(_LOC.finditer(lead))
    if locations:
        file, line = locations[-1].groups()
        origin = locations[-1].group() if line != "0" else None
        name = f"{files.get(file, f'file {file}')}:{line}"
    elif before.location is not None:
        name = f"{before.location.file}:{before.location.line}"
    states = FactSource(f"asm comment {name}", span)
    return Mark(span, *fact, anchor.start, other.start, is_sure, origin, states)


def _code(source: SourceFile, start: int, end: int) -> str:
    return _STRING.sub('""', blank_comments(source.text[start:end]))


# --- what the comments say of the loops of a kernel -----------------------------------------------


@dataclass(frozen=True, slots=True)
class _Group:
    """The copies of one comment in one loop: how many a block holds for sure."""

    mark: Mark
    counts: dict[BlockId, int]


def marked_bounds(
    kernel: Kernel, cfg: ControlFlowGraph, forest: LoopForest, marks: tuple[Mark, ...]
) -> dict[int, MarkedBound]:
    """Most body executions for each entry that comments state, by loop id.

    Raises PtxwcetError: PW249 for a comment of this kernel that bounds nothing, PW215 for two that
    contradict each other. Cost: blocks of the loops times comments in them.
    """
    found: dict[int, list[MarkedBound]] = defaultdict(list)
    for loop, group in _groups(kernel, cfg, forest, marks):
        passed = _fewest(cfg, forest, loop, group.counts)
        problem = _unusable(cfg, loop, group.mark, passed)
        if problem is not None:
            raise PtxwcetError(problem)
        name = group.mark.source.name
        if passed > 1:
            name += f" ({group.mark.number} passings, {passed} an iteration)"
        source, number = FactSource(name, group.mark.span), group.mark.number
        found[loop.id].append(MarkedBound(number // passed, source, group.mark.is_total))
    return {loop: _together(cfg, forest.loops[loop], rows) for loop, rows in found.items()}


def _groups(
    kernel: Kernel, cfg: ControlFlowGraph, forest: LoopForest, marks: tuple[Mark, ...]
) -> list[tuple[Loop, _Group]]:
    """The comments of the kernel by innermost loop and origin."""
    block_of = _blocks_by_start(kernel, cfg)
    groups: dict[tuple[int, object], tuple[Loop, _Group]] = {}
    looped: set[object] = set()
    seen: dict[object, Mark] = {}
    gaps: set[object] = set()
    for number, mark in enumerate(marks):
        copies = zip(block_of.get(mark.anchor, ()), block_of.get(mark.other, ()), strict=False)
        for copy, (block, other) in enumerate(copies):
            identity = (mark.origin or number, mark.is_total, mark.number, copy)
            comment = (mark.origin, mark.is_total, mark.number, copy)
            inside = [forest.innermost(block)]
            inside += [] if mark.is_sure else [forest.innermost(other)]
            for loop in {one.id: one for one in inside if one is not None}.values():
                looped.add(comment)
                empty = loop, _Group(mark, {})
                _, group = groups.setdefault((loop.id, identity), empty)
                gap = identity, block, mark.anchor, mark.other
                if mark.is_sure and gap not in gaps:  # said twice in one place: one passing
                    group.counts[block] = group.counts.get(block, 0) + 1
                    gaps.add(gap)
            seen.setdefault(comment, mark)
    lost = [mark for comment, mark in seen.items() if comment not in looped]
    if lost:
        raise PtxwcetError([_orphan(mark.span) for mark in lost])
    return list(groups.values())


def _blocks_by_start(kernel: Kernel, cfg: ControlFlowGraph) -> dict[int, list[BlockId]]:
    """The blocks that hold the instructions which start at an offset: one for each copy."""
    found: dict[int, list[BlockId]] = defaultdict(list)
    for block in cfg.blocks:
        for index in range(block.start, block.end):
            found[kernel.instructions[index].start].append(block.id)
    return found


def _fewest(
    cfg: ControlFlowGraph, forest: LoopForest, loop: Loop, counts: dict[BlockId, int]
) -> int:
    """The least number of copies on a way from the header to the end of a latch."""
    done: set[BlockId] = set()
    waiting = [(counts.get(loop.header, 0), loop.header)]
    while waiting:
        passed, block = heappop(waiting)
        if block in done:
            continue
        if block in loop.latches:
            return passed
        done.add(block)
        for target in cfg.successors[block]:
            if target in loop.body and target not in done:
                heappush(waiting, (passed + counts.get(target, 0), target))
    return 0


def _unusable(cfg: ControlFlowGraph, loop: Loop, mark: Mark, passed: int) -> Diagnostic | None:
    name = cfg.name(loop.header)
    if passed == 0:
        reason = "a way through the loop does not pass it"
    elif not mark.is_total and len(loop.latches) > 1:
        reason = "the loop jumps back from several places, and may be two loops in one"
    elif not mark.is_total and passed > 1 and mark.number < 2 * passed:
        reason = (
            f"an iteration passes it {passed} times, so that the loop would run no second time; "
            "its own loop has probably been unrolled completely inside of this one"
        )
    else:
        return None
    return Diagnostic(
        "PW249",
        f"this comment does not bound the loop at {name}: {reason}",
        mark.span,
        help=f"put it where every iteration passes, or bound the loop with --loop-bound '{name}=N' "
        "or in a facts file",
    )


def _together(cfg: ControlFlowGraph, loop: Loop, rows: list[MarkedBound]) -> MarkedBound:
    """All that comments say of one loop. Bounds must agree, totals may be larger or smaller.

    Two comments with different bounds in one loop are no matter of taking the smaller: one of them
    may have been in a loop inside that the compiler has unrolled completely.
    """
    bounds = [row for row in rows if not row.is_total]
    for other in bounds[1:]:
        if other.most != bounds[0].most:
            one = str(bounds[0].most), bounds[0].source
            what = f"the loop at {cfg.name(loop.header)}"
            two = str(other.most), other.source
            raise PtxwcetError(conflict(what, one, two, _TWO_LOOPS))
    return min(rows, key=lambda row: row.most)
