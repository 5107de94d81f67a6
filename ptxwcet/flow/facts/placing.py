"""Stated facts at the blocks and loops of a kernel's graph.

A place is the label of a block or a line of the CUDA source; it must be exactly one loop or branch.
What fits nothing is an error, and so are two sources that contradict each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from ptxwcet.flow.facts.asm_comments import marked_bounds
from ptxwcet.flow.facts.stated import (
    BranchFact,
    CallFact,
    ExclusiveFact,
    FactSource,
    LoopFact,
    Place,
    StatedFacts,
    conflict,
)
from ptxwcet.flow.facts.totals import copies_of, loop_visits
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.launch import Outcome, PlacedFacts, PlacedTotal
from ptxwcet.ir.kernel import Kernel, SourceLocation
from ptxwcet.support.demangling import names_meant, readable_names
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError


class PlacingTotals:
    """Totals placed so far, by what they count, with who states them."""

    def __init__(self, flow: ControlFlow) -> None:
        self._flow = flow
        self._kernel = flow.kernel
        self._found: dict[str, tuple[PlacedTotal, FactSource]] = {}

    @property
    def rows(self) -> tuple[PlacedTotal, ...]:
        """All totals; those that no visits count are left out."""
        return tuple(total for total, _ in self._found.values() if total.visits)

    def loop(self, loop: Loop, fact: LoopFact) -> None:
        """Adds the total of a loop, if the fact has one. Raises PtxwcetError (PW215)."""
        if fact.total is not None:
            what = f"iterations of the loop at {self._flow.label(loop.id)}"
            visits = loop_visits(self._flow, loop)
            source = fact.total_source or fact.source
            self._add(PlacedTotal(what, source.name, fact.total, visits, loop.id), source)

    def calls(self, facts: Iterable[CallFact]) -> None:
        """Adds the totals of functions. Raises PtxwcetError (PW215, PW250)."""
        copies = tuple(copies_of(self._flow))
        functions = {function for function, _, _ in copies}
        for fact in facts:
            meant = names_meant(fact.function, functions)
            here = [
                visits
                for function, caller, visits in copies
                if meant == (function,) and self._calls_at(caller, fact)
            ]
            if not here:
                raise PtxwcetError(self._no_call(fact, functions))
            where = "" if fact.place is None else f" at {fact.place}"
            counted = f"calls of {readable_names(functions)[meant[0]]}{where}"
            visits = frozenset[Outcome]().union(*here)
            self._add(PlacedTotal(counted, fact.source.name, fact.total, visits), fact.source)

    def _add(self, row: PlacedTotal, source: FactSource) -> None:
        known, by = self._found.setdefault(row.what, (row, source))
        if known.most != row.most:
            both = (str(known.most), by), (str(row.most), source)
            raise PtxwcetError(conflict(f"the total of {row.what}", *both))

    def _calls_at(self, caller: BlockId, fact: CallFact) -> bool:
        if fact.place is None:
            return True
        if fact.place.label:
            return has_label(self._flow, caller, fact.place.label)
        return is_on_line(self._kernel, self._flow.cfg.blocks[caller].end - 1, fact.place)

    def _no_call(self, fact: CallFact, called: set[str]) -> Diagnostic:
        where = "" if fact.place is None else f" at {fact.place}"
        names = ", ".join(sorted(readable_names(called).values())) or "none"
        return Diagnostic(
            "PW250",
            f"{fact.source.name}: kernel {self._kernel.readable} has no call of "
            f"{fact.function}{where}",
            fact.source.span or self._kernel.span,
            (f"functions that it calls, or that these call: {names}",),
            "name one function with a body, as here or as the PTX does; a compiler may have put it "
            "in the place of its calls",
        )


def place_facts(flow: ControlFlow, facts: StatedFacts) -> PlacedFacts:
    """All facts about one kernel, each at its block or loop.

    Raises PtxwcetError: PW219 (not exactly one loop), PW246 (not exactly one branch), PW249 (a
    comment that bounds nothing), PW250 (no such call), PW215 (two sources contradict each other),
    PW901 (an internal error kept one from being read). Cost: linear in the kernel for each fact.
    """
    unread = [one.failure for one in facts.unread if one.concerns(flow.kernel)]
    if unread:
        raise PtxwcetError(unread)
    placing = _Placing(flow)
    marked = marked_bounds(flow, facts.marks)
    for loop, marked_bound in marked.items():
        if marked_bound.is_total:
            placing.limit(loop, marked_bound.most, marked_bound.source)
        else:
            placing.bound(loop, marked_bound.most, marked_bound.source)
    totals = PlacingTotals(flow)
    for bound in facts.loops:
        loop = placing.loop(bound)
        if bound.bound is not None:
            placing.bound(loop, bound.bound, bound.source)
        if bound.total is not None:
            placing.limit(loop, bound.total, bound.total_source or bound.source)
        totals.loop(flow.forest.loops[loop], bound)
    totals.calls(facts.calls)
    for branch in facts.branches:
        placing.branch(branch)
    pairs = tuple(placing.pair(fact) for fact in facts.exclusive)
    excluded = {outcome: source.name for outcome, source in placing.never.items()}
    for pair, fact in zip(pairs, facts.exclusive, strict=True):
        excluded |= {outcome: fact.source.name for outcome in pair if outcome not in excluded}
    bounds = placing.least_bounds()
    return PlacedFacts(
        loop_bounds={loop: most for loop, (most, _) in bounds.items()},
        never=frozenset(placing.never),
        uniform=placing.uniform,
        exclusive=pairs,
        loop_sources={loop: source.name for loop, (_, source) in bounds.items()},
        marked=frozenset(
            loop
            for loop, marked_bound in marked.items()
            if not marked_bound.is_total and bounds[loop][1] is marked_bound.source
        ),
        branch_sources=excluded,
        totals=totals.rows,
    )


class _Placing:
    """Facts placed so far, with who states them."""

    def __init__(self, flow: ControlFlow) -> None:
        self._flow = flow
        self._kernel = flow.kernel
        self._cfg = flow.cfg
        self._bounds: dict[int, tuple[int, FactSource]] = {}
        self._limits: dict[int, tuple[int, FactSource]] = {}
        self.never: dict[Outcome, FactSource] = {}
        self.uniform: dict[int, str] = {}

    def bound(self, loop: int, most: int, source: FactSource) -> None:
        """Adds a loop bound. Raises PtxwcetError (PW215)."""
        known, by = self._bounds.setdefault(loop, (most, source))
        if known != most:
            what = f"the bound of the loop at {self._flow.label(loop)}"
            raise PtxwcetError(conflict(what, (str(known), by), (str(most), source)))

    def limit(self, loop: int, most: int, source: FactSource) -> None:
        """Adds what a total says of each entry of a loop: none has more than all together."""
        known = self._limits.get(loop)
        if known is None or most < known[0]:
            self._limits[loop] = most, source

    def least_bounds(self) -> dict[int, tuple[int, FactSource]]:
        """Most body executions for each entry of loops, and who says so."""
        found = dict(self._bounds)
        for loop, (most, source) in self._limits.items():
            if loop not in found or most < found[loop][0]:
                found[loop] = most, source
        return found

    def loop(self, fact: LoopFact) -> int:
        """The loop of a fact. Raises PtxwcetError (PW219)."""
        place = fact.place
        loops = loops_at(self._flow, place)
        if len(loops) == 1 and self._is_one_file(place):
            return loops[0]
        problem = "no loop is" if not loops else f"{len(loops)} loops are"
        names = [self._flow.label(loop) for loop in loops]
        all_places = loop_places(self._flow)
        raise PtxwcetError(
            Diagnostic(
                "PW219",
                f"{fact.source.name}: {problem} at {place} in kernel {self._kernel.readable}",
                fact.source.span or self._kernel.span,
                notes=(*self._which(place, names), f"its loops: {all_places}"),
                help=self._each(fact, loops) or "name the label of the loop's first block",
            )
        )

    def _each(self, fact: LoopFact, loops: Sequence[int]) -> str:
        """What to write for several loops on one line; empty if there are none.

        What is true of the source is true of each: smaller bounds are for who knows more.
        """
        if len(loops) < 2 or fact.bound is None:
            return ""
        said = []
        for number, times in unrolled_by(self._flow, loops).items():
            label = self._flow.label(number)
            less = f" (or {fact.bound // times}, if {times} iterations of the source are one of it)"
            said.append(f"--loop-bound '{label}={fact.bound}'{less * (times > 1)}")
        return f"give a bound for each: {' and '.join(said)}"

    def _is_one_file(self, place: Place) -> bool:
        return not place.file or len(files_of(self._kernel, place.file)) == 1

    def _which(self, place: Place, names: list[str]) -> Iterator[str]:
        """What a place may mean, for people."""
        if len(names) > 1:
            yield f"those at {place}: {', '.join(names)}"
        if not self._is_one_file(place):
            files = ", ".join(files_of(self._kernel, place.file)) or "none"
            yield f"files with the name {place.file}: {files}"

    def branch(self, fact: BranchFact) -> None:
        """Adds what is said of one branch. Raises PtxwcetError (PW246, PW215)."""
        block = self._branch(fact.place, fact.source)
        if fact.never is not None:
            opposite = self.never.get((block, not fact.never))
            if opposite is not None:
                words = [f"never {'taken' if one else 'fallthrough'}" for one in (True, False)]
                ours, theirs = words[not fact.never], words[fact.never]
                branch_name = f"the branch at {fact.place}"
                raise PtxwcetError(conflict(branch_name, (theirs, opposite), (ours, fact.source)))
            self.never[block, fact.never] = fact.source
        if fact.uniform is not None and self.uniform.get(block) != "block":
            self.uniform[block] = fact.uniform  # a block's threads include a warp's

    def pair(self, fact: ExclusiveFact) -> tuple[Outcome, Outcome]:
        """The outcomes of an exclusive fact. Raises PtxwcetError (PW246)."""
        (first_place, first), (second_place, second) = fact.outcomes
        outcomes = (
            (self._branch(first_place, fact.source), first),
            (self._branch(second_place, fact.source), second),
        )
        if outcomes[0] == outcomes[1]:
            message = f"{fact.source.name}: an outcome that excludes itself"
            remedy = "use [[branch]] with never"
            raise PtxwcetError(Diagnostic("PW246", message, fact.source.span, help=remedy))
        return outcomes

    def _branch(self, place: Place, source: FactSource) -> int:
        branches = [one.id for one in self._cfg.blocks if self._cfg.has_two_ways(one.id)]
        blocks = [block for block in branches if self._is_branch_at(block, place)]
        if len(blocks) == 1 and self._is_one_file(place):
            return blocks[0]
        names = [self._cfg.name(block) for block in blocks]
        all_places = branch_places(self._flow, branches)
        problem = "no block ends" if not blocks else f"{len(blocks)} blocks end"
        raise PtxwcetError(
            Diagnostic(
                "PW246",
                f"{source.name}: {problem} with a conditional branch at {place} in kernel "
                f"{self._kernel.readable}",
                source.span or self._kernel.span,
                notes=(*self._which(place, names), f"blocks that do: {all_places}"),
                help="name the label of the block that ends with the branch",
            )
        )

    def _is_branch_at(self, block: BlockId, place: Place) -> bool:
        if place.label:
            return has_label(self._flow, block, place.label)
        return is_on_line(self._kernel, self._cfg.blocks[block].end - 1, place)


# --- Places that facts name, and the blocks, branches and loops that stand there ------------------
# A line names what the PTX attributes to it (``.loc``): a branch stands where its instruction
# stands, a loop where the branch stands that decides whether it goes round again
# (:func:`loop_control`). A line without a file is one of the file in which the kernel itself
# stands.


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
