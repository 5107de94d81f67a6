"""What instructions do to the contents of registers on one way through a loop body.

Sums, differences and products with constants are exact, whatever wraps around. What depends on the
numbers themselves (an order, a quotient, a wider type) is exact where they are known to be in the
type, else any number of the type. Where a decision or a remainder matters a case splits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ptxwcet.flow import ranges
from ptxwcet.flow.integers import IntegerType, integer_type
from ptxwcet.flow.linear_forms import Form, plus, shifted, times, variable
from ptxwcet.flow.operands import PREDICATE, instruction_type
from ptxwcet.flow.transfer import register_width
from ptxwcet.flow.values import wrap
from ptxwcet.flow.variant_cases import (
    Case,
    Compared,
    Content,
    Joined,
    Open,
    Opposite,
    Predicate,
    Raw,
    assumed,
    divided,
    exact,
)
from ptxwcet.ir.kernel import Immediate, Instruction, Negated, Operand, Pair, Register

_Cases = list[tuple[Case, Content]]
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
_NOT_RING = frozenset({"sat", "cc", "relu"})


@dataclass(frozen=True, slots=True)
class Stepping:
    """What steps need to know: types of registers, and how bits are read where nothing says."""

    types: Mapping[str, str]
    signed: bool

    def width(self, name: str) -> int:
        """Bits of a register."""
        return register_width(self.types[name])

    def unknown(self, name: str, fresh: str) -> Content:
        """A content of which nothing is known."""
        return Open(fresh) if self.types[name] == "pred" else Raw(fresh)


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


def predicate_of(case: Case, operand: Operand, fresh: str) -> Predicate:
    """The predicate that an operand holds."""
    match operand:
        case Register(name):
            found = case.registers.get(name, Open(f"{name}@0"))
            return Open(fresh) if isinstance(found, (Form, Raw)) else found
        case Negated(inner):
            return Opposite(predicate_of(case, inner, fresh))
        case Immediate(value) if isinstance(value, int):
            return value != 0
        case _:
            return Open(fresh)


def _executed(case: Case, instruction: Instruction, index: int, how: Stepping) -> list[Case]:
    writes = [name for name in instruction.writes if name in how.types]
    name = instruction.opcode.name if instruction.opcode is not None else ""
    fresh = f"i{index}"
    if name == "setp":
        return [_setp(_forgotten(case, writes, fresh, how), case, instruction, fresh, how)]
    kind = instruction_type(instruction)
    first = instruction.operands[0] if instruction.operands else None
    rule = _RULES.get(name)
    plain = len(writes) == 1 and isinstance(first, Register) and kind is not None
    if plain and kind is PREDICATE:
        return [case.with_register(writes[0], _of_predicates(case, instruction, name, fresh))]
    if plain and kind is not None and rule is not None and not _is_float(instruction):
        step_ = _Step(instruction, kind, fresh, how)
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
        case = case.with_range(name, (kind.low, kind.high)).with_register(written, variable(name))
    return case


def _is_float(instruction: Instruction) -> bool:
    return any(word[:1] in "ft" and word[1:].isdigit() for word in instruction.modifiers)


@dataclass(frozen=True, slots=True)
class _Step:
    """An instruction that computes one integer of a type."""

    instruction: Instruction
    kind: IntegerType
    fresh: str
    how: Stepping

    def has(self, *words: str) -> bool:
        """Whether the mnemonic has one of the words."""
        return any(word in self.instruction.modifiers for word in words)

    def content(self, case: Case, place: int) -> Content:
        """The content of a source operand; the first has place 1."""
        match self.instruction.operands[place]:
            case Register(name):
                return case.registers.get(name, Raw(name))
            case Immediate(value) if isinstance(value, int):
                number = wrap(value, 64)
                assert isinstance(number, int)
                return Form(number)
            case _:
                return Raw(f"{self.fresh}?{place}")

    def bits(self, case: Case, place: int) -> tuple[Case, Form]:
        """An operand as some number with its bits."""
        content = self.content(case, place)
        if isinstance(content, Form):
            return case, content
        return self.number(case, place, replace(self.kind, signed=self.how.signed))

    def number(self, case: Case, place: int, kind: IntegerType | None = None) -> tuple[Case, Form]:
        """An operand as a number of the type. Unknown bits are that number from here on."""
        content = self.content(case, place)
        case, form = exact(case, content, kind or self.kind, self.fresh_number(place))
        operand = self.instruction.operands[place]
        if isinstance(content, Raw) and isinstance(operand, Register):
            case = case.with_register(operand.name, form)
        return case, form

    def fresh_number(self, place: int) -> str:
        """The variable for an operand that may be any number of its type."""
        return f"{self.fresh}v{place}"

    def constant(self, case: Case, place: int) -> int | None:
        """An operand that is one number."""
        content = self.content(case, place)
        if isinstance(content, Form) and not content.terms:
            return content.constant
        if isinstance(content, Raw) and content.signed is not None:
            return content.signed[0] if content.signed[0] == content.signed[1] else None
        return None


_Rule = Callable[[Case, _Step], _Cases]


def _copy(case: Case, s: _Step) -> _Cases:
    return [(case, s.content(case, 1))]


def _ring(sign: int) -> _Rule:
    def rule(case: Case, s: _Step) -> _Cases:
        if s.has(*_NOT_RING):
            return [(case, Raw(s.fresh))]
        case, a = s.bits(case, 1)
        case, b = s.bits(case, 2)
        if sign < 0 and _is_lowest(b, a):
            return _cleared(case, a)
        return [(case, plus(a, b, sign))]

    return rule


def _negated(case: Case, s: _Step) -> _Cases:
    case, a = s.bits(case, 1)
    return [(case, times(a, -1))]


def _complement(case: Case, s: _Step) -> _Cases:
    case, a = s.bits(case, 1)
    return [(case, shifted(times(a, -1), -1))]


def _product(case: Case, s: _Step) -> _Cases:
    """``mul`` and the product of ``mad``: exact with a constant factor, else an interval."""
    wide, high = s.has("wide"), s.has("hi")
    for place, other in ((2, 1), (1, 2)):
        factor = s.constant(case, place)
        if factor is None:
            continue
        if wide or high:
            case, factor_form = s.number(case, place)
            case, a = s.number(case, other)
            if factor_form.terms:
                return [(case, Raw(s.fresh))]
            whole = times(a, factor_form.constant)
            return [*divided(case, whole, 1 << s.kind.bits, s.fresh)] if high else [(case, whole)]
        case, a = s.bits(case, other)
        return [(case, times(a, factor))]
    case, a = s.number(case, 1)
    case, b = s.number(case, 2)
    corners = [x * y for x in (case.least(a), case.most(a)) for y in (case.least(b), case.most(b))]
    bounds = min(corners), max(corners)
    if high:
        bounds = bounds[0] >> s.kind.bits, bounds[1] >> s.kind.bits
    elif not wide and (bounds[0] < s.kind.low or bounds[1] > s.kind.high):
        return [(case, Raw(s.fresh))]
    return [(case.with_range(s.fresh, bounds), variable(s.fresh))]


def _product_and_sum(case: Case, s: _Step) -> _Cases:
    if s.has(*_NOT_RING):
        return [(case, Raw(s.fresh))]
    bits = 2 * s.kind.bits if s.has("wide") else s.kind.bits
    summand = _Step(s.instruction, replace(s.kind, bits=bits), s.fresh, s.how)
    found: _Cases = []
    for part, content in _product(case, s):
        part, b = summand.bits(part, 3)
        whole = Raw(s.fresh) if isinstance(content, Raw) else content
        found.append((part, plus(whole, b) if isinstance(whole, Form) else whole))
    return found


def _shift_left(case: Case, s: _Step) -> _Cases:
    amount = s.constant(case, 2)
    if amount is None or amount < 0:
        return [(case, Raw(s.fresh))]
    case, a = s.bits(case, 1)
    return [(case, times(a, 1 << amount) if amount < s.kind.bits else Form(0))]


def _shift_right(case: Case, s: _Step) -> _Cases:
    amount = s.constant(case, 2)
    case, a = s.number(case, 1)
    if amount is None or amount < 0:
        case, n = s.number(case, 2, IntegerType(32, signed=False))
        return _by_interval(case, s, "shr", [a, n])
    return [*divided(case, a, 1 << min(amount, s.kind.bits), s.fresh)]


def _and(case: Case, s: _Step) -> _Cases:
    for place, other in ((2, 1), (1, 2)):
        mask = s.constant(case, place)
        if mask is None:
            continue
        size = (mask + 1) if mask >= 0 else -mask
        if size & (size - 1) == 0:
            case, a = s.bits(case, other)
            multiples = [
                (one, times(quotient, size)) for one, quotient in divided(case, a, size, s.fresh)
            ]
            if mask < 0:
                return [*multiples]
            return [(one, plus(_again(one, s, other), part, -1)) for one, part in multiples]
    case, a = s.bits(case, 1)
    case, b = s.bits(case, 2)
    if plus(a, b, -1) in (Form(1), Form(-1)):  # x & (x - 1)
        return _cleared(case, a if plus(a, b, -1) == Form(1) else b)
    if plus(a, b) == Form(0) and a.constant == 0 and _is_unit(a):  # x & -x
        return _lowest(case, a.terms[0][0], s.kind.bits)
    case, forms = _numbers(case, s)
    return _no_more_than(case, s, "and", forms, forms)


def _xor(case: Case, s: _Step) -> _Cases:
    case, a = s.bits(case, 1)
    case, b = s.bits(case, 2)
    for bit, number in ((a, b), (b, a)):
        if _is_lowest(bit, number):
            return _cleared(case, number)
    case, forms = _numbers(case, s)
    return _by_interval(case, s, "xor", forms)


def _lowest(case: Case, name: str, bits: int) -> _Cases:
    """The lowest bit of a variable: at least 1 and at most the number, unless that is 0."""
    number, bit = variable(name), f"lowest({name})"
    is_positive = case.least(number) >= 1
    case = case.with_range(bit, (int(is_positive), 1 << bits - 1))
    if is_positive:
        case = replace(case, facts=(*case.facts, plus(number, variable(bit), -1)))
    return [(case, variable(bit))]


def _again(case: Case, s: _Step, place: int) -> Form:
    """An operand that has been read as bits, with what was put for its variables since."""
    _, form = s.bits(case, place)
    return form


def _is_unit(form: Form) -> bool:
    """Whether a form has one variable, once."""
    return len(form.terms) == 1 and abs(form.terms[0][1]) == 1


def _is_lowest(bit: Form, number: Form) -> bool:
    """Whether a form is the lowest bit of a number that is one variable."""
    names = [name for name, c in number.terms if c == 1]
    return number.constant == 0 and bit in [variable(f"lowest({name})") for name in names]


def _cleared(case: Case, a: Form) -> _Cases:
    """``a`` without its lowest bit: another number of which only the order to ``a`` is known."""
    if a.constant or not _is_unit(a) or a.terms[0][1] != 1 or case.least(a) < 0:
        return [(case, Raw(f"cleared{a}"))]
    name = f"cleared({a.terms[0][0]})"
    case = case.with_range(name, (0, case.most(a)))
    return [(case, variable(name))]


def _numbers(case: Case, s: _Step) -> tuple[Case, list[Form]]:
    forms = []
    for place in range(1, len(s.instruction.operands)):
        case, form = s.number(case, place)
        forms.append(form)
    return case, forms


def _by_interval(case: Case, s: _Step, name: str, forms: list[Form]) -> _Cases:
    """A result of which only an interval is known, from the intervals of its operands."""
    intervals = [ranges.Interval(case.least(form), case.most(form)) for form in forms]
    found = ranges.RULES[name](s.kind, intervals)
    if found is None:
        return [(case, Raw(s.fresh))]
    return [(case.with_range(s.fresh, (found.low, found.high)), variable(s.fresh))]


def _no_more_than(case: Case, s: _Step, name: str, forms: list[Form], most: list[Form]) -> _Cases:
    """The same for a result that is at most each of ``most`` that is not negative."""
    ((part, content),) = _by_interval(case, s, name, forms)
    if isinstance(content, Form):
        above = tuple(plus(form, content, -1) for form in most if part.least(form) >= 0)
        part = replace(part, facts=(*part.facts, *above))
    return [(part, content)]


def _interval(name: str) -> _Rule:
    def rule(case: Case, s: _Step) -> _Cases:
        if name == "bfe":
            case, a = s.number(case, 1)
            case, start = s.number(case, 2, IntegerType(32, signed=False))
            case, length = s.number(case, 3, IntegerType(32, signed=False))
            return _by_interval(case, s, name, [a, start, length])
        case, forms = _numbers(case, s)
        return _by_interval(case, s, name, forms)

    return rule


def _extremum(largest: bool) -> _Rule:
    def rule(case: Case, s: _Step) -> _Cases:
        if s.has(*_NOT_RING) or len(s.instruction.operands) != 3:
            return [(case, Raw(s.fresh))]
        case, a = s.number(case, 1)
        case, b = s.number(case, 2)
        first = Compared(plus(a, b, -1) if largest else plus(b, a, -1), equal=False)
        return [
            (one, a if truth else b)
            for truth in (True, False)
            for one in assumed(case, first, truth)
        ]

    return rule


def _absolute(case: Case, s: _Step) -> _Cases:
    case, a = s.number(case, 1)
    if case.least(a) <= s.kind.low:
        return [(case, Raw(s.fresh))]
    positive = Compared(a, equal=False)
    return [
        (one, a if truth else times(a, -1))
        for truth in (True, False)
        for one in assumed(case, positive, truth)
    ]


def _select(case: Case, s: _Step) -> _Cases:
    predicate = predicate_of(case, s.instruction.operands[3], f"{s.fresh}p")
    return [
        (one, s.content(one, 1 if truth else 2))
        for truth in (True, False)
        for one in assumed(case, predicate, truth)
    ]


def _quotient(remainder: bool) -> _Rule:
    def rule(case: Case, s: _Step) -> _Cases:
        case, a = s.number(case, 1)
        case, b = s.number(case, 2)
        if not b.terms and b.constant > 0 and case.least(a) >= 0:
            found = divided(case, a, b.constant, s.fresh)
            if not remainder:
                return [*found]
            return [
                (one, plus(s.number(one, 1)[1], quotient, -b.constant)) for one, quotient in found
            ]
        pure = all(form in (variable(form.terms[0][0]),) for form in (a, b) if form.terms)
        if remainder and pure and a.terms and b.terms and not case.least(b) <= 0 <= case.most(b):
            name = f"rem({a.terms[0][0]},{b.terms[0][0]})"
            most = max(abs(case.least(b)), abs(case.most(b))) - 1
            low = 0 if case.least(a) >= 0 else -most
            return [(case.with_range(name, (low, most)), variable(name))]
        if remainder:
            return _no_more_than(case, s, "rem", [a, b], [a, b])
        return _no_more_than(case, s, "div", [a, b], [a])

    return rule


def _converted(case: Case, s: _Step) -> _Cases:
    kinds = [t for t in map(integer_type, s.instruction.modifiers) if t is not None]
    written = s.instruction.writes[0]
    if len(kinds) != 2 or s.has("sat"):
        return [(case, Raw(s.fresh))]
    target, source = kinds
    read = source if target.bits > source.bits else replace(target, signed=target.signed)
    if target.bits <= source.bits and s.how.width(written) == target.bits:
        content = s.content(case, 1)
        if isinstance(content, Form) or target.bits == source.bits:
            return [(case, content)]
        return [s.number(case, 1, source)]
    return [s.number(case, 1, read)]


def _setp(after: Case, case: Case, instruction: Instruction, fresh: str, how: Stepping) -> Case:
    """``after`` is the case behind the instruction as long as nothing is known of its results."""
    kind = instruction_type(instruction)
    words = instruction.modifiers
    target, *sources = instruction.operands
    outcome: Predicate = Open(fresh)
    if kind is not None and kind is not PREDICATE and not _is_float(instruction):
        case, outcome = _compared(case, _Step(instruction, kind, fresh, how))
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


def _compared(case: Case, s: _Step) -> tuple[Case, Predicate]:
    """The outcome of a comparison; operands that may wrap around are any numbers of the type."""
    operator, kind = s.instruction.modifiers[0], s.kind
    if operator in ("eq", "ne"):
        for signed in (s.how.signed, not s.how.signed):
            one, a = s.number(case, 1, replace(kind, signed=signed))
            one, b = s.number(one, 2, replace(kind, signed=signed))
            if s.fresh_number(1) not in one.ranges and s.fresh_number(2) not in one.ranges:
                break
        equal = Compared(plus(a, b, -1), equal=True)
        return one, equal if operator == "eq" else Opposite(equal)
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


_RULES: dict[str, _Rule] = {
    "mov": _copy,
    "add": _ring(1),
    "sub": _ring(-1),
    "neg": _negated,
    "not": _complement,
    "mul": _product,
    "mad": _product_and_sum,
    "shl": _shift_left,
    "shr": _shift_right,
    "and": _and,
    "or": _interval("or"),
    "xor": _xor,
    "min": _extremum(False),
    "max": _extremum(True),
    "abs": _absolute,
    "selp": _select,
    "div": _quotient(False),
    "rem": _quotient(True),
    "cvt": _converted,
    "popc": _interval("popc"),
    "clz": _interval("clz"),
    "bfe": _interval("bfe"),
}
