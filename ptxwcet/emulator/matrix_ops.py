"""Matrix products and matrix moves within a warp: mma, ldmatrix, stmatrix, movmatrix, wmma.

Products of floats are exact and summed in double precision, then rounded once to the accumulator's
type: the ISA leaves the order and the precision in between open, at least single. Integers wrap, or
are clamped with ``.satfinite``. The inputs of tf32 lose their low 13 bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptxwcet.emulator.conversion import as_float, to_float
from ptxwcet.emulator.conversion_formats import VALUES
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.matrix_layouts import (
    Fragment,
    left_fragment,
    open_fragment,
    right_fragment,
    sum_fragment,
)
from ptxwcet.emulator.memory_ops import (
    Access,
    active_lanes,
    address_reader,
    placed,
    space_of,
    track,
)
from ptxwcet.emulator.races import READ, WRITE
from ptxwcet.emulator.registers import Context, Frame, Step, Unsupported, reader, writer
from ptxwcet.emulator.warp_masks import report
from ptxwcet.ir.kernel import Instruction, Operand
from ptxwcet.ir.operands import Vector

_BITS = {
    "b1": 1, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f16": 16, "bf16": 16,
    "tf32": 32, "f32": 32, "s32": 32, "f64": 64,
}  # fmt: skip
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)\Z")
_LAYOUTS = ("row", "col")


@dataclass(frozen=True, slots=True)
class _Product:
    """A product taken apart: M, N, K, types of D, A, B, C, modifiers."""

    shape: tuple[int, int, int]
    types: tuple[str, str, str, str]
    words: frozenset[str]


def _elements(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vector) else (operand,)


def _shape_of(instruction: Instruction) -> tuple[int, int, int]:
    for word in instruction.modifiers:
        found = _SHAPE.match(word)
        if found:
            m, n, k = map(int, found.groups())
            return m, n, k
    raise Unsupported("a shape that is not written")


def whole_warps(frame: Frame, instruction: Instruction) -> None:
    """Reports (PW437) a warp of which only some lanes execute a warp-wide operation."""
    if frame.mask is None:
        return
    rows = frame.mask.reshape(-1, 32)
    whole = np.logical_and.reduce(rows, axis=1)
    wrong = rows & ~np.repeat(whole, 32).reshape(-1, 32)
    if wrong.any():
        report(frame, instruction, wrong.reshape(-1), "some lanes of a warp do not execute it")


# --- registers and elements -----------------------------------------------------------------------


def _unpacked(registers: list[Array], name: str) -> Array:
    """Elements of the lanes' registers as numbers: (warps, 32, elements)."""
    bits = _BITS[name]
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
    """Patterns as doubles or 64-bit integers."""
    if name in VALUES:
        return VALUES[name][bits].astype(np.float64)
    if name == "tf32":
        return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if name in ("f16", "bf16", "f32", "f64"):
        return as_float(bits, name).astype(np.float64)
    kind = f"i{bits.dtype.itemsize}" if name[0] == "s" else f"u{bits.dtype.itemsize}"
    return bits.view(kind).astype(np.int64)


def _packed(values: Array, name: str, count: int) -> list[Array]:
    """Elements (warps, 32, n) as ``count`` registers of the lanes."""
    flat = np.ascontiguousarray(values).reshape(values.shape[0] * 32, -1)
    if name == "s32":
        words = flat.astype(np.uint64).astype(np.uint32)
    else:
        words = to_float(flat, name, "rn", frozenset())
    size = words.shape[1] * words.itemsize // count
    registers = np.ascontiguousarray(words).view(f"u{size}")
    return [np.ascontiguousarray(registers[:, i]) for i in range(count)]


