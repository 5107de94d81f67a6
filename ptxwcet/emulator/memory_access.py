"""Executes loads and stores of all spaces, with the checks of all accesses: bounds, alignment,
uninitialised bytes, asynchronous copies in flight, races.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.memory import ALLOCATED, BASE, INITIALISED, Arena
from ptxwcet.emulator.pending import INCOMING, ONES, OUTGOING
from ptxwcet.emulator.races import READ, STRONG, STRONG_READ, WRITE, orders_through_memory
from ptxwcet.emulator.registers import (
    Context,
    Frame,
    Place,
    Step,
    Unsupported,
    dtype_of,
    reader,
    writer,
)
from ptxwcet.emulator.rows import elements_of, types_of
from ptxwcet.ir.kernel import Address, Instruction, Operand, Register, SymbolRef
from ptxwcet.ir.operands import Element, Immediate
from ptxwcet.ir.words import is_type
from ptxwcet.support.records import dataclass

Locate = Callable[[Frame], Array]


@dataclass(frozen=True, slots=True)
class Access:
    """An access: its instruction, state space, address, element type and count.

    ``orders``: warps acquire and release an order of their accesses at its address.
    """

    instruction: Instruction
    space: str
    address: Locate
    type_name: str
    count: int
    orders: bool = False

    @property
    def size(self) -> int:
        """The bytes of one element."""
        return dtype_of(self.type_name).itemsize


def address_reader(context: Context, operand: Operand) -> Locate:
    """Builds the reader of an operand's address (unsigned 64-bit numbers). Raises Unsupported."""
    if isinstance(operand, Element):
        array = reader(context, operand.array, "u64")
        index = address_reader(context, operand.index)
        size = np.uint64(context.symbols[f"element.{operand.array.name}"])
        return lambda frame: array(frame) + index(frame) * size
    if not isinstance(operand, Address):
        raise Unsupported(f"address operand {type(operand).__name__}")
    base, offset = operand.base, operand.offset
    if not isinstance(base, (Register, SymbolRef, Immediate)):
        raise Unsupported("address in a special register")
    value = reader(context, base, "u64")
    if not offset:
        return value
    step = np.int64(offset).view(np.uint64)
    if isinstance(base, Register) and context.kernel.registers[base.name].endswith("32"):
        low = np.uint64(0xFFFFFFFF)  # an address of 32 bits wraps around
        return lambda frame: (value(frame) + step) & low
    return lambda frame: value(frame) + step


def space_of(instruction: Instruction) -> str:
    """Returns the state space by name."""
    return instruction.space.value


def active_lanes(frame: Frame) -> Array:
    """Returns the numbers of the active lanes."""
    return frame.all_lanes if frame.mask is None else np.flatnonzero(frame.mask)


def placed(frame: Frame, access: Access, lanes: Array, writes: bool) -> Array:
    """Returns arena indices of an access for the given lanes, checked and reported to an observer.

    Raises Stop on a fatal finding.
    """
    index = checked(frame, access, lanes, writes)
    if frame.observation is not None:
        frame.observation.note(frame.active(), (access.size * access.count, lanes, index))
    return index


def checked(frame: Frame, access: Access, lanes: Array, writes: bool) -> Array:
    """Checks as :func:`placed` does, for a part of an access that is not observed."""
    arena, whole = frame.arena, access.size * access.count
    index = arena.index(access.address(frame)[lanes], access.space, lanes)
    if whole > 1:
        wrong = index & (whole - 1) != 0
        if wrong.any():
            message = f"address not a multiple of {whole}"
            report_access(frame, access, lanes, (wrong, "PW431", message))
    first, end = (0, arena.bytes.size)
    if access.space == "shared":
        first, end = arena.shared, arena.shared_end
    elif access.space == "const" and arena.constant:
        first, end = arena.constant[0][0], arena.constant[-1][1]
    outside = (index < first) | (index > end - whole)
    if outside.any():
        report_outside(frame, access, lanes, (outside, whole))
    _check_state(frame, access, lanes, (index, writes))
    return index


