"""The content of a kernel's page as plain data: gathered and named, without computing bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.explanation import BoundExplanation
from ptxwcet.commands.bound.build import build_report
from ptxwcet.commands.bound.report import (
    WITHOUT_WAITING,
    BoundedKernel,
    PaidSectionRow,
    paid_parts,
)
from ptxwcet.commands.cfg.study import DescribedKernel
from ptxwcet.commands.memory.study import StudiedAccesses
from ptxwcet.commands.page.graph import GraphData, PathFacts, build_graph
from ptxwcet.commands.page.study import Curve, KernelStudy, Reasons
from ptxwcet.commands.simulate.study import KernelSimulation
from ptxwcet.flow.graph.divergence import StandingEdges
from ptxwcet.machine.ledger import made_true
from ptxwcet.opened.opening import Answer, RefusedKernel
from ptxwcet.report.access_rows import AccessRow, access_rows
from ptxwcet.report.head import MachineHead, Refused, as_people_know, internal_errors
from ptxwcet.report.listing import Listing, build_listing
from ptxwcet.report.page.parts import Made
from ptxwcet.report.source_lines import SourceLines
from ptxwcet.support.diagnostics import Diagnostic, render_all
from ptxwcet.support.records import dataclass
from ptxwcet.timing.phases import Phase, PhaseKind, PhaseRepeat

PARTS = tuple(paid_parts(()))
"""The parts of the cycles of a section, in the page's words."""
_MOST_BARS = 16
_MOST_PHASES = 120


@dataclass(frozen=True, slots=True)
class Bar:
    """A stacked bar: cycles by part, of ``times`` executions together."""

    label: str
    times: int
    cycles: tuple[int, ...]

    @property
    def total(self) -> int:
        """The cycles of all parts together."""
        return sum(self.cycles)


@dataclass(frozen=True, slots=True)
class PhaseBar:
    """A phase of an isolated warp; ``is_busy``: it initiates instructions."""

    start: int
    duration: int
    is_busy: bool


