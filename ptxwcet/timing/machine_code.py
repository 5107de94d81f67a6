"""Computes the cost of an instruction of machine code, which waits as its control word states.

It does not wait for its registers, but for the stall of the instruction before, and for the
scoreboards in its mask. Both are pseudo registers of the warp program, so that all later stages are
as with PTX: docs/methods/machine-code.md has the model, and why the bounds hold in it.

Codes: PW405 an instruction whose word gives no stall.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.ir.kernel import Encoded, Instruction, Kernel
from ptxwcet.ir.op_classes import ControlEffect, OpClass
from ptxwcet.ir.operands import Immediate, Operand, Pair, Register, leaves
from ptxwcet.machine.model import Machine, OpTiming
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import Scoreboard, TimedInstruction

NEXT = "warp.next"
"""The pseudo register whose ready time is the next issue of the warp."""

_COPYING = ("LDGSTS", "cp.async")
_COPIES = "copies"
"""The pseudo register of all copies to shared memory (LDGSTS): a wait for some waits for all."""

_SCOREBOARDS = 6
_ACCESSING = frozenset(
    {
        *(one for one in OpClass if one.value.startswith(("load_", "store_", "atomic_"))),
        *(OpClass.PREFETCH, OpClass.MATRIX_MOVE, OpClass.ASYNC_COPY),
    }
)
_QUEUED = _ACCESSING | {OpClass.SHUFFLE, OpClass.FP16_SFU, OpClass.FP32_SFU, OpClass.BARRIER}
"""The classes that pass through a queue though their word may set no scoreboard."""
_BOARD = re.compile(r"(?:.*:)?SB(\d)")  # inlining puts the function before it
_ALWAYS_TRUE = ("PT", "!PT")
_HALVES = "mma.sync.aligned.m16n8k16.row.col"
_LDMATRIX = "ldmatrix.sync.aligned.m8n8"
_REDUCED = ("", ".AND", ".OR", ".XOR", ".SUM", ".MIN", ".MAX")
_REDUX = [f"REDUX{word}{signed}" for word in _REDUCED for signed in ("", ".S32")]
PTX_FORMS = {
    "MUFU.EX2": "ex2.approx.ftz.f32",
    "MUFU.LG2": "lg2.approx.ftz.f32",
    "MUFU.RCP": "rcp.approx.ftz.f32",
    "MUFU.RSQ": "rsqrt.approx.ftz.f32",
    "MUFU.SQRT": "sqrt.approx.ftz.f32",
    "MUFU.TANH": "tanh.approx.f32",
    "HMMA.16816.F32": f"{_HALVES}.f32.f16.f16.f32",
    "HMMA.16816.F32.BF16": f"{_HALVES}.f32.bf16.bf16.f32",
    "HMMA.16816.F16": f"{_HALVES}.f16.f16.f16.f16",
    "IMAD.HI": "mad.hi.s32",
    "IMAD.HI.U32": "mad.hi.u32",
    "IMAD.HI.X": "mad.hi.s32",
    "IMAD.HI.U32.X": "mad.hi.u32",
    "MATCH.ANY": "match.any.sync.b32",
    "MATCH.ANY.U64": "match.any.sync.b64",
    "MATCH.ALL": "match.all.sync.b32",
    "MATCH.ALL.U64": "match.all.sync.b64",
    **dict.fromkeys(_REDUX, "redux.sync.add.s32"),
    **dict.fromkeys(("DMMA.884", "DMMA.8x8x4"), "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"),
    **{
        f"LDSM.16.{shape}{'' if n == 1 else f'.{n}'}": f"{_LDMATRIX}.x{n}{turned}.shared.b16"
        for n in (1, 2, 4)
        for shape, turned in (("M88", ""), ("MT88", ".trans"))
    },
}
"""The PTX instruction of an instruction of machine code: machine files use the names of PTX."""


@dataclass(frozen=True, eq=False)
class CodeTimes:
    """The control words of a kernel of machine code, calls replaced."""

    kernel: Kernel

    @cached_property
    def encoded(self) -> tuple[Encoded, ...]:
        """The control word of each instruction."""
        code = self.kernel.code
        assert code is not None
        assert len(code.encoded) == len(self.kernel.instructions)
        return code.encoded

    @property
    def added(self) -> frozenset[int]:
        """The instructions that are not in the code: they are not issued."""
        assert self.kernel.code is not None
        return self.kernel.code.added

    @cached_property
    def copying(self) -> frozenset[int]:
        """The scoreboards that are held until copies have ended (by LDGDEPBAR)."""
        pairs = zip(self.kernel.instructions, self.encoded, strict=True)
        return frozenset(
            board for i, encoded in pairs if _name(i) == "LDGDEPBAR" for board in _held(encoded)
        )

    def timed(
        self,
        instruction: Instruction,
        index: int,
        timing: OpTiming,
        *,
        held_cycles: int = 0,
    ) -> TimedInstruction:
        """Returns an instruction at the timing of its op class.

        ``held_cycles`` is the wait of the warp after it, in addition to its stall.
        """
        encoded, initiation = self.encoded[index], timing.initiation_cycles
        boards = {*encoded.waits, *_left(instruction)}
        waits = (*map(_pseudo, sorted(boards)), *((_COPIES,) if boards & self.copying else ()))
        held = tuple(map(_pseudo, _held(encoded)))
        if instruction.op_class is OpClass.FENCE:  # The warp waits until the fence has ended.
            latency = max(timing.latency_cycles, encoded.stall - initiation)
            writes, bubble = (NEXT, *held), 0
        elif held or (instruction.op_class in _QUEUED and _name(instruction) != "ULDC"):
            latency, bubble = timing.latency_cycles, encoded.stall - 1 + held_cycles
            writes = (*held, *((_COPIES,) if _name(instruction) in _COPYING else ()))
        else:
            latency = max(0, encoded.stall - initiation) + held_cycles
            writes, bubble = (NEXT,), 0
        return TimedInstruction(
            timing.unit,
            initiation,
            latency,
            reads=(NEXT, *waits),
            writes=writes,
            conditional=writes != (NEXT,),
            bubble_cycles=bubble,
            origin=index,
        )

    def refusal(self, instruction: Instruction, index: int) -> Diagnostic | None:
        """Returns the refusal (PW405) of an instruction whose wait afterwards is unknown, or None.

        ptxas gives ERRBAR no stall, which waits until the fence before it has ended.
        """
        encoded = self.encoded[index]
        if encoded.stall or instruction.op_class is OpClass.FENCE:
            return None
        return Diagnostic(
            "PW405",
            f"{instruction.mnemonic} at {encoded.address:#06x} gives no stall: how long its warp "
            "waits after it is not known",
            instruction.span,
            help="compile it with -O3, or bound the kernel from its PTX",
        )


def _name(instruction: Instruction) -> str:
    return "" if instruction.opcode is None else instruction.opcode.name


def _pseudo(board: int) -> str:
    return f"sb.{board}"


def _held(encoded: Encoded) -> tuple[int, ...]:
    """Returns the scoreboards that an instruction holds, until its writes at the latest."""
    boards = (encoded.on_write, encoded.on_read)
    return tuple(sorted({board for board in boards if board is not None}))


def _left(instruction: Instruction) -> Iterable[int]:
    """Returns the scoreboards that DEPBAR waits for, until no instruction holds them."""
    if instruction.op_class is not OpClass.ASYNC_WAIT:
        return ()
    match instruction.operands:
        case (Register(name), Immediate()) if found := _BOARD.fullmatch(name):
            return (int(found[1]),)
        case _:
            return range(_SCOREBOARDS)


def barrier_operands(instruction: Instruction) -> tuple[Operand, ...]:
    """Returns the number of a barrier and its thread count, without operands to reduce."""
    reduced = isinstance(instruction.operands[0], Pair)
    return tuple(leaf for leaf in instruction.operands[reduced:] if not _is_predicate(leaf))


def _is_predicate(operand: Operand) -> bool:
    if isinstance(operand, Immediate):
        return operand.text in _ALWAYS_TRUE
    return any(
        isinstance(leaf, Register) and leaf.name.rpartition(":")[2].startswith(("P", "UP"))
        for leaf in leaves(operand)
    )


def scoreboard_of(kernel: Kernel, scoreboard: Scoreboard) -> Scoreboard:
    """Returns the machine's scoreboard; for machine code, which waits only for reads, RAW."""
    return scoreboard if kernel.code is None else Scoreboard.RAW


