"""Region constraints against enumeration of all points of the region."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.flow.values.regions import SplitRequest, Symbol, require_negative, require_nonnegative


def points(symbols: list[Symbol], most: int) -> Iterator[dict[Symbol, int]]:
    """All points of the region, outer symbols first; open symbols range up to ``most``."""
    if not symbols:
        yield {}
        return
    *outer, inner = symbols
    for point in points(outer, most):
        limit = most
        if inner.count is not None:
            limit = inner.count + sum(c * point[s] for s, c in inner.slopes.items())
            assert limit >= 1, "every iteration of an outer loop runs the inner one"
        for k in range(min(limit, most)):
            yield {**point, inner: k}


coefficients = st.integers(-4, 4)
forms = st.tuples(st.integers(-12, -1), coefficients, coefficients, coefficients)


@settings(max_examples=drawn(400), deadline=None)
@given(
    constraints=st.lists(forms, min_size=1, max_size=4),
    counts=st.lists(st.one_of(st.none(), st.integers(1, 7)), min_size=3, max_size=3),
    slope=st.integers(0, 2),
)
def test_constraints_hold_on_every_point(
    constraints: list[tuple[int, int, int, int]], counts: list[int | None], slope: int
) -> None:
    symbols = [Symbol(f"k{i}", i, count) for i, count in enumerate(counts)]
    if counts[2] is not None:
        symbols[2].slopes = {symbols[0]: slope}
    for base, *slopes in constraints:
        require_negative(base, dict(zip(symbols, slopes, strict=True)))
    for symbol, count in zip(symbols, counts, strict=True):
        assert symbol.count is None or symbol.count >= 1
        if count is not None:
            assert symbol.count is not None
            assert symbol.count <= count
    for point in points(symbols, most=9):
        for base, *slopes in constraints:
            assert base + sum(c * point[s] for c, s in zip(slopes, symbols, strict=True)) < 0


@given(base=st.integers(-1000, -1), slope=st.integers(1, 50))
def test_one_symbol_is_limited_exactly(base: int, slope: int) -> None:
    symbol = Symbol("k", 0)
    require_negative(base, {symbol: slope})
    assert symbol.count is not None
    assert base + slope * (symbol.count - 1) < 0 <= base + slope * symbol.count


def test_triangular_limit_is_affine_in_the_outer_counter() -> None:
    outer, inner = Symbol("i", 0, 100), Symbol("j", 1)
    require_negative(-1, {inner: 1, outer: -1})  # j < i + 1
    assert (inner.count, inner.slopes) == (1, {outer: 1})
    assert outer.count == 100


def test_block_indices_split_instead_of_shrinking() -> None:
    index = Symbol("ctaid.x", -3, 1000, splittable=True)
    with pytest.raises(SplitRequest) as raised:
        require_nonnegative(70, {index: -32})
    assert (raised.value.symbol, raised.value.at) == (index, 3)


def test_a_false_constraint_is_an_error() -> None:
    with pytest.raises(ValueError, match="origin"):
        require_negative(0, {})
