"""The questions about a kernel and launch that a facts file has to answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ptxwcet.flow.flow_graph import Work
from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.loops import LoopForest
from ptxwcet.flow.launch import ArrayRange, Launch, PlacedFacts
from ptxwcet.flow.paths.call_variables import with_variable_registers
from ptxwcet.flow.paths.question_search import (
    ASSUMED_BOUNDS,
    ASSUMED_VALUES,
    OpenLoop,
    Search,
    is_integer,
)
from ptxwcet.flow.values.slicing import control_slice
from ptxwcet.ir.kernel import Address, Kernel, Space, SymbolRef
from ptxwcet.ir.operands import SpecialRegister, leaves
from ptxwcet.support.diagnostics import Diagnostic

_FOR_WANT_OF_VALUES = frozenset(
    ("PW202", "PW204", "PW205", "PW206", "PW218", "PW222", "PW223", "PW224")
)
"""Refusals that may go away when parameters have values: what they decide is one way then."""

_FOR_WANT_OF_AGREEMENT = frozenset(("PW202", "PW222"))
"""Refusals of branches whose lanes, or warps, may part."""

_CONTRADICTED = frozenset(("PW217",))
_MOST_TRIALS = 60
_ASSUMED_MOST = 99
"""Of the integers in an array, to find out whether a range of them helps."""

_ASSUMED_GRID = (60, 50, 40)
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
    kernel: Kernel,
    cfg: ControlFlowGraph,
    forest: LoopForest,
    launch: Launch,
    facts: PlacedFacts,
    *,
    is_quick: bool = False,
) -> Questions:
    """The questions whose answers give a bound. Cost: a path extraction for each, and for trials;
    if ``is_quick``, within a fifth of the steps that one extraction may take.

    A loop or branch that depends on nothing but scalar parameters asks for these; any other loop
    asks for its bound. What refuses the kernel may do so for want of parameters, too. Once there
    are values for the parameters fewer loops are open, or others: then those are asked for, and
    those that were not reached. If lanes that part refuse the kernel, it is asked whether they do.
    Where the size of the grid has a part in it, what is open with one of some size is looked for as
    well.
    """
    followed = with_variable_registers(kernel)
    questions = _find(_search(followed, cfg, forest, facts, is_quick=is_quick), launch)
    if launch.grid is not None or not (questions.refusals or _is_on_grid(kernel, questions)):
        return questions
    search = _search(followed, cfg, forest, facts, is_quick=is_quick)
    with_grid = _find(search, replace(launch, grid=_ASSUMED_GRID))
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


def _search(
    kernel: Kernel,
    cfg: ControlFlowGraph,
    forest: LoopForest,
    facts: PlacedFacts,
    *,
    is_quick: bool,
) -> Search:
    return Search(kernel, cfg, forest, facts, work=Work.part(6 if is_quick else 1))


def _find(start: Search, launch: Launch) -> Questions:
    """The questions for a launch; ``start`` is a search that has not run."""
    kernel, facts = start.kernel, start.facts
    for bound in ASSUMED_BOUNDS:
        search = replace(start.again(facts), bound=bound)
        if search.run(launch, frozenset()) or not _is_for_want(search, _CONTRADICTED):
            break
    asked = dict(search.parameters)
    if _is_for_want(search, _FOR_WANT_OF_VALUES):
        asked = {**{name: {} for name in _deciding(kernel, launch)}, **asked}
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
    names = [parameter.name for parameter in final.kernel.parameters]
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
        if is_open and is_integer(parameter):
            yield parameter.name
