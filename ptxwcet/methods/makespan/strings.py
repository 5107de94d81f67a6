"""Defines kernel strings: a letter per instruction, L for load/store units, C for cores.

A string may hold loops (:class:`Loop`); the methods with a formula need only its
:class:`StringShape`, which is composed without unrolling. Source: Berezovskyi, Bletsas, Andersson,
"Makespan computation for GPU threads running on a single streaming multiprocessor", ECRTS 2012
([M]), section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.warp.alignment import AlignedSection, align_sections
from ptxwcet.warp.program import Barrier, BlockWorkload, Node, Repeat, TimedInstruction
from ptxwcet.warp.segments import cut_at_barriers

LOAD_STORE = "L"
"""The letter of an instruction for a load/store unit."""
CORE = "C"
"""The letter of an instruction for a core."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A body executed ``count`` (>= 0) times in a row."""

    count: int
    body: StringTree


StringTree = tuple["str | Loop", ...]
"""A kernel instruction string whose loops are not unrolled."""


@dataclass(frozen=True, slots=True)
class StringShape:
    """The properties of a string that formulas need; shapes of parts compose to the whole's.

    ``loads`` and ``cores`` count the letters (I_L, I_C). Cut between equal neighbours, a string
    consists of *alternating segments* (LLCLL: L, LCL, L). ``head`` is the length of the first of
    them and ``tail`` that of the last, modulo 2; ``inner_odd`` counts those of odd length between
    the two. ``is_alternating``: there is only one segment, and ``head`` is its length modulo 2.
    """

    loads: int = 0
    cores: int = 0
    first: str = ""
    last: str = ""
    is_alternating: bool = True
    head: int = 0
    tail: int = 0
    inner_odd: int = 0

    @property
    def length(self) -> int:
        """The number of instructions, I."""
        return self.loads + self.cores

    @property
    def odd_segments(self) -> int:
        """The number of alternating segments of odd length."""
        return self.head + (0 if self.is_alternating else self.inner_odd + self.tail)

    @property
    def pairs(self) -> int:
        """M: the largest number of disjoint pairs of neighbours that differ.

        A segment of n letters holds n // 2 of them and no pair crosses segments.
        """
        return (self.length - self.odd_segments) // 2


_EMPTY = StringShape()
_LETTERS = {
    LOAD_STORE: StringShape(1, 0, LOAD_STORE, LOAD_STORE, True, 1, 1),
    CORE: StringShape(0, 1, CORE, CORE, True, 1, 1),
}


def join_shapes(left: StringShape, right: StringShape) -> StringShape:
    """Returns the shape of one string followed by another."""
    if not left.length or not right.length:
        return left if left.length else right
    loads, cores = left.loads + right.loads, left.cores + right.cores
    first, last = left.first, right.last
    if left.last == right.first:  # a cut between them
        inner = 0 if left.is_alternating else left.inner_odd + left.tail
        inner += 0 if right.is_alternating else right.head + right.inner_odd
        return StringShape(loads, cores, first, last, False, left.head, right.tail, inner)
    met = (left.tail + right.head) % 2  # two segments become one
    if left.is_alternating and right.is_alternating:
        return StringShape(loads, cores, first, last, True, met, met)
    if left.is_alternating:
        inner, tail = right.inner_odd, right.tail
        return StringShape(loads, cores, first, last, False, met, tail, inner)
    if right.is_alternating:
        return StringShape(loads, cores, first, last, False, left.head, met, left.inner_odd)
    inner = left.inner_odd + met + right.inner_odd
    return StringShape(loads, cores, first, last, False, left.head, right.tail, inner)


def shape_of(tree: StringTree) -> StringShape:
    """Returns the shape of a string. Cost: linear in the tree, logarithmic in the loop counts."""
    whole = _EMPTY
    for node in tree:
        if isinstance(node, Loop):
            whole = join_shapes(whole, _repeated(shape_of(node.body), node.count))
        else:
            whole = reduce(join_shapes, (_LETTERS[letter] for letter in node), whole)
    return whole


def _repeated(shape: StringShape, count: int) -> StringShape:
    whole, power = _EMPTY, shape
    while count:
        if count % 2:
            whole = join_shapes(whole, power)
        power = join_shapes(power, power)
        count //= 2
    return whole


def parse_string(text: str) -> StringTree:
    """Returns a string as written on the command line. Raises PtxwcetError (PW560)."""
    if not text:
        raise PtxwcetError.of("PW560", "the kernel string is empty", help="give letters: LLCLL")
    for place, letter in enumerate(text, 1):
        if letter not in _LETTERS:
            raise PtxwcetError.of(
                "PW560",
                f"letter {place} of the kernel string is {letter!r}",
                help="L is an instruction for a load/store unit, C one for a core; no others",
            )
    return (text,)


