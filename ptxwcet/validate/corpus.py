"""The built-in corpus: blocks whose exact worst case is known, with their bounds.

The first five are published: Example 1 of [J] and the four blocks that exceed GUB. In the others
SAFE or the lower bound is exact, so that a bound that loses a cycle is caught: by each of them for
another reason, which its name states.
"""

from __future__ import annotations

from ptxwcet.support.records import dataclass
from ptxwcet.validate.cases import Case, deal
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Node,
    Repeat,
    Scoreboard,
    TimedInstruction,
)


@dataclass(frozen=True, slots=True)
class KnownCase:
    """A case with its exact worst case over all work-conserving schedules and its bounds."""

    case: Case
    worst: int
    safe: int
    gub: int
    lower: int


def _i(
    unit: str,
    initiation: int,
    latency: int,
    writes: str = "",
    reads: str = "",
    *,
    conditional: bool = False,
    bubble: int = 0,
) -> TimedInstruction:
    return TimedInstruction(
        unit, initiation, latency, tuple(reads.split()), tuple(writes.split()), conditional, bubble
    )


def _raw(*programs: tuple[Node, ...]) -> BlockWorkload:
    return deal(programs, Scoreboard.RAW)


def _waw(*programs: tuple[Node, ...]) -> BlockWorkload:
    return deal(programs, Scoreboard.RAW_WAW)


_EXAMPLE_1 = (_i("A", 2, 6, "r0"), _i("B", 3, 4), _i("B", 3, 4), _i("C", 2, 4, "r3", "r0"))
_IDENTICAL = (
    _i("B", 3, 0, "r1"),
    _i("A", 1, 0, "r2"),
    _i("A", 2, 0, "r3", "r2"),
    _i("B", 2, 0, "r4", "r1"),
)
_ONE_INIT = (
    _i("C", 4, 0, "r2"),
    _i("A", 2, 0, "r0"),
    _i("A", 2, 0),
    _i("C", 4, 0, "", "r0"),
    _i("B", 3, 0, "", "r2"),
    _i("A", 2, 0),
    _i("B", 3, 0),
)
_DIFFERING = _raw(
    (_i("C", 3, 0), _i("A", 1, 0, "x"), _i("B", 2, 0, "", "x")),
    (_i("C", 2, 0, "y"), _i("A", 2, 0), _i("B", 1, 0, "", "y")),
)
_LATENCIES = _raw(
    (_i("P", 1, 9, "q"), _i("M", 1, 10, "X"), _i("A", 4, 0, "u", "q"), _i("B", 4, 0, "v", "X")),
    (
        _i("Z", 1, 8, "z"),
        *[_i("C", 1, 0)] * 8,
        _i("A", 4, 0, "a", "z"),
        _i("B", 4, 0, "b", "a"),
        _i("T", 1, 20, "t", "b"),
    ),
)
_BARRIER = Barrier(_i("barrier", 1, 0))
_LATE_BARRIER = Barrier(_i("barrier", 1, 0, bubble=2))
_STORES = (_i("A", 4, 3),)
_CHAIN = (_i("A", 1, 6, "x"), _i("A", 1, 6, "x", "x"), _i("A", 1, 6, "x", "x"))
_GUARDED = (
    _i("M", 1, 20, "x"),
    _i("A", 1, 0, "x", conditional=True),
    _i("A", 2, 1, "y", "x"),
)
_LOOP = (_i("A", 1, 2, "s", "s"), _i("B", 2, 0, "", "s", bubble=1))

CORPUS: tuple[KnownCase, ...] = (
    KnownCase(Case("paper example 1", _raw(_EXAMPLE_1, _EXAMPLE_1)), 18, 24, 23, 14),
    KnownCase(Case("GUB fails: differing warps", _DIFFERING), 8, 9, 7, 6),
    KnownCase(Case("GUB fails: identical warps", _raw(_IDENTICAL, _IDENTICAL)), 11, 13, 10, 10),
    KnownCase(Case("GUB fails: one initiation a unit", _raw(_ONE_INIT, _ONE_INIT)), 21, 30, 20, 16),
    KnownCase(Case("GUB fails: latencies", _LATENCIES), 48, 48, 46, 38),
    KnownCase(
        Case("sections overlap", _raw((_i("A", 1, 10), _BARRIER, _i("C", 1, 10)))), 13, 13, 22, 13
    ),
    KnownCase(Case("issue slots only", _raw((_i("A", 1, 0),), (_i("B", 1, 0),))), 2, 2, 2, 2),
    KnownCase(Case("one queue", _raw(*[_STORES] * 4)), 19, 19, 19, 16),
    KnownCase(Case("one warp: isolated length", _waw(_CHAIN)), 21, 21, 21, 21),
    KnownCase(
        Case("a chain among short warps", _raw(_CHAIN, *[(_i("B", 1, 0),)] * 3)), 24, 24, 24, 21
    ),
    KnownCase(Case("guarded write keeps the older result", _raw(_GUARDED)), 24, 24, 24, 24),
    KnownCase(
        Case("write after write", _waw((_i("M", 1, 9, "x"), _i("A", 1, 1, "x")))), 12, 12, 12, 12
    ),
    KnownCase(Case("taken branches in a loop", _waw((Repeat(5, _LOOP),))), 25, 25, 25, 25),
    KnownCase(
        Case(
            "barrier waits for the slowest",
            _raw((_i("A", 6, 0), _BARRIER, _i("B", 5, 0)), (_BARRIER, _i("B", 5, 0))),
        ),
        13,
        17,
        17,
        10,
    ),
    KnownCase(Case("bubble of a barrier", _raw((_LATE_BARRIER, _i("A", 1, 0)), ())), 4, 4, 4, 4),
    KnownCase(
        Case("barrier of busy ports", _raw(*[(_i("A", 1, 0), _BARRIER, _i("B", 1, 0))] * 3)),
        9,
        9,
        9,
        9,
    ),
    KnownCase(
        Case("two sub-cores", _raw(_STORES, _STORES, _STORES, _STORES), schedulers=2), 11, 11, 11, 8
    ),
)
"""All known cases. Times in cycles."""
