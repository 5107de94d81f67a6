"""Which measures of a loop are tried: what its exits compare."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.operands import PREDICATE, instruction_type
from ptxwcet.flow.values.value import wrap
from ptxwcet.flow.variants.regions import Region
from ptxwcet.ir.kernel import Immediate, Instruction, Operand, Register
from ptxwcet.support.records import dataclass

_DEEPEST = 6
_MOST_MEASURES = 16
_MOST_SUMS = 24
_MOST_TERMS = 4
_UNSIGNED_ORDERS = ("lo", "ls", "hi", "hs")


@dataclass(frozen=True, slots=True)
class Measure:
    """``sum(coefficient * register) + constant`` with registers read as numbers of a type.

    ``groups`` are the registers that are compared with each other, if that is not all of them.
    """

    terms: tuple[tuple[str, int], ...]
    constant: int
    kind: IntegerType
    groups: tuple[tuple[str, ...], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Its registers."""
        return tuple(name for name, _ in self.terms)

    @property
    def text(self) -> str:
        """As people write it."""
        parts: list[str] = []
        for name, c in self.terms:
            sign = "-" if c < 0 else "+" if parts else ""
            factor = "" if abs(c) == 1 else f"{abs(c)} "
            parts.append(f"{sign} {factor}{name}".strip() if parts else f"{sign}{factor}{name}")
        if self.constant:
            parts.append(f"{'-' if self.constant < 0 else '+'} {abs(self.constant)}")
        return " ".join(parts)

    def plus(self, other: Measure, scale: int = 1) -> Measure | None:
        """The sum of two measures of one type; None if nothing is left of it, or too much."""
        if other.kind != self.kind:
            return None
        terms = dict(self.terms)
        for name, c in other.terms:
            terms[name] = terms.get(name, 0) + scale * c
        kept = tuple(sorted((name, c) for name, c in terms.items() if c))
        if not kept or len(kept) > _MOST_TERMS:
            return None
        return Measure(kept, self.constant + scale * other.constant, self.kind)

    def parts(self) -> tuple[Measure, ...]:
        """Its registers, one by one."""
        return tuple(Measure(((name, 1),), 0, self.kind) for name, _ in self.terms)


def measures(body: Region) -> tuple[Measure, ...]:
    """The differences that tests in the body compare with 0, and the registers themselves.

    Cost: linear in the body.
    """
    candidates: dict[Measure, None] = {}
    definitions = _definitions(body)
    graph = body.graph
    for block in body.order:
        for index in range(graph.cfg.blocks[block].start, graph.cfg.blocks[block].end):
            instruction = graph.kernel.instructions[index]
            if instruction.opcode is None or instruction.opcode.name != "setp":
                continue
            if not body.relevant.isdisjoint(instruction.writes):
                candidates.update(dict.fromkeys(_compared(body, instruction, definitions)))
    for name, equal in relations(body):
        for measure in list(candidates):
            substituted = _put(measure, name, equal)
            if substituted is not None:
                candidates[substituted] = None
    for measure in list(candidates):
        for part in measure.parts():
            if part.terms[0][0] in body.carried:
                candidates[part] = None
                candidates[replace(part, kind=replace(part.kind, signed=False))] = None
    return tuple(candidates)[:_MOST_MEASURES]


def _put(measure: Measure, name: str, equal: Measure) -> Measure | None:
    """A measure with a sum in the place of a register."""
    c = dict(measure.terms).get(name, 0)
    rest = replace(measure, terms=tuple(row for row in measure.terms if row[0] != name))
    return rest.plus(equal, c) if c else None


def relations(body: Region) -> tuple[tuple[str, Measure], ...]:
    """Carried registers that an iteration sets to a sum or difference of other carried ones.

    Compilers keep ``hi - lo`` beside ``hi`` and ``lo``. Whether it holds is to be proved. Found
    once.
    """
    known = body.found[_Relations]
    if known.all is None:
        known.all = _relations(body)
    return known.all


@dataclass(slots=True)
class _Relations:
    """Those of a region, once they are asked for."""

    all: tuple[tuple[str, Measure], ...] | None = None


def _relations(body: Region) -> tuple[tuple[str, Measure], ...]:
    equalities = []
    definitions = _definitions(body)
    for name in sorted(body.carried):
        makers = definitions[name]
        opcode = makers[0].opcode
        if len(makers) != 1 or opcode is None or opcode.name not in ("add", "sub"):
            continue
        kind = instruction_type(makers[0])
        if kind is None or body.stepping(signed=True).width(name) != kind.bits:
            continue
        kind = replace(kind, signed=True)
        left, right = (
            _linear(body, o, kind, definitions, _DEEPEST) for o in makers[0].operands[1:3]
        )
        if left is None or right is None:
            continue
        equal = _sum(left, _small(right), 1 if opcode.name == "add" else -1)
        if equal is not None and name not in equal.names and len(equal.names) > 1:
            equalities.append((name, equal))
    return tuple(equalities)


