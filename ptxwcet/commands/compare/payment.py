"""Values that differ in two results, and what pays the difference of two bounds of a block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ptxwcet.commands.bound.report import Explanation, PaidRow


@dataclass(frozen=True, slots=True)
class Change:
    """A number or word that differs in two results; None in the one that does not have it."""

    what: str
    old: int | str | None
    new: int | str | None
    growth_percent: float | None = None


@dataclass(frozen=True, slots=True)
class LineChange:
    """A source line that pays more or less of a block's bound, matched by text or else by place.

    Places and cycles are None where the line is in one of the two only.
    """

    old_place: str | None
    new_place: str | None
    text: str | None
    old: int | None
    new: int | None


@dataclass(frozen=True, slots=True)
class Payment:
    """What pays the difference of two bounds of a block that are both explained, in cycles.

    ``parts`` say whether warps issue, wait or stand back (docs/explain.md), ``op_classes`` for
    which instructions, ``lines`` for which line; the differences of each add up to ``difference``.
    Only what differs is there, the largest differences first.
    """

    difference: int
    parts: tuple[Change, ...]
    op_classes: tuple[Change, ...]
    lines: tuple[LineChange, ...]


def changes_between(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, ...]:
    """What has another value, or is in one of the two only; in the order of the new ones."""
    return tuple(
        Change(key, old.get(key), new.get(key), _growth(old.get(key), new.get(key)))
        for key in dict.fromkeys((*new, *old))
        if old.get(key) != new.get(key)
    )


def _growth(old: int | str | None, new: int | str | None) -> float | None:
    if not isinstance(old, int) or not isinstance(new, int) or old == 0:
        return None
    return round(100 * (new / old - 1), 2)


_PARTS: tuple[tuple[str, Callable[[PaidRow], int]], ...] = (
    ("issue", lambda row: row.issue),
    ("waits for results", lambda row: row.waiting_for_result),
    ("waits for units", lambda row: row.waiting_for_unit),
    ("other warps", lambda row: row.interference),
)


def payment_of(before: Explanation, now: Explanation) -> Payment | None:
    """What pays the difference of two bounds; None if all is paid alike. Cost: that of sorting."""
    parts = [
        {name: sum(map(cycles_of, one.lines)) for name, cycles_of in _PARTS}
        for one in (before, now)
    ]
    classes = [{row.place: row.total for row in one.op_classes} for one in (before, now)]
    payment = Payment(
        now.cycles - before.cycles,
        _by_difference(changes_between(*parts)),
        _by_difference(changes_between(*classes)),
        _by_difference(one for one in _line_changes(before, now) if one.old != one.new),
    )
    return payment if payment.parts or payment.op_classes or payment.lines else None


_Changed = TypeVar("_Changed", Change, LineChange)


def _by_difference(rows: Iterable[_Changed]) -> tuple[_Changed, ...]:
    return tuple(sorted(rows, key=lambda one: -abs(difference_of(one))))


def difference_of(one: Change | LineChange) -> int:
    """New minus old cycles; what is in one of the two only takes none in the other."""
    old, new = (value if isinstance(value, int) else 0 for value in (one.old, one.new))
    return new - old


def _line_changes(old: Explanation, new: Explanation) -> Iterator[LineChange]:
    """Each line of both, paired with one of equal text, else of equal place, else alone."""
    left, right = _in_order(old.lines), _in_order(new.lines)
    for key_of in (_by_text, _by_place):
        before = key_of(left.values())
        for key, line in key_of(right.values()).items():
            match = before.get(key)
            if match is not None:
                yield LineChange(match.place, line.place, line.text, match.total, line.total)
                del left[match.place], right[line.place]
    yield from (LineChange(row.place, None, row.text, row.total, None) for row in left.values())
    yield from (LineChange(None, row.place, row.text, None, row.total) for row in right.values())


def _in_order(rows: Iterable[PaidRow]) -> dict[str, PaidRow]:
    """Lines by their places, in the order of file and number."""

    def key(row: PaidRow) -> tuple[str, int, str]:
        file, _, number = row.place.rpartition(":")
        return file, int(number) if number.isdecimal() else 0, row.place

    return {row.place: row for row in sorted(rows, key=key)}


def _by_text(rows: Iterable[PaidRow]) -> dict[Hashable, PaidRow]:
    times: Counter[str] = Counter()
    found: dict[Hashable, PaidRow] = {}
    for row in rows:
        if row.text is not None:
            text = " ".join(row.text.split())
            times[text] += 1
            found[text, times[text]] = row
    return found


def _by_place(rows: Iterable[PaidRow]) -> dict[Hashable, PaidRow]:
    return {row.place: row for row in rows}
