"""Facts as they are stated, before they are placed in a kernel: what, where, and who says so.

The sources are the options (``--loop-bound``, ``--param``), the launch file, a facts file
(:mod:`ptxwcet.flow.facts.files`) and comments in the PTX (:mod:`ptxwcet.flow.facts.asm_comments`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ptxwcet.flow.facts.cuda_loops import SourceLoop
from ptxwcet.ir.kernel import Kernel
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import Span


@dataclass(frozen=True, slots=True)
class FactSource:
    """Who states a fact, for people (``--loop-bound``, ``facts.toml:12``), and where in a text."""

    name: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A block of a kernel: by its label, or by a line of the CUDA source.

    ``file`` is the name of the source file, without its folders or with some of them; empty: the
    file in which the kernel stands.
    """

    label: str = ""
    line: int = 0
    file: str = ""

    def __str__(self) -> str:
        return self.label or (f"{self.file}:{self.line}" if self.file else f"line {self.line}")


def line_place(text: str) -> Place | None:
    """``"27"`` or ``"kernel.cu:27"`` as a place; None if it is no line, which begin at 1."""
    match = re.fullmatch(r"(?:(?P<file>.+):)?0*(?P<line>[1-9][0-9]{0,8})", text, re.ASCII)
    return None if match is None else Place(line=int(match["line"]), file=match["file"] or "")


@dataclass(frozen=True, slots=True)
class LoopFact:
    """At most ``bound`` body executions for each entry; at most ``total`` in a run of a warp.

    ``kernel`` None: any kernel of the file. ``total_source`` says the total, if another place does.
    """

    place: Place
    source: FactSource
    bound: int | None = None
    total: int | None = None
    kernel: str | None = None
    total_source: FactSource | None = None


@dataclass(frozen=True, slots=True)
class BranchFact:
    """What is known of the branch at the end of a block.

    ``never``: no warp finds it taken (True) or not taken (False); ``uniform``: ``"warp"`` or
    ``"block"``, all threads of which go the same way.
    """

    place: Place
    source: FactSource
    never: bool | None = None
    uniform: str | None = None
    kernel: str | None = None


@dataclass(frozen=True, slots=True)
class ExclusiveFact:
    """Two outcomes of branches that no warp has in one run: places, and whether taken."""

    outcomes: tuple[tuple[Place, bool], tuple[Place, bool]]
    source: FactSource
    kernel: str | None = None


@dataclass(frozen=True, slots=True)
class CallFact:
    """A warp calls ``function`` at most ``total`` times in a run; at ``place`` only, if given."""

    function: str
    total: int
    source: FactSource
    place: Place | None = None
    kernel: str | None = None


