"""Separates registers by webs: each web of writes and reads of a register is renamed.

Machine code has few registers and writes each of them many times. A *web* is a smallest set of
writes and reads of one register that contains with each read all writes that may reach it. No value
written in one web is read in another, so that each may have a name of its own.

Short branches become guards. If a read under a guard follows a write under the same guard in the
same block, without a change of the guard between, all lanes that read have written: no earlier
write reaches it. If all readers of a guarded write are of that kind, lanes that do not execute the
write never read it, and it may as well be executed by all (:func:`speculated`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.ir.instruction_set import ROWS
from ptxwcet.ir.kernel import Guard, Instruction, Kernel
from ptxwcet.ir.op_classes import ControlEffect, Space


def with_webs(kernel: Kernel, split: Callable[[str], bool] = lambda _: True) -> Kernel:
    """Returns the kernel with a register for each web, of those registers that are to be ``split``.
    A register that may be read before it is written keeps its name, as does one with a single web.

    Cost: registers times their writes times the blocks at worst.
    """
    webs = _Webs(kernel, split)
    instructions = tuple(
        webs.renamed(index, instruction) for index, instruction in enumerate(kernel.instructions)
    )
    registers = {
        name: kernel.registers.get(name) or kernel.registers[name.rpartition(_MARK)[0]]
        for instruction in instructions
        for name in (*instruction.reads, *instruction.writes)
    }
    return replace(kernel, instructions=instructions, registers=registers)


_MARK = "@"


class _Webs:
    def __init__(self, kernel: Kernel, split: Callable[[str], bool]) -> None:
        self._kernel = kernel
        self._cfg = build_cfg(kernel)
        self._names: dict[tuple[str, int, bool], str] = {}  # register, instruction, is written
        self._writes: dict[str, list[int]] = defaultdict(list)
        reads: dict[str, list[int]] = defaultdict(list)
        for index, instruction in enumerate(kernel.instructions):
            for name in instruction.writes:
                self._writes[name].append(index)
            for name in instruction.reads:
                reads[name].append(index)
        self._block_of = [
            block.id for block in self._cfg.blocks for _ in range(block.start, block.end)
        ]
        for name, writes in self._writes.items():
            if len(writes) > 1 and split(name):
                self._split(name, writes, reads[name])

    def renamed(self, index: int, instruction: Instruction) -> Instruction:
        form, names = instruction.form, list(instruction.names)
        for slots, is_written in ((form.read_slots, False), (form.write_slots, True)):
            for slot in slots:
                key = instruction.names[slot], index, is_written
                names[slot] = self._names.get(key, names[slot])
        return instruction._replace(names=tuple(names))

    def _split(self, name: str, writes: list[int], reads: list[int]) -> None:
        """Finds the webs of a register by the writes that reach each read; -1: none has."""
        bit = {index: 1 << number for number, index in enumerate((-1, *writes))}
        begun = self._at_begin(name, writes, bit)
        parent = {write: write for write in bit.values()}

        def root(write: int) -> int:
            while parent[write] != write:
                write = parent[write]
            return write

        reached: dict[int, int] = {}
        joined = 0  # writes that are known to be of one web
        by_block: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        for index in reads:
            by_block[self._block_of[index]].append((index, False))
        for index in writes:
            by_block[self._block_of[index]].append((index, True))
        for block, places in by_block.items():
            reaching = _Reaching(begun[block], self._kernel, self._writes)
            for index, is_written in sorted(places):  # an instruction reads before it writes
                if is_written:
                    reaching.write(index, bit[index])
                    continue
                now = reaching.read(index, name) or bit[-1]
                first = reached[index] = now & -now
                shared = joined & now
                others = now & ~joined | shared & -shared
                joined = joined | now if shared else max(joined, now, key=int.bit_count)
                while others:
                    parent[root(others & -others)] = root(first)
                    others &= others - 1
        open_web = root(bit[-1])
        roots = list(dict.fromkeys(root(bit[index]) for index in writes))
        numbers = {write: number for number, write in enumerate(roots)}

        def called(web: int) -> str:
            is_only = len(roots) == 1 or web == open_web or web not in numbers
            return name if is_only else f"{name}{_MARK}{numbers[web]}"

        for index in writes:
            self._names[name, index, True] = called(root(bit[index]))
        for index, write in reached.items():
            self._names[name, index, False] = called(root(write))

    def _at_begin(self, name: str, writes: list[int], bit: Mapping[int, int]) -> list[int]:
        """Returns the writes that may reach the beginning of each block."""
        inside: dict[int, list[int]] = defaultdict(list)
        for index in writes:
            inside[self._block_of[index]].append(index)
        count = len(self._cfg.blocks)
        begun = [0] * count
        begun[self._cfg.entry] = bit[-1]
        pending = [self._cfg.entry]
        seen = {self._cfg.entry}
        while pending:
            block = pending.pop()
            now = begun[block]
            for index in inside.get(block, ()):
                now = self._behind(index, now, bit)
            for target in self._cfg.successors[block]:
                if target not in seen or now & ~begun[target]:
                    seen.add(target)
                    begun[target] |= now
                    pending.append(target)
        return begun

    def _behind(self, index: int, now: int, bit: Mapping[int, int]) -> int:
        """Returns the writes that reach the code after one; under a guard it may not happen."""
        kept = self._kernel.instructions[index].guard is not None
        return now | bit[index] if kept else bit[index]


class _Reaching:
    """The writes of a register that reach a place of a block, and those that reach the lanes with a
    given guard.
    """

    def __init__(self, begun: int, kernel: Kernel, writes: Mapping[str, list[int]]) -> None:
        self._now, self._kernel, self._writes = begun, kernel, writes
        self._held: dict[Guard, tuple[int, int]] = {}  # the writes, and since when

    def write(self, index: int, bit: int) -> None:
        """Records a write by an instruction: its number, and its bit."""
        guard = self._kernel.instructions[index].guard
        if guard is None:
            self._now, self._held = bit, {}
            return
        opposite = Guard(guard.register, not guard.negated)
        others = self._known(opposite, index)
        held = {g: (now | bit, since) for g, (now, since) in self._held.items()}
        self._held = {**held, guard: (bit, index), opposite: (others, index)}
        self._now |= bit

    def read(self, index: int, name: str) -> int:
        """Returns the writes that may reach an instruction that reads it."""
        guard = self._kernel.instructions[index].guard
        # An instruction that reads the guard itself is not guarded.
        if guard is None or guard.register == name:
            return self._now
        return self._known(guard, index)

    def _known(self, guard: Guard, index: int) -> int:
        """Returns the writes that reach lanes of a guard, if it has not changed since."""
        if guard not in self._held:
            return self._now
        now, since = self._held[guard]
        changed = any(since <= i < index for i in self._writes.get(guard.register, ()))
        return self._now if changed else now


def speculated(kernel: Kernel) -> Kernel:
    """Returns the kernel, with separate webs, in which all lanes compute values that only lanes
    with a given guard read.

    Such a value is written under a guard, and read only under it, in the same block and before the
    guard changes. Cost: near linear.
    """
    cfg = build_cfg(kernel)
    block_of = [block.id for block in cfg.blocks for _ in range(block.start, block.end)]
    readers: dict[str, list[int]] = defaultdict(list)
    writers: dict[str, list[int]] = defaultdict(list)
    for index, instruction in enumerate(kernel.instructions):
        for name in instruction.reads:
            readers[name].append(index)
        for name in instruction.writes:
            writers[name].append(index)

    def stays(index: int, name: str) -> bool:
        """Returns whether only lanes with the guard of its writer read a register."""
        guard = kernel.instructions[index].guard
        assert guard is not None
        changes = writers[guard.register]
        return all(
            reader > index
            and block_of[reader] == block_of[index]
            and kernel.instructions[reader].guard == guard
            and name != guard.register
            and not any(index <= i < reader for i in changes)
            for reader in readers[name]
        )

    instructions = list(kernel.instructions)
    for index, instruction in enumerate(kernel.instructions):
        if instruction.guard is None or not _only_computes(instruction):
            continue
        if instruction.writes and all(stays(index, name) for name in instruction.writes):
            instructions[index] = _by_all(instruction)
    return replace(kernel, instructions=tuple(instructions))


def _only_computes(instruction: Instruction) -> bool:
    """Returns whether an instruction only writes a function of its operands to registers."""
    opcode = instruction.opcode
    is_plain = instruction.control is ControlEffect.NONE and instruction.space is Space.NONE
    return is_plain and opcode is not None and (opcode.meaning is not None or opcode.name in ROWS)


def _by_all(instruction: Instruction) -> Instruction:
    """Returns the instruction without its guard."""
    form = instruction.form
    slots = tuple(slot for slot in form.read_slots if slot != form.guard_slot)
    bare = replace(form, guard_slot=-1, guard_negated=False, read_slots=slots)
    return instruction._replace(form=bare)
