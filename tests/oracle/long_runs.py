"""Bounds of loops tested from below: runs of millions of blocks, as long as a search makes them.

A kernel whose paths allow some block more than once is run by :mod:`fast_machine` on data that a
search chooses to come as near as it can to what is allowed. No block may be executed more often by
a warp than the part for its block index allows, and a warp takes at least a cycle for each
instruction. Several warps run apart, on data that never change; where they wait for one another,
only runs that all end after as many barriers say something.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from fast_machine import ANY, CONSTANT, EDGES, END, MIXED, RARELY, SMALL, TINY, Code
from fast_program import Data, FastProgram, NotFollowed, Place, run_warp
from isa_interpreter import Execution, Input, Machine, program_of
from path_attack import Checker, Violation, inputs, most_visits

from ptxwcet.flow.launch import Launch
from ptxwcet.flow.walk.path import AffineCount, Path, PathRepeat, WarpPath
from ptxwcet.ir.kernel import Kernel

TRIALS = 24
"""Runs of the search for data that make a run long, each of a tenth of the blocks of the last."""


_FIRST = (CONSTANT, MIXED, SMALL, TINY, RARELY, EDGES, ANY, CONSTANT)


@dataclass
class LongRuns:
    """What long runs of a kernel say.

    ``left_out`` is why it was not run. ``executed`` and ``allowed`` are of the block that may be
    executed most often by a warp, in the run that came nearest. ``is_tight``: were each loop
    allowed one iteration less, a run would be too long.
    """

    left_out: str = ""
    executed: int = 0
    allowed: int = 0
    blocks: int = 0
    runs: int = 0
    is_tight: bool = False
    violation: Violation | None = None


def long_runs(
    kernel: Kernel, launch: Launch, checker: Checker, *, seed: int, most: int
) -> LongRuns | None:
    """Runs a bounded kernel for up to ``most`` blocks; None if no block is allowed twice.

    Cost: about a microsecond a block and instruction.
    """
    allowed = [
        checker.most(one.nodes) for piece in checker.analysis.pieces for one in piece.paths.warps
    ]
    if max(max(row.values(), default=0) for row in allowed) < 2:
        return None
    found = LongRuns()
    try:
        program = FastProgram(kernel)
    except NotFollowed as reason:
        found.left_out = str(reason)
        return found
    if program.exchanges and launch.warps > 1:
        found.left_out = "exchanges of several warps"
        return found
    if launch.constants or launch.parameter_bytes:
        found.left_out = "data of a launch file"
        return found
    return _Search(program, launch, checker, seed, found).run(most)


@dataclass(frozen=True)
class _Trial:
    """An input, the data of its run, and how near it came."""

    given: Input
    data: Data
    score: tuple[int, int] = (-1, 0)
    ended: bool = False


class _Search:
    def __init__(
        self,
        program: FastProgram,
        launch: Launch,
        checker: Checker,
        seed: int,
        found: LongRuns,
    ) -> None:
        self.program = program
        self.launch = launch
        self.checker = checker
        self.random = random.Random(seed)
        self.found = found
        self.most_of_shorter: dict[int, Mapping[int, int]] = {}
        self.start, self.found.allowed = self._target()
        self.inputs = inputs(launch, seed, 1_000, 0)
        loads = {row[14] for row in program.rows if row[0] == Code.LOAD}
        self.loads = sorted({0} | loads) if launch.warps == 1 else [0]
        near = {value + i for value in program.constants for i in (-1, 0, 1)}
        edges = {(1 << i) + k for i in (4, 8, 15, 16, 31, 32, 62, 63) for k in (-1, 0)}
        self.values = [_signed(value) for value in sorted({0, 1, 2, 3, 7, -1} | near | edges)]

    def run(self, most: int) -> LongRuns:
        """Runs of the search, the best of them longer if it was cut off."""
        best: _Trial | None = None
        for number in range(TRIALS):
            is_first = best is None or number < len(_FIRST)
            trial = self._alike(_FIRST[number]) if is_first else self._changed(best)
            trial = self._tried(trial, max(most // 10, 1))
            if self.found.violation is not None:
                return self.found
            if best is None or trial.score >= best.score:
                best = trial
        if best is not None and not best.ended:
            self._tried(best, most)
        return self.found

    def _alike(self, mode: int) -> _Trial:
        """All loads choose alike."""
        size = max(len(self.program.kernel.instructions), 1)
        values = np.full(size, self.random.choice(self.values), np.int64)
        return _Trial(next(self.inputs), self._data(np.full(size, mode, np.int64), values))

    def _data(self, modes: Any, values: Any) -> Data:
        chooser = self.random
        is_same, backwards = self.launch.warps > 1, chooser.random() < 0.5
        return Data(chooser.getrandbits(60), modes, values, is_same, backwards)

    def _changed(self, trial: _Trial) -> _Trial:
        """Other numbers for some loads, or another input."""
        chooser = self.random
        modes, values = trial.data.modes.copy(), trial.data.values.copy()
        for at in chooser.sample(self.loads, min(len(self.loads), chooser.choice((1, 1, 2, 4)))):
            modes[at] = chooser.choice((CONSTANT, CONSTANT, RARELY, MIXED, SMALL, TINY))
            values[at] = chooser.choice(self.values)
        given = next(self.inputs) if chooser.random() < 0.4 else trial.given
        return _Trial(given, self._data(modes, values))

    def _tried(self, trial: _Trial, most: int) -> _Trial:
        """Runs all warps and holds them to what is allowed."""
        given, program, found = trial.given, self.program, self.found
        machine = Machine(program_of(program.kernel), given)
        place = Place(given.block, machine.index, machine.grid, machine.parameters, given.arrays)
        runs = [run_warp(program, place, trial.data, w, most) for w in range(self.launch.warps)]
        found.runs += 1
        found.blocks += sum(run.blocks for run in runs)
        visits = [
            {start: int(n) for start, n in zip(program.starts, run.counts, strict=False) if n}
            for run in runs
        ]
        ended = all(run.ending == END for run in runs)
        executed = max(row.get(self.start, 0) for row in visits)
        longest = max(run.blocks for run in runs)
        done = replace(trial, score=(executed, longest), ended=ended)
        waits = {int(np.dot(run.counts[:-1], program.barriers)) for run in runs}
        if len(runs) > 1 and any(program.barriers) and not (ended and len(waits) == 1):
            return trial if ended else done  # of warps that may wait for ever nothing is said
        run = Execution([], machine.index, machine.grid, machine.parameters, [], machine.program)
        kind = "count"
        text = self.checker.excluded(run, lambda paths: self._too_often(paths, visits))
        cycles = max(int(np.dot(run.counts[:-1], program.lengths)) for run in runs)
        bound = self.checker.analysis.worst.bound.cycles
        if not text and ended and cycles > bound:
            kind, text = "time", f"a warp executes {cycles} instructions in {bound} cycles"
        if text:
            found.violation = Violation(kind, text, (given, trial.data))
            return done
        found.executed = max(found.executed, executed)
        found.is_tight = found.is_tight or bool(
            self.checker.excluded(run, lambda paths: self._too_often(paths, visits, shorter=True))
        )
        return done

    def _too_often(
        self,
        paths: tuple[WarpPath, ...],
        visits: Sequence[Mapping[int, int]],
        *,
        shorter: bool = False,
    ) -> str:
        for number, row in enumerate(visits):
            nodes = next(path.nodes for path in paths if number in path.warps)
            most = self._most_of_shorter(nodes) if shorter else self.checker.most(nodes)
            text = self.checker.too_often(number, row, most)
            if text:
                return text
        return ""

    def _most_of_shorter(self, nodes: Path) -> Mapping[int, int]:
        if id(nodes) not in self.most_of_shorter:
            self.most_of_shorter[id(nodes)] = most_visits(shortened(nodes))
        return self.most_of_shorter[id(nodes)]

    def _target(self) -> tuple[int, int]:
        """The first instruction of the block that a warp may execute most often, and how often."""
        rows = [
            (times, block)
            for piece in self.checker.analysis.pieces
            for path in piece.paths.warps
            for block, times in self.checker.most(path.nodes).items()
        ]
        times, block = max(rows)
        return next(at for at, other in self.checker.block_at.items() if other == block), times


def shortened(nodes: Path) -> Path:
    """Paths in which each loop is allowed one iteration less: a bound that is too low."""
    return tuple(_shorter(node) for node in nodes)


def _shorter(node: Any) -> Any:
    if isinstance(node, tuple):
        return tuple(_shorter(one) for one in node)
    if not is_dataclass(node) or isinstance(node, AffineCount):
        return node
    changes = {one.name: _shorter(getattr(node, one.name)) for one in fields(node)}
    if isinstance(node, PathRepeat):
        changes["count"] = AffineCount(max(node.count.base - 1, 0), node.count.slopes)
    return type(node)(**changes)


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
