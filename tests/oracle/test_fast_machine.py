"""The fast machine and the plain interpreter agree, block by block and register by register.

Both are written from the ISA apart from each other. Each number that is loaded is a function of
seed, instruction, visit and address, so that both load the same.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from fast_machine import END, OPEN, drawn
from fast_program import Data, FastProgram, FastRun, NotFollowed, Place, run_warp
from isa_decoding import Step
from isa_interpreter import Execution, Input, Machine, Mask, Program, counts
from isa_memory import Memory
from parsing import parse_kernel
from random_programs import KINDS, random_kernel
from test_isa_interpreter import straight_kernel

from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel

STEPS = 60
COMPARED = [kind for kind in KINDS if kind not in ("aborts", "leavers")]
"""Of the others the plain interpreter ends lanes past barriers in an order of its own."""


class DrawnMemory(Memory):
    """Memory in which each read gives what the fast machine draws; nothing that is written stays.

    ``now`` is the instruction that reads and how often it has been executed.
    """

    def __init__(self, data: Data, place: Place) -> None:
        self.data, self.windows_of = data, place.windows()
        self.now = (0, 0)
        self.is_restless = self.is_outside = False
        self.windows = []

    def read(self, address: int, size: int) -> int:
        now = (0, 0) if self.data.is_same else self.now
        data = self.data
        raw = drawn(data.seed, data.modes, data.values, self.windows_of, *now, address, 8 * size)
        return int(raw) % (1 << (8 * size))

    def write(self, address: int, size: int, value: int) -> None:
        pass


def plainly(kernel: Kernel, given: Input, data: Data) -> tuple[Machine, Execution]:
    """A run of the plain interpreter on the fast machine's data."""
    program = Program(kernel)
    machine = Machine(program, given)
    memory = DrawnMemory(data, place_of(machine))
    machine.memory = memory
    visits: Counter[int] = Counter()

    def noted(index: int, step: Step) -> Step:
        def run(machine: Machine, mask: Mask) -> None:
            visits[index] += 1
            fixed = "nc" in step.words or step.words[0] == "ldu"
            memory.now = (0, 0) if fixed else (index, visits[index])
            step.run(machine, mask)

        return replace(step, run=run)

    program.steps = tuple(noted(i, step) for i, step in enumerate(program.steps))
    return machine, machine.run()


def place_of(machine: Machine) -> Place:
    given = machine.given
    return Place(given.block, machine.index, machine.grid, machine.parameters, given.arrays)


def data_of(kernel: Kernel, seed: int) -> Data:
    """Random ways to choose what each instruction loads."""
    chooser = np.random.default_rng(seed)
    size = max(len(kernel.instructions), 1)
    modes = chooser.integers(0, 8, size)
    values = chooser.choice([0, 1, 2, 7, 16, -1, 2**31, 2**63 - 1, 12345], size)
    return Data(seed, modes, values, backwards=bool(seed % 2))


def agreed(kernel: Kernel, launch: Launch, seed: int) -> FastRun:
    """Executes a warp on both; says how the fast run ended."""
    program = FastProgram(kernel)
    data = data_of(kernel, seed)
    given = Input(
        *(launch.block, seed),
        grid=launch.grid,
        parameters=launch.parameters,
        ranges=launch.ranges,
        arrays=launch.arrays,
        backwards=data.backwards,
    )
    place = place_of(Machine(Program(kernel), given))
    fast = run_warp(program, place, data, 0, STEPS)
    machine, run = plainly(kernel, replace(given, steps=fast.blocks), data)
    of_blocks = {start: int(n) for start, n in zip(program.starts, fast.counts, strict=False) if n}
    assert counts(run.warps[0]) == of_blocks
    if fast.ending != OPEN:
        assert run.is_whole == (fast.ending == END) or not machine.lanes
        for name, at in program.places.items():
            if name in program.floats or name not in machine.program.numbers:
                continue
            for lane in machine.warps[0]:
                mine = int(fast.registers[at, lane.number]) % (1 << 64)
                plain = lane.registers[machine.program.numbers[name]]
                assert mine == plain, (name, lane.number)
    return fast


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", COMPARED)
def test_agrees_with_the_plain_interpreter(kind: str) -> None:
    endings: Counter[object] = Counter()
    for seed in range(25):
        one = random_kernel(seed, kind)
        kernel = parse_kernel(one.text)
        threads = one.launch.block[0] * one.launch.block[1] * one.launch.block[2]
        if threads > 32:
            one = replace(one, launch=replace(one.launch, block=(27, 1, 1)))
        try:
            for execution in range(3):
                endings[agreed(kernel, one.launch, 3 * seed + execution).ending] += 1
        except NotFollowed as reason:
            endings[str(reason)] += 1
    assert endings[END] > 10, endings


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_agrees_on_straight_code(first: int) -> None:
    """Of 25 instructions after another, most with odd operands."""
    for seed in range(first, first + 50):
        kernel = parse_kernel(straight_kernel(seed))
        parameters = {"n": 11, "nn": 2**40 + 3}
        agreed(kernel, Launch((32, 1, 1), (1, 1, 1), parameters), seed)
