"""A plain interpreter of PTX: the warps of one block, one lane after the other, one way at a time.

Written from the PTX ISA manual as an oracle: it shares nothing with the analysis of paths and
values nor with the emulator, and takes from the parser only the words, operands and labels of
instructions. Lanes of a warp that part meet again at the nearest block on all ways to the end.
Data come from :mod:`isa_memory`. Cost: a microsecond or so for each instruction of each lane.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations

from isa_decoding import Step, decode
from isa_floats import to_bits
from isa_graph import BRANCHES, ENDINGS, Graph
from isa_memory import Memory, Values, Window
from isa_types import Type, ones

from ptxwcet.flow.launch import ArrayRange
from ptxwcet.ir.kernel import Kernel

Dim3 = tuple[int, int, int]
Mask = tuple["Lane", ...]
Trace = list[tuple[int, bool]]


@dataclass(frozen=True)
class Input:
    """A launch and where its data come from.

    Parameters without a value, block indices and the size of the grid are drawn from ``seed`` if
    they are not given. ``steps`` is how many blocks of instructions a warp may execute. ``leaving``
    is what threads do that go straight to the end, past a barrier that others of their warp come
    to: end at once ("early"), when the others come to the barrier ("late"), or wait for the others
    and count as arrived ("wait").
    """

    block: Dim3
    seed: int
    profile: str = "mixed"
    grid: Dim3 | None = None
    index: Dim3 | None = None
    parameters: Mapping[str, int | float] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    data: Mapping[str, bytes] = field(default_factory=dict)
    constants: Mapping[str, bytes] = field(default_factory=dict)
    arrays: Mapping[str, ArrayRange] = field(default_factory=dict)
    steps: int = 400
    restless: bool = False
    backwards: bool = False
    leaving: str = "wait"


class Lane:
    """A thread: its registers as raw bits, its special registers, its carry flag."""

    __slots__ = ("carry", "number", "registers", "special", "stack", "thread", "warp")

    def __init__(self, thread: int, registers: list[int], special: dict[str, int]) -> None:
        self.thread = thread
        self.number = thread % 32
        self.warp = thread // 32
        self.registers = registers
        self.special = special
        self.carry = 0
        self.stack: dict[str, dict[int, int]] = {}  # bytes of the parameters of calls


class StopRun(Exception):
    """A warp has executed as many blocks as it may."""


@dataclass
class WarpRun:
    """What a warp has executed: first instructions of blocks and whether it went on elsewhere.

    ``is_whole`` is False if it was stopped before its end.
    """

    trace: Trace = field(default_factory=list)
    is_whole: bool = True
    is_late: bool = False
    """Some of its lanes have executed their end while others were on their way to a barrier."""


@dataclass
class Execution:
    """What the warps of a block have executed; ``findings`` are uses that the ISA leaves open."""

    warps: list[WarpRun]
    index: Dim3
    grid: Dim3
    parameters: dict[str, int]
    findings: list[tuple[str, int]]
    program: Program

    @property
    def is_whole(self) -> bool:
        return all(warp.is_whole for warp in self.warps)


class Program:
    """A kernel decoded once."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.graph = Graph(kernel)
        self.numbers = {name: i for i, name in enumerate(kernel.registers)}
        self.steps: tuple[Step, ...] = decode(kernel, self.numbers)


@lru_cache(maxsize=16)
def program_of(kernel: Kernel) -> Program:
    return Program(kernel)


WORD = 32
"""Bits of the words of aggregates of which something is said."""
_ARRAY = 1 << 36  # of 2^31 words of 8 bytes on both sides, and more
OUTSIDE = "an integer out of the range of its array"
"""Finding of a run that is none of those for which such ranges are stated."""

ABORTED = "the launch is aborted"
"""Finding of a run that comes to a trap or a failed assertion: it goes no further."""

Observer = Callable[["Machine", int, int, Mask], None]
"""Called with the machine, warp, first instruction and lanes before each block is executed."""


def execute(kernel: Kernel, given: Input, observer: Observer | None = None) -> Execution:
    """Executes one block of a launch on the data of an input."""
    return Machine(program_of(kernel), given, observer).run()


