"""Attack on bounds: executions on adversarial data against the paths and the bound of a kernel.

Executions come from :mod:`isa_interpreter`. What a path allows is compared twice: how often each
block may be executed by a warp, counted here, and whether the sequence is one of those that the
path stands for. The bound is compared with the simulated run of what was executed, and with the
bound of the executed paths alone.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from unittest.mock import patch

from isa_interpreter import ABORTED, OUTSIDE, WORD, Execution, Input, WarpRun, counts, execute
from isa_memory import PROFILES

from ptxwcet.bounds.analysed import AnalysedPiece, KernelAnalysis, PreparedKernel, PreparedPiece
from ptxwcet.bounds.methods import METHODS
from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.paths import extraction
from ptxwcet.flow.paths.extraction import Piece
from ptxwcet.flow.values.lane_state import Span
from ptxwcet.flow.walk.path import (
    BlockPaths,
    Path,
    PathChoice,
    PathEnd,
    PathFork,
    PathLoop,
    PathNode,
    PathParts,
    PathRepeat,
    PathUnordered,
    Visit,
    WarpPath,
)
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.pipeline import analyse_kernel, analyse_prepared
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import Policy
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.timing.launch_costs import LaunchCosts
from ptxwcet.timing.programs import build_workload
from ptxwcet.validate.cases import Run
from ptxwcet.validate.containment import find_departure

MOST_COMPARED = 3_000
"""Blocks of a warp's run up to which it is compared as a sequence, and simulated."""


@dataclass(frozen=True)
class Violation:
    """What an execution does that the answer excludes; ``given`` repeats it."""

    kind: str
    text: str
    given: object = None


@dataclass
class Attack:
    """The answer for a kernel and what executions say: ``code`` is the refusal's, if refused.

    ``checker`` holds further executions to the answer; None if there is none.
    """

    code: str | None = None
    cycles: int | None = None
    executions: int = 0
    visits: int = 0
    violations: list[Violation] = field(default_factory=list)
    open_uses: int = 0
    checker: Checker | None = None


Exploration = Sequence[tuple[Piece, tuple[WarpPath, ...]]]
"""The paths of parts of the block indices and of the ranges of parameters, which cover all."""


@contextmanager
def explorations() -> Iterator[list[Exploration]]:
    """What extractions meanwhile find, each part apart; none that has given up on parts."""
    found: list[Exploration] = []
    explore = extraction._explore

    def recorded(*args: Any, **options: Any) -> Any:
        parts = explore(*args, **options)
        if parts is not None:
            found.append(tuple(parts))
        return parts

    with patch.object(extraction, "_explore", recorded):
        yield found


def parts_for(explored: Exploration, run: Execution) -> list[tuple[WarpPath, ...]]:
    """The paths of the parts that are for the block index and the parameters of a run.

    In an axis on which no decision depends all parts have index 0, for all indices.
    """
    axes = [i for i in range(3) if any(piece.last[i] > 0 for piece, _ in explored)]
    return [
        paths
        for piece, paths in explored
        if all(piece.first[i] <= run.index[i] <= piece.last[i] for i in axes)
        and all(_holds(span, run, name) for name, span in piece.spans)
    ]


def _holds(span: Span, run: Execution, name: str) -> bool:
    """Whether a parameter of a run, read with or without sign, is one of some numbers."""
    raw = run.parameters[name]
    kernel = run.program.kernel
    bits = next((8 * one.size_bytes for one in kernel.parameters if one.name == name), WORD)
    numbers = range(span.first, span.first + span.step * span.count, span.step)
    return raw in numbers or raw - (1 << bits) in numbers


@lru_cache(maxsize=1)
def machine() -> Machine:
    """The machine that is used unless told otherwise."""
    return load_machine(DEFAULT_MACHINE, None)


def attack(
    kernel: Kernel,
    launch: Launch,
    on: Machine,
    *,
    seed: int,
    executions: int,
    steps: int,
    times_all: bool = False,
) -> Attack:
    """Bounds a kernel and executes it on so many inputs. Refusals and internal errors are rows.

    The time of the longest execution is compared with the bound, with ``times_all`` that of each.
    """
    found = Attack()
    try:
        with explorations() as explored:
            analysis = analyse_kernel(kernel, launch, on)
    except PtxwcetError as error:
        found.code = error.diagnostics[0].code
        return found
    except Exception as error:  # what a user sees as an internal error
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename.rsplit('/', 1)[-1]}:{place.lineno}"
        text = f"{type(error).__name__}: {error} at {where}"
        found.violations.append(Violation("internal error", text))
        return found
    found.cycles = analysis.worst.bound.cycles
    checker = found.checker = Checker(analysis, explored)
    best: tuple[int, Input] | None = None
    for given in inputs(launch, seed, executions, steps):
        run = execute(kernel, given)
        if {(OUTSIDE, 0), (ABORTED, 0)} & set(run.findings):
            continue
        found.executions += 1
        found.visits += sum(len(warp.trace) for warp in run.warps)
        found.open_uses += bool(run.findings)
        violation = checker.check(run, given)
        is_timed = times_all and run.is_whole and not run.findings
        if violation is None and is_timed:
            violation = checker.check_time(run, given)
        if violation is not None:
            found.violations.append(violation)
            return found
        longest = max(len(warp.trace) for warp in run.warps)
        if run.is_whole and not run.findings and (best is None or longest > best[0]):
            best = longest, given
    if best is not None and not times_all:
        run = execute(kernel, best[1])
        violation = checker.check_time(run, best[1])
        if violation is not None:
            found.violations.append(violation)
    return found


