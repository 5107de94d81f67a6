"""``wmma``: tiles of matrices between memory and fragments, and products of these fragments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.matrix_forms import BITS, Form, form_of, register_bits, registers_of
from ptxwcet.emulator.matrix_layouts import Fragment, open_fragment
from ptxwcet.emulator.matrix_products import product_step, whole_warps
from ptxwcet.emulator.memory import INITIALISED
from ptxwcet.emulator.memory_ops import (
    ONES,
    Access,
    Locate,
    active_lanes,
    address_reader,
    placed,
    space_of,
    track,
)
from ptxwcet.emulator.races import READ, WRITE
from ptxwcet.emulator.registers import Context, Frame, Read, Step, reader, writer
from ptxwcet.emulator.warp_masks import report
from ptxwcet.ir.kernel import Instruction, Operand

_HALF_REGISTERS = 8  # of A and B with f16, whatever the shape: elements are held twice or more


@dataclass(frozen=True, slots=True)
class _Tile:
    """A matrix in memory, from a base address on, and the fragment that it is moved from or to.

    ``stride`` is the distance of rows (``by_columns``: of columns) in elements.
    """

    instruction: Instruction
    name: str
    fragment: Fragment
    by_columns: bool
    base: Locate
    stride: Read

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return BITS[self.name] // 8

    def accesses(self, frame: Frame) -> Iterator[Access]:
        """What all lanes access for their element 0, 1, and so on."""
        base, stride = self.base(frame), self.stride(frame).astype(np.int64)
        self._check_same(frame, base, stride)
        rows, columns = self.fragment.rows, self.fragment.columns
        major, minor = (columns, rows) if self.by_columns else (rows, columns)
        space, kind, warps = space_of(self.instruction), f"b{BITS[self.name]}", frame.lanes // 32
        for element in range(self.fragment.elements):
            place = np.tile(major[:, element], warps) * stride + np.tile(minor[:, element], warps)
            address = base + (place * self.size).astype(np.uint64)
            yield Access(self.instruction, space, _constant(address), kind, 1)

    def _check_same(self, frame: Frame, base: Array, stride: Array) -> None:
        """Reports (PW437) lanes whose address or stride is not that of their warp's first lane."""
        differ = np.zeros((frame.lanes // 32, 32), dtype=bool)
        for values in (base, stride):
            rows = values.reshape(-1, 32)
            differ |= rows != rows[:, :1]
        wrong = differ.reshape(-1) & frame.active()  # a part of a warp is reported in any case
        if wrong.any():
            message = "lanes of a warp give it different addresses or strides"
            report(frame, self.instruction, wrong, message)


def _constant(value: Array) -> Read:
    return lambda frame: value


def _fragment(form: Form, side: str, name: str) -> Fragment:
    """The fragment of A, B, C or D with elements of a type."""
    m, n, k = form.shape
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[side]
    if side in "ab" and name == "f16":
        return open_fragment(rows, columns, _HALF_REGISTERS * 32 // BITS[name])
    return open_fragment(rows, columns, rows * columns // 32)


def _tile(context: Context, instruction: Instruction, side: str, where: Operand) -> _Tile:
    form = form_of(instruction)
    (name,), (layout,) = form.types, form.layouts
    fragment, by_columns = _fragment(form, side, name), layout == "col"
    strides = instruction.operands[2:]
    own = np.full(context.lanes, fragment.shape[0 if by_columns else 1], np.uint32)
    stride = reader(context, strides[0], "u32") if strides else _constant(own)
    base = address_reader(context, where)
    return _Tile(instruction, name, fragment, by_columns, base, stride)


def _registers(tile: _Tile, operand: Operand) -> tuple[Operand, ...]:
    count = tile.fragment.elements * BITS[tile.name] // register_bits(tile.name)
    return registers_of(operand, count)


def load_fragment(context: Context, instruction: Instruction) -> Step:
    """``wmma.load``: every element from where base, layout and stride put it."""
    destination, where = instruction.operands[:2]
    tile = _tile(context, instruction, instruction.modifiers[0], where)
    targets = [writer(context, one) for one in _registers(tile, destination)]

    def load(frame: Frame) -> None:
        whole_warps(frame, instruction)
        lanes, size = active_lanes(frame), tile.size
        data = np.zeros((frame.lanes, tile.fragment.elements), dtype=f"u{size}")
        for element, access in enumerate(tile.accesses(frame)):
            index = placed(frame, access, lanes, False)
            track(frame, access, lanes, index, READ)
            data[lanes, element] = frame.arena.views[size][index // size]
        packed = data.view(f"u{register_bits(tile.name) // 8}")
        for number, target in enumerate(targets):
            target(frame, np.ascontiguousarray(packed[:, number]))

    return load


def store_fragment(context: Context, instruction: Instruction) -> Step:
    """``wmma.store``: every element to where base, layout and stride put it."""
    where, source = instruction.operands[:2]
    tile = _tile(context, instruction, "d", where)
    width = f"b{register_bits(tile.name)}"
    reads = [reader(context, one, width) for one in _registers(tile, source)]

    def store(frame: Frame) -> None:
        whole_warps(frame, instruction)
        lanes, size = active_lanes(frame), tile.size
        words = np.stack([np.ascontiguousarray(read(frame)) for read in reads], axis=1)
        data = words.view(f"u{size}")
        for element, access in enumerate(tile.accesses(frame)):
            index = placed(frame, access, lanes, True)
            track(frame, access, lanes, index, WRITE)
            frame.arena.views[size][index // size] = data[lanes, element]
            frame.arena.states[size][index // size] = INITIALISED * ONES[size]

    return store


def multiply_fragments(context: Context, instruction: Instruction) -> Step:
    """``wmma.mma``: fragments in the open layout of ``wmma.load``."""
    form = form_of(instruction)
    if len(form.types) == 2:  # of D and C: A and B hold halves
        to, add = form.types
        form = Form(form.shape, form.layouts, (to, "f16", "f16", add), form.words)
    _, left, right, add = form.types
    fragments = (
        _fragment(form, "a", left),
        _fragment(form, "b", right),
        _fragment(form, "c", add),
    )
    return product_step(context, instruction, form, fragments)
