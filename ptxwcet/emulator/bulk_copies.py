"""Bulk copies between global and shared memory (``cp.async.bulk``), done at once."""

from __future__ import annotations

import numpy as np

from ptxwcet.emulator.mbarriers import change_objects, completed
from ptxwcet.emulator.memory_ops import (
    Access,
    active_lanes,
    address_reader,
    check_race,
    placed,
)
from ptxwcet.emulator.races import Kind
from ptxwcet.emulator.registers import Context, Frame, Step, Unsupported, reader
from ptxwcet.ir.kernel import Instruction


def copy_bulk(context: Context, instruction: Instruction) -> Step:
    """``cp.async.bulk`` of so many bytes, a multiple of 16, by each thread that executes it.

    Bytes are checked 16 at a time. A barrier in memory is told of them (``complete_tx``). Tensor
    maps, prefetches and copies to other blocks are not executed.
    """
    words = instruction.modifiers
    if "tensor" in words or "prefetch" in words or len(instruction.operands) < 3:
        raise Unsupported("this form")
    spaces = [word.partition("::")[0] for word in words if word.split("::")[0] in _SPACES]
    if len(spaces) != 2 or any("multicast" in word or "cp_mask" in word for word in words):
        raise Unsupported("this form")
    to, source, size, *rest = instruction.operands
    count = reader(context, size, "u32")
    target = Access(instruction, spaces[0], address_reader(context, to), "b64", 2)
    origin = Access(instruction, spaces[1], address_reader(context, source), "b64", 2)
    barrier = None
    if "mbarrier::complete_tx::bytes" in words:
        barrier = Access(instruction, "shared", address_reader(context, rest[0]), "b64", 1)

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        sizes = count(frame)
        for lane in lanes.tolist():
            one = np.array([lane])
            for start in range(0, int(sizes[lane]), 16):
                _copy(frame, _moved(origin, start), _moved(target, start), one)
        if barrier is not None:
            change_objects(frame, barrier, completed, sizes[lanes], lanes)

    return step


_SPACES = ("shared", "global")


def _moved(access: Access, start: int) -> Access:
    step = np.uint64(start)
    return Access(
        access.instruction,
        access.space,
        lambda frame: access.address(frame) + step,
        access.type_name,
        access.count,
    )


def _copy(frame: Frame, origin: Access, target: Access, lane: np.ndarray) -> None:
    """Copies 16 bytes of one thread."""
    arena = frame.arena
    read, written = placed(frame, origin, lane, False), placed(frame, target, lane, True)
    check_race(frame, origin, lane, read, Kind.READ)
    check_race(frame, target, lane, written, Kind.WRITE)
    first, last = int(written[0]), int(written[0]) + 16
    arena.bytes[first:last] = arena.bytes[int(read[0]) : int(read[0]) + 16]
    arena.state[first:last] = 3
