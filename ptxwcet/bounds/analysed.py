"""Holds the result of the main job for a kernel: its prepared programs, and its bounds."""

from __future__ import annotations

from collections.abc import Mapping

from ptxwcet.bounds.analysis import BlockAnalysis
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.methods import SAFE
from ptxwcet.bounds.outcome import BlockBound, Outcome
from ptxwcet.bounds.roofline import Roofline
from ptxwcet.claims import Assumption, Refusal
from ptxwcet.flow.graph.control_flow import ControlFlow, OnFlow
from ptxwcet.flow.launch import NO_PLACED_FACTS, Launch, PlacedFacts
from ptxwcet.flow.walk.path import BlockPaths
from ptxwcet.machine.model import Machine
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import BlockWorkload


@dataclass(frozen=True, slots=True)
class AnalysedPiece:
    """The blocks of one range of indices, their workload and every method's answer.

    ``reported`` names the method whose answer is the bound; it has one. ``count``: the number of
    blocks of the grid that execute exactly this piece, None if unknown.
    """

    paths: BlockPaths
    analysis: BlockAnalysis
    outcomes: Mapping[str, Outcome]
    reported: str = SAFE.name
    count: int | None = None

    @property
    def bound(self) -> BlockBound:
        """The reported bound."""
        outcome = self.outcomes[self.reported]
        assert isinstance(outcome, BlockBound)
        return outcome


@dataclass(frozen=True, slots=True)
class KernelAnalysis(OnFlow):
    """A kernel bounded for a launch on a machine; ``worst`` is the piece with the largest bound.

    ``launch_bound``: the time of the whole launch, or the reason why it is open; None without a
    grid. ``others``: the pieces under other choices of the stated facts, each of which also covers
    all blocks of the launch; ``of_launch`` are those on which ``launch_bound`` rests. ``roofline``:
    an estimate of the launch, where it is bounded. ``leaves_out``: ``pieces`` hold with some facts
    left out.
    """

    flow: ControlFlow
    launch: Launch
    machine: Machine
    pieces: tuple[AnalysedPiece, ...]
    facts: PlacedFacts
    launch_bound: LaunchBound | Refusal | None = None
    of_launch: tuple[AnalysedPiece, ...] = ()
    others: tuple[tuple[AnalysedPiece, ...], ...] = ()
    leaves_out: bool = False
    roofline: Roofline | None = None

    def __repr__(self) -> str:
        return f"<KernelAnalysis {self.kernel.readable}: {self.worst.bound.cycles} cycles>"

    @property
    def worst(self) -> AnalysedPiece:
        """The range of block indices whose blocks may take longest."""
        return max(self.pieces, key=lambda piece: piece.bound.cycles)


@dataclass(frozen=True, slots=True)
class PreparedPiece:
    """The blocks of one range of indices, with the programs of their warps on a machine.

    ``assumptions`` are those of the workload; ``is_nominal``: no timing of it is charged above the
    machine's own. ``count``: the number of blocks that execute exactly this, None if unknown.
    """

    paths: BlockPaths
    workload: BlockWorkload
    assumptions: tuple[Assumption, ...]
    is_nominal: bool
    count: int | None = None


@dataclass(frozen=True, slots=True)
class PreparedKernel(OnFlow):
    """A kernel with the programs of its warps, before any bound or run."""

    flow: ControlFlow
    launch: Launch
    machine: Machine
    pieces: tuple[PreparedPiece, ...]
    facts: PlacedFacts = NO_PLACED_FACTS
