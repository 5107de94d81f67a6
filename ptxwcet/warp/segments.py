"""Cuts a warp program into sections between barriers ([J] 4.2; model, section 2).

Cutting keeps loops closed. With ``B`` a barrier, ``p Repeat(N, x B y B z) q`` becomes::

    p x B | y B | ( z x B | y B ) * (N - 1) | z q

Barriers of a part of the block stay in the sections; :func:`cut_at_waits` cuts a section again at
those where its warps wait.

A section includes the barrier that ends it (its own initiation and latency count there); the last
section of a program ends at its exit instead. Where all warps of the block choose between sides
with barriers, ``p {x B y, z} q``, the sections of the sides are alternatives, and the code that may
have been executed since the last barrier begins the next section::

    { p x B | , - } {y, p z} q
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from operator import is_

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import (
    Barrier,
    BlockChoice,
    BlockRepeat,
    Choice,
    Node,
    PartialBarrier,
    Repeat,
    TimedInstruction,
    Unordered,
    WarpProgram,
)
from ptxwcet.warp.structure import Body, entered, with_bodies


class NotStaticError(PtxwcetError):
    """The error of arrivals with an unknown phase; ``origin`` is the kernel's instruction."""

    def __init__(self, join: PartialBarrier, reason: str, help_text: str = "") -> None:
        phases = "let as many warps arrive as the barrier counts, in each phase the same, and none "
        phases += "before it has waited for what comes after the phase before"
        note = "which warps complete each of its phases must be the same in all runs"
        notes = () if help_text else (note,)
        message = f"{join.shown}: {reason}"
        super().__init__(Diagnostic("PW504", message, notes=notes, help=help_text or phases))
        self.origin = join.instruction.origin


@dataclass(frozen=True, slots=True)
class Section:
    """The code of a warp between two barriers. ``barrier`` is its last node, None at the exit."""

    body: tuple[Node, ...]
    barrier: Barrier | PartialBarrier | None


@dataclass(frozen=True, slots=True)
class SectionRepeat:
    """A sequence of sections executed ``count`` (>= 1) times in a row.

    With a ``site`` it may be fewer times, but equally often by all warps of the block.
    """

    count: int
    sections: tuple[Section | SectionRepeat | SectionChoice, ...]
    site: str = ""


@dataclass(frozen=True, slots=True)
class SectionChoice:
    """Alternative sequences of sections: one is executed, the same by all warps of the block."""

    site: int
    alternatives: tuple[tuple[Section | SectionRepeat | SectionChoice, ...], ...]


SectionNode = Section | SectionRepeat | SectionChoice


def has_barrier(body: Sequence[Node]) -> bool:
    """Returns whether a body has a barrier, of all warps or of some, or a choice of the block.

    Cost: linear in the tree.
    """
    return any(isinstance(node, Barrier | PartialBarrier | BlockChoice) for node in entered(body))


Ends = Callable[[Node], bool]
"""A predicate: whether a node is a barrier that ends a section."""


def _is_barrier(node: Node) -> bool:
    return isinstance(node, Barrier | PartialBarrier)


def meets_barrier(body: Sequence[Node], ends: Ends = _is_barrier) -> bool:
    """Returns whether every path through a body meets a barrier. Cost: linear in the tree."""
    for node in body:
        match node:
            case _ if ends(node):
                return True
            case Repeat(least=least, body=inner) if least > 0 and meets_barrier(inner, ends):
                return True
            case BlockRepeat(body=inner) if meets_barrier(inner, ends):
                return True
            case BlockChoice(alternatives=alternatives):
                if all(meets_barrier(side, ends) for side in alternatives):
                    return True
            case _:
                pass
    return False


def conditional(body: Sequence[Node]) -> tuple[Node, ...]:
    """Returns the body with all instructions conditional: results are ready at the later time.

    Then executing more of it never makes a result ready earlier. Returns the body itself if all are
    conditional already, as are sides in sides. Cost: linear in the tree.
    """
    out: list[Node] = []
    for node in body:
        match node:
            case TimedInstruction():
                out.append(node if node.conditional else replace(node, conditional=True))
            case Barrier() | PartialBarrier():
                inner = node.instruction
                late = inner if inner.conditional else replace(inner, conditional=True)
                out.append(node if late is inner else replace(node, instruction=late))
            case _:
                out.append(with_bodies(node, conditional))
    return body if isinstance(body, tuple) and all(map(is_, body, out)) else tuple(out)


def with_before_barriers(body: Sequence[Node], late: Body) -> Body:
    """Returns the body with ``late`` before each of its barriers. Cost: linear in the tree."""
    out: list[Node] = []
    for node in body:
        out += late if isinstance(node, Barrier | PartialBarrier) else ()
        out.append(with_bodies(node, partial(with_before_barriers, late=late)))
    return tuple(out)