@dataclass(frozen=True, slots=True)
class WarpPhases:
    """The first phases of the warp with the longest isolated run, in cycles.

    ``without`` names what its length leaves out, if anything.
    """

    warp: int
    isolated: int
    without: str
    execution: int
    phases: tuple[PhaseBar, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class KernelPage:
    """A kernel on the page.

    ``bounded`` is its row of the report, None without a bound, for the reasons in ``problems``.
    ``is_code``: it is machine code. A missing part is replaced by a text with the reason.
    """

    anchor: str
    name: str
    readable: str
    bounded: BoundedKernel | None
    problems: str
    bars: tuple[Bar, ...]
    launch_bar: Bar | None
    is_code: bool
    listing: Listing
    graph: GraphData | str
    accesses: tuple[AccessRow, ...] | str
    charges_accesses: bool
    phases: WarpPhases | str
    run: KernelSimulation | str
    over_warps: Curve
    over_latency: Curve


@dataclass(frozen=True, slots=True)
class Page:
    """The page about a file: ``head`` of the report, its kernels, and its origin.

    ``by_definition`` are assumptions that the machine makes true: key, text, evidence. ``failures``
    are internal errors, each of which removes a kernel's row.
    """

    head: MachineHead
    kernels: tuple[KernelPage, ...]
    by_definition: tuple[tuple[str, str, str], ...]
    made: Made
    failures: tuple[Diagnostic, ...]


def build_page(answer: Answer[KernelStudy], source: str | None, made: Made) -> Page:
    """Returns the data of the page.

    ``source`` is the path of the CUDA source unless it is in the folder of the PTX file.
    """
    bounded = tuple(
        RefusedKernel(study.kernel, study.analysis)
        if isinstance(study.analysis, tuple)
        else study.analysis
        for study in answer.answered
    )
    analyses = Answer(answer.path, answer.sha256, answer.machine, bounded)
    report = build_report(analyses, explain=True, source=source)
    lines = SourceLines(answer.path, source)
    is_code = any(study.kernel.code is not None for study in answer.answered)
    held = [(one.key, one.text, one.source) for one in made_true(answer.machine, is_code=is_code)]
    kernels = tuple(
        _kernel(f"k{number}", study, as_people_know(kernel), lines)
        for number, (study, kernel) in enumerate(zip(answer.answered, report.kernels, strict=True))
    )
    failures = internal_errors(analyses, report.kernels)
    return Page(report, kernels, tuple(held), made, tuple(failures))


def _kernel(
    anchor: str, study: KernelStudy, reported: BoundedKernel | Refused, lines: SourceLines
) -> KernelPage:
    paid = {}
    if isinstance(study.explained, BoundExplanation):
        paid = {index: pay.total for index, pay in study.explained.paid.items()}
    bounded = reported if isinstance(reported, BoundedKernel) else None
    launch = None if bounded is None else bounded.launch
    problems = render_all(study.analysis) if isinstance(study.analysis, tuple) else ""
    if bounded is None and not problems:
        assert isinstance(reported, Refused)
        problems = "\n".join(f"error[{pay.code}]: {pay.message}" for pay in reported.diagnostics)
    return KernelPage(
        anchor,
        study.kernel.name,
        study.kernel.readable,
        bounded,
        problems,
        () if bounded is None or bounded.explanation is None else _bars(bounded),
        None if launch is None else Bar("launch", 1, tuple(launch.parts.values())),
        study.kernel.code is not None,
        build_listing(study.kernel, paid, lines),
        _graph(study, paid),
        _accesses(study, lines),
        isinstance(study.analysis, KernelAnalysis) and study.analysis.machine.memory is not None,
        _phases(study),
        study.beginning if isinstance(study.beginning, KernelSimulation) else _why(study.beginning),
        study.over_warps,
        study.over_latency,
    )


def _why(reasons: Reasons) -> str:
    """Returns why something is not there, in a line."""
    return "; ".join(f"[{reason.code}] {reason.message}" for reason in reasons) or "not asked for"


def _bars(bounded: BoundedKernel) -> tuple[Bar, ...]:
    """Returns the sections of the bound; if there are many, merged by the barrier at their end."""
    assert bounded.explanation is not None
    bars = [_bar(section) for section in bounded.explanation.sections]
    if len(bars) <= _MOST_BARS:
        return tuple(bars)
    by_end: dict[str, list[Bar]] = {}
    for bar in bars:
        by_end.setdefault(bar.label, []).append(bar)
    merged = [_merged(label, same) for label, same in by_end.items()]
    rest = merged[_MOST_BARS:]
    return (*merged[:_MOST_BARS], *([_merged("others", rest)] if rest else []))


def _merged(label: str, bars: Sequence[Bar]) -> Bar:
    columns = zip(*(bar.cycles for bar in bars), strict=True)
    return Bar(label, sum(bar.times for bar in bars), tuple(map(sum, columns)))


def _bar(section: PaidSectionRow) -> Bar:
    times, parts = section.multiplicity, paid_parts(section.lines)
    return Bar(section.ends_at, times, tuple(times * cycles for cycles in parts.values()))


def _graph(study: KernelStudy, paid: Mapping[int, int]) -> GraphData | str:
    flow = study.flow
    if not isinstance(flow, DescribedKernel):
        return _why(flow)
    executions: dict[int, int] = {}
    if isinstance(study.explained, BoundExplanation):
        by_class = study.explained.executions().values()
        executions = {
            block.id: max(
                (one[index] for one in by_class for index in range(block.start, block.end)),
                default=0,
            )
            for block in flow.cfg.blocks
        }
    divergent = study.divergent if isinstance(study.divergent, StandingEdges) else None
    cycles: dict[int, int] = {
        block.id: sum(paid.get(index, 0) for index in range(block.start, block.end))
        for block in flow.cfg.blocks
    }
    facts = PathFacts(cycles, executions, study.worst_edges)
    return build_graph(flow, divergent, facts)


def _accesses(study: KernelStudy, lines: SourceLines) -> tuple[AccessRow, ...] | str:
    one = study.accesses
    if not isinstance(one, StudiedAccesses):
        return _why(one)
    return access_rows(one.kernel, one.accesses, lines, one.paid, one.bound_cycles)


def _phases(study: KernelStudy) -> WarpPhases | str:
    if not isinstance(study.analysis, KernelAnalysis):
        return "there is no bound"
    worst = study.analysis.worst
    pairs = zip(worst.paths.warps, worst.analysis.uncut, strict=True)
    path, alone = max(pairs, key=lambda pair: pair[1].length_cycles)
    profile = alone.profile
    if profile.phases is None or profile.execution_cycles is None:
        return "the warp has no single known path"
    phases = tuple(islice(_flat(profile.phases, 0), _MOST_PHASES + 1))
    return WarpPhases(
        path.warps[0],
        alone.length_cycles,
        WITHOUT_WAITING if alone.waits_behind_units else "",
        profile.execution_cycles,
        phases[:_MOST_PHASES],
        len(phases) <= _MOST_PHASES,
    )


def _flat(items: Sequence[Phase | PhaseRepeat], offset: int) -> Iterator[PhaseBar]:
    """Yields the phases one after the other, each as often as it is repeated."""
    for item in items:
        if isinstance(item, Phase):
            yield PhaseBar(item.start + offset, item.duration, item.kind is PhaseKind.EXECUTION)
            continue
        for time in range(item.count):
            yield from _flat(item.phases, offset + time * item.period_cycles)


def plain_name(page: Page) -> str:
    """Returns the title of the page: the first of its kernels."""
    names = [kernel.readable for kernel in page.kernels]
    return f"{', '.join(names[:3])}{' and more' * (len(names) > 3)}: bound"
