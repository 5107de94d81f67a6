"""Aligns the barrier sections of different warps without unrolling their loops.

All warps of a block must meet the same sequence of barriers; a warp that has exited counts as
arrived (model, rule 6). Programs may be compressed differently: ``(a|b|) * 10`` in one class of
warps against ``(c|d|) * 4, (e|f|) * 6`` in another becomes four and six common repetitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import lcm

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import Barrier
from ptxwcet.warp.segments import Section, SectionChoice, SectionNode, SectionRepeat

# The most aligned sections before the alignment is refused. Warps of one kernel run the same loops,
# so real kernels need a few times the number of their barriers.
_MOST_SECTIONS = 20_000


@dataclass(frozen=True, slots=True)
class AlignedSection:
    """One section of all classes, executed ``multiplicity`` times in the run of the block.

    ``sections`` has one entry a class, None for a class whose warps have all exited before.
    """

    multiplicity: int
    sections: tuple[Section | None, ...]


@dataclass(frozen=True, slots=True)
class AlignedChoice:
    """Alternative common sections: one sequence is executed, ``multiplicity`` times in all."""

    multiplicity: int
    alternatives: tuple[tuple[AlignedSection | AlignedChoice, ...], ...]


AlignedStep = AlignedSection | AlignedChoice


def align_sections(classes: Sequence[Sequence[SectionNode]]) -> tuple[AlignedStep, ...]:
    """Returns the common sections of all classes, in the order of their first execution.

    Choices of the whole block are aligned side by side. Raises PW502 if classes meet different
    barriers, PW503 if their loops cannot be aligned in closed form within the limit. Cost:
    independent of trip counts when loops of the classes repeat the same number of barriers.
    """
    out: list[AlignedStep] = []
    _align([list(reversed(sections)) for sections in classes], 1, out)
    return tuple(out)


def _align(stacks: list[list[SectionNode]], times: int, out: list[AlignedStep]) -> None:
    """Aligns the stacks (next item last); the whole is executed ``times`` times."""
    while any(stacks):
        count = max(_leading(stack) for stack in stacks)
        if count:
            _lay_out(stacks, count, times, out)
            continue
        if any(isinstance(stack[-1], SectionChoice) for stack in stacks if stack):
            out.append(_choose(stacks, times))
            continue
        heads = [_head(stack) for stack in stacks if stack]
        together = len({(head.site, head.count, _barriers(head.sections)) for head in heads}) == 1
        if not together and any(head.site for head in heads):
            raise PtxwcetError(_differing_loops())
        if together:
            inner = [_body(stack) for stack in stacks]
            _align(inner, times * heads[0].count, out)
            continue
        lengths = [_length(head.sections) for head in heads]
        period = lcm(*lengths)
        shortest = min(head.count * n for head, n in zip(heads, lengths, strict=True))
        rounds = shortest // period
        if rounds == 0:  # A repeat ends within the common period: it is laid out.
            _lay_out(stacks, shortest, times, out)
            continue
        inner = [_split(stack, period, rounds) if stack else [] for stack in stacks]
        _align(inner, times * rounds, out)


def _choose(stacks: list[list[SectionNode]], times: int) -> AlignedChoice:
    """Takes the choices off all stacks and aligns their alternatives."""
    choices = [stack.pop() if stack else None for stack in stacks]
    present = [c for c in choices if isinstance(c, SectionChoice)]
    shapes = {(c.site, tuple(map(_barriers, c.alternatives))) for c in present}
    if len(present) < sum(c is not None for c in choices) or len(shapes) != 1:
        raise PtxwcetError(_differing_choices())
    alternatives = []
    for number in range(len(present[0].alternatives)):
        sides = [
            list(reversed(choice.alternatives[number])) if isinstance(choice, SectionChoice) else []
            for choice in choices
        ]
        aligned: list[AlignedStep] = []
        _align(sides, 1, aligned)
        alternatives.append(tuple(aligned))
    return AlignedChoice(times, tuple(alternatives))


_Barriers = tuple["int | tuple[str, tuple[_Barriers, ...]]", ...]


def _barriers(sections: Sequence[SectionNode]) -> _Barriers:
    """Returns the number of barriers, split at places whose counts are unknown."""
    out: list[int | tuple[str, tuple[_Barriers, ...]]] = [0]
    for node in sections:
        match node:
            case Section():
                out[-1] = _number(out[-1]) + 1
            case SectionRepeat(count, inner, together):
                shape = _barriers(inner)
                if len(shape) == 1 and not together:
                    out[-1] = _number(out[-1]) + count * _number(shape[0])
                else:
                    out += [(f"{count} {together}", (shape,)), 0]
            case SectionChoice(site, alternatives):
                out += [(str(site), tuple(map(_barriers, alternatives))), 0]
    return tuple(out)


def _number(item: int | tuple[str, tuple[_Barriers, ...]]) -> int:
    assert not isinstance(item, tuple)
    return item


def _differing_choices() -> Diagnostic:
    return Diagnostic(
        "PW502",
        "a branch decides which barriers the block meets, and its warps come to it in different "
        "ways",
        help="all warps must meet the same sequence of barriers: give the facts that decide the "
        "branch",
    )


def _differing_loops() -> Diagnostic:
    return Diagnostic(
        "PW502",
        "how often a loop with barriers runs is not known exactly, and warps of the block come to "
        "it in different ways",
        help="all warps must meet the same sequence of barriers: give the facts that decide how "
        "often the loop runs",
    )


def _lay_out(
    stacks: list[list[SectionNode]], count: int, times: int, out: list[AlignedStep]
) -> None:
    """Aligns the next ``count`` sections individually."""
    pieces = [_take(stack, count) for stack in stacks]
    for k in range(count):
        _emit([piece[k] if k < len(piece) else None for piece in pieces], times, out)


def _split(stack: list[SectionNode], period: int, rounds: int) -> list[SectionNode]:
    """Takes ``rounds`` times ``period`` sections off the repeat at the head; returns one round."""
    head = _head(stack)
    stack.pop()
    copies = period // _length(head.sections)
    if copies * len(head.sections) > _MOST_SECTIONS:
        raise PtxwcetError(_too_complex())
    if head.count > rounds * copies:
        stack.append(SectionRepeat(head.count - rounds * copies, head.sections))
    return list(reversed(head.sections * copies))


def _head(stack: list[SectionNode]) -> SectionRepeat:
    head = stack[-1]
    assert isinstance(head, SectionRepeat)
    return head


def _body(stack: list[SectionNode]) -> list[SectionNode]:
    """Takes the repeat off the stack, if there is one; returns one round of it."""
    if not stack:
        return []
    head = _head(stack)
    stack.pop()
    return list(reversed(head.sections))


def _leading(stack: list[SectionNode]) -> int:
    """Returns the number of single sections before the first repeat or choice."""
    count = 0
    for node in reversed(stack):
        if not isinstance(node, Section):
            break
        count += 1
    return count


def _length(sections: tuple[SectionNode, ...]) -> int:
    """Returns the number of sections, repeats counted in full."""
    total = 0
    for node in sections:
        match node:
            case Section():
                total += 1
            case SectionRepeat(count, inner, ""):
                total += count * _length(inner)
            case _:
                raise PtxwcetError(_too_complex())
    return total


def _take(stack: list[SectionNode], count: int) -> list[Section]:
    """Removes the next ``count`` sections (all that are left, if fewer) and returns them.

    A repeat that is entered is rotated: ``(s t) * n`` less its first s leaves ``(t s) * (n-1), t``,
    so that its remainder is a repeat again.
    """
    if count > _MOST_SECTIONS:
        raise PtxwcetError(_too_complex())
    out: list[Section] = []
    while stack and len(out) < count:
        node = stack.pop()
        if isinstance(node, Section):
            out.append(node)
            continue
        if isinstance(node, SectionChoice):
            raise PtxwcetError(_differing_choices())
        if node.site:
            raise PtxwcetError(_differing_loops())
        missing = count - len(out)
        whole, part = divmod(missing, _length(node.sections))
        if whole >= node.count:
            whole, part = node.count, 0
        for _ in range(whole):
            out += _flat(node.sections)
        left = node.count - whole
        if part == 0:
            if left:
                stack.append(SectionRepeat(left, node.sections))
            continue
        rest = list(reversed(node.sections))
        taken = _take(rest, part)
        out += taken
        stack += rest
        if left > 1:
            stack.append(SectionRepeat(left - 1, (*reversed(rest), *taken)))
    return out


def _flat(sections: Iterable[SectionNode]) -> Iterable[Section]:
    for node in sections:
        if isinstance(node, Section):
            yield node
        elif isinstance(node, SectionChoice):
            raise PtxwcetError(_differing_choices())
        elif node.site:
            raise PtxwcetError(_differing_loops())
        else:
            for _ in range(node.count):
                yield from _flat(node.sections)


def _emit(sections: Sequence[Section | None], times: int, out: list[AlignedStep]) -> None:
    names = {s.barrier.name for s in sections if s is not None and s.barrier is not None}
    if len(names) > 1:
        raise PtxwcetError(
            Diagnostic(
                "PW502",
                f"warps of the block wait at different barriers: {', '.join(sorted(names))}",
                help="all warps must meet the same sequence of barriers",
            )
        )
    barriers = [None if section is None else section.barrier for section in sections]
    if None in barriers and any(isinstance(b, Barrier) and b.counts for b in barriers):
        raise PtxwcetError(_missed(next(filter(None, names))))
    if len(out) >= _MOST_SECTIONS:
        raise PtxwcetError(_too_complex())
    out.append(AlignedSection(times, tuple(sections)))


def _missed(name: str) -> Diagnostic:
    return Diagnostic(
        "PW504",
        f"barrier {name} counts all warps of the block, of which some have ended before it",
        notes=("a warp that has ended does not arrive at a barrier with a number of threads",),
        help="leave the number of threads out, or let all warps arrive",
    )


def _too_complex() -> Diagnostic:
    return Diagnostic(
        "PW503",
        "the barriers of different warps repeat in patterns that cannot be aligned in closed form",
        notes=(f"more than {_MOST_SECTIONS} common sections would be needed",),
    )
