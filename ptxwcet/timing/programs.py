"""Translates paths to the shared IR: a kernel's extracted paths become warp programs on a machine.

Before: blocks visited, loops counted, no machine. After: timed instructions, barriers, repeats.

A triangular loop (:class:`~ptxwcet.flow.walk.path.PathRepeat` with a step) becomes a row of at most
32 repeats of the loop around it, each with the range of inner counts of its share of the
iterations: exact up to 32 iterations; beyond that at most about 1/32 above the sum of the counts,
whatever their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.launch import PlacedTotal
from ptxwcet.flow.walk.path import (
    AffineCount,
    Counted,
    Path,
    PathChoice,
    PathEnd,
    PathFork,
    PathGone,
    PathLoop,
    PathNode,
    PathParts,
    PathRepeat,
    PathUnordered,
    Together,
    Visit,
    WarpPath,
    early_ends,
    grows,
    may_end,
    nodes_in,
    visited_blocks,
)
from ptxwcet.ir.kernel import Instruction, Kernel, hands_registers_over
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.timing.cost import Cost, InstructionCosts
from ptxwcet.timing.demand import find_limits
from ptxwcet.timing.machine_code import scoreboard_of
from ptxwcet.timing.pairing import require_alike, require_warpgroups
from ptxwcet.warp.program import (
    Barrier,
    BlockChoice,
    BlockRepeat,
    BlockWorkload,
    Choice,
    Node,
    PartialBarrier,
    Repeat,
    Scoreboard,
    Tally,
    TimedInstruction,
    Unordered,
    WarpClass,
    WarpProgram,
)
from ptxwcet.warp.segments import (
    as_joins,
    conditional,
    has_barrier,
    split_at_barrier,
    with_before_barriers,
    with_late_side,
)
from ptxwcet.warp.structure import Body, entered

# The shares into which the iterations around a growing loop are cut: the excess of the bound is
# about one part in this many, and the warp program grows by as much.
_SHARES = 32


def build_workload(
    paths: Sequence[WarpPath],
    kernel: Kernel,
    cfg: ControlFlowGraph,
    costs: InstructionCosts,
    scoreboard: Scoreboard,
    *,
    parameter: int | None = None,
    totals: Iterable[PlacedTotal] = (),
) -> BlockWorkload:
    """Returns the workload of a block whose warps execute ``paths``. Cost: linear in the trees.

    ``totals`` become tallies wherever a path through the program that is not faster than a run
    passes them no more often than the run does (docs/methods/limited-totals.md).

    ``parameter`` is the value of the one symbol on which counts depend, if any: a number or an
    :class:`~ptxwcet.support.affine.Affine`. Raises PtxwcetError with all instructions on the paths
    that the machine refuses, with a product of a warpgroup without a proved bound (PW403), or with
    the first wait for registers that never become free (PW504).
    """
    if hands_registers_over(kernel):
        # Imported here because few kernels hand registers over.
        from ptxwcet.timing.counting import require_registers

        require_registers(paths, kernel)
    builder = _Builder(kernel, cfg, costs, parameter)
    builder.limit(totals)
    bodies = builder.programs([path.nodes for path in paths])
    if counting := _counting_warps(bodies):
        bodies = _joined(bodies, paths, kernel, counting)
    classes = tuple(
        WarpClass(WarpProgram(body), path.warps) for body, path in zip(bodies, paths, strict=True)
    )
    costs.raise_refusals()
    require_warpgroups(classes, [path.nodes for path in paths], kernel, cfg, costs.machine)
    return BlockWorkload(classes, scoreboard_of(kernel, scoreboard))


_MAY_NOT_ARRIVE = PathFork, PathParts


def _may_end(node: PathNode) -> bool:
    match node:
        case PathFork(jumps=jumps):
            return not jumps
        case PathChoice(early=early):
            return bool(early)
        case _:
            return isinstance(node, PathEnd | PathGone)


def _joined(
    bodies: Sequence[Body],
    paths: Sequence[WarpPath],
    kernel: Kernel,
    counting: Sequence[Barrier | PartialBarrier],
) -> list[tuple[Node, ...]]:
    """Returns the programs of warps that synchronise at barriers for a number of warps.

    A barrier for as many threads as the block has is also of this kind, if some warps only arrive
    there. Raises PW504 where lanes of some warp may end before it arrives: the program that takes
    no less time then no longer shows which warps arrive.
    """
    joins = [p for p in counting if isinstance(p, PartialBarrier)]
    for path in paths:
        for node in nodes_in(path.nodes):
            if _may_end(node) or (joins and isinstance(node, _MAY_NOT_ARRIVE)):
                where = kernel.instructions[min(b.instruction.origin for b in counting)]
                raise PtxwcetError(_may_not_arrive(where))
    warps = sum(len(path.warps) for path in paths)
    names = {p.name for p in joins if p.warps == warps}
    return [as_joins(body, warps, names) for body in bodies] if names else list(bodies)


def _counting_warps(bodies: Sequence[Body]) -> list[Barrier | PartialBarrier]:
    """Returns the barriers that count warps: a part of the block, or all of it."""
    return [
        node
        for body in bodies
        for node in entered(body)
        if isinstance(node, PartialBarrier) or (isinstance(node, Barrier) and node.counts)
    ]


def _may_not_arrive(where: Instruction) -> Diagnostic:
    return Diagnostic(
        "PW504",
        f"{where.mnemonic} is for a number of warps, and lanes of some warp may have ended, or "
        "be elsewhere, when it is reached: which warps arrive is not known",
        where.span,
        help="give the parameters that decide the branches before it",
    )


class _Builder:
    def __init__(
        self,
        kernel: Kernel,
        cfg: ControlFlowGraph,
        costs: InstructionCosts,
        parameter: int | None,
    ) -> None:
        self._kernel = kernel
        self._cfg = cfg
        self._costs = costs
        self._parameter = parameter
        self._visits: dict[Visit, tuple[Node, ...]] = {}
        self._tallies: dict[tuple[int, bool], tuple[Tally, ...]] = {}
        self._tallied = False  # whether the code here is executed in the run, equally often
        self._untallied = 0  # enclosing parts that over-approximate
        self._begun: dict[str, int] = {}  # the loops for which it is open whether they begin
        self._waiting: set[tuple[str, int]] = set()  # places that have barriers at some visit
        self._shown: frozenset[tuple[str, int]] = frozenset()  # and are shown at each visit

    def limit(self, totals: Iterable[PlacedTotal]) -> None:
        """Tallies the visits of ``totals`` from now on."""
        for total in totals:
            tally = Tally(total.what, total.most)
            for outcome in total.visits:
                self._tallies[outcome] = (*self._tallies.get(outcome, ()), tally)

    def programs(self, paths: Sequence[Path]) -> list[tuple[Node, ...]]:
        """Returns the whole program of each class of warps.

        The n-th choice of the block at a place is the same for all warps. So a choice that has
        barriers at one visit is shown at each visit, and in each class: choices are paired by their
        order.
        """
        while True:
            programs = [
                self._before_barriers(self._part(nodes, tallied=not may_end(nodes)), nodes)
                for nodes in paths
            ]
            if len(paths) == 1 or self._shown == self._waiting:
                require_alike(paths, frozenset(place for _, place in self._waiting))
                return programs
            self._shown = frozenset(self._waiting)

    def _before_barriers(self, body: tuple[Node, ...], nodes: Path) -> tuple[Node, ...]:
        """Returns the program with the ends of lanes that left early before each of its barriers.

        Each end occurs as often as it may in total: the next barrier is not determined.
        """
        late: list[Node] = []
        for visits, most in early_ends(nodes).items():
            side = conditional(self._not_as_it_is(visits))
            late += [Repeat(most, side, 0)] if side else []
        return with_before_barriers(body, tuple(late)) if late else body

    def _is_shown(self, kind: str, site: int, inside: tuple[Node, ...]) -> bool:
        """Returns whether a choice of the block is a choice of barriers, here or elsewhere."""
        if has_barrier(inside):
            self._waiting.add((kind, site))
            return True
        return (kind, site) in self._shown

    def _part(self, nodes: Path, *, tallied: bool) -> tuple[Node, ...]:
        """Returns the nodes, tallied only if every warp that begins them completes them."""
        before, self._tallied = self._tallied, tallied and not self._untallied
        out = self.body(nodes)
        self._tallied = before
        return out

    def _not_as_it_is(self, nodes: Path) -> tuple[Node, ...]:
        """Returns the nodes without tallies: a run may execute a part of them only."""
        self._untallied += 1
        out = self._part(nodes, tallied=False)
        self._untallied -= 1
        return out

    def body(self, nodes: Path, first: int = 0, last: int = 0) -> tuple[Node, ...]:
        """Returns the timed nodes for iterations ``first`` to ``last`` of the repeat around."""
        out: list[Node] = []
        for node in nodes:
            match node:
                case Visit():
                    out += (*self._visit(node), *self._tallied_at(node))
                case PathRepeat(count, least, body) if grows(body):
                    out += self._shares(count, least, body)
                case PathRepeat(step=0):
                    out.append(self._repeat(node))
                case PathRepeat(count, body=body, step=step):
                    start = count.base
                    ends = (start + step * first, start + step * last)
                    why = Together(next(visited_blocks(body)), f"{start} + {step}*i")
                    out.append(self._repeated(max(ends), min(ends), self.body(body), why))
                case PathLoop():
                    out += self.body(node.body, first, last)
                case PathUnordered(one, two):
                    sides_both = self.body(one), self.body(two)
                    if may_end(node.first) or may_end(node.second):
                        sides_both = conditional(sides_both[0]), conditional(sides_both[1])
                    out.append(Unordered(*sides_both))
                case PathChoice(alternatives, site):
                    sides = tuple(self.body(side) for side in alternatives)
                    shared, sides = _without_shared_start(sides)
                    out += shared
                    whole = Choice(sides)
                    together = site is not None and self._is_shown("branch", site, (whole,))
                    if together or len(sides) > 1:
                        out.append(BlockChoice(site or 0, sides) if together else whole)
                case PathParts(most, parts, least):
                    inside = tuple(conditional(self._not_as_it_is(side)) for side in parts)
                    part = inside[0] if least else (Choice(inside),)
                    out.append(Repeat(most, part, least))
                case PathGone():
                    pass  # the program continues, which takes no less time
                case PathEnd():
                    out += self._may_end(node)
                case PathFork():
                    out += self._fork(node)
        return tuple(out)

    def _number(self, count: AffineCount) -> int:
        """Returns the count at the value of the parameter."""
        number = count.base
        for _symbol, slope in count.slopes:
            assert self._parameter is not None, "an open count left path extraction"
            number += slope * self._parameter
        return number

    def _repeat(self, node: PathRepeat) -> Node:
        """Returns a repeat of iterations of one kind."""
        most, least = self._number(node.count), self._number(node.least)
        inside = self.body(node.body) if least else self._optional_body(node.body)
        if node.count == node.least:
            return Repeat(most, inside)
        return self._repeated(most, least, inside, node.together)

    def _repeated(
        self, most: int, least: int, inside: tuple[Node, ...], why: Together | None
    ) -> Node:
        """Returns ``least`` to ``most`` iterations; with barriers all warps must execute as many.

        The block then chooses whether a loop with barriers begins at all. Raises PW501 if nothing
        proves that warps agree.
        """
        if most == least:
            return Repeat(most, inside, least)
        if why is None and has_barrier(inside):
            raise PtxwcetError(_not_together())
        if why is None or not self._is_shown("loop", why.site, inside):
            return Repeat(most, inside, least)
        site = f"block {why.site}" + (f": {why.counted} times" if why.counted else "")
        repeat = BlockRepeat(site, most, inside)
        if least:
            return repeat
        number = self._begun.setdefault(site, len(self._begun))
        return BlockChoice(-1 - number, ((), (repeat,)))

    def _optional_body(self, nodes: Path) -> tuple[Node, ...]:
        """Returns nodes that may be skipped: tallied if they contain no end."""
        return self._part(nodes, tallied=not may_end(nodes))

    def _side(self, nodes: Path) -> tuple[Node, ...]:
        """Returns a side of a fork. With tallies it may also be skipped: they are not paid then."""
        side = conditional(self._optional_body(nodes))
        if not find_limits(side):
            return side
        return (
            conditional(self._part(nodes, tallied=False))
            if has_barrier(side)
            else (Choice((side, ())),)
        )

    def _tallied_at(self, *visits: Visit) -> tuple[Tally, ...]:
        """Returns the tallies that each of these visits passes."""
        if not self._tallied:
            return ()
        first, *others = [self._tallies.get((visit.block, visit.taken), ()) for visit in visits]
        return tuple(tally for tally in first if all(tally in other for other in others))

    def _may_end(self, node: PathEnd) -> list[Node]:
        """Returns a visit after which the warp may end, and the rest that it executes otherwise.

        To end here takes no longer than to go on: the rest ends with the same instructions, which
        wait for nothing. Only the branch, taken or not, is open. The other warps, which wait at
        barriers, lose nothing either if the program in place of the end takes no less time.
        """
        leave, stay = self._visit(node.leave), self._visit(node.stay)
        ending = (
            []
            if not self._cfg.barriers
            else [
                timed
                for visit in node.last
                if self._outlasts_barrier(visit.block)
                for timed in self._visit(visit)
            ]
        )
        return [*stay[:-1], Choice((stay[-1:], (*leave[-1:], *ending)))]

    def _outlasts_barrier(self, block: int) -> bool:
        """Returns whether others may wait longer for the end of a warp than for a barrier."""
        index = self._cfg.blocks[block].end - 1
        return self._costs.outlasts_barrier(index, self._kernel.instructions[index])

    def _fork(self, fork: PathFork) -> list[Node]:
        """Returns both sides of an undecided branch, which take no less time than one of them.

        Writes in them count as conditional: a side that is not executed leaves a register ready as
        late as it was (docs/methods/path-extraction.md). The lanes of a side without a barrier have
        exited when the lanes of the other one are through their first barrier.
        """
        out = list(self._visit(Visit(fork.block, fork.jumps)))
        out += self._tallied_at(*fork.visits)
        side, other_side = self._side(fork.first), self._side(fork.second)
        if has_barrier(side):
            side, other_side = other_side, side
        before, after = split_at_barrier(other_side)
        out.append(Unordered(side, before) if side and before else Choice((side or before, ())))
        if side and after and not isinstance(after[0], Barrier):
            after = with_late_side(after, side)  # the first barrier is not decided
        return [*out, *after]

    def _shares(self, count: AffineCount, least: AffineCount, body: Path) -> list[Node]:
        """Returns a repeat around growing loops, cut into shares of its iterations."""
        iterations = self._number(count)
        shares = min(_SHARES, iterations)
        edges = [iterations * share // shares for share in range(shares + 1)]
        exact = count == least
        return [
            Repeat(end - begin, self.body(body, begin, end - 1), end - begin if exact else 0)
            for begin, end in pairwise(edges)
        ]

    def _visit(self, visit: Visit) -> tuple[Node, ...]:
        nodes = self._visits.get(visit)
        if nodes is None:
            own = timed_visit(visit, self._kernel, self._cfg, self._costs)
            nodes = self._visits[visit] = (*self._costs.before(BlockId(visit.block)), *own)
        return nodes


def _not_together() -> Diagnostic:
    return Diagnostic(
        "PW501",
        "a barrier lies inside a loop that warps of the block may run differently often",
        notes=("the bounds are proved for warps that all meet the same sequence of barriers",),
        help="give the parameters that decide how often it runs; where data of the block decide, "
        "take a block of whole warps (a multiple of 32 threads)",
    )


def timed_visit(
    visit: Visit, kernel: Kernel, cfg: ControlFlowGraph, costs: InstructionCosts
) -> tuple[TimedInstruction | Barrier | PartialBarrier, ...]:
    """Returns the nodes that one execution of a basic block issues. Cost: linear in the block."""
    block = cfg.blocks[visit.block]
    nodes: list[TimedInstruction | Barrier | PartialBarrier] = []
    counted = {use.index: use for use in visit.counted}
    for index in range(block.start, block.end):
        taken = visit.taken and index == block.end - 1
        if (use := counted.get(index)) is not None:
            cost = _cost_of_counting(use, kernel, cfg, costs)
            nodes += costs.counted(index, kernel.instructions[index], cost)
            continue
        nodes += costs.nodes(index, kernel.instructions[index], taken=taken)
    return tuple(nodes)


def _cost_of_counting(
    counted: Counted, kernel: Kernel, cfg: ControlFlowGraph, costs: InstructionCosts
) -> Cost:
    """Returns the cost of an operation on an mbarrier; a wait includes its polling loop."""
    # Imported here because few kernels count at mbarriers.
    from ptxwcet.flow.graph.polling import failing_round
    from ptxwcet.timing.counting import Counting, cost_of_counting

    instruction, again = kernel.instructions[counted.index], list[TimedInstruction]()
    if counted.lanes and instruction.op_class is OpClass.MBARRIER_WAIT:
        for at, taken in failing_round(kernel, cfg, counted.index) or ():
            issued = costs.nodes(at, kernel.instructions[at], taken=taken)
            again += (node for node in issued if isinstance(node, TimedInstruction))
    counting = Counting(counted.place, counted.lanes, counted.number, tuple(again), counted.rows)
    return cost_of_counting(instruction, costs.machine, counting, counted.index)


def _without_shared_start(
    sides: tuple[tuple[Node, ...], ...],
) -> tuple[tuple[Node, ...], tuple[tuple[Node, ...], ...]]:
    """Returns the common start of all sides (with its barriers), and their rests."""
    length = 0
    for nodes in zip(*sides, strict=False):
        if any(node != nodes[0] for node in nodes):
            break
        length += 1
    return sides[0][:length], tuple(side[length:] for side in sides)
