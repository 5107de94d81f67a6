"""The help of a refusal: the cheapest remedy that was tried and leads further.

A remedy is tried on a copy of the request, with a small and with a large number in the place of
those that only the user knows. It leads further if the paths are found then, or if something else
is refused: another code, or another place. All tries together take no more steps than an analysis
may (:class:`~ptxwcet.flow.flow_graph.Work`). What is open is found by
:mod:`ptxwcet.flow.paths.questions`, as for ``ptxwcet facts``. Parameters and the grid come first,
then ranges of arrays, then facts about branches, then loop bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ptxwcet.flow.flow_graph import Kept, Work
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.control_flow import ControlFlow, OnFlow
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.launch import ArrayRange, Launch, PlacedFacts
from ptxwcet.flow.paths.call_variables import followed
from ptxwcet.flow.paths.diagnostics import (
    ENDLESS,
    UNSETTLED,
    OpenDecision,
    bound_option,
    capability,
    is_for_want_of_knowledge,
    value_option,
)
from ptxwcet.flow.paths.questions import (
    ASSUMED_GRID,
    Questions,
    Search,
    deciding_parameters,
    find_questions,
    only_parameters,
    reads_grid_size,
    scalars,
    with_values,
)
from ptxwcet.flow.values.arrays import arrays_read
from ptxwcet.flow.values.value import CauseKind
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass

_GIVE = ("give ", "bound ")
"""How a help begins that names facts, and not what would have to change in the source."""
_BOUNDS = (20, 10**6)
_VALUES = (64, 1000)
_TRIES = len(_BOUNDS)
_MOST_AROUND = 8
"""Loops of a kernel that are bounded one by one, where it is not clear which of them is open."""

_Given = tuple[Launch, PlacedFacts]


@dataclass(frozen=True, slots=True)
class Option:
    """A fact in words, and what it makes of launch and facts in the n-th try."""

    text: str
    given: Callable[[Launch, PlacedFacts, int], _Given]


@dataclass(frozen=True, slots=True)
class Remedy:
    """Options that are given together, in the sentence ``words``; ``other`` are the words behind
    another remedy.
    """

    options: tuple[Option, ...]
    words: str = "give {}"
    other: str = "{}"

    def said(self, *, is_other: bool = False) -> str:
        """Returns the remedy in words."""
        words = self.other if is_other else self.words
        return words.format(" and ".join(option.text for option in self.options))


def advised(
    error: PtxwcetError, flow: ControlFlow, launch: Launch, facts: PlacedFacts, of_graph: Kept
) -> PtxwcetError:
    """The refusal with help that names the cheapest remedies that were tried and lead further; or
    that none does, and which capability is missing. ``of_graph`` is what has been found out of the
    kernel alone.

    Cost: no more steps than an analysis may take.
    """
    if len(error.diagnostics) != 1 or not is_for_want_of_knowledge(error.diagnostics):
        return error
    (diagnostic,) = error.diagnostics
    if diagnostic.code == ENDLESS or "=box:" in (diagnostic.help or ""):
        return error  # nothing helps; only the box that the map was made with
    tries = _Tries(flow, error, launch, facts, Work.part(1, of_graph))
    for remedies in tries.remedies():
        helping = [remedy for remedy in remedies if tries.leads_further(remedy)]
        if helping:
            said = [remedy.said(is_other=n > 0) for n, remedy in enumerate(helping)]
            return PtxwcetError(replace(diagnostic, help=", or ".join(said)))
    return PtxwcetError(replace(diagnostic, help=tries.missing()))


@dataclass(frozen=True, slots=True)
class _Tries(OnFlow):
    """The remedies of one refusal, and the steps that are left to try them."""

    flow: ControlFlow
    error: PtxwcetError
    launch: Launch
    facts: PlacedFacts
    work: Work

    def leads_further(self, remedy: Remedy) -> bool:
        """Whether the paths are found with a remedy, or something else is refused."""
        search = Search(followed(self.flow), self.facts, work=self.work)
        (diagnostic,) = self.error.diagnostics
        for number in range(_TRIES):
            launch, facts = self.launch, self.facts
            for option in remedy.options:
                launch, facts = option.given(launch, facts, number)
            try:
                search.paths(launch, facts)
            except PtxwcetError as other:
                new = other.diagnostics[0]
                if new.code == UNSETTLED or (new.code, new.span) == (
                    diagnostic.code,
                    diagnostic.span,
                ):
                    return False  # the same, or unknown within these steps
        return True

    def remedies(self) -> Iterator[Sequence[Remedy]]:
        """The remedies, the cheapest first: of each group all are named that lead further."""
        error = self.error
        bounds: tuple[Remedy, ...] = ()
        if isinstance(error, OpenDecision):
            bounds = tuple(self._of_loops([] if error.loop is None else [error.loop]))
            if self._is_told_by_causes(error):
                yield [*self._of_causes(error), *bounds]
        questions = find_questions(
            self.flow, self.launch, self.facts, is_quick=True, of_graph=self.work.of_graph
        )
        yield from self._of_questions(questions, bounds)
        if bounds:
            yield bounds
        yield from self._of_loops_around()
        names = tuple(deciding_parameters(self.kernel, self.launch))
        if names:
            yield [self._of_values(names)]
        yield from self._of_branch()
        outermost = [loop.id for loop in self.forest.loops if loop.parent is None]
        yield from self._of_some(outermost)
        yield from self._of_some([loop.id for loop in self.forest.loops])

    def missing(self) -> str:
        """What the source would have to have, or which capability is missing, if no remedy leads
        further.
        """
        move = self.error.diagnostics[0].help or ""
        if isinstance(self.error, OpenDecision) or not move or move.startswith(_GIVE):
            move = capability(self.flow, self.error)
        return f"no fact that was tried leads further: {move}"

    def _is_told_by_causes(self, error: OpenDecision) -> bool:
        """Whether the causes leave no choice: either values of parameters are all that is missing,
        or neither parameters nor the grid have a part in it.
        """
        names = scalars(self.kernel, error.causes)
        on_grid = any(cause.kind is CauseKind.LAUNCH for cause in error.causes)
        on_grid |= self.launch.grid is None and reads_grid_size(self.kernel)
        loads = {cause.instruction for cause in error.causes if cause.kind is CauseKind.MEMORY}
        others = names or on_grid or arrays_read(self.kernel, loads - {-1}) or error.loop is None
        return only_parameters(error.causes, names) or not others

    def _of_causes(self, error: OpenDecision) -> Iterator[Remedy]:
        names = scalars(self.kernel, error.causes)
        if only_parameters(error.causes, names):
            yield self._of_values(names)

    def _of_values(self, names: Iterable[str]) -> Remedy:
        return Remedy(tuple(_value(name, self.launch) for name in names))

    def _bound(self, loop: int) -> Option:
        def given(launch: Launch, facts: PlacedFacts, number: int) -> _Given:
            bounds = {**facts.loop_bounds, loop: _BOUNDS[number]}
            return launch, replace(facts, loop_bounds=bounds)

        return Option(bound_option(self.flow.label(loop)), given)

    def _of_loops(self, loops: Sequence[int]) -> Iterator[Remedy]:
        """The bounds of loops of which none is stated, as one remedy."""
        options = [self._bound(loop) for loop in loops if loop not in self.facts.loop_bounds]
        if options:
            what = "a bound on the iterations of the loop"
            if len(options) > 1:
                what = "bounds on the iterations of the loops"
            yield Remedy(tuple(options), f"give {what}: {{}}", "a bound: {}")

    def _of_some(self, loops: Sequence[int]) -> Iterator[Sequence[Remedy]]:
        """Bounds of loops: each alone, then of all."""
        if len(loops) <= _MOST_AROUND:
            for loop in loops:
                yield tuple(self._of_loops([loop]))
        if len(loops) > 1:
            yield tuple(self._of_loops(loops))

    def _of_loops_around(self) -> Iterator[Sequence[Remedy]]:
        """Bounds of the loops around the place that was refused, the outermost first."""
        around = [loop.id for loop in self.around()]
        yield from self._of_some(around[::-1])

    def around(self) -> tuple[Loop, ...]:
        """The loops around the place that was refused, innermost first."""
        span = self.error.diagnostics[0].span
        instructions = self.kernel.instructions
        for block in self.cfg.blocks:
            if any(near.span == span for near in instructions[block.start : block.end]):
                return tuple(self.forest.around(block.id))
        return ()

    def _of_branch(self) -> Iterator[Sequence[Remedy]]:
        """That the threads of a warp, or of the block, take the branch alike that is open."""
        if isinstance(self.error, OpenDecision):
            index = self.error.instruction
            blocks = [own.id for own in self.cfg.blocks if own.start <= index < own.end]
        else:
            blocks = [source for loop in self.around()[:1] for source, _ in loop.exits]
        blocks = list(dict.fromkeys(blocks))
        for scope in ("warp", "block") if blocks else ():
            yield [self._alike([(block, scope) for block in blocks])]

    def _alike(self, branches: Sequence[tuple[BlockId, str]], rest: str = "") -> Remedy:
        options = []
        for block, scope in branches:

            def given(
                launch: Launch,
                facts: PlacedFacts,
                number: int,
                stated: tuple[BlockId, str] = (block, scope),
            ) -> _Given:
                return launch, replace(facts, uniform={**facts.uniform, stated[0]: stated[1]})

            text = f'[[branch]] at = "{self.cfg.name(block)}" uniform = "{scope}"'
            options.append(Option(text, given))
        scope = branches[0][1]
        words = f"if all threads of a {scope} go the same way there, say so: {{}}{rest}"
        return Remedy(tuple(options), words)

    def _of_questions(
        self, questions: Questions, bounds: tuple[Remedy, ...]
    ) -> Iterator[Sequence[Remedy]]:
        """What the questions of ``ptxwcet facts`` ask for: the grid and values of parameters, then
        ranges of arrays for the loop that is refused, then branches that are taken alike.
        """
        grid = of_grid(questions, self.launch)
        if grid is not None:
            yield [grid]
        if questions.refusals:
            return
        values = [_value(row.name, self.launch) for row in questions.parameters]
        if questions.agreements:
            branches = [(row.block, row.scope) for row in questions.agreements]
            rest = ", and bounds of loops (ptxwcet facts asks for all)" if questions.loops else ""
            yield [self._alike(branches, rest)]
        elif values and not questions.loops:
            yield [Remedy(tuple(values)), *bounds]
        elif isinstance(self.error, OpenDecision):
            branch, loop = self.error.instruction, self.error.loop
            asked = [row for row in questions.loops if row.loop == loop]
            arrays = [array for row in asked for array in row.arrays]
            names = [row.name for row in questions.parameters if branch in row.branches]
            names += [name for row in asked for name in row.parameters]
            options = [_value(name, self.launch) for name in names]
            options += [self._arrays(arrays)] if arrays else []
            if options:
                yield [Remedy(tuple(options)), *bounds]

    def _arrays(self, arrays: Sequence[tuple[str, str]]) -> Option:
        def given(launch: Launch, facts: PlacedFacts, number: int) -> _Given:
            ranges = {name: ArrayRange(kind, 0, _VALUES[number]) for name, kind in arrays}
            return replace(launch, arrays={**launch.arrays, **ranges}), facts

        ranges = [f'{self.launch.name_of(name)} = "{kind} LEAST..MOST"' for name, kind in arrays]
        return Option(f"[arrays] {', '.join(ranges)} (the integers in it) in a facts file", given)


def _value(name: str, launch: Launch) -> Option:
    def given(launch: Launch, facts: PlacedFacts, number: int) -> _Given:
        return with_values(launch, (name,), _VALUES[number]), facts

    return Option(value_option(name, launch), given)


def of_grid(questions: Questions, launch: Launch) -> Remedy | None:
    """Returns what to give if the size of the grid is cheapest; None if something else is."""

    def given(launch: Launch, facts: PlacedFacts, number: int) -> _Given:
        return replace(launch, grid=(ASSUMED_GRID, (7, 1, 1))[number]), facts

    grid, size = questions.with_grid, Option("--grid SIZE", given)
    if grid is None or grid.refusals:
        return None
    if grid.loops or grid.agreements:
        return Remedy((size,), "give {} first: ptxwcet facts tells what is open then")
    values = [_value(row.name, launch) for row in grid.parameters]
    return Remedy((size, *values), "give {}: with that nothing is open")
