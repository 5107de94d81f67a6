"""What instructions do to the contents of registers on one way through a loop body.

What they compute are terms (:mod:`ptxwcet.ir.semantics`), which are read on cases: see
:mod:`ptxwcet.flow.variants.term_cases`.
"""

from __future__ import annotations

from ptxwcet.flow.values.operands import integer_of
from ptxwcet.flow.variants.cases import Case, assumed
from ptxwcet.flow.variants.linear_forms import variable
from ptxwcet.flow.variants.operands import Stepping, predicate_of
from ptxwcet.flow.variants.term_cases import computed
from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.operands import Register
from ptxwcet.ir.operation import operation_of


def step(case: Case, instruction: Instruction, index: int, how: Stepping) -> list[Case]:
    """The cases after an instruction; ``index`` names what it leaves open.

    Cost: linear in its terms for each case.
    """
    guard = instruction.guard
    if guard is None:
        return _executed(case, instruction, index, how)
    predicate = predicate_of(case, Register(guard.register), f"{guard.register}@0")
    done = [
        after
        for split in assumed(case, predicate, not guard.negated)
        for after in _executed(split, instruction, index, how)
    ]
    return done + assumed(case, predicate, guard.negated)


def _executed(case: Case, instruction: Instruction, index: int, how: Stepping) -> list[Case]:
    if not instruction.writes:
        return [case]
    fresh, meaning = f"i{index}", how.meaning(instruction, index)
    if meaning is None:
        return [_opaque(case, instruction, fresh, how)]
    cases = []
    for after, contents in computed(case, meaning, fresh, how):
        for name, content in zip(instruction.writes, contents, strict=True):
            after = after.with_register(name, content)
        cases.append(after)
    return cases


def _opaque(case: Case, instruction: Instruction, fresh: str, how: Stepping) -> Case:
    """The case after an instruction that may write anything, or any number of a narrow type."""
    operation = operation_of(instruction.form)
    narrow = operation.integer if operation.name == "ld" else None
    for place, name in enumerate(instruction.writes):
        content = how.unknown(name, f"{fresh}.{place}")
        if narrow is not None and narrow.bits < how.width(name):
            bounds = integer_of(narrow).interval
            content = variable(f"{fresh}.{place}n")
            case = case.with_range(f"{fresh}.{place}n", bounds)
        case = case.with_register(name, content)
    return case
