"""Executions of whole launches against the bound of a launch, and all that lies between the two.

A random launch (:mod:`launch_kernels`) is bounded as a user would bound it. Then it is executed,
and what was executed is held against the answer: blocks are counted by what they do, each kind of
blocks must hold as many as it says, and runs of the grid on the grid simulator must be no longer
than the bound for their number of resident blocks.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from launch_kernels import RandomLaunch, facts_file, random_launch

from ptxwcet.bounds.analysed import AnalysedPiece, KernelAnalysis
from ptxwcet.bounds.grid import Dispatch, bound_grid
from ptxwcet.bounds.grid_plan import TracedKernel, build_grid_workload
from ptxwcet.bounds.launch_bound import LaunchBound, kinds_of_blocks
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.claims import AssumptionState, Refusal
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.run.study import prepare_executed
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.executed_paths import LaunchPaths, executed_warps
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.graph.dominance import compute_postdominators
from ptxwcet.flow.walk.path import Path as WarpPath
from ptxwcet.flow.walk.path import PathLoop, PathRepeat, PathUnordered, Visit
from ptxwcet.ir.kernel import Module
from ptxwcet.machine.assumptions import BREADTH_FIRST
from ptxwcet.opened.launching import SaidByFile
from ptxwcet.opened.opening import RefusedKernel, open_request
from ptxwcet.opened.request import Request
from ptxwcet.opened.whole_launch import Wishes, with_launch_bound
from ptxwcet.pipeline import analyse_prepared
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.grid import (
    GridOptions,
    GridShape,
    GridWorkload,
    TracedLoop,
    TracedProgram,
)
from ptxwcet.simulator.grid_engine import simulate_grid
from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.timing.launch_costs import LaunchCosts
from ptxwcet.validate.cases import Run
from ptxwcet.validate.containment import find_departure
from ptxwcet.warp.program import TimedInstruction

MACHINES = ("orin-ecrts2025-16sm", "orin-ecrts2025-16sm", "rtx3070-gpgpusim")
GAPS = "a launcher with gaps"
_GAPS_FILE = """schema = 1
extends = "orin-ecrts2025"
name = "gaps"
description = "a launcher with gaps"
[sources]
test = "a test"
[occupancy]
sms = { value = 6, evidence = "assumed", source = "test" }
[dispatch]
gap_cycles = { value = GAP, evidence = "assumed", source = "test" }
launch_overhead_cycles = { value = 100, evidence = "assumed", source = "test" }
"""
SMS = (1, 2, 3, 5)
MOST_INSTRUCTIONS = 300_000


@dataclass
class Found:
    """What came of a launch: the code of its refusal, or what was compared, and what was wrong."""

    code: str = ""
    launches: int = 0
    blocks: int = 0
    runs: int = 0
    counted: int = 0
    exact: int = 0
    closest: float = 0.0
    left_out: int = 0
    features: frozenset[str] = frozenset()
    violations: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Executed:
    """What a launch has executed, and what its kinds of blocks ask of a grid."""

    workload: GridWorkload
    groups: Mapping[tuple[int, ...], int]
    paths: LaunchPaths
    work: Mapping[tuple[int, ...], int]


def attack(seed: int) -> Found:
    """The launch of a seed, bounded, executed, counted and run."""
    machines = (*MACHINES, GAPS)
    return attack_launch(random_launch(seed), machines[seed % len(machines)])


def attack_launch(one: RandomLaunch, machine: str) -> Found:
    """The same for a launch that is given."""
    found = Found(features=one.features)
    with tempfile.TemporaryDirectory() as folder:
        request = request_of(one, machine, Path(folder))
        (answer,) = bound_file(request).kernels
        opened = open_request(request)
    if isinstance(answer, RefusedKernel):
        found.code = answer.diagnostics[0].code
        return found
    if answer.launch_bound is None or isinstance(answer.launch_bound, Refusal):
        found.code = "refused"
        return found
    for launch in one.executions():
        executed = execute_launch(answer, opened.module, launch)
        if executed is None:
            found.left_out += 1
            continue
        found.launches += 1
        found.blocks += one.blocks
        check_counts(answer, executed, found)
        check_runs(
            answer, (opened.module, opened.said_by_file), executed, found, one.seed, one.registers
        )
    return found


def attack_analysed(
    analysis: KernelAnalysis, module: Module, launch: EmulatedLaunch, seed: int
) -> Found:
    """The same for a kernel that is analysed already, with a launch of it."""
    found = Found()
    launched = SaidByFile(dynamic_shared_bytes=launch.dynamic_shared)
    answer = with_launch_bound(analysis, module, launched, Wishes(Request("k.ptx")))
    if answer.launch_bound is None or isinstance(answer.launch_bound, Refusal):
        found.code = "refused"
        return found
    executed = execute_launch(answer, module, launch)
    if executed is None:
        found.left_out += 1
        return found
    found.launches, found.blocks = 1, executed.workload.block_count
    check_counts(answer, executed, found)
    check_runs(answer, (module, launched), executed, found, seed)
    return found


def request_of(one: RandomLaunch, machine: str, folder: Path) -> Request:
    """What a user would ask."""
    facts = launch_file = None
    if one.facts:
        digest = hashlib.sha256(one.text.encode()).hexdigest()
        (folder / "facts.toml").write_text(facts_file(digest, one.facts))
        facts = str(folder / "facts.toml")
    if machine == GAPS:
        machine = str(folder / "gaps.toml")
        (folder / "gaps.toml").write_text(_GAPS_FILE.replace("GAP", str(1 + one.seed % 40)))
    parameters: tuple[str, ...] = one.parameters
    if one.dynamic_shared is not None and len(one.values) == 1:
        launch_file = str(folder / "launch.toml")
        (folder / "launch.toml").write_text(_launch_text(one))
        parameters = ()
    return Request(
        "k.ptx",
        (),
        None if launch_file else "x".join(map(str, one.block)),
        None if launch_file else "x".join(map(str, one.grid)),
        parameters,
        loop_bounds=one.loop_bounds,
        machine=machine,
        launch_file=launch_file,
        facts_file=facts,
        text=one.text,
        gpu=GridWishes(registers=one.registers),
    )


def _launch_text(one: RandomLaunch) -> str:
    ((n, m),) = one.values
    return (
        f'kernel = "k"\ngrid = {list(one.grid)}\nblock = {list(one.block)}\n'
        f"dynamic_shared_bytes = {one.dynamic_shared}\n[arguments]\n"
        'data = { shape = 1024, dtype = "uint32", init = "zeros" }\n'
        f"n = {n}\nm = {m}\n"
    )


def execute_launch(
    analysis: KernelAnalysis, module: Module, launch: EmulatedLaunch
) -> Executed | None:
    """What the emulator executes; None for a run with a finding, or a long one."""
    try:
        options = EmulatorOptions(MOST_INSTRUCTIONS, record_paths=True)
        done = execute(analysis.kernel, module, launch, options=options)
    except PtxwcetError:
        return None
    if done.findings or not done.is_complete:
        return None
    cfg = build_cfg(done.kernel)
    meetings = compute_postdominators(cfg).immediate
    costs = LaunchCosts(analysis.kernel, analysis.launch, analysis.machine)
    traced = TracedKernel(done.kernel, cfg, costs, analysis.machine.scoreboard)
    paths = executed_warps(done, cfg, meetings)
    workload = build_grid_workload(paths, traced)
    each = [charged(program) for program in workload.programs]
    groups = Counter(tuple(map(int, row)) for row in paths.of)
    work = {group: sum(each[number] for number in group) for group in groups}
    analysed = analyse_prepared(prepare_executed(done, analysis.launch, analysis.machine))
    check_executed_kinds(analysed, groups, work)
    return Executed(workload, groups, paths, work)


def check_executed_kinds(
    analysed: KernelAnalysis,
    groups: Mapping[tuple[int, ...], int],
    work: Mapping[tuple[int, ...], int],
) -> None:
    """The product's work of what was executed is that of the instructions one by one."""
    grid = analysed.launch.grid
    assert grid is not None
    kinds = kinds_of_blocks([(p.analysis, p.count) for p in analysed.pieces], grid)
    theirs = sorted((kind.work_cycles, kind.count) for kind in kinds)
    mine: Counter[int] = Counter()
    for group, count in groups.items():
        mine[work[group]] += count
    merged: Counter[int] = Counter()
    for cycles, count in theirs:
        merged[cycles] += count
    assert merged == mine, (merged, mine)


