"""Loads, stores, atomics and asynchronous copies, with their checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptxwcet.emulator import floating
from ptxwcet.emulator.float_rows import rounded
from ptxwcet.emulator.floating import maximum, minimum
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.races import Kind
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
from ptxwcet.ir.kernel import Address, Instruction, Operand, Register, SymbolRef
from ptxwcet.ir.operands import Immediate, Vector

Locate = Callable[[Frame], Array]
_WIDTHS = {1: 0x01, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}


@dataclass(frozen=True, slots=True)
class Access:
    """What an access is: its instruction, state space, address, element type and count."""

    instruction: Instruction
    space: str
    address: Locate
    type_name: str
    count: int

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return dtype_of(self.type_name).itemsize


def address_reader(context: Context, operand: Operand) -> Locate:
    """The address of an operand as unsigned 64-bit numbers."""
    if not isinstance(operand, Address):
        raise Unsupported(f"address operand {type(operand).__name__}")
    base, offset = operand.base, operand.offset
    if not isinstance(base, (Register, SymbolRef, Immediate)):
        raise Unsupported("address in a special register")
    value = reader(context, base, "u64")
    if not offset:
        return value
    step = np.int64(offset).view(np.uint64)
    return lambda frame: value(frame) + step


def space_of(instruction: Instruction) -> str:
    """The state space by name."""
    return instruction.space.value


def placed(frame: Frame, access: Access, lanes: Array, writes: bool) -> Array:
    """Checked arena indices of an access for the lanes given. Raises Stop on a fatal finding."""
    arena, size, whole = frame.arena, access.size, access.size * access.count
    index = arena.index(access.address(frame)[lanes], access.space, lanes)
    wrong = index & (whole - 1) != 0
    if wrong.any():
        _report(frame, access, lanes, (wrong, "PW431", f"address not a multiple of {whole}"))
    last = index + (whole - size)
    outside = (index < 0) | (last >= arena.bytes.size)
    if access.space == "shared":
        outside |= (index < arena.shared) | (last >= arena.shared_end)
    if outside.any():
        _report(frame, access, lanes, (outside, "PW430", "access outside every allocation"))
    _check_state(frame, access, lanes, (index, writes))
    return index


def _check_state(frame: Frame, access: Access, lanes: Array, at: tuple[Array, bool]) -> None:
    index, writes = at
    states = frame.arena.states[access.size]
    ones = states.dtype.type(_WIDTHS[access.size])
    for element in range(access.count):
        state = states[(index + element * access.size) // access.size]
        bad = state & ones != ones
        if bad.any():
            _report(frame, access, lanes, (bad, "PW430", "access outside every allocation"))
        if not writes and "uninitialised" in frame.checks:
            bad = state != ones * states.dtype.type(3)
            if bad.any():
                _report(frame, access, lanes, (bad, "PW432", "read of memory never written"), False)


def _report(
    frame: Frame, access: Access, lanes: Array, what: tuple[Array, str, str], fatal: bool = True
) -> None:
    wrong, code, message = what
    lane = int(lanes[np.flatnonzero(wrong)[0]])
    address = int(access.address(frame)[lane])
    text = f"{access.space} {message}"
    frame.report(code, text, access.instruction, Place(lane, address, fatal))


def check_race(frame: Frame, access: Access, lanes: Array, index: Array, kind: Kind) -> None:
    """Notes an access to shared memory and reports it if it races with another warp's.

    Reports, too, an access to where an asynchronous copy is under way.
    """
    arena = frame.arena
    if "race" not in frame.checks:
        return
    if access.space != "shared":
        inside = (index >= arena.shared) & (index < arena.shared_end)
        if access.space != "generic" or not inside.any():
            return
        lanes, index = lanes[inside], index[inside]
    warp, cell = lanes >> 5, index - arena.shared
    if arena.copies.count:
        early = arena.copies.touched(cell, access.size * access.count)
        if early.any():
            what = (early, "PW438", "memory accessed before a wait for the copy to it")
            _report(frame, access, lanes, what, False)
    for element in range(access.count):
        bad = arena.races.access(warp, cell + element * access.size, access.size, kind)
        if bad.any():
            what = (bad, "PW434", "memory accessed by two warps without a barrier between")
            _report(frame, access, lanes, what, False)


def active_lanes(frame: Frame) -> Array:
    """The numbers of the active lanes."""
    return frame.all_lanes if frame.mask is None else np.flatnonzero(frame.mask)


def _elements(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vector) else (operand,)


def _type_name(instruction: Instruction) -> str:
    return instruction.modifiers[-1]


def load(context: Context, instruction: Instruction) -> Step:
    """``ld``, ``ldu``: of any space, vectors as well."""
    destination, source, *_ = instruction.operands  # a cache policy changes no value
    targets = [writer(context, element) for element in _elements(destination)]
    name = _type_name(instruction)
    dtype = dtype_of(name)
    access = Access(
        instruction, space_of(instruction), address_reader(context, source), name, len(targets)
    )

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        index = placed(frame, access, lanes, False)
        check_race(frame, access, lanes, index, Kind.READ)
        for element, target in enumerate(targets):
            place = (index + element * access.size) // access.size
            value = frame.arena.views[access.size][place].view(dtype)
            if frame.mask is not None:
                spread = np.zeros(frame.lanes, dtype=dtype)
                spread[lanes] = value
                value = spread
            target(frame, value)

    return step


def store(context: Context, instruction: Instruction) -> Step:
    """``st``: to any space but const, vectors as well."""
    target, source, *_ = instruction.operands
    if space_of(instruction) == "const":
        raise Unsupported("this form of st")
    name = _type_name(instruction)
    values = [reader(context, element, name) for element in _elements(source)]
    access = Access(
        instruction, space_of(instruction), address_reader(context, target), name, len(values)
    )
    unsigned = f"u{access.size}"

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        index = placed(frame, access, lanes, True)
        check_race(frame, access, lanes, index, Kind.WRITE)
        for element, value in enumerate(values):
            place = (index + element * access.size) // access.size
            frame.arena.views[access.size][place] = value(frame).view(unsigned)[lanes]
            frame.arena.states[access.size][place] = _WIDTHS[access.size] * 3

    return step


_ATOMICS: dict[str, Callable[[Array, Array], Array]] = {
    "add": lambda old, b: old + b,
    "min": lambda old, b: minimum(old, b) if old.dtype.kind == "f" else np.minimum(old, b),
    "max": lambda old, b: maximum(old, b) if old.dtype.kind == "f" else np.maximum(old, b),
    "and": lambda old, b: old & b,
    "or": lambda old, b: old | b,
    "xor": lambda old, b: old ^ b,
    "exch": lambda old, b: b,
    "inc": lambda old, b: np.where(old >= b, np.zeros_like(old), old + np.ones_like(old)),
    "dec": lambda old, b: np.where((old == 0) | (old > b), b, old - np.ones_like(old)),
}


def atomic(context: Context, instruction: Instruction) -> Step:
    """``atom`` and ``red``: lane by lane in the order of the lanes."""
    assert instruction.opcode is not None
    returns = instruction.opcode.name == "atom"
    operands = instruction.operands
    target = writer(context, operands[0]) if returns else None
    location, *sources = operands[1:] if returns else operands
    name = _type_name(instruction)
    swap = "cas" in instruction.modifiers
    kind = next((m for m in instruction.modifiers if m in _ATOMICS), None)
    if "L2::cache_hint" in instruction.modifiers:
        sources = sources[:-1]
    if len(sources) != 1 + swap or (kind is None and not swap):
        raise Unsupported("this form of atomic")
    if name.removesuffix("x2") in ("f16", "bf16"):
        if kind != "add":
            raise Unsupported("this form of atomic")
        return _atomic_halves(context, instruction, target, location, sources[0])
    values = [reader(context, source, name) for source in sources]
    dtype = dtype_of(name)
    access = Access(instruction, space_of(instruction), address_reader(context, location), name, 1)

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        index = placed(frame, access, lanes, False)
        check_race(frame, access, lanes, index, Kind.ATOMIC)
        place = index // access.size
        memory = frame.arena.views[access.size].view(dtype)
        given = [value(frame) for value in values]
        old = np.zeros(frame.lanes, dtype=dtype)
        with np.errstate(all="ignore"):
            for at, lane in zip(place.tolist(), lanes.tolist(), strict=True):
                before = memory[at : at + 1].copy()
                old[lane] = before[0]
                if swap:
                    if before[0] == given[0][lane]:
                        memory[at] = given[1][lane]
                elif kind is not None:
                    memory[at : at + 1] = _ATOMICS[kind](before, given[0][lane : lane + 1])
        if target is not None:
            target(frame, old)

    return step


def _atomic_halves(
    context: Context,
    instruction: Instruction,
    target: Callable[[Frame, Array], None] | None,
    location: Operand,
    source: Operand,
) -> Step:
    """``add`` of f16, bf16 or a pair, each sum rounded to nearest."""
    name = _type_name(instruction)
    width = 32 if name.endswith("x2") else 16
    value = reader(context, source, f"b{width}")
    where = address_reader(context, location)
    access = Access(instruction, space_of(instruction), where, f"b{width}", 1)
    add = rounded(floating.ADD, name.removesuffix("x2"), "rn", frozenset())

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        index = placed(frame, access, lanes, False)
        check_race(frame, access, lanes, index, Kind.ATOMIC)
        memory, given = frame.arena.views[2], value(frame).view(np.uint16).reshape(frame.lanes, -1)
        old = np.zeros_like(given)
        for at, lane in zip((index // 2).tolist(), lanes.tolist(), strict=True):
            part = memory[at : at + width // 16]
            old[lane] = part
            part[:] = add(part.copy(), given[lane])
        if target is not None:
            target(frame, old.reshape(-1).view(f"u{width // 8}"))

    return step


def copy_async(context: Context, instruction: Instruction) -> Step:
    """``cp.async``: copied at once, and under way until it is waited for; the rest is zeros.

    Of a source that is cut short by its size operand the first and the last byte are checked.
    """
    to, source, size, *rest = instruction.operands
    if not isinstance(size, Immediate) or int(size.value) not in (4, 8, 16):
        raise Unsupported("this size")
    if "L2::cache_hint" in instruction.modifiers:
        rest = rest[:-1]
    if rest and context.kernel.registers.get(getattr(rest[0], "name", "")) == "pred":
        raise Unsupported("ignore-src")
    whole = int(size.value)
    name = "b32" if whole == 4 else "b64"
    count = max(1, whole // 8)
    given = reader(context, rest[0], "u32") if rest else None
    origin = address_reader(context, source)
    reads = Access(instruction, "global", origin, name, count)
    first = Access(instruction, "global", origin, "b8", 1)
    writes = Access(instruction, "shared", address_reader(context, to), name, count)
    offsets = np.arange(whole)

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        amount = np.full(frame.lanes, whole, np.int64) if given is None else given(frame)
        kept = np.minimum(amount.astype(np.int64)[lanes], whole)
        placed(frame, reads, lanes[kept == whole], False)
        cut = lanes[(kept > 0) & (kept < whole)]
        placed(frame, first, cut, False)
        ends = Access(
            instruction,
            "global",
            lambda f: origin(f) + amount.astype(np.uint64) - np.uint64(1),
            "b8",
            1,
        )
        placed(frame, ends, cut, False)
        index = placed(frame, writes, lanes, True)
        check_race(frame, writes, lanes, index, Kind.WRITE)
        inside = offsets < kept[:, None]
        start = frame.arena.index(origin(frame)[lanes], "global", lanes)
        data = frame.arena.bytes[np.where(inside, start[:, None] + offsets, 0)]
        frame.arena.bytes[index[:, None] + offsets] = np.where(inside, data, np.uint8(0))
        frame.arena.state[index[:, None] + offsets] = 3
        cells = index[:, None] - frame.arena.shared + offsets
        frame.arena.copies.begin(lanes >> 5, cells)

    return step


def commit_copies(context: Context, instruction: Instruction) -> Step:
    """``cp.async.commit_group``."""

    def step(frame: Frame) -> None:
        frame.arena.copies.commit(np.unique(active_lanes(frame) >> 5).tolist())

    return step


def wait_for_copies(context: Context, instruction: Instruction) -> Step:
    """``cp.async.wait_group N``, ``wait_all``."""
    operands = instruction.operands
    left = 0
    if operands:
        if not isinstance(operands[0], Immediate):
            raise Unsupported("a count that is not a literal")
        left = int(operands[0].value)

    def step(frame: Frame) -> None:
        warps = np.unique(active_lanes(frame) >> 5).tolist()
        frame.arena.copies.wait(warps, left, also_open=not operands)

    return step


def make_policy(context: Context, instruction: Instruction) -> Step:
    """``createpolicy``: a number without meaning here, as cache policies change no value."""
    target = writer(context, instruction.operands[0])
    return lambda frame: target(frame, np.zeros(frame.lanes, dtype=np.uint64))


def divide_checked(frame: Frame, instruction: Instruction, b: Array) -> None:
    """Reports a division by zero of an active lane."""
    if "division" in frame.checks:
        zero = (b == 0) & frame.active()
        if zero.any():
            lane = int(np.flatnonzero(zero)[0])
            place = Place(lane, None, False)
            frame.report("PW435", "integer division by zero", instruction, place)
