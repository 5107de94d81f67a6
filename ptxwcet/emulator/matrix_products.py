"""Executes products of matrices: ``mma`` with dense ones, and ``wmma``, with tiles in memory.

The layout of a fragment in the lanes: for ``mma`` as in the PTX ISA, in units of 32-bit registers
(64-bit ones for f64): with ``e`` elements a register, ``g = lane / 4`` and ``t = lane % 4``,
register r of A holds row ``g + 8 (r % (M / 8))`` and columns ``4 e (r / (M / 8)) + t e + i``, of B
rows ``4 e r + t e + i`` and column g, and of C row ``g + 8 (r / 2)`` and column ``2 t + r % 2``.
For ``wmma`` the ISA leaves the layout open; here element s of the fragment, counted over lanes and
registers, is element s of the matrix, modulo their number.

Floats: the ISA leaves order and precision open; this is the behaviour of an H200 on ptxas's code
(``_sum``); another GPU may give other bits. For f64 each step is a fused multiply-add in ascending
k, rounded as the modifier states. Subnormal numbers are kept, a sum beyond the largest number is
infinite, NaN has PTX's canonical pattern (in f64 an operand's), and the inputs of tf32 lose their
low 13 bits. Integers wrap, or are clamped with ``.satfinite``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ptxwcet.emulator import floating
from ptxwcet.emulator.conversion import VALUES, as_float, to_float
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.matrix_forms import (
    BITS,
    ROUNDINGS,
    Form,
    form_of,
    register_bits,
    registers_of,
)
from ptxwcet.emulator.memory import INITIALISED
from ptxwcet.emulator.memory_access import (
    Access,
    Locate,
    active_lanes,
    address_reader,
    placed,
    space_of,
    track,
)
from ptxwcet.emulator.pending import ONES
from ptxwcet.emulator.races import READ, WRITE
from ptxwcet.emulator.registers import Context, Frame, Read, Step, reader, writer
from ptxwcet.emulator.warp_ops import report
from ptxwcet.ir.kernel import Instruction, Operand
from ptxwcet.support.records import dataclass


def unpacked(registers: list[Array], name: str) -> Array:
    """Returns elements of the lanes' registers as numbers: (warps, 32, elements)."""
    bits = BITS[name]
    words = np.stack([np.ascontiguousarray(r) for r in registers], axis=1)
    if bits >= 8:
        return _numbers(words.view(f"u{bits // 8}"), name).reshape(
            -1, 32, words.nbytes * 8 // bits // len(words)
        )
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    parts = (words[:, :, None] >> shifts & np.uint32((1 << bits) - 1)).astype(np.int64)
    if name == "s4":
        parts = np.where(parts > 7, parts - 16, parts)
    return parts.reshape(-1, 32, len(registers) * shifts.size)


def _numbers(bits: Array, name: str) -> Array:
    """Returns patterns as doubles or 64-bit integers."""
    if name in VALUES:
        return VALUES[name][bits].astype(np.float64)
    if name == "tf32":
        bits, name = bits & np.uint32(0xFFFFE000), "f32"
    if name in ("f16", "bf16", "f32", "f64"):
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return as_float(bits, name).astype(np.float64)
    kind = f"i{bits.dtype.itemsize}" if name[0] == "s" else f"u{bits.dtype.itemsize}"
    return bits.view(kind).astype(np.int64)


def packed(values: Array, name: str, count: int) -> list[Array]:
    """Returns elements (warps, 32, n) as ``count`` registers of the lanes."""
    flat = np.ascontiguousarray(values).reshape(values.shape[0] * 32, -1)
    if name == "s32":
        words = flat.astype(np.uint64).astype(np.uint32)
    else:
        words = to_float(flat, name, "rn", frozenset())
    size = words.shape[1] * words.itemsize // count
    registers = np.ascontiguousarray(words).view(f"u{size}")
    return [np.ascontiguousarray(registers[:, i]) for i in range(count)]


