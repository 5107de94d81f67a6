"""Bounds a whole launch: block counts by executed paths, residency, dispatch, claim.

The proofs are in docs/methods/grid.md; :mod:`ptxwcet.bounds.grid` has the forms.

The theorems hold for blocks that share nothing but an SM: no block waits for another, and each
starts as soon as a slot is free. Other kernels are recognised by the features that they name.
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
"""The name of the method that bounds launches."""

_CITATION = Citation("docs/methods/grid.md", "G1 to G3")


@dataclass(frozen=True, slots=True)
class LaunchBound:
    """An upper bound on a launch: ``claim.cycles``, the parts of ``bound`` and the overhead.

    ``kinds`` are its blocks. ``least_cycles`` is the smallest bound for a possible number of
    resident blocks: stating the residency may reduce the bound to it. ``block`` has a block's
    requirements.
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
        """The number of blocks of the grid."""
        return sum(kind.count for kind in self.kinds)


def count_blocks(pieces: Sequence[BlockPaths], launch: Launch) -> dict[tuple[WarpPath, ...], int]:
    """Returns the number of blocks that execute each piece, by its warps; empty if unknown.

    In an axis of the grid without influence, index 0 stands for all. The numbers are unknown
    without a grid, and for ranges of parameters, each value of which may distribute the blocks
    differently.
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
    """Returns the kinds of blocks of a grid, from analyses with the number of blocks of each.

    If some number is unknown, all blocks have the largest of every figure. Raises PtxwcetError
    (PW404). Cost: a profile per class and section.
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
    """The rules of a launch on a GPU that its bound depends on, in addition to the blocks.

    ``dispatch`` has the largest possible number of resident blocks.
    """

    machine: Machine
    dispatch: Dispatch
    residency: Residency
    overhead_cycles: int
    assumptions: tuple[Assumption, ...]

    def of_blocks_alike(self, kind: BlockKind) -> int:
        """Returns the bound of a launch of equal blocks, with overhead, in parts of a cycle.

        Figures may be affine (:func:`ptxwcet.bounds.grid.affine_bound`;
        ``dispatch.memory.divisor``).
        """
        return affine_bound(kind, self.dispatch, self.residency.least, self.overhead_cycles)

    def claim(self, cycles: int, assumptions: Iterable[Assumption]) -> TimingClaim:
        """Returns the claim of a bound of launches whose blocks have the given ``assumptions``."""
        in_turn = self.dispatch.breadth_first
        keys = ["work-conserving", *(key for key in EXECUTION if key != ALONE)]
        keys += [key for key in OF_LAUNCHES if in_turn or key != BREADTH_FIRST]
        rests_on = (*dict.fromkeys(assumptions), *self.assumptions)
        stated = TimingClaim(cycles, Guarantee.SAFE_BOUND, METHOD, rests_on, (_CITATION,))
        return claim_on(self.machine, keys, stated)


def launch_rules(
    block: LaunchedBlock, machine: Machine, wishes: GridWishes
) -> LaunchRules | Refusal:
    """Returns the rules for launches of a kernel, or a Refusal if they cannot be bounded.

    Raises PtxwcetError for impossible launches: PW316 (a block that no SM holds), PW319 (more SMs
    than the machine has), PW323 (co-runners), PW326 (arrays in persisting L2), PW426. Cost: linear
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
    """Bounds a launch from the bounds of its blocks; returns a Refusal if impossible.

    ``footprints`` are computed where the machine file has claims on its cache. Raises PtxwcetError
    as :func:`launch_rules` does. Cost: a profile per class and section, whatever the grid.
    """
    rules = launch_rules(block, machine, wishes)
    if isinstance(rules, Refusal):
        return rules
    try:
        kinds = kinds_of_blocks(pieces, grid)
    except PtxwcetError as error:
        return Refusal(error.diagnostics[0].message)
    residency, overhead = rules.residency, rules.overhead_cycles
    dispatch, assumptions = rules.dispatch, [a for own, _ in pieces for a in own.assumptions]
    if footprints is not None and any(map(machine.states, CLAIMS.keys() - {PATH_KEEPS_UP})):
        # Imported here because few machine files have claims.
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
    """Returns the memory of the GPU, with its co-runners. Raises PtxwcetError (PW323)."""
    alone = memory_alone(machine)
    if wishes.co_runner is None:
        return alone
    each = alone.cycles_per_1024_sectors
    fields = re.fullmatch(r"(\d{1,15}) *, *(\d{1,9}(?:\.\d{1,9})?)", wishes.co_runner.strip())
    if fields is None or not each:
        why = "is not BYTES,GB/S" if fields is None else f": {machine.name} has no memory to share"
        raise _no_co_runner(f"--co-runner {wishes.co_runner} {why}")
    sectors = Fraction(fields[2]) * 10**9 / SECTOR  # per second
    rate = sectors * each / 1024 / (machine.clock_mhz * 10**6)
    if rate >= 1:
        raise _no_co_runner(f"--co-runner {wishes.co_runner} leaves the memory no time")
    return MemoryServer(each, CoRunner(alone.busy(-(-int(fields[1]) // SECTOR)), rate))


def _no_co_runner(message: str) -> PtxwcetError:
    example = "say what a regulator lets others move, for example --co-runner 65536,20"
    return PtxwcetError(Diagnostic("PW323", message, help=example))


def _sms(machine: Machine, wishes: GridWishes) -> int:
    """Returns the SMs of a launch. Raises PtxwcetError (PW319) for more than there are."""
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
        (r"%envreg[12]", _COOPERATIVE),  # where cooperative groups keep the barrier of the grid
        (r"cudaLaunchDevice\w*|cudaGetParameterBuffer\w*|__cudaCDP2\w*", _CHILDREN),
    )
)


def grid_refusal(kernel: Kernel) -> Refusal | None:
    """Returns why the theorems exclude launches of this kernel; None if they do not.

    Calls must have been inlined. Cost: linear in the kernel.
    """
    names = dict.fromkeys(directive.keyword for directive in kernel.performance)
    for instruction in kernel.instructions:
        names[instruction.mnemonic] = None
        names.update(dict.fromkeys(instruction.names))  # special registers and functions, too
    for name in (n for n in names if n not in kernel.registers):
        for pattern, reason in _REASONS:
            if pattern.fullmatch(name):
                return Refusal(f"the kernel uses {name}: {reason}; its grid is not bounded")
    return None
