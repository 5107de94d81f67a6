"""Terms on cases: each part is computed from those below it, by the rule of its operator.

What is computed and not used yet is on the case's stack, so that what is put for a variable is put
there, too. A choice splits a case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ptxwcet.flow.variants.cases import Case, Content, Raw, assumed
from ptxwcet.flow.variants.linear_forms import Form
from ptxwcet.flow.variants.operands import Stepping
from ptxwcet.flow.variants.parts import Operands, Part, leaf, unknown
from ptxwcet.flow.variants.term_rules import RULES, RULES_OF_PREDICATES, Cases, by_interval
from ptxwcet.ir.semantics import Meaning
from ptxwcet.ir.terms import Op, Term

_MOST_PARTS = 60
"""Parts of a term, as often as they occur; of larger ones nothing is known."""


def computed(
    case: Case, meaning: Meaning, fresh: str, how: Stepping
) -> Iterator[tuple[Case, tuple[Content, ...]]]:
    """The cases behind an instruction, with the contents of the registers that it writes.

    ``fresh`` names what it leaves open. Cost: linear in the parts of its terms for each case.
    """
    reader = _Reader(Operands(meaning.sources, how))
    cases, base = [case], len(case.stack)
    for place, root in enumerate(meaning.results):
        name = f"{fresh}.{place}" if place else fresh
        cases = [after for one in cases for after in reader.pushed(one, root, name)]
    for final in cases:
        yield final.with_stack(final.stack[:base]), final.stack[base:]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads terms over the operands of an instruction."""

    operands: Operands

    def pushed(self, case: Case, term: Term, name: str) -> list[Case]:
        """The cases with what a term is on top of what is computed already."""
        found = (
            self.contents(case, term, name) if _is_small(term) else [(case, unknown(term, name))]
        )
        return [one.with_stack((*one.stack, content)) for one, content in found]

    def contents(self, case: Case, term: Term, name: str) -> Cases:
        """What a term is, case by case; ``name`` is for what it leaves open."""
        if not term.args:
            return [(case, leaf(self.operands, case, term, name))]
        if term.op is Op.ITE:
            return self._chosen(case, term, name)
        base, cases = len(case.stack), [case]
        slots: list[int | None] = []
        for place, argument in enumerate(term.args):
            slots.append(base + sum(slot is not None for slot in slots) if argument.args else None)
            if argument.args:
                below = f"{name}.{place}"
                cases = [
                    now.with_stack((*now.stack, content))
                    for before in cases
                    for now, content in self.contents(before, argument, below)
                ]
        rule = (RULES_OF_PREDICATES if term.args[0].width == 1 else RULES).get(term.op, by_interval)
        part = Part(self.operands, term, name, tuple(slots))
        return [
            (after.with_stack(after.stack[:base]), content)
            for before in cases
            for after, content in rule(before, part)
        ]

    def _chosen(self, case: Case, term: Term, name: str) -> Cases:
        """One side where the condition holds, the other where it does not."""
        condition, *sides = term.args
        found: Cases = []
        for one, predicate in self.contents(case, condition, f"{name}.0"):
            assert not isinstance(predicate, (Form, Raw))
            for truth, side, place in zip((True, False), sides, (1, 2), strict=True):
                for part in assumed(one, predicate, truth):
                    found += self.contents(part, side, f"{name}.{place}")
        return found


def _is_small(term: Term) -> bool:
    """Whether a term has few parts, counted as often as they occur."""
    pending, count = [term], 0
    while pending and count <= _MOST_PARTS:
        count += 1
        pending += pending.pop().args
    return count <= _MOST_PARTS