def inputs(launch: Launch, seed: int, count: int, steps: int) -> Iterator[Input]:
    """Inputs of a launch, one profile of data after the other, in an order from the seed."""
    chooser = random.Random(seed)
    profiles = list(PROFILES)
    chooser.shuffle(profiles)
    for i in range(count):
        yield Input(
            block=launch.block,
            seed=seed * 1009 + i,
            profile=profiles[i % len(profiles)],
            grid=launch.grid,
            parameters=launch.parameters,
            ranges=launch.ranges,
            data=launch.parameter_bytes,
            constants=launch.constants,
            arrays=launch.arrays,
            steps=steps,
            restless=launch.warps == 1 and chooser.random() < 0.25,
            backwards=chooser.random() < 0.5,
            leaving=("early", "late", "wait")[i % 3],
        )


class Checker:
    """The paths and the bound of an analysed kernel, to which executions are held."""

    def __init__(
        self, analysis: KernelAnalysis | PreparedKernel, explored: Sequence[Exploration] = ()
    ) -> None:
        self.analysis = analysis
        self.explored = tuple(dict.fromkeys(explored))
        self.block_at = {block.start: block.id for block in analysis.cfg.blocks[:-1]}
        self._most: dict[int, Mapping[int, int]] = {}

    def check(self, run: Execution, given: Input) -> Violation | None:
        """Whether all warps have executed what the paths for their block index allow.

        Pieces of an analysis stand for all that behave alike and name one of them: any may be that
        of the run. What extractions explored says for which indices each part is.
        """
        apart = [text for text, _ in run.findings if text == "lanes apart at a barrier"]
        if apart and run.is_whole:
            return Violation("barrier", "lanes of a warp part at a barrier", given)
        if "barriers of one block differ" in [text for text, _ in run.findings]:
            return None  # undefined: nothing is said of such a run
        text = self.excluded(run, lambda paths: self._departure(run, paths))
        return Violation("path", text, given) if text else None

    def excluded(self, run: Execution, departs: Callable[[tuple[WarpPath, ...]], str]) -> str:
        """Why no part that is for a run has it, "" if one has; ``departs`` says it of one part."""
        for parts in self.all_parts(run):
            text = f"no part is for block {run.index}"
            for paths in parts:
                text = departs(paths)
                if not text:
                    break
            if text:
                return text
        return ""

    def all_parts(self, run: Execution) -> list[list[tuple[WarpPath, ...]]]:
        """The pieces of the analysis, and of each exploration the parts that are for a run."""
        pieces = [piece.paths.warps for piece in self.analysis.pieces]
        return [pieces, *(parts_for(explored, run) for explored in self.explored)]

    def _departure(self, run: Execution, paths: tuple[WarpPath, ...]) -> str:
        for number, warp in enumerate(run.warps):
            nodes = next(path.nodes for path in paths if number in path.warps)
            text = self.too_often(number, counts(warp), self.most(nodes))
            text = text or self._leaves(number, warp, nodes)
            if text:
                return text
        return ""

    def most(self, nodes: Path) -> Mapping[int, int]:
        """See :func:`most_visits`; kept."""
        if id(nodes) not in self._most:
            self._most[id(nodes)] = most_visits(nodes)
        return self._most[id(nodes)]

    def too_often(self, number: int, visits: Mapping[int, int], most: Mapping[int, int]) -> str:
        """What a warp executes more often than it may; ``visits`` by the blocks' starts."""
        for start, executed in visits.items():
            block = self.block_at[start]
            if executed > most.get(block, 0):
                name = self.analysis.cfg.name(block)
                return (
                    f"warp {number} executes {name} {executed} times, {most.get(block, 0)} at most"
                )
        return ""

    def _leaves(self, number: int, warp: WarpRun, nodes: Path) -> str:
        if len(warp.trace) > MOST_COMPARED or warp.is_late:
            return ""
        executed = tuple(Visit(self.block_at[start], taken) for start, taken in warp.trace)
        left = find_departure(nodes, executed)
        if left is None or (not warp.is_whole and left.position >= len(executed) - 1):
            return ""
        where = "its end" if left.step is None else self.analysis.cfg.name(left.step.block)
        return f"warp {number} leaves the path after {left.position} blocks at {where}"

    def check_time(self, run: Execution, given: Input) -> Violation | None:
        """Whether the run takes longer than the bound, or its own paths have a larger one."""
        if max(len(warp.trace) for warp in run.warps) > MOST_COMPARED:
            return None
        paths: dict[Path, list[int]] = {}
        for number, warp in enumerate(run.warps):
            nodes = tuple(Visit(self.block_at[start], taken) for start, taken in warp.trace)
            paths.setdefault(nodes, []).append(number)
        warps = tuple(WarpPath(nodes, tuple(numbers)) for nodes, numbers in paths.items())
        analysis = self.analysis
        costs = LaunchCosts(analysis.kernel, analysis.launch, analysis.machine)
        try:
            workload = build_workload(
                warps, analysis.kernel, analysis.cfg, costs, analysis.machine.scoreboard
            )
        except PtxwcetError:
            return None  # barriers that the model does not take
        pieces = [piece for piece in analysis.pieces if isinstance(piece, AnalysedPiece)]
        bound = max(piece.bound.cycles for piece in pieces)
        simulator = Simulator(workload, SmConfiguration.of(analysis.machine))
        for policy in (Policy.LRR, Policy.GTO, Policy.YOUNGEST):
            cycles = Run(policy).cycles(simulator)
            if cycles > bound:
                text = f"{cycles} cycles simulated ({policy.name}), the bound is {bound}"
                return Violation("time", text, given)
        alone = self._bound_alone(warps, workload_of(warps, workload))
        if alone > bound:
            text = f"the executed paths alone are bounded by {alone}, all of them by {bound}"
            return Violation("order", text, given)
        return None

    def _bound_alone(self, warps: tuple[WarpPath, ...], piece: PreparedPiece) -> int:
        analysis = self.analysis
        prepared = PreparedKernel(analysis.flow, analysis.launch, analysis.machine, (piece,))
        outcome = analyse_prepared(prepared).pieces[0].outcomes[METHODS[0].name]
        assert isinstance(outcome, BlockBound)
        return outcome.cycles


