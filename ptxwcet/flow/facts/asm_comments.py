"""Loop bounds in comments of the PTX, put there by ``asm volatile`` in the CUDA source.

``asm volatile("// ptxwcet: loop_bound 64")`` in the body of a loop: a thread passes this place at
most 64 times for each entry of the innermost loop around it; ``loop_total N``: at most N times in a
run. The comments are found with the instructions that they stand between, then what follows for the
loops of a kernel.

The compiler keeps each execution of an ``asm volatile`` and their order, but copies it when it
unrolls, and may leave it outside of any loop. So what is counted are *passings*: if every way
through one iteration of a loop in the PTX passes at least ``c`` copies, no entry has more than
``N // c`` whole iterations (``docs/guide/facts.md`` has the argument and its limits).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field, replace
from heapq import heappop, heappush

from ptxwcet.flow.facts.cuda_loops import CudaSource, loops_around
from ptxwcet.flow.facts.stated import FactSource, Mark, UnreadFact, conflict
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.loops import Loop, LoopForest
from ptxwcet.ir.kernel import Instruction, Kernel, Module, UnreadKernel
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.support.comments import COMMENT, blank_comments
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, internal_error
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile, Span, readable_paths

_COMMENT = re.compile(rf'"[^"\n]*+"|{COMMENT}')
_MARK = re.compile(r"\s*ptxwcet\s*:\s*(.*?)\s*", re.DOTALL)
_FACT = re.compile(r"(loop_bound|loop_total)\s+([0-9]{1,18})", re.ASCII)
_REGION = re.compile(r"region\s+\w+", re.ASCII)
"""A comment that marks a part of the code, and states nothing of it."""
_STRING = re.compile(r'"[^"\n]*"')
_LABEL = re.compile(r"[\w$%]\s*:(?!:)", re.ASCII)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)[^\n]*", re.ASCII)
_FILE = re.compile(r'^[ \t]*\.file\s+(\d+)\s+"([^"\n]*)"', re.MULTILINE | re.ASCII)


def find_marks(
    module: Module, cuda: CudaSource | None = None
) -> tuple[tuple[Mark, ...], tuple[UnreadFact, ...]]:
    """All comments of the module that state a loop bound, in the order of the text.

    With the CUDA source, the loops around them there are noted. A comment whose reading is an
    internal error is one of the second tuple, and costs those that execute its function; comments
    of functions that could not be read are left out, for these have no bound. Raises PtxwcetError
    with every malformed one (PW248) and every one outside of a body (PW249). Cost: linear in the
    text, and in the source for each comment.
    """
    source = module.source
    if "ptxwcet" not in source.text:
        return (), ()
    reader = _Reader(dict(_FILE.findall(source.text)), cuda)
    functions = (*module.kernels, *module.functions)
    problems: list[Diagnostic] = []
    unread: list[UnreadFact] = []
    for match in _COMMENT.finditer(source.text):
        text = match.group()
        mark = None if text[0] == '"' else _MARK.fullmatch(text.removesuffix("*/")[2:])
        if mark is None or _REGION.fullmatch(mark.group(1)):
            continue
        span = Span(source, match.start(), match.end())
        function = _function_at(functions, span)
        if isinstance(function, UnreadKernel):
            continue
        try:
            reader.read(span, mark.group(1), function)
        except PtxwcetError as error:
            problems += error.diagnostics
        except Exception as error:
            if function is None:
                raise
            unread.append(_unread(function, error))
    if problems:
        raise PtxwcetError(problems)
    return tuple(reader.marks), tuple(unread)


def _function_at(functions: tuple[Kernel, ...], span: Span) -> Kernel | None:
    inside = (one for one in functions if one.span.start <= span.start < one.span.end)
    return next(inside, None)


def _unread(function: Kernel, error: Exception) -> UnreadFact:
    whose = f"{'kernel' if function.is_entry else 'function'} {function.readable}"
    place = function.span
    return UnreadFact(internal_error(error, whose), None, place.start, place.end)


@dataclass(slots=True)
class _Reader:
    """Reads comments one by one; ``files`` are the names that ``.file`` gives."""

    files: dict[str, str]
    cuda: CudaSource | None
    marks: list[Mark] = field(default_factory=list)

    def read(self, span: Span, text: str, function: Kernel | None) -> None:
        """Adds what a comment of ``function`` states. Raises PtxwcetError (PW248, PW249)."""
        fact = _FACT.fullmatch(text)
        if fact is None:
            raise PtxwcetError(_malformed(span, text))
        around = None if function is None else _around(function.instructions, span)
        if around is None:
            raise PtxwcetError(orphan(span))
        kind = fact[1] == "loop_total", int(fact[2])
        self.marks.append(_in_source(_mark(span, kind, around, self.files), self.cuda))


def _malformed(span: Span, text: str) -> Diagnostic:
    return Diagnostic(
        "PW248",
        f"comment not understood: {' '.join(text.split())!r} is no fact",
        span,
        help="write ptxwcet: loop_bound N, ptxwcet: loop_total N or ptxwcet: region NAME",
    )


def orphan(span: Span) -> Diagnostic:
    """PW249: a comment that is in no loop."""
    return Diagnostic(
        "PW249",
        "this comment is in no loop: there is nothing that it bounds",
        span,
        help="remove it if the compiler has unrolled the loop completely; else put it into the "
        "loop's body",
    )


def _around(body: tuple[Instruction, ...], span: Span) -> tuple[Instruction, Instruction] | None:
    """The instructions before and after a place in a body; None at its ends and outside."""
    if not body or not body[0].start < span.start or not span.end <= body[-1].start:
        return None
    low, high = 0, len(body) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if body[middle].start < span.start else (low, middle)
    return body[low], body[high]


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
    anchor, neighbour, is_sure = after, before, True
    # inlining puts several instructions, in several blocks, in the place of a call
    if _LABEL.search(follow) or after.control is ControlEffect.CALL:
        falls_through = before.control in (ControlEffect.NONE, ControlEffect.BARRIER)
        is_sure = falls_through and not _LABEL.search(lead)
        anchor, neighbour = (before, after) if is_sure else (after, before)
    origin, file, line = None, "", 0
    locations = list(_LOC.finditer(lead))
    if locations:
        number, text = locations[-1].groups()
        file, line = files.get(number, f"file {number}"), int(text)
        origin = locations[-1].group() if line else None
    elif before.location is not None:
        file, line = before.location.file, before.location.line
    shown = readable_paths(files.values()).get(file, file)
    name = f"{shown}:{line}" if file and line else f"PTX line {span.line}"
    states = FactSource(f"asm comment {name}", span)
    places = anchor.start, neighbour.start
    return Mark(span, *fact, *places, is_sure, origin, states, file.rpartition("/")[2], line)


def _in_source(mark: Mark, cuda: CudaSource | None) -> Mark:
    """The comment with the loops around it in the source, if it is from there."""
    if cuda is None or not mark.line or mark.file != cuda.name:
        return mark
    return replace(mark, around=loops_around(cuda.text, mark.line))


def _code(source: SourceFile, start: int, end: int) -> str:
    return _STRING.sub('""', blank_comments(source.text[start:end]))


_ELSEWHERE = "its own loop has probably been unrolled completely inside of this one"
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


@dataclass(frozen=True, slots=True)
class _Group:
    """The copies of one comment in one loop: how many a block holds for sure."""

    mark: Mark
    counts: dict[BlockId, int]


def marked_bounds(flow: ControlFlow, marks: tuple[Mark, ...]) -> dict[int, MarkedBound]:
    """Most body executions for each entry that comments state, by loop id.

    Raises PtxwcetError: PW249 for a comment of this kernel that bounds nothing, PW215 for two that
    contradict each other. Cost: blocks of the loops times comments in them.
    """
    stated: dict[int, list[MarkedBound]] = defaultdict(list)
    for loop, group in _groups(flow, marks):
        passed = _fewest(flow, loop, group.counts)
        elsewhere = not group.mark.is_total and _is_elsewhere(flow, loop, group.mark)
        problem = _ELSEWHERE if elsewhere else _unusable(loop, group.mark, passed)
        if problem is not None:
            raise PtxwcetError(_bounds_nothing(flow.label(loop.id), group.mark, problem))
        name = group.mark.source.name
        if passed > 1:
            name += f" ({group.mark.number} passings, {passed} an iteration)"
        source, number = FactSource(name, group.mark.span), group.mark.number
        stated[loop.id].append(MarkedBound(number // passed, source, group.mark.is_total))
    return {loop: _together(flow.label(loop), bounds) for loop, bounds in stated.items()}


def _groups(flow: ControlFlow, marks: tuple[Mark, ...]) -> list[tuple[Loop, _Group]]:
    """The comments of the kernel by innermost loop and origin."""
    groups: dict[tuple[int, object], tuple[Loop, _Group]] = {}
    looped: set[object] = set()
    seen: dict[object, Mark] = {}
    gaps: set[object] = set()
    for copy in _copies(marks, _blocks_by_start(flow)):
        mark, block = copy.mark, copy.block
        seen.setdefault(copy.comment, mark)
        for loop in copy.loops(flow.forest):
            looped.add(copy.comment)
            group = groups.setdefault((loop.id, copy.identity), (loop, _Group(mark, {})))[1]
            gap = copy.identity, block, mark.anchor, mark.other
            if mark.is_sure and gap not in gaps:  # said twice in one place: one passing
                group.counts[block] = group.counts.get(block, 0) + 1
                gaps.add(gap)
    lost = [mark for comment, mark in seen.items() if comment not in looped]
    if lost:
        raise PtxwcetError([orphan(mark.span) for mark in lost])
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class _Copy:
    """A comment in one copy of its function: the blocks of ``mark.anchor`` and ``mark.other``.

    ``comment`` is equal for what may be copies of one comment, ``identity`` for what are.
    """

    mark: Mark
    block: BlockId
    other: BlockId
    comment: object
    identity: object

    def loops(self, forest: LoopForest) -> Iterator[Loop]:
        """The innermost loops that it is in; two if it is not sure in which of two blocks."""
        blocks = (self.block,) if self.mark.is_sure else (self.block, self.other)
        inside = {loop.id: loop for block in blocks if (loop := forest.innermost(block))}
        yield from inside.values()


def _copies(marks: tuple[Mark, ...], block_of: dict[int, list[BlockId]]) -> Iterator[_Copy]:
    for number, mark in enumerate(marks):
        places = zip(block_of.get(mark.anchor, ()), block_of.get(mark.other, ()), strict=False)
        for instance, (block, other) in enumerate(places):
            fact = mark.is_total, mark.number, instance
            identity = mark.origin or number, *fact
            yield _Copy(mark, block, other, (mark.origin, *fact), identity)


def _blocks_by_start(flow: ControlFlow) -> dict[int, list[BlockId]]:
    """The blocks that hold the instructions which start at an offset: one for each copy."""
    found: dict[int, list[BlockId]] = defaultdict(list)
    for block in flow.cfg.blocks:
        for index in range(block.start, block.end):
            found[flow.kernel.instructions[index].start].append(block.id)
    return found


def _fewest(flow: ControlFlow, loop: Loop, counts: dict[BlockId, int]) -> int:
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
        for target in flow.cfg.successors[block]:
            if target in loop.body and target not in done:
                heappush(waiting, (passed + counts.get(target, 0), target))
    return 0


def _unusable(loop: Loop, mark: Mark, passed: int) -> str | None:
    """Why passings say nothing about the iterations of a loop; None if they do."""
    if passed == 0:
        return "a way through the loop does not pass it"
    if not mark.is_total and len(loop.latches) > 1:
        return "the loop jumps back from several places, and may be two loops in one"
    if not mark.is_total and passed > 1 and mark.number < 2 * passed:
        return (
            f"an iteration passes it {passed} times, so that the loop would run no second time; "
            f"{_ELSEWHERE}"
        )
    return None


def _is_elsewhere(flow: ControlFlow, loop: Loop, mark: Mark) -> bool:
    """Whether what controls a loop stands, in the source, outside of the loop of the comment."""
    if not mark.around:
        return False
    own, *outer = mark.around
    lines = set()
    for block in {*loop.latches, *(source for source, _ in loop.exits)}:
        place = flow.kernel.instructions[flow.cfg.blocks[block].end - 1].location
        while place is not None:
            if place.line and place.file.rpartition("/")[2] == mark.file:
                lines.add(place.line)
            place = place.inlined_at
    if not lines or lines & own.control:
        return False
    around = frozenset().union(*(one.control for one in outer))
    return bool(lines & around) or not any(line in own.lines for line in lines)


def _bounds_nothing(name: str, mark: Mark, reason: str) -> Diagnostic:
    return Diagnostic(
        "PW249",
        f"this comment does not bound the loop at {name}: {reason}",
        mark.span,
        help="write #pragma unroll 1 before its loop, put it where every iteration passes, or "
        f"bound the loop with --loop-bound '{name}=N' or in a facts file",
    )


def _together(name: str, stated: list[MarkedBound]) -> MarkedBound:
    """All that comments say of one loop. Bounds must agree, totals may be larger or smaller.

    Two comments with different bounds in one loop are no matter of taking the smaller: one of them
    may have been in a loop inside that the compiler has unrolled completely.
    """
    bounds = [row for row in stated if not row.is_total]
    for bound in bounds[1:]:
        if bound.most != bounds[0].most:
            first = str(bounds[0].most), bounds[0].source
            contrary = str(bound.most), bound.source
            raise PtxwcetError(conflict(f"the loop at {name}", first, contrary, _TWO_LOOPS))
    return min(stated, key=lambda row: row.most)
