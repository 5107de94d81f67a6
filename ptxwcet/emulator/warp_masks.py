"""Member masks: which lanes of a warp execute an exchange together, and the finding if they differ.

All values are 32-bit words, one for each lane: bit i is lane i of its warp.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.registers import Context, Frame, Place, reader
from ptxwcet.ir.kernel import Instruction, Operand

BITS = np.uint32(1) << np.arange(32, dtype=np.uint32)
"""The bit of each lane of a warp."""
FULL = np.uint32(0xFFFFFFFF)


def ballots(flags: Array) -> Array:
    """Each lane's warp's flags as a word."""
    return np.repeat(np.packbits(flags, bitorder="little").view(np.uint32), 32)


def members(words: Array) -> Array:
    """Words as flags: row i says which lanes of its warp are in the word of lane i."""
    flags: Array = words[:, None] & BITS != 0
    return flags


def together(
    context: Context, instruction: Instruction, mask: Operand | None
) -> Callable[[Frame], Array]:
    """The lanes that take part together with each lane: the active ones of its member mask.

    Without a mask (forms without ``.sync``) these are all active lanes. PTX leaves undefined what
    happens if a lane that executes it is not in its own mask, or if a lane of the mask that has
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
    """The finding PW437 at the first lane of those that are wrong."""
    lane = int(np.flatnonzero(wrong)[0])
    frame.report("PW437", message, instruction, Place(lane, None, False))
