"""Executes ``cp.async``: copies that a thread awaits by groups, or an mbarrier for it.

``cp.async.bulk`` copies many bytes by one thread; it is executed at once. See
:mod:`ptxwcet.emulator.pending` for the time from which its bytes may be used.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ptxwcet.emulator import mbarriers
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.mbarriers import Phase
from ptxwcet.emulator.memory_access import (
    Access,
    active_lanes,
    address_reader,
    checked,
    checked_words,
    placed,
    report_access,
    track,
)
from ptxwcet.emulator.pending import INCOMING, ONES, OUTGOING, BarrierPhase, Copy
from ptxwcet.emulator.races import READ, WRITE
from ptxwcet.emulator.registers import (
    Context,
    Frame,
    Read,
    Step,
    Unsupported,
    dtype_of,
    reader,
)
from ptxwcet.emulator.rows import nothing, restricted
from ptxwcet.ir.kernel import Instruction, Operand, Register
from ptxwcet.ir.operands import Immediate, Negated
from ptxwcet.support.records import dataclass

_WORDS = frozenset({"ca", "cg", "shared", "shared::cta", "global"})


def copy_async(context: Context, instruction: Instruction) -> Step:
    """Compiles ``cp.async``: bytes beyond the source size, or of an ignored source, are zeros.

    For a shortened source only its first and its last byte are checked.
    """
    checked_words(instruction, _WORDS)
    to, source, size, *rest = instruction.operands
    if not isinstance(size, Immediate) or int(size.value) not in (4, 8, 16):
        raise Unsupported("a size that is not 4, 8 or 16")
    whole = int(size.value)
    if "L2::cache_hint" in instruction.modifiers:
        rest = rest[:-1]
    if len(rest) > 1:
        raise Unsupported("a source size together with an ignored source")
    kept = _kept(context, rest[0], whole) if rest else None
    name = "b32" if whole == 4 else "b64"
    origin = address_reader(context, source)
    reads = Access(instruction, "global", origin, name, max(1, whole // 8))
    writes = Access(instruction, "shared", address_reader(context, to), name, max(1, whole // 8))

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        target = placed(frame, writes, lanes, True)
        track(frame, writes, lanes, target, WRITE)
        size = None if kept is None else np.minimum(kept(frame)[lanes].astype(np.int64), whole)
        if size is None or bool((size == whole).all()):
            begin, unit = placed(frame, reads, lanes, False), min(8, whole)
            offsets = np.arange(0, whole, unit)
            inside = np.ones((1, 1), dtype=bool)
        else:
            begin, unit = _cut_source(frame, reads, lanes, size), 1
            offsets = np.arange(whole)
            inside = offsets < size[:, None]
        sources = np.where(inside, begin[:, None] + offsets, 0) // unit
        targets = (target[:, None] + offsets) // unit
        move(frame, (sources, targets, unit))
        if "race" in frame.checks:
            groups = frame.arena.pending.open_groups("thread", lanes)
            frame.arena.pending.add(Copy("thread", lanes, groups, unit, sources, targets))

    return step


def move(frame: Frame, units: tuple[Array, Array, int]) -> None:
    """Copies units of memory: sources (0, which holds zeros, for none), targets, bytes per unit."""
    sources, targets, unit = units
    arena = frame.arena
    arena.views[unit][targets] = arena.views[unit][sources]
    arena.states[unit][targets] = np.array(3 * ONES[unit], dtype=f"u{unit}")


def _kept(context: Context, operand: Operand, whole: int) -> Read:
    """Reads the number of source bytes: a size, or 0 where a predicate ignores the source."""
    is_predicate = isinstance(operand, Negated) or (
        isinstance(operand, Register) and context.kernel.registers[operand.name] == "pred"
    )
    if not is_predicate:
        return reader(context, operand, "u32")
    ignored = reader(context, operand, "pred")
    return lambda frame: np.where(ignored(frame), 0, whole)


def _cut_source(frame: Frame, reads: Access, lanes: Array, size: Array) -> Array:
    """Returns the starts of the sources; their first and last bytes are checked if any are read.

    The observer sees them as if they were whole: the omitted part is less than a sector.
    """
    arena, origin = frame.arena, reads.address
    whole = dtype_of(reads.type_name).itemsize * reads.count
    checked(frame, reads, lanes[size == whole], False)
    cut = (size > 0) & (size < whole)
    last = np.zeros(frame.lanes, dtype=np.uint64)
    last[lanes] = np.maximum(size, 1) - 1

    def end(frame: Frame) -> Array:
        return origin(frame) + last

    for locate in (origin, end):
        byte = Access(reads.instruction, "global", locate, "b8", 1)
        checked(frame, byte, lanes[cut], False)
    begin = arena.index(origin(frame)[lanes], "global", lanes)
    if frame.observation is not None:
        read = size > 0
        frame.observation.note(frame.active(), (whole, lanes[read], begin[read]))
    return begin


def commit(context: Context, instruction: Instruction) -> Step:
    """Compiles ``cp.async.commit_group`` and ``cp.async.bulk.commit_group``."""
    restricted(instruction, frozenset())
    family = _family(instruction)
    return lambda frame: frame.arena.pending.commit(family, active_lanes(frame))


def wait_group(context: Context, instruction: Instruction) -> Step:
    """Compiles ``cp.async.wait_group N`` and ``cp.async.bulk.wait_group(.read) N``."""
    words = restricted(instruction, frozenset({"read"}))
    family = _family(instruction)
    (count,) = instruction.operands
    if not isinstance(count, Immediate):
        raise Unsupported("a number of groups that is no literal")
    allowed = int(count.value)

    def step(frame: Frame) -> None:
        pending, lanes = frame.arena.pending, active_lanes(frame)
        if "read" in words:
            pending.release_sources(lanes, allowed)
        else:
            finish(frame, pending.wait(family, lanes, allowed))

    return step


def wait_all(context: Context, instruction: Instruction) -> Step:
    """Compiles ``cp.async.wait_all``: commits, then waits for all groups."""
    restricted(instruction, frozenset())

    def step(frame: Frame) -> None:
        pending, lanes = frame.arena.pending, active_lanes(frame)
        pending.commit("thread", lanes)
        finish(frame, pending.wait("thread", lanes, 0))

    return step


def finish(frame: Frame, copies: list[Copy]) -> None:
    """Marks the bytes of awaited copies as written now: other warps see them after a barrier."""
    arena = frame.arena
    for copy in copies:
        place = copy.target * copy.unit
        cells = (place[:, :, None] + np.arange(copy.unit)).reshape(len(copy.lanes), -1)
        inside = (cells[:, 0] >= arena.shared) & (cells[:, 0] < arena.shared_end)
        if inside.any():
            warps = (copy.lanes >> 5)[inside, None]
            arena.races.complete(warps, cells[inside] - arena.shared)


def _family(instruction: Instruction) -> str:
    assert instruction.opcode is not None
    return "bulk" if ".bulk" in instruction.opcode.name else "thread"


_ALIGNMENT = 16  # bytes, for addresses and sizes (PTX ISA, cp.async.bulk)
_TRANSACTION, _GROUP = "mbarrier::complete_tx::bytes", "bulk_group"
_FORMS = {
    ("shared::cluster", "global"): _TRANSACTION,
    ("shared::cta", "global"): _TRANSACTION,
    ("shared::cluster", "shared::cta"): _TRANSACTION,
    ("global", "shared::cta"): _GROUP,
}


@dataclass(frozen=True, slots=True)
class _Bulk:
    """The target and the source of a bulk copy, and the mbarrier that it completes, if any."""

    target: Access
    source: Access
    barrier: Access | None


def bulk_copy(context: Context, instruction: Instruction) -> Step:
    """Compiles ``cp.async.bulk`` between global and shared memory, and its prefetch, a no-op.

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
        report = (np.ones(1, dtype=bool), "PW431", f"bulk copy of {size} bytes, no multiple of 16")
        report_access(frame, bulk.target, lanes, report)
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
    """Returns the checked places of a thread's range, in units of 8 bytes. Raises Stop."""
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
    """Checks the range in steps of 16 bytes, so that a finding has its address."""
    lane, size = of
    for offset in range(0, size, _ALIGNMENT):
        address = access.address(frame) + np.uint64(offset)
        part = replace(access, address=partial(_constant, address))
        checked(frame, part, np.array([lane]), writes)


def _constant(address: Array, frame: Frame) -> Array:
    return address
