"""Templates and conditions of a sweep: integer expressions over the axes of its table.

``build/sgemm_{tm}x{tn}.ptx`` is a template: text with expressions in braces; ``{{`` and ``}}`` are
braces. An expression has integers, names of axes, ``+ - * // %``, ``cdiv(a, b)`` (a / b rounded
up), ``min``, ``max`` and parentheses; a condition compares such expressions, with ``and``, ``or``
and ``not``. The semantics are Python's, but values are limited to 64 bits.

Only functions of this module are executed: a text is split into the few permitted words, Python's
parser gives their syntax tree, and each node becomes a function of this module. Powers, attributes
and subscripts are not permitted; texts and nesting are bounded, so that parsing and evaluating
take a bounded time.

>>> template = parse_template("{m // 2}x{cdiv(m, 3)}")
>>> template.render({"m": 64})
'32x22'
>>> parse_condition("m % 16 == 0 and m <= 64").holds({"m": 64})
True
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ptxwcet.support.records import dataclass
from ptxwcet.support.toml_places import nearest

Values = Mapping[str, int | str]
"""The values of axes by name: the input of a template."""

Value = int | float | str
"""A value of a key of a plan."""

LEAST, MOST = -(1 << 63), (1 << 63) - 1
"""The range of a value: the integers of 64 bits."""

FUNCTIONS = ("cdiv", "max", "min")
"""The functions that there are; no axis has the name of one."""

_LONGEST_EXPRESSION = 1_000
_LONGEST_TEMPLATE = 4_096
_DEEPEST = 64
_MOST_DIGITS = 20
_TOKEN = re.compile(
    r"(?P<blank>\s+)|(?P<name>[A-Za-z_]\w*)|(?P<number>\d+)(?!\w)"
    r"|(?P<sign>//|==|!=|<=|>=|[-+*%<>(),])",
    re.ASCII,
)
_NOT_THERE = {
    "/": "write // to divide, rounded down",
    "*": "there is no power",
    "=": "write == to compare",
    "!": "write != or not",
    "&": "write and",
    "|": "write or",
}
_KNOWN = "an expression has integers, axes, + - * // %, cdiv, min, max and parentheses"


class ExpressionError(Exception):
    """An error in a text: its reason, its place (``start`` to ``end``), and a remedy."""

    def __init__(self, message: str, start: int, end: int, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.remedy = remedy

    def moved(self, by: int) -> ExpressionError:
        """Returns the same mistake in a text in which this one begins at ``by``."""
        return ExpressionError(self.message, self.start + by, self.end + by, self.remedy)


class NoValueError(Exception):
    """An expression has no value for some values of axes; the message has the reason."""


_Evaluate = Callable[[Values], int]


@dataclass(frozen=True, slots=True)
class Expression:
    """An integer expression, or one name of an axis, which may have texts for values.

    ``names`` are the axes that it names, with the place of each in its text.
    """

    names: Mapping[str, tuple[int, int]]
    is_name: bool
    _evaluate: _Evaluate

    def value(self, values: Values) -> int | str:
        """Returns its value. Raises NoValueError: a division by zero, more than 64 bits, a text."""
        if self.is_name:
            (name,) = self.names
            return values[name]
        return self._evaluate(values)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the values of axes; ``names`` as in Expression."""

    names: Mapping[str, tuple[int, int]]
    _evaluate: _Evaluate

    def holds(self, values: Values) -> bool:
        """Returns whether it is true. Raises NoValueError as Expression.value does."""
        return bool(self._evaluate(values))


@dataclass(frozen=True, slots=True)
class Template:
    """A text with expressions in it; ``parts`` are literal texts and expressions, in order.

    ``names`` are the axes that it names, with the first place of each in its text.
    """

    parts: tuple[str | Expression, ...]
    names: Mapping[str, tuple[int, int]]

    @property
    def is_one_expression(self) -> bool:
        """True if it is nothing but one expression in braces: then its value may be an integer."""
        return len(self.parts) == 1 and isinstance(self.parts[0], Expression)

    def render(self, values: Values) -> int | str:
        """Returns the text for these values; the value of a template that is one expression.

        Raises NoValueError as Expression.value does.
        """
        if self.is_one_expression:
            (part,) = self.parts
            return part if isinstance(part, str) else part.value(values)
        return "".join(
            part if isinstance(part, str) else str(part.value(values)) for part in self.parts
        )