def repeat_letters(tree: StringTree, loads: int, cores: int) -> StringTree:
    """Returns the tree with ``loads`` L for each L, ``cores`` C for each C ([M] 3, Fig. 1)."""
    if loads == cores == 1:
        return tree
    table = str.maketrans({LOAD_STORE: LOAD_STORE * loads, CORE: CORE * cores})
    return tuple(
        Loop(node.count, repeat_letters(node.body, loads, cores))
        if isinstance(node, Loop)
        else node.translate(table)
        for node in tree
    )


def unrolled(tree: StringTree, most: int) -> str:
    """Returns the string in letters. Raises PtxwcetError (PW564) beyond ``most`` letters."""
    length = shape_of(tree).length
    if length > most:
        raise PtxwcetError.of(
            "PW564",
            f"a kernel string of {length:,} letters is more than this takes: {most:,}",
            help="the methods closed-form and pessimistic take strings of any length",
        )
    return "".join(_letters(tree))


def _letters(tree: StringTree) -> Iterable[str]:
    for node in tree:
        if isinstance(node, Loop):
            yield "".join(_letters(node.body)) * node.count
        else:
            yield node


def written(tree: StringTree) -> str:
    """Returns the string as people write it, loops as ``(body)*count``."""
    return " ".join(
        f"({written(node.body)})*{node.count:,}" if isinstance(node, Loop) else node
        for node in tree
        if node
    )


@dataclass(frozen=True, slots=True)
class StringSection:
    """The string between two barriers, executed ``multiplicity`` times by all warps."""

    multiplicity: int
    tree: StringTree


def sections_of(workload: BlockWorkload, letters: Mapping[str, str]) -> tuple[StringSection, ...]:
    """Returns the strings of all warps between their barriers; ``letters`` maps a unit to L or C.

    All warps are at a barrier before one continues, so the makespan of the block is the sum of
    those of its sections.

    Raises PtxwcetError: PW501 to PW504 (barriers), PW562 (warps that differ, or several paths),
    PW563 (a unit without a letter). Cost: linear in the program trees.
    """
    if not all(c.program.is_single_path for c in workload.classes):
        raise PtxwcetError(_several_paths("a loop or a branch is not decided"))
    classes = [cut_at_barriers(c.program) for c in workload.classes]
    out = []
    for step in align_sections(classes):
        if not isinstance(step, AlignedSection):
            raise PtxwcetError(_several_paths("a branch decides which barriers the block meets"))
        trees = {
            () if section is None else string_of(section.body, letters) for section in step.sections
        }
        if len(trees) > 1:
            raise PtxwcetError(_several_paths("the warps of the block execute different strings"))
        tree = trees.pop()
        if shape_of(tree).length:
            out.append(StringSection(step.multiplicity, tree))
    if not out:
        raise PtxwcetError.of("PW560", "the warps execute no instruction")
    return tuple(out)


def string_of(body: Sequence[Node], letters: Mapping[str, str]) -> StringTree:
    """Returns the string of a single-path body, with loops. Raises PtxwcetError (PW562, PW563)."""
    out: list[str | Loop] = []
    for node in body:
        match node:
            case TimedInstruction(joins=True):
                raise PtxwcetError(_several_paths("warps wait for their warpgroup at a product"))
            case TimedInstruction(unit=unit) | Barrier(instruction=TimedInstruction(unit=unit)):
                letter = _letter(unit, letters)
                if out and isinstance(out[-1], str):
                    out[-1] += letter
                else:
                    out.append(letter)
            case Repeat(count=count, body=inner) if node.exact:
                if count and inner:
                    out.append(Loop(count, string_of(inner, letters)))
            case Repeat():
                raise PtxwcetError(_several_paths("a loop runs a number of times not known"))
            case _:
                raise PtxwcetError(_several_paths("a branch is not decided, or taken by lanes"))
    return tuple(out)


def _letter(unit: str, letters: Mapping[str, str]) -> str:
    if unit not in letters:
        raise PtxwcetError.of(
            "PW563",
            f"unit {unit} is neither a load/store unit nor a core for the makespan",
            help=f'say which in a machine file: {unit} = "L" or "C" below [makespan]',
        )
    return letters[unit]


def _several_paths(why: str) -> Diagnostic:
    return Diagnostic(
        "PW562",
        f"the block has no single kernel string: {why}",
        help="the makespan is defined for warps that all execute one known string; give the "
        "parameters or facts that decide it",
    )