def accesses_memory(instruction: Instruction) -> bool:
    """Returns whether an instruction of machine code accesses memory in any form."""
    return instruction.op_class in _ACCESSING and _name(instruction) not in ("LDGDEPBAR", "ULDC")


def is_taken(instruction: Instruction) -> bool:
    """Returns whether an instruction jumps whenever it is executed."""
    return instruction.control is ControlEffect.INDIRECT_BRANCH


def writes_uniform(instruction: Instruction) -> bool:
    """Returns whether an instruction writes a register that all lanes of a warp share."""
    return any(name.startswith(("UR", "UP")) for name in instruction.writes)


UNIFORM_KEPT = Assumption(
    "uniform-registers-kept",
    "where lanes of a warp are apart, none finds in a register of the uniform datapath what others "
    "have written there meanwhile",
    AssumptionState.ASSUMED,
    "the compiler that wrote them",
)
"""The assumption of a kernel that writes such registers where lanes may be apart."""


def code_assumptions(machine: Machine) -> tuple[Assumption, ...]:
    """Returns the assumptions of bounds of machine code, in place of ``ptx-is-executed``."""
    doubt = AssumptionState.BY_DEFINITION if machine.is_idealised else AssumptionState.DOUBTFUL
    return (
        Assumption(
            "machine-code-is-executed",
            "the driver loads the code of this file as it is: nothing is compiled anew or patched",
            AssumptionState.ASSUMED,
            "the cubin",
        ),
        Assumption(
            "waits-as-encoded",
            "a warp waits for nothing but what its words say, their stalls and scoreboards: "
            "neither for ports of the register file, nor for results that return in order, nor for "
            "a scoreboard that counts no further",
            doubt,
            "silicon: its pipelines are not documented",
        ),
        Assumption(
            "groups-in-turn",
            "lanes of a warp that are apart are joined where BSYNC or WARPSYNC waits for them; of "
            "their groups each, in any order, goes on until it waits there or ends",
            doubt,
            "silicon: which group of a warp issues next is not documented",
        ),
    )
