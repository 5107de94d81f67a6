"""Linear questions about terms, settled with integers: bit-vector solvers are slow at sums.

A term that is read as a number, with sign or without, is a *form*: a constant plus multiples of
variables, each of which is some term that is read in one way. Sums and differences modulo ``2**w``
are sums of forms where these are proven to be numbers of ``w`` bits; any other term is a variable
in the range of its width. A quotient ``q`` of ``n`` by a constant ``d`` is a variable with
``d * q <= n < d * q + d``. A *fact* is a form that is at least 0 wherever all truths are true.

Facts contradict one another if a sum of multiples of them says that a negative number is at least
0 (Fourier and Motzkin's elimination). What cannot be read as a fact is left out, which makes fewer
questions impossible, not more.
"""

from __future__ import annotations

from itertools import product
from math import gcd

from ptxwcet.flow.effort import Effort, TooMuchEffort
from ptxwcet.ir.terms import Op, Term, const, fold, signed, term

_MOST_SPLITS = 4
_MOST_FACTS = 200
_PASSES = 3
_FACTS_A_STEP = 16
_FAR = 1 << 300
"""Above all numbers that terms are."""

Form = dict[object, int]
"""Coefficients of variables; that of ``None`` is the constant."""


def is_impossible(truths: list[Term], effort: Effort) -> bool:
    """Whether terms of one bit are never all true together; False also where that is not found.

    Raises TooMuchEffort. Cost: for each way through up to four choices, some hundred eliminations
    of a few variables, counted by the facts that each looks at: at most a tenth of all effort.
    """
    own = Effort(effort.most // 10)
    try:
        impossible = _is_impossible(truths, own, _MOST_SPLITS)
    except TooMuchEffort:
        impossible = False
    effort.spend(own.spent)
    return impossible


def _is_impossible(truths: list[Term], effort: Effort, splits: int) -> bool:
    pending, plain = list(truths), list[Term]()
    while pending:
        truth = pending.pop()
        negated = truth.op is Op.NOT
        inner = truth.args[0] if negated else truth
        if truth.op is Op.CONST:
            if not truth.value:
                return True
        elif negated and inner.op is Op.NOT:
            pending.append(inner.args[0])
        elif inner.op is (Op.OR if negated else Op.AND):
            pending += [~part if negated else part for part in inner.args]
        else:
            plain.append(truth)
    choice = _choice(plain)
    if choice is None:
        return _Facts(effort).contradict(plain)
    if splits == 0:
        return False
    return all(
        _is_impossible(
            [_with(one, choice, value) for one in plain] + [choice if value else ~choice],
            effort,
            splits - 1,
        )
        for value in (1, 0)
    )


def _choice(truths: list[Term]) -> Term | None:
    """A bit that decides something, which no other choice is within; None if there is none."""
    conditions: list[Term] = []

    def note(node: Term, _: list[None]) -> None:
        if node.op is Op.ITE:
            conditions.append(node.args[0])

    visited: dict[Term, None] = {}
    for truth in truths:
        fold(truth, note, visited)
    if conditions:
        return conditions[0]
    for truth in truths:
        inner = truth.args[0] if truth.op is Op.NOT else truth
        if inner.op in (Op.AND, Op.OR):
            return inner.args[0]
    return None


def _with(root: Term, bit: Term, value: int) -> Term:
    """A term with a number in the place of a bit."""

    def put(one: Term, args: list[Term]) -> Term:
        if one.width == 1 and one.op in (Op.AND, Op.OR):
            for number, other in (args, args[::-1]):
                if number.op is Op.CONST:
                    return other if number.value == (one.op is Op.AND) else number
        return term(one.op, one.width, tuple(args), one.value) if args else one

    return fold(root, put, {bit: const(value, 1)})


def _sum(one: Form, two: Form, scale: int = 1) -> Form:
    """``one + scale * two``."""
    found = dict(one)
    for name, c in two.items():
        found[name] = found.get(name, 0) + scale * c
    return {name: c for name, c in found.items() if c}


class _Facts:
    """What follows from truths, as forms that are at least 0."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._facts: dict[frozenset[tuple[object, int]], Form] = {}
        self._forms: dict[tuple[Term, bool], Form] = {}
        self._ranges: dict[object, tuple[int, int]] = {}

    def contradict(self, truths: list[Term]) -> bool:
        """Whether the truths contradict one another.

        They are read again with what they said before: fewer sums may wrap around then.
        """
        for _ in range(_PASSES):
            self._forms.clear()
            for truth in truths:
                self._note(truth)
            if self._refutes():
                return True
        return False

    def _add(self, form: Form) -> None:
        """Adds a fact, and what it says of a variable if it names no other."""
        form = _tight(form)
        names = [name for name in form if name is not None]
        if len(names) == 1:
            ((name,), constant) = names, form.get(None, 0)
            low, high = self._ranges.get(name, (-_FAR, _FAR))
            if form[name] == 1:
                self._ranges[name] = max(low, -constant), high
            else:
                self._ranges[name] = low, min(high, constant)
        self._facts[frozenset(form.items())] = form

    def _note(self, truth: Term) -> None:
        """Adds what a truth says, if that is linear."""
        negated = truth.op is Op.NOT
        inner = truth.args[0] if negated else truth
        if inner.op in (Op.SLT, Op.ULT):
            low, high = (self._form(one, inner.op is Op.SLT) for one in inner.args)
            self._add(_sum(low, high, -1) if negated else _sum(_sum(high, low, -1), {None: 1}, -1))
        elif inner.op is Op.EQ and not negated:
            one, two = (self._form(one, True) for one in inner.args)
            self._add(_sum(one, two, -1))
            self._add(_sum(two, one, -1))

    def _form(self, one: Term, is_signed: bool) -> Form:
        """The number that a term is."""
        key = (one, is_signed)
        if key not in self._forms:
            self._forms[key] = self._read(one, is_signed)
        return self._forms[key]

    def _read(self, node: Term, is_signed: bool) -> Form:
        if node.op is Op.CONST:
            return _sum({}, {None: signed(node.value, node.width) if is_signed else node.value})
        low = -(1 << node.width - 1) if is_signed else 0
        high = low + (1 << node.width) - 1
        for form in self._congruent(node, is_signed):
            below, above = _sum({None: low - 1}, form, -1), _sum(form, {None: -high - 1})
            if all(self._is_negative(end) for end in (below, above)):
                return form
        own: Form = {(node, is_signed): 1}
        self._add(_sum(own, {None: -low}))
        self._add(_sum({None: high}, own, -1))
        return own

    def _congruent(self, node: Term, is_signed: bool) -> list[Form]:
        """Forms that are the same number modulo ``2**width``."""
        match node.op, node.args:
            case Op.SEXT, (inner,):
                return [self._form(inner, True)]
            case Op.ZEXT, (inner,):
                return [self._form(inner, False)]
            case Op.EXTRACT, (inner,) if node.value == 0:
                return [self._form(inner, True)]
            case ((Op.ADD | Op.SUB), (left, right)):
                scale = 1 if node.op is Op.ADD else -1
                return [
                    _sum(self._form(left, a), self._form(right, b), scale)
                    for a, b in product((is_signed, not is_signed), repeat=2)
                ]
            case Op.MUL, (inner, Term(op=Op.CONST, value=factor)):
                by = signed(factor, node.width)
                return [_sum({}, self._form(inner, a), by) for a in (is_signed, not is_signed)]
            case Op.UDIV, (inner, Term(op=Op.CONST, value=by)) if by:
                return [self._quotient(node, inner, by)]
        return [self._form(node, True)] if not is_signed else []

    def _quotient(self, one: Term, number: Term, by: int) -> Form:
        """A quotient without sign by a constant, with what defines it."""
        quotient: Form = {(one, False): 1}
        self._add(quotient)
        self._add(_sum({None: ((1 << one.width) - 1) // by}, quotient, -1))
        rest = _sum(self._form(number, False), quotient, -by)
        self._add(rest)
        self._add(_sum({None: by - 1}, rest, -1))
        return quotient

    def _is_negative(self, form: Form) -> bool:
        """Whether a form, which is added to the facts, contradicts them; ranges mostly say so."""
        most = form.get(None, 0)
        for name, c in form.items():
            if name is not None:
                low, high = self._ranges[name]
                most += c * (high if c > 0 else low)
        return most < 0 or self._refutes(form)

    def _refutes(self, *more: Form) -> bool:
        """Whether the facts, and these, contradict one another: variables are eliminated."""
        forms = [*self._facts.values(), *more]
        while True:
            self._effort.spend(1 + len(forms) // _FACTS_A_STEP)
            if any(form.get(None, 0) < 0 and len(form) == 1 for form in forms):
                return True
            names = dict.fromkeys(name for form in forms for name in form if name is not None)
            if not names or len(forms) > _MOST_FACTS:
                return False
            forms = min((_Variable(name, forms) for name in names), key=_pairs).eliminated()


class _Variable:
    """A variable of some facts: those that bound it from below and above, and the others."""

    def __init__(self, name: object, forms: list[Form]) -> None:
        self.name = name
        self.below = [form for form in forms if form.get(name, 0) > 0]
        self.above = [form for form in forms if form.get(name, 0) < 0]
        self.others = [form for form in forms if name not in form]

    def eliminated(self) -> list[Form]:
        """The facts about the other variables that follow."""
        found = {frozenset(form.items()): form for form in self.others}
        for one, two in product(self.below, self.above):
            scaled = _sum({}, one, -two[self.name])
            form = _tight(_sum(scaled, two, one[self.name]))
            found[frozenset(form.items())] = form
        return list(found.values())


def _pairs(one: _Variable) -> int:
    """How many facts more there are once a variable is eliminated."""
    return len(one.below) * len(one.above) - len(one.below) - len(one.above)


def _tight(form: Form) -> Form:
    """A fact of integers divided by what its coefficients share; its number is rounded up."""
    common = gcd(*(c for name, c in form.items() if name is not None))
    if common < 2:
        return form
    tight = {name: c // common for name, c in form.items()}
    return {name: c for name, c in tight.items() if c}