def _check_state(frame: Frame, access: Access, lanes: Array, at: tuple[Array, bool]) -> None:
    index, writes = at
    whole = access.size * access.count
    unit = min(8, whole)
    states = frame.arena.states[unit]
    ones = states.dtype.type(ONES[unit])
    for part in range(0, whole, unit):
        state = states[(index + part if part else index) // unit]
        if (state == INITIALISED * ones).all():
            continue
        bad = state & ones * ALLOCATED != ones
        if bad.any():
            report_outside(frame, access, lanes, (bad, whole))
        bad = state & ones * (INCOMING | OUTGOING if writes else INCOMING) != 0
        if bad.any():
            done = "written" if writes else "read"
            message = f"memory {done} before a wait for the asynchronous copy that uses it"
            report_access(frame, access, lanes, (bad, "PW438", message), False)
        if not writes and "uninitialised" in frame.checks:
            bad = state & ones * (INITIALISED - ALLOCATED) != ones * (INITIALISED - ALLOCATED)
            if bad.any():
                report = (bad, "PW432", "read of memory never written")
                report_access(frame, access, lanes, report, False)


def report_access(
    frame: Frame, access: Access, lanes: Array, finding: tuple[Array, str, str], fatal: bool = True
) -> None:
    """Reports a finding at the first flagged lane: flags, code, message without the space."""
    wrong, code, message = finding
    lane = int(lanes[np.flatnonzero(wrong)[0]])
    address = int(access.address(frame)[lane])
    text = f"{access.space} {message}"
    frame.report(code, text, access.instruction, Place(lane, address, fatal))


def report_outside(frame: Frame, access: Access, lanes: Array, wrong: tuple[Array, int]) -> None:
    """Reports PW430 for an access of this many bytes. Raises Stop."""
    outside, size = wrong
    lane = int(lanes[np.flatnonzero(outside)[0]])
    place = where(frame.arena, int(access.address(frame)[lane]), access.space)
    message = f"access of {size} bytes outside every allocation: {place}"
    report_access(frame, access, lanes, (outside, "PW430", message))


def where(arena: Arena, address: int, space: str) -> str:
    """Describes an address outside every allocation."""
    if address >= 1 << 63:
        address -= 1 << 64
    if space == "shared":
        return arena.nearest(arena.shared + address)
    if space == "const" and arena.constant:
        return arena.nearest(arena.constant[0][0] + address)
    index = address if space == "local" else address - BASE - arena.local
    if space == "local" or (space != "global" and 0 <= index < arena.local_end - arena.local):
        return f"offset {index:,} in the local memory of a thread"
    index += arena.local
    if arena.shared <= index < arena.local_end:
        return "it lies in shared or local memory"
    return arena.nearest(index)


def divide_checked(frame: Frame, instruction: Instruction, b: Array) -> None:
    """Reports a division by zero of an active lane."""
    if "division" in frame.checks:
        zero = (b == 0) & frame.active()
        if zero.any():
            lane = int(np.flatnonzero(zero)[0])
            place = Place(lane, None, False)
            frame.report("PW435", "integer division by zero", instruction, place)


def track(frame: Frame, access: Access, lanes: Array, index: Array, kind: int) -> None:
    """Notes an access to shared memory (a kind of :mod:`ptxwcet.emulator.races`); reports races."""
    if "race" not in frame.checks:
        return
    arena, whole = frame.arena, access.size * access.count
    if access.space != "shared":
        inside = (index >= arena.shared) & (index < arena.shared_end)
        if access.space != "generic" or not inside.any():
            return
        lanes, index = lanes[inside], index[inside]
    unit = min(8, whole)
    warp, cell = lanes >> 5, index - arena.shared
    for part in range(0, whole, unit):
        bad = arena.races.access(kind, warp, cell + part, unit)
        if bad is not None:
            report = (bad, "PW434", "memory accessed by two warps without a barrier between")
            report_access(frame, access, lanes, report, False)
    if access.orders:
        for key in dict.fromkeys(zip(index.tolist(), warp.tolist(), strict=True)):
            arena.races.acquire(("address", key[0]), [key[1]])
            if kind == STRONG:
                arena.races.release(("address", key[0]), [key[1]])


SPACES = frozenset(
    {"global", "shared", "shared::cta", "shared::cluster", "local", "const"}
    | {"param", "param::entry", "param::func"}
)
"""The modifiers that name state spaces."""

SCOPES = frozenset({"cta", "cluster", "gpu", "sys"})
"""The modifiers that name the threads for which an order holds."""

_STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "mmio"})
_CACHES = frozenset({"ca", "cg", "cs", "lu", "cv", "nc", "wb", "wt"})
_WORDS = SPACES | SCOPES | _STRONG | _CACHES | {"weak", "v2", "v4", "v8"}


