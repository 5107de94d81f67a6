"""Executes mbarrier objects: shared words whose phases threads arrive at and wait for.

The state that an arrival returns is the word before it. A wait never blocks: it returns whether the
phase is complete now.

The layout of the 64 bits is our own (PTX ISA leaves it open): pending arrivals in bits 0-19,
expected arrivals of the next phase in 20-39, bytes pending for transactions in 40-60 (two's
complement), parity of the phase in 61, and 62 set.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.memory_access import (
    SCOPES,
    Access,
    active_lanes,
    address_reader,
    checked_words,
    placed,
    report_access,
    space_of,
    track,
)
from ptxwcet.emulator.pending import ONES, BarrierPhase
from ptxwcet.emulator.races import STRONG, STRONG_READ, WRITE
from ptxwcet.emulator.registers import Context, Frame, Read, Step, Unsupported, reader, writer
from ptxwcet.ir.kernel import Instruction, Operand
from ptxwcet.ir.operands import Address, Element
from ptxwcet.support.records import dataclass

MOST = (1 << 20) - 1
"""The largest count of arrivals, and of pending bytes of transactions (PTX ISA, mbarrier)."""

LOW, _OWED, PARITY, VALID = MOST, (1 << 21) - 1, 61, 62


class Misuse(Exception):
    """An invalid operation on an mbarrier object."""


@dataclass(slots=True)
class Phase:
    """An unpacked object; ``owed`` are the pending bytes."""

    pending: int
    expected: int
    owed: int = 0
    parity: int = 0

    @staticmethod
    def of(word: int) -> Phase:
        """Unpacks an object in memory. Raises Misuse if the word is not an mbarrier object."""
        if word >> VALID != 1:
            raise Misuse("there is no mbarrier object")
        owed = word >> 40 & _OWED
        owed -= (owed >> 20) << 21
        return Phase(word & LOW, word >> 20 & LOW, owed, word >> PARITY & 1)

    @property
    def word(self) -> int:
        """The object as 64 bits in memory."""
        counts = self.pending | self.expected << 20 | (self.owed & _OWED) << 40
        return counts | self.parity << PARITY | 1 << VALID

    def arrive(self, count: int) -> None:
        """Adds arrivals. Raises Misuse."""
        if not 1 <= count <= self.pending:
            raise Misuse(f"{count} arrivals where {self.pending} are pending")
        self.pending -= count
        self._settle()

    def drop(self, count: int) -> None:
        """Adds arrivals that also leave all later phases. Raises Misuse."""
        self.expected -= count
        self.arrive(count)

    def expect(self, size: int) -> None:
        """Adds pending bytes (expect-tx). Raises Misuse."""
        self.owed += size
        if abs(self.owed) > MOST:
            raise Misuse(f"{self.owed} bytes are owed")

    def complete(self, size: int) -> None:
        """Removes pending bytes (complete-tx). Raises Misuse."""
        self.expect(-size)
        self._settle()

    def _settle(self) -> None:
        if self.pending == 0 and self.owed == 0:
            self.parity ^= 1
            self.pending = self.expected


Change = Callable[[Phase, int], None]


def _arrive_incomplete(phase: Phase, count: int) -> None:
    if count >= phase.pending:
        raise Misuse("an arrival with .noComplete completes the phase")
    phase.arrive(count)


def _drop_incomplete(phase: Phase, count: int) -> None:
    phase.expected -= count
    _arrive_incomplete(phase, count)


def _expect_and_arrive(phase: Phase, size: int) -> None:
    phase.expect(size)
    phase.arrive(1)


def _expect_and_drop(phase: Phase, size: int) -> None:
    phase.expect(size)
    phase.drop(1)


ARRIVALS: dict[tuple[bool, str], Change] = {
    (False, ""): Phase.arrive,
    (False, "noComplete"): _arrive_incomplete,
    (False, "expect_tx"): _expect_and_arrive,
    (True, ""): Phase.drop,
    (True, "noComplete"): _drop_incomplete,
    (True, "expect_tx"): _expect_and_drop,
}
"""The change by an arrival: whether it drops out, and its form."""


SPACES = frozenset({"shared", "shared::cta", "shared::cluster"})


def key_of(phase: BarrierPhase) -> tuple[str, int, int]:
    """Returns the key to which arrivals at a phase release, and from which its waits acquire."""
    return ("mbarrier", *phase)


def object_access(context: Context, instruction: Instruction, operand: Operand) -> Access:
    """Returns the access to an object."""
    space = space_of(instruction)
    if space not in ("shared", "generic"):
        space = "shared"
    return Access(instruction, space, address_reader(context, operand), "b64", 1)


def change(
    frame: Frame, access: Access, given: tuple[Array, Array, Change, bool]
) -> tuple[Array, list[BarrierPhase]]:
    """Applies a change to the objects of lanes, one lane after the other.

    ``given``: lanes, their numbers, the change, and whether it releases the accesses of the warp.
    Returns the words before, and the phases that the changes belong to. Raises Stop on misuse.
    """
    lanes, numbers, operation, releases = given
    index = placed(frame, access, lanes, False)
    track(frame, access, lanes, index, STRONG)
    memory, races = frame.arena.views[8], frame.arena.races
    before = np.zeros(len(lanes), dtype=np.uint64)
    phases, released = [], set()
    changes = zip(index.tolist(), lanes.tolist(), numbers.tolist(), strict=True)
    for turn, (place, lane, number) in enumerate(changes):
        word = int(memory[place // 8])
        try:
            phase = Phase.of(word)
            at = (place, phase.parity)
            operation(phase, number)
        except Misuse as wrong:
            flags = np.arange(len(lanes)) == turn
            report_access(frame, access, lanes, (flags, "PW441", f"mbarrier: {wrong}"))
        if releases and (at, lane >> 5) not in released:
            released.add((at, lane >> 5))
            races.release(key_of(at), [lane >> 5])
        if phase.parity != at[1]:
            races.drop(key_of((place, phase.parity)))
            released.clear()
        before[turn] = word
        phases.append(at)
        memory[place // 8] = phase.word
    return before, phases


def initialise(context: Context, instruction: Instruction) -> Step:
    """Compiles ``mbarrier.init``."""
    checked_words(instruction, SPACES)
    access = object_access(context, instruction, instruction.operands[0])
    count = reader(context, instruction.operands[1], "u32")

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        index = placed(frame, access, lanes, True)
        track(frame, access, lanes, index, WRITE)
        numbers = count(frame)[lanes].astype(np.uint64)
        wrong = (numbers < 1) | (numbers > MOST)
        if wrong.any():
            message = f"mbarrier: an expected count that is not in 1 ... {MOST}"
            report_access(frame, access, lanes, (wrong, "PW441", message))
        first = np.uint64(Phase(0, 0).word)
        frame.arena.views[8][index // 8] = first | numbers | numbers << np.uint64(20)
        frame.arena.states[8][index // 8] = np.uint64(3 * ONES[8])

    return step


def invalidate(context: Context, instruction: Instruction) -> Step:
    """Compiles ``mbarrier.inval``: the memory may then be used for other data."""
    checked_words(instruction, SPACES)
    access = object_access(context, instruction, instruction.operands[0])

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        index = placed(frame, access, lanes, True)
        track(frame, access, lanes, index, WRITE)
        frame.arena.views[8][index // 8] = 0

    return step


def arrive(context: Context, instruction: Instruction) -> Step:
    """Compiles ``mbarrier.arrive`` and ``mbarrier.arrive_drop``: all forms."""
    forms = {"noComplete", "expect_tx"}
    allowed = frozenset({"release", "relaxed", *forms}) | SCOPES | SPACES
    words = checked_words(instruction, allowed)
    assert instruction.opcode is not None
    operands = list(instruction.operands)
    target = None if isinstance(operands[0], (Address, Element)) else operands.pop(0)
    write = None if target is None else writer(context, target)
    access = object_access(context, instruction, operands[0])
    numbers = reader(context, operands[1], "u32") if len(operands) > 1 else None
    if len(words & forms) > 1 or (words & forms and numbers is None):
        raise Unsupported("this form of arrival")
    form = "".join(words & forms)
    operation = ARRIVALS[instruction.opcode.name.endswith("_drop"), form]
    releases = "relaxed" not in words

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        given = np.ones(frame.lanes, dtype=np.uint32) if numbers is None else numbers(frame)
        before, _ = change(frame, access, (lanes, given[lanes], operation, releases))
        if write is not None:
            spread = np.zeros(frame.lanes, dtype=np.uint64)
            spread[lanes] = before
            write(frame, spread)

    return step


def _transaction(operation: Change) -> Callable[[Context, Instruction], Step]:
    def build(context: Context, instruction: Instruction) -> Step:
        checked_words(instruction, frozenset({"relaxed"}) | SCOPES | SPACES)
        access = object_access(context, instruction, instruction.operands[0])
        numbers: Read = reader(context, instruction.operands[1], "u32")

        def step(frame: Frame) -> None:
            lanes = active_lanes(frame)
            change(frame, access, (lanes, numbers(frame)[lanes], operation, False))

        return step

    return build


expect_bytes = _transaction(Phase.expect)
"""The builder of ``mbarrier.expect_tx``."""

complete_bytes = _transaction(Phase.complete)
"""The builder of ``mbarrier.complete_tx``."""


def pending_count(context: Context, instruction: Instruction) -> Step:
    """Compiles ``mbarrier.pending_count``: the pending arrivals in a state."""
    checked_words(instruction, frozenset())
    target = writer(context, instruction.operands[0])
    state = reader(context, instruction.operands[1], "b64")
    return lambda frame: target(frame, (state(frame) & np.uint64(LOW)).astype(np.uint32))


def wait(context: Context, instruction: Instruction) -> Step:
    """Compiles ``mbarrier.test_wait``, ``mbarrier.try_wait``, which test at once for completion.

    The phase is given by its parity or by the state of an arrival at it; hints of time are ignored.
    """
    words = checked_words(
        instruction, frozenset({"parity", "acquire", "relaxed"}) | SCOPES | SPACES
    )
    target = writer(context, instruction.operands[0])
    access = object_access(context, instruction, instruction.operands[1])
    by_parity = "parity" in words
    given = reader(context, instruction.operands[2], "u32" if by_parity else "b64")
    acquires = "relaxed" not in words

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        index = placed(frame, access, lanes, False)
        track(frame, access, lanes, index, STRONG_READ)
        value, words = given(frame)[lanes].astype(np.uint64), frame.arena.views[8][index // 8]
        wrong = words >> np.uint64(VALID) != 1
        if wrong.any():
            report = (wrong, "PW441", "mbarrier: there is no mbarrier object")
            report_access(frame, access, lanes, report)
        parity = (value if by_parity else value >> np.uint64(PARITY)) & np.uint64(1)
        over = words >> np.uint64(PARITY) & np.uint64(1) != parity
        ended = zip(index[over].tolist(), parity[over].tolist(), lanes[over] >> 5, strict=True)
        for place, number, warp in sorted({(p, n, int(w)) for p, n, w in ended}):
            frame.arena.pending.finish((place, number))
            if acquires:
                frame.arena.races.acquire(key_of((place, number)), [warp])
        spread = np.zeros(frame.lanes, dtype=bool)
        spread[lanes] = over
        target(frame, spread)

    return step


def arrive_after_copies(context: Context, instruction: Instruction) -> Step:
    """Compiles ``cp.async.mbarrier.arrive``: an arrival once the copies of the thread are done.

    Without ``.noinc`` the pending count first grows by one, so that the net change is zero.
    """
    words = checked_words(instruction, frozenset({"noinc"}) | SPACES)
    access = object_access(context, instruction, instruction.operands[0])
    operation: Change = Phase.arrive if "noinc" in words else lambda phase, count: None

    def step(frame: Frame) -> None:
        lanes = active_lanes(frame)
        counts = np.ones(len(lanes), dtype=np.uint32)
        _, phases = change(frame, access, (lanes, counts, operation, True))
        for at in sorted(set(phases)):
            chosen = np.array([phase == at for phase in phases])
            frame.arena.pending.hand_over(lanes[chosen], at)

    return step
