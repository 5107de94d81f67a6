"""Path analysis against enumeration on random control flow: is a bound ever below the truth?

    python benchmarks/random_cfgs.py --kernels 100000 --processes 2 --out docs/experiments/random-cfgs.md

Each kernel (:mod:`cfg_kernels`) is bounded for one warp and for a block of two to four, and all its
executions are enumerated (:mod:`cfg_oracle`). The truth of one warp is the largest L; that of a
block is SAFE of its executions: in every world and every section, the largest over warps w of L_w
plus what the other warps take from it at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from cfg_kernels import RandomKernel, random_kernel
from cfg_oracle import Executions, TooMany, Unresolved, WarpRun

from ptxwcet.flow.facts import Launch
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile
from ptxwcet.warp.program import Scoreboard

MOST_EXECUTIONS = 1000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one kernel. A bound or truth is 0 where there is none.

    ``refusal`` is the code of the refusal, "too many" where the executions were not enumerated.
    ``bounds`` and ``truths`` are of one warp and of a block.
    """

    seed: int
    features: frozenset[str]
    refusal: str = ""
    executions: int = 0
    bounds: tuple[int, int] = (0, 0)
    truths: tuple[int, int] = (0, 0)

    @property
    def is_sound(self) -> bool:
        """Whether no bound is below the truth."""
        return all(b >= t for b, t in zip(self.bounds, self.truths, strict=True))


@cache
def machine_variant(number: int) -> Machine:
    """One of the machines that kernels are bounded on: hazards, bubbles, returns, latencies."""
    latency = (200, 30, 8)[number // 8 % 3]
    return replace(
        load_machine("orin-ecrts2025", latency),
        scoreboard=(Scoreboard.RAW, Scoreboard.RAW_WAW)[number % 2],
        taken_branch_bubble_cycles=number // 2 % 2,
        issues_return=bool(number // 4 % 2),
    )


def check_seed(seed: int, most: int = MOST_EXECUTIONS) -> Verdict:
    """Bounds and truths of a seed's kernel."""
    case = random_kernel(seed)
    kernel = parse_module(SourceFile(f"random{seed}.ptx", case.text)).kernels[0]
    machine = machine_variant(seed)
    nothing = Verdict(seed, case.features)
    try:
        bounds = (
            bound(kernel, case, machine, case.lanes),
            bound(kernel, case, machine, 32 * case.warps),
        )
    except PtxwcetError as refused:
        return replace(nothing, refusal=refused.diagnostics[0].code)
    try:
        count, truths = truth(kernel, case, machine, most)
    except TooMany:
        return replace(nothing, refusal="too many")
    return replace(nothing, executions=count, bounds=bounds, truths=truths)


def bound(kernel: Kernel, case: RandomKernel, machine: Machine, threads: int) -> int:
    """SAFE of a block of so many threads. Raises PtxwcetError."""
    launch = Launch((threads, 1, 1), None, case.parameters)
    return analyse_kernel(kernel, launch, machine, case.loop_bounds).worst.bound.cycles


def truth(
    kernel: Kernel, case: RandomKernel, machine: Machine, most: int
) -> tuple[int, tuple[int, int]]:
    """How many executions there are, and the truths of one warp and of a block. Raises TooMany."""
    found = Executions(kernel, machine, case.data_loops)
    worlds: list[Mapping[str, int]] = [{}]
    count = alone = together = 0
    while worlds:
        world = worlds.pop()
        try:
            warps = executed_warps(found, case, world, most - count)
        except Unresolved as unresolved:
            key = unresolved.key
            worlds += [{**world, key: value} for value in case.domains.get(key, (0, 1))]
            continue
        count += len(warps[0])
        alone = max(alone, max(run.cycles for run in warps[0]))
        together = max(together, block_cycles(warps))
    return count, (alone, together)


def executed_warps(
    found: Executions, case: RandomKernel, world: Mapping[str, int], most: int
) -> list[list[WarpRun]]:
    """The executions of each warp in a world; those of alike warps once."""
    warps = [found.of_warp(0, case.lanes, world, most)]
    for warp in range(1, case.warps):
        apart = "warpid" in case.features
        warps.append(found.of_warp(warp, case.lanes, world, most) if apart else warps[0])
    return warps


def block_cycles(warps: Sequence[Sequence[WarpRun]]) -> int:
    """SAFE of a block whose warps each take any of their executions, section by section."""
    total = 0
    sections = max(len(run.sections) for runs in warps for run in runs)
    for number in range(sections):
        runs = [
            {run.sections[number] for run in each if number < len(run.sections)} for each in warps
        ]
        longest = 0
        for warp, own in enumerate(runs):
            lengths: dict[int, int] = {}
            for one in own:
                lengths[one.units] = max(lengths.get(one.units, 0), one.cycles)
            for units, cycles in lengths.items():
                taken = sum(
                    max((one.interference(units) for one in other), default=0)
                    for index, other in enumerate(runs)
                    if index != warp
                )
                longest = max(longest, cycles + taken)
        total += longest
    return total
