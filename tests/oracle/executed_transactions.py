"""What the accesses of an executed launch needed of memory, counted by the oracle.

The emulator says which addresses the lanes of each warp had; :mod:`transaction_oracle` serves them.
Both know nothing of the static analysis of accesses, which must not say less.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from transaction_oracle import Transactions, transactions

from ptxwcet.commands.run.study import emulated, read_launch
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions, ObservedAccess
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.opened.request import Request
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source


@dataclass
class Seen:
    """The largest counts of one instruction, warp and space, over blocks and visits.

    ``full``: over those in which all lanes that exist were active, None if there were none.
    ``widths``: bytes a lane; ``accesses``: how many.
    """

    largest: Transactions = field(default_factory=Transactions)
    full: Transactions | None = None
    widths: set[int] = field(default_factory=set)
    accesses: int = 0


Key = tuple[int, int, str]
"""Instruction (an index into those of the executed kernel), warp of the block, space."""


class Counter:
    """An observer that counts; equal accesses are served once.

    ``atomic``: the instructions whose lanes on one word are served one after the other;
    ``stores``: those that write.
    """

    def __init__(self, atomic: frozenset[int], stores: frozenset[int]) -> None:
        self.seen: dict[Key, Seen] = {}
        self._atomic, self._stores = atomic, stores
        self._served: dict[tuple[object, ...], Transactions] = {}

    def __call__(self, access: ObservedAccess) -> None:
        counts = self._counts(access)
        key = (access.instruction, access.warp, access.space)
        row = self.seen.setdefault(key, Seen())
        row.accesses += 1
        row.widths.add(access.size)
        row.largest = row.largest.largest(counts)
        if access.active == access.existing:
            row.full = counts if row.full is None else row.full.largest(counts)

    def _counts(self, access: ObservedAccess) -> Transactions:
        atomic, store = access.instruction in self._atomic, access.instruction in self._stores
        what = (access.space, access.size, access.addresses, atomic, store)
        if what not in self._served:
            given = dict(access.addresses)
            assert len(given) == len(access.addresses)
            self._served[what] = transactions(
                access.space, access.size, given, atomic=atomic, store=store
            )
        return self._served[what]


def executed_transactions(
    kernel: Kernel, module: Module, launch: EmulatedLaunch
) -> tuple[Kernel, dict[Key, Seen]]:
    """Runs a launch to its end: the kernel that was executed and what its accesses needed at most.

    The kernel has the functions called in place of the calls; indices are those of its
    instructions. Cost: that of the run, and some 0.2 ms for each access of a warp unlike others.
    """
    kernel = inline_calls(kernel, module)
    atomic, stores = (
        frozenset(
            index
            for index, one in enumerate(kernel.instructions)
            if one.opcode is not None and one.opcode.name in names
        )
        for names in (("atom", "red"), ("st", "stu", "wmma.store"))
    )
    counter = Counter(atomic, stores)
    execution = execute(
        kernel, module, launch, options=EmulatorOptions(checks=frozenset(), observer=counter)
    )
    assert execution.is_complete, execution.findings
    assert execution.kernel.instructions == kernel.instructions
    return kernel, counter.seen


def transactions_of_launch(ptx: Path, launch_file: Path) -> tuple[Kernel, dict[Key, Seen]]:
    """The same for the launch that a launch file describes."""
    module = parse_module(read_source(str(ptx)))
    launch = read_launch(str(launch_file), module, Request(str(ptx)))
    return executed_transactions(launch.kernel, module, emulated(launch))
