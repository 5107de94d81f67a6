"""``cp.async.bulk``: copies of many bytes by one thread, done at once.

An mbarrier or a bulk group says when their bytes may be used: :mod:`ptxwcet.emulator.pending`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ptxwcet.emulator import mbarriers
from ptxwcet.emulator.async_copies import move
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.mbarrier_phase import Phase
from ptxwcet.emulator.memory_access import checked_words
from ptxwcet.emulator.memory_ops import (
    Access,
    active_lanes,
    address_reader,
    checked,
    report_access,
)
from ptxwcet.emulator.pending import INCOMING, OUTGOING, BarrierPhase, Copy
from ptxwcet.emulator.races import READ, WRITE
from ptxwcet.emulator.registers import Context, Frame, Step, Unsupported, reader
from ptxwcet.emulator.rows import nothing
from ptxwcet.ir.kernel import Instruction

_ALIGNMENT = 16  # bytes, of addresses and sizes (PTX ISA, cp.async.bulk)
_TRANSACTION, _GROUP = "mbarrier::complete_tx::bytes", "bulk_group"
_FORMS = {
    ("shared::cluster", "global"): _TRANSACTION,
    ("shared::cta", "global"): _TRANSACTION,
    ("shared::cluster", "shared::cta"): _TRANSACTION,
    ("global", "shared::cta"): _GROUP,
}


@dataclass(frozen=True, slots=True)
class _Bulk:
    """Where to, where from, and the mbarrier that completes, if one does."""

    target: Access
    source: Access
    barrier: Access | None


def bulk_copy(context: Context, instruction: Instruction) -> Step:
    """``cp.async.bulk`` between global and shared memory, and its prefetch, which does nothing.

    Raises Unsupported for tensor and multicast forms and for masks of bytes.
    """
    words = instruction.modifiers
    if "tensor" in words:
        raise Unsupported("tensor copies")
    if "prefetch" in words:
        checked_words(instruction, frozenset({"prefetch", "L2", "global"}))
        return nothing(context, instruction)
    allowed = frozenset({"global", "shared::cta", "shared::cluster", _TRANSACTION, _GROUP})
    checked_words(instruction, allowed)
    spaces = tuple(w for w in words if w == "global" or w.startswith("shared"))
    completion = _FORMS.get((spaces[0], spaces[1])) if len(spaces) == 2 else None
    if completion is None or completion not in words:
        raise Unsupported("this form of bulk copy")
    operands = instruction.operands
    count = 3 + (completion == _TRANSACTION)
    if len(operands) != count + ("L2::cache_hint" in words):
        raise Unsupported(f"{len(operands)} operands")
    target, source = (
        Access(instruction, space.partition("::")[0], address_reader(context, operand), "b64", 2)
        for space, operand in zip(spaces, operands[:2], strict=True)
    )
    size = reader(context, operands[2], "u32")
    barrier = None
    if completion == _TRANSACTION:
        locate = address_reader(context, operands[3])
        barrier = Access(instruction, "shared", locate, "b64", 1)
    bulk = _Bulk(target, source, barrier)

    def step(frame: Frame) -> None:
        for lane in active_lanes(frame):
            _copy(frame, bulk, int(lane), int(size(frame)[lane]))

    return step


def _copy(frame: Frame, bulk: _Bulk, lane: int, size: int) -> None:
    lanes = np.array([lane])
    if size % _ALIGNMENT:
        what = (np.ones(1, dtype=bool), "PW431", f"bulk copy of {size} bytes, no multiple of 16")
        report_access(frame, bulk.target, lanes, what)
    sources = _range(frame, bulk.source, (lane, size), False)
    targets = _range(frame, bulk.target, (lane, size), True)
    move(frame, (sources, targets, 8))
    phase: BarrierPhase | None = None
    if bulk.barrier is not None:
        given = (lanes, np.array([size]), Phase.complete, True)
        _, (phase,) = mbarriers.change(frame, bulk.barrier, given)
    if "race" in frame.checks:
        pending = frame.arena.pending
        groups = pending.open_groups("bulk", lanes)
        pending.add(Copy("bulk", lanes, groups, 8, sources[None], targets[None], phase))


def _range(frame: Frame, access: Access, of: tuple[int, int], writes: bool) -> Array:
    """Checked places, in units of 8 bytes, of a thread's range. Raises Stop."""
    lane, size = of
    arena, lanes = frame.arena, np.array([lane])
    start = int(arena.index(access.address(frame)[lanes], access.space, lanes)[0])
    marks = arena.state[max(start, 0) : max(start + size, 0)]
    fine = start >= 0 and start % _ALIGNMENT == 0 and len(marks) == size
    busy = INCOMING | OUTGOING if writes else INCOMING
    if not fine or not (marks & (3 | busy) == 3).all():
        _walk(frame, access, of, writes)
    if frame.observation is not None and size:
        frame.observation.note(frame.active(), (size, lanes, np.array([start])))
    places = start // 8 + np.arange(size // 8)
    if access.space == "shared" and "race" in frame.checks:
        cells, warps = places * 8 - arena.shared, np.full(len(places), lane >> 5)
        bad = arena.races.access(WRITE if writes else READ, warps, cells, 8)
        if bad is not None:
            message = "memory accessed by two warps without a barrier between"
            report_access(frame, access, lanes, (np.ones(1, dtype=bool), "PW434", message), False)
    return places


def _walk(frame: Frame, access: Access, of: tuple[int, int], writes: bool) -> None:
    """Checks 16 bytes after the other, so that a finding has its address."""
    lane, size = of
    for offset in range(0, size, _ALIGNMENT):
        address = access.address(frame) + np.uint64(offset)
        part = replace(access, address=partial(_constant, address))
        checked(frame, part, np.array([lane]), writes)


def _constant(address: Array, frame: Frame) -> Array:
    return address