def charged(program: TracedProgram) -> int:
    """The initiations of all instructions of a warp."""
    total = 0
    for node in program:
        if isinstance(node, TracedLoop):
            total += node.count * charged(node.body)
            continue
        for step in node.steps:
            one = step if isinstance(step, TimedInstruction) else step.instruction
            total += one.initiation_cycles
    return total


# --- counts ---------------------------------------------------------------------------------------


def check_counts(analysis: KernelAnalysis, executed: Executed, found: Found) -> None:
    """Each executed block belongs to a piece that holds its paths, and pieces have room for all."""
    pieces = analysis.pieces
    launched = analysis.launch_bound
    assert isinstance(launched, LaunchBound)
    blocks = sum(executed.groups.values())
    if launched.blocks != blocks:
        found.violations.append(f"{launched.blocks} blocks bounded, {blocks} executed")
    done = sum(executed.work[group] * count for group, count in executed.groups.items())
    allowed = sum(kind.count * kind.work_cycles for kind in launched.kinds)
    if allowed < done:
        found.violations.append(f"work {allowed} bounded, {done} executed")
    holding = {
        group: [k for k, piece in enumerate(pieces) if holds(piece, group, executed.paths)]
        for group in executed.groups
    }
    if not all(holding.values()):
        found.violations.append("an executed block is in no piece")
        return
    if any(piece.count is None for piece in pieces):
        if len(launched.kinds) != 1:
            found.violations.append("pieces without counts make several kinds")
        return
    found.counted += 1
    room = [piece.count or 0 for piece in pieces]
    if not fits(executed.groups, holding, room):
        groups = [(count, holding[group]) for group, count in executed.groups.items()]
        found.violations.append(f"counts {room} do not fit {groups}")
    exact = all(is_settled(path.nodes) for piece in pieces for path in piece.paths.warps)
    if exact and not analysis.facts.totals:
        found.exact += 1
        if allowed != done:
            found.violations.append(f"exact paths: work {allowed} bounded, {done} executed")


