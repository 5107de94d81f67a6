"""A grid on several SMs in plain Python, cycle by cycle: the oracle of the compiled one.

Written from docs/guide/run.md, for reading. Every cycle: barriers open, blocks that have ended
leave, blocks start, queues move, every sub-core issues.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from ptxwcet.simulator.grid import GridShape, GridWorkload, TracedProgram, TracedVisit
from ptxwcet.simulator.policies import Jitter, Policy, mix
from ptxwcet.simulator.reference import pick
from ptxwcet.warp.program import Barrier, PartialBarrier, Scoreboard, Step, TimedInstruction

Event = tuple[int, int, int, int]
"""Cycle, SM, warp, point."""


@dataclass
class Flight:
    """An issued instruction: when its initiation ends and when everything ends, once that is known.

    Behind its unit it takes the memory path of its SM for ``path`` cycles and the memory of the GPU
    for ``memory`` parts of a cycle, of which one has 1024. ``key`` orders what arrives at once.
    """

    initiation: int
    latency: int
    path: int = 0
    memory: int = 0
    key: tuple[int, int] = (0, 0)
    freed: int | None = None
    end: int | None = None


@dataclass
class Server:
    """Serves one after the other, in the order of arrival; ``free`` in parts of a cycle."""

    free: int = 0
    coming: list[tuple[int, tuple[int, int], Flight]] = field(default_factory=list)

    def arrived(self, cycle: int) -> list[Flight]:
        """What has come by a cycle, and waits no longer."""
        self.coming.sort(key=lambda one: one[:2])
        there = [one[2] for one in self.coming if one[0] <= cycle]
        self.coming = [one for one in self.coming if one[0] > cycle]
        return there

    def serve(self, cycle: int, parts: int) -> int:
        """The first cycle in which something that has come in ``cycle`` is done."""
        self.free = max(self.free, 1024 * cycle) + parts
        return -(-self.free // 1024)


@dataclass(eq=False)
class Warp:
    identity: int
    slot: int  # warp slot on its SM
    steps: Iterator[tuple[int | None, Step | None]]
    start: int
    next: tuple[int | None, Step] | None = None
    flights: list[Flight] = field(default_factory=list)
    writers: dict[str, list[Flight]] = field(default_factory=dict)
    earliest: int = 0
    barrier: Step | None = None  # at which it waits
    reported: bool = False

    def end(self) -> int | None:
        """When all is over; None while that is not known."""
        if self.next is not None or self.barrier is not None:
            return None
        ends = [one.end for one in self.flights]
        return None if None in ends else max([self.start, *(e for e in ends if e is not None)])


@dataclass
class Phase:
    """Of a barrier: who has arrived; of an mbarrier also how many must, the bytes that are owed."""

    arrived: int = 0
    expected: int = 0
    owed: int = 0
    parity: int = 0


@dataclass(eq=False)
class Block:
    index: int
    slot: int
    warps: list[Warp]
    phases: dict[str, Phase] = field(default_factory=dict)
    counting: list[tuple[Flight, Warp, PartialBarrier]] = field(default_factory=list)

    def is_over(self, cycle: int) -> bool:
        return all((end := warp.end()) is not None and end <= cycle for warp in self.warps)


@dataclass(eq=False)
class Sm:
    number: int
    blocks: list[Block] = field(default_factory=list)  # in the order of their starts
    queues: dict[int, deque[Flight]] = field(default_factory=dict)
    serving: dict[int, list[Flight]] = field(default_factory=dict)
    last_slot: dict[int, int] = field(default_factory=dict)
    last_warp: dict[int, Warp] = field(default_factory=dict)
    path: Server = field(default_factory=Server)


def unfold(
    program: TracedProgram,
) -> Iterator[tuple[int | None, Step | None]]:
    for node in program:
        if not isinstance(node, TracedVisit):
            for _ in range(node.count):
                yield from unfold(node.body)
        elif not node.steps:
            yield node.point, None
        else:
            for number, step in enumerate(node.steps):
                yield (None if number else node.point), step


class ReferenceGrid:
    """One run; ``events`` and ``blocks`` (SM, slot, start, end by index) are its result."""

    def __init__(
        self, workload: GridWorkload, shape: GridShape, policy: Policy, seed: int, jitter: Jitter
    ) -> None:
        self.workload, self.shape, self.policy = workload, shape, policy
        self.seed, self.jitter = seed, jitter
        self.sms = [Sm(number) for number in range(shape.sms)]
        units = {step_unit(s) for p in workload.programs for _, s in unfold(p) if s is not None}
        self.queue_of = shape.sm.queues(tuple(sorted(units)))
        self.events: list[Event] = []
        self.blocks: dict[int, list[int]] = {}
        self.most_resident = 0
        self.memory = Server()
        self.gate = self.turn = self.cycle = self.next_block = 0

    def run(self) -> None:
        idle = 0
        while self.next_block < self.workload.block_count or any(sm.blocks for sm in self.sms):
            for sm in self.sms:
                for block in sm.blocks:
                    self.count(block)
                    self.open_barrier(block)
            self.leave()
            self.start_blocks()
            self.most_resident = max(self.most_resident, *(len(sm.blocks) for sm in self.sms))
            before = len(self.events), sum(len(w.flights) for w in self.warps())
            self.move_servers()
            for sm in self.sms:
                self.move_queues(sm)
                for core in range(self.shape.sm.schedulers):
                    self.issue(sm, core)
            self.cycle += 1
            same = before == (len(self.events), sum(len(w.flights) for w in self.warps()))
            idle = idle + 1 if same else 0
            if idle > 10_000:
                raise RuntimeError("deadlock")

    def warps(self) -> Iterator[Warp]:
        for sm in self.sms:
            for block in sm.blocks:
                yield from block.warps

    # --- blocks -----------------------------------------------------------------------------------

    def leave(self) -> None:
        for sm in self.sms:
            for block in [block for block in sm.blocks if block.is_over(self.cycle)]:
                sm.blocks.remove(block)
                ends = []
                for warp in block.warps:
                    end = warp.end()
                    assert end is not None
                    ends.append(end)
                    point = self.workload.end_point
                    self.events.append((end, sm.number, warp.identity, point))
                assert max(ends) == self.cycle
                self.blocks[block.index].append(self.cycle)

    def start_blocks(self) -> None:
        while self.next_block < self.workload.block_count and self.cycle >= self.gate:
            order = [(self.turn + k) % len(self.sms) for k in range(len(self.sms))]
            free = [n for n in order if len(self.sms[n].blocks) < self.slots()]
            if not free:
                return
            self.start(self.sms[free[0]])
            self.turn = (free[0] + 1) % len(self.sms)
            self.gate = self.cycle + self.shape.launch_gap_cycles
            self.next_block += 1
            self.leave()  # it may have had nothing to do

    def slots(self) -> int:
        return self.shape.resident_blocks

    def start(self, sm: Sm) -> None:
        taken = {block.slot for block in sm.blocks}
        slot = min(set(range(self.slots())) - taken)
        index, count = self.next_block, self.workload.warps_per_block
        warps = []
        for number in range(count):
            program = self.workload.programs[int(self.workload.chosen[index, number])]
            warp = Warp(index * count + number, slot * count + number, unfold(program), self.cycle)
            warp.earliest = self.cycle
            self.fetch(sm, warp, self.cycle)
            warps.append(warp)
        sm.blocks.append(Block(index, slot, warps))
        self.blocks[index] = [sm.number, slot, self.cycle]

    def fetch(self, sm: Sm, warp: Warp, cycle: int) -> None:
        """The next instruction; what issues nothing is passed in ``cycle``."""
        warp.next = None
        for point, step in warp.steps:
            if step is not None:
                warp.next = point, step
                return
            assert point is not None
            self.events.append((cycle, sm.number, warp.identity, point))

    # --- instructions -----------------------------------------------------------------------------

    def move_queues(self, sm: Sm) -> None:
        for queue in set(self.queue_of.values()):
            waiting = sm.queues.setdefault(queue.index, deque())
            busy = [
                one
                for one in sm.serving.get(queue.index, [])
                if one.freed is not None and one.freed > self.cycle
            ]
            while waiting and len(busy) < queue.servers:
                one = waiting.popleft()
                one.freed = self.cycle + one.initiation
                if one.path:
                    sm.path.coming.append((one.freed, one.key, one))
                elif one.memory:
                    self.memory.coming.append((one.freed, one.key, one))
                else:
                    one.end = one.freed + one.latency
                busy.append(one)
            sm.serving[queue.index] = busy

    def move_servers(self) -> None:
        for sm in self.sms:
            for one in sm.path.arrived(self.cycle):
                done = sm.path.serve(self.cycle, 1024 * one.path)
                if one.memory:
                    self.memory.coming.append((done, one.key, one))
                else:
                    one.end = done + one.latency
        for one in self.memory.arrived(self.cycle):
            one.end = self.memory.serve(self.cycle, one.memory) + one.latency

    def open_barrier(self, block: Block) -> None:
        names = set()
        for warp in block.warps:
            end = warp.end()
            if end is None or end > self.cycle:
                names.add(warp.barrier.name if isinstance(warp.barrier, Barrier) else None)
        if len(names) == 1 and None not in names:
            for warp in block.warps:
                if warp.barrier is not None:
                    warp.barrier = None
                    warp.earliest = max(warp.earliest, self.cycle)

    def come(self, block: Block, warp: Warp, one: Flight, step: Barrier | PartialBarrier) -> None:
        """A warp issues a barrier."""
        if isinstance(step, Barrier):
            warp.barrier = step
        elif step.mbarrier is None:
            warp.barrier = step if step.waits else None
            phase = block.phases.setdefault(step.shown, Phase())
            phase.arrived += 1
            if phase.arrived == step.warps:
                phase.arrived = 0
                self.let_go(block, step.shown, self.cycle + 1)
        elif step.mbarrier.expects:
            block.phases[step.shown] = Phase(expected=step.mbarrier.expects)
        elif not step.waits:
            block.counting.append((one, warp, step))
        elif block.phases[step.shown].parity == step.mbarrier.parity:
            warp.barrier = step

    def count(self, block: Block) -> None:
        """What has ended counts, that of a warp at one mbarrier in its order, but for copies."""
        held: list[tuple[Flight, Warp, PartialBarrier]] = []
        for one, warp, step in block.counting:
            what = step.mbarrier
            assert what is not None
            before = any(w is warp and s.name == step.name and not s.mbarrier.brings  # type: ignore[union-attr]
                         for _, w, s in held)  # fmt: skip
            if one.end is None or one.end > self.cycle or (before and not what.brings):
                held.append((one, warp, step))
                continue
            phase = block.phases[step.shown]
            phase.arrived += what.arrivals
            phase.owed += what.owes - what.brings
            if phase.arrived == phase.expected and not phase.owed:
                phase.arrived, phase.parity = 0, 1 - phase.parity
                self.let_go(block, step.shown, self.cycle)
        block.counting = held

    def let_go(self, block: Block, shown: str, cycle: int) -> None:
        for warp in block.warps:
            at = warp.barrier
            if isinstance(at, PartialBarrier) and at.shown == shown:
                asked = at.instruction.initiation_cycles + at.instruction.latency_cycles
                warp.barrier = None
                warp.earliest = max(warp.earliest, cycle + (asked if at.mbarrier else 0))

    def is_eligible(self, warp: Warp) -> bool:
        if warp.next is None or warp.barrier is not None or self.cycle < warp.earliest:
            return False
        step = plain(warp.next[1])
        waits = step.reads
        if self.workload.scoreboard is Scoreboard.RAW_WAW:
            waits += step.writes
        writers = [one for name in waits for one in warp.writers.get(name, [])]
        return all(one.end is not None and one.end <= self.cycle for one in writers)

    def issue(self, sm: Sm, core: int) -> None:
        cores = self.shape.sm.schedulers
        by_age = [w for block in sm.blocks for w in block.warps if w.slot % cores == core]
        eligible = [warp for warp in by_age if self.is_eligible(warp)]
        if not eligible:
            return
        warp = self.pick(sm, core, eligible)
        sm.last_slot[core], sm.last_warp[core] = warp.slot, warp
        assert warp.next is not None
        point, step = warp.next
        if point is not None:
            self.events.append((self.cycle, sm.number, warp.identity, point))
        instruction = plain(step)
        key = warp.identity, len(warp.flights)
        memory = self.shape.sm.memory_cycles * instruction.sectors
        one = Flight(*self.shortened(warp, step), instruction.path_cycles, memory, key)
        sm.queues[self.queue_of[core, instruction.unit].index].append(one)
        warp.flights.append(one)
        for name in instruction.writes:
            before = warp.writers.get(name, []) if instruction.conditional else []
            warp.writers[name] = [*before, one]
        warp.earliest = self.cycle + 1 + instruction.bubble_cycles
        if not isinstance(step, TimedInstruction):
            (block,) = (block for block in sm.blocks if warp in block.warps)
            self.come(block, warp, one, step)
        self.fetch(sm, warp, self.cycle + 1)
        self.move_queues(sm)

    def pick(self, sm: Sm, core: int, by_age: list[Warp]) -> Warp:
        turn, last = sm.last_slot.get(core, -1), sm.last_warp.get(core)
        stays = turn if last in by_age else -1  # else a warp of another block may have its slot
        number = mix(self.seed, self.cycle, sm.number * self.shape.sm.schedulers + core)
        slots = [warp.slot for warp in by_age]
        return by_age[slots.index(pick(self.policy, slots, turn, stays, number))]

    def shortened(self, warp: Warp, step: Step) -> tuple[int, int]:
        one = plain(step)
        taken = one.path_cycles + -(-self.shape.sm.memory_cycles * one.sectors // 1024)
        initiation, latency = one.initiation_cycles, one.latency_cycles - taken
        if isinstance(step, PartialBarrier) and step.mbarrier is not None:
            latency += step.mbarrier.after_cycles
        percent, n = self.jitter.percent, len(warp.flights)
        if percent:
            cut = min(initiation - 1, initiation * percent // 100)
            initiation -= mix(self.jitter.seed, 2 * warp.identity, n) % (cut + 1)
            cut = latency * percent // 100
            latency -= mix(self.jitter.seed, 2 * warp.identity + 1, n) % (cut + 1)
        return initiation, latency


def plain(step: Step) -> TimedInstruction:
    return step if isinstance(step, TimedInstruction) else step.instruction


def step_unit(step: Step) -> str:
    return plain(step).unit
