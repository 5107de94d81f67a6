"""What the functions of the library give: numbers with their claims, for scripts and notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.roofline import Roofline
from ptxwcet.claims import TimingClaim
from ptxwcet.commands.bound.build import build_report
from ptxwcet.commands.bound.text import render_text
from ptxwcet.commands.simulate.study import KernelSimulation
from ptxwcet.flow.graph.cfg import ControlFlowGraph
from ptxwcet.flow.graph.control_flow import ControlFlow, OnFlow
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.model import Machine
from ptxwcet.opened.opening import Answer, RefusedKernel
from ptxwcet.support.demangling import names_meant
from ptxwcet.support.diagnostics import Diagnostic, render_all
from ptxwcet.support.graph import labelled_graph
from ptxwcet.support.records import dataclass
from ptxwcet.support.rounding import microseconds_of

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True, slots=True)
class Cfg(OnFlow):
    """A kernel's control-flow graph, calls replaced; blocks go by their labels."""

    flow: ControlFlow

    @classmethod
    def of(cls, kernel: Kernel) -> Cfg:
        """The graph of a kernel whose calls are replaced. Cost: near linear."""
        return cls(ControlFlow.of(kernel))

    @property
    def graph(self) -> ControlFlowGraph:
        """Blocks and edges."""
        return self.flow.cfg

    def to_networkx(self) -> networkx.DiGraph:
        """The graph with a node for each block and its number of ``instructions``, ``line`` of the
        PTX and ``loops`` around; an edge says whether it is ``taken``. Cost: linear.
        """
        graph, instructions = self.graph, self.kernel.instructions
        nodes = []
        for block in graph.blocks:
            line = None
            if block.end > block.start:
                line = instructions[block.start].span.line
            around = len(tuple(self.forest.around(block.id)))
            size = block.end - block.start
            nodes.append(
                (graph.name(block.id), {"instructions": size, "line": line, "loops": around})
            )
        edges = [
            (
                graph.name(block.id),
                graph.name(target),
                {"taken": graph.taken[block.id] == target},
            )
            for block in graph.blocks
            for target in graph.successors[block.id]
        ]
        return labelled_graph(nodes, edges)

    def __repr__(self) -> str:
        blocks, loops = len(self.graph.blocks) - 1, len(self.forest.loops)
        return f"<Cfg {self.kernel.readable}: {blocks} blocks, {loops} loops>"


@dataclass(frozen=True, slots=True, repr=False)
class Bound:
    """How long a block of a kernel takes at most, with what that rests on.

    ``cycles`` are those of the machine; ``guarantee`` is ``safe-bound``, or ``estimate``.
    ``launch_cycles`` are those of the whole launch, ``launch_guarantee`` and ``launch_assumptions``
    what they are worth, and ``roofline`` is an estimate beside them.
    """

    analysis: KernelAnalysis
    answer: Answer[KernelAnalysis]

    @property
    def kernel(self) -> str:
        """The kernel's name as its source has it."""
        return self.analysis.kernel.readable

    @property
    def cycles(self) -> int:
        """The bound in cycles."""
        return self.analysis.worst.bound.cycles

    @property
    def microseconds(self) -> float:
        """The bound at the machine's clock, rounded up to nanoseconds."""
        return microseconds_of(self.cycles, self.analysis.machine.clock_mhz)

    @property
    def guarantee(self) -> str:
        """How safe it is."""
        return self.analysis.worst.bound.claim.guarantee.value

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The keys of what it rests on (``docs/assumptions.md``)."""
        return tuple(one.key for one in self.analysis.worst.bound.claim.assumptions)

    @property
    def launch_cycles(self) -> int | None:
        """The bound of the whole launch; None without a grid, or if it has none."""
        claim = self._launch_claim
        return None if claim is None else claim.cycles

    @property
    def launch_microseconds(self) -> float | None:
        """The bound of the whole launch at the machine's clock, rounded up to nanoseconds."""
        cycles = self.launch_cycles
        return None if cycles is None else microseconds_of(cycles, self.analysis.machine.clock_mhz)

    @property
    def launch_guarantee(self) -> str | None:
        """How safe the bound of the launch is."""
        claim = self._launch_claim
        return None if claim is None else claim.guarantee.value

    @property
    def launch_assumptions(self) -> tuple[str, ...]:
        """The keys of what the bound of the launch rests on."""
        claim = self._launch_claim
        return () if claim is None else tuple(one.key for one in claim.assumptions)

    @property
    def roofline(self) -> Roofline | None:
        """What the busiest resource takes for the launch: an estimate, no bound; None without."""
        return self.analysis.roofline

    @property
    def _launch_claim(self) -> TimingClaim | None:
        launched = self.analysis.launch_bound
        return launched.claim if isinstance(launched, LaunchBound) else None

    @property
    def machine(self) -> Machine:
        """The machine that it is for."""
        return self.analysis.machine

    @property
    def loops(self) -> dict[str, int]:
        """The most executions of each loop's body an entry, by the label of its header."""
        return {row["block"]: row["iterations"] for row in self.to_dict()["loops"]}

    @property
    def cfg(self) -> Cfg:
        """The kernel's control-flow graph."""
        return Cfg(self.analysis.flow)

    def to_dict(self) -> dict[str, Any]:
        """The kernel's row of the JSON report."""
        found: dict[str, Any] = asdict(build_report(self._alone()).kernels[0])
        return found

    def text(self) -> str:
        """The report for people."""
        return render_text(build_report(self._alone())).text

    def _alone(self) -> Answer[KernelAnalysis]:
        answer = self.answer
        return Answer(answer.path, answer.sha256, answer.machine, (self.analysis,))

    def __repr__(self) -> str:
        cycles = f"{self.cycles:,} cycles"
        if self.launch_cycles is not None:
            cycles += f" a block, {self.launch_cycles:,} the launch"
        return f"<Bound {self.kernel}: {cycles}, {self.guarantee}, on {self.machine.name}>"

    def _repr_html_(self) -> str:
        block = "x".join(map(str, self.analysis.launch.block))
        launch = {}
        if self.launch_cycles is not None and self.launch_microseconds is not None:
            shown = f"{self.launch_cycles:,} cycles ({self.launch_microseconds:,.3f} µs)"
            launch = {"launch": f"{shown}, {self.launch_guarantee}"}
        return _table(
            self.kernel,
            {
                "bound": f"{self.cycles:,} cycles ({self.microseconds:,.3f} µs)",
                **launch,
                "guarantee": self.guarantee,
                "block": block,
                "machine": self.machine.name,
                "rests on": ", ".join(self.assumptions) or "nothing",
            },
        )