def is_settled(nodes: WarpPath) -> bool:
    """Whether every run executes just this (a count that grows is timed by a larger one)."""
    for node in nodes:
        match node:
            case Visit():
                pass
            case PathLoop(body=body):
                if not is_settled(body):
                    return False
            case PathRepeat(count, least, body, step=0):
                if count != least or not is_settled(body):
                    return False
            case PathUnordered(first, second):
                if not is_settled(first + second):
                    return False
            case _:
                return False
    return True


def holds(piece: AnalysedPiece, group: Sequence[int], paths: LaunchPaths) -> bool:
    """Whether all warps of a block have executed what a piece allows."""
    of_warp = {warp: path.nodes for path in piece.paths.warps for warp in path.warps}
    pairs = {(of_warp[warp], number) for warp, number in enumerate(group)}
    return all(find_departure(nodes, paths.paths[number]) is None for nodes, number in pairs)


def fits(
    groups: Mapping[tuple[int, ...], int],
    holding: Mapping[tuple[int, ...], Sequence[int]],
    room: Sequence[int],
) -> bool:
    """Whether all blocks find a place, by Hall's theorem: no set of groups lacks room."""
    kinds = [(count, frozenset(holding[group])) for group, count in groups.items()]
    sets = {one for _, one in kinds}
    unions = set(sets)
    while True:  # unions of what groups may use; few, for few groups overlap
        more = {a | b for a in unions for b in sets} - unions
        if not more or len(unions) > 500:
            break
        unions |= more
    return all(
        sum(count for count, one in kinds if one <= union) <= sum(room[k] for k in union)
        for union in unions
    )


