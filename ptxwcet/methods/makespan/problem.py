"""What is asked: a kernel string, a number of warps, how many warps each kind of unit serves.

The machine ([M], section 2): time slots; in each, up to L warps execute an L-instruction and up to
C warps a C-instruction, each one instruction at most, in order; work-conserving: a warp that waits
for a kind of unit waits only if that kind serves as many warps as it can.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import field, replace
from fractions import Fraction

from ptxwcet.claims import Assumption, AssumptionState, Citation, Guarantee, TimingClaim
from ptxwcet.methods.makespan.ilp_model import Constraints
from ptxwcet.methods.makespan.schedule import Schedule, check_schedule
from ptxwcet.methods.makespan.strings import (
    StringShape,
    StringTree,
    repeat_letters,
    shape_of,
    unrolled,
)
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass

MOST_LETTERS = 10_000
"""Longest string that a method writes out letter for letter."""
MOST_INSTRUCTIONS = 50_000
"""Instructions of all warps up to which schedules are built."""
MOST_VARIABLES = 200_000
"""Largest integer program that is given to the solver."""
MOST_REPEATS = 1024
"""The smallest capacity is one warp in so many slots; a warp has 32 threads."""

_CAPACITY = re.compile(r"[0-9]{1,9}(/0*[1-9][0-9]{0,8}|\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class MakespanProblem:
    """``warps`` identical warps execute ``tree``; per slot ``load_store`` L and ``cores`` C.

    Capacities are whole numbers of warps (L and C of [M] after its transformation).
    """

    tree: StringTree
    warps: int
    load_store: int = 1
    cores: int = 1

    @property
    def shape(self) -> StringShape:
        """What formulas need of the string."""
        return shape_of(self.tree)

    @property
    def string(self) -> str:
        """The string letter for letter. Raises PtxwcetError (PW564) for a long one."""
        return unrolled(self.tree, MOST_LETTERS)

    @property
    def capacities(self) -> tuple[int, int]:
        """How many warps load/store units and cores serve."""
        return self.load_store, self.cores

    @property
    def is_unit(self) -> bool:
        """One warp a slot on each kind of unit: L = C = 1."""
        return self.load_store == self.cores == 1


def build_problem(
    tree: StringTree, warps: int, load_store: Fraction, cores: Fraction
) -> MakespanProblem:
    """The problem with whole capacities: 1/n serves a warp in n slots, so a letter becomes n.

    [M] section 3: n sub-warps of one warp use the unit in mutual exclusion, one a slot. Raises
    PtxwcetError (PW561): no warps, or a capacity that is neither whole nor 1/n.
    """
    if warps < 1:
        raise PtxwcetError.of(
            "PW561", f"{warps} warps: at least one warp is needed", help="give --warps"
        )
    loads, load_store_whole = _split("load/store units", load_store)
    repeats, cores_whole = _split("cores", cores)
    return MakespanProblem(
        repeat_letters(tree, loads, repeats), warps, load_store_whole, cores_whole
    )


def _split(name: str, capacity: Fraction) -> tuple[int, int]:
    """How often a letter is repeated, and the capacity that remains."""
    if capacity >= 1 and capacity.denominator == 1:
        return 1, capacity.numerator
    if capacity.numerator == 1 and capacity.denominator <= MOST_REPEATS:
        return capacity.denominator, 1
    raise PtxwcetError.of(
        "PW561",
        f"capacity {capacity} of the {name}: it must be a whole number of warps, or 1/n with "
        f"n at most {MOST_REPEATS}",
        help="1 serves one warp a slot, 2 two of them, 1/2 one warp in two slots",
    )


def parse_capacity(name: str, text: str) -> Fraction:
    """A capacity as it is written: ``2``, ``1/2``, ``0.5``. Raises PtxwcetError (PW561)."""
    if _CAPACITY.fullmatch(text) is None:
        raise PtxwcetError.of(
            "PW561",
            f"capacity {text!r} of the {name} is not a number",
            help="give a whole number of warps or 1/n: 1, 2, 1/2",
        )
    return Fraction(text)


@dataclass(frozen=True, slots=True)
class Effort:
    """How to answer: seconds in all (None: no limit), x of the extrapolation, kind of constraints.

    ``report(text, done)`` is called now and then; ``done`` is the part that is done, 0 to 1.
    """

    seconds: float | None = None
    most_extrapolated: int = 8
    constraints: Constraints = Constraints.SHORT
    report: Callable[[str, float], None] = lambda _text, _done: None
    start: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float | None:
        """Seconds that are left, at least a little; None without a limit."""
        if self.seconds is None:
            return None
        return max(0.01, self.seconds - (time.monotonic() - self.start))

    @property
    def is_over(self) -> bool:
        """Whether the time limit has passed."""
        return self.seconds is not None and time.monotonic() - self.start >= self.seconds


def witness(
    problem: MakespanProblem, build: Callable[[], Schedule], slots: int | None = None
) -> Schedule | None:
    """The schedule that ``build`` gives; None for one of too many instructions.

    The checker of the machine has the last word on it, and on its ``slots``. Raises: ScheduleError.
    """
    length = problem.shape.length
    if length > MOST_LETTERS or length * problem.warps > MOST_INSTRUCTIONS:
        return None
    schedule = build()
    found = check_schedule(schedule, problem.string, problem.warps, *problem.capacities)
    assert found == (slots or found), f"the schedule has {found} slots, not {slots}"
    return schedule


def rounded(number: int) -> str:
    """A number for people, long ones as a power of ten."""
    return f"{number:,}" if number < 10**12 else f"about 10^{len(str(number)) - 1}"


PAPER = "Berezovskyi, Bletsas, Andersson, ECRTS 2012"
"""Where the machine and the published methods come from."""

ASSUMPTIONS = tuple(
    Assumption(key, text, AssumptionState.ASSUMED, f"{PAPER}, section 2")
    for key, text in {
        "no-cache-misses": "nothing leaves the chip: no instruction waits for memory",
        "unit-slots": "every instruction takes one time slot of its unit and holds it alone",
        "identical-warps": "all warps start together and execute the same string, in order, an "
        "instruction a slot",
        "work-conserving-slots": "no warp waits for a kind of unit that could serve one more in "
        "that slot",
    }.items()
)
"""What every method rests on: they define the machine whose slots are counted."""

SUBADDITIVE = Assumption(
    "subadditive",
    "W warps take no longer than ceil(W / y) batches of y warps: refuted for y = 2",
    AssumptionState.DOUBTFUL,
    f"{PAPER}, section 5.6",
)
"""What the published extrapolation rests on."""


@dataclass(frozen=True, slots=True)
class MakespanAnswer:
    """``claim.cycles`` time slots by a method; ``lower`` is what some schedule takes at least.

    Equal and a safe bound: the worst case exactly. ``schedule`` has ``lower`` slots if it is there.
    ``note`` says how the number came about.
    """

    claim: TimingClaim
    lower: int
    schedule: Schedule | None = None
    note: str = ""

    @property
    def slots(self) -> int:
        """The value: time slots until all warps have ended."""
        return self.claim.cycles

    @property
    def is_exact(self) -> bool:
        """Whether it is the longest makespan, proved from both sides."""
        return self.claim.guarantee is Guarantee.SAFE_BOUND and self.lower == self.slots

    def under(self, method: str, note: str) -> MakespanAnswer:
        """The answer, given by ``method`` for the reason of ``note``."""
        return replace(self, claim=replace(self.claim, method=method), note=note)


def state_makespan(
    slots: int,
    method: str,
    place: str = "",
    guarantee: Guarantee = Guarantee.SAFE_BOUND,
    *,
    lower: int,
    schedule: Schedule | None = None,
    note: str = "",
    extra: tuple[Assumption, ...] = (),
) -> MakespanAnswer:
    """An answer with the assumptions of the machine; ``place`` is where the method is published."""
    citations = (Citation(PAPER, place),) if place else ()
    claim = TimingClaim(slots, guarantee, method, (*ASSUMPTIONS, *extra), citations)
    return MakespanAnswer(claim, lower, schedule, note)
