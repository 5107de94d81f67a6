"""The waist: what one warp executes, with times, and nothing else.

Path extraction, trace import and random generators all produce a :class:`WarpProgram`; bounds and
simulators know only this. A program is a tree: timed instructions and barriers in issue order,
loops as :class:`Repeat` (never unrolled; :class:`BlockRepeat` where barriers are in one that is
not counted exactly), sides of a divergent branch whose order the hardware
chooses as :class:`Unordered`, and alternatives that the analysis cannot decide as :class:`Choice`
(:class:`BlockChoice` where barriers are among them). :class:`Tally` marks what happens at most so
often in a whole run. A program without Unordered, choices, tallies and inexact repeats is a *single
known path*.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cached_property

from ptxwcet.support.records import dataclass


class Scoreboard(Enum):
    """Which registers must be ready before an instruction may issue."""

    RAW = "raw"  # those it reads
    RAW_WAW = "raw+waw"  # those it reads and those it writes


WARPGROUP = 4
"""The warps of a warpgroup, neighbours by their numbers; the first is a multiple of it."""


@dataclass(frozen=True, slots=True)
class TimedInstruction:
    """One issued instruction: unit, timing, registers.

    It occupies ``unit`` for ``initiation_cycles`` (>= 1) from its dispatch; its ``writes`` are
    ready ``initiation_cycles + latency_cycles`` after dispatch. ``conditional`` marks a guarded
    instruction: its destinations are ready at the later of the old and the new time. After its
    issue the warp issues nothing for ``bubble_cycles`` more cycles (a taken branch). ``origin`` is
    the index of the kernel's instruction it came from (-1: synthetic); timing must not depend on
    it.

    Behind its unit it occupies the memory path of the SM for ``path_cycles`` and has ``sectors`` of
    32 bytes served by the memory of the GPU, of which ``kept_sectors`` lie in arrays that are set
    aside in a cache before it. What it takes there itself is in its latency, that it
    may wait there is not (docs/methods/memory-servers.md).

    One that ``joins`` is executed by the four warps of a warpgroup together: it enters the queues
    of its unit when the last of them has issued it (docs/methods/warpgroups.md).
    """

    unit: str
    initiation_cycles: int
    latency_cycles: int
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    conditional: bool = False
    bubble_cycles: int = 0
    origin: int = -1
    path_cycles: int = 0
    sectors: int = 0
    kept_sectors: int = 0
    joins: bool = False


@dataclass(frozen=True, slots=True)
class Barrier:
    """A block-wide barrier: an instruction that also waits for all warps of the block.

    ``counts``: it says for how many threads it is, so that warps that have ended are missed.
    """

    instruction: TimedInstruction
    name: str = "0"
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Mbarrier:
    """What a warp does to an mbarrier (docs/methods/mbarriers.md).

    ``expects`` says of how many arrivals each phase is from now on. A phase is over when so many
    have come and no byte is owed: ``arrivals`` come with the instruction, ``owes`` bytes are added
    to what is owed before that, and ``brings`` taken off ``after_cycles`` behind its latency. Where
    it is ``behind`` copies it comes so long after the last of those of its warp that were issued
    before and write one of these registers. Of a wait, ``parity`` is that of the phase. It ``ends``
    where it is invalidated.

    A warp that waits asks again, each time for ``round_cycles`` at most if it is alone, of which
    ``poll_cycles`` are initiations, and not before ``again_cycles`` have passed.
    """

    expects: int = 0
    arrivals: int = 0
    owes: int = 0
    brings: int = 0
    after_cycles: int = 0
    parity: int = 0
    round_cycles: int = 0
    poll_cycles: int = 0
    again_cycles: int = 0
    behind: tuple[str, ...] = ()
    ends: bool = False


REGISTERS = "registers"
"""The name of what warps of a block count at that give registers up (``setmaxnreg.dec``), of which
others wait for all: as an mbarrier of one phase, but that nobody need wait for its end.
"""


@dataclass(frozen=True, slots=True)
class PartialBarrier:
    """A barrier that opens when ``warps`` warps have arrived (``bar.sync a, b``).

    A warp that does not ``wait`` only arrives (``bar.arrive``). Arrivals meet if name and number of
    warps are the same. Of an ``mbarrier`` the ``warps`` say nothing, and waits do not arrive.
    """

    instruction: TimedInstruction
    name: str
    warps: int
    waits: bool = True
    mbarrier: Mbarrier | None = None

    @property
    def shown(self) -> str:
        """What people call it."""
        if self.name == REGISTERS:
            return "what is given up of registers"
        if self.mbarrier is not None:
            return f"mbarrier {self.name}"
        return f"barrier {self.name} of {self.warps} warps"


Step = TimedInstruction | Barrier | PartialBarrier
"""What is issued."""


def instruction_of(step: Step) -> TimedInstruction:
    """What is issued, as an instruction."""
    return step if isinstance(step, TimedInstruction) else step.instruction


@dataclass(frozen=True)
class Repeat:
    """``body`` executed ``count`` times in a row; at least ``least`` times when inexact.

    ``least == count`` is an exact loop. ``count`` may be astronomically large: no consumer unrolls.
    """

    count: int
    body: tuple[Node, ...]
    least: int = -1  # -1 means: exactly count

    def __post_init__(self) -> None:
        if self.least == -1:
            object.__setattr__(self, "least", self.count)
        if not 0 <= self.least <= self.count:
            raise ValueError(f"repeat of {self.least}..{self.count} times")

    @property
    def exact(self) -> bool:
        """Whether the number of executions is known."""
        return self.least == self.count


@dataclass(frozen=True)
class BlockRepeat:
    """``body``, which has barriers, executed 1 to ``count`` times, equally often by all warps.

    How often is not known, but it is one number for the block: ``site`` names the loop and why.
    Only repeats of one ``site`` and ``count`` agree with each other.
    """

    site: str
    count: int
    body: tuple[Node, ...]

    @property
    def least(self) -> int:
        """How often it is executed at least."""
        return 1


@dataclass(frozen=True)
class Unordered:
    """Both sides of a divergent branch, each executed once, in an order chosen by the hardware.

    ``has_others``: besides, lanes of which nothing is known may execute anything before and after.
    """

    first: tuple[Node, ...]
    second: tuple[Node, ...]
    has_others: bool = False


@dataclass(frozen=True)
class Choice:
    """Exactly one of the alternatives is executed; which one is not known."""

    alternatives: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True)
class BlockChoice:
    """One of the alternatives is executed, the same by all warps of the block: which barriers they
    meet depends on it. ``site`` names the branch: choices of warps with the same site agree.
    """

    site: int
    alternatives: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """A mark that takes no time; a run of the warp passes at most ``most`` marks of its ``key``.

    Ways through the program that pass more are not taken. All tallies of a program with one key
    have the same ``most``. It is a mark of the whole run, and so of each section of it.
    """

    key: str
    most: int


Node = Step | Repeat | BlockRepeat | Unordered | Choice | BlockChoice | Tally

OTHERS_BETWEEN = Unordered((), (), has_others=True)
"""Where other lanes of the warp may go on, so that nothing is known of what is under way behind it:
the warp issues nothing before all of that is through."""


@dataclass(frozen=True)
class WarpProgram:
    """What one warp executes, from its first instruction to its last."""

    body: tuple[Node, ...]

    @cached_property
    def is_single_path(self) -> bool:
        """Whether exactly one instruction sequence is possible (E, GUB, lower bounds need it)."""
        return is_single_path(self.body)


def is_single_path(body: tuple[Node, ...]) -> bool:
    """Whether a body stands for exactly one instruction sequence. Cost: linear in the tree.

    A count that is an :class:`~ptxwcet.support.affine.Affine` number stands for several.
    """
    for node in body:
        match node:
            case Unordered() | Choice() | BlockChoice() | BlockRepeat() | Tally():
                return False
            case Repeat(count=count, body=inner):
                if not isinstance(count, int) or not node.exact or not is_single_path(inner):
                    return False
            case _:
                pass
    return True


@dataclass(frozen=True)
class WarpClass:
    """Warps of a block that execute the same program. ``warps`` are their numbers (0 = oldest)."""

    program: WarpProgram
    warps: tuple[int, ...]


@dataclass(frozen=True)
class BlockWorkload:
    """All warps of one thread block, grouped by program, and the scoreboard of the machine."""

    classes: tuple[WarpClass, ...]
    scoreboard: Scoreboard

    @property
    def warp_count(self) -> int:
        """Number of warps in the block."""
        return sum(len(warp_class.warps) for warp_class in self.classes)


def unroll(body: tuple[Node, ...]) -> Iterator[Step]:
    """The instructions of a single-path body one by one. For tests and oracles only.

    Raises ValueError on nodes without a single order. Cost: linear in the executed length.
    """
    for node in body:
        match node:
            case TimedInstruction() | Barrier() | PartialBarrier():
                yield node
            case Repeat() if node.exact:
                for _ in range(node.count):
                    yield from unroll(node.body)
            case _:
                raise ValueError("not a single path")
