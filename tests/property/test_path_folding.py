"""Folding of executed paths: nothing is lost, and repeats are found up to the longest period."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxwcet.emulator.executed_paths import LONGEST_PERIOD, Entry, Folder, PathBook
from ptxwcet.emulator.launch import PathStep

LEAVES = st.lists(st.integers(0, 3), min_size=1, max_size=5)
REPEATED = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.lists(inner, min_size=1, max_size=3), st.integers(1, 4)).map(
        lambda row: [step for part in row[0] for step in part] * row[1]
    ),
    max_leaves=8,
)


def folded(steps: list[int]) -> tuple[PathBook, list[Entry]]:
    book = PathBook()
    folder = Folder(set(), [])
    for block in steps:
        folder.add(book, book.number(PathStep(block, 1, 0)))
    return book, folder.entries


def unfolded(book: PathBook, entries: list[Entry] | tuple[Entry, ...]) -> list[int]:
    steps: list[int] = []
    for number, times in entries:
        content = book.content(number)
        body = book.sequence(number)
        steps += ([content.block] if body is None else unfolded(book, body)) * times
    return steps


@given(REPEATED)
def test_nothing_is_lost(steps: list[int]) -> None:
    assert unfolded(*folded(steps)) == steps


@given(REPEATED)
def test_no_repeat_is_left(steps: list[int]) -> None:
    """Neither a sequence behind itself nor one behind its counted repeats."""
    book, entries = folded(steps)
    for end in range(1, len(entries) + 1):
        for period in range(2, min(LONGEST_PERIOD, end) + 1):
            tail = entries[end - period : end]
            if 2 * period <= end:
                assert entries[end - 2 * period : end - period] != tail
            if period < end:
                assert book.sequence(entries[end - period - 1][0]) != tuple(tail)


@pytest.mark.parametrize("period", [1, 2, 3, LONGEST_PERIOD - 1, LONGEST_PERIOD])
@pytest.mark.parametrize("times", [2, 3, 7])
def test_repeats_up_to_the_longest_period_are_one_entry(period: int, times: int) -> None:
    book, entries = folded(list(range(period)) * times)
    assert [count for _, count in entries] == [times]
    assert unfolded(book, entries) == list(range(period)) * times


def test_a_longer_period_is_not_looked_for() -> None:
    _, entries = folded(list(range(LONGEST_PERIOD + 1)) * 2)
    assert len(entries) == 2 * LONGEST_PERIOD + 2
