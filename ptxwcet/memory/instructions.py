"""The memory accesses of instructions: space, bytes per lane, and the address operand."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import lru_cache

from ptxwcet.ir.kernel import Address, Element, Immediate, Instruction, InstructionForm, Space
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.ir.operation import operation_of
from ptxwcet.ir.words import state_space
from ptxwcet.memory.counting import LINE, SECTOR
from ptxwcet.support.records import dataclass

WIDEST = 16
"""The most bytes of a lane that one access moves, if the instruction does not state them."""
_WIDEST_VECTOR = 64
"""Bytes of a lane that any form moves at most: 8 words of 8 bytes."""
_MOST_REGISTERS = 10
"""Registers of a move of tiles: 8 elements, the address and the stride."""


class Purpose(Enum):
    """The purpose of an access."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"
    COPY_FROM = "copy from"
    COPY_TO = "copy to"
    MATRIX = "matrix"
    PREFETCH = "prefetch"


@dataclass(frozen=True, slots=True)
class Access:
    """One access of an instruction: at ``address``, None if unknown.

    ``access_bytes`` per lane, ``lanes`` of a warp that give an address (the first ones); ``times``
    is the most accesses of each. The memory may fetch all of the ``fetched_bytes`` around a byte,
    aligned to their number: for prefetches, and for prefetch hints. If it ``reaches_constants`` a
    generic address may be of constants or parameters. ``is_result``: a tile that is stored.
    """

    space: Space
    purpose: Purpose
    access_bytes: int
    address: Address | None
    lanes: int = 32
    times: int = 1
    fetched_bytes: int = SECTOR
    reaches_constants: bool = False
    is_result: bool = False

    @property
    def changes(self) -> bool:
        """True if it writes to at least a part of its bytes."""
        return self.purpose in (Purpose.STORE, Purpose.ATOMIC) or self.is_result

    @property
    def has_words(self) -> bool:
        """True if it may be served address by address, as constants are."""
        return self.space in (Space.CONST, Space.PARAM) or self.reaches_constants


def widest_accesses() -> Iterator[Access]:
    """Yields accesses one of which needs, of each kind, at least as much as any that exists."""
    for space in Space:
        for purpose in Purpose:
            is_tile = purpose is Purpose.MATRIX
            size, times = (WIDEST, _MOST_REGISTERS) if is_tile else (_WIDEST_VECTOR, 1)
            fetched = SECTOR if is_tile else max(_HINTS.values())
            yield Access(
                space,
                purpose,
                size,
                None,
                times=times,
                fetched_bytes=fetched,
                reaches_constants=True,
            )


_STORES = frozenset(one for one in OpClass if one.value.startswith("store_"))
_ATOMICS = frozenset({OpClass.ATOMIC_SHARED, OpClass.ATOMIC_GLOBAL, OpClass.ATOMIC_GENERIC})
_HINTS = {"L2::64B": 64, "L2::128B": 128, "L2::256B": 256}
_MATRICES = {"x1": 8, "x2": 16, "x4": 32}


def accesses_of(instruction: Instruction) -> tuple[Access, ...]:
    """Returns the accesses of an instruction, empty without any. Cost: constant.

    Waits and fences are not accesses; accesses of :data:`UNCOUNTED` instructions are left out.
    """
    form = instruction.form
    op_class, space = form.op_class, form.space
    if op_class is OpClass.ASYNC_COPY or op_class is OpClass.MATRIX_MOVE:
        name = form.opcode.name if form.opcode is not None else ""
        if op_class is OpClass.MATRIX_MOVE:
            return _matrices(instruction, name)
        return _copies(instruction) if name == "cp.async" else ()
    if op_class is OpClass.TEXTURE or op_class is OpClass.SURFACE:
        return (_texels(form),)
    if op_class is OpClass.PREFETCH and "tensormap" in form.modifiers:  # it may be in two lines
        return (Access(Space.GLOBAL, Purpose.PREFETCH, 1, None, times=2, fetched_bytes=LINE),)
    if space is Space.NONE or (space is Space.PARAM and _is_own(instruction)):
        return ()
    purpose, size = _plain(form)
    if purpose is None:
        return ()
    address = next(iter(_addresses(instruction)), None)
    fetched = LINE if purpose is Purpose.PREFETCH else _fetched_bytes(instruction)
    reaches = purpose is Purpose.LOAD and space is Space.GENERIC
    access = Access(space, purpose, size, address, fetched_bytes=fetched, reaches_constants=reaches)
    return (access,)


@lru_cache(maxsize=1024)
def _plain(form: InstructionForm) -> tuple[Purpose | None, int]:
    """Returns purpose and bytes per lane of an access to one place; None without such an access."""
    op_class = form.op_class
    if op_class in _NO_ACCESS:
        return None, 0
    if op_class is OpClass.PREFETCH:
        return Purpose.PREFETCH, 1
    if op_class in _ATOMICS:
        return Purpose.ATOMIC, _bytes(form)
    return (Purpose.STORE if op_class in _STORES else Purpose.LOAD), _bytes(form)


