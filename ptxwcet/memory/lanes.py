"""Patterns of all registers of a kernel: the differences between the lanes of a warp.

A register has one value for all of its writes (nvcc, clang and Triton write most of them once), so
the analysis is flow-insensitive. Values are joined to a fixpoint. Values of lanes that diverged at
a branch are not warp-uniform where they reconverge: registers that are written in between and live
there are unknown, and so are those that a guard lets only some lanes write
(:mod:`ptxwcet.flow.shapes.uniformity` determines the uniform branches).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.launch import WARP_SIZE, Launch
from ptxwcet.flow.shapes.domain import LaneDomain, moved
from ptxwcet.flow.shapes.opaque import OpaqueResults
from ptxwcet.flow.shapes.pattern import (
    KNOWN,
    Agreement,
    Lanes,
    Pattern,
    Value,
    agreement_on,
    alike,
    constant,
    joined,
    normal,
    trailing_zeros,
    uniform,
)
from ptxwcet.flow.shapes.results import RegisterValues, is_function
from ptxwcet.flow.values.accesses import access_of, field_name, parameters_of
from ptxwcet.flow.values.arrays import origins_of_pointers
from ptxwcet.flow.values.lane_state import FixedMemory
from ptxwcet.flow.values.operands import register_width
from ptxwcet.flow.values.slicing import deciding
from ptxwcet.ir.kernel import (
    Address,
    Instruction,
    Kernel,
    Operand,
    Register,
    Space,
    SymbolRef,
)
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.ir.operation import operation_of
from ptxwcet.memory.counting import Mask
from ptxwcet.memory.instructions import accesses_of
from ptxwcet.support.worklist import Worklist

POINTER_ALIGN = 8
"""Pointer arguments are multiples of 2 to this power: an assumption on allocators."""
_POINTER_BITS = 64
_OUTSIDE = (Space.GLOBAL, Space.GENERIC)
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)
_MOST_CHANGES = 300
"""Changes of one register's value, after which it is unknown: far more than any needs."""