@dataclass(frozen=True, slots=True, repr=False)
class Refused:
    """A kernel without an answer, and why."""

    kernel: str
    diagnostics: tuple[Diagnostic, ...]

    def __repr__(self) -> str:
        codes = ", ".join(dict.fromkeys(one.code for one in self.diagnostics))
        return f"<Refused {self.kernel}: {codes}>"

    def __str__(self) -> str:
        return render_all(self.diagnostics)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


@dataclass(frozen=True, slots=True, repr=False)
class Analysis(Mapping[str, "Bound | Refused"]):
    """The answer for each kernel of a source, by its name in the PTX."""

    answer: Answer[KernelAnalysis]

    def __getitem__(self, kernel: str) -> Bound | Refused:
        meant = names_meant(kernel, self)
        if len(meant) != 1:
            raise KeyError(kernel)
        rows = (row for row in self.answer.kernels if row.kernel.name in meant)
        return _result(next(rows), self.answer)

    def __iter__(self) -> Iterator[str]:
        return (row.kernel.name for row in self.answer.kernels)

    def __len__(self) -> int:
        return len(self.answer.kernels)

    def to_dict(self) -> dict[str, Any]:
        """The JSON report (``ptxwcet FILE --format json``)."""
        return asdict(build_report(self.answer))

    def __repr__(self) -> str:
        return f"<Analysis: {', '.join(map(repr, self.values()))}>"

    def _repr_html_(self) -> str:
        rows = {
            row.kernel.readable: "refused"
            if isinstance(row, RefusedKernel)
            else f"{row.worst.bound.cycles:,} cycles"
            for row in self.answer.kernels
        }
        return _table(self.answer.path, rows)


@dataclass(frozen=True, slots=True, repr=False)
class Simulated:
    """One run of a block on the simulated machine: an observation, no bound."""

    simulation: KernelSimulation

    @property
    def kernel(self) -> str:
        """The kernel's name as its source has it."""
        return self.simulation.prepared.kernel.readable

    @property
    def cycles(self) -> int:
        """How long the run takes."""
        return self.simulation.run.cycles

    def __repr__(self) -> str:
        policy = self.simulation.run.policy.value
        return f"<Simulated {self.kernel}: {self.cycles:,} cycles under {policy}>"


def _result(row: KernelAnalysis | RefusedKernel, answer: Answer[KernelAnalysis]) -> Bound | Refused:
    if isinstance(row, RefusedKernel):
        return Refused(row.kernel.readable, row.diagnostics)
    return Bound(row, answer)


def _table(title: str, rows: Mapping[str, str]) -> str:
    lines = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(value)}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table><caption>{escape(title)}</caption>{lines}</table>"
