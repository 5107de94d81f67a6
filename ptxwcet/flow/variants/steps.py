"""What instructions do to the contents of registers on one way through a loop body.

Sums, differences and products with constants are exact, whatever wraps around. What depends on the
numbers themselves (an order, a quotient, a wider type) is exact where they are known to be in the
type, else any number of the type. Where a decision or a remainder matters a case splits.
"""

from __future__ import annotations

from dataclasses import replace

from ptxwcet.flow.values.integers import integer_type
from ptxwcet.flow.values.operands import PREDICATE, instruction_type
from ptxwcet.flow.variants.cases import (
    Case,
    Compared,
    Content,
    Joined,
    Open,
    Opposite,
    Predicate,
    assumed,
)
from ptxwcet.flow.variants.linear_forms import plus, shifted, times, variable
from ptxwcet.flow.variants.operands import OneStep, Stepping, is_float, predicate_of
from ptxwcet.flow.variants.rules import STEP_RULES
from ptxwcet.ir.kernel import Instruction, Pair, Register

_ORDER: dict[str, tuple[int, int]] = {  # a OP b  <=>  sign * (a - b) + offset >= 0
    "lt": (-1, -1),
    "lo": (-1, -1),
    "le": (-1, 0),
    "ls": (-1, 0),
    "gt": (1, -1),
    "hi": (1, -1),
    "ge": (1, 0),
    "hs": (1, 0),
}
_UNSIGNED_ORDERS = ("lo", "ls", "hi", "hs")


def step(case: Case, instruction: Instruction, index: int, how: Stepping) -> list[Case]:
    """The cases after an instruction; ``index`` names what it leaves open.

    Cost: constant for each case.
    """
    guard = instruction.guard
    if guard is None:
        return _executed(case, instruction, index, how)
    predicate = predicate_of(case, Register(guard.register), f"{guard.register}@0")
    done = [
        after
        for one in assumed(case, predicate, not guard.negated)
        for after in _executed(one, instruction, index, how)
    ]
    return done + assumed(case, predicate, guard.negated)


def _executed(case: Case, instruction: Instruction, index: int, how: Stepping) -> list[Case]:
    writes = [name for name in instruction.writes if name in how.types]
    name = instruction.opcode.name if instruction.opcode is not None else ""
    fresh = f"i{index}"
    if name == "setp":
        return [_setp(_forgotten(case, writes, fresh, how), case, instruction, fresh, how)]
    kind = instruction_type(instruction)
    first = instruction.operands[0] if instruction.operands else None
    rule = STEP_RULES.get(name)
    plain = len(writes) == 1 and isinstance(first, Register) and kind is not None
    if plain and kind is PREDICATE:
        return [case.with_register(writes[0], _of_predicates(case, instruction, name, fresh))]
    if plain and kind is not None and rule is not None and not is_float(instruction):
        step_ = OneStep(instruction, kind, fresh, how)
        return [one.with_register(writes[0], content) for one, content in rule(case, step_)]
    case = _forgotten(case, writes, fresh, how)
    return [_loaded(case, instruction, writes, fresh) if name == "ld" else case]


def _forgotten(case: Case, writes: list[str], fresh: str, how: Stepping) -> Case:
    """The case after an instruction that may write anything."""
    for place, written in enumerate(writes):
        case = case.with_register(written, how.unknown(written, f"{fresh}.{place}"))
    return case


def _loaded(case: Case, instruction: Instruction, writes: list[str], fresh: str) -> Case:
    """A loaded number that is narrower than 32 bits is in the range of its type."""
    kind = integer_type(instruction.modifiers[-1]) if instruction.modifiers else None
    if kind is None or kind.bits > 16:
        return case
    for place, written in enumerate(writes):
        name = f"{fresh}.{place}n"
        case = case.with_range(name, kind.interval).with_register(written, variable(name))
    return case


def _setp(after: Case, case: Case, instruction: Instruction, fresh: str, how: Stepping) -> Case:
    """``after`` is the case behind the instruction as long as nothing is known of its results."""
    kind = instruction_type(instruction)
    words = instruction.modifiers
    target, *sources = instruction.operands
    outcome: Predicate = Open(fresh)
    if kind is not None and kind is not PREDICATE and not is_float(instruction):
        case, outcome = _compared(case, OneStep(instruction, kind, fresh, how))
        after = replace(case, registers={**case.registers, **_changed(after, instruction)})
    results = [outcome, Opposite(outcome)]
    if len(sources) == 3:
        other = predicate_of(case, sources[2], f"{fresh}q")
        if "and" in words or "or" in words:
            results = [Joined(one, other, either="or" in words) for one in results]
        else:
            results = [Open(f"{fresh}x{place}") for place in (0, 1)]
    targets = [target.first, target.second] if isinstance(target, Pair) else [target]
    for place, one in enumerate(targets):
        if isinstance(one, Register):
            after = after.with_register(one.name, results[place])
    return after


def _changed(after: Case, instruction: Instruction) -> dict[str, Content]:
    return {name: after.registers[name] for name in instruction.writes if name in after.registers}


def _compared(case: Case, s: OneStep) -> tuple[Case, Predicate]:
    """The outcome of a comparison; operands that may wrap around are any numbers of the type."""
    operator, kind = s.instruction.modifiers[0], s.kind
    if operator in ("eq", "ne"):
        kinds = [replace(kind, signed=signed) for signed in (s.how.signed, not s.how.signed)]
        fitting_ = [one for one in kinds if s.fits(case, 1, one) and s.fits(case, 2, one)]
        kind = (fitting_ or kinds)[0]
        case, a = s.number(case, 1, kind)
        case, b = s.number(case, 2, kind)
        equal = Compared(plus(a, b, -1), equal=True)
        return case, equal if operator == "eq" else Opposite(equal)
    if operator not in _ORDER:
        return case, Open(s.fresh)
    if operator in _UNSIGNED_ORDERS:
        kind = replace(kind, signed=False)
    sign, offset = _ORDER[operator]
    case, a = s.number(case, 1, kind)
    case, b = s.number(case, 2, kind)
    return case, Compared(shifted(times(plus(a, b, -1), sign), offset), equal=False)


def _of_predicates(case: Case, instruction: Instruction, name: str, fresh: str) -> Predicate:
    sources = [
        predicate_of(case, operand, f"{fresh}q{place}")
        for place, operand in enumerate(instruction.operands[1:])
    ]
    if name in ("and", "or"):
        return Joined(sources[0], sources[1], either=name == "or")
    if name == "not":
        return Opposite(sources[0])
    return sources[0] if name == "mov" else Open(fresh)
