"""Loads and stores of all spaces, and what only hints at memory."""

from __future__ import annotations

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.memory_ops import (
    ONES,
    Access,
    active_lanes,
    address_reader,
    placed,
    report_access,
    space_of,
    track,
)
from ptxwcet.emulator.races import READ, STRONG, STRONG_READ, WRITE
from ptxwcet.emulator.registers import Context, Frame, Step, Unsupported, dtype_of, reader, writer
from ptxwcet.emulator.rows import types_of
from ptxwcet.emulator.synchronisation import orders_through_memory
from ptxwcet.ir.kernel import Instruction, Operand, Register
from ptxwcet.ir.operands import Vector, WholeVector
from ptxwcet.ir.words import is_type

SPACES = frozenset(
    {"global", "shared", "shared::cta", "shared::cluster", "local", "const"}
    | {"param", "param::entry", "param::func"}
)
"""The words for state spaces."""

SCOPES = frozenset({"cta", "cluster", "gpu", "sys"})
"""The words for the threads that an order holds among."""

_STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "mmio"})
_CACHES = frozenset({"ca", "cg", "cs", "lu", "cv", "nc", "wb", "wt"})
_WORDS = SPACES | SCOPES | _STRONG | _CACHES | {"weak", "v2", "v4", "v8"}


def checked_words(instruction: Instruction, allowed: frozenset[str]) -> frozenset[str]:
    """The modifiers that are no types and no cache hints. Raises Unsupported for others."""
    words = frozenset(
        word
        for word in instruction.modifiers
        if not is_type(word) and not word.startswith(("L1::", "L2::"))
    )
    if words - allowed:
        raise Unsupported("modifier ." + ", .".join(sorted(words - allowed)))
    return words


def without_policy(
    instruction: Instruction, operands: tuple[Operand, ...], count: int
) -> tuple[Operand, ...]:
    """The first ``count`` operands; one more is a cache policy, which has no effect here."""
    hinted = "L2::cache_hint" in instruction.modifiers
    if len(operands) != count + hinted:
        raise Unsupported(f"{len(operands)} operands")
    return operands[:count]


def elements_of(operand: Operand) -> tuple[Operand, ...]:
    """The elements of a vector, or the operand alone."""
    if isinstance(operand, WholeVector):
        return tuple(Register(name) for name in operand.members)
    return operand.elements if isinstance(operand, Vector) else (operand,)


def single_type(instruction: Instruction) -> str:
    """The one type of an instruction. Raises Unsupported."""
    names = types_of(instruction)
    if len(names) != 1:
        raise Unsupported("type ." + ".".join(names))
    dtype_of(names[0])
    return names[0]


def load(context: Context, instruction: Instruction) -> Step:
    """``ld``, ``ldu``: of any space, vectors as well; caches and policies have no effect."""
    words = checked_words(instruction, _WORDS)
    destination, source = without_policy(instruction, instruction.operands, 2)
    targets = [writer(context, element) for element in elements_of(destination)]
    name = single_type(instruction)
    dtype = dtype_of(name)
    locate, orders = (
        address_reader(context, source),
        orders_through_memory(context.kernel, instruction),
    )
    access = Access(instruction, space_of(instruction), locate, name, len(targets), orders)
    kind = STRONG_READ if words & _STRONG else READ
    size = access.size

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        index = placed(frame, access, lanes, False)
        track(frame, access, lanes, index, kind)
        for element, target in enumerate(targets):
            place = (index + element * size) // size
            value = frame.arena.views[size][place].view(dtype)
            if frame.mask is not None:
                spread = np.zeros(frame.lanes, dtype=dtype)
                spread[lanes] = value
                value = spread
            target(frame, value)

    return step


def store(context: Context, instruction: Instruction) -> Step:
    """``st``: to any space but const, vectors as well; caches and policies have no effect."""
    words = checked_words(instruction, _WORDS - {"const"})
    target, source = without_policy(instruction, instruction.operands, 2)
    name = single_type(instruction)
    values = [reader(context, element, name) for element in elements_of(source)]
    locate, orders = (
        address_reader(context, target),
        orders_through_memory(context.kernel, instruction),
    )
    access = Access(instruction, space_of(instruction), locate, name, len(values), orders)
    kind = STRONG if words & _STRONG else WRITE
    checked = access.space in ("shared", "generic")
    size = access.size
    unsigned, written = f"u{size}", np.array(ONES[size] * 3, dtype=f"u{size}")

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        index = placed(frame, access, lanes, True)
        track(frame, access, lanes, index, kind)
        memory, states = frame.arena.views[size], frame.arena.states[size]
        for element, value in enumerate(values):
            place = (index + element * size) // size
            data = value(frame).view(unsigned)[lanes]
            memory[place] = data
            states[place] = written
            if checked and "race" in frame.checks:
                lost = memory[place] != data
                if lost.any():
                    _report_lanes(frame, access, lanes, (place, data, lost))

    return step


def _report_lanes(
    frame: Frame, access: Access, lanes: Array, stored: tuple[Array, Array, Array]
) -> None:
    """The finding PW434 if lanes of one warp stored different values at one place in shared memory.

    ``stored``: places, data, flags of the lanes whose data another lane has replaced.
    """
    place, data, lost = stored
    byte, arena = place * access.size, frame.arena
    lost &= (byte >= arena.shared) & (byte < arena.shared_end)
    writes = np.flatnonzero(np.isin(place, place[lost]))
    writes = writes[np.lexsort((place[writes], lanes[writes] >> 5))]  # stable: lanes stay in order
    before, after = writes[:-1], writes[1:]
    same = (place[before] == place[after]) & (lanes[before] >> 5 == lanes[after] >> 5)
    wrong = np.zeros(len(lanes), dtype=bool)
    wrong[after[same & (data[before] != data[after])]] = True
    if wrong.any():
        message = "memory written by two lanes of a warp with different values in one store"
        report_access(frame, access, lanes, (wrong, "PW434", message), False)


def policy(context: Context, instruction: Instruction) -> Step:
    """``createpolicy``: a policy that says nothing; those who use it ignore it."""
    checked_words(instruction, frozenset({"fractional", "range", "cvt", "global"}))
    target = writer(context, instruction.operands[0])
    return lambda frame: target(frame, np.zeros(frame.lanes, dtype=np.uint64))
