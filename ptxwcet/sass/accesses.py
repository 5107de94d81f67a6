"""Translates accesses to memory, votes, exchanges and barrier reductions of machine code to
equivalent PTX.

The analyses need the memory, the bytes per lane, the address and the written registers. Loaded
values are not modelled here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ptxwcet.ir.building import instruction_of
from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.op_classes import ControlEffect, OpClass
from ptxwcet.ir.opcodes import Opcode
from ptxwcet.ir.operands import (
    Address,
    Bracket,
    Decorated,
    Element,
    Immediate,
    Operand,
    Pair,
    Register,
    Sink,
    SymbolRef,
    Vector,
)
from ptxwcet.ir.terms import Meaning, Term, source
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError


class Access(NamedTuple):
    """An instruction of PTX: its mnemonic, its operands, and its row with the number of written
    operands, where the row is not one of PTX's.
    """

    mnemonic: str
    operands: tuple[Operand, ...]
    row: tuple[Opcode, int] | None = None


class Place(NamedTuple):
    """A place in memory: a number, and an offset. ``meaning`` is the sum of several numbers."""

    base: Operand | Meaning
    offset: int
    width: int


AddressOf = Callable[[Place], Address]
"""A function that returns the address of a place, after any necessary computation."""


def access_of_code(instruction: Instruction, address_of: AddressOf) -> Access | None:
    """Returns the PTX equivalent of an instruction of machine code, None if it is of no such kind.

    Raises PtxwcetError (PW125) for operands and modifiers that it does not have. Cost: constant.
    """
    assert instruction.opcode is not None
    name, words = instruction.opcode.name, instruction.modifiers
    rule = _RULES.get(name)
    if rule is None:
        return None
    operands = [operand for operand in instruction.operands if not _is_descriptor(operand)]
    try:
        return rule(name, words, operands, address_of)
    except (AssertionError, KeyError, IndexError, StopIteration, ValueError):
        message = f"machine code that is not known: {instruction.span.text.strip(' ;')}"
        help_text = "bound the kernel from its PTX, and report the instruction"
        raise PtxwcetError(Diagnostic("PW125", message, instruction.span, help=help_text)) from None


def _is_descriptor(operand: Operand) -> bool:
    return isinstance(operand, Decorated) and operand.before == "desc"


# --- where ----------------------------------------------------------------------------------------


def _address(bracket: Operand, address_of: AddressOf) -> Address:
    """Returns the address in brackets; ``R2.X4`` is four times the register."""
    assert isinstance(bracket, Bracket)
    offset, parts = 0, list[Operand]()
    for part in bracket.elements:
        if isinstance(part, Immediate):
            offset += 0 if part.text.endswith("RZ") else int(part.value)
        elif not _is_descriptor(part):
            parts.append(part)
    if not parts:
        return Address(Immediate(offset, hex(offset)))
    if len(parts) == 1 and isinstance(_plain(parts[0]), Register | Vector):
        base = _plain(parts[0])
        return address_of(Place(base, offset, 64 if isinstance(base, Vector) else 32))
    width = 64 if any(isinstance(_plain(part), Vector) for part in parts) else 32
    sources, total = list[Operand](), None
    for part in parts:
        total = _added(total, part, width, sources)
    assert total is not None
    return address_of(Place(Meaning((total,), tuple(sources)), offset, width))


def _plain(part: Operand) -> Operand:
    """Returns a part that is used unchanged."""
    return part.operand if isinstance(part, Decorated) and part.after == ".64" else part


_SCALES = {".U32": 0, ".X4": 2, ".X8": 3, ".X16": 4}


def _added(total: Term | None, part: Operand, width: int, sources: list[Operand]) -> Term:
    scale, inner = 0, _plain(part)
    if isinstance(inner, Decorated):
        scale, inner = _SCALES[inner.after], inner.operand
    own = 64 if isinstance(inner, Vector) else 32
    if inner not in sources:
        sources.append(inner)
    number = source(sources.index(inner), own).extended(width, signed=False).shifted_left(scale)
    return number if total is None else total + number


# --- what -----------------------------------------------------------------------------------------

_SPACES = {"G": ".global", "S": ".shared", "L": ".local", "": ""}
_FETCHES = {f"LTC{size}B": f"L2::{size}B" for size in (64, 128, 256)}
_HINTS = frozenset(("EL", "EF", "EN", "LU", "NA", "PRIVATE", "MMIO"))


def _type(words: Sequence[str]) -> str:
    """Returns the type of an access: small numbers fill a register, large ones several words."""
    small = next((word.lower() for word in words if word in ("U8", "S8", "U16", "S16")), None)
    if small is not None:
        return small
    return "v4.b32" if "128" in words else "v2.b32" if "64" in words else "b32"


def _ways(words: Sequence[str]) -> str:
    """Returns the hints of a cache, and whether others may change the word meanwhile."""
    hints = [_FETCHES[w] for w in words if w in _FETCHES]
    hints += ["L1::evict_first"] if _HINTS.intersection(words) else []
    hints += ["volatile"] if "STRONG" in words else []
    return "".join(f".{hint}" for hint in hints)


def _load(
    name: str, words: Sequence[str], operands: Sequence[Operand], address_of: AddressOf
) -> Access:
    at = next(n for n, operand in enumerate(operands) if isinstance(operand, Bracket))
    kept = ".nc" if "CONSTANT" in words else ""
    mnemonic = f"ld{_SPACES[name[2:]]}{kept}{_ways(words)}.{_type(words)}"
    target = next(operand for operand in operands[:at] if not _is_truth(operand))
    return Access(mnemonic, (target, _address(operands[at], address_of)))


def _is_truth(operand: Operand) -> bool:
    return isinstance(operand, Register) and "P" in operand.name


def _store(
    name: str, words: Sequence[str], operands: Sequence[Operand], address_of: AddressOf
) -> Access:
    mnemonic = f"st{_SPACES[name[2:]]}{_ways(words)}.{_type(words)}"
    return Access(mnemonic, (_address(operands[0], address_of), operands[1]))


def _constant(
    name: str, words: Sequence[str], operands: Sequence[Operand], address_of: AddressOf
) -> Access | None:
    target, element = operands[:2]
    if not isinstance(element, Element):
        return None
    base, offset = element.index.base, element.index.offset
    if isinstance(base, Immediate):
        address = Address(SymbolRef(element.array.name), int(base.value) + offset)
    else:
        address = address_of(Place(base, offset, 32))
    return Access(f"ld.const.{_type(words)}", (target, address))


_CHANGES = ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH", "CAS")
_ATOMIC_SPACES = {"ATOMS": ".shared", "ATOMG": ".global", "ATOM": "", "RED": ".global"}
_ATOMIC_TYPES = ("F32", "F64", "F16x2", "BF16x2", "S32", "S64", "U64", "U32")


def _atomic(
    name: str, words: Sequence[str], operands: Sequence[Operand], address_of: AddressOf
) -> Access:
    at = next(n for n, operand in enumerate(operands) if isinstance(operand, Bracket))
    change = "cas" if "CAST" in words else "add" if "POPC" in words else ""
    change = change or next(word.lower() for word in words if word in _CHANGES)
    kind = next((word.lower() for word in words if word in _ATOMIC_TYPES), "u32")
    kind = "u64" if "64" in words else kind
    space = _ATOMIC_SPACES["RED" if name == "REDG" else name]
    address, rest = _address(operands[at], address_of), operands[at + 1 :]
    targets = [operand for operand in operands[:at] if isinstance(operand, Register | Vector)]
    if not targets:
        return Access(f"red{space}.{change}.{kind}", (address, *rest))
    target = targets[0] if len(targets) == 1 else Pair(targets[1], targets[0])
    entry = Opcode("atom", _ATOMIC_CLASSES[space], accesses=True, operands=(0, 16))
    return Access(f"atom{space}.{change}.{kind}", (target, address, *rest), (entry, 1))


_ATOMIC_CLASSES = {
    ".shared": OpClass.ATOMIC_SHARED,
    ".global": OpClass.ATOMIC_GLOBAL,
    "": OpClass.ATOMIC_GENERIC,
}


def _copy(
    name: str, words: Sequence[str], operands: Sequence[Operand], address_of: AddressOf
) -> Access:
    size = 16 if "128" in words else 8 if "64" in words else 4
    target, origin = (_address(bracket, address_of) for bracket in operands[:2])
    mnemonic = f"cp.async.{'cg' if 'BYPASS' in words else 'ca'}.shared.global{_ways(words)}"
    return Access(mnemonic, (target, origin, Immediate(size, str(size))))


def _tiles(
    name: str, words: Sequence[str], operands: Sequence[Operand], address_of: AddressOf
) -> Access:
    count = next((word for word in ("4", "2") if word in words), "1")
    way = "ldmatrix" if name == "LDSM" else "stmatrix"
    mnemonic = f"{way}.sync.aligned.m8n8.x{count}.shared.b16"
    if name == "LDSM":
        return Access(mnemonic, (operands[0], _address(operands[1], address_of)))
    return Access(mnemonic, (_address(operands[0], address_of), operands[1]))


def _prefetch(
    name: str, words: Sequence[str], operands: Sequence[Operand], address_of: AddressOf
) -> Access | None:
    brackets = [operand for operand in operands if isinstance(operand, Bracket)]
    if not brackets or not {"PF1", "PF2"}.intersection(words):
        return None
    return Access("prefetch.global.L2", (_address(brackets[0], address_of),))


# --- lanes among themselves -----------------------------------------------------------------------


def _exchange(
    name: str, words: Sequence[str], operands: Sequence[Operand], address_of: AddressOf
) -> Access | None:
    """Translates SHFL, whose members are the lanes that execute it."""
    if len(operands) != 5:
        return None
    valid, target, value, lane, clamp = operands
    way = {"IDX": "idx", "UP": "up", "DOWN": "down", "BFLY": "bfly"}[words[0]]
    both = target if isinstance(valid, Sink) else Pair(target, valid)
    everybody = Immediate(0xFFFFFFFF, "0xffffffff")
    return Access(f"shfl.sync.{way}.b32", (both, value, lane, clamp, everybody))


def _alike(
    name: str, words: Sequence[str], operands: Sequence[Operand], address_of: AddressOf
) -> Access:
    """Translates any value that is equal for all lanes that execute it: votes, R2UR, S2UR, sums."""
    op_class = OpClass.MOVE if name in ("R2UR", "S2UR") else OpClass.VOTE
    count = 1 if name in ("S2UR", "REDUX") else len(operands) - 1
    return Access("vote.any", tuple(operands), (_VOTES[op_class], count))


def alike(target: Register, beside: Instruction) -> Instruction:
    """Returns an instruction that writes a value equal for all lanes that execute it."""
    place = (beside.origin, beside.start, beside.end)
    return instruction_of("vote.any", [target], place, decoded=(_VOTES[OpClass.VOTE], 1))


COUNT, TRUTH = "BR", "BP"
"""The results of the last barrier reduction of a block: own registers, until B2R reads them."""


def _reduction(
    name: str, words: Sequence[str], operands: Sequence[Operand], address_of: AddressOf
) -> Access | None:
    """Translates BAR.RED, which leaves a result for B2R."""
    if "RED" not in words or len(operands) != 2:
        return None
    return Access("bar.red", (Pair(Register(COUNT), Register(TRUTH)), *operands), (_REDUCING, 1))


_REDUCING = Opcode("bar", OpClass.BARRIER, ControlEffect.BARRIER, (0, 16))


def _reduced(
    name: str, words: Sequence[str], operands: Sequence[Operand], address_of: AddressOf
) -> Access | None:
    """Translates B2R, of a number or of a predicate."""
    match operands:
        case (Register() as target,):
            return Access("mov.b32", (target, Register(COUNT)))
        case (Sink(), Register() as target):
            return Access("mov.pred", (target, Register(TRUTH)))
    return None


_VOTES = {one: Opcode("vote", one, operands=(0, 16)) for one in (OpClass.MOVE, OpClass.VOTE)}
_Rule = Callable[[str, Sequence[str], Sequence[Operand], AddressOf], Access | None]
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("LDG", "LD", "LDS", "LDL"), _load),
    **dict.fromkeys(("STG", "ST", "STS", "STL"), _store),
    **dict.fromkeys(("LDC", "ULDC"), _constant),
    **dict.fromkeys(("ATOMS", "ATOMG", "ATOM", "RED", "REDG"), _atomic),
    "LDGSTS": _copy,
    **dict.fromkeys(("LDSM", "STSM"), _tiles),
    "CCTL": _prefetch,
    "SHFL": _exchange,
    "BAR": _reduction,
    "B2R": _reduced,
    **dict.fromkeys(("VOTE", "VOTEU", "R2UR", "S2UR", "REDUX", "ELECT"), _alike),
}
