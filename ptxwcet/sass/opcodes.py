"""The table of supported opcodes of machine code: a row each, without guesses for any other.

A row states the op class, the modifiers, the written operands, and the timing in hardware: in a
pipe with a fixed number of cycles, or until a scoreboard is released. Rows were derived from the
output of ptxas 13.0 on the corpus for sm_75 to sm_90.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ptxwcet.ir.op_classes import ControlEffect, Convergence, Kind, OpClass
from ptxwcet.ir.opcodes import Opcode
from ptxwcet.sass.meanings import meaning_of_opcode


class Pipe(Enum):
    """The pipe, which determines when results are ready, and when operands are required."""

    ALU = "alu"
    FMA = "fma"  # the heavy pipe: FFMA, IMAD
    PAIR = "pair"  # results of 64 bits through the ALU: CS2R
    HALF = "half"
    FP64 = "fp64"  # with a scoreboard on most architectures
    MATRIX = "matrix"
    UNIFORM = "uniform"
    UNIFORM_MOVE = "uniform_move"  # quick: ULDC, UMOV, VOTEU
    TO_UNIFORM = "to_uniform"  # with a scoreboard before sm_90
    ADDRESS = "address"  # with a scoreboard: memory, shuffles, barriers
    VARIABLE = "variable"  # with a scoreboard: conversions, special functions, constants
    CONTROL = "control"


class Writes(Enum):
    """The leading operands that are written."""

    NONE = "none"
    ONE = "one"
    TWO = "two"
    WITH_PREDICATES = "with_predicates"  # one register, with the predicates around it
    BEFORE_MEMORY = "before_memory"
    BUT_LAST = "but_last"
    ALL = "all"


class Row(NamedTuple):
    """The row of an opcode: see the module."""

    opcode: Opcode
    pipe: Pipe
    writes: Writes
    modifiers: frozenset[str]
    kind: Kind | None


_MOVED = frozenset({OpClass.MOVE, OpClass.BITFIELD, OpClass.COMPARE})
_ALU = _MOVED | {OpClass.INT_ADD, OpClass.INT_MINMAX, OpClass.LOGIC, OpClass.SHIFT, OpClass.SIGN}
_NARROWING = frozenset({"I2I", "I2IP"})  # as slow as conversions on 7.x, though of a fixed latency


def _kind(name: str, op_class: OpClass, pipe: Pipe) -> Kind | None:
    """Returns the kind of execution of an opcode whose op class has several kinds."""
    has_scoreboard = pipe in (Pipe.VARIABLE, Pipe.ADDRESS)
    if name in _NARROWING or (op_class in _MOVED and has_scoreboard):
        return Kind.SPECIAL
    if op_class in _MOVED and pipe is Pipe.FP64:
        return Kind.DOUBLE
    return Kind.ORDINARY if op_class in _ALU and pipe is Pipe.ALU else None


class Rows(dict[str, Row]):
    """The table by name."""

    def add(
        self,
        names: str,
        op_class: OpClass,
        pipe: Pipe,
        writes: Writes = Writes.WITH_PREDICATES,
        modifiers: str = "",
        control: ControlEffect = ControlEffect.NONE,
    ) -> None:
        """Adds a row for each of these names."""
        for name in names.split():
            meaning = meaning_of_opcode(name)
            effect = _CONVERGENCE.get(name, Convergence.NONE)
            opcode = Opcode(
                name, op_class, control, operands=(0, 16), meaning=meaning, convergence=effect
            )
            kind = _kind(name, op_class, pipe)
            self[name] = Row(opcode, pipe, writes, frozenset(modifiers.split()), kind)


_CONVERGENCE = {
    "BSSY": Convergence.SETS,
    "BSYNC": Convergence.WAITS,
    "BREAK": Convergence.LEAVES,
    "BMOV": Convergence.COPIES,
    "WARPSYNC": Convergence.GATHERS,
}
_COMPARISONS = "EQ NE LT LE GT GE AND OR XOR"
_UNORDERED = "EQU NEU LTU LEU GTU GEU NUM NAN MIN MAX"
_SCOPES = "CTA SM GPU SYS VC STRONG WEAK CONSTANT"
_CACHES = "EL EF EN LU LTC64B LTC128B LTC256B NA PRIVATE MMIO"
_WIDTHS = "U8 S8 U16 S16 32 64 128"
_ATOMICS = (
    "ADD MIN MAX INC DEC AND OR XOR EXCH CAS CAST SPIN S32 U32 S64 U64 F32 F64 F16x2 BF16x2 FTZ "
    f"RN E 32 64 POPC {_SCOPES}"
)
_ROUNDINGS = "RN RM RP RZ FTZ SAT"
_INTEGERS = "U8 S8 U16 S16 U32 S32 U64 S64"
_FLOATS = "F16 F32 F64 BF16"


def _rows() -> Rows:
    rows = Rows()
    _add_integers(rows)
    _add_floats(rows)
    _add_uniform(rows)
    _add_memory(rows)
    _add_control(rows)
    return rows


def _add_integers(rows: Rows) -> None:
    alu, fma, variable = Pipe.ALU, Pipe.FMA, Pipe.VARIABLE
    single, two = Writes.ONE, Writes.TWO
    rows.add("IADD3", OpClass.INT_ADD, alu, modifiers="X")
    rows.add("VIADD", OpClass.INT_ADD, fma)
    rows.add("IABS", OpClass.SIGN, alu)
    rows.add("IMNMX VIMNMX VIMNMX3", OpClass.INT_MINMAX, alu, single, "U32 RELU S16x2 U16x2")
    rows.add("VIADDMNMX", OpClass.INT_MINMAX, alu, single, "U32 RELU")
    rows.add("IMAD", OpClass.INT_MAD, fma, modifiers="MOV IADD SHL WIDE HI X U32")
    rows.add("IDP", OpClass.INT_DOT, fma, single, "4A 2A LO HI S8 U8 S16 U16")
    rows.add("LEA", OpClass.INT_ADD, alu, modifiers="HI X SX32")
    rows.add("LOP3", OpClass.LOGIC, alu, modifiers="LUT PAND")
    rows.add("SHF", OpClass.SHIFT, alu, modifiers="L R W HI U32 S32 U64 S64")
    rows.add("BMSK", OpClass.BITFIELD, alu, modifiers="W C")
    rows.add("SGXT", OpClass.BITFIELD, alu, modifiers="U32 W")
    rows.add("PRMT", OpClass.BITFIELD, alu, modifiers="F4E B4E RC8 ECL ECR RC16")
    rows.add("POPC BREV", OpClass.BITFIELD, variable)
    rows.add("FLO", OpClass.BITFIELD, variable, modifiers="U32 SH")
    rows.add("VABSDIFF", OpClass.SIGN, alu, single, "U32")
    rows.add("VABSDIFF4", OpClass.VIDEO, alu, single, "U8 S8 ACC")
    rows.add("ISETP", OpClass.COMPARE, alu, two, f"{_COMPARISONS} U32 EX")
    rows.add("PLOP3", OpClass.LOGIC, alu, two, "LUT")
    rows.add("SEL", OpClass.MOVE, alu, single)
    rows.add("MOV", OpClass.MOVE, alu, single)
    rows.add("P2R R2P", OpClass.MOVE, alu, single)
    rows.add("CS2R", OpClass.MOVE, Pipe.PAIR, single, "32")
    rows.add("LEPC", OpClass.MOVE, Pipe.PAIR, single)
    rows.add("S2R", OpClass.MOVE, variable, single)
    rows.add("B2R", OpClass.MOVE, Pipe.ADDRESS, Writes.ALL, "RESULT")
    rows.add("VOTE", OpClass.VOTE, alu, Writes.BUT_LAST, "ANY ALL EQ")
    rows.add("MATCH", OpClass.VOTE, variable, Writes.BUT_LAST, "ANY ALL U64")
    rows.add("I2I", OpClass.MOVE, alu, single, f"{_INTEGERS} SAT")
    rows.add("I2IP", OpClass.MOVE, alu, single, f"{_INTEGERS} SAT")


def _add_floats(rows: Rows) -> None:
    alu, fma, half, variable = Pipe.ALU, Pipe.FMA, Pipe.HALF, Pipe.VARIABLE
    single, two = Writes.ONE, Writes.TWO
    compared = f"{_COMPARISONS} {_UNORDERED} FTZ"
    rows.add("FADD", OpClass.FP32_ADD, fma, single, _ROUNDINGS)
    rows.add("FMUL", OpClass.FP32_MUL, fma, single, _ROUNDINGS)
    rows.add("FFMA", OpClass.FP32_FMA, fma, single, _ROUNDINGS)
    rows.add("FMNMX", OpClass.FP32_MINMAX, alu, single, "FTZ NAN")
    rows.add("FSEL", OpClass.MOVE, alu, single, "FTZ")
    rows.add("FSETP", OpClass.COMPARE, alu, two, compared)
    rows.add("FSET", OpClass.COMPARE, alu, single, f"BF {compared}")
    rows.add("FCHK", OpClass.COMPARE, variable, single)
    functions = "RCP RSQ SQRT EX2 LG2 SIN COS TANH RCP64H RSQ64H"
    rows.add("MUFU", OpClass.FP32_SFU, variable, single, functions)
    packing = "PACK_AB PACK_AB_MERGE_C UNPACK_B E4M3 E5M2 SATFINITE RELU"
    rows.add("F2FP", OpClass.MOVE, alu, single, f"{_FLOATS} {_ROUNDINGS} {packing}")
    rows.add("I2FP", OpClass.MOVE, alu, single, f"F32 S32 U32 {_ROUNDINGS}")
    converted = f"{_FLOATS} {_ROUNDINGS} {_INTEGERS} TRUNC FLOOR CEIL NTZ RND"
    rows.add("F2F F2I I2F FRND", OpClass.MOVE, variable, single, converted)
    packed = f"F32 MMA BF16_V2 {_ROUNDINGS}"
    rows.add("HADD2 HMUL2 HFMA2", OpClass.FP16_ARITH, half, single, f"{packed} RELU")
    rows.add("HMNMX2", OpClass.FP16_ARITH, half, single, "BF16_V2 NAN FTZ")
    rows.add("HSETP2", OpClass.COMPARE, half, two, f"{compared} BF16_V2 H0_AND H1_AND")
    rows.add("HSET2", OpClass.COMPARE, half, single, f"BF BF16_V2 {compared}")
    rows.add("DADD", OpClass.FP64_ADD, Pipe.FP64, single, _ROUNDINGS)
    rows.add("DMUL", OpClass.FP64_MUL, Pipe.FP64, single, _ROUNDINGS)
    rows.add("DFMA", OpClass.FP64_FMA, Pipe.FP64, single, _ROUNDINGS)
    rows.add("DSETP", OpClass.COMPARE, Pipe.FP64, two, compared)
    shapes = "16816 16832 1688 1684 8816 168256 884 8x8x4 F32 F16 BF16 TF32 S8 U8 SAT AND XOR POPC"
    rows.add("HMMA IMMA BMMA DMMA", OpClass.MMA, Pipe.MATRIX, single, shapes)
    rows.add("MOVM", OpClass.MATRIX_MOVE, Pipe.ADDRESS, single, "16 MT88")


def _add_uniform(rows: Rows) -> None:
    uniform, quick, single = Pipe.UNIFORM, Pipe.UNIFORM_MOVE, Writes.ONE
    rows.add("UIADD3", OpClass.INT_ADD, uniform, modifiers="X 64")
    rows.add("UIMAD", OpClass.INT_MAD, uniform, modifiers="WIDE HI U32 X")
    rows.add("ULEA", OpClass.INT_ADD, uniform, modifiers="HI X SX32")
    rows.add("ULOP3", OpClass.LOGIC, uniform, modifiers="LUT")
    rows.add("USHF", OpClass.SHIFT, uniform, modifiers="L R W HI U32 S32 U64 S64")
    rows.add("UPRMT UBREV UPOPC", OpClass.BITFIELD, uniform)
    rows.add("UFLO", OpClass.BITFIELD, uniform, modifiers="U32 SH")
    rows.add("UBMSK", OpClass.BITFIELD, uniform, modifiers="W C")
    rows.add("USGXT", OpClass.BITFIELD, uniform, modifiers="U32 W")
    rows.add("USEL", OpClass.MOVE, uniform, single)
    rows.add("UISETP", OpClass.COMPARE, uniform, Writes.TWO, f"{_COMPARISONS} U32 EX")
    rows.add("UPLOP3", OpClass.LOGIC, uniform, Writes.TWO, "LUT")
    rows.add("UMOV", OpClass.MOVE, quick, single)
    rows.add("ULDC", OpClass.LOAD_CONST, quick, single, _WIDTHS)
    rows.add("VOTEU", OpClass.VOTE, quick, Writes.BUT_LAST, "ANY ALL EQ")
    rows.add("R2UR", OpClass.MOVE, Pipe.TO_UNIFORM, Writes.BUT_LAST)
    rows.add("S2UR", OpClass.MOVE, Pipe.VARIABLE, single)
    rows.add("REDUX", OpClass.VOTE, Pipe.VARIABLE, single, "SUM MIN MAX AND OR XOR S32")
    rows.add("ELECT", OpClass.VOTE, quick, Writes.BUT_LAST)


def _add_memory(rows: Rows) -> None:
    address, none, first = Pipe.ADDRESS, Writes.NONE, Writes.BEFORE_MEMORY
    accessed = f"E U {_WIDTHS} {_SCOPES} {_CACHES}"
    rows.add("LDG", OpClass.LOAD_GLOBAL, address, first, accessed)
    rows.add("LD", OpClass.LOAD_GENERIC, address, first, accessed)
    rows.add("LDS", OpClass.LOAD_SHARED, address, first, f"U {_WIDTHS}")
    rows.add("LDL", OpClass.LOAD_LOCAL, address, first, f"{_WIDTHS} LU")
    rows.add("LDC", OpClass.LOAD_CONST, Pipe.VARIABLE, Writes.ONE, f"{_WIDTHS} IL IS ISL")
    rows.add("LDSM", OpClass.MATRIX_MOVE, address, first, "16 M88 MT88 2 4")
    rows.add("STG", OpClass.STORE_GLOBAL, address, none, accessed)
    rows.add("ST", OpClass.STORE_GENERIC, address, none, accessed)
    rows.add("STS", OpClass.STORE_SHARED, address, none, _WIDTHS)
    rows.add("STL", OpClass.STORE_LOCAL, address, none, f"{_WIDTHS} LU")
    rows.add("STSM", OpClass.MATRIX_MOVE, address, none, "16 M88 MT88 2 4")
    rows.add("ATOMS", OpClass.ATOMIC_SHARED, address, first, _ATOMICS)
    rows.add("ATOMG", OpClass.ATOMIC_GLOBAL, address, first, _ATOMICS)
    rows.add("ATOM", OpClass.ATOMIC_GENERIC, address, first, _ATOMICS)
    rows.add("RED REDG", OpClass.ATOMIC_GLOBAL, address, none, _ATOMICS)
    rows.add("QSPC", OpClass.MOVE, address, first, "E S G L D")
    rows.add("SHFL", OpClass.SHUFFLE, address, Writes.TWO, "IDX UP DOWN BFLY")
    rows.add("CCTL", OpClass.PREFETCH, address, none, "E IVALL PF1 PF2")
    rows.add("LDGSTS", OpClass.ASYNC_COPY, address, none, f"{accessed} BYPASS ZFILL")
    rows.add("LDGDEPBAR", OpClass.ASYNC_COPY, address, none)
    fences = "SC ALL CTA SM GPU SYS VC"
    rows.add("MEMBAR", OpClass.FENCE, Pipe.VARIABLE, none, fences)
    rows.add("ERRBAR CGAERRBAR", OpClass.FENCE, Pipe.VARIABLE, none)


def _add_control(rows: Rows) -> None:
    control, none = Pipe.CONTROL, Writes.NONE
    branch, jump = OpClass.BRANCH, ControlEffect.BRANCH
    rows.add("BRA", branch, control, none, "U ANY DIV CONV", jump)
    rows.add("BRX BRXU", branch, control, none, "", ControlEffect.INDIRECT_BRANCH)
    rows.add("CALL", OpClass.CALL, control, none, "REL ABS NOINC", ControlEffect.CALL)
    rows.add("RET", OpClass.RETURN, control, none, "REL ABS NODEC", ControlEffect.RETURN)
    rows.add("EXIT", OpClass.RETURN, control, none, "", ControlEffect.EXIT)
    rows.add("BPT", OpClass.TRAP, control, none, "TRAP", ControlEffect.TRAP)
    # WARPSYNC.COLLECTIVE also branches to its label.
    rows.add("WARPSYNC", OpClass.CONTROL_OTHER, control, none, "ALL COLLECTIVE EXCLUSIVE")
    rows.add("BSSY BSYNC BREAK YIELD NOP", OpClass.CONTROL_OTHER, control, none)
    rows.add("ENDCOLLECTIVE PMTRIG", OpClass.CONTROL_OTHER, control, none)
    rows.add("BMOV", OpClass.CONTROL_OTHER, Pipe.VARIABLE, Writes.ONE, "32 CLEAR")
    rows.add("NANOSLEEP", OpClass.NANOSLEEP, control, none, "WARP")
    rows.add("DEPBAR", OpClass.ASYNC_WAIT, control, none, "LE")
    # BAR.ARV does not wait; the lowering handles this.
    words = "SYNC ARV RED OR AND POPC DEFER_BLOCKING"
    rows.add("BAR", OpClass.BARRIER, Pipe.ADDRESS, none, words, ControlEffect.BARRIER)


ROWS = _rows()
"""The table, by the name of the opcode."""
