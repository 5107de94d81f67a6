"""Prepares a block for all bound methods: its aligned barrier sections, each warp profiled.

Warps are dealt to the schedulers (sub-cores) of the SM round robin by their number. Warps of a
sub-core compete for its issue port and its units, warps of different sub-cores only for shared
units (docs/methods/safe.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import add
from typing import TYPE_CHECKING

from ptxwcet.claims import Assumption
from ptxwcet.machine.model import Machine, TimingMeaning
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.timing.attribution import (
    WarpAttribution,
    above,
    attribute_limited,
    limited_parts,
    spread,
)
from ptxwcet.timing.compilation import CompiledProgram, compile_body
from ptxwcet.timing.demand import (
    NO_PRICES,
    Prices,
    find_limits,
    heaviest_cycles,
    issue_count,
    least_over_prices,
    most_cycles,
    unit_demand,
    used_units,
)
from ptxwcet.timing.phases import WarpProfile, profile_warp
from ptxwcet.timing.slack import warp_slack
from ptxwcet.warp.alignment import AlignedSection, AlignedStep, align_sections
from ptxwcet.warp.program import (
    WARPGROUP,
    Barrier,
    BlockWorkload,
    Node,
    PartialBarrier,
    Scoreboard,
    TimedInstruction,
    WarpProgram,
)
from ptxwcet.warp.segments import NotStaticError, Section, cut_at_barriers, has_join
from ptxwcet.warp.structure import Structures, joining

if TYPE_CHECKING:
    from fractions import Fraction

    from ptxwcet.bounds.joins import JoinedSection, Standing


@dataclass(frozen=True)
class WarpSection:
    """The program of each warp of one class in one section, alone on a clean machine."""

    body: tuple[Node, ...]
    barrier: Barrier | PartialBarrier | None
    scoreboard: Scoreboard

    @cached_property
    def program(self) -> CompiledProgram:
        """The section, compiled without prices of tallies."""
        return compile_body(self.body, self.scoreboard)

    @cached_property
    def profile(self) -> WarpProfile:
        """L, E and phases of the section, whatever the limits of tallies. Raises PW404."""
        return profile_warp(self.body, self.scoreboard, program=self.program)

    @cached_property
    def limits(self) -> dict[str, int]:
        """The most tallies that a run of the section passes, by key."""
        return find_limits(self.body)

    @cached_property
    def length_cycles(self) -> int:
        """L, but at least until the end of the bubble of the barrier at its end.

        The next section starts on a clean machine: everything that delays it must have ended here.
        With tallies, no path through the section within their limits is longer.
        """
        return self._priced_length[0]

    @cached_property
    def _priced_length(self) -> tuple[int, Prices]:
        return least_over_prices(self.limits, self._relaxed_length)

    def _relaxed_length(self, prices: Prices) -> int:
        profile = profile_warp(self.body, self.scoreboard, prices) if prices else self.profile
        if self.barrier is None:
            return profile.isolated_cycles
        return max(profile.isolated_cycles, profile.issue_end_cycles)

    @cached_property
    def slack_cycles(self) -> int:
        """The slack, through the bubble of the barrier at its end. Raises PW404."""
        through_bubble = self.barrier is not None
        return warp_slack(
            self.body, self.scoreboard, through_bubble=through_bubble, program=self.program
        )

    @cached_property
    def attribution(self) -> WarpAttribution:
        """The instruction to which each cycle of ``length_cycles`` is charged. Raises PW404."""
        through_bubble = self.barrier is not None
        length = self._priced_length
        return attribute_limited(self.body, self.scoreboard, length, through_bubble=through_bubble)

    @cached_property
    def units(self) -> frozenset[str]:
        """The units that the section uses on some allowed path."""
        return frozenset(self.program.units)

    @cached_property
    def waited_registers(self) -> frozenset[str]:
        """The registers that some instruction waits for before it issues."""
        waited = {register for waits, *_ in self.program.steps for register in waits}
        return frozenset(map(self.program.registers.__getitem__, waited))

    @cached_property
    def left_cycles(self) -> dict[str, int]:
        """The longest latency of a writer of each written register, by register."""
        left: dict[int, int] = {}
        for _, writes, _, initiation, total, _, _ in self.program.steps:
            for register in writes:
                left[register] = max(total - initiation, left.get(register, 0))
        return {self.program.registers[register]: cycles for register, cycles in left.items()}

    @cached_property
    def issues(self) -> int:
        """The largest number of instructions issued."""
        return issue_count(self.body)

    @cached_property
    def unit_demand(self) -> dict[str, int]:
        """The largest total initiation on each unit, in cycles."""
        return dict(unit_demand(self.body))

    @cached_property
    def path_cycles(self) -> int:
        """The largest total of the cycles at the memory path of the SM."""
        return self._most(lambda i: i.path_cycles)[0]

    @cached_property
    def sectors(self) -> int:
        """The largest number of sectors requested from the memory of the GPU."""
        return self._most(lambda i: i.sectors)[0]

    @cached_property
    def outside_sectors(self) -> int:
        """The largest number of those sectors that are in no array in persisting L2."""
        return self._most(lambda i: i.sectors - i.kept_sectors)[0]

    @property
    def waits_behind_units(self) -> bool:
        """Whether a warp may also wait at servers after its units: its length does not include
        that.
        """
        return self.path_cycles > 0 or self.sectors > 0

    @cached_property
    def joins(self) -> bool:
        """Whether its warp executes products together with its warpgroup."""
        return bool(joining(self.body))

    def interference(self, units: frozenset[str]) -> int:
        """Returns the largest sum of ``c_w(j)`` over the section, for a warp w using ``units``.

        ``c_w(j)`` is ``init(j)`` on a unit that w uses, else 1, j's issue slot (model, section 2).
        For a product of a warpgroup each warp has its initiation, and a slot, which are separate.
        """
        sums = self._interferences
        if units not in sums:
            sums[units] = self._most(lambda i: _delay(i, units))[0]
        return sums[units]

    @cached_property
    def initiations(self) -> int:
        """The largest sum of initiations, on any units."""
        return self._most(lambda i: i.initiation_cycles)[0]

    def _most(self, weight: Callable[[TimedInstruction], int]) -> tuple[int, Prices]:
        """Returns the largest sum of a weight over a path, and prices that prove it."""
        body = self.body
        if not self.limits:
            return most_cycles(body, weight), NO_PRICES
        return least_over_prices(self.limits, lambda prices: most_cycles(body, weight, prices))

    def interference_by_origin(self, units: frozenset[str]) -> dict[int, int]:
        """Returns :meth:`interference` by the kernel's instruction."""
        return self._by_origin(lambda i: _delay(i, units))

    def demand_by_origin(self, units: frozenset[str]) -> dict[int, int]:
        """Returns :meth:`demand_on` by the kernel's instruction."""
        return self._by_origin(lambda i: i.initiation_cycles if i.unit in units else 0)

    def _by_origin(self, weight: Callable[[TimedInstruction], int]) -> dict[int, int]:
        """Returns :meth:`_most` by the kernel's instruction."""
        cycles, prices = self._most(weight)
        shares = heaviest_cycles(self.body, weight, above(prices))
        rest = cycles - sum(shares.values())
        if rest:
            parts = (heaviest_cycles(part, weight) for part in limited_parts(self.body, prices))
            weights = next(each for each in parts if any(each.values()))
            for origin, share in spread(rest, weights).items():
                shares[origin] = shares.get(origin, 0) + share
        return shares

    def demand_on(self, units: frozenset[str]) -> int:
        """Returns the largest total initiation on these units, in cycles."""
        return self._most(lambda i: i.initiation_cycles if i.unit in units else 0)[0]

    @cached_property
    def _interferences(self) -> dict[frozenset[str], int]:
        return {}


