"""Barriers in shared memory (``mbarrier``): counts of arrivals and bytes, phase by phase.

The 64-bit object is opaque to programs; here it holds, from its lowest bit: the arrivals that a
phase expects (20 bits), those still missing (20), bytes still to come plus 2**20 (21), and the
parity of the current phase. A state is the object before an arrival. Tests never block: a thread
that finds the phase incomplete goes round its loop, and other warps run meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.memory_ops import Access, active_lanes, address_reader, placed, space_of
from ptxwcet.emulator.registers import Context, Frame, Read, Step, Unsupported, reader, writer
from ptxwcet.ir.kernel import Instruction, Operand
from ptxwcet.ir.operands import Sink

_COUNT = (1 << 20) - 1
_NO_BYTES = 1 << 20
_BYTES = (1 << 21) - 1
Change = Callable[[int, int], int]  # object, operand of the lane -> object


def _packed(expected: int, missing: int, pending: int, parity: int) -> int:
    return expected | missing << 20 | (pending + _NO_BYTES & _BYTES) << 40 | parity << 61


def _unpacked(word: int) -> tuple[int, int, int, int]:
    pending = (word >> 40 & _BYTES) - _NO_BYTES
    return word & _COUNT, word >> 20 & _COUNT, pending, word >> 61 & 1


def _settled(expected: int, missing: int, pending: int, parity: int) -> int:
    """The object, in its next phase if nothing is missing any more."""
    if missing == 0 and pending == 0:
        return _packed(expected, expected, 0, 1 - parity)
    return _packed(expected, missing, pending, parity)


def _arrived(word: int, count: int) -> int:
    expected, missing, pending, parity = _unpacked(word)
    return _settled(expected, max(missing - count, 0), pending, parity)


def _dropped(word: int, count: int) -> int:
    expected, missing, pending, parity = _unpacked(word)
    return _settled(max(expected - count, 0), max(missing - count, 0), pending, parity)


def _expecting(word: int, count: int) -> int:
    expected, missing, pending, parity = _unpacked(word)
    return _packed(expected, missing, pending + count, parity)


def completed(word: int, count: int) -> int:
    """The object after so many bytes have come (``complete_tx``)."""
    expected, missing, pending, parity = _unpacked(word)
    return _settled(expected, missing, pending - count, parity)


def _access(context: Context, instruction: Instruction, operand: Operand) -> Access:
    space = space_of(instruction)
    if space not in ("shared", "generic"):
        raise Unsupported(f"an object in .{space}")
    return Access(instruction, space, address_reader(context, operand), "b64", 1)


def change_objects(
    frame: Frame, access: Access, change: Change, counts: Array, lanes: Array
) -> Array:
    """Applies a change lane by lane; the objects before it, for all lanes."""
    before = np.zeros(frame.lanes, dtype=np.uint64)
    places = placed(frame, access, lanes, False) // 8
    view = frame.arena.views[8]
    for lane, place, count in zip(lanes.tolist(), places.tolist(), counts.tolist(), strict=True):
        word = int(view[place])
        before[lane] = word
        after = change(word, count)
        view[place] = after
        released = frame.arena.races.released([lane >> 5])
        frame.arena.barriers.arrive(place, released, is_over=(word ^ after) >> 61 & 1 == 1)
    return before


def initialise(context: Context, instruction: Instruction) -> Step:
    """``mbarrier.init``: expects so many arrivals in each phase."""
    access = _access(context, instruction, instruction.operands[0])
    count = reader(context, instruction.operands[1], "u32")

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        place = placed(frame, access, lanes, True) // 8
        counts = count(frame)[lanes].astype(np.uint64) & np.uint64(_COUNT)
        frame.arena.views[8][place] = (
            counts | counts << np.uint64(20) | np.uint64(_NO_BYTES) << np.uint64(40)
        )
        frame.arena.states[8][place] = 0x0303030303030303

    return step


def arrive(context: Context, instruction: Instruction) -> Step:
    """``mbarrier.arrive``, ``arrive_drop``, also with ``.expect_tx``; gives the state."""
    assert instruction.opcode is not None
    operands = list(instruction.operands)
    words = instruction.modifiers
    first = operands.pop(0) if len(operands) > 1 and _is_state(operands[0]) else Sink()
    target = writer(context, first)
    access = _access(context, instruction, operands[0])
    given = reader(context, operands[1], "u32") if len(operands) > 1 else None
    one = _dropped if instruction.opcode.name.endswith("drop") else _arrived
    if "expect_tx" in words:
        change: Change = lambda word, count: one(_expecting(word, count), 1)  # noqa: E731
    else:
        change = one

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        counts = np.ones(frame.lanes, np.uint32) if given is None else given(frame)
        target(frame, change_objects(frame, access, change, counts[lanes], lanes))

    return step


def _is_state(operand: Operand) -> bool:
    return type(operand).__name__ in ("Register", "Sink")


def _counted(change: Change) -> Callable[[Context, Instruction], Step]:
    def build(context: Context, instruction: Instruction) -> Step:
        access = _access(context, instruction, instruction.operands[0])
        count = reader(context, instruction.operands[1], "u32")

        def step(frame: Frame) -> None:
            lanes = active_lanes(frame)
            change_objects(frame, access, change, count(frame)[lanes], lanes)

        return step

    return build


expect = _counted(_expecting)
"""``mbarrier.expect_tx``."""
complete = _counted(completed)
"""``mbarrier.complete_tx``."""


def pending_count(context: Context, instruction: Instruction) -> Step:
    """``mbarrier.pending_count``: the missing arrivals of a state."""
    target = writer(context, instruction.operands[0])
    state = reader(context, instruction.operands[1], "b64")
    return lambda frame: target(
        frame, (state(frame) >> np.uint64(20) & np.uint64(_COUNT)).astype(np.uint32)
    )


def test_phase(context: Context, instruction: Instruction) -> Step:
    """``mbarrier.test_wait``, ``try_wait``: whether the phase of a state or parity is over."""
    destination, where, what, *_ = instruction.operands
    target = writer(context, destination)
    access = _access(context, instruction, where)
    by_parity = "parity" in instruction.modifiers
    value: Read = reader(context, what, "u32" if by_parity else "b64")

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        places = placed(frame, access, lanes, False) // 8
        now = frame.arena.views[8][places] >> np.uint64(61) & np.uint64(1)
        then = value(frame)[lanes].astype(np.uint64)
        then = then & np.uint64(1) if by_parity else then >> np.uint64(61) & np.uint64(1)
        over = np.zeros(frame.lanes, dtype=bool)
        over[lanes] = now != then
        for lane, place in zip(
            lanes[over[lanes]].tolist(), places[over[lanes]].tolist(), strict=True
        ):
            known = frame.arena.barriers.known(place)
            if known is not None:
                frame.arena.races.acquire([lane >> 5], known)
        target(frame, over)

    return step


def arrive_after_copies(context: Context, instruction: Instruction) -> Step:
    """``cp.async.mbarrier.arrive``: copies are done at once, so it arrives now.

    Without ``.noinc`` one more arrival is expected in the phase, which is the one that it makes.
    """
    access = _access(context, instruction, instruction.operands[0])
    noinc = "noinc" in instruction.modifiers

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        frame.arena.copies.wait(np.unique(lanes >> 5).tolist(), 0, also_open=True)
        if noinc:
            change_objects(frame, access, _arrived, np.ones(lanes.size, np.uint32), lanes)

    return step