def split_at_barrier(body: tuple[Node, ...]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Returns the nodes before the first barrier, and the rest; peels a loop with it once.

    Both together are the body. Cost: linear in the tree.
    """
    for place, node in enumerate(body):
        if not has_barrier((node,)):
            continue
        before, after = body[:place], body[place + 1 :]
        if isinstance(node, Repeat) and node.exact:
            inside, rest = split_at_barrier(node.body)
            again = (Repeat(node.count - 1, node.body),) if node.count > 1 else ()
            return (*before, *inside), (*rest, *again, *after)
        return before, (node, *after)
    return body, ()


def with_late_side(body: tuple[Node, ...], side: tuple[Node, ...]) -> tuple[Node, ...]:
    """Returns the body of some lanes of a warp, with the code of its other lanes before they end.

    They have ended when the first barrier is met: ``side`` may precede each barrier that may be the
    first, or be at the end where none is met. Raises PW501 for a first barrier in a loop.
    """
    late = Choice((side, ()))
    out: list[Node] = []
    for place, node in enumerate(body):
        match node:
            case Barrier() | PartialBarrier():
                return (*out, late, *body[place:])
            case BlockChoice(site, alternatives) if has_barrier((node,)):
                sides = tuple(
                    with_late_side(way, side) if has_barrier(way) else way for way in alternatives
                )
                out.append(BlockChoice(site, sides))
                if meets_barrier((node,)):
                    return (*out, *body[place + 1 :])
            case _ if has_barrier((node,)):
                raise PtxwcetError(_refusal("a loop behind a branch that is not decided"))
            case _:
                out.append(node)
    return (*out, late)


def cut_at_barriers(program: WarpProgram) -> tuple[SectionNode, ...]:
    """Returns the sections of a program in order; the last ends at the exit and may be empty.

    A loop that holds barriers may be inexact if all warps run it equally often: its largest count
    is taken, and more sections never make a sum of section bounds smaller. Raises PW501 for a
    barrier inside a divergent or undecided branch, or inside a loop that warps may run differently
    often. Cost: linear in the tree, times two for every level of loops that hold barriers.
    """
    sections, tail = _cut(program.body, (), lambda node: isinstance(node, Barrier))
    return (*sections, Section(tail, None))


def cut_at_waits(body: Body) -> tuple[SectionNode, ...]:
    """Returns a section cut where the warp waits at barriers of a part of the block.

    Raises PW501 for a barrier in undecided code, PW504 for a barrier in a loop with an unknown
    number of iterations. Cost: as :func:`cut_at_barriers`.
    """
    require_decided(body)
    sections, tail = _cut(body, (), lambda node: isinstance(node, PartialBarrier) and node.waits)
    return (*sections, Section(tail, None))


def has_join(body: Sequence[Node]) -> bool:
    """Returns whether a body has a barrier of a part of the block. Cost: linear in the tree."""
    return any(isinstance(node, PartialBarrier) for node in entered(body))


def has_named_join(body: Sequence[Node]) -> bool:
    """Returns whether a body has a barrier of a part of the block other than an mbarrier."""
    joins = (node for node in entered(body) if isinstance(node, PartialBarrier))
    return any(join.mbarrier is None for join in joins)


def as_joins(body: Body, warps: int, names: Collection[str] | None = None) -> Body:
    """Returns the body whose barriers of the block, or of these names, join ``warps`` warps."""
    return tuple(
        PartialBarrier(node.instruction, node.name, warps)
        if isinstance(node, Barrier) and (names is None or node.name in names)
        else with_bodies(node, lambda inner: as_joins(inner, warps, names))
        for node in body
    )


def has_mbarrier(body: Sequence[Node]) -> bool:
    """Returns whether a body counts at an mbarrier, or polls one."""
    joins = (node for node in entered(body) if isinstance(node, PartialBarrier))
    return any(join.mbarrier is not None for join in joins)


def require_decided(body: Sequence[Node]) -> None:
    """Raises PW501 if barriers of a part of the block are in undecided code.

    This is code in loops with an unknown number of iterations, and in sides of branches.
    """
    for node in body:
        match node:
            case Repeat(count=count, body=inner) if count and has_join(inner):
                if not node.exact or not isinstance(count, int):
                    raise PtxwcetError(_refusal("a loop that runs an unknown number of times"))
                require_decided(inner)
            case Choice() | Unordered() | BlockChoice() | BlockRepeat() if has_join((node,)):
                raise PtxwcetError(_refusal("a branch or a loop that is not decided"))
            case _:
                pass


def _cut(
    body: Sequence[Node], prefix: tuple[Node, ...], ends: Ends
) -> tuple[list[SectionNode], tuple[Node, ...]]:
    """Returns the sections that end inside ``body`` after ``prefix``, and the rest."""
    sections: list[SectionNode] = []
    tail = list(prefix)

    def is_cut(inner: Sequence[Node]) -> bool:
        return any(ends(inside) or isinstance(inside, BlockChoice) for inside in entered(inner))

    for node in body:
        match node:
            case Barrier() | PartialBarrier() if ends(node):
                sections.append(Section((*tail, node), node))
                tail = []
            case BlockRepeat() | Repeat() if node.count and is_cut(node.body):
                if isinstance(node, Repeat) and not node.exact:
                    raise PtxwcetError(_refusal("a loop that warps may run differently often"))
                first, rest = _cut(node.body, tuple(tail), ends)
                sections += first
                if node.count > 1:
                    if not meets_barrier(node.body, ends):
                        raise PtxwcetError(_refusal("a loop whose iterations may not meet one"))
                    again, rest = _cut(node.body, rest, ends)
                    site = node.site if isinstance(node, BlockRepeat) else ""
                    sections.append(SectionRepeat(node.count - 1, tuple(again), site))
                tail = list(rest)
            case Unordered(one, other) if is_cut(one) or is_cut(other):
                raise PtxwcetError(_refusal("a branch that lanes of one warp decide differently"))
            case BlockChoice(site, sides):
                ways = [_cut(side, tuple(tail), ends) for side in sides]
                sections.append(SectionChoice(site, tuple(tuple(way) for way, _ in ways)))
                tail = [Choice(tuple(rest for _, rest in ways))]
            case Choice(sides) if any(map(is_cut, sides)):
                raise PtxwcetError(_refusal("a branch whose outcome is not known"))
            case _:
                tail.append(node)
    return sections, tuple(tail)


def _refusal(place: str) -> Diagnostic:
    return Diagnostic(
        "PW501",
        f"a barrier lies inside {place}: the warps of the block may meet different barriers",
        notes=("the bounds are proved for warps that all meet the same sequence of barriers",),
        help="give the parameters that decide the branch",
    )