def _delay(instruction: TimedInstruction, units: frozenset[str]) -> int:
    """Returns ``c_w(j)`` of an instruction, for a warp that uses ``units``."""
    if instruction.unit not in units:
        return 1
    return instruction.initiation_cycles + instruction.joins


@dataclass(frozen=True, slots=True)
class SubCore:
    """A scheduler's warps, and the warps with which it shares units.

    ``warps`` counts the warps of each class. ``others`` has, for each other sub-core that shares a
    queue with it, the units concerned and the warps of each class there.
    """

    warps: tuple[int, ...]
    others: tuple[tuple[frozenset[str], tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class BlockSection:
    """One section of the block, run ``multiplicity`` times.

    ``warps`` has an entry for each class, None for a class whose warps have exited before.
    ``joined``: the proved bounds where warps synchronise at barriers of a part of the block.
    """

    multiplicity: int
    warps: tuple[WarpSection | None, ...]
    joined: JoinedSection | None = None

    @property
    def barrier(self) -> Barrier | PartialBarrier | None:
        """The barrier that ends it, None if all warps end with it."""
        return next((w.barrier for w in self.warps if w is not None and w.barrier), None)

    @property
    def joins(self) -> bool:
        """Whether warpgroups execute products in it."""
        return any(own is not None and own.joins for own in self.warps)

    def unhindered(self, index: int) -> int:
        """Returns the number of warps of a class that do not delay each other: a warpgroup."""
        own = self.warps[index]
        return WARPGROUP if own is not None and own.joins else 1

    @property
    def barrier_origin(self) -> int | None:
        """The index of the instruction that ends it, None if all warps end with it."""
        barrier = self.barrier
        return None if barrier is None else barrier.instruction.origin


@dataclass(frozen=True, slots=True)
class SectionAlternatives:
    """Alternative sequences of sections: the block runs one of them ``multiplicity`` times."""

    multiplicity: int
    alternatives: tuple[tuple[BlockStep, ...], ...]


BlockStep = BlockSection | SectionAlternatives


@dataclass(frozen=True)
class BlockAnalysis:
    """A block's workload on a machine, cut into sections.

    ``steps`` are the sections in order, with alternatives where the warps of the block choose
    together. Equal ``sub_cores`` are listed once. ``has_private_units``: each sub-core has exactly
    one server of its own of every unit that is used. ``is_nominal``: no timing is charged above the
    machine's own. ``assumptions`` are those of the workload itself.
    """

    workload: BlockWorkload
    machine: Machine
    steps: tuple[BlockStep, ...]
    sub_cores: tuple[SubCore, ...]
    has_private_units: bool
    is_nominal: bool
    assumptions: tuple[Assumption, ...] = ()

    @property
    def sections(self) -> tuple[BlockSection, ...]:
        """The sections in order, of a block without alternatives. Raises ValueError."""
        sections = tuple(step for step in self.steps if isinstance(step, BlockSection))
        if len(sections) < len(self.steps):
            raise ValueError("the block may go different ways between its barriers")
        return sections

    @cached_property
    def polling(self) -> Fraction | None:
        """The largest share of its cycles that the block's polls of mbarriers may take in addition
        to its work, in any section; None without mbarriers.
        """
        joined = (section.joined for section in every_section(self.steps))
        shares = (None if own is None else own.polling for own in joined)
        return max((share for share in shares if share is not None), default=None)

    @property
    def is_single_path(self) -> bool:
        """Whether every warp executes one known instruction sequence."""
        return all(c.program.is_single_path for c in self.workload.classes)

    @property
    def cores(self) -> tuple[tuple[int, ...], ...]:
        """The warps of each class on the sub-cores, each kind once."""
        return tuple(dict.fromkeys(core.warps for core in self.sub_cores))

    @cached_property
    def joins(self) -> bool:
        """Whether warpgroups execute products."""
        return any(joining(c.program.body) for c in self.workload.classes)

    def competing(self, section: BlockSection) -> tuple[SubCore, ...]:
        """Returns the sub-cores whose warps delay each other in a section.

        If warpgroups execute products: one for all warps of the block (docs/methods/warpgroups.md).
        """
        if not section.joins:
            return self.sub_cores
        return (SubCore(tuple(len(c.warps) for c in self.workload.classes)),)

    @cached_property
    def uncut(self) -> tuple[WarpSection, ...]:
        """The whole program of each class, with barriers as ordinary instructions; a section
        without barriers is reused.
        """
        scoreboard = self.workload.scoreboard
        sections = [step for step in self.steps if isinstance(step, BlockSection)]
        cut = [own for section in sections for own in section.warps if own and not own.barrier]
        return tuple(
            next((own for own in cut if own.body == body), None)
            or WarpSection(body, None, scoreboard)
            for body in (c.program.body for c in self.workload.classes)
        )


def every_section(steps: Sequence[BlockStep]) -> Iterator[BlockSection]:
    """Yields the sections of all paths."""
    for step in steps:
        if isinstance(step, BlockSection):
            yield step
        else:
            for way in step.alternatives:
                yield from every_section(way)


def most_of_steps(
    steps: Sequence[BlockStep], of_section: Callable[[BlockSection], tuple[int, ...]]
) -> tuple[int, ...]:
    """Returns figures of sections, summed over steps and maximised over alternatives."""
    total: tuple[int, ...] = ()
    for step in steps:
        if isinstance(step, BlockSection):
            figures = of_section(step)
        else:
            ways = [most_of_steps(way, of_section) for way in step.alternatives]
            figures = tuple(map(max, zip(*filter(None, ways), strict=True)))
        own = tuple(step.multiplicity * figure for figure in figures)
        total = tuple(map(add, total, own)) if total and own else total or own
    return total


def analyse_block(
    workload: BlockWorkload,
    machine: Machine,
    assumptions: Sequence[Assumption] = (),
    *,
    is_nominal: bool = True,
) -> BlockAnalysis:
    """Cuts and aligns the sections of a block; profiles are computed on demand.

    ``is_nominal`` is False if some timing of the workload is charged above the machine's own.

    Raises PW501 to PW504 for barriers that the warps do not meet alike, and PW404 where some are of
    a part of the block. Cost: linear in the programs' trees; for sections with such barriers the
    cost of :func:`~ptxwcet.bounds.joins.joined_section`.
    """
    used = frozenset[str]().union(*(used_units(c.program.body) for c in workload.classes))
    counts = {unit.name: unit.count for unit in machine.units if unit.name in used}
    sub_cores = _deal_warps(workload, machine.schedulers_per_sm, counts)
    has_private_units = all(count == machine.schedulers_per_sm for count in counts.values())
    structures = Structures()
    prepared_sections: dict[tuple[object, ...], WarpSection] = {}
    of_section: dict[int, WarpSection] = {}

    def prepared(section: Section | None) -> WarpSection | None:
        if section is None:
            return None
        warp_section = of_section.get(id(section))
        if warp_section is None:
            warp_section = of_section[id(section)] = unique(section.body, section.barrier)
        return warp_section

    def unique(body: tuple[Node, ...], barrier: Barrier | PartialBarrier | None) -> WarpSection:
        new = WarpSection(body, barrier, workload.scoreboard)
        return prepared_sections.setdefault((barrier, *structures.body(body)), new)

    def measured(body: tuple[Node, ...]) -> tuple[int, int]:
        last, ends = body[-1] if body else None, None
        if isinstance(last, Barrier) or (isinstance(last, PartialBarrier) and last.waits):
            ends = last
        own = unique(body, ends)
        return own.slack_cycles, own.interference(own.units)

    standing: Standing

    def joined(warps: Sequence[WarpSection | None], *, repeats: bool) -> JoinedSection | None:
        if not any(own is not None and has_join(own.body) for own in warps):
            return None
        # Imported here because few kernels have such barriers.
        from ptxwcet.bounds.joins import JoiningWarps, joined_section

        present = [
            JoiningWarps(
                own.body,
                own.interference(own.units),
                len(workload.classes[number].warps),
                tuple(core.warps[number] for core in sub_cores),
            )
            for number, own in enumerate(warps)
            if own is not None
        ]
        return joined_section(
            present,
            measured,
            private_units=has_private_units and not any(own and own.joins for own in warps),
            standing=standing,
            repeats=repeats,
        )

    def step(entry: AlignedStep, *, is_part: bool = False) -> BlockStep:
        if isinstance(entry, AlignedSection):
            warps = tuple(prepared(s) for s in entry.sections)
            repeats = is_part or entry.multiplicity != 1
            return BlockSection(entry.multiplicity, warps, joined(warps, repeats=repeats))
        sides = tuple(
            tuple(step(inner, is_part=True) for inner in side) for side in entry.alternatives
        )
        return SectionAlternatives(entry.multiplicity, sides)

    def sections_of(programs: Sequence[WarpProgram]) -> tuple[BlockStep, ...]:
        nonlocal standing
        standing = {}
        of_section.clear()  # Sections of other programs no longer exist.
        return tuple(map(step, align_sections([cut_at_barriers(program) for program in programs])))

    programs = [program.program for program in workload.classes]
    try:
        steps = sections_of(programs)
    except NotStaticError as apart:
        # Imported here because few kernels have such barriers.
        from ptxwcet.bounds.joins import with_barriers_joined

        together = with_barriers_joined(programs, workload.warp_count)
        if together is None:
            raise
        try:  # Phases may cross barriers of the block.
            steps = sections_of(together)
        except PtxwcetError:
            raise apart from None
    return BlockAnalysis(
        workload,
        machine,
        steps,
        sub_cores,
        has_private_units,
        is_nominal and machine.timing_meaning is TimingMeaning.EXACT,
        tuple(assumptions),
    )


def _deal_warps(
    workload: BlockWorkload, schedulers: int, units: Mapping[str, int]
) -> tuple[SubCore, ...]:
    """Returns the kinds of sub-cores that run warps; ``units`` counts the servers of each unit."""
    counts = [[0] * len(workload.classes) for _ in range(schedulers)]
    for index, warp_class in enumerate(workload.classes):
        for warp in warp_class.warps:
            counts[warp % schedulers][index] += 1
    cores = []
    for core in range(schedulers):
        competitors = []
        for other_core in range(schedulers):
            shared = frozenset(
                unit
                for unit, servers in units.items()
                if other_core != core and _share_queue(servers, schedulers, core, other_core)
            )
            if shared and any(counts[other_core]):
                competitors.append((shared, tuple(counts[other_core])))
        if any(counts[core]):
            ordered = sorted(competitors, key=lambda entry: (sorted(entry[0]), entry[1]))
            cores.append(SubCore(tuple(counts[core]), tuple(ordered)))
    return tuple(dict.fromkeys(cores))


def _share_queue(servers: int, schedulers: int, core: int, other: int) -> bool:
    """Returns whether two sub-cores share the queue of a unit with this many servers.

    A multiple of the schedulers gives each its own; a divisor of their number is shared by
    neighbours; any other number has a single queue for all.
    """
    if servers % schedulers == 0:
        return core == other
    if schedulers % servers == 0:
        return core * servers // schedulers == other * servers // schedulers
    return True
