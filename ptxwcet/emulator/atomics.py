"""Executes atomic operations: lane by lane in order, or at once where all places differ."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxwcet.emulator import floating
from ptxwcet.emulator.conversion import as_float, to_float
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.memory_access import (
    SCOPES,
    access_of,
    active_lanes,
    checked_words,
    placed,
    track,
    without_policy,
)
from ptxwcet.emulator.pending import ONES
from ptxwcet.emulator.races import STRONG
from ptxwcet.emulator.registers import Context, Frame, Step, Unsupported, dtype_of, reader, writer
from ptxwcet.emulator.rows import elements_of, types_of
from ptxwcet.ir.kernel import Instruction, Operand
from ptxwcet.support.records import dataclass

Combine = Callable[..., Array]
"""A function from the bits in memory and the operands of some lanes to the new bits in memory."""

_INTEGERS = ("u32", "s32", "u64", "s64")
_NARROW = ("f16", "f16x2", "bf16", "bf16x2")
_TYPES = {
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64"),
    "cas": ("b16", "b32", "b64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "add": ("u32", "s32", "u64", "f32", "f64", *_NARROW),
    "min": (*_INTEGERS, *_NARROW),
    "max": (*_INTEGERS, *_NARROW),
}
_ORDERS = frozenset({"relaxed", "acquire", "release", "acq_rel"})
_SPACES = frozenset({"global", "shared", "shared::cta", "shared::cluster"})
_WORDS = frozenset(_TYPES) | _ORDERS | SCOPES | _SPACES | {"noftz", "v2", "v4", "v8"}
_EXTREMES: dict[str, tuple[Combine, Combine]] = {
    "min": (np.minimum, floating.minimum),
    "max": (np.maximum, floating.maximum),
}
_BITWISE: dict[str, Combine] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, b: b,
    "cas": lambda old, compare, b: np.choose(old == compare, (old, b)),
    "inc": lambda old, b: np.where(old >= b, np.zeros_like(old), old + np.uint32(1)),
    "dec": lambda old, b: np.where((old == 0) | (old > b), b, old - np.uint32(1)),
}


@dataclass(frozen=True, slots=True)
class _Operation:
    """An operation. ``flushes``: in global memory, subnormals become zeros (PTX ISA, atom)."""

    name: str
    type_name: str
    combine: Combine
    flushes: bool


def atomic(context: Context, instruction: Instruction) -> Step:
    """Compiles ``atom``: scalars and vectors (each element is an operation of its own)."""
    return _build(context, instruction, True)


def reduction(context: Context, instruction: Instruction) -> Step:
    """Compiles ``red``: an atomic operation without a result."""
    return _build(context, instruction, False)


def _elements(operand: Operand) -> tuple[Operand, ...]:
    return elements_of(operand) or (operand,)


def _build(context: Context, instruction: Instruction, returns: bool) -> Step:
    operation = _operation(instruction)
    operands = instruction.operands
    targets = [writer(context, element) for element in _elements(operands[0])] if returns else []
    count = 3 if operation.name == "cas" else 2
    location, *sources = without_policy(instruction, operands[returns:], count)
    vectors = [_elements(source) for source in sources]
    bits = operation.type_name
    if bits in _NARROW:
        bits = "b32" if bits.endswith("x2") else "b16"
    values = [[reader(context, part, bits) for part in vector] for vector in vectors]
    length = len(values[0])
    if returns and len(targets) != length:
        raise Unsupported("vectors of different lengths")
    access = access_of(context, instruction, location, (bits, length))
    size = access.size
    unsigned = np.dtype(f"u{size}")

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        index = placed(frame, access, lanes, False)
        track(frame, access, lanes, index, STRONG)
        for element in range(length):
            place = (index + element * size) // size
            given = [vector[element](frame).view(unsigned)[lanes] for vector in values]
            old = _apply(frame, operation, place, given)
            frame.arena.states[size][place] = np.array(ONES[size] * 3, dtype=unsigned)
            if returns:
                spread = np.zeros(frame.lanes, dtype=unsigned)
                spread[lanes] = old
                targets[element](frame, spread)

    return step


def _apply(frame: Frame, operation: _Operation, place: Array, given: list[Array]) -> Array:
    """Changes memory, lane after lane; returns the bits that each lane read there."""
    memory = frame.arena.views[given[0].dtype.itemsize]
    order = np.argsort(place, kind="stable")
    ordered = place[order]
    is_first = np.ones(len(place), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    if is_first.all():
        return _round(frame, operation, place, given)
    if operation.name == "add" and operation.type_name in _INTEGERS:
        return _sums(memory, order, is_first, (place, given[0]))
    starts = np.flatnonzero(is_first)
    rank = np.arange(len(place)) - starts[np.cumsum(is_first) - 1]
    old = np.zeros_like(given[0])
    for turn in range(int(rank.max()) + 1):
        lanes = order[rank == turn]
        old[lanes] = _round(frame, operation, place[lanes], [value[lanes] for value in given])
    return old


def _round(frame: Frame, operation: _Operation, place: Array, given: list[Array]) -> Array:
    """Applies an operation to distinct places; returns the bits that were there."""
    size = given[0].dtype.itemsize
    memory, arena = frame.arena.views[size], frame.arena
    old = memory[place]
    with np.errstate(all="ignore"):
        if operation.flushes:
            is_shared = (place * size >= arena.shared) & (place * size < arena.shared_end)
            flushed = [floating.flush(bits.view("f4")).view("u4") for bits in (old, *given)]
            result = floating.flush(operation.combine(*flushed).view("f4")).view("u4")
            memory[place] = np.where(is_shared, operation.combine(old, *given), result)
        else:
            memory[place] = operation.combine(old, *given)
    return old


def _sums(memory: Array, order: Array, is_first: Array, updates: tuple[Array, Array]) -> Array:
    """Adds integers at shared places; a lane reads the old value plus the sum of earlier lanes."""
    place, value = updates[0][order], updates[1][order]
    upto = np.cumsum(value, dtype=value.dtype)
    starts = np.flatnonzero(is_first)
    before = (upto - value)[starts]  # the sum of all lanes before the first lane of the place
    place_of = np.cumsum(is_first) - 1
    seen = memory[place] + (upto - value - before[place_of])
    ends = np.append(starts[1:], len(place)) - 1
    memory[place[ends]] = seen[ends] + value[ends]
    old = np.zeros_like(value)
    old[order] = seen
    return old


def _operation(instruction: Instruction) -> _Operation:
    """Reads the operation. Raises Unsupported if PTX lacks it or it is not executed."""
    words = checked_words(instruction, _WORDS)
    names = [word for word in instruction.modifiers if word in _TYPES]
    if len(names) != 1:
        raise Unsupported("this form of atomic")
    name, kinds = names[0], types_of(instruction)
    if len(kinds) != 1:
        raise Unsupported("type ." + ".".join(kinds))
    kind = kinds[0]
    if kind not in _TYPES[name]:
        raise Unsupported(f".{name} of type .{kind}")
    is_vector = bool(words & {"v2", "v4", "v8"})
    if kind in _NARROW and name != "add" and not is_vector:
        raise Unsupported(f".{name} of type .{kind} without a vector")
    assert instruction.opcode is not None
    if instruction.opcode.name == "red" and (words & {"acquire", "acq_rel", "exch", "cas"}):
        raise Unsupported("this form of red")
    if (kind in _NARROW) != ("noftz" in words):
        raise Unsupported(f".{kind} {'without' if kind in _NARROW else 'with'} .noftz")
    flushes = kind == "f32" and name == "add"
    return _Operation(name, kind, _combine(name, kind), flushes)


def _combine(name: str, kind: str) -> Combine:
    if kind in _NARROW:
        return _in_halves(name, kind)
    dtype = dtype_of(kind)
    if name in _BITWISE:
        return _BITWISE[name]
    if dtype.kind == "f":
        return lambda old, b: _float_sum(old.view(dtype), b.view(dtype)).view(old.dtype)
    operation = np.add if name == "add" else _EXTREMES[name][0]
    return lambda old, b: operation(old.view(dtype), b.view(dtype)).view(old.dtype)


def _float_sum(old: Array, b: Array) -> Array:
    return floating.canonical(floating.ADD.nearest(old, b))


def _in_halves(name: str, kind: str) -> Combine:
    """Returns an operation on f16 or bf16, single or in pairs; rounded once, NaN is 0x7fff."""
    element = kind.removesuffix("x2")

    def combine(old: Array, b: Array) -> Array:
        pair = [as_float(np.ascontiguousarray(bits).view(np.uint16), element) for bits in (old, b)]
        if name == "add":
            exact = floating.ADD.odd("rn", [value.astype(np.float64) for value in pair])
        else:
            exact = _EXTREMES[name][1](*pair).astype(np.float64)
        result = to_float(exact, element, "rn", frozenset())
        result = np.where(np.isnan(exact), np.uint16(0x7FFF), result.astype(np.uint16))
        return np.ascontiguousarray(result).view(old.dtype)

    return combine