def multiplied(matrices: list[Array], form: Form) -> Array:
    """Returns A * B + C for matrices of numbers."""
    name, words = form.types[0], form.words
    if name == "f64":
        rounding = next((word for word in ROUNDINGS if word in words), "rn")
        return _fused_sum(matrices, rounding)
    if name != "s32":
        return _sum(matrices, form)
    a, b, c = matrices
    if "popc" in words:
        a_bits, b_bits = a[:, :, :, None], b[:, None, :, :]
        joined = a_bits & b_bits if "and" in words else a_bits ^ b_bits
        total: Array = c + joined.sum(axis=2)
    else:
        total = c + np.matmul(a, b)
    return np.clip(total, -(2**31), 2**31 - 1) if "satfinite" in words else total


def _sum(matrices: list[Array], form: Form) -> Array:
    """Sums products of floats. For 8-bit elements the sum starts at 0, takes the first two products
    of each four, then the others, then C; ``wmma`` with tf32 takes four columns at a time.
    """
    a, b, c = matrices
    name, kind, *_ = form.types
    k = np.arange(a.shape[2])
    parts, total = [k], c
    if BITS[kind] == 8:
        parts, total = [k[k % 4 < 2], k[k % 4 > 1]], np.zeros_like(c)
    elif kind == "tf32" and form.shape[1] == 16:
        parts = [k[:4], k[4:]]
    for part in parts:
        total = _cut_sum([a[:, :, part], b[:, part], total])
        rounding = "rz" if name == "f32" else "rn"
        total = _numbers(to_float(total, name, rounding, frozenset()), name)
    with np.errstate(all="ignore"):
        return floating.ADD.odd("rn", [total, c]) if BITS[kind] == 8 else total


_KEPT = 25
"""The binary places of a summand, below the first place of the largest one, that count."""


def _cut_sum(matrices: list[Array]) -> Array:
    """Returns C + A * B, truncating C and the exact products at a binary place; their sum is exact.
    The place follows from the largest exponent, for a product the sum of two. C is the first
    summand, so that the sum of zeros of one sign has that sign.
    """
    a, b, c = matrices
    with np.errstate(all="ignore"):
        summands = [c, *(a[:, :, k, None] * b[:, k, None, :] for k in range(a.shape[2]))]
        (x, y, z) = (np.frexp(matrix)[1] for matrix in matrices)
        largest = np.where(c == 0, -5000, z - 1)
        for k, product in enumerate(summands[1:]):
            exponent = x[:, :, k, None] + y[:, k, None, :] - 2
            largest = np.maximum(largest, np.where(product == 0, -5000, exponent))
        finite = np.logical_and.reduce([np.isfinite(term) for term in summands]) & (largest > -5000)
        place = np.where(finite, largest - _KEPT, 0)
        total = np.zeros_like(c) - 0.0
        for number, term in enumerate(summands):
            cut = np.where(finite, np.trunc(np.ldexp(term, -place)), term)
            total = cut if number == 0 else total + cut
        total = np.ldexp(total, place)
        return np.where(np.abs(total) < 2.0**128, total, total * np.inf)


def _fused_sum(matrices: list[Array], rounding: str) -> Array:
    """Sums products by fused multiply-adds in double precision, each rounded in a direction."""
    a, b, c = matrices
    total = c.reshape(-1)
    fused = floating.fused
    if rounding != "rn":
        fused = partial(_directed, rounding)
    for k in range(a.shape[2]):
        left = np.broadcast_to(a[:, :, k, None], c.shape).reshape(-1)
        right = np.broadcast_to(b[:, k, None, :], c.shape).reshape(-1)
        total = floating.quiet([left, right, total], fused(left, right, total))
    return total.reshape(c.shape)


def _directed(rounding: str, a: Array, b: Array, c: Array) -> Array:
    with np.errstate(all="ignore"):
        return floating.directed(floating.FUSED, [a, b, c], rounding)


_LANE = np.arange(32)
_GROUP, _PLACE = _LANE // 4, _LANE % 4


