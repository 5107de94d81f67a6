"""Defines the problem: a kernel string, a number of warps, the warps that each unit kind serves.

The machine ([M], section 2): time slots; in each, up to L warps execute an L-instruction and up to
C warps a C-instruction, each one instruction at most, in order; work-conserving: a warp waits for a
kind of unit only if that kind serves as many warps as it can.
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
"""The longest string that a method writes out letter for letter."""
MOST_INSTRUCTIONS = 50_000
"""The most instructions of all warps for which schedules are built."""
MOST_VARIABLES = 200_000
"""The largest integer program that is given to the solver."""
MOST_REPEATS = 1024
"""The most slots per warp, which is the smallest capacity; a warp has 32 threads."""

_CAPACITY = re.compile(r"[0-9]{1,9}(/0*[1-9][0-9]{0,8}|\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class MakespanProblem:
    """The problem: ``warps`` warps execute ``tree``; per slot ``load_store`` L and ``cores`` C.

    Capacities are whole numbers of warps (L and C of [M] after its transformation).
    """

    tree: StringTree
    warps: int
    load_store: int = 1
    cores: int = 1

    @property
    def shape(self) -> StringShape:
        """The properties of the string that formulas need."""
        return shape_of(self.tree)

    @property
    def string(self) -> str:
        """The string letter for letter. Raises PtxwcetError (PW564) for a long one."""
        return unrolled(self.tree, MOST_LETTERS)

    @property
    def capacities(self) -> tuple[int, int]:
        """The numbers of warps that load/store units and cores serve."""
        return self.load_store, self.cores

    @property
    def is_unit(self) -> bool:
        """Whether each kind of unit serves one warp per slot: L = C = 1."""
        return self.load_store == self.cores == 1


def build_problem(
    tree: StringTree, warps: int, load_store: Fraction, cores: Fraction
) -> MakespanProblem:
    """Returns the problem with whole capacities: 1/n serves a warp in n slots (n letters).

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
    """Returns the repetitions of a letter, and the remaining capacity."""
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
    """Returns a capacity from its text: ``2``, ``1/2``, ``0.5``. Raises PtxwcetError (PW561)."""
    if _CAPACITY.fullmatch(text) is None:
        raise PtxwcetError.of(
            "PW561",
            f"capacity {text!r} of the {name} is not a number",
            help="give a whole number of warps or 1/n: 1, 2, 1/2",
        )
    return Fraction(text)


@dataclass(frozen=True, slots=True)
class Effort:
    """The effort: seconds in all (None: no limit), x of the extrapolation, kind of constraints.

    ``report(text, done)`` is called regularly; ``done`` is the completed part, 0 to 1.
    """

    seconds: float | None = None
    most_extrapolated: int = 8
    constraints: Constraints = Constraints.SHORT
    report: Callable[[str, float], None] = lambda _text, _done: None
    start: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float | None:
        """The remaining seconds, at least a little; None without a limit."""
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
    """Returns the schedule that ``build`` gives; None for one of too many instructions.

    The machine's checker verifies it, and its ``slots``. Raises: ScheduleError.
    """
    length = problem.shape.length
    if length > MOST_LETTERS or length * problem.warps > MOST_INSTRUCTIONS:
        return None
    schedule = build()
    checked = check_schedule(schedule, problem.string, problem.warps, *problem.capacities)
    assert checked == (slots or checked), f"the schedule has {checked} slots, not {slots}"
    return schedule


def rounded(number: int) -> str:
    """Returns a number for people, long ones as a power of ten."""
    return f"{number:,}" if number < 10**12 else f"about 10^{len(str(number)) - 1}"


PAPER = "Berezovskyi, Bletsas, Andersson, ECRTS 2012"
"""The source of the machine and of the published methods."""

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
"""The assumptions of every method: they define the machine whose slots are counted."""

SUBADDITIVE = Assumption(
    "subadditive",
    "W warps take no longer than ceil(W / y) batches of y warps: refuted for y = 2",
    AssumptionState.DOUBTFUL,
    f"{PAPER}, section 5.6",
)
"""The assumption of the published extrapolation."""


@dataclass(frozen=True, slots=True)
class MakespanAnswer:
    """The answer: ``claim.cycles`` time slots by a method; some schedule takes at least ``lower``.

    If both are equal, and a safe bound, it is the exact worst case. ``schedule`` has ``lower``
    slots if present. ``note`` explains the number.
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
        """Returns the answer, given by ``method`` for the reason of ``note``."""
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
    """Returns an answer with the machine's assumptions; ``place`` is the method's publication."""
    citations = (Citation(PAPER, place),) if place else ()
    claim = TimingClaim(slots, guarantee, method, (*ASSUMPTIONS, *extra), citations)
    return MakespanAnswer(claim, lower, schedule, note)