class LaneAnalysis:
    """The patterns of all registers in the lanes of the warps of a block, for a launch.

    ``accesses`` are those of the kernel, with the indices of their instructions; ``there`` the
    existing threads of a block, in whole warps. The results depend on parameters: ``pointers`` are
    taken to be aligned as allocators' pointers are, ``aligned`` have an alignment stated by the
    launch, ``given`` are aggregates that were read and whose bytes it states, ``ranged`` have a
    stated range that was used. Cost: a few evaluations of each instruction that an address depends
    on, linear in the threads.
    """

    def __init__(self, graph: FlowGraph, launch: Launch) -> None:
        self._kernel, self._launch = graph.kernel, launch
        threads = np.arange(launch.warps * WARP_SIZE, dtype=np.int64)
        self.there: Mask = threads < launch.threads
        self._specials = _specials(launch, np.where(self.there, threads, threads // 32 * 32))
        self._fixed = FixedMemory(graph.kernel, launch)
        self._parameters = {one.name: one for one in parameters_of(graph.kernel)}
        self._certain = {one.name for one in graph.kernel.parameters if one.is_pointer}
        self._certain |= _converted(graph.kernel)
        self.pointers: set[str] = set()
        self.aligned: set[str] = set()
        self.given: set[str] = set()
        self.ranged: set[str] = set()
        self._values = RegisterValues(graph.kernel, self._specials, LaneDomain(len(threads)))
        self._bases: dict[Operand, tuple[Value, int, int]] = {}
        self._addresses: dict[tuple[Operand, int], Value] = {}
        self._changes: dict[str, int] = defaultdict(int)
        code = graph.kernel.code
        self.accesses = tuple(
            (index, access)
            for index, instruction in enumerate(graph.kernel.instructions)
            if code is None or index not in code.added
            for access in accesses_of(instruction)
        )
        self._opaque = OpaqueResults(self._values, graph.kernel, launch, race_free=False)
        self._agreements = graph.agreements
        self._unknown = frozenset(_joined(graph))
        self._branches = tuple(self._parting_branches(graph))
        self._settle(graph)
        self._parted = {
            index
            for branch, blocks in self._branches
            if not self._goes_one_way(branch)
            for index in graph.indices(blocks)
        }

    def value(self, name: str) -> Value:
        """Returns the patterns of a register in the lanes of a warp."""
        return self._values.get(name)

    def special(self, name: str) -> Value:
        """Returns the patterns of a special register."""
        return self._specials.get(name)

    def is_whole(self, index: int) -> bool:
        """Returns whether all lanes of a warp that exist execute an instruction together, if any
        does: one that changes memory.
        """
        if index in self._parted:
            return False
        return self._kernel.instructions[index].guard is None or self._goes_one_way(index)

    def _goes_one_way(self, index: int) -> bool:
        """Returns whether lanes that reach a guarded instruction together have one guard value."""
        guard = self._kernel.instructions[index].guard
        return guard is not None and bool(agreement_on(self._values.get(guard.register)))

    def _parting_branches(self, graph: FlowGraph) -> Iterator[tuple[int, set[BlockId]]]:
        """Yields the branches that may diverge, with the blocks up to their reconvergence points,
        if memory is changed there.
        """
        changing = {graph.block_of(index) for index, one in self.accesses if one.changes}
        for block in graph.cfg.reverse_postorder if changing else ():
            if graph.agreements[block] is Agreement.NONE:
                blocks = graph.agreements.live.between(BlockId(block), graph.meeting(block))
                if not changing.isdisjoint(blocks):
                    yield graph.last(block), blocks

    def address(self, operand: Address | None) -> Value:
        """Returns the patterns of an address, without span; its offsets have 64 bits.

        Addresses that differ by a multiple of their alignment have the same patterns: most of those
        of an unrolled loop.
        """
        if operand is None:
            return None
        base, distance = operand.base, operand.offset
        if base not in self._bases:
            self._bases[base] = self._base(base)
        patterns, bits, period = self._bases[base]
        if patterns is None:
            return None
        key = base, distance % period if period else distance
        if key not in self._addresses:
            self._addresses[key] = moved(patterns, key[1], bits)
        return self._addresses[key]

    def _base(self, base: Operand) -> tuple[Value, int, int]:
        """Returns the patterns of the base of an address, without span, and its width in bits; and
        a distance with which patterns do not change, 0 without one.
        """
        bits = _POINTER_BITS
        if isinstance(base, Register):
            patterns = self._values.get(base.name)
            bits = register_width(self._kernel.registers[base.name])
        else:
            patterns = self._values.operand(base)
        if patterns is None:
            return None, bits, 0
        changes = any(pattern.align == KNOWN or pattern.cuts for pattern in patterns)
        period = 0 if changes else 1 << max(pattern.align for pattern in patterns)
        return tuple(replace(pattern, span=None) for pattern in patterns), bits, period

    def _settle(self, graph: FlowGraph) -> None:
        instructions = graph.kernel.instructions
        bases = (one.address.base for _, one in self.accesses if one.address is not None)
        wanted = {base.name for base in bases if isinstance(base, Register)}
        changing = (index for index, one in self.accesses if one.changes)
        guards = (instructions[one].guard for one in (*changing, *(at for at, _ in self._branches)))
        wanted |= {guard.register for guard in guards if guard is not None}
        needed = deciding(graph.kernel, wanted)
        used = {index: (instructions[index].reads, instructions[index].writes) for index in needed}
        readers: dict[str, list[int]] = defaultdict(list)
        for index in needed:
            for name in used[index][0]:
                readers[name].append(index)
        self._values.update(dict.fromkeys(self._unknown, None))
        pending = Worklist(needed, _ranks(used, needed))
        while pending:
            index = pending.pop()
            reads, names = used[index]
            if any(name not in self._values for name in reads):
                continue  # queued again when its sources have values
            if all(self._values.get(name, ()) is None for name in names):
                continue
            written = self._written(index, instructions[index])
            for name, value in zip(names, written, strict=True):
                if self._lower(name, value):
                    pending.add(readers[name])

    def _lower(self, name: str, value: Value) -> bool:
        """Joins a value to that of a register; True if that changes it."""
        old = self._values.get(name, ())
        if old is None:
            return False
        new = joined(old, value, register_width(self._kernel.registers[name]))
        self._changes[name] += 1
        if self._changes[name] > _MOST_CHANGES:
            new = None
        if new is old and name in self._values:
            return False
        self._values[name] = new
        return True

    def _written(self, index: int, instruction: Instruction) -> tuple[Value, ...]:
        guard = instruction.guard
        if guard is not None and not agreement_on(self._values[guard.register]):
            return (None,) * len(instruction.writes)
        return self._results(index, instruction)

    def _results(self, index: int, instruction: Instruction) -> tuple[Value, ...]:
        count = len(instruction.writes)
        name = operation_of(instruction.form).name
        if name == "cvta":
            return (self._converted(instruction),) * count
        if is_function(instruction):
            return self._values.results(instruction)
        if instruction.space is Space.PARAM and instruction.operands:
            return self._parameter(instruction)
        agreement = self._opaque.agreement(
            instruction, is_whole=not self._agreements.part_at(index), is_ordered=False
        )
        return (alike(agreement),) * count

    def _converted(self, instruction: Instruction) -> Value:
        """Returns the result of ``cvta``: another window's address; global memory's begins at 0."""
        patterns = self._values.operand(instruction.operands[1])
        if patterns is None or "global" in instruction.modifiers:
            return patterns
        moved: Value = ()
        for pattern in patterns:
            if pattern.cuts:
                return None
            shifted = normal(Pattern(pattern.offsets, 0), _POINTER_BITS)
            moved = joined(moved, (shifted,), _POINTER_BITS)
        return moved

    def _parameter(self, instruction: Instruction) -> tuple[Value, ...]:
        """Returns values loaded from a kernel parameter, or moved through a thread's variable."""
        if instruction.form.implicit_reads or instruction.form.implicit_writes:
            return self._values.moved(instruction)
        access = access_of(instruction)
        if access is None or not isinstance(access.base, SymbolRef):
            return (None,) * len(instruction.writes)
        name = access.base.name
        if name not in self._parameters:
            return (None,) * len(instruction.writes)
        values: dict[str, Value] = {}
        for offset, element in access.places():
            if isinstance(element, Register):
                values[element.name] = self._of_parameter(name, offset, access.bits)
                if access.kind is not None:
                    word = self._fixed.word(Space.PARAM, name, offset, access.kind)
                    if word is not None:
                        self.given |= {name} & self._launch.parameter_bytes.keys()
                        width = register_width(self._kernel.registers[element.name])
                        number = int(word.base) % (1 << access.bits)
                        if access.kind.signed and number >> access.bits - 1:
                            number -= 1 << access.bits
                        values[element.name] = (normal(constant(number), width),)
        return tuple(values[name] for name in instruction.writes)

    def _of_parameter(self, name: str, offset: int, bits: int) -> Value:
        """Returns the value of ``bits`` of a parameter that the launch leaves open."""
        word = self._parameters.get(field_name(name, offset), self._parameters[name])
        low, high = self._launch.ranges.get(word.name, (-1, -1))
        is_whole = (word.name != name or not offset) and bits == 8 * word.size_bytes
        if is_whole and low >= 0 and high < 1 << bits - 1:
            self.ranged.add(word.name)
            return (uniform(0, (low, high)),)
        if offset or bits != _POINTER_BITS:
            return (uniform(),)
        if name in self._launch.alignments:
            self.aligned.add(name)
            return (uniform(trailing_zeros(self._launch.alignments[name])),)
        if name not in self._certain and name not in self._led_to:
            return (uniform(),)
        self.pointers.add(name)
        return (uniform(POINTER_ALIGN),)

    @cached_property
    def _led_to(self) -> frozenset[str]:
        return _led_to(self._kernel)


_Used = Mapping[int, tuple[tuple[str, ...], tuple[str, ...]]]


def _ranks(used: _Used, needed: Sequence[int]) -> list[int]:
    """Returns a number for each instruction that is above those of its sources, except in cycles:
    the counter of a loop reaches its fixpoint before its uses are evaluated.

    The numbers are those of a depth-first search in postorder.
    """
    writers: dict[str, list[int]] = defaultdict(list)
    for index in needed:
        for name in used[index][1]:
            writers[name].append(index)
    ranks = [-1] * (max(needed, default=-1) + 1)
    seen: set[int] = set()
    pending = [(index, True) for index in reversed(needed)]
    count = 0
    while pending:
        index, is_new = pending.pop()
        if not is_new:
            ranks[index] = count
            count += 1
        elif index not in seen:
            seen.add(index)
            pending.append((index, False))
            pending += [(writer, True) for name in used[index][0] for writer in writers[name]]
    return ranks


def _joined(graph: FlowGraph) -> Iterator[str]:
    """Yields the registers that are unknown: read before they are written, or written by lanes that
    have diverged and read after they reconverge.
    """
    live = graph.agreements.live
    yield from live.undefined()
    for block in graph.cfg.reverse_postorder:
        if graph.agreements[block] is Agreement.NONE:
            yield from live.joined(BlockId(block), graph.meeting(block))


def _led_to(kernel: Kernel) -> frozenset[str]:
    """Returns the parameters that are converted to pointers to global memory, or at which memory is
    accessed, numbers added.
    """
    used: set[str] = set()
    for instruction in kernel.instructions:
        operands = instruction.operands
        if operation_of(instruction.form).name == "cvta" and "global" in instruction.modifiers:
            pointers = operands[1:2]
        elif instruction.op_class is OpClass.ASYNC_COPY or instruction.space in _OUTSIDE:
            pointers = tuple(operand.base for operand in operands if isinstance(operand, Address))
        else:
            continue
        used.update(pointer.name for pointer in pointers if isinstance(pointer, Register))
    origins = origins_of_pointers(kernel, used)
    return frozenset(min(origins[name]) for name in used if len(origins[name]) == 1)


def _converted(kernel: Kernel) -> set[str]:
    """Returns the parameters that are loaded to a register of their own and converted to global
    memory's addresses from there: most pointers of nvcc.
    """
    times: dict[str, int] = defaultdict(int)
    loaded: dict[str, str] = {}
    used: list[str] = []
    for instruction in kernel.instructions:
        for name in instruction.writes:
            times[name] += 1
        if instruction.space is Space.PARAM:
            access = access_of(instruction)
            is_whole = access is not None and access.span == (0, 8) and access.bits == _POINTER_BITS
            if access is not None and is_whole and isinstance(access.base, SymbolRef):
                loaded |= dict.fromkeys(instruction.writes, access.base.name)
        elif operation_of(instruction.form).name == "cvta" and "global" in instruction.modifiers:
            used += [one.name for one in instruction.operands[1:2] if isinstance(one, Register)]
    own = {loaded[name] for name in used if name in loaded and times[name] == 1}
    return own & {parameter.name for parameter in kernel.parameters}


def _specials(launch: Launch, threads: Lanes) -> dict[str, Value]:
    """Returns special registers by name; non-existing lanes have their warp's first lane's."""
    x, y, _ = launch.block
    registers: dict[str, Value] = {
        f"%ntid.{axis}": (constant(size),) for axis, size in zip("xyz", launch.block, strict=True)
    }
    index = zip("xyz", (threads % x, threads // x % y, threads // (x * y)), strict=True)
    for axis, lanes in index:
        registers[f"%tid.{axis}"] = (normal(Pattern(lanes), 32),)
    registers["%laneid"] = (normal(Pattern(threads % WARP_SIZE), 32),)
    for place, axis in enumerate("xyz"):
        size = None if launch.grid is None else launch.grid[place]
        last = (_MOST_BLOCKS[place] if size is None else size) - 1
        among = uniform(0, (1, last + 1))
        registers[f"%nctaid.{axis}"] = (among if size is None else constant(size),)
        registers[f"%ctaid.{axis}"] = (constant(0) if size == 1 else uniform(0, (0, last)),)
    registers["%warpid"] = registers["%nwarpid"] = registers["%gridid"] = (uniform(),)
    return registers
