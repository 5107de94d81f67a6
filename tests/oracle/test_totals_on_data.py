"""Totals against executions: what a warp did in a run is within what its total still allows.

Random kernels that branch, leave loops and return on data are executed. How often a warp came to
some blocks is stated as a total, which is then true of this run; the length of what it executed,
alone, and what it asks of the units must be within the bounds for that total.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing import parse_text
from test_paths_on_data import MACHINE, WORDS, DataWriter

from ptxwcet.bounds.analysed import KernelAnalysis, PreparedPiece
from ptxwcet.bounds.analysis import WarpSection, analyse_block
from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.commands.run.study import prepare_executed
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.flow.facts.totals import count_visits, loop_visits, totals_in_force
from ptxwcet.flow.launch import Launch, PlacedTotal
from ptxwcet.flow.walk.path import BlockPaths, WarpPath
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import Policy
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.timing.programs import build_workload

UNITS = (frozenset[str](), frozenset({"FP"}), frozenset({"INT", "MEM"}))


@dataclass
class Executed:
    """A kernel's analysis and one execution of it."""

    analysis: KernelAnalysis
    paths: BlockPaths
    pieces: tuple[PreparedPiece, ...]

    @staticmethod
    def of(seed: int, n: int, threads: int) -> Iterator[Executed]:
        module = parse_text(DataWriter(seed).text())
        kernel = module.kernels[0]
        facts = Launch((threads, 1, 1), (1, 1, 1), {"n": n})
        try:
            analysis = analyse_kernel(kernel, facts, MACHINE)
        except PtxwcetError:
            return
        (piece, *others) = analysis.pieces
        numbers = np.random.default_rng(seed)
        for _ in range(2):
            data = numbers.integers(0, 100, WORDS).astype("u4")
            launch = EmulatedLaunch((threads, 1, 1), (1, 1, 1), (n, data))
            options = EmulatorOptions(record_paths=True)
            run = execute(analysis.kernel, module, launch, options=options)
            if run.is_complete and not others:
                found = prepare_executed(run, analysis.launch, MACHINE)
                yield Executed(analysis, piece.paths, found.pieces)

    @property
    def warps(self) -> dict[int, WarpPath]:
        return {w: path for piece in self.pieces for path in piece.paths.warps for w in path.warps}

    def made(self, visits: frozenset[tuple[int, bool]]) -> int:
        return max(count_visits(path.nodes, visits)[1] for path in self.warps.values())

    def totals(self, chooser: random.Random) -> tuple[PlacedTotal, ...]:
        """True ones, of loops and of any visits."""
        analysis = self.analysis
        kinds = [loop_visits(analysis.flow, loop) for loop in analysis.forest.loops]
        kinds += [
            frozenset({(block.id, way) for way in ways})
            for block in analysis.cfg.blocks[:-1]
            for ways in ((True,), (False,), (True, False))
        ]
        kinds = [kind for kind in kinds if kind]
        chosen = chooser.sample(kinds, min(chooser.randint(1, 3), len(kinds)))
        return tuple(
            PlacedTotal(f"visits {number}", "a test", self.made(visits), visits)
            for number, visits in enumerate(chosen)
        )


def check(executed: Executed, chooser: random.Random) -> int:
    """By how many cycles the totals cut the bound."""
    kernel, cfg = executed.analysis.kernel, executed.analysis.cfg
    totals = totals_in_force(executed.analysis.flow, executed.paths, executed.totals(chooser))
    costs = InstructionCosts(MACHINE, executed.analysis.launch.threads)
    workload = build_workload(
        executed.paths.warps, kernel, cfg, costs, MACHINE.scoreboard, totals=totals
    )
    analysis = analyse_block(workload, MACHINE)
    bound = bound_safe(analysis).cycles
    uncut = executed.analysis.worst.outcomes["safe"]
    assert isinstance(uncut, BlockBound)
    assert bound <= uncut.cycles
    section_of = {
        warp: section
        for warp_class, section in zip(workload.classes, analysis.uncut, strict=True)
        for warp in warp_class.warps
    }
    for piece in executed.pieces:
        for warp_class in piece.workload.classes:
            alone = WarpSection(warp_class.program.body, None, MACHINE.scoreboard)
            for section in {id(section_of[w]): section_of[w] for w in warp_class.warps}.values():
                assert alone.length_cycles <= section.length_cycles
                for units in UNITS:
                    assert alone.interference(units) <= section.interference(units)
                    assert alone.demand_on(units) <= section.demand_on(units)
        simulator = Simulator(piece.workload, SmConfiguration.of(MACHINE))
        for policy in (Policy.LRR, Policy.YOUNGEST):
            assert simulator.run(policy).cycles <= bound
    return uncut.cycles - bound


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10**9), n=st.integers(-1, 6), threads=st.sampled_from([8, 32, 48]))
def test_what_was_executed_is_within_true_totals(seed: int, n: int, threads: int) -> None:
    for executed in Executed.of(seed, n, threads):
        for trial in range(3):
            check(executed, random.Random(f"{seed} {trial}"))


def test_totals_cut_bounds_of_random_kernels() -> None:
    cut = [
        check(executed, random.Random(f"{seed} 0"))
        for seed in (6, 8, 14, 45, 46, 59)
        for executed in Executed.of(seed, 4, 48)
    ]
    assert sum(saved > 0 for saved in cut) >= 2