def _multiplied(a: Array, b: Array, c: Array, product: _Product) -> Array:
    if product.types[0] != "s32":
        with np.errstate(all="ignore"):
            total: Array = c + np.matmul(a, b)
            return total
    if "popc" in product.words:
        a_bits, b_bits = a[:, :, :, None], b[:, None, :, :]
        joined = a_bits & b_bits if "and" in product.words else a_bits ^ b_bits
        total = c + joined.sum(axis=2)
    else:
        total = c + np.matmul(a, b)
    if "satfinite" in product.words:
        return np.clip(total, -(2**31), 2**31 - 1)
    return total


# --- mma ------------------------------------------------------------------------------------------


def multiply(context: Context, instruction: Instruction) -> Step:
    """``mma.sync.aligned`` with dense matrices."""
    product = _taken_apart(instruction)
    m, n, k = product.shape
    left = left_fragment(m, k, _per_register(product.types[1]))
    right = right_fragment(k, n, _per_register(product.types[2]))
    return _product_step(context, instruction, product, (left, right, sum_fragment(m, n)))


def _per_register(name: str) -> int:
    return max(32 // _BITS[name], 1)


def _taken_apart(instruction: Instruction) -> _Product:
    words = [word for word in instruction.modifiers if word not in ("sync", "aligned")]
    shape = _shape_of(instruction)
    types = [word for word in words if word in _BITS]
    rest = frozenset(words) - set(types) - set(_LAYOUTS) - {f"m{shape[0]}n{shape[1]}k{shape[2]}"}
    if rest - {"satfinite", "popc", "and", "xor", "kind::f8f6f4"} or len(types) != 4:
        raise Unsupported("these modifiers")
    if (shape[0], shape[1]) not in ((16, 8), (8, 8)) or "col row" in " ".join(words):
        raise Unsupported("this shape")
    if shape[:2] == (8, 8) and types[1] == "f16":
        raise Unsupported("the shape of Volta")
    return _Product(shape, (types[0], types[1], types[2], types[3]), rest)


def _product_step(
    context: Context,
    instruction: Instruction,
    product: _Product,
    fragments: tuple[Fragment, Fragment, Fragment],
) -> Step:
    destination, *sources = instruction.operands
    if len(sources) != 3:
        raise Unsupported("this form")
    targets = [writer(context, one) for one in _elements(destination)]
    to, *kinds = product.types
    reads = []
    for operand, name, fragment in zip(sources, kinds, fragments, strict=True):
        width = 64 if name == "f64" else 32
        elements = _elements(operand)
        if len(elements) * width != fragment.elements * _BITS[name]:
            raise Unsupported("so many registers")
        reads.append([reader(context, one, f"b{width}") for one in elements])

    def step(frame: Frame) -> None:
        whole_warps(frame, instruction)
        values = [
            fragment.gather(_unpacked([read(frame) for read in group], name))
            for group, name, fragment in zip(reads, kinds, fragments, strict=True)
        ]
        result = _multiplied(values[0], values[1], values[2], product)
        lanes = _packed(fragments[2].scatter(result), to, len(targets))
        for target, value in zip(targets, lanes, strict=True):
            target(frame, value)

    return step


# --- matrices of 8 rows of 16 bytes ---------------------------------------------------------------


def _matrices(instruction: Instruction) -> tuple[int, bool]:
    words = instruction.modifiers
    counts = [int(word[1:]) for word in words if word in ("x1", "x2", "x4")]
    if "m8n8" not in words or "b16" not in words or len(counts) != 1:
        raise Unsupported("this form")
    return counts[0], "trans" in words


def _row_access(context: Context, instruction: Instruction, operand: Operand) -> Access:
    address = address_reader(context, operand)
    return Access(instruction, space_of(instruction), address, "b64", 2)


def _row_lanes(frame: Frame, count: int) -> Array:
    lanes = active_lanes(frame)
    return lanes[lanes % 32 < 8 * count]


def load_matrices(context: Context, instruction: Instruction) -> Step:
    """``ldmatrix``: lane l of the first 8, 16 or 32 gives the address of row l."""
    count, transposed = _matrices(instruction)
    destination, source = instruction.operands
    targets = [writer(context, one) for one in _elements(destination)]
    access = _row_access(context, instruction, source)

    def step(frame: Frame) -> None:
        whole_warps(frame, instruction)
        lanes = _row_lanes(frame, count)
        index = placed(frame, access, lanes, False)
        track(frame, access, lanes, index, READ)
        rows = np.zeros((frame.lanes, 16), dtype=np.uint8)
        rows[lanes] = frame.arena.bytes[index[:, None] + np.arange(16)]
        halves = rows.view(np.uint16).reshape(-1, 4, 8, 8)  # warp, matrix, row, column
        if transposed:
            halves = halves.transpose(0, 1, 3, 2)
        words = np.ascontiguousarray(halves).view(np.uint32).reshape(-1, 4, 32)
        for number, target in enumerate(targets):
            target(frame, np.ascontiguousarray(words[:, number]).reshape(-1))

    return step


def store_matrices(context: Context, instruction: Instruction) -> Step:
    """``stmatrix``: the opposite of ``ldmatrix``."""
    count, transposed = _matrices(instruction)
    destination, source = instruction.operands
    reads = [reader(context, one, "b32") for one in _elements(source)]
    access = _row_access(context, instruction, destination)

    def step(frame: Frame) -> None:
        whole_warps(frame, instruction)
        lanes = _row_lanes(frame, count)
        index = placed(frame, access, lanes, True)
        track(frame, access, lanes, index, WRITE)
        rows = np.zeros((frame.lanes // 32, 4, 8, 8), dtype=np.uint16)
        for number, read in enumerate(reads):
            halves = np.ascontiguousarray(read(frame)).view(np.uint16).reshape(-1, 8, 8)
            rows[:, number] = halves.transpose(0, 2, 1) if transposed else halves
        data = np.ascontiguousarray(rows).view(np.uint8).reshape(frame.lanes, 16)
        frame.arena.bytes[index[:, None] + np.arange(16)] = data[lanes]
        frame.arena.state[index[:, None] + np.arange(16)] = 3

    return step


def transpose(context: Context, instruction: Instruction) -> Step:
    """``movmatrix.trans``: an 8 by 8 matrix of 16-bit elements."""
    if "m8n8" not in instruction.modifiers or "trans" not in instruction.modifiers:
        raise Unsupported("this form")
    target = writer(context, instruction.operands[0])
    value = reader(context, instruction.operands[1], "b32")

    def step(frame: Frame) -> None:
        whole_warps(frame, instruction)
        halves = np.ascontiguousarray(value(frame)).view(np.uint16).reshape(-1, 8, 8)
        turned = np.ascontiguousarray(halves.transpose(0, 2, 1))
        target(frame, turned.view(np.uint32).reshape(-1))

    return step


# --- wmma -----------------------------------------------------------------------------------------

_SIDES: dict[str, Callable[[tuple[int, int, int]], tuple[int, int]]] = {
    "a": lambda s: (s[0], s[2]),
    "b": lambda s: (s[2], s[1]),
    "c": lambda s: (s[0], s[1]),
    "d": lambda s: (s[0], s[1]),
}


def _open(shape: tuple[int, int], name: str, registers: int) -> Fragment:
    if name not in _BITS or _BITS[name] < 8:
        raise Unsupported(f"type .{name}")
    width = 64 if name == "f64" else 32
    return open_fragment(*shape, registers * width // _BITS[name])


def _tile(context: Context, instruction: Instruction, place: int) -> tuple[Operand, Access, Access]:
    """What wmma.load and wmma.store name: the registers, an element's access, the whole's."""
    operands = instruction.operands
    registers, where = operands[place], operands[1 - place]
    name = instruction.modifiers[-1]
    if name not in _BITS or _BITS[name] < 8:
        raise Unsupported(f"type .{name}")
    base = address_reader(context, where)
    one = Access(instruction, space_of(instruction), base, f"b{_BITS[name]}", 1)
    return registers, one, one


def load_fragment(context: Context, instruction: Instruction) -> Step:
    """``wmma.load``: every element from where base, layout and stride put it."""
    return _fragment_move(context, instruction, stores=False)


def store_fragment(context: Context, instruction: Instruction) -> Step:
    """``wmma.store``."""
    return _fragment_move(context, instruction, stores=True)


def _fragment_move(context: Context, instruction: Instruction, *, stores: bool) -> Step:
    words = instruction.modifiers
    registers, access, _ = _tile(context, instruction, 1 if stores else 0)
    name = words[-1]
    shape = _SIDES[words[0]](_shape_of(instruction))
    elements = _elements(registers)
    fragment = _open(shape, name, len(elements))
    by_columns = "col" in words
    own = shape[0] if by_columns else shape[1]
    strides = instruction.operands[2:]
    stride = reader(context, strides[0], "u32") if strides else None
    width = 64 if name == "f64" else 32
    reads = [reader(context, one, f"b{width}") for one in elements] if stores else []
    targets = [] if stores else [writer(context, one) for one in elements]
    size = _BITS[name] // 8

    def places(frame: Frame, element: int) -> Access:
        """The access of one element of every lane."""
        step = np.full(frame.lanes, own, np.int64) if stride is None else stride(frame)
        rows = np.tile(fragment.rows[:, element], frame.lanes // 32)
        columns = np.tile(fragment.columns[:, element], frame.lanes // 32)
        major, minor = (columns, rows) if by_columns else (rows, columns)
        offset = (major * step.astype(np.int64) + minor) * size
        address = access.address
        moved = lambda f: address(f) + offset.astype(np.uint64)  # noqa: E731
        return Access(instruction, access.space, moved, access.type_name, 1)

    def load(frame: Frame) -> None:
        whole_warps(frame, instruction)
        lanes = active_lanes(frame)
        data = np.zeros((frame.lanes, fragment.elements), dtype=f"u{size}")
        for element in range(fragment.elements):
            one = places(frame, element)
            index = placed(frame, one, lanes, False)
            track(frame, one, lanes, index, READ)
            data[lanes, element] = frame.arena.views[size][index // size]
        packed = data.view(f"u{width // 8}")
        for number, target in enumerate(targets):
            target(frame, np.ascontiguousarray(packed[:, number]))

    def store(frame: Frame) -> None:
        whole_warps(frame, instruction)
        lanes = active_lanes(frame)
        words = np.stack([np.ascontiguousarray(read(frame)) for read in reads], axis=1)
        data = words.view(f"u{size}")
        for element in range(min(fragment.elements, shape[0] * shape[1] // 32)):
            one = places(frame, element)
            index = placed(frame, one, lanes, True)
            track(frame, one, lanes, index, WRITE)
            frame.arena.views[size][index // size] = data[lanes, element]
            frame.arena.states[size][index // size] = _WRITTEN[size]

    return store if stores else load


_WRITTEN = {1: 0x03, 2: 0x0303, 4: 0x03030303, 8: 0x0303030303030303}


def multiply_fragments(context: Context, instruction: Instruction) -> Step:
    """``wmma.mma``: fragments in the open layout of ``wmma.load``."""
    words = [word for word in instruction.modifiers if word not in ("sync", "aligned")]
    types = [word for word in words if word in _BITS]
    if len(types) == 2:
        types = [types[0], "f16", "f16", types[1]]
    shape = _shape_of(instruction)
    if len(types) != 4 or "popc" in words:
        raise Unsupported("these modifiers")
    product = _Product(shape, (types[0], types[1], types[2], types[3]), frozenset(words))
    sides = [
        _open(_SIDES[side](shape), name, len(_elements(operand)))
        for side, name, operand in zip("abc", types[1:], instruction.operands[1:], strict=True)
    ]
    return _product_step(context, instruction, product, (sides[0], sides[1], sides[2]))
