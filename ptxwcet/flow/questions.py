"""What a kernel and launch leave open: the questions that a facts file has to answer.

Path extraction stops at the first decision that it cannot take. Here the question is noted, an
answer is assumed, and the paths are extracted again, until nothing is open any more. The assumed
answers only find the next questions: nothing is bounded with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ptxwcet.flow.call_variables import with_variable_registers
from ptxwcet.flow.cfg import ControlFlowGraph
from ptxwcet.flow.dominance import compute_postdominators
from ptxwcet.flow.extraction import OpenDecision, extract_paths
from ptxwcet.flow.facts import Launch, PlacedFacts
from ptxwcet.flow.loops import LoopForest
from ptxwcet.flow.paths import loop_entries
from ptxwcet.flow.slicing import control_slice
from ptxwcet.flow.values import Cause, CauseKind
from ptxwcet.ir.kernel import Address, Kernel, Parameter, Space, SymbolRef
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_MOST_WALKS = 200
_ASSUMED_BOUND = 10**12  # above what a loop can be proved to run: contradicts nothing
_TOO_HARD = frozenset({"PW204", "PW205", "PW206"})
_ASSUMED_VALUES = (64, 1, 100_000)  # of a parameter that decides a branch


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """How often does loop ``loop`` run? ``branch`` is the instruction that decides it, an index.

    The decision depends on ``parameters``, on the size of the grid if ``on_grid``, and on other
    things besides.
    """

    loop: int
    branch: int
    parameters: tuple[str, ...]
    on_grid: bool


@dataclass(frozen=True, slots=True)
class OpenParameter:
    """Which value has the parameter with PTX name ``name``? ``branches`` are what it decides."""

    name: str
    branches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Questions:
    """All that is open, and what refuses a bound whatever the answers are."""

    loops: tuple[OpenLoop, ...] = ()
    parameters: tuple[OpenParameter, ...] = ()
    refusals: tuple[Diagnostic, ...] = ()


def find_questions(
    kernel: Kernel,
    cfg: ControlFlowGraph,
    forest: LoopForest,
    launch: Launch,
    facts: PlacedFacts,
) -> Questions:
    """The questions whose answers decide every loop. Cost: a path extraction for each question.

    A loop or branch that depends on nothing but scalar parameters asks for these; any other loop
    asks for its bound. Once there are values for the parameters (any will do) fewer loops are open,
    or others: then those are asked for, and those that were not reached.
    """
    kernel = with_variable_registers(kernel)
    search = _Search(kernel, cfg, forest, facts)
    search.run(launch, frozenset())
    asked, loops, refusals = search.parameters, search.loops, search.refusals
    if any(problem.code in _TOO_HARD for problem in refusals):
        # what takes too long without a value may be simple with it
        asked = {**{name: {} for name in _deciding(kernel, launch)}, **asked}
    if asked:
        second = _Search(kernel, cfg, forest, facts, parameters=asked)
        values = dict.fromkeys(asked, _ASSUMED_VALUES[0])
        known = replace(launch, parameters={**launch.parameters, **values})
        if second.run(known, frozenset()):
            rest = {loop: row for loop, row in loops.items() if loop not in second.entered}
            refusals, loops = (), {**rest, **second.loops}
        else:
            asked = search.parameters
    names = [parameter.name for parameter in kernel.parameters]
    parameters = tuple(
        OpenParameter(name, tuple(asked[name])) for name in sorted(asked, key=names.index)
    )
    return Questions(tuple(loops[loop] for loop in sorted(loops)), parameters, refusals)


def _deciding(kernel: Kernel, launch: Launch) -> Iterator[str]:
    """The integer parameters without a value that can influence which path is taken."""
    decisive = control_slice(kernel)
    loaded = {
        operand.base.name
        for instruction in kernel.instructions
        if instruction.space is Space.PARAM and decisive.intersection(instruction.writes)
        for operand in instruction.operands
        if isinstance(operand, Address) and isinstance(operand.base, SymbolRef)
    }
    for parameter in kernel.parameters:
        is_open = parameter.name in loaded and parameter.name not in launch.parameters
        if is_open and _is_integer(parameter):
            yield parameter.name


def _is_integer(parameter: Parameter) -> bool:
    return not parameter.is_array and parameter.type[0] != "f"


@dataclass
class _Search:
    """The questions found so far, the loop bounds assumed for them, and the loops reached."""

    kernel: Kernel
    cfg: ControlFlowGraph
    forest: LoopForest
    facts: PlacedFacts
    loops: dict[int, OpenLoop] = field(default_factory=dict)
    parameters: dict[str, dict[int, None]] = field(default_factory=dict)
    refusals: tuple[Diagnostic, ...] = ()
    assumed: dict[int, int] = field(default_factory=dict)
    entered: set[int] = field(default_factory=set)
    walks: int = 0

    def run(self, launch: Launch, tried: frozenset[int]) -> bool:
        """Notes questions until the paths are found; False if something else refuses them.

        ``tried`` are the branches that values were assumed for.
        """
        meetings = tuple(compute_postdominators(self.cfg).immediate)
        while True:
            self.walks += 1
            bounds = {**self.assumed, **self.facts.loop_bounds}
            facts = replace(self.facts, loop_bounds=bounds)
            try:
                pieces = extract_paths(self.kernel, self.cfg, self.forest, meetings, launch, facts)
            except OpenDecision as decision:
                if self.walks < _MOST_WALKS and self._note_loop(decision, bounds):
                    continue
                if self.walks < _MOST_WALKS and self._note_branch(decision, launch, tried):
                    return True
                self.refusals = decision.diagnostics
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
            return True

    def _note_loop(self, decision: OpenDecision, bounds: Mapping[int, int]) -> bool:
        loop, branch = decision.loop, decision.instruction
        if loop is None or loop in bounds:
            return False
        names = self._scalars(decision.causes)
        if _only_parameters(decision.causes, names):
            self._note_parameters(names, branch)
        else:
            grid = any(cause.kind is CauseKind.LAUNCH for cause in decision.causes)
            self.loops[loop] = OpenLoop(loop, branch, names, grid)
        self.assumed[loop] = _ASSUMED_BOUND
        return True

    def _note_branch(self, decision: OpenDecision, launch: Launch, tried: frozenset[int]) -> bool:
        """A branch that parameters decide: looks further with some values of these."""
        names, branch = self._scalars(decision.causes), decision.instruction
        if branch in tried or not _only_parameters(decision.causes, names):
            return False
        self._note_parameters(names, branch)
        found = []
        for value in _ASSUMED_VALUES:
            values = {**launch.parameters, **dict.fromkeys(names, value)}
            found.append(self.run(replace(launch, parameters=values), tried | {branch}))
        if any(found):
            self.refusals = ()
        return any(found)

    def _note_parameters(self, names: Iterable[str], branch: int) -> None:
        for name in names:
            self.parameters.setdefault(name, {})[branch] = None

    def _scalars(self, causes: frozenset[Cause]) -> tuple[str, ...]:
        """The integer parameters among the causes, in the kernel's order."""
        named = {cause.name for cause in causes if cause.kind is CauseKind.PARAMETER}
        return tuple(
            parameter.name
            for parameter in self.kernel.parameters
            if parameter.name in named and _is_integer(parameter)
        )


def _only_parameters(causes: frozenset[Cause], names: tuple[str, ...]) -> bool:
    """Whether the values of the parameters are all that a decision lacks."""
    others = {cause.name for cause in causes if cause.name not in names}
    return bool(names) and not others