def gaps(body: Region) -> tuple[Measure, ...]:
    """The amounts by which relations fail: 0 where they hold."""
    found = [gap(one) for one in relations(body)]
    return tuple(one for one in found if one is not None)


def gap(relation: tuple[str, Measure]) -> Measure | None:
    """The sum that a register is to be, less the register."""
    name, equal = relation
    return equal.plus(Measure(((name, 1),), 0, equal.kind), -1)


def sums(singles: tuple[Measure, ...]) -> tuple[Measure, ...]:
    """The sums of two measures of one type."""
    found: dict[Measure, None] = {}
    for one, two in combinations(singles, 2):
        together = one.plus(two)
        if together is not None and together not in singles:
            found[replace(together, groups=(one.names, two.names))] = None
    return tuple(found)[:_MOST_SUMS]


def _definitions(body: Region) -> dict[str, list[Instruction]]:
    """The instructions of the body that write each register."""
    found: dict[str, list[Instruction]] = {}
    graph = body.graph
    for block in sorted(body.blocks):
        for index in range(graph.cfg.blocks[block].start, graph.cfg.blocks[block].end):
            instruction = graph.kernel.instructions[index]
            for name in instruction.writes:
                found.setdefault(name, []).append(instruction)
    return found


def _compared(
    body: Region, instruction: Instruction, definitions: dict[str, list[Instruction]]
) -> list[Measure]:
    """The difference that decides a comparison, positive where it holds; both where either may."""
    kind = instruction_type(instruction)
    if kind is None or kind is PREDICATE:
        return []
    operator = instruction.modifiers[0]
    if operator in _UNSIGNED_ORDERS:
        kind = replace(kind, signed=False)
    differences = []
    is_equality = operator in ("eq", "ne")
    for signed in (True, False) if is_equality else (kind.signed,):
        numbers = replace(kind, signed=signed)
        sides = [
            _linear(body, operand, numbers, definitions, _DEEPEST)
            for operand in instruction.operands[1:3]
        ]
        left, right = sides
        if left is None or right is None:
            continue
        down = _difference(left, right)
        up = _difference(right, left)
        for measure in (down, up):
            if measure is not None and any(name in body.carried for name, _ in measure.terms):
                differences.append(measure)
    return differences


def _difference(one: Measure, two: Measure) -> Measure | None:
    return one.plus(two, -1)


def _linear(
    body: Region,
    operand: Operand,
    kind: IntegerType,
    definitions: dict[str, list[Instruction]],
    deepest: int,
) -> Measure | None:
    """An operand as a sum of registers that the header or the code before the loop knows."""
    if isinstance(operand, Immediate) and isinstance(operand.value, int):
        number = wrap(operand.value, kind.bits)
        assert isinstance(number, int)
        return Measure((), number if kind.signed else number % (1 << kind.bits), kind)
    if not isinstance(operand, Register):
        return None
    name = operand.name
    if body.stepping(signed=True).width(name) != kind.bits:
        return None
    if name in body.carried or name not in body.written:
        return Measure(((name, 1),), 0, kind)
    makers = definitions[name]
    if deepest == 0:
        return None
    if len(makers) == 1 and makers[0].guard is None:
        (maker,) = makers
        opcode = maker.opcode.name if maker.opcode is not None else ""
        sources = [
            _linear(body, source, kind, definitions, deepest - 1) for source in maker.operands[1:3]
        ]
        if opcode == "mov" and len(sources) == 1 and sources[0] is not None:
            return sources[0]
        if opcode in ("add", "sub") and len(sources) == 2:
            left, right = sources
            if left is not None and right is not None:
                signed_right = _small(right)
                return _sum(left, signed_right, 1 if opcode == "add" else -1)
    passed = _passed_on(body, name, definitions)
    return None if passed is None else Measure(((passed, 1),), 0, kind)


def _passed_on(body: Region, name: str, definitions: dict[str, list[Instruction]]) -> str | None:
    """The register by which an iteration passes on what ``name`` holds, if one is a copy of it."""
    for carried in sorted(body.carried):
        maker, *others = definitions[carried]
        if not others and _name(maker) == "mov" and name in maker.reads:
            return carried
    return None


def _name(instruction: Instruction) -> str:
    return "" if instruction.opcode is None else instruction.opcode.name


def _small(measure: Measure) -> Measure:
    """A constant near 0: what is added to an unsigned number may be the opposite of another."""
    if measure.terms:
        return measure
    number = wrap(measure.constant, measure.kind.bits)
    assert isinstance(number, int)
    return replace(measure, constant=number)


def _sum(one: Measure, two: Measure, sign: int) -> Measure | None:
    if not one.terms and not two.terms:
        return replace(one, constant=one.constant + sign * two.constant)
    return one.plus(two, sign)
