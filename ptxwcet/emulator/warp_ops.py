"""Exchanges within a warp: shfl, vote, match, activemask, redux."""

from __future__ import annotations

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.registers import Context, Frame, Step, Unsupported, reader, writer
from ptxwcet.ir.kernel import Instruction, Pair

_BITS = np.uint32(1) << np.arange(32, dtype=np.uint32)


def ballots(flags: Array) -> Array:
    """Each lane's warp's flags as a 32-bit mask."""
    words = np.packbits(flags, bitorder="little").view(np.uint32)
    return np.repeat(words, 32)


def shuffle(context: Context, instruction: Instruction) -> Step:
    """``shfl.sync``; lanes outside the segment keep their own value."""
    destination, source, other, clamp, *_ = instruction.operands
    valid = None
    if isinstance(destination, Pair):
        valid = writer(context, destination.second)
        destination = destination.first
    target, value = writer(context, destination), reader(context, source, "b32")
    amount, segment = reader(context, other, "u32"), reader(context, clamp, "u32")
    mode = next(m for m in instruction.modifiers if m in ("up", "down", "bfly", "idx"))

    def step(frame: Frame) -> None:
        lane = frame.all_lanes & 31
        b = amount(frame).astype(np.int64) & 31
        c = segment(frame).astype(np.int64)
        mask, top = c >> 8 & 31, c & 31
        limit = (lane & mask) | (top & ~mask)
        least = lane & mask
        if mode == "up":
            wanted = lane - b
            inside = wanted >= limit
        elif mode == "down":
            wanted = lane + b
            inside = wanted <= limit
        else:
            wanted = lane ^ b if mode == "bfly" else least | (b & ~mask)
            inside = wanted <= limit
        taken = np.where(inside, wanted, lane) + (frame.all_lanes & ~31)
        result = value(frame)[taken]
        if valid is not None:
            valid(frame, inside)
        target(frame, result)

    return step


def vote(context: Context, instruction: Instruction) -> Step:
    """``vote.sync``: all, any, uni, ballot over the active lanes."""
    destination, source, *_ = instruction.operands
    target, value = writer(context, destination), reader(context, source, "pred")
    mode = next(m for m in instruction.modifiers if m in ("all", "any", "uni", "ballot"))

    def step(frame: Frame) -> None:
        active = frame.active()
        ones, zeros = ballots(value(frame) & active), ballots(~value(frame) & active)
        results = {
            "all": zeros == 0,
            "any": ones != 0,
            "uni": (zeros == 0) | (ones == 0),
            "ballot": ones,
        }
        target(frame, results[mode])

    return step


def active_mask(context: Context, instruction: Instruction) -> Step:
    """``activemask.b32``: the lanes of the warp that execute it together."""
    target = writer(context, instruction.operands[0])
    return lambda frame: target(frame, ballots(frame.active()))


_REDUCTIONS = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def reduce_warp(context: Context, instruction: Instruction) -> Step:
    """``redux.sync`` on integers, over the active lanes."""
    destination, source, *_ = instruction.operands
    name = instruction.modifiers[-1]
    kind = next((m for m in instruction.modifiers if m in _REDUCTIONS), None)
    if kind is None or name == "f32":
        raise Unsupported("this redux")
    target, value = writer(context, destination), reader(context, source, name)

    def step(frame: Frame) -> None:
        values, active = value(frame), frame.active()
        result = np.zeros_like(values)
        for start in range(0, frame.lanes, 32):
            part = active[start : start + 32]
            if part.any():
                chosen = values[start : start + 32][part]
                result[start : start + 32] = _REDUCTIONS[kind].reduce(chosen, dtype=values.dtype)
        target(frame, result)

    return step


def match(context: Context, instruction: Instruction) -> Step:
    """``match.any.sync`` over the active lanes."""
    destination, source, *_ = instruction.operands
    if "any" not in instruction.modifiers:
        raise Unsupported("match.all")
    target = writer(context, destination)
    value = reader(context, source, instruction.modifiers[-1])

    def step(frame: Frame) -> None:
        values, active = value(frame).reshape(-1, 32), frame.active().reshape(-1, 32)
        equal = (values[:, :, None] == values[:, None, :]) & active[:, None, :]
        target(frame, (equal * _BITS).sum(axis=2).astype(np.uint32).reshape(-1))

    return step
