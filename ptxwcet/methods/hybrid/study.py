"""Hybrid analysis of a kernel, from a trace or a launch: the entry point of the library.

>>> from ptxwcet.opened.request import Request
>>> from ptxwcet.methods.hybrid.study import HybridRequest, study_trace
>>> from ptxwcet.commands.trace.study import TraceOptions
>>> request = Request("samples/saxpy.ptx", launch_file="samples/launches/saxpy.toml")
>>> study_trace(HybridRequest(request, None, TraceOptions("lrr"))).estimate.warp_wcet
1497
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.carve_out import require_no_sizes
from ptxwcet.bounds.occupancy import WaveSchedule
from ptxwcet.bounds.wishes import ANY_GRID, GridWishes
from ptxwcet.claims import TimingClaim
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.trace.study import TraceOptions, TraceProgress, plan_launch, trace_launch
from ptxwcet.flow.graph.cfg import ControlFlowGraph, build_cfg
from ptxwcet.flow.graph.dominance import compute_dominators
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.graph.loops import LoopForest, LoopId, find_loops
from ptxwcet.flow.walk.path import largest_bounds, visited_blocks
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.methods.hybrid.concurrency import (
    BlockDelays,
    WaveParameters,
    hybrid_estimate,
    rounds_estimate,
)
from ptxwcet.methods.hybrid.estimate import (
    BlockPlaces,
    Contradiction,
    HybridEstimate,
    against_runs,
    claim_estimates,
    claim_of,
    estimate_kernel,
)
from ptxwcet.methods.hybrid.observations import TransitionTimes
from ptxwcet.opened.opening import digest_of, read_module
from ptxwcet.opened.request import Request
from ptxwcet.support.demangling import names_meant
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.trace.events import TimedTrace
from ptxwcet.trace.files import read_trace

EXCEEDANCES = (1e-3, 1e-6, 1e-9)
"""The default probabilities of the quantiles."""


@dataclass(frozen=True, slots=True)
class HybridRequest:
    """The input of the analysis: a trace in a file, or the launch file of ``request``, traced here.

    ``request`` also holds the launch facts for the static bound. ``tracing`` has the options of the
    trace. With a launch file and a trace in a file, waves are planned for the GPU in ``grid``.
    ``exceedances`` are probabilities with which a warp's time may exceed the quantiles.
    """

    request: Request
    trace: str | None = None
    tracing: TraceOptions | None = None
    exceedances: tuple[float, ...] = EXCEEDANCES
    grid: GridWishes = ANY_GRID


@dataclass(frozen=True, slots=True)
class StaticBound:
    """The safe bound of one block on a machine, or the reason why there is none.

    With a bound: ``iterations`` are the most iterations of loops of one entry, and ``blocks`` all
    blocks that a warp can execute; both are empty without.
    """

    machine: str
    claim: TimingClaim | None
    iterations: Mapping[LoopId, int]
    blocks: frozenset[int]
    refusal: Diagnostic | None


@dataclass(frozen=True, slots=True)
class PlannedWaves:
    """The consequences of launch and occupancy for the whole grid.

    ``waves``: equation 2 with waves of the launch, with the start gap of first waves. ``rounds``:
    that many rounds of blocks with ``delays`` as observed; None if those are unknown, or of another
    GPU. A figure that a traced run exceeds is a
    :class:`~ptxwcet.methods.hybrid.estimate.Contradiction`.
    """

    schedule: WaveSchedule
    start_gap: int
    delays: BlockDelays | None
    waves: TimingClaim | Contradiction
    rounds: TimingClaim | Contradiction | None

    @property
    def cycles(self) -> int:
        """The time of all waves by equation 2."""
        return self.waves.cycles


@dataclass(frozen=True, slots=True)
class TimeQuantile:
    """The time of a warp on the worst path that is exceeded with at most ``exceedance``."""

    exceedance: float
    claim: TimingClaim

    @property
    def cycles(self) -> int:
        """The time itself, which a warp exceeds with at most that probability."""
        return self.claim.cycles


@dataclass(frozen=True, slots=True)
class HybridAnswer:
    """The analysis of one kernel. ``trace_file`` is empty for a trace made here."""

    path: str
    sha256: str
    trace_file: str
    trace: TimedTrace
    kernel: Kernel
    cfg: ControlFlowGraph
    forest: LoopForest
    estimate: HybridEstimate
    claims: Mapping[str, TimingClaim | Contradiction]
    quantiles: tuple[TimeQuantile, ...]
    static: StaticBound
    planned: PlannedWaves | None


def study_trace(hybrid: HybridRequest, progress: TraceProgress | None = None) -> HybridAnswer:
    """Estimates a kernel's WCET from timed traces, next to its static bound.

    ``progress`` is called while a launch is traced here. Raises PtxwcetError: problems of trace,
    kernel and launch; PW614 (neither trace nor launch); PW615 (an exceedance out of range). Cost:
    linear in the events, then that of the static bound.
    """
    _check_exceedances(hybrid.exceedances)
    module = read_module(hybrid.request)
    trace, schedule = _trace_and_waves(hybrid, progress)
    path = hybrid.trace or ""
    sha256 = digest_of(hybrid.request)
    kernel = inline_calls(_traced_kernel(module, trace, hybrid), module)
    cfg = build_cfg(kernel)
    forest = find_loops(cfg, compute_dominators(cfg))
    places = None
    if schedule is not None:
        places = BlockPlaces(schedule.warps_per_block, schedule.sms * schedule.resident_blocks)
    estimate = estimate_kernel(kernel, cfg, forest, trace, path, sha256, places)
    return HybridAnswer(
        hybrid.request.path,
        sha256,
        path,
        trace,
        kernel,
        cfg,
        forest,
        estimate,
        claim_estimates(estimate),
        _quantiles(estimate, hybrid.exceedances),
        _bound_statically(hybrid.request, kernel),
        None if schedule is None else plan_waves(estimate, schedule),
    )


def _trace_and_waves(
    hybrid: HybridRequest, progress: TraceProgress | None
) -> tuple[TimedTrace, WaveSchedule | None]:
    # Facts concern the static bound: executed code is determined by the launch file only.
    executed = replace(hybrid.request, loop_bounds=(), facts_file=None)
    if hybrid.trace is not None:
        trace = read_trace(hybrid.trace)
        if executed.launch_file is None:
            return trace, None
        return trace, plan_launch(executed, hybrid.grid)
    if executed.launch_file is None or hybrid.tracing is None:
        message = "no trace, and no launch to trace"
        raise PtxwcetError.of("PW614", message, help="give --trace, or --launch")
    traced = trace_launch(executed, hybrid.tracing, progress)
    return traced.trace, traced.plan.waves


def _check_exceedances(exceedances: tuple[float, ...]) -> None:
    for exceedance in exceedances:
        if not LEAST_EXCEEDANCE <= exceedance < 1:
            raise PtxwcetError.of(
                "PW615",
                f"an exceedance of {exceedance:g} is out of range",
                help=f"give a probability from {LEAST_EXCEEDANCE:g} to below 1",
            )


def _traced_kernel(module: Module, trace: TimedTrace, hybrid: HybridRequest) -> Kernel:
    name = trace.origin.kernel
    wanted = hybrid.request.kernels
    kernels = {kernel.name: kernel for kernel in module.kernels if kernel.has_body}
    if name in kernels and (not wanted or any(names_meant(text, (name,)) for text in wanted)):
        return kernels[name]
    asked_for = ", ".join(wanted or (kernel.readable for kernel in kernels.values())) or "none"
    raise PtxwcetError.of(
        "PW607",
        f"the trace '{hybrid.trace}' is of kernel {trace.origin.readable}, not of a kernel "
        "asked for",
        notes=(f"asked for in {hybrid.request.path}: {asked_for}",),
        help="give the PTX file that was traced, or record the trace again",
    )


def _quantiles(
    estimate: HybridEstimate, exceedances: tuple[float, ...]
) -> tuple[TimeQuantile, ...]:
    if not exceedances:
        return ()
    whole = path_distribution(estimate.observations.transitions, estimate.path.counts)
    levels = sorted(exceedances, reverse=True)
    times = (min(whole.quantile(level), estimate.warp_wcet) for level in levels)
    claims = (claim_of(estimate, "profile", cycles) for cycles in times)
    return tuple(map(TimeQuantile, levels, claims))


def plan_waves(estimate: HybridEstimate, schedule: WaveSchedule) -> PlannedWaves:
    """Plans waves of a launch that do not depend on the trace, as [B] VI-D leaves open.

    The start gap is that of warps that began before any other had ended: later ones wait for warps
    of an older wave.
    """
    gap = estimate.concurrency.first_gap
    waves = WaveParameters(schedule.waves, schedule.warps_per_wave, gap)
    warp, delays = estimate.warp_wcet, estimate.delays
    planned = claim_of(estimate, "planned", hybrid_estimate(warp, waves))
    if delays is None or delays.places != schedule.sms * schedule.resident_blocks:
        return PlannedWaves(schedule, gap, None, planned, None)  # for another GPU than the traced
    cycles = rounds_estimate(warp, schedule.waves, delays)
    rounds = claim_of(estimate, "rounds", cycles)
    checked = (against_runs(estimate, claim) for claim in (planned, rounds))
    return PlannedWaves(schedule, gap, delays, *checked)


def _bound_statically(request: Request, kernel: Kernel) -> StaticBound:
    """Returns the safe bound of a block with the launch facts. Raises PtxwcetError (PW326)."""
    answer = bound_file(replace(request, kernels=(kernel.name,)))
    bounded = answer.kernels[0]
    name = answer.machine.name
    if not isinstance(bounded, KernelAnalysis):
        return StaticBound(name, None, {}, frozenset(), bounded.diagnostics[0])
    require_no_sizes(bounded.launch, bounded.kernel.span)
    paths = [warp.nodes for piece in bounded.pieces for warp in piece.paths.warps]
    blocks = frozenset(block for nodes in paths for block in visited_blocks(nodes))
    most = largest_bounds(paths)
    iterations = {LoopId(loop): entry.iterations.base for loop, entry in most.items()}
    return StaticBound(name, bounded.worst.bound.claim, iterations, blocks, None)


# The distribution of each transition's times is the observed one; the time of a path is the
# convolution of the times of its transitions; a transition that is taken n times is convolved n
# times with itself by repeated squaring. [B] VI-D leaves this for later; the idea is that of
# execution-time profiles (Bernat, Colin and Petters, RTSS 2002).


MOST_CELLS = 1 << 15
"""The most cells of a distribution; a longer one is coarsened, its times rounded up."""
_DIRECT_CELLS = 1 << 9
LEAST_EXCEEDANCE = 1e-9
"""The least exceedance: below it, the rounding of long convolutions would be visible."""


@dataclass(frozen=True, slots=True)
class TimeDistribution:
    """The probabilities ``cells[i]`` of times ``least + i * step``; ``step`` is a power of two."""

    least: int
    step: int
    cells: npt.NDArray[np.float64]

    def quantile(self, exceedance: float) -> int:
        """Returns the least time of the grid that is exceeded with at most this probability."""
        beyond = np.cumsum(self.cells[::-1])[::-1]
        above = np.append(beyond[1:], 0.0)
        fits = np.flatnonzero(above <= exceedance * (1 + 1e-9))
        return self.least + int(fits[0]) * self.step


def of_times(observed: TransitionTimes) -> TimeDistribution:
    """Returns the distribution of a transition's times, weighted by their counts."""
    least, most = int(observed.values[0]), int(observed.values[-1])
    step = 1 << ((most - least) // MOST_CELLS).bit_length()
    places = -(-(observed.values - least) // step)  # rounded up
    cells = np.zeros(int(places[-1]) + 1)
    np.add.at(cells, places, observed.counts / observed.count)
    return TimeDistribution(least, step, cells)


def add_times(term: TimeDistribution, other: TimeDistribution) -> TimeDistribution:
    """Returns the sum of two independent times, on the coarser grid of both."""
    step = max(term.step, other.step)
    first, second = coarsened(term, step), coarsened(other, step)
    cells = _convolved(first.cells, second.cells)
    whole = TimeDistribution(first.least + second.least, step, cells)
    if len(cells) <= MOST_CELLS:
        return whole
    return coarsened(whole, 2 * step)


def _convolved(
    first: npt.NDArray[np.float64], other: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    if min(len(first), len(other)) <= _DIRECT_CELLS:
        return np.convolve(first, other)
    size = len(first) + len(other) - 1
    padded = 1 << (size - 1).bit_length()
    product = np.fft.rfft(first, padded) * np.fft.rfft(other, padded)
    return np.maximum(np.fft.irfft(product, padded)[:size], 0.0)


def coarsened(times: TimeDistribution, step: int) -> TimeDistribution:
    """Returns the distribution on a grid with a larger step; times are rounded up."""
    if step == times.step:
        return times
    factor = step // times.step
    places = -(-np.arange(len(times.cells)) // factor)
    cells: npt.NDArray[np.float64] = np.bincount(places, weights=times.cells).astype(np.float64)
    return TimeDistribution(times.least, step, cells)


def repeated(distribution: TimeDistribution, times: int) -> TimeDistribution:
    """Returns the sum of ``times`` independent times of the same distribution, at least one."""
    total: TimeDistribution | None = None
    power = distribution
    while True:
        if times & 1:
            total = power if total is None else add_times(total, power)
        times >>= 1
        if not times:
            assert total is not None
            return total
        power = add_times(power, power)


def path_distribution(
    rows: Iterable[TransitionTimes], counts: Mapping[int, int]
) -> TimeDistribution:
    """Returns the distribution of a path with ``counts`` of each transition.

    Cost: for each transition a number of convolutions logarithmic in its count.
    """
    total = TimeDistribution(0, 1, np.ones(1))
    taken = ((t, counts.get(t.number, 0)) for t in rows)
    parts = [repeated(of_times(t), count) for t, count in taken if count]
    for part in sorted(parts, key=lambda d: d.step):
        total = add_times(total, part)
    return total
