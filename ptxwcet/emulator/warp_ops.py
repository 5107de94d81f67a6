"""Executes exchanges within a warp: shfl, vote, match, activemask, elect and redux (PTX ISA)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.registers import Context, Frame, Place, Step, Unsupported, reader, writer
from ptxwcet.emulator.rows import restricted, types_of
from ptxwcet.ir.kernel import Immediate, Instruction, Operand, Pair

_NAN = np.uint32(0x7FFFFFFF)
_SIGN = np.uint32(0x80000000)
_OPERATIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_BY_TYPE = {
    "s32": ("add", "min", "max"),
    "u32": ("add", "min", "max"),
    "b32": ("and", "or", "xor"),
    "f32": ("min", "max"),
}


def reduce_warp(context: Context, instruction: Instruction) -> Step:
    """Compiles ``redux.sync``; for f32 ``min`` and ``max``, with ``.abs`` and ``.NaN``."""
    words = restricted(instruction, frozenset(_OPERATIONS) | {"sync", "abs", "NaN"})
    name = types_of(instruction)[-1]
    kinds = [word for word in words if word in _BY_TYPE.get(name, ())]
    options = words & {"abs", "NaN"}
    if len(kinds) != 1 or len(words) != 2 + len(options) or (options and name != "f32"):
        raise Unsupported("this form")
    destination, source, mask = instruction.operands
    target = writer(context, destination)
    value = reader(context, source, name)
    group = together(context, instruction, mask)
    operation = _OPERATIONS[kinds[0]]

    def step(frame: Frame) -> None:
        words, values = group(frame), value(frame)
        if name == "f32":
            bits = values.view(np.uint32)
            target(frame, _extreme(bits, members(words), kinds[0], options))
        elif (words == FULL).all():
            by_warp = values.reshape(-1, 32)
            target(frame, np.repeat(operation.reduce(by_warp, axis=1, dtype=values.dtype), 32))
        else:
            target(frame, _reduced(values, members(words), kinds[0]))

    return step


def _reduced(values: Array, chosen: Array, kind: str) -> Array:
    """Returns the reduction for each row of ``chosen``, the flags of its warp's lanes."""
    limits = np.iinfo(values.dtype.str)
    neutral = {"min": limits.max, "max": limits.min, "and": limits.max}.get(kind, 0)
    rows = np.repeat(values.reshape(-1, 32), 32, axis=0)
    taken = np.where(chosen, rows, np.array(neutral, values.dtype))
    result: Array = _OPERATIONS[kind].reduce(taken, axis=1, dtype=values.dtype)
    return result


def _extreme(bits: Array, chosen: Array, kind: str, options: frozenset[str]) -> Array:
    """Returns the extremum, -0 below +0; NaN if all are NaN, with ``.NaN`` if any is."""
    if "abs" in options:
        bits = bits & ~_SIGN
    nan = np.repeat((bits & ~_SIGN > 0x7F800000).reshape(-1, 32), 32, axis=0)
    order = np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)
    best = _reduced(order, chosen & ~nan, kind)
    number = np.where(best & _SIGN != 0, best & ~_SIGN, ~best)
    among = chosen & nan
    wrong = among.any(axis=1) if "NaN" in options else (among == chosen).all(axis=1)
    return np.where(wrong, _NAN, number)


_SHUFFLES = frozenset({"up", "down", "bfly", "idx"})


def _mode(instruction: Instruction, modes: frozenset[str], types: frozenset[str]) -> str:
    """Returns the only mode among the modifiers. Raises Unsupported for others and other types."""
    modes_here = restricted(instruction, modes | {"sync"}) - {"sync"}
    if len(modes_here) != 1 or not set(types_of(instruction)) <= types:
        raise Unsupported("this form")
    return min(modes_here)


def _two(operand: Operand) -> tuple[Operand, Operand | None]:
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)


