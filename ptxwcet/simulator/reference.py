"""Simulates the machine of the model in plain Python: the test oracle of the engine.

Written for reading, not for speed: every cycle is stepped, queues are lists of instructions, a
program is a generator over its tree. It shares with the engine the types of input and output, and
the random numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, fields, replace

from ptxwcet.simulator.configuration import PARTS, SmConfiguration, Way
from ptxwcet.simulator.policies import NO_JITTER, Jitter, Policy, mix
from ptxwcet.simulator.run import IssueEvent, SectionRun, SimulatedRun, Stalls, WarpRun
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import (
    REGISTERS,
    WARPGROUP,
    Barrier,
    BlockWorkload,
    Mbarrier,
    Node,
    PartialBarrier,
    Repeat,
    Scoreboard,
    Step,
    TimedInstruction,
    instruction_of,
)
from ptxwcet.warp.structure import entered

Choice = Callable[[int, int, tuple[int, ...]], int]
"""A decision for (cycle, sub-core, eligible warps in ascending order): the warp that is issued."""


@dataclass
class _InFlight:
    """An issued instruction, the ``number``-th of its warp; ``way``: servers after initiation.

    ``entered``: the cycle in which it enters its queue, which is the issue except for a product of
    a warpgroup. ``dispatch`` is set when it leaves its queue, ``passed`` when the memory path
    begins with it, ``served`` when the last server does: the cycles in which they are done with it.
    """

    warp: int
    number: int
    node: TimedInstruction
    issue: int
    entered: int
    initiation: int
    way: Way
    dispatch: int | None = None
    passed: int | None = None
    served: int | None = None

    @property
    def freed(self) -> int:
        assert self.dispatch is not None
        return self.dispatch + self.initiation

    @property
    def end(self) -> int:
        assert self.served is not None
        return self.served + self.way.latency

    @property
    def waited(self) -> int:
        """The cycles, from its entry to its end, in which a unit or server was busy with others."""
        way = self.way
        memory_cycles = -(-way.memory_parts // PARTS)
        alone = self.initiation + way.path_cycles + memory_cycles + way.latency
        return self.end - self.entered - alone

    def is_over(self, cycle: int) -> bool:
        return self.served is not None and self.end <= cycle


@dataclass
class _Counter:
    """An mbarrier: the arrivals of a phase, the pending ones, and the bytes."""

    expects: int
    pending: int
    owed: int = 0
    parity: int = 0


@dataclass
class _Warp:
    number: int
    steps: Iterator[Step]
    next: Step | None = None
    issued: list[_InFlight] = field(default_factory=list)
    producers: dict[str, list[_InFlight]] = field(default_factory=dict)
    waits_at: Step | None = None  # a product waits for the other warps of its warpgroup
    earliest: int = 0  # the previous issue and its bubble are over
    opened: int = 0  # the last barrier of a wait is open
    bubble_booked: bool = False
    section: int | None = None
    executions: dict[int | None, int] = field(default_factory=lambda: {None: 1})
    spent: dict[int | None, dict[str, int]] = field(default_factory=dict)

    def book(self, cause: str, cycles: int = 1) -> None:
        causes = self.spent.setdefault(self.section, {f.name: 0 for f in fields(Stalls)})
        causes[cause] += cycles

    def is_ready(self, register: str, cycle: int) -> bool:
        writers = self.producers.get(register, [])
        return all(writer.is_over(cycle) for writer in writers)

    def last_writer(self, register: str) -> _InFlight | None:
        """Returns the producer that the register waits for: the last to end of several."""
        return max(self.producers.get(register, []), key=lambda request: request.end, default=None)

    def ended(self, cycle: int) -> bool:
        """Returns whether all its initiations and latencies are over at the start of ``cycle``."""
        if self.next is not None or self.waits_at is not None:
            return False
        return all(request.is_over(cycle) for request in self.issued)


def reference_run(
    workload: BlockWorkload,
    configuration: SmConfiguration,
    policy: Policy,
    *,
    seed: int = 0,
    jitter: Jitter = NO_JITTER,
    choose: Choice | None = None,
) -> SimulatedRun:
    """Runs a block; ``choose`` decides instead of the policy. Model, section 1.

    Raises ValueError if a program is not a single path, PtxwcetError PW532 for a deadlock. Cost:
    linear in cycles and instructions; it keeps every issued instruction.
    """
    if any(not c.program.is_single_path for c in workload.classes):
        raise ValueError("only a single known path can be simulated")
    machine = _Machine(workload, configuration, policy, seed, jitter, choose)
    machine.run()
    return machine.summary()


def _walk(body: Sequence[Node]) -> Iterator[Step]:
    for node in body:
        match node:
            case TimedInstruction() | Barrier() | PartialBarrier():
                yield node
            case Repeat(count=count, body=inner):
                for _ in range(count):
                    yield from _walk(inner)


class _Machine:
    def __init__(
        self,
        workload: BlockWorkload,
        configuration: SmConfiguration,
        policy: Policy,
        seed: int,
        jitter: Jitter,
        choose: Choice | None,
    ) -> None:
        programs = {w: c.program for c in workload.classes for w in c.warps}
        self.warps = [_Warp(w, _walk(programs[w].body)) for w in sorted(programs)]
        for warp in self.warps:
            warp.next = next(warp.steps, None)
        self.policy, self.seed, self.jitter, self.choose = policy, seed, jitter, choose
        self.configuration = configuration
        self.cores = configuration.schedulers
        self.waits_for_writes = workload.scoreboard is Scoreboard.RAW_WAW
        units = {unit for c in workload.classes for unit in _units(c.program.body)}
        self.queue_of = configuration.queues(tuple(sorted(units)))
        self.waiting: dict[int, deque[_InFlight]] = {}
        self.serving: dict[int, list[_InFlight]] = {}
        self.servers: dict[int, int] = {}
        for queue in self.queue_of.values():
            self.waiting[queue.index] = deque()
            self.serving[queue.index] = []
            self.servers[queue.index] = queue.servers
        self.under_way: list[_InFlight] = []  # to the servers after the units
        self.at_path: deque[_InFlight] = deque()
        self.at_memory: deque[_InFlight] = deque()
        self.path_free = 0
        self.memory_free = 0  # in parts of a cycle
        self.last: dict[int, int] = {}
        self.arrived: dict[str, int] = {}
        given = sum(
            isinstance(step, PartialBarrier) and step.name == REGISTERS and not step.waits
            for program in programs.values()
            for step in entered(program.body)
        )
        self.counters = {REGISTERS: _Counter(given, given)}
        self.counting: list[tuple[_InFlight, PartialBarrier]] = []  # with pending effects
        self.log: list[_InFlight] = []
        self.cycle = 0

    # --- one cycle --------------------------------------------------------------------------------

    def run(self) -> None:
        while not all(warp.ended(self.cycle) for warp in self.warps):
            self.serve()
            self.dispatch()
            self.count()
            self.open_block_barrier()
            issued = [self.issue(core) for core in range(self.cores)]
            if not any(issued):
                self.check_for_deadlock()
            self.cycle += 1

    def serve(self) -> None:
        """Moves instructions to the servers after the units, which serve them in this order.

        Instructions that arrive in the same cycle are served by warp, then in program order.
        """
        self.under_way.sort(key=lambda request: (request.warp, request.number))
        self.at_path.extend(self.arriving(lambda request: request.freed, path=True))
        if self.at_path and self.path_free <= self.cycle:
            request = self.at_path.popleft()
            self.path_free = request.passed = self.cycle + request.way.path_cycles
            if request.way.memory_parts:
                self.under_way.append(request)
                self.under_way.sort(key=lambda request: (request.warp, request.number))
            else:
                request.served = request.passed
        self.at_memory.extend(
            self.arriving(lambda r: r.freed if r.passed is None else r.passed, path=False)
        )
        while self.at_memory and self.memory_free < (self.cycle + 1) * PARTS:
            request = self.at_memory.popleft()
            self.memory_free = max(self.memory_free, self.cycle * PARTS) + request.way.memory_parts
            request.served = -(-self.memory_free // PARTS)

    def arriving(self, at: Callable[[_InFlight], int], *, path: bool) -> list[_InFlight]:
        """Removes, from the instructions in flight, all that reach a server in this cycle."""
        arrived = [
            request
            for request in self.under_way
            if (request.passed is None and request.way.path_cycles > 0) == path
            and request.dispatch is not None
            and at(request) == self.cycle
        ]
        self.under_way = [request for request in self.under_way if request not in arrived]
        return arrived

    def dispatch(self) -> None:
        """Moves instructions from their queues, in order, to free servers."""
        for index, queue in self.waiting.items():
            busy = [request for request in self.serving[index] if request.freed > self.cycle]
            while queue and len(busy) < self.servers[index]:
                request = queue.popleft()
                request.dispatch = self.cycle
                busy.append(request)
                if request.way.path_cycles or request.way.memory_parts:
                    self.under_way.append(request)
                else:
                    request.served = request.freed
            self.serving[index] = busy

    def issue(self, core: int) -> bool:
        mine = [warp for warp in self.warps if warp.number % self.cores == core]
        eligible = tuple(warp.number for warp in mine if self.is_eligible(warp))
        if not eligible:
            return False
        chosen = self.pick(core, eligible)
        self.last[core] = chosen
        self.execute(self.warps[chosen], core)
        self.dispatch()  # an instruction for an idle unit is dispatched in the cycle of its issue
        return True

    def is_eligible(self, warp: _Warp) -> bool:
        if warp.next is None or warp.waits_at is not None:
            return False
        if self.cycle < max(warp.earliest, warp.opened):
            return False
        return all(warp.is_ready(name, self.cycle) for name in self.waits(warp.next))

    def waits(self, step: Step) -> tuple[str, ...]:
        instruction = instruction_of(step)
        return instruction.reads + (instruction.writes if self.waits_for_writes else ())

    def pick(self, core: int, eligible: tuple[int, ...]) -> int:
        if self.choose is not None:
            return self.choose(self.cycle, core, eligible)
        last = self.last.get(core, -1)
        return pick(self.policy, eligible, last, last, mix(self.seed, self.cycle, core))

    # --- one instruction --------------------------------------------------------------------------

    def execute(self, warp: _Warp, core: int) -> None:
        step = warp.next
        assert step is not None
        self.account(warp, step)
        instruction = instruction_of(step)
        initiation, way = self.shortened(warp, step)
        number = len(warp.issued)
        now = self.cycle
        request = _InFlight(warp.number, number, instruction, now, now, initiation, way)
        if not instruction.joins:
            self.waiting[self.queue_of[core, instruction.unit].index].append(request)
        self.log.append(request)
        warp.issued.append(request)
        for name in instruction.writes:
            before = warp.producers.get(name, []) if instruction.conditional else []
            warp.producers[name] = [*before, request]
        warp.earliest = self.cycle + 1 + instruction.bubble_cycles
        warp.next = next(warp.steps, None)
        match step:
            case Barrier():
                warp.waits_at = step
            case PartialBarrier(mbarrier=Mbarrier() as use):
                if use.expects:
                    self.counters[step.name] = _Counter(use.expects, use.expects)
                elif not step.waits:
                    self.counting.append((request, step))
                elif self.counters[step.name].parity == use.parity:
                    warp.waits_at = step
                elif step.name == REGISTERS:
                    warp.opened = self.cycle + instruction.initiation_cycles
                    warp.opened += instruction.latency_cycles
            case PartialBarrier(shown=shown):
                if step.waits:
                    warp.waits_at = step
                self.arrived[shown] = self.arrived.get(shown, 0) + 1
                if self.arrived[shown] == step.warps:
                    self.arrived[shown] = 0
                    self.open(lambda at: isinstance(at, PartialBarrier) and at.shown == shown)
            case TimedInstruction(joins=True):
                warp.waits_at = step
                self.enter_together(warp.number // WARPGROUP)
            case _:
                pass

    def enter_together(self, number: int) -> None:
        """Queues a product for all four warps when the last of them has issued it."""
        group = [warp for warp in self.warps if warp.number // WARPGROUP == number]
        if len(group) < WARPGROUP or not all(_waits_for_group(warp) for warp in group):
            return
        for warp in group:
            request = warp.issued[-1]
            request.entered = self.cycle
            queue = self.queue_of[warp.number % self.cores, request.node.unit]
            self.waiting[queue.index].append(request)
            warp.waits_at = None
            warp.opened = self.cycle + 1
            if warp.next is not None:
                warp.book("barrier", max(0, warp.opened - warp.earliest))

    def shortened(self, warp: _Warp, step: Step) -> tuple[int, Way]:
        instruction = instruction_of(step)
        way = self.configuration.way_of(instruction)
        initiation, latency = instruction.initiation_cycles, way.latency
        if isinstance(step, PartialBarrier) and step.mbarrier is not None:
            latency += step.mbarrier.after_cycles
        percent, n = self.jitter.percent, len(warp.issued)
        if percent:
            cut = min(initiation - 1, initiation * percent // 100)
            initiation -= mix(self.jitter.seed, 2 * warp.number, n) % (cut + 1)
            cut = latency * percent // 100
            latency -= mix(self.jitter.seed, 2 * warp.number + 1, n) % (cut + 1)
        return initiation, replace(way, latency=latency)

    def account(self, warp: _Warp, step: Step) -> None:
        """Books the cycles since the warp's previous issue; see :class:`Stalls`."""
        warp.book("issued")
        begin = max(warp.earliest, warp.opened)
        determining = None
        eligible = begin
        for name in self.waits(step):
            writer = warp.last_writer(name)
            if writer is not None and writer.end > eligible:
                determining, eligible = writer, writer.end
        if determining is not None:
            busy = min(determining.waited, eligible - begin)
            warp.book("unit_busy", busy)
            warp.book("dependency", eligible - begin - busy)
        warp.book("issue_slot", self.cycle - eligible)
        if warp.issued and not warp.bubble_booked:
            warp.book("branch", warp.issued[-1].node.bubble_cycles)
        warp.bubble_booked = False

    # --- barriers ---------------------------------------------------------------------------------

    def count(self) -> None:
        """Counts ended instructions at mbarriers, for each warp in its order, except for copies; a
        waiting warp is held until the phase is complete, and then polls once more.
        """
        due, self.counting = self.counting, []
        held: set[tuple[int, str]] = set()
        for request, step in due:
            use, key = step.mbarrier, (request.warp, step.name)
            assert use is not None
            is_due = request.is_over(self.cycle) and self.are_over(use, request)
            if not is_due or (key in held and not use.brings):
                self.counting.append((request, step))
                held |= set() if use.brings else {key}
                continue
            at = self.counters[step.name]
            at.owed += use.owes - use.brings
            at.pending -= use.arrivals
            if at.pending == 0 and at.owed == 0:
                at.pending, at.parity = at.expects, 1 - at.parity
                self.open_phase(step.name)

    def are_over(self, use: Mbarrier, request: _InFlight) -> bool:
        """Returns whether the copies before an arrival have ended long enough ago."""
        if not use.behind:
            return True
        (warp,) = (warp for warp in self.warps if warp.number == request.warp)
        copies = (
            one
            for one in warp.issued[: request.number]
            if not set(use.behind).isdisjoint(one.node.writes)
        )
        return all(copy.is_over(self.cycle - use.after_cycles) for copy in copies)

    def open_phase(self, name: str) -> None:
        """Lets the warps that wait for the phase of an mbarrier poll once more."""
        for warp in self.warps:
            at = warp.waits_at
            if isinstance(at, PartialBarrier) and at.mbarrier is not None and at.name == name:
                timed = at.instruction
                asked = self.cycle + timed.initiation_cycles + timed.latency_cycles
                warp.waits_at, warp.opened = None, asked
                if warp.next is not None:
                    warp.book("barrier", max(0, warp.opened - warp.earliest))

    def open_block_barrier(self) -> None:
        """Opens it when every warp that has not ended by now waits there."""
        running = [warp for warp in self.warps if not warp.ended(self.cycle)]
        names = {
            warp.waits_at.name if isinstance(warp.waits_at, Barrier) else None for warp in running
        }
        if len(names) == 1 and None not in names:
            (name,) = names
            self.open(lambda at: isinstance(at, Barrier) and at.name == name, self.cycle)

    def open(self, concerns: Callable[[Step], bool], cycle: int | None = None) -> None:
        """Lets warps that wait there issue from ``cycle`` on (default: the next one)."""
        for warp in self.warps:
            if warp.waits_at is None or not concerns(warp.waits_at):
                continue
            barrier = instruction_of(warp.waits_at)
            warp.waits_at = None
            if warp.next is None:
                continue
            warp.opened = self.cycle + 1 if cycle is None else cycle
            warp.book("branch", barrier.bubble_cycles)
            warp.bubble_booked = True
            warp.book("barrier", max(0, warp.opened - warp.earliest))
            warp.section = barrier.origin
            warp.executions[warp.section] = warp.executions.get(warp.section, 0) + 1

    def check_for_deadlock(self) -> None:
        """Raises PW532 if nothing can change any more."""
        for warp in self.warps:
            entered = warp.issued[-64:-1] if _waits_for_group(warp) else warp.issued[-64:]
            if not all(request.is_over(self.cycle) for request in entered):
                return
        if any(self.waiting.values()) or self.under_way or self.at_path or self.at_memory:
            return
        if self.counting:
            return
        stuck = [warp for warp in self.warps if not warp.ended(self.cycle)]
        if not stuck or any(warp.waits_at is None for warp in stuck):
            return
        notes = []
        for warp in stuck:
            assert warp.waits_at is not None
            at = warp.waits_at
            name = "a product of its warpgroup"
            if not isinstance(at, TimedInstruction):
                name = at.shown if isinstance(at, PartialBarrier) else f"barrier {at.name}"
            origin = instruction_of(at).origin
            notes.append(f"warp {warp.number} at {name} (origin {origin})")
        raise PtxwcetError(
            Diagnostic(
                "PW532",
                f"deadlock: from cycle {self.cycle} on, every warp that has not ended waits at a "
                "barrier",
                notes=tuple(notes),
                help="all warps must meet the same barriers",
            )
        )

    # --- the result -------------------------------------------------------------------------------

    def summary(self) -> SimulatedRun:
        cycles = max((request.end for request in self.log), default=0)
        return SimulatedRun(
            cycles,
            self.policy,
            self.seed,
            self.jitter,
            self.cores,
            len(self.log),
            len(self.log),
            tuple(_describe(warp, cycles) for warp in self.warps),
            tuple(
                IssueEvent(
                    request.warp,
                    request.node.origin,
                    request.node.unit,
                    request.issue,
                    request.freed - request.initiation,
                    request.freed,
                    request.end,
                )
                for request in self.log
            ),
        )


