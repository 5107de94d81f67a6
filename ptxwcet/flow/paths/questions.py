"""What a kernel and launch leave open: the questions that a facts file has to answer.

Path extraction stops at the first decision that it cannot take. Here the question is noted, an
answer is assumed, and the paths are extracted again, until nothing is open any more. The assumed
answers only find the next questions: nothing is bounded with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from ptxwcet.flow.flow_graph import Kept, Work
from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.control_flow import ControlFlow, OnFlow
from ptxwcet.flow.launch import ArrayRange, Launch, PlacedFacts
from ptxwcet.flow.paths.call_variables import followed
from ptxwcet.flow.paths.diagnostics import OpenDecision, UnsettledPath, launch_file_names
from ptxwcet.flow.paths.extraction import extract_on, flow_graph
from ptxwcet.flow.values.accesses import access_of, field_name, parameters_of
from ptxwcet.flow.values.arrays import arrays_read
from ptxwcet.flow.values.slicing import control_slice
from ptxwcet.flow.values.value import Cause, CauseKind
from ptxwcet.flow.walk.path import BlockPaths, loop_entries
from ptxwcet.ir.kernel import Kernel, Parameter, Space, SymbolRef
from ptxwcet.ir.operands import SpecialRegister, leaves
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

_MOST_WALKS = 200
ASSUMED_BOUNDS = (10**6, 10**12)
"""Of a loop that is asked for: below where 32-bit counters go round; above what is ever proved."""

ASSUMED_VALUES = (64, 1, 100_000)
"""Of parameters that are asked for."""


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """How often does loop ``loop`` run? ``branch`` is the instruction that decides it, an index.

    The decision depends on ``parameters``, on the size of the grid if ``on_grid``, and on other
    things besides. ``in_launch_file`` are those that a launch file says, in words; ``arrays`` are
    the pointers and types of integers whose range may settle it.
    """

    loop: int
    branch: int
    parameters: tuple[str, ...]
    on_grid: bool
    in_launch_file: tuple[str, ...] = ()
    arrays: tuple[tuple[str, str], ...] = ()


@dataclass
class Search(OnFlow):
    """The questions found so far, the loop bounds assumed for them, and the loops reached.

    ``bound`` is the bound assumed for a loop, ``value`` that of the parameters asked for. ``work``
    limits the steps of all walks together. ``answered`` are launch and facts with answers under
    which the paths were found.
    """

    flow: ControlFlow
    facts: PlacedFacts
    loops: dict[int, OpenLoop] = field(default_factory=dict)
    parameters: dict[str, dict[int, None]] = field(default_factory=dict)
    refusals: tuple[Diagnostic, ...] = ()
    assumed: dict[int, int] = field(default_factory=dict)
    entered: set[int] = field(default_factory=set)
    walks: int = 0
    bound: int = ASSUMED_BOUNDS[0]
    value: int = 0
    work: Work = field(default_factory=lambda: Work.part(1))
    answered: tuple[Launch, PlacedFacts] | None = None

    def run(self, launch: Launch, tried: frozenset[int]) -> bool:
        """Notes questions until the paths are found; False if something else refuses them.

        ``tried`` are the branches that values were assumed for.
        """
        while True:
            self.walks += 1
            bounds = {**self.assumed, **self.facts.loop_bounds}
            facts = replace(self.facts, loop_bounds=bounds)
            try:
                pieces = self.paths(launch, facts)
            except OpenDecision as decision:
                if self.walks < _MOST_WALKS and self._note_loop(decision, launch, bounds):
                    continue
                if self.walks < _MOST_WALKS and self._note_branch(decision, launch, tried):
                    return True
                self.refusals = decision.diagnostics
                return False
            except UnsettledPath as unsettled:
                if self.walks < _MOST_WALKS and self._note_around(unsettled, launch, bounds):
                    continue
                self.refusals = unsettled.diagnostics
                return False
            except PtxwcetError as error:
                self.refusals = error.diagnostics
                return False
            self.entered |= {
                entry.loop
                for piece in pieces
                for warp in piece.warps
                for entry in loop_entries(warp.nodes)
            }
            self.answered = launch, facts
            return True

    def again(self, facts: PlacedFacts) -> Search:
        """A new search of the same kernel, with other facts."""
        return Search(self.flow, facts, bound=self.bound, work=self.work)

    def paths(self, launch: Launch, facts: PlacedFacts) -> tuple[BlockPaths, ...]:
        """The paths under some facts. Raises PtxwcetError."""
        graph = replace(flow_graph(self.flow, launch, self.work.of_graph), work=self.work.shared())
        try:
            return extract_on(graph, launch, facts)
        finally:
            self.work.count(graph.work)

    def settle(
        self,
        launch: Launch,
        names: Mapping[str, dict[int, None]],
        values: tuple[int, ...] = ASSUMED_VALUES,
    ) -> Search | None:
        """A search with some value for these parameters; None if none is found that helps.

        The parameters may come to be more.
        """
        for value in values if names else ():
            search = self.again(self.facts)
            search.value = value
            search.parameters = {name: dict(branches) for name, branches in names.items()}
            if search.run(with_values(launch, names, value), frozenset()):
                return search
        return None

    def _note_loop(self, decision: OpenDecision, launch: Launch, bounds: Mapping[int, int]) -> bool:
        loop, branch = decision.loop, decision.instruction
        if loop is None or loop in bounds:
            return False
        names = scalars(self.kernel, decision.causes)
        if only_parameters(decision.causes, names):
            self._note_parameters(names, branch)
        else:
            grid = any(
                cause.kind is CauseKind.LAUNCH and "ctaid" in cause.name
                for cause in decision.causes
            )
            in_file = launch_file_names(self.kernel, decision.causes, launch)
            loads = {one.instruction for one in decision.causes if one.kind is CauseKind.MEMORY}
            arrays = tuple(arrays_read(self.kernel, loads - {-1}).items())
            self.loops[loop] = OpenLoop(loop, branch, names, grid, in_file, arrays)
        self.assumed[loop] = self.bound
        return True

    def _note_around(
        self, unsettled: UnsettledPath, launch: Launch, bounds: Mapping[int, int]
    ) -> bool:
        """Loops whose iterations are too many ways to be walked, or have no closed form: the
        outermost that helps, or else all of those around.
        """
        around = [
            loop for loop in unsettled.loops if loop not in bounds and self.forest.loops[loop].exits
        ]
        some = [[loop] for loop in around]
        for loops in [*some, around][: len(some) + (len(some) > 1)]:
            assumed: dict[int, int] = dict.fromkeys(loops, self.bound)
            self.walks += 1
            try:
                self.paths(launch, replace(self.facts, loop_bounds={**bounds, **assumed}))
            except UnsettledPath as next_one:
                if next_one.loops == unsettled.loops:
                    continue
            except PtxwcetError:
                pass  # the next question
            for loop in loops:
                source, _ = self.forest.loops[loop].exits[0]
                self.loops[loop] = OpenLoop(loop, self.cfg.blocks[source].end - 1, (), False)
            self.assumed |= assumed
            return True
        return False

    def _note_branch(self, decision: OpenDecision, launch: Launch, tried: frozenset[int]) -> bool:
        """A branch that parameters decide: looks further with some values of these."""
        names, branch = scalars(self.kernel, decision.causes), decision.instruction
        if branch in tried or not only_parameters(decision.causes, names):
            return False
        self._note_parameters(names, branch)
        succeeded = []
        for value in ASSUMED_VALUES:
            succeeded.append(self.run(with_values(launch, names, value), tried | {branch}))
        if any(succeeded):
            self.refusals = ()
        return any(succeeded)

    def _note_parameters(self, names: Iterable[str], branch: int) -> None:
        for name in names:
            self.parameters.setdefault(name, {})[branch] = None


def scalars(kernel: Kernel, causes: frozenset[Cause]) -> tuple[str, ...]:
    """The integer parameters among the causes, in the kernel's order."""
    named = {cause.name for cause in causes if cause.kind is CauseKind.PARAMETER}
    return tuple(
        parameter.name
        for parameter in parameters_of(kernel)
        if parameter.name in named and is_integer(parameter)
    )


