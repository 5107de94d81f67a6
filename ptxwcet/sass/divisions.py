"""Recognises quotients and remainders of 32 bits, which machine code computes by a reciprocal.

For ``n / d`` the vendor's compiler takes ``x``, which is ``2**32 / d`` from the special function
unit, less two units in its last place and truncated; improves it to ``y = x + (x * e >> 32)`` with
``e = -d * x`` modulo 2**32; and gets ``q = y * n >> 32``, which is ``n / d`` or one or two less.
``r = n - q * d`` shows the difference: where it is not below ``d``, ``q`` is incremented and ``r``
reduced by ``d``, twice. If ``d`` is 0 another number is chosen.

**That q is n // d - c, with c of 0, 1 or 2, for each d but 0.** MUFU.RCP is off by one unit in the
last place at most (the vendor of ``rcp.approx.ftz.f32``), and I2F.RP rounds up, so that two units
less are below ``1 / d``, and ``x = 2**32 / d * (1 - t)`` with ``0 <= t <= 2**-21 + d / 2**32``: the
second is the truncation. If x is 0, as of a d that a signed I2F takes for a number below 0, so are
y and q, and d is 2**31 or more, and ``n // d`` at most 1. If not, e is ``2**32 - d * x``, since
``0 < d * x < 2**32``, which is ``2**32 * t``, so that y is ``2**32 / d * (1 - t * t)`` or less by
less than 1: never above ``2**32 / d``, and q never above ``n / d``. For d of 2**31 or more ``n //
d`` is at most 1. For others ``2**32 / d * t * t <= 2**-10 / d + 2**-20 + d / 2**32``, which is
below 0.6, so that ``n / d - n * y / 2**32 < 1.6`` and q, rounded down, is less than ``n / d`` by
less than 3: c is 2 at most. ``r = R + c * d`` for the remainder R, and ``r <= n``: it does not wrap
around.

The following is computed for each of the three c, on polynomials in ``n // d``, ``n % d`` and
``d``: a register that is the first or the second in all three is the quotient or the remainder from
there on, in any order of the instructions. An added instruction of PTX after it states this.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from ptxwcet.flow.graph.cfg import BlockId, build_cfg
from ptxwcet.flow.graph.dominance import compute_dominators
from ptxwcet.ir.building import instruction_of
from ptxwcet.ir.kernel import Encoded, Instruction, Kernel
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.ir.operands import (
    Element,
    Immediate,
    Operand,
    Register,
    SpecialRegister,
    SymbolRef,
)
from ptxwcet.ir.semantics import meaning_of
from ptxwcet.ir.terms import Op, Term, const, fold, source, term
from ptxwcet.sass.meanings import BANK, LAUNCH
from ptxwcet.sass.pairs import WORD, place_of

_BITS = 32
_DEEPEST = 40
"""The most steps to a number before it becomes a leaf of its own."""
_UNITS = 0x0FFFFFFE
"""The addition to the bits of a float: 2**32 times as much, and two units less."""
_OFF_BY = (0, 1, 2)
_FIXED = ("%tid.", "%ntid.", "%ctaid.", "%nctaid.")
"""The special registers that are constant while a thread runs."""


def with_divisions(kernel: Kernel) -> Kernel:
    """Returns the kernel, with separate registers, in which recognised quotients are stated.

    Cost: linear in the kernel.
    """
    if not any(_is_conversion(i) for i in kernel.instructions):
        return kernel
    added = list(_Divisions(kernel).found())
    return _with_behind(kernel, dict(added)) if added else kernel


def _is_conversion(instruction: Instruction) -> bool:
    return instruction.mnemonic == "F2I.FTZ.U32.TRUNC.NTZ"


def _with_behind(kernel: Kernel, behind: dict[int, Instruction]) -> Kernel:
    """Returns the kernel with an instruction added after some of its instructions."""
    code = kernel.code
    assert code is not None
    counts = [1 + (index in behind) for index in range(len(kernel.instructions))]
    places = [0, *accumulate(counts)]
    made, encoded, added = list[Instruction](), list[Encoded](), set[int]()
    for index, instruction in enumerate(kernel.instructions):
        if index in code.added:
            added.add(len(made))
        made.append(instruction)
        encoded.append(code.encoded[index])
        if index in behind:
            added.add(len(made))
            made.append(behind[index])
            encoded.append(code.encoded[index])
    return replace(
        kernel,
        instructions=tuple(made),
        labels={name: places[index] for name, index in kernel.labels.items()},
        body=tuple((places[index], item) for index, item in kernel.body),
        code=replace(code, encoded=tuple(encoded), added=frozenset(added)),
    )


class _Divisions:
    """A walk of the blocks with the contents of registers, as terms over unknown leaves.

    A register with a single writer, in a dominating block, holds its last value: nothing that
    dominates the writer has been executed since.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._cfg = build_cfg(kernel)
        self._dominators = compute_dominators(self._cfg)
        self._writers: dict[str, int] = defaultdict(int)
        for i in kernel.instructions:
            for name in i.writes:
                self._writers[name] += 1
        self._leaves: dict[Hashable, Term] = {}
        self._specials: dict[Term, SpecialRegister] = {}
        self._heights: dict[Term, int] = {}
        self._once: dict[str, tuple[BlockId, Term]] = {}  # by which block
        self._now: dict[str, Term] = {}
        self._block = self._cfg.entry
        # Values computed from d, with a register that held it: its float, the inverse of that, x,
        # y; and for q also n.
        self._floats: dict[Term, tuple[Term, str]] = {}
        self._inverses: dict[Term, tuple[Term, str]] = {}
        self._cut: dict[Term, tuple[Term, str]] = {}
        self._better: dict[Term, tuple[Term, str]] = {}
        self._quotients: dict[Term, tuple[Term, Term, str]] = {}

    def found(self) -> Iterator[tuple[int, Instruction]]:
        """Yields the instructions that state quotients, by the instruction that they follow."""
        for block in self._cfg.reverse_postorder:
            bounds, self._block, self._now = self._cfg.blocks[block], block, {}
            begun: list[_Begun] = []
            for index in range(bounds.start, bounds.end):
                instruction = self._kernel.instructions[index]
                values = self._step(index, instruction)
                for quotient in begun:
                    quotient.names.update(instruction.reads)
                    stated = self._said(instruction, values, quotient)
                    if stated is not None:
                        yield index, stated
                begun += [new for value in values for new in self._begun(instruction, value)]
            for name, value in self._now.items():
                if self._writers[name] == 1:
                    self._once[name] = block, value

    # --- contents of registers

    def _leaf(self, key: Hashable, width: int) -> Term:
        if key not in self._leaves:
            self._leaves[key] = source(len(self._leaves), width)
        return self._leaves[key]

    def _width(self, name: str) -> int:
        kind = self._kernel.registers.get(name, "pred")
        return 1 if kind == "pred" or not kind[1:].isdigit() else int(kind[1:])

    def _held(self, name: str) -> Term:
        """Returns the current value of a register."""
        if name in self._now:
            return self._now[name]
        block, value = self._once.get(name, (self._block, None))
        if value is not None and self._dominators.dominates(block, self._block):
            return value
        return self._leaf((name, self._block), self._width(name))

    def _source(self, operand: Operand) -> Term | None:
        """Returns the current value of an operand; None for an operand that may change."""
        match operand:
            case Register(name):
                return self._held(name)
            case SpecialRegister(name) if name.startswith(_FIXED):
                leaf = self._leaf(operand, operand.bits)
                self._specials[leaf] = operand
                return leaf
        return None

    def _step(self, index: int, instruction: Instruction) -> list[Term]:
        """Executes an instruction and returns its results."""
        writes, guard = instruction.writes, instruction.guard
        results = self._results(index, instruction)
        if guard is not None:
            holds = self._held(guard.register)
            holds = ~holds if guard.negated else holds
            results = [
                holds.choose(result, self._held(name))
                for name, result in zip(writes, results, strict=True)
            ]
        for number, name in enumerate(writes):
            if self._height(results[number]) > _DEEPEST:
                results[number] = self._leaf((index, name), results[number].width)
            self._now[name] = results[number]
        return results

    def _results(self, index: int, instruction: Instruction) -> list[Term]:
        meaning = meaning_of(instruction, self._kernel.registers)
        if meaning is None:
            return self._unknown(index, instruction)
        sources = [self._source(s) for s in meaning.sources]

        def put(node: Term, args: list[Term]) -> Term:
            if node.op is Op.SOURCE:
                held = sources[node.value]
                if held is not None and held.width == node.width:
                    return held
            if node.op in (Op.SOURCE, Op.ANY):
                return self._leaf((index, id(node)), node.width)
            return term(node.op, node.width, tuple(args), node.value) if args else node

        return [self._known(fold(r, put)) for r in meaning.results]

    def _unknown(self, index: int, instruction: Instruction) -> list[Term]:
        """Returns leaves for results without terms, except for the steps to an inverse."""
        writes, words = instruction.writes, instruction.mnemonic
        if len(writes) == 1 and instruction.guard is None and len(instruction.operands) == 2:
            operand = _word_of(instruction.operands[1])
            value = self._source(operand)
            if value is not None:
                if words in ("I2F.RP", "I2F.U32.RP"):
                    leaf = self._leaf((words, value), _BITS)
                    self._floats[leaf] = (
                        value,
                        operand.name if isinstance(operand, Register) else "",
                    )
                    return [leaf]
                if words == "MUFU.RCP" and value in self._floats:
                    leaf = self._leaf((words, value), _BITS)
                    self._inverses[leaf] = self._floats[value]
                    return [leaf]
                if _is_conversion(instruction):
                    return [self._cut_off(value)]
        return [self._leaf((index, name), self._width(name)) for name in writes]

    def _height(self, root: Term) -> int:
        def above(_: Term, args: list[int]) -> int:
            return 1 + max(args, default=0)

        return fold(root, above, self._heights)

    # --- the steps to a quotient

    def _cut_off(self, value: Term) -> Term:
        """Returns the result of F2I: x, if its argument is an inverse with the right units."""
        leaf = self._leaf(("F2I", value), _BITS)
        for part in value.args if value.op is Op.ADD and const(_UNITS, _BITS) in value.args else ():
            if part in self._inverses:
                self._cut[leaf] = self._inverses[part]
        return leaf

    def _known(self, value: Term) -> Term:
        """Returns a term, or y or q in its place."""
        product = _high_product(value)
        if product is None:
            return value
        *factors, added = product
        for factor, other in (factors, factors[::-1]):
            if added is None and factor in self._better:
                leaf = self._leaf(("q", factor, other), _BITS)
                self._quotients[leaf] = other, *self._better[factor]
                return leaf
            if factor in self._cut and added is factor.above(const(0, _BITS)):
                divisor, name = self._cut[factor]
                memo: dict[Term, _Content] = {divisor: _D, factor: {("x",): 1}}
                if fold(other, _content_if(0), memo) == {_product(("d",), ("x",)): -1 % _SIZE}:
                    leaf = self._leaf(("y", factor), _BITS)
                    self._better[leaf] = divisor, name
                    return leaf
        return value

    def _begun(self, instruction: Instruction, value: Term) -> Iterator[_Begun]:
        """Yields the quotient that an instruction begins, if it does."""
        number, divisor, name = self._quotients.get(value, (value, value, ""))
        if number is not divisor:
            yield _Begun(value, number, divisor, (name, *instruction.reads))

    def _said(
        self, instruction: Instruction, values: Sequence[Term], begun: _Begun
    ) -> Instruction | None:
        """Returns an instruction that states a computed quotient or remainder, if it is one."""
        operands = [self._operand(part, begun) for part in (begun.number, begun.divisor)]
        read = [operand for operand in operands if operand is not None]
        for name, value in zip(instruction.writes, values, strict=True):
            kind = begun.kind(value) if len(read) == len(operands) else None
            if kind is not None:
                place = (instruction.origin, instruction.start, instruction.end)
                made = instruction_of(f"{kind}.u32", [Register(name), *read], place)
                return made._replace(form=replace(made.form, op_class=OpClass.MOVE))
        return None

    def _operand(self, value: Term, begun: _Begun) -> Operand | None:
        """Returns a number, or a register that currently holds it."""
        if value.op is Op.CONST:
            return Immediate(value.value, str(value.value))
        if value in self._specials:
            return self._specials[value]
        held = (name for name in sorted(begun.names) if name and self._held(name) is value)
        first = next(held, None)
        return None if first is None else Register(first)