def leads_to_constants(instruction: Instruction) -> bool:
    """Returns whether an instruction makes a generic address of a constant or parameter's."""
    if operation_of(instruction.form).name != "cvta":
        return False
    return state_space(instruction.modifiers) in (Space.CONST, Space.PARAM)


UNCOUNTED = frozenset(
    {
        *(OpClass.MBARRIER, OpClass.MBARRIER_WAIT, OpClass.ASYNC_BULK, OpClass.MMA_ASYNC),
        OpClass.MULTIMEM,
    }
)
"""Opcodes whose accesses are not counted: refused on machines that charge accesses."""
_NO_ACCESS = UNCOUNTED | {OpClass.FENCE, OpClass.ASYNC_WAIT, OpClass.MOVE}


def _is_own(instruction: Instruction) -> bool:
    """Returns whether words are moved to or from registers that represent a thread's variable."""
    return bool(instruction.form.implicit_reads or instruction.form.implicit_writes)


def _addresses(instruction: Instruction) -> list[Address | None]:
    """Returns the operands in brackets; None for one that is not a base and an offset."""
    return [
        operand if isinstance(operand, Address) else None
        for operand in instruction.operands
        if isinstance(operand, (Address, Element))
    ]


def _bytes(form: InstructionForm) -> int:
    """Bytes of a lane, of all elements of a vector."""
    operation = operation_of(form)
    count = next((int(word[1:]) for word in operation.words if word in ("v2", "v4", "v8")), 1)
    return count * (max(1, operation.types[-1].width // 8) if operation.types else WIDEST)


def _fetched_bytes(instruction: Instruction) -> int:
    """Returns the bytes that the memory may fetch: a sector, or the size in the prefetch hint."""
    return max((_HINTS.get(word, SECTOR) for word in instruction.modifiers), default=SECTOR)


_FILTERED = {"1d": 2, "a1d": 2, "2d": 4, "a2d": 4, "3d": 8, "cube": 4, "acube": 4}
_LEVELS = 2
_MOST_ANISOTROPY = 16
_TEXTURE, _SAMPLER = 1, 1


@lru_cache(maxsize=1024)
def _texels(form: InstructionForm) -> Access:
    """Returns the most fetches of a lane: texels and descriptors, each in a sector of its own.

    The filter is in the sampler, which PTX does not show: its largest demand is counted, two texels
    in each direction, of two levels if one is given or computed, along 16 places if slopes are
    given (docs/guide/reduce.md).
    """
    name = form.opcode.name if form.opcode is not None else ""
    if name in ("txq", "suq"):
        return Access(Space.GLOBAL, Purpose.LOAD, WIDEST, None, times=_TEXTURE)
    if form.op_class is OpClass.SURFACE:
        kinds = {"sust": Purpose.STORE, "sured": Purpose.ATOMIC}
        purpose = kinds.get(name, Purpose.LOAD)
        return Access(Space.GLOBAL, purpose, WIDEST, None, times=1 + _TEXTURE)
    texels = next((_FILTERED[word] for word in form.modifiers if word in _FILTERED), 8)
    texels *= _LEVELS if form.modifiers[0] in ("level", "grad") else 1
    texels *= _MOST_ANISOTROPY if form.modifiers[0] == "grad" else 1
    times = texels + _TEXTURE + _SAMPLER
    return Access(Space.GLOBAL, Purpose.LOAD, WIDEST, None, times=times)


def _copies(instruction: Instruction) -> tuple[Access, ...]:
    """Returns both accesses of ``cp.async [shared], [global], size``, of as many bytes each."""
    target, source = (*_addresses(instruction), None, None)[:2]
    sizes = [operand.value for operand in instruction.operands if isinstance(operand, Immediate)]
    size = int(sizes[0]) if sizes else WIDEST
    return (
        Access(
            *(Space.GLOBAL, Purpose.COPY_FROM, size, source),
            fetched_bytes=_fetched_bytes(instruction),
        ),
        Access(Space.SHARED, Purpose.COPY_TO, size, target),
    )


def _matrices(instruction: Instruction, name: str) -> tuple[Access, ...]:
    """Accesses to a matrix: rows of 16 bytes, at addresses that the first lanes give or unknown."""
    if name == "movmatrix":
        return ()
    if name in ("ldmatrix", "stmatrix"):
        words = operation_of(instruction.form).words
        lanes = next((_MATRICES[word] for word in words if word in _MATRICES), 32)
        lanes = min(32, 2 * lanes) if "m16n16" in words else lanes  # 16 rows per matrix, others 8
        address = next(iter(_addresses(instruction)), None)
        return (Access(Space.SHARED, Purpose.MATRIX, WIDEST, address, lanes),)
    registers = max(1, len(instruction.writes) or len(instruction.reads))
    return (
        Access(
            *(instruction.space, Purpose.MATRIX, WIDEST, None),
            times=registers,
            is_result=not instruction.writes,
        ),
    )
