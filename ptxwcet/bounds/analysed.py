"""What the main job finds of a kernel: its prepared programs, and its bounds."""

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

    ``reported`` names the method whose answer is the bound; it has one. ``count``: how many blocks
    of the grid execute just this, None if that is not known.
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

    ``launch_bound``: how long the whole launch takes, or why that is open; None without a grid.
    ``others``: the pieces under other choices of the facts that are stated, of which each covers
    all blocks of the launch too; ``of_launch`` are those on which ``launch_bound`` rests.
    ``roofline``: an estimate of the launch, where it is bounded. ``leaves_out``: ``pieces`` are for
    some facts left out.
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
    """The blocks of one range of indices and what their warps execute on a machine.

    ``assumptions`` are those that the workload rests on; ``is_nominal``: no timing of it is charged
    above the machine's own. ``count``: how many blocks execute just this, None if nobody knows.
    """

    paths: BlockPaths
    workload: BlockWorkload
    assumptions: tuple[Assumption, ...]
    is_nominal: bool
    count: int | None = None


@dataclass(frozen=True, slots=True)
class PreparedKernel(OnFlow):
    """A kernel whose warps' programs are known, before any bound or run."""

    flow: ControlFlow
    launch: Launch
    machine: Machine
    pieces: tuple[PreparedPiece, ...]
    facts: PlacedFacts = NO_PLACED_FACTS