def pick(policy: Policy, by_age: Sequence[int], turn: int, last: int, number: int) -> int:
    """Applies the policies, as :class:`Policy` defines them: one of the slots of eligible warps.

    ``by_age`` has the slots of the oldest block first. ``turn`` is the slot issued last, ``last``
    the same while its warp is there (-1: none), ``number`` a random number.
    """
    by_slot = sorted(by_age)
    match policy:
        case Policy.LRR:
            return next((slot for slot in by_slot if slot > turn), by_slot[0])
        case Policy.GTO:
            return last if last in by_age else by_age[0]
        case Policy.GTY:
            return last if last in by_age else by_age[-1]
        case Policy.OLDEST:
            return by_age[0]
        case Policy.YOUNGEST:
            return by_age[-1]
        case Policy.RANDOM:
            return by_slot[number % len(by_slot)]


def _describe(warp: _Warp, cycles: int) -> WarpRun:
    sections = tuple(
        SectionRun(after, executions, Stalls(**warp.spent.get(after, {})))
        for after, executions in warp.executions.items()
    )
    end = max((request.end for request in warp.issued), default=0)
    last_issue = warp.issued[-1].issue + 1 if warp.issued else 0
    return WarpRun(warp.number, end, sections, end - last_issue, cycles - end)


def _waits_for_group(warp: _Warp) -> bool:
    return isinstance(warp.waits_at, TimedInstruction)


def _units(body: Sequence[Node]) -> Iterator[str]:
    for node in body:
        match node:
            case Repeat(count=count, body=inner):
                if count:
                    yield from _units(inner)
            case TimedInstruction():
                yield node.unit
            case Barrier(instruction=instruction) | PartialBarrier(instruction=instruction):
                yield instruction.unit
            case _:
                raise ValueError("only a single known path can be simulated")