def shuffle(context: Context, instruction: Instruction) -> Step:
    """Compiles ``shfl``: a lane out of its segment keeps its own value.

    Reading a lane that does not participate is undefined (finding PW437); here it reads that lane's
    register.
    """
    mode = _mode(instruction, _SHUFFLES, frozenset({"b32"}))
    destination, source, other, clamp, *mask = instruction.operands
    if bool(mask) != ("sync" in instruction.modifiers):
        raise Unsupported("this form")
    first, second = _two(destination)
    target, value = writer(context, first), reader(context, source, "b32")
    valid = None if second is None else writer(context, second)
    origin = _origin(context, mode, other, clamp)
    group = together(context, instruction, mask[0] if mask else None)

    def step(frame: Frame) -> None:
        words = group(frame)
        taken, inside = origin(frame)
        if not (words == FULL).all():
            absent = frame.active() & (words & BITS[taken & 31] == 0)
            if absent.any():
                report(frame, instruction, absent, "reads a lane that takes no part")
        result = value(frame)[taken]
        if valid is not None:
            valid(frame, inside)
        target(frame, result)

    return step


def _origin(
    context: Context, mode: str, other: Operand, clamp: Operand
) -> Callable[[Frame], tuple[Array, Array]]:
    """Returns the thread that each lane reads, and whether it is within the segment."""
    amount, segment = reader(context, other, "u32"), reader(context, clamp, "u32")
    thread = np.arange(context.lanes, dtype=np.int64)
    lane, warp = thread & 31, thread & ~31

    def origin(frame: Frame) -> tuple[Array, Array]:
        b = amount(frame).astype(np.int64) & 31
        c = segment(frame).astype(np.int64)
        mask, top = c >> 8 & 31, c & 31
        limit = (lane & mask) | (top & ~mask)
        if mode == "up":
            wanted = lane - b
            inside = wanted >= limit
        else:
            places = {"down": lane + b, "bfly": lane ^ b, "idx": (lane & mask) | (b & ~mask)}
            wanted = places[mode]
            inside = wanted <= limit
        return np.where(inside, wanted, lane) + warp, inside

    if isinstance(other, Immediate) and isinstance(clamp, Immediate):
        constant: list[tuple[Array, Array]] = []

        def once(frame: Frame) -> tuple[Array, Array]:
            if not constant:
                constant.append(origin(frame))
            return constant[0]

        return once
    return origin


def vote(context: Context, instruction: Instruction) -> Step:
    """Compiles ``vote``: all, any, uni, ballot over the participating lanes."""
    modes = frozenset({"all", "any", "uni", "ballot"})
    mode = _mode(instruction, modes, frozenset({"pred", "b32"}))
    destination, source, *mask = instruction.operands
    if bool(mask) != ("sync" in instruction.modifiers):
        raise Unsupported("this form")
    target, value = writer(context, destination), reader(context, source, "pred")
    group = together(context, instruction, mask[0] if mask else None)

    def step(frame: Frame) -> None:
        words, flags = group(frame), ballots(value(frame))
        if mode == "ballot":
            result = flags & words
        elif mode == "all":
            result = ~flags & words == 0
        elif mode == "any":
            result = flags & words != 0
        else:
            result = (~flags & words == 0) | (flags & words == 0)
        target(frame, result)

    return step


def active_mask(context: Context, instruction: Instruction) -> Step:
    """Compiles ``activemask.b32``: the lanes of the warp that execute it together."""
    target = writer(context, instruction.operands[0])
    return lambda frame: target(frame, ballots(frame.active()))


def match(context: Context, instruction: Instruction) -> Step:
    """Compiles ``match``: for ``match.any`` the lanes with the same value.

    For ``match.all`` all participating lanes if they have the same value, else none; and whether.
    """
    mode = _mode(instruction, frozenset({"any", "all"}), frozenset({"b32", "b64"}))
    destination, source, mask = instruction.operands
    first, second = _two(destination)
    if second is not None and mode == "any":
        raise Unsupported("a predicate of match.any")
    target = writer(context, first)
    predicate = None if second is None else writer(context, second)
    value = reader(context, source, types_of(instruction)[-1])
    group = together(context, instruction, mask)

    def step(frame: Frame) -> None:
        words = group(frame)
        values = value(frame).reshape(-1, 32)
        equal = (values[:, :, None] == values[:, None, :]).reshape(-1, 32) & members(words)
        matching = (equal * BITS).sum(axis=1, dtype=np.uint32)
        if mode == "any":
            target(frame, matching)
            return
        same = matching == words
        target(frame, np.where(same, words, np.uint32(0)))
        if predicate is not None:
            predicate(frame, same)

    return step


