"""The protocol of the multi-phase paper: bounds against simulated runs of the same blocks.

Table 4 has two SGEMM versions with 4 to 32 warps, Table 3 all bounded samples under LRR and GTO,
both at memory latencies from 5 to 400 cycles.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from experiments.ecrts2025_paper import LATENCIES, VERSIONS, WARPS
from experiments.ecrts2025_report import write_report
from experiments.experiment import Results, Task
from experiments.kernel_files import kernel_folder
from experiments.protocol import METHODS, POLICIES, READINGS, Comparison, Reading
from experiments.sample_launches import MACHINE, SampleLaunch, sample_launches
from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.request import Request
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import Policy
from ptxwcet.warp.program import BlockWorkload, WarpClass

_QUICK_LATENCIES = (400, 200, 5)
_QUICK_SAMPLES = 4
"""How many samples, the first ones, a reduced protocol has."""


def run(task: Task) -> Results:
    """Makes both tables. Cost: a minute of processor time; five seconds if reduced."""
    latencies = _QUICK_LATENCIES if task.is_quick else LATENCIES
    warps = (32, 4) if task.is_quick else WARPS
    launches = sample_launches()[: _QUICK_SAMPLES if task.is_quick else None]
    cells = list(itertools.product(READINGS, VERSIONS, warps, latencies))
    calls = list(itertools.product(launches, latencies))
    total = len(cells) + len(calls)
    table_4: list[Comparison] = []
    for done, cell in enumerate(cells):
        task.progress("Table 4", done / total)
        table_4 += _compare_sgemm(*cell)
    table_3: list[Comparison] = []
    for done, (launch, latency) in enumerate(calls, len(cells)):
        task.progress(f"Table 3, {launch.name}", done / total)
        table_3 += _compare_sample(launch, latency)
    results = Results(
        f"memory latencies {', '.join(map(str, latencies))}; {', '.join(map(str, warps))} warps; "
        f"{len(launches)} launches of samples"
    )
    results.inputs |= {kernel_folder("sgemm") / "sgemm_warps.ptx"}
    results.inputs |= {launch.path for launch in launches}
    write_report(results, table_4, table_3)
    return results


def _compare_sgemm(
    reading: Reading, version: str, warps: int, latency: int
) -> Iterator[Comparison]:
    """A cell of Table 4, as a reading of the paper has it."""
    request = Request(
        str(reading.path(version)),
        kernels=(reading.kernel(version, warps),),
        block=f"32x{warps}",
        parameters=(reading.parameter(warps),),
        machine=MACHINE,
        memory_latency_cycles=latency,
    )
    yield from compare_all(bound_file(request).answered, latency, version, reading)


def _compare_sample(launch: SampleLaunch, latency: int) -> Iterator[Comparison]:
    yield from compare_all(bound_file(launch.request(latency)).answered, latency)


def compare_all(
    answered: Iterable[KernelAnalysis],
    latency: int,
    version: str | None = None,
    reading: Reading | None = None,
) -> Iterator[Comparison]:
    """Each kernel that has all the bounds, against its runs and those of one of its warps.

    A kernel whose warps have several possible paths has neither GUB nor a lower bound, and is left
    out.
    """
    for kernel in answered:
        piece = kernel.worst
        outcomes = ((name, piece.outcomes[name]) for name in METHODS)
        bounds = {name: out.cycles for name, out in outcomes if isinstance(out, BlockBound)}
        if len(bounds) < len(METHODS):
            continue
        workload, shape = piece.analysis.workload, SmConfiguration.of(kernel.machine)
        simulator = Simulator(workload, shape)
        alone = BlockWorkload((WarpClass(workload.classes[0].program, (0,)),), workload.scoreboard)
        yield Comparison(
            version or kernel.kernel.name,
            "x".join(map(str, kernel.launch.block)),
            kernel.launch.warps,
            latency,
            bounds,
            {policy.value: simulator.cycles(policy) for policy in POLICIES},
            piece.analysis.uncut[0].profile.isolated_cycles,
            Simulator(alone, shape).cycles(Policy.LRR),
            reading,
        )
