"""Provides the solver of formulas over bit-vectors (Bitwuzla), imported on first use.

Effort is counted, never timed: the solver regularly checks whether to continue, and the number of
these checks depends only on the formula. The answer to a formula is therefore the same on every
machine and under every load.

>>> formula = Formula()
>>> x = formula.variable(8)
>>> one, zero = formula.constant(1, 8), formula.constant(0, 8)
>>> formula.require(formula.apply("=", 1, [formula.apply("bvand", 8, [x, one]), zero]))
>>> formula.require(formula.apply("=", 1, [x, one]))
>>> formula.solve(1000)
<Answer.IMPOSSIBLE: 'impossible'>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any

Expression = Any
"""A bit-vector of the solver."""

_ABSTRACTED_FROM = 8
"""The bits from which products and quotients are first treated by their laws, then bit by bit."""

_OPERATORS = {
    "bvadd": "BV_ADD",
    "bvsub": "BV_SUB",
    "bvmul": "BV_MUL",
    "bvudiv": "BV_UDIV",
    "bvurem": "BV_UREM",
    "bvsdiv": "BV_SDIV",
    "bvsrem": "BV_SREM",
    "bvand": "BV_AND",
    "bvor": "BV_OR",
    "bvxor": "BV_XOR",
    "bvnot": "BV_NOT",
    "bvshl": "BV_SHL",
    "bvlshr": "BV_SHR",
    "bvashr": "BV_ASHR",
}
_RELATIONS = {"bvult": "BV_ULT", "bvslt": "BV_SLT", "=": "EQUAL"}


class Answer(Enum):
    """The answer of a solver to a formula: some values make it true, none do, or it gave up."""

    POSSIBLE = "possible"
    IMPOSSIBLE = "impossible"
    UNKNOWN = "unknown"


@lru_cache(maxsize=1)
def _solver() -> Any:
    import bitwuzla

    return bitwuzla


class Formula:
    """The conjunction of requirements on some variables; ``spent`` is the effort so far.

    Expressions have widths of at least one bit; truth is one bit. Operators are those of SMT-LIB's
    QF_BV by name, and ``popc``, ``clz`` (of 0: the width) and ``brev``.
    """

    def __init__(self) -> None:
        self._terms = _solver().TermManager()
        self._required: list[Expression] = []
        self._model: Any = None
        self.spent = 0

    def variable(self, width: int) -> Expression:
        """Returns a new variable."""
        return self._terms.mk_const(self._terms.mk_bv_sort(width))

    def constant(self, value: int, width: int) -> Expression:
        """Returns a number without sign, below ``2**width``."""
        return self._terms.mk_bv_value(self._terms.mk_bv_sort(width), value)

    def apply(
        self, operator: str, width: int, arguments: Sequence[Expression], low: int = 0
    ) -> Expression:
        """Applies an operator to expressions; ``extract`` begins at ``low``. Raises KeyError."""
        kinds = _solver().Kind
        make = self._terms.mk_term
        if operator in _OPERATORS:
            return make(getattr(kinds, _OPERATORS[operator]), list(arguments))
        if operator in _RELATIONS:
            truth = make(getattr(kinds, _RELATIONS[operator]), list(arguments))
            return make(kinds.ITE, [truth, self.constant(1, 1), self.constant(0, 1)])
        bits = arguments[0].sort().bv_size()
        match operator:
            case "ite":
                condition, yes, no = arguments
                return make(kinds.ITE, [self._holds(condition), yes, no])
            case "zero_extend":
                return make(kinds.BV_ZERO_EXTEND, list(arguments), [width - bits])
            case "sign_extend":
                return make(kinds.BV_SIGN_EXTEND, list(arguments), [width - bits])
            case "extract":
                return make(kinds.BV_EXTRACT, list(arguments), [low + width - 1, low])
        built: Callable[[Expression, int], Expression] = {
            "popc": self._ones,
            "clz": self._leading_zeros,
            "brev": self._reversed,
        }[operator]
        counted = built(arguments[0], bits)
        more = width - counted.sort().bv_size()
        if more < 0:  # a count that its own width cannot hold wraps around
            return make(kinds.BV_EXTRACT, [counted], [width - 1, 0])
        return make(kinds.BV_ZERO_EXTEND, [counted], [more]) if more else counted

    def require(self, bit: Expression) -> None:
        """Adds a truth to the requirements."""
        self._required.append(self._holds(bit))

    def solve(self, most: int) -> Answer:
        """Returns whether the requirements are possible, with an effort of at most ``2 * most``.

        The first half treats products and quotients by their laws, the second one bit by bit.
        Cost: about a millisecond for ten steps of effort.
        """
        answer = Answer.UNKNOWN
        for abstracted in (True, False):
            if answer is Answer.UNKNOWN:
                answer = self._attempt(most, abstracted)
        return answer

    def value(self, expression: Expression) -> int:
        """Returns the number of an expression in the solver's model; after ``POSSIBLE`` only."""
        return int(self._model.get_value(expression).value(10))

    def close(self) -> None:
        """Releases the solver, then its terms. The formula cannot be used afterwards."""
        self._model = None
        self._required.clear()
        self._terms = None

    def _attempt(self, most: int, abstracted: bool) -> Answer:
        module = _solver()
        options = module.Options()
        options.set("produce-models", True)
        if abstracted:
            options.set("abstraction", True)
            options.set("abstraction-bv-size", _ABSTRACTED_FROM)
        solver = module.Bitwuzla(self._terms, options)
        asked = 0

        def is_over() -> bool:
            nonlocal asked
            asked += 1
            return asked > most

        solver.configure_terminator(is_over)
        for required in self._required:
            solver.assert_formula(required)
        result = solver.check_sat()
        self.spent += min(asked, most)
        self._model = solver if result is module.Result.SAT else None
        if result is module.Result.SAT:
            return Answer.POSSIBLE
        return Answer.IMPOSSIBLE if result is module.Result.UNSAT else Answer.UNKNOWN

    def _holds(self, bit: Expression) -> Expression:
        return self._terms.mk_term(_solver().Kind.EQUAL, [bit, self.constant(1, 1)])

    def _parts(self, word: Expression, bits: int) -> tuple[Expression, int, Expression, int]:
        """Returns a word's high part and its width, and its low part and its width."""
        low = bits // 2
        make, extract = self._terms.mk_term, _solver().Kind.BV_EXTRACT
        return (
            make(extract, [word], [bits - 1, low]),
            bits - low,
            make(extract, [word], [low - 1, 0]),
            low,
        )

    def _ones(self, word: Expression, bits: int) -> Expression:
        """Returns the number of set bits, in ``bits.bit_length()`` bits."""
        if bits == 1:
            return word
        high, m, low, n = self._parts(word, bits)
        width = bits.bit_length()
        counts = [
            self.apply("zero_extend", width, [self._ones(part, size)])
            for part, size in ((high, m), (low, n))
        ]
        return self.apply("bvadd", width, counts)

    def _leading_zeros(self, word: Expression, bits: int) -> Expression:
        """Returns the number of clear bits above the highest set one, in this many bits."""
        if bits == 1:
            return self.apply("bvnot", 1, [word])
        high, m, low, n = self._parts(word, bits)
        width = bits.bit_length()
        above, below = (
            self.apply("zero_extend", width, [self._leading_zeros(part, size)])
            for part, size in ((high, m), (low, n))
        )
        is_clear = self.apply("=", 1, [high, self.constant(0, m)])
        beyond = self.apply("bvadd", width, [below, self.constant(m, width)])
        return self.apply("ite", width, [is_clear, beyond, above])

    def _reversed(self, word: Expression, bits: int) -> Expression:
        """Returns the bits in the opposite order."""
        if bits == 1:
            return word
        high, m, low, n = self._parts(word, bits)
        parts = [self._reversed(low, n), self._reversed(high, m)]
        return self._terms.mk_term(_solver().Kind.BV_CONCAT, parts)