@dataclass(frozen=True, slots=True)
class ParameterFact:
    """A value (``"5"``, ``0.5``) or range (``"1..4096"``) of a parameter, as written: a text, or a
    number where a file has one.
    """

    name: str
    stated: str | int | float
    source: FactSource
    kernel: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """One copy of a comment in the PTX that states a loop bound.

    ``anchor`` and ``other`` are where the instructions around it start. ``is_sure``: whoever
    executes the block of ``anchor`` passes the comment once. ``around`` are the loops around it in
    the CUDA source, innermost first, as far as they are known; it stands at ``file`` and ``line``.
    ``origin`` is equal for the copies of one comment that the compiler made; None: not known.
    """

    span: Span
    is_total: bool
    number: int
    anchor: int
    other: int
    is_sure: bool
    origin: str | None
    source: FactSource
    file: str = ""
    line: int = 0
    around: tuple[SourceLoop, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadFact:
    """A fact that an internal error kept from being read, which costs the kernels it may concern.

    These are kernel ``kernel``, if it is known, and those that execute an instruction of the text
    from ``start`` to ``end``; all kernels of the file, if neither is known.
    """

    failure: Diagnostic
    kernel: str | None = None
    start: int = 0
    end: int = 0

    def concerns(self, kernel: Kernel) -> bool:
        """Whether it costs ``kernel``, whose calls have been replaced. Cost: linear."""
        if self.kernel is not None:
            return self.kernel == kernel.name
        inside = any(self.start <= one.start < self.end for one in kernel.instructions)
        return inside or self.start == self.end


@dataclass(frozen=True, slots=True)
class StatedFacts:
    """All that is said about the kernels of a file.

    ``marks`` are comments of the PTX itself; ``arrays`` say of pointers in which range the integers
    lie that are loaded through them (``"s32 0..4096"``). ``foreign`` are kernels with names of
    parameters and places of loops that others of the request have, and they have not: what no
    kernel is named with is not said of them.
    """

    loops: tuple[LoopFact, ...] = ()
    branches: tuple[BranchFact, ...] = ()
    exclusive: tuple[ExclusiveFact, ...] = ()
    parameters: tuple[ParameterFact, ...] = ()
    marks: tuple[Mark, ...] = ()
    calls: tuple[CallFact, ...] = ()
    unread: tuple[UnreadFact, ...] = ()
    arrays: tuple[ParameterFact, ...] = ()
    foreign: frozenset[tuple[str, str | Place]] = frozenset()

    def of_kernel(self, name: str) -> StatedFacts:
        """The facts that concern kernel ``name``. Cost: linear."""
        return StatedFacts(
            tuple(
                fact
                for fact in self.loops
                if fact.kernel == name
                or (fact.kernel is None and (name, fact.place) not in self.foreign)
            ),
            tuple(fact for fact in self.branches if fact.kernel in (None, name)),
            tuple(fact for fact in self.exclusive if fact.kernel in (None, name)),
            self._of_parameters(self.parameters, name),
            self.marks,
            tuple(fact for fact in self.calls if fact.kernel in (None, name)),
            self.unread,
            self._of_parameters(self.arrays, name),
        )

    def _of_parameters(
        self, facts: tuple[ParameterFact, ...], name: str
    ) -> tuple[ParameterFact, ...]:
        return tuple(
            fact
            for fact in facts
            if fact.kernel == name
            or (fact.kernel is None and (name, fact.name) not in self.foreign)
        )


NO_FACTS = StatedFacts()
"""Nothing is stated."""


def parse_loop_bounds(assignments: Sequence[str]) -> tuple[LoopFact, ...]:
    """``["$L__BB0_3=100", "27=64", "k.cu:27=64"]``: most body executions, by label or source line.

    Raises PtxwcetError (PW216).
    """
    facts = []
    for assignment in assignments:
        text, _, count = assignment.rpartition("=")
        place, number = text.strip(), count.strip()
        where = line_place(place) or Place(place)
        is_place = place and not re.fullmatch(r"(.*:)?[0-9]+", where.label, re.ASCII)
        if not is_place or not re.fullmatch(r"[0-9]{1,18}", number, re.ASCII):
            raise PtxwcetError(
                Diagnostic(
                    "PW216",
                    f"--loop-bound {assignment!r} is not PLACE=ITERATIONS",
                    help="PLACE is the label of the loop's first block or a line of the CUDA "
                    "source (27 or kernel.cu:27), for example --loop-bound '$L__BB0_2=64'; "
                    "ITERATIONS has at most 18 digits",
                )
            )
        source = FactSource(f"--loop-bound {place}={number}")
        facts.append(LoopFact(where, source, bound=int(number)))
    return tuple(facts)


def conflict(
    what: str,
    one: tuple[str, FactSource],
    two: tuple[str, FactSource],
    remedy: str = "give one of them, or let both say the same",
) -> Diagnostic:
    """PW215: two sources contradict each other; each comes as what it says, and who it is."""
    (first, by), (second, other) = one, two
    span = other.span or by.span
    return Diagnostic(
        "PW215",
        f"{what} is given twice: {by.name} says {first}, {other.name} says {second}",
        span,
        tuple(f"{source.name} stands at {source.span}" for source in (by, other) if source.span),
        remedy,
    )
