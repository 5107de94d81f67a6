"""Aligning the barrier sections of different warps without unrolling their loops.

All warps of a block must meet the same sequence of barriers; a warp that has exited counts as
arrived (model, rule 6). Programs may be compressed differently: ``(a|b|) * 10`` in one class of
warps against ``(c|d|) * 4, (e|f|) * 6`` in another becomes four and six common repetitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import lcm

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.warp.segments import Section, SectionNode, SectionRepeat

# Aligned sections before the alignment is refused. Warps of one kernel run the same loops, so a few
# times the number of its barriers is what real kernels need.
_MOST_SECTIONS = 20_000


@dataclass(frozen=True, slots=True)
class AlignedSection:
    """One section of all classes, executed ``multiplicity`` times in the run of the block.

    ``sections`` has one entry a class, None for a class whose warps have all exited before.
    """

    multiplicity: int
    sections: tuple[Section | None, ...]


def align_sections(classes: Sequence[Sequence[SectionNode]]) -> tuple[AlignedSection, ...]:
    """The common sections of all classes, in the order in which they are first executed.

    Raises PW502 if classes meet different barriers, PW503 if their loops cannot be aligned in
    closed form within the limit. Cost: independent of trip counts when loops of the classes repeat
    the same number of barriers.
    """
    out: list[AlignedSection] = []
    _align([list(reversed(sections)) for sections in classes], 1, out)
    return tuple(out)


def _align(stacks: list[list[SectionNode]], times: int, out: list[AlignedSection]) -> None:
    """Aligns what is on the stacks (next item last), the whole being executed ``times`` times."""
    while any(stacks):
        count = max(_leading(stack) for stack in stacks)
        if count:
            _lay_out(stacks, count, times, out)
            continue
        heads = [_head(stack) for stack in stacks if stack]
        lengths = [_length(head.sections) for head in heads]
        period = lcm(*lengths)
        shortest = min(head.count * n for head, n in zip(heads, lengths, strict=True))
        rounds = shortest // period
        if rounds == 0:  # a repeat ends within the common period: lay it out
            _lay_out(stacks, shortest, times, out)
            continue
        inner = [_split(stack, period, rounds) if stack else [] for stack in stacks]
        _align(inner, times * rounds, out)


def _lay_out(
    stacks: list[list[SectionNode]], count: int, times: int, out: list[AlignedSection]
) -> None:
    """Aligns the next ``count`` sections one by one."""
    pieces = [_take(stack, count) for stack in stacks]
    for k in range(count):
        _emit([piece[k] if k < len(piece) else None for piece in pieces], times, out)


def _split(stack: list[SectionNode], period: int, rounds: int) -> list[SectionNode]:
    """Takes ``rounds`` times ``period`` sections off the repeat at the head; one round of them."""
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


def _leading(stack: list[SectionNode]) -> int:
    """Number of single sections before the first repeat."""
    count = 0
    for node in reversed(stack):
        if isinstance(node, SectionRepeat):
            break
        count += 1
    return count


def _length(sections: tuple[SectionNode, ...]) -> int:
    """Number of sections, repeats counted in full."""
    return sum(
        node.count * _length(node.sections) if isinstance(node, SectionRepeat) else 1
        for node in sections
    )


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
        else:
            for _ in range(node.count):
                yield from _flat(node.sections)


def _emit(sections: Sequence[Section | None], times: int, out: list[AlignedSection]) -> None:
    names = {s.barrier.name for s in sections if s is not None and s.barrier is not None}
    if len(names) > 1:
        raise PtxwcetError(
            Diagnostic(
                "PW502",
                f"warps of the block wait at different barriers: {', '.join(sorted(names))}",
                help="all warps must meet the same sequence of barriers",
            )
        )
    if len(out) >= _MOST_SECTIONS:
        raise PtxwcetError(_too_complex())
    out.append(AlignedSection(times, tuple(sections)))


def _too_complex() -> Diagnostic:
    return Diagnostic(
        "PW503",
        "the barriers of different warps repeat in patterns that cannot be aligned in closed form",
        notes=(f"more than {_MOST_SECTIONS} common sections would be needed",),
    )