class Machine:
    """One block as it runs."""

    def __init__(self, program: Program, given: Input, observer: Observer | None = None) -> None:
        self.program = program
        self.given = given
        self.random = random.Random(given.seed)
        self.values = Values(given.seed + 1, given.profile)
        self.memory = Memory(self.values, restless=given.restless)
        self.observer = observer
        self.grid, self.index = self._place()
        self.parameters = self._parameters()
        for name, row in given.arrays.items():
            base, size = self.parameters[name], int(row.type[1:]) // 8
            ends = base - _ARRAY // 2, base + _ARRAY // 2 - 1
            signed = row.type[0] == "s"
            self.memory.windows.append(Window(*ends, size, row.low, row.high, signed))
        self.variables = self._variables()
        self.findings: list[tuple[str, int]] = []
        threads = given.block[0] * given.block[1] * given.block[2]
        self.lanes = [self._lane(thread) for thread in range(threads)]
        self.warps = [tuple(self.lanes[i : i + 32]) for i in range(0, threads, 32)]
        self.runs = [WarpRun() for _ in self.warps]
        self.alive = [set(warp) for warp in self.warps]
        self.ending: list[list[tuple[int, set[Lane], bool]]] = [[] for _ in self.warps]
        self.left = [given.steps] * len(self.warps)
        self.votes: list[tuple[str, list[int]]] = [("", [])] * len(self.warps)
        self.reduced = [0] * len(self.warps)

    def _place(self) -> tuple[Dim3, Dim3]:
        given, chooser = self.given, self.random
        if given.grid is None:
            sizes = [chooser.choice((1, 2, 5, 4096, m)) for m in (2**31 - 1, 65535, 65535)]
        else:
            sizes = list(given.grid)
        if given.index is not None:
            index = list(given.index)
        else:
            index = [chooser.choice((0, size - 1, chooser.randrange(size))) for size in sizes]
        sizes = [max(size, place + 1) for size, place in zip(sizes, index, strict=True)]
        return (sizes[0], sizes[1], sizes[2]), (index[0], index[1], index[2])

    def _parameters(self) -> dict[str, int]:
        found = {}
        base = 0x7F0000000000
        for parameter in self.program.kernel.parameters:
            name = parameter.name
            data = self.given.data.get(name)
            if name in self.given.parameters:
                value, of = self.given.parameters[name], Type("f", 8 * parameter.size_bytes)
                whole = parameter.type[0] != "f"
                raw = int(value) & ones(of.bits) if whole else to_bits(float(value), of)
            elif name in self.given.ranges:
                low, high = self.given.ranges[name]
                raw = self.random.choice((low, high, self.random.randint(low, high)))
                raw &= ones(8 * parameter.size_bytes)
            elif data is not None:
                raw = int.from_bytes(data, "little")
            elif parameter.size_bytes == 8 and not name.startswith("n"):
                raw = base
                base += _ARRAY
            else:
                raw = self.values.draw(8 * parameter.size_bytes)
            found[name] = raw
        self._words_of_aggregates(found)
        return found

    def _words_of_aggregates(self, found: dict[str, int]) -> None:
        """What is said of words of 32 bits, by the aggregate's name and their offset in bytes."""
        for name in (*self.given.parameters, *self.given.ranges):
            aggregate, plus, offset = name.partition("+")
            if not plus:
                continue
            low, high = self.given.ranges.get(name, (0, 0))
            value = self.given.parameters.get(name, self.random.choice((low, high)))
            found[name] = int(value) & ones(WORD)
            if aggregate not in found:
                continue  # a variable
            place = 8 * int(offset)
            found[aggregate] &= ~(ones(WORD) << place)
            found[aggregate] |= found[name] << place

    def _variables(self) -> dict[str, int]:
        """Addresses of variables; what ``constants`` say is in memory from the start."""
        found = {}
        base = {"shared": 0x100, "local": 0x0, "const": 0x4000000, "global": 0x7E0000000000}
        for variable in self.program.kernel.variables:
            if variable.space in base:
                found[variable.name] = base[variable.space]
                base[variable.space] += -(-max(variable.size_bytes, 16) // 256) * 256
        for name in (*self.given.parameters, *self.given.ranges):
            variable, plus, offset = name.partition("+")
            if plus and variable not in self.parameters:
                if variable not in found:
                    found[variable] = base["const"]
                    base["const"] += 256
                self.memory.write(found[variable] + int(offset), 4, self.parameters[name])
        for name, data in self.given.constants.items():
            found[name] = base["const"]
            base["const"] += -(-max(len(data), 1) // 256) * 256
            for i, byte in enumerate(data):
                self.memory.write(found[name] + i, 1, byte)
        return found

    def address_of(self, name: str) -> int:
        """The address of a variable, made up for one of the module."""
        if name not in self.variables:
            self.variables[name] = 0x7D0000000000 + 0x100000 * len(self.variables)
        return self.variables[name]

    def _lane(self, thread: int) -> Lane:
        x, y, _ = self.given.block
        warps = -(-self.given.block[0] * y * self.given.block[2] // 32)
        three = {
            "tid": (thread % x, thread // x % y, thread // (x * y)),
            "ntid": self.given.block,
            "ctaid": self.index,
            "nctaid": self.grid,
        }
        special = {
            f"%{name}.{axis}": row[i] for name, row in three.items() for i, axis in enumerate("xyz")
        }
        number = thread % 32
        special |= {"%laneid": number, "%warpid": thread // 32, "%nwarpid": max(warps, 64)}
        special |= {
            "%lanemask_eq": 1 << number,
            "%lanemask_lt": ones(number) if number else 0,
            "%lanemask_le": ones(number + 1),
            "%lanemask_gt": ones(32) & ~ones(number + 1),
            "%lanemask_ge": ones(32) & ~(ones(number) if number else 0),
        }
        return Lane(thread, [0] * len(self.program.numbers), special)

    def run(self) -> Execution:
        """Lets every warp run to its next barrier, in turns, until all have ended."""
        running = {w: self._warp(w) for w in range(len(self.warps))}
        waiting: dict[int, tuple[int, int]] = {}
        while running:
            order = [w for w in running if w not in waiting]
            self.random.shuffle(order)
            for w in order:
                try:
                    waiting[w] = next(running[w])
                except StopIteration:
                    del running[w]
                except StopRun:
                    self.runs[w].is_whole = False
                    del running[w]
            if not self._release(running, waiting):
                break
        for w in running:  # they wait for one that was stopped
            self.runs[w].is_whole = False
        if self.memory.is_outside:
            self.findings.append((OUTSIDE, 0))
        return Execution(
            self.runs, self.index, self.grid, self.parameters, self.findings, self.program
        )

    def _release(self, running: Mapping[int, object], waiting: dict[int, tuple[int, int]]) -> bool:
        """Lets those go on whose barrier is complete; False if none ever will."""
        if any(w not in waiting for w in running) or not running:
            return True
        for barrier in {number for number, _ in waiting.values()}:
            there = [w for w, (number, _) in waiting.items() if number == barrier]
            wanted = max(waiting[w][1] for w in there)
            missing = [w for w in range(len(self.warps)) if w not in there]
            complete = 32 * len(there) >= wanted if wanted else not missing
            if not complete and any(not self.runs[w].is_whole for w in missing):
                continue
            if not complete and any(w in waiting for w in missing):
                self.findings.append(("barriers of one block differ", barrier))
                continue
            self._reduce(there, barrier)
            for w in there:  # those that have ended are not waited for
                del waiting[w]
            return True
        return False

    def _reduce(self, there: list[int], barrier: int) -> None:
        """The result of a barrier for the warps that wait there."""
        operations = {self.votes[w][0] for w in there}
        if len(operations) > 1:  # the ISA: this is unpredictable
            self.findings.append(("barriers of one block differ", barrier))
        votes = [vote for w in there for vote in self.votes[w][1]]
        reduced = {"popc": sum(votes), "and": int(all(votes)), "or": int(any(votes))}
        for w in there:
            self.reduced[w] = reduced.get(self.votes[w][0], 0)

    def _warp(self, warp: int) -> Generator[tuple[int, int], None, None]:
        yield from self._region(warp, 0, self.warps[warp], self.program.graph.end)
        for block, left, meets in self.ending[warp]:
            if not meets or self.runs[warp].trace[-1:] != [(block, False)]:
                self._end(warp, block, left)

    def _region(
        self, warp: int, block: int, mask: Mask, stop: int
    ) -> Generator[tuple[int, int], None, Mask]:
        """Executes lanes up to a block or the end; returns those that have come to it."""
        graph, steps = self.program.graph, self.program.steps
        trace = self.runs[warp].trace
        while mask and block not in (stop, graph.end):
            if self.left[warp] <= 0:
                raise StopRun
            self.left[warp] -= 1
            if self.observer is not None:
                self.observer(self, warp, block, mask)
            last = graph.last[block]
            for i in range(block, last if last in graph.closes else last + 1):
                step = steps[i]
                if step.barrier is None:
                    step.run(self, mask)
                else:
                    yield from self._barrier(warp, i, mask)
            if last not in graph.closes:
                trace.append((block, False))
                block = last + 1
                continue
            if last in graph.aborts:
                if any(steps[last].holds(lane) for lane in mask):
                    self.findings.append((ABORTED, 0))
                    raise StopRun
                trace.append((block, False))
                block = last + 1
                continue
            ways = self._ways(last, mask)
            if steps[last].words[0] in ENDINGS:
                trace.append((block, False))
                self.alive[warp] -= set(ways.get(graph.end, ()))
                block, mask = last + 1, ways.get(last + 1, ())
                continue
            meeting = graph.meeting[block]
            if len(ways) == 1:
                (block_to,) = ways
                trace.append((block, self._jumps(last, block_to, mask)))
                block = block_to
                continue
            ends = next((to for to in ways if graph.only_ends(to)), None)
            if ends is None and len(ways) == 2:
                sides = [(to, other) for to, other in permutations(ways) if not graph.may_wait(to)]
                works = (to for to, other in sides if graph.way_to_end(to, other) is not None)
                ends = next(works, None)
            if ends is not None and len(ways) == 2:
                other = next(to for to in ways if to != ends)
                if graph.may_wait(other):
                    left = set(ways[ends])
                    if self.given.leaving == "early":
                        trace.append((block, ends != last + 1))
                        self._end(warp, ends, left)
                    else:
                        trace.append((block, other != last + 1))
                        self.ending[warp].append((ends, left, ends == meeting))
                    block, mask = other, ways[other]
                    continue
            jumped = next(iter(ways))
            indexed = steps[last].words[0] == "brx"  # it always jumps
            parts = steps[last].words[0] == "bra" and jumped != meeting
            trace.append((block, indexed or parts))
            order = list(ways.items())
            if self.given.backwards:
                order.reverse()
            met: set[Lane] = set()
            for target, lanes in order:
                met |= set((yield from self._region(warp, target, lanes, meeting)))
            mask = tuple(lane for lane in self.warps[warp] if lane in met)
            block = meeting
        if block == graph.end:
            self.alive[warp] -= set(mask)
        return mask

    def _end(self, warp: int, block: int, lanes: set[Lane]) -> None:
        """Lanes execute what leads them to their end: a block that ends them, or some more."""
        graph, steps = self.program.graph, self.program.steps
        mask = tuple(lane for lane in self.warps[warp] if lane in lanes)
        for start in graph.way_to_end(block) or ():
            last = graph.last[start]
            for i in range(start, last if last in graph.closes else last + 1):
                steps[i].run(self, mask)
            jumps = last in graph.closes and steps[last].words[0] in BRANCHES
            self.runs[warp].trace.append((start, jumps))
        self.alive[warp] -= lanes

    def _jumps(self, last: int, target: int, mask: Mask) -> bool:
        """Whether lanes take the branch, also one that leads to the next instruction."""
        step = self.program.steps[last]
        return step.words[0] in BRANCHES and any(step.holds(lane) for lane in mask)

    def _ways(self, last: int, mask: Mask) -> dict[int, Mask]:
        """Where the lanes go, by the block that they go to."""
        step, graph = self.program.steps[last], self.program.graph
        found: dict[int, list[Lane]] = {}
        for lane in mask:
            if not step.holds(lane):
                target = last + 1
            elif step.words[0] in ENDINGS:
                target = graph.end
            elif step.words[0] == "brx":
                choice = step.index(self, lane)
                targets = graph.targets[last]
                target = targets[choice % len(targets)]
            else:
                target = graph.targets[last][0]
            found.setdefault(target, []).append(lane)
        branch = {t: tuple(lanes) for t, lanes in found.items() if t != last + 1}
        if last + 1 in found:
            branch[last + 1] = tuple(found[last + 1])
        return branch

    def _barrier(self, warp: int, index: int, mask: Mask) -> Generator[tuple[int, int], None, None]:
        step = self.program.steps[index]
        lanes = tuple(lane for lane in mask if step.holds(lane))
        if not lanes:
            return
        while self.ending[warp] and self.given.leaving == "late":
            block, left, _ = self.ending[warp].pop()
            self._end(warp, block, left)
            self.runs[warp].is_late = True
        if set(lanes) != self.alive[warp].difference(*(left for _, left, _ in self.ending[warp])):
            self.findings.append(("lanes apart at a barrier", index))
        assert step.barrier is not None
        number, threads = step.barrier(self, lanes[0])
        vote = step.vote
        operation = step.words[step.words.index("red") + 1] if vote is not None else ""
        given = [] if vote is None else [vote(self, lane) for lane in lanes]
        self.votes[warp] = operation, given
        if step.waits:
            yield number, threads
        step.run(self, lanes)


def counts(run: WarpRun) -> dict[int, int]:
    """How often a warp has executed each block."""
    found: dict[int, int] = {}
    for block, _ in run.trace:
        found[block] = found.get(block, 0) + 1
    return found
