"""What a kernel and launch leave open: the questions that a facts file has to answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.loops import LoopForest
from ptxwcet.flow.launch import Launch, PlacedFacts
from ptxwcet.flow.paths.call_variables import with_variable_registers
from ptxwcet.flow.paths.question_search import ASSUMED_BOUNDS, OpenLoop, Search, is_integer
from ptxwcet.flow.values.slicing import control_slice
from ptxwcet.ir.kernel import Address, Kernel, Space, SymbolRef
from ptxwcet.support.diagnostics import Diagnostic

_FOR_WANT_OF_VALUES = frozenset(
    ("PW202", "PW204", "PW205", "PW206", "PW218", "PW222", "PW223", "PW224")
)
"""Refusals that may go away when parameters have values: what they decide is one way then."""

_FOR_WANT_OF_AGREEMENT = frozenset(("PW202", "PW222"))
"""Refusals of branches whose lanes, or warps, may part."""

_CONTRADICTED = frozenset(("PW217",))
_MOST_TRIALS = 60


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
    """All that is open, and what refuses a bound whatever the answers are."""

    loops: tuple[OpenLoop, ...] = ()
    parameters: tuple[OpenParameter, ...] = ()
    agreements: tuple[OpenAgreement, ...] = ()
    refusals: tuple[Diagnostic, ...] = ()


def find_questions(
    kernel: Kernel,
    cfg: ControlFlowGraph,
    forest: LoopForest,
    launch: Launch,
    facts: PlacedFacts,
) -> Questions:
    """The questions whose answers give a bound. Cost: a path extraction for each, and for trials.

    A loop or branch that depends on nothing but scalar parameters asks for these; any other loop
    asks for its bound. What refuses the kernel may do so for want of parameters, too. Once there
    are values for the parameters fewer loops are open, or others: then those are asked for, and
    those that were not reached. If lanes that part refuse the kernel, it is asked whether they do.
    """
    kernel = with_variable_registers(kernel)
    for bound in ASSUMED_BOUNDS:
        search = Search(kernel, cfg, forest, facts, bound=bound)
        if search.run(launch, frozenset()) or not _is_for_want(search, _CONTRADICTED):
            break
    asked = dict(search.parameters)
    if _is_for_want(search, _FOR_WANT_OF_VALUES):
        asked = {**{name: {} for name in _deciding(kernel, launch)}, **asked}
    settled = search.settle(launch, asked)
    if settled is not None:
        return _questions(_fewest(settled, launch), search)
    if _is_for_want(search, _FOR_WANT_OF_AGREEMENT):
        for scope in ("warp", "block"):
            alike = _alike(cfg, facts, scope)
            agreed = search.again(_agreeing(facts, alike, scope))
            if agreed.run(launch, frozenset()):
                alike = _fewest_alike(agreed, launch, facts, alike, scope)
                final = search.again(_agreeing(facts, alike, scope))
                final.run(launch, frozenset())
                found = _questions(final, final)
                rows = tuple(OpenAgreement(block, scope) for block in alike)
                return replace(found, agreements=rows)
    return _questions(search, search)


def _is_for_want(search: Search, codes: frozenset[str]) -> bool:
    return any(problem.code in codes for problem in search.refusals)


def _questions(final: Search, first: Search) -> Questions:
    """Those of a search, and the loops of the first one that the final one did not reach."""
    loops = {loop: row for loop, row in first.loops.items() if loop not in final.entered}
    loops |= final.loops
    names = [parameter.name for parameter in final.kernel.parameters]
    parameters = tuple(
        OpenParameter(name, tuple(final.parameters[name]))
        for name in sorted(final.parameters, key=names.index)
    )
    rows = tuple(loops[loop] for loop in sorted(loops))
    return Questions(rows, parameters, refusals=final.refusals)


def _fewest(settled: Search, launch: Launch) -> Search:
    """The same without the parameters that help nothing: none of those that decide no branch."""
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
