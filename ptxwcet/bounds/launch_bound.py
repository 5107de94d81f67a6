"""The bound of a whole launch: blocks counted by what they execute, residency, dispatch, claim.

What is proved is in docs/methods/grid.md; :mod:`ptxwcet.bounds.grid` has the forms.

The theorems are about blocks that share an SM and nothing else: none waits for another, and each
starts as soon as a slot is free. Kernels that do otherwise are known by the names of what they use.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from ptxwcet.bounds.analysis import BlockAnalysis
from ptxwcet.bounds.carve_out import assumptions_of_arrays, set_aside_in
from ptxwcet.bounds.grid import (
    BlockKind,
    CoRunner,
    Dispatch,
    GridBound,
    MemoryServer,
    affine_bound,
    bounds_by_residency,
    chosen_stretch,
)
from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.memory_servers import LAUNCH_ALONE, memory_alone
from ptxwcet.bounds.occupancy import (
    LaunchedBlock,
    Residency,
    assumed,
    find_residency,
    missing_rules,
)
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.claims import (
    Assumption,
    AssumptionState,
    Citation,
    Guarantee,
    Refusal,
    TimingClaim,
)
from ptxwcet.flow.launch import Dim3, Launch
from ptxwcet.flow.walk.path import BlockPaths, WarpPath
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.assumptions import ALONE, BREADTH_FIRST, CLAIMS, OF_LAUNCHES, PATH_KEEPS_UP
from ptxwcet.machine.ledger import EXECUTION, claim_on
from ptxwcet.machine.model import Machine
from ptxwcet.memory.counting import SECTOR
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

if TYPE_CHECKING:
    from ptxwcet.memory.footprint import Footprints

METHOD = "grid"
"""Name of the method that bounds launches."""

_CITATION = Citation("docs/methods/grid.md", "G1 to G3")


@dataclass(frozen=True, slots=True)
class LaunchBound:
    """How long a launch takes at most: ``claim.cycles``, the parts of ``bound`` and the overhead.

    ``kinds`` are its blocks. ``least_cycles`` is the smallest bound for a number of resident blocks
    that is possible: what it may come to if the residency is said. ``block`` is what one asks for.
    """

    claim: TimingClaim
    bound: GridBound
    kinds: tuple[BlockKind, ...]
    sms: int
    residency: Residency
    overhead_cycles: int
    least_cycles: int
    block: LaunchedBlock

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return sum(kind.count for kind in self.kinds)


def count_blocks(pieces: Sequence[BlockPaths], launch: Launch) -> dict[tuple[WarpPath, ...], int]:
    """How many blocks of the grid execute the paths of each piece, by its warps; empty if unknown.

    In an axis of the grid that decides nothing, index 0 stands for all. Unknown without a grid, and
    for ranges of parameters, of which each value may deal the blocks differently.
    """
    if launch.grid is None or launch.ranges:
        return {}
    counts: dict[tuple[WarpPath, ...], int] = {}
    grid = launch.grid
    stands_for_all = [all(piece.last[axis] == 0 for piece in pieces) for axis in range(3)]
    for piece in pieces:
        blocks = math.prod(
            grid[axis] if stands_for_all[axis] else piece.last[axis] - piece.first[axis] + 1
            for axis in range(3)
        )
        counts[piece.warps] = counts.get(piece.warps, 0) + blocks
    return counts if sum(counts.values()) == math.prod(grid) else {}


def kinds_of_blocks(
    pieces: Sequence[tuple[BlockAnalysis, int | None]], grid: Dim3
) -> tuple[BlockKind, ...]:
    """The blocks of a grid by what they execute, from analyses and how many blocks have each.

    Where that is not known of each, all blocks have the largest of every figure. Raises
    PtxwcetError (PW404). Cost: a profile a class and section.
    """
    blocks = math.prod(grid)
    kinds = tuple(block_kind(analysis, count or 0) for analysis, count in pieces)
    if sum(kind.count for kind in kinds) == blocks:
        return kinds
    busiest = [kind.busiest_cycles for kind in kinds]
    alone = [cycles for cycles in busiest if cycles is not None]
    ways = [kind.stretches for kind in kinds]
    return (
        BlockKind(
            blocks,
            max(kind.slack_cycles for kind in kinds),
            max(kind.work_cycles for kind in kinds),
            max(alone) if len(alone) == len(kinds) else None,
            (chosen_stretch(1, ways),) if all(ways) else (),
            max(kind.sectors for kind in kinds),
            max(kind.not_set_aside for kind in kinds),
            polling=max(kind.polling for kind in kinds),
        ),
    )


@dataclass(frozen=True, slots=True)
class LaunchRules:
    """How the blocks of a launch share a GPU: what its bound depends on beside the blocks.

    ``dispatch`` has the largest number of resident blocks that is possible.
    """

    machine: Machine
    dispatch: Dispatch
    residency: Residency
    overhead_cycles: int
    assumptions: tuple[Assumption, ...]

    def of_blocks_alike(self, kind: BlockKind) -> int:
        """The bound, overhead included, of a launch of equal blocks, whose figures may be affine.

        In parts of a cycle (``dispatch.memory.divisor``): :func:`ptxwcet.bounds.grid.affine_bound`.
        """
        return affine_bound(kind, self.dispatch, self.residency.least, self.overhead_cycles)

    def claim(self, cycles: int, assumptions: Iterable[Assumption]) -> TimingClaim:
        """The claim of a bound of launches whose blocks rest on ``assumptions``."""
        in_turn = self.dispatch.breadth_first
        keys = ["work-conserving", *(key for key in EXECUTION if key != ALONE)]
        keys += [key for key in OF_LAUNCHES if in_turn or key != BREADTH_FIRST]
        rests_on = (*dict.fromkeys(assumptions), *self.assumptions)
        stated = TimingClaim(cycles, Guarantee.SAFE_BOUND, METHOD, rests_on, (_CITATION,))
        return claim_on(self.machine, keys, stated)


def launch_rules(
    block: LaunchedBlock, machine: Machine, wishes: GridWishes
) -> LaunchRules | Refusal:
    """The rules for launches of a kernel; a Refusal says what keeps them from being bounded.

    Raises PtxwcetError for what cannot be launched so: PW316 (a block that no SM holds), PW319
    (more SMs than there are), PW323 (co-runners), PW326 (arrays set aside), PW426. Cost: linear
    in the kernel.
    """
    refusal = grid_refusal(block.kernel)
    if refusal is not None:
        return refusal
    if machine.occupancy is None:
        return Refusal(missing_rules(machine).diagnostics[0].message)
    sms = _sms(machine, wishes)
    residency = find_residency(block, machine, wishes)
    rules = machine.dispatch
    if rules is None:
        return Refusal(f"machine {machine.name} does not say how blocks of a launch start")
    in_turn = machine.assumption(BREADTH_FIRST).state is not AssumptionState.DOUBTFUL
    server, set_aside = _memory_server(machine, wishes), set_aside_in(block, machine)
    if set_aside is not None:
        server = replace(server, set_aside=set_aside)
    dispatch = Dispatch(
        sms,
        residency.most,
        rules.delay_cycles.value,
        rules.gap_cycles.value,
        in_turn,
        server,
    )
    assumptions = [*residency.assumptions, *assumptions_of_arrays(block)]
    if wishes.sms is not None:
        text = f"the launch has {sms} of the SMs of the GPU"
        assumptions.append(assumed("sms", text, "--sms"))
    if server.co_runner is not None:
        text = f"others move at most so many bytes at once, and GB a second: {wishes.co_runner}"
        assumptions.append(assumed("co-runner", text, "--co-runner"))
    elif machine.cycles_per_1024_sectors:
        assumptions.append(LAUNCH_ALONE)
    overhead = rules.launch_overhead_cycles.value
    return LaunchRules(machine, dispatch, residency, overhead, tuple(assumptions))


def bound_launch(
    pieces: Sequence[tuple[BlockAnalysis, int | None]],
    grid: Dim3,
    block: LaunchedBlock,
    machine: Machine,
    wishes: GridWishes,
    footprints: Callable[[], Footprints] | None = None,
) -> LaunchBound | Refusal:
    """Bounds a launch whose blocks are bounded one by one; a Refusal says what keeps it from that.

    ``footprints`` are asked for where the machine file claims something of its cache. Raises
    PtxwcetError as :func:`launch_rules` does. Cost: a profile a class and section, whatever
    the grid.
    """
    rules = launch_rules(block, machine, wishes)
    if isinstance(rules, Refusal):
        return rules
    try:
        kinds = kinds_of_blocks(pieces, grid)
    except PtxwcetError as error:
        return Refusal(error.diagnostics[0].message)
    residency, overhead = rules.residency, rules.overhead_cycles
    dispatch, assumptions = rules.dispatch, [one for row, _ in pieces for one in row.assumptions]
    if footprints is not None and any(map(machine.states, CLAIMS.keys() - {PATH_KEEPS_UP})):
        # here: few machine files claim anything
        from ptxwcet.bounds.caches import behind_caches

        asked = sum(kind.count * kind.sectors for kind in kinds)
        blocks = sum(kind.count for kind in kinds)
        reserved = machine.occupancy is not None and (
            machine.occupancy.shared_bytes_reserved_per_block.value > 0
        )
        behind = behind_caches(
            *(machine, dispatch, footprints(), blocks, asked),
            uses_shared=block.may_use_shared or reserved,
        )
        if behind is not None:
            kept, rests_on = behind
            dispatch = replace(dispatch, memory=replace(dispatch.memory, set_aside=kept))
            kinds = tuple(replace(kind, outside_sectors=0) for kind in kinds)
            assumptions += rests_on
    try:
        bounds = bounds_by_residency(kinds, dispatch, residency.least)
    except PtxwcetError as error:
        return Refusal(error.diagnostics[0].message)
    worst = max(bounds, key=lambda bound: bound.cycles)
    least = min(bound.cycles for bound in bounds) + overhead
    claim = rules.claim(worst.cycles + overhead, assumptions)
    return LaunchBound(claim, worst, kinds, rules.dispatch.sms, residency, overhead, least, block)


def _memory_server(machine: Machine, wishes: GridWishes) -> MemoryServer:
    """The memory of the GPU, and who shares it. Raises PtxwcetError (PW323)."""
    alone = memory_alone(machine)
    if wishes.co_runner is None:
        return alone
    each = alone.cycles_per_1024_sectors
    said = re.fullmatch(r"(\d{1,15}) *, *(\d{1,9}(?:\.\d{1,9})?)", wishes.co_runner.strip())
    if said is None or not each:
        what = "is not BYTES,GB/S" if said is None else f": {machine.name} has no memory to share"
        raise _no_co_runner(f"--co-runner {wishes.co_runner} {what}")
    sectors = Fraction(said[2]) * 10**9 / SECTOR  # a second
    rate = sectors * each / 1024 / (machine.clock_mhz * 10**6)
    if rate >= 1:
        raise _no_co_runner(f"--co-runner {wishes.co_runner} leaves the memory no time")
    return MemoryServer(each, CoRunner(alone.busy(-(-int(said[1]) // SECTOR)), rate))


def _no_co_runner(message: str) -> PtxwcetError:
    example = "say what a regulator lets others move, for example --co-runner 65536,20"
    return PtxwcetError(Diagnostic("PW323", message, help=example))


def _sms(machine: Machine, wishes: GridWishes) -> int:
    """The SMs that a launch has. Raises PtxwcetError (PW319) for more than the machine has."""
    assert machine.occupancy is not None
    there = machine.occupancy.sms.value
    if wishes.sms is not None and wishes.sms > there:
        plural = "" if there == 1 else "s"
        raise PtxwcetError(
            Diagnostic(
                "PW319",
                f"--sms {wishes.sms}: machine {machine.name} has {there} SM{plural}",
                help="name a machine that has so many (ptxwcet machine), or write a file that "
                f'extends this one: extends = "{machine.name}", and sms in [occupancy]',
            )
        )
    return there if wishes.sms is None else wishes.sms


_CLUSTER = "the blocks of a cluster start together and may wait for one another"
_COOPERATIVE = "the blocks of a cooperative launch wait for one another"
_CHILDREN = "a launch from the device shares the SMs with its own children"
_REASONS = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"\.(reqnctapercluster|explicitcluster|maxclusterrank|blocksareclusters)", _CLUSTER),
        (r"barrier\.cluster\b.*|mapa\b.*|getctarank\b.*|clusterlaunchcontrol\b.*", _CLUSTER),
        (r"%(cluster_\w+|n?clusterid|is_explicit_cluster)(\.\w)?", _CLUSTER),
        (r"%envreg[12]", _COOPERATIVE),  # where cooperative groups find the barrier of the grid
        (r"cudaLaunchDevice\w*|cudaGetParameterBuffer\w*|__cudaCDP2\w*", _CHILDREN),
    )
)


def grid_refusal(kernel: Kernel) -> Refusal | None:
    """Why the theorems say nothing of launches of this kernel; None where they may.

    Calls must have been inlined. Cost: linear in the kernel.
    """
    names = dict.fromkeys(directive.keyword for directive in kernel.performance)
    for instruction in kernel.instructions:
        names[instruction.mnemonic] = None
        names.update(dict.fromkeys(instruction.names))  # special registers and functions among them
    for name in (one for one in names if one not in kernel.registers):
        for pattern, reason in _REASONS:
            if pattern.fullmatch(name):
                return Refusal(f"the kernel uses {name}: {reason}; its grid is not bounded")
    return None
