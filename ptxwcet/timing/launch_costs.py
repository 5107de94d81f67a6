"""Computes the costs of a kernel's instructions in a launch, with accesses lane by lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod

from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.cfg import BlockId, build_cfg
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.reconvergence import not_nested
from ptxwcet.flow.launch import WARP_SIZE, Launch
from ptxwcet.flow.paths.call_variables import followed
from ptxwcet.flow.paths.extraction import flow_graph
from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.values.reductions import is_election
from ptxwcet.ir.kernel import (
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Register,
    counts_at_mbarriers,
    hands_registers_over,
)
from ptxwcet.ir.op_classes import AT_BARRIERS, AT_MEETINGS, COUNTING, ControlEffect, OpClass
from ptxwcet.machine.architectures import architecture_assumptions, require_architecture
from ptxwcet.machine.assumptions import NO_OTHER_KERNELS, PATH_KEEPS_UP, STACK
from ptxwcet.machine.model import Machine, OpTiming, RefusedOp
from ptxwcet.memory.analysis import KernelAccesses, analyse_accesses
from ptxwcet.memory.lanes import POINTER_ALIGN
from ptxwcet.timing.cost import (
    LOWEST_IS_ELECTED,
    UNKNOWN_OPCODES,
    InstructionCosts,
    Products,
    cycles_at_path,
    name_of,
    row_of,
    unproved,
)
from ptxwcet.timing.machine_code import (
    UNIFORM_KEPT,
    CodeTimes,
    code_assumptions,
    scoreboard_of,
    writes_uniform,
)
from ptxwcet.timing.phases import profile_warp
from ptxwcet.timing.readers import readers_on
from ptxwcet.warp.program import (
    OTHERS_BETWEEN,
    Barrier,
    Node,
    PartialBarrier,
    TimedInstruction,
)

_STATED = "pointers to global memory are multiples of as many bytes as is said: {}"
_MAPS = (
    "tensor maps copy boxes of so many elements of so many bytes, tiled, not interleaved, of "
    "tensors whose address and strides are multiples of 16 bytes: {}"
)
_ALIGNED = f"pointers to global memory are multiples of {1 << POINTER_ALIGN} bytes: {{}}"


def _is_issued_by_each(instruction: Instruction) -> bool:
    """Returns whether each group of diverged lanes issues an instruction: a wait or an end."""
    return instruction.convergence in AT_MEETINGS or instruction.control is ControlEffect.EXIT


LONGEST_SLEEP = Immediate(1_000_000, "1000000")
"""The longest sleep of a thread by the PTX ISA, in nanoseconds."""


def _is_integer(operand: Operand) -> bool:
    return isinstance(operand, Immediate) and isinstance(operand.value, int)


class LaunchCosts(InstructionCosts):
    """The costs for a launch, and their assumptions in addition to the machine's.

    ``accesses``: the kernel's, if available; else they are analysed for machines that charge
    them.
    """

    def __init__(
        self,
        kernel: Kernel,
        launch: Launch,
        machine: Machine,
        *,
        unknown_at_worst: bool = False,
        accesses: KernelAccesses | None = None,
    ) -> None:
        require_architecture(kernel, machine)
        if machine.memory is not None and accesses is None:
            accesses = kernel_accesses(kernel, launch)
        self._found = accesses
        self._kernel = kernel
        self._told_before: dict[int, Instruction] = {}
        super().__init__(
            machine,
            launch.threads,
            unknown_at_worst=unknown_at_worst,
            accesses=None if accesses is None else accesses.by_instruction(),
            readers=readers_on(machine, kernel),
            code=None if kernel.code is None else CodeTimes(kernel),
            products=Products(kernel.instructions),
        )
        self._launch = launch
        self.most_at_path = self._kept_up()

    def _kept_up(self) -> int | None:
        """Returns the most cycles of an access at the memory path, if the path keeps up.

        No access takes more of the path than a certain part of the time of its unit: the part of
        one of the units of an SM that feed it (docs/methods/memory-servers.md). This applies to
        blocks with as many warps as the feeding units: with fewer, the latency may exceed the
        saving. Cost: linear in the kernel.
        """
        machine, rules = self.machine, self.machine.memory
        if rules is None or not machine.states(PATH_KEEPS_UP):
            return None
        passing: list[tuple[int, OpTiming]] = []
        for index, instruction in enumerate(self._kernel.instructions):
            if instruction.op_class is None or instruction.op_class in COUNTING:
                return None  # unknown unit; for copies the count is known per path only
            cycles = cycles_at_path(self._taken(index, instruction), rules, instruction.op_class)
            if not cycles:
                continue
            timing = row_of(instruction, instruction.op_class, machine)
            if not isinstance(timing, OpTiming) or timing.is_upper:
                return None  # charged above its possible time
            passing.append((cycles, timing))
        units = {timing.unit for _, timing in passing}
        feeding = sum(machine.unit(name).count for name in units)
        if not passing or self._launch.warps < feeding:
            return None
        if any(feeding * cycles > timing.initiation_cycles for cycles, timing in passing):
            return None
        return feeding * max(cycles for cycles, _ in passing)

    def nodes(
        self, index: int, instruction: Instruction, *, taken: bool = False
    ) -> tuple[TimedInstruction | Barrier | PartialBarrier, ...]:
        """Returns the nodes as :class:`InstructionCosts` does; a sleep takes its longest possible
        time. At a reconvergence point of machine code each group of lanes issues the wait or the
        end; where lanes may diverge, some take the branch, whichever group continues first.
        Registers that are given up for others are counted, or refused.
        """
        is_code = self._kernel.code is not None
        taken = taken or (is_code and index in self._parting)
        nodes = super().nodes(index, self._told(index, instruction), taken=taken)
        if is_code:
            return nodes * self._arrivals.get(index, 1)
        if instruction.op_class is not OpClass.CONTROL_OTHER:
            return nodes
        if name_of(instruction) == "setmaxnreg" and hands_registers_over(self._kernel):
            self._refusals[index] = unproved(instruction, "who hands registers over is not known")
        return nodes

    def outlasts_barrier(self, index: int, instruction: Instruction) -> bool:
        """Returns the answer of :class:`InstructionCosts`; sleeps take their longest time."""
        return super().outlasts_barrier(index, self._told(index, instruction))

    def _told(self, index: int, instruction: Instruction) -> Instruction:
        """Returns a sleep with its longest possible time as a literal, and a barrier with the
        numbers that are moved into its registers, if each is unique.

        The longest time is the largest of the literals that may have been moved into its register
        (nvcc writes it so). If not all writes are literals it is the longest time that exists,
        unless the machine has a row for such sleeps. Cost: the paths back to the moves, once.
        """
        if instruction.control in AT_BARRIERS and instruction.op_class is OpClass.BARRIER:
            if index not in self._told_before:
                self._told_before[index] = self._numbered(index, instruction)
            return self._told_before[index]
        if instruction.op_class is not OpClass.NANOSLEEP:
            return instruction
        (time,) = instruction.operands
        if index not in self._told_before and isinstance(time, Register):
            literals = self._moved(index, time.name)
            if not literals and isinstance(self.machine.timings[OpClass.NANOSLEEP], RefusedOp):
                literals = [LONGEST_SLEEP]
            longest = max(literals, key=lambda each: int(each.value) & 0xFFFFFFFF, default=None)
            if longest is not None:
                form = replace(instruction.form, templates=(lambda _, literals: literals[0],))
                instruction = instruction._replace(form=form, immediates=(longest,))
            self._told_before[index] = instruction
        return self._told_before.get(index, instruction)

    def _numbered(self, index: int, instruction: Instruction) -> Instruction:
        """Returns a barrier with literals for the operands that can only be a single number."""
        if self._kernel.code is not None:
            return instruction
        operands = list(instruction.operands)
        for place, operand in enumerate(operands):
            if isinstance(operand, Register) and operand.name not in instruction.writes:
                literals = self._moved(index, operand.name)
                if literals and len({literal.value for literal in literals}) == 1:
                    operands[place] = literals[0]
        if operands == list(instruction.operands):
            return instruction
        templates = tuple(lambda _, __, one=one: one for one in operands)
        return instruction._replace(form=replace(instruction.form, templates=templates))

    def _moved(self, index: int, name: str) -> list[Immediate]:
        """Returns the literals that may have been moved into a register; none if other values may.

        A move under a guard also leaves the earlier value.
        """
        cfg, literals = build_cfg(self._kernel), list[Immediate]()
        (block,) = (b.id for b in cfg.blocks if b.start <= index < b.end)
        seen, pending = set[int](), [(block, index)]
        while pending:
            block, end = pending.pop()
            for place in reversed(range(cfg.blocks[block].start, end)):
                before = self._kernel.instructions[place]
                if name not in before.writes:
                    continue
                target, value = before.operands[0], before.operands[-1]
                is_move = before.opcode is not None and before.opcode.name == "mov"
                if not is_move or not isinstance(target, Register) or not _is_integer(value):
                    return []  # For a literal in parts, each register has its own part.
                assert isinstance(value, Immediate)
                literals.append(value)
                if before.guard is None:
                    break
            else:
                if block == cfg.entry:
                    return []
                pending += [
                    (p, cfg.blocks[p].end) for p in cfg.predecessors[block] if p not in seen
                ]
                seen.update(cfg.predecessors[block])
        return literals

    @cached_property
    def _parting(self) -> frozenset[int]:
        """The branches at which lanes of a warp may diverge."""
        cfg, agreements = self._graph.cfg, self._graph.agreements
        return frozenset(
            self._graph.last(block)
            for block in cfg.reverse_postorder
            if cfg.has_two_ways(block) and agreements[block] is Agreement.NONE
        )

    @cached_property
    def _arrivals(self) -> Mapping[int, int]:
        """The most groups of diverged lanes that arrive at a reconvergence block's first
        instruction, by its index. Each group issues it.

        After a divergent branch there are as many groups as paths, or as lanes if one of the paths
        contains a loop. A path has one visit of the block. Cost: the regions of such branches,
        once.
        """
        graph = self._graph
        lanes = min(WARP_SIZE, self._launch.threads)
        groups: dict[int, int] = {}
        for block in graph.cfg.reverse_postorder:
            meeting = graph.meeting(block)
            if meeting is None or graph.agreements[block] is not Agreement.NONE:
                continue
            inside = {block, *graph.agreements.live.between(BlockId(block), meeting)}
            around = {loop.header for loop in graph.forest.around(meeting)}
            loops = {loop.header for each in inside for loop in graph.forest.around(each)}
            parting = [each for each in inside if graph.agreements[each] is Agreement.NONE]
            ways = prod(len(set(graph.cfg.successors[each])) for each in parting)
            ways = lanes if loops - around else min(lanes, ways)
            first = graph.cfg.blocks[meeting].start
            if meeting != graph.cfg.exit and _is_issued_by_each(self._kernel.instructions[first]):
                groups[first] = max(groups.get(first, 1), ways)
        return groups

    def before(self, block: BlockId) -> tuple[Node, ...]:
        """Returns the nodes of other groups of lanes before a block. In machine code these may have
        any instruction in flight, or arrive at a reconvergence point and wait.
        """
        if block in self._others[0]:
            return (OTHERS_BETWEEN,)
        waits = sorted(self._others[1].get(block, ()))
        costs = [super(LaunchCosts, self).nodes(n, self._kernel.instructions[n]) for n in waits]
        return tuple(node for nodes in costs for node in nodes)

    @cached_property
    def _others(self) -> tuple[set[int], dict[int, set[int]]]:
        """The blocks of machine code before which other groups may have gone on; and those before
        which a group may wait at a reconvergence point, with that point's instruction.

        Two sides without divergence or waits inside are examined in both orders, except for the
        place of the waits at their end. Elsewhere each group begins when everything has completed.
        So do the instructions after a branch with one side for which the waiting groups are not
        fully known: an earlier wait delays all later instructions by no more. Some groups may end
        at once on a unit that the branch has not waited for. Cost: the regions of such branches,
        once.
        """
        graph, through, waiting = self._graph, set[int](), dict[int, set[int]]()
        targets = graph.cfg.successors
        for block in graph.cfg.reverse_postorder if self._kernel.code is not None else ():
            meeting = graph.meeting(block)
            if meeting is None or graph.agreements[block] is not Agreement.NONE:
                continue
            ways = {*targets[block]} - {meeting}
            inside = graph.agreements.live.between(BlockId(block), meeting)
            parting = [each for each in inside if graph.agreements[each] is Agreement.NONE]
            stops = {each for each in inside if self._first(each).convergence in AT_MEETINGS}
            if len(ways) > 2 or (len(ways) == 2 and (parting or stops)) or self._ends_at(meeting):
                for each in (block, *parting):
                    met = graph.meeting(each)
                    through |= {*targets[each]} | ({met} if met is not None else set())
                through |= stops
            elif parting:
                through.add(meeting)
            elif meeting != graph.cfg.exit and _is_issued_by_each(self._first(meeting)):
                for each in ways | stops:
                    waiting.setdefault(each, set()).add(graph.cfg.blocks[meeting].start)
        return through, waiting

    def _first(self, block: int) -> Instruction:
        return self._kernel.instructions[self._graph.cfg.blocks[block].start]

    def _ends_at(self, meeting: int) -> bool:
        """Returns whether a block begins with an exit on another unit than branches."""
        rows = [self.machine.timings.get(own) for own in (OpClass.RETURN, OpClass.BRANCH)]
        units = {row.unit for row in rows if isinstance(row, OpTiming)}
        is_block = meeting != self._graph.cfg.exit and len(units) > 1
        return is_block and self._first(meeting).control is ControlEffect.EXIT

    @cached_property
    def _shares_apart(self) -> bool:
        """Whether registers of the uniform datapath are written where lanes may have diverged."""
        instructions = self._kernel.instructions
        writing = [n for n, i in enumerate(instructions) if writes_uniform(i)]
        if not writing:
            return False
        agreements = self._graph.agreements
        guards = {n: instructions[n].guard for n in writing}
        by_lane = (g is not None and not g.register.startswith("UP") for g in guards.values())
        return any(by_lane) or any(map(agreements.part_at, writing))

    @cached_property
    def _graph(self) -> FlowGraph:
        return graph_of(self._kernel, self._launch)

    @cached_property
    def _parting_for_long(self) -> tuple[str, ...]:
        """The places of divergent branches of PTX whose lanes machine code may reconverge later
        than their paths do; none where the machine file excludes this.
        """
        if self.machine.assumption(STACK).state is AssumptionState.BY_DEFINITION:
            return ()
        flow = ControlFlow.of(self._kernel)
        branches = not_nested(flow.cfg, flow.dominators, flow.postdominators)
        if not branches:
            return ()
        graph = self._graph
        lasts = [
            self._kernel.instructions[graph.last(block)]
            for block in branches
            if graph.agreements[block] is Agreement.NONE
        ]
        places = (i.span.shown_place if i.location is None else i.location.place for i in lasts)
        return tuple(dict.fromkeys(places))

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The assumptions of bounds of programs with these costs."""
        assumptions = [UNKNOWN_OPCODES] if self.charged_unknown else []
        assumptions += architecture_assumptions(self._kernel, self.machine)
        if self._kernel.code is not None:
            assumptions += code_assumptions(self.machine)
            assumptions += [UNIFORM_KEPT] if self._shares_apart else []
        elif places := self._parting_for_long:
            assumptions.append(_met_where_not_nested(self.machine.assumption(STACK), places))
        elected = {name for i in self._kernel.instructions if is_election(i) for name in i.writes}
        if elected and not elected.isdisjoint(self._graph.control_registers):
            assumptions.append(LOWEST_IS_ELECTED)
        if self.counts:
            # Imported here because few kernels count at mbarriers.
            from ptxwcet.timing.counting import MBARRIERS_COUNT, REGISTERS_SUFFICE

            assumptions += [MBARRIERS_COUNT] if counts_at_mbarriers(self._kernel) else []
            assumptions += [REGISTERS_SUFFICE] if hands_registers_over(self._kernel) else []
        if self._launch.boxes:
            shown = [
                f"{self._launch.name_of(at).removesuffix('+0')} {box}"
                for at, box in self._launch.boxes.items()
            ]
            text = _MAPS.format(", ".join(shown))
            assumptions.append(_assumed("stated-tensor-maps", text, "--param or facts file"))
        if self.waits_for_launches:
            assumptions.append(self.machine.assumption(NO_OTHER_KERNELS))
        if self.most_at_path is not None:
            assumptions.append(self.machine.assumption(PATH_KEEPS_UP))
        pointers = () if self._found is None else self._found.pointers
        if pointers:
            text = _ALIGNED.format(", ".join(map(self._launch.name_of, pointers)))
            assumptions.append(_assumed("aligned-pointers", text, "launch"))
        shown = [
            f"{self._launch.name_of(name)} of {self._launch.alignments[name]}"
            for name in (() if self._found is None else self._found.aligned)
        ]
        if shown:
            text = _STATED.format(", ".join(shown))
            assumptions.append(_assumed("stated-alignments", text, "--param or facts file"))
        return tuple(assumptions)

    @property
    def given(self) -> tuple[str, ...]:
        """The aggregates whose bytes the launch gives and on which the costs depend."""
        return () if self._found is None else self._found.given

    @property
    def ranged(self) -> tuple[str, ...]:
        """The parameters on whose ranges the costs depend."""
        return () if self._found is None else self._found.ranged


