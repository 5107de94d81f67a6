"""Checks that machine code waits for its operands as long as in the vendor compiler's output.

The hardware does not delay an instruction until its operands are ready: the compiler does, by
cycles after an instruction, and by scoreboards if their number is unknown. A read that is nearer to
its producer than any in the output of the vendor's compiler, or that waits for no scoreboard, is
reported (PW126): the file was changed by hand, or a row of this tool is wrong.

Distances are the least over all paths; an instruction takes a cycle at least. A thread that has
written under a guard does not read under its opposite while the predicate is the same: such reads
are not reported, except of uniform registers, which a warp's threads share. Entries that the table
of latencies lacks are not checked; neither are writes after reads or after writes, nor the
registers that a function shares with its caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import NamedTuple

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph, build_cfg
from ptxwcet.ir.kernel import Encoded, Instruction, Kernel
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ir.operands import Immediate, Operand, Register, leaves
from ptxwcet.sass.latencies import least_cycles
from ptxwcet.sass.opcodes import ROWS, Pipe, Row
from ptxwcet.support.diagnostics import Diagnostic, Severity
from ptxwcet.support.records import dataclass

_FAR = 40  # cycles: more than any entry of the table
_SCOREBOARDS = 6
_STALL_0 = 4  # least cycles after MEMBAR and ERRBAR: with fewer, all its code would be wrong
_MOST_TOLD = 8


class Read(NamedTuple):
    """A read of a result of ``producer``: the cycles after it, None if the read does not wait.

    ``reader`` is the number of the instruction, ``role`` its use of the register.
    """

    reader: int
    register: str
    producer: str
    role: str
    cycles: int | None


def hazards_of(kernel: Kernel, architecture: int) -> tuple[Diagnostic, ...]:
    """Returns warnings (PW126) about the first reads that are too early. Cost: about linear."""
    told = []
    for read in reads_of(kernel, architecture):
        if read.cycles is not None:
            wanted = least_cycles(architecture, read.register, read.producer, read.role)
            if wanted is None or read.cycles >= wanted:
                continue
        told.append(_told(kernel, read))
        if len(told) == _MOST_TOLD:
            break
    return tuple(told)


def _told(kernel: Kernel, read: Read) -> Diagnostic:
    assert kernel.code is not None
    instruction = kernel.instructions[read.reader]
    address = kernel.code.encoded[read.reader].address
    reason = "and waits for no scoreboard of what writes it"
    if read.cycles is not None:
        reason = f"{read.cycles} cycles after the {read.producer} instruction that writes it"
    return Diagnostic(
        "PW126",
        f"{instruction.mnemonic} at {address:#06x} reads {read.register} too early, {reason}",
        instruction.span,
        help="the vendor's compiler leaves no such code: was the file changed?",
        severity=Severity.WARNING,
    )


def reads_of(kernel: Kernel, architecture: int) -> Iterator[Read]:
    """Yields the reads of recently written registers, and those that wait for nothing."""
    assert kernel.code is not None
    cfg = build_cfg(kernel, with_aborts=True)
    facts = [
        _facts(i, encoded, architecture)
        for i, encoded in zip(kernel.instructions, kernel.code.encoded, strict=True)
    ]
    entry = _entries(cfg, facts)
    for block in cfg.reverse_postorder:
        if block != cfg.exit:
            yield from _block(cfg, block, facts, entry[block].copy())


class _Facts(NamedTuple):
    """The properties of an instruction: its reads with roles, its writes, and their timing."""

    reads: tuple[tuple[str, str], ...]
    writes: tuple[tuple[str, str], ...]
    is_fixed: bool
    guard: str  # as ``!P0``; empty: it always writes
    unit: str  # instructions of one unit return in order
    encoded: Encoded
    # DEPBAR.LE: a scoreboard, and how many instructions may still hold it
    most_left: tuple[int, int] | None
    forgets: bool


@dataclass(frozen=True, slots=True)
class _State:
    """The pending writes: when each register is written, which scoreboards report it.

    ``fixed`` has the cycles since the producers of a register were issued, ``held`` for each
    scoreboard its registers and the number of its later uses, ``owed`` for each unit the registers
    whose scoreboard a later instruction of the unit takes. ``under`` has the guard of all pending
    writers of a register, empty if there is none or there are several.
    """

    fixed: dict[str, dict[str, int]] = field(default_factory=dict)
    held: tuple[dict[str, int], ...] = field(
        default_factory=lambda: tuple({} for _ in range(_SCOREBOARDS))
    )
    owed: dict[str, set[str]] = field(default_factory=dict)
    under: dict[str, str] = field(default_factory=dict)

    def copy(self) -> _State:
        """Returns a state that changes independently."""
        return _State(
            {register: dict(since) for register, since in self.fixed.items()},
            tuple(map(dict, self.held)),
            {unit: set(registers) for unit, registers in self.owed.items()},
            self.under.copy(),
        )

    def join(self, other: _State) -> bool:
        """Joins another state into this one; returns whether this one changes."""
        changed = False
        pairs = [(self.fixed.setdefault(name, {}), since) for name, since in other.fixed.items()]
        for mine, theirs in (*pairs, *zip(self.held, other.held, strict=True)):
            for key, value in theirs.items():
                if value < mine.get(key, _FAR):
                    mine[key], changed = value, True
        for unit, registers in other.owed.items():
            mine_of_unit = self.owed.setdefault(unit, set())
            changed = changed or not registers <= mine_of_unit
            mine_of_unit |= registers
        for register, guard in other.under.items():
            if self.under.setdefault(register, guard) not in ("", guard):
                self.under[register], changed = "", True
        return changed

    def is_pending(self, register: str) -> bool:
        """Returns whether a register may not be ready yet."""
        return register in self.fixed or self.is_unheard(register)

    def is_unheard(self, register: str) -> bool:
        """Returns whether a register waits for a scoreboard that has not been released yet."""
        is_held = any(register in held for held in self.held)
        return is_held or any(register in owed for owed in self.owed.values())

    def forget(self, register: str) -> None:
        """Records that another instruction writes a register."""
        self.fixed.pop(register, None)
        for registers in self.held:
            registers.pop(register, None)
        for owed in self.owed.values():
            owed.discard(register)


def _entries(cfg: ControlFlowGraph, facts: list[_Facts]) -> dict[BlockId, _State]:
    """Returns the pending writes at the start of each block, on any path."""
    entry = {block: _State() for block in cfg.reverse_postorder}
    pending = dict.fromkeys(cfg.reverse_postorder)
    while pending:
        block = next(iter(pending))
        del pending[block]
        state = entry[block].copy()
        for _ in _block(cfg, block, facts, state):
            pass
        for successor in cfg.successors[block]:
            if entry[successor].join(state):
                pending[successor] = None
    return entry


def _block(
    cfg: ControlFlowGraph, block: BlockId, facts: list[_Facts], state: _State
) -> Iterator[Read]:
    """Yields the reads of a block; the state becomes that at its end."""
    clock = 0
    for since in state.fixed.values():
        for producer, cycles in since.items():
            since[producer] = -cycles  # when it was issued, by the clock of the block
    for index in range(cfg.blocks[block].start, cfg.blocks[block].end):
        own = facts[index]
        for board in own.encoded.waits:
            state.held[board].clear()
        if own.most_left is not None:
            board, left = own.most_left
            late = [name for name, later in state.held[board].items() if later >= left]
            for name in late:
                del state.held[board][name]
        yield from _reads(index, own, state, clock)
        _write(own, state, clock)
        clock += own.encoded.stall or _STALL_0
    for register, since in list(state.fixed.items()):
        recent = {name: clock - at for name, at in since.items() if clock - at < _FAR}
        if recent:
            state.fixed[register] = recent
        else:
            del state.fixed[register]
    for register in [name for name in state.under if not state.is_pending(name)]:
        del state.under[register]


def _reads(index: int, own: _Facts, state: _State, clock: int) -> Iterator[Read]:
    opposite = own.guard.removeprefix("!") if own.guard[:1] == "!" else f"!{own.guard}"
    for register, reader in own.reads:
        if register[0] != "U" and state.under.get(register) == opposite:
            continue  # no thread executes both
        for producer, at in state.fixed.get(register, {}).items():
            yield Read(index, register, producer, reader, clock - at)
        if state.is_unheard(register):
            yield Read(index, register, "variable", reader, None)


def _write(own: _Facts, state: _State, clock: int) -> None:
    if own.forgets:
        state.fixed.clear()
        state.owed.clear()
        state.under.clear()
        for held in state.held:
            held.clear()
    for register, _ in own.writes:
        if not own.guard:
            state.forget(register)
        is_first = not state.is_pending(register)
        is_alike = is_first or state.under.get(register) == own.guard
        state.under[register] = own.guard if is_alike else ""
    board = own.encoded.on_write
    if board is not None:
        held = state.held[board]
        for register in held:
            held[register] = min(held[register] + 1, _FAR - 1)
        for register in state.owed.pop(own.unit, ()):
            held[register] = 0
    for register, producer in own.writes:
        if own.is_fixed:
            state.fixed.setdefault(register, {})[producer] = clock
        elif own.unit in _ATOMICS and register[0] == "P" and own.encoded.on_read is not None:
            state.held[own.encoded.on_read][register] = 0  # known when the operands are read
        elif board is None:
            state.owed.setdefault(own.unit, set()).add(register)
        else:
            state.held[board][register] = 0
    for predicate in (register for register, _ in own.writes if register[0] == "P"):
        for register, guard in state.under.items():
            if guard.removeprefix("!") == predicate:
                state.under[register] = ""  # of the predicate's earlier value


# --- reads and writes of an instruction -----------------------------------------------------------


def _facts(instruction: Instruction, encoded: Encoded, architecture: int) -> _Facts:
    assert instruction.opcode is not None
    name, words = instruction.opcode.name, instruction.mnemonic.split(".")[1:]
    own, guard = ROWS[name], instruction.guard
    first = _FIXED_FROM.get(own.pipe, 0)
    return _Facts(
        () if instruction.callee is not None else tuple(_read(instruction, own, words)),
        tuple(_written(instruction, own, words)),
        architecture >= first and encoded.on_write is None,
        "" if guard is None else f"{'!' * guard.negated}{guard.register}",
        _UNITS.get(name, name),
        encoded,
        _left(instruction),
        instruction.control is ControlEffect.CALL,
    )


# the first architecture on which a pipe has a fixed number of cycles
_FIXED_FROM = {
    **dict.fromkeys((Pipe.ADDRESS, Pipe.VARIABLE), 1_000),
    **dict.fromkeys((Pipe.FP64, Pipe.TO_UNIFORM), 90),
    Pipe.MATRIX: 80,
}
_ATOMICS = ("ATOM", "ATOMG")
# units that return in order: each opcode on its own, except those that share a unit
_UNITS = {
    **dict.fromkeys(("LDS", "LDSM", "ATOMS", "STS", "STSM", "SHFL"), "memory of the block"),
    **dict.fromkeys(("MUFU", "POPC", "FLO", "BREV", "F2F", "F2I", "I2F", "FRND"), "functions"),
    **dict.fromkeys(("DADD", "DMUL", "DFMA", "DSETP"), "doubles"),
}


_LARGE = (("HMMA", "16816"), ("IMMA", "16832"))


def _left(instruction: Instruction) -> tuple[int, int] | None:
    """Returns the scoreboard of ``DEPBAR.LE SB0, 0x1``, and how many may still hold it."""
    match instruction.operands if instruction.mnemonic == "DEPBAR.LE" else ():
        case (Register(board), Immediate(count)):
            return int(board.removeprefix("SB")), int(count)
    return None


def _read(instruction: Instruction, entry: Row, words: list[str]) -> Iterator[tuple[str, str]]:
    guard = instruction.guard
    if guard is not None:
        yield guard.register, "guard"
    is_wide = entry.opcode.name == "IMAD" and ("WIDE" in words or "HI" in words)
    wide = dict(_wide(instruction)) if is_wide else {}
    late = entry.pipe in (Pipe.ADDRESS, Pipe.VARIABLE, Pipe.CONTROL)
    for register in instruction.reads:
        if register[0] == "B" or (guard is not None and register == guard.register):
            continue  # There is no row for registers of convergence barriers.
        if register[0] == "P" and (late or entry.opcode.name in ("VOTE", "VOTEU")):
            yield register, "guard"
        else:
            yield register, wide.get(register, entry.pipe.value)


def _wide(instruction: Instruction) -> Iterator[tuple[str, str]]:
    """Yields IMAD.WIDE's and IMAD.HI's factors, read earlier than the addend's high half."""
    sources = [operand for operand in instruction.operands[1:] if not _is_predicate(operand)]
    for register in _registers(sources[2:3])[1:]:
        yield register, "high"
    for register in _registers(sources[:2]):
        yield register, "factor"


def _written(instruction: Instruction, entry: Row, words: list[str]) -> Iterator[tuple[str, str]]:
    producer = entry.pipe.value
    if entry.pipe is Pipe.HALF and "MMA" in words:
        producer = "half_mma"
    elif entry.pipe is Pipe.MATRIX and (entry.opcode.name, words[0]) not in _LARGE:
        producer = "small_matrix"
    written = [register for register in instruction.writes if register[0] != "B"]
    if entry.pipe is Pipe.FMA and "WIDE" in words:
        pair = _registers(instruction.operands[:1])
        for register in written:
            half = "wide_low" if register == pair[0] else "wide_high"
            yield register, half if register in pair else producer
        return
    for register in written:
        yield register, producer


def _is_predicate(operand: Operand) -> bool:
    names = _registers([operand])
    return bool(names) and names[0].lstrip("U")[0] == "P"


def _registers(operands: Iterable[Operand]) -> list[str]:
    return [leaf.name for o in operands for leaf in leaves(o) if isinstance(leaf, Register)]
