"""The solver's door: operators against their meaning, and an effort that is the same each time."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from ptxwcet.flow.certificates.passage import simplified
from ptxwcet.flow.certificates.solving import Question, all_of, laws_of
from ptxwcet.flow.effort import Effort, TooMuchEffort
from ptxwcet.ir.terms import Op, Term, const, evaluate, fold, source, term
from ptxwcet.support.smt import Answer, Formula

EFFORT = Effort(10_000_000)
BINARY = (
    Op.ADD, Op.SUB, Op.MUL, Op.UDIV, Op.UREM, Op.SDIV, Op.SREM, Op.AND, Op.OR, Op.XOR,
    Op.SHL, Op.LSHR, Op.ASHR, Op.ULT, Op.SLT, Op.EQ,
)  # fmt: skip


def is_always(one: Term, other: Term) -> bool:
    question = Question()
    question.require(~one.equals(other))
    return question.answer(10_000, EFFORT) is Answer.IMPOSSIBLE


def number_of(one: Term, values: list[int]) -> int:
    """The term's number as the solver computes it."""
    question = Question()
    for place, value in enumerate(values):
        width = 3 if place < 2 else 1
        question.require(source(place, width).equals(value))
    assert question.answer(10_000, EFFORT) is Answer.POSSIBLE
    return question.number(one)


@pytest.mark.parametrize("op", BINARY)
def test_operators_compute_what_terms_mean(op: Op) -> None:
    width = 1 if op in (Op.ULT, Op.SLT, Op.EQ) else 3
    one = term(op, width, (source(0, 3), source(1, 3)))
    for values in product(range(8), (0, 1, 2, 3, 6, 7)):
        assert number_of(one, list(values)) == evaluate(one, values)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 13, 32, 64])
@pytest.mark.parametrize("op", [Op.POPC, Op.CLZ, Op.BREV])
def test_counts_and_turned_words(op: Op, width: int) -> None:
    rng = Random(width)
    one = term(op, width, (source(0, width),))
    for _ in range(12):
        value = rng.getrandbits(width) >> rng.randrange(width)
        question = Question()
        question.require(source(0, width).equals(value))
        assert question.answer(10_000, EFFORT) is Answer.POSSIBLE
        assert question.number(one) == evaluate(one, [value])


@pytest.mark.parametrize("divisor", [*range(1, 16)])
@pytest.mark.parametrize("op", [Op.UDIV, Op.UREM, Op.SDIV, Op.SREM])
def test_divisions_by_constants(op: Op, divisor: int) -> None:
    """Against the division that the solver has of its own, by a variable that is the constant."""
    one = term(op, 4, (source(0, 4), const(divisor, 4)))
    other = term(op, 4, (source(0, 4), source(1, 4)))
    question = Question()
    question.require(source(1, 4).equals(divisor))
    question.require(~one.equals(other))
    assert question.answer(10_000, EFFORT) is Answer.IMPOSSIBLE
    for value in range(16):
        question = Question()
        question.require(source(0, 4).equals(value))
        question.require(one.equals(source(2, 4)))
        assert question.answer(10_000, EFFORT) is Answer.POSSIBLE
        assert question.number(source(2, 4)) == evaluate(one, [value])


def rewritten(root: Term) -> Term:
    return fold(
        root,
        lambda one, args: (
            simplified(term(one.op, one.width, tuple(args), one.value)) if one.args else one
        ),
    )


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("bits", [4, 5, 8])
def test_products_that_are_quotients(bits: int, signed: bool) -> None:
    """Every factor and every shift: the same number before and after, for all numbers."""
    found = 0
    wide = source(0, bits).extended(2 * bits, signed=signed)
    for factor in range(2, 1 << bits):
        whole = wide * factor
        parts = [whole.shifted_right(by, signed=signed) for by in range(1, 2 * bits)]
        parts += [whole.shifted_right(2 * bits - 1, signed=False)]
        high = whole.part(bits, bits)
        parts += [high, high.shifted_right(bits - 1, signed=False)]
        parts += [high.shifted_right(by, signed=signed) for by in (1, 2, 3)]
        for part in parts:
            other = rewritten(part)
            if other is not part:
                found += 1
                values = range(1 << bits)
                assert all(evaluate(part, [v]) == evaluate(other, [v]) for v in values)
    assert found > bits