def _word_of(operand: Operand) -> Operand:
    """Returns a word of a constant bank as the register of its load, or as a special register."""
    match operand:
        case Element(SymbolRef(bank), address) if (place := place_of(address)) is not None:
            special = LAUNCH[place // WORD : place // WORD + 1] if bank == BANK else ()
            return SpecialRegister(*special) if special else Register(f"{bank}[{place:#x}]")
    return operand


def _high_product(value: Term) -> tuple[Term, Term, Term | None] | None:
    """Returns two numbers whose product's upper half a term is, and the addend."""
    if value.op is not Op.EXTRACT or (value.value, value.width) != (_BITS, _BITS):
        return None
    (whole,) = value.args
    added: Term | None = None
    if whole.op is Op.ADD:
        whole, added = whole.args
    if whole.op is not Op.MUL or whole.width != 2 * _BITS:
        return None
    first, other = whole.args
    if first.op is not Op.ZEXT or other.op is not Op.ZEXT:
        return None
    return first.args[0], other.args[0], added


# --- polynomials ----------------------------------------------------------------------------------

_Polynomial = dict[tuple[Hashable, ...], int]
"""The coefficients modulo 2**32, none of them 0, by products of leaves."""
_Content = _Polynomial | bool | None
"""A number of 32 bits, a known bit, or None for unknown contents."""
_SIZE = 1 << _BITS
_MOST_PRODUCTS = 16
_LONGEST = 4
_D: _Polynomial = {("d",): 1}
_QUOTIENT: _Polynomial = {("q",): 1}
_REMAINDER: _Polynomial = {("r",): 1}


class _Begun:
    """A quotient that may be too small. ``names`` may hold the dividend or the divisor."""

    def __init__(self, quotient: Term, number: Term, divisor: Term, names: Iterable[str]) -> None:
        self.number, self.divisor, self.names = number, divisor, set(names)
        self._said: set[Term] = set()
        whole: _Content = {_product(("q",), ("d",)): 1, ("r",): 1}
        self._contents: list[dict[Term, _Content]] = [  # of terms, for each c
            {number: whole, divisor: _D, quotient: _sum(_QUOTIENT, {(): -c}, 1)} for c in _OFF_BY
        ]

    def kind(self, value: Term) -> str | None:
        """Returns the role of a term for each c: ``div``, ``rem`` or neither."""
        if value.width != _BITS or value in self._said:
            return None
        contents = [
            fold(value, _content_if(c), memo)
            for c, memo in zip(_OFF_BY, self._contents, strict=True)
        ]
        for kind, wanted in (("div", _QUOTIENT), ("rem", _REMAINDER)):
            if all(content == wanted for content in contents):
                self._said.add(value)
                return kind
        return None


def _product(left: tuple[Hashable, ...], other: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    return tuple(sorted((*left, *other), key=id))


def _sum(left: _Polynomial, other: _Polynomial, sign: int) -> _Polynomial:
    total = dict(left)
    for key, c in other.items():
        total[key] = (total.get(key, 0) + sign * c) % _SIZE
    return {key: c for key, c in total.items() if c}


def _times(left: _Polynomial, other: _Polynomial) -> _Polynomial:
    total: _Polynomial = {}
    for key, c in left.items():
        part = {_product(key, another): c * factor for another, factor in other.items()}
        total = _sum(total, part, 1)
    return total


def _content_if(c: int) -> Callable[[Term, list[_Content]], _Content]:
    """Returns the contents of terms where a quotient is ``c`` less than the exact one."""

    def content(node: Term, args: list[_Content]) -> _Content:
        if node.width == 1:
            return _truth(node, args, c)
        if node.width != _BITS:
            return None
        number = _number(node, args)
        if (
            number is None
            or len(number) > _MOST_PRODUCTS
            or max(map(len, number), default=0) > _LONGEST
        ):
            return {(node,): 1}
        return number

    return content


def _number(node: Term, args: list[_Content]) -> _Polynomial | None:
    match node.op, args:
        case Op.CONST, _:
            return {(): node.value} if node.value else {}
        case Op.ADD | Op.SUB, [dict(left), dict(other)]:
            return _sum(left, other, 1 if node.op is Op.ADD else -1)
        case Op.MUL, [dict(left), dict(other)]:
            return _times(left, other)
        case Op.NOT, [dict(left)]:
            return _sum({(): _SIZE - 1}, left, -1)
        case Op.ITE, [bool(truth), dict(left), dict(other)]:
            return left if truth else other
        case Op.ITE, [None, dict(left), dict(other)] if left == other:
            return left
    return None


def _truth(node: Term, args: list[_Content], c: int) -> bool | None:
    match node.op, args:
        case Op.CONST, _:
            return bool(node.value)
        case Op.NOT, [bool(own)]:
            return not own
        case Op.AND, [own, other]:
            return False if False in (own, other) else True if own and other else None
        case Op.OR, [own, other]:
            return (
                True if True in (own, other) else False if (own, other) == (False, False) else None
            )
        case Op.EQ, [dict(own), dict(other)]:
            return True if own == other else False if own == _D and not other else None
        case Op.ULT, [dict(own), dict(other)]:
            return _is_less(own, other, c)
    return None


def _is_less(left: _Polynomial, other: _Polynomial, c: int) -> bool | None:
    """Returns whether a number is less than another: the divisor, and the remainder plus 0, 1 or 2
    divisors, which does not wrap around up to c of them.
    """
    if other == _D:
        times = _divisors_above(left)
        return times == 0 if times is not None and times <= c else None
    if left == _D:
        times = _divisors_above(other)
        return times > 1 if times in (0, 2) and times <= c else None
    return None


def _divisors_above(number: _Polynomial) -> int | None:
    """Returns the number of divisors by which a number exceeds the remainder."""
    rest = _sum(number, _REMAINDER, -1)
    return rest.get(("d",), 0) if rest.keys() <= {("d",)} else None
