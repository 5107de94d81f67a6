"""A machine file as silicon: the clocks that a microbenchmark would read on it.

One warp executes the kernel's first round on the simulator. What its accesses take of
memory is said here, from what each kernel is meant to do. What an access takes of the path of an SM
and of the memory behind it is in its latency already: one warp waits for nobody there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ptx_printer import print_instruction

from ptxwcet.ir.kernel import Kernel
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.model import Machine
from ptxwcet.memory.analysis import Transactions
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import find_policy
from ptxwcet.timing.cost import charge_transactions, cost_instruction
from ptxwcet.warp.program import BlockWorkload, TimedInstruction, WarpClass, WarpProgram

MEANT = {
    "line_cycles": Transactions(sectors=32, lines=32),
    "pass_cycles": Transactions(passes=32),
    "word_cycles": Transactions(words=32),
    "serial_cycles": Transactions(sectors=1, lines=1, serial=32),
}
COALESCED = {
    OpClass.LOAD_CONST: Transactions(words=1),
    OpClass.LOAD_SHARED: Transactions(passes=1),
    OpClass.LOAD_GLOBAL: Transactions(sectors=1, lines=1),
    OpClass.ATOMIC_SHARED: Transactions(passes=1),
}


def clocks(name: str, kernel: Kernel, machine: Machine) -> tuple[int, int] | None:
    """Cycles of the short and of the long section; None if the machine refuses an instruction."""
    steps = list(_steps(name, kernel, machine))
    if None in steps:
        return None
    body = tuple(step for step in steps if step is not None)
    program = BlockWorkload((WarpClass(WarpProgram(body), (0,)),), machine.scoreboard)
    run = Simulator(program, SmConfiguration.of(machine)).run(find_policy("lrr"), record=len(body))
    instructions = kernel.instructions
    read = [
        event.issue_cycle
        for event in sorted(run.events, key=lambda event: event.issue_cycle)
        if "%clock64" in print_instruction(instructions[event.origin])
    ]
    assert len(read) == 5, "one before the rounds, four in a round"
    return read[3] - read[2], read[4] - read[3]


def _steps(name: str, kernel: Kernel, machine: Machine) -> Iterator[TimedInstruction | None]:
    """One round; a branch to the end is not taken, and the one that repeats is the last."""
    for index, instruction in enumerate(kernel.instructions):
        op = instruction.op_class
        cost = cost_instruction(instruction, machine, origin=index)
        taken = COALESCED.get(op) if op is not None else None
        if op in (OpClass.LOAD_GLOBAL, OpClass.LOAD_SHARED, OpClass.LOAD_CONST):
            taken = MEANT.get(name, taken)
        elif op is OpClass.ATOMIC_GLOBAL:
            taken = MEANT["serial_cycles"]
        if not isinstance(cost, TimedInstruction):
            yield None
        else:
            charged = charge_transactions(cost, taken or Transactions(), machine)
            yield replace(charged, path_cycles=0, sectors=0)
        if "%more" in print_instruction(instruction) and op is OpClass.BRANCH:
            return