def only_parameters(causes: frozenset[Cause], names: tuple[str, ...]) -> bool:
    """Whether the values of the parameters are all that a decision lacks."""
    others = {cause.name for cause in causes if cause.name not in names}
    return bool(names) and not others


def with_values(launch: Launch, names: Iterable[str], value: int) -> Launch:
    """The launch with a value for some parameters, or the next to it in their ranges."""
    ranges = dict(launch.ranges)
    values = dict(launch.parameters)
    for name in names:
        low, high = ranges.pop(name, (value, value))
        values[name] = min(max(value, low), high)
    return replace(launch, parameters=values, ranges=ranges)


def is_integer(parameter: Parameter) -> bool:
    """Whether it is a scalar that can decide branches."""
    return not parameter.is_array and parameter.type[0] != "f"


_FOR_WANT_OF_VALUES = frozenset(
    ("PW202", "PW204", "PW205", "PW206", "PW218", "PW222", "PW223", "PW224")
)
"""Refusals that may go away when parameters have values: what they decide is one way then."""

_FOR_WANT_OF_AGREEMENT = frozenset(("PW202", "PW218", "PW222"))
"""Refusals of branches whose lanes, or warps, may part."""

_CONTRADICTED = frozenset(("PW217",))
_MOST_TRIALS = 60
_ASSUMED_MOST = 99
"""Of the integers in an array, to find out whether a range of them helps."""