def checked_words(instruction: Instruction, allowed: frozenset[str]) -> frozenset[str]:
    """Returns the modifiers except types and cache hints. Raises Unsupported for others."""
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
    """Returns the first ``count`` operands; one more is a cache policy, which has no effect."""
    hinted = "L2::cache_hint" in instruction.modifiers
    if len(operands) != count + hinted:
        raise Unsupported(f"{len(operands)} operands")
    return operands[:count]


def single_type(instruction: Instruction) -> str:
    """Returns the only type of an instruction. Raises Unsupported."""
    names = types_of(instruction)
    if len(names) != 1:
        raise Unsupported("type ." + ".".join(names))
    dtype_of(names[0])
    return names[0]


def access_of(
    context: Context, instruction: Instruction, operand: Operand, elements: tuple[str, int]
) -> Access:
    """Returns the access at the address of an operand with this type and number of elements. May
    raise Unsupported.
    """
    locate = address_reader(context, operand)
    orders = orders_through_memory(context.kernel, instruction)
    return Access(instruction, space_of(instruction), locate, *elements, orders)


def load(context: Context, instruction: Instruction) -> Step:
    """Compiles ``ld``, ``ldu`` of any space, also vectors; caches, policies have no effect."""
    words = checked_words(instruction, _WORDS)
    destination, source = without_policy(instruction, instruction.operands, 2)
    targets = [writer(context, element) for element in elements_of(destination) or (destination,)]
    name = single_type(instruction)
    dtype = dtype_of(name)
    access = access_of(context, instruction, source, (name, len(targets)))
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
    """Compiles ``st`` to any space except const, also vectors; caches, policies have no effect."""
    words = checked_words(instruction, _WORDS - {"const"})
    target, source = without_policy(instruction, instruction.operands, 2)
    name = single_type(instruction)
    values = [reader(context, element, name) for element in elements_of(source) or (source,)]
    access = access_of(context, instruction, target, (name, len(values)))
    kind = STRONG if words & _STRONG else WRITE
    may_race = access.space in ("shared", "generic")
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
            if may_race and "race" in frame.checks:
                lost = memory[place] != data
                if lost.any():
                    _report_lanes(frame, access, lanes, (place, data, lost))

    return step


def _report_lanes(
    frame: Frame, access: Access, lanes: Array, stored: tuple[Array, Array, Array]
) -> None:
    """Reports PW434 if lanes of a warp stored different values at a place in shared memory.

    ``stored``: places, data, flags of the lanes whose data another lane has replaced.
    """
    place, data, lost = stored
    byte, arena = place * access.size, frame.arena
    lost &= (byte >= arena.shared) & (byte < arena.shared_end)
    writes = np.flatnonzero(np.isin(place, place[lost]))
    writes = writes[np.lexsort((place[writes], lanes[writes] >> 5))]  # stable: lanes keep order
    before, after = writes[:-1], writes[1:]
    same = (place[before] == place[after]) & (lanes[before] >> 5 == lanes[after] >> 5)
    wrong = np.zeros(len(lanes), dtype=bool)
    wrong[after[same & (data[before] != data[after])]] = True
    if wrong.any():
        message = "memory written by two lanes of a warp with different values in one store"
        report_access(frame, access, lanes, (wrong, "PW434", message), False)


def policy(context: Context, instruction: Instruction) -> Step:
    """Compiles ``createpolicy``: the policy is empty, since its users ignore it."""
    checked_words(instruction, frozenset({"fractional", "range", "cvt", "global"}))
    target = writer(context, instruction.operands[0])
    return lambda frame: target(frame, np.zeros(frame.lanes, dtype=np.uint64))