def parse_template(text: str) -> Template:
    """Returns the template of a text. Raises ExpressionError. Cost: linear."""
    if len(text) > _LONGEST_TEMPLATE:
        raise ExpressionError(
            f"a text of more than {_LONGEST_TEMPLATE:,} characters", 0, _LONGEST_TEMPLATE
        )
    parts: list[str | Expression] = []
    names: dict[str, tuple[int, int]] = {}
    literal = ""
    place = 0
    while place < len(text):
        character = text[place]
        if character not in "{}":
            literal += character
            place += 1
            continue
        if text[place : place + 2] == character * 2:
            literal += character
            place += 2
            continue
        if character == "}":
            raise ExpressionError("a } that closes nothing", place, place + 1, "write }} for one }")
        end = text.find("}", place)
        if end < 0:
            remedy = "write {{ for one {"
            raise ExpressionError("a { that is not closed", place, place + 1, remedy)
        if literal:
            parts.append(literal)
            literal = ""
        try:
            expression = parse_expression(text[place + 1 : end])
        except ExpressionError as error:
            raise error.moved(place + 1) from None
        parts.append(expression)
        for name, (start, stop) in expression.names.items():
            names.setdefault(name, (start + place + 1, stop + place + 1))
        place = end + 1
    if literal or not parts:
        parts.append(literal)
    return Template(tuple(parts), names)


def parse_expression(text: str) -> Expression:
    """Returns the integer expression of a text. Raises ExpressionError. Cost: linear."""
    node, builder = _parse(text)
    evaluate = builder.number(node)
    return Expression(builder.names, isinstance(node, ast.Name), evaluate)


def parse_condition(text: str) -> Condition:
    """Returns the condition of a text. Raises ExpressionError. Cost: linear."""
    node, builder = _parse(text)
    return Condition(builder.names, builder.condition(node))


# --- parsing --------------------------------------------------------------------------------------


def _parse(text: str) -> tuple[ast.expr, _Builder]:
    """Returns how the words of a text belong together. Raises ExpressionError."""
    if not text.strip():
        raise ExpressionError("an expression is empty", 0, len(text), _KNOWN)
    if len(text) > _LONGEST_EXPRESSION:
        message = f"an expression of more than {_LONGEST_EXPRESSION:,} characters"
        raise ExpressionError(message, 0, len(text))
    _require_words(text)
    one_line = re.sub(r"\s", " ", text)  # of equal length, so that places remain
    try:
        tree = ast.parse(f"({one_line})", mode="eval")
    except SyntaxError as error:
        start = min(max((error.offset or 2) - 2, 0), len(text) - 1)
        raise ExpressionError("not an expression", start, start + 1, _KNOWN) from None
    except (RecursionError, MemoryError, ValueError):
        raise ExpressionError("an expression that is nested too deep", 0, len(text)) from None
    return tree.body, _Builder(text)


def _require_words(text: str) -> None:
    """Raises ExpressionError for characters that are not in expressions, and stray parentheses."""
    place = 0
    opened: list[int] = []
    before = ""
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            character = text[place]
            remedy = _NOT_THERE.get(character, _KNOWN)
            message = f"{character!r} means nothing here"
            if character in "0123456789":
                message = "a number is written in decimal digits"
            raise ExpressionError(message, place, place + 1, remedy)
        word = match.group()
        if match["number"] and not _is_decimal(word):
            message = "a number is an integer of 64 bits, in decimal digits without zeros before it"
            raise ExpressionError(message, place, match.end())
        if word == "*" and before == "*":
            raise ExpressionError("'**' means nothing here", place - 1, place + 1, _NOT_THERE["*"])
        if word == "(":
            opened.append(place)
        if word == ")":
            if not opened:
                raise ExpressionError("a ) that closes nothing", place, place + 1)
            opened.pop()
        if len(opened) > _DEEPEST:
            message = f"parentheses nested more than {_DEEPEST} deep"
            raise ExpressionError(message, place, place + 1)
        before = word
        place = match.end()
    if opened:
        raise ExpressionError("a ( that is not closed", opened[-1], opened[-1] + 1)


def _is_decimal(word: str) -> bool:
    has_zeros = len(word) > 1 and word.startswith("0")
    return len(word) < _MOST_DIGITS and not has_zeros and int(word) <= MOST


