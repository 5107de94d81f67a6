"""Registers of their own for numbers of their own: each web of writes and reads is renamed.

Machine code has few registers and writes each of them many times. A *web* is a smallest set of
writes and reads of one register that holds with each read all writes that may reach it. Nothing
that is written in one web is read in another, so that each may have a name of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.ir.kernel import Instruction, Kernel


def with_webs(kernel: Kernel, split: Callable[[str], bool] = lambda _: True) -> Kernel:
    """The kernel with a register for each web, of those registers that are to be ``split``. What
    may be read before it is written keeps its name, as does a register that has one web.

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
        parent = {one: one for one in bit.values()}

        def root(one: int) -> int:
            while parent[one] != one:
                one = parent[one]
            return one

        reached: dict[int, int] = {}
        by_block: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        for index in reads:
            by_block[self._block_of[index]].append((index, False))
        for index in writes:
            by_block[self._block_of[index]].append((index, True))
        for block, places in by_block.items():
            now = begun[block]
            for index, is_written in sorted(places):  # an instruction reads before it writes
                if is_written:
                    now = self._behind(index, now, bit)
                    continue
                first, *others = [one for one in bit.values() if one & now] or [bit[-1]]
                for other in others:
                    parent[root(other)] = root(first)
                reached[index] = first
        open_web = root(bit[-1])
        roots = list(dict.fromkeys(root(bit[index]) for index in writes))
        numbers = {one: number for number, one in enumerate(roots)}

        def called(web: int) -> str:
            is_only = len(roots) == 1 or web == open_web or web not in numbers
            return name if is_only else f"{name}{_MARK}{numbers[web]}"

        for index in writes:
            self._names[name, index, True] = called(root(bit[index]))
        for index, one in reached.items():
            self._names[name, index, False] = called(root(one))

    def _at_begin(self, name: str, writes: list[int], bit: Mapping[int, int]) -> list[int]:
        """The writes that may reach the begin of each block."""
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
        """The writes that reach what follows one; under a guard it may not happen."""
        kept = self._kernel.instructions[index].guard is not None
        return now | bit[index] if kept else bit[index]