# --- runs -----------------------------------------------------------------------------------------


def check_runs(
    analysis: KernelAnalysis,
    opened: tuple[Module, SaidByFile],
    executed: Executed,
    found: Found,
    seed: int,
    registers: int | None = None,
) -> None:
    """Runs of the grid on several SMs, with each number of resident blocks that is possible."""
    module, launched = opened
    for sms in SMS[: 2 + seed % 3]:
        wishes = Wishes(Request("k.ptx", gpu=GridWishes(sms=sms, registers=registers)))
        bound = with_launch_bound(analysis, module, launched, wishes).launch_bound
        assert isinstance(bound, LaunchBound)
        if bound.sms != sms:
            found.violations.append(f"bounded for {bound.sms} SMs, not {sms}")
        most = min(bound.residency.most, -(-executed.workload.block_count // sms))
        least = min(bound.residency.least, most)
        for resident in sorted({least, (least + most) // 2, most}):
            check_resident(analysis, executed, bound, found, sms, resident, seed)


def check_resident(
    analysis: KernelAnalysis,
    executed: Executed,
    bound: LaunchBound,
    found: Found,
    sms: int,
    resident: int,
    seed: int,
) -> None:
    """Runs with one number of resident blocks, against the bound for just this number."""
    rules = analysis.machine.dispatch
    assert rules is not None
    delay, gap = rules.delay_cycles.value, rules.gap_cycles.value
    in_turn = analysis.machine.assumption(BREADTH_FIRST).state is not AssumptionState.DOUBTFUL
    # the simulator deals blocks out in turn, whatever the machine says of its dispatch
    dispatch = Dispatch(sms, resident, delay, gap, in_turn)
    sharp = bound_grid(bound.kinds, dispatch).cycles
    claimed = bound.claim.cycles - bound.overhead_cycles
    if sharp > claimed:
        found.violations.append(f"{resident} resident: {sharp}, the launch is bounded by {claimed}")
    without = bound_grid(bound.kinds, Dispatch(sms, resident, 0, gap, True)).cycles
    for number, run in enumerate(runs_of(seed)):
        workload = in_order(executed, number, seed)
        cycles = length(analysis, workload, sms, resident, gap, run)
        found.runs += 1
        found.closest = max(found.closest, cycles / without)
        if cycles > without:
            found.violations.append(f"{cycles} > {without}: {run}, {sms} SMs, {resident} resident")


def in_order(executed: Executed, number: int, seed: int) -> GridWorkload:
    """The blocks in the order of their indices, with the most work last, or by chance."""
    workload = executed.workload
    if number % 3 == 0:
        return workload
    work = [executed.work[tuple(map(int, row))] for row in workload.chosen]
    order = np.argsort(work, kind="stable")
    if number % 3 == 2:
        order = np.random.default_rng(seed + number).permutation(len(work))
    return replace(workload, chosen=workload.chosen[order])


def runs_of(seed: int) -> tuple[Run, ...]:
    """Policies, with jitter and without."""
    return (
        Run(Policy.LRR),
        Run(Policy.GTO),
        Run(Policy.YOUNGEST),
        Run(Policy.RANDOM, seed),
        Run((Policy.LRR, Policy.GTO, Policy.OLDEST)[seed % 3], 0, Jitter(25, seed)),
        Run(Policy.RANDOM, seed, Jitter(60, seed)),
    )


def length(
    analysis: KernelAnalysis, workload: GridWorkload, sms: int, resident: int, gap: int, run: Run
) -> int:
    """The length of a run of a grid."""
    shape = GridShape(sms, resident, SmConfiguration.of(analysis.machine), gap)
    return simulate_grid(workload, shape, GridOptions(run.policy, run.seed, run.jitter)).cycles
