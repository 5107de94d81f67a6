"""The results of the library's functions: numbers with their claims, for scripts and notebooks."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.occupancy import Residency
from ptxwcet.bounds.roofline import Roofline
from ptxwcet.claims import TimingClaim
from ptxwcet.commands.bound.build import build_report
from ptxwcet.commands.bound.text import Extent, render_text
from ptxwcet.commands.cfg.study import draw_kernel
from ptxwcet.commands.run.study import RunAnswer
from ptxwcet.commands.run.text import array_beginning, run_lines
from ptxwcet.commands.simulate.report import build_run_report
from ptxwcet.commands.simulate.study import KernelSimulation, SimulationAnswer
from ptxwcet.commands.simulate.text import render_run_text
from ptxwcet.flow.graph.cfg import ControlFlowGraph
from ptxwcet.flow.graph.control_flow import ControlFlow, OnFlow
from ptxwcet.flow.graph.divergence import DivergentSet
from ptxwcet.flow.paths.dot import NO_NOTES, Notes
from ptxwcet.library.hints import said_in_python
from ptxwcet.library.tables import facts_table, preformatted, table
from ptxwcet.machine.model import Machine
from ptxwcet.opened.opening import Answer, RefusedKernel
from ptxwcet.support.demangling import names_meant
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, render_all
from ptxwcet.support.graph import labelled_graph
from ptxwcet.support.records import dataclass
from ptxwcet.support.rounding import microseconds_of

if TYPE_CHECKING:
    import networkx

    from ptxwcet.support.array_files import Array


_Data = TypeVar("_Data")


class Compared:
    """A result of the library: two are equal if they are of one kind and have the same content."""

    __slots__ = ()

    def _content(self) -> object:
        """Returns what two equal results share, as plain data."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Compared) or type(other) is not type(self):
            return NotImplemented
        return other is self or self._content() == other._content()

    def __hash__(self) -> int:
        return hash(repr(self))


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Shown(Compared, Generic[_Data]):
    """The report of a command: ``report`` is its data, as in the command's JSON.

    ``print`` writes its text; notebooks show tables. It has all attributes of the report.
    ``diagnostics`` are the reasons why kernels are refused.
    """

    report: _Data
    title: str
    render: Callable[[_Data], str]
    tables: Callable[[_Data], Iterable[str]]
    diagnostics: tuple[Diagnostic, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as the JSON of the command (``--format json``) has it."""
        if isinstance(self.report, Mapping):
            return {key: asdict(one) for key, one in self.report.items()}
        found: dict[str, Any] = asdict(self.report)  # type: ignore[call-overload]
        return found

    def text(self) -> str:
        """Returns the report for people, and the refusals."""
        refused = render_all(self.diagnostics)
        return self.render(self.report) + (f"{refused}\n" if refused else "")

    def __str__(self) -> str:
        return self.text()

    def _content(self) -> object:
        return self.report, self.title, self.diagnostics

    def __repr__(self) -> str:
        codes = ", ".join(dict.fromkeys(diagnostic.code for diagnostic in self.diagnostics))
        return f"<{self.title}{f'; refused: {codes}' if codes else ''}>"

    def _repr_html_(self) -> str:
        refused = preformatted(render_all(self.diagnostics)) if self.diagnostics else ""
        return "".join(self.tables(self.report)) + refused

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of protocols, and while an object is copied
            raise AttributeError(name)
        return getattr(self.report, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self.report)})


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Cfg(Compared, OnFlow):
    """The control-flow graph of a kernel, calls inlined; blocks are identified by their labels.

    Notebooks show a picture if Graphviz is installed, else a table. ``notes`` are the results of a
    launch on branches and loops.
    """

    flow: ControlFlow
    machine: Machine
    notes: Notes = NO_NOTES

    @property
    def graph(self) -> ControlFlowGraph:
        """Blocks and edges."""
        return self.flow.cfg

    def to_networkx(self) -> networkx.DiGraph:
        """Returns the graph with a node for each block and its number of ``instructions``, ``line``
        of the PTX and enclosing ``loops``; an edge has the attribute ``taken``. Cost: linear.
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

    def dot(self, divergent: str = DivergentSet.COMPLETE.value) -> str:
        """Returns the graph in Graphviz' language, as ``ptxwcet cfg --divergent`` draws it."""
        return draw_kernel(self.kernel, self.notes, DivergentSet(divergent), self.machine).text

    def _repr_html_(self) -> str | None:
        if shutil.which("dot") is not None:
            return None  # the picture is shown
        graph = self.to_networkx()
        blocks = [block for _, block in graph.nodes(data=True)]
        columns: dict[str, list[object]] = {
            "block": [*graph.nodes],
            "line": [str(block["line"] or "") for block in blocks],
            "instructions": [block["instructions"] for block in blocks],
            "loops around": [block["loops"] or None for block in blocks],
            "then": [", ".join(graph.successors(name)) for name in graph.nodes],
        }
        return table(repr(self).strip("<>"), columns.items())

    def _repr_svg_(self) -> str | None:
        if shutil.which("dot") is None:
            return None
        # imported here: only notebooks need it
        from ptxwcet.cli.graphviz import write_graph

        with tempfile.TemporaryDirectory() as folder:
            picture = Path(folder, "graph.svg")
            try:
                write_graph(self.dot(), picture, "")
            except PtxwcetError:
                return None  # of too large a graph: the text is shown
            return picture.read_text(encoding="utf-8")

    def _content(self) -> object:
        return self.dot(), self.machine

    def __repr__(self) -> str:
        blocks, loops = len(self.graph.blocks) - 1, len(self.forest.loops)
        return f"<Cfg {self.kernel.readable}: {blocks} blocks, {loops} loops>"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Bound(Compared):
    """The bound of a block of a kernel, with its assumptions.

    ``cycles`` are those of the machine; ``guarantee`` is ``safe-bound``, or ``estimate``.
    ``launch_cycles``, ``launch_guarantee`` and ``launch_assumptions`` are those of the whole
    launch, ``roofline`` is an estimate of it, ``residency`` the capacity of an SM.
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
        """The keys of its assumptions (``docs/assumptions.md``)."""
        return tuple(assumption.key for assumption in self.analysis.worst.bound.claim.assumptions)

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
        """The keys of the assumptions of the launch bound."""
        claim = self._launch_claim
        return () if claim is None else tuple(assumption.key for assumption in claim.assumptions)

    @property
    def roofline(self) -> Roofline | None:
        """The time of the launch's busiest resource: an estimate; None without a launch."""
        return self.analysis.roofline

    @property
    def residency(self) -> Residency | None:
        """The number of blocks on an SM, its limit, and occupancy in per cent, or None."""
        launched = self.analysis.launch_bound
        return launched.residency if isinstance(launched, LaunchBound) else None

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
        return Cfg(self.analysis.flow, self.machine)

    def to_dict(self) -> dict[str, Any]:
        """Returns the kernel's row of the JSON report."""
        return asdict(build_report(self.alone).kernels[0])

    def text(self, *, details: bool = False) -> str:
        """Returns the report for people; with ``details`` all that is known."""
        extent = Extent.DETAILS if details else Extent.SCREEN
        return render_text(build_report(self.alone), extent).text

    @property
    def alone(self) -> Answer[KernelAnalysis]:
        """The answer for this kernel, without others of its source."""
        answer = self.answer
        return Answer(answer.path, answer.sha256, answer.machine, (self.analysis,))

    def _content(self) -> object:
        return build_report(self.alone)

    def __repr__(self) -> str:
        cycles = f"{self.cycles:,} cycles"
        if self.launch_cycles is not None:
            cycles += f" a block, {self.launch_cycles:,} the launch"
        return f"<Bound {self.kernel}: {cycles}, {self.guarantee}, on {self.machine.name}>"

    def _repr_html_(self) -> str:
        launch, facts = self.analysis.launch, {}
        if self.launch_cycles is not None and self.launch_microseconds is not None:
            facts = {
                "bound of the launch": _time(self.launch_cycles, self.launch_microseconds),
                "its guarantee": self.launch_guarantee,
                "it rests on": ", ".join(self.launch_assumptions) or "nothing",
            }
        return facts_table(
            self.kernel,
            {
                "bound of a block": _time(self.cycles, self.microseconds),
                "guarantee": self.guarantee,
                "rests on": ", ".join(self.assumptions) or "nothing",
                **facts,
                "block": "x".join(map(str, launch.block)),
                "grid": "any" if launch.grid is None else "x".join(map(str, launch.grid)),
                "machine": self.machine.name,
            },
        )


@dataclass(frozen=True, slots=True, repr=False)
class Refused:
    """A kernel without an answer, and why."""

    kernel: str
    diagnostics: tuple[Diagnostic, ...]

    def __repr__(self) -> str:
        return f"<Refused {self.kernel}: {self.reason}>"

    @property
    def reason(self) -> str:
        """The codes of its diagnostics."""
        return ", ".join(dict.fromkeys(diagnostic.code for diagnostic in self.diagnostics))

    def __str__(self) -> str:
        return render_all(self.diagnostics)

    def _repr_html_(self) -> str:
        return preformatted(str(self))


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Analysis(Compared, Mapping[str, "Bound | Refused"]):
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
        """Returns the JSON report (``ptxwcet FILE --format json``)."""
        return asdict(build_report(self.answer))

    def _content(self) -> object:
        return build_report(self.answer)

    def __repr__(self) -> str:
        return f"<Analysis: {', '.join(map(repr, self.values()))}>"

    def _repr_html_(self) -> str:
        rows = [*self.values()]
        columns = {
            "kernel": "kernel",
            "cycles of a block": "cycles",
            "µs": "microseconds",
            "guarantee": "guarantee",
            "cycles of the launch": "launch_cycles",
            "its guarantee": "launch_guarantee",
            "refused": "reason",
        }
        cells = (
            (head, [getattr(row, name, None) for row in rows]) for head, name in columns.items()
        )
        reasons = (row._repr_html_() for row in rows if isinstance(row, Refused))
        return table(self.answer.path, cells) + "".join(reasons)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Simulated(Compared):
    """One run of a block on the simulated machine: an observation, no bound."""

    simulation: KernelSimulation
    answer: SimulationAnswer

    @property
    def kernel(self) -> str:
        """The kernel's name as its source has it."""
        return self.simulation.prepared.kernel.readable

    @property
    def cycles(self) -> int:
        """How long the run takes."""
        return self.simulation.run.cycles

    def to_dict(self) -> dict[str, Any]:
        """Returns the kernel's row of the JSON report (``ptxwcet simulate FILE --format json``)."""
        return asdict(build_run_report(self.answer).kernels[0])

    def text(self) -> str:
        """Returns the report for people."""
        return render_run_text(build_run_report(self.answer))

    def _content(self) -> object:
        return build_run_report(self.answer)

    def __repr__(self) -> str:
        policy = self.simulation.run.policy.value
        return f"<Simulated {self.kernel}: {self.cycles:,} cycles under {policy}>"

    def _repr_html_(self) -> str:
        row = self.to_dict()
        facts = {name: row[name] for name in ("cycles", "microseconds", "policy", "guarantee")}
        waited = {cause.replace("_", " "): cycles for cause, cycles in row["all_warps"].items()}
        return facts_table(self.kernel, facts) + facts_table("cycles of all warps", waited)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Executed(Compared):
    """A launch executed on data: ``outputs`` has the arrays afterwards, by name."""

    answer: RunAnswer

    @property
    def kernel(self) -> str:
        """The kernel's name as its source has it."""
        return self.answer.launch.kernel.readable

    @property
    def outputs(self) -> Mapping[str, Array]:
        """Every array after the run; none if it was stopped."""
        return self.answer.outputs

    @property
    def is_complete(self) -> bool:
        """True if all blocks ran to their end."""
        return self.answer.is_complete

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The findings of the run, and results that differ from the expected ones."""
        return said_in_python(self.answer.diagnostics)

    def text(self) -> str:
        """Returns the report for people, and the findings."""
        return "\n".join((*run_lines(self.answer), *map(Diagnostic.render, self.diagnostics)))

    def _content(self) -> object:
        arrays = {name: (str(one.dtype), one.tobytes()) for name, one in self.outputs.items()}
        return self.kernel, self.is_complete, self.diagnostics, arrays

    def __repr__(self) -> str:
        state = "ran to the end" if self.is_complete else "was stopped"
        return f"<Executed {self.kernel}: {state}, {len(self.diagnostics)} findings>"

    def _repr_html_(self) -> str:
        columns = {
            "array": [*self.outputs],
            "type": [str(array.dtype) for array in self.outputs.values()],
            "values": [array_beginning(array) for array in self.outputs.values()],
        }
        arrays = table(repr(self).strip("<>"), columns.items())
        found = render_all(self.diagnostics)
        return arrays + (preformatted(found) if found else "")


@dataclass(frozen=True, slots=True, repr=False)
class Page:
    """A page about bounds: one file of HTML, which loads nothing; notebooks show it."""

    title: str
    html: str
    diagnostics: tuple[Diagnostic, ...]

    def __repr__(self) -> str:
        return f"<Page {self.title}: {len(self.html):,} characters>"

    def _repr_html_(self) -> str:
        style = "width:100%;height:40em;border:1px solid #ccc"
        return f'<iframe srcdoc="{escape(self.html)}" style="{style}"></iframe>'


def _result(row: KernelAnalysis | RefusedKernel, answer: Answer[KernelAnalysis]) -> Bound | Refused:
    if isinstance(row, RefusedKernel):
        return Refused(row.kernel.readable, said_in_python(row.diagnostics))
    return Bound(row, answer)


def _time(cycles: int, microseconds: float) -> str:
    return f"{cycles:,} cycles ({microseconds:,.3f} µs)"
