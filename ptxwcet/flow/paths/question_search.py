"""One search for what is open: notes each question, assumes an answer, and goes on.

Path extraction stops at the first decision that it cannot take. Here the question is noted, an
answer is assumed, and the paths are extracted again, until nothing is open any more. The assumed
answers only find the next questions: nothing is bounded with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ptxwcet.flow.flow_graph import Work
from ptxwcet.flow.graph.control_flow import ControlFlow, OnFlow
from ptxwcet.flow.launch import Launch, PlacedFacts
from ptxwcet.flow.paths.diagnostics import OpenDecision, UnsettledPath, launch_file_names
from ptxwcet.flow.paths.extraction import extract_on, flow_graph
from ptxwcet.flow.values.arrays import arrays_read
from ptxwcet.flow.values.value import Cause, CauseKind
from ptxwcet.flow.walk.path import BlockPaths, loop_entries
from ptxwcet.ir.kernel import Kernel, Parameter
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

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
                pieces = self._paths(launch, facts)
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

    def _paths(self, launch: Launch, facts: PlacedFacts) -> tuple[BlockPaths, ...]:
        """The paths under some facts. Raises PtxwcetError."""
        graph = replace(flow_graph(self.flow, launch), work=self.work.shared())
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
            if search.run(_with_values(launch, names, value), frozenset()):
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
                self._paths(launch, replace(self.facts, loop_bounds={**bounds, **assumed}))
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
            succeeded.append(self.run(_with_values(launch, names, value), tried | {branch}))
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
        for parameter in kernel.parameters
        if parameter.name in named and is_integer(parameter)
    )


def only_parameters(causes: frozenset[Cause], names: tuple[str, ...]) -> bool:
    """Whether the values of the parameters are all that a decision lacks."""
    others = {cause.name for cause in causes if cause.name not in names}
    return bool(names) and not others


def _with_values(launch: Launch, names: Iterable[str], value: int) -> Launch:
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