def workload_of(warps: tuple[WarpPath, ...], workload: object) -> PreparedPiece:
    """The executed paths as a piece of a prepared kernel."""
    paths = BlockPaths((0, 0, 0), (0, 0, 0), warps)
    return PreparedPiece(paths, workload, (), is_nominal=True)  # type: ignore[arg-type]


def most_visits(nodes: Path) -> dict[int, int]:
    """How often a warp may execute each block at most, over all the ways that a path stands for.

    For each block alone: the ways in which two blocks are executed most often may differ.
    """
    return _all(_most(node, 1) for node in nodes)


def _most(node: PathNode, times: int) -> dict[int, int]:
    """At most in ``times`` iterations of the loop around."""
    match node:
        case Visit(block):
            return {block: times}
        case PathRepeat(count, body=body, step=step) if step:
            return _times(most_visits(body), _positive_sum(count.base, step, times))
        case PathRepeat(count, _, body):
            assert not count.slopes
            once = _all(_most(one, count.base) for one in body)
            return _times(once, times)
        case PathLoop(body=body):
            return _all(_most(one, times) for one in body)
        case PathUnordered(first, second):
            return _times(_all((most_visits(first), most_visits(second))), times)
        case PathFork(block, first, second):
            return _times(_all(({block: 1}, most_visits(first), most_visits(second))), times)
        case PathChoice(alternatives):
            return _times(_largest(most_visits(one) for one in alternatives), times)
        case PathParts(most, sides):
            return _times(_largest(most_visits(one) for one in sides), most * times)
        case PathEnd(leave, last, _):
            return _times(_all(({leave.block: 1}, most_visits(last))), times)
        case _:
            return {}


def _positive_sum(first: int, step: int, times: int) -> int:
    """The sum of the positive ones of ``first + step * i`` for i below ``times``."""
    if step < 0:  # read from its other end
        first, step = first + step * (times - 1), -step
    start = 0 if first >= 0 or step == 0 else min(times, -(first // step))
    count = times - start if first + step * start > 0 or step else 0
    return count * (first + step * start) + step * count * (count - 1) // 2


def _all(rows: Iterator[dict[int, int]] | tuple[dict[int, int], ...]) -> dict[int, int]:
    total: dict[int, int] = {}
    for row in rows:
        for block, times in row.items():
            total[block] = total.get(block, 0) + times
    return total


def _largest(rows: Iterator[dict[int, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for row in rows:
        for block, times in row.items():
            found[block] = max(found.get(block, 0), times)
    return found


def _times(row: dict[int, int], times: int) -> dict[int, int]:
    return {block: count * times for block, count in row.items()}
