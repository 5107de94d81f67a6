"""Transfer functions of loads and stores whose values can be known.

Loads from kernel parameters and ``.const`` variables find what the launch fixes
(:mod:`ptxwcet.flow.values.lane_state`); loads from and stores to ``.param`` variables of a body
read and write the registers that stand for them (:mod:`ptxwcet.flow.paths.call_variables`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ptxwcet.flow.values import integers, ranges
from ptxwcet.flow.values.accesses import Access, access_of, slot_name, targets_of, variable_moves
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.lane_state import LaneState
from ptxwcet.flow.values.operands import Transfer
from ptxwcet.flow.values.regions import Wavers
from ptxwcet.flow.values.value import (
    Cause,
    CauseKind,
    Known,
    Mask,
    Unknown,
    Value,
    combine,
    scale_by,
    wrap,
)
from ptxwcet.ir.kernel import Immediate, Instruction, Operand, Register, Space, SymbolRef

_ADDRESS_BITS = 64


_Read = Callable[[LaneState, int], Value | None]


def is_followed(instruction: Instruction) -> bool:
    """Whether what a load or store writes depends on the registers that it reads."""
    return _followed(instruction) is not None


def _followed(instruction: Instruction) -> Access | None:
    access = access_of(instruction)
    if access is None or access.space not in (Space.CONST, Space.PARAM):
        return None
    if access.kind is None and access.bits <= _ADDRESS_BITS:  # the bits of a floating-point number
        return replace(access, kind=IntegerType(access.bits, signed=False))
    return None if access.kind is None else access


def memory_transfer(
    instruction: Instruction, cause: Cause, widths: Mapping[str, int]
) -> Transfer | None:
    """The transfer function of ``ld`` or ``st``; None if nothing can be known of what it writes.

    ``cause`` says why what is loaded is not known; ``widths`` are those of the registers written.
    """
    access = _followed(instruction)
    if access is None:
        return None
    if instruction.form.write_slots:
        return _load(instruction, access, cause, widths)
    return _store(instruction, access.kind, cause)


def _load(
    instruction: Instruction, access: Access, cause: Cause, widths: Mapping[str, int]
) -> Transfer:
    kind = access.kind
    assert kind is not None
    targets = {name: offset for offset, name in targets_of(access)}
    places = [(targets[name], widths[name]) for name in instruction.writes]
    read = _reader(access, kind, frozenset(instruction.form.implicit_reads))
    unknown = Unknown(frozenset({cause}))

    def transfer(state: LaneState) -> tuple[Value, ...]:
        contents = [(read(state, offset), width) for offset, width in places]
        return tuple(
            extended(unknown if value is None else value, kind, width, state.active)
            for value, width in contents
        )

    return transfer


def _reader(access: Access, kind: IntegerType, slots: frozenset[str]) -> _Read:
    """The function that reads an element, given the state and its offset."""
    space, base = access.space, access.base
    if isinstance(base, SymbolRef):
        name = base.name
        if slots:
            return lambda state, offset: state.register(slot_name(name, offset, kind.bits))
        if space is Space.PARAM:
            return lambda state, offset: state.parameter(name, offset, kind)
        return lambda state, offset: (
            state.constant(name, offset, kind)
            or _loaded(state, _address(state, base, offset), space, kind)
        )
    return lambda state, offset: _loaded(state, _address(state, base, offset), space, kind)


def _address(state: LaneState, base: SymbolRef | Register, offset: int) -> Value | None:
    start = state.register(base.name) if isinstance(base, Register) else state.address(base.name)
    if isinstance(start, Known):
        return combine(start, Known(offset), 1, _ADDRESS_BITS)
    return start


def _loaded(
    state: LaneState, address: Value | None, space: Space, kind: IntegerType
) -> Value | None:
    """A word at an address; if the address is not known, neither is the word, for that reason."""
    if not isinstance(address, Known):
        return address
    found = state.load(space, address, kind)
    if found is not None or all(symbol.fixed for symbol in address.terms):
        return found
    moving = Cause(CauseKind.NOT_AFFINE, f"ld.{space.value}")
    return Unknown(integers.causes_of(address.terms) | {moving})


def _store(instruction: Instruction, kind: IntegerType | None, cause: Cause) -> Transfer:
    """Registers that stand for just the bytes of an element receive it; others are not known."""
    assert kind is not None
    bits = kind.bits
    moves = variable_moves(instruction)
    unknown = Unknown(frozenset({cause}))
    written = [moves.get(name) for name in instruction.writes]

    def transfer(state: LaneState) -> tuple[Value, ...]:
        return tuple(
            unknown if source is None else _stored(state, source, bits, unknown)
            for source in written
        )

    return transfer


def _stored(state: LaneState, source: Operand, bits: int, unknown: Unknown) -> Value:
    if isinstance(source, Immediate) and isinstance(source.value, int):
        return Known(wrap(source.value, bits))
    if not isinstance(source, Register):
        return unknown
    value = state.register(source.name)
    return scale_by(value, 1, bits) if isinstance(value, Known) else value


def extended(value: Value, kind: IntegerType, width: int, active: Mask) -> Value:
    """A value of a type in a register: with its sign or zeros in front, where that is wider."""
    if width <= kind.bits:
        return value
    if isinstance(value, Known):
        try:
            return integers.from_exact(integers.as_exact(value, kind, active), width)
        except Wavers:
            value = Unknown(integers.causes_of(value.terms))
    return of_type(kind, width, value.causes)


def of_type(kind: IntegerType, width: int, causes: frozenset[Cause]) -> Value:
    """Any value of a type, in a wider register."""
    return ranges.bounded(kind.interval, width, causes)
