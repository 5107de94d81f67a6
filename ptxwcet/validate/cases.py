"""Defines a case, a small workload and its machine, with its runs and searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

from ptxwcet.bounds.analysis import BlockAnalysis, analyse_block
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import FunctionalUnit, Machine, MemoryRules
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import DEFAULT_LIMIT, Simulator
from ptxwcet.simulator.policies import NO_JITTER, Jitter, Policy, mix
from ptxwcet.support.records import dataclass
from ptxwcet.timing.demand import issue_count, used_units
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Node,
    PartialBarrier,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
    unroll,
)


@dataclass(frozen=True)
class Case:
    """A workload on a number of sub-cores; ``name`` identifies it for reproduction.

    ``servers`` of a unit, if not one per sub-core; it may name units that the workload does not
    use. ``memory_cycles``: in which the memory of the GPU serves 1024 sectors.
    """

    name: str
    workload: BlockWorkload
    schedulers: int = 1
    servers: tuple[tuple[str, int], ...] = ()
    memory_cycles: int = 0

    @property
    def configuration(self) -> SmConfiguration:
        """The simulated SM."""
        return SmConfiguration(self.schedulers, dict(self.servers), self.memory_cycles)

    @property
    def instructions(self) -> int:
        """The instructions that all warps issue together. Cost: linear in the program trees."""
        return sum(
            len(c.warps) * issue_count(c.program.body) for c in self.workload.classes if c.warps
        )

    def analyse(self) -> BlockAnalysis:
        """Returns the block analysis that bounds start from. Raises PtxwcetError as it does."""
        units = frozenset[str]().union(*(used_units(c.program.body) for c in self.workload.classes))
        machine = machine_with(units, self.schedulers, self.servers, self.memory_cycles)
        return analyse_block(self.workload, machine)


@lru_cache(maxsize=256)
def machine_with(
    units: frozenset[str],
    schedulers: int = 1,
    servers: tuple[tuple[str, int], ...] = (),
    memory_cycles: int = 0,
) -> Machine:
    """Returns an idealised machine with these units, one per scheduler unless stated otherwise.

    It times no opcode. Its ledger is the default machine's, where every assumption is true by
    definition.
    """
    counts = dict.fromkeys(units, schedulers) | {
        unit: count for unit, count in servers if unit in units
    }
    return replace(
        _default_machine(),
        name="synthetic",
        description="units of a synthetic workload",
        schedulers_per_sm=schedulers,
        units=tuple(FunctionalUnit(unit, counts[unit]) for unit in sorted(units)),
        timings=MappingProxyType({}),
        memory=_memory(memory_cycles) if memory_cycles else None,
    )


@lru_cache(maxsize=1)
def _default_machine() -> Machine:
    return load_machine()


def _memory(cycles: int) -> MemoryRules:
    """Returns a memory that takes ``cycles`` cycles for 1024 sectors."""
    memory = load_machine("orin-ecrts2025-memory").memory
    assert memory is not None
    each = replace(memory.server_cycles_per_1024_sectors, value=cycles)
    return replace(memory, server_cycles_per_1024_sectors=each)


def deal(programs: Sequence[tuple[Node, ...]], scoreboard: Scoreboard) -> BlockWorkload:
    """Returns the block whose warp ``w`` executes ``programs[w]``, one class per program."""
    classes: dict[tuple[Node, ...], list[int]] = {}
    for warp, program in enumerate(programs):
        classes.setdefault(program, []).append(warp)
    return BlockWorkload(
        tuple(WarpClass(WarpProgram(body), tuple(warps)) for body, warps in classes.items()),
        scoreboard,
    )


def unrolled(workload: BlockWorkload) -> BlockWorkload:
    """Returns the workload without loops: the reference for their closed forms.

    Raises ValueError unless every warp has a single path. Cost: linear in the executed length.
    """
    return BlockWorkload(
        tuple(
            WarpClass(WarpProgram(tuple(unroll(c.program.body))), c.warps) for c in workload.classes
        ),
        workload.scoreboard,
    )


def shortened(workload: BlockWorkload, jitter: Jitter) -> BlockWorkload:
    """Returns the workload with the simulator's timings under ``jitter``, loops unrolled.

    Raises ValueError unless every warp has a single path. Cost: linear
    in the executed length.
    """
    programs: list[tuple[Node, ...]] = [()] * workload.warp_count
    for warp_class in workload.classes:
        for warp in warp_class.warps:
            path = enumerate(unroll(warp_class.program.body))
            programs[warp] = tuple(_shorten(node, warp, n, jitter) for n, node in path)
    return deal(programs, workload.scoreboard)


def _shorten(
    node: TimedInstruction | Barrier | PartialBarrier, warp: int, index: int, jitter: Jitter
) -> Node:
    """Returns the node with its times shortened by the formula of :class:`Jitter`."""
    if not isinstance(node, TimedInstruction):
        inner = _shorten(node.instruction, warp, index, jitter)
        assert isinstance(inner, TimedInstruction)
        return replace(node, instruction=inner)
    initiation, latency = node.initiation_cycles, node.latency_cycles
    most = min(initiation - 1, initiation * jitter.percent // 100)
    return replace(
        node,
        initiation_cycles=initiation - mix(jitter.seed, 2 * warp, index) % (most + 1),
        latency_cycles=latency
        - mix(jitter.seed, 2 * warp + 1, index) % (latency * jitter.percent // 100 + 1),
    )


# --- plans ----------------------------------------------------------------------------------------

DETERMINISTIC = tuple(policy for policy in Policy if policy is not Policy.RANDOM)
"""The policies whose run is the same for every seed."""


@dataclass(frozen=True, slots=True)
class Run:
    """The parameters of a run: all that :meth:`Simulator.run` needs to repeat it."""

    policy: Policy
    seed: int = 0
    jitter: Jitter = NO_JITTER

    def __str__(self) -> str:
        text: str = self.policy.value
        if self.policy is Policy.RANDOM:
            text += f", seed {self.seed}"
        if self.jitter.percent:
            text += f", jitter {self.jitter.percent} % seed {self.jitter.seed}"
        return text

    def cycles(
        self, simulator: Simulator, *, skip_repeats: bool = True, limit: int = DEFAULT_LIMIT
    ) -> int:
        """Returns the length of the run. Raises PtxwcetError as the simulator does."""
        return simulator.cycles(
            self.policy,
            seed=self.seed,
            jitter=self.jitter,
            skip_repeats=skip_repeats,
            limit=limit,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a case: ``most_states`` 0 leaves out the exhaustive search.

    ``jittered`` are compared with upper bounds only; with ``search_jittered`` the timings of the
    first of them are searched exhaustively too. ``schedules`` are tried by the adversary.
    ``most_enumerated``: largest number of schedules that are run one by one. ``referenced`` runs
    are compared with the plain reference, instruction by instruction. ``most_referenced`` and
    ``most_unrolled``: longest case, in instructions, that the reference runs and whose loops are
    unrolled.
    """

    runs: tuple[Run, ...]
    jittered: tuple[Run, ...] = ()
    most_states: int = 0
    search_jittered: bool = False
    schedules: int = 0
    most_enumerated: int = 0
    referenced: tuple[Run, ...] = ()
    most_referenced: int = 150
    most_unrolled: int = 1000


def standard_plan(number: int, *, most_states: int = 0) -> Plan:
    """Returns every policy, two random seeds and four jittered runs; seeds differ by case.

    One case of eight meets the adversary, another one the plain reference, a third, if tiny, the
    enumeration of its schedules; two, if tiny, are searched with shortened timings too.
    """
    jittered = (
        Run(Policy.LRR, 0, Jitter(25, number)),
        Run(Policy.GTO, 0, Jitter(50, number)),
        Run(Policy.YOUNGEST, 0, Jitter(75, number)),
        Run(Policy.RANDOM, number, Jitter(100, number)),
    )
    runs = (
        *map(Run, DETERMINISTIC),
        Run(Policy.RANDOM, 2 * number),
        Run(Policy.RANDOM, 2 * number + 1),
    )
    turn = number // 16 % 8  # families alternate by the lowest digits
    referenced = (runs[number % len(runs)], jittered[number % len(jittered)])
    first = number % len(jittered)
    return Plan(
        runs,
        (*jittered[first:], *jittered[:first]),
        most_states,
        search_jittered=turn in (3, 4),
        schedules=60 if turn == 0 else 0,
        most_enumerated=1000 if turn == 1 else 0,
        referenced=referenced if turn == 2 else (),
    )