def elect(context: Context, instruction: Instruction) -> Step:
    """Compiles ``elect.sync``: the lowest participating lane; PTX leaves the choice open."""
    restricted(instruction, frozenset({"sync"}))
    destination, mask = instruction.operands
    if not isinstance(destination, Pair):
        raise Unsupported("elect without a predicate")
    target, leader = writer(context, destination.first), writer(context, destination.second)
    group = together(context, instruction, mask)
    own = np.tile(BITS, context.lanes // 32)

    def step(frame: Frame) -> None:
        flags = members(group(frame))
        lowest = flags.argmax(axis=1).astype(np.uint32)
        chosen = BITS[lowest] == own
        leader(frame, chosen)
        target(frame, lowest)

    return step


def synchronise(context: Context, instruction: Instruction) -> Step:
    """Compiles ``bar.warp.sync``: lanes run in lockstep here, so only participation is checked."""
    group = together(context, instruction, instruction.operands[0])

    def step(frame: Frame) -> None:
        group(frame)

    return step


# --- Member masks ---------------------------------------------------------------------------------
# All values are 32-bit words, one for each lane: bit i is lane i of its warp.


BITS = np.uint32(1) << np.arange(32, dtype=np.uint32)
"""The bit of each lane of a warp."""
FULL = np.uint32(0xFFFFFFFF)


def ballots(flags: Array) -> Array:
    """Returns each lane's warp's flags as a word."""
    return np.repeat(np.packbits(flags, bitorder="little").view(np.uint32), 32)


def members(words: Array) -> Array:
    """Returns words as flags: row i has the lanes of its warp that are in the word of lane i."""
    flags: Array = words[:, None] & BITS != 0
    return flags


def together(
    context: Context, instruction: Instruction, mask: Operand | None
) -> Callable[[Frame], Array]:
    """Returns the lanes that participate with each lane: the active ones of its member mask.

    Without a mask (forms without ``.sync``) these are all active lanes. PTX leaves the behaviour
    undefined if a lane that executes it is not in its own mask, or if a lane of the mask that has
    not ended does not execute it with the same mask: finding PW437.
    """
    if mask is None:
        return lambda frame: ballots(frame.active())
    named = reader(context, mask, "b32")
    own = np.tile(BITS, context.lanes // 32)

    def read(frame: Frame) -> Array:
        words = named(frame)
        if frame.mask is None and bool((words == FULL).all()):
            return words
        active = frame.active()
        executing = ballots(active)
        outside = active & (words & own == 0)
        if outside.any():
            report(frame, instruction, outside, "a lane executes it that its mask does not name")
        _check_absent(frame, instruction, active, words & ~executing)
        _check_same(frame, instruction, active, words)
        return words & executing

    return read


def _check_absent(frame: Frame, instruction: Instruction, active: Array, absent: Array) -> None:
    if frame.live is None or not (absent[active] != 0).any():
        return
    wrong = active & (absent & ballots(frame.live()) != 0)
    if wrong.any():
        message = "lanes that the mask names have not ended and do not execute it with the others"
        report(frame, instruction, wrong, message)


def _check_same(frame: Frame, instruction: Instruction, active: Array, words: Array) -> None:
    rows, flags = words.reshape(-1, 32), active.reshape(-1, 32)
    first = rows[np.arange(len(rows)), flags.argmax(axis=1)]
    if not ((rows != first[:, None]) & flags).any():
        return
    differ = (rows[:, :, None] != rows[:, None, :]) & flags[:, None, :] & flags[:, :, None]
    wrong = (differ & members(words).reshape(-1, 32, 32)).any(axis=2).reshape(-1)
    if wrong.any():
        report(frame, instruction, wrong, "lanes that one mask names execute it with another mask")


def report(frame: Frame, instruction: Instruction, wrong: Array, message: str) -> None:
    """Reports PW437 at the first lane that is wrong."""
    lane = int(np.flatnonzero(wrong)[0])
    frame.report("PW437", message, instruction, Place(lane, None, False))