_MOST_PLACES = 3


def _met_where_not_nested(stack: Assumption, places: Sequence[str]) -> Assumption:
    shown = ", ".join(places[:_MOST_PLACES])
    if len(places) > _MOST_PLACES:
        shown += f" and {len(places) - _MOST_PLACES} more"
    return Assumption(
        "regions-not-nested",
        f"lanes that part at {shown} go on together where their ways meet, though other ways come "
        "in there and compilers may let them run apart for longer; machine code tells where they "
        "are joined",
        stack.state,
        stack.source,
    )


def _assumed(key: str, text: str, source: str) -> Assumption:
    return Assumption(key, text, AssumptionState.ASSUMED, source)


def kernel_accesses(kernel: Kernel, launch: Launch) -> KernelAccesses:
    """Returns the accesses of a kernel in a launch. Raises PtxwcetError (PW251)."""
    return analyse_accesses(graph_of(kernel, launch), launch)


def graph_of(kernel: Kernel, launch: Launch) -> FlowGraph:
    """Returns the graph on which a kernel is analysed. Raises PtxwcetError (PW251)."""
    return flow_graph(followed(ControlFlow.of(kernel)), launch)


def block_costs(kernel: Kernel, machine: Machine) -> dict[BlockId, int]:
    """Returns the cycles of each basic block: one warp on a clean machine, no branch taken.

    Blocks with an instruction that the machine refuses are left out. Cost: linear in the kernel.
    """
    cfg = build_cfg(kernel)
    costs: dict[BlockId, int] = {}
    readers = readers_on(machine, kernel)
    code = None if kernel.code is None else CodeTimes(kernel)
    scoreboard, products = scoreboard_of(kernel, machine.scoreboard), Products(kernel.instructions)
    for block in cfg.blocks[:-1]:
        nodes: list[Node] = []
        timed = InstructionCosts(machine, readers=readers, code=code, products=products)
        for index in range(block.start, block.end):
            nodes += timed.nodes(index, kernel.instructions[index])
        if not timed.has_refusals:
            costs[block.id] = profile_warp(nodes, scoreboard).isolated_cycles
    return costs