@pytest.mark.parametrize(
    ("factor", "by", "divisor"),
    [(0xCCCCCCCD, 35, 10), (0xAAAAAAAB, 33, 3), (0x51EB851F, 37, 100), (0xCCCCCCCD, 34, 5)],
)
def test_unsigned_division_as_compilers_write_it(factor: int, by: int, divisor: int) -> None:
    number = source(0, 32)
    product_ = number.extended(64, signed=False) * factor
    expected = number.divided_by(const(divisor, 32), signed=False)
    assert rewritten(product_.shifted_right(by, signed=False).part(0, 32)) is expected or is_always(
        rewritten(product_.shifted_right(by, signed=False)).part(0, 32), expected
    )
    high = product_.part(32, 32).shifted_right(by - 32, signed=False)
    assert rewritten(high) is expected


def test_signed_division_as_compilers_write_it() -> None:
    number = source(0, 32)
    high = (number.extended(64, signed=True) * 0x66666667).part(32, 32)
    quotient = high.shifted_right(2, signed=True) + high.shifted_right(31, signed=False)
    assert is_always(rewritten(quotient), number.divided_by(const(10, 32), signed=True))


def test_the_effort_of_a_question_is_the_same_each_time() -> None:
    def spent() -> tuple[Answer, int]:
        formula = Formula()
        x, y = formula.variable(16), formula.variable(16)
        square = formula.apply("bvmul", 16, [x, x])
        formula.require(formula.apply("=", 1, [square, formula.apply("bvnot", 16, [y])]))
        formula.require(formula.apply("=", 1, [formula.apply("bvmul", 16, [y, x]), square]))
        return formula.solve(3_000), formula.spent

    assert len({spent() for _ in range(3)}) == 1


def test_a_question_that_is_too_hard_is_given_up() -> None:
    """Factors of a product of two primes of 48 bits that lie near no power of two."""
    formula = Formula()
    x, y = (formula.apply("zero_extend", 96, [formula.variable(48)]) for _ in range(2))
    product_ = formula.apply("bvmul", 96, [x, y])
    formula.require(
        formula.apply("=", 1, [product_, formula.constant(173961102589777 * 202178360937239, 96)])
    )
    one = formula.constant(1, 96)
    formula.require(formula.apply("bvult", 1, [one, x]))
    formula.require(formula.apply("bvult", 1, [one, y]))
    assert formula.solve(200) is Answer.UNKNOWN
    assert formula.spent == 400


def test_a_budget_is_counted_over_questions() -> None:
    with pytest.raises(TooMuchEffort):
        Question().answer(10, Effort(-1))


@pytest.mark.parametrize("operator", [Op.UDIV, Op.SDIV])
@pytest.mark.parametrize("bits", [3, 4])
def test_laws_of_quotients_hold_for_all_small_numbers(operator: Op, bits: int) -> None:
    number, one, two = (source(place, bits) for place in range(3))
    quotients = [term(operator, bits, (number, by)) for by in (one, two)]
    laws = all_of(list(laws_of(*quotients)))
    for numbers in product(range(1 << bits), repeat=3):
        assert evaluate(laws, numbers), numbers


def test_newtons_step_stays_above_the_root() -> None:
    """Of 32 bits, which no solver finds without the laws."""
    number, one = source(0, 32), source(1, 32)
    quotient = term(Op.UDIV, 32, (number, one))
    half = (one + quotient).shifted_right(1, signed=False)
    question = Question()
    for by in (one, half):
        question.require(~by.equals(0))
    for part in (one, quotient):
        question.require(part.less_than(1 << 31, signed=False))
    question.require((half + 2).less_than(term(Op.UDIV, 32, (number, half)), signed=False))
    assert question.answer(2_000, EFFORT) is Answer.IMPOSSIBLE