ASSUMED_GRID = (60, 50, 40)
"""To find out what is open with a grid: no block is alone on an axis."""


@dataclass(frozen=True, slots=True)
class OpenParameter:
    """Which value has the parameter with PTX name ``name``? ``branches`` are what it decides."""

    name: str
    branches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpenAgreement:
    """Do all threads of ``scope`` (``"warp"``, ``"block"``) take the branch of ``block`` alike?"""

    block: BlockId
    scope: str


@dataclass(frozen=True, slots=True)
class Questions:
    """All that is open, and what refuses a bound whatever the answers are.

    ``with_grid`` is what is open once the size of the grid is given, if that is less; ``answered``
    are launch and facts with some answers, None where none was found.
    """

    loops: tuple[OpenLoop, ...] = ()
    parameters: tuple[OpenParameter, ...] = ()
    agreements: tuple[OpenAgreement, ...] = ()
    refusals: tuple[Diagnostic, ...] = ()
    with_grid: Questions | None = None
    answered: tuple[Launch, PlacedFacts] | None = None

    @property
    def count(self) -> int:
        """How many questions there are."""
        return len(self.loops) + len(self.parameters) + len(self.agreements)

    def is_less_than(self, other: Questions) -> bool:
        """Whether it asks for less: a bound or agreement is harder to give than a value."""
        return self._weight() < other._weight()

    def _weight(self) -> tuple[bool, int, int]:
        hard = len(self.loops) + len(self.agreements)
        return bool(self.refusals), hard, len(self.parameters)


def find_questions(
    flow: ControlFlow,
    launch: Launch,
    facts: PlacedFacts,
    *,
    is_quick: bool = False,
    of_graph: Kept | None = None,
) -> Questions:
    """The questions whose answers give a bound. Cost: a path extraction for each, and for trials;
    if ``is_quick``, within a third of the steps that one extraction may take. ``of_graph`` is what
    has been found out of the kernel alone.

    A loop or branch that depends on nothing but scalar parameters asks for these; any other loop
    asks for its bound. What refuses the kernel may do so for want of parameters, too. Once there
    are values for the parameters fewer loops are open, or others: then those are asked for, and
    those that were not reached. If lanes that part refuse the kernel, it is asked whether they do.
    Where the size of the grid has a part in it, what is open with one of some size is looked for as
    well.
    """
    start, parts = followed(flow), 6 if is_quick else 1
    known = Kept() if of_graph is None else of_graph
    questions = _find(Search(start, facts, work=Work.part(parts, known)), launch)
    if launch.grid is not None or not (questions.refusals or _is_on_grid(flow.kernel, questions)):
        return questions
    search = Search(start, facts, work=Work.part(parts, known))
    with_grid = _find(search, replace(launch, grid=ASSUMED_GRID))
    return (
        replace(questions, with_grid=with_grid) if with_grid.is_less_than(questions) else questions
    )


def _is_on_grid(kernel: Kernel, found: Questions) -> bool:
    """Whether the size of the grid may have a part in what is asked: a decision names it, or the
    kernel reads it.
    """
    return reads_grid_size(kernel) or any(loop.on_grid for loop in found.loops)


def reads_grid_size(kernel: Kernel) -> bool:
    """Whether an instruction reads how many blocks there are. Cost: linear in the kernel."""
    return any(
        isinstance(leaf, SpecialRegister) and leaf.name.startswith("%nctaid")
        for instruction in kernel.instructions
        for operand in instruction.operands
        for leaf in leaves(operand)
    )


def _find(start: Search, launch: Launch) -> Questions:
    """The questions for a launch; ``start`` is a search that has not run."""
    kernel, facts = start.kernel, start.facts
    for bound in ASSUMED_BOUNDS:
        search = replace(start.again(facts), bound=bound)
        if search.run(launch, frozenset()) or not _is_for_want(search, _CONTRADICTED):
            break
    asked = dict(search.parameters)
    if _is_for_want(search, _FOR_WANT_OF_VALUES):
        asked = {**{name: {} for name in deciding_parameters(kernel, launch)}, **asked}
    settled = search.settle(launch, asked)
    if settled is not None:
        return _questions(_fewest(settled, launch), search, launch)
    if _is_for_want(search, _FOR_WANT_OF_AGREEMENT):
        for scope in ("warp", "block"):
            alike = _alike(start.cfg, facts, scope)
            agreed = search.again(_agreeing(facts, alike, scope))
            if agreed.run(launch, frozenset()):
                alike = _fewest_alike(agreed, launch, facts, alike, scope)
                final = search.again(_agreeing(facts, alike, scope))
                final.run(launch, frozenset())
                questions = _questions(final, final, launch)
                agreements = tuple(OpenAgreement(block, scope) for block in alike)
                return replace(questions, agreements=agreements)
    return _questions(search, search, launch)