_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class _Builder:
    """Makes functions of the nodes of one expression, and notes the names in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self.names: dict[str, tuple[int, int]] = {}

    def number(self, node: ast.expr) -> _Evaluate:
        """Returns the evaluator of an integer expression. Raises ExpressionError."""
        with self._entered(node):
            return self._number(node)

    def condition(self, node: ast.expr) -> _Evaluate:
        """Returns the evaluator of a condition. Raises ExpressionError."""
        with self._entered(node):
            return self._condition(node)

    def _number(self, node: ast.expr) -> _Evaluate:
        match node:
            case ast.Constant(value=int(value)) if type(value) is int:
                return lambda _: value
            case ast.Name(id=name) if name not in FUNCTIONS:
                self.names.setdefault(name, self._place(node))
                return lambda values: _integer(name, values[name])
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.number(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.number(operand)
                return lambda values: _bounded(-inner(values))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return _binary(_ARITHMETIC[type(op)], self.number(left), self.number(right))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                return self._call(node, name, args)
            case ast.Call(func=ast.Name(id=name)) if name not in FUNCTIONS:
                raise self._error(node, f"no function {name!r}", nearest(name, FUNCTIONS) + _KNOWN)
            case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                raise self._error(node, "a condition where a number is expected", None)
            case _:
                raise self._error(node, "not an expression of integers", _KNOWN)

    def _call(self, node: ast.expr, name: str, args: list[ast.expr]) -> _Evaluate:
        numbers = [self.number(argument) for argument in args]
        if len(numbers) != 2 if name == "cdiv" else len(numbers) < 2:
            count = "two" if name == "cdiv" else "two or more"
            raise self._error(node, f"{name} takes {count} numbers", None)
        if name == "cdiv":
            return _binary(_ceiling, *numbers)
        choose = min if name == "min" else max
        return lambda values: choose(number(values) for number in numbers)

    def _condition(self, node: ast.expr) -> _Evaluate:
        match node:
            case ast.BoolOp(op=op, values=operands):
                conditions = [self.condition(operand) for operand in operands]
                together = all if isinstance(op, ast.And) else any
                return lambda values: together(condition(values) for condition in conditions)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.condition(operand)
                return lambda values: not inner(values)
            case ast.Compare(left=left, ops=ops, comparators=others) if all(
                type(op) in _COMPARISONS for op in ops
            ):
                numbers = [self.number(each) for each in (left, *others)]
                return _comparison([_COMPARISONS[type(op)] for op in ops], numbers)
            case _:
                remedy = "a condition compares: for example tm * tn <= 4096"
                raise self._error(node, "not a condition", remedy)

    @contextmanager
    def _entered(self, node: ast.expr) -> Iterator[None]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(node, f"an expression nested more than {_DEEPEST} deep", None)
        yield
        self._depth -= 1

    def _place(self, node: ast.expr) -> tuple[int, int]:
        """Returns the place of a node in the text, which was put in parentheses for parsing."""
        end = node.end_col_offset
        return node.col_offset - 1, len(self._text) if end is None else end - 1

    def _error(self, node: ast.expr, message: str, remedy: str | None) -> ExpressionError:
        start, end = self._place(node)
        start = max(start, 0)
        return ExpressionError(message, start, max(min(end, len(self._text)), start + 1), remedy)


# --- evaluating -----------------------------------------------------------------------------------


def _binary(apply: Callable[[int, int], int], left: _Evaluate, right: _Evaluate) -> _Evaluate:
    def evaluate(values: Values) -> int:
        first, second = left(values), right(values)
        try:
            return _bounded(apply(first, second))
        except ZeroDivisionError:
            raise NoValueError(f"{first} is divided by zero") from None

    return evaluate


def _comparison(compare: list[Callable[[int, int], bool]], numbers: list[_Evaluate]) -> _Evaluate:
    """Evaluates ``a < b <= c``: as in Python, no operand after a false comparison is evaluated."""

    def evaluate(values: Values) -> bool:
        left = numbers[0](values)
        for holds, number in zip(compare, numbers[1:], strict=True):
            right = number(values)
            if not holds(left, right):
                return False
            left = right
        return True

    return evaluate


def _ceiling(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def _bounded(value: int) -> int:
    if not LEAST <= value <= MOST:
        raise NoValueError("a value has more than 64 bits")
    return value


def _integer(name: str, value: int | str) -> int:
    if isinstance(value, str):
        raise NoValueError(f"{name} is the text {value!r}, and expressions are of integers")
    return value
