"""Which loads read from an array of which the range of its integers is stated.

A load is of the array that a pointer parameter leads to if its address is that pointer and numbers
added to it. Where an address comes from is followed through registers, whatever the order of
instructions: products, shifts and quotients of pointers are numbers and no pointers any more, but
those of a pointer with a range, and of what is made of pointers otherwise, as of their distance,
are followed. A 64-bit word
that is loaded may be a pointer to anywhere, and so may a number where another way has a pointer,
and what is made of a pointer otherwise than by adding numbers: the distance of two pointers may be
added to a third one. Any parameter of 64 bits may be a pointer. An address that may come from two
pointers has a range only if both have one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from ptxwcet.flow.launch import ArrayRange, Launch
from ptxwcet.flow.values import ranges
from ptxwcet.flow.values.accesses import Access, access_of, variable_moves
from ptxwcet.flow.values.integers import integer_type
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.lane_state import LaneState
from ptxwcet.flow.values.loads import extended
from ptxwcet.flow.values.operands import Transfer, register_width
from ptxwcet.flow.values.slicing import deciding
from ptxwcet.flow.values.value import Cause, CauseKind, Value
from ptxwcet.ir.kernel import (
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Register,
    Space,
    SymbolRef,
    Vector,
)
from ptxwcet.ir.operands import leaves
from ptxwcet.ir.semantics import meaning_of
from ptxwcet.ir.terms import Op, Term, fold
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.worklist import Worklist

_POINTER_BITS = 64
_HALF = 32
_SCALING = frozenset(("mul", "mul24", "shl", "shr", "div", "rem"))
"""What these give of a pointer is a number; of a distance between pointers still a distance, and
so of a pointer with a range. By 1 or -1, and shifts by 0, give what they are given, and so may a
rest."""
_MINUS_ONE = frozenset((-1, (1 << 32) - 1, (1 << 64) - 1))
_NUMBERS = frozenset(("popc", "clz", "setp", "set"))
"""What these give is a number, even of a pointer."""
_CHOOSING = frozenset(("selp", "slct", "min", "max"))
"""What gives one of its first two sources."""
_KEEPING = frozenset(("mov", "cvta", "add", "sub", "mad", *_CHOOSING))
"""What these give of a pointer still leads where it led, or a number away from there."""
_ASSEMBLING = frozenset(("mov", "or", "xor", "bfi"))
"""What puts words together; of 64 bits, that may make a pointer."""
_ANYWHERE = ""
"""Stands beside the names of parameters for a pointer that is loaded, or taken of a variable."""
_DISTANCE = " distance"
"""Stands there for what is made of pointers otherwise: a flag times it may lead to another one."""

_Origins = frozenset[str]
_NOWHERE: _Origins = frozenset()


def loads_of_arrays(kernel: Kernel, launch: Launch) -> Mapping[int, ArrayRange]:
    """The range of the integers that loads give, by the index of the load.

    Only loads of integers as wide as those of the array have one. Raises PtxwcetError (PW251) for
    an array that no such load reads. Cost: near linear in the kernel.
    """
    if not launch.arrays:
        return {}
    origins = _Pointers(kernel, frozenset(launch.arrays)).origins()
    loads: dict[int, ArrayRange] = {}
    read: set[str] = set()
    for index, instruction in enumerate(kernel.instructions):
        access = _array_access(instruction)
        names = _NOWHERE if access is None else origins[access.base.name]
        if access is None or access.kind is None or not names or not names <= launch.arrays.keys():
            continue
        array_ranges = [launch.arrays[name] for name in sorted(names)]
        if any(_bits(row) != access.kind.bits for row in array_ranges):
            continue
        read |= names
        both = _both(array_ranges)
        if both is not None:
            loads[index] = both
    unread = [name for name in launch.arrays if name not in read]
    if unread:
        raise PtxwcetError(_unread(kernel, launch, name) for name in unread)
    return loads


def arrays_read(kernel: Kernel, loads: Collection[int]) -> Mapping[str, str]:
    """The arrays that some loads, by index, read: by the pointer's name a type of their integers.

    Only loads count that are sure to read from one array. Cost: near linear in the kernel.
    """
    types: dict[str, str] = {}
    origins: Mapping[str, _Origins] = {}
    for index in sorted(loads):
        access = _array_access(kernel.instructions[index])
        if access is None or access.kind is None:
            continue
        origins = origins or _Pointers(kernel, frozenset()).origins()
        names = origins[access.base.name]
        if len(names) == 1 and _ANYWHERE not in names:
            types[min(names)] = f"s{access.kind.bits}"
    return types


def origins_of_pointers(
    kernel: Kernel, asked: Collection[str], stated: frozenset[str] = frozenset()
) -> Mapping[str, frozenset[str]]:
    """By register ``asked`` for, the parameters that may be the pointer that it leads from, or a
    number among them; other names stand for what is loaded or made otherwise, also of pointers of
    which something is ``stated``. Cost: near linear in the instructions that these registers depend
    on.
    """
    return _Pointers(kernel, stated).origins(deciding(kernel, asked))


def array_transfer(
    instruction: Instruction, index: int, array_range: ArrayRange, registers: Mapping[str, str]
) -> Transfer:
    """The transfer function of a load that gives integers of a known range, in each lane another.

    ``index`` is the instruction's, for the causes; ``registers`` are the types of the kernel's.
    """
    access = access_of(instruction)
    assert access is not None
    kind = access.kind
    assert kind is not None
    causes = frozenset({Cause(CauseKind.MEMORY, instruction.mnemonic, index)})
    widths = [register_width(registers[name]) for name in instruction.writes]
    whole = Interval(array_range.low, array_range.high)

    def transfer(state: LaneState) -> tuple[Value, ...]:
        return tuple(
            extended(ranges.bounded(whole, kind.bits, causes), kind, width, state.active)
            for width in widths
        )

    return transfer


def _array_access(instruction: Instruction) -> Access | None:
    """A load of integers from an address in a register, where a pointer parameter may lead.

    That of a kernel in OpenCL may lead to shared memory.
    """
    access = access_of(instruction)
    if access is None or access.kind is None or not isinstance(access.base, Register):
        return None
    is_load = bool(instruction.form.write_slots)
    is_reached = access.space in (Space.GLOBAL, Space.GENERIC, Space.SHARED)
    return access if is_load and is_reached else None


def _bits(row: ArrayRange) -> int:
    kind = integer_type(row.type)
    assert kind is not None
    return kind.bits


def _both(rows: list[ArrayRange]) -> ArrayRange | None:
    """The range of an integer from any of some arrays; None if their types differ."""
    if len({row.type for row in rows}) > 1:
        return None
    low, high = min(row.low for row in rows), max(row.high for row in rows)
    return ArrayRange(rows[0].type, low, high, rows[0].source)


def _unread(kernel: Kernel, launch: Launch, name: str) -> Diagnostic:
    row = launch.arrays[name]
    return Diagnostic(
        "PW251",
        f"{row.source}: kernel {kernel.readable} loads no {row.type} from an address that is "
        f"{launch.name_of(name)} and a number added to it",
        kernel.span,
        help="state the type that the kernel loads, for example "
        f'{launch.name_of(name)} = "s32 0..100"; leave it out if the pointer is not followed',
    )


class _Pointers:
    """The pointers from which registers may come."""

    def __init__(self, kernel: Kernel, stated: frozenset[str]) -> None:
        self._kernel = kernel
        scalars = [one for one in kernel.parameters if not one.is_array]
        wide = {one.name for one in scalars if one.size_bytes * 8 == _POINTER_BITS}
        self._pointers, self._stated = wide | stated, stated
        self._sizes = {one.name: one.size_bytes for one in scalars}
        writers = Counter(name for one in kernel.instructions for name in one.writes)
        self._literals: dict[str, float] = {}
        for one in kernel.instructions:
            if one.opcode is None or one.opcode.name not in ("mov", "cvt"):
                continue
            number = self._number(one.operands[1])
            if number is not None and writers[one.writes[0]] == 1:
                self._literals[one.writes[0]] = number

    def origins(self, indices: Sequence[int] | None = None) -> Mapping[str, _Origins]:
        """By register: names of parameters, and ``_ANYWHERE``; nothing of one that is a number.

        ``indices``: of instructions on which others do not matter, if not all are to be looked at.
        """
        origins: dict[str, _Origins] = defaultdict(frozenset)
        instructions = self._kernel.instructions
        indices = range(len(instructions)) if indices is None else indices
        users: dict[str, list[int]] = defaultdict(list)
        for index in indices:
            for name in instructions[index].reads:
                users[name].append(index)
        pending = Worklist(indices)
        while pending:
            while pending:
                for name, new in self._written(instructions[pending.pop()], origins):
                    if not new <= origins[name]:
                        origins[name] |= new
                        pending.add(users[name])
            # what is a pointer on one way and on another a number may be made of any pointer
            for instruction in map(instructions.__getitem__, indices):
                for name, new in self._written(instruction, origins):
                    may_be_number = not new or _chooses_number(instruction, origins)
                    if may_be_number and origins[name] and _ANYWHERE not in origins[name]:
                        origins[name] |= {_ANYWHERE}
                        pending.add(users[name])
        return origins

    def _written(
        self, instruction: Instruction, origins: Mapping[str, _Origins]
    ) -> Iterator[tuple[str, _Origins]]:
        """Where each register comes from that an instruction writes."""
        if not instruction.writes:
            return
        if _is_move(instruction):
            moves = variable_moves(instruction)
            for name in instruction.writes:
                yield name, _moved(moves.get(name), origins)
        elif instruction.opcode is not None and instruction.opcode.meaning is not None:
            yield from self._meant(instruction, origins)
        else:
            given = self._given(instruction, origins)
            for name in instruction.writes:
                yield name, given

    def _given(self, instruction: Instruction, origins: Mapping[str, _Origins]) -> _Origins:
        """Where what an instruction writes comes from, as far as is known by now."""
        name = instruction.opcode.name if instruction.opcode is not None else ""
        if name in _NUMBERS:
            return _NOWHERE
        name, operands = self._less_identity(name, instruction)
        if name in _SCALING:
            own = _of(operands[1:2], origins) if name == "rem" else _NOWHERE  # by more than it is
            return self._scaled(operands[1:], origins) | (_made(own) if own else _NOWHERE)
        if instruction.space is not Space.NONE:
            return self._loaded(access_of(instruction))
        if name in ("mad", "mad24"):
            return _of(operands[3:], origins) | self._scaled(operands[1:3], origins)
        own = _of(operands[1:], origins)
        if name in _ASSEMBLING and self._is_wide(instruction):
            is_mov = name == "mov" and not any(isinstance(one, Vector) for one in operands[1:])
            return own if is_mov else _made(own)
        if own and not (self._is_wide(instruction) and _keeps(name, operands, origins)):
            return _made(own)
        return own

    def _meant(
        self, instruction: Instruction, origins: Mapping[str, _Origins]
    ) -> Iterator[tuple[str, _Origins]]:
        """As :meth:`_written`, of machine code: by what it computes."""
        meant = meaning_of(instruction, self._kernel.registers)
        if meant is None:
            read = frozenset[str]().union(*(origins[name] for name in instruction.reads))
            yield from ((name, _made(read) if read else _NOWHERE) for name in instruction.writes)
            return
        sources = [_of((one,), origins) for one in meant.sources]
        for name, root in zip(instruction.writes, meant.results, strict=True):
            yield name, fold(root, partial(self._of_term, sources))

    def _of_term(self, sources: Sequence[_Origins], one: Term, given: list[_Origins]) -> _Origins:
        """Where a term comes from: a pointer is a whole word, or one with a number added to it."""
        if one.op is Op.SOURCE:
            return sources[one.value]
        own = _NOWHERE.union(*given)
        numbers = [argument.value for argument in one.args if argument.op is Op.CONST]
        neutral = (0,) if one.op is Op.SHL else (1, (1 << one.width) - 1)
        is_known = bool(numbers) and numbers[0] not in neutral
        if one.width == _POINTER_BITS and one.op in (Op.OR, Op.XOR, Op.SHL):
            # two words put together, by OR or by a sum, may make a pointer
            amount = one.args[1]
            if one.op is not Op.SHL or amount.op is not Op.CONST or amount.value >= _HALF:
                return _made(own)
        if one.op in (Op.MUL, Op.SHL) and is_known:
            is_distance = _DISTANCE in own or not own.isdisjoint(self._stated)
            return frozenset({_ANYWHERE, _DISTANCE}) if is_distance else _NOWHERE
        keeps = one.width == _POINTER_BITS and (
            (one.op is Op.ADD and not all(given)) or (one.op is Op.SUB and not given[1])
        )
        return own if keeps or not own else _made(own)

    def _less_identity(
        self, name: str, instruction: Instruction
    ) -> tuple[str, tuple[Operand, ...]]:
        """The operation without a product or quotient by 1 or a shift by 0: a move, or a sum; by -1
        a negation, or a difference.
        """
        operands = instruction.operands
        neutral = {"mul": 1, "div": 1, "mad": 1, "shl": 0, "shr": 0}.get(name)
        if neutral is None or "hi" in instruction.modifiers or len(operands) < 3:
            return name, operands
        result, left, right, *added = operands
        if name in ("mul", "mad") and self._number(right) is None:
            left, right = right, left
        number = self._number(right)
        if number is not None and neutral == 1 and number in _MINUS_ONE:
            return ("sub" if added else "neg"), (result, *added, left)
        if number != neutral:
            return name, operands
        return ("add" if added else "mov"), (result, left, *added)

    def _number(self, operand: Operand) -> float | None:
        """The number that an operand is, or that its register is given once; None if unknown."""
        if isinstance(operand, Register):
            return self._literals.get(operand.name)
        return operand.value if isinstance(operand, Immediate) else None

    def _scaled(self, operands: tuple[Operand, ...], found: Mapping[str, _Origins]) -> _Origins:
        """Where a product or quotient may lead: nowhere, unless a distance of pointers is scaled.

        Half of a pointer with a stated range may be part of such a distance: taken from the
        pointer, with half of another pointer added, it leads to that one.
        """
        origins = _of(operands, found)
        is_distance = _DISTANCE in origins or not origins.isdisjoint(self._stated)
        return frozenset({_ANYWHERE, _DISTANCE}) if is_distance else _NOWHERE

    def _is_wide(self, instruction: Instruction) -> bool:
        widths = [register_width(self._kernel.registers[name]) for name in instruction.writes]
        return max(widths) >= _POINTER_BITS

    def _loaded(self, access: Access | None) -> _Origins:
        """Where a loaded word leads to: a parameter, or anywhere if it is wide enough."""
        if access is None:
            return frozenset({_ANYWHERE})
        base = access.base
        first, behind = access.span
        name = base.name if isinstance(base, SymbolRef) else ""
        if first >= 0 and behind <= self._sizes.get(name, 0):
            own = frozenset({name} & self._pointers)
            is_whole = access.bits == 8 * self._sizes[name]
            return own if is_whole or not own else _made(own)  # half a pointer leads elsewhere
        return frozenset({_ANYWHERE}) if access.bits >= _POINTER_BITS else _NOWHERE


def _made(origins: _Origins) -> _Origins:
    """The origins of what is made of pointers otherwise than by adding numbers. What is made of a
    loaded word without scaling may be a pointer as well.
    """
    return origins | ({_ANYWHERE, _DISTANCE} if origins - {_ANYWHERE} else {_ANYWHERE})


def _keeps(name: str, operands: tuple[Operand, ...], found: Mapping[str, _Origins]) -> bool:
    """Whether what is made of a pointer is one, or a pointer and a number added to it."""
    if name == "add":
        return not all(_of((one,), found) for one in operands[1:3])
    return name in _KEEPING and (name != "sub" or not _of(operands[2:3], found))


def _chooses_number(instruction: Instruction, found: Mapping[str, _Origins]) -> bool:
    """Whether an instruction gives one of two sources of which one is a number."""
    name = instruction.opcode.name if instruction.opcode is not None else ""
    return name in _CHOOSING and not all(_of((one,), found) for one in instruction.operands[1:3])


def _is_move(instruction: Instruction) -> bool:
    """Whether words move to or from registers that stand for a variable of one thread."""
    form = instruction.form
    return form.space is Space.PARAM and bool(form.implicit_reads or form.implicit_writes)


def _moved(source: Operand | None, found: Mapping[str, _Origins]) -> _Origins:
    """Where a moved word comes from: from anywhere if it is several words in one."""
    return frozenset({_ANYWHERE}) if source is None else _of((source,), found)


def _of(operands: tuple[Operand, ...], found: Mapping[str, _Origins]) -> _Origins:
    """The origins of operands; the address of a variable is that of no parameter."""
    origins = _NOWHERE
    for leaf in (leaf for operand in operands for leaf in leaves(operand)):
        if isinstance(leaf, Register):
            origins |= found[leaf.name]
        elif isinstance(leaf, SymbolRef):
            origins |= {_ANYWHERE}
    return origins