@dataclass(frozen=True, slots=True)
class Fragment:
    """The elements of a matrix by lane: ``rows`` and ``columns`` have shape (32, elements)."""

    shape: tuple[int, int]
    rows: Array
    columns: Array

    @property
    def elements(self) -> int:
        """The number of elements that a lane holds."""
        return int(self.rows.shape[1])

    def gather(self, values: Array) -> Array:
        """Returns matrices (warps, rows, columns) from lane values (warps, 32, elements)."""
        result = np.zeros((values.shape[0], *self.shape), dtype=values.dtype)
        result[:, self.rows, self.columns] = values
        return result

    def scatter(self, matrix: Array) -> Array:
        """Returns lane values (warps, 32, elements) from matrices (warps, rows, columns)."""
        taken: Array = matrix[:, self.rows, self.columns]
        return taken


def left_fragment(rows: int, depth: int, packed: int) -> Fragment:
    """Returns the fragment A of ``mma``, with ``packed`` elements per register."""
    halves = rows // 8
    cells = [
        (_GROUP + 8 * (register % halves), 4 * packed * (register // halves) + _PLACE * packed + i)
        for register in range(halves * depth // (4 * packed))
        for i in range(packed)
    ]
    return _fragment((rows, depth), cells)


def right_fragment(depth: int, columns: int, packed: int) -> Fragment:
    """Returns the fragment B of ``mma``, with 8 columns."""
    cells = [
        (4 * packed * register + _PLACE * packed + i, _GROUP)
        for register in range(depth // (4 * packed))
        for i in range(packed)
    ]
    return _fragment((depth, columns), cells)


def sum_fragment(rows: int, columns: int) -> Fragment:
    """Returns the fragment C and D of ``mma``."""
    cells = [(_GROUP + 8 * (i // 2), 2 * _PLACE + i % 2) for i in range(rows // 4)]
    return _fragment((rows, columns), cells)


def _fragment(shape: tuple[int, int], cells: list[tuple[Array, Array]]) -> Fragment:
    rows = np.stack([lane_rows for lane_rows, _ in cells], axis=1)
    return Fragment(shape, rows, np.stack([column for _, column in cells], axis=1))


def open_fragment(rows: int, columns: int, elements: int) -> Fragment:
    """Returns a fragment of ``wmma`` with ``elements`` elements per lane."""
    number = (np.arange(32 * elements) % (rows * columns)).reshape(32, elements)
    return Fragment((rows, columns), number // columns, number % columns)


def whole_warps(frame: Frame, instruction: Instruction) -> None:
    """Reports (PW437) a warp in which only some lanes execute a warp-wide operation."""
    if frame.mask is None:
        return
    rows = frame.mask.reshape(-1, 32)
    whole = np.logical_and.reduce(rows, axis=1)
    wrong = rows & ~np.repeat(whole, 32).reshape(-1, 32)
    if wrong.any():
        report(frame, instruction, wrong.reshape(-1), "some lanes of a warp do not execute it")


def multiply(context: Context, instruction: Instruction) -> Step:
    """Compiles ``mma.sync.aligned`` with dense matrices."""
    form = form_of(instruction)
    m, n, k = form.shape
    of_register = max(32 // BITS[form.types[1]], 1)  # A and B have equal element sizes
    fragments = (
        left_fragment(m, k, of_register),
        right_fragment(k, n, of_register),
        sum_fragment(m, n),
    )
    return product_step(context, instruction, form, fragments)


def product_step(
    context: Context,
    instruction: Instruction,
    form: Form,
    fragments: tuple[Fragment, Fragment, Fragment],
) -> Step:
    """Builds D = A * B + C with fragments of A, B, and of C and D."""
    destination, *sources = instruction.operands
    to, *kinds = form.types
    names = registers_of(destination, _registers(fragments[2], to))
    targets = [writer(context, name) for name in names]
    inputs = list(zip(sources, kinds, fragments, strict=True))
    reads = [_readers(context, *factor) for factor in inputs]

    def step(frame: Frame) -> None:
        whole_warps(frame, instruction)
        matrices = [
            fragment.gather(unpacked([read(frame) for read in group], name))
            for group, (_, name, fragment) in zip(reads, inputs, strict=True)
        ]
        result = multiplied(matrices, form)
        lanes: list[Array] = packed(fragments[2].scatter(result), to, len(targets))
        for target, value in zip(targets, lanes, strict=True):
            target(frame, value)

    return step


def _readers(context: Context, operand: Operand, name: str, fragment: Fragment) -> list[Read]:
    width = f"b{register_bits(name)}"
    registers = registers_of(operand, _registers(fragment, name))
    return [reader(context, register, width) for register in registers]


def _registers(fragment: Fragment, name: str) -> int:
    return fragment.elements * BITS[name] // register_bits(name)


_HALF_REGISTERS = 8  # for A and B with f16 of any shape: elements are held twice or more


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
        """The bytes of an element."""
        return BITS[self.name] // 8

    def accesses(self, frame: Frame) -> Iterator[Access]:
        """Yields the accesses of all lanes for their element 0, 1, and so on."""
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
        """Reports (PW437) lanes whose address or stride differs from their warp's first lane."""
        differ = np.zeros((frame.lanes // 32, 32), dtype=bool)
        for values in (base, stride):
            rows = values.reshape(-1, 32)
            differ |= rows != rows[:, :1]
        wrong = differ.reshape(-1) & frame.active()  # a partial warp is reported elsewhere
        if wrong.any():
            message = "lanes of a warp give it different addresses or strides"
            report(frame, self.instruction, wrong, message)


def _constant(value: Array) -> Read:
    return lambda frame: value


def _tile_fragment(form: Form, side: str, name: str) -> Fragment:
    """Returns the fragment of A, B, C or D with elements of a type."""
    m, n, k = form.shape
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[side]
    if side in "ab" and name == "f16":
        return open_fragment(rows, columns, _HALF_REGISTERS * 32 // BITS[name])
    return open_fragment(rows, columns, rows * columns // 32)


def _tile(context: Context, instruction: Instruction, side: str, where: Operand) -> _Tile:
    form = form_of(instruction)
    (name,), (layout,) = form.types, form.layouts
    fragment, by_columns = _tile_fragment(form, side, name), layout == "col"
    strides = instruction.operands[2:]
    own = np.full(context.lanes, fragment.shape[0 if by_columns else 1], np.uint32)
    stride = reader(context, strides[0], "u32") if strides else _constant(own)
    base = address_reader(context, where)
    return _Tile(instruction, name, fragment, by_columns, base, stride)


def _tile_registers(tile: _Tile, operand: Operand) -> tuple[Operand, ...]:
    return registers_of(operand, _registers(tile.fragment, tile.name))


def load_fragment(context: Context, instruction: Instruction) -> Step:
    """Compiles ``wmma.load``: base, layout and stride determine the place of each element."""
    destination, where = instruction.operands[:2]
    tile = _tile(context, instruction, instruction.modifiers[0], where)
    targets = [writer(context, register) for register in _tile_registers(tile, destination)]

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
    """Compiles ``wmma.store``: base, layout and stride determine the place of each element."""
    where, source = instruction.operands[:2]
    tile = _tile(context, instruction, "d", where)
    width = f"b{register_bits(tile.name)}"
    reads = [reader(context, name, width) for name in _tile_registers(tile, source)]

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
    """Compiles ``wmma.mma``: fragments in the open layout of ``wmma.load``."""
    form = form_of(instruction)
    if len(form.types) == 2:  # the types of D and C: A and B hold halves
        to, add = form.types
        form = Form(form.shape, form.layouts, (to, "f16", "f16", add), form.words)
    _, left, right, add = form.types
    fragments = (
        _tile_fragment(form, "a", left),
        _tile_fragment(form, "b", right),
        _tile_fragment(form, "c", add),
    )
    return product_step(context, instruction, form, fragments)


# --- Moves of matrices of rows of 16 bytes within a warp ------------------------------------------


def _matrices(instruction: Instruction) -> tuple[int, bool]:
    """Returns the number of matrices that move, and whether they are transposed."""
    words = form_of(instruction).words
    return next(count for count in (1, 2, 4) if f"x{count}" in words), "trans" in words


def _row_access(context: Context, instruction: Instruction, operand: Operand) -> Access:
    address = address_reader(context, operand)
    return Access(instruction, space_of(instruction), address, "b64", 2)


def _row_lanes(frame: Frame, rows: int) -> Array:
    lanes = active_lanes(frame)
    return lanes[lanes % 32 < rows]


def load_matrices(context: Context, instruction: Instruction) -> Step:
    """Compiles ``ldmatrix``: lane l of the first 8, 16 or 32 gives the address of row l.

    Matrices of 16-bit elements have 8 rows and take a register, those with 8 bits 16 rows and two.
    """
    count, transposed = _matrices(instruction)
    size, kind = (16, np.uint8) if form_of(instruction).shape == (16, 16) else (8, np.uint16)
    destination, source = instruction.operands
    targets = [writer(context, name) for name in registers_of(destination, count * size // 8)]
    access = _row_access(context, instruction, source)

    def step(frame: Frame) -> None:
        whole_warps(frame, instruction)
        lanes = _row_lanes(frame, size * count)
        index = placed(frame, access, lanes, False)
        track(frame, access, lanes, index, READ)
        row_bytes = np.zeros((frame.lanes, 16), dtype=np.uint8)
        row_bytes[lanes] = frame.arena.bytes[index[:, None] + np.arange(16)]
        elements = row_bytes.view(kind).reshape(-1, 32 // size, size, size)  # warp, matrix, row
        if transposed:
            elements = elements.transpose(0, 1, 3, 2)
        words = np.ascontiguousarray(elements).view(np.uint32).reshape(-1, 4, 32)
        for number, target in enumerate(targets):
            target(frame, np.ascontiguousarray(words[:, number]).reshape(-1))

    return step


def store_matrices(context: Context, instruction: Instruction) -> Step:
    """Compiles ``stmatrix``, the inverse of ``ldmatrix``."""
    count, transposed = _matrices(instruction)
    destination, source = instruction.operands
    reads = [reader(context, name, "b32") for name in registers_of(source, count)]
    access = _row_access(context, instruction, destination)

    def step(frame: Frame) -> None:
        whole_warps(frame, instruction)
        lanes = _row_lanes(frame, 8 * count)
        index = placed(frame, access, lanes, True)
        track(frame, access, lanes, index, WRITE)
        matrices = np.zeros((frame.lanes // 32, 4, 8, 8), dtype=np.uint16)
        for number, read in enumerate(reads):
            halves = np.ascontiguousarray(read(frame)).view(np.uint16).reshape(-1, 8, 8)
            matrices[:, number] = halves.transpose(0, 2, 1) if transposed else halves
        data = np.ascontiguousarray(matrices).view(np.uint8).reshape(frame.lanes, 16)
        frame.arena.bytes[index[:, None] + np.arange(16)] = data[lanes]
        frame.arena.state[index[:, None] + np.arange(16)] = INITIALISED

    return step


def transpose(context: Context, instruction: Instruction) -> Step:
    """Compiles ``movmatrix.trans``: an 8 by 8 matrix of 16-bit elements."""
    form_of(instruction)
    target = writer(context, instruction.operands[0])
    value = reader(context, instruction.operands[1], "b32")

    def step(frame: Frame) -> None:
        whole_warps(frame, instruction)
        halves = np.ascontiguousarray(value(frame)).view(np.uint16).reshape(-1, 8, 8)
        turned = np.ascontiguousarray(halves.transpose(0, 2, 1))
        target(frame, turned.view(np.uint32).reshape(-1))

    return step