def _is_for_want(search: Search, codes: frozenset[str]) -> bool:
    return any(problem.code in codes for problem in search.refusals)


def _questions(final: Search, first: Search, launch: Launch) -> Questions:
    """The questions of a search, and the loops of the first one that the final did not reach."""
    loops = {loop: row for loop, row in first.loops.items() if loop not in final.entered}
    loops |= final.loops
    names = [parameter.name for parameter in parameters_of(final.kernel)]
    parameters = tuple(
        OpenParameter(name, tuple(final.parameters[name]))
        for name in sorted(final.parameters, key=names.index)
    )
    open_loops = tuple(
        _with_arrays(final, _with_help(final, loops[loop], launch), launch)
        for loop in sorted(loops)
    )
    answered = final.answered
    return Questions(open_loops, parameters, refusals=final.refusals, answered=answered)


def _with_help(final: Search, asked: OpenLoop, launch: Launch) -> OpenLoop:
    """The question without parameters whose values would not settle it, as far as some tell."""
    if not asked.parameters or (asked.on_grid and launch.grid is None):
        return asked
    names = {**final.parameters, **{name: {} for name in asked.parameters}}
    values = (final.value,) if final.value else ASSUMED_VALUES
    settled = final.settle(launch, names, values)
    helps = settled is not None and asked.loop not in settled.loops
    return asked if helps else replace(asked, parameters=())


def _with_arrays(final: Search, asked: OpenLoop, launch: Launch) -> OpenLoop:
    """The question with the arrays whose ranges settle it, as far as one range tells."""
    unstated = tuple(row for row in asked.arrays if row[0] not in launch.arrays)
    if not unstated:
        return asked
    assumed = {name: ArrayRange(kind, 0, _ASSUMED_MOST) for name, kind in unstated}
    stated = replace(launch, arrays={**launch.arrays, **assumed})
    search = final.again(final.facts)
    settled = search if search.run(stated, frozenset()) else None
    names = {**final.parameters, **search.parameters}
    if names:  # with the range the values of parameters may be all that is missing
        values = (final.value,) if final.value else ASSUMED_VALUES
        settled = final.settle(stated, names, values)
    if settled is None or asked.loop in settled.loops:
        return replace(asked, arrays=())
    also = tuple(name for name in search.parameters if name not in final.parameters)
    return replace(asked, arrays=unstated, parameters=asked.parameters or also)


def _fewest(settled: Search, launch: Launch) -> Search:
    """What settles a launch, without the parameters that decide no branch and help nothing."""
    for name in [name for name, branches in settled.parameters.items() if not branches]:
        fewer = {other: row for other, row in settled.parameters.items() if other != name}
        settled = settled.settle(launch, fewer, (settled.value,)) or settled
    return settled


def _alike(cfg: ControlFlowGraph, facts: PlacedFacts, scope: str) -> list[BlockId]:
    """The blocks with a conditional branch of which less than agreement in ``scope`` is stated."""
    return [
        block
        for block in sorted(cfg.reverse_postorder)
        if cfg.taken[block] is not None
        and cfg.fallthrough[block] is not None
        and facts.uniform.get(block) not in (scope, "block")
    ]


def _agreeing(facts: PlacedFacts, blocks: Iterable[BlockId], scope: str) -> PlacedFacts:
    return replace(facts, uniform={**facts.uniform, **dict.fromkeys(blocks, scope)})


def _fewest_alike(
    agreed: Search, launch: Launch, facts: PlacedFacts, blocks: Sequence[BlockId], scope: str
) -> list[BlockId]:
    """The blocks without those whose agreement is not needed; halves are tried before parts."""
    kept, size, trials = list(blocks), len(blocks), 0
    while size > 0:
        start = 0
        while start < len(kept) and trials < _MOST_TRIALS:
            fewer = kept[:start] + kept[start + size :]
            trial = agreed.again(_agreeing(facts, fewer, scope))
            trials += 1
            if trial.run(launch, frozenset()):
                kept = fewer
            else:
                start += size
        size //= 2
    return kept


def deciding_parameters(kernel: Kernel, launch: Launch) -> Iterator[str]:
    """The integer parameters without a value that can influence which path is taken."""
    decisive = control_slice(kernel)
    loaded: set[str] = set()
    for instruction in kernel.instructions:
        is_fixed = instruction.space in (Space.PARAM, Space.CONST)
        if not is_fixed or decisive.isdisjoint(instruction.writes):
            continue
        access = access_of(instruction)
        if access is not None and isinstance(access.base, SymbolRef):
            name = access.base.name
            loaded |= {name, *(field_name(name, offset) for offset, _ in access.places())}
    for parameter in parameters_of(kernel):
        is_open = parameter.name in loaded and parameter.name not in launch.parameters
        if is_open and is_integer(parameter):
            yield parameter.name
