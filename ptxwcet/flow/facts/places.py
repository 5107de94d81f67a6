"""Places that facts name, and the blocks, branches and loops that stand there.

A line names what the PTX attributes to it (``.loc``): a branch stands where its instruction stands,
a loop where the branch stands that decides whether it goes round again (:func:`loop_control`).
A line without a file is one of the file in which the kernel itself stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ptxwcet.flow.facts.stated import Place
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.ir.kernel import Kernel, SourceLocation

_MOST_UNROLLED = 64
_MOST_BEHIND = 4  # instructions from a counter to the branch that it decides

Frames = tuple[SourceLocation, ...]
"""The calls that the compiler has put a function in the place of, outermost first."""


def has_label(flow: ControlFlow, block: BlockId, label: str) -> bool:
    """Whether a block begins with a label, or with a copy of it."""
    first = flow.cfg.blocks[block].start
    labels = [name for name, index in flow.kernel.labels.items() if index == first]
    return label in {flow.cfg.name(block), *labels, *(name.partition("@")[0] for name in labels)}


def is_on_line(kernel: Kernel, index: int, place: Place) -> bool:
    """Whether instruction ``index`` stands on the line of a place. Cost: linear in the kernel."""
    return is_line_of(kernel, kernel.instructions[index].location, place)


def is_line_of(kernel: Kernel, location: SourceLocation | None, place: Place) -> bool:
    """Whether a location is on the line of a place."""
    if location is None or not place.line or location.line != place.line:
        return False
    if place.file:
        return is_file(location.file, place.file)
    return location.file == main_file(kernel)


def is_file(file: str, name: str) -> bool:
    """Whether a file of the PTX is the one of a name, which may lack leading folders."""
    return file == name or file.endswith(f"/{name}")


def files_of(kernel: Kernel, name: str) -> tuple[str, ...]:
    """The files that lines of a kernel are of and that a name may mean, sorted."""
    known = {one.location.file for one in kernel.instructions if one.location is not None}
    return tuple(sorted(file for file in known if is_file(file, name)))


def main_file(kernel: Kernel) -> str | None:
    """The file in which a kernel stands: that of its first line. None without lines."""
    for instruction in kernel.instructions:
        if instruction.location is not None:
            location = instruction.location
            return (*_frames(location), location)[0].file
    return None


def branch_places(flow: ControlFlow, blocks: Iterable[BlockId]) -> str:
    """Blocks with a branch at their end and where it stands, for people."""
    shown = [_shown(flow.cfg.name(block), _branch_location(flow, block)) for block in blocks]
    return ", ".join(shown) or "none"


def loop_places(flow: ControlFlow) -> str:
    """Loops by their label, and where their control stands, for people."""
    loops = flow.forest.loops
    shown = [_shown(flow.cfg.name(loop.header), loop_control(flow, loop)) for loop in loops]
    return ", ".join(shown) or "none"


def _shown(name: str, location: SourceLocation | None) -> str:
    where = "no line of its own" if location is None else location.place
    return f"{name} ({where})"


def loops_at(flow: ControlFlow, place: Place) -> list[int]:
    """The loops that stand at a place, by their label or where their control stands."""
    return [
        loop.id
        for loop in flow.forest.loops
        if (
            has_label(flow, loop.header, place.label)
            if place.label
            else is_line_of(flow.kernel, loop_control(flow, loop), place)
        )
    ]


def loop_control(flow: ControlFlow, loop: Loop) -> SourceLocation | None:
    """Where the branch stands that decides whether a loop goes round again; None if not sure.

    It is the branch that jumps back, if it has another way to go; else the only branch that leaves
    the loop, or the one of its first block. None, so that only its label names the loop:

    * if it jumps back from several places, as two loops with one first block do;
    * if another branch that leaves it stands on the same line: the remains of a loop inside that
      the compiler has unrolled do;
    * if it stands in a function that was put in the place of a call, and other parts of the loop do
      not, or the other way round: the loop is not one of that function.

    Cost: linear in the loop.
    """
    block = _control_block(flow, loop)
    location = None if block is None else _branch_location(flow, block)
    if location is None or block is None:
        return None
    for source, _ in loop.exits:
        exit_location = _branch_location(flow, source)
        if source != block and exit_location is not None and exit_location[:2] == location[:2]:
            return None
    return location if _common_frames(flow, loop) == _frames(location) else None


def _control_block(flow: ControlFlow, loop: Loop) -> BlockId | None:
    """The block whose branch decides whether a loop goes round again."""
    if len(loop.latches) != 1:
        return None
    (latch,) = loop.latches
    leaving = {source for source, _ in loop.exits}
    if flow.cfg.has_two_ways(latch):
        block = latch
    elif loop.header in leaving:
        block = loop.header
    elif len(leaving) == 1:
        (block,) = leaving
    else:
        return None
    innermost = flow.forest.innermost(block)
    return block if innermost is not None and innermost.id == loop.id else None


def unrolled_by(flow: ControlFlow, loops: Collection[int]) -> dict[int, int]:
    """How many iterations of the source one of each loop seems to do, of loops at one place.

    How often the least step of their counters is in its own: a loop of the source may count in
    twos. A guess, for people, which loops of the source on one line mislead. Cost: linear in them.
    """
    steps = {number: _step(flow, flow.forest.loops[number]) for number in loops}
    least = min(steps.values(), default=1)
    return {number: step // least if step % least == 0 else 1 for number, step in steps.items()}


def _step(flow: ControlFlow, loop: Loop) -> int:
    """The step of the counter that a loop's jumps back compare; 1 if there is no one such step."""
    kernel, cfg = flow.kernel, flow.cfg
    body = [
        kernel.instructions[index]
        for block in loop.body
        for index in range(cfg.blocks[block].start, cfg.blocks[block].end)
    ]
    guards = [kernel.instructions[cfg.blocks[latch].end - 1].guard for latch in loop.latches]
    tests = {guard.register for guard in guards if guard is not None}
    for _ in range(_MOST_BEHIND):
        tests |= {name for one in body if tests & set(one.writes) for name in one.reads}
    steps = {
        abs(immediate.value)
        for one in body
        if set(one.reads) & set(one.writes) & tests and one.mnemonic.startswith(("add.", "sub."))
        for immediate in one.immediates
        if isinstance(immediate.value, int)
    }
    step = steps.pop() if len(steps) == 1 else 1
    return step if 1 < step <= _MOST_UNROLLED else 1


def _branch_location(flow: ControlFlow, block: BlockId) -> SourceLocation | None:
    """Where the last instruction of a block stands, if that is known."""
    location = flow.kernel.instructions[flow.cfg.blocks[block].end - 1].location
    return location if location is not None and location.line else None


def _common_frames(flow: ControlFlow, loop: Loop) -> Frames:
    """The calls in whose place all of a loop stands, as far as its instructions have a line."""
    common: Frames | None = None
    for block in loop.body:
        for index in range(flow.cfg.blocks[block].start, flow.cfg.blocks[block].end):
            location = flow.kernel.instructions[index].location
            if location is None or not location.line:
                continue
            frames = _frames(location)
            if common is None:
                common = frames
            same = 0
            while same < min(len(common), len(frames)) and common[same] == frames[same]:
                same += 1
            common = common[:same]
    return common or ()


def _frames(location: SourceLocation) -> Frames:
    """The calls in whose place a location stands."""
    found: list[SourceLocation] = []
    while location.inlined_at is not None:
        location = location.inlined_at
        found.append(location)
    return tuple(reversed(found))
