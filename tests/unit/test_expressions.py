"""Templates and conditions of sweeps, against Python's own evaluation, and all mistakes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.sweeps.expressions import (
    LEAST,
    MOST,
    ExpressionError,
    NoValueError,
    parse_condition,
    parse_expression,
    parse_template,
)

pytestmark = pytest.mark.fast

AXES = {"a": 7, "b": -3, "big": 1 << 40, "zero": 0}


def _binary(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(inner, st.sampled_from(("+", "-", "*", "//", "%")), inner)
    call = st.tuples(st.sampled_from(("cdiv", "min", "max")), inner, inner)
    return st.one_of(
        two.map(lambda x: f"{x[0]} {x[1]} {x[2]}"),
        two.map(lambda x: f"({x[0]}{x[1]}{x[2]})"),
        call.map(lambda x: f"{x[0]}({x[1]}, {x[2]})"),
        st.tuples(inner, inner, inner).map(lambda x: f"max({', '.join(x)})"),
        inner.map(lambda x: f"-({x})"),
        inner.map(lambda x: f"+{x}"),
    )


LEAVES = st.one_of(st.sampled_from(tuple(AXES)), st.integers(0, 1 << 33).map(str))
NUMBERS = st.recursive(LEAVES, _binary, max_leaves=12)
COMPARED = st.tuples(
    NUMBERS, st.sampled_from(("==", "!=", "<", "<=", ">", ">=")), NUMBERS, st.booleans()
).map(lambda x: f"{x[0]} {x[1]} {x[2]}" + (f" < {x[0]}" if x[3] else ""))
CONDITIONS = st.recursive(
    COMPARED,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(("and", "or")), inner).map(" ".join),
        inner.map(lambda x: f"not ({x})"),
    ),
    max_leaves=5,
)


class Whole:
    """An integer that notes when a result leaves 64 bits, evaluated by Python itself."""

    def __init__(self, value: int) -> None:
        if not LEAST <= value <= MOST:
            raise NoValueError
        self.value = value

    def __add__(self, other: Whole) -> Whole:
        return Whole(self.value + other.value)

    def __sub__(self, other: Whole) -> Whole:
        return Whole(self.value - other.value)

    def __mul__(self, other: Whole) -> Whole:
        return Whole(self.value * other.value)

    def __floordiv__(self, other: Whole) -> Whole:
        return Whole(self.value // other.value)

    def __mod__(self, other: Whole) -> Whole:
        return Whole(self.value % other.value)

    def __neg__(self) -> Whole:
        return Whole(-self.value)

    def __pos__(self) -> Whole:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Whole) and self.value == other.value

    def __lt__(self, other: Whole) -> bool:
        return self.value < other.value

    def __le__(self, other: Whole) -> bool:
        return self.value <= other.value

    def __hash__(self) -> int:
        return hash(self.value)


def pythons(text: str) -> object:
    """What Python says of the text, with integers that mind 64 bits."""
    wrapped = re.sub(r"(?<!\w)\d+", r"Whole(\g<0>)", text)
    names = {name: Whole(value) for name, value in AXES.items()}
    functions = {
        "Whole": Whole,
        "cdiv": lambda a, b: Whole(-(-a.value // b.value)),
        "min": min,
        "max": max,
        "__builtins__": {},
    }
    try:
        value = eval(wrapped, functions, names)
    except (ZeroDivisionError, NoValueError):
        return None
    return value.value if isinstance(value, Whole) else value


@settings(max_examples=drawn(400), deadline=None)
@given(NUMBERS)
def test_numbers_as_python_says(text: str) -> None:
    expected = pythons(text)
    expression = parse_expression(text)
    assert set(expression.names) <= set(AXES)
    for name, (start, end) in expression.names.items():
        assert text[start:end] == name
    if expected is None:
        with pytest.raises(NoValueError):
            expression.value(AXES)
    else:
        assert expression.value(AXES) == expected
        assert parse_template(f"x{{{text}}}y").render(AXES) == f"x{expected}y"


@settings(max_examples=drawn(200), deadline=None)
@given(CONDITIONS)
def test_conditions_as_python_says(text: str) -> None:
    expected = pythons(text)
    condition = parse_condition(text)
    if expected is None:
        with pytest.raises(NoValueError):
            condition.holds(AXES)
    else:
        assert condition.holds(AXES) is expected


ALPHABET = (
    "ab0 19+-*/%(),<>=!{}.[]'\"\\:@~^&|#\n\t;_min max cdiv not and or if else lambda in is é²𝟙"
)


@settings(max_examples=drawn(500), deadline=None)
@given(st.one_of(st.text(st.sampled_from(ALPHABET), max_size=30), st.text(max_size=20)))
def test_any_text_has_a_value_or_a_mistake_with_its_place(text: str) -> None:
    for parse in (parse_expression, parse_condition, parse_template):
        mistake = None
        try:
            parsed = parse(text)
        except ExpressionError as error:
            mistake = error
        if mistake is not None:
            assert 0 <= mistake.start <= mistake.end <= max(len(text), mistake.start + 1)
            continue
        assert all(text[start:end] == name for name, (start, end) in parsed.names.items())


@given(st.text(max_size=50))
def test_braces_are_written_twice(text: str) -> None:
    template = parse_template(text.replace("{", "{{").replace("}", "}}"))
    assert template.render({}) == text
    assert not template.names


def test_what_a_template_gives() -> None:
    axes: dict[str, int | str] = {"n": 12, "kind": "naive"}
    assert parse_template("{n}").render(axes) == 12
    assert parse_template("{ (n) }").render(axes) == 12
    assert parse_template("{n} ").render(axes) == "12 "
    assert parse_template("{kind}").render(axes) == "naive"
    assert parse_template("k_{kind}_{n // 5}.ptx").render(axes) == "k_naive_2.ptx"
    assert parse_template("{{{n}}}").render(axes) == "{12}"
    assert parse_template("").render(axes) == ""
    assert parse_template("1..{n}").render(axes) == "1..12"
    assert parse_template("{n}").is_one_expression
    assert not parse_template("{n}{n}").is_one_expression


MISTAKES = [
    ("", "is empty", 0),
    (" \t", "is empty", 0),
    ("a +", "not an expression", 2),
    ("a b", "not an expression", 0),
    ("a / 2", "'/' means nothing here", 2),
    ("2 ** 3", "'**' means nothing here", 2),
    ("2 * * 3", "not an expression", 4),
    ("10**10**10", "'**' means nothing here", 2),
    ("a.b", "'.' means nothing here", 1),
    ("a[0]", "'[' means nothing here", 1),
    ("'a'", '"\'" means nothing here', 0),
    ("a = 1", "'=' means nothing here", 2),
    ("1e5", "decimal digits", 0),
    ("0x10", "decimal digits", 0),
    ("1_000", "decimal digits", 0),
    ("007", "without zeros before it", 0),
    ("9223372036854775808", "of 64 bits", 0),
    ("1" * 900, "of 64 bits", 0),
    ("²", "'²' means nothing here", 0),
    ("(a", "a ( that is not closed", 0),
    ("a)", "a ) that closes nothing", 1),
    ("a) + (b", "a ) that closes nothing", 1),
    ("()", "not an expression of integers", 0),
    ("(a, b)", "not an expression of integers", 0),
    ("a, b", "not an expression of integers", 0),
    ("f(a)", "no function 'f'", 0),
    ("__import__(a)", "no function '__import__'", 0),
    ("min", "not an expression of integers", 0),
    ("min(a)", "two or more numbers", 0),
    ("min(*a)", "not an expression of integers", 4),
    ("cdiv(a)", "cdiv takes two numbers", 0),
    ("cdiv(a, b, a)", "cdiv takes two numbers", 0),
    ("cdiv(a, b)(a)", "not an expression of integers", 0),
    ("1 + f(a)", "no function 'f'", 4),
    ("True", "not an expression of integers", 0),
    ("None", "not an expression of integers", 0),
    ("a if b else a", "not an expression of integers", 0),
    ("a < b", "a condition where a number is expected", 0),
    ("not a", "a condition where a number is expected", 0),
    ("1 + (a < b)", "a condition where a number is expected", 5),
    ("(yield)", "not an expression of integers", 1),
    ("(a for a in b)", "not an expression of integers", 0),
    ("lambda", "not an expression", 0),
    ("(" * 65 + "1" + ")" * 65, "parentheses nested more than 64", 64),
    ("-" * 500 + "1", "nested", 0),
    ("1" + "+1" * 400, "nested", 0),
    ("1" + " " * 1000, "more than 1,000 characters", 0),
]


@pytest.mark.parametrize(("text", "message", "place"), MISTAKES)
def test_mistakes(text: str, message: str, place: int) -> None:
    with pytest.raises(ExpressionError) as raised:
        parse_expression(text)
    assert message in raised.value.message
    if message not in ("not an expression", "nested"):  # Python's own place, of each version
        assert raised.value.start == place
    assert raised.value.start < raised.value.end or not text


@pytest.mark.parametrize(
    "text",
    ["a", "1", "a + 1", "a in b", "a is b", "a < b + (a < b)", "not a", "a and b", "(a < b, a)"],
)
def test_no_conditions(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_condition(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [("a{", 1), ("a}", 1), ("{}", 1), ("{a}}", 3), ("{a{b}}", 2), ("{a:02}", 2), ("x{1/a}", 3)],
)
def test_templates_with_mistakes(text: str, place: int) -> None:
    with pytest.raises(ExpressionError) as raised:
        parse_template(text)
    assert raised.value.start == place


def test_long_templates() -> None:
    with pytest.raises(ExpressionError, match="more than 4,096"):
        parse_template("a" * 5_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 // zero", "1 is divided by zero"),
        ("a % (a - a)", "7 is divided by zero"),
        ("cdiv(a, zero)", "7 is divided by zero"),
        ("big * big", "more than 64 bits"),
        ("0 * (big * big)", "more than 64 bits"),
        ("-(-9223372036854775807 - 1)", "more than 64 bits"),
        ("kind + 1", "kind is the text 'x'"),
    ],
)
def test_no_value(text: str, message: str) -> None:
    with pytest.raises(NoValueError, match=message):
        parse_expression(text).value({**AXES, "kind": "x"})


def test_what_follows_is_not_evaluated_as_in_python() -> None:
    assert not parse_condition("zero != 0 and a // zero > 1").holds(AXES)
    assert parse_condition("zero == 0 or a // zero > 1").holds(AXES)
    assert not parse_condition("a < zero < a // zero").holds(AXES)
